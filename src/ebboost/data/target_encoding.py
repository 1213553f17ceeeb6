"""Category columns as numbers for learners that cannot split on categories: CatBoost's ordered target statistics.

A labelled node is encoded from the labels that come *before* it in a random order, never from its own, not even in
the mean that small categories are shrunk to; all other nodes from every training label. No other label is ever looked
at.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.data.labels import Labels
from ebboost.data.table import Table

Array = NDArray[np.float64]
PRIOR_STRENGTH = 1.0


class OrderedTargetEncoder:
    """Replaces each category column by the mean target of its category, one column per output.

    Examples
    --------
    >>> import numpy as np
    >>> from ebboost.data.table import Table
    >>> from ebboost.data.labels import Labels
    >>> table = Table(np.array([[0.0], [0.0], [1.0], [0.0]]), ("colour",), categorical=(0,), origin=(0,))
    >>> labels = Labels(np.array([0, 1]), np.array([[1.0], [3.0]]), np.ones(2))
    >>> encoded = OrderedTargetEncoder().fit_transform(table, labels, seed=0)
    >>> encoded.values[2:].ravel().tolist()  # never seen: the mean; seen twice: (1 + 3 + mean) / 3
    [2.0, 2.0]
    """

    def __init__(self) -> None:
        self.prior: Array = np.zeros(0)
        self.means: dict[int, Array] = {}

    def fit_transform(self, table: Table, labels: Labels, seed: int) -> Table:
        """Learn from the training labels and encode the table they belong to."""
        self.prior = np.average(labels.target, axis=0, weights=labels.weight)
        order = np.random.default_rng(seed).permutation(labels.nodes.size)
        nodes, target, weight = labels.nodes[order], labels.target[order], labels.weight[order]
        earlier_prior = _mean_before(target, weight)
        encoded = {}
        for column in table.categorical:
            groups = _groups(table.values[:, column])
            sums, counts = _totals(groups[nodes], target, weight, int(groups.max()) + 1)
            self.means[column] = _shrunk(sums, counts, self.prior)
            encoded[column] = self.means[column][groups]
            earlier_sums, earlier_counts = _before(groups[nodes], target, weight)
            encoded[column][nodes] = _shrunk(earlier_sums, earlier_counts, earlier_prior)
        return self._replaced(table, encoded)

    def transform(self, table: Table) -> Table:
        """Encode another table with the means learned."""
        encoded = {}
        for column in table.categorical:
            means = np.vstack([self.means[column], self.prior])
            encoded[column] = means[np.minimum(_groups(table.values[:, column]), len(means) - 1)]
        return self._replaced(table, encoded)

    def _replaced(self, table: Table, encoded: dict[int, Array]) -> Table:
        blocks: list[Any] = []
        names: list[str] = []
        origin: list[int] = []
        for column, name in enumerate(table.names):
            block = encoded.get(column, table.values[:, [column]])
            blocks.append(block)
            names += [name] * block.shape[1]
            origin += [table.origin[column]] * block.shape[1]
        return Table(np.hstack(blocks), tuple(names), (), tuple(origin))


def _shrunk(sums: Array, counts: Array, prior: Array) -> Array:
    return (sums + PRIOR_STRENGTH * prior) / (counts[:, None] + PRIOR_STRENGTH)


def _mean_before(target: Array, weight: Array) -> Array:
    """Mean of the earlier rows of every group. The first row has none: it takes the mean of all the others."""
    means = np.zeros_like(target)
    if len(target) > 1:
        means[0] = np.average(target[1:], axis=0, weights=weight[1:])
        means[1:] = (np.cumsum(weight[:, None] * target, axis=0) / np.cumsum(weight)[:, None])[:-1]
    return means


def _groups(codes: Array) -> NDArray[np.int64]:
    """Codes as whole numbers; a missing category is group 0, category k is group k + 1."""
    return np.where(np.isnan(codes), -1.0, codes).astype(np.int64) + 1


def _totals(
    groups: NDArray[np.int64], target: Array, weight: Array, n_groups: int
) -> tuple[Array, Array]:
    counts: Array = np.bincount(groups, weights=weight, minlength=n_groups).astype(np.float64)
    sums = [np.bincount(groups, weights=weight * column, minlength=n_groups) for column in target.T]
    return np.column_stack(sums), counts


def _before(groups: NDArray[np.int64], target: Array, weight: Array) -> tuple[Array, Array]:
    """Sums and counts over the earlier rows of the same group."""
    order = np.argsort(groups, kind="stable")
    first = np.searchsorted(groups[order], groups[order], side="left")
    sums, counts = np.empty_like(target), np.empty_like(weight)
    running = np.vstack(
        [np.zeros(target.shape[1]), np.cumsum(weight[order, None] * target[order], axis=0)]
    )
    mass = np.concatenate([[0.0], np.cumsum(weight[order])])
    position = np.arange(groups.size)
    sums[order] = running[position] - running[first]
    counts[order] = mass[position] - mass[first]
    return sums, counts
