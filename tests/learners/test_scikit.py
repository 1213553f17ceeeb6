"""Any scikit-learn regressor as a weak learner."""

import pickle

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.tree import ExtraTreeRegressor

import ebboost as eb
from ebboost.data.table import Table

SETTINGS = {"n_estimators": 12, "random_state": 0, "n_folds": 1}


def problem(n=300, seed=0):
    rng = np.random.default_rng(seed)
    points, X = rng.random((n, 2)), rng.normal(size=(n, 3))
    y = 2.0 * X[:, 0] + X[:, 1] + np.sin(6.0 * points[:, 0]) + 0.1 * rng.normal(size=n)
    return X, np.where(np.arange(n) % 3, y, np.nan), eb.Graph.build_knn(points, k=5), y


def grower(regressor, X, n_outputs=1, seed=3):
    table = Table(X, tuple("abc"), (), (0, 1, 2))
    bins = eb.ScikitLearn(regressor).bin(
        table, np.arange(table.n_rows), n_outputs=n_outputs, n_jobs=1, device="cpu"
    )
    return bins.grower(seed), table


@pytest.mark.parametrize(
    "regressor",
    [
        Ridge(),
        ExtraTreeRegressor(max_depth=3),
        KNeighborsRegressor(10),  # takes no weights
        make_pipeline(PolynomialFeatures(2), Ridge()),
        RandomForestRegressor(3, max_depth=3),
    ],
    ids=lambda one: type(one).__name__,
)
def test_any_regressor_can_be_boosted(regressor):
    X, y, graph, truth = problem()
    X[::5, 2] = np.nan
    fits = [
        eb.EBBSRegressor(learner=eb.ScikitLearn(regressor), **SETTINGS).fit(X, y, graph=graph)
        for _ in range(2)
    ]
    model = fits[0]
    assert model.score(None, truth, nodes=np.isnan(y)) > 0.5
    np.testing.assert_array_equal(*(one.predict() for one in fits))  # seeds are set
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(), model.predict())
    assert model.predict(X[:9] + 0.1, attach=(np.arange(9), np.arange(9))).shape == (9,)


def test_a_round_is_the_weighted_least_squares_fit():
    X, _, _, y = problem()
    rng = np.random.default_rng(1)
    curvature = rng.random((300, 1)) + 0.5
    growing, table = grower(LinearRegression(), X)
    tree = growing.grow(-curvature * y[:, None], curvature)
    own = LinearRegression().fit(X, y, sample_weight=curvature[:, 0]).predict(X)
    np.testing.assert_allclose(tree[:, 0], own)
    second = growing.grow(rng.normal(size=(300, 1)), curvature)
    found = growing.compile([0.5, -2.0]).predict(table)
    np.testing.assert_allclose(found, 0.5 * tree - 2.0 * second)
    np.testing.assert_array_equal(growing.compile([]).predict(table), np.zeros((300, 1)))
    assert growing.grow(np.zeros((300, 1)), curvature) is None


def test_gaps_are_column_means():
    X, _, _, y = problem()
    gaps = X.copy()
    gaps[::4, 1] = np.nan
    filled = np.where(np.isnan(gaps), np.nanmean(gaps, axis=0), gaps)
    one = np.ones((300, 1))
    growing, table = grower(Ridge(), gaps)
    tree = growing.grow(-y[:, None], one)
    np.testing.assert_allclose(tree, grower(Ridge(), filled)[0].grow(-y[:, None], one))
    np.testing.assert_allclose(growing.compile([1.0]).predict(table), tree)


@pytest.mark.parametrize("regressor", [Ridge(), ExtraTreeRegressor(max_depth=4)])
def test_importances_rank_the_column_that_matters_first(regressor):
    X, y, graph, _ = problem()
    model = eb.EBBSRegressor(learner=eb.ScikitLearn(regressor), labels="none", **SETTINGS)
    importances = model.fit(X, y, graph=graph).feature_importances_
    assert importances.argmax() == 0 and importances.sum() == pytest.approx(1.0)


def test_classes():
    X, y, graph, truth = problem()
    classes = np.digitize(truth, [-1.0, 1.0]).astype(object)
    labels = np.where(np.isnan(y), None, classes)
    model = eb.EBBSClassifier(learner=eb.ScikitLearn(Ridge()), **SETTINGS).fit(
        X, labels, graph=graph
    )
    assert model.score(None, classes, nodes=np.isnan(y)) > 0.6
    assert model.predict_proba().shape == (300, 3)


def test_what_is_not_possible_is_said(tmp_path):
    X, y, graph, _ = problem()
    with pytest.raises(TypeError, match=r"regressor must be one such as Ridge\(\), got <class"):
        eb.EBBSRegressor(learner=eb.ScikitLearn(Ridge)).fit(X, y)
    with pytest.raises(ValueError, match=r"eb\.ScikitLearn\(Ridge\(\)\)"):
        eb.EBBSRegressor(learner=Ridge()).fit(X, y)
    with pytest.raises(ValueError, match="device='cuda' is not available"):
        eb.EBBSRegressor(learner=eb.ScikitLearn(Ridge()), device="cuda").fit(X, y)
    model = eb.EBBSRegressor(2, learner=eb.ScikitLearn(Ridge()), n_folds=1).fit(X, y, graph=graph)
    with pytest.raises(ValueError, match="only be saved as a pickle"):
        model.save(tmp_path / "model.ebb")
    assert not (tmp_path / "model.ebb").exists()
