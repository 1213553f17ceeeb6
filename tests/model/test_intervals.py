"""Conformal prediction intervals."""

import numpy as np
import pytest

import ebboost as eb
from ebboost.model.intervals import LocalQuantile, conformal_quantile, scores_of_labels
from tests.problems import homophilous


def test_intervals_cover_their_share_of_the_truth():
    X, y, graph = homophilous(3000)
    train, rest = np.arange(1500), np.arange(1500, 3000)
    m = eb.EBBSRegressor(80, smoothing=None, random_state=0, n_jobs=1, n_folds=3)
    m.fit(X, y[train], nodes=train, graph=graph)
    for level in (0.8, 0.9):
        intervals = m.predict(interval=level, nodes=rest)
        inside = (intervals.lower <= y[rest]) & (y[rest] <= intervals.upper)
        assert np.mean(inside) == pytest.approx(level, abs=0.08)
        np.testing.assert_array_equal(intervals.prediction, m.predict(nodes=rest))


def test_intervals_of_few_labels_use_out_of_fold_residuals():
    X, y, graph = homophilous(800)
    coverage = []
    for seed in range(5):
        few = np.random.default_rng(seed).choice(800, 45, replace=False)
        m = eb.EBBSRegressor(30, smoothing=None, labels="field", random_state=0, n_jobs=1)
        m.fit(X, y[few], nodes=few, graph=graph)
        assert m.validation_nodes_.size == 45
        intervals = m.predict(interval=0.9)
        rest = np.setdiff1d(np.arange(800), few)
        coverage.append(
            np.mean(
                (intervals.lower <= y) & (y <= intervals.upper), where=np.isin(np.arange(800), rest)
            )
        )
    assert 0.82 < np.mean(coverage) < 0.98


def test_a_level_beyond_the_residuals_gives_infinite_intervals():
    X, y, graph = homophilous(100)
    m = eb.EBBSRegressor(5, n_jobs=1).fit(X, y[:20], nodes=np.arange(20), graph=graph)
    assert np.isinf(m.predict(interval=0.99).upper).all()


def test_intervals_need_nodes_that_were_not_trained_on():
    X, y, graph = homophilous(100)
    for m, known in ((eb.EBBSRegressor(5, early_stopping=False), 100), (eb.EBBSRegressor(5), 5)):
        m.set_params(n_jobs=1).fit(X, y[:known], nodes=np.arange(known), graph=graph)
        with pytest.raises(
            ValueError, match="interval needs residuals at nodes that were not trained on"
        ):
            m.predict(interval=0.9)


