"""Predictive distributions against sampling, integration and scipy."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad, trapezoid

import ebboost as eb
from ebboost.model.distribution import (
    AmountDistribution,
    ClassDistribution,
    CountDistribution,
    NumberDistribution,
    Shape,
)
from ebboost.model.tweedie import TweedieDistribution
from ebboost.training.spread import fit_shape, fit_shapes

MEANS = np.array([2.0, 3.0])
FAMILIES = {
    "numbers": NumberDistribution(
        MEANS, np.array([1.0, 2.0]), Shape(0.2, 1.3, np.array([1.4, 0.8]), np.array([7.0, 5.0]))
    ),
    "amounts": AmountDistribution(MEANS, np.array([4.0, 2.0])),
    "counts": CountDistribution(MEANS, np.array([2.5, 9.0])),
    "tweedie": TweedieDistribution(MEANS, np.array([4.0, 14.0]), 1.6),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_moments_quantiles_and_cdf_are_those_of_samples(name):
    distribution = FAMILIES[name]
    draws = distribution.sample(40_000, random_state=0)
    np.testing.assert_allclose(distribution.mean, draws.mean(axis=1), rtol=0.03)
    np.testing.assert_allclose(distribution.variance, draws.var(axis=1), rtol=0.15)
    y = np.array([2.0, 1.0])
    np.testing.assert_allclose(distribution.cdf(y), (draws <= y[:, None]).mean(1), atol=0.01)
    np.testing.assert_allclose(distribution.survival(y), (draws >= y[:, None]).mean(1), atol=0.01)
    levels = [0.1, 0.5, 0.9]
    quantiles = np.quantile(draws, levels, axis=1).T
    np.testing.assert_allclose(distribution.quantile(levels), quantiles, atol=0.15)


def squared_differences(distribution, y):
    """The integral of (F(x) − 1[x ≥ y])², which the CRPS is."""
    if isinstance(distribution, CountDistribution):
        numbers = np.arange(20_000.0)
        return ((distribution.cdf(numbers) - (numbers >= y)) ** 2).sum()
    lower, upper = distribution.quantile([1e-9, 1 - 1e-9])[0]
    options = {"limit": 500, "epsabs": 1e-10}
    below = quad(lambda x: distribution.cdf([x])[0] ** 2, min(lower, y), y, **options)
    above = quad(lambda x: distribution.survival([x])[0] ** 2, y, max(upper, y), **options)
    return below[0] + above[0]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("y", [0.0, 1.0, 4.0, 30.0])
def test_crps_is_the_integral_of_squared_differences_of_the_cdf(name, row, y):
    one = FAMILIES[name].subset([row])
    assert one.crps([y])[0] == pytest.approx(squared_differences(one, y), rel=1e-5)


@pytest.mark.parametrize(("mean", "variance"), [(0.005, 0.006), (0.3, 20.0), (400.0, 401.0)])
def test_crps_of_rare_dispersed_and_large_counts(mean, variance):
    counts = CountDistribution(np.array([mean]), np.array([variance]))
    for y in (0.0, 1.0, 390.0):
        expected = squared_differences(counts, y)
        assert counts.crps([y])[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["numbers", "amounts", "tweedie"])
def test_densities_integrate_to_differences_of_the_cdf(name):
    grid = np.linspace(1.0, 3.0, 401)
    distribution = FAMILIES[name]
    density = [np.exp(distribution.subset([0]).log_density([y]))[0] for y in grid]
    expected = distribution.cdf([3.0, 3.0])[0] - distribution.cdf([1.0, 1.0])[0]
    assert trapezoid(density, grid) == pytest.approx(expected, rel=1e-4)


def test_normal_shape_is_that_of_scipy():
    normal = NumberDistribution(np.array([1.0]), np.array([2.0]), Shape())
    assert normal.log_density([0.3])[0] == pytest.approx(stats.norm(1, 2).logpdf(0.3), rel=1e-5)
    assert normal.quantile(0.9)[0] == pytest.approx(stats.norm(1, 2).ppf(0.9), rel=1e-5)


def test_shape_is_estimated_from_residuals():
    truth = Shape(0.3, 0.8, 1.5, 5.0)
    draws = NumberDistribution(np.zeros(1), np.ones(1), truth).sample(5000, random_state=0)[0]
    np.testing.assert_allclose(fit_shape(draws)[:3], truth[:3], atol=0.1)
    assert fit_shape(np.arange(10.0)).df > 1000


def test_shapes_follow_the_prediction():
    random = np.random.default_rng(0)
    at = np.sort(random.random(3000))
    skewed = NumberDistribution(np.zeros(3000), np.ones(3000), Shape(skew=np.exp(2 * at - 1)))
    shapes = fit_shapes(at, skewed.sample(random_state=0)[:, 0])
    assert (np.diff(shapes[:, 0]) > 0).all()
    np.testing.assert_allclose(shapes[:, 3], np.exp(2 * shapes[:, 0] - 1), rtol=0.2)


def test_classes_have_probabilities_and_no_quantiles():
    classes = ClassDistribution(np.array([[0.2, 0.8]]), np.array(["a", "b"]))
    assert classes.log_density(["b"])[0] == pytest.approx(np.log(0.8))
    assert classes.crps(["b"])[0] == pytest.approx(2 * 0.2**2)
    assert set(classes.sample(50, random_state=0)[0]) == {"a", "b"}
    with pytest.raises(ValueError, match="no quantiles"):
        classes.quantile(0.5)
    with pytest.raises(ValueError, match="classes of the model"):
        classes.log_density(["c"])


@pytest.mark.parametrize("loss", ["squared_error", "quantile", "gamma", "tweedie", "poisson"])
def test_every_likelihood_has_calibrated_distributions(loss):
    random = np.random.default_rng(0)
    X = random.normal(size=(700, 1))
    graph = eb.Graph.build_knn(X, k=4)
    likelihood = {"quantile": eb.Quantile(0.3), "tweedie": eb.Tweedie(1.5)}.get(loss, loss)
    sampler = eb.Tweedie(1.5) if loss == "tweedie" else eb.Gamma()
    sampler = eb.Poisson() if loss == "poisson" else sampler
    y = sampler.sample(random, 1.0 + 0.5 * X, 0.3)[:, 0]
    nodes = np.arange(400)
    m = eb.EBBSRegressor(20, loss=likelihood, n_folds=2, smoothing=None, random_state=0)
    distribution = m.fit(X, y[nodes], nodes=nodes, graph=graph).predict_distribution()
    inside = y[400:] <= distribution.subset(slice(400, 700)).quantile(0.8)
    assert inside.mean() == pytest.approx(0.8, abs=0.08)
    assert np.isfinite(distribution.log_density(y)).all()
    assert distribution.crps(y).mean() < np.abs(y - np.median(y)).mean()


def test_a_distribution_needs_labels_that_were_not_trained_on():
    m = eb.EBBSRegressor(5, early_stopping=False).fit(np.arange(30.0)[:, None], np.arange(30.0))
    with pytest.raises(ValueError, match="predict_distribution needs residuals"):
        m.predict_distribution()
