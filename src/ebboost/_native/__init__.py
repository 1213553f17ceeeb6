"""The loops that are compiled from `kernels.c` when the package is built, and the threads that run them."""

import ctypes
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from pathlib import Path
from typing import Any

VERSION = 6
FOLDER = Path(__file__).parent

_allowed: ContextVar[int] = ContextVar("allowed", default=1)
_pool: ThreadPoolExecutor | None = None


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let sweeps, and trees that predict, use this many threads."""
    token = _allowed.set(count)
    try:
        yield
    finally:
        _allowed.reset(token)


def allowed_threads() -> int:
    """Return how many threads may be used here: those of the innermost :func:`threads`, else one."""
    return _allowed.get()


def _workers() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(os.cpu_count(), "ebboost-sweep")
    return _pool


def _forget_workers() -> None:
    global _pool
    _pool = None  # threads do not survive a fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers)


def _compiled() -> Any:
    """The library, or None where it was not built, or was built from another version of the source."""
    for name in ("libkernels.so", "libkernels.dylib", "libkernels.dll"):
        path = FOLDER / name
        if not path.exists():
            continue
        try:
            library = ctypes.CDLL(str(path))
            library.ebboost_sweep_version.restype = ctypes.c_int64
            if library.ebboost_sweep_version() != VERSION:
                return None
        except (OSError, AttributeError):
            return None
        size: Any = ctypes.c_int64
        at: Any = ctypes.c_void_p
        edges = [at, at, at, size, at, at, size, at]
        for name, real in (("float", ctypes.c_float), ("double", ctypes.c_double)):
            for bits in (16, 32):
                getattr(library, f"ebboost_{name}_narrow_{bits}").argtypes = (
                    [size] * 2 + edges + [at] * 5
                )
                steps = [size, at, *edges] + [at] * 3 + [real, size] + [at] * 5
                getattr(library, f"ebboost_{name}_steps_{bits}").argtypes = steps
            getattr(library, f"ebboost_{name}_arrange").argtypes = [size] * 3 + [at] * 3
            getattr(library, f"ebboost_{name}_put_back").argtypes = [size] * 2 + [at] * 3
            getattr(library, f"ebboost_{name}_begin").argtypes = (
                [size] * 3 + [at] * 2 + [real] + [at] * 3
            )
            getattr(library, f"ebboost_{name}_end").argtypes = [size] * 2 + [at] * 4
            getattr(library, f"ebboost_wide_{name}").argtypes = (
                [size] * 3 + [at] * 7 + [size, at, real] + [at] * 2
            )
            around = [size] * 3 + [at] * 6 + [ctypes.c_double, size] + [at] * 3
            getattr(library, f"ebboost_around_{name}").argtypes = around
        for bits in (16, 32):
            getattr(library, f"ebboost_arranged_{bits}").argtypes = [size] + [at] * 7 + edges
            solve = getattr(library, f"ebboost_solve_{bits}")
            solve.argtypes, solve.restype = (
                [size, *edges, at, at, at, ctypes.c_double, size] + [at] * 5,
                size,
            )
        library.ebboost_pieces.argtypes = [size] + [at] * 4 + [size] + [at] * 3
        library.ebboost_paired.argtypes = [size] + [at] * 10
        library.ebboost_along.argtypes = [size, at, at, at, ctypes.c_double, at]
        return library
    return None


COMPILED = _compiled()


def by_threads(loop: Any, ends: Sequence[int], arguments: Sequence[Any]) -> None:
    """Run a loop over ranges of rows, ``ends[i]`` to ``ends[i + 1]``, each by a thread, the last by this one."""
    *others, last = pairwise(ends)
    jobs = [_workers().submit(loop, *one, *arguments) for one in others]
    loop(*last, *arguments)
    for job in jobs:
        job.result()
