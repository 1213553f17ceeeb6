"""The soak test serves, compares with a new predictor, and notices growth."""

import runpy
from pathlib import Path

import pytest

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "soak.py"))


def test_a_short_soak_ends_with_the_predictions_of_a_new_predictor(capsys):
    lines = TOOL["serve"](minutes=0.01, n_clients=3, n_nodes=300)
    assert lines and "difference from a new predictor" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("memory", "seconds", "steady"),
    [([300.0] * 6, [1.0, 1.2, 0.9, 1.1, 1.0, 1.3], True), (range(100, 700, 100), [1.0] * 6, False)],
)
def test_growth_is_noticed(memory, seconds, steady):
    assert TOOL["is_steady"](list(zip(memory, seconds, strict=True))) == steady
