"""Known labels as evidence for their neighbours, without leaking: error smoothing (15) and what counters its leak.

A *field* z explains the errors e = y − u of the labelled nodes, u = base + P f, as something that varies smoothly over
the graph: z = K W e with K = (W + λL + τI)⁻¹, the minimiser of ‖e − z‖²_W + zᵀ(λL + τI)z. The prediction is u + z.

Trained naively, the trees would see their own labels in z. Two objectives are safe, both fixed quadratics in f, so that
every round descends:

* :class:`FieldObjective`: the energy after z has been minimised out, ½ eᵀW(e − z), as in generalised least squares. An
  error that neighbours share costs less than one that stands alone, whatever a label says of itself. One solve a round.
* :class:`LeftOutObjective`: the squared errors that remain when each node's own label is left out of z, in closed form
  by a rank-one update: e_i − z_i^(−i) = (e_i − z_i)/(1 − w_i K_ii). Two solves a round and the diagonal of K.

:class:`MaskedObjective` is the published way: hide a random half of the labels each round.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from ebbflow.graph import Graph
from ebbflow.losses import Loss, SquaredError
from ebbflow.objective import Iterate, Labels, Objective
from ebbflow.smoothing import SmoothingOperator, SparseSolver

Array = NDArray[np.float64]
EXACT_UP_TO = 10_000


class Field(BaseEstimator):
    """Known labels as a smooth field of errors over the graph.

    Parameters
    ----------
    lam : float, default=2.0
        λ: how strongly neighbours' errors are tied. Weights are divided by √(d_i d_j) first (see ``normalized``), so
        that one value suits sparse and dense graphs.
    tau : float, default=0.05
        τ: how strongly errors are pulled to zero; keeps nodes without labelled neighbours at their own prediction.
    left_out : bool, default=False
        Train on leave-one-out errors rather than on the energy of the field: see the module.
    unlabelled : float, default=0.0
        ε_u, the weight of "no error" at nodes without a label; 1 is the paper's error smoothing.
    normalized : bool, default=True
        Whether weights are divided by √(d_i d_j).
    twins : bool, default=False
        Tie nodes with the same neighbours (:meth:`Graph.twins`) rather than neighbours: for graphs whose neighbours are
        not alike.

    Examples
    --------
    >>> import ebbflow as eb
    >>> model = eb.EBBSRegressor(smoothing=eb.Laplacian(1.0, 2), labels=eb.Field(lam=5.0))
    """

    def __init__(
        self,
        lam: float = 2.0,
        tau: float = 0.05,
        *,
        left_out: bool = False,
        unlabelled: float = 0.0,
        normalized: bool = True,
        twins: bool = False,
    ) -> None:
        self.lam = lam
        self.tau = tau
        self.left_out = left_out
        self.unlabelled = unlabelled
        self.normalized = normalized
        self.twins = twins

    def on(self, graph: Graph, nodes: NDArray[np.int64], weight: Array) -> "FieldOperator":
        """Return K on ``graph`` with labels at ``nodes``."""
        for name, least in (("lam", 0.0), ("tau", 1e-12), ("unlabelled", 0.0)):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not np.isfinite(value) or value < least:
                raise ValueError(f"Field's {name} must be a number of at least {least:g}, got {value!r}.")
        ties = graph.twins() if self.twins else graph
        return FieldOperator(ties, nodes, weight, self.lam, self.tau, self.unlabelled, self.normalized)


class Masked(BaseEstimator):
    """Known labels as in the published recipe: a random share of them is shown each round, the others are predicted.

    Parameters
    ----------
    smooth_errors : bool, default=True
        (15): add the smoothed errors of the labels shown.
    smooth_labels : bool, default=True
        Put the labels shown in the place of their scores, then smooth.
    share : float, default=0.5
        Share of the labels shown.
    """

    def __init__(self, smooth_errors: bool = True, smooth_labels: bool = True, share: float = 0.5) -> None:
        self.smooth_errors = smooth_errors
        self.smooth_labels = smooth_labels
        self.share = share


class FieldOperator:
    """K = (W + λL + τI)⁻¹ for labels at given nodes, L the Laplacian of D^{-1/2}AD^{-1/2}."""

    #: Up to this many nodes the diagonal of K is exact, beyond it is estimated.
    exact_diagonal_up_to = 10_000
    probes = 128

    def __init__(
        self,
        graph: Graph,
        nodes: NDArray[np.int64],
        weight: Array,
        lam: float,
        tau: float,
        unlabelled: float = 0.0,
        normalized: bool = True,
    ) -> None:
        self.nodes, self.n_nodes, self.unlabelled, self.tau = nodes, graph.n_nodes, unlabelled, tau
        self.weight = weight / weight.mean()
        root = np.sqrt(np.maximum(graph.degrees, np.finfo(float).tiny))
        tied = graph.adjacency
        if normalized:
            tied = sparse.csr_array(tied.multiply(1.0 / root[:, None]).multiply(1.0 / root[None, :]))
        on_nodes = np.full(graph.n_nodes, float(unlabelled))
        on_nodes[nodes] = self.weight
        # A node without edges would be free to explain its whole error away; it is held as firmly as any other.
        ties = np.where(graph.degrees > 0, np.asarray(tied.sum(axis=1)).ravel(), float(normalized))
        diagonal = on_nodes + tau + lam * ties
        matrix = sparse.csr_array(sparse.diags_array(diagonal) - lam * tied)
        matrix.sort_indices()
        self._floor = on_nodes + tau
        self._solver = SparseSolver(matrix, f"Use a smaller lam (now {lam}) or a larger tau (now {tau}).")
        self._diagonal: Array | None = None

    def spread(self, errors: Array, tolerance: float = 1e-10) -> Array:
        """Return z = K W e on all nodes, for errors of shape (m, c) at the labelled nodes."""
        return self.pulled(self.weight[:, None] * errors, tolerance)

    def pulled(self, values: Array, tolerance: float = 1e-10) -> Array:
        """Return K v on all nodes, for v at the labelled nodes."""
        right = np.zeros((self.n_nodes, values.shape[1]))
        right[self.nodes] = values
        return self._solver.solve(right, tolerance)

    def reach(self, values: Array) -> Array:
        """Return K v on all nodes, for v on all nodes."""
        return self._solver.solve(values)

    def left_out(self, errors: Array) -> Array:
        """Return e_i − z_i^(−i), the error at each labelled node when its own label is left out of the field."""
        own = ((self.weight - self.unlabelled) * self.diagonal)[:, None]
        smoothed = self.spread(errors)[self.nodes]
        without = (smoothed - (self.weight * self.diagonal)[:, None] * errors) / (1.0 - own)
        return errors - without

    @property
    def diagonal(self) -> Array:
        """K_ii at the labelled nodes.

        Exact up to 10 000 nodes. Beyond, the mean of v ⊙ K v over 128 random sign vectors, whose standard error at node
        i is √(Σ_{j≠i} K_ij² / 128), kept within the bounds 1/M_ii ≤ K_ii ≤ 1/(w_i + τ) that hold for any graph.
        """
        if self._diagonal is None:
            self._diagonal = self._exact_diagonal() if self.n_nodes <= self.exact_diagonal_up_to else self._estimated()
        return self._diagonal

    def _exact_diagonal(self) -> Array:
        found = np.empty(self.nodes.size)
        for start in range(0, self.nodes.size, 256):
            block = self.nodes[start : start + 256]
            right = np.zeros((self.n_nodes, block.size))
            right[block, np.arange(block.size)] = 1.0
            found[start : start + 256] = self._solver.solve(right)[block, np.arange(block.size)]
        return found

    def _estimated(self) -> Array:
        random = np.random.default_rng(0)
        total = np.zeros(self.n_nodes)
        for _ in range(self.probes // 16):
            signs = random.choice([-1.0, 1.0], (self.n_nodes, 16))
            total += (signs * self._solver.solve(signs, 1e-4)).sum(axis=1)
        bounded = np.clip(total / self.probes, 1.0 / self._solver.matrix.diagonal(), 1.0 / self._floor)
        found: Array = bounded[self.nodes]
        return found


class FieldObjective(Objective):
    """½ eᵀW(e − z): the squared error after the field has taken its share.

    The smoothed scores carry a second block, K W (P f) on all nodes, so that z is read off every iterate without a
    solve. As W − WKW ≼ W, the curvature without labels majorises this objective too.
    """

    slack = 1e-3

    def __init__(
        self,
        smoother: SmoothingOperator,
        loss: Loss,
        labels: Labels,
        validation: Labels | None,
        penalty: float,
        field: FieldOperator,
    ) -> None:
        # The weights of the field are relative to their mean, and those of the loss must be the same.
        super().__init__(smoother, loss, Labels(labels.nodes, labels.target, field.weight), validation, penalty)
        self.field = field
        # On large graphs, solves during training stop early. The error left in z is at most the residual over τ, the
        # least eigenvalue that a field can have: the weaker τ, the farther they must go.
        self.tolerance = 1e-6 if field.n_nodes <= EXACT_UP_TO else min(0.6 * field.tau, 0.1)
        self._from_labels = field.spread(labels.target - self.base)

    def propagate(self, tree: Array) -> Array:
        """Return P h beside K W (P h): the one solve of a round."""
        smoothed = self.smoother.apply(tree)
        return np.hstack([smoothed, self.field.spread(smoothed[self.labels.nodes], self.tolerance)])

    def start(self) -> Iterate:
        """Return f⁰ = 0."""
        zeros = np.zeros((self.smoother.shape[0], self.labels.target.shape[1]))
        return Iterate(zeros, np.hstack([zeros, zeros]))

    def _split(self, smoothed: Array) -> tuple[Array, Array]:
        outputs = self.labels.target.shape[1]
        return smoothed[:, :outputs], smoothed[:, outputs:]

    def _predict(self, point: Iterate) -> Array:
        own, taken = self._split(point.smoothed)
        return self.base + own + self._from_labels - taken

    def _errors(self, point: Iterate) -> tuple[Array, Array]:
        """E and e − z at the labelled nodes."""
        own, _ = self._split(point.smoothed)
        nodes, target = self.labels.nodes, self.labels.target
        return point.remember("errors", lambda: (target - self.base - own[nodes], target - self.predict(point)[nodes]))

    def _value(self, point: Iterate) -> float:
        errors, left = self._errors(point)
        total = 0.5 * float((self.labels.weight[:, None] * errors * left).sum())
        if self.penalty:
            total += 0.5 * self.penalty * float((point.scores**2).sum())
        return total / float(self.labels.weight.sum())

    def residual(self, point: Iterate) -> Array:
        """Return −Pᵀ W (e − z), on all n nodes."""
        return self._pulled_back(-self.labels.weight[:, None] * self._errors(point)[1], point)

    def _pulled_back(self, slope: Array, point: Iterate) -> Array:
        on_nodes = np.zeros_like(point.scores)
        on_nodes[self.labels.nodes] = slope
        pulled = self.smoother.adjoint(on_nodes)
        return pulled + self.penalty * point.scores if self.penalty else pulled

    def newton_step(self, point: Iterate, tree: Array, smoothed_tree: Array) -> float:
        """Return the exact minimiser along the tree."""
        own, taken = self._split(smoothed_tree[self.labels.nodes])
        weight = self.labels.weight[:, None]
        slope = -float((weight * self._errors(point)[1] * own).sum()) + self.penalty * float(
            (point.scores * tree).sum()
        )
        bend = float((weight * own * (own - taken)).sum()) + self.penalty * float((tree**2).sum())
        return -slope / bend if bend > 0 else 0.0


class LeftOutObjective(FieldObjective):
    """½ Σ w_i (e_i − z_i^(−i))²: the squared leave-one-out errors S e, with S = diag(1/(1 − w K_ii)) (I − K W)."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if self.field.unlabelled:
            raise ValueError("labels=Field(left_out=True) needs unlabelled=0: the closed form is for that case.")
        self._amplified = (1.0 / (1.0 - self.field.weight * self.field.diagonal))[:, None]

    def _value(self, point: Iterate) -> float:
        total = 0.5 * float((self.labels.weight[:, None] * self._left_out(point) ** 2).sum())
        if self.penalty:
            total += 0.5 * self.penalty * float((point.scores**2).sum())
        return total / float(self.labels.weight.sum())

    def _left_out(self, point: Iterate) -> Array:
        return self._amplified * self._errors(point)[1]

    def residual(self, point: Iterate) -> Array:
        """Return −Pᵀ Sᵀ W S e: a second solve."""
        weighted = self._amplified * self.labels.weight[:, None] * self._left_out(point)
        back = self.field.pulled(weighted, self.tolerance)[self.labels.nodes]
        return self._pulled_back(self.labels.weight[:, None] * back - weighted, point)

    def curvature(self, point: Iterate) -> Array:
        """Return |S|P's row sums, where |S| has the entries of S without their signs: K has none that is negative."""
        if self._fixed_curvature is None:
            nodes, n_nodes = self.labels.nodes, self.smoother.shape[0]
            weight, own = self.labels.weight[:, None], (self.field.weight * self.field.diagonal)[:, None]
            heard = self.smoother.apply(np.ones((n_nodes, 1)))[nodes]
            sized = self._amplified * ((1.0 - 2.0 * own) * heard + self.field.spread(heard)[nodes])
            back = weight * self._amplified * sized
            on_nodes = np.zeros((n_nodes, 1))
            on_nodes[nodes] = (1.0 - 2.0 * own) * back + weight * self.field.pulled(back)[nodes]
            if not self.smoother.nonnegative:
                on_nodes[:] = on_nodes.max() * self.smoother.norm_bound**2
                self._fixed_curvature = on_nodes + self.penalty
            else:
                self._fixed_curvature = np.maximum(self.smoother.adjoint(on_nodes), 0.0) + self.penalty
        return self._fixed_curvature

    def newton_step(self, point: Iterate, tree: Array, smoothed_tree: Array) -> float:
        """Return the exact minimiser along the tree."""
        own, taken = self._split(smoothed_tree[self.labels.nodes])
        along, weight = self._amplified * (own - taken), self.labels.weight[:, None]
        slope = -float((weight * self._left_out(point) * along).sum()) + self.penalty * float(
            (point.scores * tree).sum()
        )
        bend = float((weight * along**2).sum()) + self.penalty * float((tree**2).sum())
        return -slope / bend if bend > 0 else 0.0


