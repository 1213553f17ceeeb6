"""Functions that run in a Dask worker: its communicator, its memory, its messages to the client."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ebboost.backends.dask.cluster import Membership
from ebboost.backends.dask.collectives import DaskCollective


@dataclass(frozen=True)
class EventStream:
    """A text stream that ends at the client, by way of the scheduler."""

    topic: str
    is_terminal: bool

    def isatty(self) -> bool:
        """Return whether the client is a terminal."""
        return self.is_terminal

    def write(self, text: str) -> None:
        """Send the text."""
        from distributed import get_worker

        get_worker().log_event(self.topic, text)

    def flush(self) -> None:
        """Do nothing: every text is sent at once."""


@contextmanager
def communicator(membership: Membership) -> Iterator[DaskCollective]:
    """Join the other workers under XGBoost's tracker."""
    from xgboost.collective import CommunicatorContext

    # Ranks go by the order of these names; numbers of one length sort as numbers do.
    task_id = f"{membership.rank:09d}"
    with CommunicatorContext(**membership.tracker, dmlc_task_id=task_id, dmlc_retry=1):
        collective = DaskCollective(membership.fit)
        try:
            yield collective
        finally:
            collective.close()


def release_memory() -> None:
    """Return memory that nothing uses to the system: that of files which were read above all."""
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # another system
        ctypes.CDLL("libc.so.6").malloc_trim(0)


@contextmanager
def reuse_memory() -> Iterator[None]:
    """Keep freed memory in the process during training.

    Dask has its workers return memory to the system at once, so that every new array is cleared
    page by page: that took half the time of a round.
    """
    # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD and M_MMAP_MAX of glibc
    trim_threshold, mmap_threshold, mmap_max = -1, -3, -4
    release_memory()
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(trim_threshold, 1 << 30)
        libc.mallopt(mmap_threshold, 32 << 20)  # the largest that glibc accepts
        libc.mallopt(mmap_max, 0)  # larger arrays: a tenth of a round of 5 million nodes
    except (OSError, AttributeError):  # another system
        yield
        return
    try:
        yield
    finally:
        usual = 128 << 10
        libc.mallopt(trim_threshold, int(os.environ.get("MALLOC_TRIM_THRESHOLD_") or usual))
        libc.mallopt(mmap_threshold, usual)
        libc.mallopt(mmap_max, 65_536)
        libc.malloc_trim(0)


def is_cancelled() -> bool:
    """Return whether the client has cancelled the fit: after Ctrl-C or the loss of a worker."""
    from distributed import get_worker

    worker = get_worker()
    task = worker.state.tasks.get(worker.get_current_task())
    return task is None or task.state == "cancelled"
