"""Metrics by name against scikit-learn and closed forms."""

import numpy as np
import pytest
from sklearn import metrics
from sklearn.exceptions import UndefinedMetricWarning

import ebboost as eb
from ebboost.metrics import METRICS, Scored, as_metric
from tests.strategies import homophilous, loss_data

RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.random(200) + 0.1


def value(name, loss, scores, target, offset=None):
    return METRICS[name].compute(Scored(loss, scores, target, WEIGHT, offset))


@pytest.mark.parametrize("loss", [eb.LogLoss(), eb.Softmax()], ids=repr)
def test_metrics_of_classes_are_those_of_scikit_learn(loss):
    scores, target = loss_data(loss, 0, 200)
    stated = loss.inverse_link(scores)
    two = stated.shape[1] == 2
    index = target[:, 0] if two else target.argmax(axis=1)
    weight = {"sample_weight": WEIGHT}
    expected = {
        "log_loss": metrics.log_loss(index, stated, **weight),
        "deviance": 2 * metrics.log_loss(index, stated, **weight),
        "accuracy": metrics.accuracy_score(index, stated.argmax(axis=1), **weight),
    }
    if two:
        stated = stated[:, 1]
        expected["brier"] = metrics.brier_score_loss(index, stated, **weight)
        expected["roc_auc"] = metrics.roc_auc_score(index, stated, **weight)
    else:
        expected["brier"] = np.average(((target - stated) ** 2).sum(axis=1), weights=WEIGHT)
        options = {"multi_class": "ovr", "average": "macro"} | weight
        expected["roc_auc"] = metrics.roc_auc_score(index, stated, **options)
    expected["average_precision"] = metrics.average_precision_score(target, stated, **weight)
    for name, number in expected.items():
        assert value(name, loss, scores, target) == pytest.approx(number), name


def test_metrics_of_numbers_are_those_of_scikit_learn():
    scores, target = loss_data(eb.Poisson(), 0, 200)
    predicted = np.exp(scores)
    weight = {"sample_weight": WEIGHT}
    expected = {
        "deviance": metrics.mean_poisson_deviance(target, predicted, **weight),
        "d2": metrics.d2_tweedie_score(target, predicted, power=1, **weight),
        "r2": metrics.r2_score(target, predicted, **weight),
        "rmse": metrics.root_mean_squared_error(target, predicted, **weight),
        "mae": metrics.mean_absolute_error(target, predicted, **weight),
    }
    for name, number in expected.items():
        assert value(name, eb.Poisson(), scores, target) == pytest.approx(number), name


def test_d2_compares_with_the_best_constant_rate():
    offset = RANDOM.normal(size=(200, 1))
    target = RANDOM.poisson(3.0 * np.exp(offset)).astype(float)
    rate = np.log((WEIGHT[:, None] * target).sum() / (WEIGHT[:, None] * np.exp(offset)).sum())
    assert value("d2", eb.Poisson(), rate + offset, target, offset) == pytest.approx(0.0, abs=1e-9)


def test_unknown_metrics_are_rejected_with_those_of_the_task():
    both = ["deviance", "d2"]
    of_classes = ["log_loss", "brier", "accuracy", "roc_auc", "average_precision"]
    of_numbers = ["r2", "rmse", "mae"]
    for name in of_classes:
        with pytest.raises(ValueError, match=r"^metric of a regressor must be one of ") as error:
            as_metric(name, classes=False)
        assert f"{both + of_numbers} or a function" in str(error.value)
    for name in of_numbers:
        with pytest.raises(ValueError, match=r"^eval_metric of a classifier must be one") as error:
            as_metric(name, classes=True, name="eval_metric")
        assert f"{['loss', *both, *of_classes]} or a function" in str(error.value)


@pytest.mark.parametrize("name", METRICS)
def test_scores_nearer_to_the_labels_have_the_better_metric(name):
    loss = eb.LogLoss() if METRICS[name].classes else eb.SquaredError()
    _, target = loss_data(loss, 0, 200)
    direction = target - target.mean()
    near, far = (value(name, loss, size * direction, target) for size in (0.7, -0.7))
    assert (near > far) == METRICS[name].greater_is_better


def test_a_function_of_classes_takes_their_indices_and_probabilities():
    scores, target = loss_data(eb.Softmax(), 0, 200)
    metric = as_metric(metrics.log_loss, classes=True)
    expected = metrics.log_loss(target.argmax(axis=1), eb.Softmax().inverse_link(scores))
    scored = Scored(eb.Softmax(), scores, target, WEIGHT)
    assert metric.compute(scored) == pytest.approx(expected)


def test_score_takes_a_metric_by_name_or_function():
    X, y, graph = homophilous(300)
    known, test = np.arange(200), np.arange(200, 300)
    m = eb.EBBSRegressor(20, random_state=0, n_jobs=1).fit(X, y[known], nodes=known, graph=graph)
    predicted = m.predict(nodes=test)
    assert m.score(None, y, nodes=test) == pytest.approx(metrics.r2_score(y[test], predicted))
    expected = metrics.root_mean_squared_error(y[test], predicted)
    assert m.score(None, y, nodes=test, metric="rmse") == pytest.approx(expected)
    largest = m.score(None, y, nodes=test, metric=metrics.max_error)
    assert largest == pytest.approx(np.abs(y[test] - predicted).max())
    classes = np.where(y > 0, "yes", "no")
    c = eb.EBBSClassifier(20, random_state=0, n_jobs=1)
    c.fit(X, classes[known], nodes=known, graph=graph)
    stated = c.predict_proba(nodes=test)
    expected = metrics.roc_auc_score(classes[test] == "yes", stated[:, 1])
    assert c.score(None, classes, nodes=test, metric="roc_auc") == pytest.approx(expected)
    expected = metrics.log_loss(classes[test], stated)
    assert c.score(None, classes, nodes=test, metric="log_loss") == pytest.approx(expected)


def test_d2_of_counts_that_are_all_zero_is_not_a_number():
    zeros = np.zeros((200, 1))
    assert np.isnan(value("d2", eb.Poisson(), zeros + 1.0, zeros))


def test_ranking_metrics_of_one_class_warn_as_in_scikit_learn():
    target = np.tile([1.0, 0.0, 0.0], (200, 1))
    with pytest.warns(UndefinedMetricWarning, match="Only one class"):
        assert np.isnan(value("roc_auc", eb.Softmax(), RANDOM.normal(size=(200, 3)), target))
