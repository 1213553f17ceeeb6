"""Losses against finite differences, bounds, scikit-learn and their best constants."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import gamma, nbinom
from sklearn.metrics import (
    log_loss,
    mean_gamma_deviance,
    mean_pinball_loss,
    mean_poisson_deviance,
    mean_squared_error,
    mean_tweedie_deviance,
)

import ebboost as eb
from tests.strategies import LOG_LINK, LOSSES, SHARES, ZEROS, loss_data

BOUNDED = [eb.SquaredError(), eb.Huber(0.7), eb.Quantile(0.2, 0.5), eb.Quantile(0.8, 1e-6)]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_gradient_is_the_finite_difference_of_the_value(loss, seed):
    scores, target = loss_data(loss, seed)
    gradient, h = loss.gradient(scores, target), 1e-6
    for column in range(scores.shape[1]):
        move = np.zeros_like(scores)
        move[:, column] = h
        difference = (loss.value(scores + move, target) - loss.value(scores - move, target)) / (
            2 * h
        )
        np.testing.assert_allclose(difference, gradient[:, column], rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("loss", BOUNDED, ids=repr)
@given(seed=st.integers(0, 10_000), scale=st.floats(1e-3, 30.0))
@settings(max_examples=30, deadline=None)
def test_parabola_of_the_curvature_lies_above_the_loss(loss, seed, scale):
    scores, target = loss_data(loss, seed)
    move = scale * np.random.default_rng(seed + 1).normal(size=scores.shape)
    curvature = np.broadcast_to(loss.curvature(scores, target), scores.shape)
    above = (
        loss.value(scores, target)
        + (loss.gradient(scores, target) * move).sum(1)
        + 0.5 * (curvature * move**2).sum(1)
    )
    assert (loss.value(scores + move, target) <= above + 1e-9).all()


@pytest.mark.parametrize(
    "loss",
    [
        *(eb.SquaredError(), eb.Poisson(), eb.NegativeBinomial(1.7), eb.Tweedie(1.4)),
        *(eb.LogLoss(), eb.Softmax(), eb.Binomial(0.1), *ZEROS[2:]),
    ],
    ids=repr,
)
def test_curvature_of_smooth_losses_is_the_second_derivative(loss):
    scores, target = loss_data(loss, 0, 50)
    curvature, h = np.broadcast_to(loss.curvature(scores, target), scores.shape), 1e-6
    for column in range(scores.shape[1]):
        move = np.zeros_like(scores)
        move[:, column] = h
        difference = (
            loss.gradient(scores + move, target) - loss.gradient(scores - move, target)
        ) / (2 * h)
        np.testing.assert_allclose(difference[:, column], curvature[:, column], rtol=1e-6)


@pytest.mark.parametrize("loss", ZEROS, ids=repr)
def test_curvature_of_counts_with_zeros_is_positive_and_no_less_than_the_second_derivative(loss):
    scores, target = loss_data(loss, 0, 50)
    h = 1e-5
    slopes = [loss.gradient(scores + move, target) for move in (h, -h)]
    assert (loss.curvature(scores, target) >= (slopes[0] - slopes[1]) / (2 * h) - 1e-6).all()
    assert (loss.curvature(scores, target) > 0.0).all()


def test_curvature_of_the_beta_loss_is_the_variance_of_its_gradient():
    loss, scores = eb.Beta(7.0), np.repeat([[0.4], [-2.0]], 100_000, axis=0)
    gradient = loss.gradient(scores, loss.sample(np.random.default_rng(0), scores))
    expected = loss.curvature(scores[[0, -1]], np.full((2, 1), 0.5))[:, 0]
    np.testing.assert_allclose(gradient.reshape(2, -1).var(axis=1), expected, rtol=0.02)


@pytest.mark.parametrize("loss", ZEROS, ids=repr)
def test_counts_with_zeros_have_the_likelihood_of_their_distribution(loss):
    counts = np.arange(200.0)[:, None]
    scores = np.full_like(counts, 0.8)
    stated = loss.distribution(scores, np.sqrt(loss.variance(scores, 1.0))[:, 0])
    log_chance = loss.normalizer(counts) - loss.value(scores, counts)
    np.testing.assert_allclose(stated.logpmf(counts[:, 0])[:9], log_chance[:9], atol=1e-4)
    np.testing.assert_allclose(np.exp(log_chance).sum(), 1.0, rtol=1e-6)
    np.testing.assert_allclose(np.exp(log_chance) @ counts, loss.inverse_link(scores)[0], rtol=1e-6)
    np.testing.assert_allclose(stated.mean(), loss.inverse_link(scores)[:, 0], rtol=1e-4)
    np.testing.assert_allclose(stated.cdf(counts[:, 0]), np.exp(log_chance).cumsum(), atol=1e-4)
    assert (loss.deviance(scores, counts) >= -1e-9).all()


@pytest.mark.parametrize("loss", SHARES + ZEROS[2:], ids=repr)
def test_slopes_are_those_of_the_predictions(loss):
    scores, h = np.linspace(-3.0, 3.0, 9)[:, None], 1e-5
    difference = loss.inverse_link(scores + h) - loss.inverse_link(scores - h)
    np.testing.assert_allclose(loss.slope(scores), difference / (2 * h), rtol=1e-6)


@pytest.mark.parametrize("loss", SHARES, ids=repr)
def test_deviance_of_shares_is_0_at_the_best_score_of_each_label(loss):
    for label in (0.1, 0.5, 0.999):
        target = np.array([[label]])
        best = minimize_scalar(lambda s, y=target: loss.value(np.array([[s]]), y)[0]).x
        np.testing.assert_allclose(loss.deviance(np.array([[best]]), target), 0.0, atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_initial_score_is_the_best_constant(loss):
    _, target = loss_data(loss, 3, 200)
    weight = np.random.default_rng(0).random(200)
    start = loss.initial(target, weight)
    total = weight @ loss.value(np.tile(start, (200, 1)), target)
    for size in (1e-3, 0.1):
        for sign in (-1, 1):
            for column in range(target.shape[1]):
                other = start.copy()
                other[column] += sign * size
                # Huber starts at the median, which is near its optimum, not at it, and the quantile
                # loss is rounded.
                slack = {eb.Huber: 2.0, eb.Quantile: 2.0}.get(type(loss), 1e-9)
                assert total <= weight @ loss.value(np.tile(other, (200, 1)), target) + slack


@pytest.mark.parametrize("loss", LOSSES[:-1], ids=repr)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_initial_score_with_an_offset_is_the_best_constant_beside_it(loss, seed):
    offset, target = loss_data(loss, seed, 60)
    weight = np.random.default_rng(seed).random(60) + 0.1
    start = loss.initial(target, weight, offset)

    def total(shift):
        return weight @ loss.value(start + shift + offset, target)

    slack = {eb.Huber: 0.8, eb.Quantile: 0.8}.get(type(loss), 1e-9)  # the largest of all seeds
    assert total(0.0) <= min(total(-1e-3), total(1e-3), total(0.3), total(-0.3)) + slack


@given(seed=st.integers(0, 10_000), alpha=st.floats(0.05, 0.95))
@settings(max_examples=20, deadline=None)
def test_quantile_loss_is_the_pinball_loss_of_scikit_learn(seed, alpha):
    loss = eb.Quantile(alpha, 1e-9)
    scores, target = loss_data(loss, seed)
    expected = mean_pinball_loss(target, scores, alpha=alpha)
    assert loss.value(scores, target).mean() == pytest.approx(expected, abs=1e-8)


@given(seed=st.integers(0, 10_000), alpha=st.floats(0.05, 0.95), rounding=st.floats(0.1, 3.0))
@settings(max_examples=20, deadline=None)
def test_rounded_quantile_loss_is_the_mean_pinball_loss_of_spread_labels(seed, alpha, rounding):
    loss = eb.Quantile(alpha, rounding)
    scores, target = loss_data(loss, seed)
    spread = rounding * np.linspace(-1.0, 1.0, 20_001)
    each = [
        [mean_pinball_loss(y + spread, s + 0 * spread, alpha=alpha)]
        for s, y in zip(scores[:, 0], target[:, 0], strict=True)
    ]
    difference = loss.value(scores, target)[:, None] - each
    np.testing.assert_allclose(difference, -0.25 * rounding, rtol=1e-3)
    best = target + rounding * (2 * alpha - 1)
    np.testing.assert_allclose(loss.deviance(best, target), 0.0, atol=1e-12)
    np.testing.assert_allclose(loss.gradient(best, target), 0.0, atol=1e-12)


@given(seed=st.integers(0, 10_000), power=st.floats(1.05, 1.95))
@settings(max_examples=20, deadline=None)
def test_deviances_are_those_of_scikit_learn(seed, power):
    for loss, expected in [
        (eb.SquaredError(), mean_squared_error),
        (eb.Poisson(), mean_poisson_deviance),
        (eb.Gamma(), mean_gamma_deviance),
        (eb.Tweedie(power), partial(mean_tweedie_deviance, power=power)),
    ]:
        scores, target = loss_data(loss, seed)
        prediction = loss.inverse_link(scores)
        assert loss.deviance(scores, target).mean() == pytest.approx(expected(target, prediction))


@given(seed=st.integers(0, 10_000), theta=st.floats(0.1, 50.0))
@settings(max_examples=20, deadline=None)
def test_negative_binomial_deviance_is_twice_the_gap_of_scipy_log_likelihoods(seed, theta):
    loss = eb.NegativeBinomial(theta)
    scores, target = loss_data(loss, seed)

    def log_likelihood(mean):
        return nbinom.logpmf(target, theta, theta / (theta + mean))[:, 0]

    gap = 2 * (log_likelihood(target) - log_likelihood(np.exp(scores)))
    np.testing.assert_allclose(loss.deviance(scores, target), gap, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("mean", [1e-12, 1.0, 1e12])
def test_negative_binomial_of_any_size_has_the_derivatives_of_its_closed_form(mean):
    loss = eb.NegativeBinomial(2.0)
    target = mean * np.array([[0.5], [2.0]])
    scores = np.full((2, 1), np.log(mean))
    shares = np.array([mean, 2.0]) / (mean + 2.0)
    gradient = shares[1] * (mean - target)
    np.testing.assert_allclose(loss.gradient(scores, target), gradient, rtol=1e-12)
    curvature = (target + 2.0) * shares[0] * shares[1]
    np.testing.assert_allclose(loss.curvature(scores, target), curvature, rtol=1e-12)
    step = 1e-3  # of two values whose difference is a share of them, whatever the counts
    change = loss.value(scores + step, target) - loss.value(scores - step, target)
    np.testing.assert_allclose(change / (2 * step), gradient[:, 0], rtol=1e-4)


@pytest.mark.parametrize("loss", LOG_LINK, ids=repr)
def test_variances_of_counts_and_amounts_are_those_of_their_samples(loss):
    scores = np.repeat([[0.0], [1.2]], 200_000, axis=0)
    sample = loss.sample(np.random.default_rng(0), scores, 0.8).reshape(2, -1)
    expected = loss.variance(scores[[0, -1]], 0.8)[:, 0]
    np.testing.assert_allclose(sample.var(axis=1), expected, rtol=0.02)


@pytest.mark.parametrize("loss", [eb.SquaredError(), eb.Huber(1.0)], ids=repr)
def test_the_dispersion_of_normal_errors_is_their_variance(loss):
    sample = loss.sample(np.random.default_rng(0), np.full((50_000, 1), 5.0), 9.0)
    estimate = loss.dispersion(np.full((50_000, 1), 5.0), sample, np.ones(50_000))
    assert estimate == pytest.approx(9.0, rel=0.05)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_samples_have_the_predicted_mean_or_quantile(loss):
    scores = np.tile(np.linspace(0.3, 0.9, 4 if isinstance(loss, eb.Softmax) else 1), (40_000, 1))
    sample = loss.sample(np.random.default_rng(0), scores, 0.5)
    if isinstance(loss, eb.Quantile):
        assert (sample < scores).mean() == pytest.approx(loss.alpha, abs=0.01)
        return
    expected = loss.inverse_link(scores)[0][-sample.shape[1] :]
    np.testing.assert_allclose(sample.mean(axis=0), expected, rtol=0.03)


@pytest.mark.parametrize(
    "loss", [eb.SquaredError(), eb.Quantile(0.3, 0.1), eb.Gamma(), eb.Tweedie(1.4)], ids=repr
)
def test_dispersion_is_recovered_from_a_sample(loss):
    random = np.random.default_rng(0)
    scores = random.normal(size=(20_000, 1))
    target = loss.sample(random, scores, 0.4)
    assert loss.dispersion(scores, target, np.ones(20_000)) == pytest.approx(0.4, rel=0.05)


@pytest.mark.parametrize("shape", [0.05, 0.3, 4.0, 500.0])
def test_shape_of_a_gamma_distribution_has_the_greatest_likelihood(shape):
    random = np.random.default_rng(0)
    target = random.gamma(shape, 2.0, (400, 1)) + 1e-100
    weight = random.random(400)
    scores = np.full_like(target, np.log(weight @ target[:, 0] / weight.sum()))

    def minus_log_likelihood(log_shape):
        scale = np.exp(scores - log_shape)
        return -weight @ gamma.logpdf(target, np.exp(log_shape), scale=scale)[:, 0]

    estimate = -np.log(eb.Gamma().dispersion(scores, target, weight))
    best = minimize_scalar(minus_log_likelihood, bracket=(estimate - 1.0, estimate + 1.0))
    assert estimate == pytest.approx(best.x, abs=1e-6)


@pytest.mark.parametrize(
    "truth",
    [
        eb.NegativeBinomial(3.0),
        eb.Tweedie(1.3),
        eb.Beta(5.0),
        eb.ZeroInflated(2.0, 0.3),
        eb.Hurdle(2.0, 0.5),
    ],
    ids=repr,
)
def test_parameters_are_recovered_from_a_sample_around_known_scores(truth):
    random = np.random.default_rng(0)
    scores = random.normal(1.0, 1.0, size=(20_000, 1))
    target = truth.sample(random, scores)
    fitted = type(truth)().prepared(target, np.ones(20_000), scores)
    assert fitted.get_params() == pytest.approx(truth.get_params(), rel=0.1)
    assert truth.prepared(target, np.ones(20_000), scores) is truth


@pytest.mark.parametrize("scores", [None, np.full((50, 1), 0.7)], ids=["none", "equal"])
def test_equal_scores_tell_no_power_of_tweedie_amounts(scores):
    target = np.random.default_rng(0).gamma(1.0, size=(50, 1))
    assert eb.Tweedie().prepared(target, np.ones(50), scores).power == 1.5


def test_cross_entropy_and_links_agree_with_scikit_learn():
    scores, target = loss_data(eb.Softmax(), 0)
    probability = eb.Softmax().inverse_link(scores)
    np.testing.assert_allclose(probability.sum(1), 1.0)
    assert eb.Softmax().value(scores, target).mean() == pytest.approx(
        log_loss(target.argmax(1), probability)
    )
    scores, target = loss_data(eb.LogLoss(), 0)
    expected = log_loss(target[:, 0], eb.LogLoss().inverse_link(scores))
    assert eb.LogLoss().value(scores, target).mean() == pytest.approx(expected)


def test_extreme_scores_stay_finite():
    for loss in (eb.LogLoss(), eb.Softmax()):
        scores = np.outer([800.0, -800.0], np.ones(1 if isinstance(loss, eb.LogLoss) else 3))
        target = np.zeros_like(scores)
        target[:, 0] = 1.0
        assert np.isfinite(loss.value(scores, target)).all()
        assert np.isfinite(loss.gradient(scores, target)).all()


def test_labels_of_zero_have_finite_losses_however_small_the_score():
    scores, target = np.array([[-800.0], [0.0]]), np.zeros((2, 1))
    for loss in (eb.Poisson(), eb.NegativeBinomial(2.0), eb.Tweedie(1.95)):
        for method in (loss.value, loss.gradient, loss.curvature):
            assert np.isfinite(method(scores, target)).all()


def test_scale_of_huber_and_quantile_follows_the_labels():
    target = np.random.default_rng(0).normal(size=(1000, 1))
    weight = np.ones(1000)
    small, large = (eb.Huber().prepared(scale * target, weight).delta for scale in (1.0, 100.0))
    assert large == pytest.approx(100 * small)
    assert small == pytest.approx(1.345, rel=0.1)
    assert eb.Huber(2.0).prepared(target, weight).delta == 2.0
    assert eb.Quantile(0.5).prepared(100 * target, weight).rounding == pytest.approx(50.0, rel=0.1)
    assert eb.Huber().prepared(np.zeros((5, 1)), np.ones(5)).delta > 0


def test_robust_scale_falls_back_to_the_standard_deviation():
    def delta(*labels):
        return eb.Huber().prepared(np.array(labels)[:, None], np.ones(len(labels))).delta

    assert delta(0.0, 1.0, 2.0, 3.0, 1000.0) == pytest.approx(1.345 * 1.4826)
    assert delta(5.0, 5.0, 5.0, 9.0) == pytest.approx(1.345 * np.std([5.0, 5.0, 5.0, 9.0]))
    assert delta(5.0, 5.0, 5.0) == pytest.approx(1.345)


@pytest.mark.parametrize(
    ("kind", "name", "inside", "outside"),
    [
        (eb.Huber, "delta", [0.1], [0.0, -0.5]),
        (eb.Quantile, "alpha", [0.01, 0.99], [0.0, 1.0, 1.5]),
        (eb.Quantile, "rounding", [0.1], [0.0, -0.5]),
        (eb.NegativeBinomial, "theta", [0.1], [0.0, -0.5]),
        (eb.Binomial, "correlation", [0.0, 0.5], [-0.1, 1.0]),
        (eb.Beta, "precision", [0.1], [0.0, -0.5]),
        (eb.ZeroInflated, "share", [0.0, 0.5], [1.0, -0.5]),
        (eb.Hurdle, "ratio", [0.1], [0.0, -0.5]),
        (eb.Tweedie, "power", [1.01, 1.99], [1.0, 2.0, 0.5]),
    ],
)
def test_parameters_are_accepted_in_their_range_only(kind, name, inside, outside):
    for number in inside:
        target = np.arange(1.0, 4.0)[:, None] / (4.0 if issubclass(kind, eb.LogLoss) else 1.0)
        prepared = kind(**{name: number}).prepared(target, np.ones(3))
        assert prepared.get_params()[name] == number
    for number in outside:
        with pytest.raises(ValueError, match=f"{kind.__name__}: {name} must be a number"):
            kind(**{name: number}).prepared(np.ones((3, 1)), np.ones(3))


@pytest.mark.parametrize(
    "loss", ["poisson", "negative_binomial", "tweedie", "zero_inflated_poisson", "hurdle_poisson"]
)
def test_counts_and_amounts_must_not_be_negative_nor_all_zero(loss):
    with pytest.raises(ValueError, match=r"must not be negative for the .* loss, got -1"):
        eb.EBBSRegressor(loss=loss).fit([[0.0], [1.0]], [-1.0, 2.0])
    with pytest.raises(ValueError, match="must not be 0 at every"):
        eb.EBBSRegressor(loss=loss).fit([[0.0], [1.0]], [0.0, 0.0])


def test_shares_must_be_between_0_and_1():
    for loss, y, words in [
        ("binomial", [0.5, 3.0], "a share from 0 to 1 .* got 3: divide .* position 1"),
        ("binomial", [-0.5, 1.0], "got -0.5"),
        ("beta", [0.5, 0.0], "strictly between 0 and 1 .* got 0"),
        ("beta", [0.5, 1.0], "got 1: loss='binomial'"),
    ]:
        with pytest.raises(ValueError, match=words):
            eb.EBBSRegressor(loss=loss).fit([[0.0], [1.0]], y)
    with pytest.raises(ValueError, match="a loss for numbers"):
        eb.EBBSClassifier(loss=eb.Binomial()).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("missing", ["value", "gradient"])
def test_custom_losses_need_a_value_and_a_gradient(missing):
    parts = {name: getattr(eb.SquaredError, name) for name in ("value", "gradient")}
    assert type("Mine", (eb.Loss,), parts)().curvature(np.zeros((2, 1)), np.ones((2, 1))) == 1.0
    del parts[missing]
    with pytest.raises(TypeError, match=missing):
        type("Mine", (eb.Loss,), parts)()


def test_initial_score_of_the_quantile_loss_is_the_weighted_quantile():
    target, weight = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 1.0, 10.0])
    assert eb.Quantile(alpha=0.5).initial(target, weight).tolist() == [3.0]
    assert eb.Quantile(alpha=0.1).initial(target, weight).tolist() == [2.0]
