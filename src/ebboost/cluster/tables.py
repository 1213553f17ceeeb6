"""Partitioned tables: their parts, who reads them, and the shard that a worker reads."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost._common import IntArray
from ebboost.cluster.communicator import Communicator
from ebboost.cluster.graph import Halo, ShardGraph
from ebboost.data.neighbors import Places
from ebboost.data.reader import TableReader
from ebboost.data.table import Table
from ebboost.graph._edges import edge_weights, merge_directions
from ebboost.graph.ids import is_missing


@dataclass(frozen=True)
class ParquetPart:
    """A row group of a Parquet file."""

    path: str
    group: int

    def read(self, columns: Sequence[str]) -> Any:
        """Return some columns as an Arrow table."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path) as file:
            return file.read_row_group(self.group, columns=list(columns))


@dataclass(frozen=True)
class Parts:
    """The parts of a table in their order, and the rows of each."""

    name: str  # for messages
    columns: tuple[str, ...]
    parts: tuple[Any, ...] = field(repr=False)
    lengths: tuple[int, ...] = field(repr=False)

    @property
    def n_rows(self) -> int:
        """Number of rows of all parts."""
        return sum(self.lengths)

    @property
    def is_dask(self) -> bool:
        """Whether parts are partitions of a Dask dataframe."""
        return not isinstance(self.parts[0], ParquetPart)

    def shares(self, size: int) -> list[range]:
        """Return which parts each of so many workers reads: successive ones, none of them empty."""
        ends = np.cumsum(self.lengths)
        middle = ends - 0.5 * np.array(self.lengths)
        rank = np.minimum((middle / max(self.n_rows, 1) * size).astype(int), size - 1)
        owners = [np.flatnonzero(rank == one) for one in range(size)]
        return [range(one[0], one[-1] + 1) for one in owners if one.size]


def parts_of(table: Any, name: str) -> Parts:
    """Return the parts of a Dask dataframe, a folder of Parquet files, or one such file."""
    if hasattr(table, "to_delayed") and hasattr(table, "map_partitions"):
        columns = tuple(str(one) for one in table.columns)
        lengths = tuple(int(one) for one in table.map_partitions(len).compute())
        return Parts(name, columns, tuple(table.to_delayed()), lengths)
    if not isinstance(table, (str, Path)):
        raise TypeError(
            f"{name} must be a Dask dataframe or the path of a folder of Parquet files, got "
            f"{type(table)}. A table that fits in memory is fitted by EBBSRegressor.fit."
        )
    import pyarrow.parquet as pq

    path = Path(table)
    files = [path] if path.is_file() else sorted(path.glob("**/*.parquet"), key=_natural)
    if not files:
        raise FileNotFoundError(f"{name}: {path} has no file that ends in .parquet.")
    parts, sizes, columns = [], [], ()
    for file in files:
        with pq.ParquetFile(file) as opened:
            names, metadata = tuple(opened.schema_arrow.names), opened.metadata
            columns = columns or names
            if names != columns:
                raise ValueError(f"{name}: {file} has other columns than {files[0]}: {names}.")
            for group in range(metadata.num_row_groups):
                parts.append(ParquetPart(str(file), group))
                sizes.append(metadata.row_group(group).num_rows)
    return Parts(name, columns, tuple(parts), tuple(sizes))


def _natural(path: Path) -> list[Any]:
    """A key that sorts part.2 before part.10."""
    return [int(one) if one.isdigit() else one for one in re.split(r"(\d+)", str(path))]


@dataclass(frozen=True)
class Prepared:
    """Tables of nodes and edges that workers can read; made by :func:`prepare`."""

    nodes: Parts
    edges: Parts
    id: str | None
    ends: tuple[str, str]
    weight: str | None

    @property
    def n_nodes(self) -> int:
        """Number of rows of the table of nodes."""
        return self.nodes.n_rows

    def __repr__(self) -> str:
        parts = f"{len(self.nodes.parts)} and {len(self.edges.parts)} parts"
        return f"Prepared({self.n_nodes:,} nodes, {self.edges.n_rows:,} edges, {parts})"


