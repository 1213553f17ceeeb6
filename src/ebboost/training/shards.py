"""A fit whose graph, labels and predictions stay on the workers of a Dask cluster."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import _get_feature_names

from ebboost.backends import Backend
from ebboost.backends.dask import gathered, is_dask
from ebboost.backends.dask.cluster import Cluster, Membership
from ebboost.backends.dask.collectives import Collective
from ebboost.backends.dask.edges import Relations, read_relations, split_ids
from ebboost.backends.dask.groups import RowGroups
from ebboost.backends.dask.nearest import NearestRows
from ebboost.backends.dask.sharding import Partition, fingerprint_of_rows, join_parts, read_shard
from ebboost.backends.dask.worker import communicator, release_memory
from ebboost.data import validation as checks
from ebboost.data.coordinates import DELAUNAY, coordinate_columns, first_neighbors
from ebboost.data.labels import Labels
from ebboost.data.reader import TableReader
from ebboost.data.sharded import sampled, shard, total_rows
from ebboost.data.table import Table
from ebboost.graph import Graph, ParquetGraph
from ebboost.model.codec import describe_parameters
from ebboost.model.output import ClassOutput
from ebboost.model.shards import NodeShard, Shards, SpreadShard, SpreadShards
from ebboost.model.state import FittedState, ValidationRecord
from ebboost.propagation import threads
from ebboost.training import defaults
from ebboost.training.cluster import (
    Task,
    WorkerResult,
    check_learner,
    check_results,
    checkpoint_of,
    digest_of,
    event_stream,
    listeners_of,
    needs_all_nodes,
    train_shard,
    worker_settings,
)
from ebboost.training.finish import finish_predictions
from ebboost.training.problem import FitData, LabelFolds, Problem, blocks_in_time, check_offset
from ebboost.training.relations import check_relation_strengths, choose_strengths
from ebboost.training.settings import Settings
from ebboost.training.spread import estimate_spread
from ebboost.training.trainer import Trainer, count_folds

COLUMNS = ("y", "sample_weight", "offset", "exposure", "time")


@dataclass(frozen=True)
class ShardTask(Task):
    """What is sent to a worker: the paths of the edges, its own listed labels.

    ``eval_set`` and ``listed`` have positions among the worker's nodes, labels, and of ``listed``
    weights.
    """

    relations: Relations
    eval_set: Any
    listed: Sequence[Any] | None


@dataclass(frozen=True)
class ShardResult(WorkerResult):
    """A model without nodes, and the state of the worker's nodes."""

    nodes: NodeShard | None = None

    @property
    def raw(self) -> Any:
        """The raw predictions of the worker's nodes."""
        assert self.nodes is not None
        return self.nodes.state.raw_predictions


def fit_shards(trainer: Trainer, data: FitData, relations: Relations | None) -> FittedState:
    """Train on the workers that hold the rows of X and read the edges, or find nearest rows."""
    if data.graph is not None and data.coordinates is not None:
        raise ValueError("graph and coordinates exclude each other: pass one of them.")
    if data.groups is not None:
        relations = {None: groups_of(data)}
    elif relations is None:
        relations = {None: nearest_of(data, trainer.settings.neighbors)}
    check_supported(trainer, data, relations)
    data = data._replace(time=_column_of(data.X, "time", data.time))
    settings = trainer.settings
    seed = int(check_random_state(settings.random_state).randint(np.iinfo(np.int32).max))
    cluster = Cluster(data.X)
    stream = event_stream(settings)
    lists = _listed_labels(trainer, data, cluster.partition.n_nodes)
    if data.nodes is not None:
        data = data._replace(y=None, sample_weight=None)
    columns = {name: cluster.split(name, getattr(data, name)) for name in COLUMNS}
    columns |= split_ids(relations, cluster)
    sent = replace(trainer, parameters={**trainer.parameters, "random_state": seed})
    edges = {name: one.without_ids() for name, one in relations.items()}
    tasks = [
        ShardTask(sent, stream, edges, *(_own(one, cluster.partition, rank) for one in lists))
        for rank in range(len(cluster.blocks))
    ]
    # Rows of X are freed once they are read, unless somebody else keeps them.
    cluster = cluster.with_blocks(cluster.run(_read_in_worker, [settings] * len(tasks), {}, {}))
    futures = cluster.run(train_in_worker, tasks, columns, listeners_of(stream))
    client = cluster.client
    results = client.gather(client.map(partial(replace, nodes=None), futures, pure=False))
    check_results(trainer, results)
    state: FittedState = replace(results[0].state, parameters=trainer.parameters)
    on_workers = cluster.with_blocks(futures)
    shards = Shards(on_workers, _spread(on_workers, state))
    return replace(state, shards=shards)


