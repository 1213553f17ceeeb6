"""Parquet files a block at a time, and edge lists in them that are larger than memory as one adjacency.

The edges are read twice: once to count the neighbours of every node, once to put each edge down at both its ends. Then a
range of nodes at a time is sorted and repeats are merged, as :func:`symmetric_adjacency` merges them. What is held in
memory is a few numbers for each node and one block; the adjacency itself may lie in files.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.graph._edges import edge_weights, node_positions

BLOCK = 1 << 15  # edges
FACTS = "graph.json"
PARTS = {"indptr": "starts", "indices": "neighbors", "data": "weights"}

Path_ = str | os.PathLike[str]
IntArray = NDArray[np.int64]


def arrow(what: str) -> Any:
    """pyarrow, imported when it is needed."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise ImportError(f"{what} needs pyarrow: pip install pyarrow.") from None
    return pyarrow


def parquet_files(path: Path_) -> list[Any]:
    """The Parquet file at ``path``, or all of a folder in the order of their names, opened.

    Numbers in names count as numbers: many programs write part.2 and part.10, and rows out of order are other nodes.
    """
    pyarrow = arrow("Reading Parquet files")
    found = Path(path)
    names = sorted(found.glob("*.parquet"), key=_natural) if found.is_dir() else [found]
    if not names:
        raise FileNotFoundError(
            f"{found} is a folder without any file whose name ends in .parquet."
        )
    files = []
    for name in names:
        try:
            files.append(pyarrow.parquet.ParquetFile(name, pre_buffer=False))
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"{name} cannot be read as a Parquet file: {error}") from None
    for name, file in zip(names, files, strict=True):
        if file.schema_arrow.names != files[0].schema_arrow.names:
            raise ValueError(
                f"{name} has other columns than {names[0]}: {file.schema_arrow.names}."
            )
    return files


def _natural(path: Path) -> list[Any]:
    """Text and numbers in turn, to sort by."""
    parts = re.split(r"([0-9]+)", path.name)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)] + [path.name]


def read_blocks(files: list[Any], columns: Sequence[str], size: int) -> Iterator[Any]:
    """Tables of at most ``size`` rows, one after the other."""
    table = arrow("Reading Parquet files").Table
    for file in files:
        for batch in file.iter_batches(size, columns=list(columns), use_threads=False):
            if batch.num_rows:
                yield table.from_batches([batch])


class EdgesOnDisk:
    """An edge list in Parquet files.

    Parameters
    ----------
    path : path
        A file, or a folder of files.
    source, target : str, optional
        Columns with the two ends; the first two by default.
    weight : str, optional
    """

    def __init__(
        self, path: Path_, source: str | None, target: str | None, weight: str | None
    ) -> None:
        self.path = path
        names = parquet_files(path)[0].schema_arrow.names
        if len(names) < 2:
            raise ValueError(f"{path} needs a source and a target column, it has {names}.")
        source = names[0] if source is None else source
        target = next(name for name in names if name != source) if target is None else target
        for argument, name in (("source", source), ("target", target), ("weight", weight)):
            if name is not None and name not in names:
                raise ValueError(
                    f"{argument}={name!r} is not a column of {path}; there are {names}."
                )
        if source == target:
            raise ValueError(
                f"source and target are both the column {source!r}: name the two ends of the edges."
            )
        self.columns = [source, target] + ([] if weight is None else [weight])
        #: The highest position seen.
        self.highest = -1

    def blocks(
        self, n_nodes: int | None
    ) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[np.float64] | None]]:
        """Ends and weights, without self-loops and edges of no weight."""
        first = 0
        for table in read_blocks(parquet_files(self.path), self.columns, BLOCK):
            ends = [self._positions(table, name, n_nodes, first) for name in self.columns[:2]]
            self.highest = max(self.highest, int(ends[0].max()), int(ends[1].max()))
            weight, keep = None, ends[0] != ends[1]
            if len(self.columns) == 3:
                values = table.column(self.columns[2]).to_numpy()
                try:
                    weight = edge_weights(values, len(values))
                except (TypeError, ValueError) as error:
                    raise type(error)(f"{self.path}, counted from row {first}: {error}") from None
                assert weight is not None
                keep &= weight > 0
                weight = weight[keep]
            first += table.num_rows
            yield ends[0][keep], ends[1][keep], weight

    def _positions(
        self, table: Any, name: str, n_nodes: int | None, first: int
    ) -> NDArray[np.int64]:
        if table.column(name).null_count:
            row = first + table.column(name).is_null().to_pylist().index(True)
            raise ValueError(
                f"{self.path}, column {name!r} is empty at row {row}: an edge needs both of its ends."
            )
        found = node_positions(table.column(name).to_numpy(), f"{self.path}, column {name!r}")
        for bad, what in (
            (found < 0, "is negative"),
            (
                found >= (np.iinfo(np.int32).max if n_nodes is None else n_nodes),
                "names a node that is not there",
            ),
        ):
            if bad.any():
                row = int(np.flatnonzero(bad)[0])
                raise ValueError(
                    f"{self.path}, column {name!r} {what} at row {first + row} ({found[row]}): positions go from 0 to "
                    "n_nodes - 1."
                )
        return found


