"""Equation (15) for classifiers: a latent field of Y − p, and the temperature of the scores."""

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


class ProbabilityField:
    """A latent field in the space of probabilities, with a strength that keeps them calibrated.

    With p = g(u/T) the probabilities of the smoothed scores at temperature T, z = K W (Y − p) on
    the labelled nodes and p̂ ∝ max(p + s·z, ε). As the rows of Y − p add up to 0, so do those of z.
    Without node i's own label the correction is (z_i − w_i K_ii (Y − p)_i)/(1 − w_i K_ii), by the
    same rank-one update as for numbers. T and s minimise the log-loss of the validation nodes;
    without any, T is 1 and s minimises the log-loss of the labelled nodes, each without its own
    label.

    Parameters
    ----------
    temperature : float, default=1.0
        T.
    strength : float, default=0.0
        s; 0 leaves the probabilities as they are.
    """

    #: Values of T, and of s: none of the field, all of it, and quarters between. A grid of 25 × 16
    #: values was no better on LUCAS in three classes.
    temperatures = (0.7, 0.85, 1.0, 1.2, 1.5, 2.0)
    strengths = (0.0, 0.25, 0.5, 0.75, 1.0)

    def __init__(self, temperature: float = 1.0, strength: float = 0.0) -> None:
        self.temperature = temperature
        self.strength = strength

    def choose(
        self,
        scores: Array,
        loss: Loss,
        training: Labels,
        field: FieldPosterior | None,
        validation: Labels,
    ) -> None:
        """Set temperature and strength by the log-loss of the validation nodes."""
        best = np.inf
        truth = validation.weight[:, None] * one_hot(validation.target)
        for temperature in self.temperatures:
            plain = loss.inverse_link(scores / temperature)
            shift = None
            if field is not None:
                shift = field.posterior_mean(one_hot(training.target) - plain[training.nodes])
            for strength in self.strengths if shift is not None else (0.0,):
                probabilities = plain if shift is None else _shift(plain, strength * shift)
                stated = np.maximum(probabilities[validation.nodes], 1e-12)
                log_loss = -float((truth * np.log(stated)).sum())
                if log_loss < best - MIN_GAIN:
                    best = log_loss
                    self.temperature = temperature
                    self.strength = strength

    def choose_left_out(
        self, scores: Array, loss: Loss, training: Labels, field: FieldPosterior
    ) -> None:
        """Set the strength by the log-loss of the labelled nodes, each without its own label."""
        plain = loss.inverse_link(scores / self.temperature)[training.nodes]
        truth = one_hot(training.target)
        shift = (truth - plain) - field.leave_one_out(truth - plain)
        weighted = training.weight[:, None] * truth
        losses = [
            -float((weighted * np.log(_shift(plain, strength * shift))).sum())
            for strength in self.strengths
        ]
        self.strength = self.strengths[int(np.argmin(losses))]

    def probabilities(
        self, scores: Array, loss: Loss, known: Labels | None, field: FieldPosterior | None
    ) -> Array:
        """Return the corrected probabilities of every node."""
        if field is None or known is None or self.strength == 0.0:
            return loss.inverse_link(scores / self.temperature)
        errors = self.errors(scores[known.nodes], loss, known.target)
        return self.corrected(scores, loss, field.posterior_mean(errors))

    def errors(self, scores: Array, loss: Loss, target: Array) -> Array:
        """Return Y − p at labelled nodes with these scores."""
        return one_hot(target) - loss.inverse_link(scores / self.temperature)

    def corrected(self, scores: Array, loss: Loss, field_mean: Array) -> Array:
        """Return the probabilities of nodes with these scores and this mean of the field."""
        return _shift(loss.inverse_link(scores / self.temperature), self.strength * field_mean)


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
