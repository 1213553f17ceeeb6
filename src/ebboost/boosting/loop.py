"""Algorithm 1: propagate, pull the gradient back to every node, grow a tree on it, step along it.

The loop knows no array library, no tree library and no kind of smoother: it combines what the objective and the
learner return. Everything that watches it (early stopping, progress, history) is a callback.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from typing import Any

from ebboost.boosting.callbacks import Callback, RoundInfo
from ebboost.boosting.iterate import Iterate
from ebboost.boosting.momentum import BoostingStep, Grower, Momentum, NoMomentum
from ebboost.boosting.objective import NonFiniteError, Objective, project_on_gradient

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
        self._trees: list[int] = []  # after each round: momentum may grow two in one
        self._stalled = 0

    @property
    def n_done(self) -> int:
        """Rounds run so far."""
        return len(self._trees)

    def rounds_of(self, model: Iterate) -> int:
        """After how many rounds the model was this one."""
        return self._trees.index(len(model.weights)) + 1 if model.weights else 0

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint must keep: plain values, bytes, arrays and iterates, of this and of its parts."""
        return {
            "n_rounds": self.n_rounds,
            "trees": self._trees,
            "stalled": self._stalled,
            "reason": self.reason,
            "model": self.model,
            "pace": self.pace.state(),
            "objective": self.objective.state(),
            "learner": self.learner.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from there: the next round is the one that would have come."""
        self.n_rounds, self._trees, self._stalled = (
            state["n_rounds"],
            state["trees"],
            state["stalled"],
        )
        self.reason, self.model = state["reason"], state["model"]
        self.pace.restore(state["pace"])
        self.objective.restore(state["objective"])
        self.learner.restore(state["learner"])

    def __iter__(self) -> "Boosting":
        return self

    def __next__(self) -> RoundInfo:
        try:
            return self._next()
        except NonFiniteError as error:
            raise ValueError(f"Round {self.n_done + 1}: {error}") from None

    def _next(self) -> RoundInfo:
        if self.n_done == self.n_rounds or self._stalled == STALLED_ROUNDS:
            raise StopIteration
        objective = self.objective
        point = self.pace.point(self.model)
        gradient, curvature = map(
            objective.in_units, (objective.gradient(point), objective.curvature(point))
        )
        tree = self.learner.grow(gradient, curvature)
        if tree is None:
            self.reason = "no tree could be grown on the gradient that is left"
            self._stalled = (
                STALLED_ROUNDS  # what has ended stays so: a learner need not be able to grow on
            )
            raise StopIteration
        smoothed_tree = objective.propagate(tree, point)
        step = self.learning_rate * objective.newton_step(point, tree, smoothed_tree)
        moved, step = _backtracked(objective, point, step, tree, smoothed_tree)
        last, self.model = (
            self.model,
            self.pace.update(moved, BoostingStep(gradient, curvature, tree, smoothed_tree, step)),
        )
        last.cache.clear()  # what was computed at the round gone by
        self._stalled = self._stalled + 1 if step == 0.0 else 0
        if self._stalled == STALLED_ROUNDS:
            self.reason = "no step along a new tree lowers the loss any more"
        losses = objective.value(self.model), objective.validation_value(self.model)
        if not isfinite(losses[0]):
            raise NonFiniteError(
                "the training loss is infinite. Lower learning_rate, or rescale the labels."
            )
        cosine = min(project_on_gradient(gradient, curvature, tree).cosine, self.pace.cosine)
        self._trees.append(len(self.model.weights))
        return RoundInfo(self.n_done - 1, self.n_rounds, *losses, self.model, step, cosine)


@dataclass(frozen=True)
class BoostingResult:
    """What a run of the loop found."""

    best: Iterate
    n_rounds: int
    stop_reason: str


def boost(
    boosting: Boosting,
    callbacks: Sequence[Callback] = (),
    done: Iterable[RoundInfo] = (),
    *,
    after: Sequence[Callback] = (),
    states: Sequence[dict[str, Any]] = (),
) -> BoostingResult:
    """Run the rounds to their end, or until a callback asks to stop.

    Parameters
    ----------
    done : iterable of RoundInfo
        Rounds that were run before, and that no callback has seen.
    after : sequence of Callback
        Asked once a round is over for all others, and only if none of them stops: what they keep of it can be resumed.
    states : sequence of dict
        What a checkpoint kept of the callbacks, if these rounds are not the first.
    """
    for callback in callbacks:
        callback.before_training(boosting.n_rounds)
    for callback, state in zip(callbacks, states, strict=False):
        callback.restore(state)
    for callback in after:
        callback.before_training(boosting.n_rounds)
    model, reason = boosting.model, None
    for progress in chain(done, boosting):
        model = progress.model
        asked = [callback for callback in callbacks if callback.after_round(progress)]
        if not asked and progress.round + 1 == boosting.n_done:
            asked = [callback for callback in after if callback.after_round(progress)]
        if asked:
            reason = asked[0].reason
            break
    for callback in callbacks:
        model = callback.after_training(model)
    return BoostingResult(model, boosting.rounds_of(model), reason or boosting.reason)


def _backtracked(
    objective: Objective, point: Iterate, step: float, tree: Any, smoothed_tree: Any
) -> tuple[Iterate, float]:
    """Halve the step until the loss does not rise; a step along a true majoriser is taken as it is."""
    before = objective.value(point)
    for _ in range(30):
        moved = point.take_step(step, tree, smoothed_tree)
        if objective.value(moved) - before <= objective.slack * max(abs(before), 1e-300):
            return moved, step
        step *= 0.5
    return point.take_step(0.0, tree, smoothed_tree), 0.0
