"""Probabilities with a latent field, the temperature of scores, and the calibration error."""

import numpy as np
import pytest
from sklearn.metrics import log_loss

import ebboost as eb
from ebboost.boosting.calibration import (
    Calibration,
    expected_calibration_error,
    fit_calibration,
    fit_shift,
)
from ebboost.data.labels import Labels
from tests.problems import homophilous


@pytest.mark.parametrize("exponent", [-0.3, 0.0, 0.3])
def test_scores_are_multiplied_by_a_power_of_their_size(exponent):
    scores = np.array([[3.0, 0.0, -3.0], [0.0, 0.0, 0.0]])
    size = 1.0 + np.sqrt(6.0)
    expected = scores * size**exponent / 2.0 + 0.1
    np.testing.assert_allclose(Calibration(2.0, exponent, 0.1).apply(scores), expected)
    two_classes = Calibration(2.0, exponent).apply(np.array([[4.0]]))
    np.testing.assert_allclose(two_classes, 4.0 * 3.0**exponent / 2.0)


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
    probabilities = models["field"].predict_proba(nodes=test)
    target = np.eye(n_classes)[classes[test]]
    assert expected_calibration_error(probabilities, target) < 0.15
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
    fitted = fit_calibration(scores, loss, labels)
    assert fitted.temperature == pytest.approx(temperature, rel=1e-3)
    assert fitted.exponent == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("loss", [eb.LogLoss(), eb.Softmax()], ids=repr)
def test_true_exponent_is_recovered_from_many_labels(loss):
    n_outputs = 1 if isinstance(loss, eb.LogLoss) else 3
    scores = 2 * np.random.default_rng(0).normal(size=(3000, n_outputs))
    true = Calibration(1.3, 0.4)
    target = loss.inverse_link(true.apply(scores))[:, -scores.shape[1] :]
    labels = Labels(np.arange(3000), target, np.ones(3000))
    fitted = fit_calibration(scores, loss, labels)
    np.testing.assert_allclose(fitted, true, rtol=0.15, atol=0.02)  # the prior shrinks the exponent


def test_true_damping_is_recovered_from_many_labels_and_keeps_the_order_of_classes():
    scores = 2 * np.random.default_rng(0).normal(size=(3000, 4))
    true = Calibration(0.9, 0.1, damping=0.6)
    calibrated = true.apply(scores)
    assert (calibrated.argsort(axis=1) == scores.argsort(axis=1)).all()
    labels = Labels(np.arange(3000), eb.Softmax().inverse_link(calibrated), np.ones(3000))
    fitted = fit_calibration(scores, eb.Softmax(), labels)
    np.testing.assert_allclose(fitted, true, atol=0.1)  # the prior shrinks exponent and damping


@pytest.mark.parametrize("loss", [eb.LogLoss(), eb.Softmax()], ids=repr)
def test_exponent_and_damping_of_few_labels_are_shrunk_by_normal_priors(loss):
    """Standard deviations of ½: no other calibration has a greater posterior density."""
    random = np.random.default_rng(4)
    scores = 3.0 * random.normal(size=(40, 1 if isinstance(loss, eb.LogLoss) else 3))
    labels = Labels(np.arange(40), loss.sample(random, 0.5 * scores), np.ones(40))
    fitted = fit_calibration(scores, loss, labels)

    def minus_log_posterior(calibration):
        prior = 2.0 * (calibration.exponent**2 + calibration.damping**2)
        return loss.value(calibration.apply(scores), labels.target).sum() + prior

    least = minus_log_posterior(fitted)
    changes = [{"temperature": fitted.temperature * factor} for factor in (0.98, 1.02)]
    for name in ("exponent", "damping"):
        changes += [{name: getattr(fitted, name) + change} for change in (-0.02, 0.02)]
    changes = changes if scores.shape[1] > 2 else changes[:4]
    assert (fitted.damping != 0.0) == (scores.shape[1] > 2) and fitted.exponent != 0.0
    assert all(minus_log_posterior(fitted._replace(**change)) > least for change in changes)


def test_damping_lowers_the_probability_of_the_predicted_class():
    scores = np.random.default_rng(0).normal(size=(50, 3))
    before = eb.Softmax().inverse_link(scores).max(axis=1)
    after = eb.Softmax().inverse_link(Calibration(damping=0.5).apply(scores)).max(axis=1)
    assert (after < before).all()


