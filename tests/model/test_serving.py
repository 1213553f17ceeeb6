"""Predictions of a few nodes are those of all; a predictor keeps up with rows that change, and with threads."""

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
MADE = {
    "own columns": {"neighbor_features": None, "feature_smoothing": None},
    "columns of neighbours": {
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


def fitted(kind=eb.EBBSRegressor, n=150, **changes):
    X, y, graph = problem(n)
    only = {"smoothing": eb.Laplacian(2.0, 3), "labels": "none", **MADE["own columns"]}
    given = {"random_state": 0, "learner": eb.LightGBM(7, min_child_samples=5), **only, **changes}
    target = y if kind is eb.EBBSRegressor else np.digitize(y, [-1.0, 1.0])
    return kind(8, 0.3, **given).fit(X, target, graph=graph)


@pytest.fixture(scope="module")
def models():
    return [fitted(smoothing=smoother, **made) for smoother in SMOOTHERS for made in MADE.values()]


@settings(max_examples=25, deadline=None)
@given(graph=graphs(2, 40), seed=st.integers(0, 1000), data=st.data())
def test_a_few_nodes_of_another_graph_are_predicted_as_all_of_them_are(models, graph, seed, data):
    model = data.draw(st.sampled_from(models))
    X = np.random.default_rng(seed).normal(size=(graph.n_nodes, 3))
    nodes = data.draw(st.lists(st.integers(0, graph.n_nodes - 1), max_size=5))
    everyone = model.predict(X, graph=graph)
    assert (
        np.abs(model.predict(X, graph=graph, nodes=nodes) - everyone[nodes]).max(initial=0.0)
        <= 1e-12
    )


@pytest.mark.parametrize("made", MADE)
def test_only_rows_within_reach_are_read(made):
    path = eb.Graph.from_edges(np.arange(99), np.arange(1, 100))
    model, reach = fitted(**MADE[made]), {"own columns": 3, "columns of neighbours": 5}[made]
    X = np.random.default_rng(1).normal(size=(100, 3))
    told = model.predict(X, graph=path, nodes=[50])
    X[: 50 - reach], X[50 + reach + 1 :] = np.inf, np.inf  # refused wherever it is read
    assert model.predict(X, graph=path, nodes=[50]) == told
    X[50 + reach, 1] = np.inf
    with pytest.raises(ValueError, match="row 0, column 0"):  # counted as in X
        model.predict(X, graph=path, nodes=[50])


@pytest.mark.parametrize(
    "kind", [pd.DataFrame, pl.DataFrame, sparse.csc_array, np.asarray, np.ndarray.tolist]
)
def test_rows_are_taken_from_any_table(kind):
    X, y, graph = problem(seed=1)
    frame, nodes = pd.DataFrame(np.nan_to_num(X), columns=["a", "b", "c"]), np.array([5, 140, 5, 0])
    named = kind in (pd.DataFrame, pl.DataFrame)
    given = kind(frame if named else frame.to_numpy())
    model = eb.EBBSRegressor(8, smoothing=eb.Laplacian(), labels="none", random_state=0)
    model.fit(frame if named else frame.to_numpy(), y, graph=graph)
    assert np.array_equal(
        model.predict(given, graph=graph, nodes=nodes), model.predict(given, graph=graph)[nodes]
    )


def test_nodes_may_be_a_mask_may_repeat_and_must_be_there():
    model, mask = fitted(), np.zeros(150, dtype=bool)
    X, _, graph = problem()
    mask[[3, 7]] = True
    for ask in (
        lambda nodes: model.predict(nodes=nodes),
        lambda nodes: model.predict(X, graph=graph, nodes=nodes),
        model.predictor().predict,
    ):
        assert np.array_equal(ask(mask), ask([3, 7])) and np.array_equal(
            ask([7, 7]), ask([7]).repeat(2)
        )
        assert ask([]).shape == (0,)
        with pytest.raises(
            ValueError, match="nodes names row 150 at position 1, X has rows 0 to 149"
        ):
            ask([0, 150])
        with pytest.raises(TypeError, match="nodes must hold row positions"):
            ask([0.5])


def test_several_relations_and_signs_are_predicted_nearby_as_everywhere():
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


def changed(X, nodes, seed=3):
    X = X.copy()
    X[nodes] = np.random.default_rng(seed).normal(size=(len(nodes), 3))
    return X


@pytest.mark.parametrize("number", range(2 * len(SMOOTHERS)))
def test_an_update_gives_what_a_new_predictor_gives(models, number):
    model = models[number]
    X, _, graph = problem(seed=4)
    predictor = model.predictor(X, graph=graph)
    for nodes in ([17], [140, 3, 88], [17, 0]):
        X = changed(X, nodes, nodes[0])
        predictor.update(nodes, X[nodes])
        expected = model.predict(X, graph=graph)
        assert np.abs(predictor.predict() - expected).max() <= 1e-12
        assert np.abs(predictor.predict([3, 17]) - expected[[3, 17]]).max() <= 1e-12


@pytest.mark.parametrize("labels", ["field", "masked", "none"])
def test_an_update_hears_known_labels(labels):
    model = fitted(labels=labels)
    X, y, graph = problem(seed=4)
    known = None if labels == "none" else (np.arange(30), y[:30])
    predictor = model.predictor(X, graph=graph, new_labels=known)
    assert np.array_equal(predictor.predict(), model.predict(X, graph=graph, new_labels=known))
    X = changed(X, [31, 2])
    predictor.update([31, 2], X[[31, 2]])
    assert (
        np.abs(predictor.predict() - model.predict(X, graph=graph, new_labels=known)).max() < 1e-9
    )


def test_fitted_nodes_keep_their_labels_and_take_new_rows():
    model = fitted(labels="field")
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
def test_labels_are_heard_of_no_farther_than_it_matters(kind):
    rng = np.random.default_rng(0)
    place = rng.random((4000, 2))
    graph, X = (
        eb.Graph.build_knn(place[:, :1], k=6),
        np.hstack([place[:, 1:], rng.normal(size=(4000, 1))]),
    )
    y = np.sin(9 * place[:, 0]) + X[:, 0]
    y = y if kind is eb.EBBSRegressor else (y > 0.5).astype(int)
    model = kind(
        10,
        0.3,
        smoothing=eb.Laplacian(1.0, 2),
        labels="field",
        random_state=0,
        **MADE["own columns"],
    )
    known = rng.permutation(4000)[:2000]
    model.fit(X, y[known], nodes=known, graph=graph)
    predictor, before = model.predictor(X, graph=graph, new_labels=(known, y[known])), None
    for nodes in ([11], [3999, 5]):
        before = predictor.predict_proba() if kind is eb.EBBSClassifier else predictor.predict()
        X = X.copy()
        X[nodes] = 3.0 * rng.normal(size=(len(nodes), 2))
        predictor.update(nodes, X[nodes])
    told = predictor.predict_proba() if kind is eb.EBBSClassifier else predictor.predict()
    ask = model.predict_proba if kind is eb.EBBSClassifier else model.predict
    assert np.abs(told - ask(X, graph=graph, new_labels=(known, y[known]))).max() < 1e-7
    still = (told == before).reshape(4000, -1).all(axis=1)
    assert 0.5 < still.mean() < 1.0


@pytest.mark.parametrize("labels", ["none", "field"])
def test_a_classifier_serves_classes_and_probabilities(labels):
    model = fitted(eb.EBBSClassifier, labels=labels)
    X, _, graph = problem(seed=4)
    predictor = model.predictor(X, graph=graph)
    X = changed(X, [8])
    predictor.update([8], X[[8]])
    assert np.abs(predictor.predict_proba() - model.predict_proba(X, graph=graph)).max() <= 1e-12
    assert np.array_equal(predictor.predict([8, 1]), model.predict(X, graph=graph, nodes=[8, 1]))
    with pytest.raises(AttributeError, match="no probabilities"):
        fitted().predictor().predict_proba()


def test_without_a_graph_a_row_speaks_for_itself():
    X, y, _ = problem()
    model = eb.EBBSRegressor(8, random_state=0).fit(X, y)
    predictor = model.predictor(X)
    X = changed(X, list(range(149, -1, -1)))  # all of them, backwards
    predictor.update(np.arange(149, -1, -1), X[::-1])
    assert np.array_equal(predictor.predict(), model.predict(X))
    assert np.array_equal(model.predict(X, nodes=[4, 2]), model.predict(X)[[4, 2]])


def test_an_update_that_cannot_be_made_says_why(tmp_path):
    model = fitted(**MADE["columns of neighbours"])
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


def test_threads_share_a_model_and_a_predictor():
    model = fitted(n=150)
    X, _, graph = problem(seed=4)
    predictor, order = model.predictor(X, graph=graph), np.random.default_rng(0).permutation(150)
    rows = changed(X, list(range(150)))
    lone = [model.predict(rows, graph=graph, nodes=[i]) for i in range(150)]

    def work(number):
        mine, asked = order[number::8], []
        for node in mine:
            asked.append((node, model.predict(rows, graph=graph, nodes=[node])))
            predictor.update([node], rows[[node]])
            predictor.predict([node])
        return asked

    with ThreadPoolExecutor(8) as pool:
        for asked in pool.map(work, range(8)):
            assert all(np.array_equal(told, lone[node]) for node, told in asked)
    assert np.abs(predictor.predict() - model.predict(rows, graph=graph)).max() <= 1e-12


def test_a_reader_never_sees_half_an_update():
    model = fitted()
    X, _, graph = problem(seed=4)
    other = changed(X, list(range(150)))
    predictor, everyone = model.predictor(X, graph=graph), np.arange(150)
    whole = [model.predict(table, graph=graph) for table in (X, other)]

    def write():
        for step in range(20):
            predictor.update(everyone, (other, X)[step % 2])

    with ThreadPoolExecutor(8) as pool:
        writing = pool.submit(write)
        seen = [pool.submit(predictor.predict, everyone) for _ in range(200)]
        for read in seen:
            assert min(np.abs(read.result() - state).max() for state in whole) < 1e-9
        writing.result()


@pytest.mark.parametrize("made", MADE)
def test_a_predictor_can_be_sent_to_another_process(made):
    X, _, graph = problem()
    model = fitted(labels="field", **MADE[made])
    known = np.arange(40), np.arange(40) / 40.0
    predictor = model.predictor(X, graph=graph, new_labels=known)
    predictor.update([3], X[[5]])
    sent = pickle.loads(pickle.dumps(predictor))
    for one in (predictor, sent):
        one.update([7, 9], X[[8, 8]])
    assert np.allclose(sent.predict(), predictor.predict(), rtol=0.0, atol=1e-7)


def test_a_predictor_keeps_the_model_that_made_it_when_that_is_fitted_again():
    X, y, graph = problem()
    model = fitted()
    predictor, before = model.predictor(X, graph=graph), model.predict(X, graph=graph)
    model.fit(X, -y, graph=graph)
    predictor.update([3, 7], X[[3, 7]])
    assert np.allclose(predictor.predict(), before)
