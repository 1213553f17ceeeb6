"""Faster steps towards the minimiser of (2), and how far k steps are from it.

With A = I + λL, the error of k steps is r_k(A)(P^(0) − P*), where r_k is a polynomial with r_k(0) =
1. The spectrum of A is [μ, σ], and μ = 1 for every graph, as a Laplacian has the eigenvalue 0.
Theorem 1 quotes a result on strongly convex functions, ‖P^(k) − P*‖ ≤ e^{−μk/2σ}‖P^(0) − P*‖. The
energy is quadratic, so r_k itself gives (1 − μ/σ)^k ≤ e^{−μk/σ}: the exponent c = μ/σ that the
theorem states, and that its proof misses by a factor of 2. P^(0) − P* = I − A⁻¹ is small where r_k
is large: the bounds here are on the product of both.
"""

import math
from abc import abstractmethod
from bisect import bisect_left
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost._common import check_number
from ebboost.graph import Graph
from ebboost.linalg import SparseMatrix
from ebboost.smoothing import (
    GradientSteps,
    Laplacian,
    Operator,
    Scores,
    Smoother,
    laplacian_system,
    largest_eigenvalue,
)

MOST_STEPS = 10_000  # beyond which n_steps="auto" is refused
ENDLESS = 2**40  # stands for a number of steps without bound


@dataclass(frozen=True)
class Contraction:
    """A bound on ‖P^(k) − P*‖₂ as a function of k.

    ``method`` is "gradient", "jacobi", "chebyshev" or "exact"; ``sigma`` is the largest eigenvalue
    of I + λL or more, ``alpha`` the length of gradient steps, ``largest`` and ``smallest`` are
    entries of the diagonal, for Jacobi's steps.
    """

    method: str
    sigma: float
    alpha: float = 1.0
    largest: float = 1.0
    smallest: float = 1.0

    @property
    def start(self) -> float:
        """‖P^(0) − P*‖₂ = 1 − 1/σ, as Z⁰ = f."""
        return 0.0 if self.method == "exact" else 1.0 - 1.0 / self.sigma

    @property
    def rate(self) -> float:
        """Factor by which a step shrinks the error, in the limit."""
        if self.start == 0.0:
            return 0.0
        if self.method == "chebyshev":
            return (math.sqrt(self.sigma) - 1.0) / (math.sqrt(self.sigma) + 1.0)
        if self.method == "jacobi":
            # T = I − Δ⁻¹A has no negative entry, and T v = v − Δ⁻¹v for some v > 0 with A v = v. So
            # no eigenvalue of T exceeds 1 − 1/max Δ in size (Collatz and Wielandt).
            return 1.0 - 1.0 / self.largest
        return max(abs(1.0 - self.alpha), abs(1.0 - self.alpha * self.sigma))

    def error(self, n_steps: int) -> float:
        """Return the bound after k steps."""
        if n_steps == 0 or self.start == 0.0:
            return self.start
        if self.method == "chebyshev":  # 1/T_k((σ+1)/(σ−1))
            power = self.rate**n_steps
            return self.start * 2.0 * power / (1.0 + power * power)
        if self.method == "jacobi":  # T is symmetric in the norm of Δ alone
            return self.start * math.sqrt(self.largest / self.smallest) * self.rate**n_steps
        # The largest |1 − αs|^k (1 − 1/s) on [1, σ] is where its derivative is 0, or at σ.
        tilt = 1.0 - 1.0 / n_steps
        peak = 0.5 * (tilt + math.sqrt(tilt * tilt + 4.0 / (n_steps * self.alpha)))
        return max(
            abs(1.0 - self.alpha * s) ** n_steps * (1.0 - 1.0 / s)
            for s in (min(peak, self.sigma), self.sigma)
        )

    def steps(self, tol: float) -> int:
        """Return the least k whose bound is at most ``tol``, or ``ENDLESS``."""
        if self.start <= tol:
            return 0
        return bisect_left(range(ENDLESS), True, lo=1, key=lambda k: self.error(k) <= tol)


