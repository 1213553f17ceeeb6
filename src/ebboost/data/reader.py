"""Conversion of dataframes, arrays and sparse matrices to a :class:`Table`.

Text and category columns become codes (a missing or unseen category is NaN), dates days since 1970.
A column must have at prediction the type that it had at fit.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from numbers import Integral
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_array

from ebboost._common import Array, TableLike, warn_caller
from ebboost.data.table import MAX_VALUE, Table
from ebboost.graph.ids import is_missing

Column = nw.Series[Any] | NDArray[Any]
MICROSECONDS_PER_DAY = 86_400e6
MAX_INTEGER = 2**53  # double precision cannot tell larger ones apart
# Sparse tables up to these sizes, 256 MB, are dense ones.
MAX_DENSE_COLUMNS = 128
MAX_DENSE_ENTRIES = 1 << 25
NAMES = (0.9, 50)  # share of different texts in a column of names, and how many at least
_WHOLE = re.compile(r"-?[0-9]{1,18}")


@dataclass
class TableReader:
    """Learns the columns of a table, and reads later tables in the same way.

    Text and category columns of dataframes are categories; so are the columns that ``categorical``
    lists by name or position, whatever they hold.
    """

    categorical: Any = "auto"
    names: tuple[str, ...] = ()
    categories: dict[int, list[Any]] = field(default_factory=dict)
    dates: tuple[int, ...] = ()
    is_sparse: bool = False

    @property
    def n_categories(self) -> dict[int, int]:
        """Number of categories of each column that holds such."""
        return {column: len(values) for column, values in self.categories.items()}

    def fit(self, X: TableLike) -> Table:
        """Learn the columns of ``X`` and read it."""
        X = dense_if_narrow(X)
        columns = _dataframe_columns(X)
        self.is_sparse = bool(sparse.issparse(X))
        if columns is None:
            X = _as_array(X)
            self.names = _default_names(X.shape[1] if getattr(X, "ndim", 0) == 2 else 0)
            listed = self._listed_categories()
            if listed:
                if self.is_sparse:
                    raise ValueError("categorical_features needs a dense X, got a sparse matrix.")
                values = np.asarray(X)
                self.categories = {p: _categories(values[:, p], p) for p in sorted(listed)}
            return self._read_array(X)
        self.names = tuple(columns)
        for name in self.names:
            _check_text(name, "X, a column name,")
        listed = self._listed_categories()
        coded = [p for p, c in enumerate(columns.values()) if p in listed or _is_text(c)]
        self.categories = {p: _categories(columns[name := self.names[p]], name) for p in coded}
        for position, categories in self.categories.items():
            column = self.names[position]
            is_name = len(categories) >= max(NAMES[0] * len(columns[column]), NAMES[1])
            if is_name and position not in listed:
                warn_caller(
                    f"Column {column!r} of X has {len(categories)} different texts in "
                    f"{len(columns[column])} rows, like an id or a name, from which nothing can be "
                    f"learned: leave it out, X.drop(columns={column!r})."
                )
        types = [column.dtype for column in columns.values()]
        self.dates = tuple(p for p, kind in enumerate(types) if kind in (nw.Datetime, nw.Date))
        return self._read_columns(columns)

    def read(self, X: TableLike) -> Table:
        """Read a table with the same columns; it is sparse if and only if that of ``fit`` was."""
        X = dense_if_narrow(X)
        columns = _dataframe_columns(X)
        if columns is None:
            table = self._read_array(_as_array(X))
        else:
            columns = self._in_order(columns)
            if len(columns) != len(self.names):
                raise ValueError(f"X has {len(columns)} columns, at fit it had {len(self.names)}.")
            table = self._read_columns(columns)
        if table.is_sparse == self.is_sparse:
            return table
        # Tree libraries treat absent entries of a sparse matrix differently.
        values = sparse.csr_array(table.values) if self.is_sparse else table.values.toarray()
        return replace(table, values=values)

    def table(self, values: Any) -> Table:
        """Return a matrix of numbers and codes as a table of these columns."""
        categorical, origin = tuple(sorted(self.categories)), tuple(range(len(self.names)))
        more: dict[str, Any] = {"categories": self.categories, "dates": self.dates}
        return Table(values, self.names, categorical, origin, **more)

    def _in_order(self, columns: dict[str, Any]) -> dict[str, Any]:
        """The columns in the order of the fit: by their names where both tables have names."""
        if tuple(columns) == self.names:
            return columns
        numbers = tuple(map(str, range(len(columns))))
        if self.names == _default_names(len(self.names)) or tuple(columns) == numbers:
            return columns
        missing = [name for name in self.names if name not in columns]
        unknown = [name for name in columns if name not in self.names]
        if missing or unknown:
            parts = [f"lacks the column {name!r}" for name in missing[:1]]
            parts += [f"has the column {name!r}, which the fit had not" for name in unknown[:1]]
            raise ValueError(f"X {' and '.join(parts)}: pass the columns of the fit.")
        return {name: columns[name] for name in self.names}

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
        if isinstance(entries, np.ndarray) and entries.dtype.kind in "iuO":
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
        return self.table(values)

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
        return self.table(values)


def dense_if_narrow(X: TableLike) -> TableLike:
    """Return a sparse matrix of few columns as an array: its zeros are numbers as any others.

    Wide ones, such as words of texts, stay sparse and are learned from in other ways.
    """
    if not sparse.issparse(X) or X.ndim != 2:
        return X
    is_small = X.shape[0] * X.shape[1] <= MAX_DENSE_ENTRIES
    return X.toarray() if X.shape[1] <= MAX_DENSE_COLUMNS and is_small else X


def split_geometry(X: TableLike) -> tuple[TableLike, Any]:
    """Return a table without its geometry, and the geometry; None if it is not a GeoDataFrame."""
    if not hasattr(X, "crs") or not hasattr(X, "to_crs"):
        return X, None
    return X.drop(columns=X.geometry.name), X.geometry


def check_real(values: Any, name: str) -> None:
    """Raise ValueError for complex numbers, whose imaginary part would be dropped."""
    kind = getattr(values, "dtype", None)
    is_complex = isinstance(values, (list, tuple)) and any(
        isinstance(one, complex) for one in values
    )
    if is_complex or getattr(kind, "kind", "") == "c":
        raise ValueError(f"{name} holds complex numbers: pass their real part, or their modulus.")


def check_integers(values: Any, name: str) -> None:
    """Raise ValueError for integers that double precision would round."""
    if values.dtype.kind == "O":
        # Larger ones are out of range, and rejected as such.
        large = [
            isinstance(value, int) and MAX_INTEGER < abs(value) < 10**37 for value in values.ravel()
        ]
        is_large = np.array(large, dtype=bool).reshape(values.shape)
    elif values.dtype.kind in "iu":
        smallest = values.min(initial=0)
        if values.max(initial=0) <= MAX_INTEGER and smallest >= -MAX_INTEGER:
            return
        is_large = (values > MAX_INTEGER) | (values < -MAX_INTEGER)
    else:
        return
    if is_large.any():
        row, *column = np.argwhere(is_large)[0].tolist()
        where = f"row {row}" + "".join(f", column {number}" for number in column)
        raise ValueError(
            f"{name} holds integers beyond 2**53, such as {values[is_large][0]} ({where}), which "
            "double precision cannot tell apart. Pass ids as text, times as datetimes, or leave "
            "them out."
        )


def count_rows(X: TableLike) -> int | None:
    """Return the number of rows of a table, or None if it is not one that has a shape."""
    is_matrix = isinstance(X, np.ndarray) or sparse.issparse(X)
    has_shape = is_matrix or nw.dependencies.is_into_dataframe(X)
    return int(X.shape[0]) if has_shape and len(X.shape) == 2 else None


def column_of(X: TableLike, name: str, argument: str) -> Any:
    """Return the values of a column of ``X``, which an argument names."""
    columns = _dataframe_columns(X)
    if columns is None or name not in columns:
        names = [] if columns is None else list(columns)
        raise ValueError(f"{argument}={name!r} is not a column of X; there are {names}.")
    return columns[name].to_list()


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
    return tuple(map("x{}".format, range(n_columns)))


def _as_array(X: TableLike) -> Any:
    """Return lists as an array of objects; missing entries of such an array become NaN."""
    first = X[0] if isinstance(X, list) and X else X
    if first is None or isinstance(first, (str, bytes, Mapping)):
        text = "X must be a table: an array, a sparse matrix or a dataframe"
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


def _check_range(values: Any, names: Sequence[object]) -> None:
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
    dtype = getattr(column.to_native(), "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "fiub":  # of pandas: the usual case, and fast
        numbers = column.to_numpy()
        check_integers(numbers, f"X, column {name!r}")
        return numbers.astype(np.float64)
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
