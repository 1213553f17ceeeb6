"""Jacobi, Chebyshev and Kernel: dot tests, closed forms, norm bounds. Add new ones to SMOOTHERS."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import Chebyshev as Polynomials
from scipy import sparse
from scipy.linalg import expm
from sklearn.base import clone

import ebboost as eb
from ebboost.paper import Chebyshev, Jacobi, Kernel
from ebboost.paper.steps import Contraction, contraction
from tests.paper.problems import path
from tests.strategies import graphs, random_graph
from tests.test_smoothing import dense_laplacian


def squared(s):
    return s**2


ENERGIES = {  # r of equation (13) at a frequency, by the parameters of its kernel
    "laplacian": lambda s, kernel: s,
    "regularized": lambda s, kernel: 1 + kernel.sigma**2 * s,
    "diffusion": lambda s, kernel: np.exp(kernel.sigma**2 * s / 2),
    "random-walk": lambda s, kernel: (kernel.a - s) ** -kernel.p,
    "inverse-cosine": lambda s, kernel: 1 / np.cos(s * np.pi / 4),
    squared: lambda s, kernel: s**2,
}
PRECISE = {"tolerance": 1e-10}
SMOOTHERS = [
    kind(lam, n_steps, normalized=normalized)
    for kind in (Jacobi, Chebyshev)
    for lam, n_steps in [(0.0, 3), (0.5, 1), (2.0, 5), (20.0, 4), (2.0, 0)]
    for normalized in (True, False)
]
SMOOTHERS += [
    Kernel(r, lam, normalized=normalized, **PRECISE, **own, **how)
    for r, normalized, lam, own in [
        ("laplacian", False, 0.2, {}),
        ("regularized", True, 2.0, {"sigma": 1.5}),
        ("diffusion", True, 50.0, {}),
        ("diffusion", False, 1.0, {"sigma": 0.1}),
        ("random-walk", True, 20.0, {"a": 3.0, "p": 4}),
        ("random-walk", False, 1e5, {"a": 5000.0, "p": 2}),
        ("inverse-cosine", True, 2.0, {}),
        (squared, True, 2.0, {}),
    ]
    for how in ({}, {"method": "gradient", "n_steps": 3}, {"degree": 4})
]
SMOOTHERS += [Kernel("diffusion", 0.0), Kernel(method="gradient", n_steps=0)]


def described(smoother):
    return re.sub("<function (.*) at .*>", r"\1", repr(smoother)).replace("\n", "")


def dense_form(smoother, graph):
    """P from its definition, with dense matrices."""
    eye, laplacian = np.eye(graph.n_nodes), dense_laplacian(graph, smoother.normalized)
    values, vectors = np.linalg.eigh(laplacian)
    if isinstance(smoother, Kernel):
        system = 1 + smoother.lam * ENERGIES[smoother.r](values, smoother)
        upper = max(
            contraction(eb.Laplacian(1.0, normalized=smoother.normalized), graph).sigma - 1, 1e-3
        )
        response = 1 / system
        if smoother.method == "gradient":
            end = 1 + smoother.lam * ENERGIES[smoother.r](upper, smoother)
            response += (1 - system / end) ** smoother.n_steps * (1 - response)
        if smoother.degree is not None:

            def exact(s):
                return 1 / (1 + smoother.lam * ENERGIES[smoother.r](s, smoother))

            response = Polynomials.interpolate(exact, 800, [0, upper]).cutdeg(smoother.degree)(
                values
            )
        return vectors @ np.diag(response) @ vectors.T
    system = eye + smoother.lam * laplacian
    if smoother.method == "exact":
        return np.linalg.inv(system)
    if isinstance(smoother, Chebyshev):
        # P = A⁻¹ + r_k(A)(I − A⁻¹) with r_k the scaled Chebyshev polynomial.
        upper = contraction(smoother, graph).sigma
        if upper <= 1 or smoother.n_steps == 0:
            return eye
        basis = Polynomials.basis(smoother.n_steps)
        residual = basis((upper + 1 - 2 * (1 + smoother.lam * values)) / (upper - 1))
        residual /= basis((upper + 1) / (upper - 1))
        inverse = 1 / (1 + smoother.lam * values)
        return vectors @ np.diag(inverse + residual * (1 - inverse)) @ vectors.T
    scale = np.diag(1 / np.diag(system))
    if isinstance(smoother, eb.Laplacian):
        scale = eye * smoother.operator(graph).alpha
    z = eye
    for _ in range(smoother.n_steps):
        z = z - scale @ (system @ z - eye)
    return z


@pytest.mark.parametrize("smoother", SMOOTHERS, ids=described)
@given(graph=graphs(), seed=st.integers(0, 1000))
@settings(max_examples=8, deadline=None)
def test_operator_equals_its_closed_form_and_passes_the_dot_test(smoother, graph, seed):
    operator, dense = smoother.operator(graph), dense_form(smoother, graph)
    u, v = np.random.default_rng(seed).normal(size=(2, graph.n_nodes, 3))
    before = u.copy()
    np.testing.assert_allclose(operator.apply(u), dense @ u, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(operator.adjoint(v), dense.T @ v, rtol=1e-8, atol=1e-8)
    inner = np.sum(u * operator.adjoint(v))
    assert np.sum(operator.apply(u) * v) == pytest.approx(inner, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(operator.apply(u[:, 0]), operator.apply(u)[:, 0], atol=1e-12)
    np.testing.assert_array_equal(u, before)
    assert np.linalg.norm(dense, 2) <= operator.norm_bound * (1 + 1e-9)
    entries = operator.apply(np.eye(graph.n_nodes))
    assert not operator.nonnegative or entries.min() >= -1e-12
    if operator.magnitude is not None:
        assert (operator.magnitude.apply(np.eye(graph.n_nodes)) >= np.abs(entries) - 1e-9).all()


@given(graph=graphs(), lam=st.floats(0.01, 1e4), r=st.sampled_from(["diffusion", "random-walk"]))
@settings(max_examples=30, deadline=None)
def test_magnitude_bounds_every_entry_and_its_norm_is_of_use(graph, lam, r):
    operator = Kernel(r, lam).operator(graph)
    bound = operator.magnitude
    if bound is None or bound is operator:
        return
    eye = np.eye(graph.n_nodes)
    assert bound.magnitude is bound
    assert (np.abs(operator.apply(eye)) <= bound.apply(eye) + 1e-12).all()
    norm = np.linalg.norm(bound.apply(eye), 2)
    assert norm <= bound.norm_bound * (1 + 1e-9) <= 2 * operator.norm_bound * (1 + 1e-9)


def test_some_kernels_have_negative_entries_and_a_bound_on_them_others_neither():
    graph = path(20)
    negative = {  # of the exact P; the heat kernel that strong diffusion is has none
        Kernel("diffusion", 2.0, sigma=2.0): True,
        Kernel("random-walk", 2.0): True,
        Kernel("inverse-cosine", 2.0): True,
        Kernel("laplacian", 0.5): False,
        Kernel("diffusion", 100.0, sigma=1.0): False,
    }
    for kernel, expected in negative.items():
        operator = kernel.operator(graph)
        assert (dense_form(kernel, graph).min() < -1e-5) == expected
        assert operator.nonnegative == (not expected)
        assert operator.magnitude is not None
        assert (operator.magnitude is operator) == operator.nonnegative
    for kernel in (Kernel("random-walk", 2.0, p=12), Kernel("regularized", 2.0, sigma=3.0)):
        assert kernel.operator(graph).magnitude is None  # larger than twice the norm
    assert Chebyshev().operator(graph).magnitude is None


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-8])
@pytest.mark.parametrize("r", ["laplacian", "diffusion", "random-walk", "inverse-cosine"])
def test_a_kernel_polynomial_has_the_least_degree_within_its_tolerance(r, tolerance):
    graph = path(200)  # the spectrum fills its whole interval
    kernel = Kernel(r, 2.0, p=3, sigma=2.0, tolerance=tolerance)
    exact = dense_form(kernel, graph)
    norm = np.linalg.norm(exact, 2)

    def error(kernel):
        return np.linalg.norm(kernel.operator(graph).apply(np.eye(200)) - exact, 2) / norm

    assert 1e-3 * tolerance < error(kernel) <= tolerance
    shorter = clone(kernel).set_params(degree=kernel.operator(graph).degree - 2)
    assert error(shorter) > tolerance


def test_strong_diffusion_is_the_heat_kernel_and_a_strong_walk_the_walk():
    graph, eye = random_graph(40, 90), np.eye(40)
    laplacian = dense_laplacian(graph, True)
    heat = 1e9 * Kernel("diffusion", 1e9, sigma=1.5, **PRECISE).operator(graph).apply(eye)
    np.testing.assert_allclose(heat, expm(-(1.5**2) / 2 * laplacian), atol=1e-7)
    walk = 1e9 * Kernel("random-walk", 1e9, a=2.5, p=3, **PRECISE).operator(graph).apply(eye)
    np.testing.assert_allclose(walk, np.linalg.matrix_power(2.5 * eye - laplacian, 3), atol=1e-5)


@pytest.mark.parametrize("kernel", [Kernel("diffusion", sigma=3.0), Kernel(degree=12)])
def test_norm_bound_of_a_kernel_is_the_largest_value_of_its_polynomial(kernel):
    operator = kernel.operator(random_graph(30, 60))
    largest = np.abs(Polynomials(operator.coefficients)(np.linspace(-1.0, 1.0, 10_001))).max()
    assert largest <= operator.norm_bound <= largest / np.cos(np.pi / 128)


def test_frequencies_of_infinite_energy_are_multiplied_by_zero():
    graph = random_graph(30, 60)
    end = contraction(eb.Laplacian(1.0), graph).sigma - 1.0  # of the spectrum, where (a − s)⁻¹ = ∞
    kernel = Kernel("random-walk", 2.0, a=end, **PRECISE)
    smoothed = kernel.operator(graph).apply(np.eye(30))
    np.testing.assert_allclose(smoothed, dense_form(kernel, graph), atol=1e-9)
    with pytest.raises(ValueError, match="is infinite at the end of this graph's spectrum"):
        clone(kernel).set_params(method="gradient").operator(graph)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "chebyshev"}, "method must be 'exact' or 'gradient'"),
        ({"r": "heat"}, "r must be 'laplacian', .* got 'heat'"),
        ({"r": "random-walk", "a": 1.0}, r"a=1.0 must be at least 1\.\d+, .*Use a larger a\.$"),
        ({"r": "random-walk", "normalized": False}, "a=2.0 must be .* or normalized=True"),
        ({"r": "inverse-cosine", "normalized": False}, "up to 2.*use normalized=True"),
        ({"r": lambda s: s - 1.0}, r"at least 0 on this graph's eigenvalues.*r\(0\) is -1\. Bound"),
        ({"r": lambda s: 1.0 / s}, r"r\(0\) is inf"),
        ({"r": lambda s: math.exp(s)}, "np.exp, not math.exp"),
        ({"r": lambda s: s[:3]}, "a number for each"),
        (
            {"r": lambda s: np.where(s > 0.7, 1e3, 0.0)},
            "tolerance=0.0001 with r=.*choose the degree",
        ),
    ],
)
def test_wrong_kernel_parameters_are_refused_by_name(parameters, message):
    with pytest.raises(ValueError, match=message):
        Kernel(**parameters).operator(random_graph(30, 60))


@pytest.mark.parametrize(
    ("smoother", "name", "inside", "outside"),
    [
        (Jacobi(), "lam", [0.0, 0.5], [-0.5]),
        (Chebyshev(), "n_steps", [0, 1], [-1, 0.5]),
        (Jacobi(n_steps="auto"), "tol", [0.1, 2.0], [0.0, -0.1]),
        (Kernel(), "lam", [0.0, 0.5], [-0.5]),
        (Kernel(), "sigma", [0.5], [0.0, -0.5]),
        (Kernel(), "a", [0.5], [0.0, -0.5]),
        (Kernel("random-walk", a=3.0), "p", [1, 2], [0, 1.5]),
        (Kernel(method="gradient"), "n_steps", [0, 1], [-1, 0.5]),
        (Kernel(), "degree", [0, 500], [-1, 501, 0.5]),
        (Kernel(), "tolerance", [1e-12, 0.5], [0.0, 1.0]),
        (eb.paper.Robust(scale=1.0), "lam", [0.0, 0.5], [-0.5]),
        (eb.paper.Robust(scale=1.0), "n_steps", [0, 1], [-1, 0.5]),
        (eb.paper.Robust(scale=1.0), "penalty", [0.5, 2.0], [0.0, -0.5, 2.5, "cauchy"]),
        (eb.paper.Robust(), "scale", [0.5], [0.0, -0.5, "auto"]),
    ],
)
def test_parameters_are_accepted_in_their_range_only(smoother, name, inside, outside):
    graph = random_graph(5, 5)
    for value in inside:
        clone(smoother).set_params(**{name: value}).operator(graph)
    for value in [*outside, np.nan, np.inf, "many", True]:
        with pytest.raises(ValueError, match=f"^{name} must be"):
            clone(smoother).set_params(**{name: value}).operator(graph)


# ---------------------------------------------------------------------- new nodes


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("smoother", [Jacobi(1.5), Chebyshev(1.5)], ids=described)
def test_new_nodes_minimise_the_energy_with_fitted_ones_as_they_are(smoother, normalized):
    smoother = clone(smoother).set_params(normalized=normalized)
    rng = np.random.default_rng(0)
    edges = np.where(rng.random((2, 12)) < 0.4, rng.random((2, 12)), 0.0)
    graph = random_graph(12, 25)
    f, near = rng.normal(size=(2, 3)), rng.normal(size=(12, 3))
    found = smoother.join(f, sparse.csr_array(edges), near, graph.degrees)
    own = edges.sum(axis=1)
    for row in range(2):  # as in the normalised Laplacian with the degrees of the fitted graph
        root, near_root = np.ones(2), np.ones(12)
        diagonal = own[row]
        if normalized:
            root, near_root = 1 / np.sqrt(own + 1), 1 / np.sqrt(graph.degrees + 1)
            diagonal = 1 - root[row] ** 2
        pull = root[row] * (edges[row] * near_root) @ near
        np.testing.assert_allclose(found[row], (f[row] + 1.5 * pull) / (1 + 1.5 * diagonal))


@pytest.mark.parametrize("normalized", [True, False])
def test_new_nodes_under_a_kernel_minimise_the_energy_of_their_star(normalized):
    kernel = Kernel("diffusion", 0.7, sigma=1.2, normalized=normalized)
    rng = np.random.default_rng(1)
    f, near = rng.normal(size=(1, 2)), rng.normal(size=(3, 2))
    edges = sparse.csr_array([[0.5, 0.0, 2.0]])
    found = kernel.join(f, edges, near, path(3).degrees)
    joined = eb.Graph.from_edges([0, 1, 3, 3], [1, 2, 0, 2], [1.0, 1.0, 0.5, 2.0])
    star = np.ix_([3, 0, 2], [3, 0, 2])
    energy = expm(1.2**2 / 2 * dense_laplacian(joined, normalized)[star])
    z = np.vstack([found, near[[0, 2]]])
    np.testing.assert_allclose(found - f + 0.7 * (energy @ z)[:1], 0.0, atol=1e-9)
    linear = Kernel("laplacian", 0.7, normalized=False).join(f, edges, near, path(3).degrees)
    exact = eb.Laplacian(0.7, normalized=False, method="exact")
    np.testing.assert_allclose(linear, exact.join(f, edges, near, path(3).degrees))


# ---------------------------------------------------------------------- bounds on ‖P^(k) − P*‖

SIGMAS = [1.5, 4.0, 41.0]
STEPS = [1, 2, 3, 7, 20]


@pytest.mark.parametrize("n_steps", STEPS)
@pytest.mark.parametrize("share", [0.3, 1.0, 1.4])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_gradient_steps_leave_the_largest_error_of_any_eigenvalue(sigma, share, n_steps):
    eigenvalues, alpha = np.linspace(1.0, sigma, 100_001), share / sigma
    errors = np.abs(1 - alpha * eigenvalues) ** n_steps * (1 - 1 / eigenvalues)
    found = Contraction("gradient", sigma, alpha).error(n_steps)
    assert found == pytest.approx(errors.max(), rel=1e-6)


@pytest.mark.parametrize("n_steps", STEPS)
@pytest.mark.parametrize("sigma", SIGMAS)
def test_chebyshev_steps_leave_one_over_the_polynomial_outside_its_interval(sigma, n_steps):
    outside = Polynomials.basis(n_steps)((sigma + 1) / (sigma - 1))
    assert Contraction("chebyshev", sigma).error(n_steps) == pytest.approx(
        (1 - 1 / sigma) / outside
    )


@pytest.mark.parametrize(("alpha", "rate"), [(0.1, 0.9), (0.25, 0.75), (0.45, 0.8)])
def test_the_rate_of_gradient_steps_is_that_of_the_slower_end_of_the_spectrum(alpha, rate):
    assert Contraction("gradient", 4.0, alpha).rate == pytest.approx(rate)


@pytest.mark.parametrize("tol", [0.5, 0.1, 1e-3, 1e-8])
@pytest.mark.parametrize("method", ["gradient", "jacobi", "chebyshev"])
def test_steps_for_a_tolerance_are_the_fewest(method, tol):
    bound = Contraction(method, 4.0, 0.25, largest=4.0, smallest=4.0)
    needed = bound.steps(tol)
    assert bound.error(needed) <= tol < bound.error(needed - 1)
    assert bound.steps(0.75) == 0


@pytest.mark.parametrize("kind", [Jacobi, Chebyshev])
def test_too_many_steps_are_refused(kind):
    heavy = eb.Graph.from_edges([0, 1], [1, 2], weight=[1e200, 1e200])
    with pytest.raises(ValueError, match="endless steps"):
        kind(0.3, "auto", normalized=False).operator(heavy)
    with pytest.raises(ValueError, match=r"n_steps='auto' would take \d{7} steps"):
        Jacobi(1e6, "auto").operator(random_graph(5, 5))


@given(
    graph=graphs(min_nodes=2, max_nodes=12),
    lam=st.sampled_from([0.1, 1.0, 30.0]),
    tol=st.sampled_from([0.3, 1e-2, 1e-5]),
    normalized=st.booleans(),
)
@pytest.mark.parametrize("kind", [Jacobi, Chebyshev])
@settings(max_examples=15, deadline=None)
def test_auto_takes_the_least_number_of_steps_that_the_bound_allows(
    kind, graph, lam, tol, normalized
):
    smoother = kind(lam, "auto", normalized=normalized, tol=tol)
    needed = contraction(smoother, graph).steps(tol)
    if needed > 500:
        return
    operator = smoother.operator(graph)
    assert operator.n_steps == needed
    exact = dense_form(eb.Laplacian(lam, method="exact", normalized=normalized), graph)
    eye = np.eye(graph.n_nodes)
    assert np.linalg.norm(operator.apply(eye) - exact, 2) <= tol * (1 + 1e-6)
    if needed > 1:
        assert contraction(smoother, graph).error(needed - 1) > tol