def spectrum_end(system: sparse.csr_array, lam: float, normalized: bool) -> float:
    """Return σ, the largest eigenvalue of I + λL, or up to one percent more."""
    sigma = max(largest_eigenvalue(system), 1.0)
    return min(sigma, 1.0 + 2.0 * lam) if normalized else sigma


def contraction(smoother: Smoother, graph: Graph) -> Contraction:
    """Return the bound for a :class:`Laplacian`, :class:`Jacobi` or :class:`Chebyshev`."""
    if not isinstance(smoother, (Laplacian, Iteration)):
        raise TypeError(f"smoother must be a Laplacian, Jacobi or Chebyshev, got {smoother!r}.")
    system = laplacian_system(graph, smoother.lam, smoother.normalized)
    sigma = spectrum_end(system, smoother.lam, smoother.normalized)
    if isinstance(smoother, Iteration):
        diagonal = system.diagonal()
        ends = (float(diagonal.max()), float(diagonal.min()))
        return Contraction(smoother.method, sigma, 1.0, *ends)
    operator = smoother.operator(graph)
    alpha = operator.alpha if isinstance(operator, GradientSteps) else 1.0
    return Contraction(smoother.method, sigma, alpha)


@dataclass(eq=False, repr=False)
class Iteration(Smoother):
    """Base class of :class:`Jacobi` and :class:`Chebyshev`."""

    lam: float = 2.0
    n_steps: int | str = 5
    _: KW_ONLY
    normalized: bool = True
    tol: float = 0.01
    method = ""  # not a parameter

    def operator(self, graph: Graph) -> Operator:
        """Return P on a graph."""
        check_number("lam", self.lam, low=0.0)
        check_number("tol", self.tol, low=0.0, closed="neither")
        if not isinstance(self.n_steps, str) or self.n_steps != "auto":
            check_number("n_steps", self.n_steps, low=0, integer=True)
        system = laplacian_system(graph, self.lam, self.normalized)
        n_steps = self.n_steps
        if isinstance(n_steps, str):
            bound = contraction(self, graph)
            n_steps = bound.steps(self.tol)
            if n_steps > MOST_STEPS:
                raise ValueError(
                    f"n_steps='auto' would take {'endless' if n_steps == ENDLESS else n_steps} "
                    f"steps to come within tol={self.tol}, because ‖I+λL‖ is {bound.sigma:.4g}: "
                    "use eb.Laplacian(method='exact'), a smaller lam or a larger tol."
                )
        return self._operator(system, n_steps)

    @abstractmethod
    def _operator(self, system: sparse.csr_array, n_steps: int) -> Operator:
        """P for k steps."""

    def join(
        self, scores: Scores, edges: sparse.csr_array, near: Scores, degrees: NDArray[np.float64]
    ) -> Scores:
        """Return the minimiser of the energy in the new nodes; see :meth:`Smoother.join`."""
        if self.n_steps == 0:
            return scores
        exact = Laplacian(self.lam, normalized=self.normalized, method="exact")
        return exact.join(scores, edges, near, degrees)


@dataclass(eq=False, repr=False)
class Jacobi(Iteration):
    """Laplacian smoothing by Jacobi's steps, gradient steps divided by the diagonal of I + λL.

    Parameters
    ----------
    lam : float, default=2.0
        λ, as in :class:`ebboost.Laplacian`.
    n_steps : int or "auto", default=5
        k. ``"auto"``: as many steps as are proved to bring ‖P^(k) − P*‖₂ below ``tol``.
    normalized : bool, default=True
        Use the normalised Laplacian.
    tol : float, default=0.01
        Distance from the minimiser, as a share of the scores, that ``"auto"`` allows.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> path = eb.Graph.from_edges([0, 1], [1, 2])
    >>> P = eb.paper.Jacobi(1.0, 40, normalized=False).operator(path)
    >>> P.apply(np.array([1.0, 0.0, 0.0])).round(3).tolist()
    [0.625, 0.25, 0.125]
    """

    method = "jacobi"

    def _operator(self, system: sparse.csr_array, n_steps: int) -> Operator:
        return JacobiSteps(system, n_steps)


