"""Nesterov's acceleration of Algorithm 1: the point g of the gradient and the second model h.

Each round takes the gradient at g = (1−θ)f + θh with θ_t = 2/(t+2) and steps from g to the next f.
The forms differ in how h moves. The *simple* form moves it along the same tree by η/θ. That is
Nesterov's step only if the tree is the gradient; what a weak learner misses, h misses for good,
enlarged by 1/θ. The *corrected* form (Lu, Karimireddy, Ponomareva and Mirrokni, "Accelerating
gradient boosting machines", 2020), that of Theorem 1, grows a second tree on the gradient plus what
earlier second trees missed of it, and moves h along that tree by φη/θ. Then h plus what is still
missing takes exact gradient steps, whatever the learner.

Both may overshoot: errors of weak learners accumulate in h and grow with t. So when a round has
raised the loss, h restarts at f (O'Donoghue and Candès, 2015).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ebboost._common import Array, check_bool, check_number
from ebboost.boosting import TOLERANCE, Boosted, Direction, Point, boost
from ebboost.callbacks import Callback, RoundInfo
from ebboost.learners import Grower

# Curvatures below this share of the largest are rounding errors: rows there have no gradient
# either.
NEGLIGIBLE_CURVATURE = 1e-12


class CorrectedMomentum(BaseEstimator):
    """Momentum with corrected gradients, as in Theorem 1: two trees a round.

    Parameters
    ----------
    phi : float, default=0.2
        φ, between 0 and 1: the share of Nesterov's step that h takes. The theorem asks for φ ≤
        Γ⁴/(4+Γ²), where Γ is the minimum cosine angle of the learner
        (:func:`convergence.largest_phi`): 0.2 for Γ = 1, and far less for small trees, which in
        practice allow more than the theorem grants them.
    restart : bool, default=True
        Restart h at f when a round has raised the loss. Theorem 1 holds up to the first restart.
        Without restarts, and with φ beyond what it allows, the loss may diverge.

    Examples
    --------
    >>> import ebboost as eb
    >>> momentum = eb.paper.CorrectedMomentum(phi=0.1)
    >>> model = eb.paper.PaperRegressor(momentum=momentum)
    """

    def __init__(self, phi: float = 0.2, restart: bool = True) -> None:
        self.phi = phi
        self.restart = restart


def as_momentum(momentum: Any) -> CorrectedMomentum | bool:
    """Return what the ``momentum`` parameter stands for: True for the simple form."""
    if isinstance(momentum, CorrectedMomentum):
        check_number("CorrectedMomentum: phi", momentum.phi, low=0.0, high=1.0, closed="right")
        check_bool("CorrectedMomentum: restart", momentum.restart)
        return momentum
    if isinstance(momentum, (bool, np.bool_)):
        return bool(momentum)
    if isinstance(momentum, str) and momentum in ("simple", "corrected"):
        return momentum == "simple" or CorrectedMomentum()
    raise ValueError(
        "momentum must be True, False, 'simple', 'corrected' or CorrectedMomentum(phi=...), got "
        f"{momentum!r}."
    )


def project_on_tree(gradient: Array, curvature: Array, tree: Array) -> tuple[float, float]:
    """Return the length of the projection of −gradient/curvature on a tree, and the cosine.

    Lengths and angles are those of ‖v‖² = Σ curvature·v²; Γ is the least of these cosines.

    Trees are fitted in this norm, and the loss is 1-smooth in it, because the curvature majorises
    its Hessian. With a constant curvature it is the norm of the paper.
    """
    floor = NEGLIGIBLE_CURVATURE * float(curvature.max()) or 1.0
    inner = float((gradient * tree).sum())
    tree_norm = float((curvature * tree * tree).sum())
    gradient_norm = float((gradient * gradient / np.maximum(curvature, floor)).sum())
    if tree_norm <= 0.0 or gradient_norm <= 0.0:
        return 0.0, 0.0
    return -inner / tree_norm, -inner / math.sqrt(tree_norm * gradient_norm)


def interpolate(point: Point, other: Point, theta: float) -> Point:
    """Return (1−θ)·point + θ·other."""

    def mix(one: Any, two: Any) -> Any:
        return None if one is None else (1.0 - theta) * one + theta * two

    names = ("scores", "smoothed", "z", "prior_z")
    arrays = {name: mix(getattr(point, name), getattr(other, name)) for name in names}
    pairs = zip(point.weights, other.weights, strict=True)
    return Point(**arrays, weights=tuple(mix(one, two) for one, two in pairs))


class Accelerated:
    """An objective whose rounds start at g, and its grower, for the boosting loop of the core."""

    def __init__(
        self, objective: Any, grower: Grower, momentum: CorrectedMomentum | bool, rate: float
    ) -> None:
        self._objective = objective
        self._grower = grower
        self._corrected = momentum if isinstance(momentum, CorrectedMomentum) else None
        self._rate = rate
        self._restart = self._corrected is None or self._corrected.restart
        self._ahead = objective.start()  # h
        self._value = objective.value(self._ahead)
        self._round = 0  # since the last restart
        self._n_rounds = 0
        # What second trees have not fitted yet, as a gradient: −curvature × (target − values).
        self._missing: Array | float = 0.0
        #: Cosine of the angle between the second tree of the round and its gradient.
        self.cosine = 1.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objective, name)

    @property
    def _theta(self) -> float:
        return 2.0 / (self._round + 2.0)

    def settle(self, model: Point) -> Point:
        """Return g, where the gradient of this round is taken."""
        self._objective._n_rounds = self._n_rounds
        return self._objective.settle(interpolate(model, self._ahead, self._theta))

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Grow a tree, and keep what it is grown on for the second tree."""
        self._grown = (gradient, curvature)
        return self._grower.grow(gradient, curvature)

    def line_search(self, point: Point, direction: Direction, step: float) -> tuple[Point, float]:
        """Return the model after a step from g; h moves too, or restarts."""
        objective = self._objective
        model, step = objective.line_search(point, direction, step)
        if self._corrected is None:
            self._ahead = objective.move(self._ahead, direction, step / self._theta)
        else:
            self._ahead = objective.move(self._ahead, direction, 0.0)
            model = self._second_tree(point, model, self._corrected.phi)
        before, self._value = self._value, objective.value(model)
        self._round += 1
        if self._restart and objective.is_fixed and self._value > before + TOLERANCE * abs(before):
            self._ahead = model
            self._round = 0
        return model, step

    def _second_tree(self, point: Point, model: Point, phi: float) -> Point:
        """Move h along a tree grown on the corrected gradient, which has no weight in the model."""
        t = self._round
        gradient, curvature = self._grown
        corrected = gradient + (t + 1.0) / (t + 2.0) * self._missing if t else gradient
        tree = self._grower.grow(corrected, curvature)
        self._missing = corrected
        self.cosine = 0.0
        if tree is None:
            return model
        # The theorem's tree is a projection; leaves that were shrunk are stretched back to it.
        length, self.cosine = project_on_tree(corrected, curvature, tree)
        self._missing = corrected + curvature * (length * tree)
        direction = self._objective.direction(point, tree)
        size = phi * self._rate * self._objective.score_unit / self._theta * length
        self._ahead = self._objective.move(self._ahead, direction, size)
        return self._objective.move(model, direction, 0.0)


