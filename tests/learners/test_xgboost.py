import json

import numpy as np
import pytest

import ebboost as eb
from ebboost.data.table import Table
from tests.learners.helpers import fitted, problem

DRAWS = [
    {},
    {"subsample": 0.5, "colsample_bytree": 0.6},
    {"params": {"colsample_bynode": 0.5, "colsample_bylevel": 0.6}},
]


def test_params_are_passed_to_xgboost():
    model = fitted(eb.XGBoost(params={"max_depth": 1}), *problem())
    assert all("yes=3" not in tree for tree in model.ensemble_.booster.get_dump())


def start(draws, n_outputs):
    """A grower on random numbers, and gradients of some rounds."""
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 5))
    table = Table(X, tuple("abcde"), (), tuple(range(5)))
    settings = {"n_outputs": n_outputs, "seed": 3, "n_jobs": 1, "device": "cpu"}
    gradients = X[:, :1] * X[:, 1:2] + random.normal(size=(6, 400, n_outputs))
    return eb.XGBoost(4, **draws).start(table, **settings), table, gradients


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_the_values_of_a_tree_are_those_that_the_compiled_model_predicts(draws, n_outputs):
    grower, table, gradients = start(draws, n_outputs)
    trees = [grower.grow(one, np.ones((400, 1))) for one in gradients]
    for number, tree in enumerate(trees):
        alone = grower.compile(np.eye(len(trees))[number].tolist())
        np.testing.assert_allclose(alone.predict(table), tree, atol=1e-6)
    weights = [0.5, 0.0, 2.0, -1.0]
    expected = sum(weight * tree for weight, tree in zip(weights, trees, strict=False))
    np.testing.assert_allclose(grower.compile(weights).predict(table), expected, atol=1e-5)


@pytest.mark.parametrize("draws", DRAWS)
def test_a_restored_grower_grows_the_same_trees(draws):
    grower, _, gradients = start(draws, 2)
    other = start(draws, 2)[0]
    for one in gradients[:3]:
        grower.grow(one, np.ones((400, 1)))
    other.restore(grower.state())
    for one in gradients[3:]:
        expected = grower.grow(one, np.ones((400, 1)))
        assert np.array_equal(other.grow(one, np.ones((400, 1))), expected)
    assert other.compile([1.0] * 6).files() == grower.compile([1.0] * 6).files()


def test_rounds_without_a_split_have_no_weight():
    grower, table, gradients = start({}, 1)
    assert grower.grow(np.zeros((400, 1)), np.ones((400, 1))) is None
    tree = grower.grow(gradients[0], np.ones((400, 1)))
    model = grower.compile([2.0])
    np.testing.assert_allclose(model.predict(table), 2.0 * tree, atol=1e-5)
    part = json.loads(model.files()["trees.json"])["learner"]["gradient_booster"]["model"]
    assert part["iteration_indptr"] == [0, 1, 2] and part["tree_info"] == [0, 0]
