"""Trees from a file, checked before a library reads them: those readers follow whatever index they are given.

With a checksum that anyone can compute, a file may name a child that is its own ancestor, a column beyond the table or a
leaf that is not there: libraries then loop without end or read foreign memory. What is accepted here is a tree.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_DEPTH = 1_000  # libraries walk trees by calling themselves
LARGEST = 1e150  # no score is, and sums and squares of what is smaller stay numbers


def refuse_unless(sound: Any, what: str) -> None:
    """Raise a ``ValueError`` that names what is wrong with the trees."""
    if not sound:
        raise ValueError(f"its trees are damaged: {what}")


def whole_numbers(values: Any, least: int, most: int, what: str) -> NDArray[np.int64]:
    """A list of JSON as an array of integers within bounds; ``True`` and ``1.0`` are none."""
    refuse_unless(
        isinstance(values, list) and set(map(type, values)) <= {int},
        f"{what} must be whole numbers",
    )
    refuse_unless(all(least <= value <= most for value in values), f"{what} out of range")
    return np.array(values, dtype=np.int64)


def numbers(values: Any, what: str, most: float = LARGEST) -> NDArray[np.float64]:
    """A list of JSON as an array of finite numbers, at most ``most`` in size."""
    refuse_unless(
        isinstance(values, list) and set(map(type, values)) <= {int, float},
        f"{what} must be numbers",
    )
    found = np.array(values, dtype=np.float64)
    refuse_unless((np.abs(found) <= most).all(), f"{what} not finite")
    return found


def keys(given: Any, wanted: Sequence[str], what: str) -> dict[str, Any]:
    """A dict with exactly these keys."""
    refuse_unless(
        isinstance(given, dict) and set(given) == set(wanted),
        f"{what} must have the keys {list(wanted)}",
    )
    found: dict[str, Any] = given
    return found


def check_tree(left: NDArray[np.int64], right: NDArray[np.int64], what: str) -> None:
    """Children of nodes 0 … n-1, −1 at leaves: every node but the root is the child of one other, which comes before it."""
    inner = np.flatnonzero(left != -1)
    leaf_has_right = (right[left == -1] != -1).any()
    children = np.concatenate([left[inner], right[inner]])
    once = np.array_equal(np.sort(children), np.arange(1, left.size))
    refuse_unless(left.size and not leaf_has_right and once, f"the nodes of {what} are not a tree")
    refuse_unless(
        (np.minimum(left[inner], right[inner]) > inner).all(),
        f"a child in {what} comes before its parent",
    )
    level, depth = np.zeros(1, dtype=np.int64), 0
    while level.size:
        level = level[left[level] != -1]
        level = np.concatenate([left[level], right[level]])
        depth += 1
        refuse_unless(depth <= MOST_DEPTH, f"{what} is deeper than {MOST_DEPTH} levels")
