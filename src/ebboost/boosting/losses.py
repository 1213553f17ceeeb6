"""The discriminators D(g(f̃), y) of the meta-loss (7): value, gradient, curvature and link of each.

Scores and targets are arrays of shape (m, c), one row per labelled node. To use a loss of your own, subclass
:class:`Loss` and define ``value``, ``gradient`` and, if you can, ``curvature``::

    class LogCosh(eb.Loss):
        def value(self, scores, target):
            return np.log(np.cosh(scores - target)).sum(axis=1)

        def gradient(self, scores, target):
            return np.tanh(scores - target)

        def curvature(self, scores, target):
            return 1.0
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

Array = NDArray[np.float64]
LEAST_CURVATURE = 1e-4


class Loss(BaseEstimator, ABC):
    """A loss on scores; what is returned for a node depends on that node alone."""

    #: Whether ``curvature`` is the same number for all scores, so that it need not be computed each round.
    constant_curvature = False
    #: Whether ``curvature`` is a true bound. Where it is only local, steps are no longer than a Newton step.
    majorised = True
    #: Whether ``curvature`` changes with the units of the labels; probabilities have none.
    curvature_has_units = True

    @abstractmethod
    def value(self, scores: Array, target: Array) -> Array:
        """Loss of each node, shape (m,)."""

    @abstractmethod
    def gradient(self, scores: Array, target: Array) -> Array:
        """Derivative of each node's loss by its own scores, shape (m, c)."""

    def curvature(self, scores: Array, target: Array) -> Array | float:
        """Return h such that a parabola of curvature h through the current scores lies above the loss.

        A number, or an array like the scores. Steps taken with it never raise the loss; where no such bound
        exists (Poisson), give the second derivative, and the line search shortens steps that went too far.
        """
        return 1.0

    def prepared(self, target: Array, weight: Array) -> "Loss":
        """Return this loss with every constant that depends on the scale of the labels filled in."""
        return self

    def initial(self, target: Array, weight: Array) -> Array:
        """Constant scores to start from, shape (c,)."""
        mean: Array = np.average(target, axis=0, weights=weight)
        return mean

    def label_scale(self, target: Array, weight: Array) -> float:
        """Spread of the labels in units of the scores: the root mean square of the first Newton step to each.

        The standard deviation for squared error, the coefficient of variation for Poisson, and for two classes the
        1/√(p(1−p)) log-odds by which a label of a share p surprises.
        """
        start = np.broadcast_to(self.initial(target, weight), target.shape)
        steps = self.gradient(start, target) / self.curvature(start, target)
        return float(np.sqrt(np.average((steps**2).sum(axis=1), weights=weight)))

    def inverse_link(self, scores: Array) -> Array:
        """Scores to predictions: the g of (7)."""
        return scores

    def check(self, target: Array) -> None:
        """Refuse labels that this loss cannot take."""
        return


class SquaredError(Loss):
    """½(s − y)²: predicts the mean.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> eb.SquaredError().gradient(np.array([[3.0]]), np.array([[1.0]])).tolist()
    [[2.0]]
    """

    constant_curvature = True

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        difference = scores - target
        halves = 0.5 * difference
        halves *= (
            difference  # in place: on large graphs, fresh memory takes longer than the numbers
        )
        return _over_outputs(halves)

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return scores - target


class Huber(Loss):
    """Squared near the label, linear beyond ``delta``: predicts the mean, minding outliers less.

    Parameters
    ----------
    delta : float, optional
        Where it turns linear, in the units of y. Default: 1.345 times the robust standard deviation of the labels.
    """

    def __init__(self, delta: float | None = None) -> None:
        self.delta: Any = delta

    def prepared(self, target: Array, weight: Array) -> "Huber":  # noqa: D102
        if self.delta is not None:
            if not self.delta > 0:
                raise ValueError(f"Huber's delta must be positive, got {self.delta!r}.")
            return self
        return Huber(1.345 * _robust_scale(target))

    def initial(self, target: Array, weight: Array) -> Array:  # noqa: D102
        return _weighted_quantile(target, weight, 0.5)

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        size = np.abs(scores - target)
        inside = np.minimum(size, self.delta)
        return _over_outputs(inside * (size - 0.5 * inside))

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return np.clip(scores - target, -self.delta, self.delta)

    def curvature(self, scores: Array, target: Array) -> Array:
        """min(1, δ/|r|): the parabola that touches the loss at ±r."""
        return self.delta / np.maximum(np.abs(scores - target), self.delta)


class Quantile(Loss):
    """The pinball loss: predicts the ``alpha`` quantile.

    Parameters
    ----------
    alpha : float, default=0.5
        The quantile, between 0 and 1.
    rounding : float, optional
        Half-width of the band around the label in which the kink is blunted for the curvature, in the units of y.
        Default: a twentieth of the robust standard deviation of the labels.
    """

    def __init__(self, alpha: float = 0.5, rounding: float | None = None) -> None:
        self.alpha = alpha
        self.rounding: Any = rounding

    def prepared(self, target: Array, weight: Array) -> "Quantile":  # noqa: D102
        if not 0 < self.alpha < 1:
            raise ValueError(f"Quantile's alpha must lie between 0 and 1, got {self.alpha!r}.")
        if self.rounding is not None:
            if not self.rounding > 0:
                raise ValueError(f"Quantile's rounding must be positive, got {self.rounding!r}.")
            return self
        return Quantile(self.alpha, 0.05 * _robust_scale(target))

    def initial(self, target: Array, weight: Array) -> Array:  # noqa: D102
        return _weighted_quantile(target, weight, self.alpha)

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        gap = target - scores
        return _over_outputs(np.maximum(self.alpha * gap, (self.alpha - 1.0) * gap))

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return np.where(target > scores, -self.alpha, 1.0 - self.alpha)

    def curvature(self, scores: Array, target: Array) -> Array:
        """1/(2|r|), from |r| ≤ r²/(2|r₀|) + |r₀|/2 (Hunter and Lange, 2000), kept finite at r = 0."""
        return 0.5 / (np.abs(scores - target) + self.rounding)


