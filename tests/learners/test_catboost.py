import numpy as np

import ebboost as eb
from ebboost.data.table import Table
from tests.learners.helpers import LEARNERS, fitted, problem, start


def test_all_outputs_have_as_many_trees_when_one_has_nothing_to_split():
    gradient = np.hstack([np.random.default_rng(0).normal(size=(100, 1)), np.zeros((100, 1))])
    table = Table(gradient + 1.0, ("a", "b"))
    growing = start(LEARNERS["catboost"], table, n_outputs=2)
    assert growing.grow(gradient, np.ones((100, 1))) is None
    tree = growing.grow(gradient[:, :1] + [[0.0, 1.0]], np.ones((100, 1)))
    np.testing.assert_allclose(growing.compile([1.0]).predict(table), tree, atol=1e-9)


def test_a_tree_of_one_leaf_is_saved_and_loaded(tmp_path):
    weight = [
        0.00010232093137696031,
        7.00986149739471e-05,
        0.0001527767632951559,
        0.000864444678485895,
        1.4252996240782245e-07,
    ]
    learner = eb.CatBoost(
        depth=4, from_average=False
    )  # with nothing to split by, on the rounding of a constant
    model = eb.EBBSRegressor(1, learner=learner, random_state=0)
    model.fit(np.full((5, 1), np.nan), np.full(5, 7.0), sample_weight=weight)
    assert b'"splits": null' in b"".join(model.ensemble_.files().values())
    model.save(tmp_path / "m.ebb")
    np.testing.assert_array_equal(eb.load(tmp_path / "m.ebb").predict(), model.predict())


def test_params_are_passed_to_catboost():
    model = fitted(eb.CatBoost(params={"depth": 1}), *problem())
    assert all(count <= 2 for count in model.ensemble_.models[0].get_tree_leaf_counts())
