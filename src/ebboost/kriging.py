"""A Gaussian process of the coordinates, given the nearest labels of each row: kriging.

Residuals of labels, y − fixed − f, are z + noise, where z has an exponential covariance. The mean
and the variance of z at a row follow from the nearest labels alone. The variance, the range and the
noise are those of the largest likelihood of labels given the nearest earlier ones in random order
(Vecchia 1988). Unlike the field of a graph, it reaches over gaps that are many rows wide.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize
from scipy.spatial import cKDTree

from ebboost._common import Array, IntArray
from ebboost.threads import allowed_threads

# Nearest labels of a row, in predictions and in the likelihood; labels of the likelihood; rows that
# are solved at once.
NEIGHBORS = 40
LIKELIHOOD_NEIGHBORS = 20
LIKELIHOOD_LABELS = 2_000
CHUNK = 2_000
# Noise is at least this share of the variance of the labels; the range at most the extent of the
# points, at least this share of it. How many likelihoods are computed.
LEAST_NOISE = 1e-5
LEAST_RANGE = 1e-4
EVALUATIONS = 80


@dataclass(frozen=True)
class GaussianProcess:
    """z with covariance variance · exp(−distance / range), and the variance of the noise."""

    variance: float
    range: float
    noise: float

    def posterior(
        self,
        points: Array,
        labelled: Array,
        residuals: Array,
        weight: Array,
        n_neighbors: int = NEIGHBORS,
    ) -> tuple[Array, Array]:
        """Return the mean and the variance of z at points, given residuals of labels.

        Parameters
        ----------
        points, labelled : ndarray of shape (n, d) and (m, d)
        residuals, weight : ndarray of shape (m,)
            The noise of a label is divided by its weight.
        """
        count = min(n_neighbors, len(labelled))
        near = cKDTree(labelled).query(points, k=[*range(1, count + 1)])[1]
        noise = self.noise / weight

        def solve(start: int) -> tuple[Array, Array]:
            own = slice(start, start + CHUNK)
            return self.given(points[own], labelled[near[own]], residuals[near[own]], noise[near[own]])

        starts = range(0, len(points), CHUNK)
        with ThreadPoolExecutor(allowed_threads(), "ebboost-kriging") as pool:
            parts = list(pool.map(solve, starts))
        if not parts:
            return np.zeros(0), np.zeros(0)
        mean, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        return mean, variance

    def given(
        self, points: Array, near: Array, residuals: Array, noise: Array
    ) -> tuple[Array, Array]:
        """Return mean and variance at n points given k labels each: ``near`` is (n, k, d)."""
        squares = np.einsum("nkd,nkd->nk", near, near)
        between = squares[:, :, None] + squares[:, None] - 2.0 * near @ near.transpose(0, 2, 1)
        system = self.covariance(np.sqrt(np.maximum(between, 0.0)))
        every = np.arange(near.shape[1])
        system[:, every, every] = self.variance + noise
        own = self.covariance(np.linalg.norm(near - points[:, None], axis=2))
        weights = np.linalg.solve(system, own[:, :, None])[:, :, 0]
        variance = self.variance - np.einsum("nk,nk->n", weights, own)
        mean = np.einsum("nk,nk->n", weights, residuals)
        return mean, np.maximum(variance, LEAST_NOISE * self.variance)

    def covariance(self, distance: Array) -> Array:
        """Return the covariance at a distance."""
        return self.variance * np.exp(distance / -self.range)


def estimate_process(
    points: Array, residuals: Array, weight: Array, seed: int = 0
) -> GaussianProcess:
    """Return the process of the largest likelihood of residuals of labels."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(points))
    points, residuals = points[order] - points.mean(axis=0), residuals[order]
    noise = 1.0 / (weight[order] / weight.mean())
    chosen = random.permutation(len(points))[:LIKELIHOOD_LABELS]
    chosen = np.sort(chosen[chosen >= min(LIKELIHOOD_NEIGHBORS, len(points) // 2)])
    near = earlier_neighbors(points, chosen, min(LIKELIHOOD_NEIGHBORS, len(points) // 2))
    spread = float(np.var(residuals)) or 1.0
    extent = float(np.linalg.norm(np.ptp(points, axis=0))) or 1.0

    def process(parameters: Array) -> GaussianProcess:
        slope, length, noise = np.exp(parameters).tolist()
        return GaussianProcess(spread * slope * length, extent * length, spread * noise)

    def loss(parameters: Array) -> float:
        one = process(parameters)
        mean, variance = one.given(
            points[chosen], points[near], residuals[near], one.noise * noise[near]
        )
        variance += one.noise * noise[chosen]
        return float(np.mean(np.log(variance) + (residuals[chosen] - mean) ** 2 / variance))

    start = np.log([5.0, 0.1, 0.3])
    bounds = [(-7.0, 14.0), (np.log(LEAST_RANGE), 0.0), (np.log(LEAST_NOISE), 1.0)]
    simplex = start + np.vstack([np.zeros(3), 1.5 * np.eye(3)]).clip(-np.inf, np.inf)
    simplex = simplex.clip([low for low, _ in bounds], [high for _, high in bounds])
    options = {"maxfev": EVALUATIONS, "xatol": 0.03, "fatol": 1e-4, "initial_simplex": simplex}
    found = minimize(loss, start, method="Nelder-Mead", bounds=bounds, options=options)
    return process(found.x)


def earlier_neighbors(points: Array, chosen: IntArray, count: int) -> IntArray:
    """Return the nearest of the points before each chosen one, about: those of earlier blocks."""
    near = np.empty((chosen.size, count), dtype=np.int64)
    start = count
    while start <= chosen[-1]:
        end = max(int(1.4 * start), start + 1)
        own = (chosen >= start) & (chosen < end)
        if own.any():
            tree = cKDTree(points[:start])
            near[own] = tree.query(points[chosen[own]], k=[*range(1, count + 1)])[1]
        start = end
    return near
