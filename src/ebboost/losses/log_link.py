"""Likelihoods whose mean is the exponential of the score: counts, claims, amounts, durations.

With exposure t the mean is t·exp(s), so that log t is an offset of the scores.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.special import betaln, digamma, polygamma

from ebboost._common import Array, check_number
from ebboost.losses.base import Loss, best_constant, initial_scores, sum_outputs

# Bounds of estimated parameters: θ beyond is Poisson, powers beyond are Poisson or gamma.
THETA_RANGE = (1e-3, 1e6)
POWER_RANGE = (1.01, 1.99)
# The power where it cannot be estimated because all scores are equal: halfway.
USUAL_POWER = 1.5
# Least mean of the labels in the initial score.
MIN_MEAN = 1e-300
# By how much the variance of a count exceeds its mean at least.
OVERDISPERSION = 1e-6
# Newton steps to the shape of a gamma distribution, from a start that is within 1.5 %.
SHAPE_STEPS = 5


class _LogLink(Loss):
    majorised = False
    log_link = True
    #: Labels of 0 are allowed.
    allows_zero = True

    @abstractmethod
    def gradient(self, scores: Array, target: Array) -> Array:
        """Return the derivative by the score."""

    def initial(self, target: Array, weight: Array, offset: Array | None = None) -> Array:
        exposure = 1.0 if offset is None else np.exp(offset)
        weights = weight[:, None]
        mean = (weights * target).sum(axis=0) / (weights * exposure).sum(axis=0)
        start = np.log(np.maximum(mean, MIN_MEAN))
        # Without Newton steps if all labels are 0, or a parameter is still to be estimated.
        if (mean < MIN_MEAN).any() or None in self.get_params().values():
            return start
        return best_constant(self, start, target, weight, offset)

    def inverse_link(self, scores: Array) -> Array:
        return np.exp(scores)

    def least_value(self, target: Array) -> Array:
        is_zero = target == 0
        at_label = self.value(np.log(np.where(is_zero, 1.0, target)), target)
        return np.where(is_zero[:, 0], 0.0, at_label)

    def check(self, target: Array) -> None:
        name = type(self).__name__
        least = float(target.min())
        if least < 0 or (least == 0 and not self.allows_zero):
            condition = "not be negative" if self.allows_zero else "be positive"
            raise ValueError(f"y must {condition} for the {name} loss, got {least:g}.")


class Poisson(_LogLink):
    """exp(s) − y·s for counts and rates: predicts the mean on a log scale.

    Counts usually vary more than that; see :class:`NegativeBinomial`.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> counts = np.array([[2.0], [4.0]])
    >>> float(np.exp(eb.Poisson().initial(counts, np.ones(2)))[0].round(9))
    3.0
    """

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return sum_outputs(np.exp(scores) - target * scores)

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return np.exp(scores) - target

    def curvature(self, scores: Array, target: Array) -> Array:
        """Return the second derivative exp(s): no parabola lies above this loss."""
        return np.exp(scores)

    def distribution(self, scores: Array, deviation: Array, trials: Array | None = None) -> Any:
        """Return negative binomial distributions."""
        mean = np.exp(scores[:, 0])
        least = mean * (1.0 + OVERDISPERSION * np.maximum(mean, 1.0))
        variance = np.maximum(deviation**2, least)
        return stats.nbinom(mean**2 / (variance - mean), mean / variance)

    def variance(self, scores: Array, dispersion: float) -> Array:
        """Return the mean."""
        return np.exp(scores)

    def sample(self, random: np.random.Generator, scores: Array, dispersion: float = 1.0) -> Array:
        """Return Poisson counts."""
        return random.poisson(np.exp(scores)).astype(np.float64)


class NegativeBinomial(_LogLink):
    """y log(1 + θ/μ) + θ log(1 + μ/θ), μ = exp(s), for counts of variance μ + μ²/θ: predicts μ.

    No term is a difference of large ones: counts of 1e12 have values and gradients near θ.

    Parameters
    ----------
    theta : float, optional
        θ; the smaller, the more counts vary beyond Poisson. Default: maximum likelihood.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> random = np.random.default_rng(0)
    >>> counts = eb.NegativeBinomial(2.0).sample(random, np.full((5000, 1), 1.5))
    >>> round(eb.NegativeBinomial().prepared(counts, np.ones(5000)).theta, 1)
    2.0
    """

    def __init__(self, theta: float | None = None) -> None:
        self.theta: float = theta  # type: ignore[assignment]  # None until prepared

    distribution = Poisson.distribution

    def prepared(  # noqa: D102
        self, target: Array, weight: Array, scores: Array | None = None
    ) -> NegativeBinomial:
        if self.theta is not None:
            check_number("NegativeBinomial: theta", self.theta, low=0.0, closed="neither")
            return self
        if scores is None:
            scores = initial_scores(self, target, weight)

        def minus_log_likelihood(log_theta: float) -> float:
            theta = np.exp(log_theta)
            loss = NegativeBinomial(theta)
            values = loss.value(scores, target) - loss.normalizer(target)
            return float(np.average(values, weights=weight))

        best = minimize_scalar(minus_log_likelihood, bounds=np.log(THETA_RANGE), method="bounded")
        return NegativeBinomial(float(np.exp(best.x)))

    def normalizer(self, target: Array) -> Array:
        """Return log Γ(y + θ) − log Γ(θ) − log y!."""
        return (-betaln(self.theta, target + 1.0) - np.log(target + self.theta)).sum(axis=1)

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        log_ratio = scores - np.log(self.theta)
        above = self.theta * np.logaddexp(0.0, log_ratio)
        return sum_outputs(target * np.logaddexp(0.0, -log_ratio) + above)

    def _shares(self, scores: Array) -> tuple[Array, Array]:
        """μ/(μ + θ) and θ/(μ + θ)."""
        ratio = np.exp(np.clip(scores - np.log(self.theta), -700.0, 700.0))
        return 1.0 / (1.0 + 1.0 / ratio), 1.0 / (1.0 + ratio)

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        share, rest = self._shares(scores)
        return self.theta * share - target * rest

    def curvature(self, scores: Array, target: Array) -> Array:
        """Return the second derivative."""
        share, rest = self._shares(scores)
        return (target + self.theta) * share * rest

    def variance(self, scores: Array, dispersion: float) -> Array:
        """Return μ + μ²/θ."""
        means = np.exp(scores)
        return means + means**2 / self.theta

    def sample(self, random: np.random.Generator, scores: Array, dispersion: float = 1.0) -> Array:
        """Return counts: Poisson, with means that vary as a gamma distribution."""
        means = random.gamma(self.theta, np.exp(scores) / self.theta)
        return random.poisson(means).astype(np.float64)


class Gamma(_LogLink):
    """y·exp(−s) + s for positive amounts of constant relative spread: predicts the mean.

    The shape of the distribution, 1/φ, is estimated by :meth:`dispersion`.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> y = eb.Gamma().sample(np.random.default_rng(0), np.zeros((5000, 1)), 0.5)
    >>> round(eb.Gamma().dispersion(np.zeros((5000, 1)), y, np.ones(5000)), 1)
    0.5
    """

    allows_zero = False

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return sum_outputs(target * np.exp(-scores) + scores)

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        return 1.0 - target * np.exp(-scores)

    def curvature(self, scores: Array, target: Array) -> Array:
        """Return the mean of the second derivative y/μ and its expectation 1.

        Newton steps are then 2 tanh((s − log y)/2), bounded and exact near the label.
        """
        return 0.5 + 0.5 * target * np.exp(-scores)

    def dispersion(self, scores: Array, target: Array, weight: Array) -> float:
        """Return 1/shape of greatest likelihood: log k − ψ(k) is half the mean deviance."""
        half = float(np.average(self.deviance(scores, target), weights=weight)) / 2.0
        half = max(half / target.shape[1], 1e-300)
        shape = (3.0 - half + np.sqrt((half - 3.0) ** 2 + 24.0 * half)) / (12.0 * half)
        for _ in range(SHAPE_STEPS):
            excess = np.log(shape) - digamma(shape) - half
            shape *= np.exp(excess / (shape * polygamma(1, shape) - 1.0))
        return float(1.0 / shape)

    def variance(self, scores: Array, dispersion: float) -> Array:
        """Return φμ²."""
        return dispersion * np.exp(2.0 * scores)

    def sample(self, random: np.random.Generator, scores: Array, dispersion: float = 1.0) -> Array:
        """Return amounts of variance φμ²."""
        return random.gamma(1.0 / dispersion, np.exp(scores) * dispersion)


class Tweedie(_LogLink):
    """Amounts that are often 0, sums of a Poisson number of gamma amounts: predicts the mean μ.

    Parameters
    ----------
    power : float, optional
        p between 1 and 2: the variance is φμᵖ. Default: estimated from the spread of labels around
        their scores and from the labels that are 0; 1.5 where all scores are equal.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> y = eb.Tweedie(1.5).sample(np.random.default_rng(0), np.zeros((5000, 1)), 2.0)
    >>> round(float((y == 0).mean()), 1), round(float(y.mean()), 1)
    (0.4, 1.0)
    """

    def __init__(self, power: float | None = None) -> None:
        self.power: float = power  # type: ignore[assignment]  # None until prepared

    def prepared(  # noqa: D102
        self, target: Array, weight: Array, scores: Array | None = None
    ) -> Tweedie:
        if self.power is not None:
            check_number("Tweedie: power", self.power, low=1.0, high=2.0, closed="neither")
            return self
        if scores is None or float(np.ptp(scores)) == 0.0:
            return Tweedie(USUAL_POWER)
        squares = (target - np.exp(scores)) ** 2
        mean_score = np.average(scores, axis=0, weights=weight)
        is_zero = 1.0 * (target == 0.0)

        def composite_likelihood(power: float) -> float:
            """That of normal errors with this variance (Carroll and Ruppert, 1988), and of zeros.

            Of variances alone, a power of nearly 2 may be the best where many labels are 0, which
            it makes impossible.
            """
            dispersion = np.average(squares * np.exp(-power * scores), axis=0, weights=weight)
            of_variance = np.log(dispersion) + power * mean_score
            number = np.exp((2.0 - power) * scores) / (dispersion * (2.0 - power))
            log_positive = np.log(np.maximum(-np.expm1(-number), MIN_MEAN))
            log_chance = (1.0 - is_zero) * log_positive - is_zero * number
            return float(np.sum(of_variance - 2.0 * np.average(log_chance, axis=0, weights=weight)))

        best = minimize_scalar(composite_likelihood, bounds=POWER_RANGE, method="bounded")
        return Tweedie(float(best.x))

    def curvature_over(self, other: Loss, scores: Array) -> float:
        """Return the ratio of a typical μ to the powers 2 − p."""
        power = other.power if isinstance(other, Tweedie) else self.power
        return float(np.exp((power - self.power) * np.mean(scores)))

    def value(self, scores: Array, target: Array) -> Array:  # noqa: D102
        first, second = self._terms(scores, target)
        return sum_outputs(second / (2.0 - self.power) - first / (1.0 - self.power))

    def _terms(self, scores: Array, target: Array) -> tuple[Array, Array]:
        """The products y μ^(1−p), and μ^(2−p)."""
        power = np.where(target > 0.0, (1.0 - self.power) * scores, 0.0)  # 0 times infinity is 0
        return target * np.exp(power), np.exp((2.0 - self.power) * scores)

    def gradient(self, scores: Array, target: Array) -> Array:  # noqa: D102
        first, second = self._terms(scores, target)
        return second - first

    def curvature(self, scores: Array, target: Array) -> Array:
        """Return the second derivative."""
        first, second = self._terms(scores, target)
        return (2.0 - self.power) * second + (self.power - 1.0) * first

    def dispersion(self, scores: Array, target: Array, weight: Array) -> float:
        """Return the mean squared Pearson residual."""
        squares = (target - np.exp(scores)) ** 2 * np.exp(-self.power * scores)
        return float(np.average(squares.mean(axis=1), weights=weight))

    def variance(self, scores: Array, dispersion: float) -> Array:
        """Return φμᵖ."""
        return dispersion * np.exp(self.power * scores)

    def distribution(self, scores: Array, deviation: Array, trials: Array | None = None) -> Any:
        """Return 0 with the chance of it, else gamma distributions."""
        from ebboost.losses.likelihood import zero_or_gamma

        return zero_or_gamma(np.exp(scores[:, 0]), deviation**2, self.power)

    def sample(self, random: np.random.Generator, scores: Array, dispersion: float = 1.0) -> Array:
        """Return sums of a Poisson number of gamma amounts."""
        rest = 2.0 - self.power
        number = random.poisson(np.exp(rest * scores) / (dispersion * rest))
        scale = dispersion * (self.power - 1.0) * np.exp((self.power - 1.0) * scores)
        shape = number * rest / (self.power - 1.0)
        return np.where(number > 0, random.gamma(np.where(number > 0, shape, 1.0), scale), 0.0)
