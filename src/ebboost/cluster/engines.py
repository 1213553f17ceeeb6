"""Where workers run: in this process, on a Dask cluster or on a Ray cluster."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ebboost.cluster.communicator import Alone
from ebboost.cluster.tables import shares_of
from ebboost.cluster.worker import Task
from ebboost.threads import max_threads

#: What workers raise that wait for one that has failed.
CONSEQUENCES = ("XGBoostError", "ConnectionError", "ConnectionResetError", "BrokenPipeError")
NOTICE_SECONDS = 10.0  # for other workers to notice that one has failed


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


def lost(worker: str, others: str) -> RuntimeError:
    """Return the error for a worker whose process has ended."""
    return RuntimeError(
        f"Lost the worker {worker}: its process ended, was killed (out of memory?) or cannot be "
        f"reached. Call fit again, {others}; with models=folder it takes the models that were "
        "finished from there."
    )
