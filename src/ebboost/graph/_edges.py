"""Edge lists to one symmetric adjacency: the only module that checks and merges weights."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

IntArray = NDArray[np.int64]
Weights = NDArray[np.float64]


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


def symmetric_adjacency(
    source: IntArray, target: IntArray, weight: Weights | None, n_nodes: int, directed: bool = False
) -> tuple[sparse.csr_array, int]:
    """Merge an edge list into one symmetric matrix without self-loops.

    Repeats of the same pair in the same direction add up (or stay 1 without weights). A pair given
    in both directions is one edge, with the mean of the two weights; a pair given in one direction
    keeps its weight.

    Also return the number of pairs whose two directions differ. Unless the input is ``directed``,
    they are counted only if some other pair is given both ways: a list that has every edge once is
    an ordinary undirected edge list.
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
    return symmetrize(one_way, directed)


def symmetrize(one_way: sparse.csr_array, directed: bool) -> tuple[sparse.csr_array, int]:
    """Make a matrix with an empty diagonal symmetric; see :func:`symmetric_adjacency`."""
    total, any_both_ways, n_differ = merge_directions(one_way, one_way.T.tocsr(), directed)
    return total, n_differ // 2 if directed or any_both_ways else 0


def merge_directions(
    forth: sparse.csr_array, back: sparse.csr_array, directed: bool = True
) -> tuple[sparse.csr_array, bool, int]:
    """Average two directions of edges, or take the only one.

    Also return whether any pair has both, and how many differ (not counted if that is of no use).
    """
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
    any_both_ways = bool((n_directions.data == 2).any())
    if not (directed or any_both_ways):
        return total, False, 0
    # A normalised matrix that was symmetric may differ from its transpose in the last digit.
    excess = abs(forth - back) - 1e-12 * total
    return total, any_both_ways, int((excess.data > 0).sum())


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
