"""Parameters of the likelihood and weights of outliers, by out-of-fold scores of plain boosting."""

from dataclasses import replace

import numpy as np

from ebboost.backends import Backend
from ebboost.boosting.callbacks import Interrupt
from ebboost.boosting.field_estimation import estimate_field
from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import regression_loss
from ebboost.data.sharded import total_rows
from ebboost.data.types import Array
from ebboost.model.predict import propagation_operator
from ebboost.training import defaults
from ebboost.training.fold_model import positions_of_unseen, unseen_labels
from ebboost.training.parts import parts_of
from ebboost.training.problem import EarlierModel, Problem
from ebboost.training.runs import Runner


def with_estimated_loss(problem: Problem, backend: Backend, interrupt: Interrupt) -> Problem:
    """Return the problem with the parameters of its loss that the user left open, and its weights.

    From labels alone the spread of their means counts as dispersion, and large counts weigh too
    little. Out-of-fold scores, or those of ``eval_set`` where no label is held out, leave what
    columns do not explain, and a field of their own what neighbours do not explain either.
    """
    if problem.classes:
        return problem
    loss = regression_loss(problem.settings.loss)
    if None not in loss.get_params().values() or problem.labels.validation(0) is None:
        return problem
    if problem.warm_start is not None:
        return _with_outlier_weights(problem, next(iter(problem.warm_start.values())))
    parts = parts_of(problem)
    runner = Runner(problem, backend, (), None, interrupt)
    folds = range(problem.labels.n_folds)
    runner.train(parts.plain, folds)
    interrupt.check()
    models = {fold: model for (_, fold), model in runner.models.items()}
    labels, scores = unseen_labels(problem, models, "held_out")
    if total_rows(labels.target) < defaults.MIN_LABELS_FOR_FOLDS:
        return problem
    weights: Array | float = 1.0
    if "labels" in parts.optional and problem.graph is not None:
        positions = positions_of_unseen(problem, models)
        arguments = (problem.graph, labels, scores, loss)
        estimate = estimate_field(*arguments, seed=problem.seed, positions=positions)
        loss = estimate.loss
        weights = estimate.outlier_weights
    else:
        loss = loss.prepared(labels.target, labels.weight, scores)
        if parts.plain.labels is not None:
            weights = loss.outlier_weights(scores, labels.target)
    output = replace(problem.output, loss=loss)
    if not problem.labels.has_held_out(0):  # the labels trained on have no such scores
        return replace(problem, output=output)
    return replace(problem, output=output, labels=problem.labels.reweighted(models, weights))


def _with_outlier_weights(problem: Problem, earlier: EarlierModel) -> Problem:
    """The problem of a warm start, outliers weighted by the scores of the earlier model."""
    candidate = earlier.state.candidate
    graph = problem.graph
    if graph is None or not isinstance(candidate.labels, LatentField):
        return problem
    operator = propagation_operator(candidate.smoothing, graph, problem.table.n_rows)
    scores = earlier.state.init_score + operator.apply(earlier.scores)
    scores = scores if problem.offset is None else scores + problem.offset
    labels = problem.labels.labels
    arguments = (graph, labels, scores[labels.nodes], problem.output.loss)
    estimate = estimate_field(*arguments, seed=problem.seed, start=candidate.labels)
    fold = problem.labels.fold
    weights = np.broadcast_to(estimate.outlier_weights, fold.shape)
    by_fold = weights[np.argsort(fold, kind="stable")]
    return replace(problem, labels=problem.labels.reweighted(np.unique(fold).tolist(), by_fold))
