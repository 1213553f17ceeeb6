"""Graphs computed from coordinates: nearest neighbours and everything within a radius."""

from numbers import Real
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

EARTH_RADIUS_KM = 6371.0088
Metric = Literal["euclidean", "haversine"]


def _points(coords: ArrayLike, metric: Metric) -> NDArray[np.float64]:
    """Coordinates in a space where straight-line distance orders pairs as the metric does."""
    try:
        array = np.asarray(coords, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"coords must be a table of numbers, one row per node ({error}).") from None
    if array.ndim != 2 or not array.size:
        raise ValueError(f"coords must be a table with one row per node, got shape {array.shape}.")
    bad = ~np.isfinite(array).all(axis=1)
    if bad.any():
        raise ValueError(
            f"coords has a missing or infinite value at row {int(np.flatnonzero(bad)[0])}: "
            "every node needs a place. Fill it in, or leave the node out."
        )
    if metric == "euclidean":
        return array
    if metric != "haversine":
        raise ValueError(f"metric must be 'euclidean' or 'haversine', got {metric!r}.")
    if array.shape[1] != 2:
        raise ValueError(
            f"haversine needs two columns (latitude, longitude), got {array.shape[1]}."
        )
    if (np.abs(array[:, 0]) > 90).any() or (np.abs(array[:, 1]) > 360).any():
        row = int(np.flatnonzero((np.abs(array[:, 0]) > 90) | (np.abs(array[:, 1]) > 360))[0])
        raise ValueError(
            f"coords is not (latitude, longitude) in degrees at row {row}: {array[row].tolist()}. "
            "Are the columns swapped, or in metres? Then use metric='euclidean'."
        )
    latitude, longitude = np.deg2rad(array).T
    return np.column_stack(
        [
            np.cos(latitude) * np.cos(longitude),
            np.cos(latitude) * np.sin(longitude),
            np.sin(latitude),
        ]
    )


def knn_edges(
    coords: ArrayLike, k: int, metric: Metric
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Each node and its k nearest others."""
    points = _points(coords, metric)
    n = len(points)
    if not isinstance(k, (int, np.integer)) or not 1 <= k < max(n, 2):
        raise ValueError(f"k must be a whole number from 1 to n_nodes-1={n - 1}, got {k!r}.")
    if n < 2:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), n
    _, found = cKDTree(points).query(points, k=k + 1)
    # Among nodes at the same place a node need not come first in its own list, nor appear at all.
    itself = found == np.arange(n)[:, None]
    itself[~itself.any(axis=1), k] = True
    neighbours = found[~itself].reshape(n, k)
    return np.repeat(np.arange(n), k), neighbours.ravel().astype(np.int64), n


def radius_edges(
    coords: ArrayLike, radius: float, metric: Metric
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Every pair of nodes no farther apart than ``radius`` (kilometres for haversine)."""
    points = _points(coords, metric)
    if not isinstance(radius, Real) or not np.isfinite(radius) or radius <= 0:
        raise ValueError(f"radius must be a positive number, got {radius!r}.")
    reach = float(radius)
    if metric == "haversine":  # the chord under an arc of that length
        reach = 2 * np.sin(min(reach / EARTH_RADIUS_KM, np.pi) / 2)
    pairs = cKDTree(points).query_pairs(reach, output_type="ndarray")
    return pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int64), len(points)
