"""Edge lists into one symmetric adjacency: against a slow reference written with a dict."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebboost as eb

NODES = 6
WEIGHTS = st.one_of(st.just(0.0), st.floats(1e-3, 1e3))
EDGES = st.lists(
    st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1), WEIGHTS), max_size=25
)


def slow_adjacency(edges, weighted):
    """What the docstring says, one edge at a time."""
    directions = {}
    for a, b, weight in edges:
        if a != b and (weight > 0 or not weighted):
            directions[a, b] = directions.get((a, b), 0.0) + weight if weighted else 1.0
    matrix = np.zeros((NODES, NODES))
    for (a, b), weight in directions.items():
        matrix[a, b] = (weight + directions[b, a]) / 2 if (b, a) in directions else weight
        matrix[b, a] = matrix[a, b]
    return matrix


@given(edges=EDGES, weighted=st.booleans())
@settings(max_examples=200, deadline=None)
def test_edge_lists_give_the_matrix_of_a_reference_loop(edges, weighted):
    source, target, weight = zip(*edges, strict=True) if edges else ((), (), ())
    expected = slow_adjacency(edges, weighted)
    # An undirected list may write the ends of its edges in any order: warnings are errors here.
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


@given(edges=EDGES)
@settings(max_examples=50, deadline=None)
def test_swapping_the_ends_of_every_edge_changes_nothing(edges):
    source, target, weight = zip(*edges, strict=True) if edges else ((), (), ())
    one = eb.Graph.from_edges(source, target, weight, n_nodes=NODES)
    other = eb.Graph.from_edges(target, source, weight, n_nodes=NODES)
    np.testing.assert_allclose(one.adjacency.toarray(), other.adjacency.toarray(), rtol=1e-15)


def test_largest_weights_stay_finite_and_overflowing_sums_are_rejected():
    huge = np.finfo(float).max
    assert eb.Graph.from_edges([0, 1], [1, 0], [huge, huge]).adjacency[0, 1] == huge
    with pytest.raises(ValueError, match="overflows"):
        eb.Graph.from_edges([0, 0], [1, 1], [huge, huge])
    with pytest.raises(ValueError, match="overflows at node 1"):
        eb.Graph.from_edges([0, 1], [1, 2], [huge, huge])
    with pytest.raises(ValueError, match="overflows"):
        eb.Graph.mix({"far": eb.Graph.from_edges([0], [1], [huge])}, {"far": 2.0})
    with pytest.raises(ValueError, match="too small"):
        eb.Graph.from_edges([0], [1], [5e-324])


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"source": [0, 1], "target": [1]}, ValueError, ["source", "target", "2 and 1"]),
        ({"source": [[0]], "target": [[1]]}, ValueError, ["source", "one-dimensional"]),
        ({"source": ["a"], "target": ["b"]}, TypeError, ["source", "Graph.from_dataframe"]),
        ({"source": [0.5], "target": [1]}, TypeError, ["source", "integers"]),
        ({"source": [0, None], "target": [1, 1]}, TypeError, ["source", "integers"]),
        ({"source": [0, -1], "target": [1, 1]}, ValueError, ["source", "row 1", "from 0"]),
        (
            {"source": [0, 0], "target": [1, 5], "n_nodes": 3},
            ValueError,
            ["target", "row 1", "n_nodes-1=2"],
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
def test_invalid_edge_lists_raise_errors_with_argument_and_row(arguments, error, words):
    with pytest.raises(error) as caught:
        eb.Graph.from_edges(**arguments)
    for word in words:
        assert re.search(re.escape(word), str(caught.value))


def test_integers_stored_as_floats_are_positions():
    assert eb.Graph.from_edges([0.0, 1.0], [1.0, 2.0]).n_edges == 2
