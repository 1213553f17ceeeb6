"""The neighbourhood of some nodes: all nodes and edges on walks of a given length."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.data.types import Array, IntArray


def surroundings(
    adjacency: sparse.csr_array, nodes: IntArray, hops: int
) -> tuple[IntArray, NDArray[np.int32], sparse.csr_array]:
    """Return the nodes within ``hops`` edges, their distances, and the edges of such walks.

    An edge between two nodes of the outermost ring is left out: no walk of ``hops`` edges that
    starts or ends at ``nodes`` takes it, and where rings grow, most edges are of this kind.
    """
    indptr = adjacency.indptr
    column = adjacency.indices
    position = np.empty(adjacency.shape[0], dtype=np.int32)  # read only where it was written
    distance_plus_1 = np.zeros(adjacency.shape[0], dtype=np.int32)  # 0: not reached
    rings = [_unique(nodes, position)]
    entries = [np.zeros(0, dtype=np.int64)]
    distance_plus_1[rings[0]] = 1
    for hop in range(hops):
        entries.append(_row_entries(indptr, rings[-1]))
        neighbors = column[entries[-1]]
        rings.append(_unique(neighbors[distance_plus_1[neighbors] == 0], position))
        distance_plus_1[rings[-1]] = hop + 2
    # In the order of the graph, so that sums over neighbours are added up in the same order.
    members = np.sort(np.concatenate(rings))
    distance = distance_plus_1[members] - np.int32(1)
    position[members] = np.arange(members.size, dtype=np.int32)
    inner = np.concatenate([np.zeros(0, dtype=np.int64), *rings[:-1]])
    row = np.repeat(position[inner], indptr[inner + 1] - indptr[inner])
    entry = np.concatenate(entries)
    other = position[column[entry]]
    weight = adjacency.data[entry]
    outward = distance[other] == hops  # of these edges only the inner row was read
    rows = np.concatenate([row, other[outward]])
    columns = np.concatenate([other, row[outward]])
    weights = np.concatenate([weight, weight[outward]])
    shape = (members.size, members.size)
    return members, distance, sparse.coo_array((weights, (rows, columns)), shape=shape).tocsr()


def _row_entries(indptr: NDArray[np.integer], rows: IntArray) -> IntArray:
    """Return the positions of the entries of these rows, row after row."""
    length = (indptr[rows + 1] - indptr[rows]).astype(np.int64)
    first = indptr[rows] - (np.cumsum(length) - length)
    return np.repeat(first, length) + np.arange(length.sum())


def _unique(nodes: NDArray[np.integer], scratch: NDArray[np.int32]) -> IntArray:
    """Return each node once, without sorting: where it occurs last."""
    numbers = np.arange(nodes.size, dtype=np.int32)
    scratch[nodes] = numbers
    return nodes[scratch[nodes] == numbers].astype(np.int64)


def earlier_neighbors(weights: sparse.csr_array, time: Array | None) -> sparse.csr_array:
    """Return the weights of neighbours that are earlier than the node; all without times."""
    if time is None:
        return weights
    edges = weights.tocoo()
    node, neighbor = edges.coords
    is_earlier = time[neighbor] < time[node]
    parts = (edges.data[is_earlier], (node[is_earlier], neighbor[is_earlier]))
    return sparse.csr_array(sparse.coo_array(parts, shape=weights.shape))
