"""Options that commands share, and the problem that files and options describe."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray

from ebboost.cli import columns
from ebboost.cli.files import Table, read_table
from ebboost.cli.outputs import note
from ebboost.data.coordinates import coordinate_columns, seem_degrees
from ebboost.estimators import EBBSClassifier, EBBSRegressor
from ebboost.formatting import count, listed
from ebboost.graph import Graph
from ebboost.graph._edges import DISTANCE_NAMES, WEIGHT_NAMES, distance_weights

ID_NAMES = ("id", "node", "node_id", "nodeid", "ids", "key", "code", "name", "index")
FROM_NAMES = ("source", "src", "from", "node1", "node_1", "a", "u", "i")
TO_NAMES = ("target", "dst", "to", "node2", "node_2", "b", "v", "j")
NO_WEIGHTS = "none"  # --weight none: all edges weigh 1
ROWS = "rows"  # --id rows: edges hold row numbers
Texts = NDArray[Any]
Task = Literal["auto", "regression", "classification"]
Preset = Literal["default", "fast"]
Loss = Literal[
    "poisson",
    "negative_binomial",
    "zero_inflated_poisson",
    "zero_inflated_negative_binomial",
    "hurdle_poisson",
    "hurdle_negative_binomial",
    "gamma",
    "tweedie",
    "binomial",
    "beta",
    "huber",
    "quantile",
    "squared_error",
]


def option(names: str, metavar: str | None, text: str, **limits: Any) -> Any:
    """Return an option with its names, the name of its value, its help, and min and max."""
    return typer.Option(*names.split(), metavar=metavar, help=text, readable=False, **limits)


def _file(metavar: str, text: str) -> Any:
    return typer.Argument(metavar=metavar, readable=False, help=text)


_ID = "Column of NODES with the ids that EDGES uses; rows: EDGES holds row numbers from 0."
_FROM = "Column of EDGES with one end of each edge. Default: source, from or the first."
_TO = "Column of EDGES with the other end. Default: target, to or the second."
_WEIGHT = (
    "Column of EDGES with weights; none: all weigh 1. Default: weight, w, strength, similarity."
)
_DISTANCE = "Column of EDGES with distances d: an edge weighs 1 / (1 + d / median d)."
_COORDINATES = "Two columns of NODES, such as lon lat, in place of EDGES: the nearest rows connect."
_GROUPS = (
    "Column of NODES with the group of each row; EDGES, if any, connect the groups. Several: "
    "commune,client; EDGES connects the first."
)
_TIME = "Column of numbers or dates: the latest labels are held out, not random ones."
_SQL = "The table is in a database, SQLite or DuckDB: the query that returns it."
_EDGES_SQL = "The edges are in a database: the query that returns them."
_SKIP = "Leave out edges of nodes that are not in NODES."
_DROP = "Column to leave out; may be repeated."
_CATEGORICAL = "Column whose numbers are codes of categories; may be repeated."
_MISSING = "Value of the target that means unknown, such as -999; may be repeated."
_LOSS = f"{', '.join(get_args(Loss))}. Default: squared_error; with --exposure, negative_binomial."
_EXPOSURE = "Column that counts or amounts are proportional to, or the trials of shares."
_OFFSET = "Column that is added to the score of each row."

_PRESET = "fast: a first look, with two models in place of dozens."
_ROUNDS = "Maximum rounds of each model; fewer if the error at held-out labels stops falling."
_FOLDS = (
    "Folds of the labels, which measure errors: a number (default: 3 to 8), or how to draw them. "
    "random; distance: as far from other labels as the rows to predict (the default if these are "
    "far); blocks: squares of the map, as wide as labels are correlated."
)
FOLDS = ("random", "distance", "blocks")
_SECONDS = "End the fit after so many seconds, and keep what is trained by then."
_SEED = "Random seed: the same seed and data give the same result."

NodesFile = Annotated[Path, _file("NODES", "Table with a row for each node: CSV, Parquet, Excel …")]
EdgesFile = Annotated[Path | None, _file("EDGES", "Edges: a table, GraphML, or .npz of scipy.")]
ModelFile = Annotated[Path, _file("MODEL", "A model file written by ebboost fit.")]
Sql = Annotated[str | None, option("--sql", "QUERY", _SQL)]
EdgesSql = Annotated[str | None, option("--edges-sql", "QUERY", _EDGES_SQL)]
_TARGET = "Column of NODES to predict where it is empty."
Target = Annotated[str, option("--target -t", "COLUMN", _TARGET)]


@dataclass(frozen=True)
class Options:
    """What the columns of NODES and EDGES mean, and how to fit."""

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
    sql: Sql = None
    edges_sql: EdgesSql = None
    skip_unknown: Annotated[bool, option("--skip-unknown", None, _SKIP)] = False
    task: Annotated[Task, option("--task", "TASK", ", ".join(get_args(Task)))] = "auto"
    drop: Annotated[list[str] | None, option("--drop", "COLUMN", _DROP)] = None
    categorical: Annotated[list[str] | None, option("--categorical", "COLUMN", _CATEGORICAL)] = None
    missing: Annotated[list[str] | None, option("--missing", "VALUE", _MISSING)] = None
    loss: Annotated[Loss | None, option("--loss", "NAME", _LOSS)] = None
    exposure: Annotated[str | None, option("--exposure", "COLUMN", _EXPOSURE)] = None
    offset: Annotated[str | None, option("--offset", "COLUMN", _OFFSET)] = None
    preset: Annotated[Preset, option("--preset", "NAME", _PRESET)] = "default"
    rounds: Annotated[int, option("--rounds", "NUMBER", _ROUNDS, min=1)] = 3000
    folds: Annotated[str | None, option("--folds", "FOLDS", _FOLDS)] = None
    max_seconds: Annotated[float | None, option("--max-seconds", "NUMBER", _SECONDS, min=0)] = None
    seed: Annotated[int, option("--seed", "NUMBER", _SEED)] = 0

    @property
    def loss_name(self) -> str:
        """The name of the loss; counts with exposure are negative binomial."""
        return self.loss or ("negative_binomial" if self.exposure else "auto")

    def estimator(self, task: str) -> Any:
        """Return the unfitted estimator of a task."""
        kind = EBBSClassifier if task == "classification" else EBBSRegressor
        n_folds: int | str = 1 if self.preset == "fast" else "auto"
        if self.folds is not None and self.folds not in FOLDS:
            if not self.folds.isdecimal() or int(self.folds) < 1:
                names = ", ".join(FOLDS[:-1])
                text = f"--folds is a number from 1 up, {names} or {FOLDS[-1]}, got {self.folds!r}."
                raise typer.BadParameter(text)
            n_folds = int(self.folds)
        elif self.folds is not None:
            n_folds = self.folds
        settings: dict[str, Any] = {"loss": self.loss_name, "max_seconds": self.max_seconds}
        return kind(self.rounds, n_folds=n_folds, random_state=self.seed, verbose=1, **settings)

    @property
    def roles(self) -> dict[str, str]:
        """Names of the columns that are arguments of ``fit``."""
        names = {name: getattr(self, name) for name in ("exposure", "offset", "groups", "time")}
        return {role: name for role, name in names.items() if name is not None}


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let typer see each field of the parameter ``options`` as an option of its own."""
    parameters = dict(inspect.signature(command).parameters)
    for own in fields(parameters.pop("options").annotation):
        kind = inspect.Parameter.KEYWORD_ONLY
        new = inspect.Parameter(own.name, kind, default=own.default, annotation=own.type)
        parameters[own.name] = new
    every = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters.values()]

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        options = Options(**{own.name: values.pop(own.name) for own in fields(Options)})
        command(options=options, **values)

    wrapper.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {one.name: one.annotation for one in every}
    return wrapper


