"""``ebboost predict``: the rows whose target was empty, or the rows of a new table."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray
from sklearn.base import is_classifier

from ebboost.cli import console, inputs, outputs, tables
from ebboost.cli.graph_files import NodesAndEdges, UnknownNodeError, read_nodes
from ebboost.cli.roles import check_cells, check_numbers, target_numbers

_OUTPUT = "CSV or Parquet file to write. Default, and -: CSV on standard output."
_INTERVAL = (
    "Add columns lower and upper, which contain this share of true values; for classes a column "
    "set."
)
_ALL = "Also predict rows whose target is known (with its help)."
_NODES = "Another table to predict, with its own --edges."
_EDGES = "The edges between the rows of --nodes."
_ATTACH = "--edges also lead to nodes that the model was fitted on: add the new rows to its graph."
_LEVEL = inputs.option("--interval", "SHARE", _INTERVAL, min=0.01, max=0.999)


@inputs.with_options
def predict(
    model_file: inputs.ModelFile,
    output: Annotated[Path | None, inputs.option("--output -o", "FILE", _OUTPUT)] = None,
    interval: Annotated[float | None, _LEVEL] = None,
    all_rows: Annotated[bool, inputs.option("--all", None, _ALL)] = False,
    nodes: Annotated[Path | None, inputs.option("--nodes", "FILE", _NODES)] = None,
    edges: Annotated[Path | None, inputs.option("--edges", "FILE", _EDGES)] = None,
    attach_to_fitted: Annotated[bool, inputs.option("--attach", None, _ATTACH)] = False,
    as_json: inputs.Json = False,
    *,
    graph_options: inputs.GraphOptions,
) -> None:
    """Predict the rows whose target was empty, or the rows of a new table and its edges.

    Writes ids, predictions, and lower and upper bounds or a probability for each class and a set.
    """
    if str(output) == "-":
        output = None
    if output is not None:
        outputs.check_output(output, model_file, nodes, edges)
    if nodes is None and edges is not None:
        raise typer.BadParameter("--nodes and --edges belong together: give both or neither.")
    if attach_to_fitted and edges is None:
        raise typer.BadParameter("--attach needs --nodes and --edges.")
    model = inputs.load_model(model_file)
    state = model.state_
    has_groups = state.graph is not None and state.graph.groups is not None
    if nodes is not None and edges is None and state.coordinates is None and not has_groups:
        raise typer.BadParameter("--nodes needs --edges: the model has no coordinates or groups.")
    if nodes is None:
        ids, arguments = _fitted_rows(model, all_rows)
    else:
        data = _read_new(model, nodes, edges, graph_options, attach_to_fitted)
        ids, arguments = _new_rows(model, data, nodes, attach_to_fitted, all_rows)
    with console.progress("predicting"):
        frame = _predictions(model, ids, arguments, interval)
    if output is not None:
        tables.write_table(frame, output)
        if as_json:
            console.print_json({"output": output, "rows": len(frame)})
        else:
            print(f"{output}: {len(frame):,} predictions")
    elif as_json:
        console.print_json(frame.to_dict("records"))
    else:
        frame.to_csv(sys.stdout, index=False)


def _predictions(
    model: inputs.Model, ids: NDArray[Any], arguments: dict[str, Any], interval: float | None
) -> pd.DataFrame:
    """Ids, predictions, and bounds or a probability for each class and a set of classes."""
    columns: dict[str, Any] = {inputs.column_name(model, "id") or "id": ids}
    if is_classifier(model):
        probabilities = model.predict_proba(**arguments)
        columns["prediction"] = model.classes_[probabilities.argmax(axis=1)]
        names = [f"probability_{label}" for label in model.classes_.tolist()]
        columns |= zip(names, probabilities.T, strict=True)
        if interval is not None:
            labels = model.classes_.astype(str)
            contains = model.predict(**arguments, interval=interval).contains
            columns["set"] = [" ".join(labels[one]) for one in contains]
    elif interval is None:
        columns["prediction"] = model.predict(**arguments)
    else:
        bounds = model.predict(**arguments, interval=interval)
        columns |= zip(("prediction", "lower", "upper"), bounds, strict=True)
    return pd.DataFrame(columns)


def _fitted_rows(model: inputs.Model, all_rows: bool) -> tuple[NDArray[Any], dict[str, Any]]:
    """Ids of the fitted rows to predict, and the arguments of ``predict``."""
    rows = np.arange(len(model.scores_))
    if not all_rows:
        rows = np.setdiff1d(rows, model.state_.labels.nodes)
    if not rows.size:
        raise ValueError("The target was known in every row: --all predicts them all.")
    return np.array(inputs.node_ids(model))[rows], {"nodes": rows}


def _read_new(
    model: inputs.Model,
    nodes: Path,
    edges: Path | None,
    options: inputs.GraphOptions,
    attached: bool,
) -> NodesAndEdges:
    """Read a new table and its edges; if attached, the fitted nodes precede the new ones."""
    id_column = inputs.column_name(model, "id")
    if options.node_id is None and id_column in tables.column_names(options.table(nodes)):
        options = replace(options, node_id=id_column)
    if groups := inputs.column_name(model, "groups"):
        tables.check_column(tables.column_names(options.table(nodes)), groups, "--groups", nodes)
        return options.read_groups(nodes, None, groups)
    if edges is None:
        with console.progress(f"reading {nodes.name}"):
            return read_nodes(options.table(nodes), options.node_id)
    fitted_ids = inputs.node_ids(model)
    directed = model.graph_ is not None and model.graph_.outgoing is not None
    options = replace(options, directed=directed)
    if attached:
        if model.graph_ is None:
            raise ValueError("--attach needs a model that was fitted on a graph.")
        return options.read(nodes, edges, np.array(fitted_ids, dtype=object))
    try:
        return options.read(nodes, edges)
    except UnknownNodeError as error:
        if error.node not in fitted_ids:
            raise
        raise ValueError(
            f"{edges}: node {error.node!r} is not in {nodes.name} but the model was fitted on "
            "it: pass --attach to add the new rows to the graph of the model."
        ) from None


def _new_rows(
    model: inputs.Model, data: NodesAndEdges, path: Path, attached: bool, all_rows: bool
) -> tuple[NDArray[Any], dict[str, Any]]:
    """Ids of the new rows to predict, and the arguments of ``predict``."""
    table = data.table
    reader = model.state_.reader
    for name in reader.names:
        tables.check_column(list(table.columns), name, "the model needs it", path)
    X = table[list(reader.names)].copy()
    for position, name in enumerate(reader.names):
        if position in reader.categories:
            X[name] = tables.as_names(X[name])
        elif position in reader.dates:
            check_cells(X[name], path)
        else:
            remedy = "The model was fitted on numbers: correct it, or leave the cell empty."
            check_numbers(X[name], path, f"column {name!r}", remedy)
    y = table.get(inputs.column_name(model, "target"), pd.Series(index=table.index, dtype=object))
    if not is_classifier(model):
        y = pd.Series(target_numbers(y, path))
    rows = np.flatnonzero(y.isna() | all_rows)
    if not rows.size:
        raise ValueError(f"{path}: the target is known in every row: --all predicts them anyway.")
    arguments = {"X": X, "attach" if attached else "graph": data.graph, "nodes": rows}
    needed = ("exposure", "offset", "groups", *["time"] * model.state_.is_causal)
    roles = {role: inputs.column_name(model, role) for role in needed}
    roles = {role: name for role, name in roles.items() if name}
    arguments |= inputs.role_columns(table, roles, path)
    if model.labels_ is not None:
        known = y.dropna()
        dtype = object if is_classifier(model) else np.float64
        arguments["new_labels"] = (known.index.to_numpy(), known.to_numpy(dtype=dtype))
    return data.ids[rows].astype(str), arguments
