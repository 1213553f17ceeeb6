"""Neighbours from coordinates, against brute force and the haversine formula."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebboost as eb

EARTH_RADIUS_KM = 6371.0088  # the mean radius of the IUGG


def haversine(coords):
    latitude, longitude = np.deg2rad(np.asarray(coords)).T
    half = np.sin((latitude[:, None] - latitude) / 2) ** 2
    half = (
        half
        + np.cos(latitude[:, None])
        * np.cos(latitude)
        * np.sin((longitude[:, None] - longitude) / 2) ** 2
    )
    return 2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.minimum(half, 1.0)))


def euclidean(coords):
    coords = np.asarray(coords)
    return np.sqrt(((coords[:, None] - coords) ** 2).sum(axis=2))


DISTANCES = {"euclidean": euclidean, "haversine": haversine}


def coordinates(metric, seed, n=60):
    rng = np.random.default_rng(seed)
    if metric == "euclidean":
        return rng.normal(size=(n, 3))
    return np.column_stack(
        [np.rad2deg(np.arcsin(rng.uniform(-1, 1, n))), rng.uniform(-180, 180, n)]
    )


@pytest.mark.parametrize("metric", DISTANCES)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 8))
@settings(max_examples=15, deadline=None)
def test_knn_connects_each_node_to_its_nearest(metric, seed, k):
    coords = coordinates(metric, seed)
    distance = DISTANCES[metric](coords)
    np.fill_diagonal(distance, np.inf)
    nearest = np.argsort(distance, axis=1)[:, :k]
    expected = np.zeros(distance.shape)
    np.put_along_axis(expected, nearest, 1.0, axis=1)
    graph = eb.Graph.build_knn(coords, k, metric=metric)
    assert (graph.adjacency.toarray() == np.maximum(expected, expected.T)).all()


@pytest.mark.parametrize(
    ("metric", "radius"), [("euclidean", 0.8), ("haversine", 1500.0), ("haversine", 30_000.0)]
)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_radius_connects_all_pairs_within_it(metric, radius, seed):
    coords = coordinates(metric, seed)
    expected = DISTANCES[metric](coords) <= radius
    np.fill_diagonal(expected, False)
    assert (
        eb.Graph.build_radius(coords, radius, metric=metric).adjacency.toarray() == expected
    ).all()


def test_haversine_crosses_the_date_line_and_the_pole():
    fiji = [[-17.0, 179.9], [-17.0, -179.9], [-17.0, 178.0]]
    assert eb.Graph.build_knn(fiji, 1, metric="haversine").neighbors(1).tolist() == [0]
    pole = [[89.9, 0.0], [89.9, 180.0], [85.0, 0.0]]  # 22 km over the pole
    assert eb.Graph.build_radius(pole, 23, metric="haversine").n_edges == 1


def test_nodes_with_equal_coordinates_are_neighbours_without_self_loops():
    crowd = np.zeros((40, 2))
    graph = eb.Graph.build_knn(np.vstack([crowd, [[5.0, 5.0]]]), k=3)
    assert not graph.adjacency.diagonal().any()
    assert np.diff(graph.adjacency.indptr).min() >= 3
    assert eb.Graph.build_radius(crowd, 1e-9).n_edges == 40 * 39 // 2


def test_one_node_has_no_neighbours():
    assert eb.Graph.build_knn([[1.0, 2.0]], k=1).isolates.tolist() == [0]
    assert eb.Graph.build_radius([[1.0, 2.0]], 1.0).isolates.tolist() == [0]


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: eb.Graph.build_knn([1.0, 2.0], 1), ValueError, ["coords", "one row per node"]),
        (lambda: eb.Graph.build_knn(np.zeros((0, 2)), 1), ValueError, ["coords", "(0, 2)"]),
        (lambda: eb.Graph.build_radius(np.zeros((0, 2)), 1.0), ValueError, ["coords", "(0, 2)"]),
        (lambda: eb.Graph.build_knn([["here", "there"]], 1), TypeError, ["coords", "here"]),
        (
            lambda: eb.Graph.build_knn([[0.0], [np.nan]], 1),
            ValueError,
            ["coords", "row 1", "Fill it in"],
        ),
        (lambda: eb.Graph.build_knn([[0.0], [1.0]], 2), ValueError, ["k", "n_nodes-1=1", "2"]),
        (lambda: eb.Graph.build_knn([[0.0], [1.0]], 1.5), ValueError, ["k", "integer", "1.5"]),
        (
            lambda: eb.Graph.build_knn([[0.0], [1.0]], 1, metric="taxi"),
            ValueError,
            ["metric", "taxi"],
        ),
        (
            lambda: eb.Graph.build_knn([[0.0], [1.0]], 1, metric="haversine"),
            ValueError,
            ["two columns", "1"],
        ),
        (
            lambda: eb.Graph.build_knn([[0, 0], [95, 7]], 1, metric="haversine"),
            ValueError,
            ["row 1", "swapped"],
        ),
        (lambda: eb.Graph.build_radius([[0.0]], 0.0), ValueError, ["radius", "positive"]),
        (lambda: eb.Graph.build_radius([[0.0]], np.inf), ValueError, ["radius", "inf"]),
        (lambda: eb.Graph.build_radius([[0.0]], "wide"), ValueError, ["radius", "wide"]),
    ],
)
def test_invalid_coordinates_raise_errors_with_the_argument(build, error, words):
    with pytest.raises(error) as caught:
        build()
    for word in words:
        assert word in str(caught.value)
