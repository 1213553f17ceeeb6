"""The user's side of a fit on a cluster: where the rows are, who trains, and what to say when a worker is lost."""

import copy
import sys
import time
from collections.abc import Sequence
from numbers import Integral
from threading import Thread
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from ebboost.backends.dask.sharding import GraphRows, Rows, Shard
from ebboost.backends.dask.worker import Screen, Task, WorkerResult, train
from ebboost.boosting.callbacks import Callback
from ebboost.boosting.latent_field import LatentField
from ebboost.data.labels import Labels
from ebboost.data.pipeline import FeaturePipeline
from ebboost.data.reader import TableReader
from ebboost.data.table import Table
from ebboost.graph import Graph
from ebboost.learners import Ensemble, XGBoost, as_learner
from ebboost.training.checkpoint import as_checkpoint

#: Up to this many weights of its adjacency a graph is given to every worker as a whole: sweeping it alone takes less time
#: than asking the others.
WHOLE_UP_TO = 2_000_000
# Seconds between two looks at the workers, and until those that are left must have noticed that one is lost.
LOOK_EVERY, NOTICE_WITHIN = 0.05, 10.0


def is_dask(X: Any) -> bool:
    """Whether this is a collection of Dask's, without importing it."""
    return type(X).__module__.partition(".")[0] == "dask"


def gathered(*values: Any) -> tuple[Any, ...]:
    """What is small, such as labels and weights, as ordinary arrays."""
    return tuple(
        gathered(*value)
        if isinstance(value, tuple)
        else value.compute()
        if is_dask(value)
        else value
        for value in values
    )


class Cluster:
    """A table spread over the workers of a Dask cluster: row i of its blocks, one after the other, is node i.

    Parameters
    ----------
    X : dask dataframe or array
    learner : str or Learner
        As the estimator was given it; all workers grow its trees together, which XGBoost's alone can.
    checkpoint, resume
        As ``fit`` was given them.
    """

    def __init__(self, X: Any, learner: Any, checkpoint: Any = None, resume: bool = False) -> None:
        try:
            import distributed
        except ImportError:
            raise ImportError(
                "X is a Dask collection: training on it needs pip install 'ebboost[dask]'."
            ) from None
        self.learner = as_learner(learner)
        if not isinstance(self.learner, XGBoost):
            raise ValueError(
                f"X is a Dask collection, and on a cluster only XGBoost grows trees: use learner='xgboost' or "
                f"eb.XGBoost(...), got learner={learner!r}; or pass X.compute()."
            )
        try:
            self.client = distributed.get_client()
        except ValueError:
            raise ValueError(
                "X is a Dask collection, but there is no Dask client to train with: start one with "
                "client = distributed.Client(...), or pass X.compute()."
            ) from None
        if checkpoint is None and resume:
            raise ValueError("resume=True needs to know where: pass checkpoint=folder too.")
        self._checkpoint = None if checkpoint is None else as_checkpoint(checkpoint)
        self._resume = resume
        X = _in_rows(X)
        self._place(X)
        #: An empty table with the same columns, and one that says how many rows there are.
        self.columns = X._meta
        names = [str(name) for name in getattr(X, "columns", range(X.shape[1]))]
        self.outline: Table = Shard(
            np.zeros((0, len(names))), tuple(names), rows=Rows((), self.n_rows)
        )

    @property
    def keeps(self) -> bool:
        """Whether there will be checkpoints."""
        return self._checkpoint is not None

    def _place(self, X: Any) -> None:
        """Have the blocks computed, and note which worker has which rows."""
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
        self.rows = {
            worker: Rows(tuple(mine), self.n_rows) for worker, mine in sorted(ranges.items())
        }

    def train(
        self,
        estimator: Any,
        training: Labels,
        validation: Labels | None,
        seed: int,
        callbacks: Sequence[Callback],
        fingerprint: dict[str, Any],
    ) -> NDArray[np.float64] | None:
        """Train on the workers that have rows, and put what they found on the estimator; returns out-of-fold predictions."""
        from distributed import MultiLock

        if estimator.device != "cpu":
            raise ValueError(
                f"device={estimator.device!r} is for one machine: on a cluster use device='cpu'."
            )
        if self.keeps and not isinstance(estimator.random_state, Integral):
            raise ValueError(
                "On a cluster a checkpoint needs random_state to be a number: another is drawn each time."
            )
        client, workers = self.client, list(self.rows)
        sent = copy.copy(estimator)
        sent.learner, graph, sent.graph_ = self.learner, sent.graph_, None
        screen = Screen(f"ebboost-{uuid4()}", sys.stderr.isatty()) if estimator.verbose else None
        task = Task(
            sent,
            training,
            validation,
            seed,
            callbacks,
            screen,
            self._checkpoint,
            self._resume,
            fingerprint,
        )
        graphs = self._spread(graph, estimator)
        everything = client.scatter(task, broadcast=True, hash=False)
        with MultiLock(
            workers, client
        ):  # two fits that each hold some of the workers would wait for ever
            address = client.submit(
                _meeting_place, len(workers), workers=workers[0], pure=False
            ).result()
            only = {"allow_other_workers": False, "retries": 0, "pure": False}
            futures = {}
            for rank, (worker, rows) in enumerate(self.rows.items()):
                own = everything, self.blocks[worker], rows, graphs[worker], rank, address
                futures[worker] = client.submit(_in_worker, *own, workers=[worker], **only)
            try:
                if screen is not None:
                    client.subscribe_topic(screen.topic, _show)
                found = self._watched(futures)
            except Exception:
                self._left_alone(futures)
                raise
            finally:
                client.cancel(list(futures.values()))
                if screen is not None:
                    client.unsubscribe_topic(screen.topic)
        if len({one.digest for one in found}) > 1:
            raise RuntimeError(
                "The workers ended with different trees, which should never be: do all of them run the same versions of "
                "ebboost, numpy and xgboost?"
            )
        first = found[0]
        for name, value in first.attributes.items():
            setattr(estimator, name, value)
        for mine, theirs in zip(callbacks, first.callbacks, strict=True):
            vars(mine).update(vars(theirs))
        estimator.cluster_ = first.traffic
        estimator._fitted_table = estimator._fitted_columns = None  # nowhere as a whole
        return first.out_of_fold

    def _spread(self, graph: Graph | None, estimator: Any) -> dict[str, Any]:
        """The graph as each worker gets it: as a whole, or its rows."""
        client = self.client
        if graph is None:
            return dict.fromkeys(self.rows)
        # Weights that depend on the scores, and nodes compared by their neighbours, need more than some rows.
        labels = estimator.labels
        asks_for_all = not getattr(estimator.smoothing, "linear", True) or (
            isinstance(labels, LatentField) and labels.similarity
        )
        if asks_for_all or graph.adjacency.nnz <= WHOLE_UP_TO:
            return dict.fromkeys(self.rows, client.scatter(graph, broadcast=True, hash=False))
        return {
            worker: client.scatter(GraphRows.cut(graph, rows), workers=[worker], hash=False)
            for worker, rows in self.rows.items()
        }

    def _watched(self, futures: dict[str, Any]) -> list[WorkerResult]:
        """Wait for all workers; when one fails or is lost, say which and why."""
        n_iter_no_change = time.monotonic() + np.inf
        while any(future.status != "finished" for future in futures.values()):
            lost = sorted(set(futures) - set(self.client.nthreads()))
            if lost:
                raise RuntimeError(
                    f"Lost the worker {' and '.join(lost)} during the fit: its process ended, was killed (out of memory?) "
                    "or cannot be reached. Fit again, with resume=True if there is a checkpoint: those that are left take "
                    "over its rows."
                )
            errors = {
                worker: future.exception()
                for worker, future in futures.items()
                if future.status == "error"
            }
            for worker, error in errors.items():
                if type(error).__name__ != "XGBoostError":
                    error.add_note(
                        f"This is from the worker {worker}; it counts the rows of each block of X from 0."
                    )
                    raise error
            # One that fails leaves the others in the middle of a sum, and what they say then is not what went wrong.
            n_iter_no_change = (
                min(n_iter_no_change, time.monotonic() + NOTICE_WITHIN)
                if errors
                else n_iter_no_change
            )
            if errors and (len(errors) == len(futures) or time.monotonic() > n_iter_no_change):
                worker, error = next(iter(errors.items()))
                raise RuntimeError(
                    f"The worker {worker} lost the others during the fit: {error}"
                ) from error
            time.sleep(LOOK_EVERY)
        found: list[WorkerResult] = self.client.gather(list(futures.values()))
        return found

    def _left_alone(self, futures: dict[str, Any]) -> None:
        """Wait for the other workers to notice, so that they and a folder of checkpoints are free for another fit."""
        until = time.monotonic() + NOTICE_WITHIN
        while time.monotonic() < until:
            there = self.client.nthreads()
            if not any(
                future.status == "pending" for worker, future in futures.items() if worker in there
            ):
                return
            time.sleep(LOOK_EVERY)


