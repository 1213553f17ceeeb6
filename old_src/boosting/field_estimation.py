"""Strengths λ, τ of the latent field and parameters of the likelihood, by predictive deviance.

Given scores of a model that was not trained on the labels (out-of-fold), labels are hidden in
folds and predicted by score plus field of the others. The strengths of least deviance are searched
in factors, from the scale of the curvature; then the parameters of the likelihood are estimated
again from these predictions, as a field takes up what looked like dispersion.
"""

from dataclasses import dataclass, replace

import numpy as np

from ebboost.boosting.field_mode import posterior_mode
from ebboost.boosting.latent_field import MIN_TAU, LatentField
from ebboost.boosting.losses import Loss
from ebboost.data.labels import Labels
from ebboost.data.sharded import total_rows
from ebboost.data.types import Array, IntArray
from ebboost.graph import Graph

# The search starts at λ equal to the mean curvature and this τ/λ; then by which factors it moves,
# and how often at most.
START_RATIO = 0.03
FACTORS = (4.0, 2.0)
MAX_MOVES = 8
# Ends of the search: factors of the start, for λ and for τ/λ. Beyond, the deviance is flat, and
# systems with a small τ are slow to solve.
ENDS = (1e-3, 1e3)
RATIO_ENDS = (0.03, 1e3)
# Accuracy of modes and, where the loss is squared error, of means.
MODE_TOLERANCE = 1e-2
MEAN_TOLERANCE = 1e-5
# Folds of labels that are hidden in turn.
N_FOLDS = 5
# Up to this many numbers (labels × outputs) all folds are predicted, beyond only the first.
ALL_FOLDS_UP_TO = 5_000
# Rounds of strengths and parameters in turn, and of weights of outliers and fields without them.
ROUNDS = 2
WEIGHT_ROUNDS = 2
# By what share a field must lower the deviance.
MIN_GAIN = 1e-3


@dataclass(frozen=True)
class FieldEstimate:
    """A latent field and a likelihood with estimated parameters.

    ``field`` is None where no field lowers the mean deviance; ``scores`` are those of the hidden
    labels, NaN where a label was never hidden. ``outlier_weights`` are those of the loss.
    """

    field: LatentField | None
    loss: Loss
    deviance: float
    deviance_without: float
    scores: Array
    outlier_weights: Array | float = 1.0


class _Search:
    """Deviances of hidden labels for strengths, computed once for each."""

    def __init__(self, graph: Graph, labels: Labels, scores: Array, fold: IntArray) -> None:
        self.labels = labels
        self._graph = graph
        self._scores = scores
        self._fold = fold
        all_folds = total_rows(scores) * scores.shape[1] <= ALL_FOLDS_UP_TO
        self.hide(N_FOLDS if all_folds else 1)

    def hide(self, n_folds: int) -> None:
        """Predict the labels of the first folds."""
        self._tested = range(n_folds)
        self.hidden = np.isin(self._fold, self._tested)

    def predict(self, loss: Loss, field: LatentField | None) -> Array:
        """Return scores plus field at the hidden labels, NaN elsewhere."""
        result = np.where(self.hidden[:, None], self._scores, np.nan)
        if field is None:
            return result
        tolerance = MEAN_TOLERANCE if loss.constant_curvature else MODE_TOLERANCE
        for number in self._tested:
            known = self.labels.subset(self._fold != number)
            posterior = field.operator(self._graph, known.nodes, known.weight)
            scores = self._scores[self._fold != number]
            z = posterior_mode(posterior, loss, scores, known.target, tolerance)
            result[self._fold == number] += z[self.labels.nodes[self._fold == number]]
        return result

    def deviance(self, loss: Loss, scores: Array) -> float:
        """Return the mean deviance of the hidden labels."""
        labels = self.labels.subset(self.hidden)
        with np.errstate(over="ignore"):
            values = loss.deviance(scores[self.hidden], labels.target)
        return float(np.average(values, weights=labels.weight))

    def best(self, loss: Loss, field: LatentField, scale: float) -> tuple[LatentField, Array]:
        """Return the best strengths near those of a field, and the predictions with them.

        ``scale`` is the mean curvature, of which the ends of the search for λ are multiples.
        """
        best = (field, self.predict(loss, field))
        least = self.deviance(loss, best[1])
        tried = {(field.lam, field.tau)}
        for factor in FACTORS:
            for _ in range(MAX_MOVES):
                center = best[0]
                moves = ((1.0, factor), (1.0, 1 / factor), (factor, 1.0), (1 / factor, 1.0))
                for up, ratio in moves:
                    strengths = (center.lam * up, center.tau * up * ratio)
                    if strengths in tried or not _in_range(*strengths, scale):
                        continue
                    tried.add(strengths)
                    other = replace(field, lam=strengths[0], tau=strengths[1])
                    predicted = self.predict(loss, other)
                    deviance = self.deviance(loss, predicted)
                    if deviance < least:
                        least = deviance
                        best = (other, predicted)
                if best[0] is center:
                    break
        return best


