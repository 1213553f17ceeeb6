"""Strengths of the field and parameters of the likelihood, recovered from simulated labels."""

from dataclasses import replace

import numpy as np
import pytest

import ebboost as eb
from ebboost.boosting import field_estimation
from ebboost.boosting.field_estimation import estimate_field, hidden_deviances
from ebboost.boosting.latent_field import MIN_TAU
from ebboost.data.labels import Labels


def simulated(loss, lam, tau, n=576, seed=0, n_outputs=1):
    """A grid, and labels of every node whose scores are a draw of the field alone."""
    side = int(np.sqrt(n))
    rows = np.arange(n).reshape(side, side)
    ends = np.hstack(
        [[rows[:, :-1].ravel(), rows[:, 1:].ravel()], [rows[:-1].ravel(), rows[1:].ravel()]]
    )
    graph = eb.Graph.from_edges(*ends, n_nodes=n)
    random = np.random.default_rng(seed)
    prior = eb.LatentField(lam, tau).operator(graph, np.arange(n), np.ones(n)).prior
    factor = np.linalg.cholesky(prior.csr.toarray())
    z = np.linalg.solve(factor.T, random.normal(size=(n, n_outputs)))
    scores = np.zeros((n, n_outputs)) + (0.0 if n_outputs > 1 else 1.0)
    target = loss.sample(random, scores + z)
    return graph, Labels(np.arange(n), target, np.ones(n)), scores


@pytest.mark.parametrize(
    "loss", [eb.SquaredError(), eb.Poisson(), eb.LogLoss(), eb.NegativeBinomial(4.0)], ids=repr
)
def test_strengths_predict_nearly_as_well_as_the_true_ones(loss):
    graph, labels, scores = simulated(loss, 2.0, 0.05)
    estimate = estimate_field(graph, labels, scores, loss)
    assert estimate.field is not None
    assert estimate.deviance < 0.98 * estimate.deviance_without
    assert 0.4 < estimate.field.lam < 10.0
    assert estimate.field.tau < 1.0
    hidden = ~np.isnan(estimate.scores[:, 0])
    deviance = loss.deviance(estimate.scores[hidden], labels.target[hidden])
    assert deviance.mean() == pytest.approx(estimate.deviance)


@pytest.mark.parametrize(("lam", "tau"), [(2.0, 0.1), (0.2, 0.5), (30.0, 0.3), (0.05, 0.0005)])
def test_no_single_factor_of_a_strength_predicts_better(lam, tau, monkeypatch):
    parts = (*simulated(eb.SquaredError(), lam, tau, n=256), eb.SquaredError())
    best = estimate_field(*parts)
    monkeypatch.setattr(field_estimation, "MAX_MOVES", 0)
    for share, ratio in ((2.0, 1.0), (0.5, 1.0), (1.0, 2.0), (1.0, 0.5)):
        start = eb.LatentField(share * best.field.lam, share * ratio * best.field.tau)
        is_searched = start.tau / start.lam >= 0.0009
        assert not is_searched or estimate_field(*parts, start=start).deviance >= best.deviance


@pytest.mark.parametrize("share", [0.25, 4.0])
def test_a_search_from_other_strengths_ends_at_the_same(share):
    parts = (*simulated(eb.SquaredError(), 2.0, 0.1, n=256), eb.SquaredError())
    best = estimate_field(*parts)
    start = eb.LatentField(share * best.field.lam, share * best.field.tau)
    again = estimate_field(*parts, start=start)
    assert again.deviance == pytest.approx(best.deviance, rel=1e-3)
    assert again.field.lam == pytest.approx(best.field.lam, rel=0.5)


def test_field_takes_up_what_looked_like_dispersion():
    graph, labels, scores = simulated(eb.NegativeBinomial(6.0), 2.0, 0.05)
    alone = eb.NegativeBinomial().prepared(labels.target, labels.weight, scores).theta
    estimate = estimate_field(graph, labels, scores, eb.NegativeBinomial())
    assert 1.5 * alone < estimate.loss.theta < 12.0


@pytest.mark.parametrize("loss", [eb.SquaredError(), eb.Poisson(), eb.LogLoss()], ids=repr)
def test_there_is_no_field_where_labels_are_independent(loss):
    graph, labels, scores = simulated(loss, 2.0, 1e6)
    estimate = estimate_field(graph, labels, scores, loss)
    assert estimate.field is None or estimate.deviance > 0.985 * estimate.deviance_without


@pytest.mark.parametrize("loss", [eb.SquaredError(), eb.Huber()], ids=repr)
def test_neighbours_of_opposite_labels_have_no_field(loss):
    graph, labels, scores = simulated(eb.SquaredError(), 2.0, 0.05, n=100)
    board = np.add.outer(np.arange(10), np.arange(10)) % 2
    labels = replace(labels, target=2.0 * board.reshape(-1, 1))
    estimate = estimate_field(graph, labels, scores, loss)
    fitted = loss.prepared(labels.target, labels.weight, scores)
    assert estimate.field is None
    assert estimate.loss.get_params() == fitted.get_params()
    np.testing.assert_array_equal(estimate.scores, scores)
    expected = fitted.deviance(scores, labels.target).mean()
    assert estimate.deviance == estimate.deviance_without == pytest.approx(expected)


