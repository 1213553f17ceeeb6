"""XGBoost as a learner."""

import json
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import ebboost as eb
from ebboost.data.reader import TableReader
from ebboost.data.table import Table
from ebboost.defaults import trees

xgboost = pytest.importorskip("xgboost")
ONE_MEMBER = {"labels": "field", "smoothing": None, "neighbor_features": None}
ONE_MEMBER |= {"spectral_features": None, "n_folds": 2}
DRAWS = [{}, {"subsample": 0.5, "colsample_bytree": 0.6}, {"params": {"colsample_bynode": 0.5}}]


def grower(learner, table, n_outputs=1, device="cpu", seed=3):
    return learner.bin(
        table, np.arange(table.n_rows), n_outputs=n_outputs, n_jobs=1, device=device
    ).grower(seed)


def numbers(n_outputs=1, n=400):
    """A table, and gradients of some rounds."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 5))
    table = Table(X, tuple("abcde"), (), tuple(range(5)))
    return table, X[:, :1] * X[:, 1:2] + random.normal(size=(6, n, n_outputs))


def problem(n=400, seed=0):
    rng = np.random.default_rng(seed)
    points, X = rng.random((n, 2)), rng.normal(size=(n, 3))
    y = X[:, 0] - X[:, 1] ** 2 + 2.0 * np.sin(6.0 * points[:, 0]) + 0.1 * rng.normal(size=n)
    return X, np.where(np.arange(n) % 3, y, np.nan), eb.Graph.build_knn(points, k=5), y


# ---------------------------------------------------------------------- trees


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_the_compiled_model_is_the_weighted_sum_of_the_trees(draws, n_outputs):
    table, gradients = numbers(n_outputs)
    growing = grower(eb.XGBoost(4, **draws), table, n_outputs)
    grown = [growing.grow(one, np.ones((400, 1))) for one in gradients]
    for weights in ([0.0, 0.0, 1.0], [0.5, 0.0, 2.0, -1.0, 1.0, 1e-3], [1.0], []):
        expected = sum((w * tree for w, tree in zip(weights, grown, strict=False)), 0.0 * grown[0])
        found = growing.compile(weights).predict(table)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_leaf_is_the_least_squares_fit_to_its_rows():
    X = np.repeat([[0.0], [1.0]], 50, axis=0)
    rng = np.random.default_rng(0)
    gradient, curvature = rng.normal(size=(100, 1)), rng.random((100, 1)) + 0.5
    for penalty in (0.0, 30.0):
        table = Table(X, ("x",), (), (0,))
        tree = grower(eb.XGBoost(1, reg_lambda=penalty), table).grow(gradient, curvature)
        for group in (slice(0, 50), slice(50, 100)):
            expected = -gradient[group].sum() / (curvature[group].sum() + penalty)
            np.testing.assert_allclose(tree[group], expected, rtol=1e-4)


def test_a_round_without_a_split_has_no_weight():
    table, gradients = numbers()
    one = np.ones((400, 1))
    growing = grower(eb.XGBoost(4), table)
    assert growing.grow(np.zeros((400, 1)), one) is None
    first = growing.grow(gradients[0], one)
    assert growing.grow(np.full((400, 1), 3.0), one) is None  # a constant is no split
    second = growing.grow(gradients[1], one)
    for weights in ([2.0], [2.0, -0.5]):
        expected = weights[0] * first + (weights[1] * second if len(weights) > 1 else 0.0)
        model = growing.compile(weights)
        np.testing.assert_allclose(model.predict(table), expected, atol=1e-5)
    constant = Table(np.zeros((30, 2)), ("a", "b"), (), (0, 1))
    empty = grower(eb.XGBoost(), constant)
    assert empty.grow(np.ones((30, 1)), np.ones((30, 1))) is None
    np.testing.assert_array_equal(empty.compile([]).predict(constant), np.zeros((30, 1)))


def test_some_rows_are_binned_alone():
    table, gradients = numbers()
    rows = np.arange(0, 400, 3)
    bins = eb.XGBoost(4).bin(table, rows, n_outputs=1, n_jobs=1, device="cpu")
    alone = grower(eb.XGBoost(4), table.subset(rows))
    one = np.ones((rows.size, 1))
    for gradient in gradients[:2, rows]:
        np.testing.assert_array_equal(bins.grower(3).grow(gradient, one), alone.grow(gradient, one))
        alone = grower(eb.XGBoost(4), table.subset(rows))


def test_models_of_folds_share_bins_and_nothing_else():
    table, gradients = numbers()
    bins = eb.XGBoost(3, subsample=0.5).bin(
        table, np.arange(table.n_rows), n_outputs=1, n_jobs=1, device="cpu"
    )
    one = np.ones((400, 1))
    alone = [grower(eb.XGBoost(3, subsample=0.5), table, seed=seed) for seed in (1, 2)]
    together = [bins.grower(seed) for seed in (1, 2)]
    for gradient in gradients:
        for own, other in zip(alone, together, strict=True):
            np.testing.assert_array_equal(own.grow(gradient, one), other.grow(gradient, one))


def test_the_file_is_that_of_xgboost_and_its_explanations_add_up():
    table, gradients = numbers(3)
    growing = grower(eb.XGBoost(4), table, 3)
    for gradient in gradients:
        growing.grow(gradient, np.ones((400, 1)))
    model = growing.compile([0.5, 2.0, 0.1])
    files = model.files()
    document = json.loads(files["trees.json"])["learner"]["gradient_booster"]["model"]
    assert document["iteration_indptr"] == [0, 3, 6, 9]
    booster = xgboost.Booster(model_file=bytearray(files["trees.json"]))
    own = booster.inplace_predict(table.values, predict_type="margin")
    np.testing.assert_array_equal(own, eb.XGBoost.load(files).predict(table))
    parts = model.contributions(table)
    assert parts.shape == (400, 3, 6)
    np.testing.assert_allclose(parts.sum(axis=2), model.predict(table), atol=1e-4)
    assert model.importances().argmax() in (0, 1)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(table), own)


def test_categories_are_split_as_such():
    rng = np.random.default_rng(0)
    kinds = rng.integers(12, size=600)
    X = pd.DataFrame({"noise": rng.normal(size=600), "kind": [f"k{kind}" for kind in kinds]})
    y = rng.normal(size=12)[kinds] + 0.05 * rng.normal(size=600)
    model = eb.EBBSRegressor(40, learner="xgboost", random_state=0, n_folds=1)
    model.fit(X, np.where(np.arange(600) < 400, y, np.nan))
    assert model.score(X.iloc[400:], y[400:]) > 0.95
    unknown = X.iloc[:2].assign(kind=["new", None])
    assert np.isfinite(model.predict(unknown)).all()
    table = TableReader().fit(X)
    tree = grower(eb.XGBoost(2), table).grow(-y[:, None], np.ones((600, 1)))
    assert np.ptp(tree) > 0.5  # two splits of twelve unordered kinds


def test_gaps_and_sparse_tables_are_taken():
    X, y, graph, truth = problem()
    X[::4, 1] = np.nan
    settings = {"learner": "xgboost", "n_folds": 1, "random_state": 0}
    dense = eb.EBBSRegressor(40, **settings).fit(X, y, graph=graph)
    assert dense.score(None, truth) > 0.5
    wide = sparse.random_array((400, 500), density=0.02, format="csr", rng=np.random.default_rng(0))
    wide = sparse.hstack([wide, sparse.csr_array(np.nan_to_num(X[:, :1]))], format="csr")
    model = eb.EBBSRegressor(40, **settings).fit(wide, y, graph=graph)
    assert np.isfinite(model.predict()).all()


# ---------------------------------------------------------------------- fits


def test_with_its_default_settings_it_is_as_accurate_as_lightgbm():
    X, y, graph, truth = problem(900)
    test = np.isnan(y)
    errors = [
        eb.EBBSRegressor(learner=trees(name, 600, False, 3), random_state=0, **ONE_MEMBER)
        .fit(X, y, graph=graph)
        .score(None, truth, nodes=test, metric="rmse")
        for name in ("lightgbm", "xgboost")
    ]
    assert errors[1] < 1.1 * errors[0]


@pytest.mark.parametrize("n_labels", [100, 100_000])
def test_settings_by_name_follow_the_number_of_labels(n_labels):
    few, many = (trees("xgboost", n, False, 20) for n in (100, 100_000))
    own = trees("xgboost", n_labels, False, 20)
    assert isinstance(own, eb.XGBoost) and own.get_params() in (few.get_params(), many.get_params())
    assert few.max_depth < many.max_depth and few.reg_lambda < many.reg_lambda
    assert 0.0 < own.colsample_bytree <= 1.0
    assert trees("xgboost", n_labels, True, 20).get_params() == few.get_params()


def test_a_fit_is_repeated_exactly():
    X, y, graph, _ = problem()
    learner = eb.XGBoost(3, subsample=0.7)
    first, second = (
        eb.EBBSRegressor(20, learner=learner, random_state=0, **ONE_MEMBER).fit(X, y, graph=graph)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.predict(), second.predict())
    parts = first.explain([3])["contribution"].sum()
    assert parts == pytest.approx(first.predict()[3], abs=1e-4)


@pytest.mark.parametrize("n_classes", [0, 3])
@pytest.mark.parametrize("with_categories", [False, True])
def test_files_and_pickles_predict_the_same(n_classes, with_categories, tmp_path):
    X, y, graph, truth = problem()
    table = pd.DataFrame(X, columns=list("abc"))
    if with_categories:
        table["kind"] = np.where(X[:, 2] > 0.3, "up", np.where(X[:, 2] < -0.3, "down", "flat"))
    kind, labels = eb.EBBSRegressor, y
    if n_classes:
        kind, classes = eb.EBBSClassifier, np.digitize(truth, [-1.0, 1.0]).astype(object)
        labels = np.where(np.isnan(y), None, classes)
    learner = eb.XGBoost(3, params={"colsample_bylevel": 0.8})
    model = kind(6, learner=learner, random_state=0, **ONE_MEMBER).fit(table, labels, graph=graph)
    model.save(tmp_path / "model.ebb")
    new, edges = table.iloc[:50], (np.arange(50), np.arange(1, 51))
    predict = "predict_proba" if n_classes else "predict"
    expected = getattr(model, predict)(new, attach=edges)
    for other in (eb.load(tmp_path / "model.ebb"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(getattr(other, predict)(new, attach=edges), expected)


def test_scores_rise_with_a_column_that_must_rise_and_groups_do_not_interact():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 2)), columns=["area", "age"])
    y = np.sin(3 * X["area"]) + X["area"] * (0.2 + 0.5 * X["age"])

    def predicted(params, rows):
        learner = eb.XGBoost(params=params)
        model = eb.EBBSRegressor(30, 0.3, learner=learner, random_state=0, n_folds=1)
        return model.fit(X, y.to_numpy()).predict(pd.DataFrame(rows, columns=["area", "age"]))

    line = [[area, 0.0] for area in np.linspace(-3.0, 3.0, 25)]
    assert np.diff(predicted(None, line)).min() < -0.05
    rising = predicted({"monotone_constraints": {"area": 1}}, line)
    assert np.diff(rising).min() >= 0.0 < np.ptp(rising)
    corners = [[a, b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)]
    signs = np.array([1.0, -1.0, -1.0, 1.0])
    assert abs(predicted(None, corners) @ signs) > 0.1
    apart = predicted({"interaction_constraints": [["area"], ["age"]]}, corners)
    assert apart @ signs == pytest.approx(0.0, abs=1e-5)


# ---------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"booster": "dart"}, "'dart'.*remove it"),
        ({"num_parallel_tree": 3}, "3.*remove it"),
        ({"multi_strategy": "multi_output_tree"}, "remove it"),
        ({"eta": 0.3}, "pass learning_rate= to the estimator"),
        ({"monotone_constraints": {"z": 1}}, "no column 'z'"),
    ],
)
def test_params_that_are_not_supported_are_named(params, message):
    with pytest.raises(ValueError, match=message):
        grower(eb.XGBoost(params=params), numbers()[0])


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(ImportError, match="needs xgboost: pip install xgboost"):
        grower(eb.XGBoost(), numbers()[0])


def test_a_wheel_without_a_gpu_is_named(monkeypatch):
    monkeypatch.setattr(xgboost, "build_info", lambda: {"USE_CUDA": False})
    with pytest.raises(ImportError, match="pip uninstall xgboost-cpu"):
        grower(eb.XGBoost(), numbers()[0], device="cuda")
