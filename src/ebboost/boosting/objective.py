"""The meta-loss (7) as a function of the base scores f, its gradient (8) and its curvature.

Predictions are ``base + P f``. The trees never see the labels: they see what this room hands them, a gradient and a
curvature for *every* node, labelled or not.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebboost._native import COMPILED
from ebboost.boosting.iterate import Iterate
from ebboost.boosting.losses import Loss
from ebboost.data.labels import Labels
from ebboost.propagation import Propagation, PropagationOperator

Array = NDArray[np.float64]
# Nodes up to which training computes in full precision; beyond, sweeps are in float32 and solves stop early. What is
# reported after training is in full precision always.
EXACT_UP_TO = 10_000


def relative(weight: Array) -> Array:
    """Return weights as multiples of their mean; not copied where that is what they are."""
    mean = weight.mean()
    return weight if mean == 1.0 else weight / mean


class Fit(NamedTuple):
    """How a tree lies to the residual it was grown on."""

    #: By how much to stretch the tree to make it the projection of the residual.
    length: float
    #: The cosine of the angle between them, of which Γ of the theorems is the least.
    cosine: float


def project_on_gradient(gradient: Array, curvature: Array, tree: Array) -> Fit:
    """Compare a tree with the residual r = −gradient/curvature, in the norm ‖v‖² = Σ curvature·v² that trees are fitted in.

    In that norm the loss is 1-smooth, because the curvature majorises its Hessian; the norm of a constant curvature is
    the paper's own. A node without curvature has no gradient either, but for rounding.
    """
    least = 1e-12 * float(curvature.max()) or 1.0  # divided by where there is any
    slope, own, wanted = _sums_along(gradient, curvature, tree, least)
    if own <= 0.0 or wanted <= 0.0:
        return Fit(0.0, 0.0)
    return Fit(-slope / own, -slope / math.sqrt(own * wanted))


class NonFiniteError(ValueError):
    """A loss or a score that is no number, at a node that the message names; the loop adds the round."""


def _sums_along(
    slope: Array, bend: Array, way: Array, least: float = 0.0
) -> tuple[float, float, float]:
    """Return Σ slope·way, Σ bend·way² and, for a positive ``least``, Σ slope²/max(bend, least)."""
    if COMPILED is not None and type(way) is np.ndarray and slope.shape == bend.shape == way.shape:
        given = [np.ascontiguousarray(part, dtype=np.float64) for part in (slope, bend, way)]
        found = np.empty(3)
        COMPILED.ebboost_along(
            way.size, *[part.ctypes.data for part in given], least, found.ctypes.data
        )
        along, own, wanted = found.tolist()
        return along, own, wanted
    sums = [_total(slope, way), _total(np.broadcast_to(bend, way.shape), way, way)]
    if least > 0.0:
        sums.append(_total(slope, slope / np.maximum(bend, least)))
    along, own, *last = map(float, sums)  # on a GPU, waited for when all are under way
    return along, own, last[0] if last else 0.0


def _total(first: Array, *others: Array) -> Any:
    """The sum of products of entries: by einsum, which makes no arrays on the way, and which GPUs are slow at."""
    if isinstance(first, np.ndarray):
        return np.einsum(",".join(["ij"] * (1 + len(others))) + "->", first, *others)
    return math.prod(others, start=first).sum()


class Objective:
    """Σ_{i∈𝓛} w_i D(base + (P f)_i, y_i) + ½ ε ‖f‖².

    Parameters
    ----------
    smoother : Propagation
        P, on all n nodes. One that is not linear stands for a linear map at each point, see :meth:`at`.
    loss : Loss
        D.
    labels : Labels
        The nodes whose labels are learned from.
    validation : Labels, optional
        Nodes whose labels are only looked at, to stop in time.
    penalty : float
        ε of Corollary 1.
    """

    #: By what share a step may raise the loss and still count as descent: rounding, and solvers that stop early.
    slack = 1e-12

    def __init__(
        self,
        smoother: Propagation,
        loss: Loss,
        labels: Labels,
        validation: Labels | None = None,
        penalty: float = 0.0,
    ) -> None:
        self.smoother = smoother
        self.loss = loss
        # Relative weights: the regularisation of the trees must not depend on their units.
        self.labels = Labels(labels.nodes, labels.target, relative(labels.weight))
        self.validation = validation
        self.penalty = penalty
        self.base = loss.initial(labels.target, labels.weight)
        self._fixed_curvature: Array | None = None
        self._fixed_local: Array | None = None
        # Trees are grown on float32 gradients anyway; on large graphs, half the bytes are nearly half the time.
        self.exact = smoother.shape[0] <= EXACT_UP_TO
        self._last_at: tuple[Iterate, PropagationOperator] | None = None
        #: Curvature of a typical label at the start. Trees are given gradients and curvatures in this unit, so that
        #: what regularises them means the same for labels in cents and in dollars, and for P and for a multiple of P.
        self.unit = smoother.norm_bound**2 or 1.0
        if loss.curvature_has_units:
            self.unit *= float(np.mean(self._local_curvature(self.start()))) or 1.0

    def in_units(self, values: Array) -> Array:
        """Return a gradient or a curvature in the unit that trees are given."""
        return values if self.unit == 1.0 else values / self.unit

    def start(self) -> Iterate:
        """Return f⁰ = 0."""
        zeros = self._filled(0.0, self.labels.target.shape[1])
        if self.smoother.linear:
            return Iterate(zeros, self._carried(zeros))
        return Iterate(
            zeros, lambda point: self._carried(self.linearize(point).apply(point.scores))
        )

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint must keep, beside what follows from data and parameters."""
        return {"exact": self.exact}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.exact = state["exact"]

    def linearize(self, point: Iterate) -> PropagationOperator:
        """Return P as the linear map that it is at a point, kept for the last point alone: it may be large."""
        if self.smoother.linear:
            return self.smoother.linearize(point.scores)
        if self._last_at is None or self._last_at[0] is not point:
            self._last_at = point, self.smoother.linearize(point.scores)
        return self._last_at[1]

    def _filled(self, number: float, n_columns: int = 1) -> Array:
        """A number for every node, where the labels are: on the CPU or on a GPU."""
        return np.zeros((self.smoother.shape[0], n_columns), like=self.labels.target) + number

    def _carried(self, smoothed: Array) -> Array:
        """What an iterate carries along, of scores just smoothed: those."""
        return smoothed

    def value(self, point: Iterate) -> float:
        """Return the mean loss over the labelled nodes, the penalty included."""
        return float(point.cached("value", lambda: self._value(point)))

    def _value(self, point: Iterate) -> float:
        return self._penalized_mean(self._loss_at(self.labels, self._predicted(point)), point)

    def _penalized_mean(self, total: float, point: Iterate) -> float:
        """The penalty added to a sum over the labelled nodes, by their weight."""
        if self.penalty:
            total += 0.5 * self.penalty * float((point.scores**2).sum())
        return total / self.labels.total_weight

    def _penalized_step(self, slope: float, bend: float, point: Iterate, tree: Array) -> float:
        """Where a parabola of this slope and bend along the tree, the penalty added, is least."""
        if self.penalty:
            slope += self.penalty * float((point.scores * tree).sum())
            bend += self.penalty * float((tree**2).sum())
        return -slope / bend if bend > 0 else 0.0

    def validation_value(self, point: Iterate) -> float | None:
        """Return the mean loss over the validation nodes, of the *smoothed* predictions."""
        if self.validation is None:
            return None
        predicted = self.predict(point)[self.validation.index]
        return self._loss_at(self.validation, predicted) / self.validation.total_weight

    def gradient(self, point: Iterate) -> Array:
        """Return the gradient Pᵀ ∂ℓ/∂f̃ of (8), on all n nodes (+ εf)."""
        return self._pulled_back(self._slope(point), point)

    def _pulled_back(self, slope: Array, point: Iterate) -> Array:
        on_nodes = slope
        if len(slope) < len(point.scores) or not isinstance(self.labels.index, slice):
            on_nodes = np.zeros_like(point.scores)
            on_nodes[self.labels.index] = slope
        pulled = self._swept(self.linearize(point).adjoint, on_nodes)
        return pulled + self.penalty * point.scores if self.penalty else pulled

    def _swept(self, operator: Callable[[Any], Any], scores: Array) -> Array:
        """P or Pᵀ as training needs it."""
        if not self.exact:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                swept = operator(scores.astype(np.float32))
                total = float(
                    swept.sum()
                )  # finite only if all are: seldom is more than one pass needed
            if math.isfinite(total) or np.isfinite(swept).all():
                return swept.astype(np.float64, copy=False)
            self.exact = True  # weights or labels beyond the range of float32
        exact: Array = operator(scores).astype(np.float64, copy=False)
        return exact

    def curvature(self, point: Iterate) -> Array:
        """Return d, shape (n, 1) or (n, c), such that diag(d) majorises the Hessian of the loss by f.

        For P without negative entries PᵀHP ≼ diag(Pᵀ H P 1), and any matrix that bounds |P| may stand in for P. This
        is far less than the constant h_max where labels are few, and it is what makes P = I exactly plain boosting on
        the labelled rows: a node that no label can hear has no curvature and no say in where a tree splits. Otherwise,
        the constant ‖P‖² h_max.
        """
        if self._fixed_curvature is not None:
            return self._fixed_curvature
        local, smoother = self._local_curvature(point), self.linearize(point)
        magnitude = smoother.magnitude
        if magnitude is not None:
            heard = magnitude.apply(self._filled(1.0))[self.labels.index]
            on_nodes = self._filled(0.0, local.shape[1])
            on_nodes[self.labels.index] = local * heard
            result = np.maximum(magnitude.adjoint(on_nodes), 0.0)
        else:
            result = self._filled(smoother.norm_bound**2 * float(local.max()))
        result = result + self.penalty
        return (
            self._kept_curvature(result)
            if self.loss.constant_curvature and self.smoother.linear
            else result
        )

    def _kept_curvature(self, curvature: Array) -> Array:
        """Keep a curvature for all rounds. It can no longer be written to: learners may keep what they made of it too."""
        if isinstance(curvature, np.ndarray):
            curvature.flags.writeable = False
        self._fixed_curvature = curvature
        return curvature

    def propagate(self, tree: Array, point: Iterate | None = None) -> Array:
        """Return P h for a new tree's values h on all nodes; a P that is not linear must be told at which point."""
        smoother = self.smoother if point is None else self.linearize(point)
        return self._carried(self._swept(smoother.apply, tree))

    def newton_step(self, point: Iterate, tree: Array, smoothed_tree: Array) -> float:
        """Return η minimising the parabola above the loss along the tree.

        For squared error that parabola is the loss itself and η = ⟨y − f̃, P h⟩/‖P h‖² over the labelled nodes.
        """
        along = smoothed_tree[self.labels.index]
        slope, bend, _ = _sums_along(self._slope(point), self._local_curvature(point), along)
        step = self._penalized_step(slope, bend, point, tree)
        return step if self.loss.majorised else min(step, 1.0)

    def predict(self, point: Iterate) -> Array:
        """Return the predicted scores of every node."""
        predicted: Array = point.cached("prediction", lambda: self._predict(point))
        return predicted

    def _predict(self, point: Iterate) -> Array:
        return self.base + point.smoothed

    def _loss_at(self, labels: Labels, predicted: Array) -> float:
        # Not a BLAS product: its threads would fight the trees' for the cores.
        return float(labels.weighted(self._asked("value", predicted, labels)).sum())

    def _asked(self, what: str, predicted: Array, labels: Labels) -> Array:
        """What the loss says of these nodes, refused where it is no number; an infinite loss is one to step back from."""
        with np.errstate(all="ignore"):
            said = getattr(self.loss, what)(predicted, labels.target)
            said = (
                said if hasattr(said, "shape") else np.asarray(said)[()]
            )  # a number: CuPy takes no array of numpy's
            sound = what != "curvature" and math.isfinite(float(said.sum()))  # only if all are
        shape = predicted.shape[:1] if what == "value" else predicted.shape
        fitting = [
            shape,
            *([(), (1,), (shape[0], 1), (1, shape[1])] if what == "curvature" else []),
        ]
        if said.shape not in fitting:
            raise ValueError(
                f"{what} of {self.loss!r} must have the shape {shape} here, it has {said.shape}."
            )
        if sound:
            return said
        wrong = np.isnan(said) if what == "value" else ~np.isfinite(said)
        if what == "curvature":
            wrong |= said < 0
        if wrong.any():
            place = int(np.nonzero(np.broadcast_to(wrong, shape))[0][0])
            node, scores = int(labels.nodes[place]), predicted[place].tolist()
            if not np.isfinite(scores).all():
                raise NonFiniteError(
                    f"the scores {scores} of node {node} are no numbers: a tree or the smoothing overflowed. Rescale the "
                    "labels or the weights of the graph, or lower learning_rate."
                )
            found = np.broadcast_to(said, shape)[place].tolist()
            raise NonFiniteError(
                f"the {what} of {self.loss!r} is {found} at node {node}, whose scores are {scores} and whose target is "
                f"{labels.target[place].tolist()}. It must be finite{' and not negative' * (what == 'curvature')} for every "
                "score: bound what overflows there."
            )
        return said

    def _predicted(self, point: Iterate) -> Array:
        """Scores of the labelled nodes, as the loss sees them."""
        predicted: Array = point.cached(
            "predicted", lambda: self.base + point.smoothed[self.labels.index]
        )
        return predicted

    def _slope(self, point: Iterate) -> Array:
        labels = self.labels
        slope: Array = point.cached(
            "slope",
            lambda: labels.weighted(self._asked("gradient", self._predicted(point), labels)),
        )
        return slope

    def _local_curvature(self, point: Iterate) -> Array:
        if self._fixed_local is not None:
            return self._fixed_local
        labels = self.labels
        said, local = (
            self._asked("curvature", self._predicted(point), labels),
            labels.weight[:, None],
        )
        if said.ndim or float(said) != 1.0:  # of squares it is one, and the weights need no copy
            local = local * said
        if self.loss.constant_curvature:
            self._fixed_local = local
        return local