def _spread(cluster: Cluster, state: FittedState) -> SpreadShards:
    """The spread of the residuals of a model, estimated on the workers."""
    futures = cluster.run(_spread_in_worker, [None] * len(cluster.blocks), {}, {})
    client = cluster.client
    none = np.zeros((0, 1))
    without_nodes = partial(replace, field_variance=none, factor=none)
    parts = client.gather(client.map(without_nodes, futures, pure=False))
    is_evaluation = np.concatenate([part.is_evaluation for part in parts])
    # Labels of eval_set, on which intervals are calibrated, come last.
    order = np.argsort(is_evaluation, kind="stable")
    records = [part.sample.validation for part in parts]
    names = ("nodes", "target", "prediction", "without_graph")
    columns = (np.concatenate([getattr(one, name) for one in records])[order] for name in names)
    state = replace(state, validation=ValidationRecord(*columns))
    spreads = [part.sample.spread for part in parts]
    if spreads[0] is None:
        return SpreadShards(state, futures)
    labels = ("deviation", "size")
    rows: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in spreads])[order] for name in labels
    }
    n_calibration = int(is_evaluation.sum()) or is_evaluation.size
    spread = replace(spreads[0], n_calibration=n_calibration, **rows)
    return SpreadShards(replace(state, spread=spread), futures)


def _spread_in_worker(
    task: None, blocks: Sequence[Any], columns: Any, membership: Membership
) -> SpreadShard:
    """Estimate the spread of the residuals together with the other workers."""
    with communicator(membership) as workers, threads(membership.n_threads):
        state, folds = blocks[0].nodes.connect(workers)
        spread = None if state.is_classifier else estimate_spread(state, folds)
        sample = sampled(state.validation.target)
    local = np.zeros((2, state.n_nodes))
    if spread is not None:
        local = np.array([spread.field_variance, spread.factor])
        rows: dict[str, Any] = {
            name: np.asarray(getattr(spread, name))[sample] for name in ("deviation", "size")
        }
        spread = replace(spread, factor=local[0, :0], field_variance=local[0, :0], **rows)
    record = state.validation
    is_evaluation = ~np.isin(record.nodes, state.labels.nodes)[sample]
    nodes = membership.partition.positions(membership.rank)[record.nodes[sample]]
    parts = (record.target, record.prediction, record.without_graph)
    record = ValidationRecord(nodes, *(np.asarray(part)[sample] for part in parts))
    model = replace(_without_nodes(state), validation=record, members=())
    model = replace(model, spread=spread)
    return SpreadShard(local[0][:, None], local[1][:, None], model, is_evaluation)


def check_supported(trainer: Trainer, data: FitData, relations: Relations) -> None:
    """Raise ValueError for what a fit with a :class:`ParquetGraph` does not support."""
    settings = trainer.settings
    check_relation_strengths(settings.relations, None if None in relations else relations)
    checkpoint_of(trainer)
    check_learner(settings)
    reason = needs_all_nodes(settings, data, is_sharded=True)
    if settings.class_weight == "balanced":
        reason = "class_weight='balanced'"
    if reason is not None:
        kind = "coordinates on a cluster" if data.coordinates is not None else "a ParquetGraph"
        raise ValueError(f"{reason} is not supported with {kind}: use an eb.Graph.")


def groups_of(data: FitData) -> RowGroups:
    """Return the groups of the rows, with the graph between them."""
    graph = data.graph
    if data.coordinates is not None or not isinstance(graph, Graph | ParquetGraph | None):
        raise ValueError("groups takes one graph of the groups, no coordinates or relations.")
    if isinstance(graph, ParquetGraph) and is_dask(graph.ids):
        (ids,) = gathered(graph.ids)
        graph = graph.with_ids(np.asarray(ids))
    return RowGroups(_column_of(data.X, "groups", data.groups), graph)


def _column_of(X: Any, argument: str, column: Any) -> Any:
    """A column of X by its name, or as it was passed."""
    if not isinstance(column, str):
        return column
    names = list(getattr(X, "columns", ()))
    if column not in names:
        raise ValueError(f"{argument}={column!r} is not a column of X; there are {names}.")
    return X[column]


def nearest_of(data: FitData, neighbors: int | str) -> NearestRows:
    """Return the graph of the coordinates, which the workers find."""
    number = first_neighbors(neighbors)
    if number == DELAUNAY:
        raise ValueError("neighbors='delaunay' is not supported on a cluster: use a number.")
    names = [str(name) for name in getattr(data.X, "columns", range(data.X.shape[1]))]
    columns, degrees = coordinate_columns(data.coordinates, names)
    if columns:
        return NearestRows(columns, degrees, neighbors=number)
    points: Any = data.coordinates
    points = points if hasattr(points, "shape") else np.asarray(points)
    if len(points.shape) != 2 or points.shape[1] != 2:
        raise ValueError("coordinates must be two columns of X, or points with two coordinates.")
    return NearestRows((), degrees, points, number)


