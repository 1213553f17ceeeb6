"""The commands ``check`` and ``fit``, and what a model file is good for."""

import shlex
import signal
import sys
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

import ebboost
from ebboost._common import IntArray
from ebboost.callbacks import INTERRUPTED
from ebboost.cli import columns, outputs
from ebboost.cli import problem as problems
from ebboost.cli.files import Table, check_exists, read_table, suggestion
from ebboost.cli.problem import EdgesFile, ModelFile, NodesFile, Options, Target, option
from ebboost.formatting import count, figure, file_size, number
from ebboost.graph import Graph
from ebboost.graph.ids import as_row_numbers
from ebboost.inspection import diagnostics
from ebboost.inspection.graph_check import GraphCheck, check_data, check_graph
from ebboost.model import Model
from ebboost.predict import names_of

_ESTIMATE = "Whether to fit, which shows what the graph is worth and takes most of the time."
_OUTPUT = "Model file to write."
_CHECK = "Also print what ebboost check prints, without another fit."
_PREDICTIONS = "CSV or Parquet file to write. Default, and -: CSV on standard output."
_INTERVAL = "Add columns lower and upper, or set, which contain this share of true values."
_LEVEL = option("--interval", "SHARE", _INTERVAL, min=0.01, max=0.999)
_ALL = "Also predict rows whose target is known; their own target is used."
_FAR = "Add how far rows are from labels, and whether that is farther than any held-out label."
_NODES = "Another table to predict, with the same columns as the one of the fit."
_EDGES = "Edges of the rows of --nodes: to each other, or to rows of the fit."
_TITLE = "Heading. Default: the target's name."
_NODE = "Id of a row to explain besides those that the report chooses; may be repeated."
_REPORT = "HTML file to write. Default: MODEL.html."
STORED = ("node_id", "edge_from", "edge_to", "weight", "distance")


@problems.with_options
def check(
    nodes: NodesFile,
    target: Target,
    options: Options,
    edges: EdgesFile = None,
    estimate: Annotated[bool, option("--estimate/--no-estimate", None, _ESTIMATE)] = True,
) -> None:
    """Check the data, and fit to see what the graph is worth; no model is written.

    20,000 rows take about half a minute. ebboost fit --check prints the same and keeps the model.
    """
    with outputs.messages():
        problem = problems.read_problem(nodes, edges, target, options)
        outputs.print_facts(problem.facts.items())
        estimator = options.estimator(problem.task)
        arguments = problem.arguments | {"estimator": estimator}
        result = check_graph(problem.X, problem.y, estimate=estimate, **arguments)
    outputs.print_facts(result.facts())
    print_findings(result, result.verdict)
    if estimate:
        print("\nThis fit is not kept: ebboost fit --check prints the same, and writes the model.")


def print_findings(result: GraphCheck, verdict: str | None) -> None:
    """Print problems of the data, each with advice, and the conclusion."""
    for text in [*(f"! {one}" for one in result.warnings), *([verdict] if verdict else [])]:
        print(outputs.wrapped(text))


@problems.with_options
def fit(
    nodes: NodesFile,
    target: Target,
    options: Options,
    edges: EdgesFile = None,
    output: Annotated[Path, option("--output -o", "FILE", _OUTPUT)] = Path("model.ebb"),
    and_check: Annotated[bool, option("--check", None, _CHECK)] = False,
) -> None:
    """Train on a table and its edges, and write a model file.

    20,000 rows take about half a minute, classes longer. Ctrl-C writes the best model so far.
    """
    outputs.check_output(output, nodes, edges)
    with outputs.messages():
        problem = problems.read_problem(nodes, edges, target, options)
        outputs.print_facts(problem.facts.items())
        estimator = options.estimator(problem.task)
        estimator.fit(problem.X, problem.y, **problem.arguments)
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is trained is written
        model = replace(estimator.model_, source=problem.source)
        estimator.from_model(model).save(output)
        signal.signal(signal.SIGINT, handler)
    if model.stop_reason == INTERRUPTED:
        models = f"{count(len(model.rounds), 'model')} of {count(len(model.selection), 'member')}"
        outputs.print_error(f"stopped; {output} has the best model so far, {models}.")
        raise typer.Exit(130)
    result = check_data(model, options.seed)
    facts = result.facts() if and_check else []
    if (held := diagnostics.held_out(model)) is not None:
        pairs = ((diagnostics.TITLES[name], value) for name, value in held.metrics.items())
        errors = ", ".join(f"{name} {figure(value)}" for name, value in pairs)
        facts.append(("measured", f"{errors} at {held.rows.size:,} labels not trained on"))
    size = file_size(output.stat().st_size)
    outputs.print_facts([*facts, ("model", f"{output}, {size}; it contains the table")])
    print_findings(result, result.verdict if and_check else None)
    outputs.print_text(estimator.summary())
    file = shlex.quote(str(output))
    print(f"\nNext: ebboost predict {file} -o predictions.csv\n      ebboost report {file} --open")


def load(path: Path) -> Any:
    """Return the model in a file, or say which files there are."""
    check_exists(path)
    return ebboost.load(path)


