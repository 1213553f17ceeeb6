"""Low-rank projection of wide sparse tables."""

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from ebboost.data.table import Table
from ebboost.data.types import Array

Seed = int | np.random.RandomState | None


class LowRank:
    """Projection of sparse counts on their leading singular vectors (latent semantic analysis).

    Trees split on one column at a time and gain little from one of thousands of sparse columns.
    Columns are weighted by the logarithm of their rarity and rows scaled to unit length first, as
    is usual for word counts.
    """

    def __init__(self, n_components: int) -> None:
        self.n_components = n_components
        self.rarity: Array = np.zeros(0)
        #: Right singular vectors, a row for each column of the table.
        self.directions: Array = np.zeros((0, 0))

    def fit_transform(self, table: Table, seed: int) -> Table:
        """Learn the directions and project."""
        counts = np.bincount(table.values.indices, minlength=table.values.shape[1])
        self.rarity = np.log((table.n_rows + 1.0) / (counts + 1.0))
        weighted = self._weighted(table.values)
        self.directions = singular_vectors(weighted, self.n_components, n_iter=1, seed=seed)
        return self.transform(table)

    def transform(self, table: Table) -> Table:
        """Project another table."""
        projected = self._weighted(table.values) @ self.directions
        names = tuple(f"direction({i})" for i in range(projected.shape[1]))
        return Table(projected, names, (), (-1,) * len(names))

    def _weighted(self, values: sparse.csr_array) -> sparse.csr_array:
        weighted = sparse.csr_array(values.astype(np.float64).multiply(self.rarity[None, :]))
        weighted.data[np.isnan(weighted.data)] = 0.0
        norm = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
        return sparse.csr_array(sparse.diags_array(1.0 / np.where(norm > 0, norm, 1.0)) @ weighted)


def singular_vectors(matrix: sparse.csr_array, n_components: int, n_iter: int, seed: Seed) -> Array:
    """Return the leading right singular vectors as columns."""
    n_components = max(min(n_components, min(matrix.shape) - 1), 1)
    options = {"n_iter": n_iter, "n_oversamples": 8, "random_state": seed}
    return randomized_svd(matrix, n_components, **options)[2].T
