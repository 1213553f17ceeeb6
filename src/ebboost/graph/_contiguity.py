"""Which polygons share a border."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ends = tuple[NDArray[np.int64], NDArray[np.int64]]


def contiguity_edges(geometry: Any, rook: bool) -> Ends:
    """Return pairs of polygons that touch or overlap; with ``rook``, in more than a point."""
    missing = np.flatnonzero(geometry.isna() | geometry.is_empty)
    if missing.size:
        name = geometry.index[missing[0]]
        raise ValueError(f"geometry of row {missing[0]} ({name!r}) is empty: leave the row out.")
    is_area = geometry.geom_type.isin(["Polygon", "MultiPolygon"]).to_numpy()
    if not is_area.all():
        row = int((~is_area).argmax())
        raise ValueError(
            f"geometry must be polygons, row {row} is a {geometry.geom_type.iloc[row]}. For points "
            "use fit(coordinates=geometry), or Graph.build_knn."
        )
    low, high = geometry.sindex.query(geometry, predicate="intersects")
    low, high = low[low < high], high[low < high]
    if rook:
        shared = geometry.iloc[low].intersection(geometry.iloc[high], align=False)
        is_line = ((shared.length > 0.0) | (shared.area > 0.0)).to_numpy()
        low, high = low[is_line], high[is_line]
    return low.astype(np.int64), high.astype(np.int64)
