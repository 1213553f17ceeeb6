"""Structural twins: nodes that have the same neighbours, whether or not they are neighbours themselves."""

import numpy as np
from scipy import sparse

# Comparing all pairs costs the sum of squared neighbour counts; hubs make that explode.
MOST_COMPARISONS = 200_000_000
SHARPNESS = 8
LEAST_COSINE = 0.2


def can_compare(adjacency: sparse.csr_array) -> bool:
    """Whether comparing all pairs of nodes that share a neighbour is affordable."""
    return float((np.diff(adjacency.indptr).astype(np.float64) ** 2).sum()) <= MOST_COMPARISONS


def twin_weights(adjacency: sparse.csr_array, k: int) -> sparse.csr_array:
    """Weights cos⁸ between each node and the k others whose neighbours are most alike.

    The cosine is that of rows of A D^{-1/2}, so that sharing a hub says less than sharing a rare neighbour.
    """
    n_nodes = adjacency.shape[0]
    if not can_compare(adjacency):
        raise ValueError("graph has hubs with too many neighbours to compare all pairs of their neighbours.")
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    rows = sparse.csr_array(adjacency @ sparse.diags_array(1.0 / np.sqrt(np.where(degrees > 0, degrees, 1.0))))
    length = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    rows = sparse.csr_array(sparse.diags_array(1.0 / np.where(length > 0, length, 1.0)) @ rows)
    columns = rows.T.tocsr()
    sources, targets, weights = [], [], []
    for start in range(0, n_nodes, 1000):
        alike = sparse.csr_array(rows[start : start + 1000] @ columns)
        row = np.repeat(np.arange(alike.shape[0]), np.diff(alike.indptr)) + start
        keep = (alike.data >= LEAST_COSINE) & (alike.indices != row)
        row, column, cosine = row[keep], alike.indices[keep], alike.data[keep]
        order = np.lexsort((column, -cosine, row))
        row, column, cosine = row[order], column[order], cosine[order]
        rank = np.arange(row.size) - np.searchsorted(row, row, side="left")
        best = rank < k
        sources.append(row[best])
        targets.append(column[best])
        weights.append(np.minimum(cosine[best], 1.0) ** SHARPNESS)
    one_way = sparse.csr_array(
        (np.concatenate(weights), (np.concatenate(sources), np.concatenate(targets))), shape=(n_nodes, n_nodes)
    )
    both: sparse.csr_array = sparse.csr_array(one_way.maximum(one_way.T))
    return both
