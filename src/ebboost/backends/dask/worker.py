"""One worker of a fit: reads its rows, joins the others and runs the estimator's own training on them."""

import copy
import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.backends.dask.collectives import Collective
from ebboost.backends.dask.sharding import BlockGraph, GraphRows, Rows, Shard
from ebboost.backends.devices import Cpu
from ebboost.boosting.callbacks import Callback, ProgressBar, RoundInfo
from ebboost.boosting.iterate import Iterate
from ebboost.data.labels import Labels
from ebboost.data.reader import TableReader
from ebboost.data.table import Table
from ebboost.graph import Graph
from ebboost.learners import Ensemble, Learner, TreeGrower, XGBoost
from ebboost.propagation import threads
from ebboost.training.checkpoint import (
    Checkpoint,
    CheckpointCallback,
    checkpoint_session,
    fingerprint_of,
)

Array = NDArray[np.float64]
#: What a fit leaves on the estimator that only the workers know.
FOUND = (
    "best_candidate_",
    "selection_",
    "smoothing_",
    "labels_",
    "ensemble_",
    "init_score_",
    "scores_",
    "propagated_scores_",
    "n_iter_",
    "history_",
    "stop_reason_",
    "_preparation",
    "_column_origin",
    "_reader",
    "_from_disk",
)


@dataclass(frozen=True)
class Screen:
    """A stream that ends where the user sits, by way of the scheduler."""

    topic: str
    terminal: bool

    def isatty(self) -> bool:
        """Whether the user sits at a terminal."""
        return self.terminal

    def write(self, text: str) -> None:
        """Send the text on its way."""
        from distributed import get_worker

        get_worker().log_event(self.topic, text)

    def flush(self) -> None:
        """Every text is sent at once."""


@dataclass(frozen=True)
class Task:
    """What all workers of a fit are told alike."""

    estimator: Any
    training: Labels
    validation: Labels | None
    seed: int
    callbacks: Sequence[Callback]
    screen: Screen | None
    checkpoint: Checkpoint | None
    resume: bool
    fingerprint: dict[str, Any]


@dataclass(frozen=True)
class WorkerResult:
    """What a worker reports: the first one all that was found, and each one a digest of the trees it holds."""

    digest: str
    attributes: dict[str, Any]
    out_of_fold: Array | None
    callbacks: Sequence[Callback]
    traffic: dict[str, int]


def train(
    n_threads: int,
    task: Task,
    parts: Sequence[Any],
    rows: Rows,
    graph: Graph | GraphRows | None,
    rank: int,
    address: dict[str, Any],
) -> WorkerResult:
    """Train together with the workers that meet at ``address``; runs in each of them at the same time."""
    from xgboost.collective import CommunicatorContext

    with ExitStack() as stack:
        # Ranks go by the order of these names; numbers of one length sort as numbers do.
        stack.enter_context(
            CommunicatorContext(**address, dmlc_task_id=f"{rank:09d}", dmlc_retry=1)
        )
        peers = Collective()
        estimator, watchers = copy.copy(task.estimator), _watchers(task, peers)
        estimator._peers, estimator.verbose, estimator.n_jobs = (
            peers,
            0,
            estimator.n_jobs or n_threads,
        )
        estimator.learner = DistributedXGBoost(estimator.learner, peers)
        estimator.graph_ = BlockGraph(graph, rows, peers) if isinstance(graph, GraphRows) else graph
        estimator._reader, table = _read(parts, rows, estimator.categorical_features, peers)
        keeper = _keeper(task, table, estimator._reader, peers, stack)
        stack.enter_context(_memory_used_again())
        with threads(estimator._threads(table)):
            out_of_fold = estimator._train(
                table, task.training, task.validation, task.seed, watchers, keeper, Cpu()
            )
    digest = sha256(b"".join(estimator.ensemble_.files().values())).hexdigest()
    if rank:
        return WorkerResult(digest, {}, None, (), {})
    attributes = {name: getattr(estimator, name) for name in FOUND}
    traffic = {"n_workers": peers.count, "calls": peers.calls, "bytes": peers.sent}
    return WorkerResult(digest, attributes, out_of_fold, task.callbacks, traffic)


