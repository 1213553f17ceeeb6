"""Nodes with similar neighbourhoods, by the cosine between rows of A D^{-1/2}."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

# Comparing all pairs costs the sum of squared neighbour counts; hubs make that explode.
MAX_COMPARISONS = 200_000_000
EXPONENT = 8
MIN_COSINE = 0.2
BLOCK_ROWS = 1_000


def similarity_weights(adjacency: sparse.csr_array, k: int) -> sparse.csr_array:
    """Return weights cos⁸ between each node and the k others with the most similar neighbours.

    The cosine is that of rows of A D^{-1/2}: a common hub counts less than a rare common neighbour.
    """
    if not isinstance(k, (int, np.integer)) or k < 1:
        raise ValueError(f"k must be an integer of at least 1, got {k!r}.")
    if float((np.diff(adjacency.indptr).astype(np.float64) ** 2).sum()) > MAX_COMPARISONS:
        raise ValueError(
            "graph has hubs with too many neighbours to compare all pairs of nodes that share one."
        )
    rows = _unit_rows(adjacency)
    columns = rows.T.tocsr()
    starts = range(0, rows.shape[0], BLOCK_ROWS)
    blocks = [
        _most_similar(rows[start : start + BLOCK_ROWS] @ columns, start, k) for start in starts
    ]
    source, target, cosine = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
    weights = np.minimum(cosine, 1.0) ** EXPONENT
    one_way = sparse.csr_array((weights, (source, target)), shape=adjacency.shape)
    return sparse.csr_array(one_way.maximum(one_way.T))


def _unit_rows(adjacency: sparse.csr_array) -> sparse.csr_array:
    """Return A D^{-1/2} with rows of unit length."""
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    rows = adjacency @ sparse.diags_array(1.0 / np.sqrt(np.where(degrees > 0, degrees, 1.0)))
    length = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return sparse.csr_array(sparse.diags_array(1.0 / np.where(length > 0, length, 1.0)) @ rows)


def _most_similar(
    cosines: sparse.csr_array, first: int, k: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return node, other node and cosine of the k largest of each row; row 0 is node ``first``."""
    cosines = sparse.csr_array(cosines)
    row = np.repeat(np.arange(cosines.shape[0]), np.diff(cosines.indptr)) + first
    eligible = (cosines.data >= MIN_COSINE) & (cosines.indices != row)
    row = row[eligible]
    column = cosines.indices[eligible]
    cosine = cosines.data[eligible]
    order = np.lexsort((column, -cosine, row))
    row = row[order]
    best = np.arange(row.size) - np.searchsorted(row, row, side="left") < k
    return row[best], column[order][best], cosine[order][best]
