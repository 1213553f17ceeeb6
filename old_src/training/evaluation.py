"""The metric that early stopping and the selection follow, at the validation nodes."""

from collections.abc import Callable
from functools import partial

import numpy as np

from ebboost.backends import Backend
from ebboost.boosting.metrics import Scored, as_metric
from ebboost.data.labels import Labels
from ebboost.data.sharded import of_all_rows
from ebboost.data.types import Array
from ebboost.model.candidate import Candidate
from ebboost.training.problem import Problem

# Groups of labels that a metric is computed without, for its standard error.
N_GROUPS = 20


def eval_metric(
    problem: Problem, backend: Backend, validation: Labels | None, candidate: Candidate
) -> Callable[[Array], float] | None:
    """Return the ``eval_metric`` parameter as a function of scores, smaller is better.

    None for the loss of a candidate that is trained with it: the objective computes that itself.
    """
    parameter = problem.settings.eval_metric
    if parameter == "loss":
        if candidate.loss is None or validation is None:
            return None
        return partial(_loss_of_scores, problem, backend, validation, candidate)
    metric = as_metric(parameter, problem.classes, "eval_metric")
    if validation is None:
        return None
    offset = None if problem.offset is None else problem.offset[validation.nodes]
    labelled = (validation.target, validation.weight, offset)

    def evaluate(scores: Array) -> float:
        raw = candidate.to_raw(backend.to_host(scores))
        scored = Scored(problem.output.loss, *map(of_all_rows, (raw, *labelled)))
        value = metric.compute(scored)
        return -value if metric.greater_is_better else value

    return evaluate


def _loss_of_scores(
    problem: Problem, backend: Backend, labels: Labels, candidate: Candidate, scores: Array
) -> float:
    """Mean loss of the fit, of the predictions of a candidate that is trained with another."""
    with np.errstate(over="ignore"):
        raw = candidate.to_raw(backend.to_host(scores))
        values = problem.output.loss.value(raw, labels.target)
    return float(np.average(values, weights=labels.weight))


def compared_losses(problem: Problem, labels: Labels, predictions: Array) -> Array:
    """Return numbers whose mean and standard error candidates are compared by.

    Half the deviance of each label, or of an ``eval_metric`` the pseudo-values of a jackknife over
    groups of labels; 1 minus a metric of which more is better.
    """
    parameter = problem.settings.eval_metric
    if parameter == "loss":
        share = labels.weight / labels.weight.mean()
        # Not the loss itself, which has no natural zero: gains are compared with its size.
        return share * 0.5 * problem.output.loss.deviance(predictions, labels.target)
    metric = as_metric(parameter, problem.classes, "eval_metric")
    offset = None if problem.offset is None else problem.offset[labels.nodes]
    parts = (predictions, labels.target, labels.weight, offset)
    scored = Scored(problem.output.loss, *map(of_all_rows, parts))
    group = np.arange(len(scored.scores)) % N_GROUPS
    values = [metric.compute(scored.subset(group != one)) for one in np.unique(group)]
    pseudo = len(values) * metric.compute(scored) - (len(values) - 1) * np.array(values)
    return 1.0 - pseudo if metric.greater_is_better else pseudo
