"""The order in which rows are swept: neighbours near each other in memory, rows of one length next to each other.

Where nodes that share neighbours can be put in pairs and fours, whose sums are then read once for all of them, that order
comes first: see `_sweep.c`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ebboost._native import COMPILED

EIGHT = 8  # rows that `_sweep.c` sums side by side
# Rows are sorted by length within this many, as many as `_sweep.c` sums before it goes on with them: what they read and
# write together stays in the nearest cache.
WINDOW = 4_096
# Scores of fewer nodes fit in that cache, in whatever order.
LARGE = 10_000
SAMPLE = 64
# How many numbers sums of pairs and fours must spare a node, and which share of all, to be worth adding up. They seldom
# spare more than half.
WORTH_SHARING, LEAST_SPARED, MOST_SPARED = 4, 0.25, 0.5


class Order(NamedTuple):
    """How the rows of an adjacency are swept."""

    #: The node of each place.
    nodes: NDArray[np.int32]
    #: The place of each node.
    place: NDArray[np.int32]
    #: How many numbers the row that is summed i-th reads.
    lengths: NDArray[np.int32]
    #: Its place; None: i. With it, pairs and fours of places have sums.
    rows: NDArray[np.int32] | None = None
    #: The nodes in the order in which pairs were looked for; it suits who reads no sums.
    plain: NDArray[np.int32] | None = None


def row_order(adjacency: sparse.csr_array, can_share: bool = False) -> Order:
    """Return the order that suits the graph.

    Parameters
    ----------
    can_share : bool, default=False
        Whether sums of pairs and fours of nodes may be read in their place: weights are all one, and loops compiled.
    """
    n_nodes, lengths = adjacency.shape[0], np.diff(adjacency.indptr)
    nodes, clustered = np.arange(n_nodes, dtype=np.int32), True
    if n_nodes >= LARGE:
        scattered, clustered = _looks(adjacency)
        if scattered and clustered:
            nodes = np.asarray(
                reverse_cuthill_mckee(adjacency, symmetric_mode=True), dtype=np.int32
            )
    worth = max(WORTH_SHARING * n_nodes, LEAST_SPARED * adjacency.nnz)
    if (
        can_share
        and clustered
        and worth <= MOST_SPARED * adjacency.nnz
        and adjacency.has_canonical_format
    ):
        shared = _shared(adjacency, nodes)
        if adjacency.nnz - int(shared.lengths.sum()) >= worth:
            return shared
    nodes = nodes[by_length(lengths[nodes])]
    return Order(nodes, _places(nodes), lengths[nodes])


def sums_from(n_nodes: int) -> int:
    """Where the sums of pairs begin behind a vector: places come in eights, and a zero follows the last node."""
    return EIGHT * (n_nodes // EIGHT + 1)


def by_length(lengths: NDArray[np.int32]) -> NDArray[np.int32]:
    """Places, by what is read for them, within each window."""
    places: NDArray[np.int32] = np.lexsort((lengths, np.arange(lengths.size) // WINDOW)).astype(
        np.int32
    )
    return places


def _places(nodes: NDArray[np.int32]) -> NDArray[np.int32]:
    place = np.empty_like(nodes)
    place[nodes] = np.arange(nodes.size, dtype=np.int32)
    return place


def _shared(adjacency: sparse.csr_array, nodes: NDArray[np.int32]) -> Order:
    """Nodes that share neighbours in pairs, pairs in fours, looked for in the order given."""
    n_nodes, start, column = adjacency.shape[0], adjacency.indptr, adjacency.indices
    mate, mark, pair, tried, order, lengths = np.empty((6, n_nodes), dtype=np.int32)
    shared_start, shared = (
        np.empty(n_nodes // 2 + 1, dtype=np.int64),
        np.empty(adjacency.nnz + 1, dtype=np.int32),
    )
    given = (
        start,
        column,
        np.ascontiguousarray(nodes),
        mate,
        mark,
        pair,
        tried,
        shared_start,
        shared,
        order,
    )
    COMPILED.ebboost_paired(n_nodes, *(part.ctypes.data for part in given))
    place, inside, found = _places(order), np.zeros(n_nodes // 4 + 1, dtype=np.uint8), shared
    before, after = (order, place, start, column), (inside, found, lengths)
    COMPILED.ebboost_pieces(
        n_nodes,
        *(part.ctypes.data for part in before),
        sums_from(n_nodes),
        *(part.ctypes.data for part in after),
    )
    rows = by_length(lengths)
    return Order(order, place, lengths[rows], rows, nodes)


def _looks(adjacency: sparse.csr_array) -> tuple[bool, bool]:
    """Whether neighbours are scattered, and whether their neighbours are often the same: else no order is better.

    Looks at some nodes: where neighbours know each other, the walks of two steps from a node end at far fewer nodes
    than there are walks.
    """
    random, start, column = np.random.default_rng(0), adjacency.indptr, adjacency.indices
    nodes = random.choice(adjacency.shape[0], SAMPLE, replace=False)
    far, ends, walks = 0.0, 0, 0
    for node in nodes.tolist():
        around = column[start[node] : start[node + 1]][:50]
        if around.size == 0:
            continue
        far += float(np.mean(np.abs(around - node) > WINDOW))
        reached = np.concatenate(
            [column[start[other] : start[other + 1]][:50] for other in around.tolist()]
        )
        reached = reached[reached != node]
        ends, walks = ends + np.unique(reached).size, walks + reached.size
    return far > 0.5 * nodes.size, ends < 0.8 * walks
