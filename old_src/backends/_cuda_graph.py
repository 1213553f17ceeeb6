"""A graph on the GPU: its edges, swept by `_sweep.cu` or `_tiles.cu`, and the numbers of its nodes.

Operators built on a :class:`CudaGraph` are on the GPU with it, and take and return CuPy arrays.
CuPy is imported when a graph is moved, and not before.
"""

import copy
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ebboost.backends._tiles import SPARE, TILE, tiled, worthwhile
from ebboost.data.once import lazy_property
from ebboost.data.types import AnyArray
from ebboost.graph import Graph
from ebboost.propagation import Sweep, System, Terms

#: Threads of a block of `_sweep.cu`, and of `_tiles.cu`, which needs all of a multiprocessor's.
THREADS = 256
TILE_THREADS = 1024
#: Loads that a thread has under way at once.
BATCH = 4
#: Rows with more neighbours have a block of threads each; no more add up in `_tiles.cu`.
HUB = 256
SHARED_MEMORY = "MaxSharedMemoryPerBlockOptin"
#: Relative residuals from which on a system is first tried in float32, for SHORT_TRY iterations.
LOOSE = 5e-5
SHORT_TRY = 50


class CudaGraph:
    """What operators need of a graph, on the GPU."""

    def __init__(self, host: Graph) -> None:
        import cupy

        if host.groups is not None or host.time is not None:
            raise ValueError("groups and causal=True are not supported on a GPU: use device='cpu'.")
        self.host = host
        self.groups: None = None
        self.time: None = None
        self.n_nodes = host.n_nodes
        self.is_signed = host.is_signed
        self.degrees = cupy.asarray(host.degrees)
        self.adjacency = CudaSweep(host.adjacency)

    @property
    def parent(self) -> Graph:
        """The host graph whose spectrum bounds that of this one."""
        return self.host.parent

    @lazy_property
    def unsigned(self) -> "CudaGraph":
        """The same graph with all weights positive."""
        return type(self)(self.host.unsigned) if self.is_signed else self

    def similar_neighborhoods(self, k: int = 10) -> "CudaGraph":
        """Return the graph of :meth:`Graph.similar_neighborhoods`."""
        return type(self)(self.host.similar_neighborhoods(k))


