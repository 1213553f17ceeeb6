"""The loss D(g(f̃), y) of the meta-loss (7) as a likelihood: value, derivatives, link, sampling.

Scores and targets are arrays of shape (m, c), one row per labelled node. A loss of your own is a
subclass of :class:`Loss` with ``value``, ``gradient`` and, if known, ``curvature``; the latent
field works with it too::

    class LogCosh(eb.Loss):
        def value(self, scores, target):
            return np.log(np.cosh(scores - target)).sum(axis=1)

        def gradient(self, scores, target):
            return np.tanh(scores - target)

        def curvature(self, scores, target):
            return 1.0

Functions of scores are numpy's own, which dispatch to arrays on a GPU; those of scipy do not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import reduce
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from ebboost._common import Array

# Newton steps to the best constant score, none of them longer than 1.
CONSTANT_STEPS = 100
CONSTANT_TOLERANCE = 1e-12
# Outputs that are reduced one after the other.
FEW_COLUMNS = 32


class Loss(BaseEstimator, ABC):
    """A loss on scores; the loss of a node depends on that node alone.

    Subclasses define :meth:`value` and :meth:`gradient`, and override the rest where the defaults
    (identity link, unit curvature, mean as initial score) do not fit. Constructor parameters follow
    scikit-learn's conventions: they are stored under their own names and checked in
    :meth:`prepared`.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> class LogCosh(eb.Loss):
    ...     def value(self, scores, target):
    ...         return np.log(np.cosh(scores - target)).sum(axis=1)
    ...     def gradient(self, scores, target):
    ...         return np.tanh(scores - target)
    >>> X = np.arange(100.0)[:, None]
    >>> eb.EBBSRegressor(20, loss=LogCosh(), random_state=0).fit(X, X[:, 0]).predict(X).shape
    (100,)
    """

    #: Whether ``curvature`` does not depend on the scores, so that it is computed once.
    constant_curvature = False
    #: Whether ``curvature`` bounds the loss from above. Otherwise steps are at most Newton steps.
    majorised = True
    #: Whether ``curvature`` depends on the units of the labels; that of probabilities does not.
    curvature_has_units = True
    #: Whether predictions are exponentials of scores, so that exposure is an offset.
    log_link = False
    #: Whether exposure is the number of trials that a share was observed in.
    has_trials = False
    #: ``slope(scores)``, the derivative of ``inverse_link``; None: 1, or that of exponentials.
    slope: Any = None
    #: ``distribution(scores, deviation, trials)`` of labels with these standard deviations, one of
    #: scipy; None: gamma distributions for a log link, else Student's t.
    distribution: Any = None
    #: ``normalizer(target)``, terms of the log-likelihood that only parameters change; None: 0.
    normalizer: Any = None

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

    def prepared(self, target: Array, weight: Array, scores: Array | None = None) -> Self:
        """Return this loss, its parameters checked and those that are None estimated.

        Parameters
        ----------
        target : ndarray of shape (m, c)
        weight : ndarray of shape (m,)
        scores : ndarray of shape (m, c), optional
            Scores of a model that was not trained on these labels; default: the best constant.

        Returns
        -------
        Loss
        """
        return self

    def curvature_over(self, other: Loss, scores: Array) -> float:
        """Return the ratio of the units of this curvature and of that with other parameters.

        Parameters
        ----------
        other : Loss
            Of the same class.
        scores : ndarray of shape (m, c)

        Returns
        -------
        float
        """
        return 1.0

    def initial(self, target: Array, weight: Array, offset: Array | None = None) -> Array:
        """Return the constant scores to start from.

        Parameters
        ----------
        target : ndarray of shape (m, c)
        weight : ndarray of shape (m,)
        offset : ndarray of shape (m, 1), optional
            What is added to the scores of each node.

        Returns
        -------
        ndarray of shape (c,)
        """
        labels = target if offset is None else target - offset
        return np.average(labels, axis=0, weights=weight)

    def label_scale(self, target: Array, weight: Array, offset: Array | None = None) -> float:
        """Return the spread of the labels as scores: the root mean square of first Newton steps.

        This is the standard deviation for squared error, the coefficient of variation for Poisson,
        and 1/√(p(1−p)) for two classes with shares p and 1 − p.

        Parameters
        ----------
        target : ndarray of shape (m, c)
        weight : ndarray of shape (m,)
        offset : ndarray of shape (m, 1), optional

        Returns
        -------
        float
        """
        start = initial_scores(self, target, weight, offset)
        steps = self.gradient(start, target) / self.curvature(start, target)
        largest = float(np.abs(steps).max()) or 1.0  # whose square may overflow
        squares = ((steps / largest) ** 2).sum(axis=1)
        return largest * float(np.sqrt(np.average(squares, weights=weight)))

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

    def deviance(self, scores: Array, target: Array) -> Array:
        """Return twice the loss of each node above the least that its label allows.

        Parameters
        ----------
        scores, target : ndarray of shape (m, c)

        Returns
        -------
        ndarray of shape (m,)
        """
        return 2.0 * (self.value(scores, target) - self.least_value(target))

    def least_value(self, target: Array) -> Array | float:
        """Return the least loss of each label over all scores; 0 by default.

        Parameters
        ----------
        target : ndarray of shape (m, c)

        Returns
        -------
        float or ndarray of shape (m,)
        """
        return 0.0

    def dispersion(self, scores: Array, target: Array, weight: Array) -> float:
        """Return the dispersion φ that :meth:`sample` takes, estimated from labels.

        Parameters
        ----------
        scores, target : ndarray of shape (m, c)
        weight : ndarray of shape (m,)

        Returns
        -------
        float
        """
        return 1.0

    def variance(self, scores: Array, dispersion: float) -> Array:
        """Return the variance of labels of nodes with these scores.

        Parameters
        ----------
        scores : ndarray of shape (m, c)
        dispersion : float
            φ of :meth:`dispersion`.

        Returns
        -------
        ndarray of shape (m, c)
        """
        return np.full_like(scores, dispersion)

    def sample(self, random: np.random.Generator, scores: Array, dispersion: float = 1.0) -> Array:
        """Return random labels of nodes with these scores.

        Parameters
        ----------
        random : numpy.random.Generator
        scores : ndarray of shape (m, c)
        dispersion : float, default=1.0
            φ of :meth:`dispersion`.

        Returns
        -------
        ndarray of shape (m, c)
        """
        raise NotImplementedError(f"{type(self).__name__} does not define sample().")

    def check(self, target: Array) -> None:
        """Raise ValueError for labels that this loss is not defined for.

        Parameters
        ----------
        target : ndarray of shape (m, c)
        """


def initial_scores(loss: Loss, target: Array, weight: Array, offset: Array | None = None) -> Array:
    """Return the scores of all labelled nodes before the first tree, shape (m, c)."""
    start = loss.initial(target, weight, offset)
    return np.broadcast_to(start if offset is None else start + offset, target.shape)


def best_constant(
    loss: Loss, start: Array, target: Array, weight: Array, offset: Array | None = None
) -> Array:
    """Return the constant scores of the least loss, by Newton's method from ``start``."""
    weights = weight[:, None]
    for _ in range(CONSTANT_STEPS):
        scores = np.broadcast_to(start if offset is None else start + offset, target.shape)
        gradient = (weights * loss.gradient(scores, target)).sum(axis=0)
        curvature = (weights * loss.curvature(scores, target)).sum(axis=0)
        step = np.clip(gradient / curvature, -1.0, 1.0)
        start = start - step
        if not float(np.abs(step).max()) > CONSTANT_TOLERANCE:
            break
    return start


def sum_outputs(values: Array) -> Array:
    """Row sums; of one column, which is the rule, without a reduction."""
    if values.shape[1] == 1:
        return values[:, 0]
    return reduce(np.add, values.T) if _has_few_columns(values) else values.sum(axis=1)


def largest_output(values: Array) -> Array:
    """Largest value of each row."""
    return reduce(np.maximum, values.T) if _has_few_columns(values) else values.max(axis=1)


def _has_few_columns(values: Array) -> bool:
    """Whether column by column is faster: numpy reduces short rows up to twenty times slower."""
    return isinstance(values, np.ndarray) and values.shape[1] <= FEW_COLUMNS
