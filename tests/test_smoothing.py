"""Operators against their dense definitions; norms, signs, adjoints, neighbourhoods, new rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

import ebboost as eb
from ebboost.smoothing import laplacian_system, largest_eigenvalue
from tests.strategies import graphs, random_graph

SMOOTHERS = [
    eb.Laplacian(lam, n_steps, normalized=normalized, method=method)
    for lam, n_steps in [(0.0, 3), (0.5, 1), (2.0, 5), (20.0, 4), (2.0, 0)]
    for normalized in (True, False)
    for method in ("gradient", "exact")
]


def dense_laplacian(graph, normalized):
    adjacency = graph.adjacency.toarray()
    if not normalized:
        return np.diag(adjacency.sum(axis=1)) - adjacency
    looped = adjacency + np.eye(graph.n_nodes)
    root = 1.0 / np.sqrt(looped.sum(axis=1))
    return np.eye(graph.n_nodes) - root[:, None] * looped * root


def dense(smoother, graph):
    """P from its definition: equation (3), or the steps (6)."""
    eye = np.eye(graph.n_nodes)
    system = eye + smoother.lam * dense_laplacian(graph, smoother.normalized)
    if smoother.method == "exact":
        return np.linalg.inv(system)
    alpha = 1.0 / (1.0 + smoother.lam)
    if not smoother.normalized:
        alpha = 1.0 / largest_eigenvalue(laplacian_system(graph, smoother.lam, False))
    z = eye
    for _ in range(smoother.n_steps):
        z = z - alpha * (system @ z - eye)
    return z


@pytest.mark.parametrize("smoother", SMOOTHERS, ids=repr)
@given(graph=graphs(), seed=st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_operators_are_their_definitions(smoother, graph, seed):
    operator, expected = smoother.operator(graph), dense(smoother, graph)
    rng = np.random.default_rng(seed)
    for shape in ((graph.n_nodes,), (graph.n_nodes, 3)):
        u, v = rng.normal(size=(2, *shape))
        np.testing.assert_allclose(operator.apply(u), expected @ u, atol=1e-9)
        product = np.vdot(operator.apply(u), v)  # dot test of the adjoint
        assert product == pytest.approx(np.vdot(u, operator.adjoint(v)), abs=1e-9)
    assert np.linalg.norm(expected, 2) <= operator.norm_bound * (1.0 + 1e-9)
    assert operator.nonnegative and expected.min() >= -1e-12


@pytest.mark.parametrize("normalized", [True, False])
def test_many_steps_reach_the_minimiser_of_the_energy(normalized):
    graph = random_graph(40, 80)
    scores = np.random.default_rng(0).normal(size=(40, 2))
    many = eb.Laplacian(3.0, 2000, normalized=normalized).operator(graph).apply(scores)
    exact = eb.Laplacian(3.0, normalized=normalized, method="exact").operator(graph).apply(scores)
    np.testing.assert_allclose(many, exact, atol=1e-8)
    L = dense_laplacian(graph, normalized)

    def energy(z):
        return ((z - scores) ** 2).sum() + 3.0 * np.trace(z.T @ L @ z)

    for seed in range(5):
        other = exact + 1e-2 * np.random.default_rng(seed).normal(size=exact.shape)
        assert energy(exact) < energy(other)


@given(graph=graphs(min_nodes=2), k=st.integers(0, 6), lam=st.floats(0.1, 20.0))
@settings(max_examples=40, deadline=None)
def test_steps_converge_as_fast_as_theorem_1_states(graph, k, lam):
    """‖P − P*‖ ≤ exp(−μk/2σ) ‖I − P*‖, with μ and σ the ends of the spectrum of I + λL."""
    eye = np.eye(graph.n_nodes)
    values = np.linalg.eigvalsh(eye + lam * dense_laplacian(graph, False))
    exact = eb.Laplacian(lam, normalized=False, method="exact").operator(graph).apply(eye)
    steps = eb.Laplacian(lam, k, normalized=False).operator(graph).apply(eye)
    bound = np.exp(-values[0] * k / (2 * values[-1])) * np.linalg.norm(eye - exact, 2)
    assert np.linalg.norm(steps - exact, 2) <= bound + 1e-9


@pytest.mark.parametrize("normalized", [True, False])
def test_the_largest_eigenvalue_is_bounded_closely_from_above(normalized):
    for n_nodes in (20, 120):
        graph = random_graph(n_nodes, 4 * n_nodes)
        bound = largest_eigenvalue(laplacian_system(graph, 3.0, normalized))
        true = np.linalg.eigvalsh(np.eye(n_nodes) + 3.0 * dense_laplacian(graph, normalized))[-1]
        assert true <= bound * (1 + 1e-9) and bound <= 1.011 * true


@pytest.mark.parametrize("method", ["gradient", "exact"])
def test_the_plain_laplacian_keeps_constants_and_both_keep_isolated_nodes(method):
    graph = random_graph(50, 100)
    plain = eb.Laplacian(3.0, 4, normalized=False, method=method).operator(graph)
    np.testing.assert_allclose(plain.apply(np.full(50, 7.0)), 7.0)
    alone = eb.Graph.from_edges([0], [1], n_nodes=4)
    for normalized in (True, False):
        operator = eb.Laplacian(3.0, 4, normalized=normalized, method=method).operator(alone)
        np.testing.assert_allclose(operator.apply(np.arange(4.0))[2:], [2.0, 3.0])


@given(graph=graphs(), seed=st.integers(0, 100), n_steps=st.integers(0, 4))
@settings(max_examples=40, deadline=None)
def test_rows_that_matter_at_some_rows_give_the_same_scores_there(graph, seed, n_steps):
    rng = np.random.default_rng(seed)
    wanted = np.unique(rng.integers(0, graph.n_nodes, 2))
    for normalized in (True, False):
        operator = eb.Laplacian(2.0, n_steps, normalized=normalized).operator(graph)
        near, inner = operator.around(wanted) or (np.arange(graph.n_nodes), operator)
        scores = rng.normal(size=(graph.n_nodes, 2))
        whole = operator.apply(scores)[wanted]
        part = inner.apply(scores[near])[np.searchsorted(near, wanted)]
        np.testing.assert_allclose(part, whole, atol=1e-12)
        on_rows = np.zeros((graph.n_nodes, 1))
        on_rows[wanted] = rng.normal(size=(wanted.size, 1))
        np.testing.assert_allclose(
            inner.adjoint(on_rows[near]), operator.adjoint(on_rows)[near], atol=1e-12
        )
    assert eb.Laplacian(method="exact").operator(graph).around(wanted) is None


def joined(graph, edges):
    """The adjacency of a graph and of new nodes with edges to it."""
    corner = np.zeros((edges.shape[0], edges.shape[0]))
    return np.block([[graph.adjacency.toarray(), edges.T], [edges, corner]])


@pytest.mark.parametrize("smoother", [one for one in SMOOTHERS if one.n_steps], ids=repr)
def test_new_nodes_minimise_the_energy_given_the_fitted_ones(smoother):
    """The fitted scores and degrees stay as they are, as new nodes must not change them."""
    graph = random_graph(12, 30)
    rng = np.random.default_rng(0)
    edges = rng.random((3, 12)) * (rng.random((3, 12)) < 0.4)
    edges[2] = 0.0
    scores, near = rng.normal(size=(3, 2)), rng.normal(size=(12, 2))
    own, degrees = edges.sum(axis=1), graph.degrees
    diagonal, pull = 1.0 + smoother.lam * own, edges
    if smoother.normalized:
        diagonal = 1.0 + smoother.lam - smoother.lam / (own + 1.0)
        pull = edges / np.sqrt(own + 1.0)[:, None] / np.sqrt(degrees + 1.0)
    minimum = (scores + smoother.lam * pull @ near) / diagonal[:, None]
    exact = clone(smoother).set_params(method="exact")
    result = exact.join(scores, sparse.csr_array(edges), near, degrees)
    np.testing.assert_allclose(result, minimum, atol=1e-12)
    many = clone(smoother).set_params(method="gradient", n_steps=3000)
    result = many.join(scores, sparse.csr_array(edges), near, degrees)
    np.testing.assert_allclose(result, minimum, atol=1e-8)
    np.testing.assert_allclose(result[2], scores[2], atol=1e-8)  # without edges


@pytest.mark.parametrize("weight", [1e-300, 1e300, "mixed"])
def test_weights_near_the_ends_of_floats_give_finite_scores(weight):
    weights = np.full(49, weight) if weight != "mixed" else 10.0 ** np.linspace(-300, 300, 49)
    graph = eb.Graph.from_edges(np.arange(49), np.arange(1, 50), weights)
    scores = np.random.default_rng(0).normal(size=(50, 1))
    for method in ("gradient", "exact"):
        smoothed = eb.Laplacian(2.0, 3, method=method).operator(graph).apply(scores)
        assert np.isfinite(smoothed).all() and np.abs(smoothed).max() <= 10.0


def test_systems_beyond_double_precision_are_refused_with_a_remedy():
    edges = sparse.triu(random_graph(200, 800).adjacency, format="coo")
    weights = 10.0 ** np.random.default_rng(0).uniform(-300, 300, edges.nnz)
    graph = eb.Graph.from_edges(*edges.coords, weights, n_nodes=200)
    with pytest.raises(ValueError, match=r"double precision.*normalized=True"):
        eb.Laplacian(2.0, method="exact", normalized=False).operator(graph)


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("lam", [0.0, 0.5, np.float32(2.0)], [-0.5, np.nan, np.inf, "many", True]),
        ("n_steps", [0, 1, np.int64(3)], [-1, 0.5, np.nan, "many", True]),
        ("method", ["gradient", "exact"], ["chebyshev", None]),
    ],
)
def test_parameters_are_accepted_in_their_range_only(name, inside, outside):
    graph = random_graph(5, 5)
    for value in inside:
        eb.Laplacian().set_params(**{name: value}).operator(graph)
    for value in outside:
        with pytest.raises(ValueError, match=f"^{name} must be"):
            eb.Laplacian().set_params(**{name: value}).operator(graph)
