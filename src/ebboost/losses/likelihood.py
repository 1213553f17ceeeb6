"""Parameters of greatest likelihood, and distributions with zeros or units of their own."""

from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import minimize

from ebboost._common import Array, check_number
from ebboost.losses.base import Loss, initial_scores

# Of each parameter that may be estimated: start and ends of its logarithm, or log-odds.
SEARCHED = {
    "theta": (1.0, (-7.0, 14.0)),
    "ratio": (0.0, (-10.0, 10.0)),
    "share": (-1.0, (-12.0, 5.0)),
    "precision": (2.0, (-5.0, 18.0)),
}
SHARES = ("share", "correlation")  # between 0 and 1
OPTIONS = {"maxfev": 200, "xatol": 1e-3, "fatol": 1e-7}
NEWTON_STEPS = 20


def with_logarithms(loss: Loss, names: list[str], logarithms: Any) -> Loss:
    """Return a loss with these parameters, given as logarithms or log-odds."""
    numbers = np.exp(
        [np.clip(one, *SEARCHED[name][1]) for name, one in zip(names, logarithms, strict=True)]
    )
    found = {
        name: float(one / (1.0 + one) if name in SHARES else one)
        for name, one in zip(names, numbers, strict=True)
    }
    return type(loss)(**(loss.get_params() | found))


def most_likely(loss: Loss, target: Array, weight: Array, scores: Array | None) -> Any:
    """Return the loss with parameters of greatest likelihood where they are None, others checked.

    By default around the best constant score.
    """
    names = []
    for name, value in loss.get_params().items():
        if value is None:
            names.append(name)
            continue
        high, closed = (1.0, "left") if name in SHARES else (None, "neither")
        check_number(f"{type(loss).__name__}: {name}", value, low=0.0, high=high, closed=closed)
    if not names:
        return loss
    start = initial_scores(loss, target, weight) if scores is None else scores

    def minus_log_likelihood(logarithms: Array) -> float:
        own = with_logarithms(loss, names, logarithms)
        values = own.value(start, target)
        values = values if own.normalizer is None else values - own.normalizer(target)
        return float(np.average(values, weights=weight))

    first, ends = [SEARCHED[name][0] for name in names], [SEARCHED[name][1] for name in names]
    best = minimize(minus_log_likelihood, first, method="Nelder-Mead", bounds=ends, options=OPTIONS)
    return with_logarithms(loss, names, best.x)


def least_value(loss: Loss, start: Array, target: Array) -> Array:
    """Return the least loss of each label over all scores, by Newton's method."""
    scores = start
    for _ in range(NEWTON_STEPS):
        step = loss.gradient(scores, target) / loss.curvature(scores, target)
        scores = scores - step.clip(-1.0, 1.0)
    return loss.value(scores, target)


class Reshaped:
    """A distribution of numbers of 0 and more: the methods of scipy's distributions.

    Parameters
    ----------
    base : scipy.stats distribution
    zero : ndarray of shape (n,), optional
        The probability of 0, in place of that of ``base``.
    size : ndarray of shape (n,), optional
        What counts are divided by.
    """

    def __init__(self, base: Any, zero: Array | None = None, size: Array | None = None) -> None:
        self._base, self._size = base, size
        self._below, self._above = base.cdf(0.0), np.maximum(base.sf(0.0), 1e-300)
        self._zero = self._below if zero is None else zero
        self._rest = (1.0 - self._zero) / self._above

    def _count(self, y: Any) -> Array:
        """The largest count whose quotient is not above y."""
        y = np.asarray(y)
        if self._size is None:
            return y
        count = np.rint(y * self._size)
        return count - (count / self._size > y)

    def mean(self) -> Array:
        """Return the means."""
        return self._rest * self._base.mean() / (1.0 if self._size is None else self._size)

    def var(self) -> Array:
        """Return the variances."""
        square = self._rest * (self._base.var() + self._base.mean() ** 2)
        return square / (1.0 if self._size is None else self._size**2) - self.mean() ** 2

    def std(self) -> Array:
        """Return the standard deviations."""
        return np.sqrt(np.maximum(self.var(), 0.0))

    def logpmf(self, y: Array) -> Array:
        """Return the logarithm of the probability of y."""
        count = np.asarray(y) if self._size is None else np.rint(np.asarray(y) * self._size)
        with np.errstate(divide="ignore"):
            positive = np.log(self._rest) + self._base.logpmf(count)
            return np.where(count == 0.0, np.log(self._zero), positive)

    def pmf(self, y: Array) -> Array:
        """Return the probability of y."""
        return np.exp(self.logpmf(y))

    def cdf(self, y: Array) -> Array:
        """Return the probability of y or less."""
        own = self._zero + self._rest * (self._base.cdf(self._count(y)) - self._below)
        return np.where(np.asarray(y) < 0.0, 0.0, own.clip(0.0, 1.0))

    def sf(self, y: Array) -> Array:
        """Return the probability of more than y."""
        own = self._rest * self._base.sf(self._count(y))
        return np.where(np.asarray(y) < 0.0, 1.0, own.clip(0.0, 1.0))

    def ppf(self, level: Array) -> Array:
        """Return quantiles."""
        inner = self._below + (level - self._zero) / np.maximum(self._rest, 1e-12)
        own = np.where(level > self._zero, self._base.ppf(inner.clip(0.0, 1.0)), 0.0)
        return own if self._size is None else own / self._size


def zero_or_gamma(mean: Array, variance: Array, power: float) -> Reshaped:
    """Return 0 with the chance of it of Tweedie amounts with these moments, else gamma."""
    zero = np.exp(-(mean**2) / (variance * (2.0 - power)))
    positive = np.maximum(1.0 - zero, 1e-12)
    own_mean = mean / positive
    own_variance = np.maximum((variance + mean**2) / positive - own_mean**2, 1e-12 * own_mean**2)
    return Reshaped(stats.gamma(own_mean**2 / own_variance, scale=own_variance / own_mean), zero)