def prepare(
    nodes: Any,
    edges: Any,
    *,
    id: str | None = None,
    ends: tuple[str, str] = ("source", "target"),
    weight: str | None = None,
) -> Prepared:
    """Describe partitioned tables of nodes and edges, which the workers of a cluster will read.

    Neither is read here, only their columns and the lengths of their parts.

    Parameters
    ----------
    nodes : Dask dataframe or path
        A row for each node. A path is that of a folder of Parquet files, or one such file, which
        all workers can read.
    edges : Dask dataframe or path
        A row for each edge, in one direction or in both; repeats in one direction add up.
    id : str, optional
        The column of ``nodes`` with ids, whole numbers or text, that edges refer to. Default: edges
        hold row numbers.
    ends : pair of str, default=("source", "target")
        The columns of ``edges`` with its two ends.
    weight : str, optional
        The column of ``edges`` with weights. Default: all are 1.

    Returns
    -------
    Prepared

    Examples
    --------
    >>> import ebboost as eb, os, tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> folder = tempfile.mkdtemp()
    >>> path = os.path.join(folder, "nodes.parquet")
    >>> pq.write_table(pa.table({"name": ["a", "b"], "x": [1.0, 2.0]}), path)
    >>> other = os.path.join(folder, "edges.parquet")
    >>> pq.write_table(pa.table({"source": ["a"], "target": ["b"]}), other)
    >>> eb.cluster.prepare(path, other, id="name")
    Prepared(2 nodes, 1 edges, 1 and 1 parts)
    """
    tables = (parts_of(nodes, "nodes"), parts_of(edges, "edges"))
    for one in tables:
        if not one.n_rows:
            raise ValueError(f"{one.name} has no rows.")
    if id is not None:
        check_column("id", id, tables[0])
    if len(ends) != 2 or ends[0] == ends[1]:
        raise ValueError(f"ends must be the names of two columns of edges, got {ends!r}.")
    for name, column in (("ends", ends[0]), ("ends", ends[1]), ("weight", weight)):
        if column is not None:
            check_column(name, column, tables[1])
    return Prepared(*tables, id, (ends[0], ends[1]), weight)


def check_column(argument: str, name: object, table: Parts) -> None:
    """Raise ValueError unless a table has a column."""
    if name not in table.columns:
        known = ", ".join(map(repr, table.columns))
        raise ValueError(f"{argument}={name!r} is not a column of {table.name}, which has {known}.")


@dataclass(frozen=True)
class Share:
    """What a worker reads: parts of the nodes and of the edges."""

    nodes: Sequence[Any]
    edges: Sequence[Any]
    start: int  # its first row
    counts: Sequence[int]  # of parts of the edges, of all workers


def shares_of(prepared: Prepared, size: int) -> list[Share]:
    """Return what each of up to so many workers reads; fewer where there are fewer parts."""
    nodes, edges = prepared.nodes, prepared.edges
    of_nodes = nodes.shares(size)
    numbers = np.array_split(np.arange(len(edges.parts)), len(of_nodes))
    counts = [len(one) for one in numbers]
    starts = np.concatenate([[0], np.cumsum(nodes.lengths)])
    return [
        Share(
            [nodes.parts[one] for one in own],
            [edges.parts[one] for one in others],
            int(starts[own[0]]),
            counts,
        )
        for own, others in zip(of_nodes, numbers, strict=True)
    ]


def read(part: Any, columns: Sequence[str]) -> nw.DataFrame[Any]:
    """Return some columns of a part."""
    if isinstance(part, ParquetPart):
        return nw.from_native(part.read(columns), eager_only=True)
    frame = part.compute() if hasattr(part, "dask") else part
    return nw.from_native(frame[list(columns)], eager_only=True)


@dataclass(frozen=True)
class Shard:
    """A worker's rows."""

    table: Table
    reader: TableReader
    graph: ShardGraph
    columns: dict[str, NDArray[Any]]  # others than features, such as the target
    start: int
    n_nodes: int  # of all workers
    adjacency: sparse.csr_array = field(repr=False)  # of own nodes, with a column for every node

    @property
    def places(self) -> Any:
        """The node of each row."""
        graph: Any = self.graph
        return Places(graph, np.arange(self.table.n_rows))

    @property
    def every_table(self) -> Table:
        """The rows of own nodes and of the halo."""
        return replace(self.table, values=self.graph.halo.extend(self.table.values))


