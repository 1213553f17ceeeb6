"""Values that one thread computes while the others wait for it, and locks that survive a fork."""

import os
from collections.abc import Callable, Hashable, MutableMapping
from functools import cached_property, partial
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

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


class SharedLock:
    """A lock that no forked process finds held: a fork waits until other threads release it.

    A thread that holds one may acquire only those that were created later. Pickled as a new one.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        _shared[next(_numbers)] = self

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["SharedLock"], tuple[()]]:
        return SharedLock, ()


_numbers = count()
_shared: WeakValueDictionary[int, SharedLock] = WeakValueDictionary()  # in order of creation
_held: list[SharedLock] = []  # by the thread that forks


def _before_fork() -> None:
    for reference in _shared.valuerefs():
        lock = reference()
        if lock is not None:
            lock.__enter__()
            _held.append(lock)


def _after_fork() -> None:
    while _held:
        _held.pop().__exit__()


if hasattr(os, "register_at_fork"):
    release = {"after_in_parent": _after_fork, "after_in_child": _after_fork}
    os.register_at_fork(before=_before_fork, **release)
