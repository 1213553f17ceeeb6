"""Sweeps by the loops of `kernels.c`, over several threads where a graph is large."""

import copy
import os
import threading
from collections.abc import Sequence
from functools import singledispatch
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost._native import COMPILED, allowed_threads, by_threads
from ebboost.data.once import lazy_property
from ebboost.data.types import AnyArray, Array, IntArray
from ebboost.propagation._ordering import EIGHT, WINDOW, Order, addresses, padded_length, row_order
from ebboost.propagation._sweep import (
    Arranged,
    ScipySweep,
    Steps,
    Sweep,
    System,
    Tables,
    Terms,
    Vector,
)

#: Products of numbers below which starting a thread costs more than it saves.
WORTH_A_THREAD = 1_000_000
#: From this number of columns on, several are swept at once: all of a row of eight are added in
#: one instruction. Fewer are faster one by one, in an order of nodes that suits the caches.
WIDE = 8
#: Vectors up to this length are indexed in 16 bits.
SHORT_LENGTH = 1 << 16


Address = int | None
DOUBLE = np.dtype(np.float64)
SINGLE = np.dtype(np.float32)


class Rows:
    """Vectors of one length and where each of them lies."""

    def __init__(self, vectors: Vector) -> None:
        self.vectors = vectors
        first = vectors.ctypes.data
        self.addresses = [first + row * vectors.strides[0] for row in range(len(vectors))]


