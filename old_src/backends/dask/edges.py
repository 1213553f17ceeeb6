"""A worker's part of a graph in Parquet files: edges are read, mapped to nodes, and exchanged."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.backends.dask.cluster import Cluster
from ebboost.backends.dask.collections import gathered
from ebboost.backends.dask.collectives import Collective, SingleProcess
from ebboost.backends.dask.groups import RowGroups, ShardRows
from ebboost.backends.dask.halo import ShardGraph
from ebboost.backends.dask.nearest import NearestRows, nearest_rows
from ebboost.backends.dask.sharding import Partition, shard_graph
from ebboost.data.lazy import temporary_array, to_file
from ebboost.data.parquet import ParquetTable
from ebboost.graph import Graph, ParquetGraph, as_parquet_relations, mixed_adjacency, node_positions
from ebboost.graph.ids import as_id_array, is_missing
from ebboost.graph.row_entries import AT_ONCE, RowEntries, in_memory, index_type

Positions = NDArray[np.int64]
#: Edges that a worker reads and sends at a time.
BLOCK = 1 << 17


Relations = Mapping[str | None, ParquetGraph | NearestRows | RowGroups]
#: Strengths of relations, from the graph of each.
Choose = Callable[[Mapping[str, Any]], Any]


def split_ids(relations: Relations, cluster: Cluster) -> dict[str, Any]:
    """Return the ids of each worker's nodes, or its points, for each relation."""
    columns = {}
    for name, one in relations.items():
        kinds: dict[type, str] = {NearestRows: "coordinates", RowGroups: "groups"}
        columns[f"ids {name}"] = cluster.split(kinds.get(type(one), "ids"), one.ids)
    return columns


def read_relations(
    relations: Relations,
    columns: dict[str, Any],
    partition: Partition,
    collective: Collective,
    choose: Choose,
) -> tuple[ShardGraph | ShardRows, dict[str, float] | None]:
    """Return this worker's part of a graph, of relations their sum by strengths, and these.

    ``columns`` has the ids of :func:`split_ids`, or points, which are taken out.
    """
    workers = (partition, collective)
    rows: dict[Any, sparse.csr_array] = {}
    for name, graph in relations.items():
        ids = columns.pop(f"ids {name}")
        if isinstance(graph, NearestRows):
            rows[name] = nearest_rows(ids, *workers, graph.neighbors)
        elif isinstance(graph, RowGroups):
            between = graph.graph
            between = _open_graph(between) if isinstance(between, ParquetGraph) else between
            return ShardRows.read(ids, between, collective), None
        else:
            rows[name] = read_rows(graph, ids, *workers)
    if None in rows:
        return shard_graph(rows[None], *workers), None
    strengths = choose({name: shard_graph(one, *workers) for name, one in rows.items()})
    return shard_graph(mixed_adjacency(rows, strengths), *workers), strengths


def open_graphs(graph: Any, X: Any, has_groups: bool = False) -> Any:
    """Return a :class:`ParquetGraph`, or relations of them, as graphs of this process.

    Read by the code of the workers. Next to a table in files the adjacency is in a file too. If the
    rows of X ``has_groups``, nodes are groups, else rows.
    """
    relations = as_parquet_relations(graph)
    if relations is None or X is None:
        return graph
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    where = (None if has_groups else int(n_rows), isinstance(X, ParquetTable))
    opened = {name: _open_graph(one, *where) for name, one in relations.items()}
    return opened.get(None, opened)


def _open_graph(graph: ParquetGraph, n_nodes: int | None = None, on_disk: bool = False) -> Graph:
    edges = graph.edges
    if graph.ids is None and n_nodes is None:
        source, target = edges.ends
        return Graph.from_parquet(edges.path, source=source, target=target, weight=edges.weight)
    ids = None if graph.ids is None else as_id_array(gathered(graph.ids)[0], "ids")
    if ids is not None and ids.size != (n_nodes or ids.size):
        raise ValueError(f"ids must have {n_nodes} entries, one for each row of X, got {ids.size}.")
    n_nodes = n_nodes if ids is None else ids.size
    assert n_nodes is not None
    partition = Partition((((0, n_nodes),),))
    rows = read_rows(graph, ids, partition, SingleProcess(), on_disk)
    if rows.data.dtype != np.float64:
        new_array = _new_file if on_disk else in_memory
        rows.data = new_array("data", np.dtype(np.float64), rows.nnz)
        rows.data[:] = 1.0
    return Graph(rows, ids)


