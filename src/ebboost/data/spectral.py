"""Spectral embedding of a graph: columns that say where in the graph a node is.

The randomized singular value decomposition of Halko, Martinsson and Tropp (2011), whose products
with tall matrices are sweeps over the edges and whose other matrices are small, so that the nodes
may be divided among workers.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from ebboost.data.low_rank import Seed
from ebboost.data.sharded import (
    of_first_worker,
    rows_before,
    shard_like,
    sum_over_workers,
    total_rows,
)
from ebboost.data.types import Array
from ebboost.graph import Graph

Vectors = NDArray[np.float32]
N_PRODUCTS = 15  # with Â, before the last
MORE_COLUMNS = 8  # than wanted, which make the leading ones converge sooner
ROWS_AT_ONCE = 1 << 14  # of random numbers
#: Share of the largest squared singular value, below which one counts as 0.
LEAST = 1e-13


def spectral_vectors(graph: Graph, n_components: int, seed: Seed) -> Vectors:
    """Return the leading singular vectors V of Â = D^{-1/2} A D^{-1/2} as columns, 0 if of none."""
    n_nodes = total_rows(graph.degrees)
    n_components = max(min(n_components, n_nodes - 1), 1)
    columns = _random_columns(graph, n_components + MORE_COLUMNS, seed)
    with threadpool_limits(1, user_api="blas"):  # more threads take longer on narrow matrices
        product = _Normalized(graph)
        for _ in range(N_PRODUCTS):
            columns = _rotated(product @ columns)[0]
        vectors, rotation = _rotated(product @ columns)
        left = shard_like(np.asarray(columns) @ rotation, columns)
    vectors = vectors[:, ::-1][:, :n_components]  # eigenvalues ascend
    left = left[:, ::-1][:, :n_components]
    # The entry that is largest in absolute value is positive.
    is_negative = -left.min(axis=0) > left.max(axis=0)
    return np.where(is_negative, -vectors, vectors).astype(np.float32)  # as model files store them


def spectral_columns(graph: Graph, vectors: Vectors) -> Array:
    """Return Â V; a node that was not in the fitted graph has a row of 0 in ``vectors``."""
    return _Normalized(graph) @ vectors


class _Normalized:
    """Â, whose degrees are those in the parent of a subgraph."""

    def __init__(self, graph: Graph) -> None:
        graph = graph.unsigned
        self._adjacency = graph.adjacency
        self._scale = 1.0 / np.sqrt(np.where(graph.degrees > 0, graph.degrees, 1.0))[:, None]

    def __matmul__(self, columns: NDArray[np.floating]) -> Array:
        product: Array = self._adjacency @ (self._scale * columns)
        product *= self._scale
        return product


def _random_columns(graph: Graph, n_columns: int, seed: Seed) -> Array:
    """Normal numbers for each node, the same however nodes are divided among workers."""
    random = check_random_state(seed)
    first = rows_before(graph.degrees)
    columns = np.empty((graph.n_nodes, n_columns))
    for start in range(0, first + graph.n_nodes, ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, first + graph.n_nodes)
        block = random.normal(size=(stop - start, n_columns))
        own = max(start, first)
        if own < stop:
            columns[own - first : stop - first] = block[own - start :]
    return shard_like(columns, graph.degrees)


def _rotated(columns: Array) -> tuple[Array, Array]:
    """Orthonormal columns with the same span, 0 beyond its dimension, and their rotation."""
    local = np.asarray(columns)
    decomposition = np.linalg.eigh(sum_over_workers(local.T @ local, columns))
    values, *rows = of_first_worker(np.vstack(decomposition), columns)
    rotation = np.array(rows)
    is_used = values > LEAST * values[-1]
    scale = np.where(is_used, 1.0 / np.sqrt(np.where(is_used, values, 1.0)), 0.0)
    return shard_like(local @ (rotation * scale), columns), rotation
