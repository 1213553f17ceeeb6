"""Checks of a fitted model against what chance explains, each a value with its distribution.

Residuals of neighbours are compared with residuals that are simulated from the fitted model, as its
latent field leaves them correlated too. Let δ = z − E(z | labels of other folds) be what these
labels do not say about the field. With Q = λL + τI, K = (Q + H)⁻¹ and the gradients s of the
log-likelihood at the true scores, δ = K(g − s), g ~ N(0, Q). Scores of an out-of-fold prediction
plus δ are a draw of the true ones, labels are drawn there, and their s gives the δ of the
prediction that these labels lead to.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.boosting.calibration import expected_calibration_error
from ebboost.boosting.latent_field import FieldPosterior
from ebboost.boosting.losses import Loss
from ebboost.boosting.objective import relative_weights
from ebboost.data.labels import one_hot
from ebboost.data.neighbor_correlation import neighbor_correlation
from ebboost.data.types import Array, IntArray
from ebboost.inspection.data_audit import correlation_if_enough
from ebboost.model.spread import distribution_with, held_out_distribution, require_spread
from ebboost.model.state import FittedState

# Simulations: the most, the fewest, and numbers that are solved for in all.
DRAWS = (40, 10)
MAX_NUMBERS = 10_000_000
CALIBRATION_DRAWS = 200
SOLVE_TOLERANCE = 1e-2
# Standard deviations beyond which a value is not explained by chance, and the least excess.
SIGNIFICANT = 3.0
MIN_CORRELATION = 0.05
MIN_CALIBRATION_ERROR = 0.02


class Check(NamedTuple):
    """A value of a model, and mean and standard deviation of that value if the model is right."""

    value: float
    expected: float
    deviation: float

    def exceeds(self, least: float) -> bool:
        """Whether the value is larger than 0 and than chance explains, by ``least`` or more."""
        excess = self.value - max(self.expected, 0.0)
        return bool(excess > max(SIGNIFICANT * self.deviation, least))


def residual_check(state: FittedState, seed: int = 0) -> Check | None:
    """Return the correlation of signed residuals between neighbours.

    None with too few links, and for a loss of the user's own that cannot draw labels.
    """
    graph = state.graph
    record = state.validation
    if graph is None or graph.groups is not None or not record.nodes.size:
        return None
    needs_sample = state.is_classifier or state.loss.log_link
    if needs_sample and type(state.loss).sample is Loss.sample:
        return None
    residuals = _residuals(state, record.target, None)
    value = correlation_if_enough(graph, record.nodes, residuals)
    if value is None:
        return None
    random = np.random.default_rng((seed, 8191))
    draws = [
        neighbor_correlation(graph, record.nodes, residuals)
        for residuals in simulated_residuals(state, random)
    ]
    return Check(value, float(np.mean(draws)), float(np.std(draws, ddof=1)))


def _residuals(state: FittedState, target: Array, scores: Array | None) -> Array:
    """Signed residuals: of classes a column each, of numbers in standard deviations.

    Around the out-of-fold predictions or, of simulated labels, these ``scores``.
    """
    is_simulated = scores is not None
    scores = state.validation.prediction if scores is None else scores
    if state.is_classifier:
        return one_hot(target) - state.output.apply_link(scores)
    spread = require_spread(state)
    scores = scores if is_simulated else state.output.calibration.apply(scores)
    distribution = distribution_with(state, spread, scores, spread.deviation)
    return (target[:, 0] - distribution.mean) / np.sqrt(distribution.variance)


def simulated_residuals(state: FittedState, random: np.random.Generator) -> Iterator[Array]:
    """Yield residuals of out-of-fold predictions if labels are drawn from the model."""
    record = state.validation
    field = _Field.of(state, random)
    n_draws = DRAWS[0] if field is None else field.n_draws
    spread = state.spread
    dispersion = 1.0 if spread is None else spread.dispersion
    noise = np.zeros(0)
    if spread is not None:
        variance = held_out_distribution(state).variance
        noise = np.sqrt(variance / (1.0 + spread.field_variance[record.nodes]))[:, None]
    calibration = state.output.calibration
    for draw in range(n_draws):
        truth = record.prediction
        if field is not None:
            truth = truth + np.sqrt(dispersion) * field.difference(draw, None)
        if state.is_classifier:
            target = state.loss.sample(random, calibration.apply(truth), dispersion)
        elif state.loss.log_link:
            target = state.loss.sample(random, truth, dispersion)
        else:
            target = truth + noise * random.standard_normal(noise.shape)
        scores = record.prediction
        if field is not None:
            gradient = -state.loss.gradient(truth, target) / np.sqrt(dispersion)
            scores = truth - np.sqrt(dispersion) * field.difference(draw, gradient)
        yield _residuals(state, target, scores)


def _folds(state: FittedState) -> list[IntArray]:
    """Positions of the labels of each fold in the validation record, then those of eval_set."""
    nodes = state.validation.nodes
    is_label = np.isin(nodes, state.labels.nodes)
    parts = np.array_split(np.flatnonzero(is_label), state.n_folds)
    return [part for part in (*parts, np.flatnonzero(~is_label)) if part.size]


@dataclass(frozen=True)
class _Field:
    """Draws of what the labels of other folds do not say about the field, at held-out labels."""

    state: FittedState
    parts: list[tuple[IntArray, FieldPosterior, Array, NDArray[np.bool_]]]
    prior: Array  # g, of shape (n_draws, n_nodes, n_outputs)
    noise: Array  # √H ξ at the labels, of shape (n_draws, m, n_outputs)

    @classmethod
    def of(cls, state: FittedState, random: np.random.Generator) -> "_Field | None":
        """Return the draws of a model with a field; those of the first candidate that has one."""
        for one in state.candidates:
            use = one.label_field
            if use is not None and state.graph is not None:
                break
        else:
            return None
        labels = state.labels
        scores = one.raw_predictions[labels.nodes]
        heights = np.broadcast_to(state.loss.curvature(scores, labels.target), scores.shape)
        parts = []
        for part in _folds(state):
            known = ~np.isin(labels.nodes, state.validation.nodes[part])
            posterior = use.operator(state.graph, labels.nodes[known], labels.weight[known])
            curvature = posterior.weight[:, None] * heights[known]
            parts.append((part, posterior, curvature, known))
        n_outputs = scores.shape[1]
        budget = MAX_NUMBERS // (state.n_nodes * len(parts) * n_outputs)
        n_draws = int(np.clip(budget, DRAWS[1], DRAWS[0]))
        prior = _draw_prior(parts[0][1].prior.csr, n_draws * n_outputs, random)
        prior = prior.T.reshape(n_draws, n_outputs, -1).transpose(0, 2, 1)
        weight = relative_weights(labels.weight)[:, None]
        noise = np.sqrt(weight * heights) * random.standard_normal((n_draws, *scores.shape))
        return cls(state, parts, prior, noise)

    @property
    def n_draws(self) -> int:
        """Number of draws."""
        return len(self.prior)

    def difference(self, draw: int, at_record: Array | None) -> Array:
        """Return δ at the held-out labels, with the gradients of their labels where these are."""
        state = self.state
        gradients = self.noise[draw].copy()
        if at_record is not None:
            position = np.full(state.n_nodes, -1)
            position[state.validation.nodes] = np.arange(state.validation.nodes.size)
            rows = position[state.labels.nodes]
            gradients[rows >= 0] = at_record[rows[rows >= 0]]
        result = np.zeros(state.validation.prediction.shape)
        for part, posterior, curvature, known in self.parts:
            right = self.prior[draw].copy()
            right[posterior.nodes] -= gradients[known]
            field = posterior.solve_system(curvature, right, SOLVE_TOLERANCE)
            result[part] = field[state.validation.nodes[part]]
        return result


def _draw_prior(matrix: sparse.csr_array, n_draws: int, random: np.random.Generator) -> Array:
    """Vectors g ~ N(0, Q) for a diagonally dominant Q: one normal draw for each edge and node."""
    upper = sparse.coo_array(sparse.triu(matrix, k=1))
    row, column = upper.coords
    size = np.sqrt(np.abs(upper.data))
    n_edges = size.size
    edge = np.arange(n_edges)
    entries = np.concatenate([size, np.sign(upper.data) * size])
    where = (np.concatenate([row, column]), np.concatenate([edge, edge]))
    incidence = sparse.csr_array((entries, where), shape=(matrix.shape[0], n_edges))
    rest = matrix.diagonal() - np.asarray((incidence**2).sum(axis=1)).ravel()
    own = np.sqrt(np.maximum(rest, 0.0))[:, None] * random.standard_normal((rest.size, n_draws))
    return own + incidence @ random.standard_normal((n_edges, n_draws))


def calibration_check(state: FittedState, seed: int = 0) -> Check | None:
    """Return the expected calibration error, and that of calibrated probabilities."""
    record = state.validation
    if not state.is_classifier or not record.nodes.size:
        return None
    probabilities = state.output.apply_link(record.prediction)
    value = expected_calibration_error(probabilities, record.target)
    random = np.random.default_rng((seed, 8191))
    totals = probabilities.cumsum(axis=1)[:, :-1]
    draws = []
    for _ in range(CALIBRATION_DRAWS):
        drawn = (random.random((totals.shape[0], 1)) > totals).sum(axis=1)
        target = np.eye(probabilities.shape[1])[drawn]
        draws.append(expected_calibration_error(probabilities, target))
    return Check(value, float(np.mean(draws)), float(np.std(draws, ddof=1)))