@contextmanager
def _memory_used_again() -> Iterator[None]:
    """Let arrays take the places of those before them.

    Dask has its workers give memory back as soon as it is free, so that every array the loop makes would come from the
    system, which clears it page by page: that took half the time of a round.
    """
    trim, large = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(trim, 1 << 30)
        libc.mallopt(large, 32 << 20)  # the most there is
    except (OSError, AttributeError):  # another system
        yield
        return
    try:
        yield
    finally:
        usual = 128 << 10
        libc.mallopt(trim, int(os.environ.get("MALLOC_TRIM_THRESHOLD_") or usual))
        libc.mallopt(large, usual)
        libc.malloc_trim(0)


def _keeper(
    task: Task, table: Shard, reader: TableReader, peers: Collective, stack: ExitStack
) -> CheckpointCallback | None:
    """What writes checkpoints, in the first worker, and what all of them take up again."""
    if task.checkpoint is None:
        return None
    keeper = (
        stack.enter_context(checkpoint_session(task.checkpoint, task.resume))
        if peers.rank == 0
        else None
    )
    read = peers.allgather_objects(None if keeper is None else keeper.read)[0]
    if keeper is None:
        keeper = Follower(task.checkpoint, *read)
    keeper.same(
        task.fingerprint | {"X": fingerprint_of(table.fingerprint(), str(reader.categories))}
    )
    return keeper


class Follower(CheckpointCallback):
    """A keeper in another worker than the one that writes: it only goes on from what that one has read."""

    def __init__(
        self, recipe: Checkpoint, manifest: dict[str, Any], entries: dict[str, bytes]
    ) -> None:
        self.recipe, self.folder = recipe, recipe.folder
        self._manifest, self._entries = manifest, entries

    def after_round(self, progress: RoundInfo) -> None:
        """Leave it to the first."""


def _watchers(task: Task, peers: Collective) -> list[Callback]:
    """The user's callbacks run in the first worker alone; what they decide holds for all."""
    watchers: list[Callback] = [Rank0Callbacks(task.callbacks, peers)]
    if task.screen is not None and peers.rank == 0:
        watchers.append(ProgressBar(stream=task.screen))  # type: ignore[arg-type]
    return watchers


def _read(
    parts: Sequence[Any], rows: Rows, categorical: Any, peers: Collective
) -> tuple[TableReader, Shard]:
    """The worker's rows as numbers; what counts as text, and which categories there are, all say together."""
    reader = TableReader(categorical)
    readers = [TableReader(categorical) for _ in parts]
    first = [start for start, _ in rows.ranges]
    tables = [
        _placed(*each) for each in zip([one.fit for one in readers], parts, first, strict=True)
    ]
    if any(table.is_sparse for table in tables):
        raise ValueError(
            "X holds sparse blocks: on a cluster it must be dense. Use X.map_blocks(lambda b: b.toarray())."
        )
    found = peers.allgather_objects([(one.names, one.categories) for one in readers])
    reader.names = readers[0].names
    for names, categories in (block for worker in found for block in worker):
        if names != reader.names:
            raise ValueError(
                f"X has blocks with other columns: {list(names)} and {list(reader.names)}."
            )
        for column, values in categories.items():
            reader.categories[column] = reader.categories.get(column, []) + values
    for column, values in reader.categories.items():
        if len({isinstance(value, str) for value in values}) > 1:
            raise ValueError(
                f"X, column {reader.names[column]!r} is text in some blocks and numbers in others."
            )
        reader.categories[column] = sorted(set(values))
    if reader.categories:
        tables = [_placed(reader.read, *each) for each in zip(parts, first, strict=True)]
    values = np.concatenate([table.values for table in tables])
    return reader, Shard(
        values, reader.names, tuple(sorted(reader.categories)), tables[0].origin, rows, peers
    )


