"""Graph columns computed in blocks of rows give the same models, bit for bit."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import ebboost as eb
from ebboost.data import lazy
from ebboost.data import table as table_module
from ebboost.data.labels import Labels
from ebboost.data.lazy import LazyMatrix
from ebboost.data.low_rank import LowRank
from ebboost.data.pipeline import FeaturePipeline
from ebboost.data.table import Table
from ebboost.learners import Learner
from tests.strategies import random_graph

MADE = {"neighbor_features": eb.NeighborFeatures(), "feature_smoothing": eb.Laplacian(20.0, 5)}
GIVEN = {"smoothing": eb.Laplacian(1.0, 2), "labels": "field", **MADE}


def problem(n=400, kind="float64"):
    rng, graph = np.random.default_rng(0), random_graph(n, 3 * n)
    X = rng.normal(size=(n, 4))
    y = X[:, 0] + 0.5 * graph.adjacency @ X[:, 1] + 0.1 * rng.normal(size=n)
    if kind == "missing":
        X[rng.random(X.shape) < 0.2] = np.nan
    if kind == "categories":
        return (
            pd.DataFrame(X, columns=list("abcd")).assign(kind=rng.choice(["x", "y", "z"], n)),
            y,
            graph,
        )
    return X.astype("float32" if kind == "float32" else "float64"), y, graph


@pytest.fixture
def row_by_row(monkeypatch):
    def force(rows=3):
        monkeypatch.setattr(table_module, "EAGER_LIMIT", 0)
        monkeypatch.setattr(lazy, "BLOCK_SIZE", rows * 23)
        monkeypatch.setattr(table_module, "COLUMN_BATCH", 2)

    return force


def outputs(model, X, graph):
    """All that depends on the columns."""
    explained = [part.total for part in model.explanations([3, 7])]
    new, near = model.predict(X, graph=graph), model.predict(X, graph=graph, nodes=[5, 9])
    trees = b"".join(model.ensemble_.files().values())
    return trees, model.predict(), new, near, explained, model.feature_importances_


@pytest.mark.parametrize("kind", ["float64", "float32", "missing", "categories"])
@pytest.mark.parametrize(
    "parameters",
    [{"n_folds": 2}, GIVEN, {"learner": eb.LightGBM(7), **GIVEN}],
    ids=["auto", "given", "other"],
)
def test_a_regressor_is_the_same_whatever_the_blocks(kind, parameters, row_by_row):
    X, y, graph = problem(kind=kind)

    def fitted():
        return eb.EBBSRegressor(20, random_state=0, n_jobs=1, **parameters).fit(X, y, graph=graph)

    expected = outputs(fitted(), X, graph)
    for rows in (1, 50):
        row_by_row(rows)
        for result, wanted in zip(outputs(fitted(), X, graph), expected, strict=True):
            if isinstance(result, bytes) or "n_folds" not in parameters:
                np.testing.assert_array_equal(result, wanted)
            else:  # products of the matrices of networks
                np.testing.assert_allclose(result, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("learner", ["lightgbm", "xgboost", "catboost"])
def test_a_classifier_is_the_same_whatever_the_learner(learner, row_by_row):
    X, y, graph = problem(kind="categories")

    def fitted():
        model = eb.EBBSClassifier(
            6, learner=learner, random_state=0, n_jobs=1, **GIVEN | {"labels": "none"}
        )
        return model.fit(X, y > 0, graph=graph)

    expected = fitted()
    row_by_row()
    result = fitted()
    assert result.ensemble_.files() == expected.ensemble_.files()
    np.testing.assert_array_equal(
        result.predict_proba(X, graph=graph), expected.predict_proba(X, graph=graph)
    )


def test_predictors_and_saved_models_of_lazy_columns_give_equal_predictions(row_by_row, tmp_path):
    X, y, graph = problem()
    row_by_row()
    model = eb.EBBSRegressor(10, random_state=0, n_jobs=1, **GIVEN).fit(X, y, graph=graph)
    model.save(tmp_path / "model.ebb", table=True)
    loaded = eb.load(tmp_path / "model.ebb")
    np.testing.assert_array_equal(loaded.predict(X, graph=graph), model.predict(X, graph=graph))
    predictor, other = model.predictor(X, graph=graph), X.copy()
    other[[4, 80]] += 1.0
    predictor.update([4, 80], other[[4, 80]])
    np.testing.assert_allclose(predictor.predict(), model.predict(other, graph=graph), atol=1e-8)


def test_learners_whose_bins_depend_on_blocks_get_a_matrix(row_by_row):
    seen = []

    class Whole(eb.XGBoost):
        def start(self, table, **options):
            seen.append(table.values)
            return super().start(table, **options)

    class Parts(eb.LightGBM):
        def start(self, table, **options):
            seen.append(table.values)
            return super().start(table, **options)

    assert not Learner.same_from_blocks
    X, y, graph = problem()
    row_by_row()
    for learner in (Whole(2), Parts(3)):
        eb.EBBSRegressor(2, learner=learner, random_state=0, n_jobs=1, **GIVEN).fit(
            X, y, graph=graph
        )
    assert isinstance(seen[0], np.ndarray) and isinstance(seen[1], LazyMatrix)
    np.testing.assert_array_equal(seen[0], seen[1].materialize())


def test_binning_lazy_columns_allocates_no_full_matrix(monkeypatch):
    """Five times the columns; but what is held is P_x X, what computing it takes, and a block."""
    monkeypatch.setattr(table_module, "EAGER_LIMIT", 0)
    monkeypatch.setattr(table_module, "COLUMN_BATCH", 8)
    n = 40_000
    X, graph = np.random.default_rng(0).normal(size=(n, 16)), random_graph(n, 2 * n)
    table = Table(X, tuple(f"x{i}" for i in range(16)), (), tuple(range(16)))
    training = Labels(np.arange(n), X[:, :1], np.ones(n))
    learner = eb.LightGBM(params={"bin_construct_sample_cnt": 500})
    graph.degrees  # noqa: B018
    tracemalloc.start()
    try:
        features = FeaturePipeline(**MADE).fit_transform(table, graph, training, True, 0)
        learner.start(features, n_outputs=1, seed=0, n_jobs=1, device="cpu")
        features.release()
        left, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert features.values.size * 8 > 5 * X.nbytes
    assert peak < 3.5 * X.nbytes and left < X.nbytes


@pytest.mark.parametrize("directed", [False, True])
def test_singular_vectors_have_columns_of_neighbors_that_count_for_the_same_inputs(directed):
    rng = np.random.default_rng(0)
    values = sparse.csr_array((rng.random((60, 30)) < 0.3).astype(float))
    names = tuple(f"word{number}" for number in range(30))
    table = Table(values, names, (), tuple(range(30)))
    graph = eb.Graph.from_edges(np.arange(59), np.arange(1, 60), directed=directed)
    features = eb.NeighborFeatures(["mean", "max"])
    pipeline = FeaturePipeline(features, low_rank=LowRank(4))
    labels = Labels(np.arange(60), np.zeros((60, 1)), np.ones(60))
    wide = pipeline.fit_transform(table, graph, labels, True, 0).materialize()
    vectors = wide.values[:, :4]
    n_sides = 2 if directed else 1
    assert wide.values.shape[1] == 4 + n_sides * (2 * 4 + 2) and set(wide.origin) == {-1}
    if not directed:
        np.testing.assert_allclose(wide.values[1, 4:8], vectors[[0, 2]].mean(axis=0))
    again = pipeline.transform(table, graph).materialize()
    np.testing.assert_array_equal(again.values, wide.values)
    assert pipeline.hops(graph) == 1
    squares = pipeline.low_rank.directions**2
    for number, name in enumerate(wide.names):
        importances = np.zeros(len(wide.names))
        importances[number] = 1.0
        own = pipeline.input_importances(importances, wide.origin, 30, directed)
        of_vector = [one for one in range(4) if f"direction({one})" in name]
        expected = squares[:, of_vector[0]] if of_vector else np.zeros(30)
        np.testing.assert_allclose(own, expected)
