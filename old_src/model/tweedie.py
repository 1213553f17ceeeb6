"""Predictive distributions of Tweedie amounts: sums of a Poisson number of gamma amounts.

Densities and probabilities are sums over the number k of events. Terms are largest near
k = λ(y/μ)^(α/(1+α)) with λ expected events and amounts of shape α (Dunn and Smyth, 2005). They are
smooth in k: where k is large, terms at a distance of a part of their width are added, a trapezoidal
rule whose error decreases exponentially.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ebboost.model.distribution import Array, ByMoments

# Terms are added within this many standard deviations of the largest one, and some more above.
REACH = 7.0
MORE_TERMS = 15.0
# Distance of two terms in units of their width: an error of exp(−2π²/0.75²).
STEP = 0.75
# From this shape on, a gamma distribution is the first terms of its uniform expansion (Temme,
# 1979): an absolute error below 1e-9. The second ones are those for small arguments.
LARGE_SHAPE = 1e4
NEAR = 0.1
NEAR_TERMS = (1 / 2835, 1 / 864, -2 / 135, 1 / 12, -1 / 3)
# From this number on, Stirling's formula with one term: an error below 1e-11.
LARGE_NUMBER = 1e3
# Newton steps of a quantile, the largest, and the relative accuracy.
MAX_STEPS = 100
MAX_STEP = 2.0
TOLERANCE = 1e-8
# Rows that are computed at once.
BLOCK = 256
# Points of the integral of E|Y − Y'|.
CRPS_POINTS = 200


@dataclass(frozen=True)
class TweedieDistribution(ByMoments):
    """Sums of a Poisson number of gamma amounts; their variance is φ_i μ_i^power."""

    power: float = 1.5

    @property
    def _events(self) -> tuple[Array, float, Array]:
        """Expected number of amounts, their shape and their scale."""
        number = self.means**2 / (self.variances * (2.0 - self.power))
        shape = (2.0 - self.power) / (self.power - 1.0)
        return number, shape, self.variances / self.means * (self.power - 1.0)

    @property
    def _chances(self) -> tuple[Array, Array]:
        """Probabilities of 0 and of more."""
        number = self._events[0]
        return np.exp(-number), -np.expm1(-number)

    def _numbers(self, y: Array) -> tuple[Array, Array]:
        """The distance of terms, and the numbers k of events: a row for each term."""
        number, shape, _ = self._events
        peak = number * (y / self.means) ** (shape / (1.0 + shape))
        reach = REACH * np.sqrt(peak)
        first = np.maximum(np.floor(peak - reach), 1.0)
        step = np.maximum(STEP * np.sqrt(peak / (1.0 + shape)), 1.0)
        step = np.where(first > 1.0, step, 1.0)
        n_terms = np.ceil((peak + reach + MORE_TERMS - first) / step).max(initial=0.0)
        return step, first + np.arange(n_terms + 1.0)[:, None] * step

    def _in_blocks(self, compute: Callable[[Self, Array], Array], y: Array) -> Array:
        """Numbers of each row, computed for rows with similar numbers of events at a time."""
        order = np.argsort(self._events[0], kind="stable")
        parts = [order[start : start + BLOCK] for start in range(0, max(y.size, 1), BLOCK)]
        results = [compute(self.subset(rows), y[rows]) for rows in parts]
        return np.concatenate(results, axis=-1)[..., np.argsort(order)]

    def _tail(self, y: Array, is_lower: bool) -> Array:
        """P(0 < Y < y) or P(Y > y), the density, and the mean of |Y − y| over this tail."""
        number, shape, scale = self._events
        step, k = self._numbers(y)
        x = y / scale
        chance = step * np.exp(_log_poisson(k, number))
        density = k * shape * np.exp(_log_poisson(k * shape, x))
        tail = _gamma_tail(k * shape, np.broadcast_to(x, k.shape), is_lower)
        excess = (k * shape - x) * tail
        amount = density - excess if is_lower else density + excess
        return np.array([(chance * part).sum(0) for part in (tail, density / y, scale * amount)])

    def _sums(self, y: Array) -> tuple[Array, Array, Array, Array]:
        """P(0 < Y < y) and P(Y > y), the density, and E|Y − y|, at y > 0.

        The smaller probability is a sum, the other one the rest.
        """
        zero, positive = self._chances
        is_lower = y * positive < self.means
        small = np.zeros((3, y.size))
        for side in np.unique(is_lower):
            rows = is_lower == side
            tail = partial(type(self)._tail, is_lower=bool(side))
            small[:, rows] = self.subset(rows)._in_blocks(tail, y[rows])
        probability, density, amount = small
        rest = np.maximum(positive - probability, 0.0)
        below, above = np.where(is_lower, (probability, rest), (rest, probability))
        amount += np.where(is_lower, y * zero, 0.0)
        sign = np.where(is_lower, -1.0, 1.0)
        return below, above, density, sign * (y - self.means) + 2.0 * amount

    def _amounts(self, y: Array) -> Array:
        """Labels above 0, and means where they are not."""
        return np.where(y > 0.0, y, self.means)

    def cdf(self, y: ArrayLike) -> Array:  # noqa: D102
        y = np.asarray(y, dtype=np.float64)
        zero, _ = self._chances
        below = self._sums(self._amounts(y))[0]
        return _by_sign(y, np.minimum(zero + below, 1.0), zero, 0.0)

    def survival(self, y: ArrayLike) -> Array:  # noqa: D102
        y = np.asarray(y, dtype=np.float64)
        return _by_sign(y, self._sums(self._amounts(y))[1], 1.0, 1.0)

    def _quantile(self, lower: Array, upper: Array) -> Array:
        zero, positive = self._chances
        is_positive = (lower > zero) & (upper > 0.0)
        result = np.where(upper > 0.0, 0.0, np.inf)
        if is_positive.any():
            part = self.subset(is_positive)
            below = np.minimum(lower - zero, positive)[is_positive]
            above = np.minimum(upper, positive)[is_positive]
            result[is_positive] = part._solve(_score(below, above))
        return result

    def _solve(self, target: Array) -> Array:
        """The amounts whose normal scores, given that they are not 0, are these.

        Newton steps of the logarithm, halved intervals where they do not converge.
        """
        _, positive = self._chances
        log_y = np.log(self.means / positive)
        low = np.full_like(log_y, -np.inf)
        high = np.full_like(log_y, np.inf)
        step = np.full_like(log_y, np.inf)
        for _ in range(MAX_STEPS):
            y = np.exp(log_y)
            below, above, density, _ = self._sums(y)
            score = _score(below, above)
            error = target - score
            low = np.where(error >= 0.0, log_y, low)
            high = np.where(error <= 0.0, log_y, high)
            with np.errstate(all="ignore"):
                normal = np.exp(-0.5 * score**2) / np.sqrt(2.0 * np.pi)
                newton = error * positive * normal / (y * density)
                middle = 0.5 * (low + high) - log_y
            newton = np.where(np.isfinite(newton), newton, np.sign(error) * MAX_STEP)
            newton = newton.clip(-MAX_STEP, MAX_STEP)
            is_outside = (log_y + newton < low) | (log_y + newton > high)
            is_slow = is_outside | (np.abs(newton) > np.maximum(0.5 * np.abs(step), TOLERANCE))
            step = np.where(is_slow & np.isfinite(middle), middle, newton)
            log_y = log_y + step
            if np.abs(step).max() <= TOLERANCE:
                break
        return np.exp(log_y)

    def crps(self, y: ArrayLike) -> Array:
        """Return E|Y − y| − E|Y − Y'|/2 of each label; the second is an integral of |φ(t)|²."""
        y = np.asarray(y, dtype=np.float64)
        beyond = self.means - y
        distance = _by_sign(y, self._sums(self._amounts(y))[3], beyond, beyond)
        number, shape, scale = self._events
        unit = 1.0 / np.sqrt(np.maximum(number, 1.0) * shape * (shape + 1.0))
        points, weights = np.polynomial.legendre.leggauss(CRPS_POINTS)
        half = np.zeros_like(y)
        for point, weight in zip(0.5 * (points + 1.0), 0.5 * weights, strict=True):
            t = unit * point / (1.0 - point)
            log_size = -0.5 * shape * np.log1p(t**2)
            angle = np.sin(0.5 * shape * np.arctan(t))
            less = 2.0 * np.exp(log_size) * angle**2 - np.expm1(log_size)
            half -= weight / unit * np.expm1(-2.0 * number * less) / (np.pi * point**2)
        return distance - scale * half

    def log_density(self, y: ArrayLike) -> Array:  # noqa: D102
        y = np.asarray(y, dtype=np.float64)
        positive = self._in_blocks(type(self)._log_sum, self._amounts(y))
        return _by_sign(y, positive, -self._events[0], -np.inf)

    def _log_sum(self, y: Array) -> Array:
        """The log density at y > 0."""
        number, shape, scale = self._events
        step, k = self._numbers(y)
        terms = _log_poisson(k, number) + _log_poisson(k * shape, y / scale) + np.log(k)
        log_sum: Array = special.logsumexp(terms, axis=0) + np.log(step * shape / y)
        return log_sum

    def _sample(self, random: np.random.RandomState, size: tuple[int, int]) -> Array:
        number, shape, scale = (np.atleast_1d(part)[:, None] for part in self._events)
        events = random.poisson(np.broadcast_to(number, size))
        amounts = random.standard_gamma(np.where(events > 0, events * shape, 1.0)) * scale
        return np.where(events > 0, amounts, 0.0)


