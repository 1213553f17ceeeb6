"""Losses of classes: the Bernoulli and the multinomial likelihood on log-odds."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from ebboost._common import Array
from ebboost.losses.base import Loss, best_constant, largest_output, sum_outputs

# Least p(1 − p) of the classification losses: it bounds the Newton step of a node where the model
# is certain and wrong. On LUCAS in three classes, values from 1e-8 to 1e-3 differ by at most 0.6 %
# of the log-loss; 1e-2 is up to 0.8 % worse.
MIN_CURVATURE = 1e-4
# Least share of a class in the initial score.
MIN_SHARE = 1e-12


class _CrossEntropy(Loss):
    majorised = False
    curvature_has_units = False

    @abstractmethod
    def _probability(self, scores: Array) -> Array:
        """The probability of the class of each score."""

    @abstractmethod
    def _link(self, shares: Array) -> Array:
        """The scores of shares of the classes."""

    def gradient(self, scores: Array, target: Array) -> Array:
        return self._probability(scores) - target

    def curvature(self, scores: Array, target: Array) -> Array:
        """Return the diagonal p(1 − p) of the Hessian, which learns faster than its bounds.

        Those are ¼ for one score and ½ for several (Böhning, 1992).
        """
        probability = self._probability(scores)
        return np.maximum(probability * (1.0 - probability), MIN_CURVATURE)

    def initial(self, target: Array, weight: Array, offset: Array | None = None) -> Array:
        start = self._link(np.average(target, axis=0, weights=weight))
        return start if offset is None else best_constant(self, start, target, weight, offset)


class LogLoss(_CrossEntropy):
    """Binary cross-entropy on one score; the target is 0 or 1.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> eb.LogLoss().inverse_link(np.array([[0.0]])).tolist()  # of both classes
    [[0.5, 0.5]]
    """

    def _probability(self, scores: Array) -> Array:
        odds: Array = np.exp(-np.maximum(scores, -700.0))  # overflows beyond
        return 1.0 / (1.0 + odds)

    def _link(self, shares: Array) -> Array:
        shares = np.clip(shares, MIN_SHARE, 1 - MIN_SHARE)
        return np.log(shares) - np.log1p(-shares)

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return sum_outputs(np.logaddexp(0.0, scores) - target * scores)

    def inverse_link(self, scores: Array) -> Array:
        """Return the probabilities of both classes."""
        positive = self._probability(scores)
        return np.hstack([1.0 - positive, positive])

    def sample(self, random: np.random.Generator, scores: Array, dispersion: float = 1.0) -> Array:
        """Return 0 or 1."""
        return (random.random(scores.shape) < self._probability(scores)).astype(np.float64)


class Softmax(_CrossEntropy):
    """Cross-entropy over c classes, one score each; the target is one-hot.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> eb.Softmax().inverse_link(np.log([[1.0, 1.0, 2.0]])).round(2).tolist()
    [[0.25, 0.25, 0.5]]
    """

    def _probability(self, scores: Array) -> Array:
        odds = np.exp(scores - largest_output(scores)[:, None])
        return odds / sum_outputs(odds)[:, None]

    def _link(self, shares: Array) -> Array:
        return np.log(np.maximum(shares, MIN_SHARE))

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        top = largest_output(scores)
        log_sum = top + np.log(sum_outputs(np.exp(scores - top[:, None])))
        return log_sum - sum_outputs(target * scores)

    def inverse_link(self, scores: Array) -> Array:
        """Return the probabilities of every class."""
        return self._probability(scores)

    def sample(self, random: np.random.Generator, scores: Array, dispersion: float = 1.0) -> Array:
        """Return one-hot labels."""
        chosen = (scores + random.gumbel(size=scores.shape)).argmax(axis=1)
        return np.eye(scores.shape[1])[chosen]
