"""A dot test and a closed-form test for every operator: add new ones to SMOOTHERS."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import Chebyshev
from scipy import sparse
from scipy.linalg import expm
from scipy.sparse.linalg import ArpackNoConvergence
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import ebboost as eb
from ebboost.backends.dask.collectives import SingleProcess
from ebboost.data.sharded import shard
from ebboost.propagation import IdentityOperator, SparseSolver, _matrix
from ebboost.propagation._cg import ratio
from ebboost.propagation._matrix import GraphMatrix, LaplacianSystem
from tests.propagation.closed_forms import (
    EXACT,
    METHODS,
    SMOOTHERS,
    dense_form,
    dense_kernel,
    dense_laplacian,
    describe_parameters,
    squared,
)
from tests.strategies import graphs, random_graph, signed_graphs


def fits_step(smoother: eb.Smoother, graph: eb.Graph) -> bool:
    if isinstance(smoother, eb.Kernel):
        return True
    return (
        not isinstance(smoother.step, float)
        or smoother.step <= 1 / LaplacianSystem(graph, smoother.lam, True).upper
    )


@pytest.mark.parametrize("smoother", SMOOTHERS, ids=describe_parameters)
@given(graph=graphs() | signed_graphs(), seed=st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_operator_equals_its_closed_form_and_passes_the_dot_test(smoother, graph, seed):
    if not fits_step(smoother, graph):
        return
    operator, dense = smoother.operator(graph), dense_form(smoother, graph)
    rng = np.random.default_rng(seed)
    u, v = rng.normal(size=(2, graph.n_nodes, 3))
    np.testing.assert_allclose(operator.apply(u), dense @ u, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(operator.adjoint(v), dense.T @ v, rtol=1e-8, atol=1e-9)
    assert np.sum(operator.apply(u) * v) == pytest.approx(
        np.sum(u * operator.adjoint(v)), rel=1e-9, abs=1e-9
    )
    np.testing.assert_allclose(
        operator.apply(u[:, 0]), operator.apply(u)[:, 0], rtol=1e-12, atol=1e-12
    )
    assert np.linalg.norm(dense, 2) <= operator.norm_bound * (1 + 1e-9)
    # The operator's own entries: those of a polynomial may be none where the exact ones are, within
    # its tolerance.
    assert not operator.nonnegative or operator.apply(np.eye(graph.n_nodes)).min() >= -1e-12
    if operator.magnitude is not None:
        assert (operator.magnitude.apply(np.eye(graph.n_nodes)) >= np.abs(dense) - 1e-9).all()
    single = operator.apply(u.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, dense @ u, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("smoother", SMOOTHERS, ids=describe_parameters)
def test_operators_do_not_change_their_input(smoother):
    graph = random_graph(20, 40)
    if not fits_step(smoother, graph):
        return
    scores = np.random.default_rng(0).normal(size=(20, 2))
    before = scores.copy()
    operator = smoother.operator(graph)
    operator.apply(scores)
    operator.adjoint(scores)
    np.testing.assert_array_equal(scores, before)


@pytest.mark.parametrize("method", METHODS)
def test_operator_is_a_scipy_linear_operator(method):
    operator = eb.Laplacian(2.0, 5, method=method).operator(random_graph(30, 60))
    u = np.random.default_rng(0).normal(size=(30, 2))
    np.testing.assert_allclose(operator @ u, operator.apply(u))
    np.testing.assert_allclose(operator.T @ u[:, 0], operator.adjoint(u[:, 0]))
    np.testing.assert_allclose(
        (operator @ operator).matvec(u[:, 0]), operator.apply(operator.apply(u[:, 0]))
    )


@given(graph=graphs(min_nodes=2), lam=st.floats(0.01, 20), k=st.integers(0, 12))
@settings(max_examples=50, deadline=None)
def test_steps_approach_the_inverse_as_fast_as_the_proof_says(graph, lam, k):
    """‖P^(k) − P*‖₂ ≤ e^{−μk/(2σ)} ‖P^(0) − P*‖₂ with the step 1/σ."""
    system = np.eye(graph.n_nodes) + lam * dense_laplacian(graph, False)
    eye, exact = np.eye(graph.n_nodes), np.linalg.inv(system)
    values = np.linalg.eigvalsh(system)
    steps = eb.Laplacian(lam, k, normalized=False, step="theorem").operator(graph).apply(eye)
    bound = np.exp(-values[0] * k / (2 * values[-1])) * np.linalg.norm(eye - exact, 2)
    assert np.linalg.norm(steps - exact, 2) <= bound + 1e-9


def test_chebyshev_needs_far_fewer_steps_than_gradient():
    graph = eb.Graph.from_edges(
        np.arange(199), np.arange(1, 200)
    )  # a path: the spectrum fills its whole interval
    exact = eb.Laplacian(50.0, normalized=False, method="exact").operator(graph).apply(np.eye(200))

    def error(method: str, k: int) -> float:
        operator = eb.Laplacian(50.0, k, normalized=False, method=method, step="theorem").operator(
            graph
        )
        return float(np.linalg.norm(operator.apply(np.eye(200)) - exact, 2))

    assert error("chebyshev", 40) < error("gradient", 400)


def test_a_system_is_refused_by_the_ratio_of_its_eigenvalues_not_by_their_size():
    adjacency = random_graph(30, 60).adjacency
    for size in (1e-20, 1.0, 1e20):
        SparseSolver(GraphMatrix(adjacency, np.full(30, 4e13 * size), 0.0), "", size)
        with pytest.raises(ValueError, match=r"too far apart for double precision\. Do this\.$"):
            SparseSolver(GraphMatrix(adjacency, np.full(30, 6e13 * size), 0.0), "Do this.", size)
    edge = eb.Graph.from_edges([0], [1])
    eb.Laplacian(4e13, method="exact", normalized=False).operator(edge)
    with pytest.raises(ValueError, match=r"precision\. lam=6.*is large for this graph"):
        eb.Laplacian(6e13, method="exact", normalized=False).operator(edge)


def test_a_ratio_to_zero_is_zero():
    np.testing.assert_array_equal(
        ratio(np.array([1.0, 0.0, 3.0]), np.array([2.0, 0.0, -1.0])), [0.5, 0.0, 0.0]
    )


@pytest.mark.parametrize("shape", [(30,), (30, 1), (30, 3)])
def test_without_edges_a_solution_is_a_division(shape, monkeypatch):
    monkeypatch.setattr(SparseSolver, "direct_up_to", 0)
    diagonal, right = np.linspace(1.0, 3.0, 30), np.random.default_rng(0).normal(size=shape)
    solver = SparseSolver(GraphMatrix(random_graph(30, 60).adjacency, diagonal, 0.0), "", 1.0)
    np.testing.assert_allclose(solver.solve(right), (right.T / diagonal).T)


@pytest.mark.parametrize("normalized", [True, False])
def test_conjugate_gradients_agree_with_the_factorisation(monkeypatch, normalized):
    graph = random_graph(300, 900)
    scores = np.random.default_rng(0).normal(size=(300, 3))
    smoother = eb.Laplacian(5.0, normalized=normalized, method="exact")
    direct = smoother.operator(graph).apply(scores)
    monkeypatch.setattr(SparseSolver, "direct_up_to", 0)
    np.testing.assert_allclose(smoother.operator(graph).apply(scores), direct, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(
        smoother.operator(graph).apply(scores[:, 0]), direct[:, 0], rtol=1e-8, atol=1e-9
    )
    np.testing.assert_array_equal(
        smoother.operator(graph).apply(np.zeros((300, 1))), np.zeros((300, 1))
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
@pytest.mark.parametrize("width", [1, 2])
def test_overflow_and_nan_give_nan_and_a_warning(bad, width, monkeypatch):
    monkeypatch.setattr(SparseSolver, "direct_up_to", 0)
    monkeypatch.setattr(SparseSolver, "max_iterations", 5)
    scores = np.ones((50, width))
    scores[3, 0] = bad
    with pytest.warns(ConvergenceWarning), np.errstate(all="ignore"):
        found = eb.Laplacian(2.0, method="exact").operator(random_graph(50, 100)).apply(scores)
    assert np.isnan(found[3, 0]) and np.isfinite(found[:, 1:]).all()


def test_largest_eigenvalue_is_bounded_closely_from_above():
    for normalized in (True, False):
        graph = random_graph(120, 400)
        upper = LaplacianSystem(graph, 3.0, normalized).upper
        true = np.linalg.eigvalsh(np.eye(120) + 3.0 * dense_laplacian(graph, normalized))[-1]
        assert true <= upper <= 1.011 * true
        system = LaplacianSystem(graph, 3.0, normalized)
        system.degrees = shard(system.degrees, SingleProcess())  # as in a worker of a cluster
        assert true <= system._largest_eigenvalue() <= 1.011 * true


@pytest.mark.parametrize(("normalized", "expected"), [(True, 7.0), (False, 13.0)])
def test_without_convergence_the_largest_eigenvalue_is_that_of_gershgorin(
    normalized, expected, monkeypatch
):
    def fail(*_, **__):
        raise ArpackNoConvergence("no convergence", np.empty(0), np.empty(0))

    monkeypatch.setattr(_matrix, "eigsh", fail)
    ring = eb.Graph.from_edges(np.arange(60), (np.arange(60) + 1) % 60)
    assert LaplacianSystem(ring, 3.0, normalized).upper == expected


def test_smoothing_keeps_constants_under_the_plain_laplacian():
    for method in METHODS:
        operator = eb.Laplacian(3.0, 4, normalized=False, method=method).operator(
            random_graph(50, 100)
        )
        np.testing.assert_allclose(operator.apply(np.full(50, 7.0)), 7.0)


@pytest.mark.parametrize(
    "smoother",
    [
        eb.Laplacian(2.0, 2),
        eb.Laplacian(2.0, 2, method="chebyshev"),
        eb.Kernel("diffusion"),
        eb.Kernel("laplacian", 0.0),
    ],
)
def test_sparse_scores_stay_sparse(smoother):
    scores = sparse.random_array((40, 8), density=0.1, format="csr", rng=np.random.default_rng(0))
    operator = smoother.operator(random_graph(40, 60))
    smoothed = operator.apply(scores)
    assert operator.takes_sparse and sparse.issparse(smoothed)
    np.testing.assert_allclose(smoothed.toarray(), operator.apply(scores.toarray()))


def test_the_identity_has_norm_one_and_changes_nothing():
    identity, u = IdentityOperator(3), np.arange(6.0).reshape(3, 2)
    assert identity.apply(u) is identity.adjoint(u) is u
    assert identity.norm_bound == np.linalg.norm(identity @ np.eye(3), 2) == 1.0


@pytest.mark.parametrize(
    ("smoother", "shown"),
    [(eb.Laplacian(3.0, 7, method="chebyshev"), "chebyshev"), (eb.Kernel(squared, 3.0), "squared")],
)
def test_smoothers_clone_and_print_their_parameters(smoother, shown):
    assert clone(smoother).get_params() == smoother.get_params()
    assert shown in repr(smoother)


NOT_NUMBERS = [np.nan, np.inf, "many", True]


@pytest.mark.parametrize(
    ("smoother", "name", "inside", "outside"),
    [
        (eb.Laplacian(), "lam", [0.0, 0.5], [-0.5]),
        (eb.Laplacian(), "n_steps", [0, 1], [-1, 0.5]),
        (eb.Laplacian(n_steps="auto"), "tol", [0.1, 2.0], [0.0, -0.1]),
        (eb.Laplacian(), "step", [1e-3], [0.0, -0.1, 5.0]),
        (eb.Kernel(), "lam", [0.0, 0.5], [-0.5]),
        (eb.Kernel(), "sigma", [0.5], [0.0, -0.5]),
        (eb.Kernel(), "a", [0.5], [0.0, -0.5]),
        (eb.Kernel("random-walk", a=3.0), "p", [1, 2], [0, 1.5]),
        (eb.Kernel(method="gradient"), "n_steps", [0, 1], [-1, 0.5]),
        (eb.Kernel(), "degree", [0, 500], [-1, 501, 0.5]),
        (eb.Kernel(), "tolerance", [1e-12, 0.5], [0.0, 1.0]),
        (eb.Robust(scale=1.0), "lam", [0.0, 0.5], [-0.5]),
        (eb.Robust(scale=1.0), "n_steps", [0, 1], [-1, 0.5]),
        (eb.Robust(scale=1.0), "penalty", [0.5, 2.0], [0.0, -0.5, 2.5]),
        (eb.Robust(), "scale", [0.5], [0.0, -0.5]),
    ],
)
def test_parameters_are_accepted_in_their_range_only(smoother, name, inside, outside):
    graph = random_graph(5, 5)
    for value in inside:
        clone(smoother).set_params(**{name: value}).operator(graph)
    for value in [*outside, *NOT_NUMBERS]:
        with pytest.raises(ValueError, match=f"^{name} must be"):
            clone(smoother).set_params(**{name: value}).operator(graph)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_steps": "auto", "lam": 1e6}, r"n_steps='auto' would take \d{7} steps"),
        ({"method": "magic"}, "method must be"),
        ({"step": "paper", "normalized": False}, "use 'theorem'"),
    ],
)
def test_wrong_settings_are_refused_by_name(parameters, message):
    with pytest.raises(ValueError, match=message):
        eb.Laplacian(**parameters).operator(random_graph(5, 5))


# ---------------------------------------------------------------------- kernels


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-8])
@pytest.mark.parametrize("r", ["laplacian", "diffusion", "random-walk", "inverse-cosine"])
def test_a_kernel_polynomial_has_the_least_degree_within_its_tolerance(r, tolerance):
    graph = eb.Graph.from_edges(
        np.arange(199), np.arange(1, 200)
    )  # a path: the spectrum fills its whole interval
    kernel = eb.Kernel(r, 2.0, p=3, sigma=2.0, tolerance=tolerance)
    operator, exact = kernel.operator(graph), dense_kernel(kernel, graph)
    error = np.linalg.norm(operator.apply(np.eye(200)) - exact, 2) / np.linalg.norm(exact, 2)
    assert 1e-3 * tolerance < error <= tolerance
    shorter = clone(kernel).set_params(degree=operator.degree - 2).operator(graph)
    assert np.linalg.norm(shorter.apply(np.eye(200)) - exact, 2) > tolerance * np.linalg.norm(
        exact, 2
    )


def test_the_regularised_kernel_is_the_laplacian_with_another_strength():
    graph = random_graph(40, 90)
    regularized = (
        eb.Kernel("regularized", 3.0, sigma=2.0, **EXACT).operator(graph).apply(np.eye(40))
    )
    laplacian = eb.Laplacian(3.0 * 2.0**2 / 4.0, method="exact").operator(graph).apply(np.eye(40))
    np.testing.assert_allclose(4.0 * regularized, laplacian, atol=1e-8)


def test_strong_diffusion_is_the_heat_kernel_and_a_strong_walk_the_walk():
    graph = random_graph(40, 90)
    L, eye = dense_laplacian(graph, True), np.eye(40)
    heat = 1e9 * eb.Kernel("diffusion", 1e9, sigma=1.5, **EXACT).operator(graph).apply(eye)
    np.testing.assert_allclose(heat, expm(-(1.5**2) / 2 * L), atol=1e-7)
    walk = 1e9 * eb.Kernel("random-walk", 1e9, a=2.5, p=3, **EXACT).operator(graph).apply(eye)
    np.testing.assert_allclose(walk, np.linalg.matrix_power(2.5 * eye - L, 3), atol=1e-5)


@given(
    graph=graphs(),
    lam=st.floats(0.01, 1e4),
    kernel=st.sampled_from(["diffusion", "random-walk", "inverse-cosine"]),
)
@settings(max_examples=40, deadline=None)
def test_magnitude_bounds_every_entry(graph, lam, kernel):
    operator = eb.Kernel(kernel, lam).operator(graph)
    if operator.magnitude is None:
        return
    eye = np.eye(graph.n_nodes)
    bound = operator.magnitude.apply(eye)
    assert operator.magnitude.nonnegative and operator.magnitude.magnitude is operator.magnitude
    assert (np.abs(operator.apply(eye)) <= bound + 1e-12).all()
    assert (
        np.linalg.norm(bound, 2)
        <= operator.magnitude.norm_bound * (1 + 1e-9)
        <= 2.0 * operator.norm_bound * (1 + 1e-9)
    )
    np.testing.assert_array_equal(operator.magnitude.adjoint(eye), bound)


def test_some_kernels_have_negative_entries_and_a_bound_on_them_others_neither():
    graph = eb.Graph.from_edges(np.arange(19), np.arange(1, 20))
    negative = {  # of the exact P; the heat kernel that strong diffusion is has none
        eb.Kernel("diffusion", 2.0, sigma=2.0): True,
        eb.Kernel("random-walk", 2.0): True,
        eb.Kernel("inverse-cosine", 2.0): True,
        eb.Kernel("laplacian", 0.5): False,
        eb.Kernel("diffusion", 100.0, sigma=1.0): False,
    }
    for kernel, expected in negative.items():
        operator = kernel.operator(graph)
        assert (dense_kernel(kernel, graph).min() < -1e-5) == expected
        assert operator.nonnegative == (not expected)
        assert (
            operator.magnitude is not None
            and (operator.magnitude is operator) == operator.nonnegative
        )
    for kernel in (eb.Kernel("random-walk", 2.0, p=12), eb.Kernel("regularized", 2.0, sigma=3.0)):
        assert kernel.operator(graph).magnitude is None  # larger than twice the norm


@pytest.mark.parametrize("kernel", [eb.Kernel("diffusion", sigma=3.0), eb.Kernel(degree=12)])
def test_norm_bound_of_a_kernel_is_the_largest_value_of_its_polynomial(kernel):
    operator = kernel.operator(random_graph(30, 60))
    values = Chebyshev(operator._coefficients)(np.linspace(-1.0, 1.0, 10_001))
    largest = np.abs(values).max()
    assert largest <= operator.norm_bound <= largest / np.cos(np.pi / 128)


def test_a_graph_without_edges_only_shrinks():
    scores = np.arange(3.0)
    for normalized in (True, False):
        operator = eb.Kernel("diffusion", 3.0, normalized=normalized).operator(
            eb.Graph.from_edges([], [], n_nodes=3)
        )
        np.testing.assert_allclose(operator.apply(scores), scores / 4.0, rtol=1e-4)


def test_frequencies_of_infinite_energy_are_multiplied_by_zero():
    """A star's spectrum comes close to 2, where two kernels have an infinite energy."""
    star = eb.Graph.from_edges(np.zeros(400, dtype=int), np.arange(1, 401))
    for r in ("random-walk", "inverse-cosine"):
        kernel = eb.Kernel(r, 2.0, **EXACT)
        np.testing.assert_allclose(
            kernel.operator(star).apply(np.eye(401)), dense_kernel(kernel, star), atol=1e-9
        )
    bipartite = eb.Graph.from_scipy(np.kron([[0, 1], [1, 0]], np.ones((150, 150))))
    assert LaplacianSystem(bipartite, 1.0, True).upper == 3.0
    assert eb.Kernel("random-walk", 2.0).operator(bipartite).norm_bound == pytest.approx(
        0.5, rel=1e-2
    )
    with pytest.raises(ValueError, match="is infinite at the end of this graph's spectrum"):
        eb.Kernel("random-walk", 2.0, method="gradient").operator(bipartite)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "exact"}, "method must be 'chebyshev' or 'gradient'"),
        ({"r": "heat"}, "r must be 'laplacian', .* got 'heat'"),
        ({"r": "random-walk", "a": 1.0}, r"a=1.0 must be at least 1\.\d+, .*Use a larger a\.$"),
        (
            {"r": "random-walk", "normalized": False},
            r"a=2.0 must be at least .* or normalized=True",
        ),
        ({"r": "inverse-cosine", "normalized": False}, "eigenvalues up to 2.*use normalized=True"),
        (
            {"r": lambda s: s - 1.0},
            r"at least 0 on this graph's eigenvalues.*r\(0\) is -1\. Bound it",
        ),
        ({"r": lambda s: 1.0 / s}, r"r\(0\) is inf"),
        ({"r": lambda s: np.log(s - 0.5)}, r"r\(0\) is nan"),
        ({"r": lambda s: math.exp(s)}, "np.exp, not math.exp"),
        ({"r": lambda s: s[:3]}, "a number for each"),
        (
            {"r": lambda s: np.where(s > 0.7, 1e3, 0.0)},
            "tolerance=0.0001 with r=.*choose the degree yourself",
        ),
    ],
)
def test_wrong_kernel_parameters_are_refused_by_name(parameters, message):
    with pytest.raises(ValueError, match=message):
        eb.Kernel(**parameters).operator(random_graph(30, 60))


