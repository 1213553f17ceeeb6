"""Products and systems of sparse symmetric matrices, against dense ones."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import ebboost as eb
from ebboost import _native
from ebboost.linalg import Solver, SparseMatrix, Structure, conjugate_gradients, fills_in_little
from ebboost.threads import threads
from tests.strategies import graphs, random_graph

needs_compiler = pytest.mark.skipif(_native.sweep is None, reason="the sweep is not compiled")


def symmetric(graph, diagonal):
    """diag(d + degrees) − A, with every entry of the diagonal stored."""
    matrix = sparse.csr_array(sparse.diags_array(diagonal + graph.degrees) - graph.adjacency)
    matrix.sort_indices()
    return matrix


@given(graph=graphs(max_nodes=30), seed=st.integers(0, 1000), width=st.integers(0, 21))
@settings(max_examples=60, deadline=None)
def test_a_sweep_is_the_product_of_dense_matrices(graph, seed, width):
    rng = np.random.default_rng(seed)
    shape = (graph.n_nodes,) if width == 0 else (graph.n_nodes, width)
    v, source = rng.normal(size=(2, *shape))
    dense = graph.adjacency.toarray()
    matrix = SparseMatrix(graph.adjacency)
    np.testing.assert_allclose(matrix @ v, dense @ v, atol=1e-12)
    expected = dense @ v - 0.7 * source
    np.testing.assert_allclose(matrix.times(v, -0.7, source), expected, atol=1e-12)
    single = matrix.times(v.astype(np.float32), -0.7, source.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, atol=2e-5 * (1 + np.abs(expected).max()))


@needs_compiler
@pytest.mark.parametrize("kind", [np.int64, np.int32])
def test_indices_of_64_bits_give_the_same_product(kind):
    graph = random_graph(40, 100)
    own = graph.adjacency
    wide = sparse.csr_array(own.shape)
    wide.indices, wide.indptr, wide.data = own.indices.astype(kind), own.indptr.astype(kind), own.data
    v = np.random.default_rng(0).normal(size=(40, 3))
    np.testing.assert_allclose(SparseMatrix(wide) @ v, own @ v, atol=1e-12)


@pytest.mark.parametrize("layout", ["strided", "fortran", "integers"])
def test_vectors_of_every_layout_are_taken(layout):
    graph = random_graph(30, 60)
    v = np.random.default_rng(0).integers(-9, 9, (30, 4)).astype(float)
    own = {
        "strided": np.repeat(v, 2, axis=0)[::2],
        "fortran": np.asfortranarray(v),
        "integers": v.astype(np.int64),
    }[layout]
    np.testing.assert_allclose(SparseMatrix(graph.adjacency) @ own, graph.adjacency @ v, atol=1e-12)


def test_a_vector_of_the_wrong_length_is_rejected():
    with pytest.raises(ValueError, match=r"a row for each of 5 nodes, got \(4, 2\)"):
        SparseMatrix(random_graph(5, 5).adjacency) @ np.zeros((4, 2))


def test_several_threads_give_bitwise_the_same_product():
    n = 300_000
    path = eb.Graph.from_edges(np.arange(n - 1), np.arange(1, n))
    v = np.random.default_rng(0).normal(size=(n, 2))
    matrix = SparseMatrix(path.adjacency)
    once = matrix @ v
    with threads(3):
        np.testing.assert_array_equal(matrix @ v, once)


def test_a_matrix_can_be_pickled():
    matrix = SparseMatrix(random_graph(20, 40).adjacency)
    again = pickle.loads(pickle.dumps(matrix))
    v = np.arange(20.0)
    np.testing.assert_array_equal(again @ v, matrix @ v)


@given(graph=graphs(), seed=st.integers(0, 1000), width=st.sampled_from([None, 0, 1, 3]))
@settings(max_examples=60, deadline=None)
def test_solutions_are_those_of_numpy(graph, seed, width):
    rng = np.random.default_rng(seed)
    matrix = symmetric(graph, rng.uniform(0.1, 2.0, graph.n_nodes))
    right = rng.normal(size=graph.n_nodes if width is None else (graph.n_nodes, width))
    solver = Solver(Structure(matrix), matrix.data)
    assert solver.is_direct
    expected = np.linalg.solve(matrix.toarray(), right)
    np.testing.assert_allclose(solver.solve(right), expected, rtol=1e-9, atol=1e-10)


def dense_problem(n=1500, seed=0):
    """A random graph, whose factors fill in: systems are solved by iteration."""
    graph = random_graph(n, 4 * n, seed)
    matrix = symmetric(graph, np.random.default_rng(seed).uniform(0.1, 2.0, n))
    return matrix, np.random.default_rng(seed + 1).normal(size=(n, 2))


def test_iteration_reaches_its_tolerance_in_every_column():
    matrix, right = dense_problem()
    right[:, 1] *= 1e-9
    solver = Solver(Structure(matrix), matrix.data)
    assert not solver.is_direct
    for tolerance in (1e-3, 1e-10):
        solution = solver.solve(right, tolerance)
        residual = np.linalg.norm(matrix @ solution - right, axis=0)
        assert (residual <= 1.01 * tolerance * np.linalg.norm(right, axis=0)).all()
    np.testing.assert_array_equal(solver.solve(np.zeros((1500, 1))), 0.0)
    np.testing.assert_allclose(solver.solve(right[:, 0]), solver.solve(right)[:, 0], rtol=1e-6)


def test_a_factor_of_a_matrix_with_another_diagonal_is_the_preconditioner():
    graph = eb.Graph.build_knn(np.random.default_rng(0).random((1500, 2)), k=4)
    rng = np.random.default_rng(0)
    one, other = (symmetric(graph, rng.uniform(0.5, 2.0, 1500)) for _ in range(2))
    structure = Structure(one)
    near = Solver(structure, one.data)
    assert near.is_direct
    solver = Solver(structure, other.data, near)
    assert not solver.is_direct
    right = rng.normal(size=(1500, 1))
    expected = Solver(structure, other.data).solve(right)
    np.testing.assert_allclose(solver.solve(right, 1e-12), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("scale", [1e-300, 1e-100, 1.0, 1e100, 1e300])
def test_systems_of_any_unit_are_solved(scale):
    matrix, right = dense_problem(1200)
    solver = Solver(Structure(matrix), scale * matrix.data)
    expected = np.linalg.solve(matrix.toarray(), right)
    np.testing.assert_allclose(scale * solver.solve(right), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("diagonal", [0.0, -1.0, np.inf, np.nan])
def test_matrices_that_are_not_positive_definite_are_refused(diagonal):
    data = np.array([1.0, diagonal, 1.0])
    matrix = sparse.csr_array((data, np.arange(3), np.arange(4)), shape=(3, 3))
    with pytest.raises(ValueError, match="not positive definite"):
        Solver(Structure(matrix), matrix.data)


def test_a_pattern_must_contain_the_diagonal():
    with pytest.raises(ValueError, match="diagonal"):
        Structure(random_graph(5, 8).adjacency)


def test_factors_are_used_where_they_are_sparse():
    rng = np.random.default_rng(0)
    plane = eb.Graph.build_knn(rng.random((4000, 2)), k=5)
    path = eb.Graph.from_edges(np.arange(3999), np.arange(1, 4000))
    star = eb.Graph.from_edges(np.zeros(3999, dtype=int), np.arange(1, 4000))
    for graph, expected in ((plane, True), (path, True), (random_graph(4000, 16_000), False)):
        pattern = symmetric(graph, np.ones(4000))
        assert fills_in_little(pattern) == expected
        assert Structure(pattern).is_factorised == expected
    assert not fills_in_little(symmetric(star, np.ones(4000)))  # one ring has all leaves


def test_iterations_that_do_not_converge_warn_with_a_remedy():
    matrix = np.diag(np.geomspace(1.0, 1e18, 400))
    right = np.ones((400, 1))
    with pytest.warns(ConvergenceWarning, match="smaller lam or a larger tau"):
        conjugate_gradients(lambda v: matrix @ v, right, lambda residual: residual, 1e-14)
