"""A table of nodes and a file of edges, joined by node ids into a table and a graph."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ebboost.cli import tables
from ebboost.cli.formats import TableSource
from ebboost.cli.text_columns import as_numbers
from ebboost.graph import DISTANCE_NAMES, WEIGHT_NAMES, Graph, distance_weights
from ebboost.graph.graphml import read_graphml
from ebboost.inspection.formatting import count

ID_NAMES = ("id", "node", "node_id", "nodeid", "ids", "key", "code", "name", "index")
FROM_NAMES = ("source", "src", "from", "node1", "node_1", "a", "u", "i")
TO_NAMES = ("target", "dst", "to", "node2", "node_2", "b", "v", "j")
NO_WEIGHTS = "none"  # --weight none: all edges weigh 1
ROWS = "rows"  # --id rows: edges hold row numbers
NO_EDGES = "lists no edges: name two nodes for each, or leave it out and pass --coordinates."

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
    graph: Graph | None = None
    edges: str = ""  # how the edges were read
    read: dict[str, str] = field(default_factory=dict)  # what was understood of all files


@dataclass(frozen=True)
class EdgeColumns:
    """The columns of a file of edges: two ends, and weights or distances; None: by their names."""

    source: str | None = None
    target: str | None = None
    weight: str | None = None
    distance: str | None = None


def read_nodes_and_edges(
    nodes: TableSource,
    edges: TableSource,
    *,
    node_id: str | None = None,
    columns: EdgeColumns | None = None,
    skip_unknown: bool = False,
    directed: bool = False,
    fitted_ids: Ids | None = None,
) -> NodesAndEdges:
    """Read a table of nodes and a file of edges: a table, or GraphML.

    Without ``node_id``, ids are the column named like an id or the first, if the edges use its
    values, else the row numbers from 0, if the edges hold such. ``fitted_ids`` are ids of more
    nodes that edges may name; they precede those of the table. Warns of what a user should know.
    """
    names = tables.column_names(nodes)
    by_row = node_id == ROWS and ROWS not in names
    more_ids = np.zeros(0, dtype=object) if fitted_ids is None else fitted_ids
    if by_row and more_ids.size:
        raise ValueError("--attach joins nodes by ids: name the column of ids, not --id rows.")
    if node_id is not None and not by_row:
        tables.check_column(names, node_id, "--id", nodes)
    candidates = _id_candidates(names) if node_id is None else [node_id] * (not by_row)
    header = _has_header(edges, nodes, candidates, more_ids)
    names_of_ends, weights, how = _read_edges(edges, columns or EdgeColumns(), header)
    id_name = None if by_row else node_id
    if node_id is None:
        id_name = _find_id_column(nodes, names, names_of_ends, more_ids, edges)
    table = _read_rows(nodes, [] if id_name is None else [id_name])
    if id_name is None:
        _warn(f"{edges.name} holds row numbers of {nodes.name}, counted from 0.")
        ids: Ids = np.arange(len(table))
        positions = [_row_numbers(end, len(table)) for end in names_of_ends]
    else:
        ids = table.pop(id_name).to_numpy(dtype=object)
        positions = _match_ids(ids, more_ids, names_of_ends, id_name, nodes)
    if names[0].startswith("unnamed ") and names[0] in table.columns:
        _warn(f"The first column of {nodes.name} has no name and is left out.")
        del table[names[0]]
    known = _known_edges(nodes, edges, id_name, names_of_ends, positions, skip_unknown, header)
    weights = None if weights is None else weights[known]
    n_nodes = ids.size + more_ids.size
    source, target = (position[known] for position in positions)
    graph = Graph.from_edges(source, target, weights, n_nodes, directed)
    if graph.n_edges == 0:
        raise ValueError(f"{edges} connects no two different nodes of {nodes.name}.")
    if id_name is not None:
        all_ids = np.concatenate([more_ids, ids])
        graph = Graph(graph.adjacency, all_ids, outgoing=graph.outgoing)
    return NodesAndEdges(table, ids, id_name, graph, how)


def read_nodes(nodes: TableSource, node_id: str | None = None) -> NodesAndEdges:
    """Read a table of nodes alone; ids are the column named like an id, or row numbers."""
    names = tables.column_names(nodes)
    by_row = node_id == ROWS and ROWS not in names
    if node_id is not None and not by_row:
        tables.check_column(names, node_id, "--id", nodes)
    id_name = None if by_row else node_id or _named_like(names, ID_NAMES)
    table = _read_rows(nodes, [] if id_name is None else [id_name])
    if id_name is None:
        return NodesAndEdges(table, np.arange(len(table)), None)
    ids = table.pop(id_name).to_numpy(dtype=object)
    _match_ids(ids, np.zeros(0, dtype=object), [], id_name, nodes)
    return NodesAndEdges(table, ids, id_name)


def read_rows_and_edges(
    nodes: TableSource, edges: TableSource | None, groups: str, columns: EdgeColumns
) -> NodesAndEdges:
    """Read rows, several of which belong to a node of the edges; ids are row numbers."""
    table = _read_rows(nodes, [groups])
    if line := tables.first_line((table[groups] == "").to_numpy(), nodes):
        raise ValueError(f"{nodes}, line {line}: column {groups!r} is empty. Name the group.")
    graph = None
    how = ""
    if edges is not None:
        header = _has_header(edges, nodes, [groups], np.zeros(0, dtype=object))
        ends, weights, how = _read_edges(edges, columns, header)
        ids = pd.unique(np.concatenate([table[groups].to_numpy(dtype=object), *ends]))
        source, target = (pd.Index(ids).get_indexer(end) for end in ends)
        n_groups = table[groups].nunique()
        if not (np.append(source, target) < n_groups).any():
            raise ValueError(f"{edges} names no group of column {groups!r} of {nodes.name}.")
        graph = Graph(Graph.from_edges(source, target, weights, ids.size).adjacency, ids)
    return NodesAndEdges(table, np.arange(len(table)), None, graph, how)


def _read_rows(
    nodes: TableSource, text: Sequence[str], only: Sequence[str] | None = None
) -> pd.DataFrame:
    """The table of nodes, or some of its columns, which has a row at least."""
    table = tables.read_table(nodes, text=text, only=only)
    if not len(table):
        raise ValueError(f"{nodes} has a header but no rows: write a line for each node.")
    return table


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)


def _is_graphml(path: TableSource) -> bool:
    return path.suffix.lower() in (".graphml", ".xml")


def _id_candidates(names: Sequence[str]) -> list[str]:
    """The column named like an id, and the first."""
    return list(dict.fromkeys([_named_like(names, ID_NAMES) or names[0], names[0]]))


def _has_header(
    edges: TableSource, nodes: TableSource, candidates: Sequence[str], more_ids: Ids
) -> bool:
    """Whether the first line names columns; it is an edge if it holds numbers or two node ids."""
    fields = [] if _is_graphml(edges) else tables.first_fields(edges)
    if len(fields) < 2:
        return True
    if as_numbers(pd.Series(fields)).notna().all():
        return False
    ends = fields[:2]
    if {end.lower() for end in ends} & {*FROM_NAMES, *TO_NAMES}:
        return True
    values = tables.read_table(nodes, text=candidates, only=candidates)
    ids = [*(set(values[name]) for name in candidates), set(map(str, more_ids.tolist()))]
    return not any(set(ends) <= known for known in ids)


def _read_edges(
    path: TableSource, columns: EdgeColumns, header: bool
) -> tuple[list[Ids], NDArray[np.float64] | None, str]:
    """The two ends of each edge as text, the weights if there is a column of them, and how so."""
    if isinstance(path, Path) and _is_graphml(tables.existing(path)):
        return _read_graphml(path, columns)
    names = tables.column_names(path, header)
    ends = _end_columns(path, names, columns.source, columns.target)
    others = [name for name in names if name not in ends]
    table = tables.read_table(path, text=ends, header=header)
    if not len(table):
        raise ValueError(f"{path} {NO_EDGES}")
    weight, is_distance = _weight_column(path, table[others], columns, header)
    values = [table[name].to_numpy(dtype=object) for name in ends]
    for name, end in zip(ends, values, strict=True):
        if (end == "").any():
            line = tables.line_of(path, int((end == "").argmax()), header)
            raise ValueError(f"{path}, line {line}: there is no node in column {name!r}.")
    how = f"{path.name}, {table.attrs['layout']}: from {ends[0]!r} to {ends[1]!r}"
    if weight is None:
        return values, None, f"{how}, all edges weigh 1"
    numbers = _check_weights(table[weight], path, header)
    if is_distance:
        return values, distance_weights(numbers), f"{how}, distances {weight!r}"
    return values, numbers, f"{how}, weights {weight!r}"


def _read_graphml(
    path: Path, columns: EdgeColumns
) -> tuple[list[Ids], NDArray[np.float64] | None, str]:
    name = columns.weight or columns.distance
    file = read_graphml(path, name or "weight")
    if not file.source.size:
        raise ValueError(f"{path} {NO_EDGES}")
    if name not in (None, NO_WEIGHTS) and file.weight is None:
        raise ValueError(f"{path}: no edge attribute is called {name!r} (--weight, --distance).")
    weights = None if columns.weight == NO_WEIGHTS else file.weight
    if columns.distance is not None and weights is not None:
        weights = distance_weights(weights)
    elif name is None and weights is not None:
        _warn(f"{path.name}: 'weight' is used as edge weights. --weight none ignores it.")
    how = "all edges weigh 1" if weights is None else f"weights {name or 'weight'!r}"
    return [file.source, file.target], weights, f"{path.name}, GraphML: {how}"


def _weight_column(
    path: TableSource, others: pd.DataFrame, columns: EdgeColumns, header: bool
) -> tuple[str | None, bool]:
    """The column of weights or distances and whether it holds distances; warns of a choice."""
    names = list(others)
    if columns.weight is not None and columns.distance is not None:
        raise ValueError("--weight and --distance exclude each other: name one column.")
    if columns.weight == NO_WEIGHTS and NO_WEIGHTS not in names:
        return None, False
    for name, option in ((columns.weight, "--weight"), (columns.distance, "--distance")):
        if name is None:
            continue
        if option == "--weight" and _named_like([name], DISTANCE_NAMES):
            text = f"Column {name!r} of {path.name} is used as weights: a large one is a strong tie"
            _warn(f"{text}. --distance takes it as distances.")
        return tables.check_column(names, name, option, path), option == "--distance"
    numeric = [name for name in names if _weight_problem(others[name], path, header) is None]
    unusable = _named_like(names, WEIGHT_NAMES)
    if unusable is None and not _named_like(numeric, DISTANCE_NAMES):
        unusable = _named_like(names, DISTANCE_NAMES)
    if unusable is not None and unusable not in numeric:
        problem = _weight_problem(others[unusable], path, header)
        remedy = "Correct it, or ignore the column with --weight none: all edges weigh 1 then."
        raise ValueError(f"{path}, column {unusable!r}: {problem}. {remedy}")
    if weight := _named_like(numeric, WEIGHT_NAMES):
        text = f"Column {weight!r} of {path.name} is used as edge weights."
        _warn(f"{text} --weight none ignores it.")
        return weight, False
    if distance := _named_like(numeric, DISTANCE_NAMES):
        text = f"Column {distance!r} of {path.name} is used as distances d: edges weigh"
        _warn(f"{text} 1 / (1 + d / median d). --weight none ignores it.")
        return distance, True
    if names:
        text = f"Columns of {path.name} that are not used: {', '.join(map(repr, names))}."
        offer = " --weight COLUMN takes one as edge weights, --distance COLUMN as distances."
        _warn(text + offer * bool(numeric))
    return None, False


def _weight_problem(column: pd.Series, path: TableSource, header: bool) -> str | None:
    """Why a column cannot be weights, None if it holds finite numbers from 0 up, not only 0."""
    values = as_numbers(column)
    invalid = ~((values >= 0) & (values < np.inf)).to_numpy()
    if invalid.any():
        row = int(invalid.argmax())
        where = f"line {tables.line_of(path, row, header)} holds {str(column.iloc[row])!r}"
        return f"{where}, not a number from 0 up"
    return None if values.any() else "all its values are 0"


def _end_columns(
    path: TableSource, columns: list[str], edge_from: str | None, edge_to: str | None
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


def _named_like(columns: Sequence[str], names: Sequence[str]) -> str | None:
    lower = {column.strip().lower(): column for column in reversed(columns)}
    return next((lower[name] for name in names if name in lower), None)


def _check_weights(column: pd.Series, path: TableSource, header: bool) -> NDArray[np.float64]:
    problem = _weight_problem(column, path, header)
    if problem is not None and problem.startswith("line"):
        where = f"{path}, column {column.name!r}"
        raise ValueError(f"{where}: {problem}. Correct it, or drop the edge.")
    weights: NDArray[np.float64] = as_numbers(column).to_numpy(dtype=np.float64)
    return weights


def _find_id_column(
    path: TableSource, columns: list[str], ends: list[Ids], more_ids: Ids, edges: TableSource
) -> str | None:
    """The column that holds ids, or None where the edges hold row numbers."""
    named_ids = pd.unique(np.concatenate(ends))
    new_ids = named_ids[~np.isin(named_ids.astype(str), more_ids.astype(str))]
    if not new_ids.size:
        new_ids = named_ids
    candidates = _id_candidates(columns)
    values = _read_rows(path, candidates, candidates)
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
        f"{str(new_ids[0])!r}? Not {candidates[0]!r}; {hint}."
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
    ids: Ids, more_ids: Ids, ends: list[Ids], name: str, path: TableSource
) -> list[NDArray[np.int64]]:
    """Positions of the ends of edges among the ids of all nodes, -1 if absent."""
    if line := tables.first_line(ids == "", path):
        raise ValueError(f"{path}, line {line}: column {name!r} is empty. Every row needs an id.")
    index = pd.Index(ids)
    if not index.is_unique:
        second = int(np.flatnonzero(index.duplicated())[0])
        rows = np.flatnonzero(ids == ids[second])[:2].tolist()
        lines = [tables.line_of(path, row) for row in rows]
        raise ValueError(
            f"{path}: id {ids[second]!r} in column {name!r} stands in lines {lines[0]} and "
            f"{lines[1]}: ids must differ. Remove one of the rows, or choose another --id. If "
            f"several rows belong to a node: ebboost fit --groups {name!r}."
        )
    index = pd.Index(more_ids).append(index)
    if not index.is_unique:
        node = index[index.duplicated()][0]
        raise ValueError(f"{path}: the model was fitted on node {node!r}: leave it out.")
    return [index.get_indexer(end) for end in ends]


def _known_edges(
    nodes: TableSource,
    edges: TableSource,
    id_name: str | None,
    ends: list[Ids],
    positions: list[NDArray[np.int64]],
    skip_unknown: bool,
    header: bool,
) -> NDArray[np.bool_]:
    """Which edges have two known ends; raises an error, or warns, if some have not."""
    unknown: NDArray[np.bool_] = (positions[0] < 0) | (positions[1] < 0)
    if not unknown.any():
        return ~unknown
    row = int(unknown.argmax())
    example = str(ends[0 if positions[0][row] < 0 else 1][row])
    n_unknown = f"{unknown.sum():,}"
    if skip_unknown:
        absent = f"{count(int(unknown.sum()), 'edge')} to nodes that are not in {nodes.name}"
        _warn(f"Skipped {absent}, such as {example!r}.")
        return ~unknown
    line = "" if _is_graphml(edges) else f", line {tables.line_of(edges, row, header)}"
    expected = "a row" if id_name is None else f"in column {id_name!r}"
    raise UnknownNodeError(
        f"{edges}{line}: node {example!r} is not {expected} of {nodes.name} (so in {n_unknown} of "
        f"{unknown.size:,} edges). Add it, choose another --id, or leave such edges out with "
        "--skip-unknown.",
        example,
    )
