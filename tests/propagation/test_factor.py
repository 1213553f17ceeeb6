"""Factorisations: exact solutions, and graphs that fill in too much."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import ebboost as eb
from ebboost.boosting.latent_field import LatentField
from ebboost.propagation import _factor
from ebboost.propagation._factor import Factor, elimination_order


def system(seed, n_nodes, share):
    """A diagonally dominant matrix with entries of both signs."""
    rng = np.random.default_rng(seed)
    upper = sparse.triu(sparse.random_array((n_nodes, n_nodes), density=share, rng=rng), 1)
    upper.data -= 0.3
    adjacency = sparse.csr_array(upper + upper.T)
    diagonal = abs(adjacency).sum(axis=1) + rng.uniform(0.01, 2.0, n_nodes)
    return sparse.csr_array(sparse.diags_array(diagonal) - adjacency), rng


@given(st.integers(0, 10**6), st.integers(1, 40), st.sampled_from([0.0, 0.05, 0.5]))
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("ordered", [True, False])
def test_solution_is_that_of_the_dense_matrix(compiled, ordered, seed, n_nodes, share):
    matrix, rng = system(seed, n_nodes, share)
    order = rng.permutation(n_nodes).astype(np.int32) if ordered else None
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr(_factor, "COMPILED", None)
        factor = Factor(matrix, order)
    assert (np.sort(factor.order) == np.arange(n_nodes)).all()
    for right in (rng.normal(size=n_nodes), rng.normal(size=(n_nodes, 3))):
        expected = np.linalg.solve(matrix.toarray(), right)
        np.testing.assert_allclose(factor.solve(right), expected, rtol=1e-9, atol=1e-12)


def test_graphs_in_the_plane_are_factorised_and_dense_random_ones_are_not():
    rng = np.random.default_rng(0)
    plane = eb.Graph.build_knn(rng.uniform(size=(3_000, 2)), k=6)
    order = elimination_order(plane.adjacency, plane)
    assert (np.sort(order) == np.arange(3_000)).all()
    assert elimination_order(plane.adjacency, plane) is order  # found once
    ends = rng.integers(0, 3_000, (2, 30_000))
    social = eb.Graph.from_edges(*ends, n_nodes=3_000)
    assert elimination_order(social.adjacency, social) is None


def test_large_graphs_are_not_factorised(monkeypatch):
    monkeypatch.setattr(_factor, "MAX_NODES", 99)
    graph = eb.Graph.build_knn(np.random.default_rng(0).uniform(size=(100, 2)), k=3)
    assert elimination_order(graph.adjacency, graph) is None


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
