"""Every script in examples/ runs as a user would run it, and what it says of the graph holds."""

import re
import runpy
from pathlib import Path

import matplotlib
import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.fixture
def printed_by(capsys):
    matplotlib.use("Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")

    def run(name):
        script = next(path for path in EXAMPLES if path.stem == name)
        runpy.run_path(str(script), run_name="__main__")
        pyplot.close("all")
        return capsys.readouterr().out

    return run


def test_every_example_is_run_by_one_of_these_tests():
    source = Path(__file__).read_text()
    assert [script.stem for script in EXAMPLES if f'"{script.stem}"' not in source] == []


@pytest.mark.parametrize("name", ["mixed_learners", "neural_nets"])
def test_the_graph_helps_every_learner(printed_by, name):
    rows = re.findall(r"^(\w.*?) +(\d\.\d+) +(\d\.\d+)$", printed_by(name), flags=re.MULTILINE)
    assert len(rows) >= 2
    for learner, without, through in rows:
        assert float(through) < float(without), learner


def test_columns_of_neighbours_help_and_the_graph_in_training_helps_more(printed_by):
    plain, columns, through = map(float, re.findall(r"sales (0\.\d+)", printed_by("house_prices")))
    assert plain < columns < through


def test_a_map_is_filled_better_through_its_contiguity(printed_by):
    through, without = map(float, re.findall(r"squares (0\.\d+)", printed_by("map_in_map_out")))
    assert through < without


def test_a_new_town_is_predicted_better_the_more_of_it_is_known(printed_by):
    errors = list(map(float, re.findall(r"RMSE (0\.\d+)", printed_by("new_town"))))
    assert len(errors) >= 5 and errors[-1] < errors[2] < errors[0]
