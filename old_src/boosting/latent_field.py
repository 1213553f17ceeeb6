"""Equation (15): residuals as a latent field over the graph, and two objectives to train with it.

The residuals e = y − u of the labelled nodes, u = init_score + P f, are explained by a Gaussian
Markov random field z with precision matrix λL + τI: z = K W e with K = (W + λL + τI)⁻¹ minimises
‖e − z‖²_W + zᵀ(λL + τI)z. The prediction is u + z, which is (15) with K for P where W = I.

If trees were trained on e − z, they would see their own labels in z. Two objectives avoid that.
Both are fixed quadratics in f, so that every round descends:

* :class:`FieldObjective`: z minimised out, ½ eᵀW(e − z), which is generalised least squares. A
  residual that neighbours share costs less than one that stands alone. One solve a round.
* :class:`LeaveOneOutObjective`: squared leave-one-out residuals, in closed form by a rank-one
  update: e_i − z_i^(−i) = (e_i − z_i)/(1 − w_i K_ii). Two solves a round and the diagonal of K.
"""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ebboost.boosting.iterate import Iterate
from ebboost.boosting.losses import Loss
from ebboost.boosting.objective import Objective, relative_weights, trains_in_double_precision
from ebboost.boosting.posterior_variance import PROBE_SEED, Variances, diagonal_of_inverse
from ebboost.data.labels import Labels
from ebboost.data.once import lazy_property
from ebboost.data.parameters import check_number
from ebboost.data.sharded import total_rows
from ebboost.data.types import Array, IntArray
from ebboost.graph import Graph
from ebboost.propagation import Factor, GraphMatrix, Propagation, SparseSolver

# Relative accuracy of solves whose result is reported, and in training in double precision.
SOLVE_TOLERANCE = 1e-10
TRAINING_TOLERANCE = 1e-6
# The same for squared error in one process; models in shards shall be those of one process, which
# factorises where it can. With 1e-6 the default has the same loss at held-out labels to 4 digits on
# Avazu and twitch, in 1.2 to 1.4 times the time.
QUADRATIC_TOLERANCE = 1e-4
# On larger graphs training solves stop at this share of τ, and at MAX_TRAINING_TOLERANCE: the error
# left in z is at most the residual of the solve over τ, the least eigenvalue that K⁻¹ can have. On
# LUCAS this moves the RMSE by 0.2 % against full accuracy, a share and a maximum of 1 by up to 3 %.
LOOSE_SHARE_OF_TAU = 0.4
MAX_TRAINING_TOLERANCE = 0.1
# Least τ: K⁻¹ must stay positive definite. It has the units of the curvature of the loss; how small
# it may be beside λ and the weights, the solver checks.
MIN_TAU = 1e-300
MAX_STRENGTH = 1e100
# Radius in hops of the first neighbourhood that solve_local tries; not tuned.
FIRST_RADIUS = 8
# Right-hand sides solved at once for the diagonal of K; they bound the memory. Not tuned.
EXACT_BATCH = 256
PROBE_BATCH = 16
# Nodes up to which posterior variances are solved for one by one, and the accuracy of the solves.
MAX_EXACT_NODES = 16
EXACT_TOLERANCE = 1e-6
# Accuracy of the solves with random probes, whose sampling error is far larger.
PROBE_TOLERANCE = 1e-4