class MaskedObjective(Objective):
    """The published objective: each round shows a random share of the labels and predicts the others.

    It changes from round to round, so nothing here descends by construction. As published there is no line search:
    the step is the plain gradient of Σ(y − f̃)², twice that of the losses here.
    """

    slack = float("inf")

    def __init__(
        self,
        smoother: SmoothingOperator,
        loss: Loss,
        labels: Labels,
        validation: Labels | None,
        penalty: float,
        masked: Masked,
        seed: int,
    ) -> None:
        super().__init__(smoother, loss, labels, validation, penalty)
        self.base = np.zeros_like(self.base)  # as published, f starts from 0 and the trees find the mean
        self._masked = masked
        self._random = np.random.default_rng(seed)
        self._draw()

    def _draw(self) -> None:
        self._shown = self._random.random(self.labels.nodes.size) < self._masked.share

    def propagate(self, tree: Array) -> Array:
        """Return the tree: what is smoothed depends on the labels shown."""
        return tree

    def _predict(self, point: Iterate) -> Array:
        return masked_prediction(self._masked, self.smoother, point.scores, self.labels)

    def _value(self, point: Iterate) -> float:
        shown, hidden = self.labels.only(self._shown), self.labels.only(~self._shown)
        predicted = masked_prediction(self._masked, self.smoother, point.scores, shown)[hidden.nodes]
        return self._loss_at(hidden, predicted) / max(float(hidden.weight.sum()), 1e-300)

    def residual(self, point: Iterate) -> Array:
        """Return the gradient of the hidden labels' loss through both smoothings, for a fresh draw."""
        self._draw()
        shown, hidden = self.labels.only(self._shown), self.labels.only(~self._shown)
        predicted = masked_prediction(self._masked, self.smoother, point.scores, shown)[hidden.nodes]
        gradient = np.zeros_like(point.scores)
        gradient[hidden.nodes] = hidden.weight[:, None] * self.loss.gradient(predicted, hidden.target)
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
        return np.ones((self.smoother.shape[0], 1))

    def newton_step(self, point: Iterate, tree: Array, smoothed_tree: Array) -> float:
        """Return 2: the gradient of a square, unhalved."""
        return 2.0


