"""The edges of a large graph in the order in which `_tiles.cu` takes them, wherever they are: see there why."""

from typing import Any, NamedTuple

import numpy as np

TILE = 2**16
#: Below so many stored edges, setting out costs more than is gained.
LEAST_EDGES = 16_000_000
#: Stored edges to a pair of nodes below which those of a range of rows are too far apart to be read together.
LEAST_DENSITY = 1 / 225_000


def worthwhile(n_nodes: int, n_edges: int) -> bool:
    """Whether a graph of so many nodes and stored edges is swept faster so."""
    return n_edges >= max(LEAST_EDGES, LEAST_DENSITY * n_nodes**2)


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
        Rows of a range: less than 65 536, which is the row of words that fill up the last chunk of a tile.
    chunk : int
        Words of a chunk.
    most : int
        Rows of more entries are left out.
    """
    n_nodes = start.size - 1
    left_out = np.diff(start) > most
    words, tiles, first = [], [], [0]
    for begin in range(0, n_nodes, rows):
        inside = start[begin : begin + rows + 1]
        edges = slice(int(inside[0]), int(inside[-1]))
        row = np.searchsorted(inside, np.arange(edges.start, edges.stop, like=start), side="right") - 1
        key = (column[edges].astype(np.int64) << 16) + row
        key = key[~left_out[begin + row]]
        key.sort()
        tile = key >> 32
        count = np.bincount(tile, minlength=-(-n_nodes // TILE))
        chunks = -(-count // chunk)
        ends, moved = np.cumsum(chunks), chunk * (np.cumsum(chunks) - chunks) - (np.cumsum(count) - count)
        n_chunks = int(ends[-1])
        word = np.zeros(chunk * n_chunks, dtype=np.uint32, like=start) + np.uint32(rows)
        word[np.arange(key.size, like=start) + moved[tile]] = (key & 0xFFFFFFFF).astype(np.uint32)
        words.append(word)
        tiles.append(np.searchsorted(ends, np.arange(n_chunks, like=start), side="right"))
        first.append(first[-1] + n_chunks)
    parts = np.asarray(first, like=start), np.concatenate(tiles), np.concatenate(words)
    return Tiled(*(part.astype(kind) for part, kind in zip(parts, (np.int32, np.int32, np.uint32), strict=True)))
