"""The surroundings of a few nodes: all that a score can reach, or be reached from, in so many steps along edges."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

IntArray = NDArray[np.int64]


def surroundings(
    adjacency: sparse.csr_array, nodes: IntArray, hops: int
) -> tuple[IntArray, NDArray[np.int32], sparse.csr_array]:
    """Return the nodes within ``hops`` edges, how far each is, and the edges between them that are walked on.

    An edge between two nodes of the outermost ring is left out: no walk of ``hops`` edges that starts or ends at
    ``nodes`` takes it, and on a graph that widens from ring to ring these are most of the edges.
    """
    start, column = adjacency.indptr, adjacency.indices
    place = np.empty(adjacency.shape[0], dtype=np.int32)  # read only where it was written
    far = np.zeros(
        adjacency.shape[0], dtype=np.int32
    )  # one more than the distance, of nodes that were seen
    rings, entries = [_distinct(nodes, place)], []
    far[rings[0]] = 1
    for hop in range(hops):
        entries.append(_entries(start, rings[-1]))
        reached = column[entries[-1]]
        rings.append(_distinct(reached[far[reached] == 0], place))
        far[rings[-1]] = hop + 2
    # In the order of the whole graph, so that sums over neighbours are added up in the same order too.
    members = np.sort(np.concatenate(rings))
    distance = far[members] - np.int32(1)
    place[members] = np.arange(members.size, dtype=np.int32)
    inside = [np.repeat(place[ring], start[ring + 1] - start[ring]) for ring in rings[:-1]]
    row = np.concatenate([*inside, np.zeros(0, dtype=np.int32)])
    entry = np.concatenate([*entries, np.zeros(0, dtype=np.int64)])
    other, weight = place[column[entry]], adjacency.data[entry]
    outward = distance[other] == hops  # these are known from their inner end alone
    ends = np.concatenate([row, other[outward]]), np.concatenate([other, row[outward]])
    weights = np.concatenate([weight, weight[outward]])
    return (
        members,
        distance,
        sparse.coo_array((weights, ends), shape=(members.size, members.size)).tocsr(),
    )


def _entries(start: NDArray[Any], rows: NDArray[Any]) -> IntArray:
    """Places of the entries of these rows, row after row."""
    length = (start[rows + 1] - start[rows]).astype(np.int64)
    first = start[rows] - (np.cumsum(length) - length)
    return np.repeat(first, length) + np.arange(length.sum())


def _distinct(nodes: NDArray[Any], scratch: NDArray[np.int32]) -> IntArray:
    """Each node once, without sorting: of every node the last place it stands at."""
    numbers = np.arange(nodes.size, dtype=np.int32)
    scratch[nodes] = numbers
    return nodes[scratch[nodes] == numbers].astype(np.int64)
