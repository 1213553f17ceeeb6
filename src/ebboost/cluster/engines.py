"""Where workers run: in this process, on a Dask cluster or on a Ray cluster."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ebboost.cluster.communicator import Alone
from ebboost.cluster.tables import shares_of
from ebboost.cluster.worker import Task
from ebboost.threads import max_threads

#: What workers raise that wait for one that has failed.
CONSEQUENCES = ("XGBoostError", "ConnectionError", "ConnectionResetError", "BrokenPipeError")
NOTICE_SECONDS = 10.0  # for other workers to notice that one has failed
POLL_SECONDS = 0.05


class Engine(ABC):
    """Runs a function in all workers at the same time."""

    @abstractmethod
    def run(self, function: Callable[..., Any], task: Task) -> list[Any]:
        """Return what ``function(communicator, task, share)`` returns in each worker, by rank.

        RuntimeError with the name of a worker that is lost.
        """


class Here(Engine):
    """All rows in this process."""

    def run(self, function: Callable[..., Any], task: Task) -> list[Any]:
        """Run the function on all rows; see :meth:`Engine.run`."""
        (share,) = shares_of(task.prepared, 1)
        n_jobs = None if task.estimator is None else task.estimator.n_jobs
        return [function(Alone(max_threads(n_jobs)), without_parts(task), share)]


def as_engine(engine: Any) -> Engine:
    """Return the engine for what a user passes."""
    if engine is None:
        return Here()
    if isinstance(engine, Engine):
        return engine
    if hasattr(engine, "scheduler_info") and hasattr(engine, "submit"):
        from ebboost.cluster.dask import Dask

        return Dask(engine)
    raise TypeError(
        "engine must be a distributed.Client, eb.cluster.Ray(n_workers), or None for this "
        f"process, got {engine!r}."
    )


def without_parts(task: Task) -> Task:
    """Return the task as workers get it: a share has the parts."""
    prepared = task.prepared
    nodes, edges = (replace(one, parts=()) for one in (prepared.nodes, prepared.edges))
    return replace(task, prepared=replace(prepared, nodes=nodes, edges=edges))


@dataclass
class Progress:
    """How far workers are."""

    is_done: bool
    errors: Mapping[str, Exception]
    lost: Sequence[str]


def watch(n_workers: int, look: Callable[[], Progress]) -> None:
    """Wait for all workers; raise if one fails or is lost, and say which and why."""
    deadline = np.inf
    while not (progress := look()).is_done:
        if progress.lost:
            raise RuntimeError(
                f"Lost the worker {' and '.join(progress.lost)}: it ended, was killed (out of "
                "memory?) or cannot be reached. Call fit again, with fewer workers if need be: "
                "with models=folder it takes the models that were finished from there."
            )
        for worker, error in progress.errors.items():
            if type(getattr(error, "cause", error)).__name__ not in CONSEQUENCES:
                error.add_note(f"This is from the worker {worker}.")
                raise error
        if progress.errors:  # others fail for want of one that does: wait for the cause
            deadline = min(deadline, time.monotonic() + NOTICE_SECONDS)
            if len(progress.errors) == n_workers or time.monotonic() > deadline:
                worker, error = next(iter(progress.errors.items()))
                raise RuntimeError(f"The worker {worker} lost the others: {error}") from error
        time.sleep(POLL_SECONDS)
