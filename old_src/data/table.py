"""The table: one matrix of numbers for dataframes, arrays, sparse matrices and Parquet files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.data.lazy import LazyColumns, LazyMatrix, temporary_array
from ebboost.data.parquet import ParquetMatrix
from ebboost.data.sharded import total_rows
from ebboost.data.types import AnyArray

# Numbers up to which added columns are computed at once, as one matrix: 32 MB.
EAGER_LIMIT = 1 << 22
# Columns that are propagated together: with fewer, a neighbour's address costs more than its
# values.
COLUMN_BATCH = 24
# The same for a table in files, and columns of it that are copied in memory at most.
ON_DISK_BATCH = 4
# Tree libraries use single precision, up to 3.4e38, and neighbours' columns are added up.
MAX_VALUE = 1e37

Columns: TypeAlias = NDArray[Any] | sparse.csr_array | LazyColumns


@dataclass(frozen=True)
class Table:
    """A matrix with a name per column."""

    values: Any  # ndarray, csr_array, ParquetMatrix or LazyMatrix of shape (n, d)
    names: tuple[str, ...]
    categorical: tuple[int, ...] = ()  # positions of the columns that hold category codes
    origin: tuple[int, ...] = ()  # for each column, that of the user's table it was computed from
    categories: Mapping[int, Sequence[Any]] = field(default_factory=dict, kw_only=True)
    dates: tuple[int, ...] = field(default=(), kw_only=True)  # columns of days since 1970

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.values.shape[0])

    @property
    def is_sparse(self) -> bool:
        """Whether the values are a scipy sparse matrix."""
        return bool(sparse.issparse(self.values))

    @property
    def on_disk(self) -> bool:
        """Whether the values are in files, and read a block at a time."""
        values = self.values
        first = values.parts[0] if isinstance(values, LazyMatrix) else values
        return isinstance(first, (ParquetMatrix, np.memmap))

    @property
    def in_blocks(self) -> bool:
        """Whether the values are read or computed a block at a time."""
        return isinstance(self.values, (ParquetMatrix, LazyMatrix))

    def blocks(self) -> "Iterator[Table]":
        """Yield the table, or blocks of its rows in order."""
        for values in self.values.blocks() if self.in_blocks else [self.values]:
            yield replace(self, values=values)

    def materialize(self) -> "Table":
        """Return the table with all columns computed."""
        if not isinstance(self.values, LazyMatrix):
            return self
        return replace(self, values=self.values.materialize())

    def mapped(self) -> "Table":
        """Return a table in files as an array, which is in a file too; any other as it is."""
        if not isinstance(self.values, ParquetMatrix):
            return self
        return replace(self, values=self.values.mapped())

    def release(self) -> None:
        """Free what was computed for all rows of lazy columns; it is computed again when needed."""
        if isinstance(self.values, LazyMatrix):
            self.values.release()

    def subset(self, rows: NDArray[Any] | slice) -> "Table":
        """Return some rows, by position, mask or slice."""
        return replace(self, values=self.values[rows])

    def stack(self, below: "Table") -> "Table":
        """Return the table with the rows of another one below its own."""
        stack = sparse.vstack if self.is_sparse else np.vstack
        return replace(self, values=stack([self.values, below.values]))

    def with_columns(
        self, blocks: Sequence[Columns], names: Sequence[str], origin: Sequence[int]
    ) -> "Table":
        """Return the table with numeric columns added on the right.

        Lazy ones, of a dense table, are computed a block of rows at a time unless they are few.
        """
        values: AnyArray
        if self.is_sparse:
            values = sparse.hstack([self.values, *blocks], format="csr")
        else:
            parts = self.values.parts if isinstance(self.values, LazyMatrix) else [self.values]
            values = LazyMatrix([*parts, *blocks])
            if values.size <= EAGER_LIMIT:
                values = values.materialize()
        names = (*self.names, *names)
        return replace(self, values=values, names=names, origin=(*self.origin, *origin))

    def select(self, columns: Sequence[int]) -> "Table":
        """Return the table with some of its numeric columns; adjacent ones are not copied."""
        values = self.values
        if len(columns) < len(self.names):
            adjacent = len(columns) and list(columns) == [*range(columns[0], columns[-1] + 1)]
            if adjacent:
                values = values[:, columns[0] : columns[-1] + 1]
            elif isinstance(values, np.memmap) and len(columns) > ON_DISK_BATCH:
                values = temporary_array((len(values), len(columns)), values.dtype)
                for target, source in enumerate(columns):
                    values[:, target] = self.values[:, source]
            else:
                values = values[:, columns]
        names = tuple(self.names[column] for column in columns)
        origin = tuple(self.origin[column] for column in columns)
        return Table(values, names, (), origin)

    def batches(self, columns: Sequence[int], share: int = 1) -> "Iterator[Table]":
        """Yield the columns in batches that are propagated over the graph together.

        Of a large table, a ``share`` of 2 means half as many at a time.
        """
        # Equally many in each, and never one alone, which another loop would round differently.
        most = ON_DISK_BATCH if self.on_disk else COLUMN_BATCH
        limit = max(EAGER_LIMIT // max(total_rows(self.values), 1), most // share, 3)
        n_batches = max(-(-len(columns) // limit), 1)
        for batch in np.array_split(np.asarray(columns, dtype=int), n_batches):
            yield self.select(batch.tolist())
