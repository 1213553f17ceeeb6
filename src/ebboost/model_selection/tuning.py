"""Hyperparameter search with Optuna, which stops poor trials before their last round."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples, has_fit_parameter

from ebboost.boosting.callbacks import Callback, RoundInfo, unless_interrupted
from ebboost.boosting.losses import Loss
from ebboost.data import validation as checks
from ebboost.data.parameters import check_number
from ebboost.data.row_order import RowOrder
from ebboost.data.splitting import hold_out
from ebboost.data.types import LabelsLike, TableLike
from ebboost.graph import Graph, Graphs
from ebboost.graph.ids import as_row_numbers
from ebboost.learners import LightGBM, as_learner
from ebboost.model_selection.splitters import RandomState, labelled_folds
from ebboost.propagation import Laplacian

Model = TypeVar("Model", bound=BaseEstimator)
Labelled = tuple[NDArray[np.int64], NDArray[Any]]
Trial = Any  # optuna.Trial: Optuna is optional
Study = Any  # optuna.Study
Suggest = Callable[[Trial], Mapping[str, Any]]

HELD_OUT_FRACTION = 0.2
# Losses are reported at each step of so much rounds × learning rate: every 5 rounds at a rate of
# 0.1. Compared by rounds alone, every small learning rate would look poor early and be pruned.
REPORT_STEP = 0.5
DEFAULT_RATE = 0.1  # for a model that chooses its own
WARM_UP_STEPS = 10
UNCHANGED = "unchanged"
N_ROUNDS = "n_rounds"


def tune(
    model: Model,
    X: TableLike,
    y: LabelsLike,
    graph: Graphs | None = None,
    *,
    n_trials: int = 30,
    timeout: float | None = None,
    space: Suggest | Mapping[str, Callable[[Trial], Any]] | None = None,
    cv: object = None,
    eval_set: tuple[Any, Any] | None = None,
    nodes: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    exposure: ArrayLike | None = None,
    random_state: RandomState = None,
    verbose: int = 1,
    study: Study = None,
) -> Model:
    """Search for parameters that lower the model's loss on held-out nodes, and refit with the best.

    The first trial is the model as it is, so that the result is never worse on the held-out nodes.
    Trials that fall behind the median of earlier ones are stopped early. Only the labels in ``y``
    and ``eval_set`` are used: leave those of test nodes out. Needs Optuna: ``pip install optuna``.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        Parameters that are not searched keep their values. It is cloned, not changed.
    X, y, graph, nodes, offset, exposure
        As in ``model.fit``.
    n_trials : int, default=30
        Number of trials, the model's own parameters included.
    timeout : float, optional
        Start no new trial after so many seconds.
    space : function or dict, optional
        What to search: a function of an Optuna trial that returns parameters of the model, or a
        dict of parameter name to a function of the trial. Default: the learning rate, the size and
        regularisation of LightGBM's trees and, with a graph, whether and how much predictions are
        smoothed by a Laplacian.
    cv : int, splitter, iterable or GraphBlockFold, optional
        Score each trial by its mean loss over folds, as in
        :func:`~ebboost.model_selection.cross_validation.cross_validate`.
    eval_set : (nodes, y), optional
        Score each trial on these nodes. Default, without ``cv``: on a fifth of the labelled nodes.
    random_state : int, RandomState or None, default=None
        Fixes the search and the held-out nodes, and the model if its ``random_state`` is None.
    verbose : int, default=1
        1 logs a line for each trial, by Optuna.
    study : optuna.Study, optional
        A study of your own: to store trials in a database, to continue earlier ones, or for
        another sampler or pruner.

    Returns
    -------
    model
        A clone fitted on all labelled nodes, with two more attributes: ``best_params_``, the
        changed parameters (empty if the model was best as it is), and ``study_``, the Optuna study
        with all trials. It stops early as ``model.fit`` would, on ``eval_set`` if there is one.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> y = np.sin(6 * X[:, 0])
    >>> g = eb.Graph.build_knn(X, k=6)
    >>> m = eb.EBBSRegressor(n_estimators=20, n_jobs=1)
    >>> best = eb.tune(m, X, y, g, n_trials=3, random_state=0, verbose=0)
    >>> len(best.study_.trials), best.predict().shape
    (3, (200,))
    """
    optuna = _optuna()
    _check_arguments(model, n_trials, cv, eval_set)
    random = check_random_state(random_state)
    seed = int(random.randint(np.iinfo(np.int32).max))
    n_rows = _num_samples(X)
    classifier = is_classifier(model)
    checks.check_graph(graph, n_rows, X)
    order = RowOrder(X, graph)
    nodes = order.rows(nodes)
    order.check(nodes, y=y)
    order.check(offset=offset, exposure=exposure)
    eval_set = order.pair(eval_set, "eval_set")
    name = type(model).__name__
    known, values, _ = checks.labelled_nodes(y, nodes, None, n_rows, classifier, name)
    known = as_row_numbers(known)
    pairs = _scoring_pairs(known, values, classifier, graph, n_rows, cv, eval_set, seed)
    base = clone(model)
    if base.random_state is None:  # otherwise chance would decide between two trials
        base.set_params(random_state=seed)
    single = None if graph is None else checks.as_single_graph(graph)
    suggest = _suggestions(space, base, single)

    data = {"graph": graph, "offset": offset, "exposure": exposure}
    objective = _Objective(base, suggest, X, data, pairs)
    study = _optimize(optuna, study, objective, n_trials, timeout, seed, verbose)
    # The first of equals; a study of the user may hold trials of another search.
    complete = [trial for trial in study.trials if trial.state.name == "COMPLETE"]
    own = [trial for trial in complete if N_ROUNDS in trial.user_attrs]
    best = min(own, key=lambda trial: trial.value)
    changes = _changes(best, lambda trial: suggest(optuna.trial.FixedTrial(trial.params)), base)
    tuned: Any = clone(base).set_params(**changes)
    tuned.fit(X, values, nodes=known, eval_set=eval_set, **data)
    if tuned.early_stopping and not tuned.history_["validation"]:
        # Too few labels to hold some out for early stopping: use the rounds of the best trial.
        changes["n_estimators"] = best.user_attrs[N_ROUNDS]
        tuned.set_params(**changes).fit(X, values, nodes=known, **data)
    tuned.study_ = study
    tuned.best_params_ = changes
    return tuned


def _check_arguments(model: BaseEstimator, n_trials: int, cv: object, eval_set: object) -> None:
    if not has_fit_parameter(model, "nodes") or not has_fit_parameter(model, "callbacks"):
        raise TypeError(
            f"model must be an EBBSRegressor or EBBSClassifier, got {type(model).__name__}."
        )
    if cv is not None and eval_set is not None:
        raise ValueError("cv and eval_set both set the nodes to score on: pass one of them.")
    check_number("n_trials", n_trials, integer=True, low=1)


def _scoring_pairs(
    known: NDArray[np.int64],
    values: NDArray[Any],
    classifier: bool,
    graph: Graphs | None,
    n_rows: int,
    cv: object,
    eval_set: tuple[Any, Any] | None,
    seed: int,
) -> list[tuple[Labelled, tuple[Any, Any]]]:
    """Labels to train on and to score on: one pair, or one for each fold."""
    if eval_set is not None:
        return [((known, values), eval_set)]
    if cv is not None:
        truth: NDArray[Any] = np.empty(n_rows, dtype=values.dtype)
        truth[known] = values
        options: dict[str, Any] = {"stratify": classifier, "random_state": seed}
        folds = labelled_folds(cv, known, values, graph, n_rows, **options)
        marked = [tuple(map(as_row_numbers, fold)) for fold in folds]
        return [((train, truth[train]), (test, truth[test])) for train, test in marked]
    held_out = np.zeros(0, dtype=np.int64)
    if round(HELD_OUT_FRACTION * values.size) >= 1:
        train, held_out = hold_out(values, HELD_OUT_FRACTION, seed, stratify=classifier)
    if classifier and held_out.size:  # a class that is not trained on cannot be scored
        held_out = held_out[np.isin(values[held_out], values[train])]
    if not held_out.size:
        raise ValueError(
            f"y has {values.size} labels, too few to hold a fifth out: pass eval_set, labelled "
            "nodes to score on."
        )
    train = np.setdiff1d(np.arange(values.size), held_out)
    return [((known[train], values[train]), (known[held_out], values[held_out]))]


def _optimize(
    optuna: ModuleType,
    study: Study,
    objective: Callable[[Trial], float],
    n_trials: int,
    timeout: float | None,
    seed: int,
    verbose: int,
) -> Study:
    """Run the trials, the first of them with the model's own parameters."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.INFO if verbose else optuna.logging.WARNING)
    try:
        if study is None:
            sampler = optuna.samplers.TPESampler(seed=seed)
            warm_up = {"n_startup_trials": 5, "n_warmup_steps": WARM_UP_STEPS}
            pruner = optuna.pruners.MedianPruner(**warm_up)
            study = optuna.create_study(sampler=sampler, pruner=pruner)
        elif [direction.name for direction in study.directions] != ["MINIMIZE"]:
            raise ValueError(
                "study must minimise one value, the loss: create it with optuna.create_study()."
            )
        if not any(UNCHANGED in trial.user_attrs for trial in study.trials):
            study.enqueue_trial({}, user_attrs={UNCHANGED: True})
        study.optimize(objective, n_trials=int(n_trials), timeout=timeout)
    finally:
        optuna.logging.set_verbosity(verbosity)
    return study


