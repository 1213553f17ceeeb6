"""Tables in Parquet files that may be larger than memory."""

from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ebboost.data.lazy import rows_per_block, temporary_array
from ebboost.data.types import Array, IntArray
from ebboost.graph.parquet import parquet_files, read_blocks

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.parquet import ParquetFile


class ParquetTable:
    """A table in Parquet files that may be larger than memory, to be passed as ``X``.

    It is read a block of rows at a time. Supported by LightGBM and XGBoost. Columns computed from
    neighbours need the rows in any order: its numbers are then copied to a temporary file, in the
    folder that the variable TMPDIR names.

    Parameters
    ----------
    path : path
        A file, or a folder of ``*.parquet`` files, read in the order of their names (digits as
        numbers); row i is node i.
    columns : list of str, optional
        The columns to use; all by default, except the index of pandas. Name them if the file also
        holds the labels.

    Attributes
    ----------
    names : tuple of str
        The columns.
    shape : tuple of int
        Numbers of rows and columns.

    Examples
    --------
    >>> import ebboost as eb, numpy as np, pandas as pd, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "table.parquet")
    >>> frame = pd.DataFrame({"x": np.arange(200.0), "kind": ["a", "b"] * 100})
    >>> frame.assign(y=frame["x"] ** 2).to_parquet(path)
    >>> X = eb.ParquetTable(path, columns=["x", "kind"])
    >>> X.shape
    (200, 2)
    >>> eb.EBBSRegressor(20, random_state=0).fit(X, frame["x"] ** 2).predict(X).shape
    (200,)
    """

    def __init__(self, path: str | PathLike[str], columns: Sequence[str] | None = None) -> None:
        files = parquet_files(path)
        schema = _common_schema([file.schema_arrow for file in files], path)
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        if columns is None:
            columns = [name for name in schema.names if name not in index]
        for name in columns:
            if isinstance(columns, str) or name not in schema.names:
                problem = f"columns={columns!r}: {name!r} is not a column of {path}"
                raise ValueError(f"{problem}; there are {schema.names}.")
        if len(set(columns)) < len(columns):
            raise ValueError(f"{path}: a column name occurs, or is named twice, in {columns}.")
        self.path = path
        self.names = tuple(columns)
        self.shape = (sum(file.metadata.num_rows for file in files), len(self.names))
        self.rows_per_block = rows_per_block(self.shape[1])
        #: A pyarrow table of these columns without rows.
        self.empty = schema.empty_table().select(list(self.names))

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"ParquetTable({str(self.path)!r}, {self.shape[0]} rows, {self.shape[1]} columns)"

    def __array__(self, *_: object, **__: object) -> Array:
        raise TypeError(
            "This needs the table in memory, and X is a ParquetTable: read it, or some rows of it, "
            f"with pandas.read_parquet({str(self.path)!r})."
        )

    def blocks(self, columns: Sequence[str] | None = None) -> "Iterator[pyarrow.Table]":
        """Yield blocks of rows in order.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns to read; all by default.

        Yields
        ------
        pyarrow.Table
            The next rows.
        """
        names = self.names if columns is None else columns
        for block in read_blocks(self._files(), names, self.rows_per_block):
            yield self._cast(block)

    def take(self, rows: IntArray) -> "pyarrow.Table":
        """Return some rows; only the row groups that hold them are read.

        Parameters
        ----------
        rows : ndarray of int
            Positions of the rows.

        Returns
        -------
        pyarrow.Table
            These rows in order.
        """
        import pyarrow

        wanted, inverse = np.unique(rows, return_inverse=True)
        parts = [self.empty]
        first = 0
        for file in self._files():
            for group in range(file.metadata.num_row_groups):
                last = first + file.metadata.row_group(group).num_rows
                ends = np.searchsorted(wanted, [first, last])
                inside = wanted[slice(*ends)] - first
                if inside.size:
                    block = file.read_row_group(group, columns=list(self.names), use_threads=False)
                    parts.append(self._cast(block.select(list(self.names)).take(inside)))
                first = last
        return pyarrow.concat_tables(parts).unify_dictionaries().take(inverse)

    def _files(self) -> "list[ParquetFile]":
        """Open the files, and check that they are still those of ``__init__``."""
        files = parquet_files(self.path)
        n_rows = sum(file.metadata.num_rows for file in files)
        present = files[0].schema_arrow.names
        missing = [name for name in self.names if name not in present]
        if n_rows != self.shape[0] or missing:
            change = f"has no column {missing[0]!r} now" if missing else f"has {n_rows} rows now"
            raise ValueError(f"{self!r} {change}: create a new ParquetTable of it.")
        return files

    def _cast(self, block: "pyarrow.Table") -> "pyarrow.Table":
        """Return a block with the types that all files share."""
        schema = self.empty.select(block.column_names).schema
        return block if block.schema.equals(schema) else block.cast(schema, safe=False)


