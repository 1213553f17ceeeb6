"""A graph on the GPU: its edges, swept by `_sweep.cu` or `_tiles.cu`, and the numbers of its nodes.

Operators built on a :class:`CudaGraph` are on the GPU with it, and take and give CuPy arrays. CuPy is imported here when a
graph is moved, and never otherwise.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ebboost.backends._tiles import SPARE, TILE, tiled, worthwhile
from ebboost.graph import Graph
from ebboost.propagation._solver import ratio
from ebboost.propagation._sweep import stepped, sweep_on

THREADS = 256
TILE_THREADS = 1024
BATCH = 4
#: Rows with more neighbours than this have a block of threads to themselves; no more add up in `_tiles.cu`.
HUB = 256
SHARED_MEMORY = "MaxSharedMemoryPerBlockOptin"
#: Conjugate gradients ask how far they are once in so many iterations: the GPU must stop for an answer.
LOOK_EVERY = 4
#: Of the right side: systems to be solved no closer are tried in float32, for so many iterations.
LOOSE, SHORT_TRY = 5e-5, 50


class CudaGraph:
    """What operators need of a graph, on the GPU.

    Parameters
    ----------
    host : Graph
    """

    def __init__(self, host: Graph) -> None:
        import cupy

        self.host, self.n_nodes, self.is_signed = host, host.n_nodes, host.is_signed
        self.degrees = cupy.asarray(host.degrees)
        self.adjacency = CudaEdges(host.adjacency)

    @cached_property
    def unsigned(self) -> "CudaGraph":
        """The same graph with all weights positive."""
        return CudaGraph(self.host.unsigned) if self.is_signed else self

    def similar_neighborhoods(self, k: int = 10) -> "CudaGraph":
        """Return the graph of :meth:`Graph.similar_neighborhoods`."""
        return CudaGraph(self.host.similar_neighborhoods(k))


class CudaEdges:
    """A symmetric adjacency on the GPU, ready to be swept: see :class:`Sweep`, whose methods these are.

    Weights that are all one are not kept, others in each float type that is asked for. Where all are one, the edges of a
    large graph are kept a second time, in the order in which one column of float32 is swept three times as fast.
    """

    def __init__(self, adjacency: sparse.csr_array) -> None:
        import cupy

        self.shape = adjacency.shape
        lengths = np.diff(adjacency.indptr)
        self._start = cupy.asarray(adjacency.indptr, dtype=np.int64)
        self._column = cupy.asarray(adjacency.indices, dtype=np.int32)
        self._hubs = cupy.asarray(np.flatnonzero(lengths > HUB), dtype=np.int32)
        self._weights: dict[Any, Any] = {}
        if not (adjacency.data == 1.0).all():
            self._weights[np.dtype(np.float64)] = cupy.asarray(adjacency.data, dtype=np.float64)
        # As many threads for a row as leave each a few neighbours to add up: with fewer they wait, with more they idle.
        mean = adjacency.nnz / max(adjacency.shape[0], 1)
        self.lanes = int(np.clip(2 ** np.round(np.log2(max(mean, 1.0) / 2.0)), 2, 32))

    @property
    def is_weighted(self) -> bool:
        """Whether some weight is other than one."""
        return bool(self._weights)

    def __abs__(self) -> "CudaEdges":
        same: CudaEdges = object.__new__(CudaEdges)
        same.__dict__ |= self.__dict__ | {
            "_weights": {kind: abs(weight) for kind, weight in self._weights.items()}
        }
        return same

    def __matmul__(self, v: Any) -> Any:
        return self(v)

    def __call__(
        self, v: Any, scale: Any = None, keep: Any = None, source: Any = None, out: Any = None
    ) -> Any:
        """Return scale∘(A v) + keep∘v + source, for v of shape (n,) or (n, c), float32 or float64."""
        import cupy

        v = cupy.ascontiguousarray(v, dtype=np.float32 if v.dtype == np.float32 else np.float64)
        if len(v) != self.shape[0]:
            raise ValueError(
                f"Scores must have a row for each of the {self.shape[0]} nodes, got shape {v.shape}."
            )
        out = cupy.empty_like(v) if out is None else out
        width = 1 if v.ndim == 1 else v.shape[1]
        given = [
            0 if part is None else cupy.ascontiguousarray(part, dtype=v.dtype)
            for part in (scale, keep, source)
        ]
        tiles = self._tiles if width == 1 and v.dtype == np.float32 else None
        if tiles is not None:
            tiles(v, given, out)
        if tiles is None or self._hubs.size:
            self._by_rows(v, width, given, out, only_hubs=tiles is not None)
        return out

    def _by_rows(self, v: Any, width: int, terms: list[Any], out: Any, only_hubs: bool) -> None:
        columns = min(2 ** int(np.ceil(np.log2(max(width, 1)))), 32)
        lanes = max(self.lanes, columns)
        sweep, hubs = _kernels(v.dtype == np.float32, lanes, columns, self.is_weighted)
        rest = (self._start, self._column, self._weights_like(v), *terms, v, out)
        blocks_of_columns = -(-width // columns)
        if not only_hubs:
            blocks = -(-len(v) // (THREADS // lanes))
            sweep((blocks, blocks_of_columns), (THREADS,), (len(v), width, HUB, *rest))
        if self._hubs.size:
            hubs((self._hubs.size, blocks_of_columns), (THREADS,), (self._hubs, width, *rest))

    @cached_property
    def _tiles(self) -> "Tiles | None":
        rows = _rows_held()
        fit = not self.is_weighted and worthwhile(self.shape[0], self._column.size, rows)
        return Tiles(self._start, self._column, rows) if fit else None

    def _weights_like(self, v: Any) -> Any:
        if self._weights and v.dtype not in self._weights:
            self._weights[v.dtype] = self._weights[np.dtype(np.float64)].astype(v.dtype)
        return self._weights.get(v.dtype, 0)

    def steps(self, scores: Any, root: Any, scale: Any, keep: Any, alpha: float, count: int) -> Any:
        """Return v/root after ``count`` sweeps v ← scale∘(A v) + keep∘v + α v⁰ from v⁰ = root∘scores."""
        return stepped(self, scores, root, scale, keep, alpha, count)

    def conjugate_gradients(
        self, right: Any, diagonal: Any, inverse: Any, size: Any, target: float, most: int
    ) -> tuple[Any, float]:
        """Solve (diag(diagonal) − A) z = right, one column; as :meth:`Sweep.conjugate_gradients`."""
        system = right, diagonal, inverse, size
        if target > LOOSE * float(np.sqrt(((size * right) ** 2).sum())):
            z, reached = self._solved(
                [part.astype(np.float32) for part in system], target, min(most, SHORT_TRY)
            )
            if reached <= target:
                return z.astype(np.float64), reached
        return self._solved(system, target, most)

    def _solved(self, system: Sequence[Any], target: float, most: int) -> tuple[Any, float]:
        right, diagonal, inverse, size = system
        z, residual, minus = np.zeros_like(right), right.copy(), -np.ones_like(right)
        direction = preconditioned = inverse * residual
        product = (residual * preconditioned).sum()
        for iteration in range(most + 1):
            if iteration % LOOK_EVERY == 0 or iteration == most:
                reached = float(np.sqrt(((size * residual) ** 2).sum()))
                if not reached > target:  # of what are no numbers, neither is
                    break
            image = self(direction, scale=minus, keep=diagonal)
            step = ratio(product, (direction * image).sum())
            z += step * direction
            residual -= step * image
            preconditioned = inverse * residual
            last, product = product, (residual * preconditioned).sum()
            direction = preconditioned + ratio(product, last) * direction
        return z, reached


class Tiles:
    """The edges of a large graph as `_tiles.cu` takes them, but for those of hubs.

    Parameters
    ----------
    start, column : cupy.ndarray
        A symmetric matrix of ones by its rows, as a ``csr_array`` has it.
    rows : int
        Most rows of a range.
    """

    def __init__(self, start: Any, column: Any, rows: int) -> None:
        import cupy

        n_nodes = start.size - 1
        self._n_blocks = cupy.cuda.Device().attributes["MultiProcessorCount"]
        self._rows = -(-n_nodes // -(-n_nodes // rows))
        self._tiled = tiled(start, column, self._rows, TILE_THREADS * BATCH, HUB)
        cupy.get_default_memory_pool().free_all_blocks()  # what sorting took

    def __call__(self, v: Any, terms: list[Any], out: Any) -> None:
        """Write scale∘(A v) + keep∘v + source to ``out``; each of the three ``terms`` may be 0, for none."""
        import cupy

        n_nodes, n_ranges = len(v), self._tiled.first.size - 1
        sums = cupy.zeros(2 * n_nodes + 1, dtype=np.int32)
        most = sums[2 * n_nodes :]
        largest, tiles, finished = _tile_kernels()
        threads, blocks = (TILE_THREADS,), (self._n_blocks,)
        largest(blocks, threads, (n_nodes, v, most))
        given = (n_ranges, self._rows, n_nodes, *self._tiled, most, v, sums)
        tiles(blocks, threads, given, shared_mem=8 * (self._rows + SPARE))
        finished((-(-n_nodes // TILE_THREADS),), threads, (n_nodes, most, sums, *terms, v, out))


def _rows_held() -> int:
    """Rows whose sums, two of four bytes to each, fill the shared memory of a block of threads."""
    import cupy

    return int(min(cupy.cuda.Device().attributes[SHARED_MEMORY] // 8, TILE) - SPARE)


@sweep_on.register
def _(adjacency: CudaEdges) -> CudaEdges:
    return adjacency


@lru_cache
def _kernels(short: bool, lanes: int, columns: int, weighted: bool) -> tuple[Any, Any]:
    named = {
        "REAL": "float" if short else "double",
        "LANES": lanes,
        "COLUMNS": columns,
        "WEIGHTED": int(weighted),
    }
    module = _compiled("_sweep.cu", named | {"BATCH": BATCH, "THREADS": THREADS})
    return module.get_function("sweep"), module.get_function("hubs")


@lru_cache
def _tile_kernels() -> tuple[Any, Any, Any]:
    import cupy

    module = _compiled("_tiles.cu", {"BATCH": BATCH, "THREADS": TILE_THREADS, "SPARE": SPARE})
    tiles = module.get_function("tiles")
    tiles.max_dynamic_shared_size_bytes = cupy.cuda.Device().attributes[SHARED_MEMORY]
    return module.get_function("largest"), tiles, module.get_function("finished")


def _compiled(file: str, named: dict[str, Any]) -> Any:
    import cupy

    source = Path(__file__).with_name(file).read_text(encoding="utf-8")
    return cupy.RawModule(
        code=source, options=tuple(f"-D{name}={value}" for name, value in named.items())
    )
