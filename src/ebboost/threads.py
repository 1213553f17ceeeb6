"""How many threads may be used: affinity, cgroups, OpenMP, joblib, forked processes."""

import os
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache

import joblib
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController, threadpool_limits

# OpenMP reads it when it is loaded, with the first tree library: threads that wait by spinning slow
# down each other and all other processes.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
#: LightGBM ends the process when it is asked for tens of thousands of threads.
MAX_THREADS = 4 * (os.cpu_count() or 1)
_allowed: ContextVar[int] = ContextVar("allowed", default=1)
_pool: ThreadPoolExecutor | None = None
_forked = False
_limit: threadpool_limits | None = None


def max_threads(n_jobs: int | None) -> int:
    """Return how many threads the parameter ``n_jobs`` allows; None: the physical cores."""
    if is_forked():
        return 1
    if n_jobs is not None and n_jobs != -1:
        return min(int(n_jobs), MAX_THREADS)
    in_joblib = (get_active_backend()[0].nesting_level or 0) > 0
    if in_joblib and threading.current_thread() is not threading.main_thread():
        return 1  # the siblings of this worker use the other cores
    cores = int(joblib.cpu_count())
    if n_jobs is None:
        cores = min(cores, _physical_cores())
    controller = _controller(len(sys.modules))
    pools = [pool for pool in controller.info() if pool["user_api"] == "openmp"]
    return min([cores, *(int(pool["num_threads"]) for pool in pools)])


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """The libraries with threads; finding them takes milliseconds, so only after an import."""
    return ThreadpoolController()


@cache
def _physical_cores() -> int:
    with warnings.catch_warnings():  # where they are not known, logical ones are counted
        warnings.simplefilter("ignore", UserWarning)
        return int(joblib.cpu_count(only_physical_cores=True))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Allow sweeps over the edges and predicting trees this many threads within the block."""
    token = _allowed.set(count)
    try:
        yield
    finally:
        _allowed.reset(token)


def allowed_threads() -> int:
    """Return the number of threads of the innermost :func:`threads`, one outside of any."""
    return 1 if is_forked() else _allowed.get()


def workers() -> ThreadPoolExecutor:
    """Return the pool of threads that sweep over the edges."""
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(os.cpu_count(), "ebboost")
    return _pool


def is_forked() -> bool:
    """Return whether this is a forked process, after limiting OpenMP to one thread in it.

    OpenMP does not notice that its threads have not survived the fork, and would wait for them.
    """
    global _limit
    if _forked and _limit is None:
        _limit = threadpool_limits(1, user_api="openmp")
    return _forked


def _after_fork() -> None:
    global _pool, _forked
    _pool = None
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