# ---------------------------------------------------------------------- what is searched


def _suggestions(space: object, model: BaseEstimator, graph: Graph | None) -> Suggest:
    """The function of a trial that returns parameters."""
    if space is None:
        return lambda trial: _default_space(trial, model, graph)
    if callable(space):
        return space
    if not isinstance(space, Mapping) or not space:
        raise ValueError(
            "space must be a function of a trial or a dict of parameter name to such a function, "
            f"got {space!r}."
        )
    for name, suggest in space.items():
        if not callable(suggest):
            raise ValueError(
                f"space[{name!r}] must be a function of a trial, such as lambda trial: "
                f"trial.suggest_float({name!r}, 0.01, 1.0), got {suggest!r}."
            )
    return lambda trial: {name: suggest(trial) for name, suggest in space.items()}


def _default_space(trial: Trial, model: BaseEstimator, graph: Graph | None) -> dict[str, Any]:
    """Parameters that matter on most tables, where the model has them and their usual types."""
    parameters = model.get_params(deep=False)
    changes: dict[str, Any] = {}
    if "learning_rate" in parameters:
        changes["learning_rate"] = trial.suggest_float("learning_rate", 0.02, 0.3, log=True)
    learner = as_learner(parameters["learner"]) if "learner" in parameters else None
    if isinstance(learner, LightGBM):
        changes["learner"] = clone(learner).set_params(
            num_leaves=trial.suggest_int("num_leaves", 7, 63, log=True),
            min_child_samples=trial.suggest_int("min_child_samples", 5, 100, log=True),
            reg_lambda=trial.suggest_float("reg_lambda", 1e-2, 30.0, log=True),
            colsample_bytree=trial.suggest_float("colsample_bytree", 0.3, 1.0),
        )
    smoothing = parameters.get("smoothing", "no such parameter")
    searchable = isinstance(smoothing, Laplacian) or smoothing in (None, "auto")
    if graph is not None and graph.n_edges and searchable:
        changes["smoothing"] = None
        if trial.suggest_categorical("smoothing", ["laplacian", "none"]) == "laplacian":
            smoother = smoothing if isinstance(smoothing, Laplacian) else Laplacian()
            changes["smoothing"] = clone(smoother).set_params(
                lam=trial.suggest_float("lam", 0.1, 30.0, log=True),
                n_steps=trial.suggest_int("n_steps", 1, 8),
            )
    return changes


