import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebboost as eb
from ebboost.graph import _similarity
from tests.strategies import graphs


@given(graph=graphs(), k=st.integers(1, 4))
def test_weights_are_the_eighth_power_of_the_k_largest_cosines(graph, k):
    degrees = np.where(graph.degrees > 0, graph.degrees, 1.0)
    rows = graph.adjacency.toarray() / np.sqrt(degrees)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, 0.0)
    weights = graph.similar_neighborhoods(k).adjacency.toarray()
    connected = weights > 0
    np.testing.assert_allclose(weights[connected] ** (1 / 8), cosines[connected], atol=1e-12)
    assert (cosines[connected] >= 0.2 - 1e-12).all()
    for node in range(graph.n_nodes):
        largest = np.sort(cosines[node])[::-1][:k]
        expected = largest[largest > 0.2 + 1e-9]
        own = np.sort(weights[node])[::-1] ** (1 / 8)
        np.testing.assert_allclose(own[: expected.size], expected, atol=1e-12)


def test_weights_do_not_depend_on_the_size_of_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    ends = np.sort(rng.integers(0, 200, (800, 2)), axis=1)
    edges = {"source": ends[:, 0], "target": ends[:, 1], "weight": rng.random(800)}
    expected = eb.Graph.from_edges(**edges).similar_neighborhoods(3).adjacency
    monkeypatch.setattr(_similarity, "BLOCK_ROWS", 7)
    blocks = eb.Graph.from_edges(**edges).similar_neighborhoods(3).adjacency
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(blocks, name), getattr(expected, name))


def test_equal_cosines_are_ordered_by_node_position():
    star = eb.Graph.from_edges(np.zeros(30, dtype=int), np.arange(1, 31))
    assert star.similar_neighborhoods(k=2).neighbors(30).tolist() == [1, 2]


def test_signs_of_edges_do_not_matter():
    friend = eb.Graph.from_edges([0, 1, 4], [2, 2, 2], n_nodes=5)
    rival = eb.Graph.from_edges([0, 3], [1, 1], n_nodes=5)
    signed = eb.Graph.mix({"friend": friend, "rival": rival}, {"friend": 1.0, "rival": -0.5})
    np.testing.assert_array_equal(
        signed.similar_neighborhoods().adjacency.toarray(),
        signed.unsigned.similar_neighborhoods().adjacency.toarray(),
    )


def test_node_ids_are_those_of_the_graph():
    import networkx as nx

    graph = eb.Graph.from_networkx(nx.star_graph(["hub", "a", "b"]))
    assert graph.similar_neighborhoods().node_ids.tolist() == ["hub", "a", "b"]


def test_hubs_with_too_many_neighbours_are_rejected(monkeypatch):
    monkeypatch.setattr(_similarity, "MAX_COMPARISONS", 5)
    with pytest.raises(ValueError, match="hubs"):
        eb.Graph.from_edges([0, 0, 0], [1, 2, 3]).similar_neighborhoods()


@pytest.mark.parametrize("k", [0, -1, 2.0, "3"])
def test_k_must_be_a_positive_integer(k):
    with pytest.raises(ValueError, match="k must be an integer of at least 1"):
        eb.Graph.from_edges([0, 0, 0], [1, 2, 3]).similar_neighborhoods(k)
