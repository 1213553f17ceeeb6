"""A fit on a Dask cluster: the training code runs unchanged in every worker."""

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256
from numbers import Integral
from typing import Any
from uuid import uuid4

from ebboost.backends import Backend
from ebboost.backends.dask.backend import WorkerBackend
from ebboost.backends.dask.cluster import Cluster
from ebboost.backends.dask.collectives import Collective
from ebboost.backends.dask.sharding import BlockGraph, GraphRows, Rows, Shard, read_shard
from ebboost.backends.dask.worker import EventStream, communicator, is_cancelled, reuse_memory
from ebboost.boosting.callbacks import Callback, ProgressBar, RoundInfo
from ebboost.boosting.iterate import Iterate
from ebboost.boosting.latent_field import LatentField
from ebboost.data.fingerprint import fingerprint_of
from ebboost.data.reader import TableReader
from ebboost.graph import Graph
from ebboost.learners import XGBoost, as_learner
from ebboost.model.state import FittedState
from ebboost.propagation import threads
from ebboost.training.checkpoint import (
    Checkpoint,
    CheckpointFollower,
    CheckpointSession,
    as_checkpoint,
    checkpoint_session,
)
from ebboost.training.finish import finish
from ebboost.training.problem import FitData, Problem
from ebboost.training.settings import Settings
from ebboost.training.trainer import Trainer, train


@dataclass(frozen=True)
class Task:
    """What is sent to all workers of a fit."""

    problem: Problem
    callbacks: Sequence[Callback]
    stream: EventStream | None
    checkpoint: Checkpoint | None
    resume: bool
    fingerprint: dict[str, Any]


@dataclass(frozen=True)
class WorkerResult:
    """A digest of the trees of a worker, and from the first worker the state."""

    digest: str
    state: FittedState | None = None
    callbacks: Sequence[Callback] = ()


def fit_on_cluster(trainer: Trainer, data: FitData) -> FittedState:
    """Train on the workers that hold the rows of X, a Dask dataframe or array."""
    settings = trainer.settings
    checkpoint = as_checkpoint(trainer.checkpoint, trainer.resume)
    learner = as_learner(settings.learner)
    if not isinstance(learner, XGBoost):
        raise ValueError(
            "X is a Dask collection, and on a cluster only XGBoost grows trees: use "
            f"learner='xgboost' or eb.XGBoost(...), got learner={settings.learner!r}; or pass "
            "X.compute()."
        )
    cluster = Cluster(data.X)
    reader = TableReader(settings.categorical_features)
    problem = trainer.prepare(data, reader, cluster.outline)
    if settings.device != "cpu":
        raise ValueError(
            f"device={settings.device!r} is for one machine: on a cluster use device='cpu'."
        )
    if checkpoint is not None and not isinstance(settings.random_state, Integral):
        raise ValueError(
            "On a cluster checkpoint needs an integer random_state: each fit draws another seed."
        )
    stream = None
    listeners: dict[str, Callable[..., None]] = {}
    if settings.verbose:
        stream = EventStream(f"ebboost-{uuid4()}", sys.stderr.isatty())
        listeners[stream.topic] = _show
    callbacks = trainer.callbacks
    fingerprint = {} if checkpoint is None else problem.fingerprint(callbacks)
    sent = replace(problem, graph=None, settings=replace(settings, learner=learner))
    task = Task(sent, callbacks, stream, checkpoint, trainer.resume, fingerprint)
    with threads(problem.n_threads):
        replicate = _needs_whole_graph(settings)
        results = cluster.run(train_in_worker, task, problem.graph, replicate, listeners)
        if len({result.digest for result in results}) > 1:
            raise RuntimeError(
                "The workers ended with different trees: all of them must run the same versions of "
                "ebboost, numpy and xgboost."
            )
        first: WorkerResult = results[0]
        assert first.state is not None
        for own, remote in zip(trainer.callbacks, first.callbacks, strict=True):
            vars(own).update(vars(remote))
        state = replace(first.state, graph=problem.graph, parameters=problem.parameters)
        return finish(state, problem.labels, Backend())


