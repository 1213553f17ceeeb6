"""The neighbourhood of nodes, against distances and walks on the whole graph."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csgraph

import ebboost as eb
from tests.strategies import graphs


@given(graph=graphs(), hops=st.integers(0, 4), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_walks_from_the_nodes_are_those_of_the_whole_graph(graph, hops, seed):
    nodes = np.random.default_rng(seed).integers(0, graph.n_nodes, 2)
    near = graph.neighborhood(nodes, hops)
    steps = csgraph.shortest_path(graph.adjacency, unweighted=True)[nodes].min(axis=0)
    assert near.nodes.tolist() == np.flatnonzero(steps <= hops).tolist()
    np.testing.assert_array_equal(near.distance, steps[near.nodes])
    np.testing.assert_array_equal(near.graph.degrees, graph.degrees[near.nodes])
    start = np.zeros(graph.n_nodes)
    start[nodes] = 1.0
    everywhere = start
    nearby = start[near.nodes]
    for _ in range(hops):
        everywhere = graph.adjacency @ everywhere
        nearby = near.graph.adjacency @ nearby
    np.testing.assert_allclose(nearby, everywhere[near.nodes], rtol=1e-12)


def test_edges_of_the_outermost_ring_are_left_out():
    triangle = eb.Graph.from_edges([0, 0, 1], [1, 2, 2])
    near = triangle.neighborhood([0], 1)
    assert near.nodes.tolist() == [0, 1, 2]
    assert near.graph.n_edges == 2
    assert triangle.neighborhood([0], 2).graph.n_edges == 3


def test_a_subgraph_knows_its_parent():
    graph = eb.Graph.from_edges([0, 1], [1, 2])
    assert graph.neighborhood([0], 1).graph.parent is graph
    assert graph.parent is graph


def test_the_unsigned_subgraph_has_the_degrees_of_its_parent():
    relations = {
        "friend": eb.Graph.from_edges([0], [1], n_nodes=3),
        "rival": eb.Graph.from_edges([1], [2]),
    }
    graph = eb.Graph.mix(relations, {"friend": 1.0, "rival": -2.0})
    near = graph.neighborhood([1], 1).graph
    assert near.is_signed and not near.unsigned.is_signed
    assert near.unsigned.degrees.tolist() == pytest.approx([1.0, 3.0, 2.0])
