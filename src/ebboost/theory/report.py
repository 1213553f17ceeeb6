"""The training loss of a fitted model compared with the bounds of Theorem 1 and Corollary 1."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.utils.validation import check_is_fitted

from ebboost.boosting.iterate import Iterate
from ebboost.boosting.label_use import objective_for
from ebboost.boosting.losses import SquaredError
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.boosting.momentum import CorrectedMomentum, NoMomentum, as_momentum
from ebboost.boosting.objective import Objective
from ebboost.propagation import IdentityOperator, Laplacian
from ebboost.theory.lemmas import Constants, constants
from ebboost.theory.theorems import corollary_1, largest_phi, theorem_1
from ebboost.training import selection

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class ConvergenceReport:
    """A fit compared with what is proved of it; print it, or plot ``loss`` and ``bound`` against ``rounds``.

    Attributes
    ----------
    rounds, loss : ndarray
        t = 0, 1, … and the mean training loss after t rounds, penalty included.
    bound : ndarray or None
        What the least loss so far is proved to stay below, if the premises hold; NaN where the theorem does not
        apply: before the first round of momentum, and after a restart. None if no theorem applies to the run.
    guarantee : str
        Which theorem that is, and whether its premises hold as far as can be checked.
    optimum : float or None
        ℓ(f*): of the f* compared with under Theorem 1, of the minimiser over all functions of the columns under
        Corollary 1.
    gamma : float
        The smallest cosine between a tree and its negative gradient in the run. Near the end of a long run, when
        no tree can fit what is left of the gradient, it goes to 0 and the bounds become loose.
    phi, beta : float or None
        φ of the momentum, and the rate of Corollary 1.
    monotone : bool
        Whether no round raised the loss.
    smoothing : Constants or None
        Of P, if it is a Laplacian's.
    propagation_gap : float or None
        By how much, at most, the final loss would differ with P* instead of P^(k).
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
        """Return the report in a few lines.

        Returns
        -------
        str
        """
        n_rises = int((np.diff(self.loss) > 0).sum())
        trend = "never rose" if self.monotone else f"rose in {n_rises} rounds"
        lines = [
            f"training loss   {self.loss[0]:.4g} → {self.loss[-1]:.4g} in {len(self.loss) - 1} rounds; "
            f"it {trend}",
            f"guarantee       {self.guarantee}",
        ]
        if self.bound is not None and self.optimum is not None:
            last = np.flatnonzero(np.isfinite(self.bound))[-1]
            lines.append(
                f"bound           {self.bound[last]:.4g} at round {last}, where the loss was "
                f"{self.loss[last]:.4g} (optimum {self.optimum:.4g})"
            )
        lines.append(
            f"cosine Γ        {self.gamma:.3g}, the smallest of the run; Theorem 1 allows "
            f"φ ≤ {largest_phi(self.gamma):.2g}"
        )
        if self.smoothing is not None:
            lemmas = self.smoothing
            k = "exact" if lemmas.n_steps is None else f"k = {lemmas.n_steps}"
            lines.append(
                f"propagation     μ = {lemmas.mu:g}, σ = {lemmas.sigma:.4g}, {k}: "
                f"‖P^(k) − P*‖ ≤ {lemmas.error:.2g}, which moves the loss by at most "
                f"{self.propagation_gap:.2g}"
            )
        return "\n".join(lines)

    __repr__ = summary


@dataclass(frozen=True)
class _Run:
    """A fitted model with the objective it was fitted to and its losses."""

    model: Any
    objective: Objective
    loss: Array
    cosines: list[float]
    learning_rate: float

    @property
    def gamma(self) -> float:
        return min(max(min(self.cosines), 0.0), 1.0)

    @property
    def rises(self) -> NDArray[np.int64]:
        """Rounds that raised the loss."""
        allowed = self.objective.descent_tolerance * np.abs(self.loss[:-1])
        return np.flatnonzero(np.diff(self.loss) > allowed)


@dataclass(frozen=True)
class _Guarantee:
    text: str
    bound: Array | None = None
    optimum: float | None = None
    phi: float | None = None
    beta: float | None = None


