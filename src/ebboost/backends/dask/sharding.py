"""The rows of the table and of the adjacency that one worker holds."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.backends.dask.collectives import Collective
from ebboost.data.fingerprint import fingerprint_of
from ebboost.data.once import lazy_property
from ebboost.data.reader import TableReader
from ebboost.data.table import Table
from ebboost.data.types import TableLike
from ebboost.graph import Graph
from ebboost.propagation import Sweep, sweep_on

#: Relative tolerance from which on conjugate gradients send float32, half the bytes.
FLOAT32_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Rows:
    """The nodes of a worker: a few ranges of positions."""

    ranges: tuple[tuple[int, int], ...]
    n_nodes: int

    @property
    def count(self) -> int:
        """Number of nodes."""
        return sum(stop - start for start, stop in self.ranges)

    def select(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the entries at these nodes."""
        return np.concatenate([values[start:stop] for start, stop in self.ranges])

    def expand(self, own: NDArray[Any], extra: int = 0) -> NDArray[Any]:
        """Return an array for all nodes and ``extra`` entries, 0 at nodes of other workers."""
        values = np.zeros((self.n_nodes + extra, *own.shape[1:]), own.dtype)
        offset = 0
        for start, stop in self.ranges:
            values[start:stop] = own[offset : offset + stop - start]
            offset += stop - start
        return values


@dataclass(frozen=True)
class GraphRows:
    """A worker's rows of a graph, as they are sent to it."""

    adjacency: sparse.csr_array
    degrees: NDArray[np.float64]
    n_edges: int
    is_signed: bool

    @classmethod
    def cut(cls, graph: Graph, rows: Rows) -> "GraphRows":
        """Return the rows of a graph; other rows are empty, so that nodes keep their numbers."""
        if any(part is not None for part in (graph.outgoing, graph.groups, graph.time)):
            raise ValueError(
                "directed=True, groups and causal=True are not supported for a graph that is "
                "sharded on a cluster: pass X.compute()."
            )
        adjacency = graph.adjacency
        lengths = np.zeros(graph.n_nodes, dtype=np.int64)
        parts = [slice(*adjacency.indptr[[start, stop]]) for start, stop in rows.ranges]
        for start, stop in rows.ranges:
            lengths[start:stop] = np.diff(adjacency.indptr[start : stop + 1])
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(adjacency.indptr.dtype)
        data = np.concatenate([adjacency.data[part] for part in parts])
        indices = np.concatenate([adjacency.indices[part] for part in parts])
        block = sparse.csr_array((data, indices, indptr), shape=adjacency.shape)
        return cls(block, graph.degrees, graph.n_edges, graph.is_signed)


class BlockGraph:
    """A graph whose adjacency is sharded, with the interface that smoothers and fields need."""

    def __init__(self, part: GraphRows, rows: Rows, collective: Collective) -> None:
        self._part = part
        self._rows = rows
        self._collective = collective
        self.n_nodes = rows.n_nodes
        self.n_edges = part.n_edges
        self.degrees = part.degrees
        self.is_signed = part.is_signed
        self.adjacency = RowBlock(part.adjacency, rows, collective)
        self.outgoing: None = None  # graphs with directions, groups or times are not sharded
        self.groups: None = None
        self.time: None = None

    @property
    def parent(self) -> "BlockGraph":
        """The graph itself: it is not a subgraph."""
        return self

    @lazy_property
    def unsigned(self) -> "BlockGraph":
        """The same graph with all weights positive."""
        if not self.is_signed:
            return self
        part = GraphRows(abs(self._part.adjacency), self.degrees, self.n_edges, False)
        return BlockGraph(part, self._rows, self._collective)


class RowBlock:
    """The rows of an adjacency that this worker holds; products are gathered from all workers."""

    def __init__(self, block: sparse.csr_array, rows: Rows, collective: Collective) -> None:
        self.block = block
        self.rows = rows
        self.collective = collective
        self.shape = block.shape

    def __matmul__(self, v: NDArray[Any]) -> NDArray[Any]:
        return self.sweep(np.asarray(v, dtype=v.dtype if v.dtype == np.float32 else np.float64))

    def __abs__(self) -> "RowBlock":
        return RowBlock(abs(self.block), self.rows, self.collective)

    def by_rows(self, compute: Callable[[sparse.csr_array], NDArray[Any]]) -> NDArray[Any]:
        """Return a function of the adjacency's rows, computed by each worker for its own."""
        return self.collective.allreduce(self.rows.expand(self.rows.select(compute(self.block))))

    @lazy_property
    def sweep(self) -> "BlockSweep":
        """The sweep over these rows, shared by all operators."""
        return BlockSweep(self)


@sweep_on.register(RowBlock)
def _(adjacency: RowBlock) -> "BlockSweep":
    return adjacency.sweep


