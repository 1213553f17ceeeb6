"""Edge lists in Parquet files that are larger than memory, as one adjacency.

The edges are read twice: once to count the neighbours of every node, once to write each edge to
both of its rows. Then a range of rows at a time is sorted and repeats are merged, as
:func:`merge_directions` merges them. Memory is needed for a few numbers per node and one block;
the adjacency itself may be in memory-mapped files.
"""

import json
from collections.abc import Iterator
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
    merge_directions,
    node_positions,
)
from ebboost.graph.parquet import parquet_files, read_blocks

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
    start = np.concatenate([[0], np.cumsum(counts)])
    index = np.dtype(np.int32 if max(start[-1], counts.size) < 2**31 else np.int64)
    folder = None if directory is None else Path(directory)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / METADATA).exists():
            raise FileExistsError(f"{folder} holds a graph: Graph.open it, or name another folder.")
    column = _new_array(folder, "indices", index, int(start[-1]))
    weight = _new_array(folder, "data", np.dtype(np.float64), int(start[-1]))
    _write_entries(edges, start, column, weight)
    start = _merge_rows(start, column, weight, edges.weight is not None)
    n_entries = int(start[-1])
    if folder is None:
        arrays = (weight[:n_entries], column[:n_entries], start.astype(index))
        return sparse.csr_array(arrays, shape=(counts.size, counts.size))
    starts = _new_array(folder, "indptr", index, start.size)
    starts[:] = start
    for name, array in (("indices", column), ("data", weight), ("indptr", starts)):
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


def _new_array(folder: Path | None, name: str, dtype: np.dtype[Any], size: int) -> NDArray[Any]:
    """Return an array to write to, in a new file if there is a folder."""
    if folder is None:
        return np.empty(size, dtype=dtype)
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
            nodes, times = np.unique(end, return_counts=True)
            counts[nodes] += times
    return counts


def _write_entries(
    edges: ParquetEdges, start: IntArray, column: NDArray[Any], weight: NDArray[Any]
) -> None:
    """Write each edge to both of its rows, in the order of the file; to its target's as ~source."""
    free = start[:-1].copy()
    for source, target, values in edges.blocks(free.size):
        rows = np.concatenate([source, target])
        order = np.argsort(rows, kind="stable")
        nodes, first, times = np.unique(rows[order], return_index=True, return_counts=True)
        entry = np.repeat(free[nodes] - first, times) + np.arange(rows.size)
        column[entry] = np.concatenate([target, ~source])[order]
        weight[entry] = np.concatenate([values, values])[order]
        free[nodes] += times


def _merge_rows(
    start: IntArray, column: NDArray[Any], weight: NDArray[Any], weighted: bool
) -> IntArray:
    """Sort and merge the entries of each row in place; return the new starts."""
    n_nodes = start.size - 1
    stop = np.zeros_like(start)
    row = 0
    while row < n_nodes:
        # As many rows as fill a block, and at least one.
        last = max(int(np.searchsorted(start, start[row] + BLOCK, side="right")) - 1, row + 1)
        entries = slice(int(start[row]), int(start[last]))
        owner = np.repeat(np.arange(last - row), np.diff(start[row : last + 1]))
        encoded = np.asarray(column[entries])
        directions = []
        for chosen, neighbor in ((encoded >= 0, encoded), (encoded < 0, ~encoded)):
            ends = (owner[chosen], neighbor[chosen])
            values = np.asarray(weight[entries])[chosen]
            matrix = sparse.coo_array((values, ends), shape=(last - row, n_nodes)).tocsr()
            if not weighted:
                matrix.data[:] = 1.0
            directions.append(matrix)
        total = merge_directions(*directions)
        first = int(stop[row])
        column[first : first + total.nnz] = total.indices
        weight[first : first + total.nnz] = total.data
        stop[row + 1 : last + 1] = first + total.indptr[1:]
        row = last
    return stop
