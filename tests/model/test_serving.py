"""Predictions of some nodes, and predictors that are updated, equal predictions of all nodes."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import ebboost as eb
from tests.strategies import graphs, random_graph

SMOOTHERS = [
    None,
    eb.Laplacian(2.0, 3),
    eb.Laplacian(2.0, 2, normalized=False),
    eb.Laplacian(1.0, 2, method="jacobi"),
    eb.Laplacian(1.0, 3, method="chebyshev"),
    eb.Laplacian(1.0, method="exact"),
    eb.Laplacian(1.0, "auto"),
    eb.Kernel("diffusion", degree=3),
    eb.Robust(n_steps=2),
]
COLUMNS = {
    "own columns": {"neighbor_features": None, "feature_smoothing": None},
    "neighbour columns": {
        "neighbor_features": eb.NeighborFeatures(),
        "feature_smoothing": eb.Laplacian(5.0, 2),
    },
}


def problem(n=150, n_edges=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[rng.random((n, 3)) < 0.1] = np.nan
    graph = random_graph(n, n_edges, seed)
    return X, np.nan_to_num(X[:, 0]) + graph.adjacency @ np.nan_to_num(X[:, 1]), graph


def fit(kind=eb.EBBSRegressor, n=150, **changes):
    X, y, graph = problem(n)
    fixed = {"smoothing": eb.Laplacian(2.0, 3), "labels": "none", **COLUMNS["own columns"]}
    parameters = {
        "random_state": 0,
        "learner": eb.LightGBM(7, min_child_samples=5),
        **fixed,
        **changes,
    }
    target = y if kind is eb.EBBSRegressor else np.digitize(y, [-1.0, 1.0])
    return kind(8, 0.3, **parameters).fit(X, target, graph=graph)


@pytest.fixture(scope="module")
def models():
    return [
        fit(smoothing=smoother, **columns) for smoother in SMOOTHERS for columns in COLUMNS.values()
    ]


@settings(max_examples=25, deadline=None)
@given(graph=graphs(2, 40), seed=st.integers(0, 1000), data=st.data())
def test_predictions_of_some_nodes_equal_those_of_all_nodes(models, graph, seed, data):
    model = data.draw(st.sampled_from(models))
    X = np.random.default_rng(seed).normal(size=(graph.n_nodes, 3))
    nodes = data.draw(st.lists(st.integers(0, graph.n_nodes - 1), max_size=5))
    expected = model.predict(X, graph=graph)[nodes]
    predictions = model.predict(X, graph=graph, nodes=nodes)
    assert np.abs(predictions - expected).max(initial=0.0) <= 1e-12


@pytest.mark.parametrize("columns", COLUMNS)
def test_only_rows_within_reach_are_read(columns):
    path = eb.Graph.from_edges(np.arange(99), np.arange(1, 100))
    model = fit(**COLUMNS[columns])
    reach = {"own columns": 3, "neighbour columns": 5}[columns]
    X = np.random.default_rng(1).normal(size=(100, 3))
    expected = model.predict(X, graph=path, nodes=[50])
    X[: 50 - reach] = np.inf  # rejected where it is read
    X[50 + reach + 1 :] = np.inf
    assert model.predict(X, graph=path, nodes=[50]) == expected
    X[50 + reach, 1] = np.inf
    with pytest.raises(ValueError, match="row 0, column 0"):  # counted as in X
        model.predict(X, graph=path, nodes=[50])


@pytest.mark.parametrize(
    "kind", [pd.DataFrame, pl.DataFrame, sparse.csc_array, np.asarray, np.ndarray.tolist]
)
def test_rows_are_read_from_tables_of_all_kinds(kind):
    X, y, graph = problem(seed=1)
    frame = pd.DataFrame(np.nan_to_num(X), columns=["a", "b", "c"])
    nodes = np.array([5, 140, 5, 0])
    named = kind in (pd.DataFrame, pl.DataFrame)
    table = kind(frame if named else frame.to_numpy())
    model = eb.EBBSRegressor(8, smoothing=eb.Laplacian(), labels="none", random_state=0)
    model.fit(frame if named else frame.to_numpy(), y, graph=graph)
    assert np.array_equal(
        model.predict(table, graph=graph, nodes=nodes), model.predict(table, graph=graph)[nodes]
    )


def test_nodes_may_be_a_mask_may_repeat_and_must_exist():
    model = fit()
    mask = np.zeros(150, dtype=bool)
    X, _, graph = problem()
    mask[[3, 7]] = True
    for predict in (
        lambda nodes: model.predict(nodes=nodes),
        lambda nodes: model.predict(X, graph=graph, nodes=nodes),
        model.predictor().predict,
    ):
        assert np.array_equal(predict(mask), predict([3, 7]))
        assert np.array_equal(predict([7, 7]), predict([7]).repeat(2))
        assert predict([]).shape == (0,)
        with pytest.raises(
            ValueError, match="nodes names row 150 at position 1, X has rows 0 to 149"
        ):
            predict([0, 150])
        with pytest.raises(TypeError, match="nodes must hold row positions"):
            predict([0.5])


def test_predictions_of_some_nodes_of_signed_relations_equal_those_of_all_nodes():
    X, y, like = problem()
    relations = {"like": like, "unlike": random_graph(150, 100, 5)}
    model = eb.EBBSRegressor(
        8,
        0.3,
        relations={"like": 1.0, "unlike": -0.4},
        smoothing=eb.Laplacian(2.0, 2),
        labels="none",
        neighbor_features=eb.NeighborFeatures(),
        random_state=0,
    ).fit(X, y, graph=relations)
    nodes = [9, 1]
    assert np.array_equal(
        model.predict(X, graph=relations, nodes=nodes), model.predict(X, graph=relations)[nodes]
    )


def change_rows(X, nodes, seed=3):
    X = X.copy()
    X[nodes] = np.random.default_rng(seed).normal(size=(len(nodes), 3))
    return X


@pytest.mark.parametrize("number", range(2 * len(SMOOTHERS)))
def test_an_updated_predictor_equals_a_new_one(models, number):
    model = models[number]
    X, _, graph = problem(seed=4)
    predictor = model.predictor(X, graph=graph)
    for nodes in ([17], [140, 3, 88], [17, 0]):
        X = change_rows(X, nodes, nodes[0])
        predictor.update(nodes, X[nodes])
        expected = model.predict(X, graph=graph)
        assert np.abs(predictor.predict() - expected).max() <= 1e-12
        assert np.abs(predictor.predict([3, 17]) - expected[[3, 17]]).max() <= 1e-12


@pytest.mark.parametrize("labels", ["field", "masked", "none"])
def test_an_updated_predictor_uses_known_labels(labels):
    model = fit(labels=labels)
    X, y, graph = problem(seed=4)
    known = None if labels == "none" else (np.arange(30), y[:30])
    predictor = model.predictor(X, graph=graph, new_labels=known)
    assert np.array_equal(predictor.predict(), model.predict(X, graph=graph, new_labels=known))
    X = change_rows(X, [31, 2])
    predictor.update([31, 2], X[[31, 2]])
    assert (
        np.abs(predictor.predict() - model.predict(X, graph=graph, new_labels=known)).max() < 1e-9
    )


def test_a_predictor_of_fitted_nodes_uses_their_labels_and_new_rows():
    model = fit(labels="field")
    X, _, _ = problem()
    predictor = model.predictor()
    assert np.array_equal(predictor.predict([5, 9]), model.predict(nodes=[5, 9]))
    assert (
        predictor.predict([5], interval=0.8).upper == model.predict(nodes=[5], interval=0.8).upper
    )
    predictor.update([5], X[[5]])  # as it was
    assert np.abs(predictor.predict() - model.predict()).max() < 1e-9
    predictor.update([5], X[[5]] + 2.0)
    assert np.abs(predictor.predict() - model.predict()).max() > 1e-3


@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
def test_an_update_of_the_field_is_local_and_within_the_tolerance(kind):
    rng = np.random.default_rng(0)
    position = rng.random((4000, 2))
    graph = eb.Graph.build_knn(position[:, :1], k=6)
    X = np.hstack([position[:, 1:], rng.normal(size=(4000, 1))])
    y = np.sin(9 * position[:, 0]) + X[:, 0]
    y = y if kind is eb.EBBSRegressor else (y > 0.5).astype(int)
    model = kind(
        10,
        0.3,
        smoothing=eb.Laplacian(1.0, 2),
        labels="field",
        random_state=0,
        **COLUMNS["own columns"],
    )
    known = rng.permutation(4000)[:2000]
    model.fit(X, y[known], nodes=known, graph=graph)
    predictor = model.predictor(X, graph=graph, new_labels=(known, y[known]))
    for nodes in ([11], [3999, 5]):
        before = predictor.predict_proba() if kind is eb.EBBSClassifier else predictor.predict()
        X = X.copy()
        X[nodes] = 3.0 * rng.normal(size=(len(nodes), 2))
        predictor.update(nodes, X[nodes])
    after = predictor.predict_proba() if kind is eb.EBBSClassifier else predictor.predict()
    predict = model.predict_proba if kind is eb.EBBSClassifier else model.predict
    assert np.abs(after - predict(X, graph=graph, new_labels=(known, y[known]))).max() < 1e-7
    unchanged = (after == before).reshape(4000, -1).all(axis=1)
    if kind is eb.EBBSRegressor:  # the field of a classifier is not linear in the scores
        assert 0.5 < unchanged.mean() < 1.0


@pytest.mark.parametrize("labels", ["none", "field"])
def test_a_predictor_of_a_classifier_returns_classes_and_probabilities(labels):
    model = fit(eb.EBBSClassifier, labels=labels)
    X, _, graph = problem(seed=4)
    new = {"graph": graph, "new_labels": ([], [])}
    predictor = model.predictor(X, **new)
    X = change_rows(X, [8])
    predictor.update([8], X[[8]])
    assert np.abs(predictor.predict_proba() - model.predict_proba(X, **new)).max() <= 1e-12
    assert np.array_equal(predictor.predict([8, 1]), model.predict(X, **new, nodes=[8, 1]))
    with pytest.raises(AttributeError, match="no probabilities"):
        fit().predictor().predict_proba()


def test_a_predictor_without_a_graph_is_updated_row_by_row():
    X, y, _ = problem()
    model = eb.EBBSRegressor(8, random_state=0).fit(X, y)
    predictor = model.predictor(X)
    X = change_rows(X, list(range(149, -1, -1)))  # all of them, backwards
    predictor.update(np.arange(149, -1, -1), X[::-1])
    assert np.array_equal(predictor.predict(), model.predict(X))
    assert np.array_equal(model.predict(X, nodes=[4, 2]), model.predict(X)[[4, 2]])


def test_invalid_updates_are_rejected_and_change_nothing(tmp_path):
    model = fit(**COLUMNS["neighbour columns"])
    X, _, _ = problem()
    predictor = model.predictor()
    with pytest.raises(ValueError, match="nodes names 2 nodes, rows has 1"):
        predictor.update([1, 2], X[[1]])
    with pytest.raises(ValueError, match="nodes names row 1 twice"):
        predictor.update([1, 1], X[[1, 1]])
    before = predictor.predict()
    predictor.update([], X[:0])
    with pytest.raises(ValueError, match="infinity"):
        predictor.update([1], [[np.inf, 0.0, 0.0]])
    assert np.array_equal(predictor.predict(), before)
    model.save(tmp_path / "m.ebb")
    with pytest.raises(ValueError, match=r"has no table: pass it, predictor\(X, graph=graph\)"):
        eb.load(tmp_path / "m.ebb").predictor().update([1], X[[1]])


def test_threads_may_share_a_model_and_a_predictor():
    model = fit(n=150)
    X, _, graph = problem(seed=4)
    predictor = model.predictor(X, graph=graph)
    order = np.random.default_rng(0).permutation(150)
    rows = change_rows(X, list(range(150)))
    expected = [model.predict(rows, graph=graph, nodes=[i]) for i in range(150)]

    def work(number):
        predictions = []
        for node in order[number::8]:
            predictions.append((node, model.predict(rows, graph=graph, nodes=[node])))
            predictor.update([node], rows[[node]])
            predictor.predict([node])
        return predictions

    with ThreadPoolExecutor(8) as pool:
        for predictions in pool.map(work, range(8)):
            assert all(np.array_equal(value, expected[node]) for node, value in predictions)
    assert np.abs(predictor.predict() - model.predict(rows, graph=graph)).max() <= 1e-12


def test_reads_are_from_before_or_after_an_update():
    model = fit()
    X, _, graph = problem(seed=4)
    other = change_rows(X, list(range(150)))
    predictor = model.predictor(X, graph=graph)
    nodes = np.arange(150)
    states = [model.predict(table, graph=graph) for table in (X, other)]

    def write():
        for step in range(20):
            predictor.update(nodes, (other, X)[step % 2])

    with ThreadPoolExecutor(8) as pool:
        writing = pool.submit(write)
        seen = [pool.submit(predictor.predict, nodes) for _ in range(200)]
        for read in seen:
            assert min(np.abs(read.result() - state).max() for state in states) < 1e-9
        writing.result()


@pytest.mark.parametrize("columns", COLUMNS)
def test_a_predictor_can_be_pickled(columns):
    X, _, graph = problem()
    model = fit(labels="field", **COLUMNS[columns])
    known = (np.arange(40), np.arange(40) / 40.0)
    predictor = model.predictor(X, graph=graph, new_labels=known)
    predictor.update([3], X[[5]])
    sent = pickle.loads(pickle.dumps(predictor))
    for one in (predictor, sent):
        one.update([7, 9], X[[8, 8]])
    assert np.allclose(sent.predict(), predictor.predict(), rtol=0.0, atol=1e-7)


def test_a_predictor_does_not_change_when_its_model_is_fitted_again():
    X, y, graph = problem()
    model = fit()
    predictor = model.predictor(X, graph=graph)
    before = model.predict(X, graph=graph)
    model.fit(X, -y, graph=graph)
    predictor.update([3, 7], X[[3, 7]])
    assert np.allclose(predictor.predict(), before)
