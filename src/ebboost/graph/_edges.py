"""Edge lists in, one symmetric adjacency out: the only place where a weight is checked or merged."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

IntArray = NDArray[np.int64]


def node_positions(values: ArrayLike, name: str) -> IntArray:
    """Return ``values`` as a 1-D integer array, or say which argument is not one."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}.")
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.floor(array)).all():
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"{name} must hold node positions (integers 0 … n_nodes-1), got dtype {array.dtype}. "
            "For nodes named by text or by other ids use Graph.from_dataframe(edges, nodes=ids)."
        )
    return array.astype(np.int64)


def _refuse_first(bad: NDArray[np.bool_], message: str) -> None:
    """Raise ``message`` with ``{row}`` filled in if any entry of ``bad`` is set."""
    if bad.any():
        raise ValueError(message.format(row=int(np.flatnonzero(bad)[0])))


def edge_weights(weight: ArrayLike | None, n_rows: int) -> NDArray[np.float64] | None:
    """Check one weight per edge: finite and not negative."""
    if weight is None:
        return None
    try:
        weights = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"weight must be a list of numbers, one per edge ({error}).") from None
    if weights.shape != (n_rows,):
        raise ValueError(
            f"weight must have one entry per edge: expected ({n_rows},), got {weights.shape}."
        )
    for bad, what in (
        (np.isnan(weights), "NaN"),
        (np.isinf(weights), "infinite"),
        (weights < 0, "negative"),
    ):
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise ValueError(
                f"weight is {what} at row {row} ({weights[row]}). Weights say how strongly two nodes are tied: "
                "they must be finite and not negative. Drop that edge or give it a weight"
                + (
                    ", or put such edges into a graph of their own: see Graph.mix."
                    if what == "negative"
                    else "."
                )
            )
    return weights


def symmetric_adjacency(
    source: IntArray,
    target: IntArray,
    weight: NDArray[np.float64] | None,
    n_nodes: int,
    directed: bool = False,
) -> tuple[sparse.csr_array, int]:
    """Merge an edge list into one symmetric matrix without self-loops.

    Repeats of the same pair in the same direction add up (or stay 1 without weights). A pair given in both
    directions is one edge, with the mean of the two weights; a pair given in one direction keeps its weight.

    Returns
    -------
    adjacency : csr_array of shape (n_nodes, n_nodes)
    n_one_way : int
        Pairs whose two directions disagree. Unless the input calls itself ``directed``, they are counted only when
        some other pair is given both ways: a list that has every edge once is an ordinary undirected edge list.
    """
    for name, values in (("source", source), ("target", target)):
        _refuse_first(values < 0, f"{name} is negative at row {{row}}: node positions start at 0.")
        _refuse_first(
            values >= n_nodes,
            f"{name} names a node that is not there at row {{row}}: positions must be below n_nodes={n_nodes}.",
        )
    keep = source != target
    if weight is not None:
        keep &= weight > 0
    source, target = source[keep], target[keep]
    data = np.ones(source.size) if weight is None else weight[keep]
    one_way = sparse.coo_array((data, (source, target)), shape=(n_nodes, n_nodes)).tocsr()
    if weight is None:
        one_way.data[:] = 1.0
    return symmetrize(one_way, directed)


def symmetrize(one_way: sparse.csr_array, directed: bool) -> tuple[sparse.csr_array, int]:
    """Make a matrix with an empty diagonal symmetric; see :func:`symmetric_adjacency`."""
    reverse = one_way.T.tocsr()
    # Halving before adding keeps weights near the largest float finite.
    total = 0.5 * one_way + 0.5 * reverse
    seen = _pattern(one_way) + _pattern(reverse)
    for matrix in (total, seen):
        matrix.sort_indices()
    if not np.array_equal(total.indices, seen.indices):
        raise ValueError(
            "weight is too small to be told from zero on some edge: rescale the weights."
        )
    total.data *= np.where(seen.data == 1, 2.0, 1.0)
    if not np.isfinite(total.data).all():
        raise ValueError("weight overflows when repeated edges are added up: rescale the weights.")
    if not directed and not (seen.data == 2).any():
        return total, 0
    # A normalised matrix that was symmetric may differ from its transpose in the last digit.
    excess = abs(one_way - reverse) - 1e-12 * total
    return total, int((excess.data > 0).sum()) // 2


def _pattern(matrix: sparse.csr_array) -> sparse.csr_array:
    return sparse.csr_array(
        (np.ones_like(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape
    )
