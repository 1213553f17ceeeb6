"""Robust smoothing (14), ‖Z−f‖² + λ Σ_E a_ij ρ(‖z_i−z_j‖²) with ρ concave.

Edges between dissimilar nodes are down-weighted. A concave ρ lies below its tangents, so the energy
with weights w_ij = ρ'(‖z_i−z_j‖²), the quadratic energy (2) on a reweighted graph, lies above it
and touches it at the present Z: a step down the one is a step down the other. The weights are
computed anew at each step: iteratively reweighted least squares, a form of attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost._common import Array, IntArray, check_number
from ebboost.graph import Graph
from ebboost.smoothing import Operator, Scores, Smoother, laplacian_system, largest_eigenvalue

# Scale in standard deviations of the labels. The scores f that smoothing starts from vary more than
# the labels, as the mean of neighbours varies less: 1 would cut edges that help.
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
    """Weights of the edges under robust smoothing, each edge once, by rows."""

    source: IntArray  # of the two nodes the first
    target: IntArray
    weight: Array  # by which the edge's own weight is multiplied: 1 as it is, 0 cut


@dataclass(eq=False, repr=False)
class Robust(Smoother):
    """Robust smoothing: neighbours are drawn towards each other, the less the more they differ.

    For graphs in which some edges are spurious or join dissimilar nodes (heterophily). The steps
    are those of :class:`ebboost.Laplacian` on a graph whose weights are a_ij ρ'(‖z_i−z_j‖²), the
    norm over all outputs. Each lowers the energy.

    Parameters
    ----------
    lam : float, default=2.0
        λ, as in :class:`ebboost.Laplacian`.
    n_steps : int, default=5
        k, the number of steps from Z⁰ = f.
    penalty : {"log", "sqrt", "geman-mcclure", "truncated"} or float, default="log"
        ρ, by how it treats an edge across which scores differ by many times σ. With
        t = ‖z_i−z_j‖²/σ² its weight ρ' is 1/√(1+t) for ``"sqrt"``, 1/(1+t) for ``"log"``, 1/(1+t)²
        for ``"geman-mcclure"``, and 1 or 0 on either side of t = 1 for ``"truncated"``. A number p,
        0 < p ≤ 2, is the ℓp penalty with weight (1+t)^{p/2−1}: 1 is ``"sqrt"``, 2 the quadratic
        energy.
    scale : float or "auto", default="auto"
        σ, the difference at which the weight of an edge begins to fall, in units of the scores: of
        y for squared error, of log-odds for classes. ``"auto"`` takes three times the standard
        deviation of the labels in these units, once, so that the objective stays a fixed function
        of f.
    normalized : bool, default=True
        Couple z_i/√d̃_i as the normalised Laplacian does. Differences are then those of
        (d̃_j/d̃_i)^¼ z_i and (d̃_i/d̃_j)^¼ z_j, again in units of the scores.

    Notes
    -----
    Z = P_w f with a P_w that depends on the weights, and they on f. When the loss is pulled back to
    f (8), the weights are *frozen* at those that led to the present Z: the gradient is P_wᵀ ∂ℓ/∂f̃,
    that of the loss in which the weights do not change with f. (It is the gradient of the loss
    itself for ``"truncated"``, and as ``scale`` → ∞.) P_w has no negative entry and a norm of at
    most 1, so that gradient and curvature belong to one parabola, and trees gain nothing by driving
    scores apart in order to cut an edge. Descent is no theorem then, but enforced: steps are halved
    until the true loss, with weights computed anew, does not rise. For :class:`PaperRegressor` and
    :class:`PaperClassifier` only.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> path = eb.Graph.from_edges([0, 1], [1, 2])
    >>> P = eb.paper.Robust(lam=2.0, penalty="log", scale=1.0).operator(path)
    >>> P.edge_weights(np.array([0.0, 0.1, 9.0])).weight.round(3).tolist()
    [0.995, 0.01]
    """

    lam: float = 2.0
    n_steps: int = 5
    _: KW_ONLY
    penalty: str | float = "log"
    scale: float | str = "auto"
    normalized: bool = True

    def operator(self, graph: Graph) -> RobustOperator:
        """Return f ↦ Z on a graph."""
        return RobustOperator(self, graph, self._derivative())

    def join(
        self, scores: Scores, edges: sparse.csr_array, near: Scores, degrees: NDArray[np.float64]
    ) -> Scores:
        """Return scores of the new nodes after k reweighted steps; see :meth:`Smoother.join`."""
        derivative = self._derivative()
        links = edges.tocoo()
        rows, nodes = links.coords
        own = np.asarray(edges.sum(axis=1)).ravel()
        left, right = np.ones(own.size), np.ones(degrees.size)
        if self.normalized:
            left, right = 1.0 / np.sqrt(own + 1.0), 1.0 / np.sqrt(degrees + 1.0)
        alpha = 1.0 / (1.0 + self.lam * (1.0 if self.normalized else own.max(initial=0.0)))
        balance = np.sqrt(left[rows] / right[nodes])[:, None]
        coupling = self.lam * links.data * left[rows] * right[nodes]
        of_row = sparse.csr_array(
            (np.ones(rows.size), (rows, np.arange(rows.size))), (own.size, rows.size)
        )
        z = scores
        for _ in range(self.n_steps):
            gap = balance * z[rows] - near[nodes] / balance
            weight = coupling * derivative((gap**2).sum(axis=1) / float(self.scale) ** 2)
            pull = weight[:, None] * (near[nodes] - balance**2 * z[rows])
            z = z - alpha * (z - scores - of_row @ pull)
        return z

    def _derivative(self) -> Derivative:
        """ρ', all parameters checked."""
        check_number("lam", self.lam, low=0.0)
        check_number("n_steps", self.n_steps, low=0, integer=True)
        if self.scale == "auto":
            raise ValueError(
                "scale must be a number > 0: only eb.paper.PaperRegressor and PaperClassifier can "
                "fill 'auto' in."
            )
        check_number("scale", self.scale, low=0.0, closed="neither")
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


