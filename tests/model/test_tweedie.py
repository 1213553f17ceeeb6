"""Tweedie distributions against the sum over all numbers of events, and against scipy."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid

from ebboost.model.tweedie import TweedieDistribution

LEVELS = np.array([0.02, 0.3, 0.7, 0.98])


def with_events(numbers, power):
    """Distributions of mean 3 with these expected numbers of events."""
    numbers = np.asarray(numbers, dtype=float)
    means = np.full(numbers.shape, 3.0)
    return TweedieDistribution(means, means**2 / (numbers * (2.0 - power)), power)


def all_events(number, power, y):
    """Return cdf, survival and density: a gamma distribution for each number of events."""
    shape = (2.0 - power) / (power - 1.0)
    scale = 3.0 / (number * shape)
    k = np.arange(1, int(number + 12.0 * np.sqrt(number) + 60.0))[:, None]
    gamma = stats.gamma(k * shape, scale=scale)
    chance = stats.poisson.pmf(k, number)
    cdf, survival, density = ((chance * f(y)).sum(0) for f in (gamma.cdf, gamma.sf, gamma.pdf))
    return np.exp(-number) + cdf, survival, density


@pytest.mark.parametrize("power", [1.05, 1.5, 1.9])
@pytest.mark.parametrize("number", [0.05, 4.0, 60.0, 3000.0])
def test_probabilities_are_sums_over_all_numbers_of_events(number, power):
    one = with_events([number], power)
    deviation = np.sqrt(one.variance[0])
    y = np.maximum(3.0 + deviation * np.array([-5.0, -1.0, 0.1, 1.0, 8.0]), 0.2)
    several = with_events(np.full(y.size, number), power)
    cdf, survival, density = all_events(number, power, y)
    np.testing.assert_allclose(several.cdf(y), cdf, rtol=1e-7)
    np.testing.assert_allclose(several.survival(y), survival, rtol=1e-7)
    is_normal = density > 1e-290
    log_density = several.log_density(y)[is_normal]
    np.testing.assert_allclose(log_density, np.log(density[is_normal]), atol=1e-9)


@pytest.mark.parametrize("number", [30.0, 2e4, 1e7])
def test_exponential_amounts_have_a_noncentral_chi_squared_sum(number):
    one = with_events([number], 1.5)
    truth = stats.ncx2(1e-12, 2.0 * number, scale=1.5 / number)
    quantiles = one.quantile(LEVELS)[0]
    np.testing.assert_allclose(truth.cdf(quantiles), LEVELS, atol=1e-6)


def test_rows_with_few_and_many_events_have_exact_quantiles():
    numbers = np.geomspace(0.01, 1e6, 20)
    for power in (1.05, 1.9):
        several = with_events(numbers, power)
        for level, quantile in zip(LEVELS, several.quantile(LEVELS).T, strict=True):
            is_zero = np.exp(-numbers) >= level
            np.testing.assert_array_equal(quantile == 0.0, is_zero)
            share = several.cdf(quantile)[~is_zero]
            np.testing.assert_allclose(share, level, rtol=1e-9)


@pytest.mark.parametrize("number", [0.3, 200.0])
def test_crps_is_the_integral_of_squared_differences_of_the_cdf(number):
    one = with_events([number], 1.4)
    deviation = np.sqrt(one.variance[0])
    for y in (2.8, 3.0 + deviation):
        below = np.linspace(0.0, y, 3_001)
        above = np.linspace(y, y + 20.0 * deviation, 3_001)
        several = with_events(np.full(3_001, number), 1.4)
        expected = trapezoid(several.cdf(below) ** 2, below)
        expected += trapezoid(several.survival(above) ** 2, above)
        assert one.crps([y])[0] == pytest.approx(expected, rel=1e-4)


def test_unknown_labels_have_unknown_scores_and_negative_ones_none():
    three = with_events([1.0, 1.0, 1.0], 1.5)
    y = np.array([np.nan, -1.0, 0.0])
    np.testing.assert_allclose(three.cdf(y), [np.nan, 0.0, np.exp(-1.0)])
    np.testing.assert_allclose(three.log_density(y), [np.nan, -np.inf, -1.0])
    assert three.subset(slice(0)).log_density([]).size == 0
