"""What a command has understood of its files, to be read before its results are believed."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from ebboost.cli.graph_files import NodesAndEdges

MAX_NAMES = 8


def understood(
    data: NodesAndEdges, X: pd.DataFrame, nodes: Path, coordinates: str | None
) -> dict[str, str]:
    """Return how files, columns and coordinates were read, by what they are."""
    ids = "row numbers are ids" if data.id_name is None else f"ids {data.id_name!r}"
    facts = {"table": f"{nodes.name}, {data.table.attrs.get('layout', 'read')}: {ids}"}
    if data.edges:
        facts["edge list"] = data.edges
    kinds: dict[str, list[str]] = {"numbers": [], "dates": [], "categories": []}
    examples: Mapping[str, str] = data.table.attrs.get("dates", {})
    for name in X.columns:
        column = X[name]
        if column.dtype.kind in "biuf":
            kinds["numbers"].append(f"{name}")
        elif column.dtype.kind == "M":
            example = f" ({examples[name]})" if name in examples else ""
            kinds["dates"].append(f"{name}{example}")
        else:
            kinds["categories"].append(f"{name} ({column.nunique():,})")
    kinds["left out"] = [f"{name}" for name in X.attrs.get("left out", [])]
    facts |= {kind: _listed(names) for kind, names in kinds.items() if names}
    if coordinates is not None:
        facts["coordinates"] = coordinates
    return facts


def coordinates_text(names: Sequence[str], by_degrees: bool, seem_degrees: bool) -> str:
    """Return what coordinates are taken for."""
    both = " and ".join(names)
    if by_degrees:
        return f"{both}: latitude and longitude in degrees, great-circle distances"
    doubt = ", although they look like degrees" if seem_degrees else ""
    return f"{both}: points of a plane{doubt}, distances in their units"


def _listed(names: Sequence[str]) -> str:
    more = "" if len(names) <= MAX_NAMES else f" and {len(names) - MAX_NAMES:,} more"
    return ", ".join(names[:MAX_NAMES]) + more
