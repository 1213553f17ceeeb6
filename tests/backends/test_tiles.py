"""Edges in tiles: every edge of the graph once, with adjacent columns next to each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from ebboost.backends._tiles import ROWS, TILE, tiled, worthwhile
from tests.strategies import graphs, random_graph


def arranged(adjacency, rows, chunk, most=256):
    return tiled(
        adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int32), rows, chunk, most
    )


def read(found, n_nodes, rows, chunk):
    """Row and column of each edge, in order, as `_tiles.cu` reads them."""
    ranges = np.repeat(np.arange(found.first.size - 1), np.diff(found.first))
    word = found.word[: chunk * found.first[-1]].astype(np.int64).reshape(-1, chunk)
    own, column = word % TILE, word // TILE + TILE * found.tile[:, None].astype(np.int64)
    edge = own < rows
    return (ranges[:, None] * rows + own)[edge], column[edge]


def matrix(row, column, n_nodes):
    return sparse.csr_array((np.ones(row.size), (row, column)), shape=(n_nodes, n_nodes))


@given(graphs(), st.integers(1, 9), st.integers(1, 5))
def test_every_edge_is_there_once(graph, rows, chunk):
    found, n = arranged(graph.adjacency, rows, chunk), graph.n_nodes
    assert found.word.size >= chunk * found.first[-1] and found.tile.size == found.first[-1]
    row, column = read(found, n, rows, chunk)
    assert (matrix(row, column, n) != (graph.adjacency != 0)).nnz == 0


def test_several_tiles_are_told_apart():
    graph = random_graph(150_000, 300_000)
    found = arranged(graph.adjacency, 40_000, 2048)
    row, column = read(found, 150_000, 40_000, 2048)
    assert (matrix(row, column, 150_000) != (graph.adjacency != 0)).nnz == 0
    assert set(found.tile.tolist()) == {0, 1, 2}
    inside = np.diff(row // 40_000) == 0
    assert (np.diff(column)[inside] >= 0).all()


def test_rows_of_too_many_edges_are_left_out():
    graph = random_graph(200, 800)
    lengths = np.diff(graph.adjacency.indptr)
    row, _ = read(arranged(graph.adjacency, 64, 8, most=8), 200, 64, 8)
    np.testing.assert_array_equal(
        np.bincount(row, minlength=200), np.where(lengths > 8, 0, lengths)
    )


@pytest.mark.parametrize(
    ("n_nodes", "n_edges", "rows", "worth"),
    [
        (2_400_000, 120_000_000, ROWS, True),
        (200_000, 10_000_000, ROWS, False),  # quick as they are
        (2_400_000, 40_000_000, ROWS, False),  # too few to a node
        (10_000_000, 300_000_000, ROWS, False),  # too far apart to be read together
        (2_400_000, 60_000_000, 8_000, False),  # so are these in small ranges
    ],
)
def test_large_and_dense_graphs_are_worth_it(n_nodes, n_edges, rows, worth):
    assert worthwhile(n_nodes, n_edges, rows) is worth