def test_a_discontinuous_kernel_needs_a_degree():
    operator = eb.Kernel(lambda s: np.where(s > 0.7, 1e3, 0.0), degree=12).operator(
        random_graph(30, 60)
    )
    assert (
        operator.degree == 12 and operator.norm_bound > 1.0
    )  # Gibbs: the polynomial overshoots, and the bound says so


@pytest.mark.parametrize("method", METHODS)
def test_isolated_nodes_keep_their_scores_without_negative_entries(method):
    alone = eb.Graph.from_edges([], [], n_nodes=3)  # ‖I+λL‖ = 1: a step goes all the way
    operator = eb.Laplacian(1.0, 2, normalized=False, method=method).operator(alone)
    assert operator.nonnegative
    np.testing.assert_array_equal(operator.apply(np.eye(3)), np.eye(3))


def test_only_a_signed_graph_needs_an_operator_without_signs():
    path = eb.Graph.from_edges([0, 1], [1, 2])
    assert eb.Laplacian(1.0, 2).operator(path).unsigned is None
    signed = eb.Graph.mix(
        {"like": path, "unlike": eb.Graph.from_edges([0], [2])}, {"like": 1.0, "unlike": -1.0}
    )
    assert eb.Laplacian(1.0, 2).operator(signed).unsigned is not None


def test_the_message_names_the_longest_step():
    path = eb.Graph.from_edges([0, 1], [1, 2])  # eigenvalues of L are 0, 1 and 3
    with pytest.raises(ValueError, match=r"a number in \(0, 0\.25\]"):
        eb.Laplacian(1.0, 2, normalized=False, step=0.9).operator(path)


def test_scores_reach_as_many_edges_as_there_are_steps():
    graph = eb.Graph.from_edges(np.arange(9), np.arange(1, 10))
    for n_steps in (0, 1, 3):
        for smoother in (eb.Laplacian(2.0, n_steps), eb.Robust(2.0, n_steps, scale=1.0)):
            assert smoother.hops(graph) == n_steps
    assert eb.Laplacian(2.0, "auto").hops(graph) is None
    assert eb.Laplacian(2.0, method="exact").hops(graph) is None
