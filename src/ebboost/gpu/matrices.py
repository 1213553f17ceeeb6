"""Sparse matrices on the GPU, times vectors in double precision: see `rows.cu`."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from scipy import sparse

THREADS = 256  # of a block
BATCH = 4  # loads that a thread has under way at once
HUB = 1024  # rows of more entries have a block of threads each


class CudaMatrix:
    """A sparse matrix, times vectors of shape (n,) or (n, c)."""

    def __init__(self, matrix: sparse.csr_array) -> None:
        self.n_rows, self.n_columns = matrix.shape
        self.arrays = (
            cupy.asarray(matrix.indptr, dtype=np.int64),
            cupy.asarray(matrix.indices, dtype=np.int32),
            cupy.asarray(matrix.data, dtype=np.float64),
        )
        hubs = np.flatnonzero(np.diff(matrix.indptr) > HUB)
        self.hubs = cupy.asarray(hubs, dtype=np.int32)
        # As many threads for a row as leave each a few entries: fewer wait, more idle.
        mean = matrix.nnz / max(self.n_rows, 1)
        self.lanes = int(np.clip(2 ** np.round(np.log2(max(mean, 1.0) / 2.0)), 2, 32))

    def __matmul__(self, v: Any) -> Any:
        return self.times(v)

    def times(self, v: Any, factor: float = 0.0, source: Any = None) -> Any:
        """Return M v + factor · source."""
        if len(v) != self.n_columns:
            raise ValueError(f"expected a row for each of {self.n_columns} nodes, got {v.shape}.")
        v = cupy.ascontiguousarray(v, dtype=np.float64)
        source = 0 if source is None else cupy.ascontiguousarray(source, dtype=np.float64)
        out = cupy.empty((self.n_rows, *v.shape[1:]))
        width = v.shape[1] if v.ndim > 1 else 1
        columns = min(2 ** int(np.ceil(np.log2(max(width, 1)))), 32)
        lanes = max(self.lanes, columns)
        arguments = (*self.arrays, v, float(factor), source, out)
        rows, hubs = kernels(lanes, columns)
        column_blocks = -(-width // columns)
        if out.size:
            blocks = -(-self.n_rows // (THREADS // lanes))
            rows((blocks, column_blocks), (THREADS,), (self.n_rows, width, HUB, *arguments))
        if out.size and self.hubs.size:
            hubs((self.hubs.size, column_blocks), (THREADS,), (self.hubs, width, *arguments))
        return out


@lru_cache
def kernels(lanes: int, columns: int) -> tuple[Any, Any]:
    """Return the kernels of rows and of hubs for so many threads a row and columns of v."""
    sizes = {"LANES": lanes, "COLUMNS": columns, "BATCH": BATCH, "THREADS": THREADS}
    module = compiled(("rows.cu",), sizes)
    return module.get_function("rows"), module.get_function("hubs")


def compiled(files: Sequence[str], macros: dict[str, int]) -> Any:
    """Return the module of source files here."""
    source = "\n".join(Path(__file__).with_name(one).read_text(encoding="utf-8") for one in files)
    options = tuple(f"-D{name}={value}" for name, value in macros.items())
    return cupy.RawModule(code=source, options=options)
