"""Equation (15) for classifiers: a latent field of Y − p, and the temperature of the scores."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ebboost.boosting.latent_field import FieldPosterior
from ebboost.boosting.losses import Loss
from ebboost.data.labels import Labels, one_hot

Array = NDArray[np.float64]
# Least probability of a corrected class before rows are rescaled to 1.
MIN_PROBABILITY = 1e-6
# By how much the log-loss must fall to prefer a later grid point: rounding.
MIN_GAIN = 1e-9
# Values of T, and of s: none of the field, all of it, and quarters between. A grid of 25 × 16
# values was no better on LUCAS in three classes.
TEMPERATURES = (0.7, 0.85, 1.0, 1.2, 1.5, 2.0)
STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class ProbabilityField:
    """A latent field in the space of probabilities, with a strength that keeps them calibrated.

    With p = g(u/T) the probabilities of the smoothed scores at temperature T, z = K W (Y − p) on
    the labelled nodes and p̂ ∝ max(p + s·z, ε). As the rows of Y − p add up to 0, so do those of z.
    Without node i's own label the correction is (z_i − w_i K_ii (Y − p)_i)/(1 − w_i K_ii), by the
    same rank-one update as for numbers.
    """

    #: T.
    temperature: float = 1.0
    #: s; 0 leaves the probabilities as they are.
    strength: float = 0.0

    @classmethod
    def from_validation(
        cls,
        scores: Array,
        loss: Loss,
        training: Labels,
        field: FieldPosterior | None,
        validation: Labels,
    ) -> "ProbabilityField":
        """Return temperature and strength of the least log-loss at the validation nodes."""
        best = np.inf
        result = cls()
        truth = validation.weight[:, None] * one_hot(validation.target)
        for temperature in TEMPERATURES:
            plain = loss.inverse_link(scores / temperature)
            mean = None
            if field is not None:
                mean = field.posterior_mean(one_hot(training.target) - plain[training.nodes])
            for strength in STRENGTHS if mean is not None else (0.0,):
                probabilities = plain if mean is None else _shift(plain, strength * mean)
                stated = np.maximum(probabilities[validation.nodes], 1e-12)
                log_loss = -float((truth * np.log(stated)).sum())
                if log_loss < best - MIN_GAIN:
                    best = log_loss
                    result = cls(temperature, strength)
        return result

    @classmethod
    def from_leave_one_out(
        cls, scores: Array, loss: Loss, training: Labels, field: FieldPosterior
    ) -> "ProbabilityField":
        """Return the strength of the least leave-one-out log-loss at the labelled nodes, T = 1."""
        plain = loss.inverse_link(scores)[training.nodes]
        truth = one_hot(training.target)
        mean = (truth - plain) - field.leave_one_out(truth - plain)
        weighted = training.weight[:, None] * truth
        losses = [
            -float((weighted * np.log(_shift(plain, strength * mean))).sum())
            for strength in STRENGTHS
        ]
        return cls(strength=STRENGTHS[int(np.argmin(losses))])

    def residuals(self, scores: Array, loss: Loss, target: Array) -> Array:
        """Return Y − p at labelled nodes with these scores."""
        return one_hot(target) - loss.inverse_link(scores / self.temperature)

    def probabilities(self, scores: Array, loss: Loss, field_mean: Array | None) -> Array:
        """Return the probabilities of nodes with these scores and this mean of the field."""
        plain = loss.inverse_link(scores / self.temperature)
        if field_mean is None or self.strength == 0.0:
            return plain
        return _shift(plain, self.strength * field_mean)


def expected_calibration_error(probabilities: Array, target: Array, n_bins: int = 15) -> float:
    """Return the mean gap between confidence and accuracy of the predicted class, over bins."""
    confidence = probabilities.max(axis=1)
    is_correct = probabilities.argmax(axis=1) == one_hot(target).argmax(axis=1)
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gaps = np.bincount(bins, weights=is_correct - confidence, minlength=n_bins)
    return float(np.abs(gaps).sum() / confidence.size)


def _shift(probabilities: Array, shift: Array) -> Array:
    shifted = np.maximum(probabilities + shift, MIN_PROBABILITY)
    rows: Array = shifted / shifted.sum(axis=1, keepdims=True)
    return rows
