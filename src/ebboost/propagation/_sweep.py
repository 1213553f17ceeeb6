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

from ebboost._native import COMPILED, allowed_threads, by_threads
from ebboost.propagation._ordering import EIGHT, WINDOW, Order, by_length, row_order, sums_from

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

    start: NDArray[Any]
    column: NDArray[Any]
    weights: NDArray[np.float64] | None  # None if they are all one
    rest_row: NDArray[np.int32] | None = None
    rest_start: NDArray[np.int64] | None = None
    place: NDArray[np.int32] | None = None  # of the row that is summed i-th; None: i


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
        self._in_order: dict[int, tuple[int, NDArray[Any], Any]] = {}
        self._known_places: dict[Any, tuple[Any, Any]] = {}
        self._ends: dict[tuple[int, bool], list[int]] = {}
        self._known_order: Order | None = None
        self._local = threading.local()
        # What the loops read is made by one thread: made twice, the first would go while its address is in use.
        self._making = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Sweep, (self._adjacency,)  # addresses mean nothing elsewhere

    @cached_property
    def _unit(self) -> bool:
        return bool((self._adjacency.data == 1.0).all())

    @property
    def _order(self) -> Order:
        if self._known_order is None:
            with self._making:
                if self._known_order is None:
                    can_share = self._unit and self._compiled is not None
                    self._known_order = row_order(self._adjacency, can_share=can_share)
        return self._known_order

    @cached_property
    def _sums(self) -> int:
        """Where the sums of pairs begin behind a vector in the order of the rows; 0: it has none."""
        return 0 if self._order.rows is None else sums_from(self.n_nodes)

    @cached_property
    def _size(self) -> int:
        """Length of vectors in the order of the rows: these in eights, at least one zero behind the last, and sums."""
        return sums_from(self.n_nodes) + self._sums // 2 + self._sums // 4

    @cached_property
    def _bits(self) -> int:
        return 16 if self._size <= 1 << 16 else 32

    @cached_property
    def _narrow(self) -> _Rows:
        """Rows and columns under new numbers, eight rows in turns: see `_sweep.c`."""
        old, order, n_rows = self._adjacency, self._order, sums_from(self.n_nodes)
        lengths = np.zeros(n_rows, dtype=np.int32)
        lengths[: self.n_nodes] = order.lengths
        eights = lengths.reshape(-1, EIGHT)
        turns = np.minimum(eights.max(axis=1), 2 * eights.min(axis=1) + EIGHT)
        start = np.concatenate([[0], (EIGHT * turns.astype(np.int64)).cumsum()])
        rest = (eights - turns[:, None]).ravel()
        rest_row = np.flatnonzero(rest > 0).astype(np.int32)
        rest_start = start[-1] + np.concatenate([[0], rest[rest_row].astype(np.int64).cumsum()])
        n_places = int(rest_start[-1])
        column = np.full(n_places, self.n_nodes, dtype=np.uint16 if self._bits == 16 else np.int32)
        weights, data, place = None, None, None
        if not self._unit:
            weights, data = np.zeros(n_places), np.ascontiguousarray(old.data, dtype=np.float64)
        if order.rows is not None:
            place = np.arange(n_rows, dtype=np.int32)
            place[: self.n_nodes] = order.rows
        rows = _Rows(start, column, weights, rest_row, rest_start, place)
        inside = np.zeros(n_rows // 4, dtype=np.uint8)
        found = np.empty(1 + int(np.diff(old.indptr).max(initial=0)), dtype=np.int32)
        parts = order.nodes, order.place, old.indptr, old.indices, data, inside, found
        given = [None if part is None else part.ctypes.data for part in parts]
        arranged = getattr(self._compiled, f"ebboost_arranged_{self._bits}")
        arranged(self.n_nodes, *given, *_addresses(rows, weights, self._sums))
        return rows

    @cached_property
    def _wide(self) -> _Rows:
        """Rows as they are, not copied."""
        own = self._adjacency
        weights = None if self._unit else np.ascontiguousarray(own.data, dtype=np.float64)
        return _Rows(own.indptr, own.indices, weights)

    def _places(self, kind: str, dtype: np.dtype[Any]) -> tuple[Any, ...]:
        """Where rows lie, with weights in a float type; looked up once, which takes as long as sweeping a small graph."""
        if (kind, dtype) not in self._known_places:
            with self._making:
                if (kind, dtype) not in self._known_places:
                    rows: _Rows = getattr(self, kind)
                    weights = (
                        None if rows.weights is None else rows.weights.astype(dtype, copy=False)
                    )
                    held = rows, weights  # as long as the addresses are
                    sums = (
                        self._sums if kind == "_narrow" else 0
                    )  # which takes an order of the rows
                    self._known_places[kind, dtype] = _addresses(rows, weights, sums), held
        places: tuple[Any, ...] = self._known_places[kind, dtype][0]
        return places

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
            raise ValueError(
                f"Scores must have a row for each of the {self.n_nodes} nodes, got shape {v.shape}."
            )
        if out is None:
            out = np.empty_like(v)
        elif out.shape != v.shape or out.dtype != v.dtype or not out.flags.c_contiguous:
            raise ValueError(f"out must be a contiguous array of {v.dtype} and of shape {v.shape}.")
        if self._compiled is None:
            return self._by_scipy(v, scale, keep, source, out)
        terms = [
            None if part is None else np.ascontiguousarray(part, dtype=v.dtype)
            for part in (scale, keep, source)
        ]
        if v.size != self.n_nodes:
            self._swept_wide(v, out, terms[0], terms[1], terms[2])
        else:
            defaults = (1.0, 0.0, 0.0)
            arranged = [
                np.full(self._size, default, dtype=v.dtype)
                if part is None
                else self._arranged(part)
                for part, default in zip(terms, defaults, strict=True)
            ]
            now, then = self._arranged(v), np.empty(self._size, v.dtype)
            sweep = getattr(self._compiled, f"ebboost_{_name(v)}_narrow_{self._bits}")
            given = [part.ctypes.data for part in (*arranged, now, then)]
            self._shared(sweep, 1, *self._places("_narrow", v.dtype), *given)
            self._put_back(then.ctypes.data, out)
        return out

    def neighbor_statistics(
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
        values = np.ascontiguousarray(
            values, dtype=np.float32 if values.dtype == np.float32 else np.float64
        )
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        shape = (rows.size, values.shape[1])
        asked = [part for part in out if part is not None]
        if len(values) != self.n_nodes or (
            rows.size and not (rows.min() >= 0 and rows.max() < self.n_nodes)
        ):
            raise ValueError(
                f"Values and rows must be those of {self.n_nodes} nodes, got values of {values.shape}."
            )
        if any(
            part.shape != shape
            or part.dtype != np.float64
            or part.strides != (asked[0].strides[0], 8)
            for part in asked
        ):
            raise ValueError(f"out must be columns of one table of float64, each of shape {shape}.")
        if self._compiled is None or not asked or not rows.size:
            neighbor_statistics_by_numpy(self._adjacency, values, rows, sums, out, nothing)
            return
        weights = self._places("_wide", np.dtype(np.float64))
        given = [None if part is None else part.ctypes.data for part in (sums, values)]
        places = [None if part is None else part.ctypes.data for part in out]
        loop = getattr(self._compiled, f"ebboost_around_{_name(values)}")
        arguments = (
            shape[1],
            rows.ctypes.data,
            *weights,
            *given,
            nothing,
            asked[0].strides[0] // 8,
            *places,
        )
        share = rows.size / self.n_nodes
        count = min(
            allowed_threads(), 1 + int(share * self._adjacency.nnz * shape[1]) // WORTH_A_THREAD
        )
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
        if len(scores) != self.n_nodes:
            raise ValueError(
                f"Scores must have a row for each of the {self.n_nodes} nodes, got shape {scores.shape}."
            )
        vectors = (root, scale, keep)
        fits = all(
            vector.dtype == scores.dtype
            and vector.flags.c_contiguous
            and len(vector) == len(scores)
            for vector in vectors
        )
        if self._compiled is None or not fits or scores.dtype not in (np.float32, np.float64):
            return stepped(self, scores, root, scale, keep, alpha, count)
        if scores.size != self.n_nodes:
            return self._steps_wide(scores, root, scale, keep, alpha, count)
        scores, name = np.ascontiguousarray(scores), _name(scores)
        out, given = np.empty_like(scores), scores.ctypes.data
        order, edges = self._order_at, self._places("_narrow", scores.dtype)
        root_at, *terms_at = map(self._once, vectors)
        v, source, other = self._scratch(scores.dtype, 3)
        if self._n_threads(1) == 1:
            getattr(self._compiled, f"ebboost_{name}_steps_{self._bits}")(
                self.n_nodes,
                order,
                *edges,
                root_at,
                *terms_at,
                alpha,
                count,
                given,
                v,
                source,
                other,
                out.ctypes.data,
            )
            return out
        self._shared(
            getattr(self._compiled, f"ebboost_{name}_begin"),
            1,
            self._sums,
            order,
            root_at,
            alpha,
            given,
            v,
            source,
        )
        sweep = getattr(self._compiled, f"ebboost_{name}_narrow_{self._bits}")
        for _ in range(count):
            self._shared(sweep, 1, *edges, *terms_at, source, v, other)
            v, other = other, v
        self._shared(
            getattr(self._compiled, f"ebboost_{name}_end"), 1, order, root_at, v, out.ctypes.data
        )
        return out

    def _steps_wide(
        self, scores: Any, root: Any, scale: Any, keep: Any, alpha: float, count: int
    ) -> NDArray[Any]:
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
        *ends, after = [
            None if part is None else part.ctypes.data for part in (scale, keep, source, root)
        ]
        rows = self._places("_wide", v.dtype)
        sweep = getattr(self._compiled, f"ebboost_wide_{_name(v)}")
        fixed = v.shape[1], self._in_turn[0], *rows, *ends, stride, after, alpha
        self._shared(sweep, v.shape[1], *fixed, v.ctypes.data, out.ctypes.data)

    def _scratch(self, dtype: np.dtype[Any], count: int) -> tuple[int, ...]:
        """Where there are vectors to write to, the same ones in each thread: fresh memory costs as much as a sweep."""
        name = f"{dtype.char}{count}"
        found = getattr(self._local, name, None)
        if found is None:
            made = np.zeros((count, self._size), dtype=dtype)
            found = tuple(vector.ctypes.data for vector in made), made
            setattr(self._local, name, found)
        places: tuple[int, ...] = found[0]
        return places

    def _once(self, vector: NDArray[Any]) -> int:
        """Where the vector lies in the order of the rows, put so once while it lasts."""
        key, kept = id(vector), self._in_order
        if key not in kept:
            with self._making:
                if key not in kept:
                    arranged = self._arranged(vector)
                    last = ref(vector, lambda _: kept.pop(key, None))  # without a hold on the sweep
                    kept[key] = arranged.ctypes.data, arranged, last
        return kept[key][0]

    @property
    def _order_at(self) -> int:
        if "order" not in self._known_places:
            self._known_places["order"] = self._order.nodes.ctypes.data, self._order
        place: int = self._known_places["order"][0]
        return place

    @property
    def _in_turn(self) -> tuple[int, NDArray[np.int32]]:
        """Where the nodes lie in the order in which their rows of several columns are summed, by length; and they."""
        if "in turn" not in self._known_places:
            with self._making:
                if "in turn" not in self._known_places:
                    nodes, plain = self._order.nodes, self._order.plain
                    nodes = (
                        nodes
                        if plain is None
                        else plain[by_length(np.diff(self._adjacency.indptr)[plain])]
                    )
                    self._known_places["in turn"] = nodes.ctypes.data, nodes
        return self._known_places["in turn"]

    def _arranged(self, vector: NDArray[Any]) -> NDArray[Any]:
        """Numbers of nodes in the order of the rows."""
        made = np.zeros(self._size, dtype=vector.dtype)
        self._arrange(vector, made.ctypes.data)
        return made

    def _arrange(self, vector: NDArray[Any], to: int) -> None:
        arrange = getattr(self._compiled, f"ebboost_{_name(vector)}_arrange")
        self._shared(arrange, 1, self._sums, self._order_at, vector.ctypes.data, to)

    def _put_back(self, place: int, out: NDArray[Any]) -> NDArray[Any]:
        """Numbers in the order of the rows, as those of nodes."""
        put_back = getattr(self._compiled, f"ebboost_{_name(out)}_put_back")
        self._shared(put_back, 1, self._order_at, place, out.ctypes.data)
        return out

    def _shared(self, loop: Any, width: int, *arguments: Any) -> None:
        """Run a loop over all rows, by several threads where that is worth it."""
        count = self._n_threads(width)
        if count == 1:
            loop(0, self.n_nodes, *arguments)
            return
        by_threads(loop, self._shares(count, width > 1), arguments)

    def _n_threads(self, width: int) -> int:
        most = min(allowed_threads(), 1 + self._adjacency.nnz * width // WORTH_A_THREAD)
        return (
            most
            if width > 1 or most == 1 or not self._sums
            else min(most, 1 + (self.n_nodes - 1) // WINDOW)
        )

    def _shares(self, count: int, wide: bool = False) -> list[int]:
        """Ranges of rows that read about as much each: whole eights, or, where rows are put back out of order, windows."""
        if (count, wide) not in self._ends:
            order = self._order
            step = EIGHT if wide or order.rows is None else WINDOW
            lengths = np.diff(self._adjacency.indptr)[self._in_turn[1]] if wide else order.lengths
            read = np.add.reduceat(
                lengths, np.arange(0, self.n_nodes, step), dtype=np.int64
            ).cumsum()
            ends = step * (1 + np.searchsorted(read, np.linspace(0, read[-1], count + 1)[1:-1]))
            self._ends[count, wide] = [0, *np.minimum(ends, self.n_nodes).tolist(), self.n_nodes]
        return self._ends[count, wide]

    def _like(self, v: NDArray[Any]) -> sparse.csr_array:
        """The adjacency in the float type of v, converted once."""
        if v.dtype not in self._by_type:
            self._by_type[v.dtype] = self._adjacency.astype(v.dtype)
        return self._by_type[v.dtype]

    def _by_scipy(
        self, v: Any, scale: Any, keep: Any, source: Any, out: NDArray[Any]
    ) -> NDArray[Any]:
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
        reached = np.zeros(1)
        z, residual, direction, image = self._scratch(np.dtype(np.float64), 4)
        self._arrange(np.ascontiguousarray(right, dtype=np.float64), residual)
        getattr(self._compiled, f"ebboost_solve_{self._bits}")(
            self.n_nodes,
            *self._places("_narrow", np.dtype(np.float64)),
            *map(self._once, (diagonal, inverse, size)),
            target,
            most,
            z,
            residual,
            direction,
            image,
            reached.ctypes.data,
        )
        return self._put_back(z, np.empty(self.n_nodes)), float(reached[0])


def neighbor_statistics_by_numpy(
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


def stepped(
    sweep: Any, scores: Any, root: Any, scale: Any, keep: Any, alpha: float, count: int
) -> Any:
    """Return what :meth:`Sweep.steps` does, by whatever sweeps: here, on a GPU or on a cluster."""
    root = root if scores.ndim == 1 else root[:, None]
    v = np.ascontiguousarray(root * scores, like=scores)
    source, other = alpha * v, np.empty_like(v)
    for _ in range(count):
        v, other = sweep(v, scale, keep, source, out=other), v
    v /= root
    return v


def _addresses(rows: _Rows, weights: NDArray[Any] | None, sums: int) -> tuple[Any, ...]:
    found = [
        rows.start.ctypes.data,
        rows.column.ctypes.data,
        None if weights is None else weights.ctypes.data,
    ]
    if rows.rest_row is not None and rows.rest_start is not None:
        found += [rows.rest_row.size, rows.rest_row.ctypes.data, rows.rest_start.ctypes.data]
        found += [sums, None if rows.place is None else rows.place.ctypes.data]
    return tuple(found)


def _name(vector: NDArray[Any]) -> str:
    return "float" if vector.dtype == np.float32 else "double"
