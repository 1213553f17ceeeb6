"""Category columns as numbers: CatBoost's ordered target statistics.

A labelled node is encoded from the labels that come *before* it in a random order, never from its
own, not even in the mean that small categories are shrunk to; all other nodes from every training
label. No other label is used.
"""

import numpy as np

from ebboost.data.labels import Labels
from ebboost.data.table import Table
from ebboost.data.types import Array, IntArray

PRIOR_STRENGTH = 1.0


class OrderedTargetEncoder:
    """Mean target of each category, with one column per output, for learners without categories."""

    def __init__(self) -> None:
        #: Mean target, to which the means of small categories are shrunk.
        self.prior: Array = np.zeros(0)
        #: A row per category and a column per output for each encoded column; row 0 is that of
        #: missing categories.
        self.means: dict[int, Array] = {}

    def fit_transform(self, table: Table, labels: Labels, seed: int) -> Table:
        """Learn the means and encode the categorical columns of the table with these labels."""
        self.prior = np.average(labels.target, axis=0, weights=labels.weight)
        order = np.random.default_rng(seed).permutation(labels.nodes.size)
        nodes = labels.nodes[order]
        target = labels.target[order]
        weight = labels.weight[order]
        prior_before = _mean_before(target, weight)
        encoded = {}
        for column in table.categorical:
            groups = _groups(table.values[:, column])
            sums, counts = _totals(groups[nodes], target, weight, int(groups.max()) + 1)
            self.means[column] = _shrink(sums, counts, self.prior)
            encoded[column] = self.means[column][groups]
            sums_before, counts_before = _totals_before(groups[nodes], target, weight)
            encoded[column][nodes] = _shrink(sums_before, counts_before, prior_before)
        return _replace_columns(table, encoded)

    def transform(self, table: Table) -> Table:
        """Encode another table with the learned means."""
        encoded = {}
        for column in table.categorical:
            means = np.vstack([self.means[column], self.prior])
            encoded[column] = means[np.minimum(_groups(table.values[:, column]), len(means) - 1)]
        return _replace_columns(table, encoded)


def _replace_columns(table: Table, encoded: dict[int, Array]) -> Table:
    columns = [encoded.get(i, table.values[:, [i]]) for i in range(len(table.names))]
    widths = [block.shape[1] for block in columns]
    source = np.repeat(np.arange(len(widths)), widths).tolist()
    names = tuple(table.names[i] for i in source)
    return Table(np.hstack(columns), names, (), tuple(table.origin[i] for i in source))


def _shrink(sums: Array, counts: Array, prior: Array) -> Array:
    return (sums + PRIOR_STRENGTH * prior) / (counts[:, None] + PRIOR_STRENGTH)


def _mean_before(target: Array, weight: Array) -> Array:
    """Return the mean of all earlier rows; for the first row, that of all the others."""
    means = np.zeros_like(target)
    if len(target) > 1:
        means[0] = np.average(target[1:], axis=0, weights=weight[1:])
        means[1:] = (np.cumsum(weight[:, None] * target, axis=0) / np.cumsum(weight)[:, None])[:-1]
    return means


def _groups(codes: Array) -> IntArray:
    """Return codes as integers: 0 for a missing category, k + 1 for category k."""
    return np.where(np.isnan(codes), -1.0, codes).astype(np.int64) + 1


def _totals(groups: IntArray, target: Array, weight: Array, n_groups: int) -> tuple[Array, Array]:
    """Return weighted sums and weights of each group."""
    counts: Array = np.bincount(groups, weights=weight, minlength=n_groups).astype(np.float64)
    sums = [np.bincount(groups, weights=weight * column, minlength=n_groups) for column in target.T]
    return np.column_stack(sums), counts


def _totals_before(groups: IntArray, target: Array, weight: Array) -> tuple[Array, Array]:
    """Return weighted sums and weights over the earlier rows of the same group."""
    order = np.argsort(groups, kind="stable")
    first = np.searchsorted(groups[order], groups[order], side="left")
    zero = np.zeros(target.shape[1])
    running = np.vstack([zero, np.cumsum(weight[order, None] * target[order], axis=0)])
    mass = np.concatenate([[0.0], np.cumsum(weight[order])])
    position = np.arange(groups.size)
    sums = np.empty_like(target)
    counts = np.empty_like(weight)
    sums[order] = running[position] - running[first]
    counts[order] = mass[position] - mass[first]
    return sums, counts
