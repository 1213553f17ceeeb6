"""Rows of which several share a group: rows are divided among workers, groups are whole in each."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.backends.dask.collectives import Collective
from ebboost.data.sharded import shard, total_rows
from ebboost.graph import Graph, Groups, ParquetGraph
from ebboost.graph.ids import as_id_array, positions_of


@dataclass(frozen=True)
class RowGroups:
    """The group of each row, and the graph of the groups, if they have edges."""

    #: What is split among the workers like the ids of a ``ParquetGraph``.
    ids: Any
    graph: Graph | ParquetGraph | None = None

    def without_ids(self) -> "RowGroups":
        """Return what is sent to workers, each of which has the groups of its rows."""
        return replace(self, ids=None)


class ShardRows:
    """A worker's rows, in place of a graph of them; sums over a group are those of all workers."""

    #: Rows have no edges of their own.
    outgoing: None = None
    time: None = None
    vectors: None = None
    is_signed = False

    def __init__(self, between: Graph, group_of: NDArray[np.int64], workers: Collective) -> None:
        self.groups: Groups[Graph] = Groups(between, shard(group_of, workers))
        self.n_nodes = group_of.size
        self.n_edges = total_rows(self.groups.group_of)

    @classmethod
    def read(cls, ids: NDArray[Any], graph: Graph | None, workers: Collective) -> "ShardRows":
        """Return the rows of a worker, from the group of each."""
        own = as_id_array(ids, "groups")
        of_all = [part.tolist() for part in workers.allgather_objects(_unique(own))]
        known = as_id_array(dict.fromkeys(id_ for part in of_all for id_ in part), "groups")
        if graph is not None and (positions_of(graph.node_ids, known) < 0).all():
            raise ValueError(
                f"No group is a node of graph: groups hold {known[0]!r}, graph has "
                f"{graph.node_ids[0]!r}. Are ids numbers in one and text in the other?"
            )
        groups = Graph.from_groups(known, graph).groups
        assert groups is not None
        return cls(groups.graph, positions_of(groups.graph.node_ids, own), workers)

    def stored(self) -> "StoredRows":
        """Return the rows without the connections of this fit."""
        return StoredRows(self.groups.graph, np.asarray(self.groups.group_of))

    @property
    def adjacency(self) -> sparse.csr_array:
        """That of the groups."""
        return self.groups.graph.adjacency

    @property
    def parent(self) -> "ShardRows":
        """The rows themselves."""
        return self

    @property
    def unsigned(self) -> "ShardRows":
        """The rows themselves."""
        return self


@dataclass(frozen=True)
class StoredRows:
    """A worker's rows between two jobs of the workers."""

    between: Graph
    group_of: NDArray[np.int64]

    def connect(self, collective: Collective) -> ShardRows:
        """Return the rows with the connections of a job."""
        return ShardRows(self.between, self.group_of, collective)


def _unique(ids: NDArray[Any]) -> NDArray[Any]:
    return np.unique(ids) if ids.dtype.kind in "iu" else as_id_array(dict.fromkeys(ids), "groups")
