"""The meta-loss (7) as a function of the base scores f, its gradient (8) and its curvature.

Predictions are ``init_score + P f``, plus an offset if there is one. Trees are fitted to a gradient
and a curvature of *every* node, labelled or not; they never see the labels.
"""

import math
from collections.abc import Callable

import numpy as np

from ebboost.boosting.iterate import Iterate
from ebboost.boosting.losses import Loss
from ebboost.boosting.projection import directional_sums
from ebboost.boosting.resumable import Resumable
from ebboost.data.labels import Labels
from ebboost.data.sharded import total_rows
from ebboost.data.types import Array, IntArray
from ebboost.propagation import Propagation, PropagationOperator

# Nodes up to which training propagates in float64 and solves to full accuracy. Trees are grown on
# float32 gradients anyway, and on larger graphs half the bytes take nearly half the time.
# Everything that is reported after training is in float64.
DOUBLE_PRECISION_UP_TO = 10_000


class NonFiniteError(ValueError):
    """A loss or score that is not finite; the message names the node, the loop adds the round."""


def trains_in_double_precision(n_nodes: int) -> bool:
    """Return whether a graph is small enough to train in float64."""
    return n_nodes <= DOUBLE_PRECISION_UP_TO


def relative_weights(weight: Array) -> Array:
    """Return weights divided by their mean; the same array if the mean is 1."""
    mean = weight.mean()
    return weight if mean == 1.0 else weight / mean


