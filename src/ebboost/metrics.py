"""Metrics of predictions, by name: deviance, D², and those of classes and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics

from ebboost._common import Array
from ebboost.data.labels import one_hot
from ebboost.losses import Loss
from ebboost.losses.base import initial_scores

#: A function ``metric(y_true, y_predicted)``: of numbers, or of class indices and probabilities.
MetricFunction = Callable[..., float]


# Least deviance of a constant, as a share of that of the scores: that of labels of 0 is not 0.
MIN_SHARE = 1e-200


class Scored(NamedTuple):
    """Scores of m labelled nodes, their labels of shape (m, c), weights, and offset if any."""

    loss: Loss
    scores: Array
    target: Array
    weight: Array
    offset: Array | None = None

    @property
    def predictions(self) -> Array:
        """Predictions of shape (m, 1), or probabilities of the classes."""
        return self.loss.inverse_link(self.scores)

    @property
    def indicators(self) -> Array:
        """One-hot labels, of classes."""
        return one_hot(self.target)

    def subset(self, rows: NDArray[Any]) -> Scored:
        """Return some of the nodes."""
        offset = None if self.offset is None else self.offset[rows]
        parts = (self.scores[rows], self.target[rows], self.weight[rows])
        return Scored(self.loss, *parts, offset)

    def mean(self, values: Array) -> float:
        """Return the weighted mean of a value for each node."""
        return float(np.average(values, weights=self.weight))


class Metric(NamedTuple):
    """A metric of :class:`Scored`, and whether it is one of classes, of numbers, or of both."""

    compute: Callable[[Scored], float]
    greater_is_better: bool = False
    classes: bool | None = None


def _deviance(scored: Scored) -> float:
    return scored.mean(scored.loss.deviance(scored.scores, scored.target))


def _d2(scored: Scored) -> float:
    labelled = (scored.target, scored.weight, scored.offset)
    constant = initial_scores(scored.loss, *labelled)
    without = _deviance(scored._replace(scores=constant))
    deviance = _deviance(scored)
    return 1.0 - deviance / without if without > MIN_SHARE * deviance else float("nan")


def _log_loss(scored: Scored) -> float:
    stated = (scored.indicators * scored.predictions).sum(axis=1)
    return scored.mean(-np.log(np.maximum(stated, np.finfo(float).tiny)))


def _brier(scored: Scored) -> float:
    squares = ((scored.indicators - scored.predictions) ** 2).sum(axis=1)
    return scored.mean(squares) / (2.0 if scored.indicators.shape[1] == 2 else 1.0)


def _of_each_class(metric: MetricFunction) -> Callable[[Scored], float]:
    """The metric of the second of two classes, or its mean over the classes that occur."""

    def compute(scored: Scored) -> float:
        truth = scored.indicators
        stated = scored.predictions
        columns = [1]
        if truth.shape[1] > 2 and np.ptp(truth, axis=0).any():
            columns = np.flatnonzero(np.ptp(truth, axis=0)).tolist()
        weight = {"sample_weight": scored.weight}
        return float(np.mean([metric(truth[:, one], stated[:, one], **weight) for one in columns]))

    return compute


def _of_numbers(metric: MetricFunction) -> Callable[[Scored], float]:
    def compute(scored: Scored) -> float:
        predictions = scored.predictions[:, 0]
        return float(metric(scored.target[:, 0], predictions, sample_weight=scored.weight))

    return compute


def _accuracy(scored: Scored) -> float:
    right = scored.indicators.argmax(axis=1) == scored.predictions.argmax(axis=1)
    return scored.mean(right.astype(np.float64))


METRICS: dict[str, Metric] = {
    "deviance": Metric(_deviance),
    "d2": Metric(_d2, greater_is_better=True),
    "log_loss": Metric(_log_loss, classes=True),
    "brier": Metric(_brier, classes=True),
    "accuracy": Metric(_accuracy, greater_is_better=True, classes=True),
    "roc_auc": Metric(_of_each_class(metrics.roc_auc_score), greater_is_better=True, classes=True),
    "average_precision": Metric(
        _of_each_class(metrics.average_precision_score), greater_is_better=True, classes=True
    ),
    "r2": Metric(_of_numbers(metrics.r2_score), greater_is_better=True, classes=False),
    "rmse": Metric(_of_numbers(metrics.root_mean_squared_error), classes=False),
    "mae": Metric(_of_numbers(metrics.mean_absolute_error), classes=False),
}


def as_metric(metric: str | MetricFunction, classes: bool, name: str = "metric") -> Metric:
    """Return the metric that a parameter stands for; of a function, smaller is better."""
    if callable(metric):
        function = metric

        def compute(scored: Scored) -> float:
            if classes:
                return float(function(scored.indicators.argmax(axis=1), scored.predictions))
            return float(function(scored.target[:, 0], scored.predictions[:, 0]))

        return Metric(compute, classes=classes)
    suited = [key for key, one in METRICS.items() if one.classes in (None, classes)]
    if metric not in suited:
        task = "classifier" if classes else "regressor"
        suited = ["loss", *suited] if name == "eval_metric" else suited
        raise ValueError(
            f"{name} of a {task} must be one of {suited} or a function metric(y_true, y_predicted),"
            f" got {metric!r}."
        )
    return METRICS[metric]
