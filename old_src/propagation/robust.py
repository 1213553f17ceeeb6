"""Robust smoothing (14), ‖Z−f‖² + λ Σ_E a_ij ρ(‖z_i−z_j‖²) with ρ concave.

Edges between dissimilar nodes are down-weighted. A concave ρ lies below its tangents, so the energy
with weights w_ij = ρ'(‖z_i−z_j‖²), the quadratic energy (2) on a reweighted graph, lies above it
and touches it at the present Z: a step down the one is a step down the other. The weights are
computed anew at each step: iteratively reweighted least squares, a form of attention.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from ebboost.data.parameters import check_number
from ebboost.data.types import Array, IntArray
from ebboost.graph import Graph
from ebboost.propagation._matrix import LaplacianSystem
from ebboost.propagation.base import PropagationOperator, Smoother

#: Scale in standard deviations of the labels. 1 cut edges that help on County and House, 8 kept
#: edges on Wiki that do not.
AUTO_SCALE = 3.0


Derivative = Callable[[Array], Array]
#: ρ' of each penalty, as a function of t = ‖z_i−z_j‖²/σ²; ρ'(0) = 1 ≥ ρ'.
PENALTIES: dict[str, Derivative] = {
    "sqrt": lambda t: 1.0 / np.sqrt(1.0 + t),
    "log": lambda t: 1.0 / (1.0 + t),
    "geman-mcclure": lambda t: 1.0 / (1.0 + t) ** 2,
    "truncated": lambda t: np.where(t < 1.0, 1.0, 0.0),
}


class EdgeWeights(NamedTuple):
    """Weights of the edges under robust smoothing, each edge once, source < target, by rows.

    Attributes
    ----------
    source, target : ndarray of shape (n_edges,)
        Positions of the two nodes.
    weight : ndarray of shape (n_edges,)
        Factor of the edge's own weight, from 1, unchanged, to 0, cut.
    """

    source: IntArray
    target: IntArray
    weight: Array


@dataclass(eq=False, repr=False)
class Robust(Smoother):
    """Robust smoothing: neighbours are drawn towards each other, the less the more they differ.

    For graphs in which some edges are spurious or join dissimilar nodes (heterophily). The energy
    is ‖Z−f‖² + λ Σ_E a_ij ρ(‖z_i−z_j‖²), the norm over all outputs, and each of the ``n_steps``
    steps lowers it. The steps are those of :class:`Laplacian` on a graph whose weights are
    a_ij ρ'(‖z_i−z_j‖²): with ``scale`` → ∞ the two are equal.

    Parameters
    ----------
    lam : float, default=2.0
        λ, as in :class:`Laplacian`.
    n_steps : int, default=5
        k, the number of steps from Z⁰ = f.
    penalty : {"log", "sqrt", "geman-mcclure", "truncated"} or float, default="log"
        ρ, by how it treats an edge across which scores differ by many times σ. With
        t = ‖z_i−z_j‖²/σ² its weight ρ' is 1/√(1+t) for ``"sqrt"``, 1/(1+t) for ``"log"``,
        1/(1+t)² for ``"geman-mcclure"``, and 1 or 0 on either side of t = 1 for ``"truncated"``. A
        number p, 0 < p ≤ 2, is the ℓp penalty with weight (1+t)^{p/2−1}, rounded at 0: 1 is
        ``"sqrt"``, 2 the quadratic energy.
    scale : float or "auto", default="auto"
        σ, the difference at which the weight of an edge begins to fall, in units of the scores: of
        y for squared error, of log-odds for classes. ``"auto"`` takes three times the standard
        deviation of the training labels in these units, once, before the first round, so that the
        objective stays a fixed function of f. (Not less: the base scores f that smoothing starts
        from vary more than the labels, as the mean of neighbours varies less.)
    normalized : bool, default=True
        Couple z_i/√d̃_i as the normalised Laplacian does. Differences are then those of
        (d̃_j/d̃_i)^¼ z_i and (d̃_i/d̃_j)^¼ z_j, again in units of the scores.

    Notes
    -----
    Z is not linear in f, but Z = P_w f with a P_w that depends on the weights. When the loss is
    pulled back to f (8), the weights are *frozen* at those that led to the present Z, and the
    gradient is P_wᵀ ∂ℓ/∂f̃: the exact gradient of the loss in which the weights do not change with
    f, not of the loss itself (they agree for ``"truncated"``, whose weights are constant almost
    everywhere, and as ``scale`` → ∞). Frozen weights keep P_w free of negative entries and its norm
    at most 1, so that gradient and curvature belong to one parabola; and trees gain nothing by
    driving scores apart in order to cut an edge: differentiated through the weights, the validation
    error was a little larger on the data sets County and Wiki. Descent in every round is then no
    theorem but is enforced: steps are halved until the true loss, with its weights computed anew,
    does not rise.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> path = eb.Graph.from_edges([0, 1], [1, 2])
    >>> P = eb.Robust(lam=2.0, penalty="log", scale=1.0).operator(path)
    >>> P.edge_weights(np.array([0.0, 0.1, 9.0])).weight.round(3).tolist()
    [0.995, 0.01]
    """

    linear = False

    lam: float = 2.0
    n_steps: int = 5
    _: KW_ONLY
    penalty: str | float = "log"
    scale: float | str = "auto"
    normalized: bool = True

    def prepared(self, spread: Callable[[], float]) -> "Robust":
        """Return the smoother with its scale filled in."""
        if self.scale != "auto":
            return self
        return clone(self).set_params(scale=AUTO_SCALE * (spread() or 1.0))

    def hops(self, graph: Graph) -> int:
        """Return k."""
        return self.n_steps

    def operator(self, graph: Graph) -> "RobustOperator":
        """Return f ↦ Z on ``graph``."""
        check_number("lam", self.lam, low=0.0)
        check_number("n_steps", self.n_steps, low=0, integer=True)
        if self.scale == "auto":
            raise ValueError("scale must be a number > 0: only an estimator can fill 'auto' in.")
        check_number("scale", self.scale, low=0.0, closed="neither")
        if not isinstance(graph, Graph):
            raise ValueError(
                "eb.Robust reweights the edges in every step, on the CPU alone: use device='cpu', "
                "or eb.Laplacian() or eb.Kernel() with device='cuda'."
            )
        if graph.is_signed:
            raise ValueError(
                "eb.Robust weights edges by the similarity of their nodes: strengths of relations "
                "must not be negative."
            )
        return RobustOperator(self, graph, self._derivative())

    def _derivative(self) -> Derivative:
        if isinstance(self.penalty, str) and self.penalty in PENALTIES:
            return PENALTIES[self.penalty]
        try:
            check_number("penalty", self.penalty, low=0.0, high=2.0, closed="right")
        except ValueError:
            names = sorted(PENALTIES)
            problem = f"penalty must be one of {names} or a number p with 0 < p <= 2"
            raise ValueError(f"{problem}, got {self.penalty!r}.") from None
        exponent = float(self.penalty) / 2.0 - 1.0
        return lambda t: (1.0 + t) ** exponent


class RobustOperator:
    """The map f ↦ Z of k reweighted steps on one graph."""

    linear = False
    norm_bound = 1.0  # of P_w, whatever the weights

    def __init__(self, smoother: Robust, graph: Graph, derivative: Derivative) -> None:
        self.shape = (graph.n_nodes, graph.n_nodes)
        self.lam = float(smoother.lam)
        self.n_steps = smoother.n_steps
        self._derivative = derivative
        self._scale = float(smoother.scale)
        upper = sparse.triu(graph.adjacency, 1, format="csr").tocoo()
        self.source, self.target = upper.coords
        # As w ≤ 1, I + λL_w ≼ I + λL: a step that descends for the quadratic energy descends for
        # every reweighted one.
        if smoother.normalized:
            root = 1.0 / np.sqrt(graph.degrees + 1.0)
            self.alpha = 1.0 / (1.0 + self.lam)
        else:
            root = np.ones(graph.n_nodes)
            self.alpha = 1.0 / LaplacianSystem(graph, self.lam, False).upper
        # Differences in units of the scores are (z_i r_i − z_j r_j)/√(r_i r_j); the coupling makes
        # up for the division.
        self._left = np.sqrt(root[self.source] / root[self.target])
        self._right = 1.0 / self._left
        self._coupling = upper.data * root[self.source] * root[self.target]
        self._root = root
        # Both entries of each edge in a symmetric matrix, and the edge that each entry belongs to.
        numbered = sparse.csr_array((np.arange(1, upper.nnz + 1), upper.coords), shape=self.shape)
        self._pattern = sparse.csr_array(numbered + numbered.T)
        self._edge = self._pattern.data - 1

    def linearize(self, scores: NDArray[Any]) -> "Reweighted":
        """Return P_w with the weights that ``scores`` lead to: P_w @ scores is Z."""
        return Reweighted(self, scores)

    def apply(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return Z after k steps from ``scores``."""
        return self.linearize(scores).smoothed

    def edge_weights(self, scores: NDArray[Any]) -> EdgeWeights:
        """Return the mean weight of each edge over the steps from ``scores``."""
        return EdgeWeights(self.source, self.target, self.linearize(scores).attention)

    def weights(self, z: Array) -> Array:
        """Return ρ'(‖z_i−z_j‖²) of every edge, a column at a time to bound the memory."""
        total = np.zeros(self.source.size)
        for column in z.T:
            gap = self._left * column[self.source] - self._right * column[self.target]
            total += gap * gap
        return self._derivative(total / self._scale**2)

    def reweighted(self, weight: Array) -> tuple[sparse.csr_array, Array]:
        """Return I − α(I + λL_w) for edge weights w: the matrix off its diagonal, and that."""
        data = (self.alpha * self.lam * self._coupling * weight)[self._edge]
        structure = (self._pattern.indices, self._pattern.indptr)
        matrix = sparse.csr_array((data, *structure), shape=self.shape)
        # The diagonal of λL_w is λ r_i² Σ_j a_ij w_ij: row sums of the same matrix, with r_j
        # divided out and r_i multiplied in.
        diagonal = 1.0 - self.alpha - self._root * (matrix @ (1.0 / self._root))
        return matrix, diagonal[:, None]