def report(model: Any, reference: Any = None) -> ConvergenceReport:
    """Compare the training loss of a fitted model with the bounds of the theorems.

    Parameters
    ----------
    model : EBBSRegressor
        Fitted with squared error and a fixed objective (``labels`` other than ``"masked"``).
    reference : EBBSRegressor, optional
        Theorem 1 compares the loss with that of an f*, which may be any sum of trees, for example that of this
        model, fitted to the same data for longer. Default: of the model itself.

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
    check_is_fitted(model, "ensemble_")
    objective = _objective(model)
    cosines = model.history_.get("cosine")
    if not cosines:
        raise ValueError("model.history_ has no cosines: the model grew no tree.")
    run = _Run(
        model,
        objective,
        np.array([objective.value(objective.start()), *model.history_["training"]]),
        cosines,
        model.learning_rate
        or selection.sized_rate(False, objective.labels.nodes.size, model._reader.is_sparse),
    )
    guarantee = _guarantee(run, model if reference is None else reference)
    lemmas = None
    gap = None
    if isinstance(model.smoothing_, Laplacian) and model.graph_ is not None:
        nodes = objective.labels.nodes
        lemmas = constants(model.graph_, model.smoothing_, nodes, float(model.penalty))
        gap = _propagation_gap(model, objective, lemmas.error)
    return ConvergenceReport(
        rounds=np.arange(run.loss.size),
        loss=run.loss,
        bound=guarantee.bound,
        guarantee=guarantee.text,
        optimum=guarantee.optimum,
        gamma=run.gamma,
        phi=guarantee.phi,
        beta=guarantee.beta,
        monotone=not run.rises.size,
        smoothing=lemmas,
        propagation_gap=gap,
    )


def _objective(model: Any) -> Objective:
    """The objective that the model was fitted to, on the labels that it was trained on."""
    if type(model.loss_) is not SquaredError:
        raise ValueError(
            "Theorem 1 and Corollary 1 are about squared error; "
            f"this model was fitted with loss {model.loss_!r}."
        )
    if isinstance(model.labels_, MaskedLabels):
        raise ValueError(
            "labels='masked' changes the loss in every round: no theorem applies to it."
        )
    labels = model._training.subset(~np.isin(model._training.nodes, model.validation_nodes_))
    operator = IdentityOperator(len(model.scores_))
    if model.smoothing_ is not None and model.graph_ is not None:
        operator = model.smoothing_.operator(model.graph_)
    if not operator.linear:
        raise ValueError(
            f"The theorems are about a linear P, and {model.smoothing_!r} is not linear."
        )
    objective = objective_for(
        model.labels_, model.graph_, operator, model.loss_, labels, None, model.penalty, 0
    )
    objective.double_precision = True
    return objective


def _guarantee(run: _Run, reference: Any) -> _Guarantee:
    momentum = as_momentum(run.model.momentum)
    if isinstance(momentum, CorrectedMomentum):
        return _from_theorem_1(run, momentum, reference.scores_)
    if not isinstance(momentum, NoMomentum):
        return _Guarantee("none: the simple momentum is not that of Theorem 1")
    if run.model.penalty > 0:
        return _from_corollary_1(run)
    return _Guarantee(
        "every round descends; a rate needs momentum='corrected' (Theorem 1) or penalty > 0 "
        "(Corollary 1)"
    )


def _from_theorem_1(run: _Run, momentum: CorrectedMomentum, scores: Array) -> _Guarantee:
    objective = run.objective
    curvature = objective.curvature(objective.start())
    optimum = objective.value(Iterate(scores, objective.propagate(scores)))
    distance = float(np.sqrt((curvature * scores**2).sum()))
    phi = float(momentum.phi)
    rounds = np.arange(run.loss.size)
    # The theorems are about the sum over labels, the history has the mean.
    total_weight = objective.labels.total_weight
    gap = theorem_1(rounds, distance, phi, learning_rate=run.learning_rate) / total_weight
    bound = optimum + gap
    bound[0] = np.nan
    largest = largest_phi(run.gamma)
    relation = "within" if phi <= largest * (1.0 + 1e-9) else "beyond"
    text = f"Theorem 1, O(1/t²); φ = {phi:g} is {relation} the {largest:.2g} it is proved for"
    if momentum.restart and run.rises.size:
        first = run.rises[0]
        bound[first + 2 :] = np.nan
        text += f"; restarted after round {first + 1}, up to which it holds"
    return _Guarantee(text, bound, optimum, phi=phi)


def _from_corollary_1(run: _Run) -> _Guarantee:
    objective = run.objective
    curvature = objective.curvature(objective.start())
    optimum = objective.value(_minimizer(run.model, objective, curvature))
    mu = run.model.penalty / float(curvature.max())

    def beta(gamma: float) -> float:
        return float(corollary_1(1, 1.0, gamma, mu=mu, learning_rate=run.learning_rate))

    factors = [beta(max(cosine, 0.0)) for cosine in run.cosines]
    bound = optimum + (run.loss[0] - optimum) * np.cumprod([1.0, *factors])
    largest = beta(run.gamma)
    text = f"Corollary 1, with the angle of each round; β = {largest:.6g} for the smallest"
    return _Guarantee(text, bound, optimum, beta=largest)


def _minimizer(model: Any, objective: Objective, curvature: Array) -> Iterate:
    """The f that minimises a penalised quadratic over all functions of the columns."""
    groups = _equal_rows(model)
    start = objective.start()
    shape = (groups.shape[1], start.scores.shape[1])
    constant = groups.T @ objective.gradient(start)

    def iterate(values: Array) -> Iterate:
        scores: Array = groups @ values.reshape(shape)
        return Iterate(scores, objective.propagate(scores))

    def hessian(values: Array) -> Array:
        image: Array = (groups.T @ objective.gradient(iterate(values)) - constant).ravel()
        return image

    scale = 1.0 / (groups.T @ np.broadcast_to(curvature, start.scores.shape)).ravel()
    size = (constant.size, constant.size)
    operator = LinearOperator(size, matvec=hessian, dtype=np.float64)
    preconditioner = LinearOperator(
        size, matvec=lambda values: scale * values.ravel(), dtype=np.float64
    )
    return iterate(cg(operator, -constant.ravel(), rtol=1e-8, maxiter=10_000, M=preconditioner)[0])


def _equal_rows(model: Any) -> sparse.csr_array:
    """Groups of nodes with equal columns, which no tree separates, as an n × groups matrix of 0 and 1.

    A model file does not contain the table, and sparse tables are not compared. Then every node is its own group,
    which lowers the optimum and so keeps the bound true.
    """
    n_nodes = len(model.scores_)
    table = model._fitted_table
    group = np.arange(n_nodes)
    if table is not None and not table.is_sparse:
        columns = model._preparation.apply(table, model.graph_).materialize().values
        rows = np.nan_to_num(columns, nan=-np.inf)
        group = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    return sparse.csr_array((np.ones(n_nodes), (np.arange(n_nodes), group)))


def _propagation_gap(model: Any, objective: Objective, error: float) -> float:
    """|ℓ^(k)(f) − ℓ*(f)| ≤ δ‖f‖‖P*f − y‖ + ½δ²‖f‖², δ = ‖P^(k) − P*‖, as in the proof of Theorem 1."""
    if error == 0.0:
        return 0.0
    labels = objective.labels
    smoother = model.smoothing_
    exact = Laplacian(smoother.lam, method="exact", normalized=smoother.normalized)
    propagated = exact.operator(model.graph_).apply(model.scores_)
    weight = labels.weight[:, None]
    residuals = labels.target - objective.init_score - propagated[labels.nodes]
    misfit = float(np.sqrt((weight * residuals**2).sum()))
    shift = error * float(np.sqrt(weight.max() * (model.scores_**2).sum()))
    return (shift * misfit + 0.5 * shift**2) / float(labels.weight.sum())
