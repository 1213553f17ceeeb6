"""A graph divided among workers: each has the rows of its own nodes, and a halo.

The halo of a worker are the nodes of others that its own are connected to. Before a sweep the
workers exchange the values of these nodes, and of no others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.backends.dask.collectives import Collective
from ebboost.data.once import lazy_property
from ebboost.data.sharded import shard
from ebboost.propagation import Sweep, System, Terms, add_terms, sweep_on

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class Halo:
    """Which values a worker sends to which others, and which it receives."""

    collective: Collective
    #: Own nodes whose values other workers need, by rank.
    sent: dict[int, Positions]
    #: Number of nodes of each other worker in the halo, which holds them rank after rank.
    received: dict[int, int]

    @classmethod
    def connect(cls, wanted: Sequence[Positions], collective: Collective) -> "Halo":
        """Return the halo of nodes ``wanted`` from each rank, counted among that rank's own."""
        requests = collective.alltoall(wanted)
        return cls(
            collective,
            {rank: nodes for rank, nodes in enumerate(requests) if nodes.size},
            {rank: nodes.size for rank, nodes in enumerate(wanted) if nodes.size},
        )

    @property
    def size(self) -> int:
        """Number of nodes of the halo."""
        return sum(self.received.values())

    def values(self, own: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the values of the nodes of the halo, rank after rank."""
        own = np.asarray(own)
        messages = {rank: own[nodes] for rank, nodes in self.sent.items()}
        self.collective.halo_sent += sum(array.nbytes for array in messages.values())
        return self.collective.exchange(messages, list(self.received))

    def extend(self, own: NDArray[Any]) -> NDArray[Any]:
        """Return values of own nodes followed by those of the halo."""
        return np.concatenate([np.asarray(own), *self.values(own)])


class ShardGraph:
    """A worker's part of a graph, with the interface that smoothers, fields and columns need.

    ``weights`` has the rows of own nodes; its columns are the own nodes, then those of the halo.
    Where all weights are 1, they are int8.
    """

    #: Graphs with directions, groups or times are not divided.
    outgoing: None = None
    groups: None = None
    time: None = None

    def __init__(self, weights: sparse.csr_array, halo: Halo) -> None:
        self._weights = weights
        self.halo = halo
        workers = halo.collective
        self.n_nodes = weights.shape[0]
        self.adjacency = ShardSweep(weights, halo)
        is_unit = weights.dtype == np.int8
        sums = np.diff(weights.indptr) if is_unit else np.asarray(abs(weights).sum(axis=1)).ravel()
        self.degrees = shard(sums.astype(np.float64), workers)
        facts = workers.allreduce(np.array([weights.nnz, (weights.data < 0).sum()], np.float64))
        self.n_edges = int(facts[0]) // 2
        self.is_signed = bool(facts[1])

    def stored(self) -> "StoredGraph":
        """Return the graph without the connections of this fit."""
        return StoredGraph(self._weights, self.halo.sent, self.halo.received)

    @property
    def parent(self) -> "ShardGraph":
        """The graph itself: it is not a subgraph."""
        return self

    @lazy_property
    def unsigned(self) -> "ShardGraph":
        """The same graph with all weights positive."""
        return ShardGraph(abs(self._weights), self.halo) if self.is_signed else self


@dataclass(frozen=True)
class StoredGraph:
    """A worker's part of a graph, between two jobs of the workers."""

    weights: sparse.csr_array
    sent: dict[int, Positions]
    received: dict[int, int]

    def connect(self, collective: Collective) -> ShardGraph:
        """Return the graph with the connections of a job."""
        return ShardGraph(self.weights, Halo(collective, self.sent, self.received))


class ShardSweep(Sweep):
    """The rows of an adjacency that this worker holds, and the sweep over them."""

    def __init__(self, weights: sparse.csr_array, halo: Halo) -> None:
        super().__init__(weights.shape[0])
        self.halo = halo
        self.weights = weights
        self.shape = (weights.shape[0], weights.shape[0])

    @lazy_property
    def _local(self) -> Any:
        """The sweep after the halo has been exchanged."""
        # Square, with empty rows for the halo: the loops read a vector of one length.
        weights = self.weights
        size = weights.shape[1]
        end = np.full(size - weights.shape[0], weights.nnz, dtype=weights.indptr.dtype)
        parts = (weights.data, weights.indices, np.append(weights.indptr, end))
        return sweep_on(sparse.csr_array(parts, shape=(size, size)))

    def __matmul__(self, v: NDArray[Any]) -> NDArray[Any]:
        return self(v)

    def __abs__(self) -> "ShardSweep":
        return ShardSweep(abs(self.weights), self.halo)

    def __getitem__(self, rows: Positions) -> sparse.csr_array:
        return self.weights[rows]

    def tocsr(self) -> sparse.csr_array:
        """Return the rows of own nodes; columns are own nodes, then those of the halo."""
        return self.weights

    def __call__(self, v: NDArray[Any], *terms: Any, **named: Any) -> NDArray[Any]:
        """Return scale∘(A v) + keep∘v + source on own nodes, sharded."""
        return super().__call__(shard(v, self.halo.collective), *terms, **named)

    def _write(self, v: NDArray[Any], out: NDArray[Any], terms: Terms) -> None:
        out[...] = self._local(self.halo.extend(v))[: self.n_nodes]
        add_terms(out, v, terms)

    def conjugate_gradients(
        self, right: NDArray[np.float64], system: System, target: float, max_iter: int
    ) -> tuple[NDArray[np.float64], float]:
        """Solve (diag(diagonal) − A) z = right, one column; stops as those of :class:`Sweep` do.

        By the recurrences of Chronopoulos and Gear (1989), in which all sums of an iteration are
        taken at once.
        """
        workers = self.halo.collective
        residual, diagonal, inverse, size = (np.array(vector) for vector in (right, *system))
        z, direction, image = np.zeros((3, residual.size))
        previous = np.inf
        step = 1.0
        for iteration in range(max_iter + 1):
            scaled = inverse * residual
            scaled_image = diagonal * scaled - np.asarray(self(scaled))
            sized = size * residual
            pairs = ((residual, scaled), (scaled, scaled_image), (sized, sized))
            sums = workers.allreduce(np.array([(one * other).sum() for one, other in pairs]))
            product, curvature = sums[:2].tolist()
            length = float(np.sqrt(sums[2]))
            if not length > target or iteration == max_iter:
                break
            beta = product / previous
            step = product / (curvature - beta * product / step)
            direction = scaled + beta * direction
            image = scaled_image + beta * image
            z += step * direction
            residual -= step * image
            previous = product
        return shard(z, workers), length

    def with_halo(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values of own nodes followed by those of the halo."""
        return self.halo.extend(values)

    def neighbor_statistics(self, *arguments: Any) -> None:
        """Write statistics over neighbours, of values with those of the halo."""
        self._local.neighbor_statistics(*arguments)
