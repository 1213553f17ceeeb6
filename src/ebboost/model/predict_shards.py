"""Predictions that stay on the workers of a Dask cluster, as Dask arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.backends.dask import is_dask, stacked
from ebboost.backends.dask.cluster import Cluster, Membership
from ebboost.backends.dask.edges import read_graph
from ebboost.backends.dask.sharding import join_parts
from ebboost.backends.dask.worker import communicator
from ebboost.data.sharded import average, shard
from ebboost.data.types import TableLike
from ebboost.graph import ParquetGraph
from ebboost.model.inputs import check_feature_names
from ebboost.model.output import Output
from ebboost.model.predict import (
    Offset,
    RowArguments,
    fixed_scores,
    propagation_operator,
    tree_scores,
)
from ebboost.model.state import FittedState
from ebboost.propagation import threads


@dataclass(frozen=True)
class ShardRows:
    """Raw predictions of a worker's rows."""

    raw: NDArray[np.float64]


def raw_shards(state: FittedState, arguments: RowArguments) -> Any:
    """Return raw predictions as a Dask array, None if they are not those of a cluster."""
    X = arguments.X
    graph: object = arguments.graph
    if X is None and state.shards is None:
        return None
    if X is not None and not isinstance(graph, ParquetGraph):
        return None
    others = arguments._replace(X=None, graph=None, offset=Offset())
    if others != RowArguments():
        raise ValueError("nodes, new_labels and attach are not supported on a cluster.")
    if not isinstance(graph, ParquetGraph):
        return state.shards
    if not is_dask(X):
        raise ValueError("graph is a ParquetGraph: X must be a Dask dataframe or array.")
    return _predict(state, X, graph, arguments.offset)


def _predict(state: FittedState, X: TableLike, graph: ParquetGraph, offset: Offset) -> Any:
    """Predictions of new nodes, without labels."""
    check_feature_names(state, X)
    cluster = Cluster(X)
    columns = {"ids": cluster.split("ids", graph.ids)}
    columns |= {name: cluster.split(name, value) for name, value in offset._asdict().items()}
    light = replace(state, shards=None)
    tasks = [(light, graph.without_ids())] * len(cluster.blocks)
    futures = cluster.run(_predict_in_worker, tasks, columns, {})
    return stacked(futures, "raw", cluster.partition.lengths, state.raw_predictions.shape[1])


def _predict_in_worker(
    task: tuple[FittedState, ParquetGraph],
    blocks: Sequence[Any],
    columns: dict[str, Any],
    membership: Membership,
) -> ShardRows:
    state, edges = task
    with communicator(membership) as workers, threads(membership.n_threads):
        tables = [state.reader.read(block) for block in blocks]
        values = np.concatenate([table.values for table in tables])
        table = replace(tables[0], values=shard(values, workers))
        rows = {name: join_parts(name, parts, len(values)) for name, parts in columns.items()}
        # A shard of a graph has the interface of a Graph.
        graph: Any = read_graph(edges, rows.pop("ids"), membership.partition, workers)
        fixed = fixed_scores(state, len(values), Offset(**rows))
        parts = []
        for one in state.candidates:
            scores = tree_scores(one, one.pipeline.transform(table, graph))
            operator = propagation_operator(one.candidate.smoothing, graph, len(values))
            parts.append(np.asarray(operator.apply(shard(scores, workers))))
        init = average([one.init_score for one in state.candidates]) - state.init_score
    return ShardRows(fixed + init + average(parts))


def decode_shards(output: Output, raw: Any) -> Any:
    """Return what ``predict`` returns, as a Dask array."""
    kind = np.dtype(np.float64) if output.classes is None else output.classes.dtype
    return raw.map_blocks(output.decode, dtype=kind, drop_axis=1)


def link_shards(output: Output, raw: Any) -> Any:
    """Return probabilities as a Dask array."""
    n_classes = 1 if output.classes is None else output.classes.size
    chunks = (raw.chunks[0], (n_classes,))
    return raw.map_blocks(output.apply_link, dtype=np.float64, chunks=chunks)
