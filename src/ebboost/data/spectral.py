"""Spectral embeddings of a graph: columns that say where in the graph a node is.

That of Â = D^{-1/2} A D^{-1/2} tells parts of the graph apart, that of A itself the hubs that a
node is connected to. The randomized singular value decomposition is that of Halko, Martinsson and
Tropp (2011).
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost._common import Array
from ebboost.graph import Graph
from ebboost.linalg import SparseMatrix

Vectors = NDArray[np.float32]
N_PRODUCTS = 15  # before the last
MORE_COLUMNS = 8  # than wanted, which make the leading ones converge sooner
#: Share of the largest squared singular value, below which one counts as 0.
LEAST = 1e-13
LARGEST = 1e38


def spectral_vectors(graph: Graph, n_components: int, seed: int) -> Vectors:
    """Return the leading singular vectors of Â as the first half of the columns, and those of A.

    The first half has one more if their number is odd; columns are 0 if a matrix has fewer. Those
    of A are divided by the mean degree: weights may be near the ends of floats.
    """
    most = max(graph.n_nodes - 1, 1)
    n_second = n_components // 2
    first = _singular_vectors(
        _normalised(graph.adjacency, graph.degrees, graph.degrees),
        min(n_components - n_second, most),
        (seed, 0),
    )
    size = unit_of_weights(graph)
    second = _singular_vectors(graph.adjacency / size, min(n_second, most), (seed, 1)) / size
    return np.hstack([first, np.clip(second, -LARGEST, LARGEST)]).astype(np.float32)


def unit_of_weights(graph: Graph) -> float:
    """Return the power of two next above the mean degree: dividing by it rounds nothing."""
    exponent = np.frexp(max(float(graph.degrees.mean()), 1e-300))[1]
    return float(np.ldexp(1.0, exponent))


def spectral_columns(
    weights: sparse.csr_array, own: Array, degrees: Array, vectors: Vectors
) -> tuple[Array, list[str], list[int]]:
    """Return Â and A times their vectors, for nodes with edges ``weights`` to fitted nodes.

    ``own`` are the degrees of these nodes, ``degrees`` those of the fitted ones.
    """
    n_first = vectors.shape[1] - vectors.shape[1] // 2
    wide = vectors.astype(np.float64)
    halves = (_normalised(weights, own, degrees) @ wide[:, :n_first], weights @ wide[:, n_first:])
    columns = np.hstack(halves)
    return columns, [f"spectral{k}" for k in range(columns.shape[1])], [-1] * columns.shape[1]


def _normalised(weights: sparse.csr_array, own: Array, others: Array) -> sparse.csr_array:
    left, right = (1.0 / np.sqrt(np.where(one > 0, one, 1.0)) for one in (own, others))
    return sparse.csr_array(sparse.diags_array(left) @ weights @ sparse.diags_array(right))


def _singular_vectors(matrix: sparse.csr_array, count: int, seed: tuple[int, int]) -> Array:
    """The leading singular vectors of a symmetric matrix as columns."""
    if count == 0:
        return np.zeros((matrix.shape[0], 0))
    product = SparseMatrix(sparse.csr_array(matrix))
    random = np.random.default_rng(seed)
    columns = random.normal(size=(matrix.shape[0], count + MORE_COLUMNS))
    for _ in range(N_PRODUCTS):
        columns = _rotated(product @ columns)[0]
    vectors, rotation = _rotated(product @ columns)
    left = (columns @ rotation)[:, ::-1][:, :count]  # eigenvalues ascend
    # The entry that is largest in absolute value is positive.
    return np.where(-left.min(axis=0) > left.max(axis=0), -1.0, 1.0) * vectors[:, ::-1][:, :count]


def _rotated(columns: Array) -> tuple[Array, Array]:
    """Orthonormal columns with the same span, 0 beyond its dimension, and their rotation."""
    values, rotation = np.linalg.eigh(columns.T @ columns)
    is_used = values > LEAST * values[-1]
    scale = np.where(is_used, 1.0 / np.sqrt(np.where(is_used, values, 1.0)), 0.0)
    return columns @ (rotation * scale), rotation
