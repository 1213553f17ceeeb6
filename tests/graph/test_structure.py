"""Properties of a graph; it is immutable."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import ebboost as eb


def test_a_graph_is_immutable():
    source, target, weight = np.array([0, 1]), np.array([1, 2]), np.array([1.0, 2.0])
    graph = eb.Graph.from_edges(source, target, weight, n_nodes=4)
    before = graph.adjacency.toarray()
    weight[:] = 7.0  # the caller's own arrays stay the caller's
    assert weight.flags.writeable
    for array in (
        graph.adjacency.data,
        graph.adjacency.indices,
        graph.degrees,
        graph.isolates,
        graph.component_labels,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 3
    with pytest.raises(ValueError, match="read-only"):
        graph.neighbors(1)[0] = 3
    with pytest.raises(ValueError, match="read-only"), pytest.warns(sparse.SparseEfficiencyWarning):
        graph.adjacency[0, 3] = 1.0
    graph.adjacency.data = np.zeros(4)
    assert (graph.adjacency.toarray() == before).all()


def test_properties_of_a_small_graph():
    graph = eb.Graph.from_edges(
        [0, 1, 3], [1, 2, 4], n_nodes=6
    )  # a path of three, a pair, a hermit
    assert (graph.n_nodes, graph.n_edges, graph.n_components) == (6, 3, 3)
    assert graph.isolates.tolist() == [5]
    assert graph.neighbors(1).tolist() == [0, 2]
    assert graph.node_ids.tolist() == list(range(6)) and not graph.has_ids
    assert (
        len(set(graph.component_labels[:3])) == 1
        and graph.component_labels[0] != graph.component_labels[3]
    )
    for node in (-1, 6):
        with pytest.raises(IndexError, match="node must be a position from 0 to 5"):
            graph.neighbors(node)


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda graph: pickle.loads(pickle.dumps(graph))]
)
def test_copies_are_equal_and_immutable(again):
    graph = eb.Graph.from_dataframe(
        pd.DataFrame({"a": ["x", "y"], "b": ["y", "z"], "w": [1.0, 2.0]}), weight="w"
    )
    copied = again(graph)
    assert (copied.adjacency != graph.adjacency).nnz == 0
    assert copied.node_ids.tolist() == ["x", "y", "z"]
    for array in (copied.adjacency.data, copied.adjacency.indices, copied.degrees, copied.node_ids):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 3


def test_notebooks_show_the_summary_with_node_ids_escaped():
    graph = eb.Graph.from_dataframe(
        pd.DataFrame({"a": ["<b>"], "b": ["y"]}), nodes=["y", "<b>", "alone"]
    )
    shown = graph._repr_html_()
    assert "<td>3</td>" in shown and "y, &lt;b&gt;, alone" in shown and "<b>" not in shown
    assert "2 nodes" in shown


def test_a_mixture_adds_weights_times_strengths_and_keeps_the_ids():
    near = eb.Graph.from_edges([0, 1], [1, 2], [1.0, 4.0], n_nodes=4)
    far = eb.Graph.from_edges([1, 2], [2, 3], [2.0, 3.0])
    mixed = eb.Graph.mix({"near": near, "far": far}, {"near": 2.0, "far": 0.5})
    expected = 2.0 * near.adjacency.toarray() + 0.5 * far.adjacency.toarray()
    np.testing.assert_array_equal(mixed.adjacency.toarray(), expected)
    assert eb.Graph.mix({"near": near, "far": far}, {"near": 0.0, "far": 1.0}).n_edges == 2
    named = eb.Graph.from_dataframe(pd.DataFrame({"a": ["x"], "b": ["y"]}))
    assert eb.Graph.mix({"only": named}, {"only": 3.0}).node_ids.tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("graphs", "strengths", "error", "words"),
    [
        ({}, {}, TypeError, "graphs must be a dict"),
        ([eb.Graph.from_edges([0], [1])], [1.0], TypeError, "graphs must be a dict"),
        ({"a": np.eye(2)}, {"a": 1.0}, TypeError, r"graphs\['a'\] must be an ebboost.Graph"),
        ({"a": None}, {"b": 1.0}, TypeError, r"graphs\['a'\] must be an ebboost.Graph"),
        ({"a": eb.Graph.from_edges([0], [1])}, {"b": 1.0}, ValueError, "strengths must have"),
        ({"a": eb.Graph.from_edges([0], [1])}, {"a": -1.0}, ValueError, "0 or more and finite"),
        ({"a": eb.Graph.from_edges([0], [1])}, {"a": np.nan}, ValueError, "0 or more and finite"),
        (
            {"a": eb.Graph.from_edges([0], [1]), "b": eb.Graph.from_edges([0], [2])},
            {"a": 1.0, "b": 1.0},
            ValueError,
            r"graphs\['b'\] has other nodes than the first",
        ),
    ],
)
def test_wrong_mixtures_are_rejected(graphs, strengths, error, words):
    with pytest.raises(error, match=words):
        eb.Graph.mix(graphs, strengths)
