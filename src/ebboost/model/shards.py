"""Fitted nodes that stay on the workers of a Dask cluster: what each holds, and jobs on them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.backends.dask.cluster import Cluster, Membership
from ebboost.backends.dask.collectives import Collective
from ebboost.backends.dask.groups import StoredRows
from ebboost.backends.dask.halo import StoredGraph
from ebboost.backends.dask.worker import communicator
from ebboost.data.sharded import shard
from ebboost.data.types import Array, IntArray
from ebboost.model.explain import Explanation, explain, sum_parts
from ebboost.model.state import FittedState
from ebboost.propagation import threads


@dataclass(frozen=True)
class NodeShard:
    """The state of a worker's nodes between two jobs of the workers.

    ``folds`` are the labels and their folds.
    """

    state: FittedState
    graph: StoredGraph | StoredRows
    folds: Any

    @classmethod
    def of(cls, state: FittedState, folds: Any) -> "NodeShard":
        """Return the shard of a state whose rows are sharded."""
        graph: Any = state.graph
        stored = _without_graph(convert_rows(state, np.asarray))
        return cls(stored, graph.stored(), folds.convert(np.asarray))

    def connect(self, workers: Collective) -> tuple[FittedState, Any]:
        """Return state and folds as sharded arrays, with the connections of a job."""
        convert = partial(shard, workers=workers)
        graph: Any = self.graph.connect(workers)
        state = convert_rows(self.state, convert)
        members = tuple(replace(one, graph=graph) for one in state.members)
        return replace(state, graph=graph, members=members), self.folds.convert(convert)


def convert_rows(state: FittedState, convert: Callable[[Any], Any]) -> FittedState:
    """Return the state with another type of the arrays that have a row for each node or label."""
    names = ("scores", "propagated_scores", "raw_predictions")
    rows: dict[str, Any] = {name: convert(getattr(state, name)) for name in names}
    record = state.validation
    parts = ("target", "prediction", "without_graph")
    table = state.table
    return replace(
        state,
        members=tuple(convert_rows(one, convert) for one in state.members),
        labels=state.labels.convert(convert),
        validation=replace(record, **{name: convert(getattr(record, name)) for name in parts}),
        offset=None if state.offset is None else convert(state.offset),
        table=None if table is None else replace(table, values=convert(table.values)),
        **rows,
    )


def _without_graph(state: FittedState) -> FittedState:
    members = tuple(_without_graph(one) for one in state.members)
    return replace(state, graph=None, members=members, spread=None)


@dataclass(frozen=True)
class SpreadShards:
    """The spread of residuals: of a sample of labels here, of the nodes on the workers.

    ``state`` has the sample as its validation record; ``local`` are :class:`SpreadShard` futures.
    """

    state: FittedState
    local: Sequence[Any]


@dataclass(frozen=True)
class SpreadShard:
    """The spread of a worker's nodes, a column each, and its part of the sample of labels."""

    field_variance: Array
    factor: Array
    sample: FittedState
    is_evaluation: NDArray[np.bool_]  # of each label of the sample


class Shards:
    """The fitted nodes of a model on the workers of a cluster."""

    def __init__(self, cluster: Cluster, spread: SpreadShards) -> None:
        #: Its blocks have a :class:`NodeShard` as the attribute ``nodes``.
        self.cluster = cluster
        self.spread = spread

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all workers."""
        return self.cluster.partition.n_nodes

    def run(self, function: Callable[..., Any], task: Any) -> list[Any]:
        """Run a function with the same task in every worker; return futures by rank."""
        tasks = [task] * len(self.cluster.blocks)
        return self.cluster.run(function, tasks, {}, {})

    def __reduce__(self) -> Any:
        # A copy elsewhere has no workers; it is the model without nodes.
        return (type(None), ())


def explain_shards(shards: Shards, nodes: IntArray) -> list[Explanation]:
    """Return explanations of fitted nodes that are on workers."""
    parts = shards.cluster.client.gather(shards.run(_explain_in_worker, nodes))
    return [sum_parts(of_node) for of_node in zip(*parts, strict=True)]


def _explain_in_worker(
    nodes: IntArray, blocks: Sequence[Any], columns: Any, membership: Membership
) -> list[Explanation]:
    partition = membership.partition
    with communicator(membership) as workers, threads(membership.n_threads):
        state, _ = blocks[0].nodes.connect(workers)
        rank, position = partition.locate(nodes)
        rows = np.where(rank == workers.rank, position, -1)
        return explain(state, rows, state.table, nodes, partition.positions(workers.rank))
