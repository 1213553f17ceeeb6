"""A table of nodes and a file of edges, joined by node ids into a table and a graph."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from ebboost.cli import tables
from ebboost.graph import Graph
from ebboost.graph.graphml import read_graphml

ID_NAMES = ("id", "node", "node_id", "nodeid", "ids", "key", "code", "name", "index")
FROM_NAMES = ("source", "src", "from", "node1", "node_1", "a", "u", "i")
TO_NAMES = ("target", "dst", "to", "node2", "node_2", "b", "v", "j")
ROWS = "rows"  # --id rows: edges hold row numbers

Ids = NDArray[Any]


class UnknownNodeError(ValueError):
    """An edge names a node that is not in the table."""

    def __init__(self, message: str, node: str) -> None:
        super().__init__(message)
        self.node = node


@dataclass
class NodesAndEdges:
    """A table without its ids, the ids of its rows and the graph of them."""

    table: pd.DataFrame
    ids: Ids  # text, or row numbers
    id_name: str | None  # None where edges hold row numbers
    graph: Graph


def read_nodes_and_edges(
    nodes: Path,
    edges: Path,
    *,
    node_id: str | None = None,
    edge_from: str | None = None,
    edge_to: str | None = None,
    weight: str | None = None,
    skip_unknown: bool = False,
    fitted_ids: Ids | None = None,
) -> NodesAndEdges:
    """Read a table of nodes (CSV, Parquet) and a file of edges (CSV, Parquet, GraphML).

    Without ``node_id``, ids are the column named like an id or the first, if the edges use its
    values, else the row numbers from 0, if the edges hold such. ``fitted_ids`` are ids of more
    nodes that edges may name; they follow those of the table. Warns of what a user should know.
    """
    columns = tables.column_names(nodes)
    by_row = node_id == ROWS and ROWS not in columns
    more_ids = np.zeros(0, dtype=object) if fitted_ids is None else fitted_ids
    if by_row and more_ids.size:
        raise ValueError("--attach joins nodes by ids: name the column of ids, not --id rows.")
    if node_id is not None and not by_row:
        tables.check_column(columns, node_id, "--id", nodes)
    ends, weights = _read_edges(edges, edge_from, edge_to, weight)
    id_name = None if by_row else node_id
    if node_id is None:
        id_name = _find_id_column(nodes, columns, ends, more_ids, edges)
    table = tables.read_table(nodes, text=[] if id_name is None else [id_name])
    if not len(table):
        raise ValueError(f"{nodes} has a header but no rows.")
    if id_name is None:
        _warn(f"{edges.name} holds row numbers of {nodes.name}, counted from 0.")
        ids: Ids = np.arange(len(table))
        positions = [_row_numbers(end, len(table)) for end in ends]
    else:
        ids = table.pop(id_name).to_numpy(dtype=object)
        positions = _match_ids(ids, more_ids, ends, id_name, nodes)
        if not _is_graphml(edges):
            _check_header(edges, ids)
    if columns[0].startswith("unnamed ") and columns[0] in table.columns:
        _warn(f"The first column of {nodes.name} has no name and is left out.")
        del table[columns[0]]
    known = _known_edges(nodes, edges, id_name, ends, positions, skip_unknown)
    weights = None if weights is None else weights[known]
    n_nodes = ids.size + more_ids.size
    graph = Graph.from_edges(positions[0][known], positions[1][known], weights, n_nodes)
    if graph.n_edges == 0:
        raise ValueError(f"{edges} connects no two different nodes of {nodes.name}.")
    if id_name is not None:
        graph = Graph(graph.adjacency, np.concatenate([ids, more_ids]))
    return NodesAndEdges(table, ids, id_name, graph)


def attach(new: Graph, fitted: Graph) -> Graph:
    """Return ``new``, whose last nodes are those of ``fitted``, with the edges of ``fitted``."""
    n_new = new.n_nodes - fitted.n_nodes
    old = sparse.block_diag([sparse.csr_array((n_new, n_new)), fitted.adjacency], format="csr")
    return Graph(sparse.csr_array(new.adjacency.maximum(old)), new.node_ids)


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)


def _is_graphml(path: Path) -> bool:
    return path.suffix.lower() in (".graphml", ".xml")


def _read_edges(
    path: Path, edge_from: str | None, edge_to: str | None, weight: str | None
) -> tuple[list[Ids], NDArray[np.float64] | None]:
    """The two ends of each edge as text, and the weights if there is a column of them."""
    if _is_graphml(tables.existing(path)):
        file = read_graphml(path, weight or "weight")
        ends = [file.source, file.target]
        weights = None if weight is None else file.weight
        if weight is not None and weights is None:
            raise ValueError(f"{path}: no edge attribute is called {weight!r} (--weight).")
        if weight is None and file.weight is not None:
            _warn(f"{path.name} has edge weights: use them with --weight weight.")
    else:
        columns = tables.column_names(path)
        names = _end_columns(path, columns, edge_from, edge_to)
        if weight is not None:
            tables.check_column(columns, weight, "--weight", path)
        elif unused := [repr(name) for name in columns if name not in names]:
            text = f"Columns of {path.name} that are not used: {', '.join(unused)}."
            _warn(f"{text} --weight COLUMN takes one as edge weights.")
        table = tables.read_table(path, text=names, only=[*names, *([weight] if weight else [])])
        ends = [table[name].to_numpy(dtype=object) for name in names]
        weights = None if weight is None else _check_weights(table[weight], path)
        for name, end in zip(names, ends, strict=True):
            if line := tables.first_line(end == ""):
                raise ValueError(f"{path}, line {line}: there is no node in column {name!r}.")
    if not ends[0].size:
        raise ValueError(f"{path} lists no edges.")
    return ends, weights


def _end_columns(
    path: Path, columns: list[str], edge_from: str | None, edge_to: str | None
) -> list[str]:
    """The columns of the two ends: as asked for, named so, or the first two."""
    if edge_from is None:
        named = _named_like(columns, FROM_NAMES) if edge_to is None else None
        edge_from = named or next(name for name in columns if name != edge_to)
    tables.check_column(columns, edge_from, "--edge-from", path)
    if edge_to is None:
        others = [name for name in columns if name != edge_from]
        edge_to = _named_like(others, TO_NAMES) or others[0]
    tables.check_column(columns, edge_to, "--edge-to", path)
    if edge_from == edge_to:
        raise ValueError(f"--edge-from and --edge-to must differ, both are {edge_from!r}.")
    return [edge_from, edge_to]


def _check_header(path: Path, ids: Ids) -> None:
    """Raise an error if the names of the columns are nodes: the first line is an edge then."""
    first, second, *_ = tables.column_names(path)
    if {first, second} <= set(ids) and first.lower() not in FROM_NAMES + TO_NAMES:
        raise ValueError(
            f"{path} has no header: its first line names the nodes {first!r} and {second!r}. "
            "Put a line with the names of the columns first."
        )


def _named_like(columns: Sequence[str], names: Sequence[str]) -> str | None:
    lower = {column.strip().lower(): column for column in reversed(columns)}
    return next((lower[name] for name in names if name in lower), None)


def _check_weights(column: pd.Series, path: Path) -> NDArray[np.float64]:
    weights: NDArray[np.float64] = tables.as_numbers(column).to_numpy(dtype=np.float64)
    if line := tables.first_line(~np.isfinite(weights) | (weights < 0)):
        value = str(column.iloc[line - tables.FIRST_LINE])
        text = f"the weight in column {column.name!r} must be a number from 0 up, got {value!r}."
        raise ValueError(f"{path}, line {line}: {text}")
    return weights


def _find_id_column(
    path: Path, columns: list[str], ends: list[Ids], more_ids: Ids, edges: Path
) -> str | None:
    """The column that holds ids, or None where the edges hold row numbers."""
    named_ids = pd.unique(np.concatenate(ends))
    new_ids = named_ids[~np.isin(named_ids.astype(str), more_ids.astype(str))]
    if not new_ids.size:
        new_ids = named_ids
    named = _named_like(columns, ID_NAMES) or columns[0]
    candidates = list(dict.fromkeys([named, columns[0]]))
    values = tables.read_table(path, text=candidates, only=candidates)
    shares = {name: _share_in(new_ids, values[name]) for name in candidates}
    best = max(candidates, key=lambda name: shares[name])
    if shares[best] >= 0.5:  # ends that it lacks are reported later
        return best
    if not more_ids.size and (_row_numbers(named_ids, len(values)) >= 0).all():
        return None
    hint = "pass --id COLUMN"
    for name, column in tables.read_table(path, text=columns).items():
        if _share_in(new_ids, column) == 1.0 and column.is_unique:
            hint = f"column {name!r} has them: pass --id {name!r}"
            break
    raise ValueError(
        f"Which column of {path} holds the ids that {edges.name} uses, such as "
        f"{str(new_ids[0])!r}? Not {named!r}; {hint}."
    )


def _share_in(ids: Ids, column: pd.Series) -> float:
    return float(pd.Series(ids).isin(column).mean())


def _row_numbers(texts: Ids, n_rows: int) -> NDArray[np.int64]:
    """Text as row numbers, -1 where it is not one."""
    digits = (
        text if text.isascii() and text.isdecimal() and len(text) < 19 else "-1"
        for text in texts.tolist()
    )
    rows = np.fromiter(map(int, digits), np.int64, texts.size)
    return np.where(rows < n_rows, rows, -1)


def _match_ids(
    ids: Ids, more_ids: Ids, ends: list[Ids], name: str, path: Path
) -> list[NDArray[np.int64]]:
    """Positions of the ends of edges among the ids of all nodes, -1 if absent."""
    if line := tables.first_line(ids == ""):
        raise ValueError(f"{path}, line {line}: column {name!r} is empty. Every row needs an id.")
    index = pd.Index(ids)
    if not index.is_unique:
        second = int(np.flatnonzero(index.duplicated())[0])
        lines = np.flatnonzero(ids == ids[second])[:2] + tables.FIRST_LINE
        raise ValueError(
            f"{path}: id {ids[second]!r} in column {name!r} stands in lines {lines[0]} and "
            f"{lines[1]}: ids must differ. Remove one of the rows, or choose another --id."
        )
    index = index.append(pd.Index(more_ids))
    if not index.is_unique:
        node = index[index.duplicated()][0]
        raise ValueError(f"{path}: the model was fitted on node {node!r}: leave it out.")
    return [index.get_indexer(end) for end in ends]


def _known_edges(
    nodes: Path,
    edges: Path,
    id_name: str | None,
    ends: list[Ids],
    positions: list[NDArray[np.int64]],
    skip_unknown: bool,
) -> NDArray[np.bool_]:
    """Which edges have two known ends; raises an error, or warns, if some have not."""
    unknown: NDArray[np.bool_] = (positions[0] < 0) | (positions[1] < 0)
    if not unknown.any():
        return ~unknown
    row = int(unknown.argmax())
    example = str(ends[0 if positions[0][row] < 0 else 1][row])
    n_unknown = f"{unknown.sum():,}"
    if skip_unknown:
        text = f"{n_unknown} edges name nodes that are not in {nodes.name}, such as {example!r}"
        _warn(f"{text}: skipped.")
        return ~unknown
    line = "" if _is_graphml(edges) else f", line {row + tables.FIRST_LINE}"
    expected = "a row" if id_name is None else f"in column {id_name!r}"
    raise UnknownNodeError(
        f"{edges}{line}: node {example!r} is not {expected} of {nodes.name} (so in {n_unknown} of "
        f"{unknown.size:,} edges). Add it, choose another --id, or leave such edges out with "
        "--skip-unknown.",
        example,
    )
