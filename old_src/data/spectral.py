"""Spectral embeddings of a graph: columns that say where in the graph a node is.

That of Â = D^{-1/2} A D^{-1/2} tells parts of the graph apart, that of A itself the hubs that a
node is connected to.

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
#: Smallest mean degree that vectors are divided by, and largest vectors.
SMALLEST = 1e-300
LARGEST = 1e38


def spectral_vectors(graph: Graph, n_components: int, seed: Seed) -> Vectors:
    """Return the leading singular vectors of Â as the first half of the columns, and those of A.

    The first half has one more if their number is odd; columns are 0 if a matrix has fewer. Those
    of A are divided by a power of two near the mean degree: weights may be near the ends of floats.
    """
    seeds = check_random_state(seed).randint(np.iinfo(np.int32).max, size=2)
    n_second = n_components // 2
    most = max(total_rows(graph.degrees) - 1, 1)
    first = _Product(graph, True)
    vectors = _singular_vectors(first, min(n_components - n_second, most), int(seeds[0]))
    if n_second == 0:
        return vectors.astype(np.float32)  # as model files store them
    size = unit_of_weights(graph)
    others = _singular_vectors(_Product(graph, False, size), min(n_second, most), int(seeds[1]))
    others = np.clip(others / size, -LARGEST, LARGEST)
    return np.hstack([vectors, others]).astype(np.float32)


def unit_of_weights(graph: Graph) -> float:
    """Return the power of two next above the mean degree: dividing by it rounds nothing."""
    exponent = np.frexp(max(float(graph.unsigned.degrees.mean()), SMALLEST))[1]
    return float(np.ldexp(1.0, exponent))


def spectral_columns(graph: Graph, vectors: Vectors) -> Array:
    """Return Â and A times their vectors; a node that was not fitted has a row of 0 there."""
    n_first = vectors.shape[1] - vectors.shape[1] // 2
    halves = (vectors[:, :n_first], vectors[:, n_first:])
    return np.hstack([_Product(graph, True) @ halves[0], _Product(graph, False) @ halves[1]])


def _singular_vectors(product: "_Product", n_components: int, seed: int) -> Array:
    """The leading singular vectors of a matrix as columns."""
    columns = _random_columns(product.graph, n_components + MORE_COLUMNS, seed)
    with threadpool_limits(1, user_api="blas"):  # more threads take longer on narrow matrices
        for _ in range(N_PRODUCTS):
            columns = _rotated(product @ columns)[0]
        vectors, rotation = _rotated(product @ columns)
        left = shard_like(np.asarray(columns) @ rotation, columns)
    vectors = vectors[:, ::-1][:, :n_components]  # eigenvalues ascend
    left = left[:, ::-1][:, :n_components]
    # The entry that is largest in absolute value is positive.
    is_negative = -left.min(axis=0) > left.max(axis=0)
    return np.where(is_negative, -vectors, vectors)


class _Product:
    """Â, whose degrees are those in the parent of a subgraph, or A divided by a number."""

    def __init__(self, graph: Graph, normalized: bool, divisor: float = 1.0) -> None:
        self.graph = graph.unsigned
        degrees = graph.unsigned.degrees
        scale = np.sqrt(np.where(degrees > 0, degrees, 1.0))[:, None]
        self._before = 1.0 / scale if normalized else 1.0 / divisor
        self._after = 1.0 / scale if normalized else 1.0

    def __matmul__(self, columns: NDArray[np.floating]) -> Array:
        product: Array = self.graph.adjacency @ (self._before * columns)
        product *= self._after
        return product


def _random_columns(graph: Graph, n_columns: int, seed: int) -> Array:
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
