"""The table: dataframes, arrays and sparse matrices become one matrix of numbers; the only room that knows them.

Text and category columns become codes (a missing or never-seen category is NaN). What a column was at fit, it must be
at prediction.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Protocol

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_array

from ebboost.graph.ids import is_missing
from ebboost.graph.parquet import parquet_files, read_blocks

BLOCK = (
    1 << 19
)  # numbers of a table that are read from files, or made from other columns, at a time: 4 MB
# Numbers up to which added columns are made at once, as one matrix: 32 MB.
AT_ONCE = 1 << 22
# Columns that are carried over the graph side by side: with fewer, finding a neighbour takes longer than its numbers.
SIDE_BY_SIDE = 24

# Tree libraries compute in single precision, which ends at 3.4e38, and neighbours' columns are added up.
LARGEST = 1e37


@dataclass(frozen=True)
class Table:
    """A matrix with a name per column.

    Attributes
    ----------
    values : ndarray, csr_array, ParquetMatrix or LazyMatrix of shape (n, d)
    names : tuple of str
    categorical : tuple of int
        Positions of the columns that hold category codes.
    origin : tuple of int
        For each column, the column of the user's table that it was made from.
    """

    values: Any
    names: tuple[str, ...]
    categorical: tuple[int, ...] = ()
    origin: tuple[int, ...] = ()

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
        return isinstance(self.values, ParquetMatrix)

    @property
    def in_blocks(self) -> bool:
        """Whether the values are read, or made, a block at a time."""
        return isinstance(self.values, (ParquetMatrix, LazyMatrix))

    def blocks(self) -> "Iterator[Table]":
        """The table, or a block of its rows after the other."""
        if not self.in_blocks:
            yield self
            return
        for values in self.values.blocks():
            yield replace(self, values=values)

    def materialize(self) -> "Table":
        """The table with its values in one matrix, for whoever cannot take blocks."""
        return (
            replace(self, values=self.values.materialize())
            if isinstance(self.values, LazyMatrix)
            else self
        )

    def release(self) -> None:
        """Drop what was computed for all rows to make columns; it is computed again when asked for."""
        if isinstance(self.values, LazyMatrix):
            self.values.release()

    def subset(self, rows: NDArray[Any]) -> "Table":
        """Return some rows, by position or mask."""
        return replace(self, values=self.values[rows])

    def with_columns(
        self, blocks: Sequence[Any], names: Sequence[str], origin: Sequence[int]
    ) -> "Table":
        """Return the table with numeric columns added on the right.

        Parameters
        ----------
        blocks : sequence of ndarray, sparse matrix or Columns
            The columns, or for a dense table what makes them for the rows that are asked for: then they are made a block of
            rows at a time, unless they are few.
        """
        values: Any
        if self.is_sparse:
            values = sparse.hstack([self.values, *blocks], format="csr")
        else:
            own = self.values.parts if isinstance(self.values, LazyMatrix) else [self.values]
            made = LazyMatrix([*own, *blocks])
            values = made if made.size > AT_ONCE else made.materialize()
        return replace(
            self, values=values, names=(*self.names, *names), origin=(*self.origin, *origin)
        )

    def picked(self, columns: Sequence[int]) -> "Table":
        """Return the table with some of its numeric columns; those that lie side by side are not copied."""
        picked = self.values
        if len(columns) < len(self.names):
            side_by_side = bool(columns) and list(columns) == list(
                range(columns[0], columns[-1] + 1)
            )
            picked = self.values[:, slice(columns[0], columns[-1] + 1) if side_by_side else columns]
        names = tuple(self.names[column] for column in columns)
        return replace(
            self,
            values=picked,
            names=names,
            categorical=(),
            origin=tuple(self.origin[c] for c in columns),
        )

    @property
    def is_spread(self) -> bool:
        """Whether other workers hold the rest of the rows: what is made of all rows is then made by all at the same time."""
        return False

    def batches(self, columns: Sequence[int], share: int = 1) -> "Iterator[Table]":
        """Some columns as they are carried over the graph: for all rows, and no more at a time than can be held.

        Of a large table, a ``share`` of 2 means half as many at a time.
        """
        # As many in each, and of several never one alone: it is carried by another loop, which rounds otherwise.
        most = max(AT_ONCE // max(self.n_rows, 1), SIDE_BY_SIDE // share, 3)
        for batch in np.array_split(
            np.asarray(columns, dtype=int), max(-(-len(columns) // most), 1)
        ):
            yield self.picked(batch.tolist())

    def own(self, values: Any) -> Any:
        """Of columns made for all rows, those rows that this table holds."""
        return values


class ParquetTable:
    """A table in Parquet files that may be larger than memory, to be handed over as ``X``.

    It is read a block of rows at a time, some numbers for each node aside. Trees come from LightGBM or XGBoost, and columns
    made from neighbours are none: they need the table in memory.

    Parameters
    ----------
    path : path
        A file, or a folder of ``*.parquet`` files, taken in the order of their names, numbers in them as numbers; row i is
        node i.
    columns : list of str, optional
        The columns to use; all by default, but for what pandas calls the index. Name them where the file also holds the
        labels.

    Examples
    --------
    >>> import ebboost as eb, numpy as np, pandas as pd, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "table.parquet")
    >>> frame = pd.DataFrame({"x": np.arange(200.0), "kind": ["a", "b"] * 100, "y": np.arange(200.0) ** 2})
    >>> frame.to_parquet(path)
    >>> X = eb.ParquetTable(path, columns=["x", "kind"])
    >>> X.shape
    (200, 2)
    >>> eb.EBBSRegressor(20, random_state=0).fit(X, frame["y"]).predict(X).shape
    (200,)
    """

    def __init__(self, path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> None:
        files = parquet_files(path)
        self.path = path
        present = _common_schema([file.schema_arrow for file in files], path)
        self.names: tuple[str, ...] = tuple(_without_index(present) if columns is None else columns)
        for name in self.names:
            if isinstance(columns, str) or name not in present.names:
                raise ValueError(
                    f"columns={columns!r}: {name!r} is not a column of {path}; there are {present.names}."
                )
        if len(set(self.names)) < len(self.names):
            raise ValueError(
                f"{path}: columns of the same name, or named twice, in {list(self.names)}."
            )
        self.shape = (sum(file.metadata.num_rows for file in files), len(self.names))
        self.rows_a_block = max(BLOCK // max(self.shape[1], 1), 1)
        #: A table of the same columns without a row.
        self.empty = present.empty_table().select(list(self.names))

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"ParquetTable({str(self.path)!r}, {self.shape[0]} rows, {self.shape[1]} columns)"

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:
        raise TypeError(
            "This needs the table in memory, and X is a ParquetTable: read it, or some rows of it, with "
            f"pandas.read_parquet({str(self.path)!r})."
        )

    def blocks(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Pyarrow tables of some rows each, one after the other; all columns, or these."""
        names = list(self.names if columns is None else columns)
        return (
            self._alike(block) for block in read_blocks(self._files(), names, self.rows_a_block)
        )

    def _files(self) -> list[Any]:
        files = parquet_files(self.path)
        found = sum(file.metadata.num_rows for file in files)
        if found != self.shape[0]:
            raise ValueError(
                f"{self!r} has {found} rows now: it was written anew since. Make a new ParquetTable of it."
            )
        for name in self.names:
            if (
                name not in files[0].schema_arrow.names
            ):  # pyarrow would read the other columns and say nothing
                raise ValueError(
                    f"{self!r} has no column {name!r} now: it was written anew since. Make a new ParquetTable of it."
                )
        return files

    def _alike(self, block: Any) -> Any:
        """A part of the files with the types that all of them share."""
        wanted = self.empty.select(block.column_names).schema
        return block if block.schema.equals(wanted) else block.cast(wanted, safe=False)

    def take(self, rows: NDArray[np.int64]) -> Any:
        """Some rows as a pyarrow table; of the files, only the groups of rows that hold them are read."""
        wanted, back = np.unique(rows, return_inverse=True)
        parts, first = [self.empty], 0
        for file in self._files():
            for group in range(file.metadata.num_row_groups):
                last = first + file.metadata.row_group(group).num_rows
                here = (
                    wanted[np.searchsorted(wanted, first) : np.searchsorted(wanted, last)] - first
                )
                if here.size:
                    found = file.read_row_group(group, columns=list(self.names), use_threads=False)
                    parts.append(self._alike(found.select(list(self.names)).take(here)))
                first = last
        return _joined(parts).take(back)


