"""Values that one thread computes while the others wait for it."""

import os
from collections.abc import Callable, Hashable, MutableMapping
from functools import cached_property, partial
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

T = TypeVar("T")
# Of the values being computed. Each has a lock of its own: with one for a property of all
# instances, as in functools up to Python 3.11, two threads may wait for each other.
_locks: dict[tuple[int, Hashable], Any] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_locks.clear)  # threads do not survive a fork


def compute_once(cache: MutableMapping[Any, T], key: Hashable, compute: Callable[[], T]) -> T:
    """Return ``cache[key]``, and compute it before if it is missing."""
    if key not in cache:
        running = (id(cache), key)
        try:
            with _locks.setdefault(running, RLock()):
                if key not in cache:
                    cache[key] = compute()
        finally:
            _locks.pop(running, None)
    return cache[key]


if TYPE_CHECKING:
    lazy_property = cached_property
else:

    class lazy_property(cached_property):
        """A property that is computed once for each instance, whichever threads read it."""

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            """Return the value, or this descriptor from the class."""
            if instance is None:
                return self
            return compute_once(vars(instance), self.attrname, partial(self.func, instance))


class Deferred(Generic[T]):
    """A value that is computed when it is first read; pickled as the value."""

    def __init__(self, compute: Callable[[], T]) -> None:
        self._compute = compute

    @lazy_property
    def value(self) -> T:
        """The value."""
        return self._compute()

    def __getstate__(self) -> dict[str, T]:
        return {"value": self.value}
