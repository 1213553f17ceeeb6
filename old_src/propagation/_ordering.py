"""The order in which the compiled loops sum rows: neighbours close in memory, sorted by length.

Where nodes share many neighbours they are put in pairs and fours, whose sums are then read once
for all rows that contain them: see `kernels.c`. On the House graph (180 000 edges among 20 000
nodes) that takes a quarter off a sweep and a tenth off a whole fit; on graphs of fewer than eight
neighbours a node it is not tried.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ebboost._native import COMPILED

#: Rows that `kernels.c` sums side by side.
EIGHT = 8
#: Rows are sorted by length within this many, WINDOW of `kernels.c`: they stay in the first cache.
WINDOW = 4_096
#: Scores of fewer nodes fit in that cache in any order.
LARGE = 10_000
#: Nodes whose neighbourhoods are looked at to judge a graph.
SAMPLE = 64
#: Entries that sums of pairs and fours must save a node, and the share of all entries, to pay for
#: adding them up; they seldom save more than MOST_SAVED.
LEAST_SAVED_PER_NODE = 4
LEAST_SAVED = 0.25
MOST_SAVED = 0.5

Indices = NDArray[np.int32]


class RowRanges(NamedTuple):
    """Blocks of ``step`` rows and the number of entries read up to the end of each."""

    step: int
    n_rows: int
    reads: NDArray[np.int64]

    @classmethod
    def of(cls, lengths: Indices, step: int) -> "RowRanges":
        """Return the blocks of rows of these lengths."""
        starts = np.arange(0, lengths.size, step)
        return cls(step, lengths.size, np.add.reduceat(lengths, starts, dtype=np.int64).cumsum())

    def split(self, count: int) -> list[int]:
        """Return ends of ``count`` ranges of whole blocks that read about as much each."""
        if count == 1:
            return [0, self.n_rows]
        shares = np.linspace(0, self.reads[-1], count + 1)[1:-1]
        ends = self.step * (1 + np.searchsorted(self.reads, shares))
        return [0, *np.minimum(ends, self.n_rows).tolist(), self.n_rows]


@dataclass(frozen=True)
class Order:
    """How the rows of an adjacency are summed."""

    #: The node at each position of a vector of one column, and the position of each node.
    nodes: Indices
    position: Indices
    #: How many entries the row that is summed i-th reads.
    lengths: Indices
    #: Its position, None: i. With it, pairs and fours of positions have sums.
    rows: Indices | None
    #: The nodes in the order in which their rows of several columns are summed.
    wide_nodes: Indices
    #: Where rows of one column, and of several, may be divided between threads.
    ranges: RowRanges
    wide_ranges: RowRanges


def row_order(adjacency: sparse.csr_array, can_share: bool = False) -> Order:
    """Return the order that suits the graph.

    If it ``can_share``, as all weights are one, sums of pairs and fours may be read for nodes.
    """
    n_nodes = adjacency.shape[0]
    nodes = np.arange(n_nodes, dtype=np.int32)
    clustered = True
    if n_nodes >= LARGE:
        scattered, clustered = _neighborhood_traits(adjacency)
        if scattered and clustered:
            order = reverse_cuthill_mckee(adjacency, symmetric_mode=True)
            nodes = np.asarray(order, dtype=np.int32)
    least = max(LEAST_SAVED_PER_NODE * n_nodes, LEAST_SAVED * adjacency.nnz)
    may_pay = clustered and least <= MOST_SAVED * adjacency.nnz
    if can_share and may_pay and adjacency.has_canonical_format:
        order = shared_order(adjacency, nodes)
        if adjacency.nnz - int(order.lengths.sum()) >= least:
            return order
    nodes, lengths = _by_length(adjacency, nodes)
    ranges = RowRanges.of(lengths, EIGHT)
    return Order(nodes, _inverse(nodes), lengths, None, nodes, ranges, ranges)


def shared_order(adjacency: sparse.csr_array, nodes: Indices) -> Order:
    """Return an order of pairs and fours of nodes that share neighbours, sought along ``nodes``."""
    n_nodes = adjacency.shape[0]
    mate, mark, pair, visited, order, lengths = np.empty((6, n_nodes), dtype=np.int32)
    shared_start = np.empty(n_nodes // 2 + 1, dtype=np.int64)
    shared = np.empty(adjacency.nnz + 1, dtype=np.int32)
    edges = addresses(adjacency.indptr, adjacency.indices)
    work = addresses(mate, mark, pair, visited, shared_start, shared)
    sought = np.ascontiguousarray(nodes)
    COMPILED.ebboost_paired(n_nodes, *edges, *addresses(sought), *work, *addresses(order))
    position = _inverse(order)
    inside = np.zeros(n_nodes // 4 + 1, dtype=np.uint8)
    head = (n_nodes, *addresses(order, position), *edges, padded_length(n_nodes))
    COMPILED.ebboost_pieces(*head, *addresses(inside, shared, lengths))
    rows = _sorted_within_windows(lengths)
    lengths = lengths[rows]
    wide_nodes, wide_lengths = _by_length(adjacency, nodes)
    ranges = RowRanges.of(lengths, WINDOW)
    wide_ranges = RowRanges.of(wide_lengths, EIGHT)
    return Order(order, position, lengths, rows, wide_nodes, ranges, wide_ranges)


def padded_length(n_nodes: int) -> int:
    """Return the length of a vector in eights with a zero behind the last node."""
    return EIGHT * (n_nodes // EIGHT + 1)


def addresses(*arrays: NDArray[np.generic] | None) -> list[int | None]:
    """Return where the arrays lie; who passes these on must hold the arrays as long."""
    return [None if array is None else array.ctypes.data for array in arrays]


def _by_length(adjacency: sparse.csr_array, nodes: Indices) -> tuple[Indices, Indices]:
    """The nodes, sorted by the length of their rows within each window, and these lengths."""
    lengths = np.diff(adjacency.indptr)[nodes]
    rows = _sorted_within_windows(lengths)
    return nodes[rows], lengths[rows]


def _sorted_within_windows(lengths: Indices) -> Indices:
    windows = np.arange(lengths.size) // WINDOW
    return np.asarray(np.lexsort((lengths, windows)), dtype=np.int32)


def _inverse(nodes: Indices) -> Indices:
    position = np.empty_like(nodes)
    position[nodes] = np.arange(nodes.size, dtype=np.int32)
    return position


def _neighborhood_traits(adjacency: sparse.csr_array) -> tuple[bool, bool]:
    """Whether neighbours are far apart in memory, and whether the graph is clustered.

    In a clustered graph the walks of two steps from a node end at far fewer nodes than there are
    walks. Only then does another order bring neighbours together.
    """
    start = adjacency.indptr
    column = adjacency.indices
    nodes = np.random.default_rng(0).choice(adjacency.shape[0], SAMPLE, replace=False)
    far = 0.0
    n_ends = 0
    n_walks = 0
    for node in nodes.tolist():
        neighbors = column[start[node] : start[node + 1]][:50]
        if neighbors.size == 0:
            continue
        far += float(np.mean(np.abs(neighbors - node) > WINDOW))
        walks = [column[start[other] : start[other + 1]][:50] for other in neighbors.tolist()]
        ends = np.concatenate(walks)
        ends = ends[ends != node]
        n_ends += np.unique(ends).size
        n_walks += ends.size
    return far > 0.5 * nodes.size, n_ends < 0.8 * n_walks
