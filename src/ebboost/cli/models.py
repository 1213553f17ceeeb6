"""``ebboost predict``, ``explain`` and ``report``: what a model file is good for."""

import sys
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from rich.text import Text

import ebboost
from ebboost.cli import columns, console, outputs
from ebboost.cli.console import messages, note
from ebboost.cli.files import Source, existing, suggestion
from ebboost.cli.problem import (
    ID_NAMES,
    Json,
    ModelFile,
    Options,
    join,
    named_like,
    option,
    read_edges,
    read_nodes,
    unique_ids,
)
from ebboost.explain import Explanation
from ebboost.graph import Graph
from ebboost.inspection.explained import round_to_sum
from ebboost.inspection.formatting import count, figure, percent
from ebboost.inspection.report import write_report
from ebboost.model import Model

SIGNIFICANT_DIGITS = 6
_OUTPUT = "CSV or Parquet file to write. Default, and -: CSV on standard output."
_INTERVAL = "Add columns lower and upper, which contain this share of true values; for classes a "
_INTERVAL += "column set."
_ALL = "Also predict rows whose target is known (with its help)."
_NODES = "Another table to predict, with the columns of the one fitted on."
_EDGES = (
    "Edges of the rows of --nodes: between each other, or to rows that the model was fitted on."
)
_SQL = "--nodes is a database: the query that returns the table."
_EDGES_SQL = "--edges is a database: the query that returns the edges."
_TOP = "How many parts to list of each kind."
_TITLE = "Heading. Default: the target's name."
_NODE = "Id of a row to explain besides those that the report chooses; may be repeated."
_REPORT = "HTML file to write. Default: MODEL.html."


def load(path: Path) -> Any:
    """Load a model file."""
    return ebboost.load(existing(path))


def row_ids(model: Model) -> list[str]:
    """Return the ids of the fitted rows as text."""
    if model.row_labels is not None:
        return [str(one) for one in model.row_labels]
    if model.graph is not None and model.places is not None and model.places.are_rows:
        return [str(one) for one in model.graph.node_ids.tolist()]
    return [str(row) for row in range(model.n_rows)]


def name_of(model: Model, role: str) -> str | None:
    """Return the name of the column of ids, of the target and so on, if there is one."""
    name: str | None = (model.source or {}).get(role)
    return name


def predict(
    model_file: ModelFile,
    output: Annotated[Path | None, option("--output -o", "FILE", _OUTPUT)] = None,
    interval: Annotated[
        float | None, option("--interval", "SHARE", _INTERVAL, min=0.01, max=0.999)
    ] = None,
    all_rows: Annotated[bool, option("--all", None, _ALL)] = False,
    nodes: Annotated[Path | None, option("--nodes", "FILE", _NODES)] = None,
    edges: Annotated[Path | None, option("--edges", "FILE", _EDGES)] = None,
    sql: Annotated[str | None, option("--sql", "QUERY", _SQL)] = None,
    edges_sql: Annotated[str | None, option("--edges-sql", "QUERY", _EDGES_SQL)] = None,
    as_json: Json = False,
) -> None:
    """Predict the rows whose target was empty, or the rows of a new table.

    Writes ids, predictions, and lower and upper bounds or a probability for each class and a set.
    """
    output = None if str(output) == "-" else output
    if output is not None:
        outputs.check_output(output, model_file, nodes, edges)
    if nodes is None and edges is not None:
        raise typer.BadParameter("--nodes and --edges belong together: give both or neither.")
    with messages():
        estimator = load(model_file)
        model = estimator.model_
        if nodes is None:
            rows = np.arange(model.n_rows)
            rows = rows if all_rows else np.setdiff1d(rows, model.labels.rows)
            if not rows.size:
                raise ValueError("The target was known in every row: --all predicts them all.")
            ids, arguments = np.array(row_ids(model))[rows], {"nodes": rows}
        else:
            new_edges = None if edges is None else Source(edges, edges_sql)
            ids, arguments = new_rows(model, Source(nodes, sql), new_edges, all_rows)
        frame = predictions(estimator, ids, arguments, interval)
        if output is not None:
            outputs.write_table(frame, output)
    if output is None and not as_json:
        frame.to_csv(sys.stdout, index=False)
    elif output is None:
        console.print_json(frame.to_dict("records"))
    elif as_json:
        console.print_json({"output": output, "rows": len(frame)})
    else:
        print(f"{output}: {len(frame):,} predictions")


def predictions(
    estimator: Any, ids: Any, arguments: dict[str, Any], interval: float | None
) -> pd.DataFrame:
    """Return ids, predictions, and bounds or a probability for each class and a set of classes."""
    model = estimator.model_
    result: dict[str, Any] = {name_of(model, "id") or "id": ids}
    if model.output.classes is not None:
        classes = model.output.classes
        probabilities = estimator.predict_proba(**arguments)
        result["prediction"] = classes[probabilities.argmax(axis=1)]
        names = [f"probability_{label}" for label in classes.tolist()]
        result |= zip(names, probabilities.T, strict=True)
        if interval is not None:
            contains = estimator.predict(**arguments, interval=interval).contains
            result["set"] = [" ".join(classes.astype(str)[one]) for one in contains]
    elif interval is None:
        result["prediction"] = estimator.predict(**arguments)
    else:
        result |= estimator.predict(**arguments, interval=interval)._asdict()
    return pd.DataFrame(result)