class Angles(Callback):
    """Records the cosine of each round, the least of its trees, and the number of trees so far."""

    is_concurrent = True

    def __init__(self, objective: Any) -> None:
        self.objective = objective
        self.cosines: list[float] = []
        self.n_trees: list[int] = []

    def after_round(self, info: RoundInfo) -> None:  # noqa: D102
        _, cosine = project_on_tree(*info.grown)
        self.cosines.append(min(cosine, getattr(self.objective, "cosine", 1.0)))
        self.n_trees.append(len(info.model.weights))


def boost_with_momentum(
    objective: Any,
    grower: Grower,
    *,
    momentum: CorrectedMomentum | bool,
    cosines: list[float],
    learning_rate: float,
    callbacks: Sequence[Callback] = (),
    **options: Any,
) -> Boosted:
    """Run the core's loop with momentum, if any; the cosine of each round is appended to a list."""
    if momentum is not False:
        both: Any = Accelerated(objective, grower, momentum, learning_rate)
        objective, grower = both, both
    angles = Angles(objective)
    callbacks = [angles, *callbacks]
    boosted = boost(objective, grower, learning_rate=learning_rate, callbacks=callbacks, **options)
    cosines += angles.cosines
    n_trees = len(boosted.best.weights)
    n_rounds = angles.n_trees.index(n_trees) + 1 if n_trees else 0
    return replace(boosted, n_rounds=n_rounds)
