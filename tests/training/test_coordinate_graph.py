"""The graph of coordinates: nearest rows and weights that held-out labels choose."""

import numpy as np
import pandas as pd
import pytest

import ebboost as eb

RNG = np.random.default_rng(0)
#: Buildings of six flats: flats of other buildings say nothing about a price.
BUILDING = np.repeat(np.arange(100), 6)
POINTS = RNG.uniform(size=(100, 2))[BUILDING] + 0.002 * RNG.normal(size=(600, 2))
PRICE = RNG.normal(size=100)[BUILDING] + 0.3 * RNG.normal(size=600)
FLATS = pd.DataFrame({"size": RNG.normal(size=600), "x": POINTS[:, 0], "y": POINTS[:, 1]})
OLD = slice(0, 540)
NEW = slice(540, 600)


def regressor(n_estimators=25, **options):
    columns = {"feature_smoothing": None, "spectral_features": None}
    options = columns | {"random_state": 0, "n_jobs": 1} | options
    return eb.EBBSRegressor(n_estimators, 0.2, **options)


def fitted(rows=slice(None), fit=None, **options):
    fit = fit or {}
    return regressor(**options).fit(FLATS[rows], PRICE[rows], coordinates=["x", "y"], **fit)


@pytest.fixture(scope="module")
def model():
    return fitted(OLD)


def weights(graph):
    return graph.adjacency.toarray()


def test_held_out_labels_choose_the_number_of_neighbours(model):
    chosen = model.coordinates_
    assert (chosen.neighbors, chosen.weighted) == (5, True)
    compared = {(neighbors, weighted): loss for neighbors, weighted, loss in chosen.compared}
    assert list(compared) == [(8, True), (5, True), (20, True), (5, False)]
    assert compared[5, True] < 0.95 * compared[8, True]
    nearest = eb.Graph.build_knn(POINTS[OLD], 5, weight="distance")
    np.testing.assert_allclose(weights(model.graph_), weights(nearest))
    lines = model.summary().splitlines()
    assert "coordinates 5 nearest rows, weighted by distance" in lines
    assert f"          * {compared[5, True]:<10.4g}5 nearest rows, weighted by distance" in lines
    errors = {number: fitted(OLD, neighbors=number).gain_.with_graph for number in (5, 8)}
    assert model.gain_.with_graph == pytest.approx(errors[5])
    assert errors[5] < errors[8]


def test_new_rows_have_as_many_neighbours_also_with_a_model_from_a_file(model, tmp_path):
    predicted = model.predict(FLATS[NEW])
    points = np.vstack([POINTS[OLD], POINTS[NEW]])
    near = weights(eb.Graph.build_knn(points, 5)) > 0
    length = np.linalg.norm(points[:, None] - points, axis=2)
    joined = np.where(near, 1 / (1 + length / model.coordinates_.scale), 0.0)
    joined[:540, :540] = weights(model.graph_)
    one_way = np.argsort(length, axis=1)[:, 1:6]  # a new row does not change those of others
    kept = np.zeros_like(near)
    np.put_along_axis(kept[540:], one_way[540:], True, axis=1)
    kept |= kept.T
    kept[:540, :540] = True
    by_hand = model.predict(FLATS[NEW], attach=eb.Graph.from_scipy(joined * kept))
    np.testing.assert_allclose(predicted, by_hand, rtol=1e-9)
    model.save(tmp_path / "m.ebb", table=True)
    loaded = eb.load(tmp_path / "m.ebb")
    np.testing.assert_array_equal(loaded.predict(FLATS[NEW]), predicted)
    assert loaded.coordinates_.compared == model.coordinates_.compared
    assert loaded.summary() == model.summary()


