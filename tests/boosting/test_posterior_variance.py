"""Posterior variances of the latent field against dense inverses."""

import numpy as np
import pytest
from scipy import sparse

import ebboost as eb
from ebboost.boosting import posterior_variance
from ebboost.propagation import _solver
from tests.strategies import random_graph


def precision(posterior, curvature):
    matrix = posterior.prior.csr.toarray()
    matrix[posterior.nodes, posterior.nodes] += curvature
    return matrix


def field_on(graph, n_labels, seed=3):
    nodes = np.sort(np.random.default_rng(seed).choice(graph.n_nodes, n_labels, replace=False))
    return eb.LatentField(4.0, 0.1).operator(graph, nodes, np.ones(n_labels))


@pytest.mark.parametrize("factorised", [True, False])
def test_small_graphs_have_exact_variances(factorised, monkeypatch):
    graph = eb.Graph.build_knn(np.random.default_rng(1).random((80, 2)), k=4)
    posterior = field_on(graph, 30)
    if not factorised:
        monkeypatch.setattr(_solver, "elimination", lambda *_: None)
    curvature = np.linspace(0.2, 2.0, 30)
    exact = np.diag(np.linalg.inv(precision(posterior, curvature)))
    every = posterior.variances(curvature)
    np.testing.assert_allclose(every.values, exact)
    assert every.relative_error == 0.0
    few = posterior.variances(curvature, np.array([5, 70]))
    np.testing.assert_allclose(few.values, exact[[5, 70]])


@pytest.mark.parametrize("kind", ["path", "plane"])
def test_estimated_variances_are_within_their_stated_error(kind, monkeypatch):
    points = np.random.default_rng(1).random((1500, 2))
    graph = eb.Graph.build_knn(points, k=5)
    if kind == "path":
        graph = eb.Graph.from_edges(np.arange(1499), np.arange(1, 1500))
    posterior = field_on(graph, 700)
    exact = np.diag(np.linalg.inv(precision(posterior, np.ones(700))))
    monkeypatch.setattr(posterior_variance, "EXACT_UP_TO", 100)
    monkeypatch.setattr(_solver, "elimination", lambda *_: None)
    estimate = posterior.variances(np.ones(700))
    error = np.sqrt(np.mean((estimate.values / exact - 1.0) ** 2))
    assert error < 0.05
    assert 0.5 * estimate.relative_error - 0.01 < error < 2.0 * estimate.relative_error + 0.01
    diagonal = np.diag(precision(posterior, np.ones(700)))
    assert (1.0 / diagonal <= estimate.values).all() and (estimate.values <= 1.0 / 0.1).all()
    few, some = (posterior.variances(np.ones(700), np.arange(n)) for n in (16, 17))
    np.testing.assert_allclose(few.values, exact[:16], rtol=1e-5)
    np.testing.assert_array_equal(some.values, estimate.values[:17])
    assert (few.relative_error, some.relative_error) == (0.0, estimate.relative_error)
    monkeypatch.undo()
    np.testing.assert_allclose(posterior.variances(np.ones(700)).values, exact)


def test_triangles_of_hubs_are_not_counted(monkeypatch):
    leaves = np.arange(1, 3000)
    posterior = field_on(eb.Graph.from_edges(np.zeros_like(leaves), leaves), 700)
    monkeypatch.setattr(_solver, "elimination", lambda *_: None)
    monkeypatch.setattr(posterior_variance, "MAX_TRIANGLE_PRODUCTS", 1_000_000)
    monkeypatch.setattr(posterior_variance, "_triangles", None)  # an error if it is called
    estimate = posterior.variances(np.ones(700))
    assert (estimate.values > 0.0).all() and estimate.relative_error < 0.1


def test_weights_of_triangles_are_the_diagonal_of_the_cube():
    weights = np.random.default_rng(0).random((12, 12)) * (random_graph(12, 30).adjacency > 0)
    weights = np.triu(weights.toarray()) + np.triu(weights.toarray()).T
    expected = np.diag(np.linalg.matrix_power(weights, 3))
    triangles = posterior_variance._triangles(sparse.csr_array(weights))
    np.testing.assert_allclose(triangles, expected)


def test_belief_propagation_is_exact_on_a_tree():
    graph = eb.Graph.from_edges(np.repeat(np.arange(15), 2), np.arange(1, 31))
    posterior = field_on(graph, 10)
    matrix = posterior.prior.csr
    edges = matrix.copy()
    edges.setdiag(0.0)
    edges.eliminate_zeros()
    variances = posterior_variance.belief_propagation(edges, matrix.diagonal(), np.asarray)
    np.testing.assert_allclose(variances, np.diag(np.linalg.inv(matrix.toarray())), rtol=2e-3)


def test_rows_of_a_group_share_its_variance():
    group = np.array([0, 0, 1, 1, 1, 2])
    graph = eb.Graph.from_groups(group, eb.Graph.from_edges([0, 1], [1, 2]))
    posterior = eb.LatentField(2.0, 0.5).operator(graph, np.arange(5), np.ones(5))
    on_groups = eb.LatentField(2.0, 0.5).operator(graph.groups.graph, np.arange(2), np.ones(2))
    exact = on_groups.prior.csr.toarray()
    exact[[0, 1], [0, 1]] += [2.0, 3.0]
    variances = posterior.variances(np.ones(5)).values
    np.testing.assert_allclose(variances, np.diag(np.linalg.inv(exact))[group])