class CudaSweep(Sweep):
    """A symmetric adjacency on the GPU and the sweep over it.

    Weights that are all one are not stored, others in each float type in use. Where all are one,
    the edges of a large graph are stored a second time, in the order in which one column of float32
    is swept three times as fast.
    """

    #: The GPU must stop for a look at the residual.
    check_every = 4

    def __init__(self, adjacency: sparse.csr_array) -> None:
        import cupy

        super().__init__(adjacency.shape[0])
        self.shape = adjacency.shape
        self._start = cupy.asarray(adjacency.indptr, dtype=np.int64)
        self._column = cupy.asarray(adjacency.indices, dtype=np.int32)
        hubs = np.flatnonzero(np.diff(adjacency.indptr) > HUB)
        self._hubs = cupy.asarray(hubs, dtype=np.int32)
        self._weights: dict[np.dtype[Any], Any] = {}
        if not (adjacency.data == 1.0).all():
            self._weights[np.dtype(np.float64)] = cupy.asarray(adjacency.data, dtype=np.float64)
        # As many threads for a row as leave each a few neighbours: fewer wait, more idle.
        mean = adjacency.nnz / max(adjacency.shape[0], 1)
        self.lanes = int(np.clip(2 ** np.round(np.log2(max(mean, 1.0) / 2.0)), 2, 32))

    def __abs__(self) -> "CudaSweep":
        other = copy.copy(self)
        other._weights = {dtype: abs(weights) for dtype, weights in self._weights.items()}
        return other

    def __matmul__(self, v: AnyArray) -> AnyArray:
        return self(v)

    def _write(self, v: AnyArray, out: AnyArray, terms: Terms) -> None:
        import cupy

        width = 1 if v.ndim == 1 else v.shape[1]
        contiguous = partial(cupy.ascontiguousarray, dtype=v.dtype)
        arrays = [0 if term is None else contiguous(term) for term in terms]
        tiles = self._tiles if width == 1 and v.dtype == np.float32 else None
        if tiles is not None:
            tiles(v, arrays, out)
        if tiles is None or self._hubs.size:
            self._by_rows(v, width, arrays, out, only_hubs=tiles is not None)

    def _by_rows(
        self, v: AnyArray, width: int, terms: list[Any], out: AnyArray, only_hubs: bool
    ) -> None:
        columns = min(2 ** int(np.ceil(np.log2(max(width, 1)))), 32)
        lanes = max(self.lanes, columns)
        sweep, hubs = _kernels(v.dtype == np.float32, lanes, columns, bool(self._weights))
        arguments = (self._start, self._column, self._weights_in(v.dtype), *terms, v, out)
        column_blocks = -(-width // columns)
        if not only_hubs:
            blocks = -(-len(v) // (THREADS // lanes))
            sweep((blocks, column_blocks), (THREADS,), (len(v), width, HUB, *arguments))
        if self._hubs.size:
            hubs((self._hubs.size, column_blocks), (THREADS,), (self._hubs, width, *arguments))

    @lazy_property
    def _tiles(self) -> "Tiles | None":
        rows = _rows_in_shared_memory()
        fit = not self._weights and worthwhile(self.n_nodes, self._column.size, rows)
        return Tiles(self._start, self._column, rows) if fit else None

    def _weights_in(self, dtype: np.dtype[Any]) -> Any:
        if self._weights and dtype not in self._weights:
            self._weights[dtype] = self._weights[np.dtype(np.float64)].astype(dtype)
        return self._weights.get(dtype, 0)

    def conjugate_gradients(
        self, right: AnyArray, system: System, target: float, max_iter: int
    ) -> tuple[Any, float]:
        """Solve (diag(diagonal) − A) z = right, in float32 where that is precise enough."""
        solve = super().conjugate_gradients
        if target > LOOSE * float(np.sqrt(((system[2] * right) ** 2).sum())):
            first, *others = (vector.astype(np.float32) for vector in (right, *system))
            z, length = solve(first, tuple(others), target, min(max_iter, SHORT_TRY))
            if length <= target:
                return z.astype(np.float64), length
        return solve(right, system, target, max_iter)


class Tiles:
    """The edges of a large graph, but for those of hubs, in ranges of at most ``rows`` rows."""

    def __init__(self, start: AnyArray, column: AnyArray, rows: int) -> None:
        import cupy

        n_nodes = start.size - 1
        self._n_blocks = cupy.cuda.Device().attributes["MultiProcessorCount"]
        self._rows = -(-n_nodes // -(-n_nodes // rows))
        self._tiled = tiled(start, column, self._rows, TILE_THREADS * BATCH, HUB)
        cupy.get_default_memory_pool().free_all_blocks()  # what sorting took

    def __call__(self, v: AnyArray, terms: list[Any], out: AnyArray) -> None:
        """Write scale∘(A v) + keep∘v + source to ``out``; a term that is 0 is left out."""
        import cupy

        n_nodes = len(v)
        n_ranges = self._tiled.first.size - 1
        sums = cupy.zeros(2 * n_nodes + 1, dtype=np.int32)
        most = sums[2 * n_nodes :]
        largest, tiles, finished = _tile_kernels()
        threads = (TILE_THREADS,)
        blocks = (self._n_blocks,)
        largest(blocks, threads, (n_nodes, v, most))
        arguments = (n_ranges, self._rows, n_nodes, *self._tiled, most, v, sums)
        tiles(blocks, threads, arguments, shared_mem=8 * (self._rows + SPARE))
        finished((-(-n_nodes // TILE_THREADS),), threads, (n_nodes, most, sums, *terms, v, out))


def _rows_in_shared_memory() -> int:
    """Rows whose sums, two of four bytes each, fill the shared memory of a block of threads."""
    import cupy

    return int(min(cupy.cuda.Device().attributes[SHARED_MEMORY] // 8, TILE) - SPARE)


@lru_cache
def _kernels(short: bool, lanes: int, columns: int, weighted: bool) -> tuple[Any, Any]:
    real = "float" if short else "double"
    sizes = {"LANES": lanes, "COLUMNS": columns, "BATCH": BATCH, "THREADS": THREADS}
    module = _compiled("_sweep.cu", {"REAL": real, "WEIGHTED": int(weighted)} | sizes)
    return module.get_function("sweep"), module.get_function("hubs")


@lru_cache
def _tile_kernels() -> tuple[Any, Any, Any]:
    import cupy

    module = _compiled("_tiles.cu", {"BATCH": BATCH, "THREADS": TILE_THREADS, "SPARE": SPARE})
    tiles = module.get_function("tiles")
    tiles.max_dynamic_shared_size_bytes = cupy.cuda.Device().attributes[SHARED_MEMORY]
    return module.get_function("largest"), tiles, module.get_function("finished")


def _compiled(file: str, macros: dict[str, object]) -> Any:
    import cupy

    source = Path(__file__).with_name(file).read_text(encoding="utf-8")
    options = tuple(f"-D{name}={value}" for name, value in macros.items())
    return cupy.RawModule(code=source, options=options)