class Problem(NamedTuple):
    """What files and options describe."""

    X: pd.DataFrame  # its index holds the ids of the rows
    y: Any
    task: str
    arguments: dict[str, Any]  # of fit
    facts: dict[str, str]  # how the files were read
    source: dict[str, Any]  # what predict must know of the files


class Edges(NamedTuple):
    """Ends of edges as text and their weights, and how they were read."""

    table: Table
    frame: pd.DataFrame
    how: str
    names: dict[str, str]  # of the columns

    def _named(self, ids: set[str]) -> pd.DataFrame:
        """Ends by the ids that they mean: 01001 or 1001.0 is 1001 where that is an id."""
        ends = self.frame[["source", "target"]]
        known = pd.Series(list(ids), dtype=object)
        whole = _whole(known)
        if ends.isin(ids).all(axis=None) or whole.duplicated().any():
            return self.frame
        of = dict(zip(whole, known, strict=True))
        new = ends.where(ends.isin(ids), ends.apply(lambda one: _whole(one).map(of)))
        is_other = new.notna() & (new != ends)
        if is_other.any(axis=None):
            row, column = (int(one[0]) for one in is_other.to_numpy().nonzero())
            pair = f"{ends.iat[row, column]!r} is {new.iat[row, column]!r}"
            note(f"Ids of {self.table.path.name} are compared as numbers: {pair} of the table.")
        return self.frame.assign(**new.where(new.notna(), ends))

    def graph(self, ids: Any, skip_unknown: bool = False) -> Graph:
        """Return the graph of nodes with these ids, or with those that edges name."""
        frame = self.frame
        if ids is not None:
            known = set(ids)
            frame = self._named(known)
            ends = frame[["source", "target"]]
            unknown = ~ends.isin(known).all(axis=1).to_numpy()
            absent = [one for one in pd.unique(ends.to_numpy().ravel()) if one not in known]
            text = f"{count(int(unknown.sum()), 'edge')} to nodes that are not in the table"
            text += f", such as {absent[0]!r}" if absent else ""
            if unknown.any() and not skip_unknown:
                remedy = "Add them, name another --id, or leave such edges out: --skip-unknown."
                raise ValueError(f"{self.table.where(unknown)}: {text}. {remedy}")
            if unknown.any():
                note(f"Skipped {text}.")
        graph = Graph.from_dataframe(frame, ids, weight="weight", unknown="drop")
        if graph.n_edges == 0:
            raise ValueError(f"{self.table.path} connects no two different nodes of the table.")
        return graph


