"""Columns computed from neighbours, against one column at a time and all rows at once."""

import numpy as np
import pytest

import ebboost as eb
from ebboost.data import lazy
from ebboost.data import table as table_module
from ebboost.data.graph_columns import frequent_levels, neighbor_columns, smoothed_columns
from ebboost.data.table import Table
from tests.strategies import random_graph

STATISTICS = ("mean", "min", "max")


def with_statistics(table, graph, statistics=STATISTICS):
    levels = frequent_levels(table)
    return table.with_columns(*neighbor_columns(table, graph, statistics, True, levels))


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
    X[:, 1] = np.where(np.isnan(X[:, 1]), np.nan, rng.integers(0, 15, 60))
    categories = {1: [f"level {i}" for i in range(15)]}
    table = Table(X, tuple("abcde"), (1,), (0, 1, 2, 3, 4), categories=categories)
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


def shares_by_loop(codes, adjacency, levels):
    """The share of each level among the neighbours with a known one, a node at a time."""
    shares = np.full((len(codes), len(levels)), np.nan)
    for node, weights in enumerate(adjacency):
        near = np.flatnonzero((weights > 0) & ~np.isnan(codes))
        if near.size:
            others = ~np.isin(codes[near], [level for level in levels if level >= 0])
            for column, level in enumerate(levels):
                chosen = others if level < 0 else codes[near] == level
                shares[node, column] = weights[near][chosen].sum() / weights[near].sum()
    return shares


@pytest.mark.parametrize("n_levels", [2, 5, 14])
def test_text_among_neighbours_has_the_share_of_each_frequent_level(n_levels):
    rng = np.random.default_rng(n_levels)
    codes = np.minimum(rng.geometric(0.25, 80) - 1.0, n_levels - 1)
    codes[:n_levels] = np.arange(n_levels)
    codes[rng.random(80) < 0.2] = np.nan
    graph = random_graph(80, 90)
    names = [f"level {i}" for i in range(n_levels)]
    table = Table(codes[:, None], ("kind",), (0,), (0,), categories={0: names})
    levels = frequent_levels(table)[0]
    counts = np.bincount(codes[~np.isnan(codes)].astype(int), minlength=n_levels)
    expected = np.argsort(-counts, kind="stable").tolist()
    expected = {2: expected[:1], 5: expected, 14: [*expected[:9], -1]}[n_levels]
    assert levels.tolist() == [level for level in expected if level < 0 or counts[level]]
    wider = with_statistics(table, graph)
    shares = wider.values[:, 1 : 1 + levels.size]
    adjacency = graph.adjacency.toarray()
    np.testing.assert_allclose(shares, shares_by_loop(codes, adjacency, levels.tolist()))
    assert wider.names[1] == f"share(kind=level {levels[0]})"
    assert wider.names[levels.size + 1 :] == ("degree", "mean(degree)")
    assert ("share(kind=others)" in wider.names) == (n_levels == 14)


def test_categories_that_are_numbers_have_shares():
    table = Table(np.array([[0.0], [1.0], [1.0]]), ("code",), (0,), (0,), categories={0: [7, 9]})
    graph = eb.Graph.from_edges([0, 1], [1, 2])
    wider = with_statistics(table, graph, ("mean",))
    assert wider.names[1] == "share(code=9)" and wider.values[:, 1].tolist() == [1.0, 0.5, 1.0]


def test_directed_graphs_have_columns_of_incoming_and_outgoing_neighbours():
    rng = np.random.default_rng(0)
    one_way = np.where(rng.random((30, 30)) < 0.15, rng.uniform(0.5, 2.0, (30, 30)), 0.0)
    np.fill_diagonal(one_way, 0.0)
    graph = eb.Graph.from_scipy(one_way, directed=True)
    values = np.column_stack([rng.normal(size=30), rng.integers(0, 3, 30)])
    table = Table(values, ("x", "kind"), (1,), (0, 1), categories={1: ["a", "b", "c"]})
    wider = with_statistics(table, graph, ("mean", "max"))
    columns = dict(zip(wider.names, wider.values.T, strict=True))
    for direction, weights in (("_in", one_way.T), ("_out", one_way)):
        total = weights.sum(axis=1)
        with np.errstate(invalid="ignore"):
            mean = weights @ values[:, 0] / total
        np.testing.assert_allclose(columns[f"mean{direction}(x)"], mean)
        largest = [values[row > 0, 0].max(initial=-np.inf) for row in weights]
        largest = np.where(np.isinf(largest), np.nan, largest)
        np.testing.assert_allclose(columns[f"max{direction}(x)"], largest)
        levels = [0, 1, 2]
        shares = shares_by_loop(values[:, 1], weights, levels)
        for level, name in enumerate("abc"):
            np.testing.assert_allclose(columns[f"share{direction}(kind={name})"], shares[:, level])
        np.testing.assert_allclose(columns[f"degree{direction}"], total)
    assert wider.origin == (0, 1, *(0, 0, 1, 1, 1, -1, -1) * 2)


@pytest.mark.parametrize("directed", [False, True])
def test_columns_of_nodes_with_a_time_are_of_earlier_neighbours(directed):
    time = np.array([0.0, 1.0, 1.0, 2.0])
    graph = eb.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], directed=directed).with_time(time)
    table = Table(np.array([[1.0], [2.0], [4.0], [8.0]]), ("a",), (), (0,))
    columns = with_statistics(table, graph, ("mean",)).materialize()
    values = dict(zip(columns.names, columns.values.T, strict=True))
    nan = np.nan
    expected = {"mean_in(a)": [nan, 1.0, nan, 4.0], "mean_out(a)": [nan, nan, nan, 1.0]}
    if not directed:
        expected = {"mean(a)": [nan, 1.0, nan, 2.5], "degree": [0.0, 1.0, 0.0, 2.0]}
    for name, column in expected.items():
        np.testing.assert_array_equal(values[name], column)
