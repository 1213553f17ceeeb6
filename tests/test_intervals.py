"""Intervals, sets and distributions: coverage, monotone levels, moments, where labels are far."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import ebboost as eb
from ebboost.intervals import (
    conformal_quantile,
    degrees_of_freedom,
    distribution_with,
    normal_scores,
)
from tests.strategies import fixed, homophilous, quick

N = 500
KNOWN = np.arange(250)
REST = np.arange(250, N)


def problem(noise, seed=0):
    rng = np.random.default_rng(seed)
    X, _, graph = homophilous(N, seed)
    position = np.linspace(0.0, 1.0, N)
    score = 0.7 * X[:, 0] + 0.3 * np.sin(9 * position)
    return X, noise(rng, score, X), graph


NOISES = {
    "squared_error": lambda rng, s, X: s + 0.5 * rng.normal(size=N),
    "huber": lambda rng, s, X: s + 0.5 * rng.standard_t(2, size=N),
    "quantile": lambda rng, s, X: s + 0.5 * rng.laplace(size=N),
    "poisson": lambda rng, s, X: rng.poisson(np.exp(s)).astype(float),
    "negative_binomial": lambda rng, s, X: rng.poisson(rng.gamma(1.0, np.exp(s))).astype(float),
    "gamma": lambda rng, s, X: rng.gamma(2.0, np.exp(s) / 2.0) + 1e-9,
    "tweedie": lambda rng, s, X: eb.Tweedie(1.5).sample(rng, s[:, None], 1.0)[:, 0],
}


@pytest.mark.parametrize("loss", NOISES)
def test_intervals_cover_their_share_and_grow_with_it(loss):
    X, y, graph = problem(NOISES[loss])
    model = quick(loss=loss, n_estimators=25).fit(X, y[KNOWN], nodes=KNOWN, graph=graph)
    widths = []
    for level in (0.5, 0.9):
        prediction, lower, upper = model.predict(nodes=REST, interval=level)
        np.testing.assert_array_equal(prediction, model.predict(nodes=REST))
        inside = (lower <= y[REST]) & (y[REST] <= upper)
        slack = 5.0 * np.sqrt(level * (1.0 - level) * (1 / 250 + 1 / 250))
        is_discrete = loss in ("poisson", "negative_binomial", "tweedie")
        assert level - slack <= inside.mean() <= (1.0 if is_discrete else level + slack)
        widths.append(upper - lower)
        assert (lower <= upper).all()
    assert (widths[0] <= widths[1] + 1e-12).all()
    distribution = model.predict_distribution(nodes=REST)
    assert (distribution.std() > 0.0).all()
    pit = distribution.cdf(y[REST])
    assert 0.3 < np.median(pit) < 0.8


def test_intervals_are_wide_where_noise_is_large_and_labels_are_far():
    X, y, graph = problem(lambda rng, s, X: s + np.exp(X[:, 1]) * rng.normal(size=N))
    model = quick(n_estimators=25).fit(X, y[KNOWN], nodes=KNOWN, graph=graph)
    _, lower, upper = model.predict(nodes=REST, interval=0.9)
    assert np.corrcoef(np.log(upper - lower), X[REST, 1])[0, 1] > 0.5
    path = eb.Graph.from_edges(np.arange(N - 1), np.arange(1, N))
    walk = np.cumsum(np.random.default_rng(0).normal(size=N))
    near = np.arange(300)
    model = quick(n_estimators=25).fit(np.zeros((N, 1)), walk[near], nodes=near, graph=path)
    deviation = model.predict_distribution().std()
    assert deviation[299] < 0.5 * deviation[310] < 0.5 * deviation[330]
    new = model.predict_distribution([[0.0], [0.0]], attach=([0, 1], [299, 400])).std()
    assert deviation[299] < new[0] < new[1]


@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
def test_rows_of_every_kind_have_intervals(kind):
    X, y, graph = homophilous(N)
    y = y if kind is eb.EBBSRegressor else np.digitize(y, [-0.5, 0.5])
    model = quick(kind, n_estimators=4).fit(X, y[KNOWN], nodes=KNOWN, graph=graph)
    new = {"X": X[:3] + 0.1, "attach": ([0, 1], [4, 5])}
    other = {"X": X[:50], "graph": eb.Graph.build_knn(X[:50], 3), "new_labels": ([], [])}
    for where in ({}, {"X": X}, {"nodes": [3, 1]}, new, other, {"new_labels": ([300], [y[300]])}):
        result = model.predict(**where, interval=0.8)
        assert len(result.prediction) == len(result[1])
    groups = quick(kind, n_estimators=4).fit(X, y, groups=np.arange(N) % 9)
    result = groups.predict(X[:3], groups=[1, 2, 99], interval=0.8)
    assert len(result[1]) == 3
    plain = quick(kind, n_estimators=4).fit(X, y)
    assert len(plain.predict(X[:3] + 1.0, interval=0.8)[1]) == 3


@pytest.mark.parametrize("factor", [1e-20, 1e6])
def test_intervals_scale_with_labels_and_not_with_weights(factor):
    X, y, graph = problem(NOISES["squared_error"])
    part = {"X": X[:50], "graph": eb.Graph.build_knn(X[:50], 3), "new_labels": ([], [])}
    one, other = quick(), quick()
    one.fit(X, y[KNOWN], nodes=KNOWN, graph=graph)
    other.fit(X, factor * y[KNOWN], np.full(250, 7.0), nodes=KNOWN, graph=graph)
    for where in ({}, {"X": X[:3] + 0.1, "attach": ([0, 1], [4, 5])}, part):
        pair = (one.predict(**where, interval=0.9), other.predict(**where, interval=0.9))
        for expected, result in zip(*pair, strict=True):
            np.testing.assert_allclose(result / factor, expected, rtol=1e-3, atol=1e-3)


def test_sets_cover_classes_and_hold_the_most_probable_one():
    X, y, graph = problem(lambda rng, s, X: s + rng.normal(size=N))
    classes = np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.5])]
    model = quick(eb.EBBSClassifier, n_estimators=10)
    model.fit(X, classes[KNOWN], nodes=KNOWN, graph=graph)
    sizes = []
    for level in (0.5, 0.9):
        prediction, contains = model.predict(nodes=REST, interval=level)
        column = np.searchsorted(model.classes_, classes[REST])
        inside = contains[np.arange(250), column]
        slack = 5.0 * np.sqrt(level * (1.0 - level) * (1 / 250 + 1 / 250))
        assert level - slack <= inside.mean() <= min(1.0, level + slack + 0.1)
        assert contains[np.arange(250), np.searchsorted(model.classes_, prediction)].all()
        sizes.append(contains.sum(axis=1))
    assert (sizes[0] <= sizes[1]).all()


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=60), st.floats(0.01, 0.99))
@settings(max_examples=60, deadline=None)
def test_the_conformal_quantile_is_an_order_statistic(scores, level):
    scores = np.array(scores)
    quantile = conformal_quantile(scores, level)
    rank = int(np.ceil((scores.size + 1) * level - 1e-9))
    if rank > scores.size:
        assert quantile == np.inf
    else:
        assert (scores <= quantile).sum() >= rank and (scores < quantile).sum() < rank


@pytest.mark.parametrize("loss", [*NOISES, eb.Quantile(0.9)], ids=str)
def test_distributions_have_the_mean_and_deviation_that_are_stated(loss):
    kind = {"quantile": eb.Quantile(0.5, 0.1), "huber": eb.Huber(1.0), "gamma": eb.Gamma()}
    kind |= {"squared_error": eb.SquaredError(), "poisson": eb.Poisson()}
    kind |= {"negative_binomial": eb.NegativeBinomial(2.0), "tweedie": eb.Tweedie(1.5)}
    loss = kind[loss] if isinstance(loss, str) else loss
    raw = np.array([[-1.0], [0.0], [2.0]])
    mean = np.exp(raw[:, 0]) if loss.log_link else raw[:, 0]
    deviation = np.sqrt(mean) * 1.5 if loss.log_link else np.array([0.3, 1.0, 4.0])
    own = distribution_with(loss, raw, deviation, 8.0)
    np.testing.assert_allclose(own.mean(), mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(own.std(), deviation, rtol=0.02)
    for level in (0.05, 0.5, 0.99):
        ends = own.ppf(np.full(3, level))
        assert (own.cdf(ends) >= level - 1e-9).all()


def test_amounts_that_may_be_zero_are_distributed_like_their_draws():
    own = eb.Tweedie(1.5).distribution(np.zeros((1, 1)), np.sqrt([3.0]))
    draws = eb.Tweedie(1.5).sample(np.random.default_rng(0), np.zeros((400_000, 1)), 3.0)
    assert own.cdf(np.zeros(1))[0] == pytest.approx((draws == 0.0).mean(), abs=0.005)
    assert own.cdf(np.array([-1.0]))[0] == 0.0 and own.var() == pytest.approx(3.0)
    for y in (0.5, 1.0, 4.0):
        assert own.cdf(np.array([y]))[0] == pytest.approx((draws <= y).mean(), abs=0.02)
        assert own.sf(np.array([y])) == pytest.approx(1.0 - own.cdf(np.array([y])))


@pytest.mark.parametrize(
    "distribution", [stats.poisson(2.0), stats.nbinom(2.0, 0.9), stats.gamma(2.0), stats.t(4.0)]
)
def test_labels_with_scores_between_two_levels_are_between_their_quantiles(distribution):
    """Of counts, scores are those of the middle of a step: no label is outside by its score."""
    y = distribution.rvs(size=2000, random_state=0).astype(float)
    scores = normal_scores(distribution, y)
    assert abs(np.median(scores)) < 0.3
    low, high = np.quantile(scores, [0.05, 0.95])
    inside = (scores >= low) & (scores <= high)
    ends = distribution.ppf(stats.norm.cdf([low, high]))
    assert ((y[inside] >= ends[0]) & (y[inside] <= ends[1])).all()
    far = normal_scores(stats.norm(), np.array([-1e3, -9.0, 9.0, 1e3]))
    np.testing.assert_allclose(far, [-40.0, -9.0, 9.0, 40.0], rtol=1e-6)


@pytest.mark.parametrize("df", [3.0, 5.0, 100.0])
def test_degrees_of_freedom_are_recovered(df):
    sample = stats.t(df).rvs(size=20_000, random_state=0)
    estimate = degrees_of_freedom(sample)
    assert 0.7 * df <= estimate <= 1.5 * df or (df == 100.0 and estimate > 25.0)


@pytest.mark.parametrize("loss", ["squared_error", "gamma", "poisson", "tweedie"])
def test_labels_without_noise_have_narrow_finite_intervals(loss):
    X, _, graph = homophilous(300)
    model = quick(loss=loss).fit(X, np.full(300, 2.0), graph=graph)
    prediction, lower, upper = model.predict(interval=0.9)
    np.testing.assert_allclose(prediction, 2.0, rtol=1e-6)
    assert np.isfinite(lower).all() and np.isfinite(upper).all()
    assert loss == "poisson" or (upper - lower < 0.1).all()


def test_intervals_need_labels_that_were_not_trained_on():
    X, y, graph = homophilous(60)
    for model in (fixed().fit(X, y), fixed(eb.EBBSClassifier).fit(X, y > 0)):
        with pytest.raises(ValueError, match="needs residuals at labels that were not trained on"):
            model.predict(interval=0.9)
    with pytest.raises(ValueError, match="predict_distribution needs residuals"):
        fixed().fit(X, y).predict_distribution()
    with pytest.raises(AttributeError, match=r"use predict_proba\(\)"):
        fixed(eb.EBBSClassifier).fit(X, y > 0).predict_distribution()
    few = quick().fit(X, y[:10], nodes=np.arange(10), graph=graph)
    _, lower, upper = few.predict(interval=0.9)
    assert np.isinf(lower).all() and np.isinf(upper).all()  # 10 labels cannot tell
    assert np.isfinite(few.predict(interval=0.5).upper).all() and "too few labels" in few.summary()
