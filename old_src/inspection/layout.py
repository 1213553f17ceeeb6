"""Positions for nodes without coordinates: pivot multidimensional scaling, then a force simulation.

A spectral layout is shorter, but folds over: trees, county maps and communities become unreadable.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from ebboost.data.types import Array

Index = NDArray[np.int64]
N_PIVOTS = 30  # 8 in components of at most 300 nodes
N_STEPS = 60
N_REPULSIONS = 3  # random nodes of the component that repel a node in each step


def layout(adjacency: sparse.csr_array, seed: int = 0) -> Array:
    """Return a point in the plane for every node, components side by side; weights are ignored."""
    rng = np.random.default_rng(seed)
    links = adjacency.astype(bool).astype(np.float64)
    component = csgraph.connected_components(links, directed=False)[1]
    order = np.argsort(component, kind="stable")  # each component is a slice of this order
    links = links[order][:, order]
    sizes = np.bincount(component)
    starts = np.cumsum(sizes) - sizes
    slices = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    points = np.zeros((order.size, 2))
    for part, size in zip(slices, sizes, strict=True):
        if size > 2:
            points[part] = _pivot_mds(links[part, part], rng)
        else:
            points[part, 0] = np.arange(size)
    points = _simulate(points, links, np.repeat(starts, sizes), np.repeat(sizes, sizes), rng)
    largest = np.argsort(-sizes, kind="stable")
    squares = _pack(np.sqrt(sizes[largest].astype(np.float64)))
    for index, (left, bottom, side) in zip(largest, squares, strict=True):
        part = slices[index]
        points[part] = np.array([left, bottom]) + side * (0.5 + 0.46 * _fit_square(points[part]))
    positions = np.empty_like(points)
    positions[order] = points * [1.0, -1.0]  # the largest on top
    return positions


def _pivot_mds(links: sparse.csr_array, rng: np.random.Generator) -> Array:
    """Two principal axes of the squared distances to pivots that are far from each other."""
    n_nodes = links.shape[0]
    nearest = np.full(n_nodes, np.inf)
    pivot = int(np.argmax(np.diff(links.indptr)))
    columns = []
    for _ in range(min(N_PIVOTS if n_nodes > 300 else 8, n_nodes)):
        distance = csgraph.dijkstra(links, indices=pivot, unweighted=True)
        columns.append(distance**2)
        nearest = np.minimum(nearest, distance)
        pivot = int(np.argmax(nearest))
    squared = np.column_stack(columns)
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1, keepdims=True) + squared.mean()
    points = centred @ np.linalg.svd(centred.T @ centred)[0][:, :2]
    points /= max(float(np.abs(points).max()), 1e-12)
    return points + 0.3 / np.sqrt(n_nodes) * rng.normal(size=points.shape)


def _simulate(
    points: Array, links: sparse.csr_array, starts: Index, sizes: Index, rng: np.random.Generator
) -> Array:
    """Attract neighbours, and repel every node from random nodes of its component."""
    length = 1.0 / np.sqrt(sizes)[:, None]  # of an edge
    n_neighbors = np.maximum(np.diff(links.indptr), 1)[:, None]
    for step in range(N_STEPS):
        attraction = (links @ points) / n_neighbors - points * (np.diff(links.indptr) > 0)[:, None]
        repulsion = np.zeros_like(points)
        for _ in range(N_REPULSIONS):
            apart = points - points[starts + (sizes * rng.random(len(points))).astype(np.int64)]
            repulsion += apart / ((apart**2).sum(axis=1, keepdims=True) + length**2)
        move = 0.3 * attraction + 2.0 / N_REPULSIONS * length**1.5 * repulsion
        norm = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-12)
        longest = 4.0 * length * (1.0 - step / N_STEPS)
        points = points + move * np.minimum(1.0, longest / norm)
    return points


def _pack(sides: Array) -> list[tuple[float, float, float]]:
    """Left, bottom and side of squares in rows, together somewhat wider than high."""
    width = max(1.3 * float(np.sqrt((sides**2).sum())), float(sides.max()))
    squares = []
    left = bottom = height = 0.0
    for side in sides.tolist():
        if left > 0 and left + side > width + 1e-9:
            bottom += height
            left = height = 0.0
        squares.append((left, bottom, side))
        left += side
        height = max(height, side)
    return squares


def _fit_square(points: Array) -> Array:
    """The points along their principal axes in the square from -1 to 1, outliers drawn in."""
    points = points - np.median(points, axis=0)
    points = points @ np.linalg.eigh(points.T @ points)[1][:, ::-1]
    reach = np.quantile(np.abs(points), 0.99, axis=0)
    points = points / np.maximum(np.maximum(reach, 0.3 * reach.max()), 1e-12)
    outside = np.maximum(np.abs(points) - 1.0, 0.0)
    inside = np.minimum(np.abs(points), 1.0) + 0.2 * (1.0 - np.exp(-outside))
    return np.sign(points) * inside / 1.2