class Objective(Resumable):
    """Σ_{i∈𝓛} w_i D(init_score + (P f)_i, y_i) + ½ ε ‖f‖²: equation (7) with a penalty.

    P is ``operator`` and ε is ``penalty``. A P that is not linear is linearised at each point. An
    ``offset`` of shape (n, 1) is added to the scores of the nodes.
    """

    #: By what share a step may raise the loss and still count as descent: rounding.
    descent_tolerance = 1e-12
    state_names: tuple[str, ...] = ("double_precision",)

    def __init__(
        self,
        operator: Propagation,
        loss: Loss,
        labels: Labels,
        validation: Labels | None = None,
        penalty: float = 0.0,
        offset: Array | None = None,
    ) -> None:
        self.operator = operator
        self.loss = loss
        # Relative weights: the regularisation of the trees must not depend on their units.
        self.labels = Labels(labels.nodes, labels.target, relative_weights(labels.weight))
        self.validation = validation
        self.penalty = penalty
        self.offset = offset
        known_offset = None if offset is None else offset[labels.nodes]
        self.init_score = loss.initial(labels.target, labels.weight, known_offset)
        self.double_precision = trains_in_double_precision(total_rows(self._constant(0.0)))
        #: Of the scores of the validation nodes, smaller is better; None for the loss.
        self.eval_metric: Callable[[Array], float] | None = None
        self._fixed_curvature: Array | None = None
        self._fixed_loss_curvature: Array | None = None
        self._row_sums: Array | None = None
        self._linearization: tuple[Iterate, PropagationOperator] | None = None
        self._start_scores: Array | None = None
        # Curvature of a typical label at the start. Trees are fitted to gradients and curvatures in
        # this unit, so that their regularisation means the same for labels in cents and in dollars,
        # and for P and a multiple of P.
        self.unit = operator.norm_bound**2 or 1.0
        if loss.curvature_has_units:
            self.unit *= float(np.mean(self._loss_curvature(self.start()))) or 1.0
        # Spread of the labels as base scores. Trees are grown in this unit: libraries do not split
        # where the gain is below a constant of theirs, and round to single precision, in any unit
        # of the labels to the same numbers.
        self.score_unit = 1.0
        if loss.curvature_has_units and not loss.log_link:
            with np.errstate(all="ignore"):
                spread = loss.label_scale(labels.target, labels.weight, known_offset)
            spread /= operator.norm_bound or 1.0
            self.score_unit = spread if 0.0 < spread < math.inf else 1.0

    def fixed_scores(self, index: slice | IntArray = slice(None)) -> Array:
        """Return what no tree moves: the initial score, plus the offset of all or some nodes."""
        return self.init_score if self.offset is None else self.init_score + self.offset[index]

    def in_units(self, gradient: Array, curvature: Array) -> tuple[Array, Array]:
        """Return a gradient and a curvature in the units in which trees are grown."""
        unit = self.unit
        return gradient / (unit * self.score_unit), curvature if unit == 1.0 else curvature / unit

    def start(self) -> Iterate:
        """Return f⁰: 0, or the scores of an earlier model."""
        earlier = self._start_scores
        scores = self._constant(0.0, self.labels.target.shape[1]) if earlier is None else earlier
        if self.operator.linear:
            smoothed = scores if earlier is None else self.operator.apply(earlier)
            return Iterate(scores, self._augment(smoothed))

        def propagate(point: Iterate) -> Array:
            return self._augment(self.linearize(point).apply(point.scores))

        return Iterate(scores, propagate)

    def start_from(self, init_score: Array, scores: Array) -> None:
        """Start at the initial score and the scores f of an earlier model."""
        self.init_score = init_score
        self._start_scores = scores

    def linearize(self, point: Iterate) -> PropagationOperator:
        """Return P as a linear map at a point; only the last one, which may be large, is cached."""
        if self.operator.linear:
            return self.operator.linearize(point.scores)
        if self._linearization is None or self._linearization[0] is not point:
            self._linearization = (point, self.operator.linearize(point.scores))
        return self._linearization[1]

    def _constant(self, number: float, n_columns: int = 1) -> Array:
        """Array of one number for every node, on the device of the labels."""
        return np.zeros((self.operator.shape[0], n_columns), like=self.labels.target) + number

    def _augment(self, smoothed: Array) -> Array:
        """Smoothed scores with the columns that a subclass appends to those of its iterates."""
        return smoothed

    def _split(self, augmented: Array) -> tuple[Array, Array]:
        """Smoothed scores and the columns appended to them, as views."""
        n_outputs = self.labels.target.shape[1]
        return augmented[:, :n_outputs], augmented[:, n_outputs:]

    def value(self, point: Iterate) -> float:
        """Return the mean loss over the labelled nodes, penalty included."""
        return float(point.cached("value", lambda: self._value(point)))

    def _value(self, point: Iterate) -> float:
        return self._penalized_mean(self._total_loss(self.labels, self._scores(point)), point)

    def _penalized_mean(self, total: float, point: Iterate) -> float:
        """Sum over the labelled nodes plus penalty, divided by the weight of the labels."""
        if self.penalty:
            total += 0.5 * self.penalty * float((point.scores**2).sum())
        return total / self.labels.total_weight

    def _parabola_minimum(
        self, gradient: float, curvature: float, point: Iterate, tree: Array
    ) -> float:
        """Minimum of a parabola along the tree, from its derivatives without the penalty."""
        if self.penalty:
            gradient += self.penalty * float((point.scores * tree).sum())
            curvature += self.penalty * float((tree**2).sum())
        return -gradient / curvature if curvature > 0 else 0.0

    def validation_value(self, point: Iterate) -> float | None:
        """Return the mean loss or metric of the validation nodes, or None if there are none."""
        if self.validation is None:
            return None
        scores = self.validation.rows(self.predict(point))
        if self.eval_metric is not None:
            return self.eval_metric(scores)
        return self._total_loss(self.validation, scores) / self.validation.total_weight

    def gradient(self, point: Iterate) -> Array:
        """Return the gradient Pᵀ ∂ℓ/∂f̃ + εf of (8), on all n nodes."""
        return self._adjoint(self._loss_gradient(point), point)

    def _adjoint(self, loss_gradient: Array, point: Iterate) -> Array:
        """Pᵀ of a gradient at the labelled nodes, plus the gradient of the penalty."""
        on_nodes = loss_gradient
        if len(on_nodes) < len(point.scores) or not isinstance(self.labels.index, slice):
            on_nodes = np.zeros_like(point.scores)
            on_nodes[self.labels.index] = loss_gradient
        gradient = self._in_training_precision(self.linearize(point).adjoint, on_nodes)
        return gradient + self.penalty * point.scores if self.penalty else gradient

    def _in_training_precision(self, apply: Callable[[Array], Array], scores: Array) -> Array:
        """P or Pᵀ applied, on large graphs in float32 until a result leaves its range."""
        if not self.double_precision:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                result = apply(scores.astype(np.float32))
                total = float(result.sum())  # finite only if all entries are: one pass
            if math.isfinite(total) or np.isfinite(result).all():
                return result.astype(np.float64, copy=False)
            self.double_precision = True
        return apply(scores).astype(np.float64, copy=False)

    def curvature(self, point: Iterate) -> Array:
        """Return d, shape (n, 1) or (n, c), such that diag(d) majorises the Hessian by f.

        For P without negative entries PᵀHP ≼ diag(Pᵀ H P 1), and any matrix that bounds |P| may
        stand in for P. Where labels are few this is far less than the constant ‖P‖² h_max, which is
        used if no such bound is known. With P = I it makes the fit plain boosting on the labelled
        rows: a node out of reach of every label has no curvature and no influence on where a tree
        splits.
        """
        if self._fixed_curvature is not None:
            return self._fixed_curvature
        loss_curvature = self._loss_curvature(point)
        operator = self.linearize(point)
        bound = operator.magnitude
        if bound is not None:
            row_sums = self._row_sums
            if row_sums is None:
                row_sums = bound.apply(self._constant(1.0))[self.labels.index]
                self._row_sums = row_sums if self.operator.linear else None
            on_nodes = self._constant(0.0, loss_curvature.shape[1])
            on_nodes[self.labels.index] = loss_curvature * row_sums
            curvature = np.maximum(bound.adjoint(on_nodes), 0.0)
        else:
            curvature = self._constant(operator.norm_bound**2 * float(loss_curvature.max()))
        curvature = curvature + self.penalty if self.penalty else curvature
        if self.loss.constant_curvature and self.operator.linear:
            return self._freeze_curvature(curvature)
        return curvature

    def _freeze_curvature(self, curvature: Array) -> Array:
        """Store the curvature for all rounds, read-only: learners may cache what depends on it."""
        if isinstance(curvature, np.ndarray):
            curvature.flags.writeable = False
        self._fixed_curvature = curvature
        return curvature

    def propagate(self, tree: Array, point: Iterate | None = None) -> Array:
        """Return P h for a tree's values h on all nodes; P is linearised at ``point``."""
        operator = self.operator if point is None else self.linearize(point)
        return self._augment(self._in_training_precision(operator.apply, tree))

    def newton_step(self, point: Iterate, tree: Array, smoothed_tree: Array) -> float:
        """Return η minimising the parabola above the loss along the tree.

        For squared error that parabola is the loss itself and η = ⟨y − f̃, P h⟩/‖P h‖² over the
        labelled nodes. Where the curvature of the loss is no bound, η is at most a Newton step.
        """
        derivatives = (self._loss_gradient(point), self._loss_curvature(point))
        gradient, curvature, _ = directional_sums(*derivatives, self.labels.rows(smoothed_tree))
        step = self._parabola_minimum(gradient, curvature, point, tree)
        return step if self.loss.majorised else min(step, self.score_unit)

    def predict(self, point: Iterate) -> Array:
        """Return the predicted scores of every node."""
        return point.cached("prediction", lambda: self._predict(point))

    def _predict(self, point: Iterate) -> Array:
        return self.fixed_scores() + point.smoothed

    def _scores(self, point: Iterate) -> Array:
        """Predicted scores of the labelled nodes."""
        return point.cached("labelled scores", lambda: self._labelled_scores(point))

    def _labelled_scores(self, point: Iterate) -> Array:
        index = self.labels.index
        return self.fixed_scores(index) + self.labels.rows(point.smoothed)

    def _total_loss(self, labels: Labels, scores: Array) -> float:
        # Not a BLAS product: its threads would compete with those of the trees.
        return float(labels.weighted(evaluate_loss(self.loss, "value", scores, labels)).sum())

    def _loss_gradient(self, point: Iterate) -> Array:
        """w_i ∂D/∂f̃_i at the labelled nodes."""

        def compute() -> Array:
            gradient = evaluate_loss(self.loss, "gradient", self._scores(point), self.labels)
            return self.labels.weighted(gradient)

        return point.cached("loss gradient", compute)

    def _loss_curvature(self, point: Iterate) -> Array:
        """w_i times the curvature of D at the labelled nodes."""
        if self._fixed_loss_curvature is not None:
            return self._fixed_loss_curvature

        def compute() -> Array:
            weight = self.labels.weight[:, None]
            curvature = evaluate_loss(self.loss, "curvature", self._scores(point), self.labels)
            # That of squared error is 1: the weights need no copy.
            return weight * curvature if curvature.ndim or float(curvature) != 1.0 else weight

        weighted = point.cached("loss curvature", compute)
        if self.loss.constant_curvature:
            self._fixed_loss_curvature = weighted
        return weighted


