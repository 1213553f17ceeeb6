"""One pass over a graph's edges, scale∘(A v) + keep∘v + source: the step that every propagation is made of.

The loops are compiled from `_sweep.c` when the package is built; where that was not possible scipy's do the same, a third
as fast. Weights that are all one are not read, and large graphs are swept by several threads, each a range of rows.
"""

import threading
from collections.abc import Sequence
from functools import cached_property, singledispatch
from typing import Any, NamedTuple
from weakref import WeakValueDictionary, ref

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebbflow.compiled import COMPILED, allowed_threads, by_threads
from ebbflow.smoothing._order import row_order

# Below this many products of numbers, waking a thread costs more than it does.
WORTH_A_THREAD = 1_000_000
# Values of neighbours that are held at a time where no loop is compiled: 32 MB.
NUMBERS_AT_ONCE = 1 << 22

_known: WeakValueDictionary[int, "Sweep"] = WeakValueDictionary()


@singledispatch
def sweep_on(adjacency: Any) -> Any:
    """Return what sweeps this adjacency: one of another kind, on another device, brings its own."""
    key, parts = id(adjacency.indices), (adjacency.indices, adjacency.data)
    known = _known.get(key)
    if known is None or any(own is not part for own, part in zip(known.parts, parts, strict=True)):
        known = _known[key] = Sweep(adjacency)
    return known


class _Rows(NamedTuple):
    """Rows as the loops read them."""

    start: NDArray[np.int32]
    column: NDArray[Any]
    weights: dict[np.dtype[Any], NDArray[Any]]  # in each float type; empty if they are all one

    def addresses(self, dtype: np.dtype[Any]) -> tuple[int, int, int | None]:
        """Where start, columns and weights lie."""
        if self.weights and dtype not in self.weights:
            self.weights[dtype] = self.weights[np.dtype(np.float64)].astype(dtype)
        weights = self.weights[dtype].ctypes.data if self.weights else None
        return self.start.ctypes.data, self.column.ctypes.data, weights


