"""Outliers among residuals: a skewed t distribution and, where that is likelier, contamination."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, gammaln

from ebboost.boosting.losses.base import Array
from ebboost.data.sharded import of_all_rows

# Median absolute deviation to standard deviation, for normal errors.
MAD_TO_STD = 1.4826
# Residuals that the mixture is fitted to at most, and fewest.
MAX_RESIDUALS = 5_000
MIN_RESIDUALS = 50
# Outliers are at least so many robust standard deviations from the median, and their density falls
# as one over the distance: any unit of outliers is as likely as another.
OUTLIER_FROM = 2.0
# Twice the log likelihood that a share of outliers must gain: 1 % of samples without any do.
# Clean out-of-fold residuals of County, elect80, House and Lucas gain 0, with 5 % outliers in the
# labels 20 to 35, 44, 125 and 163, where shares of 4 to 7 % are estimated.
MIN_GAIN = 6.0
# Least weight of a label.
MIN_WEIGHT = 0.01
# Location, logarithms of scales to the right and left and of degrees of freedom less 1, log-odds of
# an outlier: where their search starts.
START = (0.0, -0.3, -0.3, 2.0, -3.5)
LIMIT = 12.0


class Mixture(NamedTuple):
    """A t distribution with two scales, and outliers, of standardised residuals."""

    location: float
    right: float
    left: float
    df: float
    outlier_share: float
    largest: float

    def log_density(self, residuals: Array) -> Array:
        """Return the log density of residuals that are no outliers."""
        distance = residuals - self.location
        squares = (distance / np.where(distance > 0.0, self.right, self.left)) ** 2
        tail = 0.5 * (self.df + 1.0)
        constant = gammaln(tail) - gammaln(0.5 * self.df) - 0.5 * np.log(self.df * np.pi)
        constant += np.log(2.0 / (self.right + self.left))
        return constant - tail * np.log1p(squares / self.df)

    def log_terms(self, residuals: Array) -> tuple[Array, Array]:
        """Return the logarithms of the densities of both parts, times their shares."""
        size = np.abs(residuals)
        share = self.outlier_share
        width = 2.0 * np.log(self.largest / OUTLIER_FROM)
        density = share / (width * np.maximum(size, OUTLIER_FROM))
        outliers = np.where(size >= OUTLIER_FROM, density, 0.0)
        clean = np.log1p(-share) + self.log_density(residuals)
        return clean, np.log(np.maximum(outliers, 1e-300))


def clean_probabilities(residuals: Array) -> Array:
    """Return the probability that each residual is no outlier, at least .01.

    ``residuals``, of shape (m, c), are of models that were not trained on these labels; the least
    of c probabilities counts. All are 1 unless a share of outliers beside a skewed t distribution
    makes the residuals clearly likelier.
    """
    of_all = of_all_rows(residuals)
    center = float(np.median(of_all))
    scale = robust_scale(of_all)
    sample = ((of_all - center) / scale).ravel()
    mixture = fit_mixture(sample)
    if mixture is None:
        return np.ones_like(residuals[:, 0])
    clean, outlier = mixture.log_terms((np.asarray(residuals) - center) / scale)
    return np.asarray(np.maximum(expit(clean - outlier), MIN_WEIGHT).min(axis=1), like=residuals)


def fit_mixture(residuals: Array) -> Mixture | None:
    """Return the mixture of greatest likelihood, or None where no outliers are likelier."""
    if residuals.size < MIN_RESIDUALS:
        return None
    largest = max(float(np.abs(residuals).max()), 2.0 * OUTLIER_FROM)
    if residuals.size > MAX_RESIDUALS:
        random = np.random.default_rng(0)
        residuals = random.choice(residuals, MAX_RESIDUALS, replace=False)

    def mixture(parameters: Array) -> Mixture:
        location, right, left, df, odds = np.clip(parameters, -LIMIT, LIMIT).tolist()
        scales = (float(np.exp(right)), float(np.exp(left)))
        return Mixture(location, *scales, 1.0 + float(np.exp(df)), float(expit(odds)), largest)

    def minus_log_likelihood(parameters: Array) -> float:
        return -float(np.logaddexp(*mixture(parameters).log_terms(residuals)).mean())

    def without_outliers(parameters: Array) -> float:
        return -float(mixture(np.append(parameters, 0.0)).log_density(residuals).mean())

    options = {"xatol": 1e-3, "fatol": 1e-7, "maxiter": 2000}
    how = {"method": "Nelder-Mead", "options": options}
    best = minimize(minus_log_likelihood, np.array(START), **how)
    alone = minimize(without_outliers, best.x[:-1], **how)
    gain = 2.0 * residuals.size * (alone.fun - best.fun)
    return mixture(best.x) if gain > MIN_GAIN else None


def robust_scale(values: Array) -> float:
    """Return the robust standard deviation, or the plain one if half the values are equal."""
    values = of_all_rows(values)
    scale = MAD_TO_STD * float(np.median(np.abs(values - np.median(values))))
    return scale or float(np.std(values)) or 1.0