@dataclass(eq=False, repr=False)
class LatentField(BaseEstimator):
    """A latent field of residuals over the graph, informed by known labels: parameters of (15).

    Parameters
    ----------
    lam : float, default=2.0
        λ, the weight of differences between neighbours in the prior of the field. Edge weights are
        divided by √(d_i d_j) first (see ``normalized``), so that one value suits sparse and dense
        graphs.
    tau : float, default=0.05
        τ, the weight of the field itself, which shrinks it to zero: a node far from labelled nodes
        is predicted by the trees alone.
    leave_one_out : bool, default=False
        Train on leave-one-out residuals (:class:`LeaveOneOutObjective`) rather than by generalised
        least squares (:class:`FieldObjective`).
    unlabelled : float, default=0.0
        ε_u, the weight of a zero residual at nodes without a label; 1 is the paper's error
        smoothing.
    normalized : bool, default=True
        Whether edge weights are divided by √(d_i d_j).
    similarity : bool, default=False
        Connect nodes with similar neighbourhoods (:meth:`Graph.similar_neighborhoods`) rather than
        neighbours: for heterophilous graphs.

    Examples
    --------
    >>> import ebboost as eb
    >>> model = eb.EBBSRegressor(smoothing=eb.Laplacian(1.0, 2), labels=eb.LatentField(lam=5.0))
    """

    lam: float = 2.0
    tau: float = 0.05
    _: KW_ONLY
    leave_one_out: bool = False
    unlabelled: float = 0.0
    normalized: bool = True
    similarity: bool = False

    def operator(self, graph: Graph, nodes: IntArray, weight: Array) -> "FieldPosterior":
        """Return the posterior of the field on a graph.

        Parameters
        ----------
        graph : Graph
        nodes : ndarray of int, shape (m,)
            The labelled nodes.
        weight : ndarray of shape (m,)
            The weight of each label; only ratios count.

        Returns
        -------
        FieldPosterior
        """
        check_number("LatentField: lam", self.lam, low=0.0, high=MAX_STRENGTH)
        check_number("LatentField: tau", self.tau, low=MIN_TAU, high=MAX_STRENGTH)
        check_number("LatentField: unlabelled", self.unlabelled, low=0.0, high=MAX_STRENGTH)
        if self.leave_one_out and self.unlabelled:
            raise ValueError("LatentField(leave_one_out=True) needs unlabelled=0.")
        if self.similarity:
            graph = graph.similar_neighborhoods()
        if graph.groups is not None:
            # Imported when used: it is a subclass of what this module defines.
            from ebboost.boosting.grouped_field import GroupedPosterior

            return GroupedPosterior(graph, nodes, weight, self)
        return FieldPosterior(graph, nodes, weight, self)


def scaled_field(field: LatentField, factor: float) -> LatentField:
    """Return a field with strengths times a factor, rounded to two digits."""
    lam, tau = (float(f"{factor * strength:.2g}") for strength in (field.lam, field.tau))
    return replace(field, lam=min(lam, MAX_STRENGTH), tau=min(max(tau, MIN_TAU), MAX_STRENGTH))


