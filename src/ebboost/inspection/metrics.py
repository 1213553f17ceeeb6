"""Measures of predictions, the same in the report, the plots and the command line."""

import numpy as np
from numpy.typing import NDArray

from ebboost.data.types import Array


def rmse(residuals: Array) -> float:
    """Root of the mean squared residual."""
    return float(np.sqrt((residuals**2).mean()))


def mae(residuals: Array) -> float:
    """Mean absolute residual."""
    return float(np.abs(residuals).mean())


def median_absolute_error(residuals: Array) -> float:
    """Median absolute residual."""
    return float(np.median(np.abs(residuals)))


def r2(truth: Array, prediction: Array) -> float:
    """Share of the variance that is explained; NaN where all labels are equal."""
    variance = float(truth.var())
    return 1.0 - float(((truth - prediction) ** 2).mean()) / variance if variance > 0 else np.nan


def accuracy(truth: NDArray[np.generic], prediction: NDArray[np.generic]) -> float:
    """Share of labels that equal their prediction."""
    return float((truth == prediction).mean())


def log_loss(truth: NDArray[np.integer], probabilities: Array) -> float:
    """Mean negative logarithm of the probability of the true class, by its position."""
    true_class = probabilities[np.arange(truth.size), truth]
    return float(-np.log(np.maximum(true_class, 1e-12)).mean())
