"""The lemmas, Theorem 1 and Corollary 1 of the paper as numbers, and a fit compared with them.

The bounds are those that can be proved; the page *Theory* lists where the appendix prints others.
Losses here are halved, ½‖P f − y‖² + ½ε‖f‖². Trees are fitted, and steps measured, in the norm
‖v‖²_D = Σ d_i v_i² of the curvature D that majorises the Hessian. There the loss is 1-smooth,
and both proofs hold word for word with σ = 1. A step found by line search descends at least as far.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from ebboost._common import Array, IntArray, check_number
from ebboost.boosting import TOLERANCE, Point
from ebboost.data.reader import TableReader
from ebboost.field import Posterior
from ebboost.graph import Graph
from ebboost.learners import as_learner
from ebboost.linalg import conjugate_gradients
from ebboost.losses import SquaredError
from ebboost.model import Model
from ebboost.paper.encoding import EncodedFeatures
from ebboost.paper.estimators import PaperEBBS
from ebboost.paper.masked import ShownLabels
from ebboost.paper.momentum import CorrectedMomentum, as_momentum, project_on_tree
from ebboost.paper.objectives import PenalizedObjective
from ebboost.paper.robust import Robust
from ebboost.paper.steps import Iteration, contraction
from ebboost.smoothing import Identity, Laplacian, Operator, Smoother

DENSE_UP_TO = 50  # labelled rows whose singular values come from a dense matrix
# Of conjugate gradients for the optimum of Corollary 1; a loose optimum would only loosen its
# bound.
OPTIMUM_TOLERANCE = 1e-8


@dataclass(frozen=True)
class Constants:
    """The constants of Lemmas 1–3 for a smoother on a graph."""

    mu: float  # the ends of the spectrum of I + λL (Lemma 1); μ is 1 for every graph
    sigma: float
    n_steps: int | None  # k; None for the exact inverse
    rate: float  # by which a step shrinks ‖P^(k) − P*‖₂ in the limit
    c: float  # the exponent of Theorem 1: that norm falls as e^{−ck}
    error: float  # a bound on that norm, equation (26)
    sigma_k: float  # σ^(k), the smoothness of ½‖P f − y‖² + ½ε‖f‖² at the labels (Lemmas 2, 3)


def constants(
    graph: Graph, smoother: Smoother, nodes: ArrayLike | None = None, penalty: float = 0.0
) -> Constants:
    """Return the constants of Lemmas 1–3.

    Parameters
    ----------
    graph : Graph
    smoother : Laplacian, Jacobi or Chebyshev
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
    >>> result = eb.paper.convergence.constants(path, eb.Laplacian(1.0, 10, normalized=False))
    >>> result.mu, round(result.sigma, 6), round(result.c, 6)
    (1.0, 4.0, 0.287682)
    """
    bound = contraction(smoother, graph)
    operator = smoother.operator(graph)
    n_steps = getattr(operator, "n_steps", None)
    labelled = np.arange(graph.n_nodes) if nodes is None else np.asarray(nodes)
    return Constants(
        mu=1.0,
        sigma=bound.sigma,
        n_steps=n_steps,
        rate=bound.rate,
        c=-float(np.log(bound.rate)) if bound.rate > 0 else float("inf"),
        error=0.0 if n_steps is None else bound.error(n_steps),
        sigma_k=_largest_squared_singular_value(operator, graph.n_nodes, labelled) + penalty,
    )


def _largest_squared_singular_value(operator: Operator, n_nodes: int, nodes: IntArray) -> float:
    """The largest eigenvalue of P_L P_Lᵀ, P_L the labelled rows."""

    def product(values: Array) -> Any:
        on_nodes = np.zeros(n_nodes)
        on_nodes[nodes] = values.ravel()
        return operator.apply(operator.adjoint(on_nodes))[nodes]

    m = nodes.size
    if m < DENSE_UP_TO:
        return float(np.linalg.eigvalsh(np.column_stack([product(row) for row in np.eye(m)]))[-1])
    start = np.random.default_rng(0).standard_normal(m)
    squared = LinearOperator((m, m), matvec=product, dtype=np.float64)
    return float(eigsh(squared, k=1, which="LA", v0=start, tol=1e-6, return_eigenvectors=False)[0])


def minimum_cosine(
    learner: object,
    X: object,
    *,
    curvature: ArrayLike | None = None,
    n_draws: int = 20,
    seed: int = 0,
) -> float:
    """Estimate Γ (20), the minimum cosine angle of a learner on a table, from random gradients.

    Γ is the smallest cosine, over *all* gradients, between a negative gradient and the tree grown
    on it. This is the smallest over ``n_draws`` draws of normal noise: more than Γ, never less, and
    so a number to compare learners and tables by, not a proof. Noise is hard to fit; the gradients
    of a fit begin easier (``model.history_["cosine"]``) and become like it.

    Parameters
    ----------
    learner : str or Learner
    X : table
    curvature : array-like of shape (n,), optional
        The norm to measure in: a weight for each row. Default: all 1, as in the paper.
    n_draws : int, default=20
        Number of random gradients.
    seed : int, default=0
        Seed of the gradients and of the learner.

    Returns
    -------
    float

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> stumps, trees = (eb.LightGBM(leaves, min_child_samples=1) for leaves in (2, 100))
    >>> eb.paper.convergence.minimum_cosine(stumps, X) < 0.2
    True
    >>> eb.paper.convergence.minimum_cosine(trees, X) > 0.6
    True
    """
    table = TableReader().fit(X)
    weight = np.ones(table.n_rows) if curvature is None else np.asarray(curvature, dtype=np.float64)
    if weight.shape != (table.n_rows,) or not (weight >= 0).all():
        raise ValueError(
            f"curvature must be {table.n_rows} numbers of at least 0, one for each row of X."
        )
    rows = np.arange(table.n_rows)
    binned = as_learner(learner).bin(table, rows, n_outputs=1, n_jobs=1, device="cpu")
    grower = binned.grower(seed)
    random = np.random.default_rng(seed)
    smallest = 1.0
    for _ in range(n_draws):
        gradient = weight[:, None] * random.standard_normal((table.n_rows, 1))
        tree = grower.grow(gradient, weight[:, None])
        if tree is None:
            return min(smallest, 0.0)
        smallest = min(smallest, project_on_tree(gradient, weight[:, None], tree)[1])
    return smallest


def largest_phi(gamma: float) -> float:
    """Return Γ⁴/(4+Γ²), the largest momentum parameter φ for which Theorem 1 is proved.

    Parameters
    ----------
    gamma : float
        Γ, between 0 and 1.

    Returns
    -------
    float

    Examples
    --------
    >>> import ebboost as eb
    >>> eb.paper.convergence.largest_phi(1.0)
    0.2
    """
    check_number("gamma", gamma, low=0.0, high=1.0)
    return float(gamma**4 / (4.0 + gamma**2))


def theorem_1(
    rounds: ArrayLike,
    distance: float,
    phi: float,
    *,
    sigma: float = 1.0,
    learning_rate: float = 1.0,
) -> Array:
    """Return the bound 2σ‖f*‖²/(νφ(t+1)²) on ℓ(f_t) − ℓ(f*) with corrected momentum, t ≥ 1.

    It holds if φ ≤ Γ⁴/(4+Γ²), for the optimum f* and, with the least loss so far for ℓ(f_t), for
    *every* f* in the span of the learners. The error of P^(k) comes on top of it.

    Parameters
    ----------
    rounds : array-like of int
        t.
    distance : float
        ‖f*‖, from f⁰ = 0.
    phi : float
        φ.
    sigma : float, default=1.0
        σ^(k), if the distance is Euclidean; 1 in the norm of the curvature.
    learning_rate : float, default=1.0
        ν, the share taken of the step 1/σ.

    Returns
    -------
    ndarray

    Notes
    -----
    The proof in short, with η = ν/σ and r the negative gradient at g. A round descends by ηΓ²‖r‖²/2
    at least, and convexity at g gives Δ' ≤ (1−θ)Δ + θ⟨r, f* − h⟩ − ηΓ²‖r‖²/2 for Δ = ℓ(f) − ℓ(f*).
    Let e be what the second tree missed of its target. Then ĥ = h + (φη/θ)e takes exact steps, ĥ' =
    ĥ + (φη/θ)r, so that Δ/θ² + ‖f* − ĥ‖²/(2φη) falls but for sums of (η/2)(φ‖R‖² + 2φ⟨R, E⟩ −
    Γ²‖R‖²) with R = r/θ and E = e/θ of the round before. As ‖E'‖² ≤ (1−Γ²)‖R + E‖², Σ‖E‖² is at
    most 4Σ‖R‖²/Γ⁴, and those sums are not positive if φ(1 + 4/Γ²) ≤ Γ².

    Examples
    --------
    >>> import ebboost as eb
    >>> eb.paper.convergence.theorem_1([0, 9, 99], distance=1.0, phi=0.2).tolist()
    [10.0, 0.1, 0.001]
    """
    t = np.asarray(rounds, dtype=np.float64)
    return 2.0 * sigma * distance**2 / (learning_rate * phi * (t + 1.0) ** 2)


def corollary_1(
    rounds: ArrayLike,
    gap: float,
    gamma: float,
    *,
    mu: float,
    sigma: float = 1.0,
    learning_rate: float = 1.0,
) -> Array:
    """Return the bound βᵗ(ℓ(f_0) − ℓ(f*)) on ℓ(f_t) − ℓ(f*) without momentum, with a penalty.

    β = 1 − ν(2−ν)Γ²μ/σ; the paper's is that with ν = 1.

    Parameters
    ----------
    rounds : array-like of int
        t.
    gap : float
        ℓ(f_0) − ℓ(f*).
    gamma : float
        Γ, or the smallest cosine of the run: the proof needs no more.
    mu, sigma : float
        Strong convexity and smoothness in one norm, such as ε and σ^(k) (Lemma 3), or ε/max d and
        1.
    learning_rate : float, default=1.0
        ν.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> import ebboost as eb
    >>> eb.paper.convergence.corollary_1([0, 1, 2], gap=1.0, gamma=0.5, mu=0.4).round(3).tolist()
    [1.0, 0.9, 0.81]
    """
    beta = 1.0 - learning_rate * (2.0 - learning_rate) * gamma**2 * mu / sigma
    return gap * beta ** np.asarray(rounds, dtype=np.float64)


@dataclass(frozen=True, repr=False)
class ConvergenceReport:
    """A fit compared with its bound; print it, or plot ``loss`` and ``bound``.

    ``gamma`` is the smallest cosine between a tree and its negative gradient in the run. Near the
    end of a long run it goes to 0, when no tree can fit what is left, and the bounds become loose.
    ``bound`` is what the least loss so far is proved to stay below, if the premises hold: NaN
    before the first round of momentum and after a restart, None if no theorem applies to the run.
    """

    loss: Array  # the mean after t = 0, 1, … rounds, penalty included
    monotone: bool  # whether no round raised it
    gamma: float
    guarantee: str  # which theorem applies, and whether its premises hold as far as is known
    bound: Array | None = None
    optimum: float | None = None  # ℓ(f*); in Corollary 1 over all functions of the columns
    smoothing: Constants | None = None  # of P, if it is a Laplacian's
    propagation_gap: float | None = None  # by which P* could change the loss; for squared error

    def __repr__(self) -> str:
        trend = (
            "never rose" if self.monotone else f"rose in {(np.diff(self.loss) > 0).sum()} rounds"
        )
        levels = f"{self.loss[0]:.4g} → {self.loss[-1]:.4g} in {len(self.loss) - 1} rounds"
        rows = [("training loss", f"{levels}; it {trend}"), ("guarantee", self.guarantee)]
        if self.bound is not None:
            last = np.flatnonzero(np.isfinite(self.bound))[-1]
            text = (
                f"{self.bound[last]:.4g} at round {last}, where the loss was {self.loss[last]:.4g}"
            )
            rows.append(("bound", f"{text} (optimum {self.optimum:.4g})"))
        text = f"{self.gamma:.3g}, the smallest of the run; Theorem 1 allows φ ≤"
        rows.append(("cosine Γ", f"{text} {largest_phi(self.gamma):.2g}"))
        if self.smoothing is not None:
            one = self.smoothing
            text = f"σ = {one.sigma:.4g}, k = {one.n_steps}: ‖P^(k) − P*‖ ≤ {one.error:.2g}"
            if self.propagation_gap is not None:
                text += f", which moves the loss by at most {self.propagation_gap:.2g}"
            rows.append(("propagation", text))
        return "\n".join(f"{name:<16}{text}" for name, text in rows)


def report(model: PaperEBBS, reference: ArrayLike | None = None) -> ConvergenceReport:
    """Compare the training loss of a fitted model with the bounds of the theorems.

    They are about squared error; of other convex losses, every round descends.

    Parameters
    ----------
    model : PaperRegressor or PaperClassifier
        Fitted with a fixed objective (``labels`` other than ``"masked"``) and a linear P.
    reference : array-like of shape (n_rows,), optional
        Theorem 1 compares the loss with that of an f*, which may be any sum of trees, such as the
        ``model_.components[0].scores`` of a longer fit to the same data. Default: of the model.

    Returns
    -------
    ConvergenceReport

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> X = np.arange(200.0)[:, None]
    >>> graph = eb.Graph.build_knn(X, k=2)
    >>> model = eb.paper.PaperRegressor(
    ...     50, 0.3, penalty=0.1, early_stopping=False, random_state=0,
    ... ).fit(X, np.sin(X[:, 0] / 20), graph=graph)
    >>> result = eb.paper.convergence.report(model)
    >>> print(result)
    training loss   0.2... → 0.0... in 50 rounds; it never rose
    guarantee       Corollary 1, with the angle of each round; β = 0.99... for the smallest
    bound           ...
    >>> bool((result.loss <= result.bound).all())
    True
    """
    fitted = model.model_
    one, cosines = fitted.components[0], fitted.history.get("cosine")
    if not cosines:
        raise ValueError("history_ has no cosines: fit a PaperRegressor or PaperClassifier.")
    objective = _objective(fitted)
    loss = np.array([objective.value(objective.start()), *fitted.history["training"]])
    rises = np.flatnonzero(np.diff(loss) > TOLERANCE * np.abs(loss[:-1]))
    gamma = min(max(min(cosines), 0.0), 1.0)
    rate = fitted.parameters["learning_rate"]
    momentum = as_momentum(fitted.parameters["momentum"])
    is_quadratic = type(fitted.output.loss) is SquaredError
    found: dict[str, Any] = {"guarantee": "every round descends: its step is halved until it does"}
    if is_quadratic and isinstance(momentum, CorrectedMomentum):
        scores = one.scores if reference is None else np.asarray(reference)
        scores = scores.reshape(fitted.n_rows, -1)
        found = _theorem_1(objective, momentum, scores, loss.size, rises, gamma, rate)
    elif momentum is not False:
        found = {"guarantee": "none: Theorem 1 is about corrected momentum and squared error"}
    elif is_quadratic and objective.penalty > 0:
        found = _corollary_1(objective, _equal_rows(fitted), loss, cosines, rate)
    elif is_quadratic:
        text = "every round descends; a rate needs momentum='corrected' (Theorem 1) or penalty > 0"
        found = {"guarantee": f"{text} (Corollary 1)"}
    smoother = one.smoothing
    if isinstance(smoother, (Laplacian, Iteration)) and fitted.graph is not None:
        lemmas = constants(fitted.graph, smoother, objective.labels.rows, objective.penalty)
        found["smoothing"] = lemmas
        if is_quadratic:
            exact = Laplacian(smoother.lam, normalized=smoother.normalized, method="exact")
            smoothed: Any = exact.operator(fitted.graph).apply(one.scores)
            gap = _propagation_gap(objective, one.scores, smoothed, lemmas.error)
            found["propagation_gap"] = gap
    return ConvergenceReport(loss, not rises.size, gamma, **found)


def _objective(fitted: Model) -> PenalizedObjective:
    """The objective that the model was fitted to, on the labels that it was trained on."""
    one, places = fitted.components[0], fitted.places
    if isinstance(one.smoothing, (Robust, ShownLabels)):
        cause = "a linear P, and smoothing=Robust() is not linear"
        if isinstance(one.smoothing, ShownLabels):
            cause = "a fixed loss, and labels='masked' changes it in every round"
        raise ValueError(f"The theorems are about {cause}.")
    operator: Operator = Identity()
    field: dict[str, Any] = {}
    labels = fitted.labels.subset(~np.isin(fitted.labels.rows, fitted.unseen.rows))
    if places is not None:
        if one.smoothing is not None:
            operator = one.smoothing.operator(places.graph)
        if one.field is not None:
            posterior = Posterior(one.field.prior(places.graph), places.node_of_row[labels.rows])
            field = {"posterior": posterior, "node_of_row": places.node_of_row}
    penalty = float(fitted.parameters["penalty"])
    parts = (fitted.output.loss, labels, operator, fitted.n_rows)
    return PenalizedObjective(*parts, offset=fitted.offset, penalty=penalty, **field)


def _point(objective: PenalizedObjective, scores: Array) -> Point:
    """The point of some scores, with z at its mode."""
    smoothed: Any = objective.operator.apply(scores)
    if objective.posterior is None:
        return Point(scores, smoothed)
    rows = objective.labels.rows
    z = objective._energy.mode(objective.fixed[rows] + smoothed[rows])
    prior_z: Any = objective.posterior.prior.matrix @ z
    return Point(scores, smoothed, z, prior_z)


def _theorem_1(
    objective: PenalizedObjective,
    momentum: CorrectedMomentum,
    scores: Array,
    n_losses: int,
    rises: IntArray,
    gamma: float,
    rate: float,
) -> dict[str, Any]:
    """Theorem 1 with the f* of these scores."""
    optimum = objective.value(_point(objective, scores))
    curvature = objective.curvature(objective.start())
    distance = float(np.sqrt((curvature * scores**2).sum()))
    phi = float(momentum.phi)
    gap = theorem_1(np.arange(n_losses), distance, phi, learning_rate=rate)
    # The theorem is about the sum over labels, the history has the mean.
    bound = optimum + gap / objective.total_weight
    bound[0] = np.nan
    largest = largest_phi(gamma)
    relation = "within" if phi <= largest * (1.0 + 1e-9) else "beyond"
    text = f"Theorem 1, O(1/t²); φ = {phi:g} is {relation} the {largest:.2g} it is proved for"
    if momentum.restart and rises.size:
        bound[rises[0] + 2 :] = np.nan
        text += f"; restarted after round {rises[0] + 1}, up to which it holds"
    return {"guarantee": text, "bound": bound, "optimum": optimum}


def _corollary_1(
    objective: PenalizedObjective,
    groups: sparse.csr_array,
    loss: Array,
    cosines: list[float],
    rate: float,
) -> dict[str, Any]:
    """Corollary 1 with the cosine of each round."""
    curvature = objective.curvature(objective.start())
    optimum = objective.value(_minimizer(objective, groups, curvature))
    mu = objective.penalty / float(curvature.max())
    bounded = np.maximum(cosines, 0.0).tolist()
    factors = [float(corollary_1(1, 1.0, one, mu=mu, learning_rate=rate)) for one in bounded]
    text = f"Corollary 1, with the angle of each round; β = {max(factors):.6g} for the smallest"
    bound = optimum + (loss[0] - optimum) * np.cumprod([1.0, *factors])
    return {"guarantee": text, "bound": bound, "optimum": optimum}


def _minimizer(objective: PenalizedObjective, groups: sparse.csr_array, curvature: Array) -> Point:
    """The f that minimises a penalised quadratic over all functions of the columns."""
    start = objective.start()
    constant = groups.T @ objective.gradient(start)

    def hessian(values: Array) -> Array:
        return groups.T @ objective.gradient(_point(objective, groups @ values)) - constant

    diagonal = groups.T @ np.broadcast_to(curvature, start.scores.shape)
    precondition = partial(np.multiply, 1.0 / diagonal)
    values = conjugate_gradients(hessian, -constant, precondition, OPTIMUM_TOLERANCE)
    return _point(objective, groups @ values)


def _equal_rows(fitted: Model) -> sparse.csr_array:
    """Rows with equal columns, which no tree separates, as an n × groups matrix of 0 and 1.

    Where the columns are not known as they were in training, every row is its own group, which
    lowers the optimum and so keeps the bound true.
    """
    n_rows, table, features = fitted.n_rows, fitted.table, fitted.components[0].features
    group = np.arange(n_rows)
    if table is not None and not table.is_sparse and not isinstance(features, EncodedFeatures):
        columns = np.nan_to_num(features.transform(table, fitted.places).values, nan=-np.inf)
        group = np.unique(columns, axis=0, return_inverse=True)[1].ravel()
    return sparse.csr_array((np.ones(n_rows), (np.arange(n_rows), group)))


def _propagation_gap(
    objective: PenalizedObjective, scores: Array, smoothed: Array, error: float
) -> float:
    """|ℓ^(k)(f) − ℓ*(f)| ≤ δ‖f‖‖P*f − y‖ + ½δ²‖f‖², δ = ‖P^(k) − P*‖, for ``smoothed`` = P*f."""
    if error == 0.0:
        return 0.0
    labels = objective.labels
    weight = labels.weight[:, None]
    residuals = labels.target - objective.fixed[labels.rows] - smoothed[labels.rows]
    misfit = float(np.sqrt((weight * residuals**2).sum()))
    shift = error * float(np.sqrt(weight.max() * (scores**2).sum()))
    return (shift * misfit + 0.5 * shift**2) / labels.weight.sum()
