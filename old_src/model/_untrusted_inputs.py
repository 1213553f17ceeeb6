"""Checks of what a model file says about its inputs: coordinates, dates, a digest of the table."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.data.coordinates import Coordinates
from ebboost.data.schema import require
from ebboost.model._untrusted import Arrays, integers, numbers


def read_inputs(arrays: Arrays, n_nodes: int, n_features: int) -> dict[str, Any]:
    """Return what a state holds of its inputs, by attribute."""
    return {
        "coordinates": coordinates(arrays, n_nodes, n_features),
        "offset": arrays.get("offset"),
        "table_digest": digest(arrays),
    }


def coordinates(arrays: Arrays, n_nodes: int, n_features: int) -> Coordinates | None:
    """Return the coordinates of the fitted nodes: of a plane, or on the unit sphere."""
    if "coordinates_points" not in arrays:
        return None
    points = numbers(arrays, "coordinates_points", n_nodes, None)
    scale = float(numbers(arrays, "coordinates_scale", 1)[0])
    columns = positions(arrays, "coordinates_columns", n_features)
    require(points.shape[1] in (2, 3) and scale > 0, "coordinates must be points of two or three")
    require(len(columns) in (0, 2), "two columns or none")
    fitted = Coordinates(points, scale, columns)
    if "coordinates_graphs" not in arrays:  # of version 0.2.0, which had one graph
        return fitted
    chosen, *compared = _coordinate_graphs(arrays["coordinates_graphs"])
    return replace(fitted, neighbors=chosen[0], weighted=chosen[1], compared=tuple(compared))


def positions(arrays: Arrays, name: str, n_columns: int) -> tuple[int, ...]:
    """Return an array of positions of columns, none where it is absent."""
    return tuple(integers(arrays, name, n_columns - 1).tolist()) if name in arrays else ()


def digest(arrays: Arrays) -> str | None:
    """Return the SHA-256 of the table fitted on, None where it is absent."""
    values = arrays.get("table_digest")
    if values is None:
        return None
    require(values.dtype == np.int64 and values.shape == (4,), "table_digest must be 32 bytes")
    return values.astype("<i8").tobytes().hex()


def _coordinate_graphs(values: NDArray[Any]) -> list[tuple[int, bool, float]]:
    """Graphs of coordinates, first the fitted one: neighbours, whether weighted, deviance."""
    is_table = values.dtype == np.float64 and values.ndim == 2 and values.shape[1] == 3
    require(is_table and len(values) > 0, "coordinates_graphs must have three columns")
    numbers = np.floor(np.nan_to_num(values[:, 0], nan=-1.0))
    is_valid = (numbers == values[:, 0]) & (numbers >= 0) & (numbers < 2**31)
    is_valid &= np.isin(values[:, 1], (0.0, 1.0))
    require(is_valid.all(), "coordinates_graphs must hold numbers of neighbours, and 0 or 1")
    return [(int(k), bool(weighted), float(deviance)) for k, weighted, deviance in values]