def _placed(read: Callable[[Any], Table], part: Any, first: int) -> Table:
    """A block as numbers, or what is wrong with it and where: its rows count from 0."""
    try:
        return read(part)
    except (TypeError, ValueError) as error:
        raise type(error)(f"X, counted from row {first}: {error}") from None


class DistributedXGBoost(Learner):
    """XGBoost's trees, grown by all workers on their rows: histograms are added up through the collective."""

    name = "xgboost"

    def __init__(self, learner: Any, peers: Collective) -> None:
        self.learner = learner
        self.peers = peers

    def start(
        self, table: Table, *, n_outputs: int, seed: int, n_jobs: int, device: str
    ) -> "DistributedGrower":
        """Bin this worker's rows; all agree on where the bins end."""
        assert isinstance(table, Shard)
        growing = self.learner.start(
            table.local, n_outputs=n_outputs, seed=seed, n_jobs=n_jobs, device=device
        )
        return DistributedGrower(growing, table.rows, self.peers, n_outputs)

    @classmethod
    def load(cls, files: dict[str, bytes]) -> Ensemble:
        """Read the trees, which are XGBoost's as any."""
        return XGBoost.load(files)


class DistributedGrower(TreeGrower):
    """Hands this worker's rows of the gradient over, and puts the tree's values together."""

    def __init__(self, growing: TreeGrower, rows: Rows, peers: Collective, n_outputs: int) -> None:
        self._growing, self._rows, self._peers, self._n_outputs = growing, rows, peers, n_outputs

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Grow one tree per output; leaves are float32 numbers, and are sent as such."""
        own = self._growing.grow(self._rows.of(gradient), self._rows.of(curvature))
        if own is None:
            own = np.zeros((self._rows.count, self._n_outputs))
        tree = self._peers.total(self._rows.placed(own.astype(np.float32))).astype(np.float64)
        return tree if tree.any() else None

    def free(self) -> None:
        """Drop what this worker has grown."""
        self._growing.free()

    def compile(self, weights: Sequence[float]) -> Ensemble:
        """Every worker holds the same trees."""
        return self._growing.compile(weights)

    def state(self) -> dict[str, Any]:
        """Return the trees: those of one worker are those of all."""
        return self._growing.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from them, in every worker."""
        self._growing.restore(state)


class Rank0Callbacks(Callback):
    """Callbacks that run in the first worker; all stop when one of them asks to."""

    def __init__(self, callbacks: Sequence[Callback], peers: Collective) -> None:
        self._callbacks, self._peers = callbacks if peers.rank == 0 else (), peers

    def before_training(self, n_rounds: int) -> None:
        """Tell them."""
        for callback in self._callbacks:
            callback.before_training(n_rounds)

    def after_round(self, progress: RoundInfo) -> bool:
        """Ask them, and tell all workers the answer."""
        asked = [callback for callback in self._callbacks if callback.after_round(progress)]
        if asked:
            self.reason = asked[0].reason
        return bool(self._peers.agreed(float(bool(asked) or _is_cancelled())))

    def after_training(self, model: Iterate) -> Iterate:
        """Let them choose; the first worker's model is the one that is kept."""
        for callback in self._callbacks:
            model = callback.after_training(model)
        return model

    def state(self) -> dict[str, Any]:
        """Return what they would have kept."""
        return {"callbacks": [callback.state() for callback in self._callbacks]}

    def restore(self, state: dict[str, Any]) -> None:
        """Give it back to them."""
        for callback, kept in zip(self._callbacks, state["callbacks"], strict=False):
            callback.restore(kept)


def _is_cancelled() -> bool:
    """Whether the user no longer waits for this: after Ctrl-C, or because another worker was lost."""
    from distributed import get_worker

    worker = get_worker()
    task = worker.state.tasks.get(worker.get_current_task())
    return task is None or task.state == "cancelled"
