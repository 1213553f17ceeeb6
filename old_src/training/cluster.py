"""A fit on a Dask cluster: the training code runs unchanged in every worker, on sharded arrays."""

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from numbers import Integral
from typing import Any
from uuid import uuid4

import numpy as np
from scipy import sparse

from ebboost.backends import Backend
from ebboost.backends.dask.cluster import Cluster, Membership
from ebboost.backends.dask.collectives import Collective
from ebboost.backends.dask.sharding import (
    Partition,
    RowOrders,
    fingerprint_of_rows,
    read_shard,
    shard_graph,
)
from ebboost.backends.dask.worker import EventStream, communicator, is_cancelled, reuse_memory
from ebboost.boosting.callbacks import Callback, ProgressBar, RoundInfo
from ebboost.boosting.iterate import Iterate
from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.data.fingerprint import fingerprint_of
from ebboost.data.labels import Labels
from ebboost.data.reader import TableReader
from ebboost.data.sharded import shard
from ebboost.data.warn import warn_caller
from ebboost.learners import XGBoost, as_learner
from ebboost.model.state import FittedState, ValidationRecord
from ebboost.propagation import threads
from ebboost.training.checkpoint import (
    Checkpoint,
    CheckpointSession,
    as_checkpoint,
    checkpoint_session,
)
from ebboost.training.finish import finish
from ebboost.training.problem import FitData, LabelFolds, Problem
from ebboost.training.settings import Settings
from ebboost.training.trainer import Trainer, train


@dataclass(frozen=True)
class Task:
    """What is sent to every worker: the parameters of the fit, and where progress is shown."""

    trainer: Trainer
    stream: EventStream | None


@dataclass(frozen=True)
class ProblemTask(Task):
    """What is sent to a worker: its labels and offsets, its rows of the graph, the settings."""

    fingerprint: dict[str, Any]
    problem: Problem
    graph: sparse.csr_array | None


@dataclass(frozen=True)
class WorkerResult:
    """A digest of the trees of a worker, and the state of its nodes."""

    digest: str
    state: FittedState
    callbacks: Sequence[Callback] = ()
    vectors: Any = None  # of the worker's nodes, where spectral columns are used


def fit_on_cluster(trainer: Trainer, data: FitData) -> FittedState:
    """Train on the workers that hold the rows of X, a Dask dataframe or array."""
    settings = trainer.settings
    reason = needs_all_nodes(settings, data)
    if reason is not None:
        warn_caller(f"{reason} needs all nodes in one process: X is gathered on the client.")
        return trainer.fit(data._replace(X=data.X.compute()))
    check_learner(settings)
    cluster = Cluster(data.X)
    problem = trainer.prepare(data, TableReader(settings.categorical_features), cluster.outline)
    stream = event_stream(settings)
    fingerprint = {}
    if checkpoint_of(trainer) is not None:
        fingerprint = problem.fingerprint(trainer.callbacks)
    partition = cluster.partition
    tasks = [
        ProblemTask(trainer, stream, fingerprint, *_share(problem, partition, rank))
        for rank in range(len(cluster.blocks))
    ]
    with threads(problem.n_threads):
        futures = cluster.run(train_in_worker, tasks, {}, listeners_of(stream))
        results: list[WorkerResult] = cluster.client.gather(futures)
        check_results(trainer, results)
        if results[0].vectors is not None and problem.graph is not None:
            vectors = partition.join([result.vectors for result in results])
            problem = replace(problem, graph=problem.graph.with_vectors(vectors))
        state = _joined([result.state for result in results], problem, partition)
        return finish(state, problem.labels, Backend())


def checkpoint_of(trainer: Trainer) -> Checkpoint | None:
    """Return the ``checkpoint`` argument of a fit, checked."""
    checkpoint = as_checkpoint(trainer.checkpoint, trainer.resume)
    if checkpoint is not None and not isinstance(trainer.settings.random_state, Integral):
        raise ValueError(
            "On a cluster checkpoint needs an integer random_state: each fit draws another seed."
        )
    return checkpoint


def event_stream(settings: Settings) -> EventStream | None:
    """Return where workers write their progress, if it is shown."""
    return EventStream(f"ebboost-{uuid4()}", sys.stderr.isatty()) if settings.verbose else None


