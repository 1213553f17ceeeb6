"""The bound on ‖P^(k) − P*‖ against its formula on a fine grid of eigenvalues."""

import numpy as np
import pytest
from numpy.polynomial import Chebyshev

import ebboost as eb
from ebboost.propagation._bounds import Contraction

SIGMAS = [1.5, 4.0, 41.0]
STEPS = [1, 2, 3, 7, 20]


def contraction(method, sigma, alpha=0.0, largest=0.0, smallest=0.0):
    """The bound of a method; numbers that it has no use for are 0."""
    return Contraction(method, sigma, alpha, largest, smallest)


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("method", ["gradient", "jacobi", "chebyshev"])
def test_without_steps_the_error_is_that_of_the_identity(method, sigma):
    bound = contraction(method, sigma, 1 / sigma, largest=sigma)
    assert bound.start == bound.error(0) == pytest.approx(1 - 1 / sigma)


@pytest.mark.parametrize(
    "bound",
    [contraction("exact", 9.0), contraction("gradient", 1.0), contraction("chebyshev", 1.0)],
)
def test_exact_methods_need_no_step(bound):
    assert bound.start == bound.rate == bound.error(0) == bound.error(5) == bound.steps(0.0) == 0


@pytest.mark.parametrize("n_steps", STEPS)
@pytest.mark.parametrize("share", [0.3, 1.0, 1.4])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_gradient_steps_leave_the_largest_error_of_any_eigenvalue(sigma, share, n_steps):
    eigenvalues, alpha = np.linspace(1.0, sigma, 100_001), share / sigma
    errors = np.abs(1 - alpha * eigenvalues) ** n_steps * (1 - 1 / eigenvalues)
    assert contraction("gradient", sigma, alpha).error(n_steps) == pytest.approx(
        errors.max(), rel=1e-6
    )


@pytest.mark.parametrize("n_steps", STEPS)
@pytest.mark.parametrize("sigma", SIGMAS)
def test_chebyshev_steps_leave_one_over_the_polynomial_outside_its_interval(sigma, n_steps):
    outside = Chebyshev.basis(n_steps)((sigma + 1) / (sigma - 1))
    bound = contraction("chebyshev", sigma)
    assert bound.error(n_steps) == pytest.approx((1 - 1 / sigma) / outside)
    assert bound.error(400) == 0 or bound.error(400) / bound.error(399) == pytest.approx(bound.rate)


def test_jacobi_steps_shrink_the_error_in_the_norm_of_the_diagonal():
    bound = contraction("jacobi", 10.0, largest=5.0, smallest=2.0)
    assert bound.rate == pytest.approx(0.8)
    assert bound.error(3) == pytest.approx(0.9 * np.sqrt(2.5) * 0.8**3)


@pytest.mark.parametrize(("alpha", "rate"), [(0.1, 0.9), (0.25, 0.75), (0.45, 0.8)])
def test_the_rate_of_gradient_steps_is_that_of_the_slowest_end_of_the_spectrum(alpha, rate):
    assert contraction("gradient", 4.0, alpha).rate == pytest.approx(rate)


@pytest.mark.parametrize("tol", [0.5, 0.1, 1e-3, 1e-8])
@pytest.mark.parametrize("method", ["gradient", "jacobi", "chebyshev"])
def test_steps_for_a_tolerance_are_the_fewest(method, tol):
    bound = contraction(method, 4.0, 0.25, largest=4.0, smallest=4.0)
    needed = bound.steps(tol)
    assert bound.error(needed) <= tol < bound.error(needed - 1)


def test_a_tolerance_that_holds_at_the_start_needs_no_step():
    assert contraction("gradient", 4.0, 0.25).steps(0.75) == 0


@pytest.mark.parametrize("method", ["gradient", "jacobi", "chebyshev"])
def test_a_rate_that_rounds_to_one_is_refused(method):
    heavy = eb.Graph.from_edges([0, 1], [1, 2], weight=[1e200, 1e200])
    with pytest.raises(ValueError, match="endless steps"):
        eb.Laplacian(0.3, "auto", method=method, normalized=False).operator(heavy)
