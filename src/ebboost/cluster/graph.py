"""A graph divided among workers: each has the edges of its own nodes, and a halo.

The halo of a worker are the nodes of others that its own are connected to. Before a product with a
matrix, workers exchange the values of these nodes, and of no others. Vectors have a number for each
own node.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ebboost._common import Array, IntArray
from ebboost.cluster.communicator import AnyRows, Communicator
from ebboost.field import laplacians, normalized_laplacian
from ebboost.linalg import Solver, SparseMatrix, Structure
from ebboost.smoothing import GradientSteps, Laplacian, Operator, laplacian_system
from ebboost.sums import everywhere


@dataclass(frozen=True)
class Halo:
    """Which values a worker sends to which others, and how many it receives from each."""

    workers: Communicator
    sent: dict[int, IntArray]  # positions among own nodes, by rank
    received: dict[int, int]

    @classmethod
    def connect(cls, wanted: Sequence[IntArray], workers: Communicator) -> "Halo":
        """Return the halo of nodes wanted from each rank, counted among that rank's own."""
        requests = workers.alltoall(wanted)
        return cls(
            workers,
            {rank: nodes for rank, nodes in enumerate(requests) if nodes.size},
            {rank: nodes.size for rank, nodes in enumerate(wanted) if nodes.size},
        )

    def extend(self, own: AnyRows) -> AnyRows:
        """Return values of own nodes followed by those of the halo."""
        messages = {rank: own[nodes] for rank, nodes in self.sent.items()}
        received = self.workers.exchange(messages, list(self.received))
        return np.concatenate([own, *received]) if received else own


class HaloMatrix(SparseMatrix):
    """The rows of a symmetric matrix that belong to own nodes, with columns for the halo."""

    def __init__(self, matrix: sparse.csr_array, halo: Halo) -> None:
        super().__init__(matrix)
        self.halo = halo

    def times(self, v: Any, factor: float = 0.0, source: Any = None) -> Any:
        """Return M v + factor · source at own nodes."""
        return super().times(self.halo.extend(v), factor, source)


class HaloStructure(Structure):
    """The pattern of such matrices; systems are solved by conjugate gradients."""

    def __init__(self, pattern: sparse.csr_array, halo: Halo) -> None:
        self.indices, self.indptr, self.shape = pattern.indices, pattern.indptr, pattern.shape
        row = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
        self.diagonal = np.flatnonzero(row == pattern.indices)
        self.is_factorised = False
        self.halo = halo

    def matrix(self, data: Array) -> SparseMatrix:
        """Return the matrix with these numbers."""
        parts = (data, self.indices, self.indptr)
        return HaloMatrix(sparse.csr_array(parts, shape=self.shape), self.halo)


class Square:
    """A graph of own nodes and halo, without the edges of the halo: rows of own nodes are right."""

    def __init__(self, weights: sparse.csr_array, degrees: Array) -> None:
        self.n_nodes = weights.shape[1]
        self.adjacency = weights.copy()
        self.adjacency.resize((self.n_nodes, self.n_nodes))
        self.degrees = degrees


class ShardGraph:
    """A worker's part of a graph, as fields, operators and columns need it.

    ``weights`` of shape (n_own, n_own + n_halo) are those of the edges of own nodes.
    """

    def __init__(self, weights: sparse.csr_array, halo: Halo) -> None:
        self.weights = weights
        self.halo = halo
        self.n_nodes = weights.shape[0]
        self.degrees = np.asarray(weights.sum(axis=1), dtype=np.float64).ravel()
        self.all_degrees = halo.extend(self.degrees)
        self.n_edges = int(everywhere(np.array(weights.nnz))) // 2
        laplacian = normalized_laplacian(self.square)[: self.n_nodes]
        key: Any = self
        laplacians[key] = (laplacian, HaloStructure(laplacian, halo))

    @property
    def square(self) -> Any:
        """Own nodes and halo."""
        return Square(self.weights, self.all_degrees)

    def operator(self, smoother: Laplacian) -> Operator:
        """Return P on own nodes."""
        system = laplacian_system(self.square, smoother.lam, True)
        rows = system[: self.n_nodes]
        if smoother.method == "exact":
            return _Exact(Solver(HaloStructure(rows, self.halo), rows.data))
        operator = GradientSteps(system, smoother.n_steps, 1.0 / (1.0 + smoother.lam))
        operator._step = HaloMatrix(operator._step.matrix[: self.n_nodes], self.halo)
        return operator


class _Exact(Operator):
    def __init__(self, solver: Solver) -> None:
        self._solver = solver

    def apply(self, scores: Any) -> Any:
        return self._solver.solve(scores)