class Sweep:
    """The edges of one graph, ready to be swept.

    Parameters
    ----------
    adjacency : csr_array
        Symmetric or not; its rows are swept.
    """

    def __init__(self, adjacency: sparse.csr_array) -> None:
        self.n_nodes = adjacency.shape[0]
        self._adjacency, self.parts = adjacency, (adjacency.indices, adjacency.data)
        self._by_type = {np.dtype(np.float64): adjacency}
        self._compiled = COMPILED if adjacency.indices.dtype == np.int32 else None
        self._in_order: dict[int, tuple[NDArray[Any], Any]] = {}
        self._local = threading.local()

    def __reduce__(self) -> tuple[Any, ...]:
        return Sweep, (self._adjacency,)  # addresses mean nothing elsewhere

    @cached_property
    def _unit(self) -> bool:
        return bool((self._adjacency.data == 1.0).all())

    @cached_property
    def _order(self) -> NDArray[np.int32]:
        return row_order(self._adjacency)

    @cached_property
    def _bits(self) -> int:
        return 16 if self.n_nodes <= 1 << 16 else 32

    @cached_property
    def _narrow(self) -> _Rows:
        """Rows and columns under new numbers, four rows in turns: see `_sweep.c`."""
        old, order = self._adjacency, self._order
        place = np.empty_like(order)
        place[order] = np.arange(self.n_nodes, dtype=np.int32)
        start = np.concatenate([[0], np.diff(old.indptr)[order].cumsum()]).astype(np.int32)
        column = np.empty(old.nnz, dtype=np.uint16 if self._bits == 16 else np.int32)
        weights = {} if self._unit else {np.dtype(np.float64): np.empty(old.nnz)}
        data = None if self._unit else np.ascontiguousarray(old.data, dtype=np.float64)
        rows = _Rows(start, column, weights)
        given = [None if part is None else part.ctypes.data for part in (order, place, old.indptr, old.indices, data)]
        getattr(self._compiled, f"ebbflow_arranged_{self._bits}")(
            self.n_nodes, *given, *rows.addresses(np.dtype(np.float64))
        )
        return rows

    @cached_property
    def _wide(self) -> _Rows:
        """Rows as they are, not copied."""
        own = self._adjacency
        weights = {} if self._unit else {np.dtype(np.float64): np.ascontiguousarray(own.data, dtype=np.float64)}
        return _Rows(own.indptr, own.indices, weights)

    def __call__(
        self,
        v: NDArray[Any],
        scale: NDArray[Any] | None = None,
        keep: NDArray[Any] | None = None,
        source: NDArray[Any] | None = None,
        out: NDArray[Any] | None = None,
    ) -> NDArray[Any]:
        """Return scale∘(A v) + keep∘v + source, for v of shape (n,) or (n, c), float32 or float64.

        ``scale`` and ``keep`` have a number for each node; ``source`` has v's shape. ``out``, if given, is written to and
        returned; it must not be v.
        """
        # The loops take addresses: what they are given must be laid out as they read it, and as long.
        v = np.ascontiguousarray(v, dtype=np.float32 if v.dtype == np.float32 else np.float64)
        if len(v) != self.n_nodes:
            raise ValueError(f"Scores must have a row for each of the {self.n_nodes} nodes, got shape {v.shape}.")
        if out is None:
            out = np.empty_like(v)
        elif out.shape != v.shape or out.dtype != v.dtype or not out.flags.c_contiguous:
            raise ValueError(f"out must be a contiguous array of {v.dtype} and of shape {v.shape}.")
        if self._compiled is None:
            return self._by_scipy(v, scale, keep, source, out)
        terms = [None if part is None else np.ascontiguousarray(part, dtype=v.dtype) for part in (scale, keep, source)]
        if v.size != self.n_nodes:
            self._swept_wide(v, out, terms[0], terms[1], terms[2])
        else:
            defaults = (1.0, 0.0, 0.0)
            arranged = [
                np.full(self.n_nodes, default, dtype=v.dtype) if part is None else self._arranged(part)
                for part, default in zip(terms, defaults, strict=True)
            ]
            self._put_back(self._swept(self._arranged(v), np.empty(self.n_nodes, v.dtype), arranged, 1), out)
        return out

    def around(
        self,
        values: NDArray[Any],
        rows: NDArray[np.int64],
        sums: NDArray[np.float64] | None,
        out: Sequence[NDArray[np.float64] | None],
        nothing: float,
    ) -> None:
        """Write what the neighbours of some nodes look like: weighted mean, least and largest of every column.

        Parameters
        ----------
        values : ndarray of shape (n, d)
            float32 or float64.
        rows : ndarray of int64
            The nodes asked about.
        sums : ndarray of shape (n,), optional
            The weights of each node, added up, to divide by. None where values may be missing, NaN: these count for nothing.
        out : three of ndarray of shape (len(rows), d) or None
            Columns of a float64 table that mean, least and largest are written to; None: not asked for.
        nothing : float
            What is written where no neighbour is known.
        """
        values = np.ascontiguousarray(values, dtype=np.float32 if values.dtype == np.float32 else np.float64)
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        shape = (rows.size, values.shape[1])
        asked = [part for part in out if part is not None]
        if len(values) != self.n_nodes or (rows.size and not (rows.min() >= 0 and rows.max() < self.n_nodes)):
            raise ValueError(f"Values and rows must be those of {self.n_nodes} nodes, got values of {values.shape}.")
        if any(
            part.shape != shape or part.dtype != np.float64 or part.strides != (asked[0].strides[0], 8)
            for part in asked
        ):
            raise ValueError(f"out must be columns of one table of float64, each of shape {shape}.")
        if self._compiled is None or not asked or not rows.size:
            around_by_numpy(self._adjacency, values, rows, sums, out, nothing)
            return
        weights = self._wide.addresses(np.dtype(np.float64))
        given = [None if part is None else part.ctypes.data for part in (sums, values)]
        places = [None if part is None else part.ctypes.data for part in out]
        loop = getattr(self._compiled, f"ebbflow_around_{_name(values)}")
        arguments = (shape[1], rows.ctypes.data, *weights, *given, nothing, asked[0].strides[0] // 8, *places)
        share = rows.size / self.n_nodes
        count = min(allowed_threads(), 1 + int(share * self._adjacency.nnz * shape[1]) // WORTH_A_THREAD)
        ends = np.linspace(0, rows.size, count + 1).astype(int).tolist()
        by_threads(loop, ends, arguments)

    def steps(
        self,
        scores: NDArray[Any],
        root: NDArray[Any],
        scale: NDArray[Any],
        keep: NDArray[Any],
        alpha: float,
        count: int,
    ) -> NDArray[Any]:
        """Return v/root after ``count`` sweeps v ← scale∘(A v) + keep∘v + α v⁰ from v⁰ = root∘scores.

        The vectors have a number for each node, of the float type of the scores, and must not be changed between calls:
        they are put in order once.
        """
        vectors = (root, scale, keep)
        fits = all(
            vector.dtype == scores.dtype and vector.flags.c_contiguous and len(vector) == len(scores)
            for vector in vectors
        )
        if self._compiled is None or not fits or scores.dtype not in (np.float32, np.float64):
            return stepped(self, scores, root, scale, keep, alpha, count)
        if scores.size != self.n_nodes:
            return self._steps_wide(scores, root, scale, keep, alpha, count)
        scores, name = np.ascontiguousarray(scores), _name(scores)
        root, *terms = map(self._once, vectors)
        v, source, other = self._scratch(scores.dtype)
        out, order = np.empty_like(scores), self._order.ctypes.data
        given, written = scores.ctypes.data, (v.ctypes.data, source.ctypes.data)
        if self._n_threads(1) == 1:
            fixed = *self._narrow.addresses(v.dtype), *(vector.ctypes.data for vector in (root, *terms))
            all_steps = getattr(self._compiled, f"ebbflow_{name}_steps_{self._bits}")
            all_steps(self.n_nodes, order, *fixed, alpha, count, given, *written, other.ctypes.data, out.ctypes.data)
            return out
        ends = order, root.ctypes.data
        self._shared(getattr(self._compiled, f"ebbflow_{name}_begin"), 1, *ends, alpha, given, *written)
        v = self._swept(v, other, [*terms, source], count)
        self._shared(getattr(self._compiled, f"ebbflow_{name}_end"), 1, *ends, v.ctypes.data, out.ctypes.data)
        return out

    def _steps_wide(self, scores: Any, root: Any, scale: Any, keep: Any, alpha: float, count: int) -> NDArray[Any]:
        """The same for several columns, with room for one more copy of them and no other."""
        if scores.strides[1] != scores.itemsize or scores.strides[0] % scores.itemsize:
            scores = np.ascontiguousarray(scores)
        v = np.ascontiguousarray(root[:, None] * scores)
        other = np.empty_like(v)
        for _ in range(count):
            self._swept_wide(v, other, scale, keep, scores, root, alpha)
            v, other = other, v
        v /= root[:, None]
        return v

    def _swept_wide(
        self,
        v: NDArray[Any],
        out: NDArray[Any],
        scale: NDArray[Any] | None,
        keep: NDArray[Any] | None,
        source: NDArray[Any] | None,
        root: NDArray[Any] | None = None,
        alpha: float = 0.0,
    ) -> None:
        """One sweep of several columns; with ``root``, the source is α root∘source."""
        stride = v.shape[1] if source is None else source.strides[0] // source.itemsize
        *ends, after = [None if part is None else part.ctypes.data for part in (scale, keep, source, root)]
        rows = self._wide.addresses(v.dtype)
        sweep = getattr(self._compiled, f"ebbflow_wide_{_name(v)}")
        fixed = v.shape[1], self._order.ctypes.data, *rows, *ends, stride, after, alpha
        self._shared(sweep, v.shape[1], *fixed, v.ctypes.data, out.ctypes.data)

    def _scratch(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Three vectors to write to, the same ones in each thread: fresh memory costs as much as a sweep."""
        kept: NDArray[Any] | None = getattr(self._local, dtype.name, None)
        if kept is None:
            kept = np.empty((3, self.n_nodes), dtype=dtype)
            setattr(self._local, dtype.name, kept)
        return kept

    def _swept(self, now: NDArray[Any], then: NDArray[Any], terms: list[NDArray[Any]], count: int) -> NDArray[Any]:
        """``count`` sweeps of one column, everything in the order of the rows; both vectors are written to."""
        sweep = getattr(self._compiled, f"ebbflow_{_name(now)}_narrow_{self._bits}")
        fixed = *self._narrow.addresses(now.dtype), *(term.ctypes.data for term in terms)
        for _ in range(count):
            self._shared(sweep, 1, *fixed, now.ctypes.data, then.ctypes.data)
            now, then = then, now
        return now

    def _once(self, vector: NDArray[Any]) -> NDArray[Any]:
        """The vector in the order of the rows, put so once while it lasts."""
        key, kept = id(vector), self._in_order
        if key not in kept:
            kept[key] = (
                self._arranged(vector),
                ref(vector, lambda _: kept.pop(key, None)),
            )  # without a hold on the sweep
        return kept[key][0]

    def _arranged(self, vector: NDArray[Any]) -> NDArray[Any]:
        """Numbers of nodes in the order of the rows."""
        made = np.empty(self.n_nodes, dtype=vector.dtype)
        self._shared(getattr(self._compiled, f"ebbflow_{_name(vector)}_arrange"), 1, *self._moved(vector, made))
        return made

    def _put_back(self, vector: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
        """Numbers in the order of the rows, as those of nodes."""
        self._shared(getattr(self._compiled, f"ebbflow_{_name(vector)}_put_back"), 1, *self._moved(vector, out))
        return out

    def _moved(self, source: NDArray[Any], target: NDArray[Any]) -> tuple[int, int, int]:
        return self._order.ctypes.data, source.ctypes.data, target.ctypes.data

    def _shared(self, loop: Any, width: int, *arguments: Any) -> None:
        """Run a loop over all rows, by several threads where that is worth it."""
        count = self._n_threads(width)
        if count == 1:
            loop(0, self.n_nodes, *arguments)
            return
        by_threads(loop, self._shares(count), arguments)

    def _n_threads(self, width: int) -> int:
        return min(allowed_threads(), 1 + self._adjacency.nnz * width // WORTH_A_THREAD)

    def _shares(self, count: int) -> list[int]:
        """Ranges of rows with as many edges each, four by four."""
        if count not in self._ends:
            start = np.concatenate([[0], np.diff(self._adjacency.indptr)[self._order].cumsum()])
            ends = np.searchsorted(start, np.linspace(0, start[-1], count + 1)[1:-1]) // 4 * 4
            self._ends[count] = [0, *map(int, ends), self.n_nodes]
        return self._ends[count]

    @cached_property
    def _ends(self) -> dict[int, list[int]]:
        return {}

    def _like(self, v: NDArray[Any]) -> sparse.csr_array:
        """The adjacency in the float type of v, converted once."""
        if v.dtype not in self._by_type:
            self._by_type[v.dtype] = self._adjacency.astype(v.dtype)
        return self._by_type[v.dtype]

    def _by_scipy(self, v: Any, scale: Any, keep: Any, source: Any, out: NDArray[Any]) -> NDArray[Any]:
        def columnwise(vector: NDArray[Any]) -> NDArray[Any]:
            return vector if v.ndim == 1 else vector[:, None]

        out[...] = self._like(v) @ v
        if scale is not None:
            out *= columnwise(scale)
        if keep is not None:
            out += columnwise(keep) * v
        if source is not None:
            out += source
        return out

    def conjugate_gradients(
        self,
        right: NDArray[np.float64],
        diagonal: NDArray[np.float64],
        inverse: NDArray[np.float64],
        size: NDArray[np.float64],
        target: float,
        most: int,
    ) -> tuple[NDArray[np.float64], float] | None:
        """Solve (diag(diagonal) − A) z = right, one column, by the compiled loops; None where there are none.

        ``inverse`` is 1/diagonal. It, ``diagonal`` and ``size`` must not be changed between calls.
        Stops when the residual, entry i times ``size[i]``, is no longer than ``target``, or after ``most`` iterations;
        returns z and the length reached.
        """
        if self._compiled is None:
            return None
        work = np.empty((3, self.n_nodes))
        residual, reached = self._arranged(np.ascontiguousarray(right, dtype=np.float64)), np.zeros(1)
        vectors = [self._once(part) for part in (diagonal, inverse, size)]
        scratch = (work[0], residual, work[1], work[2], reached)
        getattr(self._compiled, f"ebbflow_solve_{self._bits}")(
            self.n_nodes, *self._narrow.addresses(residual.dtype), *(part.ctypes.data for part in vectors), target, most,
            *(part.ctypes.data for part in scratch),
        )  # fmt: skip
        return self._put_back(work[0], np.empty(self.n_nodes)), float(reached[0])


def around_by_numpy(
    adjacency: sparse.csr_array,
    values: NDArray[Any],
    rows: NDArray[np.int64],
    sums: NDArray[np.float64] | None,
    out: Sequence[NDArray[np.float64] | None],
    nothing: float,
) -> None:
    """Do what :meth:`Sweep.around` does, a few columns at a time: a value for every edge is held."""
    ties = adjacency[rows]
    start, n_edges = ties.indptr, ties.indices.size
    tied = np.flatnonzero(np.diff(start) > 0)
    edges = sparse.csr_array((ties.data, np.arange(n_edges), start), shape=(rows.size, n_edges))
    batch = max(NUMBERS_AT_ONCE // max(n_edges, 1), 1)
    for first in range(0, values.shape[1], batch):
        columns = slice(first, first + batch)
        found = values[ties.indices, columns].astype(np.float64)
        known = None if sums is not None else ~np.isnan(found)
        mean, *ends = (None if part is None else part[:, columns] for part in out)
        if mean is not None:
            total = edges @ (found if known is None else np.where(known, found, 0.0))
            mass = sums[rows, None] if sums is not None else edges @ known.astype(np.float64)  # type: ignore[union-attr]
            mean[...] = nothing
            np.divide(total, mass, out=mean, where=mass > 0)
        for part, pick, none in zip(ends, (np.minimum, np.maximum), (np.inf, -np.inf), strict=True):
            if part is not None:
                part[...] = nothing
                filled = found if known is None else np.where(known, found, none)
                picked = pick.reduceat(filled, start[tied], axis=0) if tied.size else filled[:0]
                part[tied] = np.where(np.isinf(picked), nothing, picked)


def stepped(sweep: Any, scores: Any, root: Any, scale: Any, keep: Any, alpha: float, count: int) -> Any:
    """Return what :meth:`Sweep.steps` does, by whatever sweeps: here, on a GPU or on a cluster."""
    root = root if scores.ndim == 1 else root[:, None]
    v = np.ascontiguousarray(root * scores, like=scores)
    source, other = alpha * v, np.empty_like(v)
    for _ in range(count):
        v, other = sweep(v, scale, keep, source, out=other), v
    v /= root
    return v


def _name(vector: NDArray[Any]) -> str:
    return "float" if vector.dtype == np.float32 else "double"
