"""Columns computed from neighbours: statistics, shares of categories, smoothed columns P_x X."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from ebboost._common import Array, IntArray
from ebboost.data.table import MAX_VALUE, Table
from ebboost.graph import Graph
from ebboost.linalg import SparseMatrix
from ebboost.smoothing import Smoother
from ebboost.sums import everywhere

STATISTICS = ("mean", "min", "max")
MAX_LEVELS = 10  # of a category whose shares among neighbours are columns
OTHERS = -1
Levels = Mapping[int, IntArray]
#: Values of shape (n, k), names, and the column of the user's table that each comes from, or −1.
Block = tuple[Any, list[str], list[int]]


@dataclass(frozen=True)
class Places:
    """The graph, and the node of each row: several rows may share one, others have none.

    Rows of several ``groups`` have a node of each: ``node_of_row`` is of shape (n, k). The nodes
    of the groups follow each other.
    """

    graph: Graph
    node_of_row: IntArray
    groups: Mapping[str, int] = field(default_factory=dict)  # name and number of nodes

    @classmethod
    def of_rows(cls, graph: Graph) -> "Places":
        """Return the places of rows that are the nodes of the graph."""
        return cls(graph, np.arange(graph.n_nodes))

    @property
    def are_rows(self) -> bool:
        """Whether row i is node i."""
        n_nodes = self.graph.n_nodes
        return self.node_of_row.shape == (n_nodes,) and bool(
            (self.node_of_row == np.arange(n_nodes)).all()
        )

    def in_one_group(self) -> "Places":
        """Return these places, or those in the first of several groups that has edges."""
        if not self.groups:
            return self
        ends = np.cumsum([0, *self.groups.values()]).tolist()
        first = int(np.argmax(self.graph.degrees > 0))  # 0 if no group has edges
        number = int(np.searchsorted(ends, first, "right")) - 1
        own = slice(ends[number], ends[number + 1])
        adjacency = sparse.csr_array(self.graph.adjacency[own, own])
        nodes = np.maximum(self.node_of_row[:, number] - own.start, -1)
        return Places(Graph(adjacency, self.graph.node_ids[own]), nodes)

    def rows(self, values: Any) -> Any:
        """Return the values of each row's node, NaN for rows without one."""
        if self.are_rows:
            return values
        taken = values[self.node_of_row]
        if (self.node_of_row < 0).any():
            taken = taken.toarray() if sparse.issparse(taken) else taken
            taken[self.node_of_row < 0] = np.nan
        return taken


def frequent_levels(table: Table) -> Levels:
    """Return, for each column of categories, the codes that get a share of neighbours.

    These are the most frequent ones; ``OTHERS`` stands for the rest together. Of two levels one is
    enough.
    """
    levels: dict[int, IntArray] = {}
    for column in table.categorical:
        values = table.values[:, column]
        n_codes = max(len(table.categories.get(column, ())), 1)
        counts = np.bincount(values[~np.isnan(values)].astype(np.int64), minlength=n_codes)
        counts = everywhere(counts)
        codes = np.argsort(-counts, kind="stable")
        codes = codes[counts[codes] > 0]
        if codes.size > MAX_LEVELS:
            codes = np.append(codes[: MAX_LEVELS - 1], OTHERS)
        levels[column] = codes[: 1 if codes.size == 2 else None]
    return levels


def on_nodes(table: Table, places: Places | None, levels: Levels) -> Block:
    """Return numbers of each node: means of its rows' columns, and shares of their categories.

    NaN where no row of the node has a known value. Without places, rows are nodes.
    """
    values, names, origin = table.values, list(table.names), list(table.origin)
    if not table.is_sparse:
        parts = [values[:, table.numeric]]
        names = [table.names[column] for column in table.numeric]
        origin = [table.origin[column] for column in table.numeric]
        for column, codes in levels.items():
            own = values[:, column]
            shares = [own == code for code in codes if code != OTHERS]
            if OTHERS in codes:
                shares.append(np.isin(own, codes, invert=True))
            block = np.column_stack([np.zeros((len(own), 0)), *shares]).astype(np.float64)
            block[np.isnan(own)] = np.nan
            parts.append(block)
            known = table.categories.get(column, ())
            texts = ["others" if code == OTHERS else str(known[code]) for code in codes]
            names += [f"{table.names[column]}={text}" for text in texts]
            origin += [table.origin[column]] * len(texts)
        values = np.hstack(parts)
    if places is None or places.are_rows:
        return values, names, origin
    n_nodes = places.graph.n_nodes
    has_node = places.node_of_row >= 0
    ends = (places.node_of_row[has_node], np.flatnonzero(has_node))
    shape = (n_nodes, table.n_rows)
    members = sparse.csr_array((np.ones(ends[0].size), ends), shape=shape)
    return weighted_mean(members, values), names, origin


