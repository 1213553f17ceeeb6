"""Factorisations: exact solutions and variances, and graphs that fill in too much."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import ebboost as eb
from ebboost.boosting.latent_field import LatentField
from ebboost.propagation import GraphMatrix, SparseSolver, _factor
from ebboost.propagation._factor import Factor, elimination

pytestmark = pytest.mark.skipif(_factor.COMPILED is None, reason="the loops were not compiled here")


class Iterative(SparseSolver):
    """Small matrices are not factorised."""

    direct_up_to = 0


@given(st.integers(0, 10**6), st.integers(1, 40), st.sampled_from([0.0, 0.05, 0.2, 0.9]))
def test_solutions_and_variances_are_those_of_the_dense_matrix(seed, n_nodes, share):
    rng = np.random.default_rng(seed)
    upper = sparse.triu(sparse.random_array((n_nodes, n_nodes), density=share, rng=rng), 1)
    upper.data -= 0.3  # weights of both signs
    adjacency = sparse.csr_array(upper + upper.T)
    root = rng.uniform(0.5, 2.0, n_nodes)
    row_sums = root * (abs(adjacency) @ root)
    matrix = GraphMatrix(adjacency, 0.7 * row_sums + rng.uniform(0.01, 2.0, n_nodes), 0.7, root)
    pattern = elimination(adjacency, matrix.sweep)
    assert elimination(adjacency, matrix.sweep) is pattern  # found once
    factor = Factor(matrix, pattern)
    dense = matrix.csr.toarray()
    for right in (rng.normal(size=n_nodes), rng.normal(size=(n_nodes, 3))):
        expected = np.linalg.solve(dense, right)
        np.testing.assert_allclose(factor.solve(right), expected, rtol=1e-8, atol=1e-11)
    variances = np.diag(np.linalg.inv(dense))
    np.testing.assert_allclose(factor.inverse_diagonal(), variances, rtol=1e-8)
    other = GraphMatrix(adjacency, rng.uniform(1.0, 9.0, n_nodes) * matrix.diagonal, 0.7, root)
    right = rng.normal(size=n_nodes)
    solution = Iterative(other, "", 0.01, near=factor).solve(right, 1e-10)
    expected = np.linalg.solve(other.csr.toarray(), right)
    np.testing.assert_allclose(solution, expected, rtol=1e-6, atol=1e-8)


def test_graphs_in_the_plane_are_factorised_and_dense_random_ones_are_not():
    rng = np.random.default_rng(0)
    plane = eb.Graph.build_knn(rng.uniform(size=(10_000, 2)), k=6)
    pattern = elimination(plane.adjacency, plane)
    assert (np.sort(pattern.order) == np.arange(10_000)).all()
    edges = sparse.triu(plane.adjacency).coords
    weighted = eb.Graph.from_edges(*edges, weight=rng.uniform(0.1, 50.0, edges[0].size))
    again = elimination(weighted.adjacency, weighted)
    np.testing.assert_array_equal(again.order, pattern.order)  # whatever the weights
    ends = rng.integers(0, 3_000, (2, 30_000))
    social = eb.Graph.from_edges(*ends, n_nodes=3_000)
    assert elimination(social.adjacency, social) is None


@pytest.mark.parametrize("n_nodes", [1, 2, 30])
def test_fill_is_that_of_trees_and_complete_graphs(n_nodes):
    """A tree has an entry of L for each edge, a complete graph all entries below the diagonal."""
    path = eb.Graph.from_edges(np.arange(n_nodes - 1), np.arange(1, n_nodes), n_nodes=n_nodes)
    assert elimination(path.adjacency, path).fill == pytest.approx(2 - 1 / n_nodes)
    complete = eb.Graph.from_scipy(np.ones((n_nodes, n_nodes)) - np.eye(n_nodes))
    assert elimination(complete.adjacency, complete).fill == pytest.approx((n_nodes + 1) / 2)


def test_large_graphs_are_not_factorised(monkeypatch):
    monkeypatch.setattr(_factor, "SMALL", 0)
    monkeypatch.setattr(_factor, "MAX_NODES", 99)
    graph = eb.Graph.build_knn(np.random.default_rng(0).uniform(size=(100, 2)), k=3)
    assert elimination(graph.adjacency, graph) is None


def test_a_factorised_field_is_that_of_conjugate_gradients():
    rng = np.random.default_rng(1)
    graph = eb.Graph.build_knn(rng.uniform(size=(1_500, 2)), k=5)
    nodes = np.arange(0, 1_500, 7)
    field = LatentField(3.0, 0.01).operator(graph, nodes, np.ones(nodes.size))
    residuals = rng.normal(size=(nodes.size, 2))
    before = field.posterior_mean(residuals)
    field.factorize()
    after = field.posterior_mean(residuals)
    assert not np.array_equal(before, after)
    np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-8)


def test_the_factor_of_a_near_matrix_does_not_change_solutions():
    rng = np.random.default_rng(1)
    graph = eb.Graph.build_knn(rng.uniform(size=(1_500, 2)), k=5)
    nodes = np.arange(0, 1_500, 3)
    field = LatentField(3.0, 0.01).operator(graph, nodes, np.ones(nodes.size))
    curvature = rng.uniform(0.01, 0.25, (nodes.size, 2))
    right = rng.normal(size=(1_500, 2))
    before = field.solve_system(curvature, right, 1e-10)
    field.factorize(np.full_like(curvature, 0.1))
    after = field.solve_system(curvature, right, 1e-10)
    assert not np.array_equal(before, after)
    np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-8)


def test_graphs_in_space_are_rejected_by_the_growth_of_their_neighbourhoods(monkeypatch):
    """A factor of n nodes has about n^⅓ times as many entries: that of all is not computed."""
    graph = eb.Graph.build_knn(np.random.default_rng(0).uniform(size=(8_000, 3)), k=8)
    sizes = []
    pattern = _factor._pattern
    monkeypatch.setattr(_factor, "_pattern", lambda a: sizes.append(a.shape[0]) or pattern(a))
    assert elimination(graph.adjacency, graph) is None
    assert sizes == [500, 2_000]


def test_a_sparse_random_graph_is_rejected_before_any_elimination(monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr(_factor, "spilu", None)  # took a minute for 20 000 nodes
    for n_edges in (8_000, 12_000):  # neighbourhoods of the first are trees, which do not fill in
        graph = eb.Graph.from_edges(*rng.integers(0, 4_000, (2, n_edges)), n_nodes=4_000)
        assert elimination(graph.adjacency, graph) is None
