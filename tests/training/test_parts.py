"""Parts of the model that the search may add."""

import numpy as np
import pytest

import ebboost as eb
from ebboost.training.parts import parts_of
from tests.problems import skewed
from tests.training.problems import auto, problem_of


def offers(model, X, y, graph, **data):
    """Whether training with the Poisson loss is compared."""
    return "loss" in parts_of(problem_of(model, X, y, graph, **data)).optional


def test_another_loss_is_offered_for_skewed_labels_of_zero_and_more():
    X, y, graph = skewed(200)
    assert offers(auto(), X, y, graph)
    assert offers(auto(), X, np.where(y < 1.0, 0.0, y), graph)
    assert not offers(auto(), X, y - 1.01 * y.min(), graph)
    assert not offers(auto(), X, y + 10.0 * y.max(), graph)  # nearly linear over their range


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": "squared_error"},
        {"loss": "gamma"},
        {"labels": eb.LatentField(2.0, 0.1)},
        {"penalty": 0.1},
        {"smoothing": eb.Robust()},
    ],
    ids=repr,
)
def test_no_other_loss_is_offered_where_the_user_fixed_what_has_units_of_the_labels(changes):
    X, y, graph = skewed(200)
    assert not offers(auto(**changes), X, y, graph)
