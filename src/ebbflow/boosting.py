"""Algorithm 1: propagate, pull the gradient back to every node, grow a tree on it, step along it.

The loop knows no array library, no tree library and no kind of smoother: it combines what the objective and the
learner return. Everything that watches it (early stopping, progress, history) is a callback.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ebbflow.callbacks import Callback, Progress
from ebbflow.objective import Iterate, Objective

# A learner with chance in it may find a way down where its last tree did not; not for ever.
STALLED_ROUNDS = 10


class Learner(Protocol):
    """A weak learner that holds the table, binned once."""

    def grow(self, gradient: Any, curvature: Any) -> Any | None:
        """Fit h to −gradient/curvature on all nodes (11) and return its values there; None if nothing is left."""


@dataclass(frozen=True)
class Boosted:
    """What a run of the loop found."""

    best: Iterate
    n_rounds: int
    stopped_because: str


def boost(
    objective: Objective,
    learner: Learner,
    *,
    n_rounds: int,
    learning_rate: float,
    momentum: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Boosted:
    """Minimise the objective over sums of the learner's trees.

    With ``momentum`` (Nesterov, θ_t = 2/(t+2)) the gradient is taken at g = (1−θ)f + θh, and both f and h stay
    weighted sums of the trees grown so far: the final model is one such sum.
    """
    f = ahead = objective.start()
    reason, t, stalled = "all rounds were used", 0, 0
    for callback in callbacks:
        callback.before_training(n_rounds)
    for t in range(n_rounds):
        theta = 2.0 / (t + 2.0)
        point = f.mixed(ahead, theta) if momentum else f
        tree = learner.grow(objective.residual(point), objective.curvature(point))
        if tree is None:
            reason = "no tree could be grown on the gradient that is left"
            break
        smoothed_tree = objective.propagate(tree)
        step = learning_rate * objective.newton_step(point, tree, smoothed_tree)
        f, step = _backtracked(objective, point, step, tree, smoothed_tree)
        if momentum:
            ahead = ahead.moved(step / theta, tree, smoothed_tree)
        progress = Progress(t, n_rounds, objective.value(f), objective.validation_value(f), f, step)
        asked = [callback.after_round(progress) for callback in callbacks]
        if any(asked):
            reason = "a callback asked to stop"
            break
        stalled = stalled + 1 if step == 0.0 else 0
        if stalled == STALLED_ROUNDS:
            reason = "no step along a new tree lowers the loss any more"
            break
    for callback in callbacks:
        f = callback.after_training(f)
    return Boosted(f, t + 1, reason)


def _backtracked(
    objective: Objective, point: Iterate, step: float, tree: Any, smoothed_tree: Any
) -> tuple[Iterate, float]:
    """Halve the step until the loss does not rise; a step along a true majoriser is taken as it is."""
    before = objective.value(point)
    for _ in range(30):
        moved = point.moved(step, tree, smoothed_tree)
        if objective.value(moved) <= before + 1e-12 * abs(before):
            return moved, step
        step *= 0.5
    return point.moved(0.0, tree, smoothed_tree), 0.0
