"""Propagation of scores over the graph: equation (2), ‖Z−f‖² + λ tr ZᵀLZ, by steps (6) or exactly.

A smoother holds parameters; ``smoother.operator(graph)`` is the linear map P on one graph.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import ArpackError, eigsh
from sklearn.base import BaseEstimator

from ebboost._common import IntArray, check_number
from ebboost.graph import Graph
from ebboost.linalg import Solver, SparseMatrix, Structure

Scores = NDArray[Any]


class Operator(ABC):
    """A linear map P on scores of shape (n,) or (n, c).

    Attributes
    ----------
    norm_bound : float
        An upper bound on the spectral norm of P.
    nonnegative : bool
        Whether no entry of P is negative. Then PᵀHP ≼ diag(PᵀHP·1) for diagonal H ≥ 0: a curvature
        for each node on its own.
    """

    norm_bound = 1.0
    nonnegative = True

    @abstractmethod
    def apply(self, scores: Scores) -> Scores:
        """Return P scores."""

    def adjoint(self, scores: Scores) -> Scores:
        """Return Pᵀ scores; P is symmetric unless a subclass overrides this."""
        return self.apply(scores)

    @property
    def magnitude(self) -> Operator | None:
        """A map without negative entries that bounds those of P in size, None if none is known."""
        return self if self.nonnegative else None

    def around(self, rows: IntArray) -> tuple[IntArray, Operator] | None:
        """Return the rows whose scores matter at some rows, and P on these; None if all do."""
        return None


class Identity(Operator):
    """P = I: plain boosting."""

    def apply(self, scores: Scores) -> Scores:
        """Return the scores."""
        return scores

    adjoint = apply


class Smoother(BaseEstimator, ABC):
    """Parameters of an operator, without data: can be cloned, searched and saved.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> P = eb.Laplacian(lam=2.0, n_steps=5).operator(eb.Graph.from_edges([0, 1], [1, 2]))
    >>> P.apply(np.ones(3)).shape
    (3,)
    """

    @abstractmethod
    def operator(self, graph: Graph) -> Operator:
        """Return P on a graph.

        Parameters
        ----------
        graph : Graph

        Returns
        -------
        Operator
        """

    @abstractmethod
    def join(
        self, scores: Scores, edges: sparse.csr_array, near: Scores, degrees: NDArray[np.float64]
    ) -> Scores:
        """Return smoothed scores of new nodes, those of the fitted ones as they are.

        Parameters
        ----------
        scores : ndarray of shape (m, c)
            f of the new nodes.
        edges : csr_array of shape (m, n)
            Weights of their edges to fitted nodes.
        near : ndarray of shape (n, c)
            Smoothed scores of the fitted nodes.
        degrees : ndarray of shape (n,)
            Those of the fitted nodes.

        Returns
        -------
        ndarray of shape (m, c)
        """


@dataclass(eq=False, repr=False)
class Laplacian(Smoother):
    """Laplacian smoothing: the scores of neighbours are drawn towards each other.

    Parameters
    ----------
    lam : float, default=2.0
        λ of the energy: 0 leaves scores unchanged, large values level them out over the graph.
    n_steps : int, default=5
        Gradient steps from Z⁰ = f towards the minimiser: over how many edges a score reaches other
        nodes.
    normalized : bool, default=True
        Use L̂ = I − D̃^{-1/2}(A+I)D̃^{-1/2}, under which hubs do not dominate their neighbours,
        rather than L = D − A.
    method : {"gradient", "exact"}, default="gradient"
        The steps (6), or the minimiser P* = (I + λL)⁻¹ itself, equation (3).

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> path = eb.Graph.from_edges([0, 1], [1, 2])
    >>> P = eb.Laplacian(lam=1.0, method="exact", normalized=False).operator(path)
    >>> P.apply(np.array([1.0, 0.0, 0.0])).round(3).tolist()
    [0.625, 0.25, 0.125]
    """

    lam: float = 2.0
    n_steps: int = 5
    _: KW_ONLY
    normalized: bool = True
    method: Literal["gradient", "exact"] = "gradient"

    def operator(self, graph: Graph) -> Operator:
        """Return P on a graph."""
        check_number("lam", self.lam, low=0.0)
        check_number("n_steps", self.n_steps, low=0, integer=True)
        if self.method not in ("gradient", "exact"):
            raise ValueError(f"method must be 'gradient' or 'exact', got {self.method!r}.")
        system = laplacian_system(graph, self.lam, self.normalized)
        if self.method == "exact":
            return ExactInverse(system)
        alpha = 1.0 / (1.0 + self.lam if self.normalized else largest_eigenvalue(system))
        return GradientSteps(system, self.n_steps, alpha)

    def join(
        self, scores: Scores, edges: sparse.csr_array, near: Scores, degrees: NDArray[np.float64]
    ) -> Scores:
        """Return the minimiser of the energy in the new nodes, or the steps towards it."""
        own = np.asarray(edges.sum(axis=1)).ravel()
        diagonal = 1.0 + self.lam * own
        pull = edges @ near
        if self.normalized:
            diagonal = 1.0 + self.lam - self.lam / (own + 1.0)
            pull = (edges @ (near / np.sqrt(degrees + 1.0)[:, None])) / np.sqrt(own + 1.0)[:, None]
        target = scores + self.lam * pull
        if self.method == "exact":
            return target / diagonal[:, None]
        alpha = 1.0 / (1.0 + self.lam) if self.normalized else 1.0 / diagonal.max(initial=1.0)
        for _ in range(self.n_steps):
            scores = scores - alpha * (diagonal[:, None] * scores - target)
        return scores


def laplacian_system(graph: Graph, lam: float, normalized: bool) -> sparse.csr_array:
    """Return I + λL with every entry of the diagonal stored."""
    scale = np.ones(graph.n_nodes)
    diagonal = 1.0 + lam * graph.degrees
    if normalized:
        scale = 1.0 / np.sqrt(graph.degrees + 1.0)
        diagonal = 1.0 + lam - lam * scale**2
    weights = sparse.diags_array(-lam * scale) @ graph.adjacency @ sparse.diags_array(scale)
    system = sparse.csr_array(sparse.diags_array(diagonal) + weights)
    system.sort_indices()
    return system


def largest_eigenvalue(system: sparse.csr_array) -> float:
    """Return σ of Lemma 1, the largest eigenvalue, or up to one percent more.

    Lanczos approaches it from below, hence the percent; row sums of absolute values bound it too.
    """
    bound = float(abs(system).sum(axis=1).max())
    n_nodes = system.shape[0]
    if n_nodes < 50:
        return min(bound, float(np.linalg.eigvalsh(system.toarray())[-1]))
    start = np.random.default_rng(0).standard_normal(n_nodes)
    try:
        top = eigsh(system, k=1, which="LA", v0=start, tol=1e-3, return_eigenvectors=False)[0]
    except ArpackError:
        return bound
    return min(bound, 1.01 * float(top))


class GradientSteps(Operator):
    """k steps Z ← Z − α[(I+λL)Z − f] from Z⁰ = f: a polynomial in L, of norm 1 for α ≤ 1/‖I+λL‖.

    For the normalised Laplacian and α = 1/(1+λ), P has no negative entry and the Perron vector
    D̃^{1/2}1 has eigenvalue 1, so that the norm is 1 there too.
    """

    def __init__(self, system: sparse.csr_array, n_steps: int, alpha: float) -> None:
        step = sparse.csr_array(sparse.eye_array(system.shape[0]) - alpha * system)
        step.sort_indices()
        self._set(step, n_steps, alpha)

    def _set(self, step: sparse.csr_array, n_steps: int, alpha: float) -> None:
        self.nonnegative = bool(step.data.min(initial=0.0) >= -1e-12)
        self.n_steps = n_steps
        self.alpha = alpha
        self._step = SparseMatrix(step)

    def around(self, rows: IntArray) -> tuple[IntArray, Operator] | None:
        """Return the rows within k edges; see :meth:`Operator.around`."""
        step = self._step.matrix
        size = abs(step)
        reached = np.zeros(step.shape[0], dtype=bool)
        reached[rows] = True
        for _ in range(self.n_steps):
            reached |= (size @ reached.astype(np.float64)) > 0.0
        near = np.flatnonzero(reached)
        if near.size == reached.size:
            return None
        inner = copy(self)
        inner._set(sparse.csr_array(step[near][:, near]), self.n_steps, self.alpha)
        return near, inner

    def apply(self, scores: Scores) -> Scores:
        """Return the scores after k steps."""
        z = scores
        for _ in range(self.n_steps):
            z = self._step.times(z, self.alpha, scores)
        return z


class ExactInverse(Operator):
    """P* = (I+λL)⁻¹ of equation (3), the inverse of an M-matrix: P* ≥ 0."""

    def __init__(self, system: sparse.csr_array) -> None:
        self._solver = Solver(Structure(system), system.data)

    def apply(self, scores: Scores) -> Scores:
        """Return the solution of (I+λL) Z = scores."""
        return self._solver.solve(scores.astype(np.float64))
