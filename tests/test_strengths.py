"""Strengths of the field and parameters of the likelihood, recovered from simulated labels."""

import numpy as np
import pytest

import ebboost as eb
from ebboost.data.labels import Labels
from ebboost.data.neighbors import Places
from ebboost.field import FieldEnergy, Posterior
from ebboost.strengths import estimate_strengths
from tests import dense


def grid(n):
    side = int(np.sqrt(n))
    rows = np.arange(n).reshape(side, side)
    right = [rows[:, :-1].ravel(), rows[:, 1:].ravel()]
    down = [rows[:-1].ravel(), rows[1:].ravel()]
    return eb.Graph.from_edges(*np.hstack([right, down]), n_nodes=n)


def simulated(loss, lam, tau, n=576, seed=0, n_outputs=1, per_node=1):
    """A grid, and labels whose scores are a draw of the field alone."""
    graph = grid(n)
    random = np.random.default_rng(seed)
    factor = np.linalg.cholesky(dense.precision(graph, eb.LatentField(lam, tau)))
    z = np.linalg.solve(factor.T, random.normal(size=(n, n_outputs)))
    nodes = np.repeat(np.arange(n), per_node)
    scores = np.full((nodes.size, n_outputs), 0.0 if n_outputs > 1 else 1.0)
    target = loss.sample(random, scores + z[nodes])
    labels = Labels(np.arange(nodes.size), target, np.ones(nodes.size))
    return Places(graph, nodes), labels, scores


SAMPLED = [eb.SquaredError(), eb.Poisson(), eb.LogLoss(), eb.NegativeBinomial(4.0)]


@pytest.mark.parametrize("loss", SAMPLED, ids=repr)
@pytest.mark.parametrize("per_node", [1, 2])
def test_strengths_of_a_simulated_field_are_recovered(loss, per_node):
    estimate = estimate_strengths(*simulated(loss, 2.0, 0.05, per_node=per_node), loss)
    assert estimate.deviance < 0.98 * estimate.deviance_without
    assert 0.4 < estimate.field.lam < 10.0 and estimate.field.tau < 1.0


def hidden_deviance(places, labels, scores, loss, field, n_folds=5):
    """The deviance of labels that are predicted by the others, written down once more."""
    nodes = places.node_of_row[labels.rows]
    fold = np.random.default_rng(0).permutation(labels.size) % n_folds
    total = 0.0
    for number in range(n_folds):
        known = fold != number
        posterior = Posterior(field.prior(places.graph), nodes[known])
        z = FieldEnergy(posterior, loss, labels.subset(known).relative()).mode(scores[known])
        predicted = scores[~known] + z[nodes[~known]]
        total += loss.deviance(predicted, labels.target[~known]).sum()
    return total / labels.size


@pytest.mark.parametrize(("lam", "tau"), [(2.0, 0.1), (0.2, 0.5), (30.0, 0.3)])
def test_no_factor_of_two_of_a_strength_predicts_better(lam, tau):
    parts = (*simulated(eb.SquaredError(), lam, tau, n=256), eb.SquaredError())
    best = estimate_strengths(*parts)
    assert hidden_deviance(*parts, best.field) == pytest.approx(best.deviance, rel=1e-3)
    for share, ratio in ((2.0, 1.0), (0.5, 1.0), (1.0, 2.0), (1.0, 0.5)):
        other = eb.LatentField(share * best.field.lam, share * ratio * best.field.tau)
        if other.tau / other.lam >= 0.001:  # smaller ratios are not searched
            assert hidden_deviance(*parts, other) >= best.deviance * (1.0 - 1e-3)


def test_a_field_takes_up_what_looked_like_dispersion():
    places, labels, scores = simulated(eb.NegativeBinomial(6.0), 2.0, 0.05)
    alone = eb.NegativeBinomial().prepared(labels.target, labels.weight, scores).theta
    estimate = estimate_strengths(places, labels, scores, eb.NegativeBinomial())
    assert 1.5 * alone < estimate.loss.theta < 12.0


@pytest.mark.parametrize("loss", SAMPLED[:3], ids=repr)
def test_there_is_no_field_where_labels_are_independent(loss):
    estimate = estimate_strengths(*simulated(loss, 2.0, 1e6), loss)
    assert estimate.field is None or estimate.deviance > 0.985 * estimate.deviance_without


@pytest.mark.parametrize("loss", [eb.SquaredError(), eb.Huber()], ids=repr)
def test_neighbours_of_opposite_labels_have_no_field(loss):
    places, _, scores = simulated(eb.SquaredError(), 2.0, 0.05, n=100)
    board = np.add.outer(np.arange(10), np.arange(10)) % 2
    labels = Labels(np.arange(100), 2.0 * board.reshape(-1, 1), np.ones(100))
    estimate = estimate_strengths(places, labels, scores, loss)
    fitted = loss.prepared(labels.target, labels.weight, scores)
    assert estimate.field is None
    assert estimate.loss.get_params() == fitted.get_params()
    expected = fitted.deviance(scores, labels.target).mean()
    assert estimate.deviance == estimate.deviance_without == pytest.approx(expected)


def test_a_random_walk_has_a_field_of_long_range():
    path = eb.Graph.from_edges(np.arange(399), np.arange(1, 400))
    random = np.random.default_rng(0)
    y = np.cumsum(random.normal(size=400)) + 0.5 * random.normal(size=400)
    labels = Labels(np.arange(400), (y - y.mean())[:, None], np.ones(400))
    places = Places.of_rows(path)
    field = estimate_strengths(places, labels, np.zeros((400, 1)), eb.SquaredError()).field
    assert field.tau / field.lam < 0.01


def test_classes_have_a_field_of_log_odds():
    problem = simulated(eb.Softmax(), 0.5, 0.02, n=400, n_outputs=3)
    estimate = estimate_strengths(*problem, eb.Softmax())
    assert estimate.deviance < 0.95 * estimate.deviance_without


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_strengths_do_not_depend_on_the_units_of_labels_and_weights(unit):
    places, labels, scores = simulated(eb.SquaredError(), 2.0, 0.1, n=256)
    one = estimate_strengths(places, labels, scores, eb.SquaredError())
    other = Labels(labels.rows, unit * labels.target, unit * labels.weight)
    again = estimate_strengths(places, other, unit * scores, eb.SquaredError())
    assert again.field.get_params() == one.field.get_params()
    assert again.deviance == pytest.approx(unit**2 * one.deviance, rel=1e-9)


def test_power_and_strengths_of_tweedie_amounts_do_not_depend_on_their_unit():
    places, labels, scores = simulated(eb.Tweedie(1.5), 1.0, 0.1)
    estimates = []
    for unit in (1.0, 1e-12, 1e12):
        amounts = Labels(labels.rows, unit * labels.target, labels.weight)
        estimate = estimate_strengths(places, amounts, scores + np.log(unit), eb.Tweedie())
        curvature = unit ** (2.0 - estimate.loss.power)
        strengths = np.array([estimate.field.lam, estimate.field.tau]) / curvature
        estimates.append([estimate.loss.power, *strengths])
    np.testing.assert_allclose(estimates, [estimates[0]] * 3, rtol=0.05)


@pytest.mark.parametrize("rounding", [1e301, 7e297])
def test_labels_in_a_unit_beyond_that_of_any_field_have_a_valid_field_or_none(rounding):
    places, labels, scores = simulated(eb.SquaredError(), 1.0, 0.03, n=64)
    estimate = estimate_strengths(places, labels, scores, eb.Quantile(0.5, rounding))
    if estimate.field is not None:
        estimate.field.prior(places.graph)