def check_learner(settings: Settings) -> None:
    """Raise ValueError for a learner that does not train on a cluster."""
    if not isinstance(as_learner(settings.learner), XGBoost):
        raise ValueError(
            "X is a Dask collection, and on a cluster only XGBoost grows trees: use "
            f"learner='xgboost' or eb.XGBoost(...), got learner={settings.learner!r}; or pass "
            "X.compute()."
        )
    if settings.device != "cpu":
        raise ValueError(
            f"device={settings.device!r} is for one machine: on a cluster use device='cpu'."
        )


def check_results(trainer: Trainer, results: Sequence[WorkerResult]) -> None:
    """Check that all workers have the same trees, and copy the callbacks of the first back."""
    if len({result.digest for result in results}) > 1:
        raise RuntimeError(
            "The workers ended with different trees: all of them must run the same versions of "
            "ebboost, numpy and xgboost."
        )
    for own, remote in zip(trainer.callbacks, results[0].callbacks, strict=True):
        vars(own).update(vars(remote))


def needs_all_nodes(settings: Settings, data: FitData, is_sharded: bool = False) -> str | None:
    """The argument for which the nodes cannot be divided among workers, if any.

    If not ``is_sharded``, labels are on the client, too.
    """
    graphs = data.graph.values() if isinstance(data.graph, dict) else [data.graph]
    if data.init_model is not None:
        return "init_model="
    if data.causal or (data.time is not None and not is_sharded):
        return "causal=True" if data.causal else "time="
    if any(getattr(graph, "groups", None) is not None for graph in graphs):
        return "a graph of groups"
    if any(getattr(graph, "outgoing", None) is not None for graph in graphs):
        return "a graph with directed=True"
    use = settings.labels
    is_alone = isinstance(use, LatentField) and (use.similarity or use.leave_one_out)
    if is_alone or isinstance(use, MaskedLabels) or use in ("masked", "leave-one-out"):
        return f"labels={use!r}"
    if not getattr(settings.smoothing, "linear", True):
        return f"smoothing={settings.smoothing!r}"
    return None


def _share(problem: Problem, partition: Partition, rank: int) -> tuple[Problem, Any]:
    """A worker's share of the problem, and its rows of the graph."""
    folds = problem.labels
    is_own, labels = _own_labels(folds.labels, partition, rank)
    evaluation = folds.evaluation
    if evaluation is not None:
        evaluation = _own_labels(evaluation, partition, rank)[1]
    weight = folds.validation_weight[is_own]
    own = LabelFolds(labels, weight, folds.fold[is_own], evaluation, folds.in_time)
    offset = None if problem.offset is None else partition.select(rank, problem.offset)
    graph = problem.graph
    rows = None if graph is None else partition.select(rank, graph.adjacency)
    return replace(problem, graph=None, labels=own, offset=offset), rows


def _own_labels(labels: Labels, partition: Partition, rank: int) -> tuple[Any, Labels]:
    owner, position = partition.locate(labels.nodes)
    own = owner == rank
    return own, Labels(position[own], labels.target[own], labels.weight[own])


def _joined(states: Sequence[FittedState], problem: Problem, partition: Partition) -> FittedState:
    """The state of all nodes, from those of the workers."""
    first = states[0]
    facts: dict[str, Any] = {"graph": problem.graph, "offset": problem.offset}
    labels = problem.labels.labels
    owner, _ = partition.locate(labels.nodes)
    weight = labels.weight.copy()
    for rank, state in enumerate(states):
        weight[owner == rank] = state.labels.weight
    facts |= {"labels": replace(labels, weight=weight), "parameters": problem.parameters}
    if first.members:
        parts = zip(*(state.members for state in states), strict=True)
        facts["members"] = tuple(_joined(part, problem, partition) for part in parts)
    for name in ("scores", "propagated_scores", "raw_predictions"):
        facts[name] = partition.join([getattr(state, name) for state in states])
    facts["validation"] = _joined_record([state.validation for state in states], problem, partition)
    return replace(first, **facts)


def _joined_record(
    records: Sequence[ValidationRecord], problem: Problem, partition: Partition
) -> ValidationRecord:
    """The record of all workers in the order of one process: fold after fold, then eval_set."""
    nodes = np.concatenate([partition.positions(i)[one.nodes] for i, one in enumerate(records)])
    folds = problem.labels
    wanted = [folds.held_out(fold).nodes for fold in range(folds.n_folds)]
    wanted += [] if folds.evaluation is None else [folds.evaluation.nodes]
    in_order = np.concatenate(wanted)
    in_order = in_order[np.isin(in_order, nodes)]
    order = np.argsort(nodes)
    rows = order[np.searchsorted(nodes, in_order, sorter=order)]
    names = ("target", "prediction", "without_graph")
    columns = [[np.asarray(getattr(one, name)) for one in records] for name in names]
    return ValidationRecord(in_order, *(np.concatenate(parts)[rows] for parts in columns))


