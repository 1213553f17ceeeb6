"""Systems on the GPU by conjugate gradients: see `cg.cu`."""

from functools import lru_cache
from typing import Any

import cupy
import numpy as np

from ebboost.gpu.matrices import BATCH, THREADS, CudaMatrix, compiled
from ebboost.linalg import MAX_ITERATIONS, Solver, conjugate_gradients, preconditioner

BLOCKS = 1024
CHECK_EVERY = 4  # iterations: the GPU must stop for a look at the residual
NAMES = ("multiply", "forward", "turn")


class CudaSolver:
    """Solves (M + diag(shift)) x = b, as the core's solver does where it does not factorise."""

    is_direct = False
    _factor = None

    def __init__(
        self, matrix: CudaMatrix, diagonal: Any, shift: Any = None, near: Solver | None = None
    ) -> None:
        self.matrix, self.diagonal, self._shift, self._near = matrix, diagonal, shift, near
        least, most = float(diagonal.min()), 2.0 * float(diagonal.max())
        if not (least > 0.0 and most < np.inf):
            raise ValueError("a system to solve is not positive definite: rescale the weights.")

    def solve(self, right: Any, tolerance: float = 1e-10) -> Any:
        """Return the solution, of shape (n,) or (n, c)."""
        if right.ndim > 1:
            return cupy.stack([self.solve(one, tolerance) for one in right.T], axis=1)
        has_factor = self._near is not None and self._near._factor is not None
        if not has_factor and not self.matrix.hubs.size:
            x = self._solved(right, tolerance)
            if x is not None:
                return x

        def multiply(v: Any) -> Any:
            if self._shift is None:
                return self.matrix.times(v)
            return self.matrix.times(v, 1.0, self._shift * v)

        precondition = preconditioner(self.diagonal, self._near)
        return conjugate_gradients(multiply, right, precondition, tolerance)

    def _solved(self, right: Any, tolerance: float) -> Any:
        """The solution; None if it takes too many iterations."""
        multiply, forward, turn = kernels(self.matrix.lanes)
        size = right.size
        inverse = 1.0 / self.diagonal
        shift = 0 if self._shift is None else cupy.ascontiguousarray(self._shift)
        r = cupy.array(right, dtype=np.float64)
        x, p, image = cupy.zeros(size), cupy.zeros(size), cupy.zeros(size)
        curved, last, following, squares = cupy.zeros((4, BLOCKS))
        grid = ((BLOCKS,), (THREADS,))
        for number in range(MAX_ITERATIONS):
            forward(*grid, (size, inverse, p, image, curved, last, x, r, following, squares))
            if number % CHECK_EVERY == 0:
                length = float(squares.sum())
                if number == 0:
                    target = tolerance**2 * length
                if not length > max(target, 1e-300):
                    return x
            turn(*grid, (size, inverse, r, last, following, p))
            multiply(*grid, (size, *self.matrix.arrays, shift, p, image, curved))
            last, following = following, last
        return None


@lru_cache
def kernels(lanes: int) -> list[Any]:
    """Return the kernels for so many threads a row."""
    sizes = {"LANES": lanes, "COLUMNS": 1, "BATCH": BATCH, "THREADS": THREADS}
    module = compiled(("rows.cu", "cg.cu"), sizes)
    return [module.get_function(name) for name in NAMES]
