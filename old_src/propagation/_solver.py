"""Symmetric positive definite sparse systems: a factorisation, or conjugate gradients if large."""

from functools import partial

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from ebboost.data.once import lazy_property
from ebboost.data.types import Array
from ebboost.data.warn import warn_caller
from ebboost.propagation._cg import conjugate_gradients, norms
from ebboost.propagation._factor import SMALL, Factor, elimination
from ebboost.propagation._matrix import GraphMatrix, columnwise


class SparseSolver:
    """Solver of M z = b for many b; ``floor`` is a lower bound on the eigenvalues of M.

    Small matrices are factorised; :meth:`factorize` others, where there are hundreds of b. The
    factor of a matrix ``near`` this one speeds up conjugate gradients.
    A condition number beyond double precision, with which any answer would be rounding, raises
    ValueError. That message and the warning about convergence end with the ``remedy``.
    """

    #: Largest to smallest eigenvalue. Double precision has 16 digits; 2 are left for the answer.
    max_condition_number = 1e14
    #: Up to this size all matrices are factorised.
    direct_up_to = SMALL
    max_iterations = 10_000

    def __init__(
        self, matrix: GraphMatrix, remedy: str, floor: float, near: Factor | None = None
    ) -> None:
        self.matrix = matrix
        self._remedy = remedy
        top = 2.0 * float(matrix.diagonal.max())  # Gershgorin
        if not top <= self.max_condition_number * floor:
            raise ValueError(
                f"A system to solve on this graph has eigenvalues from {floor:.4g} to {top:.4g}, "
                f"too far apart for double precision. {remedy}"
            )
        #: The factorisation, if there is one.
        self.factor: Factor | None = None
        self._near = near
        if matrix.shape[0] <= self.direct_up_to:
            self.factorize()

    def factorize(self) -> None:
        """Factorise the matrix, if it is in memory and fills in little: for hundreds of b."""
        if self.factor is None and isinstance(self.matrix.adjacency, sparse.csr_array):
            pattern = elimination(self.matrix.adjacency, self.matrix.sweep)
            if pattern is not None:
                self.factor = Factor(self.matrix, pattern)

    def solve(self, right: Array, tolerance: float = 1e-10) -> Array:
        """Return the solution of M z = b, of shape (n,) or (n, c).

        The residual of each column is at most ``tolerance`` times its b; if ``max_iterations`` do
        not suffice, a ConvergenceWarning says so.
        """
        if self.factor is not None:
            return self.factor.solve(right)
        is_column = right.size == right.shape[0]
        one_by_one = is_column or self.matrix.sweep.solves_columns
        if one_by_one and self.matrix.strength != 0.0:
            columns = [right.ravel()] if is_column else list(right.T)
            target = np.array([tolerance * max(float(norms(one)), 1e-300) for one in columns])
            solved = list(map(self._one_column, columns, target))
            length = np.array([length for _, length in solved])
            stacked = solved[0][0] if is_column else np.stack([z for z, _ in solved], axis=1)
            solution = stacked.reshape(right.shape)
        else:
            precondition = partial(np.multiply, columnwise(1.0 / self.matrix.diagonal, right))
            target = tolerance * np.maximum(norms(right), 1e-300)
            system = (self.matrix.times, right, precondition)
            solution, length = conjugate_gradients(*system, target, self.max_iterations)
        relative = float(np.max(tolerance * (length / target)))
        if not relative <= tolerance:
            warn_caller(
                f"Conjugate gradients stopped after {self.max_iterations} iterations with a "
                f"relative residual of {relative:.1e} (wanted {tolerance:.0e}). {self._remedy}",
                ConvergenceWarning,
            )
        return solution

    @lazy_property
    def _scaled(self) -> tuple[Array, Array, Array]:
        """Diagonal of the system in v = R z, its inverse, and c r."""
        size = self.matrix.strength * self.matrix.root
        with np.errstate(over="ignore"):  # a field that is shrunk to nothing
            diagonal = self.matrix.diagonal / (size * self.matrix.root)
        return diagonal, 1.0 / diagonal, size

    def _one_column(self, right: Array, target: float) -> tuple[Array, float]:
        """The system in v = R z, with the weights of A itself: (diag(δ/(c r²)) − A) v = b/(c r)."""
        if self._near is not None:
            return self._near.solve_near(
                self.matrix.diagonal, right, float(target), self.max_iterations
            )
        v, length = self.matrix.sweep.conjugate_gradients(
            right / self._scaled[2], self._scaled, float(target), self.max_iterations
        )
        if not np.isfinite(length):  # the loops leave zeros, which would look like an answer
            v = np.full_like(v, np.nan)
        return v / self.matrix.root, length