def read_graph(
    graph: ParquetGraph, ids: NDArray[Any] | None, partition: Partition, collective: Collective
) -> ShardGraph:
    """Return this worker's part of a graph; ``ids`` are those of its nodes, None for positions."""
    return shard_graph(read_rows(graph, ids, partition, collective), partition, collective)


def read_rows(
    graph: ParquetGraph,
    ids: NDArray[Any] | None,
    partition: Partition,
    collective: Collective,
    on_disk: bool = False,
) -> sparse.csr_array:
    """Return the rows of this worker's nodes, with a column for every node.

    ``on_disk``: entries are in temporary files, from the first to the last. Unit weights are int8.
    """
    find = None if ids is None else Directory(ids, partition, collective)
    is_weighted = graph.edges.weight is not None
    n_nodes = partition.n_nodes
    kind = index_type(RowEntries.width(n_nodes, is_weighted))
    counts = np.zeros(partition.lengths[collective.rank], dtype=np.int64)
    received = Received(max(AT_ONCE, counts.size), on_disk)
    for source, target, weight in _blocks(graph, partition, collective, find):
        for own, other in ((source, target), (target, source)):
            rank, row = partition.locate(own)
            column = other + n_nodes if is_weighted and own is target else other
            pairs = np.column_stack([row, column]).astype(kind)
            to_ranks = [np.flatnonzero(rank == one) for one in range(collective.count)]
            parts = [collective.alltoall([pairs[rows] for rows in to_ranks])]
            if is_weighted:
                parts.append(collective.alltoall([weight[rows] for rows in to_ranks]))
            for part in parts[0]:
                np.add.at(counts, part[:, 0], 1)
            received.add(parts)
    entries = RowEntries(counts, n_nodes, is_weighted, _new_file if on_disk else in_memory)
    for pairs, *weights in received.take():
        entries.write(pairs[:, 0], pairs[:, 1], *weights)
    start = entries.merge()
    n_entries = int(start[-1])
    data = np.ones(n_entries, np.int8) if entries.weights is None else entries.weights[:n_entries]
    arrays = (data, entries.columns[:n_entries], start.astype(entries.index))
    return sparse.csr_array(arrays, shape=(counts.size, n_nodes))


def _new_file(part: str, dtype: np.dtype[Any], size: int) -> NDArray[Any]:
    return temporary_array((size, 1), dtype)[:, 0]


class Received:
    """Pairs of own row and column, and weights, that other workers have sent."""

    def __init__(self, n_at_once: int, on_disk: bool) -> None:
        self._n_at_once = n_at_once
        self._on_disk = on_disk
        self._blocks: list[list[NDArray[Any]]] = []
        self._newest: list[list[list[NDArray[Any]]]] = []
        self._n_newest = 0

    def add(self, parts: list[list[NDArray[Any]]]) -> None:
        """Keep the messages of all workers: their pairs and, where edges have some, weights."""
        self._newest.append(parts)
        self._n_newest += sum(map(len, parts[0]))
        if self._n_newest >= self._n_at_once:
            self._join()

    def _join(self) -> None:
        columns = zip(*self._newest, strict=True)
        block = [np.concatenate([one for parts in column for one in parts]) for column in columns]
        self._newest.clear()
        self._n_newest = 0
        if self._on_disk:
            block = [to_file(part.reshape(len(part), -1)) for part in block]
        self._blocks.append(block)

    def take(self) -> Iterator[list[NDArray[Any]]]:
        """Yield pairs and weights of many edges each, which are freed."""
        if self._newest:
            self._join()
        while self._blocks:
            pairs, *weights = self._blocks.pop()
            yield [pairs, *(weight.reshape(-1) for weight in weights)]


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
            positions = [_as_positions(*pair) for pair in zip(ends, names, strict=True)]
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


def _as_positions(ends: NDArray[Any], name: str) -> Positions:
    if ends.size and ends.dtype.kind not in "iuf":
        raise TypeError(
            f"{name} must hold positions of rows, integers from 0, got {ends[0]!r}. For ids pass "
            "ParquetGraph(path, ids=...), with the id of each row of X."
        )
    return node_positions(ends, name)


class Directory:
    """Positions of nodes by id; each worker has those whose hash leads to it."""

    def __init__(self, ids: NDArray[Any], partition: Partition, collective: Collective) -> None:
        self._collective = collective
        self._kind = _kind(ids)
        own = partition.positions(collective.rank)
        if self._kind == "text":
            missing = np.flatnonzero(np.frompyfunc(is_missing, 1, 1)(ids))
            if missing.size:
                raise ValueError(f"ids has no id at row {own[missing[0]]}: fill it in.")
        keys = _keys(ids)
        owner = keys[:, 0] % np.uint64(collective.count)
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
