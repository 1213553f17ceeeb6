"""Strengths λ, τ of the latent field and parameters of the likelihood, by predictive deviance.

Given scores of models that were not trained on the labels, these are hidden in folds and predicted
by score plus field of the others. The strengths of least deviance are searched in factors, from the
scale of the curvature, those of several groups in turn; then the parameters of the likelihood are
estimated again from these predictions, as a field takes up what looked like dispersion.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ebboost._common import Array, IntArray
from ebboost.data.labels import Labels
from ebboost.data.neighbors import Places
from ebboost.field import MIN_TAU, LatentField, Posterior, at, field_mode
from ebboost.losses import Loss
from ebboost.sums import everywhere, mean

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
MEAN_TOLERANCE = 1e-4
# Folds of labels that are hidden in turn; up to so many numbers all are predicted, else the first.
N_FOLDS = 5
ALL_FOLDS_UP_TO = 5_000
# Rounds of strengths and parameters in turn.
ROUNDS = 2
# By what share a field must lower the deviance.
MIN_GAIN = 1e-3


@dataclass(frozen=True)
class Strengths:
    """An estimated field, None where none lowers the deviance; and the loss with its parameters."""

    field: LatentField | None
    loss: Loss
    deviance: float
    deviance_without: float


def estimate_strengths(
    places: Places,
    labels: Labels,
    scores: Array,
    loss: Loss,
    seed: int = 0,
    fold: IntArray | None = None,
) -> Strengths:
    """Return the strengths of the field, and the parameters of the loss that are None.

    ``scores`` are those of the labelled rows, offset included, by models not trained on that label.
    ``fold`` is the number of the fold of each, by default at random.
    """
    nodes = places.node_of_row[labels.rows]
    if fold is None:
        fold = np.random.default_rng(seed).permutation(labels.size) % N_FOLDS
    tested = range(N_FOLDS if everywhere(scores.size) <= ALL_FOLDS_UP_TO else 1)
    hidden = np.isin(fold, tested)
    held = labels.subset(hidden)
    modes: dict[int, Array] = {}
    posteriors: dict[int, Posterior] = {}

    def predict(loss: Loss, fields: Sequence[LatentField]) -> Array:
        """Scores of the hidden labels with a field of the others."""
        result = scores.copy()
        if not fields:
            return result[hidden]
        prior = joined(fields, places).prior(places.graph)
        tolerance = MEAN_TOLERANCE if loss.constant_curvature else MODE_TOLERANCE
        for number in tested:
            known = fold != number
            if number not in posteriors:
                posteriors[number] = Posterior(prior, nodes[known])
            posterior = posteriors[number].with_prior(prior)
            own = labels.subset(known).relative()
            # The last mode is near: the strengths differ by a factor of 2 or 4.
            z = field_mode(posterior, loss, own, scores[known], tolerance, modes.get(number))
            modes[number] = z
            result[~known] += at(z, nodes[~known])
        return result[hidden]

    def deviance(loss: Loss, predicted: Array) -> float:
        with np.errstate(over="ignore"):
            return held.mean(loss.deviance(predicted, held.target))

    fitted = loss.prepared(labels.target, labels.weight, scores)
    curvature = mean(np.asarray(fitted.curvature(scores, labels.target)))
    alone = predict(fitted, ())
    if START_RATIO * curvature < MIN_TAU:  # labels in a unit beyond that of any field
        without = deviance(fitted, alone)
        return Strengths(None, fitted, without, without)
    has_edges = [True]
    if places.groups:
        has_edges = [bool(places.graph.degrees[own].any()) for own in places.node_of_row.T]
    fields = (LatentField(curvature, START_RATIO * curvature),) * len(has_edges)
    predicted = alone
    for _ in range(ROUNDS):
        predicted = predict(fitted, fields)
        least = deviance(fitted, predicted)
        tried = {tuple((one.lam, one.tau) for one in fields)}
        for factor in FACTORS:
            for _ in range(MAX_MOVES):
                before = fields
                for group, center in enumerate(before):
                    moves = ((1.0, factor), (1.0, 1 / factor), (factor, 1.0), (1 / factor, 1.0))
                    # Without edges, λ and τ of a group are one number.
                    for up, ratio in moves if has_edges[group] else moves[2:]:
                        lam, tau = center.lam * up, center.tau * up * ratio
                        moved = (*fields[:group], LatentField(lam, tau), *fields[group + 1 :])
                        key = tuple((one.lam, one.tau) for one in moved)
                        if key in tried or not _in_range(lam, tau, curvature):
                            continue
                        tried.add(key)
                        other = predict(fitted, moved)
                        if (value := deviance(fitted, other)) < least:
                            least, fields, predicted = value, moved, other
                if fields is before:
                    break
        again = loss.prepared(held.target, held.weight, predicted)
        if again.get_params() == fitted.get_params():
            break
        ratio = again.curvature_over(fitted, scores)
        curvature *= ratio
        fields = tuple(
            LatentField(ratio * one.lam, max(ratio * one.tau, MIN_TAU)) for one in fields
        )
        fitted = again
    if places.groups:
        from ebboost.groups import by_variances

        noise = 1.0 if type(fitted).dispersion is Loss.dispersion else least
        others = by_variances(fields, places, labels, scores, fitted, noise)
        other = predict(fitted, others)
        if deviance(fitted, other) <= (1.0 + held.size**-0.5) * least:  # by chance
            fields, predicted = others, other
    without = deviance(fitted, alone)
    best = deviance(fitted, predicted)
    if best > (1.0 - MIN_GAIN) * without:
        fitted = loss.prepared(labels.target, labels.weight, scores)
        return Strengths(None, fitted, without, without)
    return Strengths(joined(fields, places).scaled(1.0), fitted, best, without)


def joined(fields: Sequence[LatentField], places: Places) -> LatentField:
    """Return the field of all groups, or that of the graph where rows have one node."""
    if not places.groups:
        return fields[0]
    from ebboost.groups import GroupFields

    return GroupFields(fields, tuple(places.groups.values()))


def _in_range(lam: float, tau: float, scale: float) -> bool:
    if tau < MIN_TAU:
        return False
    ratio = tau / (START_RATIO * lam)
    return ENDS[0] <= lam / scale <= ENDS[1] and RATIO_ENDS[0] <= ratio <= RATIO_ENDS[1]
