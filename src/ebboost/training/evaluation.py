"""The metric that early stopping follows, at the validation nodes."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ebboost.backends import Backend
from ebboost.boosting.metrics import Scored, as_metric
from ebboost.data.labels import Labels
from ebboost.training.problem import Problem

Array = NDArray[np.float64]


def eval_metric(
    problem: Problem, backend: Backend, validation: Labels | None
) -> Callable[[Array], float] | None:
    """Return the ``eval_metric`` parameter as a function of scores, smaller is better.

    None for the loss, which the objective computes itself.
    """
    parameter = problem.settings.eval_metric
    if parameter == "loss":
        return None
    metric = as_metric(parameter, problem.classes, "eval_metric")
    if validation is None:
        return None
    offset = None if problem.offset is None else problem.offset[validation.nodes]
    labelled = (validation.target, validation.weight, offset)

    def evaluate(scores: Array) -> float:
        scored = Scored(problem.output.loss, backend.to_host(scores), *labelled)
        value = metric.compute(scored)
        return -value if metric.greater_is_better else value

    return evaluate