class BlockSweep(Sweep):
    """A :class:`Sweep` of which each worker computes its rows."""

    def __init__(self, adjacency: RowBlock) -> None:
        super().__init__(adjacency.shape[0])
        self.rows = adjacency.rows
        self.collective = adjacency.collective
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
        own = self.rows.select(self._local(v, scale, keep, source))
        values = self.collective.allreduce(self.rows.expand(own))
        if out is None:
            return values
        out[...] = values
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

        Each worker has its rows of every vector but one, the preconditioned residual, which the
        product needs completely. The recurrences are those of Chronopoulos and Gear (1989): in them
        the sums that decide when to stop are sent with that vector. They are the same in all
        workers, so all stop together.
        """
        length = float(np.sqrt(((right * size) ** 2).sum()))
        if not 0.0 < length < np.inf:
            return np.zeros_like(right) if length == 0.0 else np.full_like(right, np.nan), length
        length = self.collective.from_rank0(length)
        short = target >= FLOAT32_TOLERANCE * length
        system = right / length, diagonal, inverse, size, target / length, most
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            z, reached = self._solve(*system, np.dtype(np.float32 if short else np.float64))
        if short and not np.isfinite(reached):  # beyond the range of float32
            z, reached = self._solve(*system, np.dtype(np.float64))
        return length * z, length * reached

    def _solve(
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
            self.rows.select(part) for part in (diagonal, inverse, size, right)
        )
        z, direction, image = np.zeros((3, residual.size))
        previous = np.inf
        step = 1.0
        for done in range(most + 1):
            scaled = (inverse * residual).astype(kind)
            message = self.rows.expand(scaled, extra=2)
            message[-2:] = (residual * scaled).sum(), ((size * residual) ** 2).sum()
            message = self.collective.allreduce(message)
            product = float(message[-2])
            reached = float(np.sqrt(message[-1]))
            if not reached > target or done == most:
                break
            scaled_image = diagonal * scaled - self.rows.select(self._local(message[:-2]))
            local_curvature = np.array([(scaled * scaled_image).sum()])
            curvature = float(self.collective.allreduce(local_curvature)[0])
            ratio = product / previous
            step = product / (curvature - ratio * product / step)
            direction = scaled + ratio * direction
            image = scaled_image + ratio * image
            z += step * direction
            residual = residual - step * image
            previous = product
        solution = self.collective.allreduce(self.rows.expand(z.astype(kind)))
        return solution.astype(np.float64), reached


@dataclass(frozen=True)
class Shard(Table):
    """A sharded table: ``n_rows`` counts rows of all workers, ``values`` holds this worker's."""

    rows: Rows = Rows((), 0)
    collective: Any = None

    @property
    def n_rows(self) -> int:
        """Number of rows of all workers."""
        return self.rows.n_nodes

    @property
    def local(self) -> Table:
        """The rows of this worker as a table."""
        columns = (self.names, self.categorical, self.origin)
        return Table(self.values, *columns, categories=self.categories)

    @property
    def is_distributed(self) -> bool:
        """Whether other workers hold the rest of the rows."""
        return True

    def batches(self, columns: Sequence[int], share: int = 1) -> Iterator[Table]:
        """One column at a time, of all rows."""
        for column in columns:
            own = np.ascontiguousarray(self.values[:, [column]])
            values = self.collective.allreduce(self.rows.expand(own))
            yield Table(values, (self.names[column],), (), (self.origin[column],))

    def local_rows(self, values: Any) -> Any:
        """Return this worker's rows of columns computed for all."""
        return self.rows.select(values)

    def fingerprint(self) -> str:
        """Return a digest of all rows, the same however they are distributed."""
        ends = np.cumsum([stop - start for start, stop in self.rows.ranges])[:-1]
        own = [fingerprint_of(block) for block in np.split(self.values, ends)]
        pairs = list(zip(self.rows.ranges, own, strict=True))
        blocks = sorted(chain.from_iterable(self.collective.allgather_objects(pairs)))
        return fingerprint_of(self.names, self.categorical, *(digest for _, digest in blocks))


def read_shard(
    blocks: Sequence[Any], rows: Rows, categorical: Any, collective: Collective
) -> tuple[TableReader, Shard]:
    """Return a worker's rows as numbers; text columns and categories are those of all workers."""
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
    of_all = collective.allgather_objects([(own.names, own.categories) for own in readers])
    reader.names = readers[0].names
    for names, categories in chain.from_iterable(of_all):
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
    columns = (reader.names, categorical_columns, tables[0].origin)
    return reader, Shard(values, *columns, rows, collective, categories=reader.categories)


def _read_block(read: Callable[[Any], Table], block: TableLike, start: int) -> Table:
    """A block as numbers; errors say where its rows begin."""
    try:
        return read(block)
    except (TypeError, ValueError) as error:
        raise type(error)(f"X, counted from row {start}: {error}") from None
