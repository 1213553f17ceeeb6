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
from scipy import sparse

from ebboost.data.sharded import ShardedArray, inner_products, rows_before, total_rows
from ebboost.data.types import Array

Solve = Callable[[Array, float], Array]
WithHalo = Callable[[Array], Array]
# Up to this many nodes the matrix is inverted.
EXACT_UP_TO = 2_000
EXACT_TOLERANCE = 1e-10
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


def diagonal_of_inverse(
    edges: sparse.csr_array, diagonal: Array, floor: float, solve: Solve, with_halo: WithHalo
) -> Variances:
    """Return the diagonal of Q⁻¹, for a symmetric Q with no eigenvalue below ``floor``.

    ``edges`` are its entries off the ``diagonal``, which is sharded where rows are divided among
    workers; ``solve`` returns Q⁻¹ b to a relative accuracy, and ``with_halo`` the numbers of own
    nodes followed by those of the halo.
    """
    n_nodes = len(diagonal)
    n_total = total_rows(diagonal)
    if n_total <= EXACT_UP_TO:
        return Variances(_exact(edges, diagonal, solve), 0.0)
    first = belief_propagation(edges, diagonal, with_halo)
    rank, count = 0, 1
    seed: tuple[int, ...] = PROBE_SEED
    if isinstance(diagonal, ShardedArray):
        rank, count = diagonal.workers.rank, diagonal.workers.count
        seed = (*PROBE_SEED, rank)
    random = np.random.default_rng(seed)
    n_probes = int(np.clip(PROBE_ENTRIES // n_total, *PROBES))
    signs = random.integers(0, 2, (n_nodes, n_probes)) * 2.0 - 1.0
    n_units = min(2 * n_probes, EXACT_NODES)
    columns_of_units = np.arange(rank, n_units, count)
    nodes = random.choice(n_nodes, columns_of_units.size, replace=n_nodes < n_units)
    units = np.zeros((n_nodes, n_units))
    units[nodes, columns_of_units] = 1.0
    solutions = solve(np.asarray(np.hstack([signs, units]), like=diagonal), PROBE_TOLERANCE)
    columns = _columns(edges, diagonal, first, with_halo)
    gram = inner_products(columns, columns) + RIDGE * n_total * np.eye(columns.shape[1])
    ratios = (signs * solutions[:, :n_probes]).mean(axis=1) / first
    coefficients = np.linalg.solve(gram, inner_products(columns, ratios))
    factor = np.einsum("ij,j->i", np.asarray(columns), coefficients)
    values = np.clip(first * factor, 1.0 / diagonal, 1.0 / floor)
    exact = solutions[nodes, n_probes + columns_of_units]
    return Variances(values, float(np.sqrt(np.mean((values[nodes] / exact - 1.0) ** 2))))


def _exact(edges: sparse.csr_array, diagonal: Array, solve: Solve) -> Array:
    """The diagonal of the inverse of a small matrix."""
    if not isinstance(diagonal, ShardedArray):
        inverse = np.linalg.inv(edges.toarray() + np.diag(diagonal))
        return np.diag(inverse).copy()
    rows = np.arange(len(diagonal))
    units = np.zeros((rows.size, total_rows(diagonal)))
    columns = rows_before(diagonal) + rows
    units[rows, columns] = 1.0
    return solve(np.asarray(units, like=diagonal), EXACT_TOLERANCE)[rows, columns]


def belief_propagation(edges: sparse.csr_array, diagonal: Array, with_halo: WithHalo) -> Array:
    """Return variances by belief propagation; ``edges`` are the entries off the diagonal.

    Both messages of an edge are computed at each of its ends, so that workers exchange numbers of
    nodes only.
    """
    node = np.repeat(np.arange(len(diagonal)), np.diff(edges.indptr))
    squares = edges.data**2
    incoming = np.zeros(edges.nnz)  # from the node of the column to that of the row
    outgoing = np.zeros(edges.nnz)
    total = diagonal
    for _ in range(MAX_ROUNDS):
        before = total
        from_own = -squares / (np.asarray(total)[node] - incoming)
        incoming = -squares / (with_halo(total)[edges.indices] - outgoing)
        outgoing = from_own
        total = diagonal + np.bincount(node, incoming, len(diagonal))
        if np.abs(total / before - 1.0).max() <= MESSAGE_TOLERANCE:
            break
    return 1.0 / total


def _columns(edges: sparse.csr_array, diagonal: Array, first: Array, with_halo: WithHalo) -> Array:
    """The columns of the regression: of the node, of its neighbours, and of its triangles."""
    weights = abs(edges)
    sums = np.maximum(np.asarray(weights.sum(axis=1)).ravel(), 1e-300)
    mean = sparse.csr_array(sparse.diags_array(1.0 / sums) @ weights)
    share = np.log(first * diagonal)
    size = np.log(first)
    near_share = np.asarray(mean @ with_halo(share), like=diagonal)
    near_size = mean @ with_halo(size)
    n_neighbors = np.log1p(np.diff(edges.indptr))
    squared = [size, share, near_share, near_size, mean @ with_halo(near_share), n_neighbors]
    n_products = float((np.diff(edges.indptr).astype(float) ** 2).sum())
    # The neighbours of the halo are elsewhere.
    is_divided = isinstance(diagonal, ShardedArray)
    if n_products <= MAX_TRIANGLE_PRODUCTS and not is_divided:
        root = sparse.diags_array(1.0 / np.sqrt(diagonal))
        triangles = _triangles(sparse.csr_array(root @ weights @ root))
        squared += [triangles, mean @ triangles]
    columns = np.asarray(np.column_stack(squared), like=diagonal)
    columns = (columns - columns.mean(axis=0)) / np.maximum(columns.std(axis=0), 1e-12)
    constant = np.ones((len(diagonal), 1))
    return np.hstack([constant, columns, columns**2, columns[:, :1] * columns[:, 1:]])


def _triangles(weights: sparse.csr_array) -> Array:
    """The diagonal of the cube of a symmetric matrix: products of weights around triangles."""
    upper = sparse.triu(weights, 1, format="coo")
    row, column = upper.coords
    products: Array = upper.data * weights[row].multiply(weights[column]).sum(axis=1)
    ends = np.concatenate([row, column])
    return np.bincount(ends, np.tile(products, 2), weights.shape[0]).astype(np.float64)
