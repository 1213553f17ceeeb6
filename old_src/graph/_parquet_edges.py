"""Edge lists in Parquet files that are larger than memory, as one adjacency.

The edges are read twice: once to count the neighbours of every node, once to write each edge to
both of its rows (:class:`RowEntries`). Memory is needed for a few numbers per node and one block;
the adjacency itself may be in memory-mapped files.
"""

import json
from collections.abc import Iterator
from functools import partial
from os import PathLike, truncate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.graph._edges import (
    IntArray,
    Weights,
    check_range,
    edge_columns,
    edge_weights,
    node_positions,
)
from ebboost.graph.parquet import parquet_files, read_blocks
from ebboost.graph.row_entries import AT_ONCE, RowEntries, in_memory

if TYPE_CHECKING:
    from pyarrow import Table

BLOCK = 1 << 15  # edges
METADATA = "graph.json"
FORMAT = {"format": "ebboost graph", "version": 1}
FILES = {"data": "weights", "indices": "neighbors", "indptr": "starts"}

AnyPath = str | PathLike[str]


class ParquetEdges:
    """An edge list in a Parquet file or a folder of them; columns as in :func:`edge_columns`."""

    def __init__(
        self, path: AnyPath, source: str | None, target: str | None, weight: str | None
    ) -> None:
        self.path = path
        names = parquet_files(path)[0].schema_arrow.names
        self.ends = edge_columns(names, source, target, weight, path)
        self.weight = weight
        #: The largest position read so far.
        self.largest = -1

    def blocks(self, n_nodes: int) -> Iterator[tuple[IntArray, IntArray, Weights]]:
        """Yield source, target and weight of some edges each, without self-loops."""
        first = 0
        for ends, weight in self.tables(BLOCK):
            positions = []
            for end, name in zip(ends, self.ends, strict=True):
                where = f"{self.path}, column {name!r}"
                positions.append(node_positions(end, where))
                check_range(positions[-1], n_nodes, where, first)
            source, target = positions
            self.largest = max(self.largest, int(source.max()), int(target.max()))
            first += weight.size
            keep = (source != target) & (weight > 0)
            yield source[keep], target[keep], weight[keep]

    def tables(
        self, n_rows: int, part: tuple[int, int] = (0, 1)
    ) -> Iterator[tuple[list[NDArray[Any]], Weights]]:
        """Yield both ends, as the file has them, and the weight of some edges each."""
        first = 0
        columns = [*self.ends] if self.weight is None else [*self.ends, self.weight]
        for table in read_blocks(parquet_files(self.path), columns, n_rows, part):
            ends = [self._end(table, name, first) for name in self.ends]
            weight = np.ones(table.num_rows)
            if self.weight is not None:
                try:
                    weight = edge_weights(table.column(self.weight).to_numpy(), table.num_rows)
                except (TypeError, ValueError) as error:
                    raise type(error)(f"{self.path}, counted from row {first}: {error}") from None
            first += table.num_rows
            yield ends, weight

    def _end(self, table: "Table", name: str, first: int) -> NDArray[Any]:
        column = table.column(name)
        if column.null_count:
            row = first + column.is_null().to_pylist().index(True)
            where = f"{self.path}, column {name!r}"
            raise ValueError(f"{where} is empty at row {row}: an edge needs both of its ends.")
        return column.to_numpy()


def adjacency_from_parquet(
    edges: ParquetEdges, n_nodes: int | None, directory: AnyPath | None
) -> sparse.csr_array:
    """Return the adjacency, in files of ``directory`` if there is one."""
    counts = _count_ends(edges, n_nodes)
    if not counts.size:
        raise ValueError(f"{edges.path} has no edges: pass n_nodes.")
    folder = None if directory is None else Path(directory)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / METADATA).exists():
            raise FileExistsError(f"{folder} holds a graph: Graph.open it, or name another folder.")
    new_array = in_memory if folder is None else partial(_new_array, folder)
    entries = RowEntries(counts, counts.size, edges.weight is not None, new_array)
    _write_entries(edges, counts.size, entries)
    start = entries.merge()
    n_entries = int(start[-1])
    weights = entries.weights
    if weights is None:
        weights = new_array("data", np.dtype(np.float64), n_entries)
        weights[:] = 1.0
    index = entries.index
    if folder is None:
        arrays = (weights[:n_entries], entries.columns[:n_entries], start.astype(index))
        return sparse.csr_array(arrays, shape=(counts.size, counts.size))
    starts = _new_array(folder, "indptr", index, start.size)
    starts[:] = start
    for name, array in (("indices", entries.columns), ("data", weights), ("indptr", starts)):
        if isinstance(array, np.memmap):
            array.flush()
        size = array.size if name == "indptr" else n_entries
        truncate(folder / FILES[name], size * array.itemsize)
    sizes = {"n_nodes": counts.size, "n_entries": n_entries, "index": index.name}
    # Written last: a folder without it holds no complete graph.
    (folder / METADATA).write_text(json.dumps(FORMAT | sizes))
    return open_adjacency(folder)


