"""The nodes of each worker, and a worker's rows of table and graph."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.backends.dask.collectives import Collective
from ebboost.backends.dask.halo import Halo, ShardGraph
from ebboost.data.fingerprint import fingerprint_of
from ebboost.data.reader import TableReader, sort_categories
from ebboost.data.sharded import shard
from ebboost.data.table import Table
from ebboost.data.types import TableLike

Positions = NDArray[np.int64]
#: Entries of an adjacency whose nodes are located at a time.
LOCATED_AT_ONCE = 1 << 19


@dataclass(frozen=True)
class Partition:
    """The nodes of each worker, by rank: a few ranges of positions."""

    ranges: tuple[tuple[tuple[int, int], ...], ...]

    @cached_property
    def _blocks(self) -> NDArray[np.int64]:
        """First node, rank and number of earlier nodes of that rank, for each range in order."""
        blocks = []
        for rank, own in enumerate(self.ranges):
            before = 0
            for start, stop in own:
                blocks.append((start, rank, before))
                before += stop - start
        return np.array(sorted(blocks), dtype=np.int64)

    @cached_property
    def n_nodes(self) -> int:
        """Number of nodes of all workers."""
        return max(stop for own in self.ranges for _, stop in own)

    @property
    def lengths(self) -> list[int]:
        """Number of nodes of each worker."""
        return [sum(stop - start for start, stop in own) for own in self.ranges]

    def locate(self, positions: Positions) -> tuple[Positions, Positions]:
        """Return the rank of each node, and its position among the nodes of that rank."""
        first, rank, before = self._blocks.T
        block = np.searchsorted(first, positions, side="right") - 1
        return rank[block], positions - first[block] + before[block]

    def positions(self, rank: int) -> Positions:
        """Return the nodes of a worker in its order."""
        return np.concatenate([np.arange(*part) for part in self.ranges[rank]])

    def select(self, rank: int, values: Any) -> Any:
        """Return a worker's rows of an array or a sparse matrix of all nodes."""
        parts = [values[start:stop] for start, stop in self.ranges[rank]]
        stack = sparse.vstack if sparse.issparse(values) else np.concatenate
        return parts[0] if len(parts) == 1 else stack(parts)

    def join(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return the rows of all nodes, from those of each worker."""
        values = np.empty((self.n_nodes, *parts[0].shape[1:]), parts[0].dtype)
        for rank, own in enumerate(parts):
            values[self.positions(rank)] = own
        return values


def shard_graph(rows: sparse.csr_array, partition: Partition, collective: Collective) -> ShardGraph:
    """Return a worker's part of the graph, from its rows with a column for every node."""
    n_own = rows.shape[0]
    starts = range(0, rows.nnz, LOCATED_AT_ONCE)
    chunks = [slice(start, start + LOCATED_AT_ONCE) for start in starts]
    outside = [np.zeros(0, dtype=np.int64)]
    for chunk in chunks:
        nodes = rows.indices[chunk].astype(np.int64)
        outside.append(np.unique(nodes[partition.locate(nodes)[0] != collective.rank]))
    halo = np.unique(np.concatenate(outside))
    ranks, positions = partition.locate(halo)
    wanted = [positions[ranks == other] for other in range(collective.count)]
    # The halo is in the order of the ranks, and of the nodes of each.
    slot = n_own + np.argsort(np.argsort(ranks, kind="stable"))
    indices = np.empty(rows.nnz, dtype=np.int32)
    for chunk in chunks:
        nodes = rows.indices[chunk].astype(np.int64)
        rank, indices[chunk] = partition.locate(nodes)
        is_outside = rank != collective.rank
        indices[chunk][is_outside] = slot[np.searchsorted(halo, nodes[is_outside])]
    shape = (n_own, n_own + halo.size)
    weights = sparse.csr_array((rows.data, indices, rows.indptr.astype(np.int32)), shape=shape)
    weights.sort_indices()
    return ShardGraph(weights, Halo.connect(wanted, collective))


class RowOrders:
    """Orders in which a worker's rows of an array may be: nodes, labels of a fold, eval_set.

    A checkpoint has the rows of all workers, so that workers with other rows can resume from it.
    ``positions`` are the nodes of the worker's rows in each order.
    """

    def __init__(self, positions: Sequence[Positions], collective: Collective) -> None:
        self._positions = positions
        self._collective = collective
        self.is_first = collective.rank == 0

    def agree(self, decision: bool) -> bool:
        """Return the decision of the first worker."""
        return bool(self._collective.from_rank0(float(decision)))

    def order_of(self, values: NDArray[Any]) -> int:
        """Return the number of the order with as many rows as this array in every worker."""
        differs = [len(values) != own.size for own in self._positions]
        n_differing = self._collective.allreduce(np.array(differs, dtype=np.float64))
        return int(np.argmin(n_differing))

    def join(self, values: NDArray[Any], order: int) -> NDArray[Any]:
        """Return the rows of all workers, sorted by node, in the first worker."""
        own = (np.asarray(values), self._positions[order])
        others = range(1, self._collective.count)
        if not self.is_first:
            for part in own:
                self._collective.exchange({0: part}, [])
            return own[0]
        rows, nodes = (
            np.concatenate([part, *self._collective.exchange({}, list(others))]) for part in own
        )
        return rows[np.argsort(nodes)]

    def select(self, values: NDArray[Any], order: int) -> NDArray[Any]:
        """Return the rows of this worker, out of those of all workers."""
        own = self._positions[order]
        nodes = np.sort(np.concatenate(self._collective.allgather(own)))
        return shard(values[np.searchsorted(nodes, own)], self._collective)


def read_shard(
    blocks: Sequence[Any], starts: Sequence[int], categorical: Any, collective: Collective
) -> tuple[TableReader, Table]:
    """Return a worker's rows as numbers; text columns and categories are those of all workers."""
    reader = TableReader(categorical)
    readers = [TableReader(categorical) for _ in blocks]
    parts = list(zip(blocks, starts, strict=True))
    n_rows = sum(int(block.shape[0]) for block in blocks)
    table = _joined([partial(_read_block, own.fit) for own in readers], parts, n_rows)
    of_all = collective.allgather_objects([(own.names, own.categories) for own in readers])
    reader.names = readers[0].names
    for names, categories in chain.from_iterable(of_all):
        _check_names(names, reader.names)
        for column, values in categories.items():
            reader.categories[column] = reader.categories.get(column, []) + values
    for column, values in reader.categories.items():
        if len({isinstance(value, str) for value in values}) > 1:
            raise ValueError(
                f"X, column {reader.names[column]!r} is text in some blocks and numbers in others."
            )
        reader.categories[column] = sort_categories(set(values))
    if reader.categories:
        table = _joined([partial(_read_block, reader.read)] * len(parts), parts, n_rows)
    categories = tuple(sorted(reader.categories))
    columns = (shard(table.values, collective), reader.names, categories, table.origin)
    return reader, Table(*columns, categories=reader.categories)


def _joined(
    reads: Sequence[Callable[..., Table]], parts: Sequence[tuple[Any, int]], n_rows: int
) -> Table:
    """The rows of all blocks as one table, read one after the other."""
    values: NDArray[Any] | None = None
    end = 0
    for read, part in zip(reads, parts, strict=True):
        table = read(*part)
        if table.is_sparse:
            raise ValueError(
                "X holds sparse blocks: on a cluster it must be dense. Use X.map_blocks(lambda b: "
                "b.toarray())."
            )
        if values is None:
            first = table
            values = np.empty((n_rows, len(table.names)), table.values.dtype)
        _check_names(table.names, first.names)
        values = values.astype(np.result_type(values, table.values), copy=False)
        values[end : end + table.n_rows] = table.values
        end += table.n_rows
    return replace(first, values=values)


def _check_names(names: Sequence[str], expected: Sequence[str]) -> None:
    if names != expected:
        raise ValueError(f"X has blocks with other columns: {list(names)} and {list(expected)}.")


def fingerprint_of_rows(values: Any, partition: Partition, collective: Collective) -> str:
    """Return a digest of the rows of all workers, the same however they are distributed."""
    from pandas.util import hash_array

    own = np.asarray(values)
    position = partition.positions(collective.rank).astype(np.uint64)
    sums = []
    for column in own.reshape(len(own), -1).T:
        # A sum of hashes of value and position does not depend on the order of its terms.
        keys = hash_array(np.ascontiguousarray(column)) + position * np.uint64(0x9E3779B97F4A7C15)
        sums.append(int(hash_array(keys).sum()))
    of_all = np.array(collective.allgather_objects(sums), dtype=np.uint64)
    return fingerprint_of(of_all.sum(axis=0).tolist())


def join_parts(name: str, parts: Any, n_rows: int) -> NDArray[Any] | None:
    """Return a column of a worker's rows, from its blocks."""
    if parts is None:
        return None
    values = np.concatenate([np.asarray(part) for part in parts])
    if len(values) != n_rows:
        raise ValueError(f"{name} has {len(values)} entries where X has {n_rows} rows.")
    return values


def _read_block(read: Callable[[Any], Table], block: TableLike, start: int) -> Table:
    """A block as numbers; errors say where its rows begin."""
    try:
        return read(block)
    except (TypeError, ValueError) as error:
        raise type(error)(f"X, counted from row {start}: {error}") from None
