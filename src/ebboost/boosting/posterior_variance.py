"""Variances of a Gaussian Markov random field: the diagonal of the inverse of a precision matrix.

Where the matrix has no sparse factor, which would give them exactly. Of small matrices they are
exact. Of large ones, belief propagation gives variances that are exact on trees
and too small by a smooth factor on graphs with short cycles. That factor is a regression of random
probes v ⊙ Q⁻¹v, which are noisy but not biased, on what belief propagation and the triangles at a
node say. The error is measured at a few nodes by exact solves.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]
Solve = Callable[[Array, float], Array]
# Up to this many nodes the matrix is inverted.
EXACT_UP_TO = 2_000
# Random sign vectors: the fewest, the most, and how many numbers they have in all in between; and
# the relative accuracy of their solves.
PROBES = (4, 64)
PROBE_ENTRIES = 200_000
# A user's data may be drawn with a seed such as 0, and the probes must not depend on them.
PROBE_SEED = (8191, 127, 31)
PROBE_TOLERANCE = 1e-3
# Most nodes at which the error is measured; twice the number of probes if that is less.
EXACT_NODES = 32
# Rounds of messages, and the relative change at which they end.
MAX_ROUNDS = 100
MESSAGE_TOLERANCE = 1e-3
# Products of edges up to which triangles are counted; hubs have too many.
MAX_TRIANGLE_PRODUCTS = 30_000_000
# Penalty of the regression, in units of the number of nodes.
RIDGE = 1e-6


class Variances(NamedTuple):
    """Variances of all nodes, and the root of their mean squared relative error."""

    values: Array
    relative_error: float


def diagonal_of_inverse(matrix: sparse.csr_array, floor: float, solve: Solve) -> Variances:
    """Return the diagonal of Q⁻¹.

    Parameters
    ----------
    matrix : csr_array
        Q, symmetric and positive definite, its indices sorted.
    floor : float
        A lower bound on its eigenvalues.
    solve : function
        Returns Q⁻¹ b to a relative accuracy.

    Returns
    -------
    Variances
    """
    n_nodes = matrix.shape[0]
    if n_nodes <= EXACT_UP_TO:
        return Variances(np.diag(np.linalg.inv(matrix.toarray())).copy(), 0.0)
    diagonal = matrix.diagonal()
    edges = sparse.csr_array(matrix - sparse.diags_array(diagonal))
    edges.eliminate_zeros()
    edges.sort_indices()
    if not edges.nnz:
        return Variances(1.0 / diagonal, 0.0)
    first = belief_propagation(edges, diagonal)
    random = np.random.default_rng(PROBE_SEED)
    n_probes = int(np.clip(PROBE_ENTRIES // n_nodes, *PROBES))
    signs = random.integers(0, 2, (n_nodes, n_probes)) * 2.0 - 1.0
    nodes = random.choice(n_nodes, min(2 * n_probes, EXACT_NODES), replace=False)
    units = np.zeros((n_nodes, nodes.size))
    units[nodes, np.arange(nodes.size)] = 1.0
    solutions = solve(np.hstack([signs, units]), PROBE_TOLERANCE)
    columns = _columns(edges, diagonal, first)
    gram = columns.T @ columns + RIDGE * n_nodes * np.eye(columns.shape[1])
    ratios = (signs * solutions[:, :n_probes]).mean(axis=1) / first
    factor = columns @ np.linalg.solve(gram, columns.T @ ratios)
    values = np.clip(first * factor, 1.0 / diagonal, 1.0 / floor)
    exact = solutions[nodes, n_probes + np.arange(nodes.size)]
    return Variances(values, float(np.sqrt(np.mean((values[nodes] / exact - 1.0) ** 2))))


def belief_propagation(edges: sparse.csr_array, diagonal: Array) -> Array:
    """Return variances by belief propagation; ``edges`` are the entries off the diagonal."""
    n_nodes = diagonal.size
    node = np.repeat(np.arange(n_nodes), np.diff(edges.indptr))
    number = sparse.csr_array((np.arange(1.0, edges.nnz + 1), edges.indices, edges.indptr))
    reverse = sparse.csr_array(number.T)
    reverse.sort_indices()
    opposite = reverse.data.astype(np.int64) - 1
    squares = edges.data**2
    messages = np.zeros(edges.nnz)  # from the node of the column to that of the row
    total = diagonal
    for _ in range(MAX_ROUNDS):
        before = total
        messages = -(squares / (total[node] - messages))[opposite]
        total = diagonal + np.bincount(node, messages, n_nodes)
        if np.abs(total / before - 1.0).max() <= MESSAGE_TOLERANCE:
            break
    variances: Array = 1.0 / total
    return variances


def _columns(edges: sparse.csr_array, diagonal: Array, first: Array) -> Array:
    """The columns of the regression: of the node, of its neighbours, and of its triangles."""
    weights = abs(edges)
    sums = np.maximum(np.asarray(weights.sum(axis=1)).ravel(), 1e-300)
    mean = sparse.csr_array(sparse.diags_array(1.0 / sums) @ weights)
    share = np.log(first * diagonal)
    size = np.log(first)
    near_share = mean @ share
    near_size = mean @ size
    n_neighbors = np.log1p(np.diff(edges.indptr))
    squared = [size, share, near_share, near_size, mean @ near_share, n_neighbors]
    if float((np.diff(edges.indptr).astype(float) ** 2).sum()) <= MAX_TRIANGLE_PRODUCTS:
        root = sparse.diags_array(1.0 / np.sqrt(diagonal))
        scaled = sparse.csr_array(root @ weights @ root)
        triangles = np.asarray((scaled @ scaled).multiply(scaled).sum(axis=1)).ravel()
        squared += [triangles, mean @ triangles]
    columns = np.column_stack(squared)
    columns = (columns - columns.mean(axis=0)) / np.maximum(columns.std(axis=0), 1e-12)
    constant = np.ones((diagonal.size, 1))
    return np.hstack([constant, columns, columns**2, columns[:, :1] * columns[:, 1:]])