def _changes(trial: Trial, suggest: Suggest, model: BaseEstimator) -> dict[str, Any]:
    """Parameters to set on the model; nothing in the trial of the unchanged model."""
    if UNCHANGED in trial.user_attrs:
        return {}
    changes = suggest(trial)
    if not isinstance(changes, Mapping):
        raise TypeError(f"space must return a dict of parameters, got {type(changes)}.")
    unknown = sorted(set(changes) - set(model.get_params()))
    if unknown:
        raise ValueError(
            f"space sets {unknown[0]!r}, which is not a parameter of this {type(model).__name__}; "
            f"there are {sorted(model.get_params())}. For parameters of a part, such as "
            "learner__num_leaves, pass the part: learner=eb.LightGBM()."
        )
    if "loss" in changes:
        raise ValueError(
            "space sets 'loss', but values of different losses cannot be compared: tune once for "
            "each loss."
        )
    return dict(changes)


# ---------------------------------------------------------------------- trials


@dataclass(frozen=True)
class _Objective:
    """The mean loss of a trial on held-out labels.

    The parameters of a loss that are estimated are those of the first trial in all others: values
    of different losses cannot be compared.
    """

    model: Any
    suggest: Suggest
    X: TableLike
    data: Mapping[str, Any]  # graph, offset and exposure
    pairs: list[tuple[Labelled, tuple[Any, Any]]]
    losses: dict[int, Loss] = field(default_factory=dict)  # of each pair

    def __call__(self, trial: Trial) -> float:
        changes = _changes(trial, self.suggest, self.model)
        losses = []
        rounds = []
        for number, ((train, labels), validation) in enumerate(self.pairs):
            candidate = clone(self.model).set_params(**changes, n_folds=1, verbose=0)
            candidate.set_params(loss=self.losses.get(number, candidate.loss))
            # The first fold shows whether a trial is poor; later folds have other losses.
            rate = candidate.learning_rate or DEFAULT_RATE
            callbacks = [_Pruning(trial, rate)] if number == 0 else []
            arguments = {"nodes": train, "eval_set": validation, "callbacks": callbacks}
            candidate.fit(self.X, labels, **self.data, **arguments)
            history = unless_interrupted(candidate).history_["validation"]
            self.losses[number] = candidate.loss_
            losses.append(history[candidate.n_iter_ - 1] if history else np.inf)  # without a tree
            rounds.append(candidate.n_iter_)
        trial.set_user_attr(N_ROUNDS, max(1, round(float(np.mean(rounds)))))
        return float(np.mean(losses))


class _Pruning(Callback):
    """Reports losses to Optuna and ends the trial when Optuna prunes it."""

    def __init__(self, trial: Trial, learning_rate: float) -> None:
        self.trial = trial
        self.learning_rate = learning_rate
        self.step = 0

    def after_round(self, progress: RoundInfo) -> None:
        """Report the loss once a step; the exception leaves ``fit``."""
        step = int((progress.round + 1) * self.learning_rate / REPORT_STEP)
        if progress.validation_loss is None or step <= self.step:
            return
        self.step = step
        self.trial.report(progress.validation_loss, step)
        if UNCHANGED not in self.trial.user_attrs and self.trial.should_prune():
            raise _optuna().TrialPruned()


def _optuna() -> ModuleType:
    try:
        import optuna
    except ImportError:
        raise ImportError("tune needs Optuna: pip install optuna.") from None
    return optuna
