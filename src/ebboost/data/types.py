"""Types that have no class of their own."""

from typing import Any, TypeAlias

#: An array of numpy or of CuPy: the loop and the operators work on either.
AnyArray: TypeAlias = Any
#: A table as users have it: a pandas or polars dataframe, an array, a sparse matrix, a
#: :class:`~ebboost.ParquetTable` or a Dask collection.
TableLike: TypeAlias = Any
