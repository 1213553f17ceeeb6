"""``ebboost fit``: train on a table and its edges, and write a model file."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray

from ebboost.boosting.callbacks import Callback, Interrupt, RoundInfo
from ebboost.cli import console, inputs, tables
from ebboost.data.labels import one_hot
from ebboost.estimators import EBBSClassifier, EBBSRegressor
from ebboost.inspection.formatting import figure, file_size, percent
from ebboost.inspection.metrics import accuracy, mae, rmse
from ebboost.model.intervals import half_width

_OUTPUT = "Model file to write."
_ROUNDS = "Most trees; fewer if the validation loss stops falling."
_LEVEL = "Share of true values that prediction intervals contain."
_FOLDER = "Write a checkpoint there every 30 seconds, for --resume."
_RESUME = "Continue from --checkpoint after a crash or Ctrl-C, to the same model."
_INTERVAL = inputs.option("--interval", "SHARE", _LEVEL, min=0.01, max=0.999)


class RoundsBar(Callback):
    """Moves the progress bar with the rounds of boosting."""

    def __init__(self, update: console.Update) -> None:
        self.update = update

    def after_round(self, progress: RoundInfo) -> None:
        """Show the round and its loss."""
        loss = progress.validation_loss
        if loss is None:
            loss = progress.training_loss
        text = f"round {progress.round + 1} of at most {progress.n_rounds}, loss {figure(loss)}"
        self.update(total=progress.n_rounds, completed=progress.round + 1, description=text)


@inputs.with_options
def fit(
    nodes: inputs.NodesFile,
    target: inputs.Target,
    graph_options: inputs.GraphOptions,
    column_options: inputs.ColumnOptions,
    edges: inputs.EdgesFile = None,
    output: Annotated[Path, inputs.option("--output -o", "FILE", _OUTPUT)] = Path("model.ebb"),
    rounds: Annotated[int, inputs.option("--rounds", "NUMBER", _ROUNDS, min=1)] = 1000,
    interval: Annotated[float, _INTERVAL] = 0.9,
    checkpoint: Annotated[Path | None, inputs.option("--checkpoint", "FOLDER", _FOLDER)] = None,
    resume: Annotated[bool, inputs.option("--resume", None, _RESUME)] = False,
    seed: inputs.Seed = 0,
    as_json: inputs.Json = False,
) -> None:
    """Train on a table and its edges, and write a model file."""
    if resume and checkpoint is None:
        raise typer.BadParameter("--resume needs --checkpoint FOLDER: where to continue from.")
    tables.check_writable(output)
    if tables.is_special(output):
        raise ValueError(f"{output} is not a file that a model could be written to.")
    data, X, y, task = inputs.read_problem(nodes, edges, target, graph_options, column_options)
    estimator = EBBSClassifier if task == "classification" else EBBSRegressor
    model = estimator(rounds, random_state=seed)
    with console.progress("selecting how to use the graph") as update:
        bar = [RoundsBar(update)]
        options: dict[str, Any] = {"checkpoint": checkpoint, "resume": resume, "callbacks": bar}
        if graph_options.coordinates is None:
            model.fit(X, y, graph=data.graph, **options)
        else:  # the same graph, without ids
            model.fit(X, y, coordinates=graph_options.coordinates, **options)
            model = estimator.from_state(replace(model.state_, graph=data.graph))
        if model.stop_reason_ == Interrupt.reason:
            if checkpoint is not None:
                console.print_note("the same command with --resume continues.")
            raise KeyboardInterrupt
    with console.progress(f"writing {output.name}"):
        model.save(output, table=True, source={"id": data.id_name or "row", "target": target})
    known = pd.notna(y)
    facts = {
        "task": task,
        "nodes": len(X),
        "columns": X.shape[1],
        "edges": 0 if model.graph_ is None else model.graph_.n_edges,
        "labels": int(known.sum()),
        "best_candidate": model.best_candidate_,
        "selection": model.selection_,
        "rounds": model.n_iter_,
        "model": str(output),
        "bytes": output.stat().st_size,
        **_held_out_metrics(model, y[known], interval),
    }
    if as_json:
        console.print_json(facts)
        return
    console.print_facts(f"{target}, {task}", _fit_rows(facts))
    file = shlex.quote(str(output))
    command = f"predict {file} -o predictions.csv"
    if known.all():
        command = f"explain {file} {shlex.quote(str(data.ids[0]))}"
    print(f"\nNext: ebboost {command}\n      ebboost report {file} --open")


def _held_out_metrics(model: inputs.Model, y: NDArray[Any], level: float) -> dict[str, Any]:
    """Metrics on held-out labels, beside those of the best constant."""
    n_validation = int(model.validation_nodes_.size)
    # Errors are those of validation nodes or, where labels are few, out-of-fold.
    n_errors = n_validation if isinstance(model, EBBSClassifier) else model.conformity_scores_.size
    if not n_errors:
        return {"held_out": 0}
    if isinstance(model, EBBSClassifier):
        decode = model.state_.output.decode
        classes, counts = np.unique(y.astype(model.classes_.dtype), return_counts=True)
        truth = model.classes_[one_hot(model.validation_target_).argmax(axis=1)]
        return {
            "held_out": n_errors,
            "accuracy": accuracy(truth, decode(model.validation_prediction_)),
            "accuracy_of_commonest_class": accuracy(truth, classes[counts.argmax()]),
            "calibration_error": model.calibration_error_,
        }
    truth = model.validation_target_[:, 0] if n_validation else y
    return {
        "held_out": n_errors,
        "rmse": rmse(model.conformity_scores_),
        "rmse_of_mean": rmse(truth - y.mean()),
        "mae": mae(model.conformity_scores_),
        "interval": level,
        "half_width": half_width(model.state_, level),
    }


def _fit_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The metrics and facts of a fit in words."""
    sizes = (f"{facts[name]:,} {name}" for name in ("nodes", "columns", "edges", "labels"))
    rows = [("data", ", ".join(sizes))]
    if "rmse" in facts:
        mean = facts["rmse_of_mean"]
        explained = 1.0 - (facts["rmse"] / mean) ** 2 if mean else 0.0
        error = f"{figure(facts['rmse'])}; {figure(mean)} for the mean (R² {explained:.3f})"
        width = facts["half_width"]
        bounds = f"±{figure(width)}" if np.isfinite(width) else "none: too few held-out labels"
        rows += [("held-out RMSE", error), ("held-out MAE", figure(facts["mae"]))]
        rows.append((f"{percent(facts['interval'])} interval", bounds))
    if "accuracy" in facts:
        constant = percent(facts["accuracy_of_commonest_class"], 1)
        shares = f"{percent(facts['accuracy'], 1)}; {constant} for the commonest class"
        rows.append(("held-out accuracy", shares))
        rows.append(("calibration error", f"{facts['calibration_error']:.3f} on average"))
    measured = "nothing: too few labels to hold some out"
    if n := facts["held_out"]:
        measured = f"{n:,} held-out labels, which also chose the number of rounds: "
        measured += "slightly optimistic"
    use = f"used ({facts['best_candidate']})"
    if facts["best_candidate"] == "none":
        use = "not used: boosting without it did as well"
    if len(facts["selection"]) > 1:
        ranked = sorted(facts["selection"].items(), key=lambda item: item[1])
        losses = ", ".join(f"{name} {figure(loss)}" for name, loss in ranked)
        use += f"; validation loss after a few rounds: {losses}"
    size = f"{facts['rounds']} rounds, {file_size(facts['bytes'])}"
    file = f"{facts['model']}, {size}; it contains the table"
    return [*rows, ("measured on", measured), ("graph", use), ("model", file)]
