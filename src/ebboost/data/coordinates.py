"""Coordinates of rows: the graph of nearest rows, and the edges of new rows to it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse
from scipy.spatial import cKDTree

from ebboost.data.table import Table
from ebboost.data.types import Array, TableLike
from ebboost.graph import Graph, as_points

# Nearest rows that a row is connected to unless other numbers are compared. RMSE of log prices with
# 5, 8, 10 and 20: Lucas County .2527, .2486, .2493, .2487; King County .1607, .1599, .1615, .1617
# (another seed changes the latter by .0006).
N_NEIGHBORS = 8
DELAUNAY = 0  # in place of a number: the corners of Delaunay triangles are connected
APPENDED = ("x", "y")  # names of the columns that points are appended to a table as
_LATITUDE = re.compile(r"lat(itude)?", re.IGNORECASE)
_LONGITUDE = re.compile(r"lon(g|gitude)?|lng", re.IGNORECASE)

NEEDS_COORDINATES = (
    "This model was fitted on coordinates that are not columns of X: pass those of the rows, "
    "predict(X_new, coordinates=...), or call predict() for the fitted nodes."
)


@dataclass(frozen=True)
class Coordinates:
    """Points of the fitted rows: two coordinates in a plane, or three on the unit sphere."""

    points: Array
    scale: float = 1.0  # the median length of the edges, in the units of the points
    columns: tuple[int, ...] = ()  # of X with the coordinates, latitude first if degrees, or ()
    neighbors: int = N_NEIGHBORS  # nearest rows that each row is connected to, or DELAUNAY
    weighted: bool = True  # whether an edge of length d weighs 1 / (1 + d / scale), not 1
    #: Graphs that were compared: their neighbors and weighted, and the mean deviance at held-out
    #: labels of plain boosting with a latent field on the graph.
    compared: tuple[tuple[int, bool, float], ...] = ()

    @classmethod
    def fit(
        cls,
        coordinates: Any,
        names: Sequence[str],
        table: Table,
        neighbors: int = N_NEIGHBORS,
        weighted: bool = True,
    ) -> "tuple[Coordinates, Graph]":
        """Return the coordinates of a table and the graph of its rows."""
        columns, by_degrees = coordinate_columns(coordinates, names)
        points = _read_points(table, columns, coordinates, by_degrees)
        return cls(points, columns=columns).with_graph(neighbors, weighted)

    def with_graph(self, neighbors: int, weighted: bool) -> "tuple[Coordinates, Graph]":
        """Return these points with another graph, and that graph."""
        n_rows = len(self.points)
        if neighbors == DELAUNAY:
            edges = Graph.build_delaunay(self.map)
        else:
            edges = Graph.build_knn(self.points, min(neighbors, max(n_rows - 1, 1)))
        low, high = sparse.triu(edges.adjacency, format="coo").coords
        lengths = np.linalg.norm(self.points[low] - self.points[high], axis=1)
        positive = lengths[lengths > 0]
        scale = float(np.median(positive)) if positive.size else 1.0
        changed = replace(self, scale=scale, neighbors=neighbors, weighted=weighted)
        weights = changed._weights(lengths)
        return changed, Graph.from_edges(low, high, weights, n_rows)

    def _weights(self, lengths: Array) -> Array:
        return 1.0 / (1.0 + lengths / self.scale) if self.weighted else np.ones_like(lengths)

    @property
    def map(self) -> Array:
        """Points to draw: those of the plane, or degrees in an equirectangular projection."""
        return _plane(self.points)

    @property
    def rotation(self) -> tuple[int, int, float] | None:
        """The two columns of X, and what the second is multiplied by before they are rotated."""
        if not self.columns:
            return None
        scale = 1.0
        if self.points.shape[1] == 3:  # degrees: a degree of longitude is shorter
            scale = float(np.cos(np.arcsin(np.clip(self.points[:, 2], -1.0, 1.0)).mean()))
        return self.columns[0], self.columns[1], scale

    def read(self, table: Table, coordinates: Any) -> Array:
        """Return the points of another table: of its columns, or as they were passed."""
        if coordinates is None and not self.columns:
            raise ValueError(NEEDS_COORDINATES)
        points = _read_points(table, self.columns, coordinates, self.points.shape[1] == 3)
        if points.shape[1] != self.points.shape[1]:
            raise ValueError("coordinates must be degrees if and only if those of the fit were.")
        return points

    def attach(self, table: Table, coordinates: Any) -> Graph:
        """Return the graph of the fitted nodes and new rows, with the edges of the new rows."""
        new = self.read(table, coordinates)
        points = np.vstack([self.points, new])
        n_fitted = len(self.points)
        if self.neighbors == DELAUNAY:
            every = sparse.triu(Graph.build_delaunay(_plane(points)).adjacency, format="coo").coords
            low, high = np.array(every)[:, every[1] >= n_fitted]
        else:
            rows = np.arange(n_fitted, len(points))
            n_nearest = min(self.neighbors + 1, len(points))
            _, nearest = cKDTree(points).query(new, k=n_nearest)
            ends = np.sort([np.repeat(rows, n_nearest), nearest.ravel()], axis=0)
            low, high = np.unique(ends[:, ends[0] != ends[1]], axis=1)
        weights = self._weights(np.linalg.norm(points[low] - points[high], axis=1))
        return Graph.from_edges(low, high, weights, len(points))


def first_neighbors(neighbors: int | str) -> int:
    """Return the number of nearest rows that the comparison starts with, or ``DELAUNAY``."""
    if isinstance(neighbors, str):
        return DELAUNAY if neighbors == "delaunay" else N_NEIGHBORS
    return neighbors


def seem_degrees(points: Array, names: Sequence[str] = ()) -> bool:
    """Whether two columns that count as a plane look like latitude and longitude, in any order.

    By their names, which are nearly those of degrees; or by their values, which have decimals and
    lie in one region far from 0, or span the world.
    """
    size = np.abs(points).max(axis=0)
    if not (size.min() <= 90.0 and size.max() <= 180.0) or not (points % 1).any(axis=0).all():
        return False
    text = [name.lower() for name in names]
    for one, other in (text, text[::-1]) if len(text) == 2 else ():
        if "lat" in one and ("lon" in other or "lng" in other):
            return True
    extent = np.ptp(points, axis=0)
    is_region = bool((np.abs(points).min(axis=0) > np.maximum(extent, 1.0)).any())
    return is_region or bool(extent.min() > 60.0 and extent.max() > 180.0)


def degrees_text(names: Sequence[str]) -> str:
    """Return a warning that the coordinates look like degrees."""
    remedy = "pass a GeoSeries with its CRS, or two columns called lat and lon"
    if names:
        remedy = f"rename the columns {names[0]!r} and {names[1]!r} to lat and lon"
    return (
        "The coordinates look like degrees, but distances are those of a plane, in which a degree "
        f"of longitude is as long as one of latitude. If they are degrees, {remedy}."
    )


def first_outside(degrees: Array) -> int | None:
    """Return the first row that is not latitude and longitude in degrees, None if all are."""
    outside = np.flatnonzero((np.abs(degrees) > [90, 360]).any(axis=1))
    return int(outside[0]) if outside.size else None


def _plane(points: Array) -> Array:
    """Points of the plane, or degrees in an equirectangular projection, longitude first."""
    if points.shape[1] == 2:
        return points
    x, y, z = points.T
    latitude = np.arcsin(np.clip(z, -1.0, 1.0))
    longitude = np.arctan2(y, x) * np.cos(latitude.mean())
    return np.rad2deg(np.column_stack([longitude, latitude]))


def split_geometry(X: TableLike) -> tuple[TableLike, Any]:
    """Return a table without its geometry, and the geometry; None if it is not a GeoDataFrame."""
    if not hasattr(X, "crs") or not hasattr(X, "to_crs"):
        return X, None
    return X.drop(columns=X.geometry.name), X.geometry


def append_columns(X: TableLike, coordinates: Any) -> tuple[TableLike, Any]:
    """Return a table with points as its last two columns, and the names of these.

    Both stay as they are if coordinates are columns, or the table is neither a dataframe nor an
    array in memory.
    """
    names = list(APPENDED)
    points = coordinates
    if hasattr(coordinates, "representative_point"):
        inner = coordinates.representative_point()
        points = np.column_stack([inner.x, inner.y])
        if coordinates.crs is not None and coordinates.crs.is_geographic:
            names = ["longitude", "latitude"]
    if hasattr(points, "__dask_graph__"):
        return X, coordinates
    points = np.asarray(points)
    if points.ndim != 2 or points.shape[1] != 2 or points.dtype.kind not in "iuf":
        return X, coordinates
    if (
        isinstance(X, np.ndarray)
        and names == list(APPENDED)
        and X.ndim == 2
        and len(X) == len(points)
    ):
        return join_columns(X, points, names), [X.shape[1], X.shape[1] + 1]
    if not nw.dependencies.is_into_dataframe(X) or hasattr(X, "collect"):
        return X, coordinates
    has_names = not set(names).isdisjoint(nw.from_native(X, eager_only=True).columns)
    if has_names or len(X) != len(points):
        return X, coordinates
    return join_columns(X, points, names), names


def join_columns(X: TableLike, points: Array, names: Sequence[str]) -> TableLike:
    """Return an array or a dataframe with two more columns."""
    if isinstance(X, np.ndarray):
        return np.column_stack([X, points])
    frame = nw.from_native(X, eager_only=True)
    backend = nw.get_native_namespace(frame)
    pairs = zip(names, points.T.astype(np.float64), strict=True)
    new = nw.from_dict(dict(pairs), backend=backend)
    if hasattr(X, "index"):  # pandas aligns rows by their index
        new = nw.from_native(new.to_native().set_axis(X.index), eager_only=True)
    return nw.concat([frame, new], how="horizontal").to_native()


def coordinate_columns(coordinates: Any, names: Sequence[str]) -> tuple[tuple[int, ...], bool]:
    """Return the columns of X that hold coordinates, and whether by their names these are degrees.

    () for points; of degrees the latitude is first.
    """
    columns = _columns(coordinates, names)
    latitude = [column for column in columns if _LATITUDE.fullmatch(names[column])]
    longitude = [column for column in columns if _LONGITUDE.fullmatch(names[column])]
    by_degrees = len(latitude) == len(longitude) == 1
    return (*latitude, *longitude) if by_degrees else columns, by_degrees


def _columns(coordinates: Any, names: Sequence[str]) -> tuple[int, ...]:
    """Return the positions of two columns that are named or numbered, () for points."""
    if isinstance(coordinates, str):
        raise ValueError(f"coordinates must name two columns of X, got {coordinates!r} alone.")
    if np.ndim(coordinates) != 1:
        return ()
    items = list(coordinates)
    are_names = all(isinstance(item, str) for item in items)
    if not are_names and not all(isinstance(item, Integral) for item in items):
        return ()
    if len(items) != 2:
        raise ValueError(f"coordinates must name two columns of X, got {items}.")
    if items[0] == items[1]:
        raise ValueError(f"coordinates must name two columns of X, got {items[0]!r} twice.")
    for item in items:
        if item not in (names if are_names else range(len(names))):
            raise ValueError(f"coordinates names {item!r}, which is not a column of X: {names}.")
    return tuple(names.index(item) if are_names else int(item) for item in items)


def _read_points(table: Table, columns: tuple[int, ...], coordinates: Any, degrees: bool) -> Array:
    """Return points of the plane or the sphere, from columns or as they were passed."""
    if columns:
        for column in columns:
            if column in table.categorical:
                name = table.names[column]
                raise ValueError(f"coordinates must be numbers, column {name!r} holds categories.")
        values = table.values[:, list(columns)]
        values = values.toarray() if sparse.issparse(values) else values
        if degrees and (row := first_outside(values)) is not None:
            problem = "columns named latitude and longitude must hold degrees"
            problem = f"{problem}, row {row} is {values[row].tolist()}"
            raise ValueError(f"{problem}. Other names, such as x and y, are points of a plane.")
        names = [table.names[column] for column in columns]
        return as_points(values, "haversine" if degrees else "euclidean", "coordinates", names)
    if hasattr(coordinates, "representative_point"):  # a GeoSeries
        inner = coordinates.representative_point()
        if coordinates.crs is not None and coordinates.crs.is_geographic:
            return as_points(np.column_stack([inner.y, inner.x]), "haversine", "coordinates")
        coordinates = np.column_stack([inner.x, inner.y])
    points = as_points(coordinates, "euclidean", "coordinates")
    if points.shape != (table.n_rows, 2):
        expected = f"two columns of X, or points of shape ({table.n_rows}, 2)"
        raise ValueError(f"coordinates must be {expected}, got {points.shape}.")
    return points
