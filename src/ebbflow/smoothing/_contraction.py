"""How far k steps from Z⁰ = f leave P^(k) from P* = (I+λL)⁻¹: Lemma 1 and the inner half of the proof of Theorem 1.

With A = I + λL, the error of any of the methods is r_k(A)(P^(0) − P*), r_k a polynomial with r_k(0) = 1. The spectrum of A
is [μ, σ]; μ = 1 for every graph, because a Laplacian has the eigenvalue 0. Where the proof quotes a theorem for any strongly
convex function and gets ‖P^(k) − P*‖ ≤ e^{−μk/2σ}‖P^(0) − P*‖, the energy is quadratic, and r_k itself gives (1 − μ/σ)^k ≤
e^{−μk/σ}: the exponent c = μ/σ that the theorem states, and that its proof leaves short of a factor 2.
"""

import math
from typing import NamedTuple

import numpy as np

from ebbflow.smoothing._system import LaplacianSystem

#: Beyond this many steps, another method is the better answer.
MOST_STEPS = 10_000


class Contraction(NamedTuple):
    """A bound on ‖P^(k) − P*‖₂ as a function of k."""

    #: ‖P^(0) − P*‖₂ = 1 − 1/σ, as Z⁰ = f.
    start: float
    #: What each step leaves of the error, in the long run.
    rate: float
    #: By how much a norm other than the steps' own may enlarge it (Jacobi's steps are symmetric in that of the diagonal).
    factor: float = 1.0
    chebyshev: bool = False

    def error(self, n_steps: int) -> float:
        """Return the bound after k steps."""
        if n_steps == 0 or self.start == 0.0:
            return self.start
        if self.chebyshev:  # 1/T_k(x) with x = (σ+1)/(σ−1), whose inverse hyperbolic cosine is −log(rate)
            power = self.rate**n_steps
            return self.start * 2.0 * power / (1.0 + power * power)
        return self.start * self.factor * self.rate**n_steps

    def steps(self, tol: float) -> int:
        """Return the least k whose bound is at most ``tol``."""
        if self.start <= tol:
            return 0
        if self.rate == 0.0:
            return 1
        wanted = self.start * self.factor / tol
        needed = (math.acosh(wanted) if self.chebyshev else math.log(wanted)) / -math.log(self.rate)
        n_steps = max(math.ceil(needed - 1e-9), 1)
        return n_steps if self.error(n_steps) <= tol else n_steps + 1


def contraction(system: LaplacianSystem, method: str, alpha: float) -> Contraction:
    """Return the bound for a method on one graph; ``alpha`` is the step of ``"gradient"``."""
    sigma = max(system.upper, 1.0)
    start = 1.0 - 1.0 / sigma
    if method == "exact" or start == 0.0:
        return Contraction(0.0, 0.0)
    if method == "chebyshev":
        root = math.sqrt(sigma)
        return Contraction(start, (root - 1.0) / (root + 1.0), chebyshev=True)
    if method == "jacobi":
        # T = I − Δ⁻¹A has no negative entry and T v = v − Δ⁻¹v, where A v = v > 0: v = 1, or D̃^{1/2}1 if normalised. So no
        # eigenvalue of T exceeds 1 − 1/max Δ in size (Collatz and Wielandt). T is symmetric in the norm of Δ alone, hence
        # the factor.
        largest, smallest = float(np.max(system.diagonal)), float(np.min(system.diagonal))
        return Contraction(start, 1.0 - 1.0 / largest, factor=math.sqrt(largest / smallest))
    return Contraction(start, max(abs(1.0 - alpha), abs(1.0 - alpha * sigma)))
