"""Categories as numbers: CatBoost's ordered target statistics, for learners without categories.

A labelled row is encoded from the labels that come *before* it in a random order, never from its
own, not even in the mean that small categories are shrunk to; all other rows from every label
trained on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ebboost._common import Array, IntArray
from ebboost.data.features import FeatureMap
from ebboost.data.labels import Labels
from ebboost.data.table import Table

PRIOR_STRENGTH = 1.0


@dataclass
class EncodedFeatures(FeatureMap):
    """Columns of the trees with the mean target of each category in its place, one per output.

    ``means`` has a row per category of each encoded column; row 0 is that of missing ones.
    ``prior`` is the mean target, to which the means of small categories are shrunk.
    """

    prior: Array | None = None
    means: Mapping[int, Array] = field(default_factory=dict)

    def _own_columns(self, table: Table) -> Table:
        """The table with its categories encoded by the learned means."""
        if self.prior is None or not table.categorical:
            return table
        encoded = {}
        for column, known in self.means.items():
            means = np.vstack([known, self.prior])  # the last for categories never seen
            encoded[column] = means[np.minimum(_groups(table.values[:, column]), len(known))]
        return _replace_columns(table, encoded)


def encode_categories(
    table: Table, labels: Labels, seed: int
) -> tuple[Array, dict[int, Array], Table]:
    """Return prior and means of :class:`EncodedFeatures`, and the table encoded for training."""
    prior = np.average(labels.target, axis=0, weights=labels.weight)
    order = np.random.default_rng(seed).permutation(labels.size)
    rows, target, weight = labels.rows[order], labels.target[order], labels.weight[order]
    prior_before = _mean_before(target, weight)
    means, encoded = {}, {}
    for column in table.categorical:
        groups = _groups(table.values[:, column])
        own, size = groups[rows], int(groups.max()) + 1
        sums = [np.bincount(own, weight * one, size) for one in target.T]
        counts: Array = np.bincount(own, weight, size).astype(np.float64)
        means[column] = _shrink(np.column_stack(sums), counts, prior)
        encoded[column] = means[column][groups]
        encoded[column][rows] = _shrink(*_totals_before(own, target, weight), prior_before)
    return prior, means, _replace_columns(table, encoded)


def _replace_columns(table: Table, encoded: Mapping[int, Array]) -> Table:
    """The table with the first output in the place of each category, further ones on the right."""
    values = np.array(table.values, dtype=np.float64)
    for column, means in encoded.items():
        values[:, column] = means[:, 0]
    rest = [means[:, 1:] for means in encoded.values()]
    source = [column for column, means in encoded.items() for _ in means.T[1:]]
    numbers = replace(table, values=values, categorical=(), categories={})
    names = [table.names[column] for column in source]
    return numbers.with_columns(np.hstack(rest), names, [table.origin[column] for column in source])


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
