"""Nesterov's acceleration of Algorithm 1: the point g of the gradient and the second model h.

Each round takes the gradient at g = (1−θ)f + θh with θ_t = 2/(t+2) and steps from g to the next f.
The forms differ in how h moves. The *simple* form moves it along the same tree by η/θ. That is
Nesterov's step only if the tree is the gradient; what a weak learner misses, h misses for good,
enlarged by 1/θ. The *corrected* form (Lu, Karimireddy, Ponomareva and Mirrokni, "Accelerating
gradient boosting machines", 2020), the one of Theorem 1, grows a second tree on the gradient plus
what earlier second trees missed of it, and moves h along that tree by φη/θ. Then h + (what is still
missing) takes exact gradient steps, whatever the learner.

Both may overshoot: errors of weak learners accumulate in h and grow with t, and with small trees
the loss would eventually diverge. So when a round has raised the loss, h restarts at f (O'Donoghue
and Candès, 2015).
"""

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator

from ebboost.boosting.iterate import Array, Iterate
from ebboost.boosting.objective import Objective
from ebboost.boosting.projection import project_on_tree
from ebboost.boosting.resumable import Resumable
from ebboost.data.parameters import check_bool, check_number
from ebboost.learners.base import TreeGrower


@dataclass(frozen=True)
class BoostingStep:
    """Gradient, curvature, tree, smoothed tree and step of a round."""

    gradient: Array
    curvature: Array
    tree: Array
    smoothed_tree: Array
    step: float


class MomentumState(Resumable):
    """The second sequence of one run; none here: the gradient is taken at f itself."""

    #: Cosine of the angle between a second tree and its gradient; 1 if there is no second tree.
    cosine = 1.0

    def point(self, model: Iterate) -> Iterate:
        """Return g, where this round's gradient is taken."""
        return model

    def update(self, model: Iterate, step: BoostingStep) -> Iterate:
        """Move h after the round's tree; return the model as a sum of all trees grown."""
        return model


class Momentum(BaseEstimator):
    """Parameters of an acceleration; this base class is Algorithm 1 without one."""

    def start(self, objective: Objective, learner: TreeGrower, rate: float) -> MomentumState:
        """Return the second sequence of a new run.

        Parameters
        ----------
        objective : Objective
        learner : TreeGrower
        rate : float
            The learning rate.

        Returns
        -------
        MomentumState
        """
        return MomentumState()


class SimpleMomentum(Momentum):
    """h moves along the round's own tree by η/θ: one tree a round, without a guarantee."""

    def start(self, objective: Objective, learner: TreeGrower, rate: float) -> MomentumState:
        """Return h = 0, which the trees of the rounds will move."""
        return _Simple(objective)


class CorrectedMomentum(Momentum):
    """Momentum with corrected gradients, as in Theorem 1: two trees a round.

    Parameters
    ----------
    phi : float, default=0.2
        φ, between 0 and 1: the share of Nesterov's step that h takes. The theorem asks for φ ≤
        Γ⁴/(4+Γ²), where Γ is the minimum cosine angle of the learner
        (:func:`ebboost.theory.convergence.largest_phi`): 0.2 for Γ = 1, and far less for small
        trees, which in practice allow more than the theorem grants them.
    restart : bool, default=True
        Restart h at f when a round has raised the loss. Theorem 1 holds up to the first restart.
        Without restarts, and with φ beyond what it allows, the loss may diverge.

    Examples
    --------
    >>> import ebboost as eb
    >>> model = eb.EBBSRegressor(momentum=eb.CorrectedMomentum(phi=0.1))
    >>> model = eb.EBBSRegressor(momentum="corrected")  # the same with phi=0.2
    """

    def __init__(self, phi: float = 0.2, restart: bool = True) -> None:
        self.phi = phi
        self.restart = restart

    def start(self, objective: Objective, learner: TreeGrower, rate: float) -> MomentumState:
        """Return h = 0, which second trees of ``learner`` will move."""
        return _Corrected(objective, learner, self.phi * rate, self.restart)


class _Simple(MomentumState):
    state_names: tuple[str, ...] = ("ahead", "_value", "_round")

    def __init__(self, objective: Objective, restart: bool = True) -> None:
        self.ahead = objective.start()
        self._objective = objective
        self._restart = restart
        self._value = objective.value(self.ahead)
        self._round = 0

    @property
    def theta(self) -> float:
        return 2.0 / (self._round + 2.0)

    def point(self, model: Iterate) -> Iterate:
        return model.interpolate(self.ahead, self.theta)

    def update(self, model: Iterate, step: BoostingStep) -> Iterate:
        self.ahead = self.ahead.take_step(step.step / self.theta, step.tree, step.smoothed_tree)
        self._finish_round(model)
        return model

    def _finish_round(self, model: Iterate) -> None:
        """Count the round, or restart at the model if it raised the loss."""
        before = self._value
        self._value = self._objective.value(model)
        self._round += 1
        allowed = self._objective.descent_tolerance * abs(before)
        if self._restart and self._value > before + allowed:
            self.ahead = model
            self._round = 0


class _Corrected(_Simple):
    state_names = (*_Simple.state_names, "_missing", "cosine")

    def __init__(
        self, objective: Objective, learner: TreeGrower, rate: float, restart: bool
    ) -> None:
        super().__init__(objective, restart)
        self._learner = learner
        self._rate = rate * objective.score_unit
        # What second trees have not fitted yet, as a gradient: −curvature × (its target − its
        # values).
        self._missing: Array | float = 0.0

    def update(self, model: Iterate, step: BoostingStep) -> Iterate:
        t = self._round
        corrected = step.gradient
        if t:
            corrected = corrected + (t + 1.0) / (t + 2.0) * self._missing
        self.ahead = self.ahead.take_step(0.0, step.tree, step.smoothed_tree)
        tree = self._learner.grow(corrected, step.curvature)
        self._missing = corrected
        self.cosine = 0.0
        if tree is not None:
            # The theorem's tree is a projection; leaves that were shrunk are stretched back to it.
            length, self.cosine = project_on_tree(corrected, step.curvature, tree)
            self._missing = corrected + step.curvature * (length * tree)
            smoothed_tree = self._objective.propagate(tree, model)
            self.ahead = self.ahead.take_step(self._rate / self.theta * length, tree, smoothed_tree)
            model = model.take_step(0.0, tree, smoothed_tree)
        self._finish_round(model)
        return model


def as_momentum(momentum: object) -> Momentum:
    """Return the acceleration that the ``momentum`` parameter stands for, or raise ValueError."""
    if isinstance(momentum, CorrectedMomentum):
        check_number("CorrectedMomentum: phi", momentum.phi, low=0.0, high=1.0, closed="right")
        check_bool("CorrectedMomentum: restart", momentum.restart)
    if isinstance(momentum, Momentum):
        return momentum
    if isinstance(momentum, (bool, np.bool_)):
        return SimpleMomentum() if momentum else Momentum()
    if isinstance(momentum, str) and momentum in ("simple", "corrected"):
        return SimpleMomentum() if momentum == "simple" else CorrectedMomentum()
    raise ValueError(
        "momentum must be True, False, 'simple', 'corrected' or eb.CorrectedMomentum(phi=...), "
        f"got {momentum!r}."
    )
