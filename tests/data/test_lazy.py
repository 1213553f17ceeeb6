"""Columns computed in blocks equal those computed at once."""

import numpy as np
import pytest

from ebboost.data import lazy
from ebboost.data.lazy import LazyMatrix
from ebboost.data.table import Table
from tests.data.columns import Doubled


@pytest.mark.parametrize("block", [1, 7, 40, 10**6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_computed_in_blocks_equal_those_computed_at_once(block, dtype, monkeypatch):
    monkeypatch.setattr(lazy, "BLOCK_SIZE", block)
    values = np.random.default_rng(0).normal(size=(23, 3)).astype(dtype)
    matrix, expected = (
        LazyMatrix([values, Doubled(values[:, :2])]),
        np.hstack([values, 2.0 * values[:, :2]]),
    )
    assert (
        matrix.shape == expected.shape
        and matrix.size == expected.size
        and matrix.dtype == np.float64
    )
    table = Table(matrix, tuple("abcde"), (), (0, 1, 2, 0, 1))
    assert table.in_blocks and not table.on_disk and table.n_rows == 23
    parts = [part.values for part in table.blocks()]
    assert max(map(len, parts)) == min(max(block // 5, 1), 23)
    for result in (
        np.concatenate(parts),
        matrix.materialize(),
        np.asarray(matrix),
        table.materialize().values,
    ):
        np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(matrix.rows(5, 9), expected[5:9])
    np.testing.assert_array_equal(matrix[np.array([7, 0, 7])], expected[[7, 0, 7]])
    mask = np.arange(23) % 4 == 1
    np.testing.assert_array_equal(table.subset(mask).values, expected[mask])


def test_a_full_disk_is_an_error_that_names_the_folder(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lazy.os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match="temporary file of 160 bytes with the"):
        lazy.temporary_array((5, 4), np.float64)
