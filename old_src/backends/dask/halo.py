"""A graph divided among workers: each has the rows of its own nodes, and a halo.

The halo of a worker are the nodes of others that its own are connected to. Before a sweep the
workers exchange the values of these nodes, and of no others.
"""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.backends.dask.collectives import Collective
from ebboost.data.once import lazy_property
from ebboost.data.sharded import shard
from ebboost.propagation import Arranged, Steps, Sweep, System, Terms, add_terms, sweep_on

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
        return self.exchange(np.asarray(own), self.sent)

    def exchange(self, vector: NDArray[Any], sent: dict[int, Positions]) -> list[NDArray[Any]]:
        """Return the values of the halo, of a vector with those to send at some positions."""
        messages = {rank: vector[positions] for rank, positions in sent.items()}
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
        #: See :meth:`Graph.with_vectors`.
        self.vectors: NDArray[np.float32] | None = None
        workers = halo.collective
        self.n_nodes = weights.shape[0]
        self.adjacency = ShardSweep(weights, halo)
        is_unit = weights.dtype == np.int8
        sums = np.diff(weights.indptr) if is_unit else np.asarray(abs(weights).sum(axis=1)).ravel()
        self.degrees = shard(sums.astype(np.float64), workers)
        facts = workers.allreduce(np.array([weights.nnz, (weights.data < 0).sum()], np.float64))
        self.n_edges = int(facts[0]) // 2
        self.is_signed = bool(facts[1])

    def with_vectors(self, vectors: NDArray[np.float32] | None) -> "ShardGraph":
        """Return the graph with vectors of its nodes, which spectral columns are computed from."""
        graph = copy(self)
        graph.vectors = shard(vectors, self.halo.collective)
        return graph

    def stored(self) -> "StoredGraph":
        """Return the graph without the connections of this fit."""
        vectors = None if self.vectors is None else np.asarray(self.vectors)
        return StoredGraph(self._weights, self.halo.sent, self.halo.received, vectors)

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
    vectors: NDArray[np.float32] | None

    def connect(self, collective: Collective) -> ShardGraph:
        """Return the graph with the connections of a job."""
        graph = ShardGraph(self.weights, Halo(collective, self.sent, self.received))
        return graph.with_vectors(self.vectors)