@dataclass(eq=False, repr=False)
class Chebyshev(Iteration):
    """Laplacian smoothing by Chebyshev's semi-iteration: about the square root of the steps.

    Parameters
    ----------
    lam : float, default=2.0
        λ, as in :class:`ebboost.Laplacian`.
    n_steps : int or "auto", default=5
        k. ``"auto"``: as many steps as are proved to bring ‖P^(k) − P*‖₂ below ``tol``.
    normalized : bool, default=True
        Use the normalised Laplacian.
    tol : float, default=0.01
        Distance from the minimiser, as a share of the scores, that ``"auto"`` allows.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> path = eb.Graph.from_edges([0, 1], [1, 2])
    >>> P = eb.paper.Chebyshev(1.0, "auto", normalized=False, tol=1e-4).operator(path)
    >>> P.n_steps, P.apply(np.array([1.0, 0.0, 0.0])).round(3).tolist()
    (9, [0.625, 0.25, 0.125])
    """

    method = "chebyshev"

    def _operator(self, system: sparse.csr_array, n_steps: int) -> Operator:
        return ChebyshevSteps(system, n_steps, spectrum_end(system, self.lam, self.normalized))


class JacobiSteps(Operator):
    """k steps Z ← Z − Δ⁻¹[(I+λL)Z − f] from Z⁰ = f, with Δ the diagonal of I + λL.

    With T = I − Δ⁻¹(I+λL) ≥ 0, P = T^k + Σ_{j<k} T^j Δ⁻¹ is not symmetric. ‖P‖₂² is at most the
    product of the largest row sum and the largest column sum.
    """

    def __init__(self, system: sparse.csr_array, n_steps: int) -> None:
        self.n_steps = n_steps
        diagonal = system.diagonal()
        self._inverse = 1.0 / diagonal
        rest = sparse.csr_array(sparse.diags_array(diagonal) - system)
        self._step = SparseMatrix(sparse.csr_array(sparse.diags_array(self._inverse) @ rest))
        self._back = SparseMatrix(sparse.csr_array(self._step.matrix.T))
        ones = np.ones(system.shape[0])
        self.norm_bound = float(np.sqrt(self.apply(ones).max() * self.adjoint(ones).max()))

    def apply(self, scores: Scores) -> Scores:
        """Return the scores after k steps."""
        source = (self._inverse * scores.T).T
        z = scores
        for _ in range(self.n_steps):
            z = self._step.times(z, 1.0, source)
        return z

    def adjoint(self, gradient: Scores) -> Scores:
        """Return (Tᵀ)^k g + Δ⁻¹ Σ_{j<k} (Tᵀ)^j g."""
        power = gradient
        total = np.zeros_like(gradient)
        for _ in range(self.n_steps):
            total = total + power
            power = self._back.times(power)
        return power + (self._inverse * total.T).T


class ChebyshevSteps(Operator):
    """k steps of Chebyshev's semi-iteration for (I+λL)Z = f from Z⁰ = f, on [1, σ].

    A polynomial in L. Its residual polynomial is at most 1 in size on the spectrum, so that every
    eigenvalue is between 2/(1+λs) − 1 and 1. Entries may be negative.
    """

    def __init__(self, system: sparse.csr_array, n_steps: int, sigma: float) -> None:
        self.n_steps = n_steps
        self.nonnegative = n_steps == 0 or sigma <= 1.0
        self._system = SparseMatrix(system)
        self._centre = (sigma + 1.0) / 2.0
        self._radius = (sigma - 1.0) / 2.0

    def apply(self, scores: Scores) -> Scores:
        """Return the scores after k steps."""
        if self.nonnegative:  # no steps, or no edges
            return scores
        residual = scores - self._system @ scores
        move = residual / self._centre
        rho = self._radius / self._centre
        z = scores + move
        for _ in range(self.n_steps - 1):
            residual = residual - self._system @ move
            last = rho
            rho = 1.0 / (2.0 * self._centre / self._radius - rho)
            move = (rho * last) * move + (2.0 * rho / self._radius) * residual
            z = z + move
        return z