def local_noise(n=1500, seed=0):
    """Noise that grows with the second column."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 2))
    graph = eb.Graph.build_knn(X[:, :1], k=4)
    return X, X[:, 0] + np.exp(X[:, 1]) * random.normal(size=n), graph


FAST = {"smoothing": None, "labels": "none", "random_state": 0, "n_jobs": 1, "n_folds": 2}


@pytest.fixture(scope="module")
def noisy():
    X, y, graph = local_noise()
    nodes = np.arange(1000)
    return eb.EBBSRegressor(15, **FAST).fit(X, y[nodes], nodes=nodes, graph=graph), X, y


def covered(intervals, y):
    return (intervals.lower <= y) & (y <= intervals.upper)


def test_intervals_follow_the_local_spread(noisy):
    m, X, y = noisy
    test = np.arange(1000, 1500)
    inside = covered(m.predict(interval=0.9, nodes=test), y[test])
    for group in (X[test, 1] < -0.5, X[test, 1] > 0.5):
        assert inside[group].mean() == pytest.approx(0.9, abs=0.08)


def test_intervals_of_groups_are_calibrated_by_their_labels(noisy):
    m, X, _ = noisy
    group = (X[:, 0] > 0).astype(int)
    intervals = m.predict(interval=0.8, interval_groups=group)
    record = m.state_.validation
    at_labels = record.prediction[:, 0]
    scores = scores_of_labels(m.state_)
    typical = LocalQuantile.fit(at_labels, scores, 0.8)
    differences = LocalQuantile.differences(at_labels, scores, 0.8)
    for value in (0, 1):
        chosen = group[record.nodes] == value
        difference = conformal_quantile(differences[chosen], 0.8)
        rows = np.flatnonzero(group == value)
        part = m.predict_distribution(nodes=rows)
        end = typical.at(m.state_.raw_predictions[rows, 0]) + difference
        np.testing.assert_allclose(intervals.lower[group == value], part.quantile_of_score(-end))


def test_quantiles_of_scores_follow_the_prediction():
    random = np.random.default_rng(0)
    raw = random.random(20_000)
    scores = (1.0 + raw) * random.exponential(size=raw.size)
    typical = LocalQuantile.fit(raw, scores, 0.9)
    centres = np.linspace(0.1, 0.9, 9)
    np.testing.assert_allclose(typical.at(centres), (1.0 + centres) * np.log(10), rtol=0.08)


def test_few_labels_have_the_conformal_quantile_of_all():
    random = np.random.default_rng(0)
    raw, scores = random.random((2, 150))
    assert LocalQuantile.fit(raw, scores, 0.9).at(raw).tolist() == [0.0] * 150
    assert LocalQuantile.differences(raw, scores, 0.9).tolist() == scores.tolist()


@pytest.mark.parametrize("n_labels", [230, 1100])  # four fifths would have fewer groups
def test_differences_are_from_as_many_groups_as_quantiles_have(n_labels):
    raw, scores = np.random.default_rng(0).random((2, n_labels))
    scores += 10.0
    assert np.abs(LocalQuantile.differences(raw, scores, 0.9)).max() < 2.0


def test_intervals_from_quantiles_in_groups_cover_other_labels_as_often_as_their_level():
    random = np.random.default_rng(0)
    shares = []
    for _ in range(1000):
        raw, scores = random.random((2, 400))
        ends = LocalQuantile.fit(raw, scores, 0.9).at(np.linspace(0.0, 1.0, 50))
        ends += conformal_quantile(LocalQuantile.differences(raw, scores, 0.9), 0.9)
        shares.append(ends.mean())  # of uniform scores: the share below
    assert np.mean(shares) == pytest.approx(0.9, abs=0.002)  # 0.896 less the own quantiles


def test_scores_beyond_double_precision_leave_quantiles_finite():
    scores = np.where(np.arange(400) % 5 == 0, np.inf, 1.0)
    assert np.isfinite(LocalQuantile.fit(np.arange(400.0), scores, 0.9).quantile).all()


@pytest.mark.parametrize("interval", [2, 0.0, 1.0, "wide", -0.5, 90])
def test_an_interval_must_be_between_0_and_1(noisy, interval):
    with pytest.raises(ValueError, match=r"interval must be a number in \(0, 1\)"):
        noisy[0].predict(interval=interval)


@pytest.mark.parametrize(
    ("groups", "message"), [("area", "not a column of X"), ([1, 2], "array of shape")]
)
def test_unknown_interval_groups_raise(noisy, groups, message):
    with pytest.raises(ValueError, match=message):
        noisy[0].predict(interval=0.9, interval_groups=groups)


def test_skewed_residuals_have_asymmetric_intervals():
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 1))
    y = random.exponential(size=400)
    intervals = eb.EBBSRegressor(5, **FAST).fit(X, y).predict(X, interval=0.8)
    above = intervals.upper - intervals.prediction
    assert np.median(above / (intervals.prediction - intervals.lower)) > 1.2


def test_intervals_survive_a_file_and_cover_new_rows(noisy, tmp_path):
    m, X, _ = noisy
    m.save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    np.testing.assert_array_equal(loaded.predict(interval=0.9), m.predict(interval=0.9))
    edges = (np.arange(20), np.arange(20))
    new = [one.predict(X[:20], attach=edges, interval=0.9) for one in (m, loaded)]
    np.testing.assert_array_equal(new[0], new[1])
    assert np.ptp(new[0].upper - new[0].lower) > 0


def test_counts_have_integer_intervals_that_cover():
    random = np.random.default_rng(0)
    X = random.normal(size=(900, 1))
    y = random.poisson(np.exp(1.0 + 0.5 * X[:, 0])).astype(float)
    m = eb.EBBSRegressor(20, loss="poisson", **FAST).fit(X[:600], y[:600])
    intervals = m.predict(X[600:], interval=0.9)
    np.testing.assert_array_equal(intervals.lower, np.round(intervals.lower))
    np.testing.assert_array_equal(intervals.upper, np.round(intervals.upper))
    assert 0.87 < covered(intervals, y[600:]).mean() < 0.98


def test_prediction_sets_contain_their_share_of_classes():
    random = np.random.default_rng(0)
    X = random.normal(size=(900, 2))
    y = (X[:, 0] + random.normal(size=900) > 0).astype(int) + (X[:, 1] > 1)
    m = eb.EBBSClassifier(20, **FAST).fit(X[:600], y[:600])
    sets = m.predict(X[600:], interval=0.8)
    assert sets.contains[np.arange(300), y[600:]].mean() == pytest.approx(0.8, abs=0.07)
    np.testing.assert_array_equal(sets.prediction, m.predict(X[600:]))
    few = m.predict(X[600:], interval=0.01).contains
    assert (few.sum(axis=1) == 1).all() and few[np.arange(300), sets.prediction].all()
    half = m.predict(X[600:], interval=0.5, empty_sets=True).contains
    assert half[np.arange(300), y[600:]].mean() == pytest.approx(0.5, abs=0.08)
    assert not half.any(axis=1).all()


def test_empty_sets_are_those_of_a_classifier(noisy):
    with pytest.raises(ValueError, match="empty_sets=True needs a classifier, and interval"):
        noisy[0].predict(interval=0.9, empty_sets=True)


def test_intervals_of_rare_counts_are_not_turned_around():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 3))
    y = (random.random(300) < 0.02).astype(float)
    graph = eb.Graph.build_knn(random.random((300, 2)), k=5)
    m = eb.EBBSRegressor(20, loss="poisson", n_folds=2, random_state=0, n_jobs=1)
    intervals = m.fit(X, y, graph=graph).predict(interval=0.9)
    assert (intervals.lower <= intervals.upper).all()
    assert covered(intervals, y).mean() >= 0.9