def _listed_labels(trainer: Trainer, data: FitData, n_nodes: int) -> tuple[Any, Any]:
    """``eval_set`` and, with ``nodes``, the labels of these nodes, checked."""
    is_class = trainer.output_type is ClassOutput
    (eval_set,) = gathered(data.eval_set)
    listed = None
    if data.nodes is not None:
        y, nodes, weight = gathered(data.y, data.nodes, data.sample_weight)
        listed = checks.labelled_nodes(y, nodes, weight, n_nodes, is_class, trainer.estimator)
    if eval_set is not None:
        eval_set = checks.extra_labels(eval_set, np.zeros(0, dtype=int), n_nodes, is_class)
    return eval_set, listed


def _own(listed: Any, partition: Partition, rank: int) -> list[Any] | None:
    """A worker's part of listed labels, their nodes counted among the worker's own."""
    if listed is None:
        return None
    owner, position = partition.locate(listed[0])
    return [part[owner == rank] for part in (position, *listed[1:])]


def _columns_of(listed: Sequence[Any], n_rows: int) -> dict[str, Any]:
    """Listed labels and weights as columns with an entry for each row."""
    nodes, values, weights = listed
    y = np.full(n_rows, np.nan, np.float64 if values.dtype.kind in "biuf" else object)
    y[nodes] = values
    sample_weight = np.ones(n_rows)
    sample_weight[nodes] = weights
    return {"y": y, "sample_weight": sample_weight}


@dataclass(frozen=True)
class ShardTable:
    """A worker's rows of X as numbers, and a block of X without rows."""

    reader: TableReader
    table: Table
    empty: Any


def _read_in_worker(
    settings: Settings, blocks: Sequence[Any], columns: Any, membership: Membership
) -> ShardTable:
    """Read this worker's rows of X."""
    with communicator(membership) as workers:
        starts = [start for start, _ in membership.partition.ranges[workers.rank]]
        reader, table = read_shard(blocks, starts, settings.categorical_features, workers)
    table = replace(table, values=np.asarray(table.values))
    release_memory()
    return ShardTable(reader, table, blocks[0][:0])


def train_in_worker(
    task: ShardTask, blocks: Sequence[Any], columns: dict[str, Any], membership: Membership
) -> ShardResult:
    """Read this worker's edges and labels and train together with the other workers."""
    with communicator(membership) as workers:
        partition = membership.partition
        settings = worker_settings(task.trainer.settings, membership)
        n_rows = partition.lengths[workers.rank]
        rows: dict[str, Any] = {
            name: join_parts(name, parts, n_rows) for name, parts in columns.items()
        }
        if task.listed is not None:
            rows |= _columns_of(task.listed, n_rows)
        read: ShardTable = blocks[0]
        table = replace(read.table, values=shard(read.table.values, workers))
        ids = {name: rows.pop(name) for name in list(rows) if name.startswith("ids ")}
        for name, one in task.relations.items():
            if isinstance(one, NearestRows):
                ids[f"ids {name}"] = one.points(read.table.values, ids[f"ids {name}"])
        data = FitData(read.empty, eval_set=task.eval_set, **rows)
        problem = prepare_shard(task.trainer, data, read.reader, table, partition, workers)
        labels = problem.labels.labels
        choose = partial(choose_strengths, settings.relations, labels=labels)
        # A shard of a graph has the interface of a Graph.
        graph: Any
        graph, strengths = read_relations(task.relations, ids, partition, workers, choose)
        parts = {"graph": graph, "relation_strengths": strengths, "settings": settings}
        problem = replace(problem, **parts)
        fingerprint = {}
        if task.trainer.checkpoint is not None:
            y = fingerprint_of_rows(rows["y"], partition, workers)
            fingerprint = fingerprint_of_shard(task, problem, y)
        state = train_shard(task, problem, fingerprint, partition, workers)
        state = finish_predictions(state, Backend())
    members = tuple(_without_nodes(one) for one in state.members)
    model = replace(_without_nodes(state), members=members)
    nodes = NodeShard.of(state, problem.labels)
    return ShardResult(digest_of(state), model, task.trainer.callbacks, nodes=nodes)


def fingerprint_of_shard(task: ShardTask, problem: Problem, y: str) -> dict[str, Any]:
    """Return what two fits must share for one to resume the other; X is added to it."""
    own = problem.parameters.items()
    left_out = ("n_jobs", "verbose")
    return {
        "estimator": problem.estimator,
        "y": y,
        "graph": f"{task.relations!r} with {problem.graph.n_edges} edges"
        if problem.graph
        else None,
        "parameters": {k: describe_parameters(value) for k, value in own if k not in left_out},
    }


