"""Conversion of dataframes, arrays, sparse matrices and Parquet files to a :class:`Table`.

Text and category columns become codes (a missing or unseen category is NaN), dates days since 1970.
A column must have at prediction the type that it had at fit.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from numbers import Integral
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_array

from ebboost.data.numbers import MAX_INTEGER, check_integers
from ebboost.data.parquet import ParquetMatrix, ParquetTable
from ebboost.data.table import MAX_VALUE, Table
from ebboost.data.types import AnyArray, Array, IntArray, TableLike
from ebboost.graph.ids import is_missing

Column = nw.Series[Any] | NDArray[Any]
MICROSECONDS_PER_DAY = 86_400e6
# Sparse tables up to these sizes, 256 MB, are dense ones.
MAX_DENSE_COLUMNS = 128
MAX_DENSE_ENTRIES = 1 << 25
_WHOLE = re.compile(r"-?[0-9]{1,18}")


class TableReader:
    """Learns the columns of a table, and reads later tables in the same way.

    Text and category columns of dataframes are categories; so are the columns that ``categorical``
    lists by name or position, whatever they hold.
    """

    def __init__(self, categorical: str | Sequence[str | int] = "auto") -> None:
        self.categorical = categorical
        self.names: tuple[str, ...] = ()
        self.categories: dict[int, list[Any]] = {}
        self.dates: tuple[int, ...] = ()
        self.is_sparse = False

    @property
    def n_categories(self) -> dict[int, int]:
        """Number of categories of each column that holds such."""
        return {column: len(values) for column, values in self.categories.items()}

    def fit(self, X: TableLike) -> Table:
        """Learn the columns of ``X`` and read it."""
        columns = _dataframe_columns(X.empty if isinstance(X, ParquetTable) else X)
        self.is_sparse = bool(sparse.issparse(X))
        if columns is None:
            X = _as_array(X)
            self.names = _default_names(X.shape[1] if getattr(X, "ndim", 0) == 2 else 0)
            listed = self._listed_categories()
            if listed and self.is_sparse:
                raise ValueError("categorical_features needs a dense X, got a sparse matrix.")
            values = np.asarray(X) if listed else X
            self.categories = {p: _categories(values[:, p], p) for p in sorted(listed)}
            return self._read_array(X)
        self.names = tuple(columns)
        for name in self.names:
            _check_text(name, "X, a column name,")
        listed = self._listed_categories()
        coded = [p for p, c in enumerate(columns.values()) if p in listed or _is_text(c)]
        if isinstance(X, ParquetTable):
            self.categories = _categories_on_disk(X, coded)
            return self._read_parquet(X)
        self.categories = {p: _categories(columns[name := self.names[p]], name) for p in coded}
        types = [column.dtype for column in columns.values()]
        self.dates = tuple(p for p, kind in enumerate(types) if kind in (nw.Datetime, nw.Date))
        return self._read_columns(columns)

    def read(self, X: TableLike) -> Table:
        """Read a table with the same columns; it is sparse if and only if that of ``fit`` was."""
        if isinstance(X, ParquetTable):
            self._check_names(X.names)
            if self.is_sparse:
                raise ValueError("X is a ParquetTable, at fit it was sparse: pass a sparse matrix.")
            return self._read_parquet(X)
        columns = _dataframe_columns(X)
        if columns is None:
            table = self._read_array(_as_array(X))
        else:
            self._check_names(tuple(columns))
            table = self._read_columns(columns)
        if table.is_sparse == self.is_sparse:
            return table
        # Tree libraries treat absent entries of a sparse matrix differently.
        values = sparse.csr_array(table.values) if self.is_sparse else table.values.toarray()
        return replace(table, values=values)

    def _check_names(self, names: tuple[str, ...]) -> None:
        """Compare column names, which scikit-learn does only where all of them are text."""
        if names == self.names or len(names) != len(self.names):
            return
        numbers = tuple(map(str, range(len(names))))
        unnamed = self.names == _default_names(len(names)) or names == numbers
        if set(names) == set(self.names) or not unnamed:
            pairs = enumerate(zip(names, self.names, strict=True))
            i = next(i for i, (name, fitted) in pairs if name != fitted)
            problem = f"X, column {i} is {names[i]!r} and was {self.names[i]!r} at fit"
            raise ValueError(f"{problem}: pass the same columns in the same order.")

    def _listed_categories(self) -> set[int]:
        """Return the positions of the columns in ``categorical``."""
        if isinstance(self.categorical, str) and self.categorical == "auto":
            return set()
        must_be = "categorical_features must be 'auto' or a list of columns"
        if isinstance(self.categorical, str) or not np.iterable(self.categorical):
            raise ValueError(f"{must_be}, got {self.categorical!r}.")
        positions = set()
        for item in self.categorical:
            is_position = isinstance(item, Integral) and not isinstance(item, bool)
            if isinstance(item, str) and item in self.names:
                positions.add(self.names.index(item))
            elif is_position and item in range(len(self.names)):
                positions.add(int(item))
            else:
                raise ValueError(
                    f"{must_be} of X by name or position: {item!r} is not one of its "
                    f"{len(self.names)} columns. Of a mask, pass np.flatnonzero(mask)."
                )
        return positions

    def _read_array(self, X: TableLike) -> Table:
        if self.categories:
            if sparse.issparse(X):
                raise ValueError("X is sparse, at fit it had categories: pass a dense table.")
            X = np.asarray(X)
            if X.ndim == 2 and X.shape[1] == len(self.names):
                return self._read_columns({name: X[:, i] for i, name in enumerate(self.names)})
        entries = X.data if sparse.issparse(X) else X
        if isinstance(entries, np.ndarray):
            check_integers(entries, "X")
        options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "input_name": "X"}
        try:
            values = check_array(X, ensure_all_finite=False, **options)
        except (TypeError, ValueError, OverflowError) as error:
            raise _entry_error(X) or error from None
        if sparse.issparse(values):
            values = sparse.csr_array(values)
        self.names = self.names or _default_names(values.shape[1])
        _check_range(values, range(values.shape[1]))
        return Table(values, self.names, (), tuple(range(len(self.names))))

    def _read_columns(self, columns: dict[str, Any]) -> Table:
        """Return dataframe columns as codes and numbers."""
        n_rows = len(next(iter(columns.values()))) if columns else 0
        if not columns or not n_rows:
            size = f"{n_rows} sample(s) and {len(columns)} feature(s)"
            raise ValueError(f"Found array with {size} while a minimum of 1 is required.")
        values = np.empty((n_rows, len(columns)))
        for position, (name, column) in enumerate(columns.items()):
            if position in self.categories:
                values[:, position] = _codes(column, self.categories[position], name)
            else:
                values[:, position] = _numbers(column, name)
        _check_range(values, list(columns))
        categorical = tuple(sorted(self.categories))
        origin = tuple(range(len(columns)))
        more: dict[str, Any] = {"categories": self.categories, "dates": self.dates}
        return Table(values, tuple(columns), categorical, origin, **more)

    def _read_parquet(self, X: ParquetTable) -> Table:
        if not X.shape[0] or not X.shape[1]:
            raise ValueError(f"{X!r} is empty: a table needs a row and a column.")
        values = ParquetMatrix(X, self._read_block)
        origin = tuple(range(X.shape[1]))
        categorical = tuple(sorted(self.categories))
        return Table(values, X.names, categorical, origin, categories=self.categories)

    def _read_block(self, block: TableLike) -> Array:
        return self._read_columns(_dataframe_columns(block) or {}).values


def dense_if_narrow(X: TableLike) -> TableLike:
    """Return a sparse matrix of few columns as an array: its zeros are numbers as any others.

    Wide ones, such as words of texts, stay sparse and are learned from in other ways.
    """
    if not sparse.issparse(X) or X.ndim != 2:
        return X
    is_small = X.shape[0] * X.shape[1] <= MAX_DENSE_ENTRIES
    return X.toarray() if X.shape[1] <= MAX_DENSE_COLUMNS and is_small else X


def count_rows(X: TableLike) -> int | None:
    """Return the number of rows of a table, or None if it is not one that has a shape."""
    is_matrix = isinstance(X, (np.ndarray, ParquetTable)) or sparse.issparse(X)
    has_shape = is_matrix or nw.dependencies.is_into_dataframe(X)
    return int(X.shape[0]) if has_shape and len(X.shape) == 2 else None


def group_column(X: TableLike, groups: ArrayLike | None) -> Any:
    """Return the group of each row: a column of ``X`` by its name, or as it was passed."""
    if not isinstance(groups, str):
        return groups
    columns = None if isinstance(X, ParquetTable) else _dataframe_columns(X)
    if columns is None or groups not in columns:
        names = [] if columns is None else list(columns)
        raise ValueError(f"groups={groups!r} is not a column of X; there are {names}.")
    return columns[groups].to_list()


def rows_of(X: TableLike, rows: IntArray) -> Any:
    """Return some rows of a table in its own type; of Parquet files, as a pyarrow table."""
    if isinstance(X, ParquetTable):
        return X.take(rows)
    if nw.dependencies.is_into_dataframe(X):
        return nw.from_native(X, eager_only=True)[rows].to_native()
    return sparse.csr_array(X)[rows] if sparse.issparse(X) else X[rows]


def _dataframe_columns(X: TableLike) -> dict[str, nw.Series[Any]] | None:
    """Return the columns of a dataframe by name, or None if it is not one."""
    if hasattr(X, "collect"):
        raise TypeError(f"X is a lazy table, {type(X)}: pass X.collect().")
    if not nw.dependencies.is_into_dataframe(X):
        return None
    try:
        frame = nw.from_native(X, eager_only=True)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"X has columns of the same name: {error}") from None
    return dict(zip(map(str, frame.columns), frame.iter_columns(), strict=True))


def _default_names(n_columns: int) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(n_columns))


def _as_array(X: TableLike) -> Any:
    """Return lists as an array of objects; missing entries of such an array become NaN."""
    first = X[0] if isinstance(X, list) and X else X
    if first is None or isinstance(first, (str, bytes, Mapping)):
        text = "X must be a table: an array, a sparse matrix, a dataframe or an eb.ParquetTable"
        raise TypeError(f"{text}, got {None if X is None else type(first).__name__}.")
    if isinstance(X, (list, tuple)):
        try:
            X = np.asarray(X, dtype=object)
        except ValueError:
            return X  # of unequal lengths: scikit-learn raises the error
    if isinstance(X, np.ndarray) and X.dtype.kind == "O" and X.ndim == 2:
        with np.errstate(invalid="ignore"):  # NaN is compared
            missing: Any = np.frompyfunc(is_missing, 1, 1)(X)
        X = np.where(missing.astype(bool), np.nan, X)
    return X


def _check_range(values: AnyArray, names: Sequence[object]) -> None:
    """Raise ValueError for a value that is infinite or beyond single precision."""
    entries = values.data if sparse.issparse(values) else values
    # Two passes that allocate no array: tables may be large.
    largest = np.fmax.reduce(entries, axis=None, initial=0.0)
    smallest = np.fmin.reduce(entries, axis=None, initial=0.0)
    if largest <= MAX_VALUE and smallest >= -MAX_VALUE:
        return
    beyond = np.abs(entries) > MAX_VALUE
    if sparse.issparse(values):
        rows, columns = (axis[beyond] for axis in values.tocoo().coords)
    else:
        rows, columns = np.nonzero(beyond)
    first = entries[beyond][0]
    problem = f"X holds {first:g}, and trees use single precision, up to {MAX_VALUE:g}"
    if np.isinf(first):
        problem = "Input X contains infinity or a value too large for dtype('float64')"
    where = f"row {rows[0]}, column {names[columns[0]]!r}"
    raise ValueError(f"{problem}: {where}. Use a number in range, or NaN if it is unknown.")


def _is_text(column: nw.Series[Any]) -> bool:
    """Whether a dataframe column holds text: by its type or, for objects, by its values."""
    if _holds_objects(column):
        others = [value for value in column.to_list() if not isinstance(value, str)]
        return len(others) < len(column) and all(map(is_missing, others))
    return column.dtype in (nw.Categorical, nw.Enum, nw.String)


def _holds_objects(column: nw.Series[Any]) -> bool:
    """Whether a column may hold any type; narwhals looks at the first hundred entries only."""
    native = getattr(column.to_native(), "dtype", None)
    return bool(column.dtype == nw.Object) or (isinstance(native, np.dtype) and native.kind == "O")


def _as_list(column: Column) -> list[Any]:
    return column.tolist() if isinstance(column, np.ndarray) else column.to_list()


def _categories(column: Column, name: object) -> list[Any]:
    """Return the sorted categories of a column."""
    if not isinstance(column, np.ndarray) and not _holds_objects(column):
        column = column.unique()
    categories = {value for value in set(_as_list(column)) if not is_missing(value)}
    for value in categories:
        _check_text(value, f"X, column {name!r}")
    if len({isinstance(value, str) for value in categories}) > 1:
        problem = f"X, column {name!r}: the categories mix text and numbers"
        raise ValueError(f"{problem}. Convert all of them to text.")
    return sort_categories(categories)


def _check_text(value: object, where: str) -> None:
    """Raise ValueError for text that no file can hold."""
    try:
        str(value).encode()
    except UnicodeEncodeError:
        problem = f"{where} has text that is not valid Unicode (a lone surrogate), {value!r}"
        raise ValueError(f"{problem}: replace it, or read the file with its encoding.") from None


def sort_categories(categories: Iterable[Any]) -> list[Any]:
    """Return categories in order; text that is whole numbers in that of these numbers.

    A column of codes is the same as integers and as text.
    """
    values = list(categories)
    if values and all(isinstance(value, str) and _WHOLE.fullmatch(value) for value in values):
        return sorted(values, key=lambda text: (int(text), text))
    return sorted(values)


def _categories_on_disk(X: ParquetTable, coded: list[int]) -> dict[int, list[Any]]:
    """Return the sorted categories of some columns of Parquet files."""
    categories: dict[int, set[Any]] = {position: set() for position in coded}
    for block in X.blocks([X.names[position] for position in coded]) if coded else ():
        for position, values in categories.items():
            name = X.names[position]
            column = nw.from_native(block.column(name), series_only=True)
            values.update(_categories(column.unique(), name))
    return {position: sort_categories(values) for position, values in categories.items()}


def _codes(column: Column, categories: list[Any], name: str) -> Array:
    """Return the positions of a column's values in ``categories``, NaN for others."""
    codes = {value: float(code) for code, value in enumerate(categories)}
    values = _as_list(column)
    kind = isinstance(categories[0], str) if categories else None
    for value in dict.fromkeys(values) if categories else ():
        if isinstance(value, str) is not kind and not is_missing(value):
            raise ValueError(
                f"X, column {name!r} holds categories such as {categories[0]!r} but row "
                f"{values.index(value)} is {value!r}. Convert the column to what it was at fit, "
                "text or numbers."
            )
    return np.fromiter(map(codes.get, values, repeat(np.nan)), np.float64, len(values))


