"""A table on the GPU, and what new trees say of its rows, read there by `_trees.cu`."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebbflow.devices import cupy

THREADS = 256
MOVED_AT_ONCE = 16_000_000  # entries of a table


class CudaTable:
    """A dense table as float32, to which XGBoost rounds every table.

    Parameters
    ----------
    values : ndarray of shape (n, d)
        Moved some rows at a time, to need little more than they take.
    """

    def __init__(self, values: NDArray[Any]) -> None:
        self.array = cupy().empty(values.shape, dtype=np.float32)
        rows = max(MOVED_AT_ONCE // max(values.shape[1], 1), 1)
        for start in range(0, len(values), rows):
            part = np.ascontiguousarray(values[start : start + rows], dtype=np.float32)
            self.array[start : start + rows].set(part)

    def values(self, trees: Sequence[dict[str, Any]]) -> Any:
        """Return the values of trees in XGBoost's JSON format, shape (n, number of trees)."""
        nodes = [packed(tree) for tree in trees]
        root = np.cumsum([0, *map(len, nodes[:-1])], dtype=np.int32)
        n_rows, n_columns = self.array.shape
        out = cupy().empty((n_rows, len(trees)))
        where = cupy().asarray(root), cupy().asarray(np.concatenate(nodes))
        blocks = -(-n_rows // THREADS), len(trees)
        _kernel()(blocks, (THREADS,), (n_rows, n_columns, *where, self.array, out))
        return out


def packed(tree: dict[str, Any]) -> NDArray[np.int32]:
    """Return a tree's nodes as `_trees.cu` reads them, shape (number of nodes, 4)."""
    left, right, column = (
        np.asarray(tree[name], np.int32) for name in ("left_children", "right_children", "split_indices")
    )
    column = column | np.where(tree["default_left"], np.int32(-(2**31)), np.int32(0))
    return np.column_stack([left, right, column, np.asarray(tree["split_conditions"], np.float32).view(np.int32)])


@lru_cache
def _kernel() -> Any:
    source = Path(__file__).with_name("_trees.cu").read_text(encoding="utf-8")
    return cupy().RawKernel(source, "values")
