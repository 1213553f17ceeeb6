"""Algorithm 1: propagate, pull the gradient back to every row, grow a tree on it, step along it.

Scores are η = fixed + P f + S z: the base scores f are grown by trees, P propagates them (equation
6), z is the latent field of the labels. The objective is equation (7) with the field minimised out,
J(f) = min_z Σ w ℓ(η) + ½ zᵀQz; its gradient (8) on all rows is Pᵀ W ∂ℓ/∂η at the minimising z, so
that a label never explains itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ebboost._common import Array
from ebboost.arrays import there
from ebboost.callbacks import Callback, RoundInfo
from ebboost.data.labels import Labels
from ebboost.field import FieldEnergy, Posterior, at
from ebboost.learners.base import Grower
from ebboost.linalg import Solver
from ebboost.losses import Loss
from ebboost.smoothing import Operator
from ebboost.sums import mean, total

# Accuracy of the response of z to a tree where systems are solved by iteration: what it misses is
# corrected by later Newton steps of z, once ∂E/∂z exceeds a share of ∂ℓ/∂η.
RESPONSE_TOLERANCE = 1e-3
MIN_CORRECTION = 0.03
# Rounds at which the systems of a loss whose curvature changes are factorised anew.
FACTORISE_AT = (16, 64, 256, 1024)
# Share by which a step may raise the loss and still count as descent: rounding.
TOLERANCE = 1e-10
# A randomised learner may recover from a round without descent; training stops after this many.
STALLED_ROUNDS = 10
MAX_HALVINGS = 30


class NonFiniteError(ValueError):
    """A loss or score that is not finite; the message names the row, the loop adds the round."""


@dataclass(frozen=True, eq=False)
class Point:
    """The model after some rounds: f and P f on the rows, z and Qz on the nodes, tree weights."""

    scores: Array
    smoothed: Array
    z: Array | None = None
    prior_z: Array | None = None
    weights: tuple[float, ...] = ()
    cache: dict[str, Any] = field(default_factory=dict, repr=False)  # quantities at this point


@dataclass(frozen=True, eq=False)
class Direction:
    """A tree h on the rows, P h, the response of z to it, and Q times that."""

    tree: Array
    smoothed: Array
    response: Array | None = None
    prior_response: Array | None = None


class Objective:
    """J as a function of f, with derivatives on every row.

    Parameters
    ----------
    loss : Loss
    labels : Labels
        Trained on.
    operator : Operator
        P, on the rows.
    n_rows : int
    validation : Labels, optional
    posterior : Posterior, optional
        The field of these labels.
    node_of_row : ndarray of int, optional
        S, with a posterior.
    offset : ndarray of shape (n_rows, 1), optional
    start_mode : ndarray, optional
        z before the first tree, of another objective with the same field, labels and loss.
    """

    response_tolerance = RESPONSE_TOLERANCE

    def __init__(
        self,
        loss: Loss,
        labels: Labels,
        operator: Operator,
        n_rows: int,
        *,
        validation: Labels | None = None,
        posterior: Posterior | None = None,
        node_of_row: Array | None = None,
        offset: Array | None = None,
        start_mode: Array | None = None,
    ) -> None:
        self.loss = loss
        relative = labels.relative()
        self.labels = there(relative)
        self.total_weight = float(total(relative.weight))
        self.operator = there(operator)
        self.n_rows = n_rows
        self.validation = there(validation)
        self.posterior = there(posterior)
        self.node_of_row = there(node_of_row)
        self.offset = there(offset)
        self.n_outputs = labels.target.shape[1]
        self.is_quadratic = loss.constant_curvature
        own_offset = None if offset is None else offset[labels.rows]
        self.init_score = loss.initial(labels.target, relative.weight, own_offset)
        #: What no tree moves: the initial score, plus the offset.
        self.fixed = there(
            np.broadcast_to(
                self.init_score if offset is None else self.init_score + offset,
                (n_rows, self.n_outputs),
            )
        )
        self._solver: Solver | None = None
        self._n_rounds = 0
        if self.posterior is not None:
            self._energy = FieldEnergy(self.posterior, loss, self.labels)
            if start_mode is None:
                start_mode = self._energy.mode(self.fixed[self.labels.rows], RESPONSE_TOLERANCE)
            self.start_mode = start_mode
        self._row_sums: Any = None
        self._constant: dict[str, Array] = {}  # curvatures, of losses where they are
        start = self.start()
        # Trees are fitted to gradients and curvatures in the unit of a typical label, so that their
        # regularisation means the same for labels in cents and in dollars, and for P and 2P; and to
        # scores in the unit of the labels' spread: libraries do not split where the gain is below a
        # constant of theirs, and round to single precision.
        self.unit = operator.norm_bound**2 or 1.0
        self.score_unit = 1.0
        if loss.curvature_has_units:
            self.unit *= mean(self.at_labels("curvature", start)) or 1.0
            if not loss.log_link:
                with np.errstate(all="ignore"):
                    spread = loss.label_scale(labels.target, labels.weight, own_offset)
                spread /= operator.norm_bound or 1.0
                self.score_unit = spread if 0.0 < spread < math.inf else 1.0

    def start(self) -> Point:
        """Return f = 0, with z at its mode."""
        zero = there(np.zeros((self.n_rows, self.n_outputs)))
        if self.posterior is None:
            return Point(zero, zero)
        return Point(zero, zero, self.start_mode, self.posterior.prior.matrix @ self.start_mode)

    def predict(self, point: Point, rows: Any = slice(None)) -> Array:
        """Return the scores of all or some rows."""
        scores = self.fixed[rows] + point.smoothed[rows]
        if point.z is None:
            return scores
        return scores + at(point.z, rows if self.node_of_row is None else self.node_of_row[rows])

    def at_labels(self, name: str, point: Point) -> Array:
        """Return the "value", "gradient" or "curvature" of w ℓ at the labels, or the "scores"."""
        if "scores" not in point.cache:
            point.cache["scores"] = self.predict(point, self.labels.rows)
        is_constant = name == "curvature" and self.loss.constant_curvature
        cache = self._constant if is_constant else point.cache
        if name not in cache:
            own = checked_loss(self.loss, name, point.cache["scores"], self.labels)
            weight = self.labels.weight
            cache[name] = (weight if own.ndim == 1 else weight[:, None]) * own
        return cache[name]

    def value(self, point: Point) -> float:
        """Return the mean loss over the labels, with the energy of the field."""
        result = float(total(self.at_labels("value", point)))
        if point.z is not None and point.prior_z is not None:
            result += 0.5 * float(total(point.z * point.prior_z))
        return result / self.total_weight

    def validation_value(self, point: Point) -> float:
        """Return the mean loss of the validation labels."""
        assert self.validation is not None
        scores = self.predict(point, self.validation.rows)
        return self.validation.mean(checked_loss(self.loss, "value", scores, self.validation))

    def settle(self, point: Point) -> Point:
        """Return the point with z moved by a Newton step where ∂E/∂z is no longer small."""
        if self.posterior is None or point.z is None or point.prior_z is None:
            return point
        gradient = self.at_labels("gradient", point)
        on_nodes = self.posterior.sums(gradient)
        excess = float(total((point.prior_z + on_nodes) ** 2))
        if excess <= MIN_CORRECTION**2 * float(total(on_nodes**2)):
            return point
        propagated = self.at_labels("scores", point) - at(point.z, self.posterior.nodes)
        true_prior = self.posterior.prior.matrix @ point.z
        z, prior_z = self._energy.newton(propagated, point.z, true_prior, self._near(point))
        return Point(point.scores, point.smoothed, z, prior_z, point.weights)

    def _near(self, point: Point) -> Solver | None:
        """A solver with a factor near the systems of this round."""
        assert self.posterior is not None
        if self.loss.constant_curvature:
            return None
        if self._solver is None or self._n_rounds in FACTORISE_AT:
            curvature = self.at_labels("curvature", point).mean(axis=1, keepdims=True)
            self._solver = self.posterior.solver(curvature)
        return self._solver

    def gradient(self, point: Point) -> Array:
        """Return Pᵀ W ∂ℓ/∂η on all rows."""
        on_rows = np.zeros_like(point.scores)
        on_rows[self.labels.rows] = self.at_labels("gradient", point)
        return self.operator.adjoint(on_rows)

    def curvature(self, point: Point) -> Array:
        """Return d, of shape (n, 1) or (n, c), such that diag(d) majorises the Hessian by f.

        For P without negative entries PᵀHP ≼ diag(PᵀHP·1), and any M that bounds |P| may stand in
        for P. Where labels are few this is far less than the constant ‖P‖² h_max, which is used
        otherwise. With P = I the fit is plain boosting
        on the labelled rows: a row out of reach of every label has no influence on a tree.
        """
        own = self.at_labels("curvature", point)
        bound = self.operator.magnitude
        if bound is None:
            largest = self.operator.norm_bound**2 * float(own.max())
            return np.full_like(own, largest, shape=(self.n_rows, 1))
        if self._row_sums is None:
            ones = np.ones_like(own, shape=(self.n_rows, 1))
            self._row_sums = bound.apply(ones)[self.labels.rows]
            self._constant.pop("on_rows", None)
        if "on_rows" in self._constant:
            return self._constant["on_rows"]
        on_rows = np.zeros_like(own, shape=(self.n_rows, own.shape[1]))
        on_rows[self.labels.rows] = own * self._row_sums
        result = np.maximum(bound.adjoint(on_rows), 0.0)
        if self.loss.constant_curvature:
            self._constant["on_rows"] = result
        return result

    def direction(self, point: Point, tree: Array) -> Direction:
        """Return P h and the response of z, which minimises E along the tree."""
        smoothed = self.operator.apply(tree)
        if self.posterior is None:
            return Direction(tree, smoothed)
        posterior = self.posterior
        curvature = self.at_labels("curvature", point)
        own = smoothed[self.labels.rows]
        right = -posterior.sums(curvature * own)
        if self.loss.constant_curvature:
            self._solver = self._solver or posterior.solver(curvature)
            response = self._solver.solve(right, self.response_tolerance)
        else:
            near = self._near(point)
            response = posterior.solve(curvature, right, self.response_tolerance, near)
        # (SᵀHS + Q) r = −SᵀHPh gives Q r without another product.
        prior_response = right - posterior.sums(curvature * at(response, posterior.nodes))
        return Direction(tree, smoothed, response, prior_response)

    def step(self, point: Point, direction: Direction) -> float:
        """Return the minimiser of the parabola along a direction: of J itself for squared error.

        Where the curvature of the loss is no bound, the step is at most a Newton step.
        """
        slope, bend, with_field = self.parabola(point, direction)
        step = -slope / with_field if with_field > 0.0 else 0.0
        if self.loss.majorised or with_field <= 0.0:
            return step
        return min(step, self.score_unit * bend / with_field)

    def parabola(self, point: Point, direction: Direction) -> tuple[float, float, float]:
        """Return the slope and the curvature along a direction, without and with the field."""
        gradient = self.at_labels("gradient", point)
        curvature = self.at_labels("curvature", point)
        own = direction.smoothed[self.labels.rows]
        slope = float(total(gradient * own))
        bend = with_field = float(total(curvature * own * own))
        if direction.response is not None and self.posterior is not None:
            answer = at(direction.response, self.posterior.nodes)
            with_field = float(total(curvature * own * (own + answer)))
        return slope, bend, with_field

    def move(self, point: Point, direction: Direction, step: float) -> Point:
        """Return the point after a step, with one tree more."""
        field_parts: tuple[Array | None, Array | None] = (None, None)
        if point.z is not None and direction.response is not None:
            assert point.prior_z is not None
            assert direction.prior_response is not None
            z = point.z + step * direction.response
            field_parts = (z, point.prior_z + step * direction.prior_response)
        scores = point.scores + step * direction.tree
        smoothed = scores
        if direction.smoothed is not direction.tree or point.smoothed is not point.scores:
            smoothed = point.smoothed + step * direction.smoothed
        return Point(scores, smoothed, *field_parts, (*point.weights, step))

    def line_search(self, point: Point, direction: Direction, step: float) -> tuple[Point, float]:
        """Return the point after a step, halved until the objective does not rise."""
        moved = self.move(point, direction, step)
        if self.is_quadratic:  # the parabola is the objective
            return moved, step
        before = self.value(point)
        for _ in range(MAX_HALVINGS):
            if self.value(moved) - before <= TOLERANCE * max(abs(before), 1e-300):
                return moved, step
            step *= 0.5
            moved = self.move(point, direction, step)
        return self.move(point, direction, 0.0), 0.0


def checked_loss(loss: Loss, method: str, scores: Array, labels: Labels) -> Array:
    """Return ``value``, ``gradient`` or ``curvature`` of a loss at labels, checked.

    An infinite value is returned, and the line search steps back from it; NaN, infinite gradients
    and curvatures, and negative curvatures raise :class:`NonFiniteError`.
    """
    with np.errstate(all="ignore"):
        result = np.asanyarray(getattr(loss, method)(scores, labels.target), like=scores)
        is_finite = math.isfinite(float(result.sum()))
    if method == "curvature":
        is_finite &= not result.size or float(result.min()) >= 0.0
        if result.ndim < 2 and result.size == 1:
            result = np.full_like(scores, result.item(), shape=(len(scores), 1))
    shape = scores.shape[:1] if method == "value" else scores.shape
    allowed = [shape, (shape[0], 1), (1, shape[-1])] if method == "curvature" else [shape]
    if result.shape not in allowed:
        raise ValueError(f"{method} of {loss!r} must have shape {shape} here, got {result.shape}.")
    if is_finite:
        return result
    invalid = np.isnan(result) if method == "value" else ~np.isfinite(result)
    if method == "curvature":
        invalid = invalid | (result < 0)
    if not invalid.any():
        return result
    position = int(np.nonzero(np.broadcast_to(invalid, shape))[0][0])
    row = int(labels.rows[position])
    own = scores[position].tolist()
    if not np.isfinite(scores[position]).all():
        raise NonFiniteError(
            f"the scores {own} of row {row} are not finite: a tree or the propagation overflowed. "
            "Rescale y or the edge weights of the graph, or lower learning_rate."
        )
    entry = np.broadcast_to(result, shape)[position].tolist()
    condition = "finite and not negative" if method == "curvature" else "finite"
    raise NonFiniteError(
        f"the {method} of {loss!r} is {entry} at row {row}, where the scores are {own} and the "
        f"target is {labels.target[position].tolist()}. It must be {condition} for every score."
    )


@dataclass(frozen=True, eq=False)
class Boosted:
    """The best model of a run, its number of rounds, why the run stopped, and all losses."""

    best: Point
    n_rounds: int
    n_trained: int
    reason: str
    losses: dict[str, list[float]]  # of each round: "training", and "validation" if any


def boost(
    objective: Objective,
    grower: Grower,
    *,
    n_rounds: int,
    learning_rate: float,
    callbacks: Sequence[Callback] = (),
    member: str = "",
    fold: int = 0,
) -> Boosted:
    """Run the rounds of Algorithm 1 to their end, or until a callback asks to stop."""
    for callback in callbacks:
        callback.before_training(n_rounds)
    point = objective.start()
    losses: dict[str, list[float]] = {"training": [], "validation": []}
    reason = ""
    n_stalled = done = 0
    try:
        while done < n_rounds and not reason:
            objective._n_rounds = done
            point = objective.settle(point)
            gradient = objective.gradient(point) / (objective.unit * objective.score_unit)
            curvature = objective.curvature(point) / objective.unit
            tree = grower.grow(gradient, curvature)
            if tree is None:
                reason = "no tree could be grown on the gradient that is left"
                break
            direction = objective.direction(point, tree)
            step = learning_rate * objective.step(point, direction)
            point, step = objective.line_search(point, direction, step)
            n_stalled = n_stalled + 1 if step == 0.0 else 0
            value = objective.value(point)
            if not math.isfinite(value):
                raise NonFiniteError(
                    "the training loss is infinite. Lower learning_rate, or rescale the labels."
                )
            done += 1
            losses["training"].append(value)
            validation = None
            if objective.validation is not None:
                validation = objective.validation_value(point)
                losses["validation"].append(validation)
            grown = (gradient, curvature, tree)
            info = RoundInfo(
                done - 1, n_rounds, value, validation, point, step, grown, member, fold
            )
            for callback in callbacks:
                if callback.after_round(info):
                    reason = reason or callback.reason
            if n_stalled == STALLED_ROUNDS:
                reason = reason or "no step along a new tree lowers the loss any more"
    except NonFiniteError as error:
        raise ValueError(f"Round {done + 1}: {error}") from None
    best = point
    for callback in callbacks:
        best = callback.after_training(best)
    reason = reason or "all rounds were trained"
    return Boosted(best, len(best.weights), done, reason, losses)
