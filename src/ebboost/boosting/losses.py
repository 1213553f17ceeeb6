"""The losses D(g(f̃), y) of the meta-loss (7): value, gradient, curvature, link, initial score.

Scores and targets are arrays of shape (m, c), one row per labelled node. A loss of your own is a
subclass of :class:`Loss` with ``value``, ``gradient`` and, if known, ``curvature``::

    class LogCosh(eb.Loss):
        def value(self, scores, target):
            return np.log(np.cosh(scores - target)).sum(axis=1)

        def gradient(self, scores, target):
            return np.tanh(scores - target)

        def curvature(self, scores, target):
            return 1.0

All functions are numpy's own, which dispatch to arrays on a GPU; those of scipy do not.
"""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ebboost.data.parameters import check_number

Array = NDArray[np.float64]
# Least p(1 − p) of the classification losses: it bounds the Newton step of a node where the model
# is certain and wrong. On LUCAS in three classes, values from 1e-8 to 1e-3 differ by at most 0.6 %
# of the log-loss; 1e-2 is up to 0.8 % worse.
MIN_CURVATURE = 1e-4
# Huber's delta in robust standard deviations: 95 % efficiency for normal errors (Huber, 1964).
HUBER_DELTA = 1.345
# Width of the band around the label in which the quantile loss is rounded, in robust standard
# deviations. Not tuned.
QUANTILE_ROUNDING = 0.05
# Median absolute deviation to standard deviation, for normal errors.
MAD_TO_STD = 1.4826
# Least share of a class in the initial score.
MIN_SHARE = 1e-12


class Loss(BaseEstimator, ABC):
    """A loss on scores; the loss of a node depends on that node alone.

    Subclasses define :meth:`value` and :meth:`gradient`, and override the rest where the defaults
    (identity link, unit curvature, mean as initial score) do not fit. Constructor parameters follow
    scikit-learn's conventions: they are stored under their own names and checked in
    :meth:`prepared`.
    """

    #: Whether ``curvature`` does not depend on the scores, so that it is computed once.
    constant_curvature = False
    #: Whether ``curvature`` bounds the loss from above. Otherwise steps are at most Newton steps.
    majorised = True
    #: Whether ``curvature`` depends on the units of the labels; that of probabilities does not.
    curvature_has_units = True

    @abstractmethod
    def value(self, scores: Array, target: Array) -> Array:
        """Return the loss of each node.

        Parameters
        ----------
        scores, target : ndarray of shape (m, c)

        Returns
        -------
        ndarray of shape (m,)
        """

    @abstractmethod
    def gradient(self, scores: Array, target: Array) -> Array:
        """Return the derivative of each node's loss by its scores.

        Parameters
        ----------
        scores, target : ndarray of shape (m, c)

        Returns
        -------
        ndarray of shape (m, c)
        """

    def curvature(self, scores: Array, target: Array) -> Array | float:
        """Return h such that a parabola of curvature h at the scores lies above the loss.

        Steps taken with it never raise the loss. If there is no such bound (Poisson), return the
        second derivative; the line search then shortens steps that go too far.

        Parameters
        ----------
        scores, target : ndarray of shape (m, c)

        Returns
        -------
        float or ndarray that broadcasts to (m, c)
        """
        return 1.0

    def prepared(self, target: Array, weight: Array) -> "Loss":
        """Return this loss, its parameters checked and defaults computed from the labels.

        Parameters
        ----------
        target : ndarray of shape (m, c)
        weight : ndarray of shape (m,)

        Returns
        -------
        Loss
        """
        return self

    def initial(self, target: Array, weight: Array) -> Array:
        """Return the constant scores to start from.

        Parameters
        ----------
        target : ndarray of shape (m, c)
        weight : ndarray of shape (m,)

        Returns
        -------
        ndarray of shape (c,)
        """
        mean: Array = np.average(target, axis=0, weights=weight)
        return mean

    def label_scale(self, target: Array, weight: Array) -> float:
        """Return the spread of the labels as scores: the root mean square of first Newton steps.

        This is the standard deviation for squared error, the coefficient of variation for Poisson,
        and 1/√(p(1−p)) for two classes with shares p and 1 − p.

        Parameters
        ----------
        target : ndarray of shape (m, c)
        weight : ndarray of shape (m,)

        Returns
        -------
        float
        """
        start = np.broadcast_to(self.initial(target, weight), target.shape)
        steps = self.gradient(start, target) / self.curvature(start, target)
        return float(np.sqrt(np.average((steps**2).sum(axis=1), weights=weight)))

    def inverse_link(self, scores: Array) -> Array:
        """Return predictions for scores: g of (7).

        Parameters
        ----------
        scores : ndarray of shape (m, c)

        Returns
        -------
        ndarray
            Of shape (m, c), or (m, 2) for one score of two classes.
        """
        return scores

    def check(self, target: Array) -> None:
        """Raise ValueError for labels that this loss is not defined for.

        Parameters
        ----------
        target : ndarray of shape (m, c)
        """


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
        squares = 0.5 * difference
        squares *= difference  # in place: on large graphs, allocation takes longer than arithmetic
        return _sum_outputs(squares)

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return scores - target


