"""Node ids of any kind (text, gaps, mixed) to positions 0 … n-1 and back."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_missing(value: Any) -> bool:
    """Whether a value says "unknown": None, NaN, NaT or pandas.NA."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # pandas.NA refuses to be compared
        return True


def as_id_array(ids: Iterable[Any], name: str) -> NDArray[Any]:
    """Return ids as a 1-D array: integers stay integers, everything else is kept as objects."""
    if isinstance(ids, (str, bytes)):
        raise TypeError(
            f"{name} must be a list of node ids, got the text {ids!r}. Put it in a list: [{ids!r}]."
        )
    if isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.dtype.kind in "iu":
        return ids
    # Element by element: numpy would make text of mixed ids and spread tuples over a second axis.
    items = ids.to_pylist() if hasattr(ids, "to_pylist") else list(ids)
    for row, value in enumerate(items):
        if is_missing(value):
            raise ValueError(
                f"{name} has no node id at row {row} (it is {value!r}). Every node needs one: fill it in or drop the row."
            )
    if items and all(
        isinstance(value, (int, np.integer)) and not isinstance(value, bool) for value in items
    ):
        numbers = np.asarray(items)
        if numbers.dtype.kind in "iu":
            return numbers
    array = np.empty(len(items), dtype=object)
    for row, value in enumerate(items):
        array[row] = value
    return array


def lookup(
    known: NDArray[Any],
    wanted: NDArray[Any],
    name: str,
    remedy: str = "Add it to nodes, or drop that edge.",
) -> NDArray[np.int64]:
    """Positions of ``wanted`` among ``known``; an id that is not known is refused with its row."""
    # Signed beside unsigned would be compared as floats, which cannot tell large ids apart.
    if known.dtype.kind in "iu" and known.dtype.kind == wanted.dtype.kind:
        order = np.argsort(known, kind="stable")
        found = np.searchsorted(known, wanted, sorter=order)
        found = (
            order[np.minimum(found, max(known.size - 1, 0))] if known.size else np.zeros_like(found)
        )
        missing = known[found] != wanted if known.size else np.ones(wanted.size, dtype=bool)
    else:
        table = {value: position for position, value in enumerate(known.tolist())}
        found = np.fromiter(
            (table.get(value, -1) for value in wanted.tolist()), np.int64, wanted.size
        )
        missing = found < 0
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        hint = ""
        if {type(v) for v in known[:1].tolist()} != {
            type(v) for v in wanted[row : row + 1].tolist()
        }:
            hint = f" Ids are matched exactly: nodes has {known[:1].tolist()}, this is {wanted[row : row + 1].tolist()}."
        raise ValueError(
            f"{name} names a node that is not in nodes at row {row}: {wanted[row : row + 1].tolist()[0]!r}.{hint} {remedy}"
        )
    return found.astype(np.int64)


def refuse_duplicates(ids: NDArray[Any], name: str = "nodes") -> None:
    """Every node has one id of its own."""
    seen: dict[Any, int] = {}
    for row, value in enumerate(ids.tolist()):
        if value in seen:
            raise ValueError(
                f"{name} lists {value!r} twice, at rows {seen[value]} and {row}: ids must be unique."
            )
        seen[value] = row


def plain_range(ids: NDArray[Any]) -> bool:
    """Whether the ids are just the positions 0 … n-1, so that nothing needs remembering."""
    return ids.dtype.kind in "iu" and bool(np.array_equal(ids, np.arange(ids.size)))