def _whole(texts: pd.Series) -> pd.Series:
    """Whole numbers such as 01001 and 1001.0 as 1001, other text as it is."""
    return texts.str.replace(r"^0*(\d+?)(?:\.0+)?$", r"\1", regex=True)


def read_problem(nodes: Path, edges: Path | None, target: str, options: Options) -> Problem:
    """Read the files."""
    table = read_table(nodes, options.sql)
    table.check(target, "--target")
    pair = options.coordinates
    if pair is None and table.layout == "map" and edges is None and options.groups is None:
        pair = (table.names[-2], table.names[-1])  # of points of the geometry
    lists = {"--drop": options.drop, "--categorical": options.categorical, "--coordinates": pair}
    for flag, names in lists.items():
        for name in names or []:
            table.check(name, flag)
    if options.groups is not None and (pair is not None or options.node_id is not None):
        raise typer.BadParameter("--groups excludes --coordinates and --id.")
    if options.groups is None and (edges is None) == (pair is None):
        raise typer.BadParameter("pass either EDGES or --coordinates, where edges come from.")
    arguments: dict[str, Any] = columns.roles(table, options.roles)
    read = None
    if edges is not None:
        read = read_edges(read_table(edges, options.edges_sql), table, options)
    id_name, ids = read_ids(table, read, options) if options.groups is None else (None, None)
    if target == id_name:
        raise ValueError(f"--target {target!r} is the column of node ids: name another column.")
    if pair is not None:
        arguments["coordinates"] = list(pair)
    elif read is not None:
        arguments["graph"] = read.graph(ids, options.skip_unknown)
        if isinstance(arguments.get("groups"), dict):
            first, levels = next(iter(arguments["groups"].items()))
            arguments["groups"][first] = (levels, arguments.pop("graph"))
    leave = [target, id_name or "", *(options.drop or [])]
    leave += [name for role, name in options.roles.items() if role not in ("time", "groups")]
    leave += columns.group_names(table, options.groups) if options.groups is not None else []
    X, kinds = columns.features(table, leave, options.categorical or [])
    is_number = options.loss_name != "auto" and options.task == "auto"
    task = "regression" if is_number else options.task
    y, found, example = columns.labels(table, target, task, options.missing or [])
    layout = table.layout + ", decimal commas" * table.has_commas
    named = "row numbers are ids" if id_name is None else f"ids {id_name!r}"
    facts = {"table": f"{nodes.name}, {layout}: {named}"}
    facts |= {} if read is None else {"edge list": read.how}
    facts |= {kind: listed(own, 8) for kind, own in kinds.items()}
    facts |= options.roles
    facts["target"] = f"{target}{f' ({example})' if example else ''}, {found}"
    if pair is not None:
        text = "latitude and longitude in degrees, great-circle distances"
        if not coordinate_columns(pair, list(X))[1]:
            are_doubtful = seem_degrees(X[list(pair)].to_numpy(dtype=float), pair)
            doubt = ", although they look like degrees" if are_doubtful else ""
            text = f"points of a plane{doubt}, distances in their units"
        facts["coordinates"] = f"{' and '.join(pair)}: {text}"
    source: dict[str, Any] = {"node_id": id_name, "target": target, "has_commas": table.has_commas}
    source |= options.roles | ({} if read is None else read.names)
    X = X.set_axis(pd.Index(row_numbers(table) if ids is None else ids, dtype=object))
    return Problem(X, y, found, arguments, facts, source)


