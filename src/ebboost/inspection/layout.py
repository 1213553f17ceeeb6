"""Places for nodes that have none: distances to a few pivots, flattened, then pulled along edges and pushed apart."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

Array = NDArray[np.float64]
PIVOTS, FEW_PIVOTS, SMALL = 30, 8, 300
ROUNDS = 60
PUSHED = 3  # random others that each node is pushed from in a round


def layout(adjacency: sparse.csr_array, seed: int = 0) -> Array:
    """Return a place in the plane for every node; components stand side by side, the largest first.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> from ebboost.inspection.layout import layout
    >>> place = layout(eb.Graph.from_edges(np.arange(49), np.arange(1, 50)).adjacency)
    >>> place.shape
    (50, 2)
    """
    n_nodes = adjacency.shape[0]
    links = sparse.csr_array(
        (np.ones(adjacency.nnz), adjacency.indices, adjacency.indptr), shape=adjacency.shape
    )
    component = csgraph.connected_components(links, directed=False)[1]
    # Nodes of a component follow each other, so that each is a slice.
    order = np.argsort(component, kind="stable")
    size = np.bincount(component)
    start = np.cumsum(size) - size
    links = links[order][:, order]
    rng = np.random.default_rng(seed)
    place = np.zeros((n_nodes, 2))
    for first, count in zip(start.tolist(), size.tolist(), strict=True):
        part = slice(first, first + count)
        if count == 2:
            place[part, 0] = (-0.5, 0.5)
        elif count > 2:
            place[part] = _balanced(_flattened(links[part, part], rng))
    place = _relaxed(place, links, np.repeat(start, size), np.repeat(size, size), rng)
    largest = np.argsort(-size, kind="stable")
    squares = _squares(np.sqrt(size[largest].astype(np.float64)))
    for number, (left, bottom, side) in zip(largest.tolist(), squares, strict=True):
        part = slice(start[number], start[number] + size[number])
        inside = _balanced(place[part], stretched=True) if size[number] > 2 else place[part]
        place[part] = np.array([left, bottom]) + side * (0.5 + 0.46 * inside)
    found = np.empty_like(place)
    found[order] = place * [1.0, -1.0]  # the largest on top
    return found


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


def _relaxed(
    place: Array,
    links: sparse.csr_array,
    start: NDArray[np.int64],
    size: NDArray[np.int64],
    rng: np.random.Generator,
) -> Array:
    """Pull neighbours together and push every node from a few random others of its component, all components at once."""
    source, target = sparse.coo_array(sparse.triu(links, 1)).coords
    n_nodes = place.shape[0]
    rest = 1.0 / np.sqrt(size)[:, None]  # the length that edges would like to have
    ties = np.maximum(np.diff(links.indptr), 1)[:, None]
    for number in range(ROUNDS):
        along = place[target] - place[source]
        pull = np.column_stack(
            [
                np.bincount(source, step, n_nodes) - np.bincount(target, step, n_nodes)
                for step in along.T
            ]
        )
        push = np.zeros_like(place)
        for _ in range(PUSHED):
            apart = place - place[start + (size * rng.random(n_nodes)).astype(np.int64)]
            push += apart / (np.einsum("ij,ij->i", apart, apart)[:, None] + rest**2)
        move = 0.3 * pull / ties + 2.0 / PUSHED * rest**1.5 * push
        length = np.sqrt(np.einsum("ij,ij->i", move, move))[:, None]
        longest = 4.0 * rest * (1.0 - number / ROUNDS)
        place = place + move * np.minimum(1.0, longest / np.maximum(length, 1e-12))
    return place


def _flattened(links: sparse.csr_array, rng: np.random.Generator) -> Array:
    """Two principal axes of the squared distances to pivots that are far from each other."""
    n_nodes = links.shape[0]
    nearest, columns = np.full(n_nodes, np.inf), []
    pivot = int(np.argmax(np.diff(links.indptr)))
    for _ in range(min(PIVOTS if n_nodes > SMALL else FEW_PIVOTS, n_nodes)):
        distance = csgraph.dijkstra(links, indices=pivot, unweighted=True)
        columns.append(distance**2)
        nearest = np.minimum(nearest, distance)
        pivot = int(np.argmax(nearest))
    squared = np.column_stack(columns)
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1, keepdims=True) + squared.mean()
    flat = centred @ np.linalg.svd(centred.T @ centred)[0][:, :2]
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
    return np.asarray(
        np.sign(place) * (np.minimum(np.abs(place), 1.0) + 0.2 * (1.0 - np.exp(-beyond))) / 1.2
    )
