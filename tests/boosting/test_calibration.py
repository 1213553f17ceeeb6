"""Probabilities with a latent field, the temperature of scores, and the calibration error."""

import numpy as np
import pytest
from sklearn.metrics import log_loss

import ebboost as eb
from ebboost.boosting.calibration import best_temperature, expected_calibration_error
from ebboost.data.labels import Labels
from tests.problems import homophilous


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


@pytest.mark.parametrize("temperature", [0.75, 0.85, 1.0, 1.5, 4.0])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_true_temperature_is_recovered(temperature, n_classes):
    loss = eb.LogLoss() if n_classes == 2 else eb.Softmax()
    scores = 2 * np.random.default_rng(0).normal(size=(100, 1 if n_classes == 2 else 3))
    target = loss.inverse_link(scores / temperature)[:, -scores.shape[1] :]  # its own expectation
    labels = Labels(np.arange(100), target, np.ones(100))
    assert best_temperature(scores, loss, labels) == pytest.approx(temperature, rel=1e-3)


def test_labels_of_zero_weight_do_not_affect_the_temperature():
    scores = 3 * np.random.default_rng(0).normal(size=(100, 1))
    truth = eb.LogLoss().inverse_link(0.5 * scores)[:, 1:]
    few = best_temperature(
        scores[:50], eb.LogLoss(), Labels(np.arange(50), truth[:50], np.ones(50))
    )
    wrong = np.r_[truth[:50], 1 - truth[50:]]
    weight = np.repeat([1.0, 0.0], 50)
    both = best_temperature(scores, eb.LogLoss(), Labels(np.arange(100), wrong, weight))
    assert both == pytest.approx(few)


def test_probabilities_are_those_of_scores_divided_by_the_temperature():
    X, y, graph = homophilous(300)
    m = eb.EBBSClassifier(20, random_state=0, n_jobs=1).fit(X, y > 0, graph=graph)
    expected = eb.LogLoss().inverse_link(m.raw_predictions_ / m.temperature_)
    np.testing.assert_allclose(m.predict_proba(), expected)


def test_calibration_error_uses_fifteen_bins():
    stated = np.array([[0.05, 0.95], [0.09, 0.91], [0.066, 0.934], [0.06, 0.94]])
    # the second, wrong, is alone in its bin; the others share theirs
    right = np.array([[1.0], [0.0], [1.0], [1.0]])
    expected = (3.0 - 0.95 - 0.934 - 0.94 + 0.91) / 4
    assert expected_calibration_error(stated, right) == pytest.approx(expected)