def _in_range(lam: float, tau: float, scale: float) -> bool:
    if tau < MIN_TAU:
        return False
    ratio = tau / (START_RATIO * lam)
    return ENDS[0] <= lam / scale <= ENDS[1] and RATIO_ENDS[0] <= ratio <= RATIO_ENDS[1]


def hidden_deviances(
    graph: Graph, labels: Labels, scores: Array, loss: Loss, seed: int = 0
) -> Array:
    """Return the deviance of each label, times its weight, with the field that is estimated.

    Each label is hidden from the field that predicts it; arguments as in :func:`estimate_field`.
    """
    estimate = estimate_field(graph, labels, scores, loss, seed=seed)
    search = _Search(graph, labels, scores, _folds(labels, seed))
    search.hide(N_FOLDS)
    predicted = search.predict(estimate.loss, estimate.field)
    with np.errstate(over="ignore"):
        return labels.weighted(estimate.loss.deviance(predicted, labels.target))


def _folds(labels: Labels, seed: int, positions: IntArray | None = None) -> IntArray:
    random = np.random.default_rng(seed)
    if positions is None:
        return random.permutation(labels.nodes.size) % N_FOLDS
    return random.permutation(total_rows(labels.target))[positions] % N_FOLDS


def estimate_field(
    graph: Graph,
    labels: Labels,
    scores: Array,
    loss: Loss,
    *,
    seed: int = 0,
    start: LatentField | None = None,
    similarity: bool = False,
    positions: IntArray | None = None,
) -> FieldEstimate:
    """Return the strengths of the field, and the parameters of the loss that are None.

    ``scores`` are those of the labelled nodes, offset included, by models not trained on that
    label. The labels of each of five folds, drawn by ``seed``, are hidden in turn.
    With ``similarity`` the field connects nodes with similar neighbourhoods, unless ``start`` is
    given. ``positions`` of labels among those of all workers make folds that do not depend on
    these.
    """
    if graph.groups is not None and isinstance(graph, Graph):
        # Of the rows only those with these labels matter.
        groups = graph.groups.graph
        ids = groups.node_ids[graph.groups.group_of[labels.nodes]]
        graph = Graph.from_groups(ids, groups)
        labels = Labels(np.arange(ids.size), labels.target, labels.weight)
    fold = _folds(labels, seed, positions)
    fitted = loss.prepared(labels.target, labels.weight, scores)
    curvature = float(np.mean(fitted.curvature(scores, labels.target)))
    search = _Search(graph, labels, scores, fold)
    alone = search.predict(fitted, None)
    tau = START_RATIO * curvature
    if start is None and tau < MIN_TAU:  # labels in a unit beyond that of any field
        without = search.deviance(fitted, alone)
        return FieldEstimate(None, fitted, without, without, alone)
    kind: dict[str, bool] = {"normalized": not similarity, "similarity": similarity}
    field = start or LatentField(curvature, tau, **kind)
    predicted = scores
    for _ in range(ROUNDS):
        field, predicted = search.best(fitted, field, curvature)
        hidden = labels.subset(search.hidden)
        again = loss.prepared(hidden.target, hidden.weight, predicted[search.hidden])
        if again.get_params() == fitted.get_params():
            break
        ratio = again.curvature_over(fitted, scores)
        if ratio != 1.0:
            curvature *= ratio
            field = replace(field, lam=ratio * field.lam, tau=max(ratio * field.tau, MIN_TAU))
        fitted = again
    without = search.deviance(fitted, alone)
    deviance = search.deviance(fitted, predicted)
    if deviance > (1.0 - MIN_GAIN) * without:
        fitted = loss.prepared(labels.target, labels.weight, scores)
        return FieldEstimate(None, fitted, without, without, alone)
    weights: Array | float = 1.0
    if type(fitted).outlier_weights is not Loss.outlier_weights:
        search.hide(N_FOLDS)
        for _ in range(WEIGHT_ROUNDS):
            weights = fitted.outlier_weights(search.predict(fitted, field), labels.target)
            search.labels = replace(labels, weight=labels.weight * weights)
    return FieldEstimate(field, fitted, deviance, without, predicted, weights)
