"""Strengths of the latent field, estimated from out-of-fold residuals.

Some of the residuals are held out and predicted by the field of the others. The strengths λ and τ
with the least error are searched for on a grid of ratios √10, from the best neighbour to the next.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ebboost.boosting.latent_field import LatentField
from ebboost.data.labels import Labels
from ebboost.graph import Graph

Array = NDArray[np.float64]
#: Where the search starts, its step, and its limits. Ten data sets have their best strengths
#: within these limits.
START = (10.0**0.5, 10.0**-1.5)
STEP = 10.0**0.5
LAM_RANGE = (0.03, 1e3)
TAU_RANGE = (5e-4, 10.0)
#: A step must lower the squared error by this share.
MIN_IMPROVEMENT = 1e-3
#: Parts of the residuals, and how many of these parts are predicted: with many residuals one is
#: precise enough.
N_PARTS = 5
PRECISE_ENOUGH = 4_000
#: Relative accuracy of the solves, whose error is far below that of the estimate.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class FieldEstimate:
    """Estimated strengths, and mean squared residuals without and with the field."""

    field: LatentField
    without: float
    with_field: float


def estimate_strengths(
    graph: Graph,
    residuals: Labels,
    seed: int,
    start: tuple[float, float] = START,
    to_host: Callable[[Array], Array] = np.asarray,
) -> FieldEstimate:
    """Return the strengths with which the field predicts held-out residuals best.

    ``residuals`` are those of labelled nodes, as their target, by models that were not trained on
    them.
    """
    nodes = residuals.nodes
    part = np.random.default_rng(seed).permutation(nodes.size) % N_PARTS
    n_predicted = int(np.clip(np.ceil(PRECISE_ENOUGH * N_PARTS / nodes.size), 1, N_PARTS))
    errors: dict[tuple[int, int], float] = {}

    def strengths(step: tuple[int, int]) -> tuple[float, float]:
        return start[0] * STEP ** step[0], start[1] * STEP ** step[1]

    def error(step: tuple[int, int]) -> float:
        lam, tau = strengths(step)
        if not (LAM_RANGE[0] <= lam <= LAM_RANGE[1] and TAU_RANGE[0] <= tau <= TAU_RANGE[1]):
            return np.inf
        if step not in errors:
            field = LatentField(lam, tau)
            errors[step] = _held_out_error(graph, residuals, field, part, n_predicted, to_host)
        return errors[step]

    best = (0, 0)
    least = error(best)
    improved = True
    while improved:
        improved = False
        for move in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            step = (best[0] + move[0], best[1] + move[1])
            if error(step) < (1.0 - MIN_IMPROVEMENT) * least:
                best = step
                least = error(step)
                improved = True
    lam, tau = strengths(best)
    held = part < n_predicted
    target = to_host(residuals.target)[held]
    without = float(np.average((target**2).sum(axis=1), weights=to_host(residuals.weight)[held]))
    return FieldEstimate(LatentField(_rounded(lam), _rounded(tau)), without, least)


def _held_out_error(
    graph: Graph,
    residuals: Labels,
    field: LatentField,
    part: NDArray[np.int64],
    n_predicted: int,
    to_host: Callable[[Array], Array],
) -> float:
    """Mean squared error of predictions of the first parts, each from all others."""
    total = 0.0
    weight = 0.0
    for number in range(n_predicted):
        known = residuals.subset(np.flatnonzero(part != number))
        held = residuals.subset(np.flatnonzero(part == number))
        posterior = field.operator(graph, known.nodes, known.weight)
        mean = posterior.posterior_mean(known.target, TOLERANCE)[held.nodes]
        squares = to_host(held.weight) * (to_host(held.target - mean) ** 2).sum(axis=1)
        total += float(squares.sum())
        weight += float(to_host(held.weight).sum())
    return total / weight


def _rounded(value: float) -> float:
    """Two significant digits: more would not be estimated."""
    return float(f"{value:.2g}")