class RobustOperator(Operator):
    """The map f ↦ Z of k reweighted steps on one graph; not linear."""

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
            self.alpha = 1.0 / largest_eigenvalue(laplacian_system(graph, self.lam, False))
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

    def linearize(self, scores: Scores) -> Reweighted:
        """Return P_w with the weights that ``scores`` lead to: P_w applied to them is Z."""
        return Reweighted(self, scores)

    def apply(self, scores: Scores) -> Scores:
        """Return Z after k steps from ``scores``."""
        return self.linearize(scores).smoothed

    def adjoint(self, gradient: Scores) -> Scores:
        """Raise ValueError: there is none."""
        raise ValueError(
            "Robust smoothing is not linear: use eb.paper.PaperRegressor or PaperClassifier to fit "
            "with it; its predictions have no exact explanation."
        )

    def edge_weights(self, scores: Scores) -> EdgeWeights:
        """Return the mean weight of each edge over the steps from ``scores``."""
        return EdgeWeights(self.source, self.target, self.linearize(scores).attention)

    def weights(self, z: Array) -> Array:
        """Return ρ'(‖z_i−z_j‖²) of every edge, a column at a time to bound the memory."""
        total = np.zeros(self.source.size)
        for column in z.T:
            gap = self._left * column[self.source] - self._right * column[self.target]
            total += gap * gap
        return self._derivative(total / self._scale**2)

    def step(self, weight: Array) -> sparse.csr_array:
        """Return I − α(I + λL_w) for edge weights w."""
        data = (self.alpha * self.lam * self._coupling * weight)[self._edge]
        matrix = sparse.csr_array((data, self._pattern.indices, self._pattern.indptr), self.shape)
        # The diagonal of λL_w is λ r_i² Σ_j a_ij w_ij: row sums of the same matrix, with r_j
        # divided out and r_i multiplied in.
        diagonal = 1.0 - self.alpha - self._root * (matrix @ (1.0 / self._root))
        return sparse.csr_array(matrix + sparse.diags_array(diagonal))


class Reweighted(Operator):
    """P_w of k steps Z ← Z − α[(I+λL_w)Z − f], each with the weights of its own Z, frozen.

    A product of different symmetric steps, each without negative entries and with a norm of at most
    1 − α, so that ‖P_w‖ ≤ (1−α)^k + α Σ_{t<k} (1−α)^t = 1.
    """

    def __init__(self, operator: RobustOperator, scores: Scores) -> None:
        self._alpha = operator.alpha
        self._steps: list[sparse.csr_array] = []
        n_steps = operator.n_steps
        #: The mean weight of each edge over the steps.
        self.attention = np.full(operator.source.size, 0.0 if n_steps else 1.0)
        z = f = np.asarray(scores, dtype=np.float64)
        for _ in range(n_steps):
            weight = operator.weights(z.reshape(len(z), -1))
            self.attention += weight / n_steps
            self._steps.append(operator.step(weight))
            z = self._alpha * f + self._steps[-1] @ z
        #: Z, the smoothed scores.
        self.smoothed = z

    def apply(self, scores: Scores) -> Scores:
        """Return the scores after k steps with the frozen weights."""
        z = scores
        for step in self._steps:
            z = self._alpha * scores + step @ z
        return z

    def adjoint(self, gradient: Scores) -> Scores:
        """Return P_wᵀ g, the steps in reverse: each is symmetric, their product is not."""
        total = np.zeros_like(gradient)
        for step in reversed(self._steps):
            total = total + gradient
            gradient = step @ gradient
        return gradient + self._alpha * total