def _numbers(column: Column, name: str) -> Array:
    """Return a numeric column as float64, missing entries as NaN."""
    if isinstance(column, np.ndarray):
        return _numbers_from_list(column.tolist(), name)
    if _is_text(column):
        values = column.to_list()
        row = next((i for i, v in enumerate(values) if not is_missing(v)), None)
        if row is None:
            return np.full(len(values), np.nan)
        where = (
            f"X, column {name!r} was numeric at fit and is text now (row {row}: {values[row]!r})"
        )
        raise ValueError(f"{where}. Convert it to numbers.")
    if _holds_objects(column):
        return _numbers_from_list(column.to_list(), name)
    if column.null_count() == len(column):
        return np.full(len(column), np.nan)
    native = column.to_native()
    if column.dtype.is_integer():
        known = column.drop_nulls()
        if not -MAX_INTEGER <= known.min() <= known.max() <= MAX_INTEGER:
            check_integers(np.array(column.to_list(), dtype=object), f"X, column {name!r}")
    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        try:
            return column.cast(nw.Float64).fill_null(float("nan")).to_numpy()
        except ValueError:  # of Arrow, for integers that float64 rounds
            return native.cast("float64", safe=False).to_numpy()
    if column.dtype in (nw.Datetime, nw.Date):
        days = column.dt.timestamp("us").cast(nw.Float64) / MICROSECONDS_PER_DAY
        return days.fill_null(float("nan")).to_numpy()
    if column.dtype == nw.Unknown and not np.iscomplexobj(native):  # sparse columns of pandas
        try:
            return np.asarray(native, dtype=np.float64)
        except (TypeError, ValueError):
            pass
    raise TypeError(
        f"X, column {name!r} is of type {getattr(native, 'dtype', column.dtype)}, which trees "
        "cannot order. Convert it to numbers or text."
    )