def open_adjacency(directory: AnyPath) -> sparse.csr_array:
    """Return the adjacency in a folder, memory-mapped."""
    folder = Path(directory)
    try:
        metadata = json.loads((folder / METADATA).read_text())
        if not FORMAT.items() <= metadata.items() or metadata["index"] not in ("int32", "int64"):
            raise ValueError(metadata)
        n_nodes = metadata["n_nodes"]
        n_entries = metadata["n_entries"]
        index = np.dtype(metadata["index"])
        data = _stored_array(folder, "data", np.dtype(np.float64), n_entries)
        indices = _stored_array(folder, "indices", index, n_entries)
        indptr = _stored_array(folder, "indptr", index, n_nodes + 1)
        # Compiled loops use these as addresses without a check.
        ascending = indptr[0] == 0 and indptr[-1] == n_entries and (np.diff(indptr) >= 0).all()
        if not ascending or (n_entries and not 0 <= indices.min() <= indices.max() < n_nodes):
            raise ValueError("an edge leads to a node that is not there")
    except (OSError, LookupError, TypeError, ValueError, AttributeError) as error:
        problem = f"{directory} holds no graph, or an incomplete one ({error})"
        raise ValueError(f"{problem}: create it with Graph.from_parquet.") from None
    return sparse.csr_array((data, indices, indptr), shape=(n_nodes, n_nodes))


def _new_array(folder: Path, name: str, dtype: np.dtype[Any], size: int) -> NDArray[Any]:
    """Return an array to write to, in a new file."""
    path = folder / FILES[name]
    # Not truncated: processes that have mapped an older file would crash.
    path.unlink(missing_ok=True)
    path.touch()
    return _mapped(path, dtype, size, "w+")


def _stored_array(folder: Path, name: str, dtype: np.dtype[Any], size: int) -> NDArray[Any]:
    path = folder / FILES[name]
    if path.stat().st_size != size * dtype.itemsize:
        raise ValueError(f"{path.name} is not as long as it was written")
    return _mapped(path, dtype, size, "r")


def _mapped(path: Path, dtype: np.dtype[Any], size: int, mode: Literal["r", "w+"]) -> NDArray[Any]:
    """Return an array in a file; numpy cannot map an empty one."""
    return np.memmap(path, dtype, mode, shape=(size,)) if size else np.zeros(0, dtype=dtype)


def _count_ends(edges: ParquetEdges, n_nodes: int | None) -> IntArray:
    """Return how often each node is an end of an edge."""
    counts = np.zeros(n_nodes or 0, dtype=np.int64)
    for ends in edges.blocks(n_nodes or np.iinfo(np.int32).max):
        if edges.largest >= counts.size:
            added = np.zeros(edges.largest + 1 - counts.size, dtype=np.int64)
            counts = np.concatenate([counts, added])
        for end in ends[:2]:
            np.add.at(counts, end, 1)
    return counts


def _write_entries(edges: ParquetEdges, n_nodes: int, entries: RowEntries) -> None:
    """Write each edge to both of its rows."""
    blocks: list[tuple[IntArray, IntArray, Weights]] = []
    n_read = 0
    for block in edges.blocks(n_nodes):
        blocks.append(block)
        n_read += block[0].size
        if 2 * n_read >= max(AT_ONCE, n_nodes):
            _write_blocks(blocks, n_nodes, entries)
            n_read = 0
    if blocks:
        _write_blocks(blocks, n_nodes, entries)


def _write_blocks(
    blocks: list[tuple[IntArray, IntArray, Weights]], n_nodes: int, entries: RowEntries
) -> None:
    """Write some edges, which are freed."""
    source, target, weight = (np.concatenate(part) for part in zip(*blocks, strict=True))
    blocks.clear()
    for row, column in ((source, target), (target, source)):
        if entries.weights is None:
            entries.write(row, column)
        else:
            entries.write(row, column + n_nodes * (row is target), weight)
