"""The table: one matrix of numbers for dataframes, arrays and sparse matrices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

# Tree libraries use single precision, up to 3.4e38, and neighbours' columns are added up.
MAX_VALUE = 1e37


@dataclass(frozen=True)
class Table:
    """A matrix with a name per column."""

    values: Any  # ndarray or csr_array of shape (n, d)
    names: tuple[str, ...]
    categorical: tuple[int, ...] = ()  # positions of the columns that hold category codes
    origin: tuple[int, ...] = ()  # for each column, that of the user's table; −1 for none
    categories: Mapping[int, Sequence[Any]] = field(default_factory=dict, kw_only=True)
    dates: tuple[int, ...] = field(default=(), kw_only=True)  # columns of days since 1970

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.values.shape[0])

    @property
    def is_sparse(self) -> bool:
        """Whether the values are a scipy sparse matrix."""
        return bool(sparse.issparse(self.values))

    @property
    def numeric(self) -> list[int]:
        """Positions of the columns that are not categories."""
        return [column for column in range(len(self.names)) if column not in self.categorical]

    def subset(self, rows: NDArray[Any] | slice) -> "Table":
        """Return some rows, by position, mask or slice."""
        return replace(self, values=self.values[rows])

    def with_columns(self, block: Any, names: Sequence[str], origin: Sequence[int]) -> "Table":
        """Return the table with numeric columns added on the right."""
        if self.is_sparse:
            values = sparse.hstack([self.values, sparse.csr_array(block)], format="csr")
        else:
            values = np.hstack([self.values, block])
        joined = ((*self.names, *names), (*self.origin, *origin))
        return replace(self, values=values, names=joined[0], origin=joined[1])
