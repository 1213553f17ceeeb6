"""Smoothers and operators: what every propagation offers the boosting loop."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator

from ebboost.graph import Graph


class Smoother(BaseEstimator, ABC):
    """Parameters of a propagation operator, without data: can be cloned, searched and saved.

    Examples
    --------
    >>> import ebboost as eb
    >>> smoother = eb.Laplacian(lam=2.0, n_steps=5)
    >>> operator = smoother.operator(eb.Graph.from_edges([0, 1], [1, 2]))
    >>> operator.shape
    (3, 3)
    """

    #: Whether its operators are linear maps; others have one at each point, see ``linearize``.
    linear = True

    @abstractmethod
    def operator(self, graph: Graph) -> "Propagation":
        """Return the operator on one graph.

        Parameters
        ----------
        graph : Graph

        Returns
        -------
        Propagation
            A :class:`PropagationOperator` if the smoother is linear.

        Raises
        ------
        ValueError
            If a parameter is out of range, or does not suit the graph.
        """

    def hops(self, graph: Graph) -> int | None:
        """Return over how many edges a score reaches other nodes.

        Parameters
        ----------
        graph : Graph

        Returns
        -------
        int or None
            None if over any number of edges.
        """
        return None

    def prepared(self, spread: Callable[[], float]) -> "Smoother":
        """Return the smoother with parameters filled in that depend on the labels.

        Parameters
        ----------
        spread : callable
            Returns the standard deviation of the labels in units of the scores.

        Returns
        -------
        Smoother
        """
        return self


class Propagation(Protocol):
    """A map from scores to smoothed scores on one graph, linear or not."""

    shape: tuple[int, int]
    linear: bool
    norm_bound: float

    def apply(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the smoothed scores."""

    def linearize(self, scores: NDArray[Any]) -> "PropagationOperator":
        """Return a linear map that agrees at these scores, and nearly so close to them."""


class PropagationOperator(LinearOperator, ABC):
    """A linear map P on node scores, also a scipy ``LinearOperator``.

    Subclasses define :meth:`apply`, :meth:`adjoint`, ``norm_bound`` and ``nonnegative``. Scores are
    of shape (n,) or (n, c), float32 or float64; results have the same shape and type.

    Parameters
    ----------
    n_nodes : int

    Attributes
    ----------
    norm_bound : float
        An upper bound on the spectral norm of P: steps divided by its square descend.
    nonnegative : bool
        Whether no entry of P is negative. Then PᵀHP ≼ diag(PᵀHP·1) for diagonal H ≥ 0, because a
        symmetric matrix without negative entries is majorised by its row sums: a curvature for each
        node on its own.
    takes_sparse : bool
        Whether :meth:`apply` takes sparse matrices and returns one.
    unsigned : PropagationOperator or None
        On a graph with signed edges, the operator of the graph without the signs.
    """

    linear = True
    norm_bound: float
    nonnegative: bool
    takes_sparse = False

    def __init__(self, n_nodes: int) -> None:
        super().__init__(dtype=np.dtype(np.float64), shape=(n_nodes, n_nodes))
        self.unsigned: PropagationOperator | None = None

    @property
    def magnitude(self) -> "PropagationOperator | None":
        """An operator at least |P| in every entry, None if unknown; P itself if non-negative.

        PᵀHP ≼ diag(|P|ᵀH|P|·1), and any larger matrix in place of |P| will do.
        """
        if self.unsigned is not None:
            return self.unsigned.magnitude
        return self if self.nonnegative else None

    def linearize(self, scores: NDArray[Any]) -> Self:
        """Return the operator itself: it is linear.

        Parameters
        ----------
        scores : ndarray of shape (n,) or (n, c)

        Returns
        -------
        PropagationOperator
        """
        return self

    @abstractmethod
    def apply(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return P @ scores.

        Parameters
        ----------
        scores : ndarray of shape (n,) or (n, c)

        Returns
        -------
        ndarray of the same shape
        """

    @abstractmethod
    def adjoint(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Return Pᵀ @ gradient.

        Parameters
        ----------
        gradient : ndarray of shape (n,) or (n, c)

        Returns
        -------
        ndarray of the same shape
        """

    def _matmat(self, X: NDArray[Any]) -> NDArray[Any]:
        return self.apply(X)

    def _rmatmat(self, X: NDArray[Any]) -> NDArray[Any]:
        return self.adjoint(X)

    # scipy would reshape single vectors to columns and back.
    _matvec = _matmat
    _rmatvec = _rmatmat


class SymmetricOperator(PropagationOperator):
    """An operator that is its own adjoint."""

    def adjoint(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Return P @ gradient: P is symmetric."""
        return self.apply(gradient)


class IdentityOperator(SymmetricOperator):
    """P = I: no graph, plain boosting."""

    norm_bound = 1.0
    nonnegative = True

    def apply(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the scores unchanged."""
        return scores
