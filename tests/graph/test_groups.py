"""Rows that share nodes of a graph."""

import pickle

import numpy as np
import pandas as pd
import pytest

import ebboost as eb


def test_groups_are_nodes_of_a_graph_by_id_or_position():
    edges = pd.DataFrame({"a": ["x"], "b": ["y"]})
    between = eb.Graph.from_dataframe(edges, nodes=["x", "y", "z"])
    rows = eb.Graph.from_groups(["y", "new", "x", "y"], between)
    assert rows.groups.group_of.tolist() == [1, 3, 0, 1]
    assert rows.groups.graph.node_ids.tolist() == ["x", "y", "z", "new"]
    assert rows.n_components == 2  # the new group has no edges
    by_position = eb.Graph.from_groups([1, 0, 1], eb.Graph.from_edges([0], [1], n_nodes=3))
    assert by_position.groups.group_of.tolist() == [1, 0, 1] and by_position.n_components == 1
    again = pickle.loads(pickle.dumps(rows))
    assert again.groups.group_of.tolist() == [1, 3, 0, 1]


def test_without_a_graph_groups_have_no_edges():
    rows = eb.Graph.from_groups(pd.Series(["b", "a", "b"]))
    assert rows.groups.graph.n_edges == 0 and rows.n_components == 2
    assert rows.adjacency.toarray().tolist() == [[0, 0, 1], [0, 0, 0], [1, 0, 0]]


def test_a_missing_group_is_named():
    with pytest.raises(ValueError, match="groups has no node id at row 1"):
        eb.Graph.from_groups(["a", np.nan])
