"""A Gaussian process of the coordinates, given the nearest labels of each row: kriging.

Residuals of labels, y − fixed − f, are z + noise, where z has an exponential or Matérn covariance.
The mean and the variance of z at a row follow from the nearest labels alone. The covariance and the
noise are those of the largest likelihood of labels given the nearest earlier ones in random order
(Vecchia 1988); how smooth z is, labels that were held out say, as they are as far from the others
as the rows to predict. Unlike the field of a graph, it reaches over gaps that are many rows wide.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

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
SCORED_LABELS = 5_000
CHUNK = 2_000
# Noise is at least this share of the variance of the labels; the range at most the extent of the
# points, at least this share of it. How many likelihoods are computed.
LEAST_NOISE = 1e-5
LEAST_RANGE = 1e-4
EVALUATIONS = 60
START_RANGE = 0.1


@dataclass(frozen=True)
class GaussianProcess:
    """z with a variance, a range and a smoothness of its covariance, and the variance of the noise.

    Covariances are exponential, exp(−distance / range), or smoother: Matérn's of 3/2 and 5/2.
    """

    variance: float
    range: float
    noise: float
    smoothness: float = 0.5

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
            at = near[own]
            lengths = distances(points[own], labelled[at])
            return self.given(*lengths, residuals[at], noise[at])

        starts = range(0, len(points), CHUNK)
        with ThreadPoolExecutor(allowed_threads(), "ebboost-kriging") as pool:
            parts = list(pool.map(solve, starts))
        if not parts:
            return np.zeros(0), np.zeros(0)
        mean, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        return mean, variance

    def given(
        self, lengths: Array, between: Array, residuals: Array, noise: Array
    ) -> tuple[Array, Array]:
        """Return mean and variance at n points given k labels each, from all distances.

        ``lengths`` of shape (n, k) lead to the labels, ``between`` of shape (n, k, k) connect them.
        """
        weights, own = self.weights(lengths, between, noise)
        variance = self.variance - np.einsum("nk,nk->n", weights, own)
        mean = np.einsum("nk,nk->n", weights, residuals)
        return mean, np.maximum(variance, LEAST_NOISE * self.variance)

    def weights(self, lengths: Array, between: Array, noise: Array) -> tuple[Array, Array]:
        """Return what residuals are multiplied by, and their covariances with z."""
        system = self.covariance(between)
        every = np.arange(lengths.shape[1])
        system[:, every, every] = self.variance + noise
        own = self.covariance(lengths)
        weights = np.asarray(np.linalg.solve(system, own[:, :, None])[:, :, 0], dtype=np.float64)
        return weights, own

    def covariance(self, distance: Array) -> Array:
        """Return the covariance at a distance."""
        h = distance * (np.sqrt(2.0 * self.smoothness) / self.range)
        result = np.exp(-h)
        if self.smoothness == 1.5:
            result *= 1.0 + h
        elif self.smoothness == 2.5:
            result *= 1.0 + h + h * h / 3.0
        result *= self.variance
        return result


def distances(points: Array, near: Array) -> tuple[Array, Array]:
    """Return distances of n points to k others each, of shape (n, k, d), and between these."""
    moved: Array = near - points[:, None]
    squares = np.einsum("nkd,nkd->nk", moved, moved)
    between = squares[:, :, None] + squares[:, None] - 2.0 * moved @ moved.transpose(0, 2, 1)
    return np.sqrt(squares), np.sqrt(np.maximum(between, 0.0))


def estimate_process(
    points: Array, residuals: Array, weight: Array, fold: IntArray, seed: int = 0
) -> GaussianProcess:
    """Return the process that predicts residuals of labels best from those of other folds.

    Of processes of the largest likelihood: of each smoothness, and one whose range is the extent of
    the points, as the likelihood of near labels says little about the range.
    """
    weight = weight / weight.mean()
    at = np.random.default_rng(seed).permutation(len(points))[:SCORED_LABELS]
    kinds = ((0.5, LEAST_RANGE), (0.5, 1.0), (1.5, LEAST_RANGE))
    found = [likeliest_process(points, residuals, weight, *kind, seed) for kind in kinds]

    def loss(process: GaussianProcess) -> float:
        """The mean squared error at the positions ``at``."""
        total = 0.0
        for number in np.unique(fold[at]).tolist():
            own, others = at[fold[at] == number], fold != number
            known = (points[others], residuals[others], weight[others])
            mean, _ = process.posterior(points[own], *known)
            total += float((weight[own] * (residuals[own] - mean) ** 2).sum())
        return total

    return min(found, key=loss)


def likeliest_process(
    points: Array, residuals: Array, weight: Array, smoothness: float, least_range: float, seed: int
) -> GaussianProcess:
    """Return the process of a smoothness with the largest likelihood of residuals of labels."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(points))
    points, residuals = points[order] - points.mean(axis=0), residuals[order]
    noise = 1.0 / weight[order]
    chosen = random.permutation(len(points))[:LIKELIHOOD_LABELS]
    chosen = np.sort(chosen[chosen >= min(LIKELIHOOD_NEIGHBORS, len(points) // 2)])
    near = earlier_neighbors(points, chosen, min(LIKELIHOOD_NEIGHBORS, len(points) // 2))
    lengths = distances(points[chosen], points[near])
    spread = float(np.var(residuals)) or 1.0
    extent = float(np.linalg.norm(np.ptp(points, axis=0))) or 1.0

    def process(parameters: Array) -> GaussianProcess:
        slope, length, noise = np.exp(parameters).tolist()
        variance = spread * slope * length ** (2.0 * smoothness)
        return GaussianProcess(variance, extent * length, spread * noise, smoothness)

    def loss(parameters: Array) -> float:
        one = process(parameters)
        mean, variance = one.given(*lengths, residuals[near], one.noise * noise[near])
        variance += one.noise * noise[chosen]
        return float(np.mean(np.log(variance) + (residuals[chosen] - mean) ** 2 / variance))

    length = np.log(max(START_RANGE, least_range))
    start = np.array([-2.0 * smoothness * length, length, -1.0])
    bounds = [(-10.0, 20.0), (np.log(least_range), 0.0), (np.log(LEAST_NOISE), 1.0)]
    simplex = start + np.vstack([np.zeros(3), np.diag([1.5, 1.0, -1.5])])
    simplex[:, 1] = simplex[:, 1].clip(*bounds[1])
    options = {"maxfev": EVALUATIONS, "xatol": 0.03, "fatol": 1e-4, "initial_simplex": simplex}
    return process(minimize(loss, start, method="Nelder-Mead", bounds=bounds, options=options).x)


def correlation_range(points: Array, values: Array) -> float:
    """Return where the correlation of labels has fallen to 5 %; at most a third of the map."""
    extent = float(np.linalg.norm(np.ptp(points, axis=0)))
    centered = values - values.mean()
    process = likeliest_process(points, centered, np.ones(len(values)), 0.5, 1e-3, 0)
    return min(3.0 * process.range, extent / 3.0) or 1.0


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
