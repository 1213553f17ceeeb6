"""Columns computed from neighbours, against one column at a time and all rows at once."""

import numpy as np
import pytest

import ebboost as eb
from ebboost.data import lazy
from ebboost.data import table as table_module
from ebboost.data.graph_columns import neighbor_columns, smoothed_columns
from ebboost.data.table import Table
from tests.strategies import random_graph

STATISTICS = ("mean", "min", "max")


def with_statistics(table, graph, statistics=STATISTICS):
    return table.with_columns(*neighbor_columns(table, graph, statistics, True))


def with_smoothed(table, graph):
    return table.with_columns(
        *smoothed_columns(table, lambda: eb.Laplacian(20.0, 5).operator(graph))
    )


def test_statistics_have_the_origin_of_the_column_they_are_computed_from():
    table = Table(np.ones((3, 2)), ("a", "b"), (), (0, 1))
    wider = with_statistics(table, random_graph(3, 3), ("mean",))
    assert wider.names == ("a", "b", "mean(a)", "mean(b)", "degree", "mean(degree)")
    assert wider.origin == (0, 1, 0, 1, -1, -1)


@pytest.mark.parametrize("missing", [False, True])
def test_numeric_columns_next_to_a_category_are_smoothed_as_if_alone(missing):
    rng = np.random.default_rng(0)
    graph = random_graph(40, 80)
    values = rng.normal(size=(40, 4))
    values[:, 1] = rng.integers(0, 3, 40)
    if missing:
        values[rng.random(40) < 0.3, 2] = np.nan
    smoothed = with_smoothed(Table(values, ("a", "kind", "b", "c"), (1,), (0, 1, 2, 3)), graph)
    assert smoothed.names[4:] == ("smoothed(a)", "smoothed(b)", "smoothed(c)")
    for i, column in enumerate((0, 2, 3)):
        alone = with_smoothed(Table(values[:, [column]].copy(), ("x",), (), (0,)), graph)
        np.testing.assert_allclose(smoothed.values[:, 4 + i], alone.values[:, 1])


def test_missing_values_are_replaced_by_known_ones_nearby():
    graph = random_graph(30, 60)
    P = eb.Laplacian(20.0, 5).operator(graph)
    x = np.random.default_rng(0).normal(size=30)
    known = np.arange(30) % 3 > 0
    values = np.where(known, x, np.nan)[:, None]
    smoothed = with_smoothed(Table(values, ("x",), (), (0,)), graph).values[:, 1]
    expected = (
        P.apply(np.where(known, x, 0.0)) / P.apply(known.astype(float)) * P.apply(np.ones(30))
    )
    np.testing.assert_allclose(smoothed, expected)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("add_columns", [with_statistics, with_smoothed])
def test_columns_computed_in_blocks_equal_those_of_all_rows(
    missing, dtype, order, add_columns, monkeypatch
):
    rng = np.random.default_rng(0)
    graph = random_graph(60, 150)
    X = np.asarray(rng.normal(size=(60, 5)).astype(dtype), order=order)
    if missing:
        X[rng.random(X.shape) < 0.3] = np.nan
    table = Table(X, tuple("abcde"), (1,), (0, 1, 2, 3, 4))
    expected = add_columns(table, graph).values
    monkeypatch.setattr(table_module, "EAGER_LIMIT", 0)
    monkeypatch.setattr(lazy, "BLOCK_SIZE", 1)
    monkeypatch.setattr(table_module, "COLUMN_BATCH", 2)
    wider = add_columns(table, graph)
    assert wider.in_blocks and wider.values.dtype == expected.dtype
    for _ in range(2):
        blocks = np.concatenate([block.values for block in wider.blocks()])
        np.testing.assert_array_equal(blocks, expected)
        wider.release()
