"""Columns of the spectral embedding, in closed form and in a fitted model."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.extmath import randomized_svd

import ebboost as eb
from ebboost.backends.dask.sharding import Partition, shard_graph
from ebboost.data.spectral import spectral_columns, spectral_vectors, unit_of_weights
from tests.backends.dask.threads import in_threads
from tests.strategies import graphs

FIXED = {"smoothing": eb.Laplacian(1.0, 2), "labels": "field", "n_folds": 1, "random_state": 0}


def dense(graph, normalized):
    adjacency = abs(graph.adjacency.toarray())
    if not normalized:
        return adjacency
    scale = 1.0 / np.sqrt(np.where(adjacency.sum(1) > 0, adjacency.sum(1), 1.0))
    return scale[:, None] * adjacency * scale


@given(graphs(), st.integers(1, 5))
@settings(max_examples=25)
def test_columns_are_two_matrices_times_their_singular_vectors(graph, n_components):
    vectors = spectral_vectors(graph, n_components, 0)
    columns = spectral_columns(graph, vectors)
    n_first = -(-vectors.shape[1] // 2)
    halves = [(True, slice(n_first)), (False, slice(n_first, None))]
    for normalized, own in halves:
        matrix = dense(graph, normalized)
        unit = 1.0 if normalized else unit_of_weights(graph)
        expected = matrix / unit @ (unit * vectors[:, own])
        np.testing.assert_allclose(columns[:, own], expected, atol=1e-6)
        matrix /= unit
        size = np.abs(matrix).max(initial=1.0)
        # As many as the matrix has singular values; columns of 0 for others.
        singular = np.linalg.svd(matrix, compute_uv=False)[: expected.shape[1]]
        is_some = (singular > 1e-6 * size).astype(float)
        gram = unit * vectors[:, own].T @ (unit * vectors[:, own])
        np.testing.assert_allclose(gram, np.diag(is_some), atol=1e-4)
        # Products make the leading ones converge; the last have singular values close to others.
        reached = np.linalg.norm(expected, axis=0)
        assert (reached <= singular + 1e-5 * size).all()
        assert (reached >= 0.9 * singular - 1e-5 * size).all()


def test_vectors_are_those_of_the_randomized_decomposition_of_scikit_learn():
    graph = eb.Graph.build_knn(np.random.default_rng(0).random((300, 2)), k=5)
    seeds = np.random.RandomState(3).randint(np.iinfo(np.int32).max, size=2)
    expected = [
        randomized_svd(dense(graph, own), 6, n_oversamples=8, n_iter=7, random_state=seed)[2].T
        for own, seed in zip((True, False), seeds, strict=True)
    ]
    expected[1] /= unit_of_weights(graph)
    assert graph.degrees.mean() < unit_of_weights(graph) <= 2.0 * graph.degrees.mean()
    np.testing.assert_allclose(spectral_vectors(graph, 12, 3), np.hstack(expected), atol=1e-6)


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40])
def test_columns_do_not_depend_on_the_unit_of_the_weights(unit):
    graph = eb.Graph.build_knn(np.random.default_rng(0).random((100, 2)), k=5)
    scaled = eb.Graph.from_scipy(graph.adjacency * unit)
    columns = [spectral_columns(one, spectral_vectors(one, 6, 0)) for one in (graph, scaled)]
    np.testing.assert_array_equal(*columns)


@pytest.mark.parametrize("count", [2, 3])
def test_workers_find_the_vectors_of_one_process(count):
    random = np.random.default_rng(1)
    graph = eb.Graph.build_knn(random.random((200, 2)), k=4)
    vectors = spectral_vectors(graph, 5, 0)
    ends = [0, *np.sort(random.choice(np.arange(1, 200), count - 1, replace=False)).tolist(), 200]
    partition = Partition(tuple((pair,) for pair in pairwise(ends)))

    def work(workers):
        own = shard_graph(partition.select(workers.rank, graph.adjacency), partition, workers)
        own = own.with_vectors(spectral_vectors(own, 5, 0))
        return np.asarray(own.vectors), np.asarray(spectral_columns(own, own.vectors))

    parts = in_threads(count, work)
    np.testing.assert_allclose(partition.join([one for one, _ in parts]), vectors, atol=1e-6)
    columns = partition.join([one for _, one in parts])
    np.testing.assert_allclose(columns, spectral_columns(graph, vectors), atol=1e-6)


@given(graphs(), st.data())
@settings(max_examples=25)
def test_rows_of_a_neighborhood_are_those_of_the_graph(graph, data):
    graph = graph.with_vectors(spectral_vectors(graph, 3, 0))
    node = data.draw(st.integers(0, graph.n_nodes - 1))
    near = graph.neighborhood(np.array([node]), 1)
    row = int(np.searchsorted(near.nodes, node))
    columns = spectral_columns(near.graph, near.graph.vectors)[row]
    np.testing.assert_allclose(columns, spectral_columns(graph, graph.vectors)[node], atol=1e-12)


@pytest.fixture(scope="module")
def fitted():
    """A grid whose labels depend on the position alone, and a model with spectral columns."""
    side = 12
    x, y = np.divmod(np.arange(side * side), side)
    graph = eb.Graph.build_knn(np.column_stack([x, y]).astype(float), k=4)
    X = np.random.default_rng(0).normal(size=(side * side, 2))
    labels = (x < side / 2).astype(float) + 0.1 * X[:, 0]
    model = eb.EBBSRegressor(20, spectral_features=eb.SpectralFeatures(4), **FIXED)
    return model.fit(X, labels, graph=graph), X, graph


def test_trees_split_spectral_columns(fitted):
    model, _, _ = fitted
    assert model.state_.column_origin[-4:] == (-1,) * 4
    assert (model.state_.ensemble.importances()[-4:] > 0).any()


def test_predictions_on_the_same_graph_are_those_of_the_fit(fitted, tmp_path):
    model, X, graph = fitted
    np.testing.assert_allclose(model.predict(X, graph=graph), model.predict())
    some = model.predict(X, graph=graph, nodes=[5, 77])
    np.testing.assert_allclose(some, model.predict()[[5, 77]])
    model.save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    np.testing.assert_array_equal(loaded.predict(X, graph=graph), model.predict(X, graph=graph))


def test_new_rows_have_columns_from_their_edges_to_fitted_nodes(fitted):
    model, X, graph = fitted
    twins = model.predict(X, attach=graph.adjacency.tocoo().coords)
    assert np.corrcoef(twins, model.predict())[0, 1] > 0.9
    alone = model.predict(X, attach=([0], [0]))
    assert np.std(twins) > 1.5 * np.std(alone[1:])


def test_nodes_of_an_unknown_graph_have_no_spectral_columns(fitted):
    _, X, graph = fitted
    parts = {**FIXED, "labels": "none", "spectral_features": eb.SpectralFeatures(4)}
    model = eb.EBBSRegressor(5, **parts).fit(X, X[:, 0], graph=graph)
    with pytest.warns(UserWarning, match="spectral columns are 0"):
        model.predict(X[:20], graph=eb.Graph.build_knn(X[:20], k=3))


def test_updated_rows_have_the_predictions_of_a_new_table(fitted):
    model, X, graph = fitted
    predictor = model.predictor(X, graph=graph)
    changed = X.copy()
    changed[7] += 1.0
    predictor.update([7], changed[[7]])
    np.testing.assert_allclose(predictor.predict(), model.predict(changed, graph=graph), atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"groups": [0, 0, 1, 1, 2, 2] * 24}, "not supported with groups"),
        ({"time": np.arange(144), "causal": True}, "must be None or 'auto' with causal=True"),
    ],
)
def test_spectral_columns_are_refused_where_they_have_no_meaning(fitted, arguments, match):
    _, X, graph = fitted
    model = eb.EBBSRegressor(2, spectral_features=eb.SpectralFeatures(4), n_folds=1)
    graph = None if "groups" in arguments else graph
    with pytest.raises(ValueError, match=match):
        model.fit(X, X[:, 0], graph=graph, **arguments)


def test_the_number_of_columns_must_be_positive(fitted):
    _, X, graph = fitted
    model = eb.EBBSRegressor(2, spectral_features=eb.SpectralFeatures(0), n_folds=1)
    with pytest.raises(ValueError, match="n_components"):
        model.fit(X, X[:, 0], graph=graph)
