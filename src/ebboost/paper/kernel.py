"""Kernelised smoothing, equation (13): the energy ‖Z−f‖² + λ tr Zᵀ r(L) Z and its minimiser P f.

Neither r(L) nor P = (I + λ r(L))⁻¹ is formed. P is a function of L alone, and so are k gradient
steps towards it: both are Chebyshev polynomials in L, which cost a product with the graph for each
degree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray
from scipy import sparse
from scipy.fft import dct

from ebboost._common import Array, check_number
from ebboost.graph import Graph
from ebboost.linalg import SparseMatrix
from ebboost.paper.steps import spectrum_end
from ebboost.smoothing import Operator, Scores, Smoother, laplacian_system

Energy = Callable[[Array], Array]

MOST_DEGREE = 500  # of a polynomial
SAMPLES = 1024  # of r, more than twice MOST_DEGREE so that the remainder is seen
# Beyond this degree rounding dominates the change to powers of the adjacency.
MOST_POWERS = 20
# Largest norm of a bound on |P|, relative to that of P, at which it is of use.
MAX_NORM_RATIO = 2.0


@dataclass(eq=False, repr=False)
class Kernel(Smoother):
    """Smoothing that weights the frequencies of the graph by a function r.

    Eigenvalues s of the Laplacian are frequencies: near 0 for what varies slowly over the graph,
    large for what differs from neighbour to neighbour. A score of frequency s costs λ r(s), and is
    multiplied by 1/(1 + λ r(s)).

    Parameters
    ----------
    r : {"laplacian", "regularized", "diffusion", "random-walk", "inverse-cosine"} or callable, \
            default="diffusion"
        s; 1 + σ²s; e^{σ²s/2}; (a − s)^{−p}; 1/cos(πs/4); or a function that takes an array of
        eigenvalues and returns a number of at least 0 for each, such as ``lambda s: s**2``.
    lam : float, default=2.0
        λ of the energy. Where r(0) = 1, a large λ leaves the kernel 1/r itself: P becomes
        proportional to the heat kernel e^{−σ²L/2} or to the walk (aI − L)^p, a factor that boosting
        makes up for.
    sigma : float, default=1.5
        σ of "regularized" and "diffusion": how far the heat spreads.
    a : float, default=2.0
        a of the random walk, at least the largest eigenvalue: 2 suffices for every normalised
        Laplacian.
    p : int, default=1
        The steps of the random walk.
    normalized : bool, default=True
        Use the normalised Laplacian, whose eigenvalues lie in [0, 2), rather than L = D − A.
    method : {"exact", "gradient"}, default="exact"
        The minimiser, up to ``tolerance``; or ``n_steps`` gradient steps towards it from Z⁰ = f,
        with α = 1/‖I + λ r(L)‖₂.
    n_steps : int, default=5
        k, of ``method="gradient"``.
    degree : int, optional
        Degree of the polynomial: over how many edges a score reaches other nodes. Default: the
        least that meets ``tolerance``.
    tolerance : float, default=1e-4
        Distance of the polynomial from P at any frequency, relative to the largest value of P.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> path = eb.Graph.from_edges([0, 1], [1, 2])
    >>> P = eb.paper.Kernel("diffusion", lam=2.0, sigma=1.0).operator(path)
    >>> P.apply(np.array([1.0, 0.0, 0.0])).round(3).tolist()
    [0.282, 0.04, 0.002]
    """

    r: str | Energy = "diffusion"
    lam: float = 2.0
    _: KW_ONLY
    sigma: float = 1.5
    a: float = 2.0
    p: int = 1
    normalized: bool = True
    method: Literal["exact", "gradient"] = "exact"
    n_steps: int = 5
    degree: int | None = None
    tolerance: float = 1e-4

    def operator(self, graph: Graph) -> KernelPolynomial:
        """Return P on a graph."""
        self._check()
        system = laplacian_system(graph, 1.0, self.normalized)
        # An interval of some width without edges, too.
        upper = max(spectrum_end(system, 1.0, self.normalized) - 1.0, 1e-3)
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
        largest = 1.0 if self.normalized else float(graph.degrees.max(initial=0.0)) or 1.0
        return KernelPolynomial(system, upper, coefficients[: degree + 1], largest)

    def join(
        self, scores: Scores, edges: sparse.csr_array, near: Scores, degrees: NDArray[np.float64]
    ) -> Scores:
        """Return the minimiser of the energy of each new node and its neighbours, in the new node.

        L is that of the joined graph at these nodes, without the edges between the neighbours.
        """
        self._check()
        result = np.empty(scores.shape)
        for row, own in enumerate(scores):
            span = slice(edges.indptr[row], edges.indptr[row + 1])
            nodes, weight = edges.indices[span], edges.data[span]
            degree = np.append(weight.sum(), degrees[nodes] + weight)
            scale = 1.0 / np.sqrt(degree + 1.0) if self.normalized else np.ones(degree.size)
            star = np.diag(degree * scale**2)
            star[0, 1:] = star[1:, 0] = -scale[0] * weight * scale[1:]
            values, vectors = np.linalg.eigh(star)
            energy = self._energy(values.clip(min=0.0), float(values[-1]))
            pull = self.lam * (vectors[0] * energy) @ vectors.T
            result[row] = (own - pull[1:] @ near[nodes]) / (1.0 + pull[0])
        return result

    def _after_steps(self, energy: Array, response: Array) -> Array:
        """Eigenvalues q^k + (1 − q^k)/(1 + λr) of k gradient steps, with q = 1 − α(1 + λr)."""
        steepest = 1.0 + float(energy.max())
        if not np.isfinite(steepest):
            problem = f"r={self.r!r} is infinite at the end of this graph's spectrum"
            raise ValueError(f"{problem}: use method='exact', or a larger a.")
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
        if self.method not in ("exact", "gradient"):
            raise ValueError(f"method must be 'exact' or 'gradient', got {self.method!r}.")
        if not callable(self.r) and self.r not in ENERGIES:
            names = ", ".join(map(repr, ENERGIES))
            raise ValueError(f"r must be {names} or a function, got {self.r!r}.")


#: r(s) by name, with the parameters of a :class:`Kernel`.
ENERGIES: dict[str, Callable[[Kernel, Array], Array]] = {
    "laplacian": lambda kernel, s: s,
    "regularized": lambda kernel, s: 1.0 + kernel.sigma**2 * s,
    "diffusion": lambda kernel, s: np.exp(kernel.sigma**2 * s / 2.0),
    "random-walk": lambda kernel, s: (kernel.a - s) ** -float(kernel.p),
    "inverse-cosine": lambda kernel, s: 1.0 / np.cos(np.pi * s / 4.0),
}


def _checked_energy(r: Energy, s: Array) -> Array:
    """A user's r at every s; ValueError where it is no energy."""
    try:
        with np.errstate(all="ignore"):
            energy = np.broadcast_to(np.asarray(r(s.copy()), dtype=np.float64), s.shape)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "r must take an array of eigenvalues and return a number for each, as functions of "
            f"numpy do (np.exp, not math.exp); it failed with: {error}"
        ) from error
    wrong = ~np.isfinite(energy) | (energy < 0)
    if wrong.any():
        first = np.argmin(np.where(wrong, s, np.inf))
        raise ValueError(
            f"r must be finite and at least 0 on this graph's eigenvalues, 0 to {s.max():.4g}; "
            f"r({s[first]:.4g}) is {energy[first]:.4g}. Bound it, or use normalized=True, whose "
            "eigenvalues are below 2."
        )
    return energy


