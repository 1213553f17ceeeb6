"""Smoothing by the quadratic energy (2), ‖Z−f‖² + λ tr ZᵀLZ: its minimiser (3) and the steps towards it (5).

Steps may be plain gradient steps, Jacobi-preconditioned, or Chebyshev-accelerated; without steps P is the exact
inverse P* = (I+λL)⁻¹.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebbflow.graph import Graph
from ebbflow.smoothing._base import Smoother, SmoothingOperator, check_steps
from ebbflow.smoothing._product import plus_product
from ebbflow.smoothing._solve import SparseSolver
from ebbflow.smoothing._system import LaplacianSystem

Method = Literal["gradient", "jacobi", "chebyshev", "exact"]


class Laplacian(Smoother):
    """Laplacian smoothing: neighbours pull each other's scores together.

    Parameters
    ----------
    lam : float, default=2.0
        λ of the energy: 0 leaves scores alone, large values level them out over the graph.
    n_steps : int, default=5
        k, the number of steps from Z⁰ = f towards the minimiser: how many edges far a score can travel.
        Ignored by ``method="exact"``.
    normalized : bool, default=True
        Use L̂ = I − D̃^{-1/2}(A+I)D̃^{-1/2}, under which hubs do not drown their neighbours, rather than L = D − A.
    method : {"gradient", "jacobi", "chebyshev", "exact"}, default="gradient"
        Gradient steps (5); the same divided by the diagonal of I + λL; Chebyshev's semi-iteration, which needs
        about the square root of the steps; or the inverse itself (a sparse factorisation up to 1 000 nodes,
        conjugate gradients beyond).
    step : {"auto", "paper", "theorem"} or float, default="auto"
        α of a gradient step: the paper's experiments took 1/(1+λ) (normalised only), Theorem 1 takes
        1/‖I+λL‖₂. ``"auto"`` is ``"paper"`` where that is defined and ``"theorem"`` elsewhere.

    Examples
    --------
    >>> import ebbflow as eb, numpy as np
    >>> path = eb.Graph.from_edges([0, 1], [1, 2])
    >>> P = eb.Laplacian(lam=1.0, method="exact", normalized=False).on(path)
    >>> P.apply(np.array([1.0, 0.0, 0.0])).round(3).tolist()
    [0.625, 0.25, 0.125]
    >>> P.norm_bound
    1.0
    """

    def __init__(
        self,
        lam: float = 2.0,
        n_steps: int = 5,
        *,
        normalized: bool = True,
        method: Method = "gradient",
        step: str | float = "auto",
    ) -> None:
        self.lam = lam
        self.n_steps = n_steps
        self.normalized = normalized
        self.method = method
        self.step = step

    def on(self, graph: Graph) -> SmoothingOperator:
        """Return P on ``graph``."""
        check_steps(self.lam, self.n_steps)
        system = LaplacianSystem(graph, float(self.lam), bool(self.normalized))
        if self.method == "gradient":
            return GradientSteps(system, self.n_steps, self._step_size(system))
        if self.method == "jacobi":
            return JacobiSteps(system, self.n_steps)
        if self.method == "chebyshev":
            return ChebyshevSteps(system, self.n_steps)
        if self.method == "exact":
            return ExactInverse(system)
        raise ValueError(f"method must be 'gradient', 'jacobi', 'chebyshev' or 'exact', got {self.method!r}.")

    def _step_size(self, system: LaplacianSystem) -> float:
        if self.step == "paper" and not self.normalized:
            raise ValueError("step='paper' is 1/(1+lam), which only the normalised Laplacian allows: use 'theorem'.")
        if self.step == "paper" or (self.step == "auto" and self.normalized):
            return 1.0 / (1.0 + system.lam)
        if self.step in ("auto", "theorem"):
            return 1.0 / system.upper
        if isinstance(self.step, (int, float)) and 0 < self.step <= 1.0 / system.upper:
            return float(self.step)
        raise ValueError(
            f"step must be 'auto', 'paper', 'theorem' or a number in (0, {1 / system.upper:.4g}] (beyond that the "
            f"norm of P is not bounded by 1), got {self.step!r}."
        )


class _Matrices:
    """Sparse matrices in the float type of what they are applied to, converted once."""

    def __init__(self, matrix: sparse.csr_array) -> None:
        self._by_type = {np.dtype(np.float64): matrix}

    def like(self, array: NDArray[Any]) -> sparse.csr_array:
        dtype = array.dtype if array.dtype == np.float32 else np.dtype(np.float64)
        if dtype not in self._by_type:
            self._by_type[dtype] = self._by_type[np.dtype(np.float64)].astype(dtype)
        return self._by_type[dtype]


def _columnwise(vector: NDArray[np.float64], like: NDArray[Any]) -> NDArray[Any]:
    """Shape one value per node so that it multiplies each column of ``like``."""
    vector = vector.astype(like.dtype) if like.dtype == np.float32 else vector
    return vector if like.ndim == 1 else vector[:, None]


class GradientSteps(SmoothingOperator):
    """k steps Z ← Z − α[(I+λL)Z − f] from Z⁰ = f: a polynomial in L, hence its own adjoint.

    Its eigenvalues are q^k + (1−q^k)/(1+λs) with q = 1 − α(1+λs). For α ≤ 1/‖I+λL‖ all q lie in [0,1), so the
    norm is at most 1; for the normalised Laplacian and α = 1/(1+λ), P has no negative entry and the Perron
    vector D̃^{1/2}1 has eigenvalue 1, so the norm is 1 there too.
    """

    norm_bound = 1.0

    def __init__(self, system: LaplacianSystem, n_steps: int, alpha: float) -> None:
        super().__init__(system.n_nodes)
        self.n_steps, self.alpha = n_steps, alpha
        step = sparse.csr_array(alpha * system.lam * system.coupling)
        kept = 1.0 - alpha * system.delta
        if np.abs(kept).max() > 1e-15:
            step = sparse.csr_array(step + sparse.diags_array(kept))
        step.sort_indices()
        self._step = _Matrices(step)
        self.nonnegative = bool(step.nnz == 0 or step.data.min() >= 0)

    def apply(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Take the k steps."""
        step, source, z = self._step.like(scores), self.alpha * scores, scores
        for _ in range(self.n_steps):
            z = plus_product(source, step, z)
        return z

    def adjoint(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Take the same steps: P is symmetric."""
        return self.apply(gradient)


class JacobiSteps(SmoothingOperator):
    """k steps Z ← Z − Δ⁻¹[(I+λL)Z − f] from Z⁰ = f, with Δ the diagonal of I + λL.

    With T = I − Δ⁻¹(I+λL) ≥ 0, P = T^k + Σ_{j<k} T^j Δ⁻¹ is not symmetric; ‖P‖₂² ≤ ‖P‖₁‖P‖_∞, which for a
    matrix without negative entries are the largest column and row sum.
    """

    nonnegative = True

    def __init__(self, system: LaplacianSystem, n_steps: int) -> None:
        super().__init__(system.n_nodes)
        self.n_steps = n_steps
        self._inverse_diagonal = 1.0 / system.diagonal
        off = sparse.csr_array(system.coupling - sparse.diags_array(system.coupling.diagonal()))
        off.eliminate_zeros()
        forward = sparse.csr_array(off.multiply(system.lam * self._inverse_diagonal[:, None]))
        self._forward, self._backward = _Matrices(forward), _Matrices(forward.T.tocsr())
        ones = np.ones(system.n_nodes)
        self.norm_bound = float(np.sqrt(self.apply(ones).max() * self.adjoint(ones).max()))

    def apply(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Take the k steps."""
        step, source = self._forward.like(scores), _columnwise(self._inverse_diagonal, scores) * scores
        z = scores
        for _ in range(self.n_steps):
            z = plus_product(source, step, z)
        return z

    def adjoint(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Return (Tᵀ)^k g + Δ⁻¹ Σ_{j<k} (Tᵀ)^j g."""
        step, power, total = self._backward.like(gradient), gradient, np.zeros_like(gradient)
        for _ in range(self.n_steps):
            total += power
            power = step @ power
        return power + _columnwise(self._inverse_diagonal, gradient) * total


class ChebyshevSteps(SmoothingOperator):
    """k steps of Chebyshev's semi-iteration for (I+λL)Z = f from Z⁰ = f, on the spectrum [1, ‖I+λL‖].

    A polynomial in L, hence its own adjoint. Its residual polynomial is at most 1 in size on the spectrum, so
    every eigenvalue lies between 2/(1+λs) − 1 and 1; entries may be negative.
    """

    norm_bound = 1.0

    def __init__(self, system: LaplacianSystem, n_steps: int) -> None:
        super().__init__(system.n_nodes)
        self.n_steps = n_steps
        self.nonnegative = n_steps == 0 or system.upper <= 1.0
        self._matrix = _Matrices(system.matrix)
        self._centre, self._radius = (system.upper + 1.0) / 2.0, (system.upper - 1.0) / 2.0

    def apply(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Take the k steps."""
        if self.n_steps == 0 or self._radius <= 0:  # no edges: I + λL = I
            return scores
        matrix = self._matrix.like(scores)
        z, residual = scores, scores - matrix @ scores
        move = residual / self._centre
        rho = self._radius / self._centre
        for step in range(self.n_steps):
            z = z + move
            if step == self.n_steps - 1:
                break
            residual = residual - matrix @ move
            last, rho = rho, 1.0 / (2.0 * self._centre / self._radius - rho)
            move = (rho * last) * move + (2.0 * rho / self._radius) * residual
        return z

    def adjoint(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Take the same steps: P is symmetric."""
        return self.apply(gradient)


class ExactInverse(SmoothingOperator):
    """P* = (I+λL)⁻¹ of equation (3): the inverse of an M-matrix, so symmetric, non-negative and of norm 1."""

    norm_bound = 1.0
    nonnegative = True

    def __init__(self, system: LaplacianSystem) -> None:
        super().__init__(system.n_nodes)
        remedy = f"lam={system.lam} is large for this graph: use a smaller one, normalized=True, or method='chebyshev'."
        self._solver = SparseSolver(system.matrix, remedy)

    def apply(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Solve (I+λL) Z = scores."""
        solution = self._solver.solve(scores.astype(np.float64))
        return solution.astype(scores.dtype) if scores.dtype == np.float32 else solution

    def adjoint(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Solve the same system: P is symmetric."""
        return self.apply(gradient)
