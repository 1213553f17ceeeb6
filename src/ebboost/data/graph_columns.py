"""Columns computed from neighbours: statistics, and the smoothed features P_x X of [X, P_x X]."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.data.lazy import to_file
from ebboost.data.table import MAX_VALUE, Columns, Table
from ebboost.data.types import AnyArray, Array, IntArray
from ebboost.graph import Graph, Groups, earlier_neighbors
from ebboost.propagation import Propagation, sweep_on

STATISTICS = ("mean", "min", "max")
# RMSE, mean of 6 seeds. Lucas County: shares of up to 10 levels .2795, of 6 .2802, statistics of
# codes .2803.
MAX_LEVELS = 10
OTHERS = -1
Levels = Mapping[int, IntArray]
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
                smoothed = _smooth_known(smoother, batch.values, complete)
                if self._table.on_disk:
                    smoothed = to_file(smoothed)
                self._smoothed.append(smoothed)
        return self._smoothed

    def write(self, rows: IntArray, out: NDArray[Any]) -> None:
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


def frequent_levels(table: Table) -> Levels:
    """Return, for each column of categories, the codes of those that get a share of neighbours.

    These are the most frequent ones; ``OTHERS`` stands for the rest together. Of two levels one is
    enough. Categories that are numbers are no quantities, and have no other statistics.
    """
    levels: dict[int, IntArray] = {}
    for column in table.categorical:
        categories = table.categories.get(column, ())
        if not len(categories):
            continue
        values = table.select([column]).values[:, 0]
        present = values[~np.isnan(values)].astype(np.int64)
        counts = np.bincount(present, minlength=len(categories))
        codes = np.argsort(-counts, kind="stable")
        codes = codes[counts[codes] > 0]
        if codes.size > MAX_LEVELS:
            codes = np.append(codes[: MAX_LEVELS - 1], OTHERS)
        levels[column] = codes[: 1 if codes.size == 2 else None]
    return levels


def neighbor_columns(
    table: Table, graph: Graph, statistics: Sequence[str], degree: bool, levels: Levels
) -> NewColumns:
    """Return statistics over neighbours of numeric columns, shares of categories, and degrees.

    Of a directed graph, those of incoming and of outgoing neighbours; where nodes have a time, of
    earlier ones. A sparse table stays sparse
    and has means only, as nearly every minimum is 0.
    """
    if graph.groups is not None:
        return _group_columns(table, graph.groups, statistics, degree)
    names = neighbor_names(table, statistics, degree, levels, graph.outgoing is not None)
    statistics = available_statistics(statistics, table.is_sparse)
    numeric = [column for column in range(len(table.names)) if column not in levels]
    shares = levels if "mean" in statistics else {}
    own = [table.origin[column] for column in numeric] * len(statistics)
    own += [table.origin[column] for column, codes in shares.items() for _ in codes]
    blocks: list[Any] = []
    origin: list[int] = []
    for weights, sums in _directions(graph):
        if statistics and numeric and table.is_sparse:
            scale = sparse.diags_array(1.0 / np.where(sums > 0, sums, 1.0))
            blocks += [scale @ (weights @ table.values)] * len(statistics)
        elif statistics and numeric:
            values = table.select(numeric).values
            blocks.append(NeighborColumns(values, weights, sums, statistics))
        for column, codes in shares.items():
            blocks.append(NeighborShares(table.select([column]).values, weights, codes))
        if degree:
            blocks += _degrees(table, graph, weights, sums)
        origin += [*own, *[-1, -1] * degree]
    return blocks, names, origin


def _group_columns(
    table: Table, groups: Groups[Graph], statistics: Sequence[str], degree: bool
) -> NewColumns:
    """Return means over the rows of each group, statistics of neighbouring groups, and sizes."""
    graph, group_of = groups
    numeric = [column for column in range(len(table.names)) if column not in table.categorical]
    numbers = table.select(numeric)
    means = _group_means(numbers.values, group_of, graph.n_nodes)
    of_groups = Table(means, numbers.names, (), numbers.origin)
    blocks, names, origin = neighbor_columns(of_groups, graph, statistics, degree, {})
    wider = of_groups.with_columns(blocks, names, origin).materialize()
    own = [f"group_mean({name})" for name in of_groups.names]
    return [wider.values[group_of]], [*own, *names], list(wider.origin)


def _group_means(values: AnyArray, group_of: IntArray, n_groups: int) -> AnyArray:
    """Return means over the rows of each group, of the known values of an array."""
    if sparse.issparse(values):
        sizes = np.bincount(group_of, minlength=n_groups)
        where = (group_of, np.arange(group_of.size))
        shape = (n_groups, group_of.size)
        return sparse.csr_array((1.0 / sizes[group_of], where), shape) @ values
    values = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(values)
    sums = group_sums(np.where(known, values, 0.0), group_of, n_groups)
    counts = group_sums(known.astype(np.float64), group_of, n_groups)
    means = np.full_like(sums, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def group_sums(values: Array, group_of: IntArray, n_groups: int) -> Array:
    """Return sums of the columns of values over groups, those of all workers if rows are."""
    return np.column_stack([np.bincount(group_of, column, n_groups) for column in values.T])


def _degrees(table: Table, graph: Graph, weights: sparse.csr_array, sums: Array) -> list[Any]:
    """Return the degree of each node and the mean degree of its neighbours."""
    all_edges = graph.outgoing is None and graph.time is None
    own = np.minimum(graph.degrees if all_edges else sums, MAX_VALUE)[:, None]
    degrees = own if graph.time is not None else np.minimum(graph.degrees, MAX_VALUE)[:, None]
    mean = NeighborColumns(degrees, weights, sums, ["mean"], missing=0.0)
    if not table.is_sparse:
        return [own, mean]
    of_neighbors = np.empty(mean.shape)
    mean.write(np.arange(len(own)), of_neighbors)
    return [sparse.csr_array(np.hstack([own, of_neighbors]))]


def neighbor_names(
    table: Table, statistics: Sequence[str], degree: bool, levels: Levels, directed: bool
) -> list[str]:
    """Return the names of the columns that :func:`neighbor_columns` adds."""
    statistics = available_statistics(statistics, table.is_sparse)
    numeric = [name for column, name in enumerate(table.names) if column not in levels]
    names = []
    for direction in ("_in", "_out") if directed else ("",):
        names += [f"{statistic}{direction}({name})" for statistic in statistics for name in numeric]
        for column, codes in levels.items() if "mean" in statistics else ():
            categories = table.categories.get(column, ())
            for code in codes:
                level = "others" if code == OTHERS else categories[code]
                names.append(f"share{direction}({table.names[column]}={level})")
        names += [f"degree{direction}", f"mean{direction}(degree)"] * degree
    return names


def available_statistics(statistics: Sequence[str], is_sparse: bool) -> list[str]:
    """Return those of the statistics that are computed: of a sparse table the mean only."""
    return [statistic for statistic in statistics if statistic == "mean" or not is_sparse]


@dataclass(eq=False)
class NeighborShares:
    """Shares of the categories of one column among the neighbours, as :class:`LazyColumns`.

    Neighbours whose category is missing are ignored; without a known one the value is NaN.
    """

    values: NDArray[Any]  # codes, one column
    adjacency: sparse.csr_array
    levels: IntArray
    dtype = np.dtype(np.float64)

    def __post_init__(self) -> None:
        self._slot: IntArray | None = None
        self.shape = (len(self.values), self.levels.size)

    def write(self, rows: IntArray, out: Array) -> None:
        """Write the values of these rows into ``out``."""
        if self._slot is None:
            self._slot = sweep_on(self.adjacency).with_halo(self._slots())
        near = self.adjacency[rows]
        row = np.repeat(np.arange(rows.size), np.diff(near.indptr))
        slot = self._slot[near.indices]
        n_slots = self.levels.size + 2  # the last two: a level without a column, and missing
        sums = np.bincount(row * n_slots + slot, near.data, rows.size * n_slots)
        sums = sums.reshape(rows.size, n_slots)[:, :-1]
        total = sums.sum(axis=1, keepdims=True)
        out[...] = np.nan
        np.divide(sums[:, :-1], total, out=out, where=total > 0)

    def _slots(self) -> IntArray:
        """The column of each row's category."""
        codes = np.nan_to_num(np.asarray(self.values)[:, 0], nan=-1.0).astype(np.int64)
        position = {int(code): column for column, code in enumerate(self.levels)}
        without = position.pop(OTHERS, self.levels.size)
        slot_of = np.full(max(codes.max(initial=0), self.levels.max(initial=0)) + 2, without)
        slot_of[list(position)] = list(position.values())
        slot_of[-1] = self.levels.size + 1  # missing
        return slot_of[codes]

    def release(self) -> None:
        """Free the columns of the rows."""
        self._slot = None


