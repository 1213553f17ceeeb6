"""Every script in examples/ runs as a user would run it, and what it says of the graph holds."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_example_runs_and_the_graph_helps_every_learner(script, capsys):
    runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr().out
    rows = re.findall(r"^(\w.*?) +(\d\.\d+) +(\d\.\d+)$", printed, flags=re.MULTILINE)
    assert len(rows) >= 2
    for name, without, through in rows:
        assert float(through) < float(without), name


def test_there_are_examples():
    assert {script.stem for script in EXAMPLES} >= {"mixed_learners", "neural_nets"}
