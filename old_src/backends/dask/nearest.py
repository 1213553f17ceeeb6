"""A worker's part of the graph of nearest rows: each asks those whose points may be nearer."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial import cKDTree

from ebboost.backends.dask.collectives import Collective
from ebboost.backends.dask.sharding import Partition
from ebboost.data.coordinates import N_NEIGHBORS
from ebboost.graph import as_points

Array = NDArray[np.float64]
Positions = NDArray[np.int64]
#: Distances of all workers whose median is the scale of the weights; of more, so many are drawn.
SAMPLE = 1_000_000


@dataclass(frozen=True)
class NearestRows:
    """The graph of nearest rows, by columns of X or by points with an entry for each row."""

    columns: tuple[int, ...]
    degrees: bool
    #: What is split among the workers like the ids of a ``ParquetGraph``: the points.
    ids: Any = None
    neighbors: int = N_NEIGHBORS

    def without_ids(self) -> "NearestRows":
        """Return the graph as it is sent to workers, each of which has the points of its rows."""
        return replace(self, ids=None)

    def points(self, values: NDArray[Any], passed: NDArray[Any]) -> Array:
        """Return the points of a worker's rows of X, or of those that were passed."""
        points = values[:, list(self.columns)] if self.columns else passed
        return as_points(points, "haversine" if self.degrees else "euclidean")

    def __repr__(self) -> str:
        return f"NearestRows({self.columns}, {self.degrees}, neighbors={self.neighbors})"


@dataclass(frozen=True)
class Points:
    """The points of all workers, of which this one has its own; ``positions`` are their nodes."""

    own: Array
    positions: Positions
    workers: Collective

    def nearest(self, targets: Array, k: int) -> tuple[Array, Positions]:
        """Return distances and nodes of the k nearest points of each target, nearest first.

        Where there are fewer, the distance is infinite and the node −1.
        """
        workers = self.workers
        boxes = workers.allgather(np.array([self.own.min(axis=0), self.own.max(axis=0)]))
        tree = cKDTree(self.own)
        distance, node = self._query(tree, targets, k)
        gaps = [np.linalg.norm(targets - np.clip(targets, *box), axis=1) for box in boxes]
        requested = [np.flatnonzero(gap <= distance[:, -1]) for gap in gaps]
        requested[workers.rank] = np.zeros(0, dtype=np.int64)
        requests = workers.alltoall([targets[rows] for rows in requested])
        answers = [self._query(tree, points, k) for points in requests]
        parts = [workers.alltoall([answer[part] for answer in answers]) for part in (0, 1)]
        for rows, *answered in zip(requested, *parts, strict=True):
            both = np.hstack([distance[rows], answered[0]])
            nodes = np.hstack([node[rows], answered[1]])
            order = np.lexsort([nodes, both])[:, :k]
            distance[rows] = np.take_along_axis(both, order, axis=1)
            node[rows] = np.take_along_axis(nodes, order, axis=1)
        return distance, node

    def _query(self, tree: cKDTree, targets: Array, k: int) -> tuple[Array, Positions]:
        distance, row = tree.query(targets, k=np.arange(1, k + 1))
        return distance, np.append(self.positions, -1)[row]


def nearest_rows(
    points: Array, partition: Partition, workers: Collective, neighbors: int = N_NEIGHBORS
) -> sparse.csr_array:
    """Return the rows of this worker's nodes in the graph of nearest rows, weighted by distance.

    It is that of ``Graph.build_knn(points, neighbors, weight="distance")``, up to the choice among
    points that are equally near, and to the median of more than ``SAMPLE`` distances.
    """
    positions = partition.positions(workers.rank)
    k = min(neighbors, partition.n_nodes - 1)
    distance, node = Points(points, positions, workers).nearest(points, k + 1)
    itself = node == positions[:, None]
    itself[~itself.any(axis=1), k] = True
    edges = (np.repeat(np.arange(len(points)), k), node[~itself], distance[~itself])
    is_crowded = distance[:, k] == 0
    if workers.allreduce(np.array([float(is_crowded.sum())]))[0]:
        more = _leave_crowds(points, is_crowded, k, positions, workers)
        row, target, length = (np.concatenate(pair) for pair in zip(edges, more, strict=True))
        edges = (row, target, length)
    return _symmetric(*edges, partition, workers)


def _leave_crowds(
    points: Array, is_crowded: NDArray[np.bool_], k: int, positions: Positions, workers: Collective
) -> tuple[Positions, Positions, Array]:
    """Edges from the first row of each point that more than k rows share to other points."""
    unique, first = np.unique(points, axis=0, return_index=True)
    rows = np.flatnonzero(is_crowded[first])
    others = Points(unique, positions[first], workers)
    # Every worker may have the point itself.
    distance, node = others.nearest(unique[rows], k + workers.count)
    is_other = (distance > 0) & np.isfinite(distance)
    is_other &= np.cumsum(is_other, axis=1) <= k
    source = np.repeat(first[rows], is_other.sum(axis=1))
    return source, node[is_other], distance[is_other]


def _symmetric(
    row: Positions, target: Positions, length: Array, partition: Partition, workers: Collective
) -> sparse.csr_array:
    """Own rows of the symmetric matrix of edges from own rows, each sent to the other end's worker.

    Weights are 1 / (1 + d / median d) of distances d.
    """
    source = partition.positions(workers.rank)[row]
    rank, there = partition.locate(target)
    to_ranks = [np.flatnonzero(rank == one) for one in range(workers.count)]
    back = [np.column_stack([there[edges], source[edges]]) for edges in to_ranks]
    pairs = np.concatenate([np.column_stack([row, target]), *workers.alltoall(back)])
    lengths = np.concatenate([length, *workers.alltoall([length[edges] for edges in to_ranks])])
    _, first = np.unique(pairs[:, 0] * partition.n_nodes + pairs[:, 1], return_index=True)
    positive = lengths[first][lengths[first] > 0]
    n_positive = workers.allreduce(np.array([float(positive.size)]))[0]
    step = max(int(np.ceil(n_positive / SAMPLE)), 1)
    drawn = np.concatenate(workers.allgather(positive[::step]))
    scale = float(np.median(drawn)) if drawn.size else 1.0
    weights = 1.0 / (1.0 + lengths[first] / scale)
    shape = (partition.lengths[workers.rank], partition.n_nodes)
    return sparse.coo_array((weights, tuple(pairs[first].T)), shape).tocsr()
