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

from ebboost.cli import console, inputs, tables
from ebboost.cli.graph_files import NodesAndEdges, UnknownNodeError, attach
from ebboost.cli.roles import dates_as_days, target_numbers
from ebboost.data.labels import one_hot

_OUTPUT = "CSV or Parquet file to write. Default: CSV on standard output."
_INTERVAL = "Add columns lower and upper, which contain this share of true values."
_ALL = "Also predict rows whose target is known (with its help)."
_NODES = "Another table to predict, with its own --edges."
_EDGES = "The edges between the rows of --nodes."
_ATTACH = "--edges also lead to nodes that the model was fitted on: add the new rows to its graph."
_Level = Annotated[
    float | None, inputs.option("--interval", "SHARE", _INTERVAL, min=0.01, max=0.999)
]


@inputs.with_options
def predict(
    model_file: inputs.ModelFile,
    output: Annotated[Path | None, inputs.file_option("--output", "-o", text=_OUTPUT)] = None,
    interval: _Level = None,
    all_rows: Annotated[bool, typer.Option("--all", help=_ALL)] = False,
    nodes: Annotated[Path | None, inputs.file_option("--nodes", text=_NODES)] = None,
    edges: Annotated[Path | None, inputs.file_option("--edges", text=_EDGES)] = None,
    attach_to_fitted: Annotated[bool, typer.Option("--attach", help=_ATTACH)] = False,
    as_json: inputs.Json = False,
    *,
    graph_options: inputs.GraphOptions,
) -> None:
    """Predict the rows whose target was empty, or the rows of a new table and its edges.

    Writes ids, predictions, and lower and upper bounds or a probability for each class.
    """
    if output is not None:
        tables.check_writable(output)
    if (nodes is None) != (edges is None):
        raise typer.BadParameter("--nodes and --edges belong together: give both or neither.")
    if attach_to_fitted and nodes is None:
        raise typer.BadParameter("--attach needs --nodes and --edges.")
    model = inputs.load_model(model_file)
    if interval is not None and is_classifier(model):
        raise ValueError(
            "--interval is for regression: this model predicts a probability for each class."
        )
    if nodes is None or edges is None:
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
    model: inputs.Model, ids: list[str], arguments: dict[str, Any], interval: float | None
) -> pd.DataFrame:
    """Ids, predictions, and bounds or a probability for each class."""
    columns: dict[str, Any] = {inputs.column_name(model, "id") or "id": ids}
    if is_classifier(model):
        probabilities = model.predict_proba(**arguments)
        columns["prediction"] = model.classes_[probabilities.argmax(axis=1)]
        for position, label in enumerate(model.classes_.tolist()):
            columns[f"probability_{label}"] = probabilities[:, position]
    elif interval is None:
        columns["prediction"] = model.predict(**arguments)
    else:
        bounds = model.predict(**arguments, interval=interval)
        columns |= zip(("prediction", "lower", "upper"), bounds, strict=True)
    return pd.DataFrame(columns)


# ---------------------------------------------------------------------- rows to predict


def _fitted_rows(model: inputs.Model, all_rows: bool) -> tuple[list[str], dict[str, Any]]:
    """Ids of the fitted rows to predict, and the arguments of ``predict``."""
    rows = np.arange(len(model.scores_))
    if not all_rows:
        rows = np.setdiff1d(rows, model.state_.labels.nodes)
    if not rows.size:
        raise ValueError(
            "The target was known in every row, so there is nothing to predict: --all predicts "
            "them all."
        )
    ids = inputs.node_ids(model)
    return [ids[row] for row in rows], {"nodes": rows}


def _read_new(
    model: inputs.Model,
    nodes: Path,
    edges: Path,
    options: inputs.GraphOptions,
    attach_to_fitted: bool,
) -> NodesAndEdges:
    """Read a new table and its edges; if attached, the fitted nodes follow the new ones."""
    id_column = inputs.column_name(model, "id")
    if options.node_id is None and id_column in tables.column_names(nodes):
        options = replace(options, node_id=id_column)
    if not attach_to_fitted:
        try:
            return options.read(nodes, edges)
        except UnknownNodeError as error:
            if error.node not in inputs.node_ids(model):
                raise
            raise ValueError(
                f"{edges}: node {error.node!r} is not in {nodes.name} but the model was fitted on "
                "it: pass --attach to add the new rows to the graph of the model."
            ) from None
    if model.graph_ is None:
        raise ValueError("--attach needs a model that was fitted on a graph.")
    data = options.read(nodes, edges, np.array(inputs.node_ids(model), dtype=object))
    return replace(data, graph=attach(data.graph, model.graph_))


def _new_rows(
    model: inputs.Model, data: NodesAndEdges, path: Path, attach_to_fitted: bool, all_rows: bool
) -> tuple[list[str], dict[str, Any]]:
    """Ids of the new rows to predict, and the arguments of ``predict``."""
    table = data.table
    present = [str(name) for name in table.columns]
    reader = model.state_.reader
    needed = [
        tables.check_column(present, name, "the model needs it", path) for name in reader.names
    ]
    X = dates_as_days(table[needed])
    for position in reader.categories:
        name = reader.names[position]
        X = X.assign(**{name: tables.as_names(X[name])})
    labelled = np.zeros(0, dtype=np.int64)
    values = np.zeros(0, dtype=object)
    if (target := inputs.column_name(model, "target")) in present:
        column = table[target]
        labelled = np.flatnonzero(column.notna().to_numpy())
        known = column if is_classifier(model) else pd.Series(target_numbers(column, path))
        values = known.to_numpy(dtype=object)[labelled]
    rows = np.arange(len(table)) if all_rows else np.setdiff1d(np.arange(len(table)), labelled)
    if not rows.size:
        raise ValueError(f"{path}: the target is known in every row: --all predicts them anyway.")
    if attach_to_fitted:
        X = pd.concat([X, _fitted_frame(model)], ignore_index=True)
        labelled = np.concatenate([labelled, len(table) + model.state_.labels.nodes])
        values = np.concatenate([values, _fitted_labels(model)])
    arguments = {"X": X, "graph": data.graph, "nodes": rows}
    if model.labels_ is not None and labelled.size:
        dtype = object if is_classifier(model) else np.float64
        arguments["new_labels"] = (labelled, values.astype(dtype))
    return [str(data.ids[row]) for row in rows], arguments


def _fitted_frame(model: inputs.Model) -> pd.DataFrame:
    """The table that the model was fitted on, with categories instead of codes."""
    table = model.state_.table
    if table is None:
        raise ValueError(
            "--attach needs the table that the model was fitted on: write the model with ebboost "
            "fit."
        )
    columns: dict[str, Any] = {}
    for position, name in enumerate(table.names):
        values = table.values[:, position]
        categories = model.state_.reader.categories.get(position)
        if categories is not None:
            values = [None if code != code else categories[int(code)] for code in values.tolist()]
        columns[name] = values
    return pd.DataFrame(columns)


def _fitted_labels(model: inputs.Model) -> NDArray[Any]:
    """The labels that the model was fitted on, as the user wrote them."""
    target = model.state_.labels.target
    if is_classifier(model):
        return model.classes_[one_hot(target).argmax(axis=1)].astype(object)
    return target[:, 0].astype(object)