def adjacency_from_blocks(
    edges: EdgesOnDisk, n_nodes: int | None, directory: Path_ | None
) -> tuple[Any, int]:
    """Return the adjacency, in files in ``directory`` if given, and the pairs whose two directions disagree."""
    counts = _counted(edges, n_nodes)
    if not counts.size:
        raise ValueError(f"{edges.path} has no edge: say how many nodes there are, n_nodes=…")
    start = np.concatenate([[0], np.cumsum(counts)])
    index = np.int32 if max(start[-1], counts.size) <= np.iinfo(np.int32).max else np.int64
    if directory is not None:
        os.makedirs(directory, exist_ok=True)
        if os.path.exists(os.path.join(directory, FACTS)):
            raise FileExistsError(
                f"{directory} holds a graph: Graph.open it, or name another folder."
            )
    column = _room(directory, "indices", index, int(start[-1]))
    weight = _room(directory, "data", np.float64, int(start[-1]))
    _put_down(edges, counts.size, start, column, weight)
    start, one_way = _merged(start, column, weight, weighted=len(edges.columns) == 3)
    n_entries = int(start[-1])
    if directory is None:
        parts = (weight[:n_entries], column[:n_entries], start.astype(index))
        return sparse.csr_array(parts, shape=(counts.size, counts.size)), one_way
    Path(_file(directory, "indptr")).unlink(missing_ok=True)
    start.astype(index).tofile(_file(directory, "indptr"))
    for name, array in (("indices", column), ("data", weight)):
        if isinstance(array, np.memmap):
            array.flush()
        os.truncate(_file(directory, name), n_entries * array.itemsize)
    facts = {
        "format": "ebboost graph",
        "version": 1,
        "n_nodes": counts.size,
        "n_entries": n_entries,
    }
    with open(
        os.path.join(directory, FACTS), "w"
    ) as file:  # last: a graph without it was never finished
        json.dump({**facts, "index": np.dtype(index).name}, file)
    return opened(directory), one_way


def opened(directory: Path_) -> sparse.csr_array:
    """The adjacency that lies in a folder, mapped and not read."""
    try:
        with open(os.path.join(directory, FACTS)) as file:
            facts = json.load(file)
        n_nodes, n_entries, index = (facts[name] for name in ("n_nodes", "n_entries", "index"))
        if (
            facts["format"] != "ebboost graph"
            or facts["version"] != 1
            or index not in ("int32", "int64")
        ):
            raise ValueError(facts)
        shapes = {
            "data": ("float64", n_entries),
            "indices": (index, n_entries),
            "indptr": (index, n_nodes + 1),
        }
        for name, (kind, size) in shapes.items():
            if os.path.getsize(_file(directory, name)) != size * np.dtype(kind).itemsize:
                raise ValueError(f"{PARTS[name]} is not as long as it was written")
        parts = [
            _mapped(_file(directory, name), kind, size, "r")
            for name, (kind, size) in shapes.items()
        ]
        _refuse_unsound(parts[1], parts[2], n_nodes)
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{directory} holds no graph, or one that was not finished ({error}): make it with Graph.from_parquet(…, "
            "directory=…)."
        ) from None
    return sparse.csr_array(tuple(parts), shape=(n_nodes, n_nodes))


def _refuse_unsound(indices: Any, indptr: Any, n_nodes: int) -> None:
    """Compiled loops follow these numbers without looking: a disk may have changed them."""
    rising = (
        indptr[0] == 0 and indptr[-1] == indices.size and bool((indptr[1:] >= indptr[:-1]).all())
    )
    if not rising or (indices.size and not 0 <= indices.min() <= indices.max() < n_nodes):
        raise ValueError("an edge leads to a node that is not there")


