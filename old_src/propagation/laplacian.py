"""Smoothing by the quadratic energy (2), ‖Z−f‖² + λ tr ZᵀLZ: its minimiser (3) and steps (5), (6).

Steps are plain gradient steps, Jacobi-preconditioned, or Chebyshev-accelerated; without steps P is
the exact inverse P* = (I+λL)⁻¹.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.data.parameters import check_number
from ebboost.data.types import AnyArray
from ebboost.graph import Graph
from ebboost.propagation._bounds import ENDLESS, MOST_STEPS, Contraction
from ebboost.propagation._compiled import sweep_on
from ebboost.propagation._matrix import LaplacianSystem, columnwise, like
from ebboost.propagation._solver import SparseSolver
from ebboost.propagation.base import PropagationOperator, Smoother, SymmetricOperator

Method = Literal["gradient", "jacobi", "chebyshev", "exact"]


@dataclass(eq=False, repr=False)
class Laplacian(Smoother):
    """Laplacian smoothing: the scores of neighbours are drawn towards each other.

    Parameters
    ----------
    lam : float, default=2.0
        λ of the energy: 0 leaves scores unchanged, large values level them out over the graph.
    n_steps : int or "auto", default=5
        k, the number of steps from Z⁰ = f towards the minimiser: over how many edges a score
        reaches other nodes. ``"auto"``: as many as bring ‖P^(k) − P*‖₂ below ``tol`` on the graph
        at hand, by the bound that is proved for the method. Ignored by ``method="exact"``.
    normalized : bool, default=True
        Use L̂ = I − D̃^{-1/2}(A+I)D̃^{-1/2}, under which hubs do not dominate their neighbours,
        rather than L = D − A.
    method : {"gradient", "jacobi", "chebyshev", "exact"}, default="gradient"
        Gradient steps (5); the same divided by the diagonal of I + λL (6); Chebyshev's
        semi-iteration, which needs about the square root of the steps; or the inverse itself (a
        sparse factorisation up to 1 000 nodes, conjugate gradients beyond).
    step : {"auto", "paper", "theorem"} or float, default="auto"
        α of a gradient step: the paper's experiments took 1/(1+λ) (normalised only), Theorem 1
        takes 1/‖I+λL‖₂. ``"auto"`` is ``"paper"`` where that is defined and ``"theorem"``
        elsewhere.
    tol : float, default=0.01
        The distance from the minimiser, relative to the scores, that ``n_steps="auto"`` allows.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> path = eb.Graph.from_edges([0, 1], [1, 2])
    >>> P = eb.Laplacian(lam=1.0, method="exact", normalized=False).operator(path)
    >>> P.apply(np.array([1.0, 0.0, 0.0])).round(3).tolist()
    [0.625, 0.25, 0.125]
    >>> P.norm_bound
    1.0
    """

    lam: float = 2.0
    n_steps: int | str = 5
    _: KW_ONLY
    normalized: bool = True
    method: Method = "gradient"
    step: str | float = "auto"
    tol: float = 0.01

    def operator(self, graph: Graph) -> PropagationOperator:
        """Return P on ``graph``."""
        system = self.system(graph)
        n_steps = 0 if self.method == "exact" else self._n_steps(system)
        alpha = self._step_size(system)
        operator = self._operator(system, n_steps, alpha)
        if graph.is_signed and self.method != "chebyshev":
            # |P| ≤ P of |A|: a sum of products of |A|'s entries
            operator.unsigned = self._operator(self.system(graph.unsigned), n_steps, alpha)
        return operator

    def hops(self, graph: Graph) -> int | None:
        """Return k, None for an inverse and for ``n_steps="auto"``."""
        return None if self.method == "exact" or self.n_steps == "auto" else int(self.n_steps)

    def system(self, graph: Graph) -> LaplacianSystem:
        """Return I + λL on a graph.

        Parameters
        ----------
        graph : Graph

        Returns
        -------
        LaplacianSystem

        Raises
        ------
        ValueError
            If a parameter is out of range.
        """
        check_number("lam", self.lam, low=0.0)
        if self.n_steps != "auto":
            check_number("n_steps", self.n_steps, low=0, integer=True)
        check_number("tol", self.tol, low=0.0, closed="neither")
        if self.method not in ("gradient", "jacobi", "chebyshev", "exact"):
            raise ValueError(
                f"method must be 'gradient', 'jacobi', 'chebyshev' or 'exact', got {self.method!r}."
            )
        return LaplacianSystem(graph, float(self.lam), bool(self.normalized))

    def contraction(self, system: LaplacianSystem) -> Contraction:
        """Return the proved bound on ‖P^(k) − P*‖₂ for this method.

        Parameters
        ----------
        system : LaplacianSystem

        Returns
        -------
        Contraction
        """
        sigma = max(system.upper, 1.0)
        ends = (float(system.diagonal.max()), float(system.diagonal.min()))
        return Contraction(self.method, sigma, self._step_size(system), *ends)

    def _operator(self, system: LaplacianSystem, n_steps: int, alpha: float) -> PropagationOperator:
        if self.method == "exact":
            return ExactInverse(system)
        if self.method == "jacobi":
            return JacobiSteps(system, n_steps)
        if self.method == "chebyshev":
            return ChebyshevSteps(system, n_steps)
        return GradientSteps(system, n_steps, alpha)

    def _n_steps(self, system: LaplacianSystem) -> int:
        if self.n_steps != "auto":
            return int(self.n_steps)
        n_steps = self.contraction(system).steps(float(self.tol))
        if n_steps > MOST_STEPS:
            raise ValueError(
                f"n_steps='auto' would take {'endless' if n_steps == ENDLESS else n_steps} steps "
                f"to come within tol={self.tol}, because ‖I+λL‖ is {system.upper:.4g}: use "
                "method='chebyshev' or 'exact', normalized=True, a smaller lam or a larger tol."
            )
        return n_steps

    def _step_size(self, system: LaplacianSystem) -> float:
        """α of gradient steps; 1 for other methods, which have none."""
        if self.method != "gradient":
            return 1.0
        if self.step == "paper" and not self.normalized:
            raise ValueError("step='paper' needs normalized=True: use 'theorem'.")
        if self.step == "paper" or (self.step == "auto" and self.normalized):
            return 1.0 / (1.0 + system.lam)
        if self.step in ("auto", "theorem"):
            return 1.0 / system.upper
        if isinstance(self.step, (int, float)) and 0 < self.step <= 1.0 / system.upper:
            return float(self.step)
        raise ValueError(
            f"step must be 'auto', 'paper', 'theorem' or a number in (0, {1 / system.upper:.4g}] "
            f"(beyond that the norm of P is not bounded by 1), got {self.step!r}."
        )


class GradientSteps(SymmetricOperator):
    """k steps Z ← Z − α[(I+λL)Z − f] from Z⁰ = f: a polynomial in L.

    Its eigenvalues are q^k + (1−q^k)/(1+λs) with q = 1 − α(1+λs). For α ≤ 1/‖I+λL‖ all q lie in
    [0,1), so the norm is at most 1; for the normalised Laplacian and α = 1/(1+λ), P has no negative
    entry and the Perron vector D̃^{1/2}1 has eigenvalue 1, so the norm is 1 there too.
    """

    norm_bound = 1.0
    takes_sparse = True

    def __init__(self, system: LaplacianSystem, n_steps: int, alpha: float) -> None:
        super().__init__(system.n_nodes)
        self.n_steps = n_steps
        self.alpha = alpha
        self._matrix = system.matrix
        keep = 1.0 - alpha * system.diagonal
        keep[np.abs(keep) < 1e-15] = 0.0
        self.nonnegative = bool((keep >= 0).all()) and not system.signed
        # In v = R z the weights of the edges are those of the adjacency:
        # v ← (1−αδ)∘v + αc r²∘(A v) + α r∘f.
        root = self._matrix.root
        scale = alpha * self._matrix.strength * root**2
        self._steps = self._matrix.sweep.steps(root, scale, keep, alpha, n_steps)

    def apply(self, scores: AnyArray) -> AnyArray:
        """Return the scores after k steps, sparse if they are."""
        if not sparse.issparse(scores):
            return self._steps(scores)
        z = scores
        for _ in range(self.n_steps):
            z = z - self.alpha * (self._matrix.times(z) - scores)
        return z


class JacobiSteps(PropagationOperator):
    """k steps Z ← Z − Δ⁻¹[(I+λL)Z − f] from Z⁰ = f, with Δ the diagonal of I + λL.

    With T = I − Δ⁻¹(I+λL) ≥ 0, P = T^k + Σ_{j<k} T^j Δ⁻¹ is not symmetric; ‖P‖₂² ≤ ‖P‖₁‖P‖_∞, which
    for a matrix without negative entries are the largest column and row sum.
    """

    def __init__(self, system: LaplacianSystem, n_steps: int) -> None:
        super().__init__(system.n_nodes)
        self.n_steps = n_steps
        self.nonnegative = not system.signed
        matrix = system.matrix
        self._inverse = 1.0 / system.diagonal
        # T = Δ⁻¹ c R A R, and the sweep is A's: z is multiplied by R before, by the rest after.
        self._root = matrix.root
        self._after = system.lam * matrix.root * self._inverse
        # With T̄ the entries of T without their signs, ‖P(T)‖ ≤ ‖P(T̄)‖.
        self._sweep = sweep_on(abs(matrix.adjacency)) if system.signed else matrix.sweep
        ones = np.ones_like(matrix.root)
        self.norm_bound = float(np.sqrt(self.apply(ones).max() * self.adjoint(ones).max()))
        self._sweep = matrix.sweep

    def apply(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the scores after k steps."""
        root = columnwise(self._root, scores)
        source = columnwise(self._inverse, scores) * scores
        z = scores
        for _ in range(self.n_steps):
            z = self._sweep(root * z, like(self._after, scores), source=source)
        return z

    def adjoint(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Return (Tᵀ)^k g + Δ⁻¹ Σ_{j<k} (Tᵀ)^j g."""
        after = columnwise(self._after, gradient)
        power = gradient
        total = np.zeros_like(gradient)
        for _ in range(self.n_steps):
            total += power
            power = self._sweep(after * power, like(self._root, gradient))
        return power + columnwise(self._inverse, gradient) * total


class ChebyshevSteps(SymmetricOperator):
    """k steps of Chebyshev's semi-iteration for (I+λL)Z = f from Z⁰ = f, on [1, ‖I+λL‖].

    A polynomial in L. Its residual polynomial is at most 1 in size on the spectrum, so every
    eigenvalue lies between 2/(1+λs) − 1 and 1; entries may be negative.
    """

    norm_bound = 1.0
    takes_sparse = True

    def __init__(self, system: LaplacianSystem, n_steps: int) -> None:
        super().__init__(system.n_nodes)
        self.n_steps = n_steps
        self.nonnegative = n_steps == 0 or system.upper <= 1.0
        self._matrix = system.matrix
        self._centre = (system.upper + 1.0) / 2.0
        self._radius = (system.upper - 1.0) / 2.0

    def apply(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the scores after k steps, sparse if they are."""
        if self.n_steps == 0 or self._radius <= 0:  # no edges: I + λL = I
            return scores
        residual = scores - self._matrix.times(scores)
        move = residual / self._centre
        rho = self._radius / self._centre
        z = scores + move
        for _ in range(self.n_steps - 1):
            residual = residual - self._matrix.times(move)
            last = rho
            rho = 1.0 / (2.0 * self._centre / self._radius - rho)
            move = (rho * last) * move + (2.0 * rho / self._radius) * residual
            z = z + move
        return z


class ExactInverse(SymmetricOperator):
    """P* = (I+λL)⁻¹ of equation (3), of norm 1; without signs an M-matrix's inverse, so P* ≥ 0."""

    norm_bound = 1.0

    def __init__(self, system: LaplacianSystem) -> None:
        super().__init__(system.n_nodes)
        self.nonnegative = not system.signed
        remedy = "use a smaller one, normalized=True, or method='chebyshev'."
        remedy = f"lam={system.lam} is large for this graph: {remedy}"
        self._solver = SparseSolver(system.matrix, remedy, floor=1.0)

    def apply(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the solution of (I+λL) Z = scores."""
        solution = self._solver.solve(scores.astype(np.float64))
        return solution.astype(scores.dtype) if scores.dtype == np.float32 else solution
