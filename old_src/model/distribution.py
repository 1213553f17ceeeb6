"""Predictive distributions of nodes, for every likelihood."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats
from sklearn.utils import check_random_state

from ebboost.data.parameters import check_number
from ebboost.data.types import Array

# Points of the integral of E|Y − Y'| of counts.
CRPS_POINTS = 200
# Least probability whose logarithm is taken.
TINY = 1e-300


class Shape(NamedTuple):
    """The distribution of standardised residuals: a Student t with two scales.

    Its scale is ``scale`` times ``skew`` above ``location``, and divided by ``skew`` below
    (Fernández and Steel, 1998). Numbers, or arrays with an entry for each node.
    """

    location: Array | float = 0.0
    scale: Array | float = 1.0
    skew: Array | float = 1.0
    df: Array | float = 1e6


class PredictiveDistribution(ABC):
    """The predictive distribution of each of n nodes; see ``model.predict_distribution()``.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = eb.EBBSRegressor(20, n_folds=3, random_state=0).fit(X, X[:, 0])
    >>> distribution = model.predict_distribution(X[:5])
    >>> distribution.quantile([0.05, 0.95]).shape
    (5, 2)
    """

    @property
    @abstractmethod
    def mean(self) -> Array:
        """Mean of each node."""

    @property
    @abstractmethod
    def variance(self) -> Array:
        """Variance of each node."""

    @abstractmethod
    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y ≤ y) of each node.

        Parameters
        ----------
        y : array-like of shape (n,)

        Returns
        -------
        ndarray of shape (n,)
        """

    @abstractmethod
    def survival(self, y: ArrayLike) -> Array:
        """Return P(Y ≥ y) of each node.

        Parameters
        ----------
        y : array-like of shape (n,)

        Returns
        -------
        ndarray of shape (n,)
        """

    @abstractmethod
    def _quantile(self, lower: Array, upper: Array) -> Array:
        """The quantile of each node at its level ``lower`` = 1 − ``upper``."""

    @abstractmethod
    def log_density(self, y: ArrayLike) -> Array:
        """Return the log of the density, of counts of the probability, at y.

        Parameters
        ----------
        y : array-like of shape (n,)

        Returns
        -------
        ndarray of shape (n,)
        """

    @abstractmethod
    def _sample(self, random: np.random.RandomState, size: tuple[int, int]) -> Array:
        """Draws, a row for each node."""

    @abstractmethod
    def subset(self, rows: Any) -> "PredictiveDistribution":
        """Return the distributions of some rows.

        Parameters
        ----------
        rows : slice, or ndarray of int or bool

        Returns
        -------
        PredictiveDistribution
        """

    def quantile(self, levels: ArrayLike) -> Array:
        """Return quantiles of each node.

        Parameters
        ----------
        levels : float or array-like of shape (k,)
            Between 0 and 1.

        Returns
        -------
        ndarray of shape (n,) or (n, k)
        """
        several = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        for level in several:
            check_number("levels", float(level), low=0.0, high=1.0, closed="neither")
        every = np.ones(self.mean.shape[0])
        columns = [self._quantile(level * every, (1.0 - level) * every) for level in several]
        return columns[0] if np.ndim(levels) == 0 else np.column_stack(columns)

    def quantile_of_score(self, score: ArrayLike) -> Array:
        """Return the quantile at the level Φ(score) of each node.

        Parameters
        ----------
        score : float or array-like of shape (n,)
            Quantiles of the standard normal distribution; may be infinite.

        Returns
        -------
        ndarray of shape (n,)
        """
        scores = np.broadcast_to(np.asarray(score, dtype=np.float64), self.mean.shape[:1])
        return self._quantile(special.ndtr(scores), special.ndtr(-scores))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Array:
        """Return random labels of each node, independent of those of the others.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int or RandomState, optional

        Returns
        -------
        ndarray of shape (n, n_samples)
        """
        check_number("n_samples", n_samples, integer=True, low=1)
        return self._sample(check_random_state(random_state), (self.mean.shape[0], n_samples))

    @abstractmethod
    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score of each label; less is better.

        E|Y − y| − E|Y − Y'|/2 in closed form, of counts and Tweedie amounts with an integral.

        Parameters
        ----------
        y : array-like of shape (n,)

        Returns
        -------
        ndarray of shape (n,)
        """


@dataclass(frozen=True)
class NumberDistribution(PredictiveDistribution):
    """Location, scale, and the shape of standardised residuals."""

    location: Array
    scale: Array
    shape: Shape

    @property
    def mean(self) -> Array:  # noqa: D102
        return self.location + self.scale * self._moments[0]

    @property
    def variance(self) -> Array:  # noqa: D102
        return self.scale**2 * self._moments[1]

    @property
    def _moments(self) -> tuple[Array | float, Array | float]:
        """Mean and variance of standardised residuals."""
        location, scale, skew, df = self.shape
        log_ratio = special.gammaln((df - 1.0) / 2.0) - special.gammaln(df / 2.0)
        first = np.sqrt(df / np.pi) * np.exp(log_ratio) * (skew - 1.0 / skew)
        second = df / (df - 2.0) * (skew**3 + skew**-3) / (skew + 1.0 / skew)
        return location + scale * first, scale**2 * (second - first**2)

    def _standardised(self, y: ArrayLike) -> Array:
        residual = (np.asarray(y, dtype=np.float64) - self.location) / self.scale
        return (residual - self.shape.location) / self.shape.scale

    def cdf(self, y: ArrayLike) -> Array:  # noqa: D102
        return _split_cdf(self._standardised(y), self.shape.skew, self.shape.df)

    def survival(self, y: ArrayLike) -> Array:  # noqa: D102
        return _split_cdf(-self._standardised(y), 1.0 / self.shape.skew, self.shape.df)

    def _quantile(self, lower: Array, upper: Array) -> Array:
        location, scale, skew, df = self.shape
        below = 1.0 / (1.0 + np.square(skew))
        # The quantile of scipy at the level 0 is +∞.
        left = np.abs(special.stdtrit(df, np.minimum(lower / (2.0 * below), 0.5))) / skew
        right = np.abs(special.stdtrit(df, np.minimum(upper / (2.0 * (1.0 - below)), 0.5))) * skew
        value = np.where(lower < below, -left, right)
        return self.location + self.scale * (location + scale * value)

    def log_density(self, y: ArrayLike) -> Array:  # noqa: D102
        return _split_log_density(self._standardised(y), self.shape) - np.log(self.scale)

    def crps(self, y: ArrayLike) -> Array:  # noqa: D102
        x = self._standardised(y)
        scale, skew = np.abs(self.scale * self.shape.scale), self.shape.skew
        distance = (self.mean - np.asarray(y, dtype=np.float64)) * np.where(x < 0.0, 1.0, -1.0)
        share = np.where(x < 0.0, 1.0 / (1.0 + np.square(skew)), 1.0 / (1.0 + skew**-2.0))
        unit = np.where(x < 0.0, 1.0 / skew, skew)
        beyond = 2.0 * share * unit * _excess_of_t(np.abs(x) / unit, self.shape.df)
        return distance + scale * (2.0 * beyond - _half_difference(skew, self.shape.df))

    def _sample(self, random: np.random.RandomState, size: tuple[int, int]) -> Array:
        location, scale, skew, df = (np.reshape(part, (-1, 1)) for part in self.shape)
        draws = np.abs(random.standard_t(df, size))
        above = random.random_sample(size) < skew**2 / (1.0 + skew**2)
        draws = np.where(above, skew * draws, -draws / skew)
        return self.location[:, None] + self.scale[:, None] * (location + scale * draws)

    def subset(self, rows: Any) -> "NumberDistribution":  # noqa: D102
        size = self.location.shape
        shape = Shape(*(np.broadcast_to(part, size)[rows] for part in self.shape))
        return NumberDistribution(self.location[rows], self.scale[rows], shape)


def _split_cdf(x: Array, skew: Array | float, df: Array | float) -> Array:
    below = 1.0 / (1.0 + np.square(skew))
    left = 2.0 * below * special.stdtr(df, skew * np.minimum(x, 0.0))
    right = 2.0 * (1.0 - below) * special.stdtr(df, -np.maximum(x, 0.0) / skew)
    return np.where(x < 0.0, left, 1.0 - right)


def _split_log_density(x: Array, shape: Shape) -> Array:
    """Log density of standardised residuals, less that of their scale."""
    _, scale, skew, df = shape
    scaled = np.where(x < 0.0, x * skew, x / skew)
    constant = special.gammaln((df + 1.0) / 2.0) - special.gammaln(df / 2.0)
    constant += np.log(2.0 / (skew + 1.0 / skew)) - 0.5 * np.log(df * np.pi) - np.log(scale)
    return constant - 0.5 * (df + 1.0) * np.log1p(scaled**2 / df)


def _excess_of_t(z: Array, df: Array | float) -> Array:
    """E max(T − z, 0) of a Student t."""
    log_density = _split_log_density(z, Shape(df=df))
    value: Array = np.exp(log_density) * (df + z**2) / (df - 1.0) - z * special.stdtr(df, -z)
    return value


def _half_difference(skew: Array | float, df: Array | float) -> Array:
    """E|Y − Y'|/2 of a Student t with two scales: of two values above, two below, one of each."""
    mean_size = 2.0 * _excess_of_t(np.zeros_like(np.asarray(df, dtype=np.float64)), df)
    log_ratio = special.betaln(0.5, df - 0.5) - 2.0 * special.betaln(0.5, df / 2.0)
    half = 2.0 * np.sqrt(df) / (df - 1.0) * np.exp(log_ratio)
    above = 1.0 / (1.0 + np.power(skew, -2.0))
    below = 1.0 - above
    same_side = (above**2 * skew + below**2 / skew) * (2.0 * half - mean_size)
    return np.asarray(same_side + above * below * (skew + 1.0 / skew) * mean_size)


