import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import ebboost as eb
from ebboost.propagation import _ordering as _order
from ebboost.propagation._ordering import row_order
from tests.strategies import graphs


def scattered(graph: eb.Graph) -> eb.Graph:
    """The same graph with its nodes shuffled."""
    shuffled = np.random.default_rng(1).permutation(graph.n_nodes)
    return eb.Graph.from_scipy(graph.adjacency[shuffled][:, shuffled])


def distance(graph: eb.Graph, order: np.ndarray) -> float:
    """How far apart in memory neighbours lie, on average."""
    place = np.empty(order.size)
    place[order] = np.arange(order.size)
    edges = graph.adjacency.tocoo()
    return float(np.abs(place[edges.coords[0]] - place[edges.coords[1]]).mean())


@pytest.fixture
def small_is_large(monkeypatch):
    monkeypatch.setattr(_order, "LARGE", 1000)
    monkeypatch.setattr(_order, "WINDOW", 64)


needs_loops = pytest.mark.skipif(_order.COMPILED is None, reason="no compiler")


@pytest.mark.parametrize(
    ("lengths", "count", "ends"),
    [
        (np.full(64, 3), 1, [0, 64]),
        (np.full(64, 3), 4, [0, 16, 32, 48, 64]),
        (np.full(60, 3), 2, [0, 32, 60]),
        (np.repeat([1, 7], 32), 2, [0, 48, 64]),
        (np.repeat([0, 9], [60, 4]), 2, [0, 64, 64]),
    ],
)
def test_ranges_of_rows_read_about_as_much_each(lengths, count, ends):
    assert _order.RowRanges.of(lengths.astype(np.int32), 8).split(count) == ends


@needs_loops
@given(graph=graphs(), seed=st.integers(0, 100))
def test_pairs_and_fours_cover_all_nodes_and_read_no_more_entries(graph, seed):
    nodes = np.random.default_rng(seed).permutation(graph.n_nodes).astype(np.int32)
    order, lengths = _order.shared_order(graph.adjacency, nodes), np.diff(graph.adjacency.indptr)
    assert np.array_equal(np.sort(order.nodes), np.arange(graph.n_nodes))
    assert np.array_equal(np.sort(order.rows), np.arange(graph.n_nodes))
    assert np.array_equal(order.nodes[order.position], np.arange(graph.n_nodes))
    read, own = order.lengths, lengths[order.nodes[order.rows]]
    assert ((read <= own) & (4 * read >= own)).all() and (np.diff(read) >= 0).all()


