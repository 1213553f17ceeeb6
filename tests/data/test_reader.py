"""Tables of every make become the same matrix, and are read at prediction as they were at fit."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from ebboost.data.reader import TableReader

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
COLUMNS = {"n": [1, 2, 3], "f": [0.5, None, 2.5], "t": ["b", None, "a"], "y": [True, False, None]}
NAN = np.nan


def read(X, categorical="auto"):
    return TableReader(categorical).fit(X)


def same(result, expected):
    np.testing.assert_array_equal(result, np.asarray(expected, dtype=float))


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_every_dataframe_gives_the_same_table(frame):
    table = read(frame(COLUMNS))
    same(table.values, [[1, 0.5, 1, 1], [2, NAN, NAN, 0], [3, 2.5, 0, NAN]])
    assert table.names == ("n", "f", "t", "y")
    assert (table.categorical, table.origin) == ((2,), (0, 1, 2, 3))


@pytest.mark.parametrize(
    ("column", "expected", "is_category"),
    [
        (pd.array([1, None, 0], dtype="Int64"), [1, NAN, 0], False),
        (pd.array([1.5, None, 0], dtype="Float64"), [1.5, NAN, 0], False),
        (pd.array([True, None, False], dtype="boolean"), [1, NAN, 0], False),
        (pd.array([1, None, 0], dtype="int64[pyarrow]"), [1, NAN, 0], False),
        (pd.array([True, None, False], dtype="bool[pyarrow]"), [1, NAN, 0], False),
        (pd.array(["u", None, "v"], dtype="string"), [0, NAN, 1], True),
        (pd.array(["u", None, "v"], dtype=pd.ArrowDtype(pa.string())), [0, NAN, 1], True),
        (pd.Categorical([3, None, 1]), [1, NAN, 0], True),
        (pd.Categorical([True, None, False]), [1, NAN, 0], True),
        (
            pd.Categorical(["u", "v", "u"], categories=["v", "w", "u"], ordered=True),
            [0, 1, 0],
            True,
        ),
        (pd.cut([1.0, 2.0, 9.0], [0, 5, 10]), [0, 0, 1], True),
        (np.array([1, None, 2.5], dtype=object), [1, NAN, 2.5], False),
        (np.array([decimal.Decimal("1.5"), None, 2], dtype=object), [1.5, NAN, 2], False),
        (np.array([True, pd.NA, False], dtype=object), [1, NAN, 0], False),
        (np.array(["u", NAN, "v"], dtype=object), [0, NAN, 1], True),
        (np.array([None, None, None], dtype=object), [NAN, NAN, NAN], False),
        (pd.arrays.SparseArray([0.0, 0.0, 2.0]), [0, 0, 2], False),
        (pl.Series([None, None, None]), [NAN, NAN, NAN], False),
        (pl.Series(["u", None, "v"], dtype=pl.Enum(["v", "w", "u"])), [0, NAN, 1], True),
        (pl.Series(["u", None, "v"], dtype=pl.Categorical), [0, NAN, 1], True),
        (pl.Series([decimal.Decimal("1.5"), None, decimal.Decimal(2)]), [1.5, NAN, 2], False),
        (pa.array(["u", None, "v"]).dictionary_encode(), [0, NAN, 1], True),
        (pa.nulls(3), [NAN, NAN, NAN], False),
    ],
)
def test_columns_of_every_type_become_numbers_or_codes(column, expected, is_category):
    frame = {"polars": pl.DataFrame, "pyarrow": pa.table}.get(
        type(column).__module__.split(".")[0], pd.DataFrame
    )
    table = read(frame({"a": column}))
    same(table.values[:, 0], expected)
    assert table.categorical == ((0,) if is_category else ())


def test_object_columns_are_typed_by_all_their_values():
    """Narwhals looks at the first hundred."""
    assert (
        read(pd.DataFrame({"a": pd.Series([None] * 150 + [1.5], dtype=object)})).categorical == ()
    )
    with pytest.raises(ValueError, match=r"column 'a'.*make the whole column text"):
        read(pd.DataFrame({"a": pd.Series(["x"] * 150 + [1.5], dtype=object)}))


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_later_tables_get_the_codes_of_the_first(frame):
    reader = TableReader()
    reader.fit(frame({"t": ["b", "a", "c"], "n": [1.0, 2.0, 3.0]}))
    later = reader.read(frame({"t": ["c", "never seen", None, "a"], "n": [None, None, None, 4.0]}))
    same(later.values, [[2, NAN], [NAN, NAN], [NAN, NAN], [0, 4]])
    nothing_known = reader.read(frame({"t": [None, None], "n": [None, None]}))
    same(nothing_known.values, [[NAN, NAN], [NAN, NAN]])


@pytest.mark.parametrize(
    "X",
    [
        [[5, 1.5], [2, 0.5]],
        np.array([[5, 1.5], [2, 0.5]]),
        pd.DataFrame({"a": [5, 2], "b": [1.5, 0.5]}),
    ],
)
def test_numbers_listed_as_categories_are_coded(X):
    table = read(X, [0])
    same(table.values, [[1, 1.5], [0, 0.5]])
    assert table.categorical == (0,)


@pytest.mark.parametrize(
    "X",
    [
        [[1, None], [2.5, 3]],
        np.array([[1, pd.NA], [2.5, 3]], dtype=object),
        np.array([["1", "nan"], ["2.5", "3"]]),
        np.array([[1, NAN], [2.5, 3]], dtype=np.float32),
    ],
)
def test_arrays_and_lists_become_floats(X):
    table = read(X)
    same(table.values, [[1, NAN], [2.5, 3]])
    assert table.names == ("x0", "x1")


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
@pytest.mark.parametrize("width", [2, 200])
def test_wide_tables_stay_sparse_and_narrow_ones_are_dense(kind, width):
    dense = np.zeros((3, width))
    dense[[0, 2], [1, 0]] = [2.0, 1.0]
    reader = TableReader()
    table = reader.fit(kind(dense))
    assert table.is_sparse == (width == 200)
    same(table.values.toarray() if table.is_sparse else table.values, dense)
    for later in (dense, kind(dense), sparse.csr_array(dense)):
        again = reader.read(later)
        assert again.is_sparse == table.is_sparse
        same(again.values.toarray() if again.is_sparse else again.values, dense)


DATE = datetime.date(2020, 1, 1)
DAYS = [(DATE - datetime.date(1970, 1, 1)).days + 0.5, np.nan]
NOON = [datetime.datetime(2020, 1, 1, 12), None]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"a": pd.to_datetime(NOON)}),
        pd.DataFrame({"a": pd.to_datetime(NOON).tz_localize("UTC").tz_convert("Asia/Tokyo")}),
        pl.DataFrame({"a": NOON}),
        pa.table({"a": NOON}),
    ],
    ids=["pandas", "time zone", "polars", "pyarrow"],
)
def test_dates_are_days_since_1970_in_universal_time(frame):
    same(read(frame).values[:, 0], DAYS)


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        (pl.DataFrame({"a": [[1, 2]]}), TypeError, ["column 'a'", "List"]),
        (pd.DataFrame({"a": [DATE]}), ValueError, ["column 'a'", "row 0", "2020"]),
        (
            pd.DataFrame({"a": pd.Series([1, "x"], dtype=object)}),
            ValueError,
            ["column 'a'", "row 1", "'x'"],
        ),
        (
            pd.DataFrame({"a": pd.Series([1, "2"], dtype=object)}),
            ValueError,
            ["column 'a'", "row 1", "text '2'"],
        ),
        (
            pd.DataFrame({"a": pd.Categorical([1, "x"])}),
            ValueError,
            ["column 'a'", "mix text and numbers"],
        ),
        (
            pd.DataFrame({"ok": [1.0, 2.0], "a": [1.0, np.inf]}),
            ValueError,
            ["column 'a'", "row 1", "infinity"],
        ),
        (np.array([[1.0, 2.0], [3.0, -np.inf]]), ValueError, ["column 1", "row 1", "infinity"]),
        (sparse.csr_array([[0, 2.0], [np.inf, 0]]), ValueError, ["column 0", "row 1", "infinity"]),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, ["X", "same name", "'a'"]),
        (
            np.array([[1, "x"]], dtype=object),
            ValueError,
            ["row 0, column 1", "'x'", "categorical_features"],
        ),
        ([[1, "x"]], ValueError, ["row 0, column 1", "'x'", "categorical_features"]),
        (np.array([["1", "x"]]), ValueError, ["row 0, column 1", "'x'", "categorical_features"]),
        (pl.LazyFrame({"a": [1]}), TypeError, ["X", "collect()"]),
        (None, TypeError, ["X must be a table", "got None"]),
        ("nodes.csv", TypeError, ["X must be a table", "dataframe", "got str"]),
        ([{"a": 1.0}], TypeError, ["X must be a table", "got dict"]),
        (pd.DataFrame({"a": []}), ValueError, ["0 sample(s)"]),
        (pd.DataFrame(index=[0, 1]), ValueError, ["0 feature(s)"]),
    ],
)
def test_invalid_tables_raise_errors_with_row_and_column(X, error, words):
    with pytest.raises(error) as caught:
        read(X)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("fitted", "later", "words"),
    [
        (
            pd.DataFrame({"a": [1.0, 2.0]}),
            pd.DataFrame({"a": ["x", "y"]}),
            ["column 'a'", "numeric at fit", "'x'"],
        ),
        (
            pl.DataFrame({"a": [1.0, 2.0]}),
            pl.DataFrame({"a": [None, "y"]}),
            ["column 'a'", "row 1: 'y'"],
        ),
        (
            pd.DataFrame({"a": ["1", "2"]}),
            pd.DataFrame({"a": [1, 2]}),
            ["column 'a'", "row 0", "Convert"],
        ),
        (
            pd.DataFrame({"a": pd.Categorical([1, 2])}),
            pl.DataFrame({"a": ["1"]}),
            ["column 'a'", "row 0", "'1'"],
        ),
        (pd.DataFrame({"a": ["x"]}), sparse.csr_array([[1.0]]), ["column 'a'", "categories"]),
        (
            pd.DataFrame([[1, 2]], columns=[5, 6]),
            pd.DataFrame([[2, 1]], columns=[5, 7]),
            ["lacks the column '6'", "has the column '7'"],
        ),
    ],
)
def test_columns_must_keep_their_type_after_fit(fitted, later, words):
    reader = TableReader()
    reader.fit(fitted)
    with pytest.raises(ValueError) as caught:
        reader.read(later)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_columns_are_found_by_their_names_in_any_order(frame):
    reader = TableReader()
    reader.fit(frame({"a": [1.0], "t": ["x"], "b": [2.0]}))
    same(reader.read(frame({"b": [3.0], "a": [4.0], "t": ["x"]})).values, [[4, 0, 3]])
    reader.fit(pd.DataFrame([[1, 2]]))
    same(reader.read(pd.DataFrame([[2, 1]], columns=[1, 0])).values, [[1, 2]])


@pytest.mark.parametrize(
    ("categorical", "words"),
    [
        ("all", ["'all'"]),
        (None, ["None"]),
        (["z"], ["'z'", "not one of its 2 columns"]),
        ([2], ["2 is not", "2 columns"]),
        ([-1], ["-1 is not"]),
        ([True, False], ["True", "np.flatnonzero"]),
        ([0.5], ["0.5"]),
    ],
)
@pytest.mark.parametrize("X", [[[1, 2]], np.array([[1, 2]]), pd.DataFrame({"a": [1], "b": [2]})])
def test_invalid_lists_of_categories_raise_errors(X, categorical, words):
    with pytest.raises(ValueError) as caught:
        read(X, categorical)
    for word in ("categorical_features", *words):
        assert word in str(caught.value)


def test_a_sparse_table_has_no_categories():
    with pytest.raises(ValueError, match="categorical_features needs a dense X"):
        read(sparse.csr_array((3, 200)), [0])


def test_ids_are_warned_of_and_categories_are_not():
    names = pd.DataFrame({"a": range(60), "name": [f"n{number}" for number in range(60)]})
    with pytest.warns(UserWarning, match="Column 'name' of X has 60 different texts in 60 rows"):
        TableReader().fit(names)
    TableReader().fit(names.head(40))
    TableReader().fit(names.assign(name=names["name"].str[:2]))