def load(
    workers: Communicator,
    prepared: Prepared,
    share: Share,
    features: Sequence[str],
    others: Sequence[str | None],
    reader: TableReader | None = None,
    categorical: Any = "auto",
) -> Shard:
    """Read a worker's rows and edges."""
    named = [*dict.fromkeys(name for name in (*others, prepared.id) if name is not None)]
    known = reader is not None
    readers = [reader or TableReader(categorical) for _ in share.nodes]
    tables: list[Table] = []
    columns: dict[str, list[NDArray[Any]]] = {name: [] for name in named}
    row = share.start
    for one, part in zip(readers, share.nodes, strict=True):
        frame = read(part, [*features, *named])
        try:
            native = frame.select(features).to_native()
            tables.append(one.read(native) if known else one.fit(native))
        except (TypeError, ValueError) as error:
            error.add_note(f"Row 0 of this part of nodes is row {row} of all.")
            raise
        for name in named:
            columns[name].append(np.asarray(frame[name].to_numpy()))
        row += len(frame)
    if reader is None:
        reader = agree(workers, readers)
        if reader.categories:  # codes are those of the levels of all workers
            frames = (read(part, features).to_native() for part in share.nodes)
            tables = [reader.read(frame) for frame in frames]
    table = replace(tables[0], values=np.concatenate([one.values for one in tables]))
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    ends = np.concatenate([workers.join(np.array([share.start])), [prepared.n_nodes]])
    find = None if prepared.id is None else Directory(joined[prepared.id], share.start, workers)
    adjacency = read_edges(workers, prepared, share, ends, find)
    graph = divided(adjacency, ends, workers)
    return Shard(table, reader, graph, joined, share.start, prepared.n_nodes, adjacency)


def agree(workers: Communicator, readers: Sequence[TableReader]) -> TableReader:
    """Return a reader with the categories of all parts of all workers."""
    own = [(one.names, one.categories, one.dates) for one in readers]
    found = [one for of_worker in workers.gather(own) for one in of_worker]
    names, _, dates = found[0]
    categories: dict[int, list[Any]] = {}
    for _, levels, own_dates in found:
        dates = own_dates or dates
        for column, values in levels.items():
            categories.setdefault(column, []).extend(values)
    for column, values in categories.items():
        if len({isinstance(value, str) for value in values}) > 1:
            problem = f"nodes, column {names[column]!r} is text in some parts, numbers in others"
            raise ValueError(f"{problem}: convert all of it to text.")
        categories[column] = sorted(set(values))
    ordered = dict(sorted(categories.items()))
    return replace(readers[0], names=names, categories=ordered, dates=dates)


def read_edges(
    workers: Communicator, prepared: Prepared, share: Share, ends: IntArray, find: Any
) -> sparse.csr_array:
    """Return the weights of a worker's nodes, with a column for every node.

    Each worker reads some parts of the edges, and sends an edge to the workers of its two ends.
    """
    names = [*prepared.ends, *([prepared.weight] if prepared.weight else [])]
    received: list[list[NDArray[Any]]] = []
    for number in range(max(share.counts)):
        source = target = np.zeros(0, dtype=np.int64)
        weight = np.zeros(0)
        if number < len(share.edges):
            frame = read(share.edges[number], names)
            source, target = (np.asarray(frame[name].to_numpy()) for name in prepared.ends)
            weight = np.ones(len(frame))
            if prepared.weight is not None:
                weight = edge_weights(frame[prepared.weight].to_numpy(), len(frame))
        positions = []
        for name, values in zip(prepared.ends, (source, target), strict=True):
            where = f"edges, column {name!r},"
            if find is None and values.dtype.kind not in "iu":
                problem = f"{where} must hold row numbers of nodes, got {values.dtype}"
                raise TypeError(f"{problem}: for ids pass prepare(..., id=...).")
            found = values.astype(np.int64) if find is None else find(values, where)
            outside = np.flatnonzero((found < 0) | (found >= prepared.n_nodes))
            if outside.size:
                missing = values[outside[0]]
                have = "have no such id."
                if find is None:
                    have = f"have rows 0 to {prepared.n_nodes - 1}: for ids pass prepare(id=...)."
                raise ValueError(f"{where} holds {missing!r}, but nodes {have}")
            positions.append(found)
        used = (positions[0] != positions[1]) & (weight > 0)
        source, target, weight = positions[0][used], positions[1][used], weight[used]
        for own, other in ((source, target), (target, source)):
            rank = np.searchsorted(ends, own, side="right") - 1
            rows = [np.flatnonzero(rank == one) for one in range(workers.size)]
            columns = [own, other] if prepared.weight is None else [own, other, weight]
            of_part = [workers.alltoall([values[one] for one in rows]) for values in columns]
            received.append([np.concatenate(parts) for parts in of_part])
    first, last = ends[workers.rank], ends[workers.rank + 1]
    shape = (int(last - first), prepared.n_nodes)
    directions = []
    for parts in (received[::2], received[1::2]):
        own, other, *weights = (np.concatenate(one) for one in zip(*parts, strict=True))
        data = weights[0] if weights else np.ones(own.size)
        one_way = sparse.coo_array((data, (own - first, other)), shape=shape).tocsr()
        if not weights:
            one_way.data[:] = 1.0
        directions.append(one_way)
    return merge_directions(*directions)


