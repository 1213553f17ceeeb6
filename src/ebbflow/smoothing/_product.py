"""out += M z without a temporary: the step that propagation is made of."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

# scipy's `@` adds into zeros that it makes for each product; these are the loops beneath it, which add into anything.
from scipy.sparse import _sparsetools


def plus_product(source: Any, matrix: sparse.csr_array, scores: Any) -> Any:
    """Return source + matrix @ scores, of the type of the matrix; sparse scores stay sparse."""
    if sparse.issparse(scores):
        return matrix @ scores + source
    out: NDArray[Any] = np.array(source, dtype=matrix.dtype, order="C")
    scores = np.ascontiguousarray(scores, dtype=matrix.dtype)
    rows, columns = matrix.shape
    parts = (matrix.indptr, matrix.indices, matrix.data)
    if scores.ndim == 1 or scores.shape[1] == 1:
        _sparsetools.csr_matvec(rows, columns, *parts, scores.ravel(), out.ravel())
    else:
        _sparsetools.csr_matvecs(rows, columns, scores.shape[1], *parts, scores.ravel(), out.ravel())
    return out
