"""Predictions that stay on the workers of a Dask cluster, as Dask arrays."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.backends.dask import is_dask
from ebboost.backends.dask.cluster import Cluster, Membership
from ebboost.backends.dask.edges import Relations, read_relations, split_ids
from ebboost.backends.dask.sharding import join_parts
from ebboost.backends.dask.worker import communicator
from ebboost.data import validation as checks
from ebboost.data.sharded import average, shard
from ebboost.data.types import Array, TableLike
from ebboost.data.warn import warn_caller
from ebboost.graph import as_parquet_relations
from ebboost.model.inputs import NO_POSITION, check_feature_names
from ebboost.model.intervals import Intervals, PredictionSets, with_intervals, with_sets
from ebboost.model.output import Output
from ebboost.model.predict import (
    Offset,
    RowArguments,
    fixed_scores,
    propagation_operator,
    tree_scores,
)
from ebboost.model.rows import RowPredictions
from ebboost.model.spread import LocalSpread, require_spread
from ebboost.model.state import FittedState
from ebboost.propagation import threads


def raw_shards(state: FittedState, arguments: RowArguments) -> Any:
    """Return raw predictions as a Dask array, None if they are not those of a cluster."""
    X = arguments.X
    relations = as_parquet_relations(arguments.graph)
    if X is None and state.shards is None:
        return None
    is_here = X is not None and (relations is None or not is_dask(X))
    if is_here and state.shards is None:
        return None
    names = ("new_labels", "attach", "coordinates", "groups", "time")
    if any(getattr(arguments, name) is not None for name in names):
        raise ValueError(
            "new_labels, attach, coordinates, groups and time need a model on one machine: save "
            "this one to a folder, and load that."
        )
    if is_here:
        return None
    if relations is None:
        cluster = state.shards.cluster
        futures = [own[0] for own in cluster.blocks.values()]
        raw = cluster.stack(futures, "raw", state.n_outputs)
    else:
        raw = _predict(state, X, relations, arguments.offset)
    return _rows(raw, arguments.nodes)


def _rows(values: Any, nodes: Any) -> Any:
    """Some rows of a Dask array."""
    rows = None if nodes is None else checks.node_positions(nodes, len(values), repeats=True)
    return values if rows is None else values[rows]


def interval_shards(
    state: FittedState, arguments: RowArguments, interval: float, empty_sets: bool
) -> Any:
    """Return intervals or sets of fitted nodes as Dask arrays, None if the nodes are here."""
    if state.shards is None or arguments.X is not None:
        return None
    raw = raw_shards(state, arguments)
    prediction = decode_shards(state.output, raw)
    spread = state.shards.spread
    if state.classes is not None:
        options = {"dtype": bool, "chunks": (raw.chunks[0], (state.classes.size,))}
        options |= {"state": spread.state, "interval": interval, "empty_sets": empty_sets}
        return PredictionSets(prediction, raw.map_blocks(_sets, **options))
    require_spread(spread.state)
    local = [
        _rows(state.shards.cluster.stack(spread.local, name, 1), arguments.nodes)
        for name in ("field_variance", "factor")
    ]
    options = {"dtype": np.float64, "chunks": (raw.chunks[0], (2,)), "meta": np.zeros((0, 2))}
    compute = partial(_ends, state=spread.state, interval=interval)
    ends = raw.map_blocks(compute, *local, **options)
    return Intervals(prediction, ends[:, 0], ends[:, 1])


def _sets(raw: Array, state: FittedState, **options: Any) -> NDArray[np.bool_]:
    return with_sets(state, raw, **options).contains


def _ends(raw: Array, variance: Array, factor: Array, state: FittedState, interval: float) -> Array:
    """Both ends of the intervals of some nodes."""
    rows = RowPredictions(raw, np.arange(len(raw)), None)
    local = LocalSpread(variance[:, 0], factor[:, 0])
    return np.column_stack(with_intervals(state, rows, local, interval)[1:])


def _predict(state: FittedState, X: TableLike, relations: Relations, offset: Offset) -> Any:
    """Predictions of new nodes, without labels."""
    check_feature_names(state, X)
    if set(relations) != set(state.relation_strengths or {None}):
        expected = list(state.relation_strengths or ()) or "one ParquetGraph"
        raise ValueError(f"graph must have the relations of the fit: {expected}.")
    if state.graph is not None and state.graph.vectors is not None:
        warn_caller(NO_POSITION)
    cluster = Cluster(X)
    columns = split_ids(relations, cluster)
    columns |= {name: cluster.split(name, value) for name, value in offset._asdict().items()}
    light = replace(state, shards=None)
    edges = {name: one.without_ids() for name, one in relations.items()}
    tasks = [(light, edges)] * len(cluster.blocks)
    futures = cluster.run(_predict_in_worker, tasks, columns, {})
    return cluster.stack(futures, None, state.n_outputs)


def _predict_in_worker(
    task: tuple[FittedState, Relations],
    blocks: Sequence[Any],
    columns: dict[str, Any],
    membership: Membership,
) -> Array:
    state, edges = task
    with communicator(membership) as workers, threads(membership.n_threads):
        tables = [state.reader.read(block) for block in blocks]
        values = np.concatenate([table.values for table in tables])
        table = replace(tables[0], values=shard(values, workers))
        rows = {name: join_parts(name, parts, len(values)) for name, parts in columns.items()}
        # A shard of a graph has the interface of a Graph.
        graph: Any
        strengths = dict(state.relation_strengths or {})
        where = (membership.partition, workers)
        graph, _ = read_relations(edges, rows, *where, lambda _: strengths)
        if state.graph is not None and state.graph.vectors is not None:  # of fitted nodes only
            vectors = np.zeros((len(values), state.graph.vectors.shape[1]), dtype=np.float32)
            graph = graph.with_vectors(vectors)
        fixed = fixed_scores(state, len(values), Offset(**rows))
        parts = []
        for one in state.candidates:
            scores = tree_scores(one, one.pipeline.transform(table, graph))
            operator = propagation_operator(one.candidate.smoothing, graph, len(values))
            parts.append(np.asarray(operator.apply(shard(scores, workers))))
        init = average([one.init_score for one in state.candidates]) - state.init_score
    return fixed + init + average(parts)


def decode_shards(output: Output, raw: Any) -> Any:
    """Return what ``predict`` returns, as a Dask array."""
    kind = np.dtype(np.float64) if output.classes is None else output.classes.dtype
    return raw.map_blocks(output.decode, dtype=kind, drop_axis=1)


def link_shards(output: Output, raw: Any) -> Any:
    """Return probabilities as a Dask array."""
    n_classes = 1 if output.classes is None else output.classes.size
    chunks = (raw.chunks[0], (n_classes,))
    return raw.map_blocks(output.apply_link, dtype=np.float64, chunks=chunks)
