"""Coordinates in place of a graph: nearest rows, great circles, new rows."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.model_selection import cross_val_score

import ebboost as eb
from ebboost.data.coordinates import seem_degrees
from tests.strategies import fixed

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
    return fixed(**{"labels": "field"} | options)


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
    np.testing.assert_array_equal(model.predict(X), model.predict())


def test_columns_of_latitude_and_longitude_are_degrees_in_either_order():
    expected = weights(DEGREES[["lat", "lon"]].to_numpy(), "haversine")
    for columns in (["lon", "lat"], ["lat", "lon"]):
        adjacency = regressor().fit(DEGREES, Y, coordinates=columns).graph_.adjacency
        np.testing.assert_allclose(adjacency.toarray(), expected, rtol=1e-4)
    assert not np.array_equal(expected > 0, weights(DEGREES[["lon", "lat"]].to_numpy()) > 0)


@pytest.mark.parametrize("features", [None, eb.NeighborFeatures()])
@pytest.mark.parametrize("by_name", [True, False])
def test_new_rows_need_only_their_coordinates(by_name, features):
    X = PLANE if by_name else PLANE[["noise"]]
    model = regressor(neighbor_features=features)
    model.fit(X[OLD], Y[OLD], coordinates=["east", "north"] if by_name else POINTS[OLD])
    options = {} if by_name else {"attach": POINTS[NEW]}
    predicted = model.predict(X[NEW], **options)
    assert np.corrcoef(predicted, Y[NEW])[0, 1] > 0.9
    # The edges of new rows, written down once more.
    old = model.graph_.adjacency.toarray()
    apart = np.linalg.norm(POINTS[:, None] - POINTS[None, OLD], axis=2)
    unit = np.median(apart[OLD][np.triu(old > 0)])
    nearest = np.argsort(apart[NEW], axis=1)[:, :8]
    weight = 1 / (1 + np.take_along_axis(apart[NEW], nearest, axis=1) / unit)
    by_hand = fixed(neighbor_features=features, labels="field")
    by_hand.fit(PLANE[OLD], Y[OLD], graph=model.graph_)
    attach = (np.repeat(np.arange(40), 8), nearest.ravel(), weight.ravel())
    # Trees of the other model see no rotated coordinates: without trees both are the same.
    one, other = (m.set_params(n_estimators=1, learning_rate=1e-9) for m in (model, by_hand))
    one.fit(X[OLD], Y[OLD], coordinates=["east", "north"] if by_name else POINTS[OLD])
    other.fit(PLANE[OLD], Y[OLD], graph=model.graph_)
    expected = other.predict(PLANE[NEW], attach=attach)
    np.testing.assert_allclose(one.predict(X[NEW], **options), expected, rtol=1e-6)


def test_one_row_is_predicted_as_in_a_batch():
    model = eb.EBBSRegressor(10, n_folds=2, random_state=0, n_jobs=1)
    model.fit(PLANE[OLD], Y[OLD], coordinates=["east", "north"])
    batch = model.predict(PLANE[NEW])
    for row in (200, 217, 239):
        alone = model.predict(PLANE.iloc[[row]])
        np.testing.assert_allclose(alone, batch[[row - 200]], rtol=1e-5)


def test_the_fitted_rows_are_predicted_with_their_labels():
    model = regressor().fit(PLANE, Y, coordinates=["east", "north"])
    assert np.array_equal(model.predict(PLANE), model.predict())
    model = regressor().fit(PLANE[["noise"]], Y, coordinates=POINTS)
    assert np.array_equal(model.predict(PLANE[["noise"]], attach=POINTS), model.predict())
    moved = model.predict(PLANE[["noise"]], attach=POINTS[::-1])
    assert not np.allclose(moved, model.predict())


def test_several_rows_at_one_point_are_accepted():
    X = pd.concat([PLANE, PLANE.iloc[[0] * 20]], ignore_index=True)
    y = np.concatenate([Y, np.full(20, np.nan)])
    model = regressor().fit(X, y, coordinates=["east", "north"])
    assert np.abs(model.predict()[N:] - Y[0]).max() < 0.5
    assert np.isfinite(model.predict(X.iloc[:3])).all()


def test_sparse_tables_and_classes_take_coordinates():
    wide = sparse.hstack([sparse.csr_array(PLANE.to_numpy()), sparse.csr_array((N, 200))]).tocsr()
    model = fixed(eb.EBBSClassifier, labels="field").fit(wide[OLD], Y[OLD] > 0, coordinates=POINTS[OLD])
    assert model.predict_proba(wide[NEW], attach=POINTS[NEW]).shape == (40, 2)
    assert regressor().fit(wide, Y, coordinates=[1, 2]).graph_.n_nodes == N


def test_cross_validation_of_scikit_learn_takes_coordinates():
    scores = cross_val_score(regressor(), PLANE, Y, cv=3, params={"coordinates": ["east", "north"]})
    assert scores.min() > 0.7


def test_a_map_has_longitude_and_latitude():
    model = regressor().fit(DEGREES, Y, coordinates=["lon", "lat"])
    drawn = model.coordinates_.map
    np.testing.assert_allclose(drawn[:, 1], DEGREES["lat"], rtol=1e-9)
    shrunk = DEGREES["lon"] * np.cos(np.deg2rad(DEGREES["lat"].mean()))
    np.testing.assert_allclose(drawn[:, 0], shrunk, rtol=1e-9)


def test_trees_see_rotated_coordinates():
    X = DEGREES[["noise", "lat", "lon"]]
    model = regressor(labels="none").fit(X, Y, coordinates=["lon", "lat"])
    one = model.model_.components[0]
    table = one.features.transform(model.model_.table, model.model_.places)
    columns = dict(zip(table.names, table.values.T, strict=True))
    east = DEGREES["lon"] * np.cos(np.deg2rad(DEGREES["lat"]).mean())
    half = np.sqrt(0.5)
    np.testing.assert_allclose(columns["lat at 45°"], half * (DEGREES["lat"] + east), rtol=1e-3)
    np.testing.assert_allclose(columns["lon at 45°"], half * (east - DEGREES["lat"]), rtol=1e-3)
    assert table.origin == one.origin == (0, 1, 2, 1, 2, 1, 2, 1, 2)


@pytest.mark.parametrize(
    ("coordinates", "words"),
    [
        (["east", "west"], "coordinates names 'west', which is not a column"),
        (["east"], "coordinates must name two columns"),
        ("east", "coordinates must name two columns of X, got 'east' alone"),
        (["east", "east"], "coordinates must name two columns of X, got 'east' twice"),
        (["east", "kind"], "coordinates must be numbers, column 'kind' holds categories"),
        (POINTS[:5], r"points of shape \(240, 2\), got \(5, 2\)"),
        (np.zeros((N, 3)), r"points of shape \(240, 2\), got \(240, 3\)"),
        (np.full((N, 2), np.nan), "coordinates must be finite numbers, row 0, column 'x' is nan"),
    ],
)
def test_invalid_coordinates_are_rejected(coordinates, words):
    with pytest.raises(ValueError, match=words):
        regressor().fit(PLANE.assign(kind="house"), Y, coordinates=coordinates)


def test_rows_without_coordinates_and_metres_as_degrees_are_named():
    gap = PLANE.assign(north=np.where(np.arange(N) == 7, np.nan, PLANE["north"]))
    with pytest.raises(ValueError, match=r"coordinates must be .*, row 7, column 'north' is nan"):
        regressor().fit(gap, Y, coordinates=["east", "north"])
    metres = DEGREES.assign(lat=1000 * DEGREES["lat"])
    with pytest.raises(ValueError, match=r"must hold degrees, row 0 is \[.*\]\. Other names"):
        regressor().fit(metres, Y, coordinates=["lon", "lat"])


def test_coordinates_and_graph_exclude_each_other_and_arrays_are_needed_again():
    graph = eb.Graph.build_knn(POINTS, 3)
    with pytest.raises(ValueError, match="exclude each other"):
        regressor().fit(PLANE, Y, coordinates=POINTS, graph=graph)
    model = regressor().fit(PLANE, Y, coordinates=POINTS)
    with pytest.raises(ValueError, match=r"predict\(X_new, attach=points\)"):
        model.predict(PLANE[:5])


@pytest.mark.parametrize(
    ("low", "high", "names", "expected"),
    [
        ([50.0, 7.0], [53.0, 10.0], (), True),  # a region of degrees
        ([-60.0, -170.0], [70.0, 170.0], (), True),  # the world
        ([0.0, 0.0], [1.0, 1.0], (), False),
        ([0.0, 0.0], [1.0, 1.0], ("my_lat", "my_lon"), True),
        ([500.0, 4e6], [900.0, 5e6], (), False),  # metres
    ],
)
def test_degrees_are_recognised_by_their_values_or_names(low, high, names, expected):
    points = np.random.default_rng(0).uniform(low, high, (50, 2))
    assert seem_degrees(points, names) == expected
    if expected and not names:
        with pytest.warns(UserWarning, match="look like degrees"):
            regressor().fit(np.zeros((50, 1)), points[:, 0], coordinates=points)


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:3857", None])
def test_the_geometry_of_a_geodataframe_is_used(crs):
    geopandas = pytest.importorskip("geopandas")
    geometry = geopandas.points_from_xy(*POINTS.T)
    frame = geopandas.GeoDataFrame(PLANE[["noise"]], geometry=geometry, crs=crs)
    model = regressor().fit(frame[OLD], Y[OLD])
    expected = weights(POINTS[OLD])
    if crs == "EPSG:4326":
        expected = weights(POINTS[OLD][:, ::-1], "haversine")
    np.testing.assert_allclose(model.graph_.adjacency.toarray(), expected, rtol=1e-4)
    names = ["longitude", "latitude"] if crs == "EPSG:4326" else ["x", "y"]
    assert model.feature_names_in_.tolist() == ["noise", *names]
    assert np.corrcoef(model.predict(frame[NEW]), Y[NEW])[0, 1] > 0.9
    assert np.array_equal(model.predict(frame[OLD]), model.predict())
    with_graph = regressor().fit(frame, Y, graph=eb.Graph.build_knn(POINTS, 3))
    assert with_graph.n_features_in_ == 1
