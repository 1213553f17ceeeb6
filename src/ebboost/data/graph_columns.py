"""Columns computed from neighbours: statistics, and the smoothed features P_x X of [X, P_x X]."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.data.table import MAX_VALUE, Columns, Table
from ebboost.graph import Graph
from ebboost.propagation import Propagation, sweep_on

Array = NDArray[np.float64]
STATISTICS = ("mean", "min", "max")
#: The arguments of :meth:`Table.with_columns`.
NewColumns = tuple[list[Columns], list[str], list[int]]


def smoothed_columns(table: Table, operator: Callable[[], Propagation]) -> NewColumns:
    """Return P_x X of the numeric columns; ``operator`` creates P_x when it is needed.

    Where values are missing, the known ones nearby replace them: (P x₀ / P m)·P1 with m the mask of
    known values.
    """
    numeric = [column for column in range(len(table.names)) if column not in table.categorical]
    blocks: list[Any] = []
    if table.is_sparse:
        smoother = operator()
        if not getattr(smoother, "takes_sparse", False):
            raise ValueError(
                "feature_smoothing would fill a sparse X: use eb.Laplacian(...) with "
                "method='gradient' or 'chebyshev', eb.Kernel(...), or None."
            )
        blocks = [smoother.apply(table.select(numeric).values)]
    elif table.is_distributed:
        smoother = operator()
        for batch in table.batches(numeric):
            smoothed = _smooth_known(smoother, batch.values, _is_complete(batch.values))
            blocks.append(table.local_rows(smoothed))
    elif numeric:
        blocks = [SmoothedColumns(table, numeric, operator)]
    names = [f"smoothed({table.names[column]})" for column in numeric]
    return blocks, names, [table.origin[column] for column in numeric]


class SmoothedColumns:
    """P_x X as :class:`LazyColumns`; the first use computes it for all rows."""

    def __init__(
        self, table: Table, numeric: Sequence[int], operator: Callable[[], Propagation]
    ) -> None:
        self._table = table
        self._numeric = numeric
        self._operator = operator
        self.shape = (table.n_rows, len(numeric))
        self._smoothed: list[NDArray[Any]] = []

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the table, or float64 if float32 cannot hold the values."""
        dtype: np.dtype[Any] = self._table.values.dtype
        if dtype == np.float64:
            return dtype
        return np.result_type(*(block.dtype for block in self._blocks()))

    def _blocks(self) -> list[NDArray[Any]]:
        if not self._smoothed:
            batches = self._table.batches(self._numeric)
            complete = all(_is_complete(batch.values) for batch in batches)
            smoother = self._operator()
            # Where values are missing, twice as much memory is needed.
            for batch in self._table.batches(self._numeric, share=1 if complete else 2):
                self._smoothed.append(_smooth_known(smoother, batch.values, complete))
        return self._smoothed

    def write(self, rows: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Write the values of these rows into ``out``."""
        first = 0
        for block in self._blocks():
            out[:, first : first + block.shape[1]] = block[rows]
            first += block.shape[1]

    def release(self) -> None:
        """Free the values; they are computed again when needed."""
        self._smoothed = []


def _is_complete(values: NDArray[Any]) -> bool:
    """Whether no value is missing; allocates no array."""
    return not np.isnan(np.min(values, initial=0.0))


def _smooth_known(smoother: Propagation, values: NDArray[Any], complete: bool) -> NDArray[Any]:
    """Return P x, from the known values of x where some are missing."""
    if complete:
        return _smooth(smoother, values)
    known = ~np.isnan(values)
    known_mass = _smooth(smoother, known.astype(values.dtype))
    total = _smooth(smoother, np.where(known, values, 0.0))
    row_sums = _smooth(smoother, np.ones((len(values), 1), dtype=values.dtype))
    smoothed = total.astype(np.result_type(total, row_sums), copy=False)
    smoothed *= row_sums
    has_known = np.abs(known_mass) > 1e-12
    np.divide(smoothed, known_mass, out=smoothed, where=has_known)
    smoothed[~has_known] = np.nan
    return smoothed


def _smooth(smoother: Propagation, values: NDArray[Any]) -> NDArray[Any]:
    """Return P x in the type of x, or in float64 if float32 overflows."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        smoothed = smoother.apply(values)
    if values.dtype == np.float64 or np.isfinite(smoothed).all():
        return smoothed
    return smoother.apply(values.astype(np.float64))


def neighbor_columns(
    table: Table, graph: Graph, statistics: Sequence[str], degree: bool
) -> NewColumns:
    """Return statistics over neighbours of every column, and the degrees.

    Category codes are ranks of sorted values and are treated as numbers. A sparse table stays
    sparse and has means only, as nearly every minimum is 0.
    """
    weights = _weights_and_sums(graph)
    statistics = available_statistics(statistics, table.is_sparse)
    origin = [*table.origin] * len(statistics) + [-1, -1] * degree
    blocks: list[Any] = []
    if statistics and table.is_distributed:
        # One column after the other: a worker must not hold many columns of all rows.
        columns = [
            table.local_rows(_all_rows(NeighborColumns(batch.values, *weights, statistics)))
            for batch in table.batches(range(len(table.names)))
        ]
        blocks = [np.column_stack([c[:, i] for c in columns]) for i in range(len(statistics))]
    elif statistics and table.is_sparse:
        adjacency, sums = weights
        scale = sparse.diags_array(1.0 / np.where(sums > 0, sums, 1.0))
        blocks = [scale @ (adjacency @ table.values)] * len(statistics)
    elif statistics:
        blocks = [NeighborColumns(table.values, *weights, statistics)]
    if degree:
        degrees = np.minimum(graph.degrees, MAX_VALUE)[:, None]
        mean = NeighborColumns(degrees, *weights, ["mean"], missing=0.0)
        if table.is_distributed or table.is_sparse:
            both = np.hstack([degrees, _all_rows(mean)])
            blocks.append(sparse.csr_array(both) if table.is_sparse else table.local_rows(both))
        else:
            blocks += [degrees, mean]
    return blocks, neighbor_names(table.names, statistics, degree), origin


def neighbor_names(names: Sequence[str], statistics: Sequence[str], degree: bool) -> list[str]:
    """Return the names of the columns that :func:`neighbor_columns` adds."""
    added = [f"{statistic}({name})" for statistic in statistics for name in names]
    return added + ["degree", "mean(degree)"] * degree


def available_statistics(statistics: Sequence[str], is_sparse: bool) -> list[str]:
    """Return those of the statistics that are computed: of a sparse table the mean only."""
    return [statistic for statistic in statistics if statistic == "mean" or not is_sparse]


@dataclass(eq=False)
class NeighborColumns:
    """Statistics over the neighbours of every column as :class:`LazyColumns`.

    Missing values are ignored; without a known neighbour the value is ``missing``.
    """

    values: NDArray[Any]
    adjacency: Any
    sums: Array  # of the weights of each node
    statistics: Sequence[str]
    missing: float = np.nan
    dtype = np.dtype(np.float64)

    def __post_init__(self) -> None:
        self._contiguous: NDArray[Any] | None = None
        self._sweep = sweep_on(self.adjacency)
        self._sums = self.sums if _is_complete(self.values) else None
        self.shape = (len(self.values), self.values.shape[1] * len(self.statistics))

    def write(self, rows: NDArray[np.int64], out: Array) -> None:
        """Write the values of these rows into ``out``."""
        if self._contiguous is None:
            self._contiguous = np.ascontiguousarray(self.values)
        blocks = np.split(out, len(self.statistics), axis=1)
        tables = dict(zip(self.statistics, blocks, strict=True))
        outputs = [tables.get(name) for name in STATISTICS]
        self._sweep.neighbor_statistics(self._contiguous, rows, self._sums, outputs, self.missing)
        for name, block in zip(self.statistics, blocks, strict=True):
            if block is not tables[name]:  # a statistic that is listed twice
                block[...] = tables[name]

    def release(self) -> None:
        """Free the contiguous copy of the values."""
        self._contiguous = None


def _all_rows(columns: NeighborColumns) -> Array:
    """Return the columns for all rows; each worker computes its rows of a distributed graph."""

    def compute(block: sparse.csr_array) -> Array:
        local = replace(columns, adjacency=block)
        out = np.empty(local.shape)
        local.write(np.arange(len(out)), out)
        return out

    by_rows: Callable[..., Array] | None = getattr(columns.adjacency, "by_rows", None)
    return compute(columns.adjacency) if by_rows is None else by_rows(compute)


def _weights_and_sums(graph: Graph) -> tuple[sparse.csr_array, Array]:
    """Return weights for means, and their sums; shares where products with weights may overflow."""
    adjacency = graph.adjacency
    degrees = graph.degrees
    weights = adjacency.data if sparse.issparse(adjacency) else np.ones(1)
    if weights.max(initial=0.0) < 1e100 and weights.min(initial=1.0) > 1e-100:
        return adjacency, degrees
    shares = adjacency.data / np.repeat(degrees, np.diff(adjacency.indptr))
    shared = sparse.csr_array((shares, adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    return shared, (degrees > 0).astype(np.float64)
