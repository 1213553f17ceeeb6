"""The matrix I + λL of equation (3), on either Laplacian, and the ends of its spectrum (Lemma 1)."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import ArpackError, eigsh

from ebbflow.graph import Graph


class LaplacianSystem:
    """I + λL = diag(δ) − λS, with S the adjacency (L = D − A) or Ŝ = D̃^{-1/2}(A+I)D̃^{-1/2} (L̂ = I − Ŝ).

    Parameters
    ----------
    graph : Graph
    lam : float
        λ, the strength of the smoothing.
    normalized : bool
        Whether L is the normalised Laplacian with self-loops.
    """

    def __init__(self, graph: Graph, lam: float, normalized: bool) -> None:
        self.n_nodes = graph.n_nodes
        self.lam = lam
        self.normalized = normalized
        if normalized:
            root = 1.0 / np.sqrt(graph.degrees + 1.0)
            looped = graph.adjacency + sparse.eye_array(graph.n_nodes, format="csr")
            self.coupling = sparse.csr_array(looped.multiply(root[:, None]).multiply(root[None, :]))
            self.coupling.sort_indices()
            self.delta = np.full(graph.n_nodes, 1.0 + lam)
        else:
            self.coupling = graph.adjacency
            self.delta = 1.0 + lam * graph.degrees

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """The matrix I + λL itself."""
        matrix = sparse.csr_array(sparse.diags_array(self.delta) - self.lam * self.coupling)
        matrix.sort_indices()
        return matrix

    @cached_property
    def diagonal(self) -> NDArray[np.float64]:
        """Its diagonal."""
        diagonal: NDArray[np.float64] = self.delta - self.lam * self.coupling.diagonal()
        return diagonal

    @cached_property
    def upper(self) -> float:
        """σ of Lemma 1, the largest eigenvalue of I + λL, from above by at most one percent.

        Lanczos approaches it from below, hence the percent; Gershgorin's circles are a bound that needs no
        iteration, and the answer where Lanczos does not converge.
        """
        row_sums = np.asarray(abs(self.coupling).sum(axis=1)).ravel()
        gershgorin = float((self.delta + self.lam * row_sums).max())
        if self.normalized:
            gershgorin = min(gershgorin, 1.0 + 2.0 * self.lam)
        if self.n_nodes < 50:
            return min(gershgorin, float(np.linalg.eigvalsh(self.matrix.toarray())[-1]))
        start = np.random.default_rng(0).standard_normal(self.n_nodes)
        try:
            top = eigsh(self.matrix, k=1, which="LA", v0=start, tol=1e-3, return_eigenvectors=False)[0]
        except ArpackError:
            return gershgorin
        return min(gershgorin, 1.01 * float(top))