def test_a_random_walk_has_a_field_of_long_range():
    graph = eb.Graph.from_edges(np.arange(399), np.arange(1, 400))
    random = np.random.default_rng(0)
    y = np.cumsum(random.normal(size=400)) + 0.5 * random.normal(size=400)
    labels = Labels(np.arange(400), (y - y.mean())[:, None], np.ones(400))
    field = estimate_field(graph, labels, np.zeros((400, 1)), eb.SquaredError()).field
    assert 0.0009 <= field.tau / field.lam < 0.01  # smaller ratios are not searched


def test_classes_have_a_field_of_log_odds():
    graph, labels, scores = simulated(eb.Softmax(), 0.5, 0.02, n=400, n_outputs=3)
    estimate = estimate_field(graph, labels, scores, eb.Softmax())
    assert estimate.field is not None
    assert estimate.deviance < 0.95 * estimate.deviance_without


def test_only_losses_for_outliers_weigh_labels():
    graph, labels, scores = simulated(eb.SquaredError(), 1.0, 0.03)
    labels.target[7] += 80.0
    assert estimate_field(graph, labels, scores, eb.SquaredError()).outlier_weights == 1.0
    weights = estimate_field(graph, labels, scores, eb.Huber()).outlier_weights
    assert weights[7] == weights.min() < 0.1 and np.median(weights) > 0.9


def test_each_hidden_label_has_the_deviance_of_its_prediction():
    graph, labels, scores = simulated(eb.SquaredError(), 1.0, 0.03, n=100)
    deviances = hidden_deviances(graph, labels, scores, eb.SquaredError())
    estimate = estimate_field(graph, labels, scores, eb.SquaredError())
    expected = ((labels.target - estimate.scores) ** 2)[:, 0]
    np.testing.assert_allclose(deviances, expected, rtol=1e-3)


@pytest.mark.parametrize(("loss", "n_outputs"), [(eb.SquaredError(), 1), (eb.Softmax(), 3)])
def test_all_labels_are_hidden_in_turn_where_they_are_few(loss, n_outputs, monkeypatch):
    problem = simulated(loss, 1.0, 0.03, n=64, n_outputs=n_outputs)
    for most, n_hidden in ((64 * n_outputs, 64), (64 * n_outputs - 1, 13)):  # of one fold in five
        monkeypatch.setattr(field_estimation, "ALL_FOLDS_UP_TO", most)
        hidden = np.isfinite(estimate_field(*problem, loss).scores).all(axis=1)
        assert hidden.sum() == n_hidden


@pytest.mark.parametrize("rounding", [1e301, 7e297])
def test_labels_in_a_unit_beyond_that_of_any_field_have_none(rounding):
    graph, labels, scores = simulated(eb.SquaredError(), 1.0, 0.03, n=64)
    estimate = estimate_field(graph, labels, scores, eb.Quantile(0.5, rounding))
    assert estimate.field is None or estimate.field.tau >= MIN_TAU
    assert (estimate.field is None) or rounding < 1e300


def test_rows_of_groups_without_a_label_change_nothing():
    random = np.random.default_rng(0)
    group = random.integers(0, 20, 600)
    target = (random.normal(size=20)[group] + random.normal(size=600))[:, None]
    labels = Labels(np.arange(300), target[:300], np.ones(300))
    arguments = (labels, np.zeros((300, 1)), eb.SquaredError())
    all_rows = estimate_field(eb.Graph.from_groups(group), *arguments)
    labelled = estimate_field(eb.Graph.from_groups(group[:300]), *arguments)
    assert all_rows.field is not None
    assert all_rows.field.get_params() == labelled.field.get_params()
    assert all_rows.deviance == pytest.approx(labelled.deviance, rel=1e-9)


def test_power_and_strengths_of_tweedie_amounts_do_not_depend_on_their_unit():
    graph, labels, scores = simulated(eb.Tweedie(1.5), 1.0, 0.1)
    estimates = []
    for unit in (1.0, 1e-12, 1e12):
        amounts = Labels(labels.nodes, unit * labels.target, labels.weight)
        estimate = estimate_field(graph, amounts, scores + np.log(unit), eb.Tweedie())
        curvature = unit ** (2.0 - estimate.loss.power)
        strengths = np.array([estimate.field.lam, estimate.field.tau]) / curvature
        estimates.append([estimate.loss.power, *strengths])
    np.testing.assert_allclose(estimates, [estimates[0]] * 3, rtol=0.05)
