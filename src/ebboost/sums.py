"""Sums over all rows. On one machine they are numpy's; workers of a cluster add up their own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from ebboost._common import Array

_add: ContextVar[Callable[[Array], Array] | None] = ContextVar("add", default=None)


def total(values: Array, axis: int | None = None) -> Any:
    """Return the sum of values of rows, those of other workers included."""
    return everywhere(values.sum(axis=axis))


def mean(values: Array) -> float:
    """Return the mean of values of rows, those of other workers included."""
    if _add.get() is None:
        return float(np.mean(values))
    sums = everywhere(np.array([values.sum(), values.size], dtype=np.float64))
    return float(sums[0] / sums[1])


def everywhere(own: Any) -> Any:
    """Return the sum of a number or an array of each worker; on one machine what is passed."""
    add = _add.get()
    return own if add is None else add(np.asarray(own))[()]


@contextmanager
def added_by(add: Callable[[Array], Array]) -> Iterator[None]:
    """Have sums of this thread added up by a function within the block."""
    token = _add.set(add)
    try:
        yield
    finally:
        _add.reset(token)
