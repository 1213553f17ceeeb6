"""Blocks of the graph as folds: balanced, connected, small components undivided."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import ebboost as eb
from ebboost import GraphBlockFold
from tests.strategies import graphs, random_graph


def grid(side=20):
    points = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
    return eb.Graph.build_radius(points, radius=1.0)


@settings(max_examples=150, deadline=None)
@given(graphs(min_nodes=2, max_nodes=40), st.integers(2, 6), st.integers(0, 100), st.data())
def test_every_counted_node_is_held_out_once_and_folds_are_balanced(graph, n_splits, seed, data):
    n_splits = min(n_splits, graph.n_nodes)
    nodes = None
    if data.draw(st.booleans()):
        size = data.draw(st.integers(n_splits, graph.n_nodes))
        nodes = np.sort(np.random.default_rng(seed).permutation(graph.n_nodes)[:size])
    fold = GraphBlockFold(n_splits, random_state=seed)
    pairs = list(fold.split(graph, nodes))
    expected_nodes = np.arange(graph.n_nodes) if nodes is None else nodes
    np.testing.assert_array_equal(
        np.sort(np.concatenate([test for _, test in pairs])), expected_nodes
    )
    for train, test in pairs:
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), expected_nodes)
    sizes = [test.size for _, test in pairs]
    assert max(sizes) - min(sizes) <= max(1.0, 0.1 * expected_nodes.size / n_splits)
    np.testing.assert_array_equal(fold.blocks(graph, nodes), fold.blocks(graph, nodes))
    assert set(fold.blocks(graph, nodes)) <= set(range(n_splits))


@pytest.mark.parametrize("n_splits", [2, 5, 8])
def test_neighbours_of_a_node_are_mostly_in_its_block(n_splits):
    graph = grid(30)
    block = GraphBlockFold(n_splits, random_state=0).blocks(graph)
    edges = graph.adjacency.tocoo()
    assert (block[edges.coords[0]] == block[edges.coords[1]]).mean() > 0.85  # 1/n_splits at random


def test_blocks_of_a_path_are_intervals():
    path = eb.Graph.from_edges(np.arange(99), np.arange(1, 100))
    block = GraphBlockFold(4, random_state=1).blocks(path)
    assert (np.diff(block) != 0).sum() == 3
    np.testing.assert_array_equal(np.bincount(block), 25)


def test_small_components_are_undivided_and_distributed_over_the_folds():
    big = sparse.triu(grid(20).adjacency).coords
    pairs = np.arange(400, 440)  # twenty components of two nodes
    graph = eb.Graph.from_edges(
        [*big[0], *pairs[::2]], [*big[1], *pairs[1::2]], n_nodes=500
    )  # and 60 isolates
    block = GraphBlockFold(5, random_state=0).blocks(graph)
    np.testing.assert_array_equal(block[pairs[::2]], block[pairs[1::2]])
    np.testing.assert_array_equal(np.bincount(block[graph.isolates], minlength=5), 12)
    np.testing.assert_array_equal(np.bincount(block), 100)


def test_blocks_hold_equally_many_labels_where_labels_are_clustered():
    graph = grid(20)
    labelled = np.arange(100)  # a quarter of the grid
    sizes = [test.size for _, test in GraphBlockFold(5, random_state=0).split(graph, labelled)]
    assert sizes == [20] * 5


def test_another_random_state_gives_other_blocks():
    graph = grid(20)
    first, second = (GraphBlockFold(5, random_state=seed).blocks(graph) for seed in (0, 1))
    assert (first != second).any()


def test_blocks_of_a_large_graph_are_balanced():
    graph = random_graph(50_000, 100_000)  # thousands of components
    block = GraphBlockFold(10, random_state=0).blocks(graph)
    np.testing.assert_array_equal(np.bincount(block), 5000)


@pytest.mark.parametrize("n_splits", [1, 0, -1, 2.0, True, "2"])
def test_fewer_than_two_blocks_raise_an_error(n_splits):
    with pytest.raises(ValueError, match="n_splits must be an integer >= 2"):
        GraphBlockFold(n_splits)


def test_more_blocks_than_nodes_raise_an_error():
    with pytest.raises(
        ValueError, match="n_splits=9 folds need at least one node each, there are 4"
    ):
        GraphBlockFold(9).blocks(random_graph(4, 3))
    with pytest.raises(TypeError, match="graph must be an ebboost"):
        list(GraphBlockFold(2).split(np.eye(3)))


def test_time_split_trains_on_the_past():
    dates = np.datetime64("2020-01-01") + np.random.default_rng(0).integers(0, 50, 100)
    nodes = np.arange(10, 100)
    folds = list(eb.TimeSplit(4).split(dates, nodes))
    assert len(folds) == 4
    for train, test in folds:
        assert dates[train].max() < dates[test].min()
        assert 10 <= test.size <= 26
    first = folds[0][0]
    held_out = np.concatenate([test for _, test in folds])
    np.testing.assert_array_equal(np.sort(np.append(first, held_out)), nodes)
    with pytest.raises(ValueError, match="time must differ"):
        next(eb.TimeSplit(2).split(np.zeros(9)))