def masked_prediction(masked: Masked, smoother: SmoothingOperator, scores: Array, shown: Labels) -> Array:
    """Return the published prediction from the labels shown: errors smoothed (15), labels put in place, smoothed."""
    corrected = scores
    if masked.smooth_errors:
        errors = np.zeros_like(scores)
        errors[shown.nodes] = shown.target - scores[shown.nodes]
        corrected = scores + smoother.apply(errors)
    if masked.smooth_labels:
        corrected = corrected.copy()
        corrected[shown.nodes] = shown.target
        corrected = smoother.apply(corrected)
    return corrected


def objective_for(
    labels: Field | Masked | None,
    graph: Graph | None,
    smoother: SmoothingOperator,
    loss: Loss,
    training: Labels,
    validation: Labels | None,
    penalty: float,
    seed: int,
) -> Objective:
    """Return the objective that trains with this use of labels."""
    if isinstance(labels, Masked):
        return MaskedObjective(smoother, loss, training, validation, penalty, labels, seed)
    if isinstance(labels, Field) and graph is not None and isinstance(loss, SquaredError):
        field = labels.on(graph, training.nodes, training.weight)
        kind = LeftOutObjective if labels.left_out else FieldObjective
        return kind(smoother, loss, training, validation, penalty, field)
    return Objective(smoother, loss, training, validation, penalty)


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

    def choose(self, scores: Array, loss: Loss, training: Labels, field: FieldOperator | None, held: Labels) -> None:
        """Pick temperature and strength by the log-loss of the validation nodes."""
        best = np.inf
        truth = held.weight[:, None] * one_hot(held.target)
        for temperature in self.temperatures:
            plain = loss.link(scores / temperature)
            spread = None if field is None else field.spread(one_hot(training.target) - plain[training.nodes])
            for strength in self.strengths if spread is not None else (0.0,):
                moved = plain if spread is None else _shifted(plain, strength * spread)
                value = -float((truth * np.log(np.maximum(moved[held.nodes], 1e-12))).sum())
                if value < best - 1e-9:
                    best, self.temperature, self.strength = value, temperature, strength

    def choose_left_out(self, scores: Array, loss: Loss, training: Labels, field: FieldOperator) -> None:
        """Pick the strength by the log-loss of the labelled nodes, each without its own label."""
        plain = loss.link(scores / self.temperature)[training.nodes]
        truth = one_hot(training.target)
        shift = (truth - plain) - field.left_out(truth - plain)
        losses = []
        for strength in self.strengths:
            moved = _shifted(plain, strength * shift)
            losses.append(-float((training.weight[:, None] * truth * np.log(moved)).sum()))
        self.strength = self.strengths[int(np.argmin(losses))]

    def probabilities(self, scores: Array, loss: Loss, known: Labels | None, field: FieldOperator | None) -> Array:
        """Return the corrected probabilities of every node."""
        plain = loss.link(scores / self.temperature)
        if field is None or known is None or self.strength == 0.0:
            return plain
        return _shifted(plain, self.strength * field.spread(one_hot(known.target) - plain[known.nodes]))


def expected_calibration_error(probabilities: Array, target: Array, n_bins: int = 15) -> float:
    """Return the mean gap between the stated probability of the predicted class and how often it is right."""
    stated, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == one_hot(target).argmax(axis=1)
    bins = np.minimum((stated * n_bins).astype(int), n_bins - 1)
    gaps = np.bincount(bins, weights=right - stated, minlength=n_bins)
    return float(np.abs(gaps).sum() / stated.size)


def one_hot(target: Array) -> Array:
    """Return targets with a column per class, those of two classes too."""
    return np.hstack([1.0 - target, target]) if target.shape[1] == 1 else target


def _shifted(probabilities: Array, by: Array) -> Array:
    moved = np.maximum(probabilities + by, 1e-6)
    shifted: Array = moved / moved.sum(axis=1, keepdims=True)
    return shifted
