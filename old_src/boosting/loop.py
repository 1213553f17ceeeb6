"""Algorithm 1: propagate, pull the gradient back to every node, grow a tree on it, step along it.

The loop imports no array library, no tree library and no smoother: it combines what the objective
and the learner return. Early stopping, progress and history are callbacks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from ebboost.boosting.callbacks import Callback, RoundInfo
from ebboost.boosting.iterate import Array, Iterate
from ebboost.boosting.momentum import BoostingStep, Momentum
from ebboost.boosting.objective import NonFiniteError, Objective
from ebboost.boosting.projection import project_on_tree
from ebboost.boosting.resumable import Resumable
from ebboost.learners.base import TreeGrower

# A randomised learner may recover from a round without descent; training stops after this many in a
# row. Not tuned.
STALLED_ROUNDS = 10
# Halvings of a step before it is given up: 2⁻³⁰ of a step is below the precision of the trees.
MAX_HALVINGS = 30


class Boosting(Resumable):
    """The rounds of Algorithm 1 as an iterator that can be paused, checkpointed and resumed.

    With momentum the gradient is taken at a point ahead of f; f itself stays a weighted sum of the
    trees grown so far, and so does the final model.
    """

    state_names = ("n_rounds", "_n_trees", "_n_stalled", "reason", "model")
    stateful_parts = ("momentum", "objective", "learner")

    def __init__(
        self,
        objective: Objective,
        learner: TreeGrower,
        *,
        n_rounds: int,
        learning_rate: float,
        momentum: Momentum | None = None,
        candidate: str = "",
        fold: int = 0,
    ) -> None:
        self.objective = objective
        self.learner = learner
        self.n_rounds = n_rounds
        self.learning_rate = learning_rate
        self.candidate = candidate
        self.fold = fold
        self.momentum = (momentum or Momentum()).start(objective, learner, learning_rate)
        self.model = objective.start()
        self.reason = "all rounds were trained"
        self._n_trees: list[int] = []  # after each round: momentum may grow two in one
        self._n_stalled = 0

    @property
    def n_done(self) -> int:
        """Rounds run so far."""
        return len(self._n_trees)

    def rounds_of(self, model: Iterate) -> int:
        """Return after how many rounds the model had this many trees."""
        return self._n_trees.index(len(model.weights)) + 1 if model.weights else 0

    def __iter__(self) -> "Boosting":
        return self

    def __next__(self) -> RoundInfo:
        try:
            return self._next_round()
        except NonFiniteError as error:
            raise ValueError(f"Round {self.n_done + 1}: {error}") from None

    def _next_round(self) -> RoundInfo:
        if self.n_done == self.n_rounds or self._n_stalled == STALLED_ROUNDS:
            raise StopIteration
        objective = self.objective
        point = self.momentum.point(self.model)
        derivatives = (objective.gradient(point), objective.curvature(point))
        gradient, curvature = objective.in_units(*derivatives)
        tree = self.learner.grow(gradient, curvature)
        if tree is None:
            self.reason = "no tree could be grown on the gradient that is left"
            self._n_stalled = STALLED_ROUNDS  # for good: the learner need not be able to grow on
            raise StopIteration
        smoothed_tree = objective.propagate(tree, point)
        step = self.learning_rate * objective.newton_step(point, tree, smoothed_tree)
        model, step = _line_search(objective, point, step, tree, smoothed_tree)
        self.model.cache.clear()
        taken = BoostingStep(gradient, curvature, tree, smoothed_tree, step)
        self.model = self.momentum.update(model, taken)
        self._n_stalled = self._n_stalled + 1 if step == 0.0 else 0
        if self._n_stalled == STALLED_ROUNDS:
            self.reason = "no step along a new tree lowers the loss any more"
        training_loss = objective.value(self.model)
        if not isfinite(training_loss):
            raise NonFiniteError(
                "the training loss is infinite. Lower learning_rate, or rescale the labels."
            )
        validation_loss = objective.validation_value(self.model)
        self._n_trees.append(len(self.model.weights))
        cosine = min(project_on_tree(gradient, curvature, tree).cosine, self.momentum.cosine)
        return RoundInfo(
            self.n_done - 1,
            self.n_rounds,
            training_loss,
            validation_loss,
            self.model,
            step,
            cosine,
            self.candidate,
            self.fold,
        )


def _line_search(
    objective: Objective, point: Iterate, step: float, tree: Array, smoothed_tree: Array
) -> tuple[Iterate, float]:
    """Halve the step until the loss does not rise: never needed if the curvature is a bound."""
    before = objective.value(point)
    for _ in range(MAX_HALVINGS):
        model = point.take_step(step, tree, smoothed_tree)
        rise = objective.value(model) - before
        if rise <= objective.descent_tolerance * max(abs(before), 1e-300):
            return model, step
        step *= 0.5
    return point.take_step(0.0, tree, smoothed_tree), 0.0


@dataclass(frozen=True)
class BoostingResult:
    """The best model of a run, its number of rounds, and why the run stopped."""

    best: Iterate
    n_rounds: int
    stop_reason: str


def boost(
    boosting: Boosting,
    callbacks: Sequence[Callback] = (),
    *,
    after: Sequence[Callback] = (),
    states: Sequence[dict[str, Any]] = (),
) -> BoostingResult:
    """Run the rounds to their end, or until a callback asks to stop.

    ``after`` are called once all ``callbacks`` were, unless one of them stops: for checkpoints.
    ``states`` are checkpointed states of the callbacks.
    """
    for callback in callbacks:
        callback.before_training(boosting.n_rounds)
    for callback, state in zip(callbacks, states, strict=False):
        callback.restore(state)
    for callback in after:
        callback.before_training(boosting.n_rounds)
    model = boosting.model
    reason = None
    for info in boosting:
        model = info.model
        stopping = [callback for callback in callbacks if callback.after_round(info)]
        if not stopping:
            stopping = [callback for callback in after if callback.after_round(info)]
        if stopping:
            reason = stopping[0].reason
            break
    for callback in callbacks:
        model = callback.after_training(model)
    return BoostingResult(model, boosting.rounds_of(model), reason or boosting.reason)
