"""Coordinates of rows: the graph of nearest rows, and the edges of new rows to it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse
from scipy.spatial import cKDTree

from ebboost._common import Array, TableLike
from ebboost.data.reader import dense_if_narrow
from ebboost.data.table import Table
from ebboost.graph import Graph
from ebboost.graph._build import as_points

N_NEIGHBORS = 8  # nearest rows that a row is connected to
_LATITUDE = re.compile(r"lat(itude)?", re.IGNORECASE)
_LONGITUDE = re.compile(r"lon(g|gitude)?|lng", re.IGNORECASE)

NEEDS_COORDINATES = (
    "This model was fitted on coordinates that are not columns of X: pass those of the rows, "
    "predict(X_new, attach=points), or call predict() for the fitted rows."
)


@dataclass(frozen=True)
class Coordinates:
    """Points of the fitted rows: two coordinates in a plane, or three on the unit sphere."""

    points: Array
    scale: float  # the median length of the edges, in the units of the points
    columns: tuple[int, ...] = ()  # of X with the coordinates, latitude first if degrees, or ()

    @classmethod
    def fit(
        cls, coordinates: Any, names: Sequence[str], table: Table
    ) -> "tuple[Coordinates, Graph]":
        """Return the coordinates of a table, and the graph that connects nearest rows.

        An edge of length d weighs 1 / (1 + d / scale).
        """
        columns, by_degrees = coordinate_columns(coordinates, names)
        points = _read_points(table, columns, coordinates, by_degrees)
        edges = Graph.build_knn(points, min(N_NEIGHBORS, max(len(points) - 1, 1)))
        low, high = sparse.triu(edges.adjacency, format="coo").coords
        lengths = np.linalg.norm(points[low] - points[high], axis=1)
        positive = lengths[lengths > 0]
        result = cls(points, float(np.median(positive)) if positive.size else 1.0, columns)
        weights = 1.0 / (1.0 + lengths / result.scale)
        return result, Graph.from_edges(low, high, weights, len(points))

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

    def edges(self, new: Array) -> sparse.csr_array:
        """Return the edges of other points to their nearest fitted rows."""
        count = min(N_NEIGHBORS, len(self.points))
        lengths, nearest = cKDTree(self.points).query(new, k=[*range(1, count + 1)])
        ends = (np.repeat(np.arange(len(new)), count), nearest.ravel())
        weights = (1.0 / (1.0 + lengths / self.scale)).ravel()
        return sparse.csr_array((weights, ends), shape=(len(new), len(self.points)))


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
        remedy = f"rename the columns {names[0]!r} and {names[1]!r}: lat is north-south, lon "
        remedy += "east-west"
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


def append_columns(X: TableLike, coordinates: Any) -> tuple[TableLike, Any]:
    """Return a table with points as its last two columns, and the names of these.

    Both stay as they are if coordinates are columns, or the table is neither a dataframe nor an
    array in memory.
    """
    X = dense_if_narrow(X)
    names = ["x", "y"]
    points = coordinates
    if hasattr(coordinates, "representative_point"):
        inner = coordinates.representative_point()
        points = np.column_stack([inner.x, inner.y])
        if coordinates.crs is not None and coordinates.crs.is_geographic:
            names = ["longitude", "latitude"]
    points = np.asarray(points)
    if points.ndim != 2 or points.shape[1] != 2 or points.dtype.kind not in "iuf":
        return X, coordinates
    if isinstance(X, np.ndarray) and names == ["x", "y"] and X.ndim == 2 and len(X) == len(points):
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