def row_numbers(table: Table) -> Texts:
    """Return the numbers of the rows as text."""
    return np.arange(len(table.frame)).astype(str).astype(object)


def read_edges(table: Table, nodes: Table, options: Options, more: Sequence[str] = ()) -> Edges:
    """Read edges between nodes; ``more`` are ids of others than those in the table."""
    first = table.names[:2]
    if table.rows is not None and not {one.lower() for one in first} & {*FROM_NAMES, *TO_NAMES}:
        known = [set(nodes.texts(name)) for name in _id_columns(nodes, options.node_id)[:2]]
        are_ids = any(set(first) <= ids for ids in [*known, set(more)])
        if are_ids or all(one.isdecimal() for one in first):
            table = table.without_header()
    if len(table.names) < 2:
        raise ValueError(f"{table.path} has one column: name two nodes for each edge.")
    one = options.edge_from or named_like(table.names, FROM_NAMES) or table.names[0]
    others = [name for name in table.names if name != table.check(one, "--edge-from")]
    other = table.check(options.edge_to or named_like(others, TO_NAMES) or others[0], "--edge-to")
    if one == other:
        raise ValueError(f"--edge-from and --edge-to must differ, both are {one!r}.")
    frame = pd.DataFrame({"source": table.texts(one), "target": table.texts(other)})
    if where := table.where((frame == "").any(axis=1).to_numpy()):
        raise ValueError(f"{where}: an edge has no node in column {one!r} or {other!r}.")
    kind, weight, frame["weight"] = _weights(table, [n for n in others if n != other], options)
    how = f"{table.path.name}, {table.layout}: from {one!r} to {other!r}, "
    how += "all edges weigh 1" if weight == NO_WEIGHTS else f"{kind}s {weight!r}"
    named = {"edge_from": one, "edge_to": other} if table.has_header else {}
    return Edges(table, frame, how, {**named, kind: weight})


