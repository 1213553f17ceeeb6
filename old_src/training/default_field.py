"""Strengths of the field before anything is trained.

Those of group effects are estimated by the method of moments. With gradients −e and curvatures h
at the initial scores, e_i ≈ h_i z_g + noise of variance φ h_i. Two labels of a group have no noise
in common, so that the sum of e_i e_j over such pairs estimates the variance of z times that of
h_i h_j.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ebboost.boosting.latent_field import MIN_TAU, LatentField, scaled_field
from ebboost.boosting.losses import Loss
from ebboost.boosting.losses.base import initial_scores
from ebboost.data.types import Array
from ebboost.graph import Graph, Groups
from ebboost.model.candidate import Candidate
from ebboost.training.problem import Problem

# τ/λ of the field on a graph of groups; that of Belgian postcodes, by search, is .12.
RATIO = 0.1
# Least variance of group effects, times the mean curvature.
MIN_VARIANCE = 1e-6


class GroupEffects(NamedTuple):
    """Variance of the effects in units of the noise, and its distance from 0 in standard errors."""

    variance: float
    standard_errors: float

    @property
    def field(self) -> LatentField:
        """The field with this variance."""
        precision = 1.0 / self.variance
        return LatentField(float(f"{precision:.3g}"), float(f"{RATIO * precision:.3g}"))


def group_effects(problem: Problem, groups: Groups[Graph]) -> GroupEffects:
    """Return the group effects of the first output of the labels."""
    labels = problem.labels.labels
    loss = problem.output.loss
    offset = None if problem.offset is None else problem.offset[labels.nodes]
    start = initial_scores(loss, labels.target, labels.weight, offset)
    error = (-loss.gradient(start, labels.target) * labels.weight[:, None])[:, 0]
    curvature = np.broadcast_to(loss.curvature(start, labels.target), labels.target.shape)[:, 0]
    curvature = curvature * labels.weight
    group = groups.group_of[labels.nodes]

    def sums(values: Array) -> Array:
        return np.bincount(group, values, groups.graph.n_nodes).astype(np.float64)

    own = sums(error**2)
    shared = float((sums(error) ** 2 - own).sum())
    pairs = float((sums(curvature) ** 2 - sums(curvature**2)).sum())
    noise = float(own.sum() / max(curvature.sum(), 1e-300))
    least = MIN_VARIANCE / float(np.mean(curvature))
    if not (pairs > 0.0 and noise > 0.0 and np.isfinite(shared)):
        return GroupEffects(least, 0.0)
    standard_error = float(np.sqrt(2.0 * (own**2).sum()))
    return GroupEffects(max(shared / pairs / noise, least), shared / standard_error)


def typical_curvature(problem: Problem, loss: Loss) -> float:
    """Return the mean curvature of a loss at the initial score."""
    labels = problem.labels.labels
    offset = None if problem.offset is None else problem.offset[labels.nodes]
    start = initial_scores(loss, labels.target, labels.weight, offset)
    with np.errstate(all="ignore"):
        return float(np.mean(loss.curvature(start, labels.target)))


def with_loss(problem: Problem, candidate: Candidate, loss: Loss | None) -> Candidate:
    """Return a candidate trained with another loss, its field in the units of that loss."""
    field = candidate.labels
    if isinstance(field, LatentField):
        losses = [one or problem.output.loss for one in (loss, candidate.loss)]
        units = [typical_curvature(problem, one) for one in losses]
        field = scaled_field(field, units[0] / units[1])
    return replace(candidate, labels=field, loss=loss)


def default_field(problem: Problem) -> LatentField:
    """Return the default field, its strengths in units of the mean curvature at the start."""
    if problem.graph is not None and problem.graph.groups is not None:
        return group_effects(problem, problem.graph.groups).field
    loss = problem.output.loss
    unit = typical_curvature(problem, loss)
    field = LatentField()
    if not loss.curvature_has_units or not MIN_TAU < unit * field.tau < np.inf:
        return field
    return LatentField(unit * field.lam, unit * field.tau)