def test_size_of_two_scores_is_that_of_their_difference():
    scores = np.array([[3.0], [-0.5]])
    both = np.hstack([np.ones_like(scores), 1.0 + scores])
    calibration = Calibration(1.5, 0.3)
    one = calibration.apply(scores)
    two = calibration.apply(both)
    np.testing.assert_allclose(two[:, 1:] - two[:, :1], one)


def test_labels_of_zero_weight_do_not_affect_the_temperature():
    scores = 3 * np.random.default_rng(0).normal(size=(100, 1))
    truth = eb.LogLoss().inverse_link(0.5 * scores)[:, 1:]
    few = fit_calibration(scores[:50], eb.LogLoss(), Labels(np.arange(50), truth[:50], np.ones(50)))
    wrong = np.r_[truth[:50], 1 - truth[50:]]
    weight = np.repeat([1.0, 0.0], 50)
    both = fit_calibration(scores, eb.LogLoss(), Labels(np.arange(100), wrong, weight))
    assert both.temperature == pytest.approx(few.temperature, rel=0.01)


def test_probabilities_are_those_of_calibrated_scores():
    X, y, graph = homophilous(300)
    m = eb.EBBSClassifier(20, random_state=0, n_jobs=1).fit(X, y > 0, graph=graph)
    expected = eb.LogLoss().inverse_link(m.calibration_.apply(m.raw_predictions_))
    np.testing.assert_allclose(m.predict_proba(), expected)


def test_calibration_error_uses_fifteen_bins():
    stated = np.array([[0.05, 0.95], [0.09, 0.91], [0.066, 0.934], [0.06, 0.94]])
    # the second, wrong, is alone in its bin; the others share theirs
    right = np.array([[1.0], [0.0], [1.0], [1.0]])
    expected = (3.0 - 0.95 - 0.934 - 0.94 + 0.91) / 4
    assert expected_calibration_error(stated, right) == pytest.approx(expected)


def test_the_shift_of_counts_makes_their_sum_that_of_the_predictions():
    random = np.random.default_rng(0)
    scores = random.normal(size=(400, 1))
    target = random.poisson(1.3 * np.exp(scores)).astype(float)
    labels = Labels(np.arange(400), target, np.ones(400))
    shift = fit_shift(scores, eb.Poisson(), labels).shift
    assert shift == pytest.approx(np.log(target.sum() / np.exp(scores).sum()), abs=1e-5)
    assert fit_shift(scores + shift, eb.Poisson(), labels).shift == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("loss", ["poisson", "negative_binomial", "gamma", "tweedie"])
def test_means_of_new_nodes_are_right_in_total_and_explained_in_full(loss, tmp_path):
    random = np.random.default_rng(0)
    points = random.random((1200, 2))
    graph = eb.Graph.build_knn(points, k=5)
    X = random.normal(size=(1200, 2))
    mean = np.exp(0.7 * X[:, 0] + np.sin(5 * points[:, 0]))
    amounts = mean * random.gamma(1.0, 1.0, size=1200)
    y = amounts if loss == "gamma" else random.poisson(amounts).astype(float)
    nodes, test = np.arange(800), np.arange(800, 1200)
    parts = {"smoothing": None, "labels": eb.LatentField(2.0, 0.05), "n_folds": 3}
    m = eb.EBBSRegressor(40, loss=loss, random_state=0, n_jobs=1, **parts)
    m.fit(X, y[nodes], nodes=nodes, graph=graph)
    shift = m.state_.output.calibration.shift
    assert shift > 0.05
    prediction = m.predict(nodes=test)
    np.testing.assert_allclose(prediction, np.exp(m.state_.raw_predictions[test, 0] + shift))
    assert mean[test].sum() / prediction.sum() == pytest.approx(1.0, abs=0.12)
    np.testing.assert_allclose(m.predict_distribution(nodes=test).mean, prediction)
    assert m.explanations([900])[0].total == pytest.approx(np.log(m.predict(nodes=[900])[0]))
    m.save(tmp_path / "m.ebb")
    np.testing.assert_array_equal(eb.load(tmp_path / "m.ebb").predict(nodes=test), prediction)
