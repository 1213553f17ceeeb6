"""Finish: from trained models to the fitted state."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ebboost.backends import Backend
from ebboost.boosting.calibration import (
    IDENTITY,
    expected_calibration_error,
    fit_calibration,
    fit_shift,
)
from ebboost.boosting.losses import SquaredError
from ebboost.data.labels import Labels
from ebboost.data.sharded import standard_error, total_rows
from ebboost.data.types import Array
from ebboost.learners.averaged import add, average
from ebboost.model.candidate import Candidate
from ebboost.model.environment import environment
from ebboost.model.output import ClassOutput
from ebboost.model.predict import propagation_operator, with_labels
from ebboost.model.state import FittedState, ForecastRecord, GraphGain, ValidationRecord
from ebboost.training import defaults
from ebboost.training.comparison import losses_of, selection_row
from ebboost.training.fold_model import FoldModel, mean_models, out_of_fold
from ebboost.training.problem import FORECAST, LabelFolds, Problem
from ebboost.training.selection import Search
from ebboost.training.spread import estimate_spread


def average_models(problem: Problem, backend: Backend, searches: Sequence[Search]) -> FittedState:
    """Return the mean of the selected candidates' models; its predictions use no labels yet."""
    selected = _selected_by(searches)
    members = tuple(_member(problem, backend, *one) for one in selected)
    search = searches[0]
    state = replace(
        members[0],
        selection=_selection_table(problem, searches),
        gain=_graph_gain(problem, search),
        validation=_validation_record(selected, search),
        forecast=_forecast_record(problem, search),
    )
    return state.with_members(members)


def _selected_by(searches: Sequence[Search]) -> list[tuple[Candidate, list[Search]]]:
    """The selected candidates, each with the searches that selected it."""
    candidates = {one.name: one for search in searches for one in search.averaged}
    return [
        (one, [each for each in searches if one.name in [its.name for its in each.averaged]])
        for one in candidates.values()
    ]


def _member(
    problem: Problem, backend: Backend, candidate: Candidate, searches: Sequence[Search]
) -> FittedState:
    """The mean of the models of one candidate."""
    models = [model for search in searches for model in search.final_models(candidate)]
    search = searches[0]
    features = search.runner.features_of(candidate)
    ensemble = average([model.ensemble for model in models if model.ensemble is not None])
    scores = np.mean([model.scores for model in models], axis=0)
    is_missing = np.isnan(scores).any(axis=1)
    if is_missing.any():
        scores[is_missing] = ensemble.predict(features.table.subset(is_missing))
    graph = backend.graph(problem.graph)
    operator = propagation_operator(candidate.smoothing, graph, problem.table.n_rows)
    propagated = backend.to_host(operator.apply(backend.to_device(scores)))
    encodes = features.pipeline.encoder is not None
    model = ("estimator", "parameters", "output", "reader", "feature_names")
    names = (*model, "graph", "coordinates", "offset", "relation_strengths")
    if problem.warm_start is not None:
        ensemble = add(problem.warm_start[candidate.name].state.ensemble, ensemble)
    reasons = [model.stop_reason for model in models]
    return FittedState(
        **{name: getattr(problem, name) for name in names},
        labels=problem.labels.labels,
        candidate=candidate,
        pipeline=features.pipeline,
        column_origin=features.table.origin,
        ensemble=ensemble,
        init_score=np.mean([model.init_score for model in models], axis=0),
        factor=float(np.mean([one.factor(candidate) for one in searches])),
        scores=scores,
        propagated_scores=propagated,
        raw_predictions=scores,
        rounds=tuple(model.n_rounds for model in models),
        stop_reason=max(reasons, key=reasons.count),
        history=models[0].history,
        selection={},
        environment=environment(problem.n_threads),
        table=None if problem.table.on_disk else problem.table,
        encoded_table=features.table.materialize() if encodes else None,
    )


def _validation_record(
    selected: Sequence[tuple[Candidate, Sequence[Search]]], search: Search
) -> ValidationRecord:
    """Predictions of held-out labels and of ``eval_set`` by models not trained on them.

    Nodes are in the order of one search.
    """
    labels = _validation_labels(search)
    means = []
    for candidate, searches in selected:
        parts = []
        for one in searches:
            predictions = _predictions(one.models(one.selected), one.models(candidate))
            if one is not search:
                order = np.argsort(_validation_labels(one).nodes)
                predictions = predictions[order[np.argsort(np.argsort(labels.nodes))]]
            parts.append(predictions)
        means.append(np.mean(parts, axis=0))
    plain = search.models(search.plain) if search.plain is not None else {}
    without = _predictions(search.models(search.selected), plain)
    return ValidationRecord(labels.nodes, labels.target, np.mean(means, axis=0), without)


