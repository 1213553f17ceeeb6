"""Distance of k steps from P* = (I+λL)⁻¹: Lemma 1 and the inner half of Theorem 1's proof.

With A = I + λL, the error is r_k(A)(P^(0) − P*), r_k a polynomial with r_k(0) = 1. The spectrum of
A is [μ, σ]; μ = 1 for every graph, because a Laplacian has the eigenvalue 0. Where the proof quotes
a theorem for any strongly convex function and gets ‖P^(k) − P*‖ ≤ e^{−μk/2σ}‖P^(0) − P*‖, the
energy is quadratic, and r_k itself gives (1 − μ/σ)^k ≤ e^{−μk/σ}: the exponent c = μ/σ that the
theorem states, and that its proof leaves short of a factor 2. Better still: P^(0) − P* = I − A⁻¹ is
small where r_k is large, so the product of both is what is bounded here.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass

#: Beyond this many steps, another method is faster.
MOST_STEPS = 10_000
#: Stands for a number of steps without bound.
ENDLESS = 2**40


@dataclass(frozen=True)
class Contraction:
    """A bound on ‖P^(k) − P*‖₂ as a function of k, for a method of :class:`Laplacian`."""

    method: str
    sigma: float  # the largest eigenvalue of I + λL, or more
    alpha: float  # the step of "gradient"
    largest: float  # and smallest entry of the diagonal of I + λL, for "jacobi"
    smallest: float

    @property
    def start(self) -> float:
        """‖P^(0) − P*‖₂ = 1 − 1/σ, as Z⁰ = f."""
        return 0.0 if self.method == "exact" else 1.0 - 1.0 / self.sigma

    @property
    def rate(self) -> float:
        """Factor by which each step shrinks the error, in the limit."""
        if self.start == 0.0:
            return 0.0
        if self.method == "chebyshev":
            return (math.sqrt(self.sigma) - 1.0) / (math.sqrt(self.sigma) + 1.0)
        if self.method == "jacobi":
            # T = I − Δ⁻¹A has no negative entry and T v = v − Δ⁻¹v, where A v = v > 0: v = 1, or
            # D̃^{1/2}1 if normalised. So no eigenvalue of T exceeds 1 − 1/max Δ in size (Collatz
            # and Wielandt).
            return 1.0 - 1.0 / self.largest
        return max(abs(1.0 - self.alpha), abs(1.0 - self.alpha * self.sigma))

    def error(self, n_steps: int) -> float:
        """Return the bound after k steps."""
        if n_steps == 0 or self.start == 0.0:
            return self.start
        if self.method == "chebyshev":
            # 1/T_k(x) with x = (σ+1)/(σ−1), whose inverse hyperbolic cosine is −log(rate).
            power = self.rate**n_steps
            return self.start * 2.0 * power / (1.0 + power * power)
        if self.method == "jacobi":
            # T is symmetric in the norm of Δ alone, and does not commute with P*.
            return self.start * math.sqrt(self.largest / self.smallest) * self.rate**n_steps
        # The largest |1 − αs|^k (1 − 1/s) on [1, σ]: where its derivative is 0, or at σ.
        tilt = 1.0 - 1.0 / n_steps
        peak = 0.5 * (tilt + math.sqrt(tilt * tilt + 4.0 / (n_steps * self.alpha)))
        return max(
            abs(1.0 - self.alpha * s) ** n_steps * (1.0 - 1.0 / s)
            for s in (min(peak, self.sigma), self.sigma)
        )

    def steps(self, tol: float) -> int:
        """Return the least k with a bound of at most ``tol``, ``ENDLESS`` if that is too few."""
        if self.start <= tol:
            return 0
        return bisect_left(range(ENDLESS), True, lo=1, key=lambda k: self.error(k) <= tol)
