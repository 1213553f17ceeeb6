"""Contiguity of polygons, compared with libpysal."""

import numpy as np
import pytest

import ebboost as eb

geopandas = pytest.importorskip("geopandas")
shapely = pytest.importorskip("shapely")


def areas(index=None):
    """Cells of random points in a square, one far away."""
    points = np.random.default_rng(0).random((60, 2))
    cells = shapely.voronoi_polygons(shapely.multipoints(points)).geoms
    polygons = [*cells, shapely.box(5, 5, 6, 6)]
    return geopandas.GeoDataFrame({"a": range(len(polygons))}, geometry=polygons, index=index)


@pytest.mark.parametrize("rook", [False, True])
def test_edges_are_those_of_libpysal(rook):
    libpysal = pytest.importorskip("libpysal")
    squares = [shapely.box(x, y, x + 1, y + 1) for x in range(4) for y in range(5)]
    for frame in (areas(), geopandas.GeoDataFrame(geometry=squares)):
        graph = eb.Graph.build_contiguity(frame, rook=rook)
        known = libpysal.graph.Graph.build_contiguity(frame, rook=rook, strict=True)
        expected = eb.Graph.from_libpysal(known)
        assert (graph.adjacency != expected.adjacency).nnz == 0
        assert graph.has_ids == expected.has_ids


def test_the_index_has_the_ids():
    names = [f"area {number}" for number in range(61)]
    graph = eb.Graph.build_contiguity(areas(names))
    assert graph.node_ids.tolist() == names
    assert graph.isolates.tolist() == [60]
    assert eb.Graph.build_contiguity(areas(names).geometry).n_edges == graph.n_edges


def test_a_geodataframe_and_its_graph_are_fitted_and_drawn(monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    frame = areas()
    y = np.where(np.arange(61) % 3, frame["a"] / 10.0, np.nan)
    graph = eb.Graph.build_contiguity(frame)
    model = eb.EBBSRegressor.from_preset("fast", random_state=0).fit(frame, y, graph=graph)
    assert model.feature_names_in_.tolist() == ["a"]
    drawn = eb.plot.map(model).collections
    assert any(len(part.get_paths()) == 61 for part in drawn)


def test_what_is_no_polygon_is_named():
    points = geopandas.GeoSeries.from_xy([0.0, 1.0], [0.0, 1.0])
    with pytest.raises(ValueError, match="row 0 is a Point"):
        eb.Graph.build_contiguity(points)
    with pytest.raises(ValueError, match=r"row 1 .* is empty"):
        eb.Graph.build_contiguity(geopandas.GeoSeries([shapely.box(0, 0, 1, 1), None]))
    with pytest.raises(TypeError, match="GeoDataFrame"):
        eb.Graph.build_contiguity([[0, 1]])
    twice = geopandas.GeoSeries([shapely.box(0, 0, 1, 1)] * 2, index=["a", "a"])
    with pytest.raises(ValueError, match="a"):
        eb.Graph.build_contiguity(twice)