def new_rows(
    model: Model, nodes: Source, edges: Source | None, all_rows: bool
) -> tuple[Any, dict[str, Any]]:
    """Return the ids of the new rows to predict, and the arguments of ``predict``."""
    table = read_nodes(nodes)
    has_groups = model.places is not None and not model.places.are_rows
    if edges is None and model.places is not None and model.coordinates is None and not has_groups:
        raise typer.BadParameter("--nodes needs --edges: the model has no coordinates or groups.")
    X: dict[str, Any] = {}
    for position, name in enumerate(model.reader.names):
        table.check(name, "the model needs it")
        if position in model.reader.categories:
            X[name] = columns.as_names(table, name)
        elif position in model.reader.dates:
            column = columns.understand(table.frame[name])
            columns.check_cells(table, name, column)
            X[name] = column.values
        else:
            remedy = "The model was fitted on numbers: correct it, or leave the cell empty."
            X[name] = columns.numbers(table, name, f"column {name!r} is", remedy)
    roles = {role: name_of(model, role) for role in ("exposure", "offset", "groups")}
    arguments = columns.roles(table, {role: name for role, name in roles.items() if name})
    own = {name: name_of(model, name) for name in ("edge_from", "edge_to", "weight", "distance")}
    id_name = name_of(model, "id")
    options = Options(node_id=id_name if id_name in table.names else None)
    if edges is None:
        id_name = options.node_id or named_like(table.names, ID_NAMES)
        has_ids = id_name is not None and not has_groups
        ids = unique_ids(table, id_name or "") if has_ids else np.arange(len(table.frame))
    else:
        present = read_table_names(edges, own)
        ids, own_arguments = _connected(model, table, edges, replace(options, **present))
        arguments |= own_arguments
    y = pd.Series(np.nan, table.frame.index, dtype=object)
    target = name_of(model, "target")
    if target in table.names:
        y = columns.as_names(table, target)
        if model.output.classes is None:
            remedy = "Correct it, or leave the cell empty."
            y = pd.Series(columns.numbers(table, target, f"the target {target!r} is", remedy))
    rows = np.flatnonzero(y.isna() | all_rows)
    if not rows.size:
        problem = f"{nodes}: the target is known in every row"
        raise ValueError(f"{problem}: --all predicts them anyway.")
    if any(one.field is not None for one in model.components) and not has_groups:
        known = y.dropna()
        values = known.to_numpy(dtype=float) if model.output.classes is None else known.to_numpy()
        if model.output.classes is not None and model.output.classes.dtype.kind in "iub":
            values = values.astype(model.output.classes.dtype)
        arguments["new_labels"] = (known.index.to_numpy(), values)
    frame = pd.DataFrame(X).set_axis(pd.Index(ids, dtype=object), axis=0)
    return np.asarray(ids)[rows].astype(str), {"X": frame, "nodes": rows, **arguments}


def read_table_names(edges: Source, names: dict[str, str | None]) -> dict[str, str | None]:
    """Return the names of columns of the fit's edges that the new ones have, too."""
    from ebboost.cli.files import read_table

    there = read_table(edges).names
    return {role: name for role, name in names.items() if name in there or name == "none"}


def _connected(model: Model, table: Any, source: Source, options: Options) -> tuple[Any, Any]:
    """Ids of new rows, and their graph, or their edges to rows that the model was fitted on."""
    if model.graph is None:
        raise ValueError("--edges needs a model that was fitted on a graph.")
    candidates = options.node_id or named_like(table.names, ID_NAMES) or table.names[0]
    own = set(table.texts(candidates))
    fitted = np.array(row_ids(model), dtype=object)
    more = [one for one in fitted.tolist() if one not in own]
    edges = read_edges(source, table, options, more)
    joined = join(table, edges, options, more)
    n_new = joined.ids.size
    is_new = (joined.source < n_new, joined.target < n_new)

    def weight(chosen: Any) -> Any:
        return None if joined.weights is None else joined.weights[chosen]

    inside = is_new[0] & is_new[1]
    graph = Graph.from_edges(joined.source[inside], joined.target[inside], weight(inside), n_new)
    graph = Graph(graph.adjacency, joined.ids)
    across = is_new[0] ^ is_new[1]
    if not across.any():
        return joined.ids, {"graph": graph}
    if len(more) < fitted.size:
        both = next(one for one in fitted.tolist() if one in own)
        raise ValueError(f"{table.source}: the model was fitted on node {both!r}: leave it out.")
    ends = np.where(is_new[0], joined.source, joined.target)[across]
    others = np.where(is_new[0], joined.target, joined.source)[across] - n_new
    attach = [ends, ebboost_rows(others), *([] if joined.weights is None else [weight(across)])]
    said = count(int(across.sum()), "edge")
    note(f"{said} of {source.path.name} lead to rows that the model was fitted on: these are used.")
    return joined.ids, {"graph": graph, "attach": tuple(attach)}


