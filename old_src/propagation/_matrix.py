"""The matrix I + λL of equation (3), on either Laplacian, and its largest eigenvalue (Lemma 1)."""

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigvalsh_tridiagonal
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from ebboost.data.once import compute_once, lazy_property
from ebboost.data.sharded import ShardedArray
from ebboost.data.types import AnyArray, Array
from ebboost.graph import Graph
from ebboost.propagation._compiled import sweep_on

#: Steps of Lanczos's recurrence on a graph that is divided among workers.
MOST_LANCZOS = 300


class GraphMatrix(LinearOperator):
    """diag(δ) − c R A R with c the ``strength`` and R = diag(root), I by default; A is not copied.

    The adjacency A is symmetric; it may be the counterpart of a csr_array on another backend.
    """

    def __init__(
        self, adjacency: AnyArray, diagonal: Array, strength: float, root: Array | None = None
    ) -> None:
        super().__init__(dtype=np.dtype(np.float64), shape=adjacency.shape)
        self.sweep = sweep_on(adjacency)
        self.diagonal = diagonal
        self.strength = strength
        self.root = np.ones_like(diagonal) if root is None else root
        self.adjacency = adjacency

    def _matmat(self, X: NDArray[Any]) -> NDArray[Any]:
        scale = like(-self.strength * self.root, X)
        keep = like(self.diagonal / self.root, X)
        return self.sweep(columnwise(self.root, X) * X, scale=scale, keep=keep)

    _matvec = _matmat

    def _adjoint(self) -> "GraphMatrix":
        return self

    def times(self, scores: AnyArray) -> AnyArray:
        """Return the product with scores, sparse if they are."""
        return self.csr @ scores if sparse.issparse(scores) else self._matmat(scores)

    def replace(self, diagonal: Array, strength: float) -> "GraphMatrix":
        """Return the matrix with another diagonal and strength."""
        return GraphMatrix(self.adjacency, diagonal, strength, self.root)

    @property
    def edges(self) -> sparse.csr_array:
        """The entries off the diagonal; of a worker's rows, those of the halo come last."""
        rows = self.adjacency.tocsr()
        root = np.asarray(self.root)
        others = self.sweep.with_halo(self.root)[rows.indices]
        data = -self.strength * rows.data * np.repeat(root, np.diff(rows.indptr)) * others
        return sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)

    @lazy_property
    def csr(self) -> sparse.csr_array:
        """The matrix with every entry stored."""
        matrix = sparse.csr_array(sparse.diags_array(self.diagonal) + self.edges)
        matrix.sort_indices()
        return matrix


def like(vector: Array, scores: NDArray[Any]) -> NDArray[Any]:
    """Return a vector in the float type of the scores."""
    return vector.astype(np.float32) if scores.dtype == np.float32 else vector


def columnwise(vector: Array, scores: NDArray[Any]) -> NDArray[Any]:
    """Return a vector in the float type of the scores, shaped to multiply each of their columns."""
    vector = like(vector, scores)
    return vector if scores.ndim == 1 else vector[:, None]


#: Largest eigenvalues of each graph's I + λL, by λ and Laplacian.
_eigenvalues: WeakKeyDictionary[Any, dict[tuple[float, bool], float]] = WeakKeyDictionary()


class LaplacianSystem:
    """I + λL, with L = D − A or, normalised, L̂ = I − Ŝ, Ŝ = D̃^{-1/2}(A+I)D̃^{-1/2}."""

    def __init__(self, graph: Graph, lam: float, normalized: bool) -> None:
        self._graph = graph
        self.n_nodes = graph.n_nodes
        self.lam = lam
        self.normalized = normalized
        self.degrees = graph.degrees
        self.signed = graph.is_signed
        root = 1.0 / np.sqrt(graph.degrees + 1.0) if normalized else None
        #: Of I + λL.
        self.diagonal = 1.0 + lam * graph.degrees if root is None else 1.0 + lam - lam * root**2
        self.matrix = GraphMatrix(graph.adjacency, self.diagonal, lam, root)

    @property
    def upper(self) -> float:
        """σ of Lemma 1: the largest eigenvalue of I + λL, or up to one percent more.

        Of a subgraph, that of the graph it is a part of. Lanczos approaches it from below, hence
        the percent; Gershgorin's circles are a bound that needs no iteration, and the answer where
        Lanczos does not converge.
        """
        parent = self._graph.parent
        key = (self.lam, self.normalized)
        eigenvalues = _eigenvalues.setdefault(parent, {})
        return compute_once(
            eigenvalues, key, lambda: LaplacianSystem(parent, *key)._largest_eigenvalue()
        )

    def _largest_eigenvalue(self) -> float:
        degree = 1.0 if self.normalized else float(self.degrees.max(initial=0.0))
        gershgorin = 1.0 + 2.0 * self.lam * degree
        if isinstance(self.degrees, ShardedArray):
            return min(gershgorin, 1.01 * _lanczos(self.matrix, self.degrees))
        if self.n_nodes < 50:
            return min(gershgorin, float(np.linalg.eigvalsh(self.matrix.csr.toarray())[-1]))
        start = np.random.default_rng(0).standard_normal(self.n_nodes)
        options = {"which": "LA", "v0": start, "tol": 1e-3, "return_eigenvectors": False}
        try:
            top = eigsh(self.matrix, k=1, **options)[0]
        except ArpackError:
            return gershgorin
        return min(gershgorin, 1.01 * float(top))


def _lanczos(matrix: GraphMatrix, like_nodes: AnyArray) -> float:
    """The largest eigenvalue, by Lanczos's recurrence: all that ARPACK does not do in shards."""
    random = np.random.default_rng(0)
    vector = np.asarray(random.standard_normal(len(like_nodes)), like=like_nodes)
    previous = np.zeros_like(vector)
    length = float(np.sqrt((vector * vector).sum()))
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    top = 0.0
    for _ in range(MOST_LANCZOS):
        vector = vector / length
        image = matrix.times(vector) - (length * previous if diagonal else 0.0)
        diagonal.append(float((vector * image).sum()))
        image = image - diagonal[-1] * vector
        last = top
        ends = {"select": "i", "select_range": (len(diagonal) - 1,) * 2}
        top = float(eigvalsh_tridiagonal(diagonal, off_diagonal, **ends)[0])
        length = float(np.sqrt((image * image).sum()))
        if length <= 1e-12 * top or abs(top - last) <= 1e-7 * top:
            break
        off_diagonal.append(length)
        previous = vector
        vector = image
    return top
