"""Node ids of any kind (text, gaps, mixed) to positions 0 … n-1 and back."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_id_array(ids: Iterable[Any], name: str) -> NDArray[Any]:
    """Return ids as a 1-D array: integers stay integers, everything else is kept as objects."""
    array = ids if isinstance(ids, np.ndarray) else np.asarray(list(ids))
    if array.ndim != 1:  # ids such as tuples, which numpy would spread over a second axis
        items = list(ids)
        array = np.empty(len(items), dtype=object)
        array[:] = items
    if array.dtype.kind in "iu":
        return array
    if array.dtype.kind != "O":
        array = np.asarray(list(ids), dtype=object)
    for row, value in enumerate(array):
        if value is None or value != value:
            raise ValueError(f"{name} has no node id at row {row} (it is {value!r}).")
    return array


def lookup(known: NDArray[Any], wanted: NDArray[Any], name: str) -> NDArray[np.int64]:
    """Positions of ``wanted`` among ``known``; an id that is not known is refused with its row."""
    if known.dtype.kind in "iu" and wanted.dtype.kind in "iu":
        order = np.argsort(known, kind="stable")
        found = np.searchsorted(known, wanted, sorter=order)
        found = order[np.minimum(found, max(known.size - 1, 0))] if known.size else np.zeros_like(found)
        missing = known[found] != wanted if known.size else np.ones(wanted.size, dtype=bool)
    else:
        table = {value: position for position, value in enumerate(known.tolist())}
        found = np.fromiter((table.get(value, -1) for value in wanted.tolist()), np.int64, wanted.size)
        missing = found < 0
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        hint = ""
        if {type(v) for v in known[:1].tolist()} != {type(v) for v in wanted[row : row + 1].tolist()}:
            hint = (
                f" Ids are matched exactly: nodes has {known[:1].tolist()}, this is {wanted[row : row + 1].tolist()}."
            )
        raise ValueError(
            f"{name} names a node that is not in nodes at row {row}: {wanted[row]!r}.{hint} "
            "Add it to nodes, or drop that edge."
        )
    return found.astype(np.int64)


def refuse_duplicates(ids: NDArray[Any], name: str = "nodes") -> None:
    """Every node has one id of its own."""
    seen: dict[Any, int] = {}
    for row, value in enumerate(ids.tolist()):
        if value in seen:
            raise ValueError(f"{name} lists {value!r} twice, at rows {seen[value]} and {row}: ids must be unique.")
        seen[value] = row


def plain_range(ids: NDArray[Any]) -> bool:
    """Whether the ids are just the positions 0 … n-1, so that nothing needs remembering."""
    return ids.dtype.kind in "iu" and bool(np.array_equal(ids, np.arange(ids.size)))
