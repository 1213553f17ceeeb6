"""A worker's part of a graph in Parquet files: edges are read, mapped to nodes, and exchanged."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.backends.dask.cluster import Cluster
from ebboost.backends.dask.collectives import Collective
from ebboost.backends.dask.halo import ShardGraph
from ebboost.backends.dask.nearest import NearestRows, nearest_rows
from ebboost.backends.dask.sharding import Partition, shard_graph
from ebboost.graph import ParquetGraph, merge_directions, mixed_adjacency, node_positions

Positions = NDArray[np.int64]
#: Edges that a worker reads and sends, and merges with their other direction, at a time.
BLOCK = 1 << 17
MERGED_AT_ONCE = 1 << 18


Relations = Mapping[str | None, ParquetGraph | NearestRows]
#: Strengths of relations, from the graph of each.
Choose = Callable[[Mapping[str, Any]], Any]


def split_ids(relations: Relations, cluster: Cluster) -> dict[str, Any]:
    """Return the ids of each worker's nodes, or its points, for each relation."""
    columns = {}
    for name, one in relations.items():
        kind = "coordinates" if isinstance(one, NearestRows) else "ids"
        columns[f"ids {name}"] = cluster.split(kind, one.ids)
    return columns


def read_relations(
    relations: Relations,
    columns: dict[str, Any],
    partition: Partition,
    collective: Collective,
    choose: Choose,
) -> tuple[ShardGraph, dict[str, float] | None]:
    """Return this worker's part of a graph, of relations their sum by strengths, and these.

    ``columns`` has the ids of :func:`split_ids`, or points, which are taken out.
    """
    workers = (partition, collective)
    rows: dict[Any, sparse.csr_array] = {}
    for name, graph in relations.items():
        ids = columns.pop(f"ids {name}")
        if isinstance(graph, NearestRows):
            rows[name] = nearest_rows(ids, *workers, graph.neighbors)
        else:
            rows[name] = read_rows(graph, ids, *workers)
    if None in rows:
        return shard_graph(rows[None], *workers), None
    strengths = choose({name: shard_graph(one, *workers) for name, one in rows.items()})
    return shard_graph(mixed_adjacency(rows, strengths), *workers), strengths


def read_graph(
    graph: ParquetGraph, ids: NDArray[Any] | None, partition: Partition, collective: Collective
) -> ShardGraph:
    """Return this worker's part of a graph; ``ids`` are those of its nodes, None for positions."""
    return shard_graph(read_rows(graph, ids, partition, collective), partition, collective)


