"""A worker's part of the data: some rows of the table, some rows of the adjacency, and what is put together from them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.backends.dask.collectives import Collective
from ebboost.data.fingerprint import fingerprint_of
from ebboost.data.reader import TableReader
from ebboost.data.table import Table
from ebboost.graph import Graph
from ebboost.propagation import Sweep, sweep_on

# Relative residuals from which on conjugate gradients may speak in float32, which halves what they send.
SHORT_FROM = 1e-3


@dataclass(frozen=True)
class Rows:
    """Which nodes are a worker's: a few ranges of positions."""

    ranges: tuple[tuple[int, int], ...]
    n_nodes: int

    @property
    def count(self) -> int:
        """How many."""
        return sum(stop - start for start, stop in self.ranges)

    def of(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the entries at these nodes."""
        return np.concatenate([values[start:stop] for start, stop in self.ranges])

    def placed(self, own: NDArray[Any], extra: int = 0) -> NDArray[Any]:
        """Return an array for all nodes (and ``extra`` entries) that has these and 0 elsewhere."""
        placed, at = np.zeros((self.n_nodes + extra, *own.shape[1:]), own.dtype), 0
        for start, stop in self.ranges:
            placed[start:stop] = own[at : at + stop - start]
            at += stop - start
        return placed


@dataclass(frozen=True)
class GraphRows:
    """A worker's rows of a graph, ready to travel: what :class:`BlockGraph` is made of."""

    adjacency: sparse.csr_array
    degrees: NDArray[np.float64]
    n_edges: int
    is_signed: bool

    @classmethod
    def cut(cls, graph: Graph, rows: Rows) -> "GraphRows":
        """Cut them out of a graph; the other rows stay, empty, so that rows and columns are numbered alike."""
        whole = graph.adjacency
        lengths = np.zeros(graph.n_nodes, dtype=np.int64)
        parts = [slice(*whole.indptr[[start, stop]]) for start, stop in rows.ranges]
        for start, stop in rows.ranges:
            lengths[start:stop] = np.diff(whole.indptr[start : stop + 1])
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(whole.indptr.dtype)
        data, indices = (
            np.concatenate([array[part] for part in parts]) for array in (whole.data, whole.indices)
        )
        block = sparse.csr_array((data, indices, indptr), shape=whole.shape)
        return cls(block, graph.degrees, graph.n_edges, graph.is_signed)


class BlockGraph:
    """A graph whose adjacency is spread over the workers: what smoothers and the field of labels ask of a graph."""

    def __init__(self, part: GraphRows, rows: Rows, peers: Collective) -> None:
        self._part, self._rows, self._peers = part, rows, peers
        self.n_nodes, self.n_edges = rows.n_nodes, part.n_edges
        self.degrees, self.is_signed = part.degrees, part.is_signed
        self.adjacency = RowBlock(part.adjacency, rows, peers)

    @property
    def parent(self) -> "BlockGraph":
        """Itself: it is no part of another."""
        return self

    @cached_property
    def unsigned(self) -> "BlockGraph":
        """The same graph with all weights positive."""
        if not self.is_signed:
            return self
        part = GraphRows(abs(self._part.adjacency), self.degrees, self.n_edges, False)
        return BlockGraph(part, self._rows, self._peers)


class RowBlock:
    """The rows of an adjacency that this worker has; products are those of the whole, put together by all."""

    def __init__(self, block: sparse.csr_array, rows: Rows, peers: Collective) -> None:
        self.block, self.rows, self.peers, self.shape = block, rows, peers, block.shape

    def __matmul__(self, v: NDArray[Any]) -> NDArray[Any]:
        return self.sweep(np.asarray(v, dtype=v.dtype if v.dtype == np.float32 else np.float64))

    def __abs__(self) -> "RowBlock":
        return RowBlock(abs(self.block), self.rows, self.peers)

    def by_rows(self, compute: Callable[[sparse.csr_array], NDArray[Any]]) -> NDArray[Any]:
        """Return what each worker computes for its rows of the adjacency, for all rows."""
        return self.peers.total(self.rows.placed(self.rows.of(compute(self.block))))

    @cached_property
    def sweep(self) -> "BlockSweep":
        """What sweeps these rows; all operators share it."""
        return BlockSweep(self)


@sweep_on.register(RowBlock)
def _(adjacency: RowBlock) -> "BlockSweep":
    return adjacency.sweep


class BlockSweep(Sweep):
    """A :class:`Sweep` of which each worker does its rows."""

    def __init__(self, adjacency: RowBlock) -> None:
        super().__init__(adjacency.shape[0])
        self.rows, self.peers = adjacency.rows, adjacency.peers
        self._local = sweep_on(adjacency.block)

    def __call__(
        self,
        v: NDArray[Any],
        scale: NDArray[Any] | None = None,
        keep: NDArray[Any] | None = None,
        source: NDArray[Any] | None = None,
        out: NDArray[Any] | None = None,
    ) -> NDArray[Any]:
        """Return scale∘(A v) + keep∘v + source on all nodes."""
        own = self.rows.of(self._local(v, scale, keep, source))
        found = self.peers.total(self.rows.placed(own))
        if out is None:
            return found
        out[...] = found
        return out

    def conjugate_gradients(
        self,
        right: NDArray[np.float64],
        diagonal: NDArray[np.float64],
        inverse: NDArray[np.float64],
        size: NDArray[np.float64],
        target: float,
        most: int,
    ) -> tuple[NDArray[np.float64], float]:
        """Solve (diag(diagonal) − A) z = right, one column; stops as those of :class:`Sweep` do.

        Each worker has its rows of every vector but one, the preconditioned residual, which the product needs whole. The
        recurrences are those of Chronopoulos and Gear (1989), in which the sums that decide when to stop travel with that
        vector: they are the same in all workers, so all stop together.
        """
        length = float(np.sqrt(((right * size) ** 2).sum()))
        if not 0.0 < length < np.inf:
            return np.zeros_like(right) if length == 0.0 else np.full_like(right, np.nan), length
        length = self.peers.agreed(length)
        short = target >= SHORT_FROM * length
        system = right / length, diagonal, inverse, size, target / length, most
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            z, reached = self._solved(*system, np.dtype(np.float32 if short else np.float64))
        if short and not np.isfinite(reached):  # beyond the range of float32
            z, reached = self._solved(*system, np.dtype(np.float64))
        return length * z, length * reached

    def _solved(
        self,
        right: NDArray[np.float64],
        diagonal: NDArray[np.float64],
        inverse: NDArray[np.float64],
        size: NDArray[np.float64],
        target: float,
        most: int,
        kind: np.dtype[Any],
    ) -> tuple[NDArray[np.float64], float]:
        diagonal, inverse, size, residual = (
            self.rows.of(part) for part in (diagonal, inverse, size, right)
        )
        z, direction, image = np.zeros((3, residual.size))
        before, step = np.inf, 1.0
        for done in range(most + 1):
            moved = (inverse * residual).astype(kind)
            carried = self.rows.placed(moved, extra=2)
            carried[-2:] = (residual * moved).sum(), ((size * residual) ** 2).sum()
            carried = self.peers.total(carried)
            product, reached = float(carried[-2]), float(np.sqrt(carried[-1]))
            if not reached > target or done == most:
                break
            along = diagonal * moved - self.rows.of(self._local(carried[:-2]))
            bend = float(self.peers.total(np.array([(moved * along).sum()]))[0])
            grown = product / before
            step = product / (bend - grown * product / step)
            direction = moved + grown * direction
            image = along + grown * image
            z += step * direction
            residual = residual - step * image
            before = product
        return self.peers.total(self.rows.placed(z.astype(kind))).astype(np.float64), reached


@dataclass(frozen=True)
class Shard(Table):
    """A table of which this worker has some rows: ``n_rows`` counts them all, ``values`` holds its own."""

    rows: Rows = Rows((), 0)
    peers: Any = None

    @property
    def n_rows(self) -> int:
        """Rows of the whole table."""
        return self.rows.n_nodes

    @property
    def local(self) -> Table:
        """The rows of this worker, as a table of their own."""
        return Table(self.values, self.names, self.categorical, self.origin)

    @property
    def is_distributed(self) -> bool:
        """Whether other workers hold the rest of the rows."""
        return True

    def batches(self, columns: Sequence[int], share: int = 1) -> Iterator[Table]:
        """One column at a time, of all rows."""
        for column in columns:
            own = np.ascontiguousarray(self.values[:, [column]])
            yield Table(
                self.peers.total(self.rows.placed(own)),
                (self.names[column],),
                (),
                (self.origin[column],),
            )

    def local_rows(self, values: Any) -> Any:
        """Return this worker's rows of columns made for all."""
        return self.rows.of(values)

    def fingerprint(self) -> str:
        """Return a digest of the whole table, whichever worker has which rows."""
        ends = np.cumsum([stop - start for start, stop in self.rows.ranges])[:-1]
        mine = [fingerprint_of(block) for block in np.split(self.values, ends)]
        blocks = [
            pair
            for worker in self.peers.allgather_objects(
                list(zip(self.rows.ranges, mine, strict=True))
            )
            for pair in worker
        ]
        return fingerprint_of(
            self.names, self.categorical, *(digest for _, digest in sorted(blocks))
        )


def read_shard(
    blocks: Sequence[Any], rows: Rows, categorical: Any, collective: Collective
) -> tuple[TableReader, Shard]:
    """Return a worker's rows as numbers; the workers agree on text columns and on categories.

    Parameters
    ----------
    blocks : sequence of tables
    rows : Rows
        The nodes of the blocks.
    categorical : "auto" or list
    collective : Collective
    """
    reader = TableReader(categorical)
    readers = [TableReader(categorical) for _ in blocks]
    starts = [start for start, _ in rows.ranges]
    tables = [
        _read_block(own.fit, block, start)
        for own, block, start in zip(readers, blocks, starts, strict=True)
    ]
    if any(table.is_sparse for table in tables):
        raise ValueError(
            "X holds sparse blocks: on a cluster it must be dense. Use X.map_blocks(lambda b: "
            "b.toarray())."
        )
    columns = collective.allgather_objects([(own.names, own.categories) for own in readers])
    reader.names = readers[0].names
    for names, categories in (block for worker in columns for block in worker):
        if names != reader.names:
            raise ValueError(
                f"X has blocks with other columns: {list(names)} and {list(reader.names)}."
            )
        for column, values in categories.items():
            reader.categories[column] = reader.categories.get(column, []) + values
    for column, values in reader.categories.items():
        if len({isinstance(value, str) for value in values}) > 1:
            raise ValueError(
                f"X, column {reader.names[column]!r} is text in some blocks and numbers in others."
            )
        reader.categories[column] = sorted(set(values))
    if reader.categories:
        tables = [
            _read_block(reader.read, block, start)
            for block, start in zip(blocks, starts, strict=True)
        ]
    values = np.concatenate([table.values for table in tables])
    categorical_columns = tuple(sorted(reader.categories))
    shard = Shard(values, reader.names, categorical_columns, tables[0].origin, rows, collective)
    return reader, shard


def _read_block(read: Callable[[Any], Table], block: Any, start: int) -> Table:
    """A block as numbers; errors say where its rows begin."""
    try:
        return read(block)
    except (TypeError, ValueError) as error:
        raise type(error)(f"X, counted from row {start}: {error}") from None