class Huber(Loss):
    """Squared near the label, linear beyond ``delta``: predicts the mean, robust to outliers.

    Parameters
    ----------
    delta : float, optional
        Where it turns linear, in the units of y. Default: 1.345 robust standard deviations of the
        labels.
    """

    def __init__(self, delta: float | None = None) -> None:
        self.delta: float = delta  # type: ignore[assignment]  # None until prepared

    def prepared(self, target: Array, weight: Array) -> "Huber":  # noqa: D102
        if self.delta is None:
            return Huber(HUBER_DELTA * _robust_scale(target))
        check_number("Huber: delta", self.delta, low=0.0, closed="neither")
        return self

    def initial(self, target: Array, weight: Array) -> Array:  # noqa: D102
        return _weighted_quantile(target, weight, 0.5)

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        size = np.abs(scores - target)
        inside = np.minimum(size, self.delta)
        return _sum_outputs(inside * (size - 0.5 * inside))

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return np.clip(scores - target, -self.delta, self.delta)

    def curvature(self, scores: Array, target: Array) -> Array:
        """Return min(1, δ/|r|): the parabola that touches the loss at ±r."""
        return self.delta / np.maximum(np.abs(scores - target), self.delta)


class Quantile(Loss):
    """The pinball loss: predicts the ``alpha`` quantile.

    Parameters
    ----------
    alpha : float, default=0.5
        The quantile, between 0 and 1.
    rounding : float, optional
        Half-width of the band around the label in which the curvature is bounded, in the units of
        y. Default: a twentieth of the robust standard deviation of the labels.
    """

    def __init__(self, alpha: float = 0.5, rounding: float | None = None) -> None:
        self.alpha = alpha
        self.rounding: float = rounding  # type: ignore[assignment]  # None until prepared

    def prepared(self, target: Array, weight: Array) -> "Quantile":  # noqa: D102
        check_number("Quantile: alpha", self.alpha, low=0.0, high=1.0, closed="neither")
        if self.rounding is None:
            return Quantile(self.alpha, QUANTILE_ROUNDING * _robust_scale(target))
        check_number("Quantile: rounding", self.rounding, low=0.0, closed="neither")
        return self

    def initial(self, target: Array, weight: Array) -> Array:  # noqa: D102
        return _weighted_quantile(target, weight, self.alpha)

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        residual = target - scores
        return _sum_outputs(np.maximum(self.alpha * residual, (self.alpha - 1.0) * residual))

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return np.where(target > scores, -self.alpha, 1.0 - self.alpha)

    def curvature(self, scores: Array, target: Array) -> Array:
        """Return 1/(2|r|), bounded: |r| ≤ r²/(2|r₀|) + |r₀|/2 (Hunter and Lange, 2000)."""
        return 0.5 / (np.abs(scores - target) + self.rounding)