@dataclass(frozen=True)
class ByMoments(PredictiveDistribution):
    """A family with a mean and a variance for each node."""

    means: Array
    variances: Array

    @property
    def mean(self) -> Array:  # noqa: D102
        return self.means

    @property
    def variance(self) -> Array:  # noqa: D102
        return self.variances

    def subset(self, rows: Any) -> Self:  # noqa: D102
        kind = type(self)
        rest = [value for name, value in vars(self).items() if name not in ("means", "variances")]
        return kind(self.means[rows], self.variances[rows], *rest)


class _OfScipy(ByMoments):
    """A family that scipy has."""

    @property
    @abstractmethod
    def _frozen(self) -> Any:
        """The distributions of scipy."""

    def cdf(self, y: ArrayLike) -> Array:
        return np.asarray(self._frozen.cdf(y))

    def _quantile(self, lower: Array, upper: Array) -> Array:
        quantile = np.where(lower < 0.5, self._frozen.ppf(lower), self._frozen.isf(upper))
        return np.maximum(quantile, 0.0)  # that of counts at the level 0 is −1

    def _sample(self, random: np.random.RandomState, size: tuple[int, int]) -> Array:
        return np.asarray(self._frozen.rvs(size[::-1], random_state=random), dtype=np.float64).T


class AmountDistribution(_OfScipy):
    """Gamma distributions."""

    @property
    def _frozen(self) -> Any:
        return stats.gamma(self.means**2 / self.variances, scale=self.variances / self.means)

    def survival(self, y: ArrayLike) -> Array:  # noqa: D102
        return np.asarray(self._frozen.sf(y))

    def log_density(self, y: ArrayLike) -> Array:  # noqa: D102
        return np.asarray(self._frozen.logpdf(y))

    def crps(self, y: ArrayLike) -> Array:  # noqa: D102
        y = np.asarray(y, dtype=np.float64)
        shape, scale = self.means**2 / self.variances, self.variances / self.means
        below = 2.0 * special.gammainc(shape, np.maximum(y, 0.0) / scale) - 1.0
        of_amounts = 2.0 * special.gammainc(shape + 1.0, np.maximum(y, 0.0) / scale) - 1.0
        return y * below - self.means * of_amounts - scale / special.beta(0.5, shape)


