"""Node ids of any kind, and their positions 0 … n-1; the test for missing values."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[Any]


class RowNumbers(np.ndarray):
    """Row numbers that are known to be such, and not ids: see ``Graph.index_of``."""


def as_row_numbers(rows: object) -> RowNumbers:
    """Return integers as row numbers that are known not to be ids."""
    return np.asarray(rows).view(RowNumbers)


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN, NaT or pandas.NA."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # pandas.NA cannot be compared
        return True


def as_id_array(ids: Iterable[object], name: str) -> Ids:
    """Return ids as a 1-D array: integers stay integers, everything else becomes objects."""
    if isinstance(ids, (str, bytes)):
        raise TypeError(f"{name} must be a list of node ids, got the text {ids!r}: use [{ids!r}].")
    if isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.dtype.kind in "iu":
        return ids
    # Element by element: numpy would convert mixed ids to text and tuples to a second axis.
    items = ids.to_pylist() if hasattr(ids, "to_pylist") else list(ids)
    for row, value in enumerate(items):
        if is_missing(value):
            problem = f"{name} has no node id at row {row} (it is {value!r})"
            raise ValueError(f"{problem}. Fill it in or drop the row.")
    if items and all(isinstance(v, (int, np.integer)) and not isinstance(v, bool) for v in items):
        numbers = np.asarray(items)
        if numbers.dtype.kind in "iu":
            return numbers
    return np.fromiter(items, object, len(items))


def positions_of(known: Ids, ids: Ids) -> NDArray[np.int64]:
    """Return the positions of ids among known ones, -1 for others."""
    # Signed and unsigned together would be compared as floats, which round large ids.
    if known.size and known.dtype.kind in "iu" and known.dtype.kind == ids.dtype.kind:
        order = np.argsort(known, kind="stable")
        rank = np.searchsorted(known, ids, sorter=order)
        position = order[np.minimum(rank, known.size - 1)].astype(np.int64)
        return np.where(known[position] == ids, position, -1)
    numbers = {value: number for number, value in enumerate(known.tolist())}
    return np.fromiter((numbers.get(value, -1) for value in ids.tolist()), np.int64, ids.size)


def lookup(
    ids: Ids, wanted: Ids, name: str, remedy: str = "Add it to nodes, or drop that edge."
) -> NDArray[np.int64]:
    """Return the positions of ``wanted`` in ``ids``; the first unknown id raises ValueError."""
    positions = positions_of(ids, wanted)
    unknown = positions < 0
    if unknown.any():
        row = int(np.flatnonzero(unknown)[0])
        value = wanted[row : row + 1].tolist()[0]
        first = ids[:1].tolist()
        hint = ""
        if first and type(first[0]) is not type(value):
            hint = f" Ids are matched exactly: nodes has {first[0]!r}, this is {value!r}."
        raise ValueError(
            f"{name} names a node that is not in nodes at row {row}: {value!r}.{hint} {remedy}"
        )
    return positions


def index_of(known: Ids, ids: Iterable[object]) -> RowNumbers:
    """Return the row numbers of ids, which all must be known."""
    return as_row_numbers(
        lookup(known, as_id_array(ids, "ids"), "ids", "See node_ids for all ids.")
    )


def check_unique_ids(ids: Ids, name: str = "nodes") -> None:
    """Raise ValueError with both rows if an id occurs twice."""
    rows: dict[object, int] = {}
    for row, value in enumerate(ids.tolist()):
        first = rows.setdefault(value, row)
        if first != row:
            problem = f"{name} lists {value!r} twice, at rows {first} and {row}"
            raise ValueError(f"{problem}: ids must be unique.")


def is_default(ids: Ids) -> bool:
    """Whether the ids are the positions 0 … n-1 themselves."""
    return ids.dtype.kind in "iu" and bool(np.array_equal(ids, np.arange(ids.size)))
