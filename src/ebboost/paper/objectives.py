"""Objectives beyond the core's: a penalty on f, a P that is not linear, labels that are shown.

Each is J of :class:`ebboost.boosting.Objective` with some methods replaced; the loop is the core's.
"""

from dataclasses import replace
from typing import Any, cast

import numpy as np

from ebboost._common import Array
from ebboost.boosting import Direction, Objective, Point, checked_loss
from ebboost.data.labels import Labels
from ebboost.losses import Loss
from ebboost.paper.masked import MaskedLabels
from ebboost.paper.robust import Reweighted, RobustOperator


class PenalizedObjective(Objective):
    """J(f) + ½ε‖f‖², equation (34): strongly convex, so that Corollary 1 applies."""

    #: Whether a round is to lower the objective, which is the same in all rounds.
    is_fixed = True

    def __init__(self, *arguments: Any, penalty: float = 0.0, **options: Any) -> None:
        self.penalty = penalty
        super().__init__(*arguments, **options)

    def value(self, point: Point) -> float:
        """Return the mean loss over the labels, with the penalty divided likewise."""
        penalty = 0.5 * self.penalty * float((point.scores**2).sum())
        return super().value(point) + penalty / self.total_weight

    def gradient(self, point: Point) -> Array:
        """Return Pᵀ W ∂ℓ/∂η + εf on all rows."""
        return super().gradient(point) + self.penalty * point.scores

    def curvature(self, point: Point) -> Array:
        """Return the core's majorant of the Hessian, plus ε."""
        return super().curvature(point) + self.penalty

    def parabola(self, point: Point, direction: Direction) -> tuple[float, float, float]:
        """Return the slope and the curvature along a direction, without and with the field."""
        slope, bend, with_field = super().parabola(point, direction)
        own = self.penalty * float((direction.tree**2).sum())
        slope += self.penalty * float((point.scores * direction.tree).sum())
        return slope, bend + own, with_field + own


class RobustObjective(PenalizedObjective):
    """J with the P_w of :class:`Robust`, whose weights depend on f.

    In each round P is the linear P_w with the weights of that point, frozen. A step is taken with
    weights computed anew, and halved until J itself does not rise.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.robust = cast(RobustOperator, self.operator)
        self.is_quadratic = False

    def settle(self, point: Point) -> Point:
        """Take P_w at a point, and return the point with P_w f, and z near its mode."""
        frozen = self._frozen(point)
        self.operator = frozen
        self._row_sums = None
        if point.smoothed is not frozen.smoothed:  # between two points, by momentum
            point = replace(point, smoothed=frozen.smoothed, cache={})
        return super().settle(point)

    def move(self, point: Point, direction: Direction, step: float) -> Point:
        """Return the point after a step, smoothed with weights of its own."""
        moved = super().move(point, direction, step)
        return replace(moved, smoothed=self._frozen(moved).smoothed)

    def _frozen(self, point: Point) -> Reweighted:
        if "P_w" not in point.cache:
            point.cache["P_w"] = self.robust.linearize(point.scores)
        return point.cache["P_w"]


class MaskedObjective(Objective):
    """The loss of labels that are hidden this round, predicted from f and the labels shown.

    It changes from round to round, so that no round descends by construction. As published there is
    no line search: the step is along the gradient of Σ(y − f̃)², twice that of the losses here.
    """

    is_fixed = False

    def __init__(
        self,
        loss: Loss,
        labels: Labels,
        *arguments: Any,
        masked: MaskedLabels,
        seed: int,
        **options: Any,
    ) -> None:
        self.masked = masked
        self._random = np.random.default_rng(seed)
        self._draw(labels.size)
        super().__init__(loss, labels, *arguments, **options)
        if masked.from_zero:
            self.init_score = np.zeros_like(self.init_score)
            fixed = self.init_score if self.offset is None else self.offset
            self.fixed = np.broadcast_to(fixed, self.fixed.shape)

    def _draw(self, n_labels: int) -> None:
        self.is_shown = self._random.random(n_labels) < self.masked.share

    def predict(self, point: Point, rows: Any = slice(None)) -> Array:
        """Return the predictions of all or some rows, given all labels."""
        if "prediction" not in point.cache:
            point.cache["prediction"] = self._given(point, self.labels)
        return point.cache["prediction"][rows]

    def _given(self, point: Point, shown: Labels) -> Array:
        target = shown.target - self.fixed[shown.rows]
        return self.fixed + self.masked.smooth(self.operator, point.scores, shown.rows, target)

    def _hidden(self, point: Point) -> tuple[Labels, Array]:
        """The hidden labels and their predictions."""
        hidden = self.labels.subset(~self.is_shown)
        return hidden, self._given(point, self.labels.subset(self.is_shown))[hidden.rows]

    def value(self, point: Point) -> float:
        """Return the mean loss of the labels that are hidden this round."""
        hidden, scores = self._hidden(point)
        losses = hidden.weight * checked_loss(self.loss, "value", scores, hidden)
        return float(losses.sum()) / max(float(hidden.weight.sum()), 1e-300)

    def gradient(self, point: Point) -> Array:
        """Return the gradient of the loss of the labels that a new mask hides."""
        self._draw(self.labels.size)
        hidden, scores = self._hidden(point)
        shown = self.labels.rows[self.is_shown]
        gradient: Any = np.zeros_like(point.scores)
        slope = checked_loss(self.loss, "gradient", scores, hidden)
        gradient[hidden.rows] = hidden.weight[:, None] * slope
        if self.masked.smooth_labels:
            gradient = self.operator.adjoint(gradient)
            gradient[shown] = 0.0
        if self.masked.smooth_errors:
            smoothed = self.operator.adjoint(gradient)
            gradient = gradient.copy()
            gradient[shown] -= smoothed[shown]
        return gradient

    def curvature(self, point: Point) -> Array:
        """Return 1 for every row, as in (11)."""
        return np.ones((self.n_rows, 1))

    def direction(self, point: Point, tree: Array) -> Direction:
        """Return the tree: what is smoothed depends on the shown labels."""
        return Direction(tree, tree)

    def step(self, point: Point, direction: Direction) -> float:
        """Return two Newton steps: the published loss is not halved."""
        return 2.0 * self.score_unit

    def line_search(self, point: Point, direction: Direction, step: float) -> tuple[Point, float]:
        """Return the point after the step as it is."""
        return self.move(point, direction, step), step