class KernelPolynomial(Operator):
    """P = Σ_j c_j T_j(2L/u − I), a Chebyshev polynomial in L on its spectrum [0, u].

    Written in powers of C = I − L/δ, which has no negative entry (δ = 1 for the normalised
    Laplacian, the largest degree for the other), P = Σ_j w_j C^j. If no w_j is negative, no entry
    of P is. Otherwise |P| ≤ Σ_j |w_j| C^j entry by entry: a bound to take the curvature from.

    For diffusion, the random walk and the inverse cosine negative entries are small: on a path and
    with λ = 2, down to −0.0003, −0.007 and −0.01.
    """

    def __init__(
        self, system: sparse.csr_array, upper: float, coefficients: Array, largest_degree: float
    ) -> None:
        self.degree = len(coefficients) - 1
        self.coefficients: list[float] = coefficients.tolist()
        eye = sparse.eye_array(system.shape[0])
        twice = sparse.csr_array((4.0 / upper) * (system - eye) - 2.0 * eye)
        twice.sort_indices()
        self._twice = SparseMatrix(twice)
        # A polynomial of degree k is at most 1/cos(kπ/2N) times its largest value at N > k points.
        n_points = 64 * (self.degree + 1)
        points = np.cos(np.pi * (np.arange(n_points) + 0.5) / n_points)
        largest = np.abs(Chebyshev(coefficients)(points)).max()
        self.norm_bound = float(largest / np.cos(np.pi * self.degree / (2 * n_points)))
        self.nonnegative = False
        self._bound: Operator | None = None
        if self.degree <= MOST_POWERS:
            to_eigenvalue = Polynomial([largest_degree, -largest_degree])
            powers = Chebyshev(coefficients, [0.0, upper])(to_eigenvalue).coef
            self.nonnegative = bool(powers.min() >= 0.0)
            if np.abs(powers).sum() <= MAX_NORM_RATIO * self.norm_bound:
                step = sparse.csr_array(eye - (system - eye) / largest_degree)
                self._bound = PowerSum(step, np.abs(powers))

    @property
    def magnitude(self) -> Operator | None:
        """Σ_j |w_j| C^j, None if that bound on |P| is of no use; see :class:`Operator`."""
        return self if self.nonnegative else self._bound

    def apply(self, scores: Scores) -> Scores:
        """Return the sum of the series, by Clenshaw's b_j = c_j f + 2M b_{j+1} − b_{j+2}."""
        first, *rest = self.coefficients
        if not rest:
            return first * scores
        newest = rest.pop() * scores
        older = 0.0 * scores
        for coefficient in reversed(rest):
            newest, older = self._twice.times(newest, coefficient, scores) - older, newest
        return 0.5 * (self._twice @ newest) + (first * scores - older)


class PowerSum(Operator):
    """Σ_j w_j C^j with w_j ≥ 0 and C symmetric, without negative entries and of norm at most 1."""

    def __init__(self, step: sparse.csr_array, weights: Array) -> None:
        step.sort_indices()
        self._step = SparseMatrix(step)
        self._weights: list[float] = weights.tolist()
        self.norm_bound = float(weights.sum())

    def apply(self, scores: Scores) -> Scores:
        """Return the sum, by Horner's rule."""
        *rest, last = self._weights
        z = last * scores
        for weight in reversed(rest):
            z = self._step.times(z, weight, scores)
        return z
