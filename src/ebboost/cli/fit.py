"""``ebboost fit``: train on a table and its edges, and write a model file."""

import shlex
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray

from ebboost.boosting.callbacks import Interrupt
from ebboost.cli import console, inputs, outputs, tables
from ebboost.cli.graph_files import NodesAndEdges
from ebboost.data.reader import TableReader
from ebboost.estimators import EBBSClassifier, EBBSRegressor
from ebboost.graph import Graph
from ebboost.inspection.data_audit import leaks
from ebboost.inspection.diagnostics import (
    CLASS_METRICS,
    NUMBER_METRICS,
    TITLES,
    require_validation,
    selection_rows,
)
from ebboost.inspection.formatting import count, figure, file_size, percent
from ebboost.inspection.model_checks import calibration_check
from ebboost.model.intervals import half_widths
from ebboost.model.state import FittedState
from ebboost.model.summary import coordinate_graph, error_text, graph_use, models_text

Preset = Literal["default", "fast", "best"]

_OUTPUT = "Model file to write."
_ROUNDS = "Most rounds of each model; fewer if the loss at held-out labels stops falling."
_PRESET = "fast: one model, no comparisons; best: more models, smaller steps."
_LEVEL = "Share of true values that prediction intervals contain."
_FOLDER = "Write a checkpoint there every 30 seconds, for --resume."
_RESUME = "Continue from --checkpoint after a crash or Ctrl-C, to the same model."
_INTERVAL = inputs.option("--interval", "SHARE", _LEVEL, min=0.01, max=0.999)


@inputs.with_options
def fit(
    nodes: inputs.NodesFile,
    target: inputs.Target,
    graph_options: inputs.GraphOptions,
    column_options: inputs.ColumnOptions,
    loss_options: inputs.LossOptions,
    row_options: inputs.RowOptions,
    edges: inputs.EdgesFile = None,
    output: Annotated[Path, inputs.option("--output -o", "FILE", _OUTPUT)] = Path("model.ebb"),
    rounds: Annotated[int, inputs.option("--rounds", "NUMBER", _ROUNDS, min=1)] = 3000,
    preset: Annotated[Preset, inputs.option("--preset", "NAME", _PRESET)] = "default",
    interval: Annotated[float, _INTERVAL] = 0.9,
    checkpoint: Annotated[Path | None, inputs.option("--checkpoint", "FOLDER", _FOLDER)] = None,
    resume: Annotated[bool, inputs.option("--resume", None, _RESUME)] = False,
    seed: inputs.Seed = 0,
    as_json: inputs.Json = False,
) -> None:
    """Train on a table and its edges, and write a model file."""
    if resume and checkpoint is None:
        raise typer.BadParameter("--resume needs --checkpoint FOLDER: where to continue from.")
    saved = [] if checkpoint is None else [*checkpoint.glob("*.ckpt")]
    outputs.check_output(output, nodes, edges, *saved)
    if outputs.is_special(output):
        raise ValueError(f"{output} is not a file that a model could be written to.")
    names = tables.column_names(graph_options.table(nodes))
    column_options = loss_options.complete(column_options, names, nodes)
    column_options = row_options.complete(column_options, names, nodes)
    options = (graph_options, column_options, row_options.groups)
    data, X, y, task = inputs.read_problem(nodes, edges, target, *options)
    roles = loss_options.columns | row_options.columns
    for finding in leaks(TableReader().fit(X), data.graph, y, task == "classification"):
        console.print_warning(str(finding))
    model = _estimator(task, preset, rounds, seed, loss_options.name)
    arguments: dict[str, Any] = {"checkpoint": checkpoint, "resume": resume}
    arguments |= {"causal": row_options.causal, **inputs.role_columns(data.table, roles, nodes)}
    with Interrupt() as interrupt:  # what has been trained is written
        with console.progress("selecting how to use the graph") as update:
            arguments["callbacks"] = [console.ModelsBar(update)]
            model = _train(model, X, y, data.graph, graph_options, arguments)
        with console.progress(f"writing {output.name}"):
            source = {"id": data.id_name or "row", "target": target, **roles}
            model.save(output, table=True, source=source)
        outputs.written.append(f"{output} is written")
    if interrupt.is_set:
        resuming = "" if checkpoint is None else "; the same command with --resume continues"
        best = f"{output} has the best model so far, {models_text(model.rounds_)}"
        outputs.written.append(f"{best}{resuming}")
        raise typer.Exit(130)
    _print_results(model, data, y, Printing(task, target, output, interval, as_json))


