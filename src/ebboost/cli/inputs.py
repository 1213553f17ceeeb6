"""Arguments and options that several commands share, and the data that they describe."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray

import ebboost
from ebboost.cli import roles, tables
from ebboost.cli.console import print_warning, progress
from ebboost.cli.formats import Query, TableSource, on_disk
from ebboost.cli.graph_files import (
    EdgeColumns,
    Ids,
    NodesAndEdges,
    read_nodes,
    read_nodes_and_edges,
    read_rows_and_edges,
)
from ebboost.cli.text_columns import as_numbers
from ebboost.cli.understood import coordinates_text, understood
from ebboost.data.coordinates import (
    Coordinates,
    coordinate_columns,
    degrees_text,
    first_neighbors,
    first_outside,
    seem_degrees,
)
from ebboost.data.reader import TableReader
from ebboost.estimators import EBBSClassifier, EBBSRegressor
from ebboost.graph import Graph

Task = Literal["auto", "regression", "classification"]
LossName = Literal[
    "poisson", "negative_binomial", "gamma", "tweedie", "huber", "quantile", "squared_error"
]
Model = EBBSClassifier | EBBSRegressor


def option(names: str, metavar: str | None, text: str, **limits: Any) -> Any:
    """Return an option with its names, the name of its value, its help, and min and max."""
    return typer.Option(*names.split(), metavar=metavar, help=text, readable=False, **limits)


def _file(metavar: str, text: str) -> Any:
    return typer.Argument(metavar=metavar, readable=False, help=text)


_TARGET = "Column of NODES to predict; its empty cells are filled in."
_SEED = "Random seed: the same seed and data give the same result."
_ID = (
    "Column of NODES with the ids that EDGES uses; rows: EDGES holds row numbers from 0. "
    "Default: a column named like an id, or the first."
)
_FROM = "Column of EDGES with one end of each edge. Default: source, from or the first."
_TO = "Column of EDGES with the other end. Default: target, to or the second."
_WEIGHT = (
    "Column of EDGES with edge weights; none: all weigh 1. Default: weight, w, strength or "
    "similarity, or distance as --distance."
)
_DISTANCE = "Column of EDGES with distances d: an edge weighs 1 / (1 + d / median d)."
_SQL = "NODES is a database, SQLite or DuckDB: the query that returns the table."
_EDGES_SQL = "EDGES is a database: the query that returns the edges."
_COORDINATES = "Two columns of NODES, such as lon lat, in place of EDGES: the nearest rows connect."
_NEIGHBORS = (
    "With --coordinates: number of nearest rows that each row is connected to, or delaunay. "
    "Default: 8, or 5 or 20 if held-out labels are predicted better."
)
_DIRECTED = "Edges have directions: incoming and outgoing neighbours have columns of their own."
_SKIP = "Leave out edges of nodes that are not in NODES."
_TASK = "regression, classification or auto."
_DROP = "Column to leave out; may be repeated."
_MISSING = "Value of the target that means unknown, such as -999; may be repeated."
_LOSS = f"{', '.join(get_args(LossName))}. Default: squared_error; with --exposure, "
_LOSS += "negative_binomial."
_EXPOSURE = "Column that counts or amounts are proportional to, such as population."
_OFFSET = "Column that is added to the score of each row."
_GROUPS = (
    "Column of NODES with the node of EDGES that each row belongs to, for several rows per node; "
    "without EDGES, groups have independent effects."
)
_TIME = "Column of numbers or dates: the latest labels are held out, not random ones."
_CAUSAL = "With --time: use columns and labels of earlier neighbours only."
_CATEGORICAL = "Column whose numbers are codes of categories; may be repeated."

NodesFile = Annotated[Path, _file("NODES", "Table with a row for each node: CSV, Parquet, Excel …")]
EdgesFile = Annotated[Path | None, _file("EDGES", "Edges between nodes: a table or GraphML.")]
ModelFile = Annotated[Path, _file("MODEL", "A model file written by ebboost fit.")]
Target = Annotated[str, option("--target -t", "COLUMN", _TARGET)]
Seed = Annotated[int, option("--seed", "NUMBER", _SEED)]
Json = Annotated[bool, option("--json", None, "Print JSON.")]


@dataclass(frozen=True)
class GraphOptions:
    """Options that say how EDGES refers to the rows of NODES."""

    node_id: Annotated[str | None, option("--id", "COLUMN", _ID)] = None
    edge_from: Annotated[str | None, option("--edge-from", "COLUMN", _FROM)] = None
    edge_to: Annotated[str | None, option("--edge-to", "COLUMN", _TO)] = None
    weight: Annotated[str | None, option("--weight", "COLUMN", _WEIGHT)] = None
    distance: Annotated[str | None, option("--distance", "COLUMN", _DISTANCE)] = None
    coordinates: Annotated[
        tuple[str, str] | None, option("--coordinates", "COLUMN COLUMN", _COORDINATES)
    ] = None
    neighbors: Annotated[str | None, option("--neighbors", "NUMBER", _NEIGHBORS)] = None
    sql: Annotated[str | None, option("--sql", "QUERY", _SQL)] = None
    edges_sql: Annotated[str | None, option("--edges-sql", "QUERY", _EDGES_SQL)] = None
    directed: Annotated[bool, option("--directed", None, _DIRECTED)] = False
    skip_unknown: Annotated[bool, option("--skip-unknown", None, _SKIP)] = False

    def table(self, nodes: Path) -> TableSource:
        """Return the table of nodes: a file, or a query of a database."""
        return nodes if self.sql is None else Query(nodes, self.sql)

    @property
    def neighbors_parameter(self) -> int | str:
        """The parameter ``neighbors`` of the estimators."""
        value = self.neighbors or "auto"
        if value != "auto" and self.coordinates is None:
            raise typer.BadParameter("--neighbors needs --coordinates.")
        if value in ("auto", "delaunay"):
            return value
        if not value.isdecimal() or int(value) < 1:
            text = f"--neighbors must be auto, delaunay or a number of rows, got {value}."
            raise typer.BadParameter(text)
        return int(value)

    def read_groups(self, nodes: Path, edges: Path | None, groups: str) -> NodesAndEdges:
        """Read rows that belong to the nodes of EDGES, if there are edges."""
        if self.coordinates is not None or self.node_id is not None or self.directed:
            raise typer.BadParameter("--groups excludes --coordinates, --id and --directed.")
        columns = EdgeColumns(self.edge_from, self.edge_to, self.weight, self.distance)
        source = edges if edges is None or self.edges_sql is None else Query(edges, self.edges_sql)
        with progress(f"reading {nodes.name}"):
            return read_rows_and_edges(self.table(nodes), source, groups, columns)

    def read(self, nodes: Path, edges: Path | None, fitted_ids: Ids | None = None) -> NodesAndEdges:
        """Read the two files, or NODES alone if it has coordinates."""
        if (edges is None) == (self.coordinates is None):
            raise typer.BadParameter("pass either EDGES or --coordinates, where edges come from.")
        if edges is None:
            with progress(f"reading {nodes.name}"):
                return read_nodes(self.table(nodes), self.node_id)
        with progress(f"reading {nodes.name} and {edges.name}"):
            return read_nodes_and_edges(
                self.table(nodes),
                edges if self.edges_sql is None else Query(edges, self.edges_sql),
                node_id=self.node_id,
                columns=EdgeColumns(self.edge_from, self.edge_to, self.weight, self.distance),
                skip_unknown=self.skip_unknown,
                directed=self.directed,
                fitted_ids=fitted_ids,
            )


@dataclass(frozen=True)
class ColumnOptions:
    """Options that say what the columns of NODES mean."""

    task: Annotated[Task, option("--task", "TASK", _TASK)] = "auto"
    drop: Annotated[list[str] | None, option("--drop", "COLUMN", _DROP)] = None
    categorical: Annotated[list[str] | None, option("--categorical", "COLUMN", _CATEGORICAL)] = None
    missing: Annotated[list[str] | None, option("--missing", "VALUE", _MISSING)] = None


@dataclass(frozen=True)
class LossOptions:
    """Options that say how counts and amounts are predicted."""

    loss: Annotated[LossName | None, option("--loss", "NAME", _LOSS)] = None
    exposure: Annotated[str | None, option("--exposure", "COLUMN", _EXPOSURE)] = None
    offset: Annotated[str | None, option("--offset", "COLUMN", _OFFSET)] = None

    @property
    def columns(self) -> dict[str, str]:
        """Names of the columns of exposure and offset, where there are such."""
        names = {"exposure": self.exposure, "offset": self.offset}
        return {role: name for role, name in names.items() if name is not None}

    @property
    def name(self) -> str:
        """The name of the loss; counts with exposure are negative binomial."""
        return self.loss or ("negative_binomial" if self.exposure else "auto")

    def complete(self, columns: ColumnOptions, names: Sequence[str], path: Path) -> ColumnOptions:
        """Return options of columns in which these are no features, and a loss means numbers."""
        for role, name in self.columns.items():
            tables.check_column(names, name, f"--{role}", path)
        numbers = self.name != "auto" and columns.task == "auto"
        task = "regression" if numbers else columns.task
        return replace(columns, task=task, drop=[*(columns.drop or []), *self.columns.values()])


@dataclass(frozen=True)
class RowOptions:
    """Options for several rows per node, and for rows with a time."""

    groups: Annotated[str | None, option("--groups", "COLUMN", _GROUPS)] = None
    time: Annotated[str | None, option("--time", "COLUMN", _TIME)] = None
    causal: Annotated[bool, option("--causal", None, _CAUSAL)] = False

    @property
    def columns(self) -> dict[str, str]:
        """Names of the columns of groups and time, where there are such."""
        names = {"groups": self.groups, "time": self.time}
        return {role: name for role, name in names.items() if name is not None}

    def complete(self, columns: ColumnOptions, names: Sequence[str], path: Path) -> ColumnOptions:
        """Return options of columns in which the groups are no feature."""
        if self.causal and self.time is None:
            raise typer.BadParameter("--causal needs --time COLUMN.")
        for role, name in self.columns.items():
            tables.check_column(names, name, f"--{role}", path)
        groups = [] if self.groups is None else [self.groups]
        return replace(columns, drop=[*(columns.drop or []), *groups])


def role_columns(
    table: pd.DataFrame, columns: Mapping[str, str], path: Path
) -> dict[str, NDArray[Any]]:
    """Return the columns that are arguments of ``fit`` and ``predict``, by their names there."""
    result = {}
    for role, name in columns.items():
        tables.check_column(list(table.columns), name, f"--{role}", path)
        column = table[name]
        if role == "groups":
            result[role] = tables.as_names(column).to_numpy(dtype=object)
            continue
        values = column if column.dtype.kind == "M" else as_numbers(column)
        invalid = values.isna() if role == "time" else ~np.isfinite(values)
        invalid |= (values <= 0) if role == "exposure" else False
        if line := tables.first_line(invalid.to_numpy(dtype=bool), path):
            kind = {"time": "a number or a date", "exposure": "a positive number"}
            text = f"column {name!r} (--{role}) must be {kind.get(role, 'a number')} in every row"
            value = column.iloc[int(invalid.to_numpy().argmax())]
            raise ValueError(f"{path}, line {line}: {text}, got {tables.cell_text(value)}.")
        result[role] = values.to_numpy()
    return result


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
        for field in fields(group):
            new = {"default": field.default, "annotation": field.type}
            parameters.append(inspect.Parameter(field.name, one.kind, **new))

    @functools.wraps(command)
    def wrapper(**values: object) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper


def read_problem(
    nodes: Path,
    edges: Path | None,
    target: str,
    graph: GraphOptions,
    columns: ColumnOptions,
    groups: str | None = None,
) -> tuple[NodesAndEdges, pd.DataFrame, NDArray[Any], str]:
    """Return what the files hold, the features, the labels and the task."""
    # Wrong options and a wrong target are reported before both files are read.
    neighbors = first_neighbors(graph.neighbors_parameter)
    tables.check_column(tables.column_names(graph.table(nodes)), target, "--target", nodes)
    data = graph.read_groups(nodes, edges, groups) if groups else graph.read(nodes, edges)
    if target == data.id_name:
        raise ValueError(f"--target {target!r} is the column of node ids: name another column.")
    with progress("preparing columns"):
        drop = [name for name in columns.drop or [] if name != data.id_name]  # is no feature
        X = roles.features(data.table, target, drop, columns.categorical or [], nodes)
        column = roles.without(data.table[target], columns.missing or [])
        y, task = roles.labels(column, columns.task, nodes)
    where = None
    if graph.coordinates is not None:
        where = _check_coordinates(X, graph.coordinates, nodes)
        reader = TableReader()
        _, built = Coordinates.fit(graph.coordinates, list(X), reader.fit(X), neighbors)
        ids = None if data.id_name is None else data.ids
        data = replace(data, graph=Graph(built.adjacency, ids))
    return replace(data, read=understood(data, X, nodes, where)), X, y, task


def _check_coordinates(X: pd.DataFrame, names: tuple[str, str], nodes: Path) -> str:
    """Return what coordinates are; raise an error with the line of a row without any."""
    for name in names:
        tables.check_column(list(X), name, "--coordinates", nodes)
        values = as_numbers(X[name])
        if line := tables.first_line(values.isna().to_numpy(), nodes):
            cell = tables.cell_text(X[name].iloc[int(values.isna().argmax())])
            problem = f"column {name!r} must be a number in every row, got {cell}"
            raise ValueError(f"{nodes}, line {line}: {problem}. Every row needs coordinates.")
    columns, by_degrees = coordinate_columns(names, list(X))
    points = X.iloc[:, list(columns)].to_numpy(dtype=float)
    row = first_outside(points) if by_degrees else None
    if row is not None:
        problem = "latitude and longitude must be degrees. Rename the columns if they are not"
        raise ValueError(f"{nodes}, line {tables.line_of(nodes, row)}: {problem}.")
    is_doubtful = not by_degrees and seem_degrees(points, names)
    if is_doubtful:
        print_warning(degrees_text(names))
    return coordinates_text(names, by_degrees, is_doubtful)


def load_model(path: Path) -> Model:
    """Load a model file."""
    with progress(f"loading {path.name}"):
        return ebboost.load(on_disk(tables.existing(path)))


def node_ids(model: Model) -> list[str]:
    """Return the ids of the fitted nodes as text."""
    ids = np.arange(len(model.scores_)) if model.graph_ is None else model.graph_.node_ids
    return [str(value) for value in ids.tolist()]


def rows_of(model: Model, model_file: Path, nodes: Sequence[str]) -> list[int]:
    """Return the rows of nodes with these ids."""
    ids = node_ids(model)
    rows = {text: row for row, text in enumerate(ids)}
    for node in nodes:
        if node not in rows:
            raise ValueError(f"{model_file} has no node {node!r}. {tables.suggestion(node, ids)}")
    return [rows[node] for node in nodes]


def column_name(model: Model, role: str) -> str:
    """Return the name of the column of ids or of the target, "" if it is not known."""
    return (model.state_.source or {}).get(role) or ""
