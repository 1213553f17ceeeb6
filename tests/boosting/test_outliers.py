"""Probabilities of residuals to be no outliers: none of clean ones, however heavy their tails."""

import numpy as np
import pytest
from scipy import integrate, stats

from ebboost.boosting.losses.outliers import Mixture, clean_probabilities, fit_mixture


def residuals(name, seed, n=1500):
    random = np.random.default_rng(seed)
    draws = {
        "normal": lambda: random.normal(size=n),
        "t3": lambda: random.standard_t(3, n),
        "Laplace": lambda: random.laplace(size=n),
        "skewed": lambda: random.gamma(2.0, 1.0, n) - 2.0,
    }
    return draws[name]()


@pytest.mark.parametrize("name", ["normal", "t3", "Laplace", "skewed"])
def test_clean_residuals_have_weight_1(name):
    for seed in range(3):
        assert (clean_probabilities(residuals(name, seed)[:, None]) > 0.5).mean() > 0.997


@pytest.mark.parametrize("name", ["normal", "t3", "skewed"])
@pytest.mark.parametrize("size", [30.0, 1e6])
def test_outliers_are_found_at_any_size(name, size):
    values = residuals(name, 0)
    values[::20] += size * np.random.default_rng(1).uniform(-1.0, 1.0, values[::20].size)
    weights = clean_probabilities(values[:, None])
    is_far = np.abs(values) > 15.0
    assert is_far.sum() > 30
    assert weights[is_far].max() < 0.4
    assert np.delete(weights, slice(None, None, 20)).mean() > 0.95


def test_outliers_among_many_residuals_are_found_by_a_sample():
    values = residuals("t3", 0, 12_000)
    values[::20] += 40.0
    weights = clean_probabilities(values[:, None])
    assert weights[::20].max() < 0.4 and np.median(weights) > 0.99


def test_the_unit_and_the_order_of_residuals_do_not_matter():
    values = residuals("t3", 0)
    values[::30] += 40.0
    order = np.random.default_rng(0).permutation(values.size)
    weights = clean_probabilities(values[:, None])
    np.testing.assert_allclose(clean_probabilities(1e-9 * values[:, None]), weights, rtol=1e-6)
    again = clean_probabilities(values[order, None])
    np.testing.assert_allclose(again, weights[order], atol=1e-2)


def test_the_mixture_is_a_density_and_its_t_part_that_of_scipy():
    mixture = Mixture(0.2, 1.1, 0.7, 3.5, 0.05, 20.0)

    def density(value):
        return float(np.exp(np.logaddexp(*mixture.log_terms(np.array([value]))))[0])

    total = sum(integrate.quad(density, *ends, limit=200)[0] for ends in [(-2, 0.2), (0.2, 2)])
    total += sum(integrate.quad(density, *ends, limit=200)[0] for ends in [(-20, -2), (2, 20)])
    beyond = 0.95 * (stats.t.sf(19.8 / 1.1, 3.5) * 1.1 + stats.t.sf(20.2 / 0.7, 3.5) * 0.7) / 0.9
    assert total + beyond == pytest.approx(1.0, abs=1e-6)
    even = Mixture(0.0, 2.0, 2.0, 5.0, 0.0, 20.0)
    points = np.linspace(-4.0, 4.0, 9)
    np.testing.assert_allclose(even.log_density(points), stats.t(5.0, scale=2.0).logpdf(points))


def test_few_residuals_are_taken_as_they_are():
    assert fit_mixture(np.r_[np.zeros(20), 1e3]) is None
    assert clean_probabilities(np.zeros((100, 1))).tolist() == [1.0] * 100
