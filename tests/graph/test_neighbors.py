"""Neighbours from coordinates, against brute force and the haversine formula."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import Delaunay

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


KNN, RADIUS = eb.Graph.build_knn, eb.Graph.build_radius


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: KNN([1.0, 2.0], 1), "coords.*one row per node"),
        (lambda: KNN(np.zeros((0, 2)), 1), r"coords.*\(0, 2\)"),
        (lambda: RADIUS(np.zeros((0, 2)), 1.0), r"coords.*\(0, 2\)"),
        (lambda: KNN([["here", "there"]], 1), "coords.*here"),
        (lambda: KNN([[0.0], [np.nan]], 1), "coords.*row 1.*Fill it in"),
        (lambda: KNN([[0.0], [1.0]], 2), "k must be .*n_nodes-1=1, got 2"),
        (lambda: KNN([[0.0], [1.0]], 1.5), "k must be an integer.*1.5"),
        (lambda: KNN([[0.0], [1.0]], 1, metric="taxi"), "metric.*taxi"),
        (lambda: KNN([[0.0], [1.0]], 1, metric="haversine"), "two columns.*1"),
        (lambda: KNN([[0, 0], [95, 7]], 1, metric="haversine"), "row 1.*swapped"),
        (lambda: KNN([[0.0], [1.0]], 1, weight="gauss"), "weight must be 'distance' or None"),
        (lambda: RADIUS([[0.0]], 0.0), "radius must be a positive number"),
        (lambda: RADIUS([[0.0]], np.inf), "radius.*inf"),
        (lambda: RADIUS([[0.0]], "wide"), "radius.*wide"),
    ],
)
def test_invalid_coordinates_raise_errors_with_the_argument(build, words):
    with pytest.raises((TypeError, ValueError), match=words):
        build()


@pytest.mark.parametrize("metric", DISTANCES)
def test_distance_weights_fall_with_the_length_of_an_edge(metric):
    coords = coordinates(metric, 0)[:, : 2 if metric == "haversine" else 3]
    builders = {
        "knn": lambda **options: eb.Graph.build_knn(coords, 4, **options),
        "radius": lambda **options: eb.Graph.build_radius(
            coords, 3000.0 if metric == "haversine" else 1.0, **options
        ),
        "delaunay": lambda **options: eb.Graph.build_delaunay(coords[:, :2], **options),
    }
    for name, build in builders.items():
        points = coords[:, :2] if name == "delaunay" else coords
        weighted = build(metric=metric, weight="distance").adjacency.toarray()
        pairs = np.triu(build(metric=metric).adjacency.toarray() > 0)
        d = DISTANCES[metric](points)[pairs]
        np.testing.assert_allclose(weighted[pairs], 1 / (1 + d / np.median(d)), rtol=1e-9)


def test_delaunay_is_that_of_scipy_and_connects_repeated_points():
    coords = np.random.default_rng(0).uniform(size=(40, 2))
    pairs = set()
    for triangle in Delaunay(coords).simplices:
        pairs |= {frozenset(pair) for pair in itertools.combinations(triangle.tolist(), 2)}
    graph = eb.Graph.build_delaunay(coords)
    assert {
        frozenset(map(int, pair)) for pair in zip(*graph.adjacency.nonzero(), strict=True)
    } == pairs
    repeated = eb.Graph.build_delaunay(
        np.vstack([coords, coords[:3], coords[:1]]), weight="distance"
    )
    assert repeated.n_components == 1 and repeated.n_edges == len(pairs) + 4
    with pytest.raises(ValueError, match="not on one line"):
        eb.Graph.build_delaunay([[0, 0], [1, 1], [2, 2]])


def test_many_rows_at_one_point_are_connected_to_other_points():
    coords = np.repeat([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0]], [6, 1, 6], axis=0)
    graph = eb.Graph.build_knn(coords, k=2, weight="distance")
    assert graph.n_components == 1
    assert graph.adjacency.data.max() == 1.0  # at distance 0
