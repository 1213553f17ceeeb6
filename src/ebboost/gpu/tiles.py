"""Propagation over large graphs without weights, in the order in which `tiles.cu` reads entries.

A step is Z ← D A D Z + αf, with A of zeros and ones and D diagonal. For Y = DZ it is
Y ← D²(AY) + αDf, which averages, so that Y does not grow: sums of whole numbers do not overflow.
"""

from functools import lru_cache
from typing import Any

import cupy
import numpy as np
from scipy import sparse

from ebboost.gpu.matrices import CudaMatrix, compiled

THREADS = 1024
BATCH = 4
TILE = 2**16  # columns of a tile, and most rows of a range: both are numbered in 16 bits
SPARE = 32  # dummy rows of a range: words that fill up a chunk are theirs
MOST = 255  # entries of a row; those of more are a matrix of their own
# Entries, in all and a row, below which sorting takes longer than some sixty rounds gain; and
# entries of a range to a column below which they are too far apart to be read together.
LEAST_ENTRIES = 16_000_000
LEAST_OF_ROW = 20
LEAST_OF_COLUMN = 0.1
UNIT_TOLERANCE = 1e-6
# Largest number over the mean size of numbers, beyond which small ones would lose digits; looked at
# now and then, as the CPU must wait for it.
MOST_SPREAD = 100.0
CHECK_EVERY = 15
SHARED_MEMORY = "MaxSharedMemoryPerBlockOptin"

begun = cupy.ElementwiseKernel(
    "float64 scaled, float64 alpha, float64 unit",
    "float32 y, float32 pull",
    "y = scaled / unit; pull = alpha * y",
)
averaged = cupy.ElementwiseKernel(
    "int32 sum, float32 square, float32 pull", "float32 y", "y = square * (sum * 0x1p-23f) + pull"
)
finished = cupy.ElementwiseKernel(
    "int32 sum, float64 root, float64 f, float64 alpha, float64 unit",
    "float64 z",
    "z = unit * root * (sum * 0x1p-23) + alpha * f",
)


