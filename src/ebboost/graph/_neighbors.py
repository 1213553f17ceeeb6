"""Graphs computed from coordinates: nearest neighbours and all pairs within a radius."""

from numbers import Real
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

EARTH_RADIUS_KM = 6371.0088
Metric = Literal["euclidean", "haversine"]
Ends = tuple[NDArray[np.int64], NDArray[np.int64]]


def knn_edges(coords: ArrayLike, k: int, metric: Metric) -> tuple[Ends, int]:
    """Return edges from each node to its k nearest others, and the number of nodes."""
    points = _points(coords, metric)
    n = len(points)
    if not isinstance(k, (int, np.integer)) or not 1 <= k < max(n, 2):
        raise ValueError(f"k must be an integer from 1 to n_nodes-1={n - 1}, got {k!r}.")
    if n < 2:
        return (np.zeros(0, np.int64), np.zeros(0, np.int64)), n
    _, nearest = cKDTree(points).query(points, k=k + 1)
    # Among nodes with equal coordinates a node need not come first in its own list, or be in it.
    itself = nearest == np.arange(n)[:, None]
    itself[~itself.any(axis=1), k] = True
    return (np.repeat(np.arange(n), k), nearest[~itself].astype(np.int64)), n


def radius_edges(coords: ArrayLike, radius: float, metric: Metric) -> tuple[Ends, int]:
    """Return pairs no farther apart than ``radius`` (km for haversine), and the number of nodes."""
    points = _points(coords, metric)
    if not isinstance(radius, Real) or not np.isfinite(radius) or radius <= 0:
        raise ValueError(f"radius must be a positive number, got {radius!r}.")
    distance = float(radius)
    if metric == "haversine":  # the chord of an arc of that length
        distance = 2 * np.sin(min(distance / EARTH_RADIUS_KM, np.pi) / 2)
    pairs = cKDTree(points).query_pairs(distance, output_type="ndarray").astype(np.int64)
    return (pairs[:, 0], pairs[:, 1]), len(points)


def _points(coords: ArrayLike, metric: Metric) -> NDArray[np.float64]:
    """Return coordinates whose euclidean distance orders pairs as the metric does."""
    try:
        array = np.asarray(coords, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"coords must be a table of numbers, one row per node ({error}).") from None
    if array.ndim != 2 or not array.size:
        raise ValueError(f"coords must be a table with one row per node, got shape {array.shape}.")
    invalid = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if invalid.size:
        problem = f"coords has a missing or infinite value at row {invalid[0]}"
        raise ValueError(f"{problem}. Fill it in, or leave the node out.")
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
