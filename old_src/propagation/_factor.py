"""LDLᵀ factorisation of sparse symmetric positive definite matrices, where it fills in little.

The order of elimination and the pattern of L depend on the graph alone: they are found once, and
each matrix on it costs the arithmetic of its numbers.
"""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import shortest_path
from scipy.sparse.linalg import spilu

from ebboost._native import COMPILED
from ebboost.data.once import compute_once, lazy_property
from ebboost.propagation._matrix import GraphMatrix
from ebboost.propagation._ordering import addresses

Array = NDArray[np.float64]
Indices = NDArray[np.int32]
#: Graphs up to this size are factorised whatever the pattern of L.
SMALL = 1_000
#: Larger graphs are not: a factor has some 30 numbers for each node, for each model.
MAX_NODES = 100_000
#: Entries per column of a factor up to which it is faster than conjugate gradients: up to 25 for
#: areas that share borders and nearest neighbours in the plane, 100 and more for social graphs. The
#: growth from one to another neighbourhood of so many nodes predicts that of the graph.
MAX_FILL = 40.0
SAMPLES = (500, 2_000)
#: Share of the nodes at one distance from a node beyond which a graph has no small separators, and
#: fills in: at most .05 for nearest neighbours in the plane, .5 for edges at random. Neighbourhoods
#: of sparse graphs of this kind are trees, which do not.
MAX_WIDTH = 0.25
#: Entries of L, whose diagonal is 1, that a preconditioner leaves out: a fifth to a quarter of them
#: on the graph of House, where conjugate gradients then take a tenth less time, and as many steps.
NEGLIGIBLE_ENTRY = 3e-4
#: Eliminations by sweep; that of None stands for a graph that fills in too much.
_eliminations: WeakKeyDictionary[object, dict[str, "Elimination | None"]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Elimination:
    """The order in which the nodes of a graph are eliminated, and the pattern of L by columns."""

    order: Indices
    position: Indices
    parent: Indices
    start: Indices
    row: Indices

    @property
    def fill(self) -> float:
        """Mean number of entries of a column of L, its diagonal among them."""
        return 1.0 + self.row.size / max(self.order.size, 1)


class Factor:
    """A factorisation P M Pᵀ = L D Lᵀ, exact up to rounding."""

    def __init__(self, matrix: GraphMatrix, pattern: Elimination) -> None:
        n_nodes = matrix.shape[0]
        values = np.empty(pattern.row.size)
        inverse = np.empty(n_nodes)
        edges = (matrix.adjacency.indptr, matrix.adjacency.indices)
        vectors = (matrix.adjacency.data, matrix.diagonal, matrix.root)
        numbers = [np.ascontiguousarray(one, dtype=np.float64) for one in vectors]
        nodes = (pattern.order, pattern.position, pattern.parent)
        work = (np.zeros(n_nodes), *np.empty((3, n_nodes), dtype=np.int32))
        result = (*nodes, pattern.start, pattern.row, values, inverse, *work)
        head = (n_nodes, *addresses(*edges, *numbers), matrix.strength)
        COMPILED.ebboost_factorize(*head, *addresses(*result))
        self._lower = (pattern.start, pattern.row, values, inverse, pattern.order)
        self._matrix = matrix

    def solve(self, right: Array) -> Array:
        """Return the solution of M z = b, of shape (n,) or (n, c)."""
        columns = right.reshape(len(right), -1)
        solution = np.empty(columns.shape, order="F")
        work = np.empty(len(right))
        for number, column in enumerate(np.ascontiguousarray(columns.T, dtype=np.float64)):
            vectors = (*self._lower, column, solution[:, number], work)
            COMPILED.ebboost_factor_solve(len(right), *addresses(*vectors))
        return solution.reshape(right.shape)

    @lazy_property
    def _preconditioner(self) -> tuple[NDArray[Any], ...]:
        """L without negligible entries, 1/D, the order of elimination in that of the layout.

        And what scales M to A: diag(M), 1/(c r²) and c r in the layout.
        """
        start, row, values, inverse, order = self._lower
        layout = self._matrix.sweep.layout(np.dtype(np.float64))
        weight = self._matrix.strength * self._matrix.root
        scaling = layout.arrange(self._matrix.diagonal, 1.0 / (weight * self._matrix.root), weight)
        keep = np.abs(values) > NEGLIGIBLE_ENTRY
        start = np.concatenate([[0], keep.cumsum()])[start].astype(np.int32)
        return (start, row[keep], values[keep], inverse, layout.order.position[order], *scaling)

    def solve_near(
        self, diagonal: Array, right: Array, target: float, max_iterations: int
    ) -> tuple[Array, float]:
        """Solve N z = b of shape (n,) for a matrix N that differs from M in its diagonal only.

        Conjugate gradients with the preconditioner S M⁻¹ S, S² = diag(M)/diag(N). Also returns the
        length of the residual.
        """
        *lower, near, share, weight = self._preconditioner
        layout = self._matrix.sweep.layout(near.dtype)
        right = np.ascontiguousarray(right)
        z = np.empty(len(right))
        length = np.zeros(1)
        work = layout.work(8, near.dtype)
        edges = (len(right), layout.order_at, *layout.edges)
        system = (*addresses(right, diagonal, near, share, weight), target, max_iterations)
        vectors = addresses(z, *work[:6], length, *lower, *work[6:])
        getattr(COMPILED, f"ebboost_solve_{layout.bits}_near")(*edges, *system, *vectors)
        return z, float(length[0])

    def inverse_diagonal(self) -> Array:
        """Return the diagonal of M⁻¹ by the recursion of Takahashi."""
        start, row, *_ = self._lower
        n_nodes = start.size - 1
        diagonal = np.empty(n_nodes)
        entries = np.empty(row.size)
        number = np.zeros(n_nodes, dtype=np.int32)
        stride = 2 + int(np.diff(start).max(initial=0))
        work = addresses(*self._lower, diagonal, entries, number)
        block = (np.empty((stride, stride)), np.empty(stride))
        COMPILED.ebboost_selected_inverse(n_nodes, *work, stride, *addresses(*block))
        return diagonal


def elimination(adjacency: sparse.csr_array, owner: object) -> Elimination | None:
    """Return how to eliminate the nodes of a graph, or None if it fills in too much.

    Computed once for each ``owner``. None also where there are no compiled loops.
    """
    if COMPILED is None:
        return None
    cache = _eliminations.setdefault(owner, {})
    return compute_once(cache, "elimination", lambda: _eliminate(adjacency))


def _eliminate(adjacency: sparse.csr_array) -> Elimination | None:
    n_nodes = adjacency.shape[0]
    if n_nodes <= SMALL:
        return _pattern(adjacency)
    if n_nodes > MAX_NODES:
        return None
    center = int(np.argmax(np.diff(adjacency.indptr)))
    distance = shortest_path(adjacency, unweighted=True, indices=center)
    is_near = np.isfinite(distance)
    if np.bincount(distance[is_near].astype(int)).max() > MAX_WIDTH * n_nodes:
        return None
    near = np.argsort(distance, kind="stable")[: is_near.sum()]
    parts = [np.sort(near[:size]) for size in SAMPLES]
    fills = [_pattern(sparse.csr_array(adjacency[part][:, part])).fill for part in parts]
    growth = np.log(fills[1] / fills[0]) / np.log(SAMPLES[1] / SAMPLES[0])
    if fills[1] * max(n_nodes / SAMPLES[1], 1.0) ** growth > MAX_FILL:
        return None
    pattern = _pattern(adjacency)
    return pattern if pattern.fill <= MAX_FILL else None


def _pattern(adjacency: sparse.csr_array) -> Elimination:
    """The order of least degree, and the pattern of L that all matrices on a graph have in it."""
    n_nodes = adjacency.shape[0]
    edges = (np.ones(adjacency.nnz), adjacency.indices, adjacency.indptr)
    ones = sparse.csr_array(edges, shape=adjacency.shape)  # the pattern alone, whatever the weights
    matrix = sparse.csc_array(sparse.diags_array(ones.sum(axis=1) + 1.0) - ones)
    # Incomplete, with all entries dropped: only the order of elimination is needed.
    names = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0}
    lu = spilu(matrix, 1e300, 1.0, options={"SymmetricMode": True}, **names)
    position = lu.perm_c.astype(np.int32)
    order = np.argsort(position).astype(np.int32)
    parent, mark, end = np.empty((3, n_nodes), dtype=np.int32)
    graph = (adjacency.indptr, adjacency.indices, order, position, parent, mark, end)
    COMPILED.ebboost_factor_pattern(n_nodes, *addresses(*graph, None))
    start = np.concatenate([[0], end.cumsum()]).astype(np.int32)
    end[:] = start[:-1]
    row = np.empty(start[-1], dtype=np.int32)
    COMPILED.ebboost_factor_pattern(n_nodes, *addresses(*graph, row))
    return Elimination(order, position, parent, start, row)
