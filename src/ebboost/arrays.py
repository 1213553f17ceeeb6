"""Where a fit computes: in memory with numpy, or on a device that a package moves arrays to.

The code of the core is the same for both. Functions of numpy dispatch to the arrays of a device;
operators, posteriors and sparse products get objects of the same interface.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

_move: ContextVar[Callable[[Any], Any] | None] = ContextVar("move", default=None)


def there(value: Any) -> Any:
    """Return an array, labels, an operator or a posterior where this fit computes."""
    move = _move.get()
    return value if move is None else move(value)


def here(array: Any) -> Any:
    """Return an array as numpy's."""
    return array.get() if hasattr(array, "__cuda_array_interface__") else array


def beside(array: Any, other: Any) -> Any:
    """Return a numpy array where another array is."""
    return array if isinstance(other, np.ndarray) else there(array)


@contextmanager
def moved_by(move: Callable[[Any], Any]) -> Iterator[None]:
    """Have a function move what is computed with within the block."""
    token = _move.set(move)
    try:
        yield
    finally:
        _move.reset(token)


@contextmanager
def on_device(device: str) -> Iterator[None]:
    """Compute on a device within the block: "cpu" or "cuda"."""
    if device == "cpu":
        yield
        return
    from ebboost.gpu import start

    with start() as move, moved_by(move):
        yield
