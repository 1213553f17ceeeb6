"""The client's side of a fit on a cluster: which worker has which rows, lost workers."""

import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from threading import Thread
from typing import Any
from uuid import uuid4

import numpy as np

from ebboost.backends.dask.collections import is_dask, row_blocks
from ebboost.backends.dask.sharding import Partition
from ebboost.data.table import Table
from ebboost.data.types import TableLike

#: Seconds between two looks at the workers, and for the others to notice that one is lost.
POLL_SECONDS = 0.05
NOTICE_SECONDS = 10.0
#: What workers raise that wait for one that has failed.
LOST_ERRORS = ("XGBoostError", "ConnectionError", "ConnectionResetError", "BrokenPipeError")


@dataclass(frozen=True)
class Outline(Table):
    """The columns of a table and its number of rows, without them."""

    rows: int = 0

    @property
    def n_rows(self) -> int:
        """Number of rows of all workers."""
        return self.rows

    @property
    def on_disk(self) -> bool:
        """Whether the values are elsewhere."""
        return True


@dataclass(frozen=True)
class Membership:
    """Where a worker finds the others."""

    rank: int
    partition: Partition
    tracker: Mapping[str, Any]
    fit: str
    n_threads: int = 1


class Cluster:
    """A Dask dataframe or array spread over workers; row i of its blocks in order is node i."""

    def __init__(self, X: TableLike) -> None:
        if not is_dask(X):
            raise TypeError(f"X must be a Dask dataframe or array, got {type(X)}.")
        try:
            import distributed
        except ImportError:
            raise ImportError(
                "X is a Dask collection: training on it needs pip install distributed xgboost-cpu."
            ) from None
        try:
            self.client = distributed.get_client()
        except ValueError:
            raise ValueError(
                "X is a Dask collection, but there is no Dask client to train with: start one with "
                "client = distributed.Client(...), or pass X.compute()."
            ) from None
        X = row_blocks(X)
        self._locate(X)
        names = tuple(str(name) for name in getattr(X, "columns", range(X.shape[1])))
        #: The columns and the number of rows.
        self.outline: Table = Outline(np.zeros((0, len(names))), names, rows=self.n_rows)

    def _locate(self, X: TableLike) -> None:
        """Have the blocks computed, successive ones by one worker, and record its rows."""
        import distributed

        delayed = np.ravel(X.to_delayed()).tolist()
        workers = sorted(self.client.nthreads())[: len(delayed)]
        shares = np.array_split(np.arange(len(delayed)), len(workers))
        blocks: dict[str, list[Any]] = {}
        for worker, share in zip(workers, shares, strict=True):
            own = [delayed[block] for block in share]
            blocks[worker] = self.client.compute(own, workers=[worker], allow_other_workers=False)
        distributed.wait([block for own in blocks.values() for block in own])
        lengths = {
            worker: self.client.gather(self.client.map(_length, own, pure=False))
            for worker, own in blocks.items()
        }
        #: The blocks of each worker that has rows.
        self.blocks: dict[str, list[Any]] = {}
        ranges: dict[str, list[tuple[int, int]]] = {}
        end = 0
        for worker, own in blocks.items():
            for block, length in zip(own, lengths[worker], strict=True):
                if length:
                    self.blocks.setdefault(worker, []).append(block)
                    ranges.setdefault(worker, []).append((end, end + length))
                    end += length
        if not end:
            raise ValueError("X has no rows.")
        self.n_rows = end
        self.partition = Partition(tuple(map(tuple, ranges.values())))

    def with_blocks(self, futures: Sequence[Any]) -> "Cluster":
        """Return the same workers and rows, with results of :meth:`run` as the blocks."""
        other = copy(self)
        other.blocks = {
            worker: [future] for worker, future in zip(self.blocks, futures, strict=True)
        }
        return other

    def stack(self, futures: Sequence[Any], name: str | None, n_columns: int) -> Any:
        """Return results that stay on the workers, or an attribute of them, as a Dask array.

        Its blocks have the rows of those of X, so that it is a column of X.
        """
        import dask
        import dask.array

        read = dask.delayed(getattr)
        values = [dask.delayed(one) if name is None else read(one, name) for one in futures]
        arrays = [
            dask.array.from_delayed(value, (length, n_columns), np.float64)
            for value, length in zip(values, self.partition.lengths, strict=True)
        ]
        ranges = [block for own in self.partition.ranges for block in own]
        chunks = tuple(stop - start for start, stop in ranges)
        return dask.array.concatenate(arrays).rechunk((chunks, n_columns))

    def split(self, name: str, values: Any) -> list[Any]:
        """Return the rows of a column for each worker, in parts: blocks, or a slice of an array."""
        if values is None:
            return [None] * len(self.blocks)
        if is_dask(values):
            return self._split_blocks(name, values)
        array = np.asarray(values)
        if not array.ndim:
            raise TypeError(
                f"{name} must be a Dask column, or an array with {self.n_rows} entries, got "
                f"{values!r}."
            )
        if len(array) != self.n_rows or (array.ndim > 1 and name != "coordinates"):
            raise ValueError(f"{name} must have {self.n_rows} entries, got shape {array.shape}.")
        parts = [self.partition.select(rank, array) for rank in range(len(self.blocks))]
        return [
            [self.client.scatter(part, workers=[worker], hash=False)]
            for worker, part in zip(self.blocks, parts, strict=True)
        ]

    def _split_blocks(self, name: str, values: Any) -> list[Any]:
        """The rows of a Dask column for each worker, whose blocks may be others than those of X."""
        client = self.client
        blocks = client.compute(np.ravel(values.to_delayed()).tolist())
        ends = np.cumsum(client.gather(client.map(_length, blocks, pure=False))).tolist()
        if ends[-1] != self.n_rows:
            raise ValueError(f"{name} must have {self.n_rows} entries, got {ends[-1]}.")
        parts: list[list[Any]] = []
        for worker, ranges in zip(self.blocks, self.partition.ranges, strict=True):
            parts.append([])
            for start, stop in ranges:
                for block, first, last in zip(blocks, [0, *ends[:-1]], ends, strict=True):
                    rows = (max(start, first) - first, min(stop, last) - first)
                    if rows[0] < rows[1]:
                        options = {"workers": [worker], "pure": False}
                        parts[-1].append(client.submit(_rows, block, *rows, **options))
        return parts

    def run(
        self,
        function: Callable[..., Any],
        tasks: Sequence[Any],
        columns: Mapping[str, Sequence[Any]],
        listeners: Mapping[str, Callable[..., None]],
    ) -> list[Any]:
        """Run a function in every worker that has rows, all at the same time.

        It is called with its own of the tasks, the blocks of its rows, the parts of its ``columns``
        and its membership. ``listeners`` are functions for the events of a topic. Returns futures
        in the order of the ranks.
        """
        from distributed import MultiLock

        client = self.client
        workers = list(self.blocks)
        # Two fits that each hold some of the workers would wait for each other.
        with MultiLock(workers, client):
            tracker = client.submit(start_tracker, len(workers), workers=workers[0], pure=False)
            address = tracker.result()
            fit = str(uuid4())
            options = {"allow_other_workers": False, "retries": 0, "pure": False}
            futures = {}
            for rank, (worker, task) in enumerate(zip(workers, tasks, strict=True)):
                membership = Membership(rank, self.partition, address, fit)
                own = client.scatter(task, workers=[worker], hash=False)
                rows = {name: parts[rank] for name, parts in columns.items()}
                arguments = (function, own, self.blocks[worker], rows, membership)
                futures[worker] = client.submit(_call, *arguments, workers=[worker], **options)
            try:
                for topic, listener in listeners.items():
                    client.subscribe_topic(topic, listener)
                self._wait(futures)
                return list(futures.values())
            except BaseException as error:
                if isinstance(error, Exception):
                    self._wait_for_others(futures)
                client.cancel(list(futures.values()))
                raise
            finally:
                for topic in listeners:
                    client.unsubscribe_topic(topic)

    def _wait(self, futures: dict[str, Any]) -> None:
        """Wait for all workers; raise if one fails or is lost, and say which and why."""
        deadline = np.inf
        while any(future.status != "finished" for future in futures.values()):
            missing = sorted(set(futures) - set(self.client.nthreads()))
            if missing:
                raise RuntimeError(
                    f"Lost the worker {' and '.join(missing)} during the fit: its process ended, "
                    "was killed (out of memory?) or cannot be reached. Fit again, with resume=True "
                    "if there is a checkpoint: the remaining workers take over its rows."
                )
            failed = {one: future for one, future in futures.items() if future.status == "error"}
            errors = {worker: future.exception() for worker, future in failed.items()}
            for worker, error in errors.items():
                if type(error).__name__ not in LOST_ERRORS:
                    error.add_note(
                        f"This is from the worker {worker}; it counts the rows of each block of X "
                        "from 0."
                    )
                    raise error
            # One that fails leaves the others in the middle of a reduction, whose errors then hide
            # the cause: wait for it.
            if errors:
                deadline = min(deadline, time.monotonic() + NOTICE_SECONDS)
            if errors and (len(errors) == len(futures) or time.monotonic() > deadline):
                worker, error = next(iter(errors.items()))
                raise RuntimeError(
                    f"The worker {worker} lost the others during the fit: {error}"
                ) from error
            time.sleep(POLL_SECONDS)

    def _wait_for_others(self, futures: dict[str, Any]) -> None:
        """Wait until the other workers have noticed, so that they are free for another fit."""
        deadline = time.monotonic() + NOTICE_SECONDS
        while time.monotonic() < deadline:
            alive = self.client.nthreads()
            pending = [worker for worker, future in futures.items() if future.status == "pending"]
            if not any(worker in alive for worker in pending):
                return
            time.sleep(POLL_SECONDS)


def _length(block: TableLike) -> int:
    return int(block.shape[0])


def _rows(block: Any, start: int, stop: int) -> Any:
    return np.asarray(block)[start:stop]


def start_tracker(count: int) -> dict[str, Any]:
    """Start XGBoost's tracker in this worker, where ``count`` workers find each other."""
    from distributed import get_worker
    from distributed.comm import get_address_host
    from xgboost.tracker import RabitTracker

    tracker = RabitTracker(count, get_address_host(get_worker().address), sortby="task")
    tracker.start()
    Thread(target=tracker.wait_for, daemon=True).start()  # until the last worker has left
    return tracker.worker_args()


def _call(
    function: Callable[..., Any], task: Any, blocks: Any, columns: Any, membership: Membership
) -> Any:
    from distributed import get_worker

    return function(
        task, blocks, columns, replace(membership, n_threads=get_worker().state.nthreads)
    )
