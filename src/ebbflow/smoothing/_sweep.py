"""One pass over a graph's edges, scale∘(A v) + keep∘v + source: the step that every propagation is made of.

The loops are compiled from `_sweep.c` when the package is built; where that was not possible scipy's do the same, about
half as fast. Weights that are all one are not read, and large graphs are swept by several threads, each a range of rows.
"""

import ctypes
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

VERSION = 2
# Below this many products of numbers, waking a thread costs more than it does.
WORTH_A_THREAD = 1_000_000
# Rows are sorted by length within this many: what they read and write together stays in the nearest cache.
WINDOW = 4_096

_allowed: ContextVar[int] = ContextVar("allowed", default=1)
_pool: ThreadPoolExecutor | None = None


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let sweeps, and trees that predict, use this many threads."""
    token = _allowed.set(count)
    try:
        yield
    finally:
        _allowed.reset(token)


def allowed_threads() -> int:
    """Return how many threads may be used here: those of the innermost :func:`threads`, else one."""
    return _allowed.get()


def _workers() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(os.cpu_count(), "ebbflow-sweep")
    return _pool


def _forget_workers() -> None:
    global _pool
    _pool = None  # threads do not survive a fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers)


def _compiled() -> Any:
    """The library, or None where it was not built, or was built from another version of the source."""
    for name in ("libsweep.so", "libsweep.dylib", "libsweep.dll"):
        path = Path(__file__).with_name(name)
        if not path.exists():
            continue
        try:
            library = ctypes.CDLL(str(path))
            library.ebbflow_sweep_version.restype = ctypes.c_int64
            if library.ebbflow_sweep_version() != VERSION:
                return None
        except (OSError, AttributeError):
            return None
        size: Any = ctypes.c_int64
        real, at = ctypes.c_double, ctypes.c_void_p
        for sweep in (library.ebbflow_sweep_float, library.ebbflow_sweep_double):
            sweep.argtypes, sweep.restype = [size] * 3 + [at] * 9, None
        library.ebbflow_conjugate_gradients.argtypes = [size] + [at] * 7 + [real, size] + [at] * 5
        library.ebbflow_conjugate_gradients.restype = size
        return library
    return None


COMPILED = _compiled()


@singledispatch
def sweep_on(adjacency: Any) -> Any:
    """Return what sweeps this adjacency: an adjacency of another kind, on another device, brings its own."""
    return Sweep(adjacency)


class Sweep:
    """The edges of one graph, ready to be swept.

    Parameters
    ----------
    adjacency : csr_array
        Symmetric or not; its rows are swept.
    """

    def __init__(self, adjacency: sparse.csr_array) -> None:
        self.n_nodes = adjacency.shape[0]
        self._adjacency = adjacency
        self._by_type = {np.dtype(np.float64): adjacency}
        self._compiled = COMPILED if adjacency.indices.dtype == np.int32 else None
        if self._compiled is not None:
            lengths = np.diff(adjacency.indptr)
            window = np.arange(self.n_nodes) // WINDOW
            self._row = np.lexsort((lengths, window)).astype(np.int32)
            ordered = adjacency[self._row]
            self._start, self._column, self._weights = (
                ordered.indptr,
                ordered.indices,
                {np.dtype(np.float64): ordered.data},
            )
            self._unit = bool((adjacency.data == 1.0).all())
            self._parts = tuple(part.ctypes.data for part in (self._row, self._start, self._column))

    def __reduce__(self) -> tuple[Any, ...]:
        return Sweep, (self._adjacency,)  # addresses mean nothing elsewhere

    def __call__(
        self,
        v: NDArray[Any],
        scale: NDArray[Any] | None = None,
        keep: NDArray[Any] | None = None,
        source: NDArray[Any] | None = None,
        out: NDArray[Any] | None = None,
    ) -> NDArray[Any]:
        """Return scale∘(A v) + keep∘v + source, for v of shape (n,) or (n, c), float32 or float64.

        ``scale`` and ``keep`` have a number for each node, of v's type; ``source`` has v's shape and type. ``out``, if
        given, is written to and returned; it must not be v.
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
        sweep = self._compiled.ebbflow_sweep_float if v.dtype == np.float32 else self._compiled.ebbflow_sweep_double
        width = 1 if v.ndim == 1 else v.shape[1]
        weights = self._weights_like(v)
        terms = (np.ones(self.n_nodes) if scale is None else scale), keep, source
        laid_out = [None if part is None else np.ascontiguousarray(part, dtype=v.dtype) for part in terms]
        given = [None if part is None else part.ctypes.data for part in laid_out]
        rest: Any = (width, *self._parts, weights, *given, v.ctypes.data, out.ctypes.data)
        count = min(_allowed.get(), 1 + self._adjacency.nnz * width // WORTH_A_THREAD)
        if count == 1:
            sweep(0, self.n_nodes, *rest)
        else:
            ends = self._shares(count)
            jobs = [_workers().submit(sweep, *ends[i : i + 2], *rest) for i in range(count - 1)]
            sweep(*ends[count - 1 :], *rest)
            for job in jobs:
                job.result()
        return out

    def repeated(
        self, v: NDArray[Any], scale: NDArray[Any], keep: NDArray[Any], source: NDArray[Any], count: int
    ) -> NDArray[Any]:
        """Return v after ``count`` sweeps v ← scale∘(A v) + keep∘v + source; all as :meth:`__call__` takes them."""
        buffers = [np.empty_like(v, order="C"), np.empty_like(v, order="C")]
        parts, library = [scale, keep, source], self._compiled
        fits = all(part.dtype == v.dtype and part.flags.c_contiguous for part in parts)
        alone = _allowed.get() == 1 or self._adjacency.nnz < WORTH_A_THREAD
        if library is None or count < 2 or not (alone and fits):
            for step in range(count):
                v = self(v, scale, keep, source, out=buffers[step % 2])
            return v
        self(v, scale, keep, source, buffers[0])  # checks what it is given; the others need not
        sweep = library.ebbflow_sweep_float if v.dtype == np.float32 else library.ebbflow_sweep_double
        width = 1 if v.ndim == 1 else v.shape[1]
        fixed = (0, self.n_nodes, width, *self._parts, self._weights_like(v), *(part.ctypes.data for part in parts))
        at = [buffer.ctypes.data for buffer in buffers]
        for step in range(1, count):
            sweep(*fixed, at[(step + 1) % 2], at[step % 2])
        return buffers[(count + 1) % 2]

    def _shares(self, count: int) -> list[int]:
        """Ranges of rows with as many edges each."""
        start = self._start
        ends = np.searchsorted(start, np.linspace(0, start[-1], count + 1)[1:-1])
        return [0, *map(int, ends), self.n_nodes]

    def _weights_like(self, v: NDArray[Any]) -> int | None:
        if self._unit:
            return None
        if v.dtype not in self._weights:
            self._weights[v.dtype] = self._weights[np.dtype(np.float64)].astype(v.dtype)
        address: int = self._weights[v.dtype].ctypes.data
        return address

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

        ``inverse`` is 1/diagonal.
        Stops when the residual, entry i times ``size[i]``, is no longer than ``target``, or after ``most`` iterations;
        returns z and the length reached.
        """
        if self._compiled is None:
            return None
        z, residual, direction, image = work = np.empty((4, self.n_nodes))
        residual[:] = right
        reached, weights = np.zeros(1), self._weights_like(work)
        vectors = [part.ctypes.data for part in (diagonal, inverse, size)]
        scratch = [part.ctypes.data for part in (z, residual, direction, image, reached)]
        self._compiled.ebbflow_conjugate_gradients(
            self.n_nodes, *self._parts, weights, *vectors, target, most, *scratch
        )
        return z, float(reached[0])
