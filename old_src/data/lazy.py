"""Matrices of which some columns are computed on demand, a block of rows at a time."""

import os
from collections.abc import Iterator, Sequence
from tempfile import TemporaryFile, gettempdir
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ebboost.data.sharded import shard_like, total_rows

# Numbers of a table that are read from files, or computed from other columns, at a time: 4 MB.
BLOCK_SIZE = 1 << 19


def rows_per_block(n_columns: int) -> int:
    """Return the number of rows to read or compute at a time."""
    return max(BLOCK_SIZE // max(n_columns, 1), 1)


def temporary_array(shape: tuple[int, int], dtype: DTypeLike) -> NDArray[Any]:
    """Return an array in a file, which the system reads and writes and which is deleted with it."""
    n_bytes = max(int(np.dtype(dtype).itemsize) * shape[0] * shape[1], 1)
    with TemporaryFile() as file:
        try:  # a full disk is an error here, later a crash
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, n_bytes)
        except OSError as error:
            raise OSError(
                f"{gettempdir()} has no space for a temporary file of {n_bytes:,} bytes with the "
                "columns of X: name another folder in the variable TMPDIR."
            ) from error
        return np.memmap(file, dtype, "w+", shape=shape)


def to_file(values: NDArray[Any]) -> NDArray[Any]:
    """Return a copy as a :func:`temporary_array`."""
    copied = temporary_array(values.shape, values.dtype)
    copied[...] = values
    return copied


class LazyColumns(Protocol):
    """Columns that are computed on demand."""

    shape: tuple[int, int]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""

    def write(self, rows: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Write the values of these rows into ``out``, of shape (len(rows), shape[1])."""

    def release(self) -> None:
        """Free what was computed for all rows; it is computed again when needed."""


class LazyMatrix:
    """Columns from left to right, of which some are computed a block of rows at a time."""

    def __init__(self, parts: Sequence[NDArray[Any] | LazyColumns]) -> None:
        self.parts = list(parts)
        self.shape = (int(parts[0].shape[0]), sum(int(part.shape[1]) for part in parts))
        #: Number of entries, those of other workers included.
        self.size = total_rows(parts[0]) * self.shape[1]
        self.dtype = np.result_type(*(part.dtype for part in parts))
        self.rows_per_block = rows_per_block(self.shape[1])

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.materialize(), dtype=dtype)

    def materialize(self) -> NDArray[Any]:
        """Return all rows as one array."""
        return self.rows(0, self.shape[0])

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield arrays of some rows each, in order."""
        for start in range(0, self.shape[0], self.rows_per_block):
            yield self.rows(start, min(start + self.rows_per_block, self.shape[0]))

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return the rows from ``start`` to ``stop``."""
        return self._compute(slice(start, stop), np.arange(start, stop))

    def __getitem__(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return some rows, by position or mask."""
        positions = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)
        return self._compute(positions, positions)

    def _compute(self, index: slice | NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[Any]:
        values = np.empty((rows.size, self.shape[1]), dtype=self.dtype)
        first = 0
        for part in self.parts:
            out = values[:, first : first + part.shape[1]]
            if isinstance(part, np.ndarray):
                out[...] = part[index]
            else:
                part.write(rows, out)
            first += part.shape[1]
        return shard_like(values, self.parts[0])

    def release(self) -> None:
        """Free what was computed for all rows; it is computed again when needed."""
        for part in self.parts:
            if not isinstance(part, np.ndarray):
                part.release()
