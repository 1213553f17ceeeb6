"""The edges of a large graph in the order in which `_tiles.cu` takes them, wherever they are: see there why."""

from typing import Any, NamedTuple

import numpy as np

TILE = 2**16
#: Rows of a range that are none: words that fill up a chunk are theirs, as many as threads work in step.
SPARE = 32
#: Below so many stored edges, or so many to a node, sorting them takes longer than some sixty rounds gain.
LEAST_EDGES, LEAST_NEIGHBOURS = 16_000_000, 20
#: Edges of a range to a column below which they are too far apart to be read together.
LEAST_OF_COLUMN = 0.1
#: Rows of a range in the shared memory of an H100; other GPUs have less.
ROWS = 29_000


def worthwhile(n_nodes: int, n_edges: int, rows: int = ROWS) -> bool:
    """Whether a graph of so many nodes and stored edges is better swept so."""
    least = max(LEAST_EDGES, LEAST_NEIGHBOURS * n_nodes, LEAST_OF_COLUMN * n_nodes**2 / rows)
    return n_edges >= least


class Tiled(NamedTuple):
    """Words, in chunks; a chunk's words are of one range of rows and one tile of columns."""

    #: The first chunk of each range, and the end.
    first: Any
    #: The tile of each chunk.
    tile: Any
    #: For each edge 65 536 times its column within the tile, plus its row within the range.
    word: Any


def tiled(start: Any, column: Any, rows: int, chunk: int, most: int) -> Tiled:
    """Cut the rows of a matrix of ones into ranges, and sort the edges of each by column.

    Parameters
    ----------
    start, column : ndarray or cupy.ndarray
        The matrix, as a ``csr_array`` has it.
    rows : int
        Rows of a range; with the spare ones no more than 65 536.
    chunk : int
        Words of a chunk.
    most : int
        Rows of more entries are left out.
    """
    n_nodes = start.size - 1
    leave_one_out = np.diff(start) > most
    all_in = not leave_one_out.any()
    n_tiles, n_ranges = -(-n_nodes // TILE), -(-n_nodes // rows)
    columns_of_tiles = np.arange(n_tiles + 1, like=start) << 32
    # Room for as many chunks as there can be: of each range and tile, one is not full.
    word = np.empty(
        chunk * (column.size // chunk + n_ranges * n_tiles), dtype=np.uint32, like=start
    )
    tiles, first = [], [0]
    for begin in range(0, n_nodes, rows):
        inside = start[begin : begin + rows + 1]
        edges = slice(int(inside[0]), int(inside[-1]))
        row = (
            np.searchsorted(inside, np.arange(edges.start, edges.stop, like=start), side="right")
            - 1
        )
        key = (column[edges].astype(np.int64) << 16) + row
        key = key if all_in else key[~leave_one_out[begin + row]]
        key.sort()
        places = np.searchsorted(key, columns_of_tiles)
        chunks = -(-np.diff(places) // chunk)
        ends = np.cumsum(chunks)
        n_chunks = int(ends[-1])
        here = word[chunk * first[-1] : chunk * (first[-1] + n_chunks)]
        here[...] = rows + np.arange(here.size, like=start) % SPARE
        moved = chunk * (ends - chunks) - places[:-1]
        here[np.arange(key.size, like=start) + moved[key >> 32]] = key & 0xFFFFFFFF
        tiles.append(
            np.searchsorted(ends, np.arange(n_chunks, like=start), side="right").astype(np.int32)
        )
        first.append(first[-1] + n_chunks)
    return Tiled(np.asarray(first, dtype=np.int32, like=start), np.concatenate(tiles), word)