@dataclass(eq=False)
class NeighborColumns:
    """Statistics over the neighbours of every column as :class:`LazyColumns`.

    Missing values are ignored; without a known neighbour the value is ``missing``.
    """

    values: NDArray[Any]
    adjacency: sparse.csr_array
    sums: Array  # of the weights of each node
    statistics: Sequence[str]
    missing: float = np.nan
    dtype = np.dtype(np.float64)

    def __post_init__(self) -> None:
        self._contiguous: NDArray[Any] | None = None
        self._sweep = sweep_on(self.adjacency)
        self._sums = self.sums if _is_complete(self.values) else None
        self.shape = (len(self.values), self.values.shape[1] * len(self.statistics))

    def write(self, rows: IntArray, out: Array) -> None:
        """Write the values of these rows into ``out``."""
        if self._contiguous is None:
            self._contiguous = self._sweep.with_halo(np.ascontiguousarray(self.values))
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


def _directions(graph: Graph) -> list[tuple[Any, Array]]:
    """Return weights and their sums: of all edges or, if directed, of incoming and outgoing.

    Where nodes have a time, of edges to earlier neighbours.
    """
    if graph.outgoing is None and graph.time is None:
        return [_scaled(graph.adjacency, graph.degrees)]
    matrices = [graph.adjacency]
    if graph.outgoing is not None:
        matrices = [graph.outgoing.T.tocsr(), graph.outgoing]
    pairs = []
    for matrix in matrices:
        one_way = earlier_neighbors(matrix, graph.time)
        pairs.append(_scaled(one_way, np.asarray(one_way.sum(axis=1)).ravel()))
    return pairs


def _scaled(adjacency: sparse.csr_array, sums: Array) -> tuple[Any, Array]:
    """Return weights for means, and their sums; shares where products with weights may overflow."""
    weights = adjacency.data if sparse.issparse(adjacency) else np.ones(1)
    if weights.max(initial=0.0) < 1e100 and weights.min(initial=1.0) > 1e-100:
        return adjacency, sums
    shares = adjacency.data / np.repeat(sums, np.diff(adjacency.indptr))
    shared = sparse.csr_array((shares, adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    return shared, (sums > 0).astype(np.float64)
