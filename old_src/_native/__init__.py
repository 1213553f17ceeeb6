"""Loops compiled from `kernels.c` when the package is built, and the threads that run them.

Where no library was built, ``COMPILED`` is None, and scipy and numpy do the same more slowly.
"""

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

#: Raised with the one in `kernels.c` whenever a signature changes: a stale library is not used.
VERSION = 14
FOLDER = Path(__file__).parent
LIBRARIES = ("libkernels.so", "libkernels.dylib", "libkernels.dll")

#: Edges in the layout of one column: see EDGES in `kernels.c`.
_EDGES = "pppippip"
#: Arguments of each function: i an integer, p an address, d a double, r a number of type {real}.
_SIGNATURES = {
    "{real}_narrow_{bits}": "ii" + _EDGES + "ppppp",
    "{real}_arrange": "iiippp",
    "{real}_put_back": "iippp",
    "{real}_renew": "iiip",
    "{real}_steps_{bits}": "ip" + _EDGES + "ppprippppp",
    "{real}_begin": "iiipprppp",
    "{real}_end": "iipppp",
    "wide_{real}": "iii" + "ppppppp" + "iprpp",
    "around_{real}": "iii" + "pppppp" + "dippp",
    "arranged_{bits}": "ippppppp" + _EDGES,
    "solve_{bits}": "i" + _EDGES + "pppdippppp",
    "solve_{bits}_near": "ip" + _EDGES + "pppppdi" + "pppppppp" + "ppppppp",
    "solve_sums": "ippppp",
    "solve_advance": "idd" + "ppppppp",
    "pieces": "ippppippp",
    "paired": "ipppppppppp",
    "along": "ipppdp",
    "units": "iii" + "pppppp",
    "unit_sums": "iiii" + "ppppppp",
    "hidden": "iii" + "pppppp",
    "factor_pattern": "i" + "pppppppp",
    "factorize": "i" + "ppppp" + "d" + "ppppppppppp",
    "selected_inverse": "i" + "pppppppp" + "i" + "pp",
    "factor_solve": "i" + "pppppppp",
}
_TYPES = {"i": ctypes.c_int64, "p": ctypes.c_void_p, "d": ctypes.c_double}
_REALS = {"float": ctypes.c_float, "double": ctypes.c_double}

# OpenMP reads it when it is loaded, with the first tree library: threads that wait by spinning slow
# down each other and all other processes.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
_allowed: ContextVar[int] = ContextVar("allowed", default=1)
_pool: ThreadPoolExecutor | None = None
_forked = False
_limit: threadpool_limits | None = None


def _load() -> Any:
    """The library, or None if it was not built, or was built from another version of the source."""
    path = next((FOLDER / name for name in LIBRARIES if (FOLDER / name).exists()), None)
    if path is None:
        return None
    try:
        library = ctypes.CDLL(str(path))
        library.ebboost_sweep_version.restype = ctypes.c_int64
        if library.ebboost_sweep_version() != VERSION:
            return None
        for name, arguments in _SIGNATURES.items():
            for real, c_type in _REALS.items():
                for bits in (16, 32):
                    loop = getattr(library, "ebboost_" + name.format(real=real, bits=bits))
                    loop.argtypes = [(_TYPES | {"r": c_type})[letter] for letter in arguments]
                    loop.restype = None
    except (OSError, AttributeError):
        return None
    return library


COMPILED = _load()


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Allow sweeps and predicting trees this many threads within the block."""
    token = _allowed.set(count)
    try:
        yield
    finally:
        _allowed.reset(token)


def allowed_threads() -> int:
    """Return the number of threads of the innermost :func:`threads`, one outside of any."""
    return 1 if is_forked() else _allowed.get()


def is_forked() -> bool:
    """Return whether this is a forked process, after limiting OpenMP to one thread in it.

    OpenMP does not notice that its threads have not survived the fork, and would wait for them.
    """
    global _limit
    if _forked and _limit is None:
        _limit = threadpool_limits(1, user_api="openmp")
    return _forked


def by_threads(loop: Callable[..., None], ends: Sequence[int], arguments: Sequence[object]) -> None:
    """Run a loop over ``ends[i]`` to ``ends[i + 1]``, by a thread each and the last by this one."""
    *others, last = pairwise(ends)
    jobs = [_workers().submit(loop, *one, *arguments) for one in others]
    loop(*last, *arguments)
    for job in jobs:
        job.result()


def _workers() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(os.cpu_count(), "ebboost-sweep")
    return _pool


def _after_fork() -> None:
    global _pool, _forked
    _pool = None
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
