"""The training loss of a fitted model compared with the bounds of Theorem 1 and Corollary 1."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from ebboost.boosting.field_mode import LikelihoodFieldObjective
from ebboost.boosting.iterate import Iterate
from ebboost.boosting.label_use import objective_for
from ebboost.boosting.losses import SquaredError
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.boosting.momentum import CorrectedMomentum, SimpleMomentum, as_momentum
from ebboost.boosting.objective import Objective
from ebboost.data.types import Array, IntArray
from ebboost.estimators import EBBSClassifier, EBBSRegressor
from ebboost.model.predict import propagation_operator
from ebboost.model.state import FittedState
from ebboost.propagation import Laplacian, conjugate_gradients
from ebboost.theory.lemmas import Constants, constants
from ebboost.theory.theorems import corollary_1, largest_phi, theorem_1
from ebboost.training import defaults

# Conjugate gradients for the optimum of Corollary 1; a loose optimum would only loosen its bound.
RELATIVE_TOLERANCE = 1e-8
MAX_ITERATIONS = 10_000


@dataclass(frozen=True, repr=False)
class ConvergenceReport:
    """A fit compared with its bound; print it, or plot ``loss`` and ``bound`` against ``rounds``.

    Attributes
    ----------
    rounds, loss : ndarray
        t = 0, 1, … and the mean training loss after t rounds, penalty included.
    bound : ndarray or None
        What the least loss so far is proved to stay below, if the premises hold; NaN where the
        theorem does not apply: before the first round of momentum, and after a restart. None if no
        theorem applies to the run.
    guarantee : str
        Which theorem that is, and whether its premises hold as far as can be checked.
    optimum : float or None
        ℓ(f*): of the f* compared with under Theorem 1, of the minimiser over all functions of the
        columns under Corollary 1.
    gamma : float
        The smallest cosine between a tree and its negative gradient in the run. Near the end of a
        long run, when no tree can fit what is left of the gradient, it goes to 0 and the bounds
        become loose.
    phi, beta : float or None
        φ of the momentum, and the rate of Corollary 1.
    monotone : bool
        Whether no round raised the loss.
    smoothing : Constants or None
        Of P, if it is a Laplacian's.
    propagation_gap : float or None
        By how much, at most, the final loss would differ with P* instead of P^(k); for squared
        error.
    optimality_gap : float or None
        By how much, at most, the loss of the model exceeds the least one of any function of the
        columns, ‖∇J‖²/(2ε): with a penalty ε, for every convex loss.
    """

    rounds: IntArray
    loss: Array
    gamma: float
    monotone: bool
    guarantee: str
    bound: Array | None = None
    optimum: float | None = None
    phi: float | None = None
    beta: float | None = None
    smoothing: Constants | None = None
    propagation_gap: float | None = None
    optimality_gap: float | None = None

    def summary(self) -> str:
        """Return the report in a few lines.

        Returns
        -------
        str
        """
        n_rounds = len(self.loss) - 1
        n_rises = int((np.diff(self.loss) > 0).sum())
        trend = "never rose" if self.monotone else f"rose in {n_rises} rounds"
        lines = [
            f"training loss   {self.loss[0]:.4g} → {self.loss[-1]:.4g} in {n_rounds} rounds; "
            f"it {trend}",
            f"guarantee       {self.guarantee}",
        ]
        if self.bound is not None and self.optimum is not None:
            last = np.flatnonzero(np.isfinite(self.bound))[-1]
            lines.append(
                f"bound           {self.bound[last]:.4g} at round {last}, where the loss was "
                f"{self.loss[last]:.4g} (optimum {self.optimum:.4g})"
            )
        if self.optimality_gap is not None:
            lines.append(
                f"optimum         at most {self.optimality_gap:.2g} below the loss of the model"
            )
        lines.append(
            f"cosine Γ        {self.gamma:.3g}, the smallest of the run; Theorem 1 allows "
            f"φ ≤ {largest_phi(self.gamma):.2g}"
        )
        if self.smoothing is not None:
            lemmas = self.smoothing
            k = "exact" if lemmas.n_steps is None else f"k = {lemmas.n_steps}"
            line = f"propagation     μ = {lemmas.mu:g}, σ = {lemmas.sigma:.4g}, {k}: "
            line += f"‖P^(k) − P*‖ ≤ {lemmas.error:.2g}"
            if self.propagation_gap is not None:
                line += f", which moves the loss by at most {self.propagation_gap:.2g}"
            lines.append(line)
        return "\n".join(lines)

    __repr__ = summary


def report(
    model: EBBSRegressor | EBBSClassifier, reference: EBBSRegressor | None = None
) -> ConvergenceReport:
    """Compare the training loss of a fitted model with the bounds of the theorems.

    They are about squared error. For other convex losses, the report says whether every round
    descends and, with a penalty, how far the model is from the optimum.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        Fitted with a fixed objective (``labels`` other than ``"masked"``).
    reference : EBBSRegressor, optional
        Theorem 1 compares the loss with that of an f*, which may be any sum of trees, for example
        that of this model, fitted to the same data for longer. Default: of the model itself.

    Returns
    -------
    ConvergenceReport

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> X = np.arange(200.0)[:, None]
    >>> graph = eb.Graph.build_knn(X, k=2)
    >>> model = eb.EBBSRegressor(
    ...     50, 0.3, penalty=0.1, smoothing=eb.Laplacian(2.0, 5), labels="none",
    ...     early_stopping=False, random_state=0,
    ... ).fit(X, np.sin(X[:, 0] / 20), graph=graph)
    >>> result = eb.convergence.report(model)
    >>> print(result)
    training loss   0.2... → 0.0... in 50 rounds; it never rose
    guarantee       Corollary 1, with the angle of each round; β = 0.99... for the smallest
    bound           ...
    >>> bool((result.loss <= result.bound).all())
    True
    """
    state = model.state_
    if len(state.rounds) > 1:
        raise ValueError(
            f"The theorems are about one model; this is the mean of {len(state.rounds)}: fit with "
            "n_folds=1."
        )
    cosines = state.history.get("cosine")
    if not cosines:
        raise ValueError("model.history_ has no cosines: the model grew no tree.")
    objective = _objective(state)
    loss = np.array([objective.value(objective.start()), *state.history["training"]])
    allowed = objective.descent_tolerance * np.abs(loss[:-1])
    rises = np.flatnonzero(np.diff(loss) > allowed)
    gamma = min(max(min(cosines), 0.0), 1.0)
    task = defaults.Task(state.is_classifier, objective.labels.nodes.size, state.reader.is_sparse)
    rate = state.parameters["learning_rate"] or defaults.learning_rate(task)
    momentum = as_momentum(state.parameters["momentum"])
    is_quadratic = type(state.training_loss) is SquaredError
    guarantee: dict[str, Any]
    if not is_quadratic:
        guarantee = {"guarantee": "every round descends: its step is halved until the loss does"}
        if isinstance(momentum, SimpleMomentum | CorrectedMomentum):
            guarantee = {"guarantee": "none: momentum is covered for squared error only"}
    elif isinstance(momentum, CorrectedMomentum):
        scores = (model if reference is None else reference).scores_
        guarantee = _theorem_1(objective, momentum, scores, loss.size, rises, gamma, rate)
    elif isinstance(momentum, SimpleMomentum):
        guarantee = {"guarantee": "none: the simple momentum is not that of Theorem 1"}
    elif objective.penalty > 0:
        guarantee = _corollary_1(objective, _equal_rows(state), loss, cosines, rate)
    else:
        text = "every round descends; a rate needs momentum='corrected' (Theorem 1) or penalty > 0"
        guarantee = {"guarantee": f"{text} (Corollary 1)"}
    if objective.penalty > 0:
        guarantee["optimality_gap"] = _optimality_gap(objective, state.scores, _equal_rows(state))
    smoother = state.candidate.smoothing
    if isinstance(smoother, Laplacian) and state.graph is not None:
        lemmas = constants(state.graph, smoother, objective.labels.nodes, objective.penalty)
        guarantee["smoothing"] = lemmas
        if is_quadratic:
            exact = Laplacian(smoother.lam, method="exact", normalized=smoother.normalized)
            propagated = exact.operator(state.graph).apply(state.scores)
            gap = _propagation_gap(objective, state.scores, propagated, lemmas.error)
            guarantee["propagation_gap"] = gap
    return ConvergenceReport(np.arange(loss.size), loss, gamma, not rises.size, **guarantee)


def _objective(state: FittedState) -> Objective:
    """The objective that the model was fitted to, on the labels that it was trained on."""
    candidate = state.candidate
    if isinstance(candidate.labels, MaskedLabels):
        raise ValueError(
            "labels='masked' changes the loss in every round: no theorem applies to it."
        )
    operator = propagation_operator(candidate.smoothing, state.graph, state.n_nodes)
    if not operator.linear:
        raise ValueError(
            f"The theorems are about a linear P; {candidate.smoothing!r} is not linear."
        )
    penalty = float(state.parameters["penalty"])
    use = (candidate.labels, state.graph, operator, state.training_loss)
    objective = objective_for(*use, state.training_labels, None, penalty, 0, state.offset)
    objective.double_precision = True
    return objective


def _theorem_1(
    objective: Objective,
    momentum: CorrectedMomentum,
    scores: Array,
    n_losses: int,
    rises: IntArray,
    gamma: float,
    rate: float,
) -> dict[str, Any]:
    """Theorem 1 with the f* of these scores."""
    optimum = objective.value(Iterate(scores, objective.propagate(scores)))
    curvature = objective.curvature(objective.start())
    distance = float(np.sqrt((curvature * scores**2).sum()))
    phi = float(momentum.phi)
    gap = theorem_1(np.arange(n_losses), distance, phi, learning_rate=rate)
    # The theorem is about the sum over labels, the history has the mean.
    bound = optimum + gap / objective.labels.total_weight
    bound[0] = np.nan
    largest = largest_phi(gamma)
    relation = "within" if phi <= largest * (1.0 + 1e-9) else "beyond"
    text = f"Theorem 1, O(1/t²); φ = {phi:g} is {relation} the {largest:.2g} it is proved for"
    if momentum.restart and rises.size:
        bound[rises[0] + 2 :] = np.nan
        text += f"; restarted after round {rises[0] + 1}, up to which it holds"
    return {"guarantee": text, "bound": bound, "optimum": optimum, "phi": phi}


def _corollary_1(
    objective: Objective, groups: sparse.csr_array, loss: Array, cosines: list[float], rate: float
) -> dict[str, Any]:
    """Corollary 1 with the cosine of each round."""
    curvature = objective.curvature(objective.start())
    optimum = objective.value(_minimizer(objective, groups, curvature))
    mu = objective.penalty / float(curvature.max())
    bounded = np.maximum(cosines, 0.0).tolist()
    factors = [float(corollary_1(1, 1.0, one, mu=mu, learning_rate=rate)) for one in bounded]
    beta = max(factors)
    return {
        "guarantee": f"Corollary 1, with the angle of each round; β = {beta:.6g} for the smallest",
        "bound": optimum + (loss[0] - optimum) * np.cumprod([1.0, *factors]),
        "optimum": optimum,
        "beta": beta,
    }


def _minimizer(objective: Objective, groups: sparse.csr_array, curvature: Array) -> Iterate:
    """The f that minimises a penalised quadratic over all functions of the columns."""
    start = objective.start()
    constant = groups.T @ objective.gradient(start)

    def iterate(values: Array) -> Iterate:
        scores: Array = groups @ values
        return Iterate(scores, objective.propagate(scores))

    def hessian(values: Array) -> Array:
        return groups.T @ objective.gradient(iterate(values)) - constant

    target = RELATIVE_TOLERANCE * np.sqrt((constant**2).sum(axis=0))
    diagonal = groups.T @ np.broadcast_to(curvature, start.scores.shape)
    precondition = partial(np.multiply, 1.0 / diagonal)
    values, _ = conjugate_gradients(hessian, -constant, precondition, target, MAX_ITERATIONS)
    return iterate(values)


def _optimality_gap(objective: Objective, scores: Array, groups: sparse.csr_array) -> float:
    """‖∇J‖²/(2ε) over functions of the columns, of which there is one value in each group."""
    point = Iterate(scores, objective.propagate(scores))
    if isinstance(objective, LikelihoodFieldObjective):
        objective.minimize_field(point)
    sums: Array = groups.T @ objective.gradient(point)
    size = np.asarray(groups.sum(axis=0)).reshape(-1, 1)
    gap = float((sums**2 / size).sum()) / (2.0 * objective.penalty)
    return gap / objective.labels.total_weight


def _equal_rows(state: FittedState) -> sparse.csr_array:
    """Nodes with equal columns, which no tree separates, as an n × groups matrix of 0 and 1.

    A model file does not contain the table, and sparse tables are not compared. Then every node is
    its own group, which lowers the optimum and so keeps the bound true.
    """
    n_nodes = state.n_nodes
    group = np.arange(n_nodes)
    if state.table is not None and not state.table.is_sparse:
        columns = state.pipeline.transform(state.table, state.graph).materialize().values
        rows = np.nan_to_num(columns, nan=-np.inf)
        group = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    return sparse.csr_array((np.ones(n_nodes), (np.arange(n_nodes), group)))


def _propagation_gap(objective: Objective, scores: Array, propagated: Array, error: float) -> float:
    """|ℓ^(k)(f) − ℓ*(f)| ≤ δ‖f‖‖P*f − y‖ + ½δ²‖f‖², δ = ‖P^(k) − P*‖, for ``propagated`` = P*f."""
    if error == 0.0:
        return 0.0
    labels = objective.labels
    weight = labels.weight[:, None]
    residuals = labels.target - objective.fixed_scores(labels.nodes) - propagated[labels.nodes]
    misfit = float(np.sqrt((weight * residuals**2).sum()))
    shift = error * float(np.sqrt(weight.max() * (scores**2).sum()))
    return (shift * misfit + 0.5 * shift**2) / labels.total_weight