def ebboost_rows(rows: Any) -> Any:
    """Return row numbers of the fitted table, which are no ids."""
    from ebboost.graph.ids import as_row_numbers

    return as_row_numbers(rows)


def rows_of(model: Model, file: Path, nodes: list[str]) -> list[int]:
    """Return the rows of the fitted table with these ids."""
    ids = row_ids(model)
    rows = {text: row for row, text in enumerate(ids)}
    for node in nodes:
        if node not in rows:
            raise ValueError(f"{file} has no row {node!r}. {suggestion(node, ids)}")
    return [rows[node] for node in nodes]


def explain(
    model_file: ModelFile,
    nodes: Annotated[list[str], typer.Argument(metavar="NODE...", help="Ids of rows.")],
    top: Annotated[int, option("--top", "NUMBER", _TOP, min=1)] = 8,
    as_json: Json = False,
) -> None:
    """Explain predictions: base + columns + neighbours' columns + neighbours' labels = score."""
    with messages():
        estimator = load(model_file)
        model = estimator.model_
        explanations = estimator.explanations(np.array(rows_of(model, model_file, nodes)))
    ids = row_ids(model)
    results = [_explained(one, estimator, ids) for one in explanations]
    if as_json:
        console.print_json(results)
        return
    for result in results:
        _print_explanation(result, top)


def _explained(one: Explanation, estimator: Any, ids: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "node": ids[one.node],
        "score": one.score,
        "base": one.base,
        "offset": one.offset,
        "own_columns": one.own,
        "neighbour_columns": {ids[row]: value for row, value in one.neighbors.items()},
        "labels": {ids[row]: value for row, value in one.labels.items()},
    }
    classes = estimator.model_.output.classes
    if classes is None:
        return result | {"prediction": float(estimator.predict(nodes=[one.node])[0])}
    probabilities = estimator.predict_proba(nodes=[one.node])[0]
    return result | {
        "prediction": classes[probabilities.argmax()],
        "probability": float(probabilities.max()),
        "class_explained": classes[one.output if len(classes) > 2 else 1],
    }


def _print_explanation(result: dict[str, Any], top: int) -> None:
    prediction = result["prediction"]
    if "class_explained" in result:
        probability = percent(result["probability"], 1)
        prediction = f"{prediction} ({probability}); score of {result['class_explained']}"
    else:
        prediction = figure(prediction, SIGNIFICANT_DIGITS)
    parts = [("base", "the same for every row", result["base"])]
    parts += [("offset", "of this row", result["offset"])] if result["offset"] else []
    kinds = (
        ("column", "own_columns"),
        ("score of row", "neighbour_columns"),
        ("label of row", "labels"),
    )
    for kind, key in kinds:
        ranked = sorted(result[key].items(), key=lambda item: -abs(item[1]))
        parts += [(kind, str(name), value) for name, value in ranked[:top]]
        if rest := ranked[top:]:
            parts.append((kind, f"{len(rest):,} others", sum(value for _, value in rest)))
    values = [value for *_, value in parts]
    largest = max(map(abs, [*values, sum(values), 1e-300]))
    decimals = int(np.clip(SIGNIFICANT_DIGITS - 1 - np.floor(np.log10(largest)), 0, 12))
    title = f"row {result['node']}: prediction {prediction}"
    table = console.column_table("", "part", ">adds", title=title)
    rounded = round_to_sum(values, decimals)  # they add up to their rounded sum
    for (kind, name, _), value in zip(parts, rounded, strict=True):
        table.add_row(kind, Text(name), f"{value:+,.{decimals}f}")
    table.add_section()
    table.add_row("sum", "score", f"{sum(values):,.{decimals}f}", style="bold")
    console.terminal().print(table)


def report(
    model_file: ModelFile,
    output: Annotated[Path | None, option("--output -o", "FILE", _REPORT)] = None,
    title: Annotated[str | None, option("--title", "TEXT", _TITLE)] = None,
    nodes: Annotated[list[str] | None, option("--node", "ID", _NODE)] = None,
    show: Annotated[bool, option("--open", None, "Open it in a browser.")] = False,
    as_json: Json = False,
) -> None:
    """Write a report on a model as one HTML file."""
    path = output or model_file.with_suffix(".html")
    outputs.check_output(path, model_file)
    with messages():
        estimator = load(model_file)
        target = name_of(estimator.model_, "target")
        title = title or (f"{target}: what the model learned" if target else None)
        rows = rows_of(estimator.model_, model_file, nodes or [])
        with outputs.replacing(path) as temporary:
            write_report(estimator, temporary, title=title, nodes=rows)
    if as_json:
        console.print_json({"output": path})
    else:
        print(path)
    if show and not webbrowser.open(path.resolve().as_uri()):
        console.print_error(f"no browser was found: open {path} yourself.")