def row_ids(model: Model) -> list[str]:
    """Return the ids of the fitted rows as text."""
    names = names_of(model, None, None, None)
    return [str(one) for one in (range(model.n_rows) if names is None else names)]


def name_of(model: Model, role: str) -> Any:
    """Return the name of the column of ids, of the target and so on, if there is one."""
    return (model.source or {}).get(role)


def predict(
    model_file: ModelFile,
    output: Annotated[Path | None, option("--output -o", "FILE", _PREDICTIONS)] = None,
    interval: Annotated[float | None, _LEVEL] = None,
    all_rows: Annotated[bool, option("--all", None, _ALL)] = False,
    nodes: Annotated[Path | None, option("--nodes", "FILE", _NODES)] = None,
    edges: Annotated[Path | None, option("--edges", "FILE", _EDGES)] = None,
    sql: problems.Sql = None,
    edges_sql: problems.EdgesSql = None,
    applicability: Annotated[bool, option("--applicability", None, _FAR)] = False,
) -> None:
    """Predict the rows whose target was empty, or the rows of a new table.

    Writes ids, predictions, and lower and upper bounds or a probability for each class and a set.
    """
    output = None if str(output) == "-" else output
    if output is not None:
        outputs.check_output(output, model_file, nodes, edges)
    if nodes is None and edges is not None:
        raise typer.BadParameter("--nodes and --edges belong together: give both or neither.")
    with outputs.messages():
        estimator = load(model_file)
        model = estimator.model_
        if nodes is None:
            rows = np.arange(model.n_rows)
            rows = rows if all_rows else np.setdiff1d(rows, model.labels.rows)
            if not rows.size:
                raise ValueError("The target was known in every row: --all predicts them all.")
            ids, arguments = np.array(row_ids(model))[rows], {"nodes": rows}
        else:
            table = read_table(nodes, sql)
            if table.delimiter == ";" and name_of(model, "has_commas"):
                table = replace(table, has_commas=True)
            new_edges = None if edges is None else read_table(edges, edges_sql)
            ids, arguments = new_rows(model, table, new_edges, all_rows)
        frame = predictions(estimator, ids, arguments, interval)
        if applicability:
            own = {
                key: one
                for key, one in arguments.items()
                if key in ("X", "nodes", "attach", "graph")
            }
            far = estimator.applicability(**own)
            frame = frame.assign(distance=far.distance, dissimilarity=far.dissimilarity)
            frame = frame.assign(outside=far.outside)
        if output is not None:
            outputs.write_table(frame, output)
    if output is None:
        frame.to_csv(sys.stdout, index=False)
    else:
        print(f"{output}: {len(frame):,} predictions")


def predictions(
    estimator: Any, ids: Any, arguments: dict[str, Any], interval: float | None
) -> pd.DataFrame:
    """Return ids, predictions, and bounds or a probability for each class and a set of classes."""
    model, classes = estimator.model_, estimator.model_.output.classes
    result = {name_of(model, "node_id") or "id": ids, "prediction": estimator.predict(**arguments)}
    if classes is not None:
        names = [f"probability_{label}" for label in classes.tolist()]
        result |= zip(names, estimator.predict_proba(**arguments).T, strict=True)
    if interval is not None:
        bounds = estimator.predict(**arguments, interval=interval)
        if classes is None:
            result |= {"lower": bounds.lower, "upper": bounds.upper}
        else:
            result["set"] = [" ".join(classes.astype(str)[one]) for one in bounds.contains]
    return pd.DataFrame(result)


def new_rows(
    model: Model, table: Table, edges: Table | None, all_rows: bool
) -> tuple[Any, dict[str, Any]]:
    """Return the ids of the new rows to predict, and the arguments of ``predict``."""
    has_groups = model.places is not None and not model.places.are_rows
    if edges is None and model.places is not None and model.coordinates is None and not has_groups:
        raise typer.BadParameter("--nodes needs --edges: the model has no coordinates or groups.")
    X: dict[str, Any] = {}
    for position, name in enumerate(model.reader.names):
        table.check(name, "the model needs it")
        if position in model.reader.categories:
            X[name] = columns.as_names(table, name)
        elif position in model.reader.dates:
            column = columns.understand(table, name)
            columns.check_cells(table, name, column)
            X[name] = column.values
        else:
            remedy = "The model was fitted on numbers: correct it, or leave the cell empty."
            X[name] = columns.numbers(table, name, f"column {name!r}", remedy)
    roles = {role: name_of(model, role) for role in ("exposure", "offset", "groups")}
    arguments: dict[str, Any] = dict(
        columns.roles(table, {role: name for role, name in roles.items() if name})
    )
    ids = problems.row_numbers(table)
    if edges is not None:
        ids, more = _connected(model, table, edges)
        arguments |= more
    elif not has_groups:
        ids = problems.read_ids(table, None, _stored(model, table.names))[1]
    y, classes = pd.Series(None, table.frame.index, dtype=object), model.output.classes
    target = name_of(model, "target")
    if target in table.names:
        remedy = "Correct it, or leave the cell empty."
        y = columns.as_names(table, target)
        if classes is None:
            y = pd.Series(columns.numbers(table, target, f"the target {target!r}", remedy))
    rows = np.flatnonzero(y.isna() | all_rows)
    if not rows.size:
        problem = f"{table.path}: the target is known in every row"
        raise ValueError(f"{problem}: --all predicts them anyway.")
    known = y.dropna()
    uses_labels = any(one.field is not None for one in model.components) and not has_groups
    if uses_labels and (len(known) or ("attach" not in arguments and "graph" in arguments)):
        is_text = classes is not None and classes.dtype.kind not in "iub"
        values = known.to_numpy(dtype=object if is_text else float)
        arguments["new_labels"] = (known.index.to_numpy(), values)
    frame = pd.DataFrame(X).set_axis(pd.Index(ids, dtype=object))
    return ids[rows].astype(str), {"X": frame, "nodes": rows, **arguments}