def _common_schema(schemas: "list[pyarrow.Schema]", path: str | PathLike[str]) -> "pyarrow.Schema":
    """Return the types that all files can be cast to: a column may be empty, or integer, in one."""
    import pyarrow

    if all(schema.equals(schemas[0]) for schema in schemas):
        return schemas[0]
    fields = []
    for field in schemas[0]:
        types = list(dict.fromkeys(schema.field(field.name).type for schema in schemas))
        if len(types) > 1:
            plain = [t.value_type if pyarrow.types.is_dictionary(t) else t for t in types]
            options = [pyarrow.schema([(field.name, t)]) for t in plain]
            try:
                field = pyarrow.unify_schemas(options, promote_options="permissive").field(0)
            except pyarrow.ArrowException:
                kinds = " and ".join(map(str, types))
                raise ValueError(
                    f"{path}: column {field.name!r} is {kinds}: write it as one type."
                ) from None
        fields.append(field)
    return pyarrow.schema(fields, schemas[0].metadata)


class ParquetMatrix:
    """The numbers of a :class:`ParquetTable`, which ``read`` converts a block of rows at a time."""

    def __init__(self, source: ParquetTable, read: "Callable[[pyarrow.Table], Array]") -> None:
        self._source = source
        self._read = read
        self.shape = source.shape
        self.size = source.shape[0] * source.shape[1]
        self.rows_per_block = source.rows_per_block
        self._mapped: NDArray[Any] | None = None
        self._ahead: Iterator[Array] = iter(())
        self._block = np.zeros((0, source.shape[1]))
        self._first = 0

    def __array__(self, *_: object, **__: object) -> Array:
        return self._source.__array__()

    def blocks(self) -> Iterator[Array]:
        """Yield arrays of some rows each, in order."""
        first = 0
        for block in self._source.blocks():
            try:
                yield self._read(block)
            except (TypeError, ValueError) as error:
                where = f"{self._source.path}, counted from row {first}"
                raise type(error)(f"{where}: {error}") from None
            first += block.num_rows

    def mapped(self) -> NDArray[Any]:
        """Return the numbers as an array in a temporary file, written when first needed."""
        if self._mapped is None:
            mapped = temporary_array(self.shape, np.float64)
            first = 0
            for block in self.blocks():
                mapped[first : first + len(block)] = block
                first += len(block)
            self._mapped = mapped
        return self._mapped

    def rows(self, start: int, stop: int) -> Array:
        """Return the rows from ``start`` to ``stop``; fast if they follow the last ones."""
        parts = []
        while start < stop:
            end = self._first + len(self._block)
            if self._first <= start < end:
                parts.append(self._block[start - self._first : stop - self._first])
                start += len(parts[-1])
                continue
            block = next(self._ahead, None) if start >= end else None
            self._first = 0 if block is None else end
            if block is None:  # nothing was read yet, or these rows came before
                self._ahead = self.blocks()
            self._block = self._block[:0] if block is None else block
        return np.concatenate(parts)  # a copy: a view would keep its whole block in memory

    def __getitem__(self, rows: NDArray[Any]) -> Array:
        """Return some rows, by position or mask."""
        positions = np.flatnonzero(rows) if rows.dtype == bool else rows
        return self._read(self._source.take(positions))
