"""Callbacks of scikit-learn 1.9 and later: ``model.set_callbacks(ProgressBar())``.

A fit is their outermost task, each model (a member on a fold) a task of it, each round one of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sklearn.callback import with_callbacks

from ebboost.callbacks import Callback, RoundInfo

if TYPE_CHECKING:
    from ebboost.boosting import Point


class Tasks(Callback):
    """Passes on where a fit is; models are trained one after another."""

    reason = "a callback of scikit-learn asked to stop"

    def __init__(self, estimator: Any, context: Any) -> None:
        self.estimator, self.context = estimator, context

    def before_training(self, n_rounds: int) -> None:
        self.model = self.context.subcontext(task_name="model", max_subtasks=None)
        self.model.call_on_fit_task_begin(estimator=self.estimator)

    def after_round(self, info: RoundInfo) -> bool:
        task = self.model.subcontext(task_name="round")
        task.call_on_fit_task_begin(estimator=self.estimator)
        return bool(task.call_on_fit_task_end(estimator=self.estimator))

    def after_training(self, model: Point) -> Point:
        self.model.call_on_fit_task_end(estimator=self.estimator)
        return model


@with_callbacks  # type: ignore[untyped-decorator]
def fit_with_callbacks(estimator: Any, callbacks: Sequence[Callback], **arguments: Any) -> Any:
    """Return the model that an estimator fits, with the callbacks of scikit-learn that it has."""
    context = estimator._init_callback_context(max_subtasks=None)
    data = {"X": arguments["X"], "y": arguments["y"]}
    context.call_on_fit_task_begin(estimator=estimator, **data)
    callbacks = [*callbacks, Tasks(estimator, context)]
    model = estimator._fit(estimator, callbacks=callbacks, **arguments)
    context.call_on_fit_task_end(estimator=estimator, **data)
    return model
