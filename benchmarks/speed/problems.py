"""Synthetic tables and graphs, passed to the measured processes as files."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

import ebboost as eb


@dataclass(frozen=True)
class Problem:
    """The size of a problem.

    Attributes
    ----------
    classes : int
        0: regression.
    graph : {"random", "nearest"}
        Edges between random nodes, the worst case for caches; or the nearest neighbours of random
        points in the plane, whose numbers say nothing of where they lie.
    """

    nodes: int
    edges: int
    columns: int = 20
    classes: int = 0
    graph: str = "random"


@dataclass(frozen=True)
class Inputs:
    """Inputs of a fit: every node has a label."""

    X: np.ndarray
    y: np.ndarray
    graph: eb.Graph
    coordinates: np.ndarray
    classes: int

    @property
    def size(self) -> int:
        """Bytes of the table, the labels and the adjacency."""
        adjacency = self.graph.adjacency
        parts = (self.X, self.y, adjacency.data, adjacency.indices, adjacency.indptr)
        return sum(part.nbytes for part in parts)


def make(problem: Problem, folder: Path) -> Path:
    """Write a problem's arrays to a folder of their own, unless they are there; return it."""
    folder = folder / "-".join(str(part) for part in vars(problem).values())
    if folder.exists():
        return folder
    rng = np.random.default_rng(0)
    coordinates = rng.random((problem.nodes, 2))
    graph = _nearest(problem, coordinates) if problem.graph == "nearest" else _random(problem, rng)
    X = rng.normal(size=(problem.nodes, problem.columns))
    if problem.classes:
        scores = X @ rng.normal(size=(problem.columns, problem.classes))
        y = (scores + graph.adjacency @ scores / 5.0 + rng.normal(size=scores.shape)).argmax(axis=1)
    else:
        y = X[:, 0] * X[:, 1] + 0.3 * (graph.adjacency @ X[:, 2]) + rng.normal(size=problem.nodes)
    folder.mkdir(parents=True)
    A = graph.adjacency
    arrays = {
        "X": X,
        "y": y,
        "coordinates": coordinates,
        "data": A.data,
        "indices": A.indices,
        "indptr": A.indptr,
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def load(problem: Problem, folder: Path) -> Inputs:
    """Read what :func:`make` wrote."""
    X, y, coordinates, *parts = (
        np.load(folder / f"{name}.npy")
        for name in ("X", "y", "coordinates", "data", "indices", "indptr")
    )
    return Inputs(
        X,
        y,
        eb.Graph(sparse.csr_array(tuple(parts), shape=(len(y), len(y)))),
        coordinates,
        problem.classes,
    )


def _random(problem: Problem, rng: np.random.Generator) -> eb.Graph:
    ends = np.sort(rng.integers(0, problem.nodes, (problem.edges, 2)), axis=1)
    return eb.Graph.from_edges(ends[:, 0], ends[:, 1], n_nodes=problem.nodes)


def _nearest(problem: Problem, coordinates: np.ndarray) -> eb.Graph:
    # A neighbour that is nearest in one direction only makes an edge too, so k neighbours make
    # about k / 1.78 edges a node.
    k = max(round(1.78 * problem.edges / problem.nodes), 1)
    return eb.Graph.build_knn(coordinates, k=k)
