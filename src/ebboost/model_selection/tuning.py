"""Search for parameters with Optuna; trials are cross-validated, poor ones not on all folds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from ebboost._common import LabelsLike, Seed, TableLike, check_number, seed_of
from ebboost.data.features import NeighborFeatures
from ebboost.estimators import BaseEBBS
from ebboost.graph import Graph
from ebboost.learners import as_learner
from ebboost.learners.base import import_library
from ebboost.model_selection.cross_validation import cross_validate, labels_and_folds, named_metrics
from ebboost.smoothing import Laplacian

Model = TypeVar("Model", bound=BaseEBBS)
Trial = Any  # optuna.Trial: Optuna is optional
#: Least and greatest value of parameters of learners that have them.
TREES: dict[str, tuple[float, float]] = {
    "num_leaves": (7, 63),
    "max_depth": (3, 8),
    "min_child_samples": (3, 60),
}
TREES |= {
    "min_child_weight": (1.0, 60.0),
    "reg_lambda": (0.1, 50.0),
    "colsample_bytree": (0.3, 1.0),
}


def tune(
    model: Model,
    X: TableLike,
    y: LabelsLike,
    graph: Graph | None = None,
    *,
    n_trials: int = 30,
    max_seconds: float | None = None,
    metric: str | None = None,
    space: Callable[[Trial], Mapping[str, Any]] | None = None,
    cv: Any = 3,
    random_state: Seed = None,
    verbose: int = 1,
    study: Any = None,
    **data: Any,
) -> Model:
    """Search for parameters with the best metric at held-out labels, and fit with them.

    The first trial is the model as it is. Trials behind the median of earlier ones are stopped
    after a fold. Ctrl-C ends the search, with the best parameters so far. Leave the labels of test
    rows out of ``y``. Needs Optuna.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        Parameters that are not searched keep their values. It is cloned. A search is fast for
        ``from_preset("fast")``, which trains two models in place of dozens.
    X, y, graph
        As in ``model.fit``.
    n_trials : int, default=30
        Number of trials.
    max_seconds : float, optional
        Start no more trials after so many seconds.
    metric : str, optional
        As in ``model.score``. The value of a trial is the mean of this metric over the folds.
        Default: ``"rmse"``, of counts and amounts ``"deviance"``, of classes ``"log_loss"``.
    space : function, optional
        Returns parameters of the model for an Optuna trial, such as ``lambda trial:
        {"learning_rate": trial.suggest_float("rate", 0.02, 0.3, log=True)}``. Default: the learning
        rate, the trees and, with a graph, propagation and columns of neighbours.
    cv : int, splitter or iterable, default=3
        As in :func:`cross_validate`.
    random_state : int, RandomState or None, default=None
        Fixes the search and the folds, and the model if its ``random_state`` is None.
    verbose : int, default=1
        1 writes a line for each trial to standard error.
    study : optuna.Study, optional
        A study of your own: to store trials, to continue earlier ones, or with another sampler.
    **data
        Other arguments of ``model.fit``, such as ``nodes``, ``coordinates`` or ``exposure``.

    Returns
    -------
    model
        Fitted on all labels, with ``best_params_``, the changed parameters, and ``study_``, the
        Optuna study, whose user attribute ``metric`` says what its values are.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> g = eb.Graph.build_knn(X, k=6)
    >>> model = eb.EBBSRegressor.from_preset("fast")
    >>> best = eb.tune(model, X, X[:, 0], g, n_trials=2, random_state=0, verbose=0)
    >>> len(best.study_.trials), best.predict().shape
    (2, (200,))
    """
    optuna = import_library("optuna", "tune", "optuna")
    check_number("n_trials", n_trials, integer=True, low=1)
    if not (space is None or callable(space)):
        raise TypeError(f"space must be a function of a trial, got {space!r}.")
    seed = seed_of(random_state)
    base = clone(model)
    problem, _, _, folds = labels_and_folds(base, X, y, graph, cv, seed, data)
    if base.random_state is None:  # otherwise chance would decide between two trials
        base.set_params(random_state=seed)
    name = metric or list(named_metrics(None, problem.output))[-1]
    is_greater = named_metrics(name, problem.output)[name].greater_is_better
    direction = "maximize" if is_greater else "minimize"
    suggest = space or (lambda trial: default_space(trial, base, graph is not None))
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if study is None:
        study = optuna.create_study(
            sampler=optuna.samplers.TPESampler(seed=seed), direction=direction
        )
    if [one.name.lower() for one in study.directions] != [direction]:
        raise ValueError(f"study must {direction} one value, the {name}.")
    study.set_user_attr("metric", name)
    is_continued = bool(study.trials)

    def objective(trial: Trial) -> float:
        changes = suggest(trial) if is_continued or trial.number else {}
        candidate = clone(base).set_params(**changes)
        values: list[float] = []
        for fold in folds:
            scores = cross_validate(candidate, X, y, graph, cv=[fold], scoring=name, **data)
            values.append(scores["test_score"][0])
            trial.report(float(np.mean(values)), len(values))
            if changes and len(values) < len(folds) and trial.should_prune():
                raise optuna.TrialPruned
        return float(np.mean(values))

    def is_complete(trial: Any) -> bool:
        return bool(trial.state == optuna.trial.TrialState.COMPLETE)

    def tell(study: Any, trial: Any) -> None:
        value = f"{name} {trial.value:.5g}" if is_complete(trial) else "stopped"
        parts = (f"{key}={one:.3g}" for key, one in trial.params.items())
        sys.stderr.write(f"trial {trial.number + 1}: {value}  {', '.join(parts)}\n")

    try:
        callbacks = [tell] if verbose else []
        study.optimize(objective, n_trials=n_trials, timeout=max_seconds, callbacks=callbacks)
    except KeyboardInterrupt:
        if not any(map(is_complete, study.trials)):
            raise
    finally:
        optuna.logging.set_verbosity(verbosity)
    best = study.best_trial.params if any(map(is_complete, study.trials)) else {}
    changes = dict(suggest(optuna.trial.FixedTrial(best))) if best else {}
    tuned = clone(base).set_params(**changes).fit(X, y, graph=graph, **data)
    tuned.best_params_, tuned.study_ = changes, study
    return tuned


def default_space(trial: Trial, model: BaseEBBS, has_graph: bool) -> dict[str, Any]:
    """Return the learning rate and parameters of the trees, and parts that use the graph."""
    learner = as_learner(model.learner, model.device)
    changes: dict[str, Any] = {}
    trees = {}
    for name in [name for name in TREES if name in learner.get_params()]:
        low, high = TREES[name]
        draw = trial.suggest_int if isinstance(low, int) else trial.suggest_float
        trees[name] = draw(name, low, high, log=True)
    if trees:
        changes["learner"] = clone(learner).set_params(**trees)
        changes["learning_rate"] = trial.suggest_float("learning_rate", 0.03, 0.4, log=True)
    if has_graph and model.smoothing in (None, "auto"):
        changes["smoothing"] = None
        if trial.suggest_categorical("smoothing", [False, True]):
            lam = trial.suggest_float("lam", 0.3, 10.0, log=True)
            changes["smoothing"] = Laplacian(lam, trial.suggest_int("n_steps", 1, 6))
    if has_graph and model.neighbor_features in (None, "auto"):
        columns = trial.suggest_categorical("neighbor_features", [False, True])
        changes["neighbor_features"] = NeighborFeatures() if columns else None
    return changes
