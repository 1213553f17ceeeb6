"""Warm starts: new trees are added to those of an earlier model, ``init_model``."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.boosting.calibration import IDENTITY
from ebboost.boosting.losses import Loss
from ebboost.data.warn import warn_caller
from ebboost.learners import as_learner
from ebboost.model.inputs import aligned_graph
from ebboost.model.output import Output
from ebboost.model.predict import tree_scores
from ebboost.model.state import FittedState
from ebboost.training.problem import EarlierModel, FitData, Problem
from ebboost.training.settings import Settings


def continued_settings(settings: Settings, estimator: str, data: FitData) -> Settings:
    """Return the settings of a fit: the strengths of relations are those of the earlier model."""
    state = data.init_model
    if state is None:
        return settings
    if state.estimator != estimator:
        raise ValueError(f"init_model must be an {estimator}, got an {state.estimator}.")
    learners = [as_learner(one).name for one in (state.parameters["learner"], settings.learner)]
    if learners != ["lightgbm", "lightgbm"]:
        raise ValueError(f"init_model needs learner='lightgbm' in both fits, got {learners}.")
    is_alone = settings.n_folds == "auto" and data.eval_set is not None
    n_folds = 1 if is_alone else settings.n_folds
    return replace(settings, relations=state.relation_strengths or "auto", n_folds=n_folds)


def continued_output(
    kind: type[Output], values: NDArray[Any], loss: Loss | str, state: FittedState | None
) -> Output:
    """Return the meaning of labels: with an earlier model its classes and its loss as fitted."""
    if state is None:
        return kind.from_labels(values, loss)
    known = values if state.classes is None else state.classes
    losses = [repr(kind.from_labels(known, one).loss) for one in (state.parameters["loss"], loss)]
    if losses[0] != losses[1]:
        raise ValueError(f"loss must be that of init_model, {losses[0]}, got {losses[1]}.")
    return replace(state.output, calibration=IDENTITY)


def with_warm_start(problem: Problem, state: FittedState) -> Problem:
    """Return the problem with the scores that the trees of the earlier model give its rows."""
    graph = problem.graph
    for name, own, other in (
        ("graph", graph is not None, state.graph is not None),
        ("groups", *(getattr(one, "groups", None) is not None for one in (graph, state.graph))),
        ("causal", getattr(graph, "time", None) is not None, state.is_causal),
    ):
        if own != other:
            used = "with" if other else "without"
            raise ValueError(f"{name} must be as for init_model, which was fitted {used}.")
    labels = problem.labels.labels
    is_same = np.array_equal(labels.nodes, state.labels.nodes)
    is_same = is_same and np.array_equal(labels.target, state.labels.target)
    if is_same and problem.labels.has_held_out(0):
        warn_caller(
            "y are the labels that init_model was trained on: early stopping and intervals, which "
            "need labels that no tree has seen, are too optimistic. Pass others as eval_set, or "
            "use early_stopping=False."
        )
    graph = None if graph is None else aligned_graph(state, graph)
    models = {}
    for one in state.candidates:
        if one.candidate.network:  # trees alone are continued
            continue
        if one.candidate.loss is not None:
            _check_own_loss(one.candidate.loss, problem)
        scores = tree_scores(one, one.pipeline.transform(problem.table, graph))
        models[one.candidate.name] = EarlierModel(one, scores)
    if not models:
        raise ValueError(
            "init_model has no trees to continue, as networks were better: fit it with "
            "learner=eb.LightGBM()."
        )
    return replace(problem, graph=graph, warm_start=models)


def _check_own_loss(loss: Loss, problem: Problem) -> None:
    """Raise ValueError if trees of a candidate with a loss of its own cannot be continued."""
    try:
        replace(problem.output, loss=loss).fit_loss(problem.labels.labels)
        if problem.offset is not None:
            raise ValueError("offset must be None, as for init_model.")
    except ValueError as error:
        name = type(loss).__name__
        raise ValueError(
            f"{error} Trees of init_model were trained with the {name} loss, which predicted its "
            "labels better: fit it with loss='squared_error'."
        ) from None
