"""Kernelised smoothing, equation (13): the energy ‖Z−f‖² + λ tr Zᵀ r(L) Z and its minimiser P f.

Neither r(L) nor the inverse P = (I + λ r(L))⁻¹ is formed. P is a function of L alone, and so are k
gradient steps towards it: both are Chebyshev polynomials in L, to any tolerance, and cost one
product with the graph for each degree.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray
from scipy.fft import dct

from ebboost.data.once import lazy_property
from ebboost.data.parameters import check_number
from ebboost.data.types import Array
from ebboost.graph import Graph
from ebboost.propagation._matrix import GraphMatrix, LaplacianSystem
from ebboost.propagation.base import PropagationOperator, Smoother, SymmetricOperator

Energy = Callable[[Array], Array]

#: Largest degree of a polynomial; each costs a product with the graph.
MOST_DEGREE = 500
#: Points at which r is evaluated, beyond twice MOST_DEGREE so that the remainder is seen.
SAMPLES = 1024


@dataclass(eq=False, repr=False)
class Kernel(Smoother):
    """Smoothing that weights the frequencies of the graph by a function r.

    Eigenvalues s of the Laplacian are frequencies: near 0 for what varies slowly over the graph,
    large for what differs from neighbour to neighbour. A score that varies with frequency s costs
    λ r(s), and is multiplied by 1/(1 + λ r(s)).

    Parameters
    ----------
    r : {"laplacian", "regularized", "diffusion", "random-walk", "inverse-cosine"} or callable, \
            default="diffusion"
        s; 1 + σ²s; e^{σ²s/2}; (a − s)^{−p}; 1/cos(πs/4); or a function that takes an array of
        eigenvalues and returns a number of at least 0 for each, such as ``lambda s: s**2``.
    lam : float, default=2.0
        λ of the energy. Where r(0) = 1, a large λ leaves the kernel 1/r itself: P becomes
        proportional to the heat kernel e^{−σ²L/2} or to the walk (aI − L)^p, a factor that
        boosting makes up for.
    sigma : float, default=1.5
        σ of the regularised Laplacian and of diffusion: how far the heat spreads. On the normalised
        Laplacian of the graphs in ``benchmarks/results/kernels.md``, 1.5 to 2 did best.
    a : float, default=2.0
        a of the random walk, at least the largest eigenvalue: 2 suffices for every normalised
        Laplacian.
    p : int, default=1
        The steps of the random walk.
    normalized : bool, default=True
        Use L̂ = I − D̃^{-1/2}(A+I)D̃^{-1/2}, whose eigenvalues lie in [0, 2), rather than
        L = D − A.
    method : {"chebyshev", "gradient"}, default="chebyshev"
        The minimiser itself, or ``n_steps`` gradient steps Z ← Z − α[(I + λ r(L))Z − f] from
        Z⁰ = f, with α = 1/‖I + λ r(L)‖₂.
    n_steps : int, default=5
        k, the number of gradient steps. Ignored by ``method="chebyshev"``.
    degree : int, optional
        Degree of the polynomial: over how many edges a score reaches other nodes, and what an
        application costs. By default the least that meets ``tolerance``.
    tolerance : float, default=1e-4
        Distance of the polynomial from P at any frequency, relative to the largest value of P.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> path = eb.Graph.from_edges([0, 1], [1, 2])
    >>> P = eb.Kernel("diffusion", lam=2.0, sigma=1.0).operator(path)
    >>> P.apply(np.array([1.0, 0.0, 0.0])).round(3).tolist()
    [0.282, 0.04, 0.002]
    >>> squared = eb.Kernel(lambda s: s**2, lam=1.0, normalized=False, tolerance=1e-9)
    >>> squared.operator(path).apply(np.ones(3)).round(6).tolist()
    [1.0, 1.0, 1.0]
    """

    r: str | Energy = "diffusion"
    lam: float = 2.0
    _: KW_ONLY
    sigma: float = 1.5
    a: float = 2.0
    p: int = 1
    normalized: bool = True
    method: Literal["chebyshev", "gradient"] = "chebyshev"
    n_steps: int = 5
    degree: int | None = None
    tolerance: float = 1e-4

    def operator(self, graph: Graph) -> "KernelPolynomial":
        """Return P on ``graph``."""
        self._check()
        system = LaplacianSystem(graph, 1.0, bool(self.normalized))
        upper = max(system.upper - 1.0, 1e-3)  # an interval of some width without edges too
        points = np.cos(np.pi * (np.arange(SAMPLES) + 0.5) / SAMPLES)
        eigenvalues = upper * np.append((points + 1.0) / 2.0, [0.0, 1.0])
        with np.errstate(over="ignore", divide="ignore"):  # infinite energy: multiplied by 0
            energy = self._energy(eigenvalues, upper)
            energy = self.lam * energy if self.lam else np.zeros_like(energy)
        response = 1.0 / (1.0 + energy)
        if self.method == "gradient":
            response = self._after_steps(energy, response)
        # The discrete cosine transform of a function at these points: its Chebyshev coefficients.
        coefficients = dct(response[:SAMPLES], type=2) / SAMPLES
        coefficients[0] /= 2.0
        degree = self._degree(coefficients, response, upper)
        return KernelPolynomial(system, upper, coefficients[: degree + 1])

    def hops(self, graph: Graph) -> int:
        """Return the degree of the polynomial, the same on ``graph`` and on any subgraph of it."""
        return self.operator(graph.neighborhood(np.zeros(1, dtype=np.int64), 0).graph).degree

    def _after_steps(self, energy: Array, response: Array) -> Array:
        """Eigenvalues q^k + (1 − q^k)/(1 + λr) of k gradient steps, with q = 1 − α(1 + λr)."""
        steepest = 1.0 + float(energy.max())
        if not np.isfinite(steepest):
            problem = f"r={self.r!r} is infinite at the end of this graph's spectrum"
            raise ValueError(f"{problem}: use method='chebyshev', or a larger a.")
        power = (1.0 - (1.0 + energy) / steepest) ** self.n_steps
        return power + (1.0 - power) * response

    def _degree(self, coefficients: Array, response: Array, upper: float) -> int:
        if self.degree is not None:
            return int(self.degree)
        # The error is at most the sum of the dropped coefficients.
        dropped = np.append(np.cumsum(np.abs(coefficients[::-1]))[-2::-1], 0.0)
        enough = np.flatnonzero(dropped[: MOST_DEGREE + 1] <= self.tolerance * response.max())
        if enough.size:
            return int(enough[0])
        raise ValueError(
            f"tolerance={self.tolerance} with r={self.r!r} and lam={self.lam} on eigenvalues up to "
            f"{upper:.4g} needs a polynomial of more than {MOST_DEGREE} degrees. Allow a larger "
            "tolerance, choose the degree yourself (degree=50), or take a smoother r."
        )

    def _energy(self, s: Array, upper: float) -> Array:
        """r(s), checked to be an energy on [0, upper]."""
        if callable(self.r):
            return _checked_energy(self.r, s)
        if self.r == "random-walk" and self.a < upper:
            remedy = "a larger a" if self.normalized else "a larger a, or normalized=True"
            bound = f"at least {upper:.6g}, a bound on the eigenvalues of the Laplacian"
            raise ValueError(f"a={self.a} must be {bound}. Use {remedy}.")
        if self.r == "inverse-cosine" and upper > 2.0:
            problem = f"needs eigenvalues up to 2, those of the Laplacian reach {upper:.4g}"
            raise ValueError(f"r='inverse-cosine' {problem}: use normalized=True.")
        return ENERGIES[self.r](self, s)

    def _check(self) -> None:
        check_number("lam", self.lam, low=0.0)
        check_number("sigma", self.sigma, low=0.0, closed="neither")
        check_number("a", self.a, low=0.0, closed="neither")
        check_number("p", self.p, low=1, integer=True)
        check_number("n_steps", self.n_steps, low=0, integer=True)
        check_number("tolerance", self.tolerance, low=1e-12, high=1.0, closed="left")
        if self.degree is not None:
            check_number("degree", self.degree, low=0, high=MOST_DEGREE, integer=True)
        if self.method not in ("chebyshev", "gradient"):
            raise ValueError(f"method must be 'chebyshev' or 'gradient', got {self.method!r}.")
        if not callable(self.r) and self.r not in ENERGIES:
            names = ", ".join(map(repr, ENERGIES))
            raise ValueError(f"r must be {names} or a function, got {self.r!r}.")


#: r(s) by name, with the parameters of a :class:`Kernel`.
ENERGIES: dict[str, Callable[["Kernel", Array], Array]] = {
    "laplacian": lambda kernel, s: s,
    "regularized": lambda kernel, s: 1.0 + kernel.sigma**2 * s,
    "diffusion": lambda kernel, s: np.exp(kernel.sigma**2 * s / 2.0),
    "random-walk": lambda kernel, s: (kernel.a - s) ** -float(kernel.p),
    "inverse-cosine": lambda kernel, s: 1.0 / np.cos(np.pi * s / 4.0),
}


def _checked_energy(r: Energy, s: Array) -> Array:
    """A user's r at every s; raises ValueError where it is no energy."""
    try:
        with np.errstate(all="ignore"):
            energy = np.broadcast_to(np.asarray(r(s.copy()), dtype=np.float64), s.shape)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "r must take an array of eigenvalues and return a number for each, as functions of "
            f"numpy do (np.exp, not math.exp); it failed with: {error}"
        ) from error
    wrong = np.flatnonzero(~np.isfinite(energy) | (energy < 0))
    if wrong.size:
        first = wrong[np.argmin(s[wrong])]
        raise ValueError(
            f"r must be finite and at least 0 on this graph's eigenvalues, 0 to {s.max():.4g}; "
            f"r({s[first]:.4g}) is {energy[first]:.4g}. Bound it, as in lambda s: np.clip(r(s), 0, "
            "1e6), or use normalized=True, whose eigenvalues are below 2."
        )
    return energy


