"""Places for nodes that have none: distances to a few pivots, flattened, then pulled along edges and pushed apart."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

Array = NDArray[np.float64]
PIVOTS = 30
ROUNDS = 60
PUSHED = 3  # random others that each node is pushed from in a round


def layout(adjacency: sparse.csr_array, seed: int = 0) -> Array:
    """Return a place in the plane for every node: components side by side, the largest first, each in its own square."""
    n_nodes = adjacency.shape[0]
    links = sparse.csr_array((np.ones(adjacency.nnz), adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    component = csgraph.connected_components(links, directed=False)[1]
    rng = np.random.default_rng(seed)
    place = np.zeros((n_nodes, 2))
    by_component = np.argsort(component, kind="stable")
    groups = np.split(by_component, np.cumsum(np.bincount(component))[:-1])
    groups.sort(key=lambda group: -group.size)
    squares = _squares(np.sqrt([group.size for group in groups]))
    for group, (left, bottom, side) in zip(groups, squares, strict=True):
        inside = _component(links[group][:, group], rng) if group.size > 2 else np.linspace(-0.5, 0.5, group.size)
        if group.size <= 2:
            inside = np.column_stack([inside, np.zeros(group.size)])
        place[group] = np.array([left, bottom]) + side * (0.5 + 0.46 * inside)
    return place * [1.0, -1.0]  # the largest on top


def _squares(sides: Array) -> list[tuple[float, float, float]]:
    """Left, bottom and side of squares in rows, together somewhat wider than high."""
    width = max(1.3 * float(np.sqrt((sides**2).sum())), float(sides.max()))
    found, left, bottom, height = [], 0.0, 0.0, 0.0
    for side in sides.tolist():
        if left > 0 and left + side > width + 1e-9:
            left, bottom, height = 0.0, bottom + height, 0.0
        found.append((left, bottom, side))
        left, height = left + side, max(height, side)
    return found


def _component(links: sparse.csr_array, rng: np.random.Generator) -> Array:
    """One connected component in the square from -1 to 1."""
    place = _balanced(_flattened(links, rng))
    source, target = sparse.coo_array(sparse.triu(links, 1)).coords
    n_nodes = place.shape[0]
    rest = 1.0 / np.sqrt(n_nodes)  # the length an edge would like to have
    ties = np.maximum(np.diff(links.indptr), 1)[:, None]
    for number in range(ROUNDS):
        along = place[target] - place[source]
        pull = np.zeros_like(place)
        for axis in (0, 1):
            pull[:, axis] = np.bincount(source, along[:, axis], n_nodes) - np.bincount(target, along[:, axis], n_nodes)
        others = rng.integers(0, n_nodes, (PUSHED, n_nodes))
        apart = place[None] - place[others]
        push = (apart / ((apart**2).sum(axis=2, keepdims=True) + rest**2)).mean(axis=0)
        move = 0.3 * pull / ties + 2.0 * rest**2 * np.sqrt(n_nodes) ** 0.5 * push
        size = np.sqrt((move**2).sum(axis=1, keepdims=True))
        longest = 4.0 * rest * (1.0 - number / ROUNDS)
        place = place + move * np.minimum(1.0, longest / np.maximum(size, 1e-12))
    return _balanced(place, stretched=True)


def _flattened(links: sparse.csr_array, rng: np.random.Generator) -> Array:
    """Two principal axes of the squared distances to pivots that are far from each other."""
    n_nodes = links.shape[0]
    nearest, columns = np.full(n_nodes, np.inf), []
    pivot = int(np.argmax(np.diff(links.indptr)))
    for _ in range(min(PIVOTS, n_nodes)):
        distance = csgraph.dijkstra(links, indices=pivot, unweighted=True)
        columns.append(distance**2)
        nearest = np.minimum(nearest, distance)
        pivot = int(np.argmax(nearest))
    squared = np.column_stack(columns)
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1, keepdims=True) + squared.mean()
    axes = np.linalg.svd(centred.T @ centred)[0][:, :2]
    flat = centred @ axes
    if flat.shape[1] < 2:
        flat = np.column_stack([flat, np.zeros(n_nodes)])
    flat = flat / max(float(np.abs(flat).max()), 1e-12)
    return np.asarray(flat + 0.3 / np.sqrt(n_nodes) * rng.normal(size=flat.shape))


def _balanced(place: Array, stretched: bool = False) -> Array:
    """The square from -1 to 1, filled where ``stretched``; far stragglers are drawn in."""
    place = place - np.median(place, axis=0)
    if stretched:  # along its own axes, so that a long component does not lie across
        place = place @ np.linalg.eigh(place.T @ place)[1][:, ::-1]
    reach = np.quantile(np.abs(place), 0.99, axis=0)
    reach = np.maximum(np.maximum(reach, (0.3 if stretched else 1.0) * reach.max()), 1e-12)
    place = place / reach
    beyond = np.maximum(np.abs(place) - 1.0, 0.0)
    return np.asarray(np.sign(place) * (np.minimum(np.abs(place), 1.0) + 0.2 * (1.0 - np.exp(-beyond))) / 1.2)
