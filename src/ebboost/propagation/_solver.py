"""Symmetric positive definite sparse systems: a factorisation for small graphs, conjugate gradients beyond."""

import warnings
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import splu
from sklearn.exceptions import ConvergenceWarning

from ebboost.propagation._matrix import GraphMatrix

Array = NDArray[np.float64]
PIECES = 256


class SparseSolver:
    """Solves M z = b for many b.

    Parameters
    ----------
    matrix : GraphMatrix
        Positive definite.
    remedy : str
        What to do if conjugate gradients do not converge, for the warning.
    floor : float
        A lower bound on the eigenvalues of the matrix. Where they reach farther than double precision can tell apart, the
        system is refused: any answer would be made of rounding.
    """

    #: Of the largest to the smallest eigenvalue.
    most_apart = 1e14

    #: Beyond this size a factorisation may fill in: on social graphs it does, and loses to conjugate gradients.
    direct_up_to = 1_000
    max_iterations = 10_000

    def __init__(self, matrix: GraphMatrix, remedy: str, floor: float) -> None:
        self.matrix = matrix
        self._remedy = remedy
        top = 2.0 * float(matrix.diagonal.max())  # Gershgorin
        if not top <= self.most_apart * floor:
            raise ValueError(
                f"A system to solve on this graph has eigenvalues from {floor:.4g} to {top:.4g}, too far apart for double "
                f"precision. {remedy}"
            )
        self._factor: Any = None
        if matrix.shape[0] <= self.direct_up_to and isinstance(matrix.diagonal, np.ndarray):
            options = {"SymmetricMode": True}
            self._factor = splu(
                matrix.csr.tocsc(),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options=options,
            )

    def solve(self, right: Array, tolerance: float = 1e-10) -> Array:
        """Return z with a residual of at most ``tolerance`` relative to each column of ``right``."""
        if self._factor is not None:
            solution: Array = self._factor.solve(right)
            return solution
        return self._conjugate_gradients(right, tolerance)

    def _conjugate_gradients(self, right: Array, tolerance: float) -> Array:
        """Preconditioned by the diagonal."""
        if right.size == right.shape[0]:
            return self._one_column(right, tolerance)
        return self._columns(right, tolerance)

    def _one_column(self, right: Array, tolerance: float) -> Array:
        """The same in v = R z, where the edges weigh what they weigh in A: (diag(δ/(c r²)) − A) v = right/(c r)."""
        matrix = self.matrix
        if matrix.strength == 0.0:
            return right * self._scale.reshape(right.shape[0], *[1] * (right.ndim - 1))
        diagonal, inverse, size = self._rescaled
        target = tolerance * max(float(np.sqrt((right * right).sum())), 1e-300)
        found = matrix.sweep.conjugate_gradients(
            right.ravel() / size, diagonal, inverse, size, target, self.max_iterations
        )
        if found is None:
            return self._columns(right, tolerance)
        v, reached = found
        if not reached <= target < np.inf:  # of scores that are no numbers, neither is
            self._warn(tolerance * reached / target, tolerance)
            if not np.isfinite(reached):  # the loops leave zeros, which would look like an answer
                v = np.full_like(v, np.nan)
        solution: Array = (v / matrix.root).reshape(right.shape)
        return solution

    @cached_property
    def _scale(self) -> Array:
        return 1.0 / self.matrix.diagonal

    @cached_property
    def _rescaled(self) -> tuple[Array, Array, Array]:
        """δ/(c r²), its inverse, and c r."""
        size = self.matrix.strength * self.matrix.root
        diagonal = self.matrix.diagonal / (size * self.matrix.root)
        return diagonal, 1.0 / diagonal, size

    def _columns(self, right: Array, tolerance: float) -> Array:
        """All columns at once."""
        scale = self._scale if right.ndim == 1 else self._scale[:, None]
        z, residual = np.zeros_like(right), right.copy()
        direction = preconditioned = scale * residual
        product = sums(residual * preconditioned)
        target = tolerance * np.maximum(_norms(right), 1e-300)
        for _ in range(self.max_iterations):
            if (_norms(residual) <= target).all():
                return z
            image = self.matrix.times(direction)
            curvature = sums(direction * image)
            step = ratio(product, curvature)
            z += step * direction
            residual -= step * image
            preconditioned = scale * residual
            last, product = product, sums(residual * preconditioned)
            direction = preconditioned + ratio(product, last) * direction
        self._warn(float((_norms(residual) / target).max() * tolerance), tolerance)
        return z

    def _warn(self, reached: float, tolerance: float) -> None:
        warnings.warn(
            f"Conjugate gradients stopped after {self.max_iterations} iterations with a relative residual of {reached:.1e} "
            f"(wanted {tolerance:.0e}). {self._remedy}",
            ConvergenceWarning,
            stacklevel=5,
        )


def ratio(above: Any, below: Any) -> Any:
    """Their quotient, 0 where there is nothing left to divide by; without a look at either, which a GPU would wait for."""
    some = below > 0
    return np.where(some, above / np.where(some, below, 1.0), 0.0)


def _norms(columns: Array) -> Any:
    # Not np.linalg.norm, whose BLAS threads would fight the trees' for the cores.
    return np.sqrt(sums(columns * columns))


def sums(columns: Array) -> Any:
    """The sum of each column: on a GPU, which is thirty times slower at a few long ones, of many pieces of it first."""
    if isinstance(columns, np.ndarray):
        return columns.sum(axis=0)
    whole = len(columns) // PIECES * PIECES
    pieces = columns[:whole].reshape(-1, PIECES * columns.shape[1]).sum(axis=0)
    return pieces.reshape(PIECES, -1).sum(axis=0) + columns[whole:].sum(axis=0)
