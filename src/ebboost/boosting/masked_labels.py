"""The published use of labels: show a random share of them each round and predict the others, by (15)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ebboost.boosting.iterate import Iterate
from ebboost.boosting.losses import Loss
from ebboost.boosting.objective import Objective
from ebboost.data.labels import Labels
from ebboost.propagation import Propagation, PropagationOperator

Array = NDArray[np.float64]


class MaskedLabels(BaseEstimator):
    """Known labels as in the published recipe: a random share of them is shown each round, the others are predicted.

    Parameters
    ----------
    smooth_errors : bool, default=True
        (15): add the smoothed errors of the labels shown.
    smooth_labels : bool, default=True
        Put the labels shown in the place of their scores, then smooth.
    share : float, default=0.5
        Share of the labels shown.
    from_zero : bool, default=False
        Start from 0 as published, and let the trees find the mean, rather than from the mean itself.
    """

    def __init__(
        self,
        smooth_errors: bool = True,
        smooth_labels: bool = True,
        share: float = 0.5,
        from_zero: bool = False,
    ) -> None:
        self.smooth_errors = smooth_errors
        self.smooth_labels = smooth_labels
        self.share = share
        self.from_zero = from_zero


class MaskedObjective(Objective):
    """The published objective: each round shows a random share of the labels and predicts the others.

    It changes from round to round, so nothing here descends by construction. As published there is no line search:
    the step is the plain gradient of Σ(y − f̃)², twice that of the losses here.
    """

    slack = float("inf")
    smoother: PropagationOperator

    def __init__(
        self,
        smoother: PropagationOperator,
        loss: Loss,
        labels: Labels,
        validation: Labels | None,
        penalty: float,
        masked: MaskedLabels,
        seed: int,
    ) -> None:
        super().__init__(smoother, loss, labels, validation, penalty)
        if masked.from_zero:
            self.base = np.zeros_like(self.base)
        self._masked = masked
        self._random = np.random.default_rng(seed)
        self._draw()

    def _draw(self) -> None:
        drawn = self._random.random(self.labels.nodes.size)
        self._shown = np.asarray(drawn, like=self.labels.weight) < self._masked.share

    def state(self) -> dict[str, Any]:
        """Return which labels are shown, and where chance stands."""
        return super().state() | {"shown": self._shown, "random": self._random.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        super().restore(state)
        self._shown, self._random.bit_generator.state = state["shown"], state["random"]

    def propagate(self, tree: Array, point: Iterate | None = None) -> Array:
        """Return the tree: what is smoothed depends on the labels shown."""
        return tree

    def _predict(self, point: Iterate) -> Array:
        return masked_prediction(self._masked, self.smoother, point.scores, self.labels, self.base)

    def _value(self, point: Iterate) -> float:
        shown, hidden = self.labels.subset(self._shown), self.labels.subset(~self._shown)
        predicted = masked_prediction(self._masked, self.smoother, point.scores, shown, self.base)[
            hidden.nodes
        ]
        return self._loss_at(hidden, predicted) / max(float(hidden.weight.sum()), 1e-300)

    def gradient(self, point: Iterate) -> Array:
        """Return the gradient of the hidden labels' loss through both smoothings, for a fresh draw."""
        self._draw()
        shown, hidden = self.labels.subset(self._shown), self.labels.subset(~self._shown)
        predicted = masked_prediction(self._masked, self.smoother, point.scores, shown, self.base)[
            hidden.nodes
        ]
        gradient = np.zeros_like(point.scores)
        gradient[hidden.nodes] = hidden.weight[:, None] * self.loss.gradient(
            predicted, hidden.target
        )
        if self._masked.smooth_labels:
            gradient = self.smoother.adjoint(gradient)
            gradient[shown.nodes] = 0.0
        if self._masked.smooth_errors:
            back = self.smoother.adjoint(gradient)
            gradient = gradient.copy()
            gradient[shown.nodes] -= back[shown.nodes]
        return gradient

    def curvature(self, point: Iterate) -> Array:
        """Return 1 for every node: (11) to the letter."""
        return self._filled(1.0)

    def newton_step(self, point: Iterate, tree: Array, smoothed_tree: Array) -> float:
        """Return 2: the gradient of a square, unhalved."""
        return 2.0


def masked_prediction(
    masked: MaskedLabels, smoother: Propagation, scores: Array, shown: Labels, base: Array
) -> Array:
    """Return the published prediction from the labels shown: errors smoothed (15), labels put in place, smoothed."""
    corrected, target = scores, shown.target - base
    if masked.smooth_errors:
        errors = np.zeros_like(scores)
        errors[shown.nodes] = target - scores[shown.nodes]
        corrected = scores + smoother.apply(errors)
    if masked.smooth_labels:
        corrected = corrected.copy()
        corrected[shown.nodes] = target
        corrected = smoother.apply(corrected)
    return base + corrected