class Printing(NamedTuple):
    """What the results of a fit are printed with."""

    task: str
    target: str
    output: Path
    interval: float
    as_json: bool


def _print_results(
    model: inputs.Model, data: NodesAndEdges, y: NDArray[Any], printing: Printing
) -> None:
    """Print how the files were read, errors at held-out labels and what to do next."""
    task, target, output, interval, as_json = printing
    known = pd.notna(y)
    facts = {
        "task": task,
        "read": data.read,
        "model": str(output),
        "bytes": output.stat().st_size,
        **_model_facts(model.state_),
        **_held_out_metrics(model, y[known], interval),
    }
    if as_json:
        console.print_json(facts)
        return
    console.print_facts(f"{target}, {task}", _fit_rows(facts, model.state_))
    _print_candidates(model.state_)
    file = shlex.quote(str(output))
    explain = f"explain {file} {shlex.quote(str(data.ids[0]))}"
    command = explain if known.all() else f"predict {file} -o predictions.csv"
    print(f"\nNext: ebboost {command}\n      ebboost report {file} --open")


def _train(
    model: inputs.Model,
    X: pd.DataFrame,
    y: NDArray[Any],
    graph: Graph | None,
    graph_options: inputs.GraphOptions,
    options: dict[str, Any],
) -> inputs.Model:
    """The fitted model; ``graph`` is that of the coordinates, with ids."""
    known = "Edges connect|.* nearly copies y|The coordinates look|fit was interrupted"
    warnings.filterwarnings("ignore", known)
    coordinates = graph_options.coordinates
    if coordinates is None:
        return model.fit(X, y, graph=graph, **options)
    model.set_params(neighbors=graph_options.neighbors_parameter)
    model.fit(X, y, coordinates=coordinates, **options)
    state = model.state_
    assert graph is not None and state.graph is not None
    ids = graph.node_ids if graph.has_ids else None
    built = Graph(state.graph.adjacency, ids, time=state.graph.time, vectors=state.graph.vectors)
    return model.from_state(replace(state, graph=built))


def _estimator(task: str, preset: Preset, rounds: int, seed: int, loss: str) -> inputs.Model:
    """The unfitted estimator of a task and a preset."""
    parameters: dict[str, Any] = {"n_estimators": rounds, "random_state": seed, "loss": loss}
    kind = EBBSClassifier if task == "classification" else EBBSRegressor
    return kind(**parameters) if preset == "default" else kind.from_preset(preset, **parameters)


def _model_facts(state: FittedState) -> dict[str, Any]:
    """Sizes, the selected candidates, and what the graph is worth."""
    graph = state.graph
    groups = {}
    if graph is not None and graph.groups is not None:  # its own edges only stand for groups
        graph = graph.groups.graph
        groups = {"groups": graph.n_nodes}
    return {
        "nodes": state.n_nodes,
        "columns": state.n_features,
        **groups,
        "edges": 0 if graph is None else graph.n_edges,
        "labels": int(state.labels.nodes.size),
        "candidates": state.candidate_names,
        "selection": state.selection,
        "gain": None if state.gain is None else vars(state.gain),
        "rounds": state.rounds,
    }


