"""Lemmas 1–3 against dense matrices on random graphs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebboost as eb
from tests.propagation.closed_forms import dense_form
from tests.strategies import graphs, random_graph

LAMBDAS = st.sampled_from([0.1, 1.0, 10.0, 300.0])


ROUGH = {"step": "theorem", "normalized": False}


def distance(smoother, graph, nodes=slice(None)):
    """‖P^(k) − P*‖₂, with dense matrices."""
    ideal = eb.Laplacian(smoother.lam, method="exact", normalized=smoother.normalized)
    return np.linalg.norm((dense_form(smoother, graph) - dense_form(ideal, graph))[nodes], 2)


@given(
    graph=graphs(min_nodes=2),
    lam=LAMBDAS,
    k=st.integers(0, 60),
    normalized=st.booleans(),
    m=st.integers(1, 12),
)
@settings(max_examples=80, deadline=None)
def test_error_of_k_steps_is_within_the_bound_of_the_proof(graph, lam, k, normalized, m):
    """‖P^(k) − P*‖ ≤ e^{−μk/2σ}‖P^(0) − P*‖ on all and on labelled rows; and c = μ/σ."""
    start, after = (
        eb.Laplacian(lam, steps, normalized=normalized, step="theorem") for steps in (0, k)
    )
    result = eb.convergence.constants(graph, after)
    for nodes in (slice(None), slice(0, min(m, graph.n_nodes))):
        error, first = distance(after, graph, nodes), distance(start, graph, nodes)
        assert error <= np.exp(-result.mu * k / (2 * result.sigma)) * first + 1e-9
        assert error <= np.exp(-result.mu * k / result.sigma) * first + 1e-9
    assert error <= result.error + 1e-9


@given(graph=graphs(min_nodes=2), lam=LAMBDAS, k=st.integers(0, 40), normalized=st.booleans())
@pytest.mark.parametrize("method", ["gradient", "jacobi", "chebyshev"])
@settings(max_examples=40, deadline=None)
def test_error_is_within_the_bound_of_each_method(method, graph, lam, k, normalized):
    smoother = eb.Laplacian(lam, k, normalized=normalized, method=method)
    assert (
        distance(smoother, graph)
        <= eb.convergence.constants(graph, smoother).error * (1 + 1e-9) + 1e-9
    )


@given(
    graph=graphs(min_nodes=2),
    lam=LAMBDAS,
    tol=st.sampled_from([0.3, 1e-2, 1e-5]),
    normalized=st.booleans(),
)
@pytest.mark.parametrize("method", ["gradient", "jacobi", "chebyshev"])
@settings(max_examples=25, deadline=None)
def test_auto_takes_the_least_number_of_steps_that_the_bound_allows(
    method, graph, lam, tol, normalized
):
    smoother = eb.Laplacian(lam, "auto", normalized=normalized, method=method, tol=tol)
    needed = eb.convergence.steps_for(graph, smoother, tol)
    if needed > 2_000:
        return
    operator = smoother.operator(graph)
    assert operator.n_steps == needed
    ideal = eb.Laplacian(lam, method="exact", normalized=normalized).operator(graph)
    eye = np.eye(graph.n_nodes)
    assert np.linalg.norm(operator.apply(eye) - ideal.apply(eye), 2) <= tol * (1 + 1e-6)
    if needed > 1:
        assert smoother.contraction(smoother.system(graph)).error(needed - 1) > tol


@pytest.mark.parametrize("lam", [10.0, 100.0, 300.0])
def test_chebyshev_needs_about_the_square_root_of_the_steps(lam):
    """Measured on a ring: σ log(1/tol) steps against ½√σ log(2/tol)."""
    n, tol = 200, 1e-4
    graph = eb.Graph.from_edges(range(n), [*range(1, n), 0])
    values = 1 + lam * (2 - 2 * np.cos(2 * np.pi * np.arange(n) / n))
    sigma, centre, radius = values.max(), (values.max() + 1) / 2, (values.max() - 1) / 2

    def error(residual):
        return np.abs(residual * (1 - 1 / values)).max()

    gradient = next(k for k in range(1, 10**6) if error((1 - values / sigma) ** k) <= tol)
    for chebyshev in range(1, gradient):
        basis = np.polynomial.chebyshev.Chebyshev.basis(chebyshev)
        if error(basis((centre - values) / radius) / basis(centre / radius)) <= tol:
            break
    assert (
        distance(eb.Laplacian(lam, chebyshev, method="chebyshev", normalized=False), graph)
        <= 1.2 * tol
    )
    assert chebyshev <= np.sqrt(gradient * np.log(2 / tol))
    smoothers = [eb.Laplacian(lam, method=method, **ROUGH) for method in ("gradient", "chebyshev")]
    bounded = [eb.convergence.steps_for(graph, smoother, tol) for smoother in smoothers]
    assert gradient <= bounded[0] <= 1.1 * gradient
    assert chebyshev <= bounded[1] <= 1.1 * chebyshev + 1


def test_a_number_stands_for_lambda_and_other_smoothers_are_rejected():
    graph = random_graph(20, 40)
    assert eb.convergence.steps_for(graph, 2.0, 0.01) == eb.convergence.steps_for(
        graph, eb.Laplacian(2.0), 0.01
    )
    assert eb.convergence.steps_for(graph, eb.Laplacian(2.0, method="exact"), 0.01) == 0
    with pytest.raises(ValueError, match="tol must be a number > 0, got 0"):
        eb.convergence.steps_for(graph, 2.0, 0)
    with pytest.raises(TypeError, match=r"smoother must be an eb\.Laplacian"):
        eb.convergence.constants(graph, "strong")


@pytest.mark.parametrize("n", [12, 150])
def test_constants_are_those_of_dense_matrices(n):
    graph, smoother = random_graph(n, 3 * n), eb.Laplacian(3.0, 4, **ROUGH)
    nodes = np.arange(0, n, 2)
    result = eb.convergence.constants(graph, smoother, nodes, penalty=0.5)
    spectrum = np.linalg.eigvalsh(
        np.eye(n) + 3.0 * (np.diag(graph.degrees) - graph.adjacency.toarray())
    )
    assert spectrum[0] == pytest.approx(result.mu)
    assert spectrum[-1] <= result.sigma * (1 + 1e-12) <= 1.011 * spectrum[-1]
    assert result.sigma_k == pytest.approx(
        np.linalg.norm(dense_form(smoother, graph)[nodes], 2) ** 2 + 0.5, rel=1e-5
    )