def _numbers_from_list(values: list[Any], name: str) -> Array:
    check_integers(np.fromiter(values, object, len(values)), f"X, column {name!r}")
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            numbers[row] = np.nan if is_missing(value) else float(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(
                f"X, column {name!r} holds numbers but row {row} is {value!r}. Correct that entry, "
                "or make the whole column text to use it as categories."
            ) from None
        if isinstance(value, str):
            problem = f"X, column {name!r} mixes numbers and text: row {row} is the text {value!r}"
            raise ValueError(f"{problem}. Convert all of it to numbers or to text.")
    return numbers


def _entry_error(X: TableLike) -> Exception | None:
    """Return an error that names the first entry that is not a number, None if all are."""
    if sparse.issparse(X) or getattr(X, "ndim", 0) != 2 or X.dtype.kind not in "OUS":
        return None
    for (row, column), value in np.ndenumerate(X):
        try:
            float(value)
        except OverflowError:
            return ValueError(
                f"X holds a number beyond the range of float64: row {row}, column {column}. "
                "Rescale the column, or use NaN if it is unknown."
            )
        except ValueError:
            return ValueError(
                f"X has text in a numeric column: row {row}, column {column} is {str(value)!r} "
                "(could not convert string to float). Correct it, or pass a dataframe or "
                "categorical_features to use the column as categories."
            )
        except TypeError:
            return TypeError(
                f"X, row {row}, column {column} is {value!r}, not a number: the argument must be a "
                "string or a real number. Correct it, or use NaN if it is unknown."
            )
    return None