def _in_rows(X: Any) -> Any:
    """The collection in blocks that each hold whole rows."""
    if X.ndim != 2:
        raise ValueError(f"X must be two-dimensional, one row per node, got {X.ndim} dimension(s).")
    return X.rechunk({1: -1}) if len(getattr(X, "chunks", ((), ()))[1]) > 1 else X


def _length(block: Any) -> int:
    return int(block.shape[0])


def _show(event: tuple[float, str]) -> None:
    sys.stderr.write(event[1])
    sys.stderr.flush()


def _meeting_place(count: int) -> dict[str, Any]:
    """Start XGBoost's tracker in this worker: as many find each other there."""
    from distributed import get_worker
    from distributed.comm import get_address_host
    from xgboost.tracker import RabitTracker

    tracker = RabitTracker(count, get_address_host(get_worker().address), sortby="task")
    tracker.start()
    Thread(target=tracker.wait_for, daemon=True).start()  # until the last has left
    found: dict[str, Any] = tracker.worker_args()
    return found


def _in_worker(*arguments: Any) -> WorkerResult:
    from distributed import get_worker

    return train(get_worker().state.nthreads, *arguments)


def scores_of(X: Any, model: Any) -> NDArray[np.float64]:
    """Return the trees' scores of a Dask collection, computed where its blocks are."""
    import dask

    scores = dask.delayed(_scores)
    blocks = np.ravel(_in_rows(X).to_delayed()).tolist()
    parts = [dask.delayed(part) for part in (model._reader, model._preparation, model.ensemble_)]
    found = dask.compute([scores(block, *parts) for block in blocks])[0]
    return np.concatenate([block for block in found if block is not None])


def _scores(
    block: Any, reader: TableReader, preparation: FeaturePipeline, ensemble: Ensemble
) -> Any:
    if not _length(block):
        return None
    return ensemble.predict(preparation.apply(reader.read(block), None))
