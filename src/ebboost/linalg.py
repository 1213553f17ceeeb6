"""Sparse symmetric matrices: products with vectors, and the one place where systems are solved."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import qdldl
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order
from sklearn.exceptions import ConvergenceWarning

from ebboost._common import Array, warn_caller
from ebboost._native import sweep
from ebboost.arrays import beside, here
from ebboost.sums import everywhere
from ebboost.threads import allowed_threads, workers

# Rows of a sweep from which on threads divide them, and entries that make up for starting one.
ENTRIES_OF_THREAD = 500_000
MAX_ITERATIONS = 10_000
# Matrices up to this size are factorised, and larger ones up to the last if they fill in little:
# if no ring around a node has more than so many times √n nodes. For one system alone a factor is
# worth its time up to the second.
SMALL = 1_000
SMALL_ONCE = 5_000
LARGEST_FACTOR = 200_000
MAX_RING = 5.0


class SparseMatrix:
    """A sparse symmetric matrix, times vectors of shape (n,) or (n, c) in float32 or float64."""

    def __init__(self, matrix: sparse.csr_array) -> None:
        self.matrix = matrix
        self.n_rows = int(matrix.shape[0])
        self._by_type: dict[str, sparse.csr_array] = {"d": matrix}
        is_int32 = matrix.indices.dtype == matrix.indptr.dtype == np.int32
        self._loops = sweep if is_int32 else None

    def __reduce__(self) -> tuple[type["SparseMatrix"], tuple[sparse.csr_array]]:
        return type(self), (self.matrix,)

    def __matmul__(self, v: NDArray[Any]) -> NDArray[Any]:
        return self.times(v)

    def times(
        self, v: NDArray[Any], factor: float = 0.0, source: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Return M v + factor · source."""
        if len(v) != self.matrix.shape[1]:
            n_nodes = self.matrix.shape[1]
            raise ValueError(f"expected a row for each of {n_nodes} nodes, got {v.shape}.")
        dtype = np.dtype(np.float32 if v.dtype == np.float32 else np.float64)
        if dtype.char not in self._by_type:
            self._by_type[dtype.char] = self.matrix.astype(dtype)
        matrix = self._by_type[dtype.char]
        if self._loops is None:
            product = matrix @ v
            return product if source is None else product + dtype.type(factor) * source
        v = np.ascontiguousarray(v, dtype=dtype)
        source = None if source is None else np.ascontiguousarray(source, dtype=dtype)
        out = np.empty((self.n_rows, *v.shape[1:]), dtype=dtype)
        width = v.shape[1] if v.ndim > 1 else 1
        arrays = (matrix.indptr, matrix.indices, matrix.data)
        vectors = (factor, None if source is None else source.ctypes.data, out.ctypes.data)
        arguments = (*(one.ctypes.data for one in arrays), width, v.ctypes.data, *vectors)
        loop = self._loops[dtype.char]
        n_threads = min(allowed_threads(), 1 + matrix.nnz * width // ENTRIES_OF_THREAD)
        ends = np.linspace(0, self.n_rows, n_threads + 1).astype(int).tolist()
        *others, last = pairwise(ends)
        jobs = [workers().submit(loop, *rows, *arguments) for rows in others]
        loop(*last, *arguments)
        for job in jobs:
            job.result()
        return out


class Structure:
    """The pattern of symmetric matrices that differ in their numbers, the diagonal included."""

    def __init__(self, pattern: sparse.csr_array) -> None:
        self.indices = pattern.indices
        self.indptr = pattern.indptr
        self.shape = pattern.shape
        row = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
        self.diagonal = np.flatnonzero(row == pattern.indices)
        if self.diagonal.size != pattern.shape[0]:
            raise ValueError("a pattern must contain the diagonal")
        self.upper = np.flatnonzero(row >= pattern.indices)  # of the transpose, stored by columns
        counts = np.bincount(row[self.upper], minlength=pattern.shape[0])
        self.upper_start = np.concatenate([[0], np.cumsum(counts)]).astype(pattern.indptr.dtype)
        self.is_factorised = fills_in_little(pattern)

    def factorises(self, once: bool) -> bool:
        """Return whether a matrix is factorised, to solve a system ``once`` or more often."""
        return self.is_factorised and (not once or self.shape[0] <= SMALL_ONCE)

    def matrix(self, data: Array) -> SparseMatrix:
        """Return the matrix with these numbers, in the order of its rows."""
        parts = (data, self.indices, self.indptr)
        return SparseMatrix(sparse.csr_array(parts, shape=self.shape))

    def upper_triangle(self, data: Array) -> sparse.csc_matrix:
        """Return the upper triangle by columns, as the factorisation reads it."""
        parts = (data[self.upper], self.indices[self.upper], self.upper_start)
        return sparse.csc_matrix(parts, shape=self.shape)


def fills_in_little(pattern: sparse.csr_array) -> bool:
    """Return whether a factor of matrices of this pattern is sparse, as in the plane.

    Rings around a node are cuts of the graph: where they are small, so is what a factor adds.
    """
    n_rows = pattern.shape[0]
    if n_rows <= SMALL:
        return True
    if n_rows > LARGEST_FACTOR:
        return False
    hub = int(np.argmax(np.diff(pattern.indptr)))
    order, parent = breadth_first_order(pattern, hub, directed=False)
    depth = np.zeros(n_rows, dtype=np.int64)
    for node in order[1:].tolist():
        depth[node] = depth[parent[node]] + 1
    return bool(np.bincount(depth[order]).max() <= MAX_RING * np.sqrt(n_rows))


class Solver:
    """Solves A x = b for many b, with A symmetric and positive definite: the one entry for systems.

    A factorisation where the pattern fills in little, conjugate gradients elsewhere. With
    ``near``, the solver of a matrix of the same pattern that differs in its diagonal only, its
    factor is the preconditioner, and this matrix need not be factorised.

    Parameters
    ----------
    structure : Structure
    data : ndarray
        The numbers of A in the order of the structure.
    near : Solver, optional
    once : bool, default=False
        Whether there is one b only: larger matrices are then not factorised.
    """

    def __init__(
        self, structure: Structure, data: Array, near: "Solver | None" = None, once: bool = False
    ) -> None:
        self.diagonal = data[structure.diagonal]
        least = float(self.diagonal.min())
        largest = 2.0 * float(self.diagonal.max())  # Gershgorin
        if not (least > 0.0 and largest < np.inf):
            raise ValueError("a system to solve is not positive definite: rescale the weights.")
        self.matrix = structure.matrix(data)
        self._near = near if near is not None and near._factor is not None else None
        self._factor: Any = None
        if structure.factorises(once) and self._near is None:
            try:
                self._factor = qdldl.Solver(structure.upper_triangle(data), upper=True)
            except RuntimeError:
                raise ValueError(
                    "a system to solve is not positive definite in double precision: edge weights "
                    "or strengths are too far apart. Rescale the weights, or use normalized=True."
                ) from None

    @property
    def factor(self) -> Any:
        """The factorisation, None where there is none."""
        return self._factor

    @property
    def is_direct(self) -> bool:
        """Whether solutions are exact up to rounding."""
        return self._factor is not None

    def solve(self, right: Array, tolerance: float = 1e-10) -> Array:
        """Return the solution, of shape (n,) or (n, c); ``tolerance`` is that of residuals."""
        if self._factor is not None:
            return _by_columns(self._factor.solve, right)
        precondition = preconditioner(_shaped(self.diagonal, right), self._near)
        return conjugate_gradients(self.matrix.times, right, precondition, tolerance)


def preconditioner(diagonal: Array, near: "Solver | None") -> Callable[[Array], Array]:
    """Return M⁻¹ for systems with this diagonal: the factor of a near matrix, or the diagonal.

    A diagonal of shape (n, c) has a column for each of c systems.
    """
    if near is None or near._factor is None:
        inverse = 1.0 / diagonal
        return lambda residual: inverse * residual
    solve = near._factor.solve
    own = beside(near.diagonal if diagonal.ndim == 1 else near.diagonal[:, None], diagonal)
    scale = np.sqrt(own / diagonal)
    return lambda residual: scale * _by_columns(solve, scale * residual)


def _by_columns(solve: Callable[[Array], Array], right: Array) -> Array:
    own = here(right)
    if own.ndim == 1:
        return beside(solve(np.ascontiguousarray(own)), right)
    if not own.shape[1]:
        return right.copy()
    columns = [solve(np.ascontiguousarray(column)) for column in own.T]
    return beside(np.column_stack(columns), right)


def _shaped(vector: Array, like: Array) -> Array:
    return vector if like.ndim == 1 else vector[:, None]


def conjugate_gradients(
    multiply: Callable[[Array], Array],
    right: Array,
    precondition: Callable[[Array], Array],
    tolerance: float,
) -> Array:
    """Solve A x = b; each column of ``right`` is a system of its own.

    All stop when the residual of each is at most ``tolerance`` times its b.
    """
    is_one = right.size == len(right)

    def products(a: Array, b: Array) -> Array:
        # Not by BLAS, whose threads wait for each other on a busy machine.
        return everywhere((a * b).sum(axis=0) if is_one else np.einsum("ij,ij->j", a, b))

    target = tolerance * np.maximum(np.sqrt(products(right, right)), 1e-300)
    x = np.zeros_like(right)
    residual = right.copy()
    direction = np.zeros_like(right)
    last = np.zeros_like(right, shape=right.shape[1:])
    for _ in range(MAX_ITERATIONS):
        length = np.sqrt(products(residual, residual))
        if not (length > target).any():
            return x
        preconditioned = precondition(residual)
        product = products(residual, preconditioned)
        direction = preconditioned + _quotient(product, last) * direction
        image = multiply(direction)
        step = _quotient(product, products(direction, image))
        x += step * direction
        residual -= step * image
        last = product
    warn_caller(
        f"Conjugate gradients stopped after {MAX_ITERATIONS} iterations with a relative residual "
        f"of {float(np.max(tolerance * length / target)):.1e} (wanted {tolerance:.0e}). Use a "
        "smaller lam or a larger tau.",
        ConvergenceWarning,
    )
    return x


def _quotient(above: Array, below: Array) -> Array:
    """The quotient, 0 where ``below`` is not positive."""
    is_positive = below > 0
    return np.where(is_positive, above / np.where(is_positive, below, 1.0), 0.0)
