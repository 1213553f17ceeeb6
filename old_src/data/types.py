"""Types that have no class of their own."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
#: An array of numpy or of CuPy: the loop and the operators work on either.
AnyArray: TypeAlias = Any
#: A table as users have it: a pandas or polars dataframe, an array, a sparse matrix, a
#: :class:`~ebboost.ParquetTable` or a Dask collection.
TableLike: TypeAlias = Any
#: Numbers or classes, NaN or None where unknown.
LabelsLike: TypeAlias = ArrayLike | Sequence[Any]
#: Nodes and their labels.
LabelledNodes: TypeAlias = tuple[ArrayLike, LabelsLike]