@needs_loops
def test_cliques_are_paired_though_all_nodes_share_four_hubs():
    """Groups of eight and four hubs that are neighbours of all: a row reads hubs and two fours."""
    n_nodes, members = 100_000, 8
    clique = sparse.kron(
        sparse.eye_array(n_nodes // members), np.ones((members, members)) - np.eye(members)
    )
    shuffled, known = np.random.default_rng(0).permutation(n_nodes), np.ones((n_nodes, 4))
    hubs = np.kron(np.eye(2), np.ones((2, 2)) - np.eye(2))
    adjacency = sparse.block_array(
        [[hubs, known.T], [known, clique.tocsr()[shuffled][:, shuffled]]], format="csr"
    )
    graph = eb.Graph.from_scipy(adjacency)
    order = row_order(graph.adjacency, can_share=True)
    assert order.rows is not None
    assert np.median(order.lengths) <= 5


@needs_loops
def test_nodes_with_the_same_neighbours_are_adjacent():
    """Ten cliques of sixteen: a row reads three fours and, of its own four, a pair and one."""
    groups, members = 10, 16
    clique = sparse.coo_array(np.ones((members, members)) - np.eye(members))
    graph = scattered(eb.Graph.from_scipy(sparse.block_diag([clique] * groups, format="csr")))
    order = row_order(graph.adjacency, can_share=True)
    fours = order.nodes.reshape(-1, 4)
    dense = graph.adjacency.toarray() + np.eye(groups * members)
    assert all((dense[four] == dense[four[0]]).all() for four in fours)
    assert (order.lengths == 5).all()


@needs_loops
def test_sums_are_shared_only_where_that_saves_many_entries():
    rng = np.random.default_rng(0)
    places = rng.random((2000, 2))
    few, many = (eb.Graph.build_knn(places, k=k).adjacency for k in (5, 15))
    random = eb.Graph.from_edges(
        *np.sort(rng.integers(0, 2000, (2, 15_000)), axis=0), n_nodes=2000
    ).adjacency
    assert row_order(many, can_share=True).rows is not None
    assert (
        row_order(few, can_share=True).rows is None
        and row_order(random, can_share=True).rows is None
    )
    assert row_order(many).rows is None


@needs_loops
@pytest.mark.parametrize(
    ("members", "n_others", "is_shared"),
    [(12, 1, True), (12, 10, True), (12, 30, False), (6, 1, False)],
)
def test_sums_must_save_a_quarter_of_all_entries_and_four_of_a_row(members, n_others, is_shared):
    """Cliques, and edges at random: seven entries of a row are saved by twelve, three by six."""
    rng = np.random.default_rng(0)
    clique = sparse.kron(sparse.eye_array(600 // members), np.ones((members, members)))
    ends = rng.integers(0, 600, (2, 300 * n_others))
    others = sparse.coo_array((np.ones(ends.shape[1]), ends), shape=(600, 600))
    joined = sparse.csr_array(clique + others + others.T)
    joined.setdiag(0.0)
    joined.data[joined.data > 0.0] = 1.0
    order = row_order(eb.Graph.from_scipy(joined).adjacency, can_share=True)
    assert (order.rows is not None) == is_shared


def test_rows_of_one_length_follow_each_other_within_a_window():
    graph = eb.Graph.build_knn(np.random.default_rng(0).random((9000, 2)), k=5)
    order, lengths = row_order(graph.adjacency), np.diff(graph.adjacency.indptr)
    assert np.array_equal(order.nodes[order.position], np.arange(9000)) and order.rows is None
    assert np.array_equal(order.lengths, lengths[order.nodes])
    for first in range(0, 9000, _order.WINDOW):
        within = order.nodes[first : first + _order.WINDOW]
        assert (
            (np.diff(lengths[within]) >= 0).all()
            and within.min() >= first
            and within.max() < first + _order.WINDOW
        )


def test_scattered_neighbours_are_brought_together(small_is_large):
    graph = scattered(eb.Graph.build_knn(np.random.default_rng(0).random((5000, 2)), k=6))
    order = row_order(graph.adjacency).nodes
    assert np.array_equal(np.sort(order), np.arange(5000))
    assert distance(graph, order) < 0.1 * distance(graph, np.arange(5000))


def test_a_local_order_is_not_changed(small_is_large, monkeypatch):
    monkeypatch.setattr(
        _order, "reverse_cuthill_mckee", lambda *_, **__: pytest.fail("the order was good")
    )
    path = eb.Graph.from_edges(np.arange(4999), np.arange(1, 5000))
    row_order(path.adjacency)


def test_a_random_graph_is_not_reordered(small_is_large, monkeypatch):
    monkeypatch.setattr(
        _order, "reverse_cuthill_mckee", lambda *_, **__: pytest.fail("no order is better")
    )
    ends = np.sort(np.random.default_rng(0).integers(0, 5000, (25_000, 2)), axis=1)
    row_order(eb.Graph.from_edges(ends[:, 0], ends[:, 1], n_nodes=5000).adjacency)


def test_the_order_changes_no_result_but_by_rounding(small_is_large):
    graph = scattered(eb.Graph.build_knn(np.random.default_rng(0).random((3000, 2)), k=6))
    scores = np.random.default_rng(2).normal(size=(3000, 3))
    P = eb.Laplacian(2.0, 4)
    dense = P.operator(graph)._matrix.csr
    expected = scores
    for _ in range(4):
        expected = expected - (dense @ expected - scores) / 3.0
    for width in (1, 3):
        np.testing.assert_allclose(
            P.operator(graph).apply(scores[:, :width]), expected[:, :width], atol=1e-12
        )
