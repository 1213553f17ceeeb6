"""Options that commands share, and the problem that files and options describe."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray

from ebboost._common import Array, IntArray
from ebboost.cli import columns
from ebboost.cli.console import note
from ebboost.cli.files import Source, Table, read_table
from ebboost.data.coordinates import coordinate_columns, first_outside, seem_degrees
from ebboost.graph import Graph
from ebboost.graph._edges import DISTANCE_NAMES, WEIGHT_NAMES, distance_weights
from ebboost.inspection.formatting import count, listed

ID_NAMES = ("id", "node", "node_id", "nodeid", "ids", "key", "code", "name", "index")
FROM_NAMES = ("source", "src", "from", "node1", "node_1", "a", "u", "i")
TO_NAMES = ("target", "dst", "to", "node2", "node_2", "b", "v", "j")
NO_WEIGHTS = "none"  # --weight none: all edges weigh 1
ROWS = "rows"  # --id rows: edges hold row numbers
Texts = NDArray[Any]
Task = Literal["auto", "regression", "classification"]
LossName = Literal[
    "poisson", "negative_binomial", "gamma", "tweedie", "huber", "quantile", "squared_error"
]


def option(names: str, metavar: str | None, text: str, **limits: Any) -> Any:
    """Return an option with its names, the name of its value, its help, and min and max."""
    return typer.Option(*names.split(), metavar=metavar, help=text, readable=False, **limits)


def _file(metavar: str, text: str) -> Any:
    return typer.Argument(metavar=metavar, readable=False, help=text)


_ID = "Column of NODES with the ids that EDGES uses; rows: EDGES holds row numbers from 0. "
_ID += "Default: a column named like an id, or the first."
_FROM = "Column of EDGES with one end of each edge. Default: source, from or the first."
_TO = "Column of EDGES with the other end. Default: target, to or the second."
_WEIGHT = "Column of EDGES with weights; none: all weigh 1. Default: weight, w, strength or "
_WEIGHT += "similarity, or distance as --distance."
_DISTANCE = "Column of EDGES with distances d: an edge weighs 1 / (1 + d / median d)."
_COORDINATES = "Two columns of NODES, such as lon lat, in place of EDGES: the nearest rows connect."
_GROUPS = "Column of NODES with the node of EDGES that each row belongs to, for several rows per "
_GROUPS += "node; without EDGES, groups have independent effects."
_TIME = "Column of numbers or dates: the latest labels are held out, not random ones."
_SQL = "NODES is a database, SQLite or DuckDB: the query that returns the table."
_EDGES_SQL = "EDGES is a database: the query that returns the edges."
_SKIP = "Leave out edges of nodes that are not in NODES."
_DROP = "Column to leave out; may be repeated."
_CATEGORICAL = "Column whose numbers are codes of categories; may be repeated."
_MISSING = "Value of the target that means unknown, such as -999; may be repeated."
_LOSS = f"{', '.join(get_args(LossName))}. Default: squared_error; with --exposure, "
_LOSS += "negative_binomial."
_EXPOSURE = "Column that counts or amounts are proportional to, such as population."
_OFFSET = "Column that is added to the score of each row."

NodesFile = Annotated[Path, _file("NODES", "Table with a row for each node: CSV, Parquet, Excel …")]
EdgesFile = Annotated[
    Path | None, _file("EDGES", "Edges between nodes: a table, GraphML, or .npz of scipy.")
]
ModelFile = Annotated[Path, _file("MODEL", "A model file written by ebboost fit.")]
_TARGET = "Column of NODES to predict; its empty cells are filled in."
Target = Annotated[str, option("--target -t", "COLUMN", _TARGET)]
Json = Annotated[bool, option("--json", None, "Print JSON.")]


@dataclass(frozen=True)
class Options:
    """What the columns of NODES and EDGES mean."""

    node_id: Annotated[str | None, option("--id", "COLUMN", _ID)] = None
    edge_from: Annotated[str | None, option("--edge-from", "COLUMN", _FROM)] = None
    edge_to: Annotated[str | None, option("--edge-to", "COLUMN", _TO)] = None
    weight: Annotated[str | None, option("--weight", "COLUMN", _WEIGHT)] = None
    distance: Annotated[str | None, option("--distance", "COLUMN", _DISTANCE)] = None
    coordinates: Annotated[
        tuple[str, str] | None, option("--coordinates", "COLUMN COLUMN", _COORDINATES)
    ] = None
    groups: Annotated[str | None, option("--groups", "COLUMN", _GROUPS)] = None
    time: Annotated[str | None, option("--time", "COLUMN", _TIME)] = None
    sql: Annotated[str | None, option("--sql", "QUERY", _SQL)] = None
    edges_sql: Annotated[str | None, option("--edges-sql", "QUERY", _EDGES_SQL)] = None
    skip_unknown: Annotated[bool, option("--skip-unknown", None, _SKIP)] = False
    task: Annotated[Task, option("--task", "TASK", ", ".join(get_args(Task)) + ".")] = "auto"
    drop: Annotated[list[str] | None, option("--drop", "COLUMN", _DROP)] = None
    categorical: Annotated[list[str] | None, option("--categorical", "COLUMN", _CATEGORICAL)] = None
    missing: Annotated[list[str] | None, option("--missing", "VALUE", _MISSING)] = None
    loss: Annotated[LossName | None, option("--loss", "NAME", _LOSS)] = None
    exposure: Annotated[str | None, option("--exposure", "COLUMN", _EXPOSURE)] = None
    offset: Annotated[str | None, option("--offset", "COLUMN", _OFFSET)] = None

    @property
    def loss_name(self) -> str:
        """The name of the loss; counts with exposure are negative binomial."""
        return self.loss or ("negative_binomial" if self.exposure else "auto")

    @property
    def roles(self) -> dict[str, str]:
        """Names of the columns that are arguments of ``fit``."""
        names = {name: getattr(self, name) for name in ("exposure", "offset", "groups", "time")}
        return {role: name for role, name in names.items() if name is not None}


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let typer see each field of a command's dataclass parameters as an option of its own."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command).parameters.values():
        one = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        if not is_dataclass(group := parameter.annotation):
            parameters.append(one)
            continue
        groups[parameter.name] = group
        for own in fields(group):
            new = {"default": own.default, "annotation": own.type}
            parameters.append(inspect.Parameter(own.name, one.kind, **new))

    @functools.wraps(command)
    def wrapper(**values: object) -> None:
        for name, group in groups.items():
            values[name] = group(**{own.name: values.pop(own.name) for own in fields(group)})
        command(**values)

    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper


@dataclass(frozen=True, eq=False)
class Problem:
    """What files and options describe."""

    X: pd.DataFrame  # its index holds the ids of the rows
    y: Any
    task: str
    arguments: dict[str, Any]  # of fit
    facts: dict[str, str]  # how the files were read
    source: dict[str, Any]  # what predict must know of the files


class Edges(NamedTuple):
    """The two ends of each edge as text, weights if there are such, and how they were read."""

    table: Table
    ends: tuple[Texts, Texts]
    weights: Array | None
    how: str
    names: dict[str, str | None]  # of the columns


class Joined(NamedTuple):
    """Ids of the rows of a table, and the edges between them and other nodes by position."""

    ids: Texts
    id_name: str | None
    source: IntArray
    target: IntArray
    weights: Array | None


def read_problem(nodes: Path, edges: Path | None, target: str, options: Options) -> Problem:
    """Read the files."""
    table = read_nodes(Source(nodes, options.sql))
    table.check(target, "--target")
    is_map = table.is_map and edges is None and not options.groups
    pair = options.coordinates
    if pair is None and is_map:  # columns that the geometry has become
        pair = (table.names[-2], table.names[-1])
    if options.groups is not None and (pair is not None or options.node_id is not None):
        raise typer.BadParameter("--groups excludes --coordinates and --id.")
    if options.groups is None and (edges is None) == (pair is None):
        raise typer.BadParameter("pass either EDGES or --coordinates, where edges come from.")
    for name in options.drop or []:
        table.check(name, "--drop")
    for name in options.categorical or []:
        table.check(name, "--categorical")
    arguments: dict[str, Any] = columns.roles(table, options.roles)
    ids, id_name, how, names = np.arange(len(table.frame)).astype(str).astype(object), None, "", {}
    if options.groups is not None:
        arguments["groups"], how, names, arguments["graph"] = _groups(table, edges, options)
    elif edges is not None:
        read = read_edges(Source(edges, options.edges_sql), table, options)
        joined = join(table, read, options)
        ids, id_name, how, names = joined.ids, joined.id_name, read.how, read.names
        graph = Graph.from_edges(*joined[2:], ids.size)
        if graph.n_edges == 0:
            raise ValueError(f"{edges} connects no two different nodes of {nodes.name}.")
        arguments["graph"] = Graph(graph.adjacency, ids)
    else:
        id_name = (
            None
            if options.node_id == ROWS
            else options.node_id or named_like(table.names, ID_NAMES)
        )
        ids = ids if id_name is None else unique_ids(table, id_name)
        arguments["coordinates"] = list(pair or ())
    if target == id_name:
        raise ValueError(f"--target {target!r} is the column of node ids: name another column.")
    leave = [target, *(options.drop or []), *(one for one in [id_name] if one is not None)]
    leave += [name for role, name in options.roles.items() if role != "time"]
    if table.names[0].startswith("unnamed ") and table.names[0] not in leave:
        note(f"The first column of {nodes.name} has no name and is left out.")
        leave.append(table.names[0])
    features = columns.features(table, leave, options.categorical or [])
    task = "regression" if options.loss_name != "auto" and options.task == "auto" else options.task
    y, task = columns.labels(table, target, task, options.missing or [])
    comma = ", decimal commas" if features.has_decimal_comma else ""
    facts = {"table": f"{nodes.name}, {table.layout}{comma}: "}
    facts["table"] += "row numbers are ids" if id_name is None else f"ids {id_name!r}"
    facts |= {"edge list": how} if how else {}
    facts |= {kind: listed(own, 8) for kind, own in features.facts.items()}
    if pair is not None:
        facts["coordinates"] = _check_coordinates(table, features.X, pair)
    source = {"id": id_name, "target": target, **options.roles, **names}
    X = features.X.set_axis(pd.Index(ids, dtype=object), axis=0)
    return Problem(X, y, task, arguments, facts, source)


def read_nodes(source: Source) -> Table:
    """Read a table of nodes, which has a header and a row at least."""
    table = read_table(source)
    numbers = pd.to_numeric(pd.Series(table.names, dtype=object), errors="coerce")
    if table.headless is not None and numbers.notna().all():
        remedy = "Put a line with the names of the columns first."
        raise ValueError(f"{source} has no header: its first line is {table.names}. {remedy}")
    if not len(table.frame):
        raise ValueError(f"{source} has a header but no rows: write a line for each node.")
    return table


def read_edges(source: Source, nodes: Table, options: Options, more: Sequence[str] = ()) -> Edges:
    """Read edges between nodes; ``more`` are ids of others than those in the table."""
    table = read_table(source)
    fields_ = table.names[:2]
    is_number = pd.to_numeric(pd.Series(table.names, dtype=object), errors="coerce").notna().all()
    if table.headless is not None and not {one.lower() for one in fields_} & {
        *FROM_NAMES,
        *TO_NAMES,
    }:
        known = [set(nodes.texts(name)) for name in _id_candidates(nodes, options.node_id)]
        if is_number or any(set(fields_) <= ids for ids in [*known, set(more)]):
            table = table.without_header()
    if len(table.names) < 2 or not len(table.frame):
        remedy = "name two nodes for each, or leave it out and pass --coordinates."
        raise ValueError(f"{source} lists no edges: {remedy}")
    one = options.edge_from
    if one is None:
        named = named_like(table.names, FROM_NAMES) if options.edge_to is None else None
        one = named or next(name for name in table.names if name != options.edge_to)
    table.check(one, "--edge-from")
    others = [name for name in table.names if name != one]
    other = table.check(options.edge_to or named_like(others, TO_NAMES) or others[0], "--edge-to")
    if one == other:
        raise ValueError(f"--edge-from and --edge-to must differ, both are {one!r}.")
    ends = (table.texts(one).to_numpy(), table.texts(other).to_numpy())
    for name, end in zip((one, other), ends, strict=True):
        if where := table.where(end == ""):
            raise ValueError(f"{where}: there is no node in column {name!r}.")
    weight, is_distance = _weight_column(table, [n for n in others if n != other], options)
    how = f"{source.path.name}, {table.layout}: from {one!r} to {other!r}, "
    how += (
        "all edges weigh 1"
        if weight is None
        else f"{'distances' if is_distance else 'weights'} {weight!r}"
    )
    weights = None
    if weight is not None:
        problem, weights = _weights(table, weight)
        if problem is not None and not problem.startswith("all"):
            raise ValueError(
                f"{source}, column {weight!r}: {problem}. Correct it, or drop the edge."
            )
        weights = distance_weights(weights) if is_distance else weights
    names = {"edge_from": one, "edge_to": other} if table.has_header else {}
    names |= {"distance" if is_distance else "weight": weight or NO_WEIGHTS}
    return Edges(table, ends, weights, how, names)


def _weight_column(table: Table, others: list[str], options: Options) -> tuple[str | None, bool]:
    """The column of weights or distances and whether it holds distances; says what was chosen."""
    file = table.path.name
    if options.weight is not None and options.distance is not None:
        raise ValueError("--weight and --distance exclude each other: name one column.")
    if options.weight == NO_WEIGHTS and NO_WEIGHTS not in others:
        return None, False
    if options.weight is not None:
        if named_like([options.weight], DISTANCE_NAMES):
            text = (
                f"Column {options.weight!r} of {file} is used as weights: a large one is a strong"
            )
            note(f"{text} tie. --distance takes it as distances.")
        return table.check(options.weight, "--weight"), False
    if options.distance is not None:
        return table.check(options.distance, "--distance"), True
    usable = [name for name in others if _weights(table, name)[0] is None]
    meant = named_like(others, WEIGHT_NAMES)
    if meant is None and not named_like(usable, DISTANCE_NAMES):
        meant = named_like(others, DISTANCE_NAMES)
    if meant is not None and meant not in usable:
        remedy = "Correct it, or ignore the column with --weight none: all edges weigh 1 then."
        raise ValueError(f"{table.source}, column {meant!r}: {_weights(table, meant)[0]}. {remedy}")
    if weight := named_like(usable, WEIGHT_NAMES):
        note(f"Column {weight!r} of {file} is used as edge weights. --weight none ignores it.")
        return weight, False
    if distance := named_like(usable, DISTANCE_NAMES):
        text = f"Column {distance!r} of {file} is used as distances d: edges weigh"
        note(f"{text} 1 / (1 + d / median d). --weight none ignores it.")
        return distance, True
    if others:
        offer = " --weight COLUMN takes one as edge weights, --distance COLUMN as distances."
        note(
            f"Columns of {file} that are not used: {listed([*map(repr, others)])}.{offer * bool(usable)}"
        )
    return None, False


def _weights(table: Table, name: str) -> tuple[str | None, Array]:
    """Why a column cannot be weights, None if it can: finite numbers from 0 up, not only 0."""
    column = columns.understand(table.frame[name], table.delimiter == ";")
    values = column.values if column.kind == "numbers" else pd.Series(np.nan, table.frame.index)
    array = values.to_numpy(dtype=np.float64)
    invalid = ~((array >= 0) & (array < np.inf))
    if invalid.any():
        row = int(invalid.argmax())
        shown = repr(table.texts(name).iloc[row])
        return f"line {table.line(row)} holds {shown}, not a number from 0 up", array
    return (None if array.any() else "all its values are 0"), array


def _id_candidates(nodes: Table, chosen: str | None) -> list[str]:
    """The column of ids that was named; else the column named like an id, and the first."""
    if chosen == ROWS and ROWS not in nodes.names:
        return []
    if chosen is not None:
        return [nodes.check(chosen, "--id")]
    return list(
        dict.fromkeys([named_like(nodes.names, ID_NAMES) or nodes.names[0], nodes.names[0]])
    )


def join(nodes: Table, edges: Edges, options: Options, more: Sequence[str] = ()) -> Joined:
    """Return the ids of the rows, and the edges; positions beyond the rows are those of ``more``.

    Ids are the column that was named, or the one named like an id, or the first, if the edges use
    its values; else the row numbers from 0, if the edges hold such.
    """
    candidates = _id_candidates(nodes, options.node_id)
    named = pd.unique(np.concatenate(edges.ends))
    wanted = pd.Series([one for one in named if one not in set(more)] or list(named), dtype=object)
    id_name = candidates[0] if candidates else None
    row_numbers = np.arange(len(nodes.frame)).astype(str).astype(object)
    if options.node_id is None:
        shares = {name: float(wanted.isin(nodes.texts(name)).mean()) for name in candidates}
        id_name = max(candidates, key=lambda name: shares[name])
        if shares[id_name] < 0.5:  # ends that it lacks are reported later
            if more or not wanted.isin(row_numbers).all():
                hint = "pass --id COLUMN"
                for name in nodes.names:
                    own = nodes.texts(name)
                    if wanted.isin(own).all() and own.is_unique:
                        hint = f"column {name!r} has them: pass --id {name!r}"
                        break
                raise ValueError(
                    f"Which column of {nodes.source} holds the ids that {edges.table.path.name} "
                    f"uses, such as {wanted[0]!r}? Not {candidates[0]!r}; {hint}."
                )
            id_name = None
    if id_name is None:
        note(f"{edges.table.path.name} holds row numbers of {nodes.path.name}, counted from 0.")
    ids = row_numbers if id_name is None else unique_ids(nodes, id_name)
    index = pd.Index([*ids, *more], dtype=object)
    if not index.is_unique:
        known = index[index.duplicated()][0]
        raise ValueError(f"{nodes.source}: the model was fitted on node {known!r}: leave it out.")
    source, target = (index.get_indexer(end) for end in edges.ends)
    unknown = (source < 0) | (target < 0)
    if unknown.any():
        row = int(unknown.argmax())
        example = edges.ends[0 if source[row] < 0 else 1][row]
        if not options.skip_unknown:
            place = "a row" if id_name is None else f"in column {id_name!r}"
            raise ValueError(
                f"{edges.table.where(unknown)}: node {example!r} is not {place} of "
                f"{nodes.path.name} (so in {unknown.sum():,} of {unknown.size:,} edges). Add it, "
                "choose another --id, or leave such edges out with --skip-unknown."
            )
        absent = f"{count(int(unknown.sum()), 'edge')} to nodes that are not in {nodes.path.name}"
        note(f"Skipped {absent}, such as {example!r}.")
    weights = None if edges.weights is None else edges.weights[~unknown]
    return Joined(ids, id_name, source[~unknown], target[~unknown], weights)


def unique_ids(nodes: Table, name: str) -> Texts:
    """Return the ids of the rows, which must differ."""
    nodes.check(name, "--id")
    texts = nodes.texts(name)
    if where := nodes.where((texts == "").to_numpy()):
        raise ValueError(f"{where}: column {name!r} is empty. Every row needs an id.")
    ids: Texts = texts.to_numpy(dtype=object)
    if texts.duplicated().any():
        value = texts[texts.duplicated()].iloc[0]
        lines = [nodes.line(int(row)) for row in np.flatnonzero(ids == value)[:2]]
        raise ValueError(
            f"{nodes.source}: id {value!r} in column {name!r} stands in lines {lines[0]} and "
            f"{lines[1]}: ids must differ. Remove one of the rows, or choose another --id. If "
            f"several rows belong to a node: ebboost fit --groups {name!r}."
        )
    return ids


def _groups(table: Table, edges: Path | None, options: Options) -> tuple[Texts, str, Any, Any]:
    """The groups of the rows, and the graph of the groups if there are edges."""
    assert options.groups is not None
    groups = table.texts(options.groups)
    if where := table.where((groups == "").to_numpy()):
        raise ValueError(f"{where}: column {options.groups!r} is empty. Name the group.")
    if edges is None:
        return groups.to_numpy(dtype=object), "", {}, None
    read = read_edges(Source(edges, options.edges_sql), table, options)
    ids = pd.unique(np.concatenate([groups.to_numpy(dtype=object), *read.ends]))
    source, target = (pd.Index(ids).get_indexer(end) for end in read.ends)
    if not (np.append(source, target) < groups.nunique()).any():
        raise ValueError(f"{edges} names no group of column {options.groups!r} of {table.source}.")
    graph = Graph.from_edges(source, target, read.weights, ids.size)
    return groups.to_numpy(dtype=object), read.how, read.names, Graph(graph.adjacency, ids)


def _check_coordinates(table: Table, X: pd.DataFrame, names: tuple[str, str]) -> str:
    """Return what coordinates are; raise an error with the line of a row without any."""
    for name in names:
        table.check(name, "--coordinates")
        values = (
            X[name] if name in X and X[name].dtype.kind in "biuf" else pd.Series(np.nan, X.index)
        )
        if where := table.where(values.isna().to_numpy()):
            cell = table.texts(name).iloc[int(values.isna().to_numpy().argmax())]
            got = repr(cell) if cell else "an empty cell"
            problem = f"column {name!r} must be a number in every row, got {got}"
            raise ValueError(f"{where}: {problem}. Every row needs coordinates.")
    positions, by_degrees = coordinate_columns(names, list(X))
    points = X.iloc[:, list(positions)].to_numpy(dtype=float)
    both = " and ".join(names)
    if not by_degrees:
        doubt = ", although they look like degrees" if seem_degrees(points, names) else ""
        return f"{both}: points of a plane{doubt}, distances in their units"
    if (row := first_outside(points)) is not None:
        problem = "latitude and longitude must be degrees. Rename the columns if they are not"
        raise ValueError(f"{table.source}, line {table.line(row)}: {problem}.")
    return f"{both}: latitude and longitude in degrees, great-circle distances"


def named_like(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """Return the first of the usual names that there is, in any case."""
    lower = {name.strip().lower(): name for name in reversed(names)}
    return next((lower[name] for name in usual if name in lower), None)
