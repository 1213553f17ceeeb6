"""Every script in examples/ runs, and its claim about the graph holds."""

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


def test_every_example_is_run():
    source = Path(__file__).read_text()
    assert [script.stem for script in EXAMPLES if f'"{script.stem}"' not in source] == []


@pytest.mark.parametrize("name", ["mixed_learners", "neural_nets"])
def test_the_graph_helps_every_learner(printed_by, name):
    rows = re.findall(r"^(\w.*?) +(\d\.\d+) +(\d\.\d+)$", printed_by(name), flags=re.MULTILINE)
    assert len(rows) >= 2
    for learner, without, with_graph in rows:
        assert float(with_graph) < float(without), learner


def test_neighbour_features_help_and_training_with_the_graph_helps_more(printed_by):
    plain, features, default = map(float, re.findall(r"sales (0\.\d+)", printed_by("house_prices")))
    assert plain + 0.04 < default and plain < features < default


def test_contiguity_helps_to_predict_polygons(printed_by):
    with_graph, without = map(float, re.findall(r"squares (0\.\d+)", printed_by("polygons")))
    assert with_graph < without


def test_neighbours_help_to_predict_counts(printed_by):
    with_graph, without = map(
        float, re.findall(r"counties (\d\.\d+)", printed_by("disease_mapping"))
    )
    assert with_graph < without


def test_error_on_a_new_graph_falls_with_the_number_of_labels(printed_by):
    errors = list(map(float, re.findall(r"RMSE (0\.\d+)", printed_by("new_town"))))
    assert len(errors) >= 5 and errors[-1] < errors[2] < errors[0]
