"""Algorithm 1: propagate, pull the gradient back to every node, grow a tree on it, step along it.

The loop knows no array library, no tree library and no kind of smoother: it combines what the objective and the
learner return. Everything that watches it (early stopping, progress, history) is a callback.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from typing import Any

from ebbflow.callbacks import Callback, Progress
from ebbflow.momentum import Grower, Grown, Momentum, NoMomentum
from ebbflow.objective import Iterate, NotANumber, Objective, fit_along

# A learner with chance in it may find a way down where its last tree did not; not for ever.
STALLED_ROUNDS = 10


class Boosting:
    """The rounds of Algorithm 1, one at a time: an iterator that can be left and taken up again.

    With momentum the gradient is taken at a point ahead of f, and f stays a weighted sum of the trees grown so far: the
    final model is one such sum.
    """

    def __init__(
        self,
        objective: Objective,
        learner: Grower,
        *,
        n_rounds: int,
        learning_rate: float,
        momentum: Momentum | None = None,
    ) -> None:
        self.objective, self.learner = objective, learner
        self.n_rounds, self.learning_rate = n_rounds, learning_rate
        self.pace = (momentum or NoMomentum()).start(objective, learner, learning_rate)
        self.model = objective.start()
        self.reason = "all rounds were used"
        self._round = self._stalled = 0

    def __iter__(self) -> "Boosting":
        return self

    def __next__(self) -> Progress:
        try:
            return self._next()
        except NotANumber as error:
            raise ValueError(f"Round {self._round + 1}: {error}") from None

    def _next(self) -> Progress:
        if self._round == self.n_rounds or self._stalled == STALLED_ROUNDS:
            raise StopIteration
        objective, unit = self.objective, self.objective.unit
        point = self.pace.point(self.model)
        gradient, curvature = objective.residual(point) / unit, objective.curvature(point) / unit
        tree = self.learner.grow(gradient, curvature)
        if tree is None:
            self.reason = "no tree could be grown on the gradient that is left"
            self._stalled = STALLED_ROUNDS  # what has ended stays so: a learner need not be able to grow on
            raise StopIteration
        smoothed_tree = objective.propagate(tree, point)
        step = self.learning_rate * objective.newton_step(point, tree, smoothed_tree)
        moved, step = _backtracked(objective, point, step, tree, smoothed_tree)
        self.model = self.pace.follow(moved, Grown(gradient, curvature, tree, smoothed_tree, step))
        self._stalled = self._stalled + 1 if step == 0.0 else 0
        if self._stalled == STALLED_ROUNDS:
            self.reason = "no step along a new tree lowers the loss any more"
        losses = objective.value(self.model), objective.validation_value(self.model)
        if not isfinite(losses[0]):
            raise NotANumber("the training loss is infinite. Lower learning_rate, or rescale the labels.")
        cosine = min(fit_along(gradient, curvature, tree).cosine, self.pace.cosine)
        self._round += 1
        return Progress(self._round - 1, self.n_rounds, *losses, self.model, step, cosine)


@dataclass(frozen=True)
class Boosted:
    """What a run of the loop found."""

    best: Iterate
    n_rounds: int
    stopped_because: str


def boost(boosting: Boosting, callbacks: Sequence[Callback] = (), done: Iterable[Progress] = ()) -> Boosted:
    """Run the rounds to their end, or until a callback asks to stop; ``done`` are rounds that were run before."""
    for callback in callbacks:
        callback.before_training(boosting.n_rounds)
    model, reason, rounds = boosting.model, None, {0: 0}  # rounds by number of trees: momentum may grow two in one
    for progress in chain(done, boosting):
        model = progress.model
        rounds[len(model.weights)] = progress.round + 1
        asked = [callback for callback in callbacks if callback.after_round(progress)]
        if asked:
            reason = asked[0].reason
            break
    for callback in callbacks:
        model = callback.after_training(model)
    return Boosted(model, rounds[len(model.weights)], reason or boosting.reason)


def _backtracked(
    objective: Objective, point: Iterate, step: float, tree: Any, smoothed_tree: Any
) -> tuple[Iterate, float]:
    """Halve the step until the loss does not rise; a step along a true majoriser is taken as it is."""
    before = objective.value(point)
    for _ in range(30):
        moved = point.moved(step, tree, smoothed_tree)
        if objective.value(moved) - before <= objective.slack * max(abs(before), 1e-300):
            return moved, step
        step *= 0.5
    return point.moved(0.0, tree, smoothed_tree), 0.0
