"""Nesterov's acceleration of Algorithm 1: where the gradient is taken, and the second model h that runs ahead of f.

Each round takes the gradient at g = (1−θ)f + θh with θ_t = 2/(t+2) and steps from g to the next f. What differs is how h
moves. The *simple* form moves it along the same tree by η/θ. That is Nesterov's step only if the tree is the gradient; what
a weak learner misses, h misses for good, many times enlarged. The *corrected* form (Lu, Karimireddy, Ponomareva and
Mirrokni, "Accelerating gradient boosting machines", 2020), of which Theorem 1 speaks, grows a second tree on the residual
plus what earlier second trees missed of it and moves h along that one by φη/θ. Then h + (what is still missing) takes exact
gradient steps, whatever the learner.

Both may overshoot: h carries errors of weak learners that grow with t, and with small trees the loss would in time rise
without end. So when a round has raised the loss, h begins anew at f (adaptive restart, O'Donoghue and Candès 2015).

Like the loop, this room knows no array library: it adds and multiplies what it is given.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

from sklearn.base import BaseEstimator

from ebboost.boosting.iterate import Iterate
from ebboost.boosting.objective import Objective, project_on_gradient


class Grower(Protocol):
    """A weak learner that holds the table, binned once."""

    def grow(self, gradient: Any, curvature: Any) -> Any | None:
        """Fit h to −gradient/curvature on all nodes (11) and return its values there; None if nothing is left."""

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint must keep."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from there."""


@dataclass(frozen=True)
class BoostingStep:
    """A round's tree: what it was fitted to, its values, P applied to them, and how far the loop went along it."""

    gradient: Any
    curvature: Any
    tree: Any
    smoothed_tree: Any
    step: float


class Momentum(BaseEstimator, ABC):
    """A recipe for acceleration: parameters and nothing else."""

    @abstractmethod
    def start(self, objective: Objective, learner: Grower, learning_rate: float) -> "MomentumState":
        """Return what keeps the second sequence of one run."""


class MomentumState:
    """No acceleration: the gradient is taken at f itself. The base of the two forms that have it."""

    #: Cosine of the angle between a second tree and its residual; 1 where there is none.
    cosine = 1.0

    def point(self, model: Iterate) -> Iterate:
        """Return g, where this round's gradient is taken."""
        return model

    def update(self, model: Iterate, grown: BoostingStep) -> Iterate:
        """Move h after the round's tree; return the model as a sum of all trees grown."""
        return model

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint must keep: plain values, arrays, iterates."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from there."""


class NoMomentum(Momentum):
    """Algorithm 1 as it stands."""

    def start(self, objective: Objective, learner: Grower, learning_rate: float) -> MomentumState:
        """Return a pace that does nothing."""
        return MomentumState()


class SimpleMomentum(Momentum):
    """h moves along the round's own tree by η/θ: one tree a round, and no guarantee."""

    def start(self, objective: Objective, learner: Grower, learning_rate: float) -> MomentumState:
        """Return h⁰ = 0 and its rule."""
        return _Simple(objective)


class CorrectedMomentum(Momentum):
    """Momentum with corrected residuals, as in Theorem 1: two trees a round.

    Parameters
    ----------
    phi : float, default=0.2
        φ, between 0 and 1: the share of Nesterov's step that h takes. The theorem asks for φ ≤ Γ⁴/(4+Γ²), where Γ is the
        minimum cosine angle of the learner (:func:`ebboost.theory.convergence.largest_phi`): 0.2
        where Γ = 1, and far less for small trees, which in practice bear more than the theorem grants them.
    restart : bool, default=True
        Begin anew at f when a round has raised the loss. The theorem knows no restarts: it speaks of the rounds before
        the first. Without them, and with φ beyond what it allows, the loss may rise without end.

    Examples
    --------
    >>> import ebboost as eb
    >>> model = eb.EBBSRegressor(momentum=eb.CorrectedMomentum(phi=0.1))
    >>> model = eb.EBBSRegressor(momentum="corrected")  # the same with phi=0.2
    """

    def __init__(self, phi: float = 0.2, restart: bool = True) -> None:
        self.phi = phi
        self.restart = restart

    def start(self, objective: Objective, learner: Grower, learning_rate: float) -> MomentumState:
        """Return h⁰ = 0 and its rule."""
        return _Corrected(objective, learner, self.phi * learning_rate, self.restart)


class _Simple(MomentumState):
    def __init__(self, objective: Objective, restart: bool = True) -> None:
        self.ahead, self._objective, self._restart = objective.start(), objective, restart
        self._value = objective.value(self.ahead)
        self._round = 0

    @property
    def theta(self) -> float:
        return 2.0 / (self._round + 2.0)

    def point(self, model: Iterate) -> Iterate:
        return model.interpolate(self.ahead, self.theta)

    def update(self, model: Iterate, grown: BoostingStep) -> Iterate:
        self.ahead = self.ahead.take_step(grown.step / self.theta, grown.tree, grown.smoothed_tree)
        return self._kept(model)

    def state(self) -> dict[str, Any]:
        return {"ahead": self.ahead, "value": self._value, "round": self._round}

    def restore(self, state: dict[str, Any]) -> None:
        self.ahead, self._value, self._round = state["ahead"], state["value"], state["round"]

    def _kept(self, model: Iterate) -> Iterate:
        """Go on to the next round, or begin anew."""
        before, self._value = self._value, self._objective.value(model)
        self._round += 1
        if self._restart and self._value > before + self._objective.slack * abs(before):
            self.ahead, self._round = model, 0
        return model


class _Corrected(_Simple):
    def __init__(self, objective: Objective, learner: Grower, rate: float, restart: bool) -> None:
        super().__init__(objective, restart)
        self._learner, self._rate = learner, rate
        self._missed: Any = 0.0

    def update(self, model: Iterate, grown: BoostingStep) -> Iterate:
        t, theta = self._round, self.theta
        # Residuals are kept as gradients, −(curvature × residual), which is what learners take.
        corrected = grown.gradient + (t + 1.0) / (t + 2.0) * self._missed if t else grown.gradient
        self.ahead = self.ahead.take_step(0.0, grown.tree, grown.smoothed_tree)
        tree = self._learner.grow(corrected, grown.curvature)
        self._missed, self.cosine = corrected, 0.0
        if tree is not None:
            # The theorem's tree is the projection of the residual; leaves that were shrunk are stretched back to it.
            length, self.cosine = project_on_gradient(corrected, grown.curvature, tree)
            self._missed = corrected + grown.curvature * (length * tree)
            smoothed_tree = self._objective.propagate(tree, model)
            self.ahead = self.ahead.take_step(self._rate / theta * length, tree, smoothed_tree)
            model = model.take_step(0.0, tree, smoothed_tree)
        return self._kept(model)

    def state(self) -> dict[str, Any]:
        return super().state() | {"missed": self._missed, "cosine": self.cosine}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._missed, self.cosine = state["missed"], state["cosine"]


NAMES = {
    False: NoMomentum,
    True: SimpleMomentum,
    "simple": SimpleMomentum,
    "corrected": CorrectedMomentum,
}


def as_momentum(momentum: Any) -> Momentum:
    """Turn the ``momentum`` parameter into a recipe: True or False, a name, or a recipe."""
    if isinstance(momentum, Momentum):
        return momentum
    return NAMES[momentum]()
