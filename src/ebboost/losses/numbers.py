"""Losses of the difference between score and label: squared error, Huber, quantile."""

from __future__ import annotations

import numpy as np

from ebboost._common import Array, check_number
from ebboost.losses.base import Loss, sum_outputs

# Huber's delta in robust standard deviations: 95 % efficiency for normal errors (Huber, 1964).
HUBER_DELTA = 1.345
# Median absolute deviation to standard deviation, for normal errors.
MAD_TO_STD = 1.4826
# Half-width of the band around the label in which the quantile loss is rounded, in robust standard
# deviations. Of normal errors less than 1 % are on the wrong side of any quantile.
QUANTILE_ROUNDING = 0.5


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
        return sum_outputs(squares)

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return scores - target

    def dispersion(self, scores: Array, target: Array, weight: Array) -> float:
        """Return the variance of the residuals."""
        return float(np.average(((target - scores) ** 2).mean(axis=1), weights=weight))

    def sample(self, random: np.random.Generator, scores: Array, dispersion: float = 1.0) -> Array:
        """Return normal labels of variance φ."""
        return random.normal(scores, np.sqrt(dispersion))


class Huber(Loss):
    """Squared near the label, linear beyond ``delta``: predicts the mean, robust to outliers.

    Parameters
    ----------
    delta : float, optional
        Where it turns linear, in the units of y. Default: 1.345 robust standard deviations of the
        residuals.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> eb.Huber(1.0).gradient(np.array([[0.5], [9.0]]), np.zeros((2, 1))).ravel().tolist()
    [0.5, 1.0]
    """

    def __init__(self, delta: float | None = None) -> None:
        self.delta: float = delta  # type: ignore[assignment]  # None until prepared

    def prepared(  # noqa: D102
        self, target: Array, weight: Array, scores: Array | None = None
    ) -> Huber:
        if self.delta is None:
            return Huber(HUBER_DELTA * robust_scale(without_offset(target, scores)))
        check_number("Huber: delta", self.delta, low=0.0, closed="neither")
        return self

    def initial(  # noqa: D102
        self, target: Array, weight: Array, offset: Array | None = None
    ) -> Array:
        return _weighted_quantile(without_offset(target, offset), weight, 0.5)

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        size = np.abs(scores - target)
        inside = np.minimum(size, self.delta)
        return sum_outputs(inside * (size - 0.5 * inside))

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return np.clip(scores - target, -self.delta, self.delta)

    def curvature(self, scores: Array, target: Array) -> Array:
        """Return min(1, δ/|r|): the parabola that touches the loss at ±r."""
        return self.delta / np.maximum(np.abs(scores - target), self.delta)

    def dispersion(self, scores: Array, target: Array, weight: Array) -> float:
        """Return the robust variance of the residuals."""
        return robust_scale(target - scores) ** 2

    def sample(self, random: np.random.Generator, scores: Array, dispersion: float = 1.0) -> Array:
        """Return normal labels of variance φ, without outliers."""
        return random.normal(scores, np.sqrt(dispersion))


class Quantile(Loss):
    """The pinball loss, rounded near the label: predicts the ``alpha`` quantile.

    It is the mean of the pinball losses of labels spread evenly over ``rounding`` to both sides.

    Parameters
    ----------
    alpha : float, default=0.5
        The quantile, between 0 and 1.
    rounding : float, optional
        Half-width of the band around the label in which the loss is a parabola, in the units of
        y. Default: half the robust standard deviation of the residuals.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(500, 1))
    >>> y = np.random.default_rng(1).normal(size=500)
    >>> model = eb.EBBSRegressor(50, loss=eb.Quantile(0.9), random_state=0).fit(X, y)
    >>> bool(0.8 < (y < model.predict(X)).mean() < 1.0)
    True
    """

    def __init__(self, alpha: float = 0.5, rounding: float | None = None) -> None:
        self.alpha = alpha
        self.rounding: float = rounding  # type: ignore[assignment]  # None until prepared

    def prepared(  # noqa: D102
        self, target: Array, weight: Array, scores: Array | None = None
    ) -> Quantile:
        check_number("Quantile: alpha", self.alpha, low=0.0, high=1.0, closed="neither")
        if self.rounding is None:
            scale = robust_scale(without_offset(target, scores))
            return Quantile(self.alpha, QUANTILE_ROUNDING * scale)
        check_number("Quantile: rounding", self.rounding, low=0.0, closed="neither")
        return self

    def initial(  # noqa: D102
        self, target: Array, weight: Array, offset: Array | None = None
    ) -> Array:
        return _weighted_quantile(without_offset(target, offset), weight, self.alpha)

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        difference = scores - target
        inside = np.clip(difference, -self.rounding, self.rounding)
        half = 0.5 * np.abs(difference - inside) + 0.25 * inside**2 / self.rounding
        return sum_outputs(half + (0.5 - self.alpha) * difference)

    def least_value(self, target: Array) -> float:
        """Return the loss of scores 2α − 1 times the rounding above the label."""
        return -self.rounding * (self.alpha - 0.5) ** 2 * target.shape[1]

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        inside = (scores - target) / (2.0 * self.rounding)
        return np.clip(inside, -0.5, 0.5) + (0.5 - self.alpha)

    def curvature(self, scores: Array, target: Array) -> Array:
        """Return 1/(2|r|), bounded: |r| ≤ r²/(2|r₀|) + |r₀|/2 (Hunter and Lange, 2000)."""
        return 0.5 / np.maximum(np.abs(scores - target), self.rounding)

    def dispersion(self, scores: Array, target: Array, weight: Array) -> float:
        """Return the mean pinball loss, the scale of an asymmetric Laplace distribution."""
        difference = target - scores
        losses = np.maximum(self.alpha * difference, (self.alpha - 1.0) * difference)
        return float(np.average(losses.mean(axis=1), weights=weight))

    def variance(self, scores: Array, dispersion: float) -> Array:
        """Return φ²(1/α² + 1/(1 − α)²), that of an asymmetric Laplace distribution."""
        squares = self.alpha**-2.0 + (1.0 - self.alpha) ** -2.0
        return np.full_like(scores, dispersion**2 * squares)

    def sample(self, random: np.random.Generator, scores: Array, dispersion: float = 1.0) -> Array:
        """Return labels of an asymmetric Laplace distribution, whose quantile the score is."""
        above = random.exponential(dispersion / self.alpha, scores.shape)
        below = random.exponential(dispersion / (1.0 - self.alpha), scores.shape)
        return scores + above - below


def without_offset(target: Array, offset: Array | None) -> Array:
    """Return labels less the offset, of a loss of differences."""
    return target if offset is None else target - offset


def _weighted_quantile(target: Array, weight: Array, alpha: float) -> Array:
    quantiles = np.empty_like(target[0])
    for column in range(target.shape[1]):
        order = np.argsort(target[:, column], kind="stable")
        mass = np.cumsum(weight[order])
        quantiles[column] = target[order, column][np.searchsorted(mass, alpha * mass[-1])]
    return quantiles


def robust_scale(values: Array) -> float:
    """Return the robust standard deviation, or the plain one if half the values are equal."""
    scale = MAD_TO_STD * float(np.median(np.abs(values - np.median(values))))
    return scale or float(np.std(values)) or 1.0