class CountDistribution(_OfScipy):
    """Negative binomial distributions; where the variance is the mean, nearly Poisson."""

    @property
    def _frozen(self) -> Any:
        size = self.means**2 / (self.variances - self.means)
        return stats.nbinom(size, size / (size + self.means))

    def survival(self, y: ArrayLike) -> Array:  # noqa: D102
        return np.asarray(self._frozen.sf(np.ceil(np.asarray(y, dtype=np.float64)) - 1.0))

    def log_density(self, y: ArrayLike) -> Array:  # noqa: D102
        return np.asarray(self._frozen.logpmf(y))

    def crps(self, y: ArrayLike) -> Array:
        """Return E|Y − y| − E|Y − Y'|/2 of each label; the second is an integral of |φ(t)|²."""
        y = np.asarray(y, dtype=np.float64)
        size = self.means**2 / (self.variances - self.means)
        chance = size / (size + self.means)
        of_events = stats.nbinom(size + 1.0, chance).cdf(y - 1.0)
        distance = y * (2.0 * self._frozen.cdf(y) - 1.0) - self.means * (2.0 * of_events - 1.0)
        # In s = tan(t/2): 1 − |φ(t)|² is 1 − (1 + c s²/(1 + s²))^−size.
        c = 4.0 * (1.0 - chance) / chance**2
        unit = 1.0 / np.sqrt(np.maximum(size * c, 1.0))
        points, weights = np.polynomial.legendre.leggauss(CRPS_POINTS)
        half = np.zeros_like(y)
        for point, weight in zip(0.5 * (points + 1.0), 0.5 * weights, strict=True):
            square = (unit * point / (1.0 - point)) ** 2
            less = -np.expm1(-size * np.log1p(c * square / (1.0 + square)))
            half += weight * less / (2.0 * np.pi * unit * point**2)
        return np.maximum(distance - half, 0.0)