class FieldPosterior:
    """The posterior of a latent field given residuals at labelled nodes.

    The precision matrix is K⁻¹ = W + λL + τI, with L the Laplacian of D^{-1/2}AD^{-1/2} (of A, if
    not ``normalized``) and W the weights of the labels.
    """

    #: Up to this many nodes the diagonal of K is exact, beyond it is estimated.
    exact_diagonal_up_to = 10_000
    #: Random sign vectors of the estimate.
    probes = 128
    #: Whether the graph is in the memory of one process.
    in_memory = False

    def __init__(self, graph: Graph, nodes: IntArray, weight: Array, field: LatentField) -> None:
        lam = field.lam
        tau = field.tau
        self._graph = graph
        self.nodes = nodes
        self.n_nodes = graph.n_nodes
        #: Number of nodes, those of other workers included.
        self.n_total = total_rows(graph.degrees)
        self.in_memory = isinstance(graph.adjacency, sparse.csr_array)
        self.unlabelled = field.unlabelled
        self.tau = tau
        self.weight = relative_weights(weight)
        self.signed = graph.is_signed
        degrees = graph.degrees
        root = None
        row_sums = degrees
        if field.normalized:
            root = 1.0 / np.sqrt(np.where(degrees > 0, degrees, 1.0))
            row_sums = root * (graph.unsigned.adjacency @ root)
        # The field of a node without edges is shrunk as if it had one neighbour.
        row_sums = np.where(degrees > 0, row_sums, float(field.normalized))
        on_nodes = np.full_like(degrees, float(field.unlabelled))
        on_nodes[nodes] = 0.0
        prior = on_nodes + (tau + lam * row_sums)
        #: Precision matrix of the prior, λL + τI, and ``unlabelled`` at nodes without a label.
        self.prior: Any = GraphMatrix(graph.adjacency, prior, lam, root)
        on_nodes[nodes] = self.weight
        # w_i + τ, by which each row of K⁻¹ exceeds its off-diagonal entries.
        self._dominance = on_nodes + tau
        self._matrix = self.prior.replace(self._dominance + lam * row_sums, lam)
        self._remedy = f"Use a smaller lam (now {lam}) or a larger tau (now {tau})"
        self._remedy += "." if field.normalized else ", or normalized=True."
        self._near: list[Factor | None] = []

    @lazy_property
    def _solver(self) -> SparseSolver:
        """Of K⁻¹, for squared error; other losses have systems of their own."""
        return SparseSolver(self._matrix, self._remedy, float(self._dominance.min()))

    def factorize(self, curvature: Array | None = None) -> None:
        """Prepare for hundreds of solves, of systems with curvatures near these."""
        if curvature is None:
            self._solver.factorize()
            return
        solvers = [self._system(column) for column in curvature.T]
        for solver in solvers:
            solver.factorize()
        self._near = [solver.factor for solver in solvers]

    @property
    def has_factor(self) -> bool:
        """Whether systems are solved by the factors of others."""
        return any(factor is not None for factor in self._near)

    def _system(self, curvature: Array, near: Factor | None = None) -> SparseSolver:
        """H + λL + τI, with H at the labelled nodes."""
        diagonal = self.prior.diagonal.copy()
        diagonal[self.nodes] += curvature
        matrix = self.prior.replace(diagonal, self.prior.strength)
        return SparseSolver(matrix, self._remedy, self.tau, near)

    def posterior_mean(self, residuals: Array, tolerance: float = SOLVE_TOLERANCE) -> Array:
        """Return z = K W e on all nodes, for residuals e of shape (m, c) at the labelled nodes."""
        return self.solve_labelled(self.weight[:, None] * residuals, tolerance)

    def solve_labelled(self, values: Array, tolerance: float = SOLVE_TOLERANCE) -> Array:
        """Return K v on all nodes, for v of shape (m, c) at the labelled nodes."""
        return self._solver.solve(self._on_all_nodes(self.nodes, values), tolerance)

    def solve(self, values: Array) -> Array:
        """Return K v on all nodes, for v on all nodes."""
        return self._solver.solve(values)

    def solve_system(self, curvature: Array, right: Array, tolerance: float) -> Array:
        """Return (H + λL + τI)⁻¹ b on all nodes, with H of shape (m, c) at the labelled nodes.

        A column of H is the curvature of a likelihood that is not Gaussian, in place of W.
        """
        solution = np.empty_like(right)
        for column in range(right.shape[1]):
            own = min(column, curvature.shape[1] - 1)
            solver = self._system(curvature[:, own], self._near[own] if self._near else None)
            solution[:, column] = solver.solve(right[:, column], tolerance)
        return solution

    def respond(self, curvature: Array, values: Array, tolerance: float) -> Array:
        """Return (H + λL + τI)⁻¹ v on all nodes, for v at the labelled nodes."""
        return self.solve_system(curvature, self._on_all_nodes(self.nodes, values), tolerance)

    def squared_norm(self, gradient: Array, nodes: IntArray | None = None) -> float:
        """Return ‖∂E/∂z‖² for derivatives at all or some nodes."""
        return float((gradient * gradient).sum())

    def variances(self, curvature: Array, nodes: IntArray | None = None) -> Variances:
        """Return the diagonal of (H + λL + τI)⁻¹, with H of shape (m,) at the labelled nodes.

        These are posterior variances in units of the dispersion. They are exact for a few
        ``nodes``, and for all where the matrix fills in little.
        """
        solver = self._system(curvature)
        if nodes is None or nodes.size > MAX_EXACT_NODES:
            solver.factorize()
            if solver.factor is not None:
                every = Variances(solver.factor.inverse_diagonal(), 0.0)
            else:
                matrix = solver.matrix
                rows = (matrix.edges, matrix.diagonal)
                every = diagonal_of_inverse(*rows, self.tau, solver.solve, matrix.sweep.with_halo)
            return every if nodes is None else Variances(every.values[nodes], every.relative_error)
        column = np.arange(nodes.size)
        unit = np.zeros((self.n_nodes, nodes.size))
        unit[nodes, column] = 1.0
        return Variances(solver.solve(unit, EXACT_TOLERANCE)[nodes, column], 0.0)

    def _on_all_nodes(self, nodes: IntArray, values: Array) -> Array:
        on_nodes = np.zeros((self.n_nodes, values.shape[1]), like=values)
        on_nodes[nodes] = values
        return on_nodes

    def solve_local(
        self, nodes: IntArray, values: Array, tolerance: float
    ) -> tuple[IntArray, Array]:
        """Return the nodes near ``nodes`` and K v there, for v that is zero elsewhere.

        No entry of K v, there or beyond, is off by more than ``tolerance``·max |v|. The system is
        solved on a neighbourhood, as if z were 0 outside of it. Its residual is then nonzero only
        on the ring around the neighbourhood, and as row i of K⁻¹ exceeds its off-diagonal entries
        by w_i + τ, no entry of z is off by more than the largest residual over the least w_i + τ.
        The radius grows by half until that is small enough; from a quarter of all nodes on, the
        full system is solved.
        """
        matrix = self._matrix
        floor = float(self._dominance.min())
        allowed = tolerance * float(np.abs(values).max(initial=0.0)) * floor
        radius = FIRST_RADIUS
        while True:
            near = self._graph.neighborhood(nodes, radius)
            if near.nodes.size > self.n_nodes // 4:
                return np.arange(self.n_nodes), self.solve(self._on_all_nodes(nodes, values))
            is_inner = near.distance < radius
            inner = near.nodes[is_inner]
            ring = near.nodes[~is_inner]
            adjacency = near.graph.adjacency[is_inner]
            root = matrix.root[inner]
            within = sparse.csr_array(adjacency[:, is_inner])
            local = GraphMatrix(within, matrix.diagonal[inner], matrix.strength, root)
            right = np.zeros((inner.size, values.shape[1]))
            right[np.searchsorted(inner, nodes)] = values
            solution = SparseSolver(local, self._remedy, floor).solve(right)
            outward = adjacency[:, ~is_inner].T @ (root[:, None] * solution)
            residual = np.abs(matrix.strength * matrix.root[ring, None] * outward)
            if residual.max(initial=0.0) <= allowed:
                return inner, solution
            radius += radius // 2

    def leave_one_out(self, residuals: Array) -> Array:
        """Return e_i − z_i^(−i): residuals, each without the node's own label in the field."""
        diagonal = self.diagonal
        own = ((self.weight - self.unlabelled) * diagonal)[:, None]
        mean = self.posterior_mean(residuals)[self.nodes]
        without = (mean - (self.weight * diagonal)[:, None] * residuals) / (1.0 - own)
        return residuals - without

    @lazy_property
    def diagonal(self) -> Array:
        """K_ii at the labelled nodes.

        Exact up to 10 000 nodes, and where the matrix fills in little. Beyond, the mean of v ⊙ K v
        over 128 random sign vectors, whose standard error at node i is √(Σ_{j≠i} K_ij² / 128),
        within the bounds 1/(K⁻¹)_ii ≤ K_ii ≤ 1/(w_i + τ).
        """
        self.factorize()
        if self._solver.factor is not None:
            return self._solver.factor.inverse_diagonal()[self.nodes]
        if self.n_nodes > self.exact_diagonal_up_to:
            return self._estimated_diagonal()
        diagonal = np.empty(self.nodes.size, like=self.weight)
        for start in range(0, self.nodes.size, EXACT_BATCH):
            batch = self.nodes[start : start + EXACT_BATCH]
            column = np.arange(batch.size, like=batch)
            right = np.zeros((self.n_nodes, batch.size), like=self.weight)
            right[batch, column] = 1.0
            diagonal[start : start + EXACT_BATCH] = self._solver.solve(right)[batch, column]
        return diagonal

    def _estimated_diagonal(self) -> Array:
        random = np.random.default_rng(PROBE_SEED)
        total = np.zeros(self.n_nodes, like=self.weight)
        for _ in range(self.probes // PROBE_BATCH):
            bits = random.integers(0, 2, (self.n_nodes, PROBE_BATCH))
            # Moved to a GPU as bytes: an eighth of the traffic.
            signs = np.asarray(bits.astype(np.int8), like=self.weight) * np.float64(2.0) - 1.0
            total += (signs * self._solver.solve(signs, PROBE_TOLERANCE)).sum(axis=1)
        least = 1.0 / self._matrix.diagonal
        return np.clip(total / self.probes, least, 1.0 / self._dominance)[self.nodes]


def training_tolerance(field: FieldPosterior, curvature: float = 1.0) -> float:
    """Return the relative accuracy of solves in training, for a mean curvature of the loss."""
    if trains_in_double_precision(field.n_total):
        return TRAINING_TOLERANCE
    return min(LOOSE_SHARE_OF_TAU * field.tau / curvature, MAX_TRAINING_TOLERANCE)


class FieldObjective(Objective):
    """½ eᵀW(e − z): generalised least squares, the squared error with the field minimised out.

    The smoothed scores of iterates have a second block of columns, K W (P f) on all nodes, so that
    z needs no solve of its own. As W − WKW ≼ W, the curvature of the squared error majorises this
    objective too.
    """

    # Solves during training are not exact: their error alone may raise a value by this share. On
    # LUCAS, values from 1e-12 to 0.1 give the same model.
    descent_tolerance = 1e-3

    def __init__(
        self,
        operator: Propagation,
        loss: Loss,
        labels: Labels,
        validation: Labels | None,
        penalty: float,
        field: FieldPosterior,
        offset: Array | None = None,
    ) -> None:
        self.field = field
        field.factorize()
        least = QUADRATIC_TOLERANCE if field.in_memory else 0.0
        self.tolerance = max(training_tolerance(field), least)
        # Both the field and the loss use weights relative to their mean.
        labels = Labels(labels.nodes, labels.target, field.weight)
        super().__init__(operator, loss, labels, validation, penalty, offset)
        self._label_field = self._field_of_labels()

    def start_from(self, init_score: Array, scores: Array) -> None:
        """Start at the initial score and the scores f of an earlier model."""
        super().start_from(init_score, scores)
        self._label_field = self._field_of_labels()

    def _field_of_labels(self) -> Array:
        nodes = self.labels.nodes
        return self.field.posterior_mean(self.labels.target - self.fixed_scores(nodes))

    def _augment(self, smoothed: Array) -> Array:
        """P h and K W (P h): the one solve of a round."""
        field = self.field.posterior_mean(smoothed[self.labels.index], self.tolerance)
        return np.hstack([smoothed, field])

    def _predict(self, point: Iterate) -> Array:
        propagated, field = self._split(point.smoothed)
        return self.fixed_scores() + propagated + self._label_field - field

    def _residuals(self, point: Iterate) -> tuple[Array, Array]:
        """The residuals e, and e − z, at the labelled nodes."""

        def compute() -> tuple[Array, Array]:
            propagated, _ = self._split(point.smoothed)
            nodes = self.labels.nodes
            target = self.labels.target
            remainder = target - self.predict(point)[nodes]
            return target - self.fixed_scores(nodes) - propagated[nodes], remainder

        return point.cached("residuals", compute)

    def _value(self, point: Iterate) -> float:
        residuals, remainder = self._residuals(point)
        total = 0.5 * float((self.labels.weight[:, None] * residuals * remainder).sum())
        return self._penalized_mean(total, point)

    def gradient(self, point: Iterate) -> Array:
        """Return −Pᵀ W (e − z) + εf, on all n nodes."""
        return self._adjoint(-self.labels.weight[:, None] * self._residuals(point)[1], point)

    def newton_step(self, point: Iterate, tree: Array, smoothed_tree: Array) -> float:
        """Return the exact minimiser along the tree."""
        propagated, field = self._split(smoothed_tree[self.labels.index])
        weight = self.labels.weight[:, None]
        gradient = -float((weight * self._residuals(point)[1] * propagated).sum())
        curvature = float((weight * propagated * (propagated - field)).sum())
        return self._parabola_minimum(gradient, curvature, point, tree)


class LeaveOneOutObjective(FieldObjective):
    """½ Σ w_i (e_i − z_i^(−i))²: squared leave-one-out residuals.

    They are S e with S = diag(1/(1 − w K_ii)) (I − K W).
    """

    @lazy_property
    def _leverage(self) -> Array:
        """w_i K_ii."""
        return (self.field.weight * self.field.diagonal)[:, None]

    @lazy_property
    def _scale(self) -> Array:
        return 1.0 / (1.0 - self._leverage)

    def _value(self, point: Iterate) -> float:
        squares = self.labels.weight[:, None] * self._left_out(point) ** 2
        return self._penalized_mean(0.5 * float(squares.sum()), point)

    def _left_out(self, point: Iterate) -> Array:
        """Leave-one-out residuals S e."""
        return self._scale * self._residuals(point)[1]

    def gradient(self, point: Iterate) -> Array:
        """Return −Pᵀ Sᵀ W S e + εf: a second solve."""
        weighted = self._scale * self.labels.weight[:, None] * self._left_out(point)
        field = self.field.solve_labelled(weighted, self.tolerance)[self.labels.index]
        return self._adjoint(self.labels.weight[:, None] * field - weighted, point)

    def curvature(self, point: Iterate) -> Array:
        """Return the row sums of (|S|P)ᵀ W |S|P, with |S| known because K has no negative entry."""
        if self._fixed_curvature is not None and self.operator.linear:
            return self._fixed_curvature
        operator = self.linearize(point)
        bound = operator.magnitude
        nodes = self.labels.nodes
        weight = self.labels.weight[:, None]
        off_diagonal = 1.0 - 2.0 * self._leverage
        ones = self._constant(1.0)
        row_sums = (ones if bound is None else bound.apply(ones))[nodes]
        field_sums = self.field.posterior_mean(row_sums)[nodes]
        row_sums = self._scale * (off_diagonal * row_sums + field_sums)
        weighted = weight * self._scale * row_sums
        on_nodes = self._constant(0.0)
        field = self.field.solve_labelled(weighted)[nodes]
        on_nodes[nodes] = off_diagonal * weighted + weight * field
        if bound is None:
            on_nodes[:] = on_nodes.max() * operator.norm_bound**2
        else:
            on_nodes = np.maximum(bound.adjoint(on_nodes), 0.0)
        return self._freeze_curvature(on_nodes + self.penalty)

    def newton_step(self, point: Iterate, tree: Array, smoothed_tree: Array) -> float:
        """Return the exact minimiser along the tree."""
        propagated, field = self._split(smoothed_tree[self.labels.index])
        direction = self._scale * (propagated - field)
        weight = self.labels.weight[:, None]
        gradient = -float((weight * self._left_out(point) * direction).sum())
        curvature = float((weight * direction**2).sum())
        return self._parabola_minimum(gradient, curvature, point, tree)
