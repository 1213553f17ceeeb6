"""What every smoother promises: apply, adjoint, a norm bound, and the same answer on (n,) and (n, c)."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator

from ebbflow.graph import Graph


class Smoother(BaseEstimator, ABC):
    """A recipe for an operator: parameters and nothing else, so that it can be cloned, searched and saved."""

    @abstractmethod
    def on(self, graph: Graph) -> "SmoothingOperator":
        """Return the operator of this recipe on one graph."""


class SmoothingOperator(LinearOperator, ABC):
    """A linear map P on node scores.

    Subclasses define :meth:`apply`, :meth:`adjoint`, ``norm_bound`` and ``nonnegative``. Scores may be of shape
    (n,) or (n, c), float32 or float64; the answer has the shape and type of what was given.
    """

    #: An upper bound on the spectral norm of P: steps divided by its square descend.
    norm_bound: float
    #: Whether no entry of P is negative. Then PᵀHP ≼ diag(PᵀHP·1) for diagonal H ≥ 0, because a symmetric
    #: matrix without negative entries is majorised by its row sums: a curvature for each node on its own.
    nonnegative: bool

    def __init__(self, n_nodes: int) -> None:
        super().__init__(dtype=np.dtype(np.float64), shape=(n_nodes, n_nodes))

    @property
    def magnitude(self) -> "SmoothingOperator | None":
        """An operator that is at least |P| in every entry, if one is known: P itself if it is non-negative.

        PᵀHP ≼ diag(|P|ᵀH|P|·1), and any larger matrix in the place of |P| will do.
        """
        return self if self.nonnegative else None

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


class IdentityOperator(SmoothingOperator):
    """P = I: no graph, plain boosting."""

    norm_bound = 1.0
    nonnegative = True

    def apply(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the scores as they are."""
        return scores

    def adjoint(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Return the gradient as it is."""
        return gradient
