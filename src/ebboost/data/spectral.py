"""Spectral embedding of a graph: columns that say where in the graph a node is."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from ebboost.data.low_rank import Seed, singular_vectors
from ebboost.data.types import Array
from ebboost.graph import Graph

Vectors = NDArray[np.float32]
N_ITERATIONS = 7  # of the randomized singular value decomposition


def spectral_vectors(graph: Graph, n_components: int, seed: Seed) -> Vectors:
    """Return the leading singular vectors V of Â = D^{-1/2} A D^{-1/2} as columns."""
    with threadpool_limits(1, user_api="blas"):  # more threads take longer on narrow matrices
        vectors = singular_vectors(_normalized(graph), n_components, N_ITERATIONS, seed)
    return vectors.astype(np.float32)  # as model files store them


def spectral_columns(graph: Graph, vectors: Vectors) -> Array:
    """Return Â V; a node that was not in the fitted graph has a row of 0 in ``vectors``."""
    return _normalized(graph) @ vectors


def _normalized(graph: Graph) -> sparse.csr_array:
    """Â, whose degrees are those in the parent of a subgraph."""
    graph = graph.unsigned
    scale = 1.0 / np.sqrt(np.where(graph.degrees > 0, graph.degrees, 1.0))
    rows = sparse.diags_array(scale)
    return sparse.csr_array(rows @ graph.adjacency @ rows)