class Poisson(Loss):
    """exp(s) − y·s for counts and rates: predicts the mean on a log scale."""

    majorised = False

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return _sum_outputs(np.exp(scores) - target * scores)

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return np.exp(scores) - target

    def curvature(self, scores: Array, target: Array) -> Array:
        """Return the second derivative exp(s): no parabola lies above this loss."""
        return np.exp(scores)

    def initial(self, target: Array, weight: Array) -> Array:  # noqa: D102
        return np.log(np.average(target, axis=0, weights=weight))

    def inverse_link(self, scores: Array) -> Array:  # noqa: D102
        return np.exp(scores)

    def check(self, target: Array) -> None:  # noqa: D102
        if (target < 0).any():
            raise ValueError(
                f"y must not be negative for the Poisson loss, got {float(target.min()):g}."
            )
        if not (target > 0).any():
            raise ValueError("y must not be 0 at every labelled node for the Poisson loss.")


class _CrossEntropy(Loss):
    majorised = False
    curvature_has_units = False

    @abstractmethod
    def _probability(self, scores: Array) -> Array:
        """The probability of the class of each score."""

    def gradient(self, scores: Array, target: Array) -> Array:
        return self._probability(scores) - target

    def curvature(self, scores: Array, target: Array) -> Array:
        """Return the diagonal p(1 − p) of the Hessian, which learns faster than its bounds.

        Those are ¼ for one score and ½ for several (Böhning, 1992).
        """
        probability = self._probability(scores)
        return np.maximum(probability * (1.0 - probability), MIN_CURVATURE)


class LogLoss(_CrossEntropy):
    """Binary cross-entropy on one score; the target is 0 or 1."""

    def _probability(self, scores: Array) -> Array:
        odds: Array = np.exp(-np.maximum(scores, -700.0))  # overflows beyond
        return 1.0 / (1.0 + odds)

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return _sum_outputs(np.logaddexp(0.0, scores) - target * scores)

    def initial(self, target: Array, weight: Array) -> Array:  # noqa: D102
        share = np.average(target, axis=0, weights=weight)
        share = np.clip(share, MIN_SHARE, 1 - MIN_SHARE)
        return np.log(share) - np.log1p(-share)

    def inverse_link(self, scores: Array) -> Array:
        """Return the probabilities of both classes."""
        positive = self._probability(scores)
        return np.hstack([1.0 - positive, positive])


class Softmax(_CrossEntropy):
    """Cross-entropy over c classes, one score each; the target is one-hot."""

    def _probability(self, scores: Array) -> Array:
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares: Array = odds / odds.sum(axis=1, keepdims=True)
        return shares

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        top = scores.max(axis=1)
        log_sum = top + np.log(np.exp(scores - top[:, None]).sum(axis=1))
        return log_sum - (target * scores).sum(axis=1)

    def initial(self, target: Array, weight: Array) -> Array:  # noqa: D102
        return np.log(np.maximum(np.average(target, axis=0, weights=weight), MIN_SHARE))

    def inverse_link(self, scores: Array) -> Array:
        """Return the probabilities of every class."""
        return self._probability(scores)


REGRESSION_LOSSES: dict[str, type[Loss]] = {
    "squared_error": SquaredError,
    "huber": Huber,
    "quantile": Quantile,
    "poisson": Poisson,
}


def regression_loss(loss: object) -> Loss:
    """Return the loss that the ``loss`` parameter of a regressor stands for."""
    if isinstance(loss, Loss):
        return loss
    if loss is None or loss == "auto":
        return SquaredError()
    if isinstance(loss, str) and loss in REGRESSION_LOSSES:
        return REGRESSION_LOSSES[loss]()
    raise ValueError(
        f"loss must be one of {sorted(REGRESSION_LOSSES)}, 'auto' or a Loss, got {loss!r}."
    )


def _sum_outputs(values: Array) -> Array:
    """Row sums; of one column, which is the rule, without a reduction."""
    total: Array = values[:, 0] if values.shape[1] == 1 else values.sum(axis=1)
    return total


def _weighted_quantile(target: Array, weight: Array, alpha: float) -> Array:
    quantiles = np.empty(target.shape[1], like=target)
    for column in range(target.shape[1]):
        order = np.argsort(target[:, column], kind="stable")
        mass = np.cumsum(weight[order])
        quantiles[column] = target[order, column][np.searchsorted(mass, alpha * mass[-1])]
    return quantiles


def _robust_scale(target: Array) -> float:
    """Robust standard deviation, or the plain one if half the labels are equal."""
    scale = MAD_TO_STD * float(np.median(np.abs(target - np.median(target))))
    return scale or float(np.std(target)) or 1.0