def weighted_mean(weights: sparse.csr_array, values: Any) -> Any:
    """Return weighted means of the known values of each column; NaN where there are none."""
    sums = np.asarray(weights.sum(axis=1)).ravel()
    if sparse.issparse(values):
        scale = sparse.diags_array(1.0 / np.where(sums > 0, sums, 1.0))
        return sparse.csr_array(scale @ (weights @ values))
    values = np.asarray(values, dtype=np.float64)
    missing = np.isnan(values)
    matrix = SparseMatrix(weights) if weights.shape[0] == weights.shape[1] else weights
    if not missing.any():
        total, mass = matrix @ values, np.broadcast_to(sums[:, None], (sums.size, values.shape[1]))
    else:
        total = matrix @ np.where(missing, 0.0, values)
        mass = matrix @ (~missing).astype(np.float64)
    return np.divide(total, mass, out=np.full(total.shape, np.nan), where=mass > 0)


def extreme(weights: sparse.csr_array, values: Array, pick: np.ufunc) -> Array:
    """Return least or greatest known values over the entries of each row; NaN for none."""
    limit = np.inf if pick is np.minimum else -np.inf
    result = np.full((weights.shape[0], values.shape[1]), np.nan)
    connected = np.flatnonzero(np.diff(weights.indptr) > 0)
    starts = weights.indptr[connected]
    for column in range(values.shape[1]):
        own = values[weights.indices, column]
        own = np.where(np.isnan(own), limit, own)
        picked = pick.reduceat(own, starts) if connected.size else own[:0]
        result[connected, column] = np.where(picked == limit, np.nan, picked)
    return result


def neighbor_columns(
    weights: sparse.csr_array,
    nodes: Block,
    n_numbers: int,
    statistics: Sequence[str],
    degrees: tuple[Array, Array] | None,
) -> Block:
    """Return statistics over neighbours of the numbers of nodes, and degrees.

    ``weights`` of shape (m, n) are those of the edges of m nodes to n nodes with numbers ``nodes``,
    whose first ``n_numbers`` columns are no shares: of shares, the mean only. ``degrees`` are those
    of the m and of the n nodes; None for no columns of them.
    """
    values, names, origin = nodes
    is_sparse = sparse.issparse(values)
    weights = _in_range(weights)
    blocks, all_names, all_origin = [], [], []
    for statistic in statistics:
        if statistic == "mean":
            blocks.append(weighted_mean(weights, values))
            all_names += [f"mean({name})" for name in names[:n_numbers]]
            all_names += [f"share({name})" for name in names[n_numbers:]]
            all_origin += origin
        elif not is_sparse:
            pick = np.minimum if statistic == "min" else np.maximum
            blocks.append(extreme(weights, values[:, :n_numbers], pick))
            all_names += [f"{statistic}({name})" for name in names[:n_numbers]]
            all_origin += origin[:n_numbers]
    if degrees is not None:
        own, others = (np.minimum(one, MAX_VALUE)[:, None] for one in degrees)
        blocks += [own, np.nan_to_num(weighted_mean(weights, others))]
        all_names += ["degree", "mean(degree)"]
        all_origin += [-1, -1]
    if is_sparse:
        joined = sparse.hstack([sparse.csr_array(block) for block in blocks], format="csr")
        return joined, all_names, all_origin
    empty = np.zeros((weights.shape[0], 0))
    return np.hstack([empty, *blocks]), all_names, all_origin


def _in_range(weights: sparse.csr_array) -> sparse.csr_array:
    """Weights of which products with values do not overflow: relative ones where they may."""
    if weights.data.max(initial=0.0) < 1e100 and weights.data.min(initial=1.0) > 1e-100:
        return weights
    sums = np.asarray(weights.sum(axis=1)).ravel()
    data = weights.data / np.repeat(sums, np.diff(weights.indptr))
    return sparse.csr_array((data, weights.indices, weights.indptr), shape=weights.shape)


def smoothed_columns(table: Table, smoother: Smoother, graph: Graph) -> Block:
    """Return P_x X of the numeric columns, from the known values where some are missing."""
    operator = smoother.operator(graph)
    if table.is_sparse:
        values, names, origin = table.values.toarray(), table.names, table.origin
    else:
        values = table.values[:, table.numeric]
        names = tuple(table.names[column] for column in table.numeric)
        origin = tuple(table.origin[column] for column in table.numeric)
    values = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(values)
    smoothed = operator.apply(np.where(known, values, 0.0))
    if not known.all():
        mass = operator.apply(known.astype(np.float64))
        smoothed *= operator.apply(np.ones((len(values), 1)))
        has_known = np.abs(mass) > 1e-12
        np.divide(smoothed, mass, out=smoothed, where=has_known)
        smoothed[~has_known] = np.nan
    return smoothed, [f"smoothed({name})" for name in names], list(origin)
