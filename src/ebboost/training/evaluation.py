"""The metric that early stopping follows, at the validation nodes."""

from collections.abc import Callable

from ebboost.backends import Backend
from ebboost.boosting.metrics import Scored, as_metric
from ebboost.data.labels import Labels
from ebboost.data.sharded import of_all_rows
from ebboost.data.types import Array
from ebboost.training.problem import Problem


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
        parts = map(of_all_rows, (backend.to_host(scores), *labelled))
        scored = Scored(problem.output.loss, *parts)
        value = metric.compute(scored)
        return -value if metric.greater_is_better else value

    return evaluate
