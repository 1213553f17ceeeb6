"""Conformal prediction intervals."""

import numpy as np
import pytest

import ebboost as eb
from tests.problems import homophilous


def test_intervals_cover_their_share_of_the_truth():
    X, y, graph = homophilous(3000)
    train, rest = np.arange(1500), np.arange(1500, 3000)
    m = eb.EBBSRegressor(80, smoothing=None, random_state=0, n_jobs=1, n_folds=3)
    m.fit(X, y[train], nodes=train, graph=graph)
    for level in (0.8, 0.9):
        intervals = m.predict(interval=level, nodes=rest)
        inside = (intervals.lower <= y[rest]) & (y[rest] <= intervals.upper)
        assert np.mean(inside) == pytest.approx(level, abs=0.07)
        np.testing.assert_array_equal(intervals.prediction, m.predict(nodes=rest))


def test_intervals_of_few_labels_use_out_of_fold_residuals():
    X, y, graph = homophilous(800)
    coverage = []
    for seed in range(5):
        few = np.random.default_rng(seed).choice(800, 45, replace=False)
        m = eb.EBBSRegressor(30, smoothing=None, labels="field", random_state=0, n_jobs=1)
        m.fit(X, y[few], nodes=few, graph=graph)
        assert "out of fold" in m.conformity_source_
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


@pytest.mark.parametrize("interval", [2, 0.0, 1.0, "wide", -0.5, 90])
def test_an_interval_must_be_between_0_and_1(interval):
    X, y, graph = homophilous(100)
    m = eb.EBBSRegressor(5, n_jobs=1).fit(X, y, graph=graph)
    with pytest.raises(ValueError, match=r"interval must be a number in \(0, 1\)"):
        m.predict(interval=interval)


def test_a_classifier_has_no_intervals():
    X, y, graph = homophilous(100)
    with pytest.raises(ValueError, match="predict_proba"):
        eb.EBBSClassifier(5, n_jobs=1).fit(X, y > 0, graph=graph).predict(interval=0.9)