def _weights(table: Table, others: list[str], options: Options) -> tuple[str, str, Any]:
    """Whether there are weights or distances, the column of them, and the weights of edges."""
    if options.weight is not None and options.distance is not None:
        raise ValueError("--weight and --distance exclude each other: name one column.")
    kind = "weight" if options.distance is None else "distance"
    name = options.weight or options.distance
    file = table.path.name
    if name is not None and (name != NO_WEIGHTS or name in others):
        table.check(name, f"--{kind}")
    elif name is None and (name := named_like(others, WEIGHT_NAMES)):
        note(f"Column {name!r} of {file} is used as edge weights.")
    elif name is None and (name := named_like(others, DISTANCE_NAMES)):
        kind, rule = "distance", "edges weigh 1 / (1 + d / median d)"
        note(f"Column {name!r} of {file} is used as distances d: {rule}.")
    elif name is None and others:
        unused = listed([repr(other) for other in others])
        note(f"Columns of {file} that are not used: {unused}. See --weight, --distance.")
    if name is None or (name == NO_WEIGHTS and name not in others):
        return kind, NO_WEIGHTS, 1.0
    texts = table.texts(name)
    values = columns.as_numbers(texts, table.has_commas).to_numpy(np.float64)
    invalid = ~((values >= 0) & (values < np.inf))
    if invalid.any() or not values.any():
        row = int(invalid.argmax())
        problem = f"line {table.line(row)} holds {texts.iloc[row]!r}, not a number from 0 up"
        problem = problem if invalid.any() else "all its values are 0"
        remedy = "Correct it, or ignore the column with --weight none: all edges weigh 1 then."
        raise ValueError(f"{table.path}, column {name!r}: {problem}. {remedy}")
    return kind, name, distance_weights(values) if kind == "distance" else values


def _id_columns(nodes: Table, chosen: str | None) -> list[str]:
    """The column of ids that was named; else all, the one named like an id before others."""
    if chosen is not None:
        by_row = chosen == ROWS and ROWS not in nodes.names
        return [] if by_row else [nodes.check(chosen, "--id")]
    like = named_like(nodes.names, ID_NAMES)
    return list(dict.fromkeys([*([] if like is None else [like]), *nodes.names]))


def read_ids(
    nodes: Table, edges: Edges | None, options: Options, more: Sequence[str] = ()
) -> tuple[str | None, Texts]:
    """Return the column of ids, None for row numbers, and the ids of the rows.

    They are the column that was named, or the first that has most ends of edges, or row numbers
    from 0 if the edges hold such. ``more`` are ids of nodes that are not in the table.
    """
    names = _id_columns(nodes, options.node_id)
    id_name = names[0] if names else None
    if edges is None and options.node_id is None:
        id_name = named_like(nodes.names, ID_NAMES)
    elif edges is not None and options.node_id is None:
        ends = pd.Series(pd.unique(edges.frame[["source", "target"]].to_numpy().ravel()))
        ends = ends[~ends.isin(set(more))] if not ends.isin(set(more)).all() else ends
        pairs = ((convert, name) for convert in (pd.Series, _whole) for name in names)
        has_most = (
            name
            for convert, name in pairs
            if convert(ends).isin(convert(nodes.texts(name))).mean() > columns.MOSTLY
        )
        id_name = next(has_most, None)
        if id_name is None and (more or not ends.isin(row_numbers(nodes)).all()):
            problem = f"No column of {nodes.path} holds the ids that {edges.table.path.name} uses"
            raise ValueError(f"{problem}, such as {ends.iloc[0]!r}: pass --id COLUMN.")
    if id_name is None:
        if edges is not None:
            note(f"{edges.table.path.name} holds row numbers of {nodes.path.name}, from 0.")
        return None, row_numbers(nodes)
    texts = nodes.texts(id_name)
    if where := nodes.where((texts == "").to_numpy()):
        raise ValueError(f"{where}: column {id_name!r} is empty. Every row needs an id.")
    if texts.duplicated().any():
        value = texts[texts.duplicated()].iloc[0]
        lines = [nodes.line(int(row)) for row in np.flatnonzero(texts == value)[:2]]
        problem = f"id {value!r} in column {id_name!r} stands in lines {lines[0]} and {lines[1]}"
        remedy = f"Name another --id or, if several rows share a node, --groups {id_name!r}."
        raise ValueError(f"{nodes.path}: {problem}: ids must differ. {remedy}")
    return id_name, texts.to_numpy(dtype=object)


def named_like(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """Return the first of the usual names that there is, in any case."""
    lower = {name.strip().lower(): name for name in reversed(names)}
    return next((lower[name] for name in usual if name in lower), None)