@dataclass(frozen=True)
class ClassDistribution(PredictiveDistribution):
    """Probabilities of classes: the mean and the variance have a column for each class."""

    probabilities: Array
    classes: NDArray[Any]

    @property
    def mean(self) -> Array:  # noqa: D102
        return self.probabilities

    @property
    def variance(self) -> Array:  # noqa: D102
        return self.probabilities * (1.0 - self.probabilities)

    def cdf(self, y: ArrayLike) -> Array:  # noqa: D102
        raise ValueError("Classes have no order, and no cdf: use mean, their probabilities.")

    survival = cdf

    def _quantile(self, lower: Array, upper: Array) -> Array:
        raise ValueError("Classes have no quantiles: use predict(interval=0.9), sets of classes.")

    def _codes(self, y: ArrayLike) -> NDArray[np.int64]:
        values = np.asarray(y)
        known = np.isin(values, self.classes)
        if not known.all():
            unknown = values[~known][0]
            raise ValueError(f"y must be classes of the model, got {unknown!r}.")
        return np.searchsorted(self.classes, values).astype(np.int64)

    def log_density(self, y: ArrayLike) -> Array:
        """Return the log of the probability of each label."""
        chosen = self.probabilities[np.arange(len(self.probabilities)), self._codes(y)]
        return np.log(np.maximum(chosen, TINY))

    def crps(self, y: ArrayLike) -> Array:
        """Return the Brier score of each label, which is the CRPS of an indicator, over classes."""
        indicator = np.eye(self.classes.size)[self._codes(y)]
        return ((self.probabilities - indicator) ** 2).sum(axis=1)

    def _sample(self, random: np.random.RandomState, size: tuple[int, int]) -> Array:
        totals = np.cumsum(self.probabilities, axis=1)
        draws = random.random_sample(size)[:, :, None]
        codes = (draws > totals[:, None, :-1]).sum(axis=2)
        return np.asarray(self.classes)[codes]

    def subset(self, rows: Any) -> "ClassDistribution":  # noqa: D102
        return ClassDistribution(self.probabilities[rows], self.classes)
