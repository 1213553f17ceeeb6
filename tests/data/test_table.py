"""Tables of every make become the same matrix, and are read at prediction as they were at fit."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import ebboost as eb
from ebboost.data import lazy
from ebboost.data import table as table_module
from ebboost.data.lazy import LazyMatrix
from ebboost.data.reader import TableReader
from ebboost.data.table import Table

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
COLUMNS = {"n": [1, 2, 3], "f": [0.5, None, 2.5], "t": ["b", None, "a"], "y": [True, False, None]}
NAN = np.nan


def read(X, categorical="auto"):
    return TableReader(categorical).fit(X)


def same(found, expected):
    np.testing.assert_array_equal(found, np.asarray(expected, dtype=float))


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


def test_objects_are_judged_by_all_of_their_values():
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


def test_codes_are_the_same_whatever_brought_the_values():
    reader = TableReader([0])
    reader.fit(np.array([[7.0, 0.1], [3.0, 0.2]]))
    same(reader.read(np.array([[3, 0], [7, 0]])).values, [[0, 0], [1, 0]])
    reader = TableReader()
    reader.fit(pd.DataFrame({"t": ["b", "a"], "n": [1, 2]}))
    same(reader.read(np.array([["a", 5], ["b", None]], dtype=object)).values, [[0, 5], [1, NAN]])


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


def test_categories_may_be_listed_by_name():
    assert read(pd.DataFrame({"a": [5, 2], "t": ["x", "y"], "b": [1, 2]}), ["b"]).categorical == (
        1,
        2,
    )


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
def test_sparse_stays_sparse(kind):
    dense = np.array([[0, 2.0], [0, 0], [1.0, 0]])
    table = read(kind(dense))
    assert table.is_sparse and table.values.format == "csr"
    same(table.values.toarray(), dense)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_columns_are_added_on_the_right(container):
    table = Table(container(np.array([[1.0], [2.0]])), ("a",), (), (0,))
    wider = table.with_columns([container(np.array([[3.0], [4.0]]))], ["smoothed(a)"], [0])
    values = wider.values.toarray() if wider.is_sparse else wider.values
    assert (values.tolist(), wider.names, wider.origin) == (
        [[1, 3], [2, 4]],
        ("a", "smoothed(a)"),
        (0, 0),
    )


class Doubled:
    """Columns that are made when asked for: twice those of an array."""

    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, np.dtype(np.float64)
        self.asked, self.released = 0, False

    def write(self, rows, out):
        self.asked = max(self.asked, len(rows))
        out[...] = 2.0 * self.values[rows]

    def release(self):
        self.released = True


@pytest.mark.parametrize("block", [1, 7, 40, 10**6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_made_in_blocks_are_those_made_at_once(block, dtype, monkeypatch):
    monkeypatch.setattr(lazy, "BLOCK_SIZE", block)
    values = np.random.default_rng(0).normal(size=(23, 3)).astype(dtype)
    made, expected = (
        LazyMatrix([values, Doubled(values[:, :2])]),
        np.hstack([values, 2.0 * values[:, :2]]),
    )
    assert made.shape == expected.shape and made.size == expected.size and made.dtype == np.float64
    table = Table(made, tuple("abcde"), (), (0, 1, 2, 0, 1))
    assert table.in_blocks and not table.on_disk and table.n_rows == 23
    parts = [part.values for part in table.blocks()]
    assert max(map(len, parts)) == min(max(block // 5, 1), 23)
    for found in (
        np.concatenate(parts),
        made.materialize(),
        np.asarray(made),
        table.materialize().values,
    ):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(made.rows(5, 9), expected[5:9])
    np.testing.assert_array_equal(made[np.array([7, 0, 7])], expected[[7, 0, 7]])
    mask = np.arange(23) % 4 == 1
    np.testing.assert_array_equal(table.subset(mask).values, expected[mask])


def test_few_added_columns_are_made_at_once_and_many_when_asked_for(monkeypatch):
    values = np.arange(12.0).reshape(6, 2)
    few = Table(values, ("a", "b"), (), (0, 1)).with_columns([Doubled(values)], ["c", "d"], [0, 1])
    assert isinstance(few.values, np.ndarray) and few.materialize() is few
    monkeypatch.setattr(table_module, "EAGER_LIMIT", 20)
    monkeypatch.setattr(lazy, "BLOCK_SIZE", 8)
    columns = Doubled(values)
    many = Table(values, ("a", "b"), (), (0, 1)).with_columns([columns], ["c", "d"], [0, 1])
    assert isinstance(many.values, LazyMatrix) and columns.asked == 0
    wider = many.with_columns([values[:, :1]], ["e"], [0])
    assert isinstance(wider.values, LazyMatrix) and wider.names == tuple("abcde")
    np.testing.assert_array_equal(
        np.concatenate([part.values for part in many.blocks()]), few.values
    )
    assert columns.asked == 2
    np.testing.assert_array_equal(
        wider.materialize().values, np.hstack([few.values, values[:, :1]])
    )
    many.release()
    assert columns.released


@pytest.mark.parametrize("columns", [[0, 1, 2, 3], [1, 2], [3], [0, 2], []])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_columns_side_by_side_are_not_copied(container, columns):
    values = container(np.arange(12.0).reshape(3, 4))
    picked = Table(values, tuple("abcd"), (), (0, 1, 2, 3)).select(columns)
    assert picked.names == tuple("abcd"[c] for c in columns) and picked.origin == tuple(columns)
    found = picked.values.toarray() if picked.is_sparse else picked.values
    np.testing.assert_array_equal(found, np.arange(12.0).reshape(3, 4)[:, columns])
    if container is np.asarray and columns not in ([0, 2], []):
        assert np.shares_memory(picked.values, values)


@pytest.mark.parametrize(
    ("width", "most", "widths"),
    [(9, 4, [3, 3, 3]), (5, 4, [3, 2]), (4, 4, [4]), (1, 4, [1]), (7, 1, [3, 2, 2])],
)
def test_batches_of_columns_are_even(width, most, widths, monkeypatch):
    """One column of several would be carried over the graph by another loop."""
    monkeypatch.setattr(table_module, "EAGER_LIMIT", 1)
    monkeypatch.setattr(table_module, "COLUMN_BATCH", most)
    table = Table(np.zeros((6, width)), tuple("abcdefghi"[:width]), (), tuple(range(width)))
    batches = list(table.batches(range(width)))
    assert [len(batch.names) for batch in batches] == widths
    assert sum((batch.names for batch in batches), ()) == table.names


DATE = datetime.date(2020, 1, 1)


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        (
            pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}),
            TypeError,
            ["column 'a'", "datetime", "days since"],
        ),
        (pl.DataFrame({"a": [DATE]}), TypeError, ["column 'a'", "Date", "days since"]),
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
        (pd.DataFrame({"a": []}), ValueError, ["0 sample(s)"]),
        (pd.DataFrame(index=[0, 1]), ValueError, ["0 feature(s)"]),
    ],
)
def test_tables_that_cannot_be_used_are_refused_with_the_place(X, error, words):
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
        (pd.DataFrame({"a": ["x"]}), sparse.csr_array([[1.0]]), ["sparse", "categories"]),
        (
            pd.DataFrame([[1, 2]]),
            pd.DataFrame([[2, 1]], columns=[1, 0]),
            ["column 0", "'1'", "'0'", "same order"],
        ),
        (
            pd.DataFrame([[1, 2]], columns=[5, 6]),
            pd.DataFrame([[2, 1]], columns=[5, 7]),
            ["column 1", "'7'", "'6'"],
        ),
    ],
)
def test_what_a_column_was_at_fit_it_must_be_later(fitted, later, words):
    reader = TableReader()
    reader.fit(fitted)
    with pytest.raises(ValueError) as caught:
        reader.read(later)
    for word in words:
        assert word in str(caught.value)


def test_tables_without_names_are_taken_by_position():
    reader = TableReader()
    reader.fit(pd.DataFrame({"a": [1.0], "b": [2.0]}))
    same(reader.read(pd.DataFrame([[3.0, 4.0]])).values, [[3, 4]])
    reader.fit(np.array([[1.0, 2.0]]))
    same(reader.read(pd.DataFrame({"a": [3.0], "b": [4.0]})).values, [[3, 4]])


@pytest.mark.parametrize(
    ("categorical", "words"),
    [
        ("all", ["'all'"]),
        (None, ["None"]),
        (["z"], ["'z'", "not a column"]),
        ([2], ["column 2", "2 columns"]),
        ([-1], ["column -1"]),
        ([True, False], ["True", "np.flatnonzero"]),
        ([0.5], ["0.5"]),
    ],
)
@pytest.mark.parametrize("X", [[[1, 2]], np.array([[1, 2]]), pd.DataFrame({"a": [1], "b": [2]})])
def test_bad_lists_of_categories_are_refused(X, categorical, words):
    with pytest.raises(ValueError) as caught:
        read(X, categorical)
    for word in ("categorical_features", *words):
        assert word in str(caught.value)


def test_a_sparse_table_has_no_categories():
    with pytest.raises(ValueError, match="categorical_features needs a dense X"):
        read(sparse.csr_array([[1.0, 0.0]]), [0])


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_an_estimator_predicts_the_same_from_any_dataframe(frame):
    rng = np.random.default_rng(0)
    columns = {"x": rng.normal(size=80).tolist(), "t": rng.choice(["u", "v", "w"], 80).tolist()}
    y = np.asarray(columns["x"]) + (np.asarray(columns["t"]) == "v")
    model = eb.EBBSRegressor(n_estimators=5, n_jobs=1, early_stopping=False).fit(
        pd.DataFrame(columns), y
    )
    assert (model.predict(frame(columns)) == model.predict(pd.DataFrame(columns))).all()
    np.testing.assert_allclose(model.predict(frame(columns)), model.predict(), rtol=1e-12)
    assert np.isfinite(model.predict(frame({"x": [0.0], "t": ["unseen"]}))).all()
