"""The edges of a large graph in the order in which `_tiles.cu` reads them: see there."""

from typing import NamedTuple

import numpy as np

from ebboost.data.types import AnyArray

#: Columns of a tile, and most rows of a range: both are numbered in 16 bits.
TILE = 2**16
#: Dummy rows of a range, as many as threads of a warp: words that fill up a chunk are theirs.
SPARE = 32
#: Stored edges, in all and a node, below which sorting takes longer than some sixty rounds gain.
LEAST_EDGES = 16_000_000
LEAST_NEIGHBOURS = 20
#: Edges of a range to a column below which they are too far apart to be read together.
LEAST_OF_COLUMN = 0.1
#: Rows of a range in the shared memory of an H100; other GPUs have less.
ROWS = 29_000


def worthwhile(n_nodes: int, n_edges: int, rows: int = ROWS) -> bool:
    """Return whether a graph of so many nodes and stored edges is swept faster in tiles."""
    least = max(LEAST_EDGES, LEAST_NEIGHBOURS * n_nodes, LEAST_OF_COLUMN * n_nodes**2 / rows)
    return n_edges >= least


class Tiled(NamedTuple):
    """Words in chunks; all words of a chunk are of one range of rows and one tile of columns."""

    #: The first chunk of each range, and the end.
    first: AnyArray
    #: The tile of each chunk.
    tile: AnyArray
    #: For each edge 65 536 times its column within the tile, plus its row within the range.
    word: AnyArray


def tiled(start: AnyArray, column: AnyArray, rows: int, chunk: int, most: int) -> Tiled:
    """Cut the rows of a matrix of ones into ranges, and sort the edges of each by column.

    ``start`` and ``column`` are those of a ``csr_array``; a range has ``rows``, with the spare ones
    no more than 65 536, a chunk ``chunk`` words; rows of more than ``most`` entries are left out.
    """
    n_nodes = start.size - 1
    is_hub = np.diff(start) > most
    n_tiles = -(-n_nodes // TILE)
    n_ranges = -(-n_nodes // rows)
    tile_starts = np.arange(n_tiles + 1, like=start) << 32
    # As many chunks as there can be: of each range and tile, one is not full.
    size = chunk * (column.size // chunk + n_ranges * n_tiles)
    word = np.empty(size, dtype=np.uint32, like=start)
    tiles = []
    first = [0]
    for begin in range(0, n_nodes, rows):
        starts = start[begin : begin + rows + 1]
        edges = slice(int(starts[0]), int(starts[-1]))
        numbers = np.arange(edges.start, edges.stop, like=start)
        row = np.searchsorted(starts, numbers, side="right") - 1
        key = (column[edges].astype(np.int64) << 16) + row
        key = key[~is_hub[begin + row]]
        key.sort()
        bounds = np.searchsorted(key, tile_starts)
        chunks = -(-np.diff(bounds) // chunk)
        ends = np.cumsum(chunks)
        n_chunks = int(ends[-1])
        words = word[chunk * first[-1] : chunk * (first[-1] + n_chunks)]
        words[...] = rows + np.arange(words.size, like=start) % SPARE
        offset = chunk * (ends - chunks) - bounds[:-1]
        words[np.arange(key.size, like=start) + offset[key >> 32]] = key & 0xFFFFFFFF
        chunk_numbers = np.arange(n_chunks, like=start)
        tiles.append(np.searchsorted(ends, chunk_numbers, side="right").astype(np.int32))
        first.append(first[-1] + n_chunks)
    return Tiled(np.asarray(first, dtype=np.int32, like=start), np.concatenate(tiles), word)