def _common_schema(schemas: list[Any], path: Any) -> Any:
    """The types that columns of these files have in common: a column of one file may be empty, or whole numbers, there."""
    import pyarrow

    if all(schema.equals(schemas[0]) for schema in schemas):
        return schemas[0]

    def plain(kind: Any) -> Any:
        return kind.value_type if pyarrow.types.is_dictionary(kind) else kind

    fields = []
    for field in schemas[0]:
        kinds = list(dict.fromkeys(schema.field(field.name).type for schema in schemas))
        if len(kinds) > 1:
            ones = [pyarrow.schema([(field.name, plain(kind))]) for kind in kinds]
            try:
                field = pyarrow.unify_schemas(ones, promote_options="permissive").field(0)
            except pyarrow.ArrowException:
                raise ValueError(
                    f"{path}: column {field.name!r} is of another type in each file, {' and '.join(map(str, kinds))}: "
                    "write it as one."
                ) from None
        fields.append(field)
    return pyarrow.schema(fields, schemas[0].metadata)


def _without_index(schema: Any) -> list[str]:
    """The columns but for the index that pandas writes beside them, and does not read back as a column either."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in schema.names if name not in index]


def _joined(parts: list[Any]) -> Any:
    import pyarrow

    return pyarrow.concat_tables(parts).unify_dictionaries()


class ParquetMatrix:
    """The numbers of a table in files, a block of rows at a time."""

    def __init__(self, source: ParquetTable, reader: "TableReader") -> None:
        self._source, self._reader = source, reader
        self.shape = source.shape
        self.size = source.shape[0] * source.shape[1]
        self.rows_a_block = source.rows_a_block
        self._ahead: Iterator[NDArray[np.float64]] = iter(())
        self._block, self._first = np.zeros((0, source.shape[1])), 0

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:
        return self._source.__array__()

    def blocks(self) -> Iterator[NDArray[np.float64]]:
        """Arrays of some rows each, one after the other."""
        first = 0
        for block in self._source.blocks():
            try:
                yield self._reader.read_block(block)
            except (TypeError, ValueError) as error:
                raise type(error)(
                    f"{self._source.path}, counted from row {first}: {error}"
                ) from None
            first += block.num_rows

    def rows(self, start: int, stop: int) -> NDArray[np.float64]:
        """Rows from ``start`` to ``stop``, quickly if they come after those asked for before."""
        if start < self._first:
            self._ahead, self._block, self._first = self.blocks(), self._block[:0], 0
        found = []
        while start < stop:
            end = self._first + len(self._block)
            if start >= end:
                block = next(self._ahead, None)
                if block is None:  # nothing has been read yet, or all has
                    self._ahead, self._block, self._first = self.blocks(), self._block[:0], 0
                else:
                    self._block, self._first = block, end
                continue
            found.append(self._block[start - self._first : stop - self._first])
            start += len(found[-1])
        return np.concatenate(found)  # a copy: a view would keep its whole block

    def __getitem__(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Some rows, by position or mask."""
        rows = np.asarray(rows)
        positions = np.flatnonzero(rows) if rows.dtype == bool else rows
        return self._reader.read_block(self._source.take(positions))


