"""The guarantees of the paper as numbers: Lemmas 1–3, Theorem 1, Corollary 1, and what a fit did beside what they promise.

The bounds here are what can be proved, which is not always what the appendix prints:

* Its losses are not halved, ours are (½‖P f − y‖² + ½ε‖f‖²). The optimum is the same, ε means the same, and all constants
  of smoothness and convexity are half of those of the paper's losses.
* Lemmas 2 and 3 give σ^(k) as the largest singular value of P over the labelled rows. The Hessian of ½‖P f − y‖² is PᵀP, so
  it is the *square* of that value, plus ε under Lemma 3.
* The proof of Theorem 1 takes a bound for the whole of P^(k) − P* over to its labelled rows. A part of an error need not
  shrink when the whole does; here it does, because (P^(0) − P*) and the polynomial r_k(A) commute.
* Its exponent: see ``smoothing/_contraction.py``.
* The bound of Theorem 1, taken over from Lu et al., is printed as σ‖f*‖²/(2φ(t+1)²). The potential argument from which
  φ ≤ Γ⁴/(4+Γ²) comes (see :func:`theorem_1`) gives four times that, because θ_{t−1}² is 4/(t+1)².
* Γ is defined as a minimum over all residuals. Two nodes with equal columns can have residuals that no function of the
  columns sees, so that minimum is often 0. The theorems need it over residuals in the span of the learners, as Lu and
  Mazumder define it, and Corollary 1 for one run only over the residuals met in that run.

One thing is stronger here: trees are fitted, and steps measured, in the norm ‖v‖²_D = Σ d_i v_i² of the curvature D that
majorises the Hessian (:meth:`Objective.curvature`). In that norm the loss is 1-smooth, and both proofs hold word for word
with σ = 1, angles and distances being taken in it. A step found by line search falls at least as far as the fixed one of
the proofs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg, eigsh
from sklearn.utils.validation import check_is_fitted

from ebboost.boosting.iterate import Iterate
from ebboost.boosting.label_use import objective_for
from ebboost.boosting.losses import SquaredError
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.boosting.momentum import CorrectedMomentum, NoMomentum, as_momentum
from ebboost.boosting.objective import Objective
from ebboost.boosting.projection import project_on_tree
from ebboost.data.table import TableReader
from ebboost.graph import Graph
from ebboost.learners import as_learner
from ebboost.propagation import IdentityOperator, Laplacian, PropagationOperator
from ebboost.training import selection as choosing

Array = NDArray[np.float64]

__all__ = [
    "Constants",
    "ConvergenceReport",
    "constants",
    "corollary_1",
    "largest_phi",
    "minimum_cosine",
    "report",
    "steps_for",
    "theorem_1",
]


# ---------------------------------------------------------------------- the inner problem: P^(k) against P*


@dataclass(frozen=True)
class Constants:
    """What Lemmas 1–3 say of a smoother on a graph.

    Attributes
    ----------
    mu, sigma : float
        The ends of the spectrum of I + λL (Lemma 1); μ is 1 for every graph.
    n_steps : int or None
        k; None for the exact inverse.
    rate : float
        What a step leaves of ‖P^(k) − P*‖₂ in the long run.
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
    graph: Graph, smoother: Laplacian, nodes: Any = None, penalty: float = 0.0
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
        Eigenvalues come from Lanczos: σ from above by at most a percent, σ^(k) to six digits.

    Examples
    --------
    >>> import ebboost as eb
    >>> path = eb.Graph.from_edges([0, 1], [1, 2])
    >>> found = eb.convergence.constants(path, eb.Laplacian(1.0, 10, normalized=False))
    >>> found.mu, round(found.sigma, 6), round(found.c, 6)
    (1.0, 4.0, 0.287682)
    """
    _only_laplacian(smoother)
    system, operator = smoother.system(graph), smoother.operator(graph)
    shrinks = smoother.contraction(system)
    n_steps = getattr(operator, "n_steps", None)
    labelled = np.arange(graph.n_nodes) if nodes is None else np.asarray(nodes)
    return Constants(
        mu=1.0,
        sigma=max(system.upper, 1.0),
        n_steps=n_steps,
        rate=shrinks.rate,
        c=-float(np.log(shrinks.rate)) if shrinks.rate > 0 else float("inf"),
        error=0.0 if n_steps is None else shrinks.error(n_steps),
        sigma_k=_largest_squared_singular_value(operator, labelled) + penalty,
    )


def steps_for(graph: Graph, smoother: Laplacian | float, tol: float) -> int:
    """Return how many steps bring ‖P^(k) − P*‖₂ below a tolerance, by the bound that holds for the method.

    Parameters
    ----------
    graph : Graph
    smoother : Laplacian or float
        Whose method, step and Laplacian count; a number is λ of ``eb.Laplacian(lam)``.
    tol : float
        No score is moved by more than this share of the norm of all scores. ``eb.Laplacian(n_steps="auto", tol=...)`` takes
        that many steps.

    Examples
    --------
    >>> import ebboost as eb
    >>> ring = eb.Graph.from_edges(range(100), [*range(1, 100), 0])
    >>> [eb.convergence.steps_for(ring, eb.Laplacian(20.0, method=m), 1e-4) for m in ("gradient", "jacobi", "chebyshev")]
    [128, 127, 26]
    """
    if not isinstance(smoother, Laplacian):
        smoother = Laplacian(smoother)
    if not 0.0 < tol < np.inf:
        raise ValueError(f"tol must be a number of more than 0, got {tol!r}.")
    return smoother.contraction(smoother.system(graph)).steps(float(tol))


def _only_laplacian(smoother: Any) -> None:
    if not isinstance(smoother, Laplacian):
        raise TypeError(
            f"smoother must be an eb.Laplacian, of which the lemmas speak, got {smoother!r}."
        )


def _largest_squared_singular_value(operator: PropagationOperator, nodes: NDArray[Any]) -> float:
    """The largest eigenvalue of P_L P_Lᵀ, P_L the labelled rows."""
    n_nodes, m = operator.shape[0], nodes.size

    def product(values: Array) -> Array:
        on_nodes = np.zeros(n_nodes)
        on_nodes[nodes] = values.ravel()
        smoothed: Array = operator.apply(operator.adjoint(on_nodes))[nodes]
        return smoothed

    if m < 50:
        return float(np.linalg.eigvalsh(np.column_stack([product(row) for row in np.eye(m)]))[-1])
    start = np.random.default_rng(0).standard_normal(m)
    squared = LinearOperator((m, m), matvec=product, dtype=np.float64)
    return float(eigsh(squared, k=1, which="LA", v0=start, tol=1e-6, return_eigenvectors=False)[0])


# ---------------------------------------------------------------------- the learner: how well it sees a residual


def minimum_cosine(
    learner: Any,
    X: Any,
    *,
    curvature: Any = None,
    n_draws: int = 20,
    categorical_features: Any = "auto",
    seed: int = 0,
) -> float:
    """Estimate Γ, the minimum cosine angle of a learner on a table, from residuals drawn at random.

    Γ is the smallest cosine, over *all* residuals, between a residual and the tree grown on it. This is the smallest over
    normal noise drawn ``n_draws`` times: more than Γ, never less, and so a number to compare learners and tables by, not a
    proof. Noise is the hardest thing to fit that is not made against the learner; the residuals of a fit begin easier
    (``model.history_["cosine"]``) and become like it.

    Parameters
    ----------
    learner : str, Learner, regressor or list of regressors
        As in :class:`EBBSRegressor`.
    X : table
        Numeric, or with categories if the learner takes them.
    curvature : array-like of shape (n,), optional
        The norm to measure in: a weight for each row. Default: all 1, as in the paper.
    n_draws : int, default=20
    categorical_features : "auto" or list, default="auto"
    seed : int, default=0

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> stumps, trees = (eb.LightGBM(leaves, min_child_samples=1) for leaves in (2, 100))
    >>> eb.convergence.minimum_cosine(stumps, X) < 0.2 < 0.6 < eb.convergence.minimum_cosine(trees, X)
    True
    """
    table = TableReader(categorical_features).fit(X)
    chosen = as_learner(learner)
    if table.categorical and not chosen.takes_categories:
        raise ValueError(
            f"{chosen!r} takes no categories: hand over X with its columns of categories encoded or left out."
        )
    weight = np.ones(table.n_rows) if curvature is None else np.asarray(curvature, dtype=np.float64)
    if weight.shape != (table.n_rows,) or not (weight >= 0).all():
        raise ValueError(
            f"curvature must be {table.n_rows} numbers of at least 0, one for each row of X."
        )
    growing = chosen.start(table, n_outputs=1, seed=seed, n_jobs=1, device="cpu")
    random, smallest = np.random.default_rng(seed), 1.0
    for _ in range(n_draws):
        gradient = weight[:, None] * random.standard_normal((table.n_rows, 1))
        tree = growing.grow(gradient, weight[:, None])
        smallest = min(
            smallest,
            0.0 if tree is None else project_on_tree(gradient, weight[:, None], tree).cosine,
        )
    return smallest


def largest_phi(gamma: float) -> float:
    """Return Γ⁴/(4+Γ²), the largest momentum parameter φ for which Theorem 1 is proved.

    Examples
    --------
    >>> import ebboost as eb
    >>> eb.convergence.largest_phi(1.0)
    0.2
    """
    if not 0.0 <= gamma <= 1.0:
        raise ValueError(f"gamma is a cosine between 0 and 1, got {gamma!r}.")
    return float(gamma**4 / (4.0 + gamma**2))


# ---------------------------------------------------------------------- the outer problem: loss against rounds


def theorem_1(
    rounds: ArrayLike,
    distance: float,
    phi: float,
    *,
    sigma: float = 1.0,
    learning_rate: float = 1.0,
) -> Array:
    """Return the bound on ℓ(f_t) − ℓ(f*) after t ≥ 1 rounds with corrected momentum: 2σ‖f*‖²/(νφ(t+1)²).

    It holds if φ ≤ Γ⁴/(4+Γ²), for the optimum f* and, with the least loss so far in the place of ℓ(f_t), for *every* f* in
    the span of the learners. The error of P^(k) comes on top of it.

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

    Notes
    -----
    The proof in short, with η = ν/σ. A round falls by ηΓ²‖r‖²/2 at least, and convexity at g gives
    Δ' ≤ (1−θ)Δ + θ⟨r, f* − h⟩ − ηΓ²‖r‖²/2 for Δ = ℓ(f) − ℓ(f*). Let e be what the second tree missed of its residual. Then
    ĥ = h + (φη/θ)e takes exact steps, ĥ' = ĥ + (φη/θ)r, so that Δ/θ² + ‖f* − ĥ‖²/(2φη) falls but for sums of
    (η/2)(φ‖R‖² + 2φ⟨R, E⟩ − Γ²‖R‖²) with R = r/θ and E = e/θ of the round before. As ‖E'‖² ≤ (1−Γ²)‖R + E‖², Σ‖E‖² is at
    most 4Σ‖R‖²/Γ⁴, and those sums are not positive if φ(1 + 4/Γ²) ≤ Γ².

    Examples
    --------
    >>> import ebboost as eb
    >>> eb.convergence.theorem_1([0, 9, 99], distance=1.0, phi=0.2).tolist()
    [10.0, 0.1, 0.001]
    """
    t = np.asarray(rounds, dtype=np.float64)
    bound: Array = 2.0 * sigma * distance**2 / (learning_rate * phi * (t + 1.0) ** 2)
    return bound


def corollary_1(
    rounds: ArrayLike,
    gap: float,
    gamma: float,
    *,
    mu: float,
    sigma: float = 1.0,
    learning_rate: float = 1.0,
) -> Array:
    """Return the bound on ℓ(f_t) − ℓ(f*) after t rounds without momentum and with a penalty: βᵗ(ℓ(f_0) − ℓ(f*)).

    β = 1 − ν(2−ν)Γ²μ/σ; the paper's is that with ν = 1.

    Parameters
    ----------
    rounds : array-like of int
        t.
    gap : float
        ℓ(f_0) − ℓ(f*).
    gamma : float
        Γ, or the smallest cosine met in the run: that is all the proof needs.
    mu, sigma : float
        Strong convexity and smoothness in one norm, such as ε and σ^(k) (Lemma 3), or ε/max d and 1.
    learning_rate : float, default=1.0
        ν.

    Examples
    --------
    >>> import ebboost as eb
    >>> eb.convergence.corollary_1([0, 1, 2], gap=1.0, gamma=0.5, mu=0.4).round(3).tolist()
    [1.0, 0.9, 0.81]
    """
    beta = 1.0 - learning_rate * (2.0 - learning_rate) * gamma**2 * mu / sigma
    bound: Array = gap * beta ** np.asarray(rounds, dtype=np.float64)
    return bound


# ---------------------------------------------------------------------- a fit beside its bound


@dataclass(frozen=True, repr=False)
class ConvergenceReport:
    """A fit beside what is proved of it; print it, or plot ``loss`` and ``bound`` against ``rounds``.

    Attributes
    ----------
    rounds, loss : ndarray
        t = 0, 1, … and the mean training loss after t rounds, penalty included.
    bound : ndarray or None
        What the least loss so far is proved to stay below, if the premises hold; NaN where the theorem is silent: before the
        first round of momentum, and after a restart. None: no theorem speaks of the run.
    guarantee : str
        Which theorem that is, and whether its premises hold as far as can be told.
    optimum : float or None
        ℓ(f*): of the f* compared with under Theorem 1, of the minimiser over all functions of the columns under Corollary 1.
    gamma : float
        The smallest cosine between a residual and its tree that the run met. Near the end of a long run, when what is left
        of a residual is what no tree can see, this goes to 0 and the bounds say little.
    phi, beta : float or None
        φ of the momentum, and the rate of Corollary 1.
    monotone : bool
        Whether no round raised the loss.
    smoothing : Constants or None
        Of P, if it is a Laplacian's.
    propagation_gap : float or None
        By how much, at most, the final loss would differ with P* in the place of P^(k).
    """

    rounds: NDArray[np.int64]
    loss: Array
    bound: Array | None
    guarantee: str
    optimum: float | None
    gamma: float
    phi: float | None
    beta: float | None
    monotone: bool
    smoothing: Constants | None
    propagation_gap: float | None

    def summary(self) -> str:
        """Describe the report in a few lines."""
        last = len(self.loss) - 1
        falls = (
            "never rose"
            if self.monotone
            else f"rose in {int((np.diff(self.loss) > 0).sum())} rounds"
        )
        lines = [
            f"training loss   {self.loss[0]:.4g} → {self.loss[-1]:.4g} in {last} rounds; it {falls}"
        ]
        lines.append(f"guarantee       {self.guarantee}")
        if self.bound is not None and self.optimum is not None:
            known = np.flatnonzero(np.isfinite(self.bound))
            at = known[-1]
            lines.append(
                f"bound           {self.bound[at]:.4g} at round {at}, where the loss was {self.loss[at]:.4g}"
                f" (optimum {self.optimum:.4g})"
            )
        lines.append(
            f"cosine Γ        {self.gamma:.3g}, the smallest met; Theorem 1 allows φ ≤ {largest_phi(self.gamma):.2g}"
        )
        if self.smoothing is not None:
            found = self.smoothing
            k = "exact" if found.n_steps is None else f"k = {found.n_steps}"
            lines.append(
                f"propagation     μ = {found.mu:g}, σ = {found.sigma:.4g}, {k}: ‖P^(k) − P*‖ ≤ {found.error:.2g}, "
                f"which moves the loss by {self.propagation_gap:.2g} at most"
            )
        return "\n".join(lines)

    __repr__ = summary


def report(model: Any, reference: Any = None) -> ConvergenceReport:
    """Set the training loss of a fitted model against what the theorems promise.

    Parameters
    ----------
    model : EBBSRegressor
        Fitted with squared error and a fixed objective (``labels`` other than ``"masked"``).
    reference : EBBSRegressor, optional
        Under Theorem 1 the loss is compared with that of an f*, which may be any sum of trees: that of this model, fitted
        to the same data for longer, say. Default: of the model itself.

    Returns
    -------
    ConvergenceReport

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> X = np.arange(200.0)[:, None]
    >>> graph, y = eb.Graph.build_knn(X, k=2), np.sin(X[:, 0] / 20)
    >>> fixed = {"smoothing": eb.Laplacian(2.0, 5), "labels": "none", "early_stopping": False, "random_state": 0}
    >>> model = eb.EBBSRegressor(50, 0.3, penalty=0.1, **fixed).fit(X, y, graph=graph)
    >>> found = eb.convergence.report(model)
    >>> print(found)
    training loss   0.2... → 0.0... in 50 rounds; it never rose
    guarantee       Corollary 1, with the angle of each round; β = 0.99... for the smallest
    bound           ...
    >>> bool((found.loss <= found.bound).all())
    True
    """
    check_is_fitted(model, "ensemble_")
    objective = _objective(model)
    start = objective.start()
    loss = np.array([objective.value(start), *model.history_["training"]])
    cosines = model.history_.get("cosine")
    if not cosines:
        raise ValueError(
            "model.history_ has no cosines: it was fitted by an older ebboost, or grew no tree. Fit it again."
        )
    gamma = min(max(min(cosines), 0.0), 1.0)
    rounds, momentum = np.arange(loss.size), as_momentum(model.momentum)
    rate = model.learning_rate or choosing.sized_rate(
        False, objective.labels.nodes.size, model._reader.is_sparse
    )
    share = float(
        objective.labels.weight.sum()
    )  # the theorems speak of the sum over labels, the history of the mean
    rises = np.flatnonzero(np.diff(loss) > objective.descent_tolerance * np.abs(loss[:-1]))
    curvature = objective.curvature(start)
    bound, optimum, phi, beta = None, None, None, None
    if isinstance(momentum, CorrectedMomentum):
        phi = float(momentum.phi)
        scores = (model if reference is None else reference).scores_
        compared = Iterate(scores, objective.propagate(scores))
        optimum = objective.value(compared)
        distance = float(np.sqrt((curvature * compared.scores**2).sum()))
        bound = optimum + theorem_1(rounds, distance, phi, learning_rate=rate) / share
        bound[0] = np.nan
        allowed = "within" if phi <= largest_phi(gamma) * (1.0 + 1e-9) else "beyond"
        guarantee = f"Theorem 1, O(1/t²); φ = {phi:g} is {allowed} the {largest_phi(gamma):.2g} it is proved for"
        if momentum.restart and rises.size:
            bound[rises[0] + 2 :] = np.nan
            guarantee += f"; restarted after round {rises[0] + 1}, up to which it speaks"
    elif isinstance(momentum, NoMomentum) and model.penalty > 0:
        optimum = objective.value(_minimiser(model, objective, curvature))
        mu = model.penalty / float(curvature.max())
        beta = float(corollary_1(1, 1.0, gamma, mu=mu, learning_rate=rate))
        left = [
            float(corollary_1(1, 1.0, max(cosine, 0.0), mu=mu, learning_rate=rate))
            for cosine in cosines
        ]
        bound = optimum + (loss[0] - optimum) * np.cumprod([1.0, *left])
        guarantee = f"Corollary 1, with the angle of each round; β = {beta:.6g} for the smallest"
    elif isinstance(momentum, NoMomentum):
        guarantee = "every round descends; a rate needs momentum='corrected' (Theorem 1) or penalty > 0 (Corollary 1)"
    else:
        guarantee = "none: the simple momentum is not that of Theorem 1"
    found, gap = None, None
    if isinstance(model.smoothing_, Laplacian) and model.graph_ is not None:
        found = constants(
            model.graph_, model.smoothing_, objective.labels.nodes, float(model.penalty)
        )
        gap = _propagation_gap(model, objective, found.error)
    return ConvergenceReport(
        rounds, loss, bound, guarantee, optimum, gamma, phi, beta, not rises.size, found, gap
    )


def _objective(model: Any) -> Objective:
    """The objective that the model was fitted to, on the labels that it was trained on."""
    if type(model.loss_) is not SquaredError:
        raise ValueError(
            f"Theorem 1 and Corollary 1 are about squared error; this model was fitted to {model.loss_!r}."
        )
    if isinstance(model.labels_, MaskedLabels):
        raise ValueError(
            "labels='masked' changes the loss in every round, so that no theorem speaks of it."
        )
    training = model._training.subset(~np.isin(model._training.nodes, model.validation_nodes_))
    graph, smoothing = model.graph_, model.smoothing_
    smoother = (
        IdentityOperator(len(model.scores_))
        if smoothing is None or graph is None
        else smoothing.operator(graph)
    )
    if not smoother.linear:
        raise ValueError(
            f"The theorems are about a fixed linear P, and {smoothing!r} changes its weights with f."
        )
    objective = objective_for(
        model.labels_, graph, smoother, model.loss_, training, None, model.penalty, 0
    )
    objective.double_precision = True
    return objective


def _minimiser(model: Any, objective: Objective, curvature: Array) -> Iterate:
    """The f that minimises a penalised quadratic over all functions of the columns, by conjugate gradients."""
    alike, start = _alike(model), objective.start()
    shape, constant = (alike.shape[1], start.scores.shape[1]), alike.T @ objective.gradient(start)

    def spread(values: Array) -> Iterate:
        scores: Array = alike @ values.reshape(shape)
        return Iterate(scores, objective.propagate(scores))

    def hessian(values: Array) -> Array:
        image: Array = (alike.T @ objective.gradient(spread(values)) - constant).ravel()
        return image

    size, scale = (
        constant.size,
        1.0 / (alike.T @ np.broadcast_to(curvature, start.scores.shape)).ravel(),
    )
    operator = LinearOperator((size, size), matvec=hessian, dtype=np.float64)
    preconditioner = LinearOperator(
        (size, size), matvec=lambda values: scale * values.ravel(), dtype=np.float64
    )
    return spread(cg(operator, -constant.ravel(), rtol=1e-8, maxiter=10_000, M=preconditioner)[0])


def _alike(model: Any) -> sparse.csr_array:
    """Which nodes have the same columns, as an n × groups matrix of 0 and 1: no tree tells them apart.

    The table is not kept in a model file, nor compared if it is sparse. Then every node is its own group, which makes the
    optimum smaller than any sum of trees can be, and the bound no less true.
    """
    n_nodes, table = len(model.scores_), model._fitted_table
    group = np.arange(n_nodes)
    if table is not None and not table.is_sparse:
        values = np.nan_to_num(
            model._preparation.apply(table, model.graph_).materialize().values, nan=-np.inf
        )
        group = np.unique(values, axis=0, return_inverse=True)[1].ravel()
    return sparse.csr_array((np.ones(n_nodes), (np.arange(n_nodes), group)))


def _propagation_gap(model: Any, objective: Objective, error: float) -> float:
    """|ℓ^(k)(f) − ℓ*(f)| ≤ δ‖f‖‖P*f − y‖ + ½δ²‖f‖², δ = ‖P^(k) − P*‖, as in the proof of Theorem 1."""
    if error == 0.0:
        return 0.0
    labels, lam, normalized = objective.labels, model.smoothing_.lam, model.smoothing_.normalized
    ideal = (
        Laplacian(lam, method="exact", normalized=normalized)
        .operator(model.graph_)
        .apply(model.scores_)
    )
    weight = labels.weight[:, None]
    misfit = float(
        np.sqrt((weight * (labels.target - objective.init_score - ideal[labels.nodes]) ** 2).sum())
    )
    moved = error * float(np.sqrt(weight.max() * (model.scores_**2).sum()))
    return (moved * misfit + 0.5 * moved**2) / float(labels.weight.sum())