def read_rows(
    graph: ParquetGraph, ids: NDArray[Any] | None, partition: Partition, collective: Collective
) -> sparse.csr_array:
    """Return the rows of this worker's nodes, with a column for every node."""
    find = None if ids is None else Directory(ids, partition, collective)
    # Own node and neighbour, of edges from the node and of edges to it.
    ends: list[list[Positions]] = [[], []]
    weights: list[list[NDArray[np.float64]]] = [[], []]
    kind = np.int32 if partition.n_nodes < 2**31 else np.int64
    is_weighted = graph.edges.weight is not None
    for source, target, weight in _blocks(graph, partition, collective, find):
        for way, (own, other) in enumerate([(source, target), (target, source)]):
            rank, row = partition.locate(own)
            pairs = np.column_stack([row, other]).astype(kind)
            to_ranks = [np.flatnonzero(rank == one) for one in range(collective.count)]
            ends[way] += collective.alltoall([pairs[rows] for rows in to_ranks])
            if is_weighted:
                weights[way] += collective.alltoall([weight[rows] for rows in to_ranks])
    shape = (partition.lengths[collective.rank], partition.n_nodes)
    if is_weighted:
        ways = [_matrix(*way, shape) for way in zip(ends, weights, strict=True)]
        # Both directions as one matrix, merged some rows at a time.
        ends_of_rows = np.linspace(0, shape[0], 2 + ways[0].nnz // MERGED_AT_ONCE).astype(int)
        chunks = [merge_directions(*(way[a:b] for way in ways)) for a, b in pairwise(ends_of_rows)]
        return sparse.vstack(chunks, format="csr")
    both = [*ends.pop(), *ends.pop()]
    rows = _matrix(both, None, shape)
    rows.data = rows.data.view(np.int8)  # an eighth of the memory of numbers
    return rows


def _matrix(
    pairs: list[Positions], weights: list[NDArray[np.float64]] | None, shape: tuple[int, int]
) -> sparse.csr_array:
    """A matrix of rows and columns, which are freed; repeats are added up, or True."""
    rows, columns = (np.concatenate([part[:, end] for part in pairs]) for end in (0, 1))
    pairs.clear()
    data = np.ones(rows.size, bool) if weights is None else np.concatenate(weights)
    return sparse.coo_array((data, (rows, columns)), shape).tocsr()


def _blocks(
    graph: ParquetGraph, partition: Partition, collective: Collective, find: "Directory | None"
) -> Iterator[tuple[Positions, Positions, NDArray[np.float64]]]:
    """Source, target and weight of some edges each, as many times in every worker."""
    tables = graph.edges.tables(BLOCK, (collective.rank, collective.count))
    names = [f"{graph.edges.path}, column {name!r}" for name in graph.edges.ends]
    empty: Any = np.zeros(0, dtype=np.int64)
    while True:
        ends, weight = next(tables, ([empty, empty], np.zeros(0)))
        if not collective.allreduce(np.array([float(weight.size)]))[0]:
            return
        if find is not None:
            positions = np.split(find(np.concatenate(ends), names[0]), 2)
        else:
            positions = [node_positions(*pair) for pair in zip(ends, names, strict=True)]
        for end, name in zip(positions, names, strict=True):
            outside = np.flatnonzero((end < 0) | (end >= partition.n_nodes))
            if outside.size:
                raise ValueError(
                    f"{name} has an edge of the node {end[outside[0]]}: positions go from 0 to "
                    f"{partition.n_nodes - 1}. For ids pass ParquetGraph(path, ids=...)."
                )
        source, target = positions
        used = (source != target) & (weight > 0)
        yield source[used], target[used], weight[used]


class Directory:
    """Positions of nodes by id; each worker has those whose hash leads to it."""

    def __init__(self, ids: NDArray[Any], partition: Partition, collective: Collective) -> None:
        self._collective = collective
        self._kind = _kind(ids)
        keys = _keys(ids)
        owner = keys[:, 0] % np.uint64(collective.count)
        own = partition.positions(collective.rank)
        rows = [np.flatnonzero(owner == rank) for rank in range(collective.count)]
        keys = np.concatenate(collective.alltoall([keys[one] for one in rows]))
        positions = np.concatenate(collective.alltoall([own[one] for one in rows]))
        order = np.argsort(keys[:, 0], kind="stable")
        self._keys = keys[order]
        self._positions = positions[order]
        repeats = np.flatnonzero(self._keys[1:, 0] == self._keys[:-1, 0])
        if repeats.size:
            rows_of = np.sort(self._positions[repeats[0] : repeats[0] + 2]).tolist()
            raise ValueError(f"ids has one id twice, at the rows {rows_of[0]} and {rows_of[1]}.")

    def __call__(self, ids: NDArray[Any], name: str) -> Positions:
        """Return the positions of ids; ``name`` is for messages."""
        if ids.size and _kind(ids) != self._kind:
            raise TypeError(f"{name} holds {_kind(ids)}, but ids holds {self._kind}.")
        keys = _keys(ids)
        _, first, inverse = np.unique(keys[:, 0], return_index=True, return_inverse=True)
        unique = keys[first]
        if not (unique[inverse] == keys).all():
            raise ValueError(f"{name}: two ids have the same hash. Use integers as ids.")
        owner = unique[:, 0] % np.uint64(self._collective.count)
        rows = [np.flatnonzero(owner == rank) for rank in range(self._collective.count)]
        requests = self._collective.alltoall([unique[one] for one in rows])
        answers = self._collective.alltoall([self._find(keys) for keys in requests])
        positions = np.full(len(unique), -1)
        for one, answer in zip(rows, answers, strict=True):
            positions[one] = answer
        of_ids = positions[inverse]
        unknown = np.flatnonzero(of_ids < 0)
        if unknown.size:
            raise ValueError(f"{name}: ids has no node {ids[unknown[0]]!r}, the end of an edge.")
        return of_ids

    def _find(self, keys: NDArray[np.uint64]) -> Positions:
        if not len(self._keys):
            return np.full(len(keys), -1)
        row = np.searchsorted(self._keys[:, 0], keys[:, 0])
        row = np.minimum(row, len(self._keys) - 1)
        return np.where((self._keys[row] == keys).all(axis=1), self._positions[row], -1)


def _kind(ids: NDArray[Any]) -> str:
    return "integers" if np.asarray(ids).dtype.kind in "iu" else "text"


def _keys(ids: NDArray[Any]) -> NDArray[np.uint64]:
    """Two numbers for each id: of text two hashes, together 128 bits."""
    from pandas.util import hash_array

    values = np.asarray(ids)
    if values.dtype.kind in "iu":
        numbers = values.astype(np.int64).view(np.uint64)
        return np.column_stack([hash_array(numbers), numbers])
    text = values.astype(object)
    keys = ("first key of ids", "other key of ids")
    return np.column_stack([hash_array(text, hash_key=key) for key in keys])