def _stored(model: Model, names: list[str]) -> Options:
    """The names of columns of the fit that are names of columns again."""
    stored = {role: name_of(model, role) for role in STORED}
    return Options(**{role: one for role, one in stored.items() if one in (*names, "none")})


def _connected(model: Model, table: Table, edges: Table) -> tuple[Any, dict[str, Any]]:
    """Ids of new rows, and their graph, or their edges to rows that the model was fitted on."""
    if model.graph is None:
        raise ValueError("--edges needs a model that was fitted on a graph.")
    if model.coordinates is not None:
        how = "the model was fitted on coordinates, and connects new rows to the nearest"
        raise ValueError(f"--edges: {how}. Leave --edges out.")
    options = _stored(model, [*table.names, *edges.names])
    own = set(table.texts(options.node_id or table.names[0]))
    fitted = row_ids(model)
    others = [one for one in fitted if one not in own]
    read = problems.read_edges(edges, table, options, others)
    _, ids = problems.read_ids(table, read, options, others)
    links = read.graph([*ids, *others]).adjacency[: ids.size]
    arguments: dict[str, Any] = {"graph": Graph(links[:, : ids.size], ids)}
    rows, ends = links[:, ids.size :].nonzero()
    if not rows.size:
        return ids, arguments
    if len(others) < len(fitted):
        both = next(one for one in fitted if one in own)
        raise ValueError(f"{table.path}: the model was fitted on node {both!r}: leave it out.")
    text = f"{count(rows.size, 'edge')} of {edges.path.name} lead to rows that the model was fitted"
    outputs.note(f"{text} on: the new rows are added to its graph.")
    weights = links[:, ids.size :].tocsr()[rows, ends]
    return ids, arguments | {"attach": (rows, as_row_numbers(ends), weights)}


def rows_of(model: Model, file: Path, nodes: list[str]) -> IntArray:
    """Return the rows of the fitted table with these ids."""
    rows = {text: row for row, text in enumerate(row_ids(model))}
    for node in nodes:
        if node not in rows:
            raise ValueError(f"{file} has no row {node!r}. {suggestion(node, list(rows))}")
    return as_row_numbers([rows[node] for node in nodes])


def explain(
    model_file: ModelFile,
    nodes: Annotated[list[str], typer.Argument(metavar="NODE...", help="Ids of rows.")],
) -> None:
    """Explain predictions: base + columns + neighbours' columns + neighbours' labels = score."""
    with outputs.messages():
        estimator = load(model_file)
        rows = rows_of(estimator.model_, model_file, nodes)
        explanations = estimator.explanations(rows)
    ids, classes = row_ids(estimator.model_), estimator.model_.output.classes
    for one, prediction in zip(explanations, estimator.predict(nodes=rows), strict=True):
        text = f"prediction {prediction if classes is not None else number(prediction, 6)}"
        if classes is not None:
            text += f"; score of {classes[one.output if len(classes) > 2 else 1]}"
        names: dict[str, Any] = {"node": ids[one.node]}
        names["neighbors"] = {ids[row]: value for row, value in one.neighbors.items()}
        names["labels"] = {ids[row]: value for row, value in one.labels.items()}
        print(f"{text}\n{replace(one, **names)}")


def report(
    model_file: ModelFile,
    output: Annotated[Path | None, option("--output -o", "FILE", _REPORT)] = None,
    title: Annotated[str | None, option("--title", "TEXT", _TITLE)] = None,
    nodes: Annotated[list[str] | None, option("--node", "ID", _NODE)] = None,
    show: Annotated[bool, option("--open", None, "Open it in a browser.")] = False,
) -> None:
    """Write a report on a model as one HTML file."""
    path = output or model_file.with_suffix(".html")
    outputs.check_output(path, model_file)
    with outputs.messages():
        estimator = load(model_file)
        target = name_of(estimator.model_, "target")
        title = title or (f"{target}: what the model learned" if target else None)
        rows = rows_of(estimator.model_, model_file, nodes or [])
        ebboost.write_report(estimator, path, title=title, nodes=rows)
    print(path)
    if show and not webbrowser.open(path.resolve().as_uri()):
        outputs.print_error(f"no browser was found: open {path} yourself.")
