"""Labels for a classifier: the field in the space of probabilities, and how well those are calibrated."""

import numpy as np
from numpy.typing import NDArray

from ebboost.boosting.latent_field import FieldPosterior
from ebboost.boosting.losses import Loss
from ebboost.data.labels import Labels, one_hot

Array = NDArray[np.float64]


class ProbabilityField:
    """Labels for a classifier: the field of Y − p in the space of probabilities, shrunk so that they stay calibrated.

    With p = g(u/T) the probabilities of the smoothed scores at temperature T, z = K W (Y − p) on the labelled nodes and
    p̂ ∝ max(p + s·z, ε). As the rows of Y − p add up to 0, so do those of z. Without node i's own label the correction is
    (z_i − w_i K_ii (Y − p)_i)/(1 − w_i K_ii), by the same rank-one update as for numbers. T and s come from the
    validation nodes or, where there are none, s from the labelled nodes, each without its own label; s = 0 is among the
    choices.
    """

    temperatures = (0.7, 0.85, 1.0, 1.2, 1.5, 2.0)
    strengths = (0.0, 0.25, 0.5, 0.75, 1.0)

    def __init__(self, temperature: float = 1.0, strength: float = 0.0) -> None:
        self.temperature, self.strength = temperature, strength

    def choose(
        self,
        scores: Array,
        loss: Loss,
        training: Labels,
        field: FieldPosterior | None,
        held: Labels,
    ) -> None:
        """Pick temperature and strength by the log-loss of the validation nodes."""
        best = np.inf
        truth = held.weight[:, None] * one_hot(held.target)
        for temperature in self.temperatures:
            plain = loss.inverse_link(scores / temperature)
            spread = (
                None
                if field is None
                else field.posterior_mean(one_hot(training.target) - plain[training.nodes])
            )
            for strength in self.strengths if spread is not None else (0.0,):
                moved = plain if spread is None else _shifted(plain, strength * spread)
                value = -float((truth * np.log(np.maximum(moved[held.nodes], 1e-12))).sum())
                if value < best - 1e-9:
                    best, self.temperature, self.strength = value, temperature, strength

    def choose_left_out(
        self, scores: Array, loss: Loss, training: Labels, field: FieldPosterior
    ) -> None:
        """Pick the strength by the log-loss of the labelled nodes, each without its own label."""
        plain = loss.inverse_link(scores / self.temperature)[training.nodes]
        truth = one_hot(training.target)
        shift = (truth - plain) - field.leave_one_out(truth - plain)
        losses = []
        for strength in self.strengths:
            moved = _shifted(plain, strength * shift)
            losses.append(-float((training.weight[:, None] * truth * np.log(moved)).sum()))
        self.strength = self.strengths[int(np.argmin(losses))]

    def probabilities(
        self, scores: Array, loss: Loss, known: Labels | None, field: FieldPosterior | None
    ) -> Array:
        """Return the corrected probabilities of every node."""
        if field is None or known is None or self.strength == 0.0:
            return loss.inverse_link(scores / self.temperature)
        return self.corrected(
            scores, loss, field.posterior_mean(self.errors(scores[known.nodes], loss, known.target))
        )

    def errors(self, scores: Array, loss: Loss, target: Array) -> Array:
        """Return Y − p at labelled nodes with these scores."""
        return one_hot(target) - loss.inverse_link(scores / self.temperature)

    def corrected(self, scores: Array, loss: Loss, spread: Array) -> Array:
        """Return the probabilities of nodes with these scores, their share of the field of errors added."""
        return _shifted(loss.inverse_link(scores / self.temperature), self.strength * spread)


def expected_calibration_error(probabilities: Array, target: Array, n_bins: int = 15) -> float:
    """Return the mean gap between the stated probability of the predicted class and how often it is right."""
    stated, right = (
        probabilities.max(axis=1),
        probabilities.argmax(axis=1) == one_hot(target).argmax(axis=1),
    )
    bins = np.minimum((stated * n_bins).astype(int), n_bins - 1)
    gaps = np.bincount(bins, weights=right - stated, minlength=n_bins)
    return float(np.abs(gaps).sum() / stated.size)


def _shifted(probabilities: Array, by: Array) -> Array:
    moved = np.maximum(probabilities + by, 1e-6)
    shifted: Array = moved / moved.sum(axis=1, keepdims=True)
    return shifted