class ShardSweep(Sweep):
    """The rows of an adjacency that this worker holds, and the sweep over them."""

    def __init__(self, weights: sparse.csr_array, halo: Halo) -> None:
        super().__init__(weights.shape[0])
        self.halo = halo
        self.weights = weights
        self.shape = (weights.shape[0], weights.shape[0])
        self._vectors: dict[np.dtype[Any], HaloVectors] = {}
        self._system: tuple[System, NDArray[Any]] | None = None

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
        self._local.release()  # steps and solves have vectors of their own
        add_terms(out, v, terms)

    def steps(
        self, root: NDArray[Any], scale: NDArray[Any], keep: NDArray[Any], alpha: float, count: int
    ) -> "ShardSteps":
        """Return the map of scores that :class:`Steps` describes."""
        return ShardSteps(self, (root, scale, keep), alpha, count)

    def vectors(self, dtype: np.dtype[Any]) -> "HaloVectors":
        """Return the order of vectors in which sweeps one after the other are fastest."""
        if dtype not in self._vectors:
            order = self._local.arranged(dtype)
            self._vectors[dtype] = HaloVectors(order, dtype, self.halo, self.n_nodes)
        return self._vectors[dtype]

    def conjugate_gradients(
        self, right: NDArray[np.float64], system: System, target: float, max_iter: int
    ) -> tuple[NDArray[np.float64], float]:
        """Solve (diag(diagonal) − A) z = right, one column; stops as those of :class:`Sweep` do.

        By the recurrences of Chronopoulos and Gear (1989), in which all sums of an iteration are
        taken at once.
        """
        workers = self.halo.collective
        vectors = self.vectors(np.dtype(np.float64))
        if self._system is None or self._system[0] is not system:
            # Many right-hand sides have one system.
            rows = vectors.new(3) if self._system is None else self._system[1]
            vectors.arrange(rows, *system)
            self._system = (system, rows)
        diagonal, inverse, size = self._system[1]
        # The last is not 0 behind the nodes, and so of no other use.
        newest, scaled, direction, image, z, residual, zero, minus = vectors.work(8)
        # At nodes of the halo all of these are 0, but for what is received before a sweep.
        vectors.arrange((residual,), right)
        np.multiply(inverse, residual, out=scaled)
        minus[:] = -1.0
        for vector in (zero, direction, image, z):
            vector[:] = 0.0
        loops = vectors.arranged
        previous = np.inf
        step = 1.0
        for iteration in range(max_iter + 1):
            vectors.receive(scaled)
            loops.sweep(scaled, newest, minus, diagonal, zero)
            newest[vectors.received] = 0.0
            sums = workers.allreduce(loops.sums(residual, scaled, newest, size))
            product, curvature = sums[:2].tolist()
            length = float(np.sqrt(sums[2]))
            if not length > target or iteration == max_iter:
                break
            beta = product / previous
            step = product / (curvature - beta * product / step)
            loops.advance(beta, step, inverse, newest, scaled, direction, image, z, residual)
            previous = product
        return shard(vectors.restore(z), workers), length

    def with_halo(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values of own nodes followed by those of the halo."""
        return self.halo.extend(values)

    def neighbor_statistics(self, *arguments: Any) -> None:
        """Write statistics over neighbours, of values with those of the halo."""
        self._local.neighbor_statistics(*arguments)


class HaloVectors:
    """Vectors with numbers of own nodes and of the halo, in the order in which they are swept."""

    def __init__(self, arranged: Arranged, dtype: np.dtype[Any], halo: Halo, n_own: int) -> None:
        self.arranged = arranged
        self._halo = halo
        self._n_own = n_own
        self._dtype = dtype
        self._sent = {rank: arranged.positions(nodes) for rank, nodes in halo.sent.items()}
        #: Where the numbers of the halo are.
        self.received = arranged.positions(np.arange(n_own, n_own + halo.size))
        # Used again and again: fresh memory costs as much as a sweep.
        self._work = self.new(0)
        self._padded = np.zeros(n_own + halo.size, dtype)

    def work(self, count: int) -> NDArray[Any]:
        """Return vectors to write to, the same each time."""
        if len(self._work) < count:
            self._work = self.new(count)
        return self._work[:count]

    def new(self, count: int) -> NDArray[Any]:
        """Return vectors of zeros."""
        return self.arranged.work(count, self._dtype)

    def arrange(self, rows: Iterable[NDArray[Any]], *own: NDArray[Any]) -> None:
        """Write numbers of own nodes to vectors, with zeros for the halo."""
        for vector, row in zip(own, rows, strict=True):
            self._padded[: self._n_own] = vector
            self.arranged.arrange(self._padded, row)

    def receive(self, vector: NDArray[Any]) -> None:
        """Write the numbers of the halo into a vector."""
        parts = self._halo.exchange(vector, self._sent)
        if parts:
            vector[self.received] = np.concatenate(parts)
        self.arranged.renew(vector)

    def restore(self, vector: NDArray[Any]) -> NDArray[Any]:
        """Return numbers of own nodes."""
        return self.arranged.restore(vector)[: self._n_own]


class ShardSteps(Steps):
    """Steps whose vectors stay in the order of the sweeps from the first to the last."""

    sweep: ShardSweep

    def __init__(self, sweep: ShardSweep, vectors: Sequence[Any], alpha: float, count: int) -> None:
        super().__init__(sweep, vectors, alpha, count)
        self._terms: NDArray[Any] | None = None

    def __call__(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the scores after the steps."""
        self.sweep.check_rows(scores)
        if scores.size != self.sweep.n_nodes:
            return super().__call__(scores)
        root, *terms = (np.asarray(vector) for vector in self.vectors(scores.dtype))
        vectors = self.sweep.vectors(root.dtype)
        v, source, other, scale, keep = vectors.work(5)
        if root.dtype == np.float32:  # that of training
            if self._terms is None:
                self._terms = vectors.new(2)
                vectors.arrange(self._terms, *terms)
            scale, keep = self._terms
        else:
            vectors.arrange((scale, keep), *terms)
        start = root * np.asarray(scores).reshape(-1)
        vectors.arrange((v,), start)
        start *= self.alpha
        vectors.arrange((source,), start)
        for _ in range(self.count):
            vectors.receive(v)
            vectors.arranged.sweep(v, other, scale, keep, source)
            v, other = other, v
        end = vectors.restore(v)
        end /= root
        return shard(end.reshape(scores.shape), self.sweep.halo.collective)
