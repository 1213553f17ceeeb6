"""Rows of a symmetric adjacency, from edges in any order: counted, written, then merged in place.

Memory is needed for a few numbers per row and for the arrays of the entries, which may be in files.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.data.types import IntArray
from ebboost.graph._edges import Weights, merge_directions

# Entries that are merged at a time, and fewest that are written at a time.
AT_ONCE = 1 << 16
#: An array to write to: the part of the matrix that it is, its type, its size.
NewArray = Callable[[str, np.dtype[Any], int], NDArray[Any]]


def in_memory(part: str, dtype: np.dtype[Any], size: int) -> NDArray[Any]:
    """Return an array in memory."""
    return np.empty(size, dtype)


def index_type(largest: int) -> np.dtype[Any]:
    """Return the smaller of two integer types that holds a number."""
    return np.dtype(np.int32 if largest < 2**31 else np.int64)


class RowEntries:
    """Entries of some rows; each edge is written to the row of either end that is among them.

    ``counts`` is how often each row is the end of an edge, ``n_nodes`` the number of columns.
    Without weights repeats count once; weighted ones are merged by :func:`merge_directions`, for
    which an edge *to* its row has the column of the other end plus ``n_nodes``.
    """

    def __init__(
        self, counts: IntArray, n_nodes: int, weighted: bool, new_array: NewArray = in_memory
    ) -> None:
        self._n_nodes = n_nodes
        self._start = np.concatenate([[0], np.cumsum(counts)])
        self._end = self._start[:-1].copy()
        size = int(self._start[-1])
        #: Integers of columns and of starts of rows.
        self.index = index_type(max(size, self.width(n_nodes, weighted)))
        self.columns = new_array("indices", self.index, size)
        self.weights = new_array("data", np.dtype(np.float64), size) if weighted else None

    @staticmethod
    def width(n_nodes: int, weighted: bool) -> int:
        """Return the largest column, plus one, with which an edge is written."""
        return 2 * n_nodes if weighted else n_nodes

    def write(self, rows: IntArray, columns: IntArray, weights: Weights | None = None) -> None:
        """Add edges; best as many at a time as there are rows."""
        data = np.ones(rows.size, bool) if weights is None else weights
        shape = (self._end.size, self.width(self._n_nodes, weights is not None))
        block = sparse.coo_array((data, (rows, columns)), shape).tocsr()
        entry = np.repeat(self._end - block.indptr[:-1], np.diff(block.indptr))
        entry += np.arange(block.nnz)
        self.columns[entry] = block.indices
        if self.weights is not None:
            self.weights[entry] = block.data
        self._end += np.diff(block.indptr)

    def merge(self) -> IntArray:
        """Sort and merge the entries of each row in place; return where rows start."""
        n_rows = self._end.size
        starts = np.zeros_like(self._start)
        row = 0
        while row < n_rows:
            # As many rows as fill a block, and at least one.
            first = self._start[row]
            last = max(int(np.searchsorted(self._start, first + AT_ONCE, "right")) - 1, row + 1)
            merged = self._merged(row, last)
            entries = slice(int(starts[row]), int(starts[row]) + merged.nnz)
            self.columns[entries] = merged.indices
            if self.weights is not None:
                self.weights[entries] = merged.data
            starts[row + 1 : last + 1] = entries.start + merged.indptr[1:]
            row = last
        return starts

    def _merged(self, row: int, last: int) -> sparse.csr_array:
        """The entries of some rows, sorted and without repeats."""
        lengths = self._end[row:last] - self._start[row:last]
        owner = np.repeat(np.arange(last - row), lengths)
        before = np.cumsum(lengths) - lengths
        entry = np.repeat(self._start[row:last] - before, lengths) + np.arange(owner.size)
        columns = np.asarray(self.columns[entry])
        shape = (last - row, self._n_nodes)
        if self.weights is None:
            ones = np.ones(owner.size, dtype=bool)
            return sparse.coo_array((ones, (owner, columns)), shape).tocsr()
        weights = np.asarray(self.weights[entry])
        is_back = columns >= self._n_nodes
        ways = []
        for chosen, added in ((~is_back, 0), (is_back, self._n_nodes)):
            ends = (owner[chosen], columns[chosen] - added)
            ways.append(sparse.coo_array((weights[chosen], ends), shape).tocsr())
        return merge_directions(*ways)
