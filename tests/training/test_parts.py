"""Parts of the model that the search may add."""

import numpy as np
import pytest
from scipy import sparse

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


def test_no_other_loss_is_offered_where_labels_of_eval_set_are_negative():
    X, y, graph = skewed(200)
    rest = np.arange(150, 200)
    known = np.where(np.arange(200) < 150, y, np.nan)
    assert offers(auto(), X, known, graph, eval_set=(rest, y[rest]))
    assert not offers(auto(), X, known, graph, eval_set=(rest, y[rest] - 2.0))


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


CONSTRAINTS = ({"monotone_constraints": {"x0": 1}}, {"interaction_constraints": [["x0", "x1"]]})
CONSTRAINED = [kind(params=one) for kind in (eb.LightGBM, eb.XGBoost) for one in CONSTRAINTS]


@pytest.mark.parametrize(
    "changes",
    [
        *({"learner": learner} for learner in CONSTRAINED),
        {"feature_smoothing": eb.Laplacian(2.0, 2)},
        {"neighbor_features": None},
    ],
    ids=repr,
)
def test_columns_of_a_wide_sparse_table_stay_where_a_parameter_is_about_them(changes):
    X, y, graph = skewed(200)
    wide = sparse.csr_array(np.tile(X, (1, 100)))

    def leaves_out(**changes):
        parts = parts_of(problem_of(auto(**changes), wide, y, graph))
        return "own_columns" in parts.optional

    assert leaves_out() and leaves_out(learner=eb.LightGBM(params={"max_depth": 3}))
    assert not leaves_out(**changes)


@pytest.mark.parametrize("learner", CONSTRAINED, ids=repr)
def test_columns_with_constraints_are_not_projected(learner):
    X, y, graph = skewed(200)
    wide = sparse.csr_array(np.tile(X, (1, 100)))
    m = auto(eb.EBBSClassifier, learner=learner, n_estimators=3).fit(wide, y > 1.0, graph=graph)
    assert m.state_.pipeline.low_rank is None
