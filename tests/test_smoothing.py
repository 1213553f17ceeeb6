"""One dot test and one closed-form test for every operator, present and future: add new ones to SMOOTHERS."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import ebbflow as eb
from ebbflow.smoothing import IdentityOperator
from ebbflow.smoothing._solve import SparseSolver
from ebbflow.smoothing._system import LaplacianSystem
from tests.strategies import graphs, random_graph, signed_graphs

METHODS = ["gradient", "jacobi", "chebyshev", "exact"]
SMOOTHERS = [
    eb.Laplacian(lam, n_steps, normalized=normalized, method=method)
    for lam, n_steps in [(0.0, 3), (0.5, 1), (2.0, 5), (20.0, 4), (2.0, 0)]
    for normalized in (True, False)
    for method in METHODS
] + [eb.Laplacian(2.0, 5, step="theorem"), eb.Laplacian(2.0, 5, step=0.1), eb.Laplacian(2.0, 5, step="paper")]


def dense_laplacian(graph: eb.Graph, normalized: bool) -> np.ndarray:
    adjacency = graph.adjacency.toarray()
    if not normalized:
        return np.diag(np.abs(adjacency).sum(1)) - adjacency
    looped = adjacency + np.eye(graph.n_nodes)
    root = 1 / np.sqrt(np.abs(looped).sum(1))
    return np.eye(graph.n_nodes) - root[:, None] * looped * root


def dense_form(smoother: eb.Laplacian, graph: eb.Graph) -> np.ndarray:
    """P from its definition, written with dense matrices and nothing of the library but the step size."""
    eye = np.eye(graph.n_nodes)
    system = eye + smoother.lam * dense_laplacian(graph, smoother.normalized)
    if smoother.method == "exact":
        return np.linalg.inv(system)
    if smoother.method == "chebyshev":
        # P = A⁻¹ + r_k(A)(I − A⁻¹) with r_k the scaled Chebyshev polynomial, through the eigenvalues.
        upper = LaplacianSystem(graph, smoother.lam, smoother.normalized).upper
        values, vectors = np.linalg.eigh(system)
        if upper <= 1 or smoother.n_steps == 0:
            return eye
        cheb = np.polynomial.chebyshev.Chebyshev.basis(smoother.n_steps)
        shift = (upper + 1) / (upper - 1)
        residual = cheb((upper + 1 - 2 * values) / (upper - 1)) / cheb(shift)
        return vectors @ np.diag(1 / values + residual * (1 - 1 / values)) @ vectors.T
    if smoother.method == "jacobi":
        scale = np.diag(1 / np.diag(system))
    elif smoother.step == "theorem" or (smoother.step == "auto" and not smoother.normalized):
        scale = eye / LaplacianSystem(graph, smoother.lam, smoother.normalized).upper
    elif isinstance(smoother.step, float):
        scale = smoother.step * eye
    else:
        scale = eye / (1 + smoother.lam)
    z = eye
    for _ in range(smoother.n_steps):
        z = z - scale @ (system @ z - eye)
    return z


def fits_step(smoother: eb.Laplacian, graph: eb.Graph) -> bool:
    return not isinstance(smoother.step, float) or smoother.step <= 1 / LaplacianSystem(graph, smoother.lam, True).upper


@pytest.mark.parametrize("smoother", SMOOTHERS, ids=repr)
@given(graph=graphs() | signed_graphs(), seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_operator_equals_its_closed_form_and_passes_the_dot_test(smoother, graph, seed):
    if not fits_step(smoother, graph):
        return
    operator, dense = smoother.on(graph), dense_form(smoother, graph)
    rng = np.random.default_rng(seed)
    u, v = rng.normal(size=(2, graph.n_nodes, 3))
    np.testing.assert_allclose(operator.apply(u), dense @ u, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(operator.adjoint(v), dense.T @ v, rtol=1e-8, atol=1e-9)
    assert np.sum(operator.apply(u) * v) == pytest.approx(np.sum(u * operator.adjoint(v)), rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(operator.apply(u[:, 0]), operator.apply(u)[:, 0], rtol=1e-12, atol=1e-12)
    assert np.linalg.norm(dense, 2) <= operator.norm_bound * (1 + 1e-9)
    assert not operator.nonnegative or dense.min() >= -1e-12
    if operator.magnitude is not None:
        assert (operator.magnitude.apply(np.eye(graph.n_nodes)) >= np.abs(dense) - 1e-9).all()
    single = operator.apply(u.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, dense @ u, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("smoother", SMOOTHERS, ids=repr)
def test_operator_leaves_its_input_alone(smoother):
    graph = random_graph(20, 40)
    if not fits_step(smoother, graph):
        return
    scores = np.random.default_rng(0).normal(size=(20, 2))
    before = scores.copy()
    operator = smoother.on(graph)
    operator.apply(scores)
    operator.adjoint(scores)
    np.testing.assert_array_equal(scores, before)


@pytest.mark.parametrize("method", METHODS)
def test_operator_is_a_scipy_linear_operator(method):
    operator = eb.Laplacian(2.0, 5, method=method).on(random_graph(30, 60))
    u = np.random.default_rng(0).normal(size=(30, 2))
    np.testing.assert_allclose(operator @ u, operator.apply(u))
    np.testing.assert_allclose(operator.T @ u[:, 0], operator.adjoint(u[:, 0]))
    np.testing.assert_allclose((operator @ operator).matvec(u[:, 0]), operator.apply(operator.apply(u[:, 0])))


@given(graph=graphs(min_nodes=2), lam=st.floats(0.01, 20), k=st.integers(0, 12))
@settings(max_examples=100, deadline=None)
def test_steps_approach_the_inverse_as_fast_as_the_proof_says(graph, lam, k):
    """‖P^(k) − P*‖₂ ≤ e^{−μk/(2σ)} ‖P^(0) − P*‖₂ with the step 1/σ."""
    system = np.eye(graph.n_nodes) + lam * dense_laplacian(graph, False)
    eye, exact = np.eye(graph.n_nodes), np.linalg.inv(system)
    values = np.linalg.eigvalsh(system)
    steps = eb.Laplacian(lam, k, normalized=False, step="theorem").on(graph).apply(eye)
    bound = np.exp(-values[0] * k / (2 * values[-1])) * np.linalg.norm(eye - exact, 2)
    assert np.linalg.norm(steps - exact, 2) <= bound + 1e-9


def test_chebyshev_needs_far_fewer_steps_than_gradient():
    graph = eb.Graph.from_edges(np.arange(199), np.arange(1, 200))  # a path: the spectrum fills its whole interval
    exact = eb.Laplacian(50.0, normalized=False, method="exact").on(graph).apply(np.eye(200))

    def error(method: str, k: int) -> float:
        operator = eb.Laplacian(50.0, k, normalized=False, method=method, step="theorem").on(graph)
        return float(np.linalg.norm(operator.apply(np.eye(200)) - exact, 2))

    assert error("chebyshev", 40) < error("gradient", 400)


@pytest.mark.parametrize("normalized", [True, False])
def test_conjugate_gradients_agree_with_the_factorisation(monkeypatch, normalized):
    graph = random_graph(300, 900)
    scores = np.random.default_rng(0).normal(size=(300, 3))
    smoother = eb.Laplacian(5.0, normalized=normalized, method="exact")
    direct = smoother.on(graph).apply(scores)
    monkeypatch.setattr(SparseSolver, "direct_up_to", 0)
    np.testing.assert_allclose(smoother.on(graph).apply(scores), direct, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(smoother.on(graph).apply(scores[:, 0]), direct[:, 0], rtol=1e-8, atol=1e-9)
    np.testing.assert_array_equal(smoother.on(graph).apply(np.zeros((300, 1))), np.zeros((300, 1)))


def test_a_solver_that_did_not_converge_says_so(monkeypatch):
    monkeypatch.setattr(SparseSolver, "direct_up_to", 0)
    monkeypatch.setattr(SparseSolver, "max_iterations", 2)
    operator = eb.Laplacian(1e4, normalized=False, method="exact").on(random_graph(300, 900))
    with pytest.warns(ConvergenceWarning, match="relative residual"):
        operator.apply(np.random.default_rng(0).normal(size=300))


def test_largest_eigenvalue_is_bounded_closely_from_above():
    for normalized in (True, False):
        graph = random_graph(120, 400)
        upper = LaplacianSystem(graph, 3.0, normalized).upper
        true = np.linalg.eigvalsh(np.eye(120) + 3.0 * dense_laplacian(graph, normalized))[-1]
        assert true <= upper <= 1.011 * true


def test_smoothing_keeps_constants_under_the_plain_laplacian():
    for method in METHODS:
        operator = eb.Laplacian(3.0, 4, normalized=False, method=method).on(random_graph(50, 100))
        np.testing.assert_allclose(operator.apply(np.full(50, 7.0)), 7.0)


def test_sparse_scores_stay_sparse():
    from scipy import sparse

    scores = sparse.random_array((40, 8), density=0.1, format="csr", rng=np.random.default_rng(0))
    operator = eb.Laplacian(2.0, 2).on(random_graph(40, 60))
    smoothed = operator.apply(scores)
    assert sparse.issparse(smoothed)
    np.testing.assert_allclose(smoothed.toarray(), operator.apply(scores.toarray()))


def test_identity_changes_nothing():
    u = np.arange(6.0).reshape(3, 2)
    assert IdentityOperator(3).apply(u) is u
    assert IdentityOperator(3).adjoint(u) is u


def test_smoothers_clone_and_print_their_parameters():
    smoother = eb.Laplacian(3.0, 7, method="chebyshev")
    assert clone(smoother).get_params() == smoother.get_params()
    assert "chebyshev" in repr(smoother)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"lam": -1.0}, "lam must be"),
        ({"lam": float("nan")}, "lam must be"),
        ({"lam": "strong"}, "lam must be"),
        ({"n_steps": -1}, "n_steps must be"),
        ({"n_steps": 2.5}, "n_steps must be"),
        ({"n_steps": "many"}, "n_steps must be"),
        ({"n_steps": "auto", "tol": 0.0}, "tol must be"),
        ({"n_steps": "auto", "lam": 1e6}, "n_steps='auto' would take"),
        ({"method": "magic"}, "method must be"),
        ({"step": "paper", "normalized": False}, "use 'theorem'"),
        ({"step": 5.0}, "step must be"),
        ({"step": "long"}, "step must be"),
    ],
)
def test_wrong_settings_are_refused_by_name(parameters, message):
    with pytest.raises(ValueError, match=message):
        eb.Laplacian(**parameters).on(random_graph(5, 5))
