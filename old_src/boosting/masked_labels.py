"""Equation (15) as published: some labels are shown each round, the others are predicted."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ebboost.boosting.iterate import Iterate
from ebboost.boosting.losses import Loss
from ebboost.boosting.objective import Objective
from ebboost.data.labels import Labels
from ebboost.data.parameters import check_number
from ebboost.data.types import Array
from ebboost.propagation import Propagation, PropagationOperator


@dataclass(eq=False, repr=False)
class MaskedLabels(BaseEstimator):
    """Error smoothing (15) as published: a random share of the labels is shown each round.

    Parameters
    ----------
    smooth_errors : bool, default=True
        Add the smoothed errors of the shown labels: (15).
    smooth_labels : bool, default=True
        Replace the scores of shown nodes by their labels, then smooth.
    share : float, default=0.5
        Share of the labels that is shown, between 0 and 1.
    from_zero : bool, default=False
        Start from 0 as published, so that the trees must fit the mean, rather than from the mean.

    Examples
    --------
    >>> import ebboost as eb
    >>> model = eb.EBBSRegressor(smoothing=eb.Laplacian(), labels=eb.MaskedLabels(share=0.3))
    """

    smooth_errors: bool = True
    smooth_labels: bool = True
    share: float = 0.5
    from_zero: bool = False


class MaskedObjective(Objective):
    """The loss of the labels hidden this round, predicted from scores and shown labels.

    It changes from round to round, so that no round descends by construction. As published there is
    no line search: the step is the gradient of Σ(y − f̃)², twice that of the losses here.
    """

    descent_tolerance = float("inf")
    operator: PropagationOperator
    state_names = (*Objective.state_names, "_is_shown")

    def __init__(
        self,
        operator: PropagationOperator,
        loss: Loss,
        labels: Labels,
        validation: Labels | None,
        penalty: float,
        masked: MaskedLabels,
        seed: int,
    ) -> None:
        check_number("MaskedLabels: share", masked.share, low=0.0, high=1.0, closed="neither")
        super().__init__(operator, loss, labels, validation, penalty)
        if masked.from_zero:
            self.init_score = np.zeros_like(self.init_score)
        self._masked = masked
        self._random = np.random.default_rng(seed)
        self._draw_mask()

    def _draw_mask(self) -> None:
        uniform = self._random.random(self.labels.nodes.size)
        self._is_shown = np.asarray(uniform, like=self.labels.weight) < self._masked.share

    def state(self) -> dict[str, Any]:
        """Return the mask and the state of the random generator."""
        return super().state() | {"random": self._random.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what :meth:`state` returned."""
        super().restore(state)
        self._random.bit_generator.state = state["random"]

    def propagate(self, tree: Array, point: Iterate | None = None) -> Array:
        """Return the tree: what is smoothed depends on the shown labels."""
        return tree

    def _predict(self, point: Iterate) -> Array:
        return self._predict_from(self.labels, point)

    def _predict_from(self, shown: Labels, point: Iterate) -> Array:
        return masked_prediction(self._masked, self.operator, point.scores, shown, self.init_score)

    def _value(self, point: Iterate) -> float:
        hidden = self.labels.subset(~self._is_shown)
        scores = self._predict_from(self.labels.subset(self._is_shown), point)[hidden.nodes]
        return self._total_loss(hidden, scores) / max(float(hidden.weight.sum()), 1e-300)

    def gradient(self, point: Iterate) -> Array:
        """Return the gradient of the loss of the labels that a new mask hides."""
        self._draw_mask()
        shown = self.labels.subset(self._is_shown)
        hidden = self.labels.subset(~self._is_shown)
        scores = self._predict_from(shown, point)[hidden.nodes]
        gradient = np.zeros_like(point.scores)
        loss_gradient = self.loss.gradient(scores, hidden.target)
        gradient[hidden.nodes] = hidden.weight[:, None] * loss_gradient
        if self._masked.smooth_labels:
            gradient = self.operator.adjoint(gradient)
            gradient[shown.nodes] = 0.0
        if self._masked.smooth_errors:
            smoothed = self.operator.adjoint(gradient)
            gradient = gradient.copy()
            gradient[shown.nodes] -= smoothed[shown.nodes]
        return gradient

    def curvature(self, point: Iterate) -> Array:
        """Return 1 for every node, as in (11)."""
        return self._constant(1.0)

    def newton_step(self, point: Iterate, tree: Array, smoothed_tree: Array) -> float:
        """Return two Newton steps: the published loss is not halved."""
        return 2.0 * self.score_unit


def masked_prediction(
    masked: MaskedLabels, operator: Propagation, scores: Array, shown: Labels, init_score: Array
) -> Array:
    """Return the published prediction: errors smoothed (15), labels inserted, smoothed again."""
    prediction = scores
    target = shown.target - init_score
    if masked.smooth_errors:
        errors = np.zeros_like(scores)
        errors[shown.nodes] = target - scores[shown.nodes]
        prediction = scores + operator.apply(errors)
    if masked.smooth_labels:
        prediction = prediction.copy()
        prediction[shown.nodes] = target
        prediction = operator.apply(prediction)
    return init_score + prediction
