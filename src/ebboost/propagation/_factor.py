"""LDLᵀ factorisation of sparse symmetric positive definite matrices, where it fills in little."""

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import SuperLU, splu

from ebboost._native import COMPILED
from ebboost.data.once import compute_once
from ebboost.propagation._ordering import addresses

Array = NDArray[np.float64]
Order = NDArray[np.int32]
#: Larger graphs are not factorised: a factor has some 30 numbers for each node, for each model.
MAX_NODES = 100_000
#: Entries per column of a factor up to which it is faster than conjugate gradients: up to 25 for
#: areas that share borders and nearest neighbours in the plane, 100 and more for social graphs. The
#: growth from one to another neighbourhood of so many nodes foretells that of the graph.
MAX_FILL = 40.0
SAMPLES = (500, 2_000)
#: Elimination orders by sweep; that of None stands for a graph that fills in too much.
_orders: WeakKeyDictionary[object, dict[str, Order | None]] = WeakKeyDictionary()


class Factor:
    """A factorisation P M Pᵀ = L D Lᵀ, exact up to rounding."""

    def __init__(self, matrix: sparse.csr_array, order: Order | None = None) -> None:
        if order is not None:
            matrix = matrix[order][:, order]
        lu = _factorize(matrix, "MMD_AT_PLUS_A" if order is None else "NATURAL")
        #: Mean number of entries of a column of L.
        self.fill = lu.L.nnz / max(matrix.shape[0], 1)
        # Row k of L belongs to this node.
        own = np.argsort(lu.perm_c).astype(np.int32)
        self.order: Order = own if order is None else order[own]
        self._lu: SuperLU | None = lu
        is_symmetric = np.array_equal(lu.perm_c, lu.perm_r)
        if COMPILED is not None and is_symmetric and lu.L.nnz < np.iinfo(np.int32).max:
            lower = sparse.tril(lu.L, -1, format="csc")
            self._lower = (lower.indptr, lower.indices, lower.data, 1.0 / lu.U.diagonal())
            self._lu = None  # twice as large
        self._first = order

    def solve(self, right: Array) -> Array:
        """Return the solution of M z = b, of shape (n,) or (n, c)."""
        if self._lu is not None:
            return self._by_superlu(right)
        columns = right.reshape(len(right), -1)
        solution = np.empty(columns.shape, order="F")
        work = np.empty(len(right))
        for number, column in enumerate(np.ascontiguousarray(columns.T)):
            vectors = (*self._lower, self.order, column, solution[:, number], work)
            COMPILED.ebboost_factor_solve(len(right), *addresses(*vectors))
        return solution.reshape(right.shape)

    def _by_superlu(self, right: Array) -> Array:
        assert self._lu is not None
        if self._first is None:
            return np.asarray(self._lu.solve(right))
        solution = np.empty_like(right)
        solution[self._first] = self._lu.solve(right[self._first])
        return solution


def _factorize(matrix: sparse.csr_array, ordering: str) -> SuperLU:
    """Without pivots, which a positive definite matrix does not need."""
    return splu(matrix.tocsc(), ordering, 0.0, options={"SymmetricMode": True})


def elimination_order(adjacency: sparse.csr_array, owner: object) -> Order | None:
    """Return the order in which to eliminate the nodes of a graph, or None if it fills in.

    Computed once for each ``owner``.
    """
    cache = _orders.setdefault(owner, {})
    return compute_once(cache, "order", lambda: _find_order(adjacency))


def _find_order(adjacency: sparse.csr_array) -> Order | None:
    n_nodes = adjacency.shape[0]
    if n_nodes > MAX_NODES:
        return None
    center = int(np.argmax(np.diff(adjacency.indptr)))
    near = breadth_first_order(adjacency, center, return_predecessors=False)
    fills = [_of_laplacian(adjacency, np.sort(near[:size])).fill for size in SAMPLES]
    growth = np.log(fills[1] / fills[0]) / np.log(SAMPLES[1] / SAMPLES[0])
    if fills[1] * max(n_nodes / SAMPLES[1], 1.0) ** growth > MAX_FILL:
        return None
    factor = _of_laplacian(adjacency, np.arange(n_nodes))
    return factor.order if factor.fill <= MAX_FILL else None


def _of_laplacian(adjacency: sparse.csr_array, nodes: NDArray[np.int64]) -> Factor:
    """Factor of I + L of a part of a graph: the pattern is that of all matrices on it."""
    part = adjacency[nodes][:, nodes]
    diagonal = sparse.diags_array(abs(part).sum(axis=1) + 1.0)
    return Factor(sparse.csr_array(diagonal - part))
