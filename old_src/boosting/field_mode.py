"""The latent field of any likelihood: E(f, z) = Σ w ℓ(y, η) + ½ zᵀ(λL + τI)z, η = offset + P f + z.

For squared error the z of least E is the posterior mean K W e. For other losses it is the mode,
by Newton's method: each step solves (H + λL + τI) δ = −∇E with H the curvature of the loss, and is
halved until E does not rise.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebboost.boosting.iterate import Iterate
from ebboost.boosting.latent_field import FieldPosterior, training_tolerance
from ebboost.boosting.losses import Loss
from ebboost.boosting.objective import NonFiniteError, Objective, evaluate_loss
from ebboost.boosting.projection import directional_sums
from ebboost.data.labels import Labels
from ebboost.propagation import Propagation

Array = NDArray[np.float64]
# Newton steps to the mode, the gradient at which they end relative to that of z = 0, and the
# relative accuracy of their solves. A quantile has no derivative at its labels: there steps end
# when E falls by less than MIN_DECREASE of itself.
MAX_STEPS = 100
MODE_TOLERANCE = 1e-8
STEP_TOLERANCE = 0.05
MIN_DECREASE = 1e-12
MAX_HALVINGS = 30
# Least and largest multiple of a step by the secant rule.
STEP_SIZES = (0.1, 4.0)
# Least accuracy of the response of z to a tree: E is computed with the z that results, and later
# responses and steps correct it. With 1e-5 losses after 40 rounds differ by less than 1e-6 of them.
# With 1e-2 rounds take .7 to .85 of the time, but trees depend on the preconditioner: a fit on two
# workers differs from that of one process by up to .7 in scores of classes.
RESPONSE_TOLERANCE = 1e-3
# Rounds after which systems are factorised anew, with the curvatures of that round. On House in
# fifths, λ = .05, τ = .001, a solve after 50 rounds takes 1.4 instead of 2.1 ms.
FACTORIZE_AT = (16, 64, 256, 1024)
# In training z is corrected if ∂E/∂z exceeds this share of ∂ℓ/∂η.
MIN_CORRECTION = 0.03


class Field(NamedTuple):
    """Values z of the field, (λL + τI)z, and E."""

    z: Array
    prior_z: Array
    value: float


class Direction(NamedTuple):
    """A move of the field, the Newton step at that point, and by how much E falls along it."""

    move: Array
    newton: Array
    decrease: float


@dataclass(frozen=True)
class FieldEnergy:
    """E as a function of z, for scores of the labelled nodes without the field."""

    field: FieldPosterior
    loss: Loss
    labels: Labels  # with the weights of the field

    def _evaluate(self, method: str, scores: Array, z: Array) -> Array:
        """Value, gradient or curvature of the loss at the labelled nodes."""
        eta = scores + self.labels.rows(z)
        return evaluate_loss(self.loss, method, eta, self.labels)

    def value(self, scores: Array, z: Array, prior_z: Array) -> float:
        """Return E; ``prior_z`` is (λL + τI)z."""
        total = float(self.labels.weighted(self._evaluate("value", scores, z)).sum())
        return total + 0.5 * float((z * prior_z).sum())

    def at(self, scores: Array, z: Array) -> Field:
        """Return the field with values z."""
        prior_z = self.field.prior.times(z)
        return Field(z, prior_z, self.value(scores, z, prior_z))

    def gradient(self, prior_z: Array, of_loss: Array) -> Array:
        """Return ∂E/∂z on all nodes, for the weighted gradient of the loss."""
        gradient = prior_z.copy()
        gradient[self.labels.index] += of_loss
        return gradient

    def loss_gradient(self, scores: Array, z: Array) -> Array:
        """Return the weighted gradient of the loss at the labelled nodes."""
        return self.labels.weighted(self._evaluate("gradient", scores, z))

    def step(
        self,
        scores: Array,
        field: Field,
        gradient: Array,
        tolerance: float,
        last: Direction | None = None,
    ) -> tuple[Field, Direction]:
        """Return the field after a Newton step, halved until E does not rise, and its direction.

        It is conjugate to the ``last`` direction (Polak and Ribière), as the curvature of several
        outputs is not diagonal, and its length is that of a secant. If no step helps, the field is
        as it was.
        """
        curvature = self.labels.weight[:, None] * self._evaluate("curvature", scores, field.z)
        newton = self.field.solve_system(curvature, -gradient, tolerance)
        decrease = -float((gradient * newton).sum())
        move = newton
        if last is not None:
            change = decrease + float((gradient * last.newton).sum())
            move = newton + max(change / last.decrease, 0.0) * last.move
            if float((gradient * move).sum()) >= 0.0:
                move = newton
        prior_move = self.field.prior.times(move)
        size = self._secant(scores, field, gradient, move, prior_move)
        for _ in range(MAX_HALVINGS):
            z: Array = field.z + size * move
            prior_z: Array = field.prior_z + size * prior_move
            value = self.value(scores, z, prior_z)
            if value <= field.value:
                field = Field(z, prior_z, value)
                break
            size *= 0.5
        return field, Direction(move, newton, max(decrease, 1e-300))

    def _secant(
        self, scores: Array, field: Field, gradient: Array, move: Array, prior_move: Array
    ) -> float:
        """The size of a step at which a line through two derivatives of E is zero."""
        derivative = float((gradient * move).sum())
        try:
            of_loss = self.loss_gradient(scores, field.z + move)
        except NonFiniteError:  # too far: the step is halved
            return 1.0
        after = self.gradient(field.prior_z + prior_move, of_loss)
        rise = float((after * move).sum()) - derivative
        low, high = STEP_SIZES
        return min(max(-derivative / rise, low), high) if rise > 0.0 else 1.0


def posterior_mode(
    field: FieldPosterior,
    loss: Loss,
    scores: Array,
    target: Array,
    tolerance: float = MODE_TOLERANCE,
) -> Array:
    """Return the z of least E on all nodes, for scores and labels of the labelled nodes."""
    if loss.constant_curvature:  # the posterior mean
        return field.posterior_mean(-loss.gradient(scores, target), tolerance)
    energy = FieldEnergy(field, loss, Labels(field.nodes, target, field.weight))
    best = energy.at(scores, np.zeros((field.n_nodes, scores.shape[1]), like=target))
    limit = None
    last = None
    for _ in range(MAX_STEPS):
        gradient = energy.gradient(best.prior_z, energy.loss_gradient(scores, best.z))
        size = float(np.sqrt(field.squared_norm(gradient)))
        limit = tolerance * size if limit is None else limit
        if size <= limit:
            break
        before = best.value
        best, last = energy.step(scores, best, gradient, STEP_TOLERANCE, last)
        if before - best.value <= MIN_DECREASE * abs(before):
            break
    return best.z


class LikelihoodFieldObjective(Objective):
    """E(f, z) for any loss; z follows f, so that this is J(f) = min_z E(f, z) but for small errors.

    The smoothed scores of iterates have a second block of columns: the response −(H + Q)⁻¹ H P h of
    z to each tree h, with Q = λL + τI and the curvature H of the round. What this linearisation
    misses is one array for all points, ``_remainder``, moved by at most one Newton step a round.
    Neither that step nor, by the line search, a tree and its response can raise E. By the envelope
    theorem ∇J = Pᵀ W ∂ℓ/∂η at the minimising z.
    """

    state_names = (*Objective.state_names, "_remainder", "_n_gradients", "_factorized")
    # Of the sums in E: rounding.
    descent_tolerance = 1e-10

    def __init__(
        self,
        operator: Propagation,
        loss: Loss,
        labels: Labels,
        validation: Labels | None,
        penalty: float,
        field: FieldPosterior,
        offset: Array | None = None,
        first_mode: Array | None = None,
    ) -> None:
        self.field = field
        self._n_gradients = 0
        self._curvature_of_factor: Array | None = None  # of the first round
        labels = Labels(labels.nodes, labels.target, field.weight)
        self._energy = FieldEnergy(field, loss, labels)
        self._remainder = np.zeros((field.n_nodes, labels.target.shape[1]), like=labels.target)
        super().__init__(operator, loss, labels, validation, penalty, offset)
        curvature = float(np.mean(self._loss_curvature(self.start()))) or 1.0
        self.tolerance = max(training_tolerance(field, curvature), RESPONSE_TOLERANCE)
        start = np.broadcast_to(self.fixed_scores(labels.nodes), labels.target.shape)
        if first_mode is None:
            first_mode = posterior_mode(field, loss, start, labels.target, self.tolerance**2)
        self._remainder = first_mode
        #: z before the first tree, which other objectives with the same field and labels share.
        self.first_mode = first_mode
        field.factorize(self._loss_curvature(self.start()))

    @property
    def _factorized(self) -> Array | None:
        """The curvatures whose systems are factorised, to restore the factors."""
        return self._curvature_of_factor

    @_factorized.setter
    def _factorized(self, curvature: Array | None) -> None:
        self._curvature_of_factor = curvature
        if curvature is not None:
            self.field.factorize(curvature)

    def start_from(self, init_score: Array, scores: Array) -> None:
        """Start at the initial score and the scores f of an earlier model, with z at its mode."""
        super().start_from(init_score, scores)
        self.minimize_field(self.start())

    def _augment(self, smoothed: Array) -> Array:
        return np.hstack([smoothed, np.zeros_like(smoothed)])

    def propagate(self, tree: Array, point: Iterate | None = None) -> Array:
        """Return P h and the response of z to it; 0 if P is not linear, and z moves by itself."""
        smoothed = super().propagate(tree, point)
        if self.operator.linear:
            curvature = self._loss_curvature(self.start() if point is None else point)
            tree_scores, response = self._split(smoothed)
            right = curvature * self.labels.rows(tree_scores)
            response -= self.field.respond(curvature, right, self.tolerance)
        return smoothed

    def _z(self, point: Iterate) -> Array:
        return point.cached("z", lambda: self._split(point.smoothed)[1] + self._remainder)

    def _predict(self, point: Iterate) -> Array:
        return self.fixed_scores() + self._split(point.smoothed)[0] + self._z(point)

    def minimize_field(self, point: Iterate) -> None:
        """Move z to the mode at a point, exactly."""
        scores = self._scores_without_field(point)
        mode = posterior_mode(self.field, self.loss, scores, self.labels.target)
        self._remainder = self._remainder + (mode - self._z(point))
        point.cache.clear()

    def _labelled_scores(self, point: Iterate) -> Array:
        return self._scores_without_field(point) + self.labels.rows(self._z(point))

    def _scores_without_field(self, point: Iterate) -> Array:
        propagated = self.labels.rows(self._split(point.smoothed)[0])
        return self.fixed_scores(self.labels.index) + propagated

    def _value(self, point: Iterate) -> float:
        of_labels = self._total_loss(self.labels, self._scores(point))
        of_field = 0.5 * float((self._z(point) * self._prior_z(point)).sum())
        return self._penalized_mean(of_labels + of_field, point)

    def _prior_z(self, point: Iterate) -> Array:
        return point.cached("prior_z", lambda: self.field.prior.times(self._z(point)))

    def gradient(self, point: Iterate) -> Array:
        """Return Pᵀ W ∂ℓ/∂η + εf on all n nodes, after a Newton step of z where it needs one."""
        self._n_gradients += 1
        if self._n_gradients in FACTORIZE_AT and self.field.has_factor:
            self._factorized = self._loss_curvature(point)
        of_loss = self._loss_gradient(point)
        gradient = self._energy.gradient(self._prior_z(point), of_loss)
        share = max(2.0 * self.tolerance, MIN_CORRECTION) ** 2
        allowed = share * self.field.squared_norm(of_loss, self.labels.nodes)
        if self.field.squared_norm(gradient) > allowed:
            scores = self._scores_without_field(point)
            z = self._z(point)
            prior_z = self._prior_z(point)
            field = Field(z, prior_z, self._energy.value(scores, z, prior_z))
            moved, _ = self._energy.step(scores, field, gradient, self.tolerance)
            self._remainder = self._remainder + (moved.z - z)
            point.cache.clear()
        return super().gradient(point)

    def newton_step(self, point: Iterate, tree: Array, smoothed_tree: Array) -> float:
        """Return the minimiser of E's parabola along the tree and the response of z.

        Where the curvature of the loss is no bound, the step is at most a Newton step of a model
        without a field, enlarged by what the field takes off the curvature.
        """
        tree_scores, response = map(self.labels.rows, self._split(smoothed_tree))
        curvature = self._loss_curvature(point)
        gradient, plain, _ = directional_sums(self._loss_gradient(point), curvature, tree_scores)
        rest = float((curvature * tree_scores * (tree_scores + response)).sum())
        step = self._parabola_minimum(gradient, rest, point, tree)
        if self.loss.majorised or not rest > 0.0:
            return step
        return min(step, plain / rest)
