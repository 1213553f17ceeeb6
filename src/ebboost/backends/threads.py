"""How many threads this process may use, once everyone who has a say was asked."""

import threading

import joblib
from joblib.parallel import get_active_backend
from threadpoolctl import threadpool_info


def usable(only_physical: bool = False) -> int:
    """Return the number of threads that are ours to use.

    That is the cores that affinity and cgroup leave this process (``joblib.cpu_count``), and no more than OpenMP may use:
    ``OMP_NUM_THREADS``, a surrounding ``threadpoolctl.threadpool_limits``, and the share that joblib gives its worker
    processes. A worker thread of joblib has one: its siblings are at work on the others.

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
    cores = int(joblib.cpu_count(only_physical_cores=only_physical))
    return min(
        [
            cores,
            *(
                int(pool["num_threads"])
                for pool in threadpool_info()
                if pool["user_api"] == "openmp"
            ),
        ]
    )
