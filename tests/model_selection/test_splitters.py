"""Blocks of the graph and of time, as splitters of scikit-learn."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csgraph
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score

import ebboost as eb
from tests.model_selection.problems import on_a_map

GRID = eb.Graph.build_radius([[i, j] for i in range(20) for j in range(20)], radius=1.1)


@st.composite
def graphs(draw):
    """Graphs with several components and isolated nodes."""
    n = draw(st.integers(6, 60))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    ends = rng.integers(n, size=(2, draw(st.integers(1, 3 * n))))
    return eb.Graph.from_edges(*ends, n_nodes=n)


def hops(graph, sources):
    """Number of edges from the nearest source to each node."""
    distances = csgraph.dijkstra(graph.adjacency, indices=sources, unweighted=True, min_only=True)
    return np.asarray(distances)


# ---------------------------------------------------------------------- blocks of the graph


@settings(max_examples=40, deadline=None)
@given(graph=graphs(), n_splits=st.integers(2, 5), seed=st.integers(0, 99))
def test_blocks_of_any_graph_hold_out_each_labelled_row_once(graph, n_splits, seed):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(graph.n_nodes) < 0.8, 1.0, np.nan)
    y[:n_splits] = 1.0
    labelled = np.flatnonzero(~np.isnan(y))
    folds = list(eb.GraphBlockFold(n_splits, graph=graph, random_state=seed).split(None, y))
    held_out = [test for _, test in folds]
    np.testing.assert_array_equal(np.sort(np.concatenate(held_out)), labelled)
    sizes = [test.size for test in held_out]
    assert len(sizes) == n_splits and max(sizes) - min(sizes) <= 1
    for train, test in folds:
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), labelled)


def test_most_neighbours_of_a_held_out_row_are_held_out():
    for _, test in eb.GraphBlockFold(4, random_state=0).split(GRID):
        held = np.zeros(400)
        held[test] = 1.0
        shares = (GRID.adjacency @ held)[test] / GRID.degrees[test]
        assert shares.mean() > 0.75  # at random a quarter


@pytest.mark.parametrize("buffer", [0, 1, 3])
def test_labels_within_the_buffer_are_not_trained_on(buffer):
    for train, test in eb.GraphBlockFold(4, graph=GRID, buffer=buffer, random_state=0).split():
        away = hops(GRID, test)
        rest = np.setdiff1d(np.arange(400), test)
        np.testing.assert_array_equal(train, rest[away[rest] > buffer])


def test_a_seed_fixes_the_blocks():
    def blocks(seed):
        return [test.tolist() for _, test in eb.GraphBlockFold(3, random_state=seed).split(GRID)]

    assert blocks(1) == blocks(1) != blocks(2)


def test_rows_of_one_node_are_in_one_fold():
    ids = np.array([f"town {i}" for i in range(400)], dtype=object)
    named = eb.Graph(GRID.adjacency, ids)
    node = np.random.default_rng(0).integers(400, size=1_500)
    by_id = list(eb.GraphBlockFold(3, graph=named, random_state=0).split(None, groups=ids[node]))
    by_number = list(eb.GraphBlockFold(3, graph=GRID, random_state=0).split(None, groups=node))
    for (train, test), (other, held) in zip(by_id, by_number, strict=True):
        assert not set(node[train]) & set(node[test])
        np.testing.assert_array_equal(train, other)
        np.testing.assert_array_equal(test, held)


def test_scikit_learn_takes_blocks_and_leaves_unknown_labels_out():
    X, y, graph = on_a_map()
    y[::7] = np.nan
    cv = eb.GraphBlockFold(4, graph=graph, random_state=0)
    assert cv.get_n_splits() == 4
    scores = cross_val_score(Ridge(), X, y, cv=cv)
    by_hand = [Ridge().fit(X[a], y[a]).score(X[b], y[b]) for a, b in cv.split(X, y)]
    np.testing.assert_allclose(scores, by_hand)
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=cv).fit(X, np.nan_to_num(y))
    assert search.n_splits_ == 4


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (lambda: eb.GraphBlockFold(1), "n_splits must be an integer >= 2, got 1"),
        (lambda: eb.GraphBlockFold(buffer=-1), "buffer must be an integer >= 0"),
        (lambda: list(eb.GraphBlockFold().split(np.zeros((3, 1)))), r"GraphBlockFold\(5, graph=g"),
        (lambda: list(eb.GraphBlockFold(graph=GRID).split(np.zeros((3, 1)))), "X has 3 rows, but"),
        (lambda: list(eb.GraphBlockFold().split(GRID, [1.0])), "y has 1 entries, .* 400 rows"),
        (lambda: list(eb.GraphBlockFold().split(GRID, [1.0] + 399 * [None])), "as many labels"),
        (lambda: list(eb.GraphBlockFold().split(GRID, groups=[7, 400])), "groups names row 400"),
    ],
)
def test_what_cannot_be_divided_by_the_graph_is_said(split, message):
    with pytest.raises(ValueError, match=message):
        split()


# ---------------------------------------------------------------------- blocks of time


@settings(max_examples=40, deadline=None)
@given(times=st.lists(st.integers(0, 30), min_size=20, max_size=80), n_splits=st.integers(1, 4))
def test_all_labels_that_are_trained_on_are_earlier(times, n_splits):
    times = np.array([*times, *range(100, 120)])  # enough of them differ
    y = np.where(np.arange(times.size) % 5, 1.0, np.nan)
    folds = list(eb.TimeSplit(n_splits).split(times, y))
    assert len(folds) == n_splits
    tested = np.concatenate([test for _, test in folds])
    assert np.unique(tested).size == tested.size and not np.isnan(y[tested]).any()
    for train, test in folds:
        assert times[train].max() < times[test].min()
        earlier = np.flatnonzero(~np.isnan(y) & (times < times[test].min()))
        np.testing.assert_array_equal(np.sort(train), earlier)  # nothing is left out


def test_times_are_a_column_or_an_array_of_dates():
    X = pd.DataFrame({"a": np.arange(60.0), "sold": pd.date_range("2024-01-01", periods=60)})
    X = X.sample(frac=1.0, random_state=0)
    expected = list(eb.TimeSplit(3).split(X["a"]))
    for splitter in (eb.TimeSplit(3, time="sold"), eb.TimeSplit(3, time=X["sold"])):
        for one, other in zip(splitter.split(X), expected, strict=True):
            np.testing.assert_array_equal(one[0], other[0])
            np.testing.assert_array_equal(one[1], other[1])
    scores = cross_val_score(Ridge(), X[["a"]], X["a"], cv=eb.TimeSplit(3, time=X["sold"]))
    assert scores.shape == (3,) and (scores > 0.9).all()


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (lambda: list(eb.TimeSplit(2).split([1, 1, 1, 1])), "allow 0 blocks .*use fewer folds"),
        (lambda: list(eb.TimeSplit(2).split(np.zeros((4, 2)))), r"TimeSplit\(5, time="),
        (lambda: list(eb.TimeSplit(time=[1, 2]).split(np.zeros((4, 2)))), "2 entries, X has 4"),
        (lambda: list(eb.TimeSplit(2).split([1.0, np.nan, 2.0])), "row 1 has none"),
        (lambda: list(eb.TimeSplit(time="when").split(pd.DataFrame({"a": [1]}))), "'when' is not"),
    ],
)
def test_what_cannot_be_divided_by_time_is_said(split, message):
    with pytest.raises(ValueError, match=message):
        split()