def _file(directory: Path_, name: str) -> str:
    return os.path.join(directory, PARTS[name])


def _mapped(path: str, kind: Any, size: int, mode: Any) -> Any:
    """An array in a file; numpy maps none that is empty."""
    return np.memmap(path, kind, mode, shape=(size,)) if size else np.zeros(0, dtype=kind)


def _room(directory: Path_ | None, name: str, kind: Any, size: int) -> Any:
    """An array to be written to, in a file if there is a directory."""
    if directory is None:
        return np.empty(size, dtype=kind)
    # Not shortened: whoever has mapped an older one would read beyond its end, and the system ends such a process.
    Path(_file(directory, name)).unlink(missing_ok=True)
    open(_file(directory, name), "wb").close()
    return _mapped(_file(directory, name), kind, size, "w+")


def _counted(edges: EdgesOnDisk, n_nodes: int | None) -> NDArray[np.int64]:
    """How often each node is an end."""
    counts = np.zeros(n_nodes or 0, dtype=np.int64)
    for source, target, _ in edges.blocks(n_nodes):
        if edges.highest >= counts.size:
            counts = np.concatenate(
                [counts, np.zeros(edges.highest + 1 - counts.size, dtype=np.int64)]
            )
        for ends in (source, target):
            nodes, times = np.unique(ends, return_counts=True)
            counts[nodes] += times
    return counts


def _put_down(edges: EdgesOnDisk, n_nodes: int, start: IntArray, column: Any, weight: Any) -> None:
    """Put each edge down at both its ends, in the order of the file; at its target as ~source, so that it is told apart."""
    free = start[:-1].copy()
    for source, target, values in edges.blocks(n_nodes):
        rows, others = np.concatenate([source, target]), np.concatenate([target, ~source])
        order = np.argsort(rows, kind="stable")
        nodes, first, times = np.unique(rows[order], return_index=True, return_counts=True)
        place = np.repeat(free[nodes] - first, times) + np.arange(rows.size)
        column[place] = others[order]
        if values is not None:
            weight[place] = np.concatenate([values, values])[order]
        free[nodes] += times


def _merged(start: IntArray, column: Any, weight: Any, weighted: bool) -> tuple[IntArray, int]:
    """Sort and merge the entries of each node where they lie; return where its entries now start, and the one-way pairs."""
    ends = np.zeros_like(start)
    written = one_way = both_ways = 0
    row = 0
    while row < start.size - 1:
        # As many nodes as fill a block, and at least one.
        last = max(int(np.searchsorted(start, start[row] + BLOCK, side="right")) - 1, row + 1)
        part = slice(int(start[row]), int(start[last]))
        there = np.asarray(column[part])
        owner = np.repeat(np.arange(last - row), np.diff(start[row : last + 1]))
        backward = there < 0
        other = np.where(backward, ~there, there)
        values = np.asarray(weight[part]) if weighted else np.ones(there.size)
        order = np.lexsort((backward, other, owner))
        owner, other, backward, values = owner[order], other[order], backward[order], values[order]
        pair = _changes(owner, other)
        way = _changes(owner, other, backward)
        total = np.add.reduceat(values, way) if weighted and way.size else np.ones(way.size)
        # Of each pair one way or two; halving before adding keeps weights near the largest float finite.
        first = np.searchsorted(way, pair)
        two = np.diff(np.append(first, way.size)) == 2
        joint = total[first]
        joint[two] = 0.5 * joint[two] + 0.5 * total[first[two] + 1]
        if not np.isfinite(joint).all():
            raise ValueError(
                "weight overflows when repeated edges are added up: rescale the weights."
            )
        if (0.5 * joint == 0).any():
            raise ValueError(
                "weight is too small to be told from zero on some edge: rescale the weights."
            )
        differ = np.abs(total[first[two]] - total[first[two] + 1]) > 1e-12 * joint[two]
        both_ways += int(two.sum())
        one_way += int((~two).sum() + differ.sum())
        column[written : written + pair.size] = other[pair]
        weight[written : written + pair.size] = joint
        ends[row + 1 : last + 1] = written + np.searchsorted(
            owner[pair], np.arange(1, last - row + 1)
        )
        written += pair.size
        row = last
    return ends, one_way // 2 if both_ways else 0


def _changes(*keys: NDArray[Any]) -> IntArray:
    """Where any of these sorted keys differs from the one before."""
    if not keys[0].size:
        return np.zeros(0, dtype=np.int64)
    new = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    return np.flatnonzero(np.concatenate([[True], new]))