class Tiles:
    """The steps Z ← D A D Z + αf for one column."""

    def __init__(self, start: Any, column: Any, root: Any) -> None:
        self.root, self.square = root, (root**2).astype(np.float32)
        n_rows = root.size
        most = cupy.cuda.Device().attributes[SHARED_MEMORY] // 4
        limit = min(most, TILE) - SPARE
        self.rows = -(-n_rows // -(-n_rows // limit))
        is_hub = cupy.diff(start) > MOST
        self.words = tiled(start, column, is_hub, self.rows)
        self.hubs = cupy.flatnonzero(is_hub)
        self.hub_rows = None
        self._calls, self._is_even = 0, True
        if self.hubs.size:
            bounds, columns, places = start.get(), column.get(), self.hubs.get()
            parts = [columns[bounds[place] : bounds[place + 1]] for place in places]
            ends = np.cumsum([0, *map(len, parts)])
            every = np.concatenate(parts)
            shape = (places.size, n_rows)
            self.hub_rows = CudaMatrix(sparse.csr_array((np.ones(every.size), every, ends), shape))
        cupy.get_default_memory_pool().free_all_blocks()  # what sorting took

    @classmethod
    def of(cls, matrix: sparse.csr_array, alpha: float) -> "Tiles | None":
        """Return the tiles of D A D, None if a matrix is not of that form or too small."""
        n_rows = matrix.shape[0]
        least = max(LEAST_ENTRIES, LEAST_OF_ROW * n_rows, LEAST_OF_COLUMN * n_rows**2 / TILE)
        diagonal = matrix.diagonal()
        if matrix.nnz < least or not (diagonal > 0.0).all():
            return None
        root = cupy.sqrt(cupy.asarray(diagonal))
        start = cupy.asarray(matrix.indptr, dtype=np.int64)
        column = cupy.asarray(matrix.indices, dtype=np.int32)
        row = cupy.searchsorted(start, cupy.arange(matrix.nnz), side="right") - 1
        ratio = cupy.asarray(matrix.data) / (root[row] * root[column])
        is_unit = float(cupy.abs(ratio - 1.0).max()) < UNIT_TOLERANCE
        share = float((root**2 * cupy.diff(start)).max()) + alpha
        del row, ratio
        return cls(start, column, root) if is_unit and share < 1.0 + UNIT_TOLERANCE else None

    def steps(self, scores: Any, n_steps: int, alpha: float) -> Any:
        """Return the scores of one column after the steps; None if small ones would lose digits."""
        y = self.root * scores
        sizes = cupy.abs(y)
        unit = cupy.maximum(sizes.max(), 1e-300)
        if self._calls % CHECK_EVERY == 0:
            mean = float(sizes.sum()) / max(int(cupy.count_nonzero(y)), 1)
            self._is_even = float(unit) <= MOST_SPREAD * max(mean, 1e-302)
        self._calls += 1
        if not self._is_even or n_steps == 0:
            return None
        y, pull = begun(y, alpha, unit)
        for number in range(n_steps):
            sums = self._sums(y)
            if number < n_steps - 1:
                y = averaged(sums, self.square, pull)
                if self.hub_rows is not None:
                    y[self.hubs] = self.square[self.hubs] * self._of_hubs + pull[self.hubs]
        z = finished(sums, self.root, scores, alpha, unit)
        if self.hub_rows is not None:
            z[self.hubs] = unit * self.root[self.hubs] * self._of_hubs + alpha * scores[self.hubs]
        return z

    def _sums(self, y: Any) -> Any:
        """A y in units of 2^-23; 0 at hubs, whose sums are apart."""
        sums = cupy.zeros(y.size, dtype=np.int32)
        arguments = (self.words[0].size - 1, self.rows, *self.words, y, sums)
        blocks = cupy.cuda.Device().attributes["MultiProcessorCount"]
        kernel()((blocks,), (THREADS,), arguments, shared_mem=4 * (self.rows + SPARE))
        if self.hub_rows is not None:
            self._of_hubs = self.hub_rows.times(y)
        return sums


@lru_cache
def kernel() -> Any:
    """Return the kernel, which may use all of a multiprocessor's shared memory."""
    module = compiled(("tiles.cu",), {"BATCH": BATCH, "THREADS": THREADS, "SPARE": SPARE})
    tiles = module.get_function("tiles")
    tiles.max_dynamic_shared_size_bytes = cupy.cuda.Device().attributes[SHARED_MEMORY]
    return tiles


def tiled(start: Any, column: Any, is_hub: Any, rows: int, chunk: int = THREADS * BATCH) -> Any:
    """Cut the rows of a matrix of ones into ranges, and sort the entries of each by column.

    Returns the first chunk of each range and the end; the tile of each chunk; and words in chunks:
    for each entry 65 536 times its column within the tile, plus its row within the range. All words
    of a chunk are of one range and one tile. Entries of hubs are left out.
    """
    n_rows = start.size - 1
    n_tiles, n_ranges = -(-n_rows // TILE), -(-n_rows // rows)
    tile_starts = cupy.arange(n_tiles + 1) << 32
    # As many chunks as there can be: of each range and tile, one is not full.
    word = cupy.empty(chunk * (column.size // chunk + n_ranges * n_tiles), dtype=np.uint32)
    tiles, first = [], [0]
    for begin in range(0, n_rows, rows):
        starts = start[begin : begin + rows + 1]
        low, high = int(starts[0]), int(starts[-1])
        row = cupy.searchsorted(starts, cupy.arange(low, high), side="right") - 1
        key = (column[low:high].astype(np.int64) << 16) + row
        key = cupy.sort(key[~is_hub[begin + row]])
        bounds = cupy.searchsorted(key, tile_starts)
        chunks = -(-cupy.diff(bounds) // chunk)
        ends = cupy.cumsum(chunks)
        n_chunks = int(ends[-1])
        words = word[chunk * first[-1] : chunk * (first[-1] + n_chunks)]
        words[...] = rows + cupy.arange(words.size) % SPARE
        offset = chunk * (ends - chunks) - bounds[:-1]
        words[cupy.arange(key.size) + offset[key >> 32]] = key & 0xFFFFFFFF
        numbers = cupy.searchsorted(ends, cupy.arange(n_chunks), side="right")
        tiles.append(numbers.astype(np.int32))
        first.append(first[-1] + n_chunks)
    return cupy.asarray(first, dtype=np.int32), cupy.concatenate(tiles), word
