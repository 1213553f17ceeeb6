"""Number of usable threads: affinity, cgroups, OpenMP, joblib."""

import os
import threading
import warnings
from functools import cache

import joblib
from joblib.parallel import get_active_backend
from threadpoolctl import threadpool_info

from ebboost._native import is_forked
from ebboost.data.table import Table

#: Tables of fewer entries are trained with one thread: starting more costs more than they gain.
SINGLE_THREAD_ENTRIES = 4_000_000
#: Entries for each thread that grows trees. With 200 000 entries two threads take as long as one,
#: and where other processes use the cores, ten times as long: threads wait for each other.
ENTRIES_PER_THREAD = 250_000
#: LightGBM ends the process when it is asked for tens of thousands of threads.
MAX_THREADS = 4 * (os.cpu_count() or 1)


def threads_for(n_jobs: int | None, table: Table | None) -> int:
    """Return how many threads the parameter ``n_jobs`` stands for with this table."""
    if is_forked():
        return 1
    n_entries = 0 if table is None else table.values.size
    if n_jobs is None and is_small(table):
        return 1
    most = max_threads(n_jobs)
    return min(most, 1 + n_entries // ENTRIES_PER_THREAD) if n_jobs == -1 else most


def threads_to_grow(n_threads: int, table: Table) -> int:
    """Return how many of these threads grow trees on a table: few where it is small."""
    return min(n_threads, 1 + table.values.size // ENTRIES_PER_THREAD)


def is_small(table: Table | None) -> bool:
    """Return whether a table is trained faster by one thread than by several."""
    return table is None or table.values.size < SINGLE_THREAD_ENTRIES


def max_threads(n_jobs: int | None) -> int:
    """Return how many threads the parameter ``n_jobs`` allows."""
    if is_forked():
        return 1
    if n_jobs is None or n_jobs == -1:
        return usable(only_physical=n_jobs is None)
    return min(int(n_jobs), MAX_THREADS)


@cache
def physical_cores() -> int:
    """Return the number of physical cores; of logical ones, without a warning, if not known."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return int(joblib.cpu_count(only_physical_cores=True))


def usable(only_physical: bool = False) -> int:
    """Return the number of threads that this process may use.

    The cores that affinity and cgroup leave it (``joblib.cpu_count``), and no more than OpenMP may
    use: ``OMP_NUM_THREADS``, a surrounding ``threadpoolctl.threadpool_limits``, and the share that
    joblib gives its worker processes. A worker thread of joblib has one: its siblings use the
    others. With ``only_physical``, physical cores are counted rather than logical ones.

    Examples
    --------
    >>> from threadpoolctl import threadpool_limits
    >>> from ebboost.backends.threads import usable
    >>> with threadpool_limits(1):
    ...     usable()
    1
    """
    in_joblib = (get_active_backend()[0].nesting_level or 0) > 0
    if in_joblib and threading.current_thread() is not threading.main_thread():
        return 1
    cores = int(joblib.cpu_count())
    if only_physical:
        cores = min(cores, physical_cores())
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "openmp"]
    return min([cores, *(int(pool["num_threads"]) for pool in pools)])
