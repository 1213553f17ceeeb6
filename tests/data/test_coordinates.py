"""Coordinates in place of a graph: nearest rows, great circles, new rows."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.model_selection import cross_val_score

import ebboost as eb

N = 240
RNG = np.random.default_rng(0)
POINTS = RNG.uniform(0, 10, size=(N, 2))
Y = np.sin(POINTS[:, 0]) + np.cos(POINTS[:, 1]) + 0.05 * RNG.normal(size=N)
NOISE = RNG.normal(size=N)
PLANE = pd.DataFrame({"noise": NOISE, "east": POINTS[:, 0], "north": POINTS[:, 1]})
DEGREES = PLANE.set_axis(["noise", "lon", "lat"], axis=1).assign(lat=POINTS[:, 1] + 55)
OLD = slice(0, 200)
NEW = slice(200, N)


def regressor(**options):
    parts = {"smoothing": None, "labels": "field", "neighbor_features": None}
    return eb.EBBSRegressor(20, random_state=0, n_jobs=1, **parts | options)


def weights(points, metric="euclidean"):
    return eb.Graph.build_knn(points, 8, metric, "distance").adjacency.toarray()


@pytest.mark.parametrize("coordinates", [["east", "north"], [1, 2], POINTS, POINTS.tolist()])
def test_rows_are_connected_to_their_nearest(coordinates):
    X = PLANE.to_numpy() if len(coordinates) == 2 and 1 in coordinates else PLANE
    model = regressor().fit(X, Y, coordinates=coordinates)
    np.testing.assert_allclose(model.graph_.adjacency.toarray(), weights(POINTS))
    assert model.n_features_in_ == (3 if len(coordinates) == 2 else 5)  # the trees see points, too


@pytest.mark.parametrize("kind", [pd.DataFrame, np.asarray, pl.DataFrame, pa.table])
def test_an_array_of_points_is_appended_to_the_table(kind):
    frame = PLANE[["noise"]].set_axis(np.arange(N)[::-1])
    X = kind(frame if kind in (pd.DataFrame, np.asarray) else {"noise": NOISE})
    model = regressor(labels="none").fit(X, Y, coordinates=POINTS)
    named = regressor(labels="none").fit(PLANE, Y, coordinates=["east", "north"])
    np.testing.assert_allclose(model.predict(), named.predict())
    np.testing.assert_array_equal(model.predict(X, coordinates=POINTS), model.predict())
    np.testing.assert_array_equal(model.predict(X), model.predict())


def test_columns_of_latitude_and_longitude_are_degrees_in_either_order():
    expected = weights(DEGREES[["lat", "lon"]].to_numpy(), "haversine")
    for columns in (["lon", "lat"], ["lat", "lon"]):
        adjacency = regressor().fit(DEGREES, Y, coordinates=columns).graph_.adjacency
        np.testing.assert_allclose(adjacency.toarray(), expected, rtol=1e-4)
    assert not np.array_equal(expected > 0, weights(DEGREES[["lon", "lat"]].to_numpy()) > 0)


@pytest.mark.parametrize("features", [None, eb.NeighborFeatures()])
@pytest.mark.parametrize("by_name", [True, False])
def test_new_rows_need_only_their_coordinates(by_name, features, tmp_path):
    X = PLANE if by_name else PLANE[["noise"]]
    options = {} if by_name else {"coordinates": POINTS[NEW]}
    model = regressor(neighbor_features=features)
    model.fit(X[OLD], Y[OLD], coordinates=["east", "north"] if by_name else POINTS[OLD])
    predicted = model.predict(X[NEW], **options)
    assert np.corrcoef(predicted, Y[NEW])[0, 1] > 0.9
    old = model.graph_.adjacency.toarray()
    length = np.linalg.norm(POINTS[:, None] - POINTS[OLD][None], axis=2)[OLD][np.triu(old > 0)]
    nearest = np.argsort(np.linalg.norm(POINTS[NEW][:, None] - POINTS, axis=2), axis=1)[:, 1:9]
    joined = np.zeros((N, N))
    joined[OLD, OLD] = old
    for row, others in zip(range(200, N), nearest, strict=True):
        d = np.linalg.norm(POINTS[row] - POINTS[others], axis=1)
        joined[row, others] = joined[others, row] = 1 / (1 + d / np.median(length))
    by_hand = model.predict(X[NEW], attach=eb.Graph.from_scipy(joined), **options)
    np.testing.assert_allclose(predicted, by_hand, rtol=1e-9)
    model.save(tmp_path / "m.ebb", table=True)
    np.testing.assert_allclose(eb.load(tmp_path / "m.ebb").predict(X[NEW], **options), predicted)


def test_the_fitted_rows_are_predicted_with_their_labels():
    model = regressor().fit(PLANE, Y, coordinates=["east", "north"])
    assert np.array_equal(model.predict(PLANE), model.predict())
    model = regressor().fit(PLANE[["noise"]], Y, coordinates=POINTS)
    assert np.array_equal(model.predict(PLANE[["noise"]], coordinates=POINTS), model.predict())
    moved = model.predict(PLANE[["noise"]], coordinates=POINTS[::-1])
    assert not np.allclose(moved, model.predict())


def test_several_rows_at_one_point_are_accepted():
    X = pd.concat([PLANE, PLANE.iloc[[0] * 20]], ignore_index=True)
    y = np.concatenate([Y, np.full(20, np.nan)])
    model = regressor().fit(X, y, coordinates=["east", "north"])
    assert np.abs(model.predict()[N:] - Y[0]).max() < 0.5
    assert np.isfinite(model.predict(X.iloc[:3])).all()


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:3857", None])
def test_the_geometry_of_a_geodataframe_is_used(crs):
    geopandas = pytest.importorskip("geopandas")
    geometry = geopandas.points_from_xy(*POINTS.T)
    frame = geopandas.GeoDataFrame(PLANE[["noise"]], geometry=geometry, crs=crs)
    model = regressor().fit(frame[OLD], Y[OLD])
    expected = (
        weights(POINTS[OLD][:, ::-1], "haversine") if crs == "EPSG:4326" else weights(POINTS[OLD])
    )
    np.testing.assert_allclose(model.graph_.adjacency.toarray(), expected, rtol=1e-4)
    names = ["longitude", "latitude"] if crs == "EPSG:4326" else ["x", "y"]
    assert model.feature_names_in_.tolist() == ["noise", *names]
    assert np.corrcoef(model.predict(frame[NEW]), Y[NEW])[0, 1] > 0.9
    assert np.array_equal(model.predict(frame[OLD]), model.predict())
    with_graph = regressor().fit(frame, Y, graph=eb.Graph.build_knn(POINTS, 3))
    assert with_graph.n_features_in_ == 1


def test_sparse_tables_and_classes_take_coordinates():
    X = sparse.csr_array(PLANE.to_numpy())
    model = eb.EBBSClassifier(10, labels="field", random_state=0)
    model.fit(X[OLD], Y[OLD] > 0, coordinates=POINTS[OLD])
    assert model.predict_proba(X[NEW], coordinates=POINTS[NEW]).shape == (40, 2)
    assert regressor().fit(X, Y, coordinates=[1, 2]).graph_.n_nodes == N


def test_cross_validation_of_scikit_learn_takes_coordinates():
    scores = cross_val_score(regressor(), PLANE, Y, cv=3, params={"coordinates": ["east", "north"]})
    assert scores.min() > 0.7


def test_a_map_has_longitude_and_latitude():
    model = regressor().fit(DEGREES, Y, coordinates=["lon", "lat"])
    drawn = model.state_.coordinates.map
    np.testing.assert_allclose(drawn[:, 1], DEGREES["lat"], rtol=1e-9)
    shrunk = DEGREES["lon"] * np.cos(np.deg2rad(DEGREES["lat"].mean()))
    np.testing.assert_allclose(drawn[:, 0], shrunk, rtol=1e-9)


@pytest.mark.parametrize(
    ("coordinates", "words"),
    [
        (["east", "west"], "coordinates names 'west', which is not a column"),
        (["east"], "coordinates must name two columns"),
        (["east", "east"], "coordinates must name two columns of X, got 'east' twice"),
        (["east", "kind"], "coordinates must be numbers, column 'kind' holds categories"),
        (POINTS[:5], r"points of shape \(240, 2\), got \(5, 2\)"),
        (np.full((N, 2), np.nan), "coordinates must be finite numbers, row 0, column 'x' is nan"),
    ],
)
def test_invalid_coordinates_are_rejected(coordinates, words):
    with pytest.raises(ValueError, match=words):
        regressor().fit(PLANE.assign(kind="house"), Y, coordinates=coordinates)


def test_a_row_without_coordinates_is_named_with_its_column():
    gap = PLANE.assign(north=np.where(np.arange(N) == 7, np.nan, PLANE["north"]))
    with pytest.raises(ValueError, match=r"coordinates must be .*, row 7, column 'north' is nan"):
        regressor().fit(gap, Y, coordinates=["east", "north"])


def test_metres_in_columns_of_degrees_are_rejected():
    metres = DEGREES.assign(lat=1000 * DEGREES["lat"])
    with pytest.raises(ValueError, match=r"must hold degrees, row 0 is \[.*\]\. Other names"):
        regressor().fit(metres, Y, coordinates=["lon", "lat"])


def test_coordinates_and_graph_exclude_each_other_and_arrays_are_needed_again():
    graph = eb.Graph.build_knn(POINTS, 3)
    with pytest.raises(ValueError, match="exclude each other"):
        regressor().fit(PLANE, Y, coordinates=POINTS, graph=graph)
    model = regressor().fit(PLANE, Y, coordinates=POINTS)
    with pytest.raises(ValueError, match="pass those of the rows"):
        model.predict(PLANE[:5])


def test_trees_see_rotated_coordinates(tmp_path):
    X = DEGREES[["noise", "lat", "lon"]]
    model = regressor(labels="none").fit(X, Y, coordinates=["lon", "lat"])
    state = model.state_
    features = state.pipeline.transform(state.table, None).materialize()
    columns = dict(zip(features.names, features.values.T, strict=True))
    east = DEGREES["lon"] * np.cos(np.deg2rad(DEGREES["lat"]).mean())
    half = np.sqrt(0.5)
    np.testing.assert_allclose(columns["lat at 45°"], half * (DEGREES["lat"] + east), rtol=1e-9)
    np.testing.assert_allclose(columns["lon at 45°"], half * (east - DEGREES["lat"]), rtol=1e-9)
    assert features.origin == state.column_origin == (0, 1, 2, 1, 2, 1, 2, 1, 2)
    model.save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    np.testing.assert_array_equal(loaded.predict(X[:9]), model.predict(X[:9]))