class Columns(Protocol):
    """Columns that are made when they are asked for."""

    shape: tuple[int, int]
    dtype: Any

    def write(self, rows: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Write the values of these rows into an array of as many columns."""

    def release(self) -> None:
        """Drop what was computed for all rows; it is computed again when asked for."""


class LazyMatrix:
    """The numbers of a table beside columns that are made a block of rows at a time and never exist for all rows at once.

    Parameters
    ----------
    parts : sequence of ndarray or Columns
        From left to right.
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = list(parts)
        self.shape = (int(parts[0].shape[0]), sum(int(part.shape[1]) for part in parts))
        self.size = self.shape[0] * self.shape[1]
        self.dtype = np.result_type(*(part.dtype for part in parts))
        self.rows_a_block = max(BLOCK // max(self.shape[1], 1), 1)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.materialize(), dtype=dtype)

    def materialize(self) -> NDArray[Any]:
        """All rows at once."""
        return self.rows(0, self.shape[0])

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Arrays of some rows each, one after the other."""
        for start in range(0, self.shape[0], self.rows_a_block):
            yield self.rows(start, min(start + self.rows_a_block, self.shape[0]))

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Rows from ``start`` to ``stop``."""
        return self._made(slice(start, stop), np.arange(start, stop))

    def __getitem__(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Some rows, by position or mask."""
        rows = np.asarray(rows)
        positions = (
            np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64, copy=False)
        )
        return self._made(positions, positions)

    def _made(self, place: Any, rows: NDArray[np.int64]) -> NDArray[Any]:
        made, first = np.empty((rows.size, self.shape[1]), dtype=self.dtype), 0
        for part in self.parts:
            out = made[:, first : first + part.shape[1]]
            if isinstance(part, np.ndarray):
                out[...] = part[place]
            else:
                part.write(rows, out)
            first += part.shape[1]
        return made

    def release(self) -> None:
        """Drop what was computed for all rows; it is computed again when asked for."""
        for part in self.parts:
            if not isinstance(part, np.ndarray):
                part.release()


class TableReader:
    """Learns the columns of a table once and reads later tables the same way.

    Parameters
    ----------
    categorical : "auto" or sequence of column names or positions
        ``"auto"`` takes text and category columns of dataframes; columns listed here are categories too, whatever
        they hold.
    """

    def __init__(self, categorical: Any = "auto") -> None:
        self.categorical = categorical
        self.names: tuple[str, ...] = ()
        self.categories: dict[int, list[Any]] = {}
        self.is_sparse = False

    def fit(self, X: Any) -> Table:
        """Learn the columns of ``X`` and read it."""
        table = self._fit(X)
        self.is_sparse = table.is_sparse
        return table

    def read(self, X: Any) -> Table:
        """Read a table with the same columns, sparse or not as at fit: tree libraries take absent entries otherwise."""
        table = self._read(X)
        if table.is_sparse == self.is_sparse:
            return table
        return replace(
            table,
            values=sparse.csr_array(table.values) if self.is_sparse else table.values.toarray(),
        )

    def read_block(self, block: Any) -> NDArray[np.float64]:
        """Some rows of a table in files."""
        columns = _columns(block)
        assert columns is not None
        values: NDArray[np.float64] = self._read_columns(columns).values
        return values

    def _fit_on_disk(self, X: ParquetTable) -> Table:
        self.names = X.names
        listed, columns = self._listed_positions(), _columns(X.empty)
        assert columns is not None
        kinds = [p for p, column in enumerate(columns.values()) if p in listed or _is_text(column)]
        found: dict[int, set[Any]] = {position: set() for position in kinds}
        for block in X.blocks([X.names[position] for position in kinds]) if kinds else ():
            for position in kinds:
                values = nw.from_native(block.column(X.names[position]), series_only=True)
                found[position].update(_categories_of(values.unique(), X.names[position]))
        self.categories = {position: sorted(values) for position, values in found.items()}
        return self._on_disk(X)

    def _on_disk(self, X: ParquetTable) -> Table:
        if not X.shape[0] or not X.shape[1]:
            raise ValueError(f"{X!r} is empty: a table needs a row and a column.")
        return Table(
            ParquetMatrix(X, self),
            X.names,
            tuple(sorted(self.categories)),
            tuple(range(len(X.names))),
        )

    def _fit(self, X: Any) -> Table:
        if isinstance(X, ParquetTable):
            return self._fit_on_disk(X)
        columns = _columns(X)
        if columns is None:
            return self._fit_array(_array(X))
        self.names = tuple(columns)
        listed = self._listed_positions()
        for position, (name, column) in enumerate(columns.items()):
            if position in listed or _is_text(column):
                self.categories[position] = _categories_of(column, name)
        return self._read_columns(columns)

    def _read(self, X: Any) -> Table:
        if isinstance(X, ParquetTable):
            self._refuse_other_names(X.names)
            if self.is_sparse:
                raise ValueError(
                    "X is a ParquetTable, at fit it was a sparse matrix: pass one again."
                )
            return self._on_disk(X)
        columns = _columns(X)
        if columns is None:
            return self._read_array(_array(X))
        self._refuse_other_names(tuple(columns))
        return self._read_columns(columns)

    def _refuse_other_names(self, found: tuple[str, ...]) -> None:
        """scikit-learn compares the names of columns only where they are text; pandas has them as numbers too."""
        if found == self.names or len(found) != len(self.names):
            return
        unnamed = self.names == _default_names(len(found)) or found == tuple(
            map(str, range(len(found)))
        )
        if set(found) == set(self.names) or not unnamed:
            place = next(
                i for i, (a, b) in enumerate(zip(found, self.names, strict=True)) if a != b
            )
            raise ValueError(
                f"X, column {place} is {found[place]!r} and was {self.names[place]!r} at fit: pass the same columns in the "
                "same order."
            )

    def _listed_positions(self) -> set[int]:
        if isinstance(self.categorical, str) and self.categorical == "auto":
            return set()
        if isinstance(self.categorical, str) or not np.iterable(self.categorical):
            raise ValueError(
                f"categorical_features must be 'auto' or a list of columns, got {self.categorical!r}."
            )
        positions = set()
        for item in self.categorical:
            if isinstance(item, str):
                if item not in self.names:
                    raise ValueError(
                        f"categorical_features names {item!r}, which is not a column of X."
                    )
                positions.add(self.names.index(item))
            elif not isinstance(item, Integral) or isinstance(item, bool):
                raise ValueError(
                    f"categorical_features must list columns by name or position, got {item!r}. Of a mask, pass "
                    "np.flatnonzero(mask)."
                )
            elif 0 <= int(item) < len(self.names):
                positions.add(int(item))
            else:
                raise ValueError(
                    f"categorical_features names column {item}, X has {len(self.names)} columns."
                )
        return positions

    def _fit_array(self, X: Any) -> Table:
        width = X.shape[1] if getattr(X, "ndim", 0) == 2 else None
        if width is None:
            return self._read_array(X)  # refused there, in scikit-learn's words
        self.names = _default_names(width)
        listed = self._listed_positions()
        if listed and sparse.issparse(X):
            raise ValueError(
                "categorical_features needs a dense X: a sparse matrix holds numbers only."
            )
        for position in sorted(listed):
            self.categories[position] = _categories_of(np.asarray(X)[:, position], position)
        return self._read_array(X)

    def _read_array(self, X: Any) -> Table:
        if self.categories:
            if sparse.issparse(X):
                raise ValueError(
                    "X is sparse, at fit it had columns of categories: pass a dataframe or a dense array."
                )
            X = np.asarray(X)
            if X.ndim == 2 and X.shape[1] == len(self.names):
                return self._read_columns({name: X[:, i] for i, name in enumerate(self.names)})
        try:
            values = check_array(
                X,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
                input_name="X",
                ensure_min_samples=1,
            )
        except (TypeError, ValueError, OverflowError) as error:
            raise _wrong_entry(X) or error from None
        if not self.names:
            self.names = _default_names(values.shape[1])
        if sparse.issparse(values):
            values = sparse.csr_array(values)
        _refuse_infinite(values, range(values.shape[1]))
        return Table(values, self.names, (), tuple(range(len(self.names))))

    def _read_columns(self, columns: dict[str, Any]) -> Table:
        n_rows = len(next(iter(columns.values()))) if columns else 0
        if not columns or not n_rows:
            raise ValueError(
                f"WorkerResult array with {n_rows} sample(s) and {len(columns)} feature(s) while a minimum of 1 is required."
            )
        values = np.empty((n_rows, len(columns)))
        for position, (name, column) in enumerate(columns.items()):
            if position in self.categories:
                values[:, position] = _codes(column, self.categories[position], name)
            else:
                values[:, position] = _numbers(column, name)
        _refuse_infinite(values, list(columns))
        return Table(
            values, tuple(columns), tuple(sorted(self.categories)), tuple(range(len(columns)))
        )


def count_rows(X: Any) -> int | None:
    """Rows of anything that :func:`rows_of` can take rows from; None of anything else."""
    whole = (
        isinstance(X, (np.ndarray, ParquetTable))
        or sparse.issparse(X)
        or nw.dependencies.is_into_dataframe(X)
    )
    return int(X.shape[0]) if whole and len(X.shape) == 2 else None


def rows_of(X: Any, rows: NDArray[np.int64]) -> Any:
    """Some rows of a dataframe, an array or a sparse matrix, as what it is; of files, as a dataframe."""
    if isinstance(X, ParquetTable):
        return X.take(rows)
    if nw.dependencies.is_into_dataframe(X):
        return nw.from_native(X, eager_only=True)[rows].to_native()
    return sparse.csr_array(X)[rows] if sparse.issparse(X) else X[rows]


def _columns(X: Any) -> dict[str, Any] | None:
    """Columns of a dataframe by name; None for anything else."""
    if hasattr(X, "collect"):
        raise TypeError(f"X is a lazy table, {type(X)}: pass X.collect().")
    if not nw.dependencies.is_into_dataframe(X):
        return None
    try:
        frame = nw.from_native(X, eager_only=True)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"X has columns of the same name: {error}") from None
    return {
        str(name): column for name, column in zip(frame.columns, frame.iter_columns(), strict=True)
    }


def _is_text(column: Any) -> bool:
    """Whether a dataframe column holds categories: by its type or, for mixed objects, by its values."""
    if _holds_objects(column):
        known = [value for value in column.to_list() if not is_missing(value)]
        return bool(known) and all(isinstance(value, str) for value in known)
    return column.dtype in (nw.Categorical, nw.Enum, nw.String)


def _holds_objects(column: Any) -> bool:
    """Whether a column may hold anything; narwhals calls one of pandas text if its first hundred entries are."""
    native = getattr(column.to_native(), "dtype", None)
    return bool(column.dtype == nw.Object) or (isinstance(native, np.dtype) and native.kind == "O")


def _default_names(width: int) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(width))


def _array(X: Any) -> Any:
    """Lists as an array of what they hold, and unknown entries of such an array as NaN."""
    if isinstance(X, (list, tuple)):
        try:
            X = np.asarray(X, dtype=object)
        except ValueError:
            return X  # of unequal lengths: refused later, in scikit-learn's words
    if isinstance(X, np.ndarray) and X.dtype.kind == "O" and X.ndim == 2:
        X = np.where(np.frompyfunc(is_missing, 1, 1)(X).astype(bool), np.nan, X)
    return X


def _refuse_infinite(values: Any, names: Sequence[Any]) -> None:
    entries = values.data if sparse.issparse(values) else values
    if not entries.size or not (
        np.fmax.reduce(entries, axis=None) > LARGEST
        or np.fmin.reduce(entries, axis=None) < -LARGEST
    ):
        return  # two passes that make no array: tables may be large
    beyond = np.abs(entries) > LARGEST
    places = (
        tuple(axis[beyond] for axis in values.tocoo().coords)
        if sparse.issparse(values)
        else np.nonzero(beyond)
    )
    row, column = int(places[0][0]), int(places[1][0])
    first = entries[beyond][0]
    what = (
        "Input X contains infinity or a value too large for dtype('float64')"
        if np.isinf(first)
        else f"X holds {first:g}, and trees compute in single precision, up to {LARGEST:g}"
    )
    raise ValueError(
        f"{what}: row {row}, column {names[column]!r}. Put a number in range there, or NaN if it is unknown."
    )


def _as_list(column: Any) -> list[Any]:
    values: list[Any] = column.tolist() if isinstance(column, np.ndarray) else column.to_list()
    return values


def _categories_of(column: Any, name: Any) -> list[Any]:
    known = {value for value in _as_list(column) if not is_missing(value)}
    kinds = {str if isinstance(value, str) else float for value in known}
    if len(kinds) > 1:
        example = next(value for value in known if not isinstance(value, str))
        raise ValueError(
            f"X, column {name!r}: the categories mix text and numbers (such as {example!r}). Make them all text."
        )
    return sorted(known)


def _codes(column: Any, categories: list[Any], name: str) -> NDArray[np.float64]:
    codes = {value: float(code) for code, value in enumerate(categories)}
    values = _as_list(column)
    for row, value in enumerate(values if categories else []):
        if isinstance(value, str) != isinstance(categories[0], str) and not is_missing(value):
            raise ValueError(
                f"X, column {name!r} holds categories such as {categories[0]!r} but row {row} is {value!r}: text and "
                "numbers are never the same category. Convert the column to what it was at fit."
            )
    return np.fromiter(
        (np.nan if is_missing(v) else codes.get(v, np.nan) for v in values), np.float64, len(values)
    )


def _numbers(column: Any, name: str) -> NDArray[np.float64]:
    """A numeric column as float64, missing entries as NaN."""
    if isinstance(column, np.ndarray):
        return _numbers_from_list(column.tolist(), name)
    text = _is_text(column)
    if _holds_objects(column) and not text:
        return _numbers_from_list(column.to_list(), name)
    if column.null_count() == len(column):
        return np.full(len(column), np.nan)
    dtype = column.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        try:
            numbers: NDArray[np.float64] = (
                column.cast(nw.Float64).fill_null(float("nan")).to_numpy()
            )
        except ValueError:  # Arrow's, of whole numbers that float64 rounds
            numbers = column.to_native().cast("float64", safe=False).to_numpy()
        return numbers
    if text:
        values = column.to_list()
        row = next(i for i, v in enumerate(values) if not is_missing(v))
        raise ValueError(
            f"X, column {name!r} was numeric at fit and is text now (row {row}: {values[row]!r}). Convert it to numbers."
        )
    if dtype == nw.Unknown and not np.iscomplexobj(
        column.to_native()
    ):  # such as the sparse columns of pandas
        try:
            return np.asarray(column.to_native(), dtype=np.float64)
        except (TypeError, ValueError):
            pass
    kind = getattr(column.to_native(), "dtype", dtype)
    raise TypeError(
        f"X, column {name!r} is of type {kind}, which has no order a tree could use as it is. Turn it into numbers (dates: "
        "days since a start) or text."
    )


def _numbers_from_list(values: list[Any], name: str) -> NDArray[np.float64]:
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            numbers[row] = np.nan if is_missing(value) else float(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(
                f"X, column {name!r} holds numbers but row {row} is {value!r}. Correct that entry, or make the whole "
                "column text to use it as categories."
            ) from None
        if isinstance(value, str):
            raise ValueError(
                f"X, column {name!r} mixes numbers and text: row {row} is the text {value!r}. Make it all numbers or all "
                "text."
            )
    return numbers


def _wrong_entry(X: Any) -> Exception | None:
    """A better message than numpy's for an entry that is no number, or None if that was not the trouble."""
    if sparse.issparse(X) or getattr(X, "ndim", 0) != 2 or X.dtype.kind not in "OUS":
        return None
    for (row, column), value in np.ndenumerate(X):
        try:
            float(value)
        except OverflowError:
            return ValueError(
                f"X holds a number beyond the range of float64: row {row}, column {column}. Rescale the column, or put NaN "
                "there if it is unknown."
            )
        except ValueError:
            return ValueError(
                f"X has text in a numeric column: row {row}, column {column} is {str(value)!r} (could not convert string to "
                "float). Correct it, or pass a dataframe or categorical_features to use the column as categories."
            )
        except TypeError:
            return TypeError(
                f"X, row {row}, column {column} is {value!r}, no number: the argument must be a string or a real number. "
                "Correct it, or put NaN there if it is unknown."
            )
    return None