def evaluate_loss(loss: Loss, method: str, scores: Array, labels: Labels) -> Array:
    """Return ``value``, ``gradient`` or ``curvature`` of a loss at labelled nodes, checked.

    An infinite value is returned, and the line search steps back from it; NaN, infinite gradients
    and curvatures, and negative curvatures raise :class:`NonFiniteError`.
    """
    with np.errstate(all="ignore"):
        result = getattr(loss, method)(scores, labels.target)
        if not hasattr(result, "shape"):
            result = np.asarray(result)[()]  # a numpy scalar: CuPy takes no arrays of numpy
        # Finite only if all entries are.
        is_finite = math.isfinite(float(result.sum()))
    if method == "curvature":
        is_finite &= float(result.min()) >= 0.0
    shape = scores.shape[:1] if method == "value" else scores.shape
    broadcast = [(), (1,), (shape[0], 1), (1, shape[-1])] if method == "curvature" else []
    if result.shape not in [shape, *broadcast]:
        raise ValueError(f"{method} of {loss!r} must have shape {shape} here, got {result.shape}.")
    if not is_finite:
        invalid = np.isnan(result) if method == "value" else ~np.isfinite(result)
        if method == "curvature":
            invalid |= result < 0
        if invalid.any():
            rows = np.nonzero(np.asarray(np.broadcast_to(invalid, shape)))[0]
            if not rows.size:
                raise NonFiniteError(f"the {method} of {loss!r} is not finite in another worker.")
            row = int(rows[0])
            entry = np.broadcast_to(result, shape)[row].tolist()
            node = int(labels.nodes[row])
            if not np.isfinite(scores[row]).all():
                raise NonFiniteError(
                    f"the scores {scores[row].tolist()} of node {node} are not finite: a tree or "
                    "the propagation overflowed. Rescale y or the edge weights of the graph, or "
                    "lower learning_rate."
                )
            condition = "finite and not negative" if method == "curvature" else "finite"
            raise NonFiniteError(
                f"the {method} of {loss!r} is {entry} at node {node}, where the scores are "
                f"{scores[row].tolist()} and the target is {labels.target[row].tolist()}. It must "
                f"be {condition} for every score."
            )
    return result
