"""Counts with more or fewer zeros than their distribution has: zero-inflated and hurdle."""

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy import stats

from ebboost._common import Array
from ebboost.losses.likelihood import Reshaped, least_value, most_likely
from ebboost.losses.log_link import OVERDISPERSION, NegativeBinomial, _LogLink

# Least share of a plain count's curvature, and ends of Λ, whose exponential is finite.
LEAST_SHARE = 1e-3
STEPS = 30  # to counts whose positive part has two moments
LEVELS = (1e-150, 700.0)


class _Zeros(_LogLink):
    """Counts μ, of which a share is left: their variance is that of the share times them."""

    theta: float

    @property
    def _counts(self) -> NegativeBinomial:
        return NegativeBinomial(self.theta)

    def prepared(self, target: Array, weight: Array, scores: Array | None = None) -> Any:
        return most_likely(self, target, weight, scores)

    def normalizer(self, target: Array) -> Array:
        return self._counts.normalizer(target)

    @abstractmethod
    def _zero(self, scores: Array) -> Array:
        """The probability of 0."""

    @abstractmethod
    def _plain(self, scores: Array) -> tuple[Array, Array]:
        """Log means of plain counts, and the ratio of moments of y and of them."""

    def _at_zero(self, scores: Array) -> Array:
        """Λ, minus the log probability that a plain count is 0."""
        return self._counts.value(scores, np.zeros_like(scores))[:, None].clip(*LEVELS)

    def variance(self, scores: Array, dispersion: float) -> Array:
        """Return the variance of counts with these zeros."""
        log_mean, ratio = self._plain(scores)
        mean = np.exp(log_mean)
        return ratio * (self._counts.variance(log_mean, 1.0) + (1.0 - ratio) * mean**2)

    def distribution(self, scores: Array, deviation: Array, trials: Array | None = None) -> Any:
        """Return distributions with this mean, deviation and probability of 0."""
        zero, mean = self._zero(scores)[:, 0], self.inverse_link(scores)[:, 0]
        positive = np.maximum(1.0 - zero, 1e-12)
        above = np.exp(self._plain(scores)[0])[:, 0] / mean * positive  # of counts, from 0
        for _ in range(STEPS):
            center = mean / positive * above
            variance = (deviation**2 + mean**2) / positive * above - center**2
            least = center * (1.0 + OVERDISPERSION * np.maximum(center, 1.0))
            variance = np.maximum(variance, least)
            counts = stats.nbinom(center**2 / (variance - center), center / variance)
            above = counts.sf(0.0)
        return Reshaped(counts, zero)


class ZeroInflated(_Zeros):
    """Counts, a share of which is 0 for another reason: predicts the mean of all.

    Parameters
    ----------
    theta : float, optional
        θ of :class:`NegativeBinomial`; 1e9 are Poisson counts. Default: maximum likelihood.
    share : float, optional
        Share of the rows whose count is 0 whatever the columns say. Default: maximum likelihood.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> truth = eb.ZeroInflated(1e9, 0.3)
    >>> y = truth.sample(np.random.default_rng(0), np.ones((5000, 1)))
    >>> round(eb.ZeroInflated(1e9).prepared(y, np.ones(5000)).share, 1)
    0.3
    """

    def __init__(self, theta: float | None = None, share: float | None = None) -> None:
        self.theta: float = theta  # type: ignore[assignment]  # None until prepared
        self.share: float = share  # type: ignore[assignment]

    def _inner(self, scores: Array) -> Array:
        return scores - np.log1p(-self.share)

    def _plain(self, scores: Array) -> tuple[Array, Array]:
        return self._inner(scores), np.full_like(scores, 1.0 - self.share)

    def _is_count(self, scores: Array, target: Array) -> Array:
        """The probability that a label is a count, and not 0 for another reason."""
        odds = self.share / (1.0 - self.share) * np.exp(self._at_zero(self._inner(scores)))
        return np.where(target == 0, 1.0 / (1.0 + odds), 1.0)

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        plain = self._counts.value(self._inner(scores), target) - np.log1p(-self.share)
        at_zero = -np.logaddexp(np.log(np.maximum(self.share, 1e-300)), -plain)
        return np.where(target[:, 0] == 0, at_zero, plain)

    def least_value(self, target: Array) -> Array:
        """Return the loss of counts whose mean is the label; 0 for labels of 0."""
        scores = np.log(np.where(target == 0, 1.0, target)) + np.log1p(-self.share)
        return np.where(target[:, 0] == 0, 0.0, self.value(scores, target))

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        own = self._is_count(scores, target)
        return own * self._counts.gradient(self._inner(scores), target)

    def curvature(self, scores: Array, target: Array) -> Array:
        """Return the second derivative if it were known which zeros are counts: never less."""
        own = self._is_count(scores, target)
        return own * self._counts.curvature(self._inner(scores), target)

    def _zero(self, scores: Array) -> Array:
        return np.exp(-self.value(scores, np.zeros_like(scores)))[:, None]

    def sample(self, random: np.random.Generator, scores: Array, dispersion: float = 1.0) -> Array:
        """Return counts, a share of them 0."""
        counts = self._counts.sample(random, self._inner(scores))
        return np.where(random.random(scores.shape) < self.share, 0.0, counts)