def divided(adjacency: sparse.csr_array, ends: IntArray, workers: Communicator) -> ShardGraph:
    """Return a worker's part of the graph, from its rows with a column for every node."""
    first, last = ends[workers.rank], ends[workers.rank + 1]
    column = adjacency.indices.astype(np.int64)
    is_own = (column >= first) & (column < last)
    halo = np.unique(column[~is_own])
    rank = np.searchsorted(ends, halo, side="right") - 1
    wanted = [halo[rank == one] - ends[one] for one in range(workers.size)]
    n_own = int(last - first)
    local = np.where(is_own, column - first, n_own + np.searchsorted(halo, column))
    data = adjacency.data.copy()  # sorted in place below
    parts = (data, local.astype(np.int32), adjacency.indptr.astype(np.int32))
    weights = sparse.csr_array(parts, shape=(n_own, n_own + halo.size))
    weights.sort_indices()
    return ShardGraph(weights, Halo.connect(wanted, workers))


class Directory:
    """Positions of nodes by id; each worker has those that a hash of the id leads to."""

    def __init__(self, ids: NDArray[Any], start: int, workers: Communicator) -> None:
        self._workers = workers
        missing = [row for row, value in enumerate(ids.tolist()) if is_missing(value)]
        if missing:
            raise ValueError(f"nodes has no id at row {start + missing[0]}: fill it in.")
        kinds = {one for one in workers.gather(_kind(ids)) if one}
        if len(kinds) > 1:
            raise TypeError("ids of nodes are text in some parts, numbers in others: use one kind.")
        self._kind = kinds.pop()
        keys = _keys(ids)
        owner = keys[:, 0] % np.uint64(workers.size)
        rows = [np.flatnonzero(owner == one) for one in range(workers.size)]
        keys = np.concatenate(workers.alltoall([keys[one] for one in rows]))
        positions = np.concatenate(workers.alltoall([one + start for one in rows]))
        order = np.argsort(keys[:, 0], kind="stable")
        self._keys, self._positions = keys[order], positions[order]
        repeats = np.flatnonzero(self._keys[1:, 0] == self._keys[:-1, 0])
        if repeats.size:
            pair = slice(repeats[0], repeats[0] + 2)
            one, other = np.sort(self._positions[pair]).tolist()
            if (self._keys[pair][0] != self._keys[pair][1]).any():
                raise ValueError(f"ids in rows {one} and {other} have one hash: use whole numbers.")
            raise ValueError(f"nodes has one id twice, in rows {one} and {other}.")

    def __call__(self, ids: NDArray[Any], where: str) -> IntArray:
        """Return the positions of ids, −1 for those that no node has."""
        kind = _kind(ids)
        if kind and kind != self._kind:
            raise TypeError(f"{where} holds {kind}, but ids of nodes are {self._kind}: convert it.")
        unique, inverse = np.unique(_keys(ids), axis=0, return_inverse=True)
        owner = unique[:, 0] % np.uint64(self._workers.size)
        rows = [np.flatnonzero(owner == one) for one in range(self._workers.size)]
        requests = self._workers.alltoall([unique[one] for one in rows])
        answers = self._workers.alltoall([self._find(keys) for keys in requests])
        positions = np.full(len(unique), -1)
        for one, answer in zip(rows, answers, strict=True):
            positions[one] = answer
        return positions[inverse.ravel()]

    def _find(self, keys: NDArray[np.uint64]) -> IntArray:
        if not len(self._keys):
            return np.full(len(keys), -1)
        row = np.searchsorted(self._keys[:, 0], keys[:, 0])
        row = np.minimum(row, len(self._keys) - 1)
        return np.where((self._keys[row] == keys).all(axis=1), self._positions[row], -1)


def _kind(ids: NDArray[Any]) -> str:
    if not ids.size:
        return ""
    return "whole numbers" if ids.dtype.kind in "iu" else "text"


def _keys(ids: NDArray[Any]) -> NDArray[np.uint64]:
    """Two numbers for each id: of text two hashes, together 128 bits."""
    from pandas.util import hash_array

    if ids.dtype.kind in "iu" or not ids.size:
        numbers = ids.astype(np.int64).view(np.uint64)
        return np.column_stack([hash_array(numbers), numbers])
    text = ids.astype(object)
    keys = ("first key of ids", "other key of ids")
    return np.column_stack([hash_array(text, hash_key=key) for key in keys])