def _validation_labels(search: Search) -> Labels:
    """The held-out labels and those of ``eval_set``."""
    problem = search.problem
    labels, _ = out_of_fold(problem, search.models(search.selected), "held_out")
    evaluation = problem.labels.evaluation
    return labels if evaluation is None else labels.concat(evaluation)


def _forecast_record(problem: Problem, search: Search) -> ForecastRecord | None:
    """Predictions of later labels by models trained on the labels before them."""
    later = problem.labels.later
    models = search.forecasts()
    if later is None or not models:
        return None
    labels = problem.labels.held_out(FORECAST)
    predictions = np.mean([model.held_out for model in models], axis=0)
    return ForecastRecord(labels.nodes, labels.target, predictions, later)


def _predictions(folds: Mapping[int, FoldModel], models: Mapping[int, FoldModel]) -> Array:
    """Raw predictions of the held-out labels of these folds and of ``eval_set``, NaN for none."""
    parts = [
        models[fold].held_out if fold in models else np.full_like(own.held_out, np.nan)
        for fold, own in folds.items()
    ]
    unknown = np.full_like(next(iter(folds.values())).evaluation, np.nan)
    evaluations = [model.evaluation for model in models.values()] or [unknown]
    return np.concatenate([*parts, np.mean(evaluations, axis=0)])


def _selection_table(problem: Problem, searches: Sequence[Search]) -> dict[str, list[float | str]]:
    """The candidates, best first, as columns; of several searches, the first that has it."""
    if problem.labels.validation(0) is None:
        return {}
    rows = {}
    for search in reversed(searches):
        for one in search.tried.values():
            models = search.compared(one)
            if models:
                rows[one.name] = selection_row(search.problem, one, models)
    ordered = sorted(rows.values(), key=lambda row: row["loss"])
    return {name: [row[name] for row in ordered] for name in ordered[0]}


def _graph_gain(problem: Problem, search: Search) -> GraphGain | None:
    """Error without and with the graph at labels that were not trained on."""
    plain = search.plain
    if plain is None or problem.graph is None or problem.labels.validation(0) is None:
        return None
    models = (search.models(plain), mean_models([search.models(one) for one in search.averaged]))
    if problem.n_labels > defaults.MOST_LABELS_FROM:  # plain boosting was not trained finally
        models = (search.compared(plain), search.compared(search.selected))
    folds = [fold for fold in models[0] if fold in models[1]]
    if not folds:  # interrupted
        return None
    losses = [losses_of(problem, one, folds) for one in models]
    n_labels = sum(total_rows(models[0][fold].held_out) for fold in folds)
    n_labels += total_rows(models[0][folds[0]].evaluation)
    if type(problem.output.loss) is SquaredError and problem.settings.eval_metric == "loss":
        roots = [np.sqrt(2.0 * one.mean()) for one in losses]
        influence = [one / max(root, 1e-300) for one, root in zip(losses, roots, strict=True)]
        return _gain("RMSE", roots, influence, n_labels)
    return _gain("loss", [one.mean() for one in losses], losses, n_labels)


def _gain(metric: str, levels: list[float], influence: list[Array], n_labels: int) -> GraphGain:
    error = standard_error(influence[0] - influence[1])
    return GraphGain(metric, float(levels[0]), float(levels[1]), error, n_labels)


def finish(state: FittedState, labels: LabelFolds, backend: Backend) -> FittedState:
    """Return the final state: predictions with labels, calibration, and the spread of residuals."""
    state = finish_predictions(state, backend)
    return state if state.is_classifier else replace(state, spread=estimate_spread(state, labels))


def finish_predictions(state: FittedState, backend: Backend) -> FittedState:
    """Return the state with predictions that use labels, and with calibration."""
    if isinstance(state.output, ClassOutput):
        return with_labels(_calibrate(state), state.labels, backend)
    if state.loss.log_link:
        state = _calibrate(state)
    return with_labels(state, state.labels, backend)


def _calibrate(state: FittedState) -> FittedState:
    """Calibrate probabilities, means of counts and amounts at labels that were not trained on."""
    record = state.validation
    n_labels = total_rows(record.target)
    if not n_labels:
        return state
    labels = Labels(record.nodes, record.target, np.ones_like(record.target[:, 0]))
    calibration = IDENTITY
    if n_labels >= defaults.MIN_LABELS_TO_CALIBRATE:
        fit = fit_shift if state.loss.log_link else fit_calibration
        calibration = fit(record.prediction, state.loss, labels)
    output = replace(state.output, calibration=calibration)
    members = tuple(replace(one, output=output) for one in state.members)
    state = replace(state, output=output, members=members)
    if not isinstance(output, ClassOutput):
        return state
    error = expected_calibration_error(output.apply_link(record.prediction), record.target)
    return replace(state, calibration_error=error)
