"""What every smoother promises: apply, adjoint, a norm bound, and the same answer on (n,) and (n, c)."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator

from ebboost.graph import Graph


class Smoother(BaseEstimator, ABC):
    """A recipe for an operator: parameters and nothing else, so that it can be cloned, searched and saved."""

    #: Whether its operators are linear maps; one that is not has a linear map at each point, see ``at``.
    linear = True

    @abstractmethod
    def operator(self, graph: Graph) -> "Propagation":
        """Return the operator of this recipe on one graph."""

    def hops(self, graph: Graph) -> int | None:
        """Return how many edges far a score can travel on ``graph``; None: as far as there are edges."""
        return None

    def prepared(self, spread: Callable[[], float]) -> "Smoother":
        """Return this recipe with every constant filled in that depends on the spread of the labels, if there is one."""
        return self


class Propagation(Protocol):
    """A map from scores to smoothed scores on one graph, linear or not: what the loop asks of it."""

    shape: Any
    linear: bool
    norm_bound: float

    def apply(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the smoothed scores."""

    def linearize(self, scores: NDArray[Any]) -> "PropagationOperator":
        """Return a linear map that takes these scores to their smoothed ones, and others nearly so."""


class PropagationOperator(LinearOperator, ABC):
    """A linear map P on node scores.

    Subclasses define :meth:`apply`, :meth:`adjoint`, ``norm_bound`` and ``nonnegative``. Scores may be of shape
    (n,) or (n, c), float32 or float64; the answer has the shape and type of what was given.
    """

    linear = True
    #: An upper bound on the spectral norm of P: steps divided by its square descend.
    norm_bound: float
    #: Whether no entry of P is negative. Then PᵀHP ≼ diag(PᵀHP·1) for diagonal H ≥ 0, because a symmetric
    #: matrix without negative entries is majorised by its row sums: a curvature for each node on its own.
    nonnegative: bool
    #: Whether ``apply`` also takes sparse matrices, and returns one.
    takes_sparse = False

    def __init__(self, n_nodes: int) -> None:
        super().__init__(dtype=np.dtype(np.float64), shape=(n_nodes, n_nodes))
        self.unsigned: PropagationOperator | None = (
            None  # the same on a graph without signs, where edges have signs
        )

    @property
    def magnitude(self) -> "PropagationOperator | None":
        """An operator that is at least |P| in every entry, if one is known: P itself if it is non-negative.

        PᵀHP ≼ diag(|P|ᵀH|P|·1), and any larger matrix in the place of |P| will do.
        """
        if self.unsigned is not None:
            return self.unsigned.magnitude
        return self if self.nonnegative else None

    def linearize(self, scores: NDArray[Any]) -> Self:
        """Return the linear map that takes these scores to their smoothed ones: itself."""
        return self

    @abstractmethod
    def apply(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return P @ scores."""

    @abstractmethod
    def adjoint(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Return Pᵀ @ gradient."""

    def _matmat(self, X: NDArray[Any]) -> NDArray[Any]:
        return self.apply(X)

    def _matvec(self, x: NDArray[Any]) -> NDArray[Any]:
        return self.apply(x)

    def _rmatmat(self, X: NDArray[Any]) -> NDArray[Any]:
        return self.adjoint(X)

    def _rmatvec(self, x: NDArray[Any]) -> NDArray[Any]:
        return self.adjoint(x)


class IdentityOperator(PropagationOperator):
    """P = I: no graph, plain boosting."""

    norm_bound = 1.0
    nonnegative = True

    def apply(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the scores as they are."""
        return scores

    def adjoint(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Return the gradient as it is."""
        return gradient


def check_steps(lam: Any, n_steps: Any) -> None:
    """Refuse a strength or a number of steps that means nothing."""
    if not isinstance(lam, Real) or not 0 <= float(lam) < np.inf:
        raise ValueError(f"lam must be a number of at least 0, got {lam!r}.")
    if not isinstance(n_steps, (int, np.integer)) or isinstance(n_steps, bool) or n_steps < 0:
        raise ValueError(f"n_steps must be a whole number of at least 0, got {n_steps!r}.")