def prepare_shard(
    trainer: Trainer,
    data: FitData,
    reader: TableReader,
    table: Table,
    partition: Partition,
    workers: Collective,
) -> Problem:
    """Return the problem of a worker; what is estimated from labels is from those of all."""
    settings = trainer.settings
    is_class = trainer.output_type is ClassOutput
    options = (table.n_rows, is_class, trainer.estimator, True)
    nodes, values, weight = checks.labelled_nodes(data.y, None, data.sample_weight, *options)
    classes = np.unique(values) if is_class else values[:0]
    of_all = np.concatenate(workers.allgather_objects(classes))
    output = trainer.output_type.from_labels(of_all, settings.loss)
    weighted = weight * output.label_weights(values, settings.class_weight)
    labels = Labels(nodes, output.encode(values, "y"), weighted)
    evaluation = None
    if data.eval_set is not None:
        held = checks.extra_labels(data.eval_set, nodes, table.n_rows, is_class, may_be_none=True)
        evaluation = Labels(held[0], output.encode(held[1], "eval_set"), np.ones(held[0].size))
    seed = trainer.parameters["random_state"]
    n_labels = total_rows(shard(labels.target, workers))
    if not n_labels:
        raise ValueError("No node is labelled: y holds no known label, and at least one is needed.")
    n_folds = count_folds(settings, n_labels, table, evaluation is not None)
    has_time = data.time is not None
    if has_time and n_folds > 1 and settings.n_folds == "auto":
        n_folds = 1 if evaluation is not None else defaults.FOLDS_IN_TIME
    in_time = has_time and n_folds > 0 and evaluation is None
    if in_time:
        time = checks.time_column(data.time, table)[nodes]
        fold = blocks_in_time(shard(time, workers), settings.validation_fraction, n_folds)
    else:
        fraction = 0.0 if has_time or evaluation is not None else settings.validation_fraction
        drawn = 1 if has_time else n_folds
        fold = _folds(partition.positions(workers.rank)[nodes], drawn, fraction, seed)
    folds = LabelFolds(labels, weight, fold, evaluation, in_time)
    folds = folds.convert(partial(shard, workers=workers))
    log_link = output.loss.log_link
    column = checks.offset_column(data.offset, data.exposure, table.n_rows, log_link)
    offset = shard(column, workers)
    check_offset(offset, folds.labels, settings, output)
    return Problem(
        estimator=trainer.estimator,
        parameters=trainer.parameters,
        settings=settings,
        output=output.fit_loss(folds.labels, offset),
        reader=reader,
        table=table,
        feature_names=_get_feature_names(data.X),
        graph=None,
        relation_strengths=None,
        coordinates=None,
        labels=folds,
        seed=seed,
        offset=offset,
    )


def _folds(
    positions: NDArray[np.int64], n_folds: int, fraction: float, seed: int
) -> NDArray[np.int64]:
    """The fold of each label, −1 for none; one fold holds a fraction of the labels.

    Drawn by position, so that it does not depend on the workers: Steele's SplitMix64.
    """
    state = positions.astype(np.uint64) + np.uint64(seed) * np.uint64(2**32)
    with np.errstate(over="ignore"):
        state *= np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    uniform = (state ^ (state >> np.uint64(31))).astype(np.float64) / 2.0**64
    if n_folds > 1:
        return np.minimum((uniform * n_folds).astype(np.int64), n_folds - 1)
    return np.where(uniform < (fraction if n_folds else 0.0), 0, -1)


def _without_nodes(state: FittedState) -> FittedState:
    """The model alone, which predicts other tables."""
    names = ("scores", "propagated_scores", "raw_predictions")
    rows: dict[str, Any] = {name: np.asarray(getattr(state, name))[:0] for name in names}
    labels = state.labels
    labels = Labels(labels.nodes[:0], np.asarray(labels.target)[:0], np.asarray(labels.weight)[:0])
    graph = Graph(sparse.csr_array((0, 0)))
    if state.graph is not None and state.graph.vectors is not None:
        graph = graph.with_vectors(np.asarray(state.graph.vectors)[:0])
    if state.graph is not None and state.graph.groups is not None:
        graph = Graph.from_groups([], state.graph.groups.graph)
    return replace(
        state,
        graph=graph,
        labels=labels,
        offset=None if state.offset is None else np.zeros((0, 1)),
        validation=ValidationRecord.empty(rows["raw_predictions"].shape[1]),
        table=None,
        encoded_table=None,
        spread=None,
        **rows,
    )
