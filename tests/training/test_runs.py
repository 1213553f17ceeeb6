"""The early stopping of a fit."""

from types import SimpleNamespace

import pytest

import ebboost as eb
from ebboost.training.runs import early_stopping


@pytest.mark.parametrize(
    ("n_labels", "n_iter_no_change", "loss", "expected"),
    [
        (10_000, None, eb.SquaredError(), 0.01),
        (1_000, None, eb.SquaredError(), 0.0),
        (10_000, 15, eb.SquaredError(), 0.0),
        (10_000, None, eb.Huber(1.0), 0.0),
    ],
)
def test_min_improvement_is_set_only_for_default_early_stopping(
    n_labels, n_iter_no_change, loss, expected
):
    problem = SimpleNamespace(
        settings=SimpleNamespace(n_iter_no_change=n_iter_no_change),
        classes=False,
        n_labels=n_labels,
        output=SimpleNamespace(loss=loss),
    )
    assert early_stopping(problem).min_improvement == expected
