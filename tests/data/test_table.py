"""Tables with added, selected and lazy columns."""

import numpy as np
import pytest
from scipy import sparse

from ebboost.data import lazy
from ebboost.data import table as table_module
from ebboost.data.lazy import LazyMatrix
from ebboost.data.table import Table
from tests.data.columns import Doubled


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


def test_few_added_columns_are_eager_and_many_are_lazy(monkeypatch):
    values = np.arange(12.0).reshape(6, 2)
    few = Table(values, ("a", "b"), (), (0, 1)).with_columns([Doubled(values)], ["c", "d"], [0, 1])
    assert isinstance(few.values, np.ndarray) and few.materialize() is few
    monkeypatch.setattr(table_module, "EAGER_LIMIT", 20)
    monkeypatch.setattr(lazy, "BLOCK_SIZE", 8)
    columns = Doubled(values)
    many = Table(values, ("a", "b"), (), (0, 1)).with_columns([columns], ["c", "d"], [0, 1])
    assert isinstance(many.values, LazyMatrix) and columns.n_rows == 0
    wider = many.with_columns([values[:, :1]], ["e"], [0])
    assert isinstance(wider.values, LazyMatrix) and wider.names == tuple("abcde")
    np.testing.assert_array_equal(
        np.concatenate([part.values for part in many.blocks()]), few.values
    )
    assert columns.n_rows == 2
    np.testing.assert_array_equal(
        wider.materialize().values, np.hstack([few.values, values[:, :1]])
    )
    many.release()
    assert columns.released


@pytest.mark.parametrize("columns", [[0, 1, 2, 3], [1, 2], [3], [0, 2], []])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_adjacent_columns_are_not_copied(container, columns):
    values = container(np.arange(12.0).reshape(3, 4))
    picked = Table(values, tuple("abcd"), (), (0, 1, 2, 3)).select(columns)
    assert picked.names == tuple("abcd"[c] for c in columns) and picked.origin == tuple(columns)
    result = picked.values.toarray() if picked.is_sparse else picked.values
    np.testing.assert_array_equal(result, np.arange(12.0).reshape(3, 4)[:, columns])
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
