"""Checks of a model against what chance explains."""

import numpy as np
import pytest

import ebboost as eb
from ebboost.inspection import model_checks
from ebboost.inspection.model_checks import Check
from ebboost.model.state import GraphGain

N = 500
POINTS = np.random.default_rng(3).random((N, 2))
GRAPH = eb.Graph.build_knn(POINTS, k=5)
FIELD = eb.LatentField(4.0, 0.05)
QUICK = {"smoothing": None, "neighbor_features": None, "n_folds": 2, "random_state": 0, "n_jobs": 1}


def draw_field(seed):
    precision = FIELD.operator(GRAPH, np.arange(N), np.ones(N)).prior.csr.toarray()
    root = np.linalg.cholesky(np.linalg.inv(precision))
    return root @ np.random.default_rng(seed).normal(size=N)


def fit(y, labels, kind=eb.EBBSRegressor):
    X = np.zeros((N, 1))
    return kind(3, labels=labels, **QUICK).fit(X, y, graph=GRAPH).state_


def test_prior_draws_have_the_precision_matrix_as_covariance():
    precision = FIELD.operator(GRAPH, np.arange(5), np.ones(5)).prior.csr
    draws = model_checks._draw_prior(precision, 4000, np.random.default_rng(0))
    covariance = np.cov(draws)
    assert np.abs(covariance - precision.toarray()).max() < 0.12 * precision.diagonal().max()


def test_residuals_of_the_true_model_are_as_correlated_as_expected():
    y = draw_field(0) + np.random.default_rng(1).normal(size=N)
    check = model_checks.residual_check(fit(y, FIELD))
    assert abs(check.value - check.expected) < 3.0 * check.deviation
    assert check.expected < 0  # predictions use the neighbours' labels, and their noise


def test_a_field_that_is_too_weak_leaves_correlated_residuals():
    y = 2.0 * draw_field(0) + 0.1 * np.random.default_rng(1).normal(size=N)
    check = model_checks.residual_check(fit(y, eb.LatentField(0.1, 5.0)))
    assert check.exceeds(0.05)


def test_labels_without_a_spatial_pattern_raise_no_alarm():
    y = (np.random.default_rng(1).random(N) < 0.5).astype(int)
    state = fit(y, "none", eb.EBBSClassifier)
    check = model_checks.residual_check(state)
    assert check.expected == pytest.approx(0.0, abs=0.03)
    assert not check.exceeds(0.05)
    assert not model_checks.calibration_check(state).exceeds(0.02)


def test_without_enough_links_there_is_no_check():
    m = eb.EBBSRegressor(3, n_folds=2, n_jobs=1).fit(np.arange(40.0)[:, None], np.arange(40.0))
    assert model_checks.residual_check(m.state_) is None
    assert model_checks.calibration_check(m.state_) is None


@pytest.mark.parametrize(
    ("value", "alarm"), [(0.3, True), (0.12, False), (0.03, False), (-0.5, False)]
)
def test_a_check_exceeds_chance_by_three_deviations(value, alarm):
    assert Check(value, -0.1, 0.05).exceeds(0.04) is alarm


def test_the_graph_does_harm_beyond_chance():
    random = np.random.default_rng(0)
    without = random.normal(1.0, 0.1, 200)
    assert GraphGain.of_losses(without, without + random.normal(0.1, 0.1, 200)).is_harm
    assert not GraphGain.of_losses(without, without + random.normal(0.0, 0.1, 200)).is_harm


def test_a_loss_that_cannot_draw_labels_has_no_check_of_residuals():
    class Counts(eb.Poisson):
        sample = eb.Loss.sample

    y = np.random.default_rng(0).poisson(np.exp(0.3 * draw_field(0))).astype(float)
    settings = {"labels": FIELD, "loss": Counts()} | QUICK
    state = eb.EBBSRegressor(3, **settings).fit(np.zeros((N, 1)), y, graph=GRAPH).state_
    assert model_checks.residual_check(state) is None