def _needs_whole_graph(settings: Settings) -> bool:
    """Whether weights depend on the scores, or nodes are compared by their neighbours."""
    labels = settings.labels
    linear = getattr(settings.smoothing, "linear", True)
    return not linear or (isinstance(labels, LatentField) and labels.similarity)


def _show(event: tuple[float, str]) -> None:
    sys.stderr.write(event[1])
    sys.stderr.flush()


def train_in_worker(
    n_threads: int,
    task: Task,
    blocks: Sequence[Any],
    rows: Rows,
    graph: Graph | GraphRows | None,
    rank: int,
    address: dict[str, Any],
) -> WorkerResult:
    """Train together with the other workers; runs in each of them at the same time.

    ``rows`` are the nodes of this worker's ``blocks`` of X, ``address`` is where the workers find
    each other.
    """
    with ExitStack() as stack:
        collective = stack.enter_context(communicator(rank, address))
        problem = task.problem
        settings = problem.settings
        reader, table = read_shard(blocks, rows, settings.categorical_features, collective)
        # A sharded graph has the interface of a Graph.
        local: Any = BlockGraph(graph, rows, collective) if isinstance(graph, GraphRows) else graph
        settings = replace(settings, verbose=0, n_jobs=settings.n_jobs or n_threads)
        problem = replace(problem, settings=settings, reader=reader, table=table, graph=local)
        session = _session(task, table, reader, collective, stack)
        stack.enter_context(reuse_memory())
        callbacks: list[Callback] = [Rank0Callbacks(task.callbacks, collective)]
        if task.stream is not None and rank == 0:
            callbacks.append(ProgressBar(stream=task.stream))  # type: ignore[arg-type]
        with threads(problem.n_threads):
            state = train(problem, WorkerBackend(collective), callbacks, session)
    digest = sha256(b"".join(state.ensemble.files().values())).hexdigest()
    if rank:
        return WorkerResult(digest)
    traffic = {"n_workers": collective.count, "calls": collective.calls, "bytes": collective.sent}
    state = replace(state, graph=None, table=None, encoded_table=None, cluster=traffic)
    return WorkerResult(digest, state, task.callbacks)


def _session(
    task: Task, table: Shard, reader: TableReader, collective: Collective, stack: ExitStack
) -> CheckpointSession | None:
    """The session that writes, in the first worker; the others resume from what it has read."""
    if task.checkpoint is None:
        return None
    session = None
    if collective.rank == 0:
        session = stack.enter_context(checkpoint_session(task.checkpoint, task.resume))
    own = None if session is None else (session.manifest, session.entries)
    content = collective.allgather_objects(own)[0]
    if session is None:
        session = CheckpointFollower(task.checkpoint, *content)
    columns = fingerprint_of(table.fingerprint(), str(reader.categories))
    session.check_fingerprint(task.fingerprint | {"X": columns})
    return session


class Rank0Callbacks(Callback):
    """The user's callbacks, run in the first worker; all workers stop when one returns True."""

    def __init__(self, callbacks: Sequence[Callback], collective: Collective) -> None:
        self._callbacks = callbacks if collective.rank == 0 else ()
        self._collective = collective

    def before_training(self, n_rounds: int) -> None:  # noqa: D102
        for callback in self._callbacks:
            callback.before_training(n_rounds)

    def after_round(self, progress: RoundInfo) -> bool:
        """Run after each round, and send the decision to all workers."""
        stopping = [callback for callback in self._callbacks if callback.after_round(progress)]
        if stopping:
            self.reason = stopping[0].reason
        return bool(self._collective.from_rank0(float(bool(stopping) or is_cancelled())))

    def after_training(self, model: Iterate) -> Iterate:  # noqa: D102
        for callback in self._callbacks:
            model = callback.after_training(model)
        return model

    def state(self) -> dict[str, Any]:
        """Return the states of the callbacks."""
        return {"callbacks": [callback.state() for callback in self._callbacks]}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the callbacks."""
        for callback, stored in zip(self._callbacks, state["callbacks"], strict=False):
            callback.restore(stored)
