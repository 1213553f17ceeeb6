"""Likelihoods of shares between 0 and 1, on log-odds: binomial and beta."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.special import betaln, digamma, gammaln, polygamma, xlogy

from ebboost._common import Array
from ebboost.losses.base import best_constant, sum_outputs
from ebboost.losses.classes import LogLoss
from ebboost.losses.likelihood import Reshaped, least_value, most_likely

# Least p(1 − p): shares may be as small as those of rare diseases.
MIN_CURVATURE = 1e-8
LOG_CORRELATIONS = (-16.0, -0.1)
# Log-odds beyond which shapes of a beta distribution are 0, and ends of shares.
MAX_LOG_ODDS = 30.0
SHARES = (1e-12, 1.0 - 1e-12)


class _Share(LogLoss):
    curvature_has_units = True

    def inverse_link(self, scores: Array) -> Array:
        return self._probability(scores)

    def slope(self, scores: Array) -> Array:
        share = self._probability(scores)
        return share * (1.0 - share)

    def prepared(self, target: Array, weight: Array, scores: Array | None = None) -> Any:
        return most_likely(self, target, weight, scores)

    def distribution(self, scores: Array, deviation: Array, trials: Array | None = None) -> Any:
        """Return beta distributions."""
        share = self._probability(scores)[:, 0].clip(*SHARES)
        limit = share * (1.0 - share)
        precision = limit / np.minimum(deviation**2, 0.999 * limit) - 1.0
        return stats.beta(share * precision, (1.0 - share) * precision)


class Binomial(_Share):
    """log(1 + exp(s)) − y·s for the share y of trials that succeeded: predicts the share.

    The trials of each row are its ``exposure``, those of new rows, too. Without exposure,
    ``sample_weight`` may hold them, as in other libraries; intervals are then those of a share of
    average weight.

    Parameters
    ----------
    correlation : float, optional
        ρ of the trials of a row, by which shares vary more than chance explains: those of n trials
        have the variance p(1 − p)(1 + ρ(n − 1))/n, and weigh n/(1 + ρ(n − 1)). Default: maximum
        likelihood of a beta-binomial distribution; 0 without exposure.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> eb.Binomial().inverse_link(np.array([[0.0]])).tolist()
    [[0.5]]
    """

    has_trials = True

    def __init__(self, correlation: float | None = None) -> None:
        self.correlation = correlation

    def prepared(  # noqa: D102
        self, target: Array, weight: Array, scores: Array | None = None
    ) -> "Binomial":
        return self if self.correlation is None else most_likely(self, target, weight, scores)

    def given_trials(self, target: Array, trials: Array, scores: Array) -> "Binomial":
        """Return the loss with the correlation of greatest likelihood, where it is None."""
        if self.correlation is not None:
            return self
        share = self._probability(scores)[:, 0].clip(*SHARES)
        successes = target[:, 0] * trials

        def minus_log_likelihood(logarithm: float) -> float:
            precision = np.expm1(-logarithm)
            a, b = share * precision, (1.0 - share) * precision
            return float(np.sum(betaln(a, b) - betaln(successes + a, trials - successes + b)))

        best = minimize_scalar(minus_log_likelihood, bounds=LOG_CORRELATIONS, method="bounded")
        return Binomial(float(np.exp(best.x)))

    def weigh(
        self, loss: "Binomial", folds: Any, trials: Array, known: Any, scores: Array
    ) -> tuple["Binomial", Any]:
        """Return a loss with its correlation, and folds of this one weighed by it.

        The correlation is that of ``known`` labels around scores.
        """
        loss = loss.given_trials(known.target, trials[known.rows], scores)
        factor = loss.information(trials) / self.information(trials)

        def weighed(one: Any) -> Any:
            return one and replace(one, weight=factor[one.rows] * one.weight)

        parts = {"labels": weighed(folds.labels), "evaluation": weighed(folds.evaluation)}
        return loss, replace(folds, **parts)

    def information(self, trials: Array) -> Array:
        """Return what shares of so many trials weigh."""
        return trials / (1.0 + (self.correlation or 0.0) * np.maximum(trials - 1.0, 0.0))

    def curvature(self, scores: Array, target: Array) -> Array:
        """Return the second derivative p(1 − p)."""
        return np.maximum(self.slope(scores), MIN_CURVATURE)

    def least_value(self, target: Array) -> Array:
        """Return the entropy of the share."""
        return -sum_outputs(xlogy(target, target) + xlogy(1.0 - target, 1.0 - target))

    def dispersion(self, scores: Array, target: Array, weight: Array) -> float:
        """Return the mean squared Pearson residual of a label of average weight."""
        squares = (target - self._probability(scores)) ** 2 / self.curvature(scores, target)
        return float(np.average(squares.mean(axis=1), weights=weight))

    def variance(self, scores: Array, dispersion: float) -> Array:
        """Return φp(1 − p)."""
        return dispersion * self.slope(scores)

    def distribution(self, scores: Array, deviation: Array, trials: Array | None = None) -> Any:
        """Return beta-binomial distributions of shares; beta ones where trials are not known."""
        if trials is None:
            return super().distribution(scores, deviation)
        share, size = self._probability(scores)[:, 0].clip(*SHARES), np.maximum(trials, 1.0)
        excess = size * deviation**2 / (share * (1.0 - share)) - 1.0
        correlation = (excess / np.maximum(size - 1.0, 1.0)).clip(1e-9, 0.999)
        precision = 1.0 / correlation - 1.0
        successes = stats.betabinom(size, share * precision, (1.0 - share) * precision)
        return Reshaped(successes, size=size)

    def check(self, target: Array) -> None:  # noqa: D102
        wrong = float(target.min()) if target.min() < 0.0 else float(target.max())
        if not 0.0 <= wrong <= 1.0:
            raise ValueError(
                f"y must be a share from 0 to 1 for the Binomial loss, got {wrong:g}: divide "
                "successes by trials, and pass the trials as exposure."
            )

    def sample(self, random: np.random.Generator, scores: Array, dispersion: float = 1.0) -> Array:
        """Return shares of 1/φ trials, 0 or 1 for φ = 1."""
        size = max(round(1.0 / dispersion), 1)
        return random.binomial(size, self._probability(scores)) / size


class Beta(_Share):
    """Minus the log density of beta distributions, for shares strictly between 0 and 1.

    Predicts the mean μ; the variance is μ(1 − μ)/(1 + κ).

    Parameters
    ----------
    precision : float, optional
        κ. Default: maximum likelihood.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> y = eb.Beta(20.0).sample(np.random.default_rng(0), np.zeros((5000, 1)))
    >>> round(eb.Beta().prepared(y, np.ones(5000)).precision)
    20
    """

    def __init__(self, precision: float | None = None) -> None:
        self.precision: float = precision  # type: ignore[assignment]  # None until prepared

    def initial(  # noqa: D102
        self, target: Array, weight: Array, offset: Array | None = None
    ) -> Array:
        start = super().initial(target, weight, offset)
        has_none = self.precision is None
        return start if has_none else best_constant(self, start, target, weight, offset)

    def _shapes(self, scores: Array) -> tuple[Array, Array]:
        odds = np.exp(scores.clip(-MAX_LOG_ODDS, MAX_LOG_ODDS))
        return self.precision / (1.0 + 1.0 / odds), self.precision / (1.0 + odds)

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        a, b = self._shapes(scores)
        normalizer = gammaln(a) + gammaln(b) - gammaln(self.precision)
        return sum_outputs(normalizer - (a - 1.0) * np.log(target) - (b - 1.0) * np.log1p(-target))

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        a, b = self._shapes(scores)
        difference = digamma(a) - digamma(b) - np.log(target) + np.log1p(-target)
        return a * b / self.precision * difference

    def curvature(self, scores: Array, target: Array) -> Array:
        """Return the mean of the second derivative over labels, which is positive."""
        a, b = self._shapes(scores)
        return (a * b / self.precision) ** 2 * (polygamma(1, a) + polygamma(1, b))

    def curvature_over(self, other: Any, scores: Array) -> float:
        """Return the ratio of the precisions, each and one more."""
        return float((1.0 + self.precision) / (1.0 + other.precision))

    def least_value(self, target: Array) -> Array:
        """Return the loss of the scores where the gradient is 0."""
        return least_value(self, np.log(target) - np.log1p(-target), target)

    def variance(self, scores: Array, dispersion: float) -> Array:
        """Return μ(1 − μ)/(1 + κ)."""
        return self.slope(scores) / (1.0 + self.precision)

    def check(self, target: Array) -> None:  # noqa: D102
        wrong = float(target.min()) if target.min() <= 0.0 else float(target.max())
        if not 0.0 < wrong < 1.0:
            raise ValueError(
                f"y must be strictly between 0 and 1 for the Beta loss, got {wrong:g}: "
                "loss='binomial' takes shares of 0 and 1."
            )

    def sample(self, random: np.random.Generator, scores: Array, dispersion: float = 1.0) -> Array:
        """Return shares."""
        return random.beta(*self._shapes(scores)).clip(1e-300, 1.0 - 2.0**-53)
