"""Graphs computed from coordinates: nearest neighbours, Delaunay triangles, a radius."""

from collections.abc import Sequence
from numbers import Real
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import Delaunay, QhullError, cKDTree

EARTH_RADIUS_KM = 6371.0088
Metric = Literal["euclidean", "haversine"]
Ends = tuple[NDArray[np.int64], NDArray[np.int64]]
Points = NDArray[np.float64]


def knn_edges(points: Points, k: int) -> Ends:
    """Return edges from each point to its k nearest others.

    Where more than k rows share a point, the first of them is also connected to its k nearest
    other points: such rows would otherwise have no edge to the rest.
    """
    n = len(points)
    if not isinstance(k, (int, np.integer)) or not 1 <= k < max(n, 2):
        raise ValueError(f"k must be an integer from 1 to n_nodes-1={n - 1}, got {k!r}.")
    if n < 2:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    _, nearest = cKDTree(points).query(points, k=k + 1)
    # Among nodes with equal coordinates a node need not come first in its own list, or be in it.
    itself = nearest == np.arange(n)[:, None]
    itself[~itself.any(axis=1), k] = True
    source = np.repeat(np.arange(n), k)
    target = nearest[~itself].astype(np.int64)
    unique, first, counts = np.unique(points, axis=0, return_index=True, return_counts=True)
    crowded = np.flatnonzero(counts > k)
    if crowded.size and len(unique) > 1:
        k = min(k, len(unique) - 1)
        _, nearest = cKDTree(unique).query(unique[crowded], k=k + 1)
        source = np.concatenate([source, np.repeat(first[crowded], k)])
        target = np.concatenate([target, first[nearest[:, 1:].ravel()]])
    return source, target


def radius_edges(points: Points, radius: float, metric: Metric) -> Ends:
    """Return pairs no farther apart than ``radius`` (km for haversine)."""
    if not isinstance(radius, Real) or not np.isfinite(radius) or radius <= 0:
        raise ValueError(f"radius must be a positive number, got {radius!r}.")
    distance = float(radius)
    if metric == "haversine":  # the chord of an arc of that length
        distance = 2 * np.sin(min(distance / EARTH_RADIUS_KM, np.pi) / 2)
    pairs = cKDTree(points).query_pairs(distance, output_type="ndarray").astype(np.int64)
    return pairs[:, 0], pairs[:, 1]


def delaunay_edges(coords: ArrayLike, metric: Metric) -> Ends:
    """Return the sides of the Delaunay triangles; rows at one point are connected in a chain."""
    plane = np.asarray(coords, dtype=np.float64)
    if plane.shape[1] != 2:
        raise ValueError(f"Delaunay triangles need two coordinates, got {plane.shape[1]}.")
    if metric == "haversine":  # an equirectangular projection
        latitude, longitude = plane.T
        scale = np.cos(np.deg2rad(latitude.mean()))
        plane = np.column_stack([latitude, longitude * scale])
    unique, first, point = np.unique(plane, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(point.ravel(), kind="stable")
    repeated = np.flatnonzero(np.diff(point.ravel()[order]) == 0)
    try:
        corners = first[Delaunay(unique).simplices]
    except (QhullError, ValueError):
        problem = "coords must have three points or more that are not on one line"
        raise ValueError(f"{problem}: connect nearest neighbours instead.") from None
    source = np.concatenate([corners[:, 0], corners[:, 1], corners[:, 2], order[repeated]])
    target = np.concatenate([corners[:, 1], corners[:, 2], corners[:, 0], order[repeated + 1]])
    return source.astype(np.int64), target.astype(np.int64)


def distances(points: Points, ends: Ends, metric: Metric) -> NDArray[np.float64]:
    """Return the length of each edge, in kilometres for haversine."""
    chord: NDArray[np.float64] = np.linalg.norm(points[ends[0]] - points[ends[1]], axis=1)
    if metric == "euclidean":
        return chord
    return 2 * EARTH_RADIUS_KM * np.arcsin(np.minimum(chord / 2, 1.0))


def as_points(
    coords: ArrayLike, metric: Metric, name: str = "coords", columns: Sequence[object] = ()
) -> Points:
    """Return coordinates whose euclidean distance orders pairs as the metric does."""
    try:
        if np.iscomplexobj(coords):
            raise TypeError("complex numbers")
        array = np.asarray(coords, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a table of numbers, one row per node ({error}).") from None
    if array.ndim != 2 or not array.size:
        raise ValueError(f"{name} must be a table with one row per node, got shape {array.shape}.")
    invalid = np.argwhere(~np.isfinite(array))
    if invalid.size:
        row, column = invalid[0].tolist()
        where = f"row {row}, column {columns[column] if columns else column!r}"
        problem = f"{name} must be finite numbers, {where} is {array[row, column]}"
        raise ValueError(f"{problem}. Fill it in, or leave the row out.")
    if metric == "euclidean":
        return array
    if metric != "haversine":
        raise ValueError(f"metric must be 'euclidean' or 'haversine', got {metric!r}.")
    if array.shape[1] != 2:
        raise ValueError(
            f"haversine needs two columns, latitude and longitude, got {array.shape[1]}."
        )
    outside = np.flatnonzero((np.abs(array) > [90, 360]).any(axis=1))
    if outside.size:
        row = outside[0]
        raise ValueError(
            f"coords is not (latitude, longitude) in degrees at row {row}: {array[row].tolist()}. "
            "Are the columns swapped, or in metres? Then use metric='euclidean'."
        )
    latitude, longitude = np.deg2rad(array).T
    x = np.cos(latitude) * np.cos(longitude)
    y = np.cos(latitude) * np.sin(longitude)
    return np.column_stack([x, y, np.sin(latitude)])
