"""The client's side of a fit on a cluster: location of the rows, lost workers."""

import time
from collections.abc import Callable, Mapping
from threading import Thread
from typing import Any

import numpy as np

from ebboost.backends.dask.collections import row_blocks
from ebboost.backends.dask.sharding import GraphRows, Rows, Shard
from ebboost.data.table import Table
from ebboost.data.types import TableLike
from ebboost.graph import Graph

#: Graphs of up to so many weights are copied to every worker: a sweep over all of the graph takes
#: less time than a reduction among the workers.
MAX_REPLICATED_WEIGHTS = 2_000_000
#: Seconds between two looks at the workers, and for the others to notice that one is lost.
POLL_SECONDS = 0.05
NOTICE_SECONDS = 10.0


class Cluster:
    """A Dask dataframe or array spread over workers; row i of its blocks in order is node i."""

    def __init__(self, X: TableLike) -> None:
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
        #: An empty table with the same columns and the number of rows.
        names = [str(name) for name in getattr(X, "columns", range(X.shape[1]))]
        empty = np.zeros((0, len(names)))
        self.outline: Table = Shard(empty, tuple(names), rows=Rows((), self.n_rows))

    def _locate(self, X: TableLike) -> None:
        """Have the blocks computed, and record which worker has which rows."""
        import distributed

        blocks = self.client.compute(np.ravel(X.to_delayed()).tolist())
        distributed.wait(blocks)
        lengths = self.client.gather(self.client.map(_length, blocks, pure=False))
        ends = np.cumsum(lengths).tolist()
        self.n_rows = ends[-1] if ends else 0
        if not self.n_rows:
            raise ValueError("X has no rows.")
        holders = self.client.who_has(blocks)
        self.blocks: dict[str, list[Any]] = {}
        ranges: dict[str, list[tuple[int, int]]] = {}
        for block, length, end in zip(blocks, lengths, ends, strict=True):
            if length:
                worker = min(holders[block.key])
                self.blocks.setdefault(worker, []).append(block)
                ranges.setdefault(worker, []).append((end - length, end))
        #: The workers that have rows, and which.
        self.rows = {one: Rows(tuple(own), self.n_rows) for one, own in sorted(ranges.items())}

    def run(
        self,
        function: Callable[..., Any],
        task: object,
        graph: Graph | None,
        replicate_graph: bool,
        listeners: Mapping[str, Callable[..., None]],
    ) -> list[Any]:
        """Run a function in every worker that has rows, all at the same time.

        It is called with (n_threads, task, blocks, rows, graph, rank, address). ``replicate_graph``
        sends all of a graph to every worker, however large; ``listeners`` are functions for the
        events of a topic. Returns what each worker returns, in the order of their ranks.
        """
        from distributed import MultiLock

        client = self.client
        workers = list(self.rows)
        graphs = self._scatter_graph(graph, replicate_graph)
        shared = client.scatter(task, broadcast=True, hash=False)
        # Two fits that each hold some of the workers would wait for each other.
        with MultiLock(workers, client):
            tracker = client.submit(start_tracker, len(workers), workers=workers[0], pure=False)
            address = tracker.result()
            options = {"allow_other_workers": False, "retries": 0, "pure": False}
            futures = {}
            for rank, (worker, rows) in enumerate(self.rows.items()):
                own = (shared, self.blocks[worker], rows, graphs[worker], rank, address)
                futures[worker] = client.submit(_call, function, *own, workers=[worker], **options)
            try:
                for topic, listener in listeners.items():
                    client.subscribe_topic(topic, listener)
                return self._wait(futures)
            except Exception:
                self._wait_for_others(futures)
                raise
            finally:
                client.cancel(list(futures.values()))
                for topic in listeners:
                    client.unsubscribe_topic(topic)

    def _scatter_graph(self, graph: Graph | None, replicate: bool) -> dict[str, Any]:
        """The graph of each worker: all of it, or its rows."""
        client = self.client
        if graph is None:
            return dict.fromkeys(self.rows)
        if replicate or graph.adjacency.nnz <= MAX_REPLICATED_WEIGHTS:
            return dict.fromkeys(self.rows, client.scatter(graph, broadcast=True, hash=False))
        return {
            worker: client.scatter(GraphRows.cut(graph, rows), workers=[worker], hash=False)
            for worker, rows in self.rows.items()
        }

    def _wait(self, futures: dict[str, Any]) -> list[Any]:
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
                if type(error).__name__ != "XGBoostError":
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
        results: list[Any] = self.client.gather(list(futures.values()))
        return results

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


def start_tracker(count: int) -> dict[str, Any]:
    """Start XGBoost's tracker in this worker, where ``count`` workers find each other."""
    from distributed import get_worker
    from distributed.comm import get_address_host
    from xgboost.tracker import RabitTracker

    tracker = RabitTracker(count, get_address_host(get_worker().address), sortby="task")
    tracker.start()
    Thread(target=tracker.wait_for, daemon=True).start()  # until the last worker has left
    address: dict[str, Any] = tracker.worker_args()
    return address


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    from distributed import get_worker

    return function(get_worker().state.nthreads, *arguments)
