"""Lemmas 1–3: the constants of a smoother on a graph, and the distance of P^(k) from P*.

Lemmas 2 and 3 give σ^(k) as the largest singular value of P over the labelled rows. The Hessian of
½‖P f − y‖² is PᵀP, so it is the *square* of that value, plus ε under Lemma 3. The paper's losses
are not halved: all constants of smoothness and convexity are half of those of its losses. For the
exponent c see
:class:`ebboost.propagation.Contraction`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator, eigsh

from ebboost.data.parameters import check_number
from ebboost.data.types import Array, IntArray
from ebboost.graph import Graph
from ebboost.propagation import Laplacian, PropagationOperator

# Up to this many labelled nodes, singular values come from a dense matrix.
DENSE_UP_TO = 50


@dataclass(frozen=True)
class Constants:
    """The constants of Lemmas 1–3 for a smoother on a graph.

    Attributes
    ----------
    mu, sigma : float
        The ends of the spectrum of I + λL (Lemma 1); μ is 1 for every graph.
    n_steps : int or None
        k; None for the exact inverse.
    rate : float
        The factor by which a step shrinks ‖P^(k) − P*‖₂ asymptotically.
    c : float
        The exponent of Theorem 1: that norm falls as e^{−ck}.
    error : float
        A bound on ‖P^(k) − P*‖₂.
    sigma_k : float
        σ^(k), the smoothness of ½‖P f − y‖² + ½ε‖f‖² over the labelled nodes (Lemmas 2 and 3).
    """

    mu: float
    sigma: float
    n_steps: int | None
    rate: float
    c: float
    error: float
    sigma_k: float


def constants(
    graph: Graph, smoother: Laplacian, nodes: ArrayLike | None = None, penalty: float = 0.0
) -> Constants:
    """Return the constants of Lemmas 1–3.

    Parameters
    ----------
    graph : Graph
    smoother : Laplacian
    nodes : array-like of int, optional
        The labelled nodes; default: all.
    penalty : float, default=0.0
        ε of Corollary 1.

    Returns
    -------
    Constants
        Eigenvalues come from Lanczos iterations: σ from above by at most a percent, σ^(k) to six
        digits.

    Examples
    --------
    >>> import ebboost as eb
    >>> path = eb.Graph.from_edges([0, 1], [1, 2])
    >>> result = eb.convergence.constants(path, eb.Laplacian(1.0, 10, normalized=False))
    >>> result.mu, round(result.sigma, 6), round(result.c, 6)
    (1.0, 4.0, 0.287682)
    """
    if not isinstance(smoother, Laplacian):
        raise TypeError(f"smoother must be an eb.Laplacian, got {smoother!r}.")
    system = smoother.system(graph)
    operator = smoother.operator(graph)
    contraction = smoother.contraction(system)
    n_steps = getattr(operator, "n_steps", None)
    labelled = np.arange(graph.n_nodes) if nodes is None else np.asarray(nodes)
    return Constants(
        mu=1.0,
        sigma=max(system.upper, 1.0),
        n_steps=n_steps,
        rate=contraction.rate,
        c=-float(np.log(contraction.rate)) if contraction.rate > 0 else float("inf"),
        error=0.0 if n_steps is None else contraction.error(n_steps),
        sigma_k=_largest_squared_singular_value(operator, labelled) + penalty,
    )


def _largest_squared_singular_value(operator: PropagationOperator, nodes: IntArray) -> float:
    """The largest eigenvalue of P_L P_Lᵀ, P_L the labelled rows."""

    def product(values: Array) -> Array:
        on_nodes = np.zeros(operator.shape[0])
        on_nodes[nodes] = values.ravel()
        return operator.apply(operator.adjoint(on_nodes))[nodes]

    m = nodes.size
    if m < DENSE_UP_TO:
        return float(np.linalg.eigvalsh(np.column_stack([product(row) for row in np.eye(m)]))[-1])
    start = np.random.default_rng(0).standard_normal(m)
    squared = LinearOperator((m, m), matvec=product, dtype=np.float64)
    return float(eigsh(squared, k=1, which="LA", v0=start, tol=1e-6, return_eigenvectors=False)[0])


def steps_for(graph: Graph, smoother: Laplacian | float, tol: float) -> int:
    """Return how many steps bring ‖P^(k) − P*‖₂ below a tolerance, by the bound of the method.

    Parameters
    ----------
    graph : Graph
    smoother : Laplacian or float
        Its method, step and Laplacian count; a number is λ of ``eb.Laplacian(lam)``.
    tol : float
        No score is moved by more than this share of the norm of all scores.
        ``eb.Laplacian(n_steps="auto", tol=...)`` takes that many steps.

    Returns
    -------
    int

    Examples
    --------
    >>> import ebboost as eb
    >>> ring = eb.Graph.from_edges(range(100), [*range(1, 100), 0])
    >>> methods = ("gradient", "jacobi", "chebyshev")
    >>> [eb.convergence.steps_for(ring, eb.Laplacian(20.0, method=m), 1e-4) for m in methods]
    [128, 127, 26]
    """
    if not isinstance(smoother, Laplacian):
        smoother = Laplacian(smoother)
    check_number("tol", tol, low=0.0, closed="neither")
    return smoother.contraction(smoother.system(graph)).steps(float(tol))
