"""Conjugate gradients in numpy's functions, which also run on CuPy's arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ebboost.data.types import AnyArray

#: Rows that are summed side by side on a GPU, which is thirty times slower at a few long columns.
PIECES = 256


def conjugate_gradients(
    multiply: Callable[[Any], Any],
    right: AnyArray,
    precondition: Callable[[Any], Any],
    target: AnyArray,
    max_iterations: int,
    scale: AnyArray = None,
    check_every: int = 1,
) -> tuple[Any, Any]:
    """Solve M z = b for a symmetric positive definite M; ``precondition`` multiplies by about M⁻¹.

    Each column of ``right``, of shape (n,) or (n, c), is a system of its own. All stop when the
    residual of each, its entries times ``scale``, is no longer than ``target``. A GPU must wait for
    that check, made after every ``check_every`` iterations. Returns z and the lengths of the
    residuals, NaN where numbers overflowed.
    """
    z = np.zeros_like(right)
    residual = right.copy()
    direction = np.zeros_like(right)
    product = column_sums(direction)  # of the last iteration; 0 before the first
    for iteration in range(max_iterations + 1):
        if iteration % check_every == 0 or iteration == max_iterations:
            length = norms(residual if scale is None else scale * residual)
            if iteration == max_iterations or not (length > target).any():
                break
        preconditioned = precondition(residual)
        last = product
        product = column_sums(residual * preconditioned)
        direction = preconditioned + ratio(product, last) * direction
        image = multiply(direction)
        step = ratio(product, column_sums(direction * image))
        z += step * direction
        residual -= step * image
    return z, length


def ratio(above: AnyArray, below: AnyArray) -> AnyArray:
    """Return the quotient, 0 where ``below`` is not positive, without waiting for a GPU."""
    positive = below > 0
    return np.where(positive, above / np.where(positive, below, 1.0), 0.0)


def norms(columns: AnyArray) -> AnyArray:
    """Return the length of each column."""
    # Not np.linalg.norm, whose BLAS threads would compete with the trees' for the cores.
    return np.sqrt(column_sums(columns * columns))


def column_sums(columns: AnyArray) -> AnyArray:
    """Return the sum of each column."""
    if columns.ndim == 1 or isinstance(columns, np.ndarray):
        return columns.sum(axis=0)
    even = len(columns) // PIECES * PIECES
    pieces = columns[:even].reshape(-1, PIECES * columns.shape[1]).sum(axis=0)
    return pieces.reshape(PIECES, -1).sum(axis=0) + columns[even:].sum(axis=0)
