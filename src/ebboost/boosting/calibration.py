"""Calibration of probabilities: the temperature of the scores, and the expected error."""

import numpy as np
from scipy.optimize import minimize_scalar

from ebboost.boosting.losses import Loss
from ebboost.data.labels import Labels, one_hot
from ebboost.data.sharded import total_rows
from ebboost.data.types import Array

# Bounds of the temperature. Below, scores that few labels support would be sharpened too much once
# more labels are known; beyond, scores have no relation to the labels.
TEMPERATURES = (0.7, 5.0)


def best_temperature(scores: Array, loss: Loss, labels: Labels) -> float:
    """Return the T of least loss of scores/T at labels that they were not trained on.

    Parameters
    ----------
    scores : ndarray of shape (m, c)
        Scores at the nodes of ``labels``.
    loss : Loss
    labels : Labels

    Returns
    -------
    float
    """

    def mean_loss(log_temperature: float) -> float:
        values = loss.value(scores / np.exp(log_temperature), labels.target)
        return float(np.average(values, weights=labels.weight))

    best = minimize_scalar(mean_loss, bounds=np.log(TEMPERATURES), method="bounded")
    return float(np.exp(best.x)) if best.fun < mean_loss(0.0) else 1.0


def expected_calibration_error(probabilities: Array, target: Array, n_bins: int = 15) -> float:
    """Return the mean gap between confidence and accuracy of the predicted class, over bins."""
    confidence = probabilities.max(axis=1)
    is_correct = probabilities.argmax(axis=1) == one_hot(target).argmax(axis=1)
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gaps = np.bincount(bins, weights=is_correct - confidence, minlength=n_bins)
    return float(np.abs(gaps).sum() / total_rows(confidence))
