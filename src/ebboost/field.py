"""The latent field z ~ N(0, Q⁻¹), Q = λL + τI: what known labels say about their neighbours.

Scores of rows are η = fixed + P f + S z, with S the node of each row: several rows may share one,
and a row that belongs to several groups has a node of each.
Given P f, the field minimises E(z) = Σ w ℓ(η) + ½ zᵀ Q z over the labelled rows. For squared error
and one row a node this is equation (15): z = K W e with K = (W + Q)⁻¹.
"""

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ebboost._common import Array, IntArray, check_number
from ebboost.arrays import here, there
from ebboost.data.labels import Labels
from ebboost.graph import Graph
from ebboost.linalg import SMALL, Solver, Structure, conjugate_gradients, preconditioner
from ebboost.losses import Loss
from ebboost.sums import total

# Least τ: systems must stay positive definite.
MIN_TAU = 1e-300
MAX_STRENGTH = 1e100
# The mode is found once the gradient of E has fallen by this factor, or E no longer falls by more
# than this share in a Newton step; systems of a step are solved to the third.
MODE_TOLERANCE = 1e-8
MIN_DECREASE = 1e-15
STEP_TOLERANCE = 1e-3
MAX_STEPS = 100
MAX_HALVINGS = 30
# Least and largest multiple of a Newton step by the secant rule.
STEP_SIZES = (0.1, 4.0)
# Draws from the posterior that variances are estimated from: the fewest, the most, and in between
# draws times entries of the system. A user's data may be drawn with a seed such as 0.
DRAWS = (16, 200)
DRAWN_NUMBERS = 2_000_000
SEED = (8191, 127, 31)
DRAW_TOLERANCE = 1e-3


@dataclass(eq=False, repr=False)
class LatentField(BaseEstimator):
    """A latent field over the graph, informed by known labels.

    Parameters
    ----------
    lam : float, default=2.0
        λ, the weight of differences between neighbours. Edge weights are divided by √(d_i d_j)
        first, so that one value suits sparse and dense graphs.
    tau : float, default=0.05
        τ, the weight of the field itself, which shrinks it to zero: a node far from labelled nodes
        is predicted by the trees alone.

    Examples
    --------
    >>> import ebboost as eb
    >>> model = eb.EBBSRegressor(smoothing=eb.Laplacian(1.0, 2), labels=eb.LatentField(lam=5.0))
    """

    lam: float = 2.0
    tau: float = 0.05

    def prior(self, graph: Graph) -> "Prior":
        """Return the precision matrix λL + τI on a graph.

        Parameters
        ----------
        graph : Graph

        Returns
        -------
        Prior
        """
        self.check()
        laplacian, structure = field_laplacian(graph)
        data = self.lam * laplacian.data
        data[structure.diagonal] += self.tau
        return Prior(structure, data)

    def check(self) -> None:
        """Raise ValueError if a strength is out of range."""
        check_number("LatentField: lam", self.lam, low=0.0, high=MAX_STRENGTH)
        check_number("LatentField: tau", self.tau, low=MIN_TAU, high=MAX_STRENGTH)

    def scaled(self, factor: float) -> "LatentField":
        """Return a field with strengths times a factor, rounded to three digits.

        Parameters
        ----------
        factor : float

        Returns
        -------
        LatentField
        """
        lam, tau = float(f"{factor * self.lam:.3g}"), float(f"{factor * self.tau:.3g}")
        return LatentField(min(lam, MAX_STRENGTH), min(max(tau, MIN_TAU), MAX_STRENGTH))


#: L and its structure, of each graph that had a field.
laplacians: WeakKeyDictionary[Graph, tuple[sparse.csr_array, Structure]] = WeakKeyDictionary()


def field_laplacian(graph: Graph) -> tuple[sparse.csr_array, Structure]:
    """Return the Laplacian and its structure, found once for a graph."""
    if graph not in laplacians:
        laplacian = normalized_laplacian(graph)
        laplacians[graph] = (laplacian, Structure(laplacian))
    return laplacians[graph]


def normalized_laplacian(graph: Graph) -> sparse.csr_array:
    """Return L, the Laplacian of D^{-1/2}AD^{-1/2}, with every entry of the diagonal stored.

    A node without edges has a 1 on the diagonal: it is shrunk as if it had one neighbour.
    """
    degrees = graph.degrees
    scale = sparse.diags_array(1.0 / np.sqrt(np.where(degrees > 0, degrees, 1.0)))
    weights = scale @ graph.adjacency @ scale
    sums = np.asarray(weights.sum(axis=1)).ravel()
    diagonal = sparse.diags_array(np.where(degrees > 0, sums, 1.0))
    laplacian = sparse.csr_array(diagonal - weights)
    laplacian.sort_indices()
    return laplacian