class Hurdle(_Zeros):
    """Counts whose probability of 0 is their own to the power γ: more if γ < 1, fewer if γ > 1.

    The score is the log mean μ before that, and exposure an offset of it; predicts the mean
    μ(1 − pᵞ)/(1 − p), p being the own probability of 0, exp(−μ) of Poisson counts.

    Parameters
    ----------
    theta : float, optional
        θ of :class:`NegativeBinomial`; 1e9 are Poisson counts. Default: maximum likelihood.
    ratio : float, optional
        γ. Default: maximum likelihood.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> truth = eb.Hurdle(1e9, 0.2)
    >>> y = truth.sample(np.random.default_rng(0), np.full((5000, 1), 1.0))
    >>> round(float((y == 0).mean()), 1)  # exp(−0.2 e)
    0.6
    """

    def __init__(self, theta: float | None = None, ratio: float | None = None) -> None:
        self.theta: float = theta  # type: ignore[assignment]  # None until prepared
        self.ratio: float = ratio  # type: ignore[assignment]

    def _plain(self, scores: Array) -> tuple[Array, Array]:
        level = self._at_zero(scores)
        return scores, np.expm1(-self.ratio * level) / np.expm1(-level)

    def _zero(self, scores: Array) -> Array:
        return np.exp(-self.ratio * self._at_zero(scores))

    def inverse_link(self, scores: Array) -> Array:
        """Return the means."""
        log_mean, ratio = self._plain(scores)
        return ratio * np.exp(log_mean)

    def slope(self, scores: Array) -> Array:
        """Return the derivative of the means, by a difference."""
        return (self.inverse_link(scores + 1e-4) - self.inverse_link(scores - 1e-4)) / 2e-4

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        level = self._at_zero(scores)
        ratios = np.log(-np.expm1(-level)) - np.log(-np.expm1(-self.ratio * level))
        positive = self._counts.value(scores, target) + ratios[:, 0]
        return np.where(target[:, 0] == 0, self.ratio * level[:, 0], positive)

    def least_value(self, target: Array) -> Array:
        """Return the loss of the best score of each label; 0 for labels of 0."""
        label = np.maximum(target, 1.0)
        return np.where(target[:, 0] == 0, 0.0, least_value(self, np.log(label), label))

    def _slopes(self, level: Array) -> tuple[Array, Array]:
        """The derivatives of log(1 − e^−Λ) − log(1 − e^−γΛ) by Λ."""
        one, other = (
            factor / np.expm1(np.minimum(factor * level, LEVELS[1])) for factor in (1.0, self.ratio)
        )
        return one - other, other * (other + self.ratio) - one * (one + 1.0)

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        rise = self._counts.gradient(scores, np.zeros_like(target))
        first, _ = self._slopes(self._at_zero(scores))
        positive = self._counts.gradient(scores, target) + rise * first
        return np.where(target == 0, self.ratio * rise, positive)

    def curvature(self, scores: Array, target: Array) -> Array:
        """Return the second derivative, at least a small share of that of plain counts."""
        none = np.zeros_like(target)
        rise, bend = self._counts.gradient(scores, none), self._counts.curvature(scores, none)
        first, second = self._slopes(self._at_zero(scores))
        plain = self._counts.curvature(scores, target)
        positive = np.maximum(plain + bend * first + rise**2 * second, LEAST_SHARE * plain)
        return np.where(target == 0, self.ratio * bend, positive)

    def sample(self, random: np.random.Generator, scores: Array, dispersion: float = 1.0) -> Array:
        """Return 0 or a positive count."""
        level, zero = random.random((2, *scores.shape))
        plain = stats.nbinom(self.theta, self.theta / (self.theta + np.exp(scores)))
        positive = np.maximum(plain.ppf(1.0 - level * plain.sf(0.0)), 1.0)
        return np.where(zero < self._zero(scores), 0.0, positive)