class Layout:
    """The rows of an adjacency as the loops read them for one column of scores.

    Eight rows of about one length are read in turns, see `kernels.c`. A vector in this layout has
    the order of ``order.nodes``, at least one zero behind the last node, and, where ``sums_at`` is
    not 0, the sums of its pairs and fours from there on. A layout does not change and is shared by
    threads. Where the adjacency ``is_unit``, all weights are one and are not read.
    """

    def __init__(self, adjacency: sparse.csr_array, order: Order, is_unit: bool) -> None:
        self.n_nodes = adjacency.shape[0]
        self.n_entries = int(adjacency.nnz)
        self.order = order
        n_rows = padded_length(self.n_nodes)
        self.sums_at = 0 if order.rows is None else n_rows
        self.size = n_rows + self.sums_at // 2 + self.sums_at // 4
        self.bits = 16 if self.size <= SHORT_LENGTH else 32
        lengths = np.zeros(n_rows, dtype=np.int32)
        lengths[: self.n_nodes] = order.lengths
        eights = lengths.reshape(-1, EIGHT)
        turns = np.minimum(eights.max(axis=1), 2 * eights.min(axis=1) + EIGHT)
        self._start = np.concatenate([[0], (EIGHT * turns.astype(np.int64)).cumsum()])
        rest = (eights - turns[:, None]).ravel()
        self._rest_row = np.flatnonzero(rest > 0).astype(np.int32)
        rest_ends = rest[self._rest_row].astype(np.int64).cumsum()
        self._rest_start = self._start[-1] + np.concatenate([[0], rest_ends])
        size = int(self._rest_start[-1])
        self._column = np.full(size, self.n_nodes, np.uint16 if self.bits == 16 else np.int32)
        self._weights: Vector | None = None if is_unit else np.zeros(size)
        self._row: NDArray[np.int32] | None = None
        if order.rows is not None:
            self._row = np.arange(n_rows, dtype=np.int32)
            self._row[: self.n_nodes] = order.rows
        self.edges = self._edges()
        data = None if is_unit else np.ascontiguousarray(adjacency.data, dtype=np.float64)
        csr = addresses(order.nodes, order.position, adjacency.indptr, adjacency.indices, data)
        inside = np.zeros(n_rows // 4, dtype=np.uint8)
        entries = np.empty(1 + int(np.diff(adjacency.indptr).max(initial=0)), dtype=np.int32)
        arrange = getattr(COMPILED, f"ebboost_arranged_{self.bits}")
        arrange(self.n_nodes, *csr, *addresses(inside, entries), *self.edges)
        self.order_at = order.nodes.ctypes.data

    def _edges(self) -> tuple[Address, ...]:
        """EDGES of the loops: addresses of arrays that are held as long as the layout."""
        rest = (self._rest_row.size, *addresses(self._rest_row, self._rest_start))
        edges = addresses(self._start, self._column, self._weights)
        return (*edges, *rest, self.sums_at, *addresses(self._row))

    def astype(self, dtype: np.dtype[Any]) -> "Layout":
        """Return the layout with weights in a float type."""
        if self._weights is None or self._weights.dtype == dtype:
            return self
        other = copy.copy(self)
        other._weights = self._weights.astype(dtype)
        other.edges = other._edges()
        return other

    def work(self, count: int, dtype: np.dtype[Any]) -> Vector:
        """Return ``count`` vectors to write to."""
        vectors = np.empty((count, self.size), dtype=dtype)
        vectors[:, self.n_nodes : padded_length(self.n_nodes)] = 0.0
        return vectors

    def arrange(self, *vectors: Vector) -> Vector:
        """Return numbers of nodes in this layout, a row for each vector."""
        out = self.work(len(vectors), SINGLE if vectors[0].dtype == SINGLE else DOUBLE)
        for vector, row in zip(vectors, out, strict=True):
            self.arrange_into(np.ascontiguousarray(vector, dtype=out.dtype), row)
        return out

    def arrange_into(self, vector: Vector, out: Vector) -> None:
        """Write numbers of nodes to a vector in this layout."""
        arguments = (self.sums_at, self.order_at, *addresses(vector, out))
        self.run(f"{_real(out.dtype)}_arrange", *arguments)

    def restore(self, vector: Vector, out: Vector) -> None:
        """Write a vector in this layout as numbers of nodes."""
        self.run(f"{_real(out.dtype)}_put_back", self.order_at, *addresses(vector, out))

    @property
    def n_threads(self) -> int:
        """How many threads a sweep pays for; rows with sums are divided at windows."""
        count = n_threads(self.n_entries)
        return min(count, 1 + (self.n_nodes - 1) // WINDOW) if self.sums_at else count

    def run(self, name: str, *arguments: object) -> None:
        """Run a loop over all rows, by several threads where that pays."""
        loop = getattr(COMPILED, f"ebboost_{name}")
        by_threads(loop, self.order.ranges.split(self.n_threads), arguments)


class CompiledSweep(ScipySweep):
    """The edges of one graph, swept by the compiled loops.

    One column of scores is swept in a :class:`Layout`, made when it is first needed; several are
    swept over the adjacency as it is, whose indices have 32 bits. By default :func:`row_order`
    decides on the order.
    """

    solves_columns = True

    def __init__(self, adjacency: sparse.csr_array, order: Order | None = None) -> None:
        super().__init__(adjacency)
        self._is_unit = bool((adjacency.data == 1.0).all())
        self._order = order
        self._system: tuple[System, Vector] | None = None
        self._constants: dict[tuple[float, np.dtype[Any]], Vector] = {}

    @lazy_property
    def order(self) -> Order:
        """The order in which rows are summed."""
        return self._order or row_order(self.adjacency, can_share=self._is_unit)

    @lazy_property
    def _layout(self) -> Layout:
        return Layout(self.adjacency, self.order, self._is_unit)

    @lazy_property
    def _single_layout(self) -> Layout:
        return self._layout.astype(SINGLE)

    def layout(self, dtype: np.dtype[Any]) -> Layout:
        """Return the layout for one column of a float type."""
        return self._single_layout if dtype == SINGLE else self._layout

    def arranged(self, dtype: np.dtype[Any]) -> "CompiledArranged":
        """Return the order in which vectors of a float type are swept."""
        return CompiledArranged(self, dtype)

    def _write(self, v: Vector, out: Vector, terms: Terms) -> None:
        terms = [None if term is None else np.ascontiguousarray(term, v.dtype) for term in terms]
        if v.size != self.n_nodes:
            self.sweep_columns(v, out, terms)
            return
        layout = self.layout(v.dtype)
        arranged = [
            self._constant(layout, default, v.dtype) if term is None else layout.arrange(term)
            for term, default in zip(terms, (1.0, 0.0, 0.0), strict=True)
        ]
        now = layout.arrange(v)
        then = np.empty(layout.size, v.dtype)
        sweep = f"{_real(v.dtype)}_narrow_{layout.bits}"
        layout.run(sweep, *layout.edges, *addresses(*arranged, now, then))
        layout.restore(then, out)

    def _constant(self, layout: Layout, number: float, dtype: np.dtype[Any]) -> Vector:
        """A vector of one number in the layout, made once."""
        key = (number, dtype)
        if key not in self._constants:
            self._constants[key] = np.full(layout.size, number, dtype)
        return self._constants[key]

    def release(self) -> None:
        """Free vectors that only speed up further sweeps."""
        self._constants.clear()

    def sweep_columns(
        self, v: Vector, out: Vector, terms: Terms, root: Vector | None = None, alpha: float = 0.0
    ) -> None:
        """Sweep several columns; with ``root``, the source is α root∘source."""
        width = v.shape[1]
        source = terms[2]
        stride = width if source is None else source.strides[0] // source.itemsize
        order = self.order
        vectors = (*addresses(*terms), stride, *addresses(root), alpha)
        rows = (*addresses(order.wide_nodes), *self._csr(v.dtype))
        loop = getattr(COMPILED, f"ebboost_wide_{_real(v.dtype)}")
        ends = order.wide_ranges.split(n_threads(self.adjacency.nnz * width))
        by_threads(loop, ends, (width, *rows, *vectors, *addresses(v, out)))

    def _csr(self, dtype: np.dtype[Any]) -> list[Address]:
        adjacency = self.adjacency if self._is_unit else self.adjacency_in(dtype)
        weights = None if self._is_unit else adjacency.data
        return addresses(adjacency.indptr, adjacency.indices, weights)

    def steps(
        self, root: AnyArray, scale: AnyArray, keep: AnyArray, alpha: float, count: int
    ) -> "CompiledSteps":
        """Return the map of scores that :class:`Steps` describes."""
        return CompiledSteps(self, (root, scale, keep), alpha, count)

    def conjugate_gradients(
        self, right: Array, system: System, target: float, max_iter: int
    ) -> tuple[Array, float]:
        """Solve (diag(diagonal) − A) z = right, one column."""
        layout = self.layout(DOUBLE)
        (residual,) = layout.arrange(right)
        last = self._system  # in the layout: many right-hand sides have the same system
        if last is None or last[0] is not system:
            last = self._system = (system, layout.arrange(*system))
        z, direction, image = layout.work(3, DOUBLE)
        length = np.zeros(1)
        solve = getattr(COMPILED, f"ebboost_solve_{layout.bits}")
        work = addresses(z, residual, direction, image, length)
        solve(self.n_nodes, *layout.edges, *addresses(*last[1]), target, max_iter, *work)
        solution = np.empty(self.n_nodes)
        layout.restore(z, solution)
        return solution, float(length[0])

    def neighbor_statistics(
        self, values: Vector, rows: IntArray, sums: Array | None, out: Tables, missing: float
    ) -> None:
        """Write the statistics of :class:`ScipySweep` in one pass over the edges of the rows."""
        width = values.shape[1]
        stride = next(table.strides[0] for table in out if table is not None) // 8
        nodes = (width, *addresses(rows), *self._csr(DOUBLE), *addresses(sums, values))
        share = rows.size / self.n_nodes
        count = n_threads(int(share * self.adjacency.nnz * width))
        ends = np.linspace(0, rows.size, count + 1).astype(int).tolist()
        loop = getattr(COMPILED, f"ebboost_around_{_real(values.dtype)}")
        by_threads(loop, ends, (*nodes, missing, stride, *addresses(*out)))


class CompiledArranged(Arranged):
    """Vectors in a :class:`Layout`."""

    def __init__(self, sweep: CompiledSweep, dtype: np.dtype[Any]) -> None:
        super().__init__(sweep)
        self._layout = sweep.layout(dtype)
        self._real = _real(dtype)

    def positions(self, nodes: IntArray) -> IntArray:
        """Return where vectors have the numbers of some nodes."""
        return self._layout.order.position[nodes].astype(np.int64)

    def work(self, count: int, dtype: np.dtype[Any]) -> Vector:
        """Return ``count`` vectors to write to."""
        return np.zeros((count, self._layout.size), dtype)

    def arrange(self, vector: Vector, out: Vector) -> None:
        """Write numbers of nodes to a vector."""
        self._layout.arrange_into(vector, out)

    def restore(self, vector: Vector) -> Vector:
        """Return numbers of nodes."""
        out = np.empty(self._layout.n_nodes, vector.dtype)
        self._layout.restore(vector, out)
        return out

    def renew(self, vector: Vector) -> None:
        """Have a vector swept as it is: where it is followed by sums, add these up."""
        if self._layout.sums_at:
            self._layout.run(f"{self._real}_renew", self._layout.sums_at, *addresses(vector))

    def sweep(self, v: Vector, out: Vector, scale: Vector, keep: Vector, source: Vector) -> None:
        """Write scale∘(A v) + keep∘v + source to ``out``."""
        name = f"{self._real}_narrow_{self._layout.bits}"
        self._layout.run(name, *self._layout.edges, *addresses(scale, keep, source, v, out))

    def sums(self, residual: Array, scaled: Array, image: Array, size: Array) -> Array:
        """Return the sums of an iteration of conjugate gradients: r·s, s·image and |size∘r|²."""
        sums = np.empty(3)
        vectors = addresses(residual, scaled, image, size, sums)
        COMPILED.ebboost_solve_sums(self._layout.n_nodes, *vectors)
        return sums

    def advance(
        self, beta: float, step: float, inverse: Array, newest: Array, *state: Array
    ) -> None:
        """Take a step of conjugate gradients: ``state`` is s, direction, image, z and residual."""
        vectors = addresses(inverse, newest, *state)
        COMPILED.ebboost_solve_advance(self._layout.n_nodes, beta, step, *vectors)


class CompiledSteps(Steps):
    """Steps whose vectors stay in the layout of one column from the first sweep to the last."""

    sweep: CompiledSweep

    def __init__(
        self, sweep: CompiledSweep, vectors: Sequence[AnyArray], alpha: float, count: int
    ) -> None:
        super().__init__(sweep, vectors, alpha, count)
        self._arranged: dict[np.dtype[Any], Rows] = {}
        # Vectors to write to that no thread is using: fresh memory costs as much as a sweep.
        self._free: dict[np.dtype[Any], list[Rows]] = {SINGLE: [], DOUBLE: []}

    def __call__(self, scores: AnyArray) -> AnyArray:
        """Return the scores after the steps."""
        self.sweep.check_rows(scores)
        dtype = SINGLE if scores.dtype == np.float32 else DOUBLE
        if scores.size != self.sweep.n_nodes:
            if scores.shape[1] >= WIDE:
                return self._columns(scores.astype(dtype, copy=False))
            return np.stack([self(column) for column in scores.T], axis=1).astype(dtype, copy=False)
        scores = np.ascontiguousarray(scores, dtype=dtype)
        layout = self.sweep.layout(dtype)
        arranged = self._arranged.get(dtype)
        if arranged is None:
            arranged = self._arranged[dtype] = Rows(layout.arrange(*self.vectors(dtype)))
        free = self._free[dtype]
        try:
            work = free.pop()
        except IndexError:
            work = Rows(layout.work(3, dtype))
        out = np.empty_like(scores)
        self._run(layout, arranged, work, *addresses(scores, out))
        free.append(work)
        return out

    def _run(
        self, layout: Layout, arranged: Rows, work: Rows, scores: Address, out: Address
    ) -> None:
        root, scale, keep = arranged.addresses
        v, source, other = work.addresses
        real = _real(arranged.vectors.dtype)
        if layout.n_threads == 1:
            steps = getattr(COMPILED, f"ebboost_{real}_steps_{layout.bits}")
            head = (layout.n_nodes, layout.order_at, *layout.edges)
            steps(*head, root, scale, keep, self.alpha, self.count, scores, v, source, other, out)
            return
        begin = (root, self.alpha, scores, v, source)
        layout.run(f"{real}_begin", layout.sums_at, layout.order_at, *begin)
        for _ in range(self.count):
            terms = (scale, keep, source, v, other)
            layout.run(f"{real}_narrow_{layout.bits}", *layout.edges, *terms)
            v, other = other, v
        layout.run(f"{real}_end", layout.order_at, root, v, out)

    def _columns(self, scores: Vector) -> Vector:
        """Several columns, without a copy of the source."""
        if scores.strides[1] != scores.itemsize or scores.strides[0] % scores.itemsize:
            scores = np.ascontiguousarray(scores)
        root, scale, keep = self.vectors(scores.dtype)
        v = np.ascontiguousarray(root[:, None] * scores)
        other = np.empty_like(v)
        for _ in range(self.count):
            self.sweep.sweep_columns(v, other, (scale, keep, scores), root, self.alpha)
            v, other = other, v
        v /= root[:, None]
        return v


def n_threads(n_products: int) -> int:
    """Return how many threads that many products of numbers pay for."""
    return min(allowed_threads(), 1 + n_products // WORTH_A_THREAD)


def _real(dtype: np.dtype[Any]) -> str:
    return "float" if dtype == np.float32 else "double"


_sweeps: WeakValueDictionary[tuple[int, int], ScipySweep] = WeakValueDictionary()
_lock = threading.Lock()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held the old one


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@singledispatch
def sweep_on(adjacency: sparse.csr_array) -> Any:
    """Return the sweep of an adjacency, shared by all operators on it.

    An adjacency on a GPU or a cluster is a sweep itself.
    """
    compiled = COMPILED is not None and adjacency.indices.dtype == np.int32
    key = (id(adjacency.indices), id(adjacency.data))  # both live as long as their sweep does
    with _lock:
        sweep = _sweeps.get(key)
        if sweep is None:
            sweep = _sweeps[key] = (CompiledSweep if compiled else ScipySweep)(adjacency)
    return sweep


@sweep_on.register
def _(adjacency: Sweep) -> Sweep:
    return adjacency