@pytest.mark.parametrize("neighbors", [3, "delaunay"])
def test_the_graph_may_be_named_then_only_weights_are_compared(neighbors):
    model = fitted(OLD, neighbors=neighbors)
    number = 0 if neighbors == "delaunay" else 3
    assert [one[:2] for one in model.coordinates_.compared] == [(number, True), (number, False)]
    options = {"weight": "distance" if model.coordinates_.weighted else None}
    if neighbors == "delaunay":
        built = eb.Graph.build_delaunay(POINTS[OLD], **options)
    else:
        built = eb.Graph.build_knn(POINTS[OLD], 3, **options)
    np.testing.assert_allclose(weights(model.graph_), weights(built))
    assert np.corrcoef(model.predict(FLATS[NEW]), PRICE[NEW])[0, 1] > 0.5


@pytest.mark.parametrize("by_degrees", [False, True])
def test_new_rows_are_corners_of_delaunay_triangles(by_degrees):
    names = ["lon", "lat"] if by_degrees else ["x", "y"]
    frame = FLATS.set_axis(["size", *names], axis=1)
    model = regressor(5, neighbors="delaunay", selection="rules")
    model.fit(frame[OLD], PRICE[OLD], coordinates=names)
    chosen = model.coordinates_
    assert chosen.compared == () and chosen.weighted
    points = POINTS
    if by_degrees:
        longitude, latitude = np.deg2rad(POINTS).T
        flat = np.cos(latitude)
        points = np.column_stack([flat * np.cos(longitude), flat * np.sin(longitude)])
        points = np.column_stack([points, np.sin(latitude)])
    edges = eb.Graph.build_delaunay(POINTS).adjacency.tocoo()
    length = np.linalg.norm(np.subtract(*points[np.array(edges.coords)]), axis=1)
    edges.data = np.where(np.max(edges.coords, axis=0) >= 540, 1 / (1 + length / chosen.scale), 0)
    joined = edges.toarray()
    joined[:540, :540] = weights(model.graph_)
    by_hand = model.predict(frame[NEW], attach=eb.Graph.from_scipy(joined))
    np.testing.assert_allclose(model.predict(frame[NEW]), by_hand, rtol=1e-9)


def test_nothing_is_compared_where_a_part_that_uses_the_graph_is_fixed():
    model = fitted(labels="field")
    assert model.coordinates_.compared == () and model.coordinates_.neighbors == 8
    with pytest.raises(ValueError, match="neighbors"):
        fitted(neighbors=0)
    with pytest.raises(ValueError, match="neighbors"):
        fitted(neighbors="nearest")


def test_a_resumed_fit_has_the_graph_of_the_first_run(model, tmp_path):
    class Stop(eb.Callback):
        rounds = 0

        def after_round(self, state):
            self.rounds += 1
            if self.rounds == 130:
                raise RuntimeError

    folder = eb.Checkpoint(tmp_path, every=10)
    with pytest.raises(RuntimeError):
        fitted(OLD, {"checkpoint": folder, "callbacks": [Stop()]})
    again = fitted(OLD, {"checkpoint": folder, "resume": True})
    np.testing.assert_array_equal(again.predict(), model.predict())
    assert again.coordinates_.compared == model.coordinates_.compared


def test_a_warm_start_has_the_graph_of_the_earlier_model(model):
    later = regressor(3).fit(FLATS[NEW], PRICE[NEW], coordinates=["x", "y"], init_model=model)
    nearest = eb.Graph.build_knn(POINTS[NEW], 5, weight="distance")
    np.testing.assert_allclose(weights(later.graph_), weights(nearest))


def test_the_chosen_graph_of_a_causal_model_has_times():
    time = RNG.permutation(600)
    model = fitted(fit={"time": time, "causal": True})
    assert model.coordinates_.compared
    np.testing.assert_array_equal(model.graph_.time, time)
    assert np.isfinite(model.predict(FLATS[:3], time=[700, 700, 700])).all()


def test_a_search_with_other_folds_has_the_same_graph():
    model = fitted(OLD, selection="thorough")
    assert model.coordinates_.neighbors == 5
    np.testing.assert_allclose(model.predict(FLATS[OLD]), model.predict())


def test_classes_choose_a_graph():
    model = eb.EBBSClassifier(10, random_state=0, n_jobs=1)
    model.fit(FLATS, PRICE > 0, coordinates=["x", "y"])
    assert model.coordinates_.neighbors == 5
