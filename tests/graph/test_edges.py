"""Edge lists into one symmetric adjacency: against a slow reference written with a dict."""

import copy
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import ebboost as eb

NODES = 6
WEIGHTS = st.one_of(st.just(0.0), st.floats(1e-3, 1e3))
EDGES = st.lists(
    st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1), WEIGHTS), max_size=25
)


def slow_adjacency(edges, weighted):
    """What the docstring says, one edge at a time; also the pairs whose two directions differ."""
    directions = {}
    for a, b, weight in edges:
        if a != b and (weight > 0 or not weighted):
            directions[a, b] = directions.get((a, b), 0.0) + weight if weighted else 1.0
    matrix, differing = np.zeros((NODES, NODES)), 0
    for (a, b), weight in directions.items():
        matrix[a, b] = (weight + directions[b, a]) / 2 if (b, a) in directions else weight
        matrix[b, a] = matrix[a, b]
    both_ways = any((b, a) in directions for a, b in directions)
    for a, b in {tuple(sorted(pair)) for pair in directions}:
        forth, back = directions.get((a, b), 0.0), directions.get((b, a), 0.0)
        differing += abs(forth - back) > 1e-12 * matrix[a, b]
    return matrix, differing if both_ways else 0


@given(edges=EDGES, weighted=st.booleans())
@settings(max_examples=200, deadline=None)
def test_any_edge_list_gives_the_matrix_of_a_slow_reference(edges, weighted):
    source, target, weight = zip(*edges, strict=True) if edges else ((), (), ())
    expected, differing = slow_adjacency(edges, weighted)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        graph = eb.Graph.from_edges(source, target, weight if weighted else None, n_nodes=NODES)
    matrix = graph.adjacency.toarray()
    np.testing.assert_allclose(matrix, expected, rtol=1e-12)
    assert (matrix == matrix.T).all()
    assert not matrix.diagonal().any()
    assert graph.adjacency.has_canonical_format
    assert (graph.adjacency.data > 0).all()
    assert graph.n_edges == np.count_nonzero(np.triu(expected))
    np.testing.assert_allclose(graph.degrees, expected.sum(axis=1), rtol=1e-12)
    assert graph.isolates.tolist() == np.flatnonzero(~expected.any(axis=1)).tolist()
    assert [str(w.message).split()[4] for w in caught] == ([str(differing)] if differing else [])


@given(edges=EDGES)
@settings(max_examples=50, deadline=None)
def test_swapping_the_ends_of_every_edge_changes_nothing(edges):
    source, target, weight = zip(*edges, strict=True) if edges else ((), (), ())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = eb.Graph.from_edges(source, target, weight, n_nodes=NODES)
        other = eb.Graph.from_edges(target, source, weight, n_nodes=NODES)
    np.testing.assert_allclose(one.adjacency.toarray(), other.adjacency.toarray(), rtol=1e-15)


def test_a_graph_cannot_be_changed():
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


def test_facts_of_a_graph_known_by_heart():
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


def test_largest_weights_stay_finite_and_sums_that_overflow_are_refused():
    huge = np.finfo(float).max
    assert eb.Graph.from_edges([0, 1], [1, 0], [huge, huge]).adjacency[0, 1] == huge
    with pytest.raises(ValueError, match="overflows"):
        eb.Graph.from_edges([0, 0], [1, 1], [huge, huge])
    with pytest.raises(ValueError, match="overflows when those of node 1 are added up"):
        eb.Graph.from_edges([0, 1], [1, 2], [huge, huge])
    with pytest.raises(ValueError, match="overflows"):
        eb.Graph.mix({"far": eb.Graph.from_edges([0], [1], [huge])}, {"far": -2.0})
    with pytest.raises(ValueError, match="too small"):
        eb.Graph.from_edges([0], [1], [5e-324])


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda graph: pickle.loads(pickle.dumps(graph))]
)
def test_a_copy_is_the_same_graph_and_cannot_be_changed_either(again):
    graph = eb.Graph.from_dataframe(
        pd.DataFrame({"a": ["x", "y"], "b": ["y", "z"], "w": [1.0, 2.0]}), weight="w"
    )
    copied = again(graph)
    assert (copied.adjacency != graph.adjacency).nnz == 0
    assert copied.node_ids.tolist() == ["x", "y", "z"]
    for array in (copied.adjacency.data, copied.adjacency.indices, copied.degrees, copied.node_ids):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 3


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"source": [0, 1], "target": [1]}, ValueError, ["source", "target", "2 and 1"]),
        ({"source": [[0]], "target": [[1]]}, ValueError, ["source", "one-dimensional"]),
        ({"source": ["a"], "target": ["b"]}, TypeError, ["source", "Graph.from_dataframe"]),
        ({"source": [0.5], "target": [1]}, TypeError, ["source", "integers"]),
        ({"source": [0, None], "target": [1, 1]}, TypeError, ["source", "integers"]),
        ({"source": [0, -1], "target": [1, 1]}, ValueError, ["source", "row 1", "start at 0"]),
        (
            {"source": [0, 0], "target": [1, 5], "n_nodes": 3},
            ValueError,
            ["target", "row 1", "n_nodes=3"],
        ),
        ({"source": [0], "target": [1], "n_nodes": 0}, ValueError, ["n_nodes", "at least 1"]),
        ({"source": [0], "target": [1], "n_nodes": 2.5}, ValueError, ["n_nodes", "2.5"]),
        ({"source": [], "target": []}, ValueError, ["n_nodes", "at least 1"]),
        (
            {"source": [0, 0], "target": [1, 2], "weight": [1.0]},
            ValueError,
            ["weight", "(2,)", "(1,)"],
        ),
        (
            {"source": [0, 0], "target": [1, 2], "weight": [1.0, -2.0]},
            ValueError,
            ["weight", "negative at row 1"],
        ),
        (
            {"source": [0, 0], "target": [1, 2], "weight": [1.0, np.nan]},
            ValueError,
            ["weight", "NaN at row 1"],
        ),
        (
            {"source": [0, 0], "target": [1, 2], "weight": [np.inf, 1.0]},
            ValueError,
            ["weight", "infinite at row 0"],
        ),
        (
            {"source": [0], "target": [1], "weight": ["heavy"]},
            TypeError,
            ["weight", "numbers", "heavy"],
        ),
    ],
)
def test_bad_edge_lists_are_refused_by_name_and_place(arguments, error, words):
    with pytest.raises(error) as caught:
        eb.Graph.from_edges(**arguments)
    for word in words:
        assert re.search(re.escape(word), str(caught.value))


def test_whole_numbers_stored_as_floats_are_positions():
    assert eb.Graph.from_edges([0.0, 1.0], [1.0, 2.0]).n_edges == 2