class KernelPolynomial(SymmetricOperator):
    """P = Σ_j c_j T_j(2L/u − I), a Chebyshev polynomial in L on its spectrum [0, u].

    Written in powers of C = I − L/δ, which has no negative entry (δ = 1 and C = Ŝ for the
    normalised Laplacian, the largest degree for the other), P = Σ_j w_j C^j. If no w_j is negative,
    no entry of P is. Otherwise |P| ≤ Σ_j |w_j| C^j entry by entry: a bound to take the curvature
    from.

    Where 1/(1 + λr) is completely monotone, as it is for the Laplacian and for every Bernstein
    function r, the exact P has no negative entry. For diffusion, the random walk and the inverse
    cosine it is not, and P has small ones: on a path and with λ = 2, down to −0.0003, −0.007 and
    −0.01. The larger λ, the closer P is to the kernel 1/r itself, which has none for the first two.
    """

    takes_sparse = True
    #: Beyond this degree rounding dominates the change to powers.
    max_degree_power_basis = 20
    #: Largest norm of a bound on |P|, relative to that of P, at which it is of use.
    max_norm_ratio = 2.0

    def __init__(self, system: LaplacianSystem, upper: float, coefficients: Array) -> None:
        super().__init__(system.n_nodes)
        self.degree = len(coefficients) - 1
        self._coefficients: list[float] = coefficients.tolist()
        self._system = system
        stretch = 4.0 / upper
        self._twice = system.matrix.replace(stretch * (system.diagonal - 1.0) - 2.0, stretch)
        # A polynomial of degree k is at most 1/cos(kπ/2N) times its largest value at N > k
        # Chebyshev points.
        n_points = 64 * (self.degree + 1)
        points = np.cos(np.pi * (np.arange(n_points) + 0.5) / n_points)
        largest = np.abs(Chebyshev(coefficients)(points)).max()
        self.norm_bound = float(largest / np.cos(np.pi * self.degree / (2 * n_points)))
        self._largest_degree = 1.0 if system.normalized else float(system.degrees.max()) or 1.0
        self._powers: Array | None = None
        if self.degree <= self.max_degree_power_basis:
            to_eigenvalue = Polynomial([self._largest_degree, -self._largest_degree])
            series = Chebyshev(coefficients, [0.0, upper])(to_eigenvalue)
            powers = np.asarray(series.coef, dtype=np.float64)
            if np.abs(powers).sum() <= self.max_norm_ratio * self.norm_bound:
                self._powers = powers
        positive = self._powers is not None and bool(self._powers.min() >= 0)
        self.nonnegative = positive and not system.signed

    @lazy_property
    def magnitude(self) -> PropagationOperator | None:
        """Σ_j |w_j| C^j, None if that bound on |P| is of no use."""
        if self.nonnegative or self._powers is None:
            return super().magnitude
        largest = self._largest_degree
        diagonal = 1.0 - (self._system.diagonal - 1.0) / largest
        matrix = self._system.matrix
        step = GraphMatrix(abs(matrix.adjacency), diagonal, -1.0 / largest, matrix.root)
        return PowerSum(step, np.abs(self._powers))

    def apply(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of the series, by Clenshaw's b_j = c_j f + 2M b_{j+1} − b_{j+2}."""
        first, *rest = self._coefficients
        if not rest:
            return first * scores
        newest = rest.pop() * scores
        older = 0.0 * scores
        for coefficient in reversed(rest):
            newest, older = self._twice.times(newest) + (coefficient * scores - older), newest
        return 0.5 * self._twice.times(newest) + (first * scores - older)


class PowerSum(SymmetricOperator):
    """Σ_j w_j C^j with w_j ≥ 0 and C symmetric, without negative entries and of norm at most 1."""

    nonnegative = True

    def __init__(self, step: GraphMatrix, weights: Array) -> None:
        super().__init__(step.shape[0])
        self._step = step
        self._weights: list[float] = weights.tolist()
        self.norm_bound = float(weights.sum())

    def apply(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the sum, by Horner's rule."""
        *rest, last = self._weights
        z = last * scores
        for weight in reversed(rest):
            z = self._step.times(z) + weight * scores
        return z
