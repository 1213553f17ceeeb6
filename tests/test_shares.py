"""Shares of known trials: what the trials of a row mean for its weight, prediction and interval."""

import numpy as np
import pytest

import ebboost as eb
from tests.strategies import fixed, quick

N = 300
_random = np.random.default_rng(0)
X = _random.normal(size=(N, 2))
POINTS = _random.random((N, 2))
GRAPH = eb.Graph.build_knn(POINTS, 5)
TRIALS = np.exp(_random.uniform(1.0, 7.0, N)).round()
SHARE = 1.0 / (1.0 + np.exp(-X[:, 0] - np.sin(6.0 * POINTS[:, 0])))
Y = _random.binomial(TRIALS.astype(int), SHARE) / TRIALS
UNKNOWN = np.arange(N) >= 200
LABELS = np.where(UNKNOWN, np.nan, Y)


def fitted(**changes):
    model = quick(n_estimators=100, loss="binomial", **changes)
    return model.fit(X, LABELS, graph=GRAPH, exposure=TRIALS)


def test_shares_are_predicted_and_intervals_are_wider_for_fewer_trials(tmp_path):
    model = fitted()
    assert model.predict().min() > 0.0 and model.predict().max() < 1.0
    bounds = model.predict(nodes=UNKNOWN, interval=0.9)
    y = Y[UNKNOWN]
    assert np.sqrt(np.mean((bounds.prediction - SHARE[UNKNOWN]) ** 2)) < 0.6 * SHARE.std()
    assert np.mean((y >= bounds.lower) & (y <= bounds.upper)) > 0.8
    few, many = TRIALS[UNKNOWN] < 20, TRIALS[UNKNOWN] > 300
    width = bounds.upper - bounds.lower
    assert width[few].mean() > 1.5 * width[many].mean()
    stated = model.predict_distribution(nodes=UNKNOWN)
    np.testing.assert_allclose(stated.mean(), bounds.prediction)
    assert np.isfinite(stated.logpmf(y)).all()
    model.save(tmp_path / "model.ebb")
    again = eb.load(tmp_path / "model.ebb")
    np.testing.assert_array_equal(again.predict(nodes=UNKNOWN, interval=0.9), bounds)


def test_new_rows_need_their_trials_for_intervals_only():
    model = fitted()
    where = {"attach": ([0, 1], [0, 1])}
    new = np.repeat(X[:1], 2, axis=0)
    assert model.predict(new, **where).shape == (2,)
    with pytest.raises(ValueError, match="pass predict"):
        model.predict(new, interval=0.9, **where)
    bounds = model.predict(new, exposure=[5, 5000], interval=0.9, **where)
    widths = bounds.upper - bounds.lower
    assert widths[0] > 1.5 * widths[1]
    label = {"new_labels": ([0], [0.99]), "nodes": [0], **where}
    few, many = (model.predict(new, exposure=[size, 9], **label)[0] for size in (2, 2000))
    assert model.predict(new, **where)[0] < few < many


def test_trials_are_weights_as_in_other_libraries():
    loss = eb.Binomial(0.0)
    one = fixed(loss=loss).fit(X, Y, exposure=TRIALS)
    other = fixed(loss=loss).fit(X, Y, sample_weight=TRIALS)
    np.testing.assert_allclose(one.predict(), other.predict())


def test_the_correlation_of_trials_is_estimated():
    random = np.random.default_rng(0)
    scores, trials = random.normal(size=(4000, 1)), random.integers(5, 500, 4000).astype(float)
    share = 1.0 / (1.0 + np.exp(-scores[:, 0]))
    share = random.beta(9.0 * share, 9.0 * (1.0 - share))  # a correlation of 1 / (1 + 9)
    target = (random.binomial(trials.astype(int), share) / trials)[:, None]
    found = eb.Binomial().given_trials(target, trials, scores)
    assert found.correlation == pytest.approx(0.1, rel=0.1)
    np.testing.assert_allclose(found.information(np.array([1.0, 1e9])), [1.0, 10.0], rtol=0.1)