def listeners_of(stream: EventStream | None) -> dict[str, Callable[..., None]]:
    """Return what shows the events of a stream."""
    return {} if stream is None else {stream.topic: _show}


def _show(event: tuple[float, str]) -> None:
    print(event[1], end="", file=sys.stderr, flush=True)


def train_in_worker(
    task: ProblemTask, blocks: Sequence[Any], columns: Any, membership: Membership
) -> WorkerResult:
    """Train together with the other workers; runs in each of them at the same time.

    ``blocks`` are the rows of X that this worker holds.
    """
    with communicator(membership) as workers:
        partition = membership.partition
        settings = task.problem.settings
        starts = [start for start, _ in partition.ranges[membership.rank]]
        reader, table = read_shard(blocks, starts, settings.categorical_features, workers)
        # A shard of a graph has the interface of a Graph.
        graph: Any = None if task.graph is None else shard_graph(task.graph, partition, workers)
        problem = replace(
            task.problem,
            settings=worker_settings(settings, membership),
            reader=reader,
            table=table,
            graph=graph,
            labels=task.problem.labels.convert(partial(shard, workers=workers)),
            offset=shard(task.problem.offset, workers),
        )
        state = train_shard(task, problem, task.fingerprint, partition, workers)
    vectors = None if state.graph is None else state.graph.vectors
    members = tuple(replace(one, graph=None, table=None) for one in state.members)
    state = replace(state, graph=None, table=None, members=members)
    return WorkerResult(digest_of(state), state, task.trainer.callbacks, vectors)


def worker_settings(settings: Settings, membership: Membership) -> Settings:
    """Return the settings of a worker, which has threads of its own and prints nothing."""
    return replace(settings, verbose=0, n_jobs=settings.n_jobs or membership.n_threads)


def digest_of(state: FittedState) -> str:
    """Return a digest of the trees."""
    return sha256(b"".join(state.ensemble.files().values())).hexdigest()


def train_shard(
    task: Task,
    problem: Problem,
    fingerprint: dict[str, Any],
    partition: Partition,
    workers: Collective,
) -> FittedState:
    """Train on the nodes of a worker, together with the others."""
    watchers: list[Callback] = [Rank0Callbacks(task.trainer.callbacks, workers)]
    if task.stream is not None and workers.rank == 0:
        watchers.append(ProgressBar(stream=task.stream))  # type: ignore[arg-type]
    with ExitStack() as stack, reuse_memory(), threads(problem.n_threads):
        session = None
        if (checkpoint := checkpoint_of(task.trainer)) is not None:
            own = checkpoint_session(checkpoint, task.trainer.resume)
            first = stack.enter_context(own) if workers.rank == 0 else None
            session = _shared_session(checkpoint, first, problem, partition, workers)
            rows = fingerprint_of_rows(problem.table.values, partition, workers)
            table = problem.table
            columns = (table.names, table.categorical, str(problem.reader.categories))
            session.check_fingerprint(fingerprint | {"X": fingerprint_of(rows, *columns)})
        state = train(problem, Backend(), watchers, session)
    traffic = {"n_workers": workers.count, "calls": workers.calls}
    traffic |= {"bytes": workers.sent, "halo_bytes": workers.halo_sent}
    return replace(state, cluster=traffic)


def _shared_session(
    checkpoint: Checkpoint,
    session: CheckpointSession | None,
    problem: Problem,
    partition: Partition,
    workers: Collective,
) -> CheckpointSession:
    """The session of this worker, with what that of the first has read."""
    own = None if session is None else (session.manifest, session.entries, session.paths)
    manifest, entries, paths = workers.allgather_objects(own)[0]
    positions = partition.positions(workers.rank)
    folds = problem.labels
    nodes = [np.arange(positions.size)]
    nodes += [folds.held_out(fold).nodes for fold in range(folds.n_folds)]
    nodes += [] if folds.evaluation is None else [folds.evaluation.nodes]
    nodes.append(nodes[0][:0])  # scores of discarded models, and predictions of no eval_set
    orders = RowOrders([positions[own] for own in nodes], workers)
    return CheckpointSession(checkpoint, manifest, entries, paths, orders)


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
