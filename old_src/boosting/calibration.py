"""Calibration: temperature, exponent and damping of scores of classes, shift of logarithms."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from ebboost.boosting.losses import Loss
from ebboost.data.labels import Labels, one_hot
from ebboost.data.sharded import total_rows
from ebboost.data.types import Array

# Bounds of the temperature at scores of mean size. Below, scores that few labels support would be
# sharpened too much once more labels are known; beyond, scores have no relation to the labels.
TEMPERATURES = (0.7, 5.0)
# Bounds of the exponent, and standard deviation of its normal prior. Log-loss at test nodes without
# and with the exponent: prices of Lucas above the median .2871, .2864, its walls 1.0005, 1.0003
# (2 000 labels) and .9776, .9777 (15 000), County .3622, .3611, elect80 .3723, .3720, fifths of
# House .8787, .8779, Coauthor-CS .1607, .1573; with standard deviations of .25 to infinity within
# .0006 of these.
EXPONENTS = (-0.9, 1.0)
EXPONENT_DEVIATION = 0.5
# Bounds of the damping of three classes and more, and standard deviation of its normal prior, as of
# the exponent. Beyond 1 a class could fall behind one of lower probability. Log-loss at held-out
# labels that the calibration was not fitted to, without and with it, means of 3 to 6 draws of 1 500
# or 2 000 labels: walls of Lucas .9908, .9909 (by rules 1.0565, 1.0552; 15 000 labels .9923,
# .9909), fifths of House .8803, .8785, of elect80 1.1888, 1.1866, tenths of County 1.8592, 1.8550,
# Coauthor-CS .1722, .1673.
DAMPINGS = (-1.0, 1.0)
DAMPING_DEVIATION = 0.5
# Largest shift of scores with a logarithmic link.
MAX_SHIFT = 1.0


class Calibration(NamedTuple):
    """From scores to those whose link is predicted: u = s·(1 + r)^exponent/temperature + shift.

    r is the size of a node's log-odds, the root mean square of its scores less their mean. Of three
    classes and more, damping·softmax(u) is taken off u: the class chosen among many is one whose
    score errs upwards, and damping lowers its probability.
    """

    temperature: float = 1.0
    exponent: float = 0.0
    shift: float = 0.0
    damping: float = 0.0

    def apply(self, scores: Array) -> Array:
        """Return the calibrated scores."""
        factor: Array | float = 1.0 / self.temperature
        if self.exponent != 0.0:
            factor = (1.0 + score_size(scores)) ** self.exponent / self.temperature
        scores = scores * factor + self.shift
        if self.damping == 0.0:
            return scores
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores - self.damping * odds / odds.sum(axis=1, keepdims=True)


def score_size(scores: Array) -> Array:
    """Return r of :class:`Calibration`, of shape (m, 1)."""
    if scores.shape[1] == 1:
        return 0.5 * np.abs(scores)
    centered = scores - scores.mean(axis=1, keepdims=True)
    return np.sqrt((centered**2).mean(axis=1, keepdims=True))


#: Scores as they are.
IDENTITY = Calibration()


def fit_calibration(scores: Array, loss: Loss, labels: Labels) -> Calibration:
    """Return the calibration of least loss at labels that the scores were not trained on.

    Parameters
    ----------
    scores : ndarray of shape (m, c)
        Scores at the nodes of ``labels``.
    loss : Loss
    labels : Labels

    Returns
    -------
    Calibration
    """
    n_labels = total_rows(scores)
    precision = np.array([0.0, EXPONENT_DEVIATION**-2, DAMPING_DEVIATION**-2]) / n_labels
    mean_size = float(np.log1p(score_size(scores)).mean())

    def calibration(parameters: Array) -> Calibration:
        level, exponent, damping = parameters.tolist()
        return Calibration(float(np.exp(level + exponent * mean_size)), exponent, damping=damping)

    def mean_loss(parameters: Array) -> float:
        calibrated = calibration(parameters).apply(scores)
        mean = float(np.average(loss.value(calibrated, labels.target), weights=labels.weight))
        return mean + 0.5 * float((precision * parameters**2).sum())

    dampings = DAMPINGS if scores.shape[1] > 2 else (0.0, 0.0)
    bounds = [tuple(np.log(TEMPERATURES)), EXPONENTS, dampings]
    best = minimize(mean_loss, np.zeros(3), method="L-BFGS-B", bounds=bounds)
    return calibration(best.x) if best.fun < mean_loss(np.zeros(3)) else IDENTITY


def fit_shift(scores: Array, loss: Loss, labels: Labels) -> Calibration:
    """Return the shift of least loss at labels that the scores were not trained on.

    The mode of a field and a mean of scores are on the scale of logarithms: means of counts and
    amounts are larger than what their exponential is.

    Parameters
    ----------
    scores : ndarray of shape (m, 1)
        Scores at the nodes of ``labels``.
    loss : Loss
        With a logarithmic link.
    labels : Labels

    Returns
    -------
    Calibration
    """

    def mean_loss(shift: float) -> float:
        return float(np.average(loss.value(scores + shift, labels.target), weights=labels.weight))

    options = {"xatol": 1e-6}
    best = minimize_scalar(mean_loss, bounds=(-MAX_SHIFT, MAX_SHIFT), options=options)
    return Calibration(shift=float(best.x)) if best.fun < mean_loss(0.0) else IDENTITY


def expected_calibration_error(probabilities: Array, target: Array, n_bins: int = 15) -> float:
    """Return the mean gap between confidence and accuracy of the predicted class, over bins."""
    confidence = probabilities.max(axis=1)
    is_correct = probabilities.argmax(axis=1) == one_hot(target).argmax(axis=1)
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gaps = np.bincount(bins, weights=is_correct - confidence, minlength=n_bins)
    return float(np.abs(gaps).sum() / total_rows(confidence))
