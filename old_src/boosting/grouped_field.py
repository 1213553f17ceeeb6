"""The latent field where several rows share a node: η = f + S z, with S the group of each row.

The rows of a group have one value of the field: K⁻¹ = SᵀWS + λL + τI on the groups. Values on rows
are those of their groups, and sums over rows are sums over groups, so that the objectives need not
know about groups.
"""

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu
from sklearn.base import clone

from ebboost.boosting.latent_field import SOLVE_TOLERANCE, FieldPosterior, LatentField
from ebboost.boosting.objective import relative_weights
from ebboost.boosting.posterior_variance import Variances
from ebboost.data.graph_columns import group_sums
from ebboost.data.once import lazy_property
from ebboost.data.sharded import total_rows
from ebboost.data.types import Array, IntArray
from ebboost.graph import Graph
from ebboost.propagation import GraphMatrix


class GroupedPosterior(FieldPosterior):
    """The posterior of a field on the groups of rows; its values are those of the rows."""

    def __init__(self, graph: Graph, nodes: IntArray, weight: Array, field: LatentField) -> None:
        if field.unlabelled:
            raise ValueError("LatentField(unlabelled=...) is not supported with groups.")
        assert graph.groups is not None
        self._graph = graph.groups.graph
        self._group_of = graph.groups.group_of
        self.nodes = nodes
        self.n_nodes = graph.n_nodes
        self.n_total = total_rows(self._group_of)
        self.unlabelled = 0.0
        self.tau = field.tau
        self.weight = relative_weights(weight)
        self.signed = False
        total = self._sums(nodes, self.weight[:, None])[:, 0]
        self._labelled = np.flatnonzero(total)
        # Weights are taken relative to their mean, so the strengths are too; K is times the mean.
        self._scale = float(total[self._labelled].mean())
        scaled = clone(field).set_params(lam=field.lam / self._scale, tau=field.tau / self._scale)
        self._groups = FieldPosterior(self._graph, self._labelled, total[self._labelled], scaled)
        self.prior = _GroupedPrior(self._groups.prior, self._group_of, self._scale)

    def _sums(self, rows: IntArray | slice, values: Array) -> Array:
        """Sums of values of rows over the groups."""
        return group_sums(values, self._group_of[rows], self._graph.n_nodes)

    def factorize(self, curvature: Array | None = None) -> None:
        """Prepare for hundreds of solves, of systems with curvatures near these."""
        self._groups.factorize(None if curvature is None else self._of_groups(curvature))

    @property
    def has_factor(self) -> bool:
        """Whether systems are solved by the factors of others."""
        return self._groups.has_factor

    def _of_groups(self, curvature: Array) -> Array:
        return self._sums(self.nodes, curvature)[self._labelled] / self._scale

    def solve_labelled(self, values: Array, tolerance: float = SOLVE_TOLERANCE) -> Array:
        """Return K v on all rows, for v of shape (m, c) at the labelled rows."""
        on_groups = self._sums(self.nodes, values)[self._labelled]
        return self._of_rows(self._groups.solve_labelled(on_groups / self._scale, tolerance))

    def solve(self, values: Array) -> Array:
        """Return K v on all rows, for v on all rows."""
        on_groups = self._sums(slice(None), values)
        return self._of_rows(self._groups.solve(on_groups / self._scale))

    def solve_system(self, curvature: Array, right: Array, tolerance: float) -> Array:
        """Return (SᵀHS + λL + τI)⁻¹ Sᵀb on all rows, with H at the labelled ones."""
        return self._solve_groups(curvature, self._sums(slice(None), right), tolerance)

    def respond(self, curvature: Array, values: Array, tolerance: float) -> Array:
        """Return (SᵀHS + λL + τI)⁻¹ Sᵀv on all rows, for v at the labelled rows."""
        return self._solve_groups(curvature, self._sums(self.nodes, values), tolerance)

    def _solve_groups(self, curvature: Array, right: Array, tolerance: float) -> Array:
        system = (self._of_groups(curvature), right / self._scale, tolerance)
        return self._of_rows(self._groups.solve_system(*system))

    def _of_rows(self, values: Array) -> Array:
        return take_rows(values, self._group_of)

    def squared_norm(self, gradient: Array, nodes: IntArray | None = None) -> float:
        """Return ‖∂E/∂z‖² for derivatives at all or some rows, whose sums are those of groups."""
        sums = self._sums(slice(None) if nodes is None else nodes, gradient)
        return float((sums * sums).sum())

    def variances(self, curvature: Array, nodes: IntArray | None = None) -> Variances:
        """Return the posterior variances of the groups of rows, in units of the dispersion."""
        of_groups = self._of_groups(curvature[:, None])[:, 0]
        rows = self._group_of if nodes is None else self._group_of[nodes]
        groups, position = np.unique(np.asarray(rows), return_inverse=True)
        result = self._groups.variances(of_groups, groups)
        values = np.asarray(result.values[position] / self._scale, like=rows)
        return Variances(values, result.relative_error)

    def solve_local(
        self, nodes: IntArray, values: Array, tolerance: float
    ) -> tuple[IntArray, Array]:
        """Return all rows, and K v there."""
        return np.arange(self.n_nodes), self.solve(self._on_all_nodes(nodes, values))

    @lazy_property
    def diagonal(self) -> Array:
        """The variance K of the group of each labelled row."""
        of_groups = np.zeros(self._graph.n_nodes)
        of_groups[self._labelled] = self._groups.diagonal / self._scale
        return of_groups[self._group_of[self.nodes]]


class _GroupedPrior:
    """λL + τI of the groups as a function of rows: zᵀ times(z) is that of the groups' values.

    Groups without rows have the values that minimise the energy, given those of the others.
    """

    def __init__(self, prior: GraphMatrix, group_of: IntArray, scale: float) -> None:
        self._matrix = prior.csr * scale
        self._group_of = group_of
        self._n_rows = np.bincount(group_of, minlength=prior.shape[0])
        self._empty = np.flatnonzero(self._n_rows == 0)
        if self._empty.size:
            of_empty = self._matrix[self._empty]
            self._solve = splu(sparse.csc_matrix(of_empty[:, self._empty])).solve
            self._of_empty = of_empty

    def times(self, z: Array) -> Array:
        """Return the product, each group's divided among its rows."""
        n_rows = np.maximum(self._n_rows, 1)[:, None]
        # The rows of a group may be divided among workers: their mean is the value of each.
        values = group_sums(z, self._group_of, len(n_rows)) / n_rows
        if self._empty.size:
            values[self._empty] = -self._solve(np.ascontiguousarray(self._of_empty @ values))
        return take_rows(np.asarray(self._matrix @ values) / n_rows, self._group_of)


def take_rows(values: Array, group_of: IntArray) -> Array:
    """Return the values of the group of each row, sharded if rows are."""
    return np.asarray(values.take(np.asarray(group_of), axis=0), like=group_of)