def _held_out_metrics(model: inputs.Model, y: NDArray[Any], level: float) -> dict[str, Any]:
    """Metrics on held-out labels, and those of the best constant."""
    n_errors = int(model.validation_nodes_.size)
    if not n_errors:
        return {"held_out": 0}
    held_out = require_validation(model.state_)
    facts = {"held_out": n_errors, **held_out.metrics}
    if isinstance(model, EBBSClassifier):
        classes, counts = np.unique(y.astype(model.classes_.dtype), return_counts=True)
        commonest = model.classes_[held_out.truth.astype(int)] == classes[counts.argmax()]
        return facts | {
            "accuracy_of_commonest_class": float(commonest.mean()),
            "calibration_error": model.calibration_error_,
        }
    widths = half_widths(model.state_, level)
    return facts | {
        "rmse_of_mean": float(np.sqrt(((held_out.truth - y.mean()) ** 2).mean())),
        "interval": level,
        "half_width": float(np.median(widths.values)),
        "half_width_of": widths.rows,
    }


def _fit_rows(facts: dict[str, Any], state: FittedState) -> list[tuple[str, str]]:
    """The metrics and facts of a fit in words."""
    nouns = {"nodes": "row" if "groups" in facts else "node", "columns": "column"}
    nouns |= {"groups": "group", "edges": "edge", "labels": "label"}
    sizes = (count(facts[name], noun) for name, noun in nouns.items() if name in facts)
    rows = [*facts["read"].items(), ("data", ", ".join(sizes)), ("graph", graph_use(state)[0])]
    if state.coordinates is not None:
        chosen = coordinate_graph(state.coordinates.neighbors, state.coordinates.weighted)
        rows.append(("nearest rows", chosen))
    if state.gain is not None:
        rows.append(("error", error_text(state.gain)))
        if state.uses_graph and state.gain.is_harm:
            rows.insert(0, ("warning", "the graph does harm: fit without it"))
    if "rmse" in facts:
        mean = facts["rmse_of_mean"]
        explained = 1.0 - (facts["rmse"] / mean) ** 2 if mean else 0.0
        error = f"{figure(facts['rmse'])}; {figure(mean)} for the mean (R² {explained:.3f})"
        width = facts["half_width"]
        bounds = "none: too few held-out labels"
        if np.isfinite(width):
            bounds = f"±{figure(width)} or less for half of {facts['half_width_of']}"
        rows += [("held-out RMSE", error), ("held-out MAE", figure(facts["mae"]))]
        rows.append((f"{percent(facts['interval'])} interval", bounds))
    if "accuracy" in facts:
        constant = percent(facts["accuracy_of_commonest_class"], 1)
        shares = f"{percent(facts['accuracy'], 1)}; {constant} for the commonest class"
        rows.append(("held-out accuracy", shares))
        if (check := calibration_check(state)) is not None:
            by_chance = f"{check.expected:.3f} ± {check.deviation:.3f} by chance"
            rows.append(("calibration error", f"{check.value:.3f}; {by_chance}"))
    rows += [
        (f"held-out {TITLES[name]}", f"{facts[name]:.4g}")
        for name in (*NUMBER_METRICS, *CLASS_METRICS[2])
        if name in facts
    ]
    measured = "nothing: too few labels to hold some out"
    if n := facts["held_out"]:
        measured = f"{n:,} labels, each by a model that was not trained on it; they also chose "
        measured += "the parts and the rounds: slightly optimistic"
    size = f"{models_text(state.rounds)}, {file_size(facts['bytes'])}"
    file = f"{facts['model']}, {size}; it contains the table"
    return [*rows, ("measured on", measured), ("model", file)]


def _print_candidates(state: FittedState) -> None:
    """Print the candidates of the model selection, best first."""
    rows = selection_rows(state)
    if len(rows) < 2:
        return
    heading = ("candidate", ">loss", ">± error", ">folds", ">rounds")
    table = console.column_table(*heading)
    for row in rows:
        name = f"{row.name} (selected)" if row.selected else row.name
        table.add_row(name, figure(row.loss), figure(row.error, 2), row.folds, f"{row.rounds:.0f}")
    console.terminal().print(table)