class Poisson(Loss):
    """exp(s) − y·s for counts and rates: predicts the mean on a log scale."""

    majorised = False

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return _over_outputs(np.exp(scores) - target * scores)

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return np.exp(scores) - target

    def curvature(self, scores: Array, target: Array) -> Array:
        """The second derivative exp(s): this loss has no parabola above it."""
        return np.exp(scores)

    def initial(self, target: Array, weight: Array) -> Array:  # noqa: D102
        return np.log(np.average(target, axis=0, weights=weight))

    def inverse_link(self, scores: Array) -> Array:  # noqa: D102
        return np.exp(scores)

    def check(self, target: Array) -> None:  # noqa: D102
        if (target < 0).any():
            worst = float(target.min())
            raise ValueError(
                f"y must not be negative for the Poisson loss, the least label is {worst:g}."
            )
        if not (target > 0).any():
            raise ValueError(
                "y is 0 at every labelled node: the Poisson loss has nothing to learn from."
            )


class LogLoss(Loss):
    """Binary cross-entropy on one score; the target is 0 or 1."""

    majorised = False
    curvature_has_units = False

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return _over_outputs(np.logaddexp(0.0, scores) - target * scores)

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return _sigmoid(scores) - target

    def curvature(self, scores: Array, target: Array) -> Array:
        """The second derivative p(1 − p): its bound ¼ would do, but learns more slowly the surer the model is."""
        probability = _sigmoid(scores)
        return np.maximum(probability * (1.0 - probability), LEAST_CURVATURE)

    def initial(self, target: Array, weight: Array) -> Array:  # noqa: D102
        share = np.clip(np.average(target, axis=0, weights=weight), 1e-12, 1 - 1e-12)
        return np.log(share) - np.log1p(-share)

    def inverse_link(self, scores: Array) -> Array:
        """Probabilities of both classes."""
        positive = _sigmoid(scores)
        return np.hstack([1.0 - positive, positive])


class Softmax(Loss):
    """Cross-entropy over c classes, one score each; the target is one-hot."""

    majorised = False
    curvature_has_units = False

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return _log_sum_exp(scores) - (target * scores).sum(axis=1)

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return _softmax(scores) - target

    def curvature(self, scores: Array, target: Array) -> Array:
        """The diagonal p(1 − p) of the Hessian; its bound ½ (Böhning, 1992) learns more slowly."""
        probability = _softmax(scores)
        return np.maximum(probability * (1.0 - probability), LEAST_CURVATURE)

    def initial(self, target: Array, weight: Array) -> Array:  # noqa: D102
        share = np.maximum(np.average(target, axis=0, weights=weight), 1e-12)
        return np.log(share)

    def inverse_link(self, scores: Array) -> Array:
        """Probabilities of every class."""
        return _softmax(scores)


REGRESSION_LOSSES: dict[str, type[Loss]] = {
    "squared_error": SquaredError,
    "huber": Huber,
    "quantile": Quantile,
    "poisson": Poisson,
}


def regression_loss(loss: Any) -> Loss:
    """Turn the ``loss`` parameter of a regressor into a loss."""
    if isinstance(loss, Loss):
        return loss
    if loss in ("auto", None):
        return SquaredError()
    if isinstance(loss, str) and loss in REGRESSION_LOSSES:
        return REGRESSION_LOSSES[loss]()
    raise ValueError(
        f"loss must be one of {sorted(REGRESSION_LOSSES)}, 'auto' or a Loss, got {loss!r}."
    )


# Written with numpy's functions alone, which arrays on a GPU answer to; scipy's do not reach them.


def _sigmoid(scores: Array) -> Array:
    odds: Array = np.exp(-np.maximum(scores, -700.0))  # beyond, they overflow
    return 1.0 / (1.0 + odds)


def _softmax(scores: Array) -> Array:
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Array = odds / odds.sum(axis=1, keepdims=True)
    return shares


def _over_outputs(values: Array) -> Array:
    """Sum each row: of one column, which is the rule, without the time that numpy takes over rows."""
    summed: Array = values[:, 0] if values.shape[1] == 1 else values.sum(axis=1)
    return summed


def _log_sum_exp(scores: Array) -> Array:
    top = scores.max(axis=1)
    total: Array = top + np.log(np.exp(scores - top[:, None]).sum(axis=1))
    return total


def _weighted_quantile(target: Array, weight: Array, alpha: float) -> Array:
    result = np.empty(target.shape[1], like=target)
    for column in range(target.shape[1]):
        order = np.argsort(target[:, column], kind="stable")
        mass = np.cumsum(weight[order])
        result[column] = target[order, column][np.searchsorted(mass, alpha * mass[-1])]
    return result


def _robust_scale(target: Array) -> float:
    """1.4826 times the median absolute deviation, or the plain deviation where half the labels are equal."""
    scale = 1.4826 * float(np.median(np.abs(target - np.median(target))))
    return scale or float(np.std(target)) or 1.0
