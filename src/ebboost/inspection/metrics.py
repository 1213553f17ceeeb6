"""Measures of predictions, the same in the report, the plots and the command line."""

import numpy as np
from numpy.typing import NDArray

from ebboost.data.types import Array

TITLES = {
    "rmse": "RMSE",
    "mae": "mean |error|",
    "median": "median |error|",
    "r2": "R²",
    "deviance": "mean deviance",
    "d2": "D²",
    "accuracy": "accuracy",
    "log_loss": "log-loss",
    "brier": "Brier score",
    "roc_auc": "AUC",
    "average_precision": "average precision",
}


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
