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
    rival = eb.Graph.mix({"rival": graph}, {"rival": -1.0})
    assert "1 (weights -1 to -1)" in rival._repr_html_()