def _by_sign(y: Array, positive: Array, zero: Array | float, negative: Array | float) -> Array:
    """Values for labels above 0, of 0 and below 0."""
    return np.select([y > 0.0, y == 0.0, y < 0.0], [positive, zero, negative], np.nan)


def _log_poisson(k: Array, mean: Array) -> Array:
    """Log of m^k e^−m / Γ(k+1), k > 0, without differences of large terms (Loader, 2000)."""
    excess = (k - mean) / mean
    deviance = mean * ((1.0 + excess) * np.log1p(excess) - excess)
    with np.errstate(over="ignore"):
        exact = special.gammaln(k + 1.0) - (k + 0.5) * np.log(k) + k - 0.5 * np.log(2.0 * np.pi)
    stirling = np.where(k < LARGE_NUMBER, exact, 1.0 / (12.0 * k))
    return -deviance - 0.5 * np.log(2.0 * np.pi * k) - stirling


def _gamma_tail(shape: Array, x: Array, is_lower: bool) -> Array:
    """The probability of a gamma amount below x or above it."""
    result = np.empty_like(x)
    few = shape < LARGE_SHAPE
    exact = special.gammainc if is_lower else special.gammaincc
    result[few] = exact(shape[few], x[few])
    shape = shape[~few]
    excess = x[~few] / shape - 1.0
    score = np.copysign(np.sqrt(2.0 * (excess - np.log1p(excess))), excess)
    is_near = np.abs(score) < NEAR
    series = np.polyval(NEAR_TERMS, score)
    difference = 1.0 / np.where(is_near, 1.0, excess) - 1.0 / np.where(is_near, 1.0, score)
    rest = np.exp(-0.5 * shape * score**2) / np.sqrt(2.0 * np.pi * shape)
    rest *= np.where(is_near, series, difference)
    sign = 1.0 if is_lower else -1.0
    result[~few] = special.ndtr(sign * np.sqrt(shape) * score) - sign * rest
    return result


def _score(below: Array, above: Array) -> Array:
    """The normal score of a value with these probabilities of less and more."""
    share = np.minimum(below, above) / (below + above)
    return np.copysign(special.ndtri(share), below - above)