class Reweighted(PropagationOperator):
    """P_w of k steps Z ← Z − α[(I+λL_w)Z − f], each with the weights of its own Z, frozen.

    A product of different symmetric steps, each without negative entries and with norm at most
    1 − α (normalised: the spectrum of L_w lies in [0, 2]; plain: α ≤ 1/‖I+λL‖), so that
    ‖P_w‖ ≤ (1−α)^k + α Σ_{t<k} (1−α)^t = 1.
    """

    norm_bound = 1.0
    nonnegative = True

    def __init__(self, operator: RobustOperator, scores: NDArray[Any]) -> None:
        super().__init__(operator.shape[0])
        self._alpha = operator.alpha
        self._scores = scores
        self._steps: list[tuple[sparse.csr_array, Array]] = []
        n_steps = operator.n_steps
        #: The mean weight of each edge over the steps.
        self.attention = np.full(operator.source.size, 0.0 if n_steps else 1.0)
        z = f = _columns(scores)
        for _ in range(n_steps):
            weight = operator.weights(z)
            self.attention += weight / n_steps
            self._steps.append(operator.reweighted(weight))
            z = self._alpha * f + _step(self._steps[-1], z)
        #: Z, the smoothed scores.
        self.smoothed = _like(scores, z)

    def apply(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the scores after k steps with the frozen weights."""
        if scores is self._scores:
            return self.smoothed
        z = f = _columns(scores)
        for step in self._steps:
            z = self._alpha * f + _step(step, z)
        return _like(scores, z)

    def adjoint(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Return P_wᵀ g, the steps in reverse: each is symmetric, their product is not."""
        g = _columns(gradient)
        total = np.zeros_like(g)
        for step in reversed(self._steps):
            total += g
            g = _step(step, g)
        return _like(gradient, g + self._alpha * total)


def _step(step: tuple[sparse.csr_array, Array], z: Array) -> Array:
    off_diagonal, diagonal = step
    image: Array = off_diagonal @ z
    image += diagonal * z
    return image


def _columns(scores: NDArray[Any]) -> Array:
    """(n,) or (n, c) of any float type as (n, c) of float64."""
    return np.asarray(scores, dtype=np.float64).reshape(len(scores), -1)


def _like(scores: NDArray[Any], columns: Array) -> NDArray[Any]:
    """Columns in the shape of scores, and in float32 if they are."""
    dtype = np.float32 if scores.dtype == np.float32 else np.float64
    return columns.reshape(scores.shape).astype(dtype)
