"""Structural twins: nodes that have the same neighbours, whether or not they are neighbours themselves."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost._native import COMPILED, allowed_threads, by_threads

# Comparing all pairs costs the sum of squared neighbour counts; hubs make that explode.
MOST_COMPARISONS = 200_000_000
SHARPNESS = 8
LEAST_COSINE = 0.2
ROWS = 8_192  # that a thread compares at a time
MOST_THREADS = 4  # each has a number for every node

WorkerResult = tuple[
    NDArray[Any], NDArray[Any], NDArray[np.float64]
]  # row, other row, cosine: the best of each row


def can_compare(adjacency: sparse.csr_array) -> bool:
    """Whether comparing all pairs of nodes that share a neighbour is affordable."""
    return float((np.diff(adjacency.indptr).astype(np.float64) ** 2).sum()) <= MOST_COMPARISONS


def twin_weights(adjacency: sparse.csr_array, k: int) -> sparse.csr_array:
    """Weights cos⁸ between each node and the k others whose neighbours are most alike.

    The cosine is that of rows of A D^{-1/2}, so that sharing a hub says less than sharing a rare neighbour.
    """
    n_nodes = adjacency.shape[0]
    if not can_compare(adjacency):
        raise ValueError(
            "graph has hubs with too many neighbours to compare all pairs of their neighbours."
        )
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    scale = 1.0 / np.sqrt(np.where(degrees > 0, degrees, 1.0))
    compiled = COMPILED if adjacency.indices.dtype == np.int32 else None
    found = list(
        _by_scipy(adjacency, scale, k)
        if compiled is None
        else _by_loops(compiled, adjacency, scale, k)
    )
    source, target, cosine = (np.concatenate(parts) for parts in zip(*found, strict=True))
    one_way = sparse.csr_array(
        (np.minimum(cosine, 1.0) ** SHARPNESS, (source, target)), shape=(n_nodes, n_nodes)
    )
    both: sparse.csr_array = sparse.csr_array(one_way.maximum(one_way.T))
    return both


def _lengths(adjacency: sparse.csr_array, scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """One over the length of each row of A D^{-1/2}; some rows at a time, to hold no second matrix."""
    length = np.empty(adjacency.shape[0])
    for start in range(0, length.size, ROWS):
        squares = sparse.csr_array(adjacency[start : start + ROWS])
        squares.data *= scale[squares.indices]
        squares.data *= squares.data
        length[start : start + ROWS] = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
    inverse: NDArray[np.float64] = 1.0 / np.where(length > 0, length, 1.0)
    return inverse


def _by_loops(
    compiled: Any, adjacency: sparse.csr_array, scale: NDArray[np.float64], k: int
) -> Iterator[WorkerResult]:
    """Row by row, with one number for each node and no matrix but the adjacency."""
    n_nodes, count = adjacency.shape[0], min(allowed_threads(), MOST_THREADS)
    size = _lengths(adjacency, scale)
    weights = (
        None
        if (adjacency.data == 1.0).all()
        else np.ascontiguousarray(adjacency.data, dtype=np.float64)
    )
    fixed = [
        None if part is None else part.ctypes.data
        for part in (adjacency.indptr, adjacency.indices, weights, scale, size)
    ]
    sums, reached = np.zeros((count, n_nodes)), np.empty((count, n_nodes), dtype=np.int32)
    counts = np.empty((count, ROWS), dtype=np.int32)
    others, cosines = np.empty((count, ROWS, k), dtype=np.int32), np.empty((count, ROWS, k))
    scratch = (sums, reached, counts, others, cosines)

    def loop(first: int, last: int) -> None:
        thread = first // ROWS % count
        compiled.ebboost_alike(
            first, last, *fixed, LEAST_COSINE, k, *(part[thread].ctypes.data for part in scratch)
        )

    for start in range(0, n_nodes, count * ROWS):
        ends = [min(start + part * ROWS, n_nodes) for part in range(count + 1)]
        ends = ends[: 1 + -(-(ends[-1] - start) // ROWS)]
        by_threads(loop, ends, ())
        for thread, (first, last) in enumerate(pairwise(ends)):
            kept = np.arange(k) < counts[thread, : last - first, None]
            row = np.repeat(np.arange(first, last), counts[thread, : last - first])
            yield row, others[thread, : last - first][kept], cosines[thread, : last - first][kept]


def _by_scipy(
    adjacency: sparse.csr_array, scale: NDArray[np.float64], k: int
) -> Iterator[WorkerResult]:
    """By products of a thousand rows with all."""
    size = _lengths(adjacency, scale)
    rows = sparse.csr_array(sparse.diags_array(size) @ (adjacency @ sparse.diags_array(scale)))
    columns = rows.T.tocsr()
    for start in range(0, adjacency.shape[0], 1000):
        alike = sparse.csr_array(rows[start : start + 1000] @ columns)
        row = np.repeat(np.arange(alike.shape[0]), np.diff(alike.indptr)) + start
        keep = (alike.data >= LEAST_COSINE) & (alike.indices != row)
        row, column, cosine = row[keep], alike.indices[keep], alike.data[keep]
        order = np.lexsort((column, -cosine, row))
        row, column, cosine = row[order], column[order], cosine[order]
        best = np.arange(row.size) - np.searchsorted(row, row, side="left") < k
        yield row[best], column[best], cosine[best]
