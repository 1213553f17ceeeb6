"""Edge lists to adjacency matrices: the only module that checks and merges weights."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ebboost.data.types import IntArray

Weights = NDArray[np.float64]
# Columns of edges that are taken as weights or as distances on the command line, in small letters.
WEIGHT_NAMES = ("weight", "weights", "w", "strength", "similarity")
DISTANCE_NAMES = ("distance", "dist")


def node_positions(values: ArrayLike, name: str) -> IntArray:
    """Return ``values`` as a 1-D integer array; other types raise an error with ``name``."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}.")
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.floor(array)).all():
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        problem = f"{name} must hold integers 0 … n_nodes-1, got dtype {array.dtype}"
        raise TypeError(f"{problem}. For other ids use Graph.from_dataframe(edges, nodes=ids).")
    return array.astype(np.int64)


def check_range(positions: IntArray, n_nodes: int, name: str, first: int = 0) -> None:
    """Raise ValueError for a position beyond the nodes; row 0 is reported as row ``first``."""
    outside = np.flatnonzero((positions < 0) | (positions >= n_nodes))
    if outside.size:
        where = f"{name} is {positions[outside[0]]} at row {first + outside[0]}"
        raise ValueError(f"{where}: node positions go from 0 to n_nodes-1={n_nodes - 1}.")


def edge_weights(weight: ArrayLike, n_edges: int) -> Weights:
    """Return ``weight`` as an array of finite non-negative numbers, one per edge."""
    try:
        weights = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"weight must be a list of numbers, one per edge ({error}).") from None
    if weights.shape != (n_edges,):
        raise ValueError(f"weight must have shape ({n_edges},), one per edge, got {weights.shape}.")
    invalid = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
    if invalid.size:
        value = weights[invalid[0]]
        problem = "NaN" if np.isnan(value) else "infinite" if np.isinf(value) else "negative"
        raise ValueError(
            f"weight is {problem} at row {invalid[0]} ({value}): weights must be finite and not "
            "negative. Drop that edge; for edges between dissimilar nodes see Graph.mix."
        )
    return weights


def distance_weights(distances: ArrayLike) -> Weights:
    """Return 1 / (1 + d / median d) of distances d; the median is that of positive distances."""
    distance = np.asarray(distances, dtype=np.float64)
    positive = distance[distance > 0]
    scale = np.median(positive) if positive.size else 1.0
    return 1.0 / (1.0 + distance / scale)


def directed_adjacency(
    source: IntArray, target: IntArray, weight: Weights | None, n_nodes: int
) -> sparse.csr_array:
    """Return an edge list as a matrix without self-loops, row source and column target.

    Repeats of the same pair in the same direction add up, or stay 1 without weights.
    """
    check_range(source, n_nodes, "source")
    check_range(target, n_nodes, "target")
    keep = source != target
    if weight is not None:
        keep &= weight > 0
    data = np.ones(np.count_nonzero(keep)) if weight is None else weight[keep]
    ends = (source[keep], target[keep])
    one_way = sparse.coo_array((data, ends), shape=(n_nodes, n_nodes)).tocsr()
    if weight is None:
        one_way.data[:] = 1.0
    return one_way


def merge_directions(forth: sparse.csr_array, back: sparse.csr_array) -> sparse.csr_array:
    """Return one edge for each pair: the mean of its two directions, or the only one."""
    # Halving before adding keeps weights near the largest float finite.
    total = 0.5 * forth + 0.5 * back
    n_directions = _pattern(forth) + _pattern(back)
    total.sort_indices()
    n_directions.sort_indices()
    if not np.array_equal(total.indices, n_directions.indices):
        raise ValueError("weight is too small on some edge, half of it is 0: rescale the weights.")
    total.data *= np.where(n_directions.data == 1, 2.0, 1.0)
    if not np.isfinite(total.data).all():
        raise ValueError("weight overflows when repeated edges are added up: rescale the weights.")
    return total


def count_one_way(one_way: sparse.csr_array, total: sparse.csr_array) -> int:
    """Return the number of pairs whose two directions differ; ``total`` has them merged."""
    # A normalised matrix that was symmetric may differ from its transpose in the last digit.
    excess = abs(one_way - one_way.T.tocsr()) - 1e-12 * total
    return int((excess.data > 0).sum()) // 2


def edge_columns(
    names: list[str], source: str | None, target: str | None, weight: str | None, table: Any
) -> tuple[str, str]:
    """Return the columns of the two ends of each edge, by default the first two of a table."""
    if len(names) < 2:
        raise ValueError(f"{table} needs a source and a target column, it has {names}.")
    source = names[0] if source is None else source
    target = next(name for name in names if name != source) if target is None else target
    for argument, name in (("source", source), ("target", target), ("weight", weight)):
        if name is not None and name not in names:
            raise ValueError(f"{argument}={name!r} is not a column of {table}; there are {names}.")
    if source == target:
        raise ValueError(f"source and target are both the column {source!r} of {table}.")
    return source, target


def _pattern(matrix: sparse.csr_array) -> sparse.csr_array:
    ones = np.ones_like(matrix.data)
    return sparse.csr_array((ones, matrix.indices, matrix.indptr), shape=matrix.shape)
