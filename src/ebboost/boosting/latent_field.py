"""The field: errors of labelled nodes as something that varies smoothly over the graph, and the objectives it gives.

The *field* z explains the errors e = y − u of the labelled nodes, u = base + P f: z = K W e with K = (W + λL + τI)⁻¹, the
minimiser of ‖e − z‖²_W + zᵀ(λL + τI)z. The prediction is u + z, which is equation (15) with P for K where W = I.

Trained naively, the trees would see their own labels in z. Two objectives are safe, both fixed quadratics in f, so that
every round descends:

* :class:`FieldObjective`: the energy after z has been minimised out, ½ eᵀW(e − z), as in generalised least squares. An
  error that neighbours share costs less than one that stands alone, whatever a label says of itself. One solve a round.
* :class:`LeaveOneOutObjective`: the squared errors that remain when each node's own label is left out of z, in closed form
  by a rank-one update: e_i − z_i^(−i) = (e_i − z_i)/(1 − w_i K_ii). Two solves a round and the diagonal of K.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from ebboost.boosting.iterate import Iterate
from ebboost.boosting.losses import Loss
from ebboost.boosting.objective import EXACT_UP_TO, Objective, relative
from ebboost.data.labels import Labels
from ebboost.graph import Graph
from ebboost.propagation import GraphMatrix, Propagation, SparseSolver

Array = NDArray[np.float64]
FIRST_HOPS = 8


class LatentField(BaseEstimator):
    """Known labels as a smooth field of errors over the graph.

    Parameters
    ----------
    lam : float, default=2.0
        λ: how strongly neighbours' errors are tied. Weights are divided by √(d_i d_j) first (see ``normalized``), so
        that one value suits sparse and dense graphs.
    tau : float, default=0.05
        τ: how strongly errors are pulled to zero; keeps nodes without labelled neighbours at their own prediction.
    leave_one_out : bool, default=False
        Train on leave-one-out errors rather than on the energy of the field: see the module.
    unlabelled : float, default=0.0
        ε_u, the weight of "no error" at nodes without a label; 1 is the paper's error smoothing.
    normalized : bool, default=True
        Whether weights are divided by √(d_i d_j).
    similarity : bool, default=False
        Connect nodes with similar neighbourhoods (:meth:`Graph.similar_neighborhoods`) rather than
        neighbours: for heterophilous graphs.

    Examples
    --------
    >>> import ebboost as eb
    >>> model = eb.EBBSRegressor(smoothing=eb.Laplacian(1.0, 2), labels=eb.LatentField(lam=5.0))
    """

    def __init__(
        self,
        lam: float = 2.0,
        tau: float = 0.05,
        *,
        leave_one_out: bool = False,
        unlabelled: float = 0.0,
        normalized: bool = True,
        similarity: bool = False,
    ) -> None:
        self.lam = lam
        self.tau = tau
        self.leave_one_out = leave_one_out
        self.unlabelled = unlabelled
        self.normalized = normalized
        self.similarity = similarity

    def operator(self, graph: Graph, nodes: NDArray[np.int64], weight: Array) -> "FieldPosterior":
        """Return K on ``graph`` with labels at ``nodes``."""
        for name, least in (("lam", 0.0), ("tau", 1e-12), ("unlabelled", 0.0)):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not np.isfinite(value) or value < least:
                raise ValueError(
                    f"LatentField's {name} must be a number of at least {least:g}, got {value!r}."
                )
        ties = graph.similar_neighborhoods() if self.similarity else graph
        return FieldPosterior(
            ties, nodes, weight, self.lam, self.tau, self.unlabelled, self.normalized
        )


class FieldPosterior:
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
        self._graph = graph
        self.nodes, self.n_nodes, self.unlabelled, self.tau = nodes, graph.n_nodes, unlabelled, tau
        self.weight = relative(weight)
        degrees, self.signed = graph.degrees, graph.is_signed
        root, ties = None, degrees
        if normalized:
            root = 1.0 / np.sqrt(np.where(degrees > 0, degrees, 1.0))
            ties = root * (graph.unsigned.adjacency @ root)
        on_nodes = np.full_like(degrees, float(unlabelled))
        on_nodes[nodes] = self.weight
        # A node without edges would be free to explain its whole error away; it is held as firmly as any other.
        ties = np.where(degrees > 0, ties, float(normalized))
        matrix = GraphMatrix(graph.adjacency, on_nodes + tau + lam * ties, lam, root)
        self._floor = on_nodes + tau
        self._remedy = f"Use a smaller lam (now {lam}) or a larger tau (now {tau}){'' if normalized else ', or normalized=True'}."
        self._solver = SparseSolver(matrix, self._remedy, float(self._floor.min()))
        self._diagonal: Array | None = None

    def posterior_mean(self, errors: Array, tolerance: float = 1e-10) -> Array:
        """Return z = K W e on all nodes, for errors of shape (m, c) at the labelled nodes."""
        return self.solve_labelled(self.weight[:, None] * errors, tolerance)

    def solve_labelled(self, values: Array, tolerance: float = 1e-10) -> Array:
        """Return K v on all nodes, for v at the labelled nodes."""
        right = np.zeros((self.n_nodes, values.shape[1]), like=values)
        right[self.nodes] = values
        return self._solver.solve(right, tolerance)

    def solve_local(
        self, nodes: NDArray[np.int64], values: Array, tolerance: float
    ) -> tuple[NDArray[np.int64], Array]:
        """Return K v for v at ``nodes`` alone, near them, and where: nowhere off by more than ``tolerance``·max |v|.

        The system is solved on a ball B, as if z were 0 beyond it. What that leaves unsolved is the pull of z on the nodes
        just outside, and as every row of K⁻¹ exceeds its other entries by w_i + τ, no entry of z is off by more than the
        largest of it divided by the least w_i + τ. The ball grows until that is small; one that holds a quarter of all
        nodes is not worth it, and all is solved for.
        """
        matrix, hops = self._solver.matrix, FIRST_HOPS
        allowed = tolerance * float(np.abs(values).max(initial=0.0)) * float(self._floor.min())
        while True:
            near = self._graph.neighborhood(nodes, hops)
            if near.nodes.size > self.n_nodes // 4:
                right = np.zeros((self.n_nodes, values.shape[1]))
                right[nodes] = values
                return np.arange(self.n_nodes), self.solve(right)
            inner = near.distance < hops
            inside, ring, ties = near.nodes[inner], near.nodes[~inner], near.graph.adjacency[inner]
            root, diagonal = matrix.root[inside], matrix.diagonal[inside]
            within = GraphMatrix(sparse.csr_array(ties[:, inner]), diagonal, matrix.strength, root)
            right = np.zeros((inside.size, values.shape[1]))
            right[np.searchsorted(inside, nodes)] = values
            found = SparseSolver(within, self._remedy, float(self._floor.min())).solve(right)
            outward = ties[:, ~inner].T @ (root[:, None] * found)
            unsolved = np.abs(matrix.strength * matrix.root[ring, None] * outward).max(initial=0.0)
            if unsolved <= allowed:
                return inside, found
            hops += hops // 2

    def solve(self, values: Array) -> Array:
        """Return K v on all nodes, for v on all nodes."""
        return self._solver.solve(values)

    def leave_one_out(self, errors: Array) -> Array:
        """Return e_i − z_i^(−i), the error at each labelled node when its own label is left out of the field."""
        own = ((self.weight - self.unlabelled) * self.diagonal)[:, None]
        smoothed = self.posterior_mean(errors)[self.nodes]
        without = (smoothed - (self.weight * self.diagonal)[:, None] * errors) / (1.0 - own)
        return errors - without

    @property
    def diagonal(self) -> Array:
        """K_ii at the labelled nodes.

        Exact up to 10 000 nodes. Beyond, the mean of v ⊙ K v over 128 random sign vectors, whose standard error at node
        i is √(Σ_{j≠i} K_ij² / 128), kept within the bounds 1/M_ii ≤ K_ii ≤ 1/(w_i + τ) that hold for any graph.
        """
        if self._diagonal is None:
            self._diagonal = (
                self._exact_diagonal()
                if self.n_nodes <= self.exact_diagonal_up_to
                else self._estimated()
            )
        return self._diagonal

    def _exact_diagonal(self) -> Array:
        found = np.empty(self.nodes.size, like=self.weight)
        for start in range(0, self.nodes.size, 256):
            block = self.nodes[start : start + 256]
            right, column = (
                np.zeros((self.n_nodes, block.size), like=self.weight),
                np.arange(block.size, like=block),
            )
            right[block, column] = 1.0
            found[start : start + 256] = self._solver.solve(right)[block, column]
        return found

    def _estimated(self) -> Array:
        random = np.random.default_rng(0)
        total = np.zeros(self.n_nodes, like=self.weight)
        for _ in range(self.probes // 16):
            drawn = random.integers(0, 2, (self.n_nodes, 16)).astype(
                np.int8
            )  # an eighth of the bytes to move to a GPU
            signs: Any = 2.0 * np.asarray(drawn, like=self.weight) - 1.0
            total += (signs * self._solver.solve(signs, 1e-4)).sum(axis=1)
        bounded = np.clip(
            total / self.probes, 1.0 / self._solver.matrix.diagonal, 1.0 / self._floor
        )
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
        smoother: Propagation,
        loss: Loss,
        labels: Labels,
        validation: Labels | None,
        penalty: float,
        field: FieldPosterior,
    ) -> None:
        self.field = field
        # On large graphs, solves during training stop early. The error left in z is at most the residual over τ, the
        # least eigenvalue that a field can have: the weaker τ, the farther they must go.
        self.tolerance = 1e-6 if field.n_nodes <= EXACT_UP_TO else min(0.4 * field.tau, 0.1)
        # The weights of the field are relative to their mean, and those of the loss must be the same.
        super().__init__(
            smoother, loss, Labels(labels.nodes, labels.target, field.weight), validation, penalty
        )
        self._from_labels = field.posterior_mean(labels.target - self.base)

    def _carried(self, smoothed: Array) -> Array:
        """P h beside K W (P h): the one solve of a round."""
        return np.hstack(
            [smoothed, self.field.posterior_mean(smoothed[self.labels.index], self.tolerance)]
        )

    def _split(self, smoothed: Array) -> tuple[Array, Array]:
        outputs = self.labels.target.shape[1]
        return smoothed[:, :outputs], smoothed[:, outputs:]

    def _predict(self, point: Iterate) -> Array:
        own, taken = self._split(point.smoothed)
        return self.base + own + self._from_labels - taken

    def _errors(self, point: Iterate) -> tuple[Array, Array]:
        """The errors e, and e − z, at the labelled nodes."""
        own, _ = self._split(point.smoothed)
        nodes, target = self.labels.nodes, self.labels.target
        return point.cached(
            "errors", lambda: (target - self.base - own[nodes], target - self.predict(point)[nodes])
        )

    def _value(self, point: Iterate) -> float:
        errors, left = self._errors(point)
        return self._penalized_mean(
            0.5 * float((self.labels.weight[:, None] * errors * left).sum()), point
        )

    def gradient(self, point: Iterate) -> Array:
        """Return −Pᵀ W (e − z), on all n nodes."""
        return self._pulled_back(-self.labels.weight[:, None] * self._errors(point)[1], point)

    def newton_step(self, point: Iterate, tree: Array, smoothed_tree: Array) -> float:
        """Return the exact minimiser along the tree."""
        own, taken = self._split(smoothed_tree[self.labels.index])
        weight = self.labels.weight[:, None]
        slope = -float((weight * self._errors(point)[1] * own).sum())
        return self._penalized_step(slope, float((weight * own * (own - taken)).sum()), point, tree)


class LeaveOneOutObjective(FieldObjective):
    """½ Σ w_i (e_i − z_i^(−i))²: the squared leave-one-out errors S e, with S = diag(1/(1 − w K_ii)) (I − K W)."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if self.field.signed:
            raise ValueError(
                "labels='leave-one-out' needs relations of positive strength; 'field' takes any."
            )
        if self.field.unlabelled:
            raise ValueError(
                "labels=LatentField(leave_one_out=True) needs unlabelled=0: the closed form is for that case."
            )
        self._amplified = (1.0 / (1.0 - self.field.weight * self.field.diagonal))[:, None]

    def _value(self, point: Iterate) -> float:
        return self._penalized_mean(
            0.5 * float((self.labels.weight[:, None] * self._left_out(point) ** 2).sum()), point
        )

    def _left_out(self, point: Iterate) -> Array:
        return self._amplified * self._errors(point)[1]

    def gradient(self, point: Iterate) -> Array:
        """Return −Pᵀ Sᵀ W S e: a second solve."""
        weighted = self._amplified * self.labels.weight[:, None] * self._left_out(point)
        back = self.field.solve_labelled(weighted, self.tolerance)[self.labels.index]
        return self._pulled_back(self.labels.weight[:, None] * back - weighted, point)

    def curvature(self, point: Iterate) -> Array:
        """Return |S|P's row sums, where |S| has the entries of S without their signs: K has none that is negative."""
        if self._fixed_curvature is None or not self.smoother.linear:
            smoother = self.linearize(point)
            nodes = self.labels.nodes
            weight, own = (
                self.labels.weight[:, None],
                (self.field.weight * self.field.diagonal)[:, None],
            )
            magnitude, everyone = smoother.magnitude, self._filled(1.0)
            heard = (everyone if magnitude is None else magnitude.apply(everyone))[nodes]
            sized = self._amplified * (
                (1.0 - 2.0 * own) * heard + self.field.posterior_mean(heard)[nodes]
            )
            back = weight * self._amplified * sized
            on_nodes = self._filled(0.0)
            on_nodes[nodes] = (1.0 - 2.0 * own) * back + weight * self.field.solve_labelled(back)[
                nodes
            ]
            if magnitude is None:
                on_nodes[:] = on_nodes.max() * smoother.norm_bound**2
            else:
                on_nodes = np.maximum(magnitude.adjoint(on_nodes), 0.0)
            return self._kept_curvature(on_nodes + self.penalty)
        return self._fixed_curvature

    def newton_step(self, point: Iterate, tree: Array, smoothed_tree: Array) -> float:
        """Return the exact minimiser along the tree."""
        own, taken = self._split(smoothed_tree[self.labels.index])
        along, weight = self._amplified * (own - taken), self.labels.weight[:, None]
        slope = -float((weight * self._left_out(point) * along).sum())
        return self._penalized_step(slope, float((weight * along**2).sum()), point, tree)