class Prior:
    """A precision matrix Q on the nodes of a graph."""

    def __init__(self, structure: Structure, data: Array) -> None:
        self.structure = structure
        self.data = data
        self.matrix = structure.matrix(data)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.matrix.n_rows

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal of Q."""
        return self.data[self.structure.diagonal]

    def noise(self, random: np.random.Generator, count: int) -> Array:
        """Return ``count`` columns of random numbers with covariance Q.

        A column is Bᵀe with Q = BᵀB and standard normal e: B has a row for each edge, and one for
        each node with what is left of the diagonal.
        """
        matrix = self.matrix.matrix
        upper = sparse.triu(matrix, 1, format="coo")
        low, high = upper.coords
        weight = np.sqrt(np.abs(upper.data))
        ends = (np.tile(np.arange(low.size), 2), np.concatenate([low, high]))
        values = np.concatenate([weight, np.sign(upper.data) * weight])
        incidence = sparse.csr_array((values, ends), shape=(low.size, self.n_nodes))
        sums = np.asarray(incidence.power(2).sum(axis=0)).ravel()
        rest = np.sqrt(np.maximum(matrix.diagonal() - sums, 0.0))
        noise = incidence.T @ random.normal(size=(low.size, count))
        return noise + rest[:, None] * random.normal(size=(self.n_nodes, count))

    def system(self, on_nodes: Array, near: Solver | None = None, once: bool = False) -> Solver:
        """Return the solver of Q + diag(h), for h of shape (n_nodes,)."""
        data = self.data.copy()
        data[self.structure.diagonal] += on_nodes
        return Solver(self.structure, data, near, once)


def at(z: Array, nodes: Any) -> Array:
    """Return S z: the value of each row's node; of ``nodes`` of shape (m, k), sums of k values.

    In sums −1 is no node.
    """
    if getattr(nodes, "ndim", 1) == 1:
        return z[nodes]
    padded = np.concatenate([z, np.zeros_like(z[:1])])
    return sum((padded[column] for column in nodes.T[1:]), padded[nodes.T[0]])


class Posterior:
    """The field given labels: ``nodes`` are those of the labelled rows, with repeats.

    Systems are (SᵀHS + Q) x = b, with H the curvatures of the loss at the labels.
    """

    _crossing: Any = None

    def __init__(self, prior: Prior, nodes: IntArray) -> None:
        self.prior = prior
        self.nodes = nodes
        self._is_unique = nodes.ndim == 1 and bool(np.bincount(nodes, minlength=1).max() <= 1)
        is_crossed = nodes.ndim == 2 and nodes.size > 0
        if is_crossed:
            from ebboost.groups import Crossing

            self._crossing = Crossing(prior.structure, nodes)

    def with_prior(self, prior: Prior) -> Self:
        """Return the posterior of another prior on the same graph."""
        result = copy(self)
        result.prior = prior
        return result

    @property
    def structure(self) -> Structure:
        """The pattern of the systems."""
        return (self.prior if self._crossing is None else self._crossing).structure

    def sums(self, values: Array) -> Array:
        """Return Sᵀv: sums over the labels of each node, of values of shape (m, c)."""
        if self._is_unique:
            result = np.zeros_like(values, shape=(self.prior.n_nodes, values.shape[1]))
            result[self.nodes] = values
            return result
        n_nodes = self.prior.n_nodes
        if self.nodes.ndim == 2:
            values = np.repeat(values, self.nodes.shape[1], axis=0)
        return np.column_stack([np.bincount(self.nodes.ravel(), v, n_nodes) for v in values.T])

    def solver(self, curvature: Array, near: Solver | None = None, once: bool = False) -> Solver:
        """Return the solver of SᵀHS + Q, for H of shape (m, 1)."""
        on_nodes = self.sums(curvature)[:, 0]
        if self._crossing is None:
            return self.prior.system(on_nodes, near, once)
        data = self.prior.data.copy()
        data[self.prior.structure.diagonal] += on_nodes
        data = self._crossing.data(data, curvature[:, 0])
        return Solver(self._crossing.structure, data, near, once)

    def coupled(self, curvature: Array, on_nodes: Array, v: Array) -> Array:
        """Return SᵀHS v, whose diagonal is ``on_nodes``."""
        return on_nodes * v if self.nodes.ndim == 1 else self.sums(curvature * at(v, self.nodes))

    def solve(
        self, curvature: Array, right: Array, tolerance: float, near: Solver | None = None
    ) -> Array:
        """Solve one system for b of shape (n_nodes, c), each column with its own curvature."""
        if curvature.shape[1] == 1:
            return self.solver(curvature, near, once=True).solve(right, tolerance)
        on_nodes = self.sums(curvature)
        diagonal = on_nodes + self.prior.diagonal[:, None]

        def multiply(v: Array) -> Array:
            return self.prior.matrix.times(v) + self.coupled(curvature, on_nodes, v)

        return conjugate_gradients(multiply, right, preconditioner(diagonal, near), tolerance)


class FieldEnergy:
    """E as a function of z, for scores of the labelled rows without the field."""

    def __init__(self, posterior: Posterior, loss: Loss, labels: Labels) -> None:
        self.posterior = posterior
        self.loss = loss
        self.labels = labels
        self._weight = labels.weight[:, None]

    def value(self, scores: Array, z: Array, prior_z: Array) -> float:
        """Return E; ``prior_z`` is Qz."""
        values = self.loss.value(scores + at(z, self.posterior.nodes), self.labels.target)
        return float(total(self.labels.weight * values)) + 0.5 * float(total(z * prior_z))

    def gradient(self, scores: Array, z: Array, prior_z: Array) -> Array:
        """Return ∂E/∂z on all nodes."""
        own = self.loss.gradient(scores + at(z, self.posterior.nodes), self.labels.target)
        return prior_z + self.posterior.sums(self._weight * own)

    def curvature(self, scores: Array, z: Array) -> Array:
        """Return the weighted curvatures of the loss at the labels, shape (m, 1) or (m, c)."""
        eta = scores + at(z, self.posterior.nodes)
        own = self._weight * self.loss.curvature(eta, self.labels.target)
        return own

    def newton(
        self, scores: Array, z: Array, prior_z: Array, near: Solver | None = None
    ) -> tuple[Array, Array]:
        """Return z and Qz after one Newton step, halved until E does not rise."""
        gradient = self.gradient(scores, z, prior_z)
        curvature = self.curvature(scores, z)
        move = self.posterior.solve(curvature, -gradient, STEP_TOLERANCE, near)
        return self._along(scores, z, prior_z, gradient, move)

    def _along(
        self, scores: Array, z: Array, prior_z: Array, gradient: Array, move: Array
    ) -> tuple[Array, Array]:
        """The point along a move where a line through two derivatives is 0, if E falls there."""
        prior_move = self.posterior.prior.matrix @ move
        slope = float(total(gradient * move))
        after = self.gradient(scores, z + move, prior_z + prior_move)
        rise = float(total(after * move)) - slope
        size = 1.0
        if np.isfinite(rise) and rise > 0.0:
            size = float(np.clip(-slope / rise, *STEP_SIZES))
        before = self.value(scores, z, prior_z)
        for _ in range(MAX_HALVINGS):
            moved = (z + size * move, prior_z + size * prior_move)
            if self.value(scores, *moved) <= before:
                return moved
            size *= 0.5
        return z, prior_z

    def mode(
        self, scores: Array, tolerance: float = MODE_TOLERANCE, start: Array | None = None
    ) -> Array:
        """Return the z of least E on all nodes, by Newton's method along conjugate directions.

        Conjugate (Polak and Ribière), as the curvature of several outputs is not diagonal. The
        tolerance is that of ∂E/∂z as a share of ∂E/∂z at z = 0; ``start`` is a guess.
        """
        z = np.zeros_like(scores, shape=(self.posterior.prior.n_nodes, scores.shape[1]))
        prior_z = z.copy()
        limit = None
        if start is not None:
            limit = tolerance * float(np.sqrt(total(self.gradient(scores, z, prior_z) ** 2)))
            z, prior_z = start, self.posterior.prior.matrix @ start
        if self.loss.constant_curvature:
            right = -self.gradient(scores, z, prior_z)
            if limit is not None:
                tolerance = limit / max(float(np.sqrt(total(right**2))), 1e-300)
            return z + self.posterior.solve(self.curvature(scores, z), right, min(tolerance, 1.0))
        mean_curvature = self.curvature(scores, z).mean(axis=1, keepdims=True)
        near = self.posterior.solver(mean_curvature, once=True)
        last: tuple[Array, Array, float] | None = None  # move, Newton step, decrease
        value = self.value(scores, z, prior_z)
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(MAX_STEPS):
                gradient = self.gradient(scores, z, prior_z)
                size = float(np.sqrt(total(gradient**2)))
                limit = tolerance * size if limit is None else limit
                if not size > limit:
                    break
                curvature = self.curvature(scores, z)
                newton = self.posterior.solve(curvature, -gradient, STEP_TOLERANCE, near)
                decrease = max(-float(total(gradient * newton)), 1e-300)
                move = newton
                if last is not None:
                    change = decrease + float(total(gradient * last[1]))
                    move = newton + max(change / last[2], 0.0) * last[0]
                    move = newton if float(total(gradient * move)) >= 0.0 else move
                z, prior_z = self._along(scores, z, prior_z, gradient, move)
                last = (move, newton, decrease)
                before, value = value, self.value(scores, z, prior_z)
                if before - value <= MIN_DECREASE * abs(before):
                    break
        return z


def field_mode(
    posterior: Posterior,
    loss: Loss,
    labels: Labels,
    scores: Array,
    tolerance: float = MODE_TOLERANCE,
    start: Array | None = None,
) -> Array:
    """Return the field of labels on all nodes; see :meth:`FieldEnergy.mode`."""
    energy = FieldEnergy(there(posterior), loss, there(labels))
    return here(energy.mode(there(scores), tolerance, there(start)))


def posterior_variances(posterior: Posterior, curvature: Array, nodes: IntArray | None) -> Array:
    """Return the diagonal of (SᵀHS + Q)⁻¹, in units of the dispersion, at all or some nodes.

    Of ``nodes`` of shape (m, k), sums over the k nodes of a row, as if these were independent.
    Exact for few nodes. Else the mean variance of z_i given all others, 1/A_ii, plus that of its
    conditional mean over draws from the posterior: exact up to 1/√draws of the second part.
    """
    if nodes is not None and nodes.ndim == 2:
        return at(posterior_variances(posterior, curvature, None), nodes)
    posterior, curvature = there(posterior), there(curvature)
    solver = posterior.solver(curvature)
    n_nodes = posterior.prior.n_nodes
    wanted = np.arange(n_nodes) if nodes is None else nodes
    if not wanted.size:
        return np.zeros(0)
    if wanted.size <= DRAWS[0] or n_nodes <= SMALL:
        unit = np.zeros((n_nodes, wanted.size))
        unit[wanted, np.arange(wanted.size)] = 1.0
        return here(solver.solve(there(unit), DRAW_TOLERANCE**2))[wanted, np.arange(wanted.size)]
    count = int(np.clip(DRAWN_NUMBERS // posterior.prior.data.size, *DRAWS))
    random = np.random.default_rng(SEED)
    on_nodes = posterior.sums(curvature)
    noise = there(posterior.prior.noise(random, count))
    if posterior.nodes.ndim == 1:
        noise += np.sqrt(on_nodes) * there(random.normal(size=noise.shape))
    else:
        noise += posterior.sums(np.sqrt(curvature) * random.normal(size=(len(curvature), count)))
    draws = solver.solve(noise, DRAW_TOLERANCE)
    diagonal = posterior.prior.diagonal[:, None] + on_nodes
    image = posterior.prior.matrix @ draws + posterior.coupled(curvature, on_nodes, draws)
    conditional = draws - image / diagonal
    values = 1.0 / diagonal[:, 0] + (conditional**2).mean(axis=1)
    return here(values)[wanted]


def conditional_mean(
    field: LatentField,
    edges: sparse.csr_array,
    between: sparse.csr_array | None,
    z: Array,
    degrees: Array,
) -> tuple[Array, Array]:
    """Return the field of new nodes given that of the fitted ones, and its variance without theirs.

    ``edges`` of shape (m, n) lead to fitted nodes of these ``degrees``, ``between`` of shape (m, m)
    connect new nodes. The field of fitted nodes stays as it is.
    """
    if between is None:
        between = sparse.csr_array((edges.shape[0], edges.shape[0]))
    own = np.asarray(edges.sum(axis=1)).ravel() + np.asarray(between.sum(axis=1)).ravel()
    scale = 1.0 / np.sqrt(np.where(own > 0, own, 1.0))
    fitted_scale = 1.0 / np.sqrt(np.where(degrees > 0, degrees, 1.0))
    weights = sparse.csr_array(edges.multiply(scale[:, None]).multiply(fitted_scale[None, :]))
    inner = sparse.csr_array(between.multiply(scale[:, None]).multiply(scale[None, :]))
    sums = np.asarray(weights.sum(axis=1)).ravel() + np.asarray(inner.sum(axis=1)).ravel()
    diagonal = field.tau + field.lam * np.where(own > 0, sums, 1.0)
    right = field.lam * (weights @ z)
    if not inner.nnz:
        return right / diagonal[:, None], 1.0 / diagonal
    system = sparse.csr_array(sparse.diags_array(diagonal) - field.lam * inner)
    system.sort_indices()
    return Solver(Structure(system), system.data).solve(right), 1.0 / diagonal
