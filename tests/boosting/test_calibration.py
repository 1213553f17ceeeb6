"""Probabilities corrected by a latent field, and how temperature and strength are chosen."""

import numpy as np
import pytest
from sklearn.metrics import log_loss

import ebboost as eb
from ebboost.boosting.calibration import ProbabilityField, expected_calibration_error
from ebboost.data.labels import Labels
from tests.problems import homophilous
from tests.strategies import random_graph


@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_improve_a_classifier_that_stays_calibrated(n_classes):
    X, y, graph = homophilous(1500)
    classes = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    train, test = np.arange(750), np.arange(750, 1500)
    models = {}
    for labels in ("field", "none"):
        m = eb.EBBSClassifier(60, labels=labels, smoothing=None, random_state=0, n_jobs=1)
        models[labels] = m.fit(X, classes[train], nodes=train, graph=graph)
    loss = {
        name: log_loss(classes[test], m.predict_proba(nodes=test)) for name, m in models.items()
    }
    assert loss["field"] < 0.9 * loss["none"]
    assert models["field"].label_strength_ > 0
    assert models["none"].label_strength_ == 0
    assert models["field"].calibration_error_ < 0.15
    np.testing.assert_allclose(models["field"].predict_proba().sum(1), 1.0)
    later = models["field"].predict_proba(new_labels=(test[:300], classes[test[:300]]))
    assert log_loss(classes[test[300:]], later[test[300:]]) < log_loss(
        classes[test[300:]], models["field"].predict_proba()[test[300:]]
    )


def test_calibration_error_equals_a_hand_computed_value():
    stated = np.array([[0.9, 0.1], [0.9, 0.1], [0.55, 0.45]])
    truth = np.array([[0.0], [1.0], [0.0]])
    # the two of 0.9 are right half the time, the one of 0.55 is right
    assert expected_calibration_error(stated, truth) == pytest.approx((2 * 0.4 + 0.45) / 3)


def corrected(calibration, scores, loss, labels, field):
    residuals = calibration.residuals(scores[labels.nodes], loss, labels.target)
    return calibration.probabilities(scores, loss, field.posterior_mean(residuals))


def test_corrected_probabilities_are_positive_and_sum_to_one():
    graph = random_graph(30, 60)
    known = Labels(np.arange(10), np.eye(3)[np.arange(10) % 3], np.ones(10))
    scores = np.random.default_rng(0).normal(size=(30, 3)) * 5
    field = eb.LatentField().operator(graph, known.nodes, known.weight)
    probabilities = corrected(ProbabilityField(1.0, 1.0), scores, eb.Softmax(), known, field)
    assert (probabilities > 0).all()
    np.testing.assert_allclose(probabilities.sum(1), 1.0)
    assert not np.allclose(probabilities, eb.Softmax().inverse_link(scores))


def test_temperature_applies_without_labels_too():
    scores = np.random.default_rng(0).normal(size=(5, 3))
    probabilities = ProbabilityField(2.0, 0.0).probabilities(scores, eb.Softmax(), None)
    np.testing.assert_allclose(probabilities, eb.Softmax().inverse_link(scores / 2.0))


def test_strength_is_chosen_without_the_own_label():
    """Labels that are pure chance: a field that saw a node's own label would look perfect."""
    rng = np.random.default_rng(0)
    graph = random_graph(300, 900)
    known = Labels(np.arange(300), rng.integers(0, 2, (300, 1)).astype(float), np.ones(300))
    chosen = ProbabilityField.from_leave_one_out(
        np.zeros((300, 1)),
        eb.LogLoss(),
        known,
        eb.LatentField().operator(graph, known.nodes, known.weight),
    )
    assert chosen.strength == 0.0


def test_validation_nodes_of_zero_weight_do_not_affect_temperature_and_strength():
    rng = np.random.default_rng(0)
    graph = random_graph(200, 600)
    training = Labels(np.arange(100), np.eye(2)[rng.integers(0, 2, 100)][:, 1:], np.ones(100))
    scores = 3 * rng.normal(size=(200, 1))
    truth = (scores[100:] > 0).astype(float)
    field = eb.LatentField().operator(graph, training.nodes, training.weight)
    few = ProbabilityField.from_validation(
        scores, eb.LogLoss(), training, field, Labels(np.arange(100, 150), truth[:50], np.ones(50))
    )
    wrong = np.r_[truth[:50], 1 - truth[50:]]
    weight = np.repeat([1.0, 0.0], 50)
    both = ProbabilityField.from_validation(
        scores, eb.LogLoss(), training, field, Labels(np.arange(100, 200), wrong, weight)
    )
    assert few == both
    assert few.temperature < 1.0


@pytest.mark.parametrize("temperature", [0.7, 0.85, 1.0, 1.2, 1.5, 2.0])
@pytest.mark.parametrize("strength", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_true_temperature_and_strength_are_chosen(temperature, strength):
    rng = np.random.default_rng(0)
    graph, scores = random_graph(100, 300), 2 * rng.normal(size=(100, 3))
    training = Labels(np.arange(50), np.eye(3)[rng.integers(0, 3, 50)], np.ones(50))
    field = eb.LatentField().operator(graph, training.nodes, training.weight)
    true = ProbabilityField(temperature, strength)
    target = corrected(true, scores, eb.Softmax(), training, field)[50:]
    validation = Labels(np.arange(50, 100), target, np.ones(50))
    chosen = ProbabilityField.from_validation(scores, eb.Softmax(), training, field, validation)
    assert chosen == true


def test_probabilities_without_known_labels_are_those_of_the_scores():
    scores = np.array([[0.3], [-1.0], [2.0]])
    mean = np.array([[0.1, -0.1], [0.2, -0.2], [0.0, 0.0]])
    loss = eb.LogLoss()
    expected = loss.inverse_link(scores / 2.0)
    calibration = ProbabilityField(temperature=2.0, strength=0.7)
    np.testing.assert_array_equal(calibration.probabilities(scores, loss, None), expected)
    without = ProbabilityField(temperature=2.0, strength=0.0)
    np.testing.assert_array_equal(without.probabilities(scores, loss, mean), expected)
    assert (calibration.probabilities(scores, loss, mean)[:2] != expected[:2]).all()


def test_probabilities_are_not_corrected_by_default():
    assert ProbabilityField().temperature == 1.0 and ProbabilityField().strength == 0.0


def test_calibration_error_uses_fifteen_bins():
    stated = np.array([[0.05, 0.95], [0.09, 0.91], [0.066, 0.934], [0.06, 0.94]])
    # the second, wrong, is alone in its bin; the others share theirs
    right = np.array([[1.0], [0.0], [1.0], [1.0]])
    expected = (3.0 - 0.95 - 0.934 - 0.94 + 0.91) / 4
    assert expected_calibration_error(stated, right) == pytest.approx(expected)
