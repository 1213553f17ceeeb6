"""``ebboost fit`` and ``ebboost check``: train on a table and its edges, and say what was found."""

import shlex
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich.text import Text

from ebboost.callbacks import INTERRUPTED, ProgressBar
from ebboost.cli import console, outputs
from ebboost.cli.console import messages
from ebboost.cli.problem import (
    EdgesFile,
    Json,
    NodesFile,
    Options,
    Problem,
    Target,
    option,
    read_problem,
    with_options,
)
from ebboost.estimators import EBBSClassifier, EBBSRegressor
from ebboost.inspection import diagnostics
from ebboost.inspection.formatting import count, figure, file_size, percent
from ebboost.inspection.graph_check import GraphCheck, check_data, check_graph, verdict
from ebboost.intervals import half_widths
from ebboost.model import Model, metric_of

Preset = Literal["default", "fast"]

_PRESET = "fast: one model in place of a portfolio."
_ROUNDS = "Most rounds of each model; fewer if the error at held-out labels stops falling."
_FOLDS = "Folds of the labels: for each a model is trained without its labels. Default: 3 to 8."
_SECONDS = "End the fit after so many seconds, with what is trained by then."
_SEED = "Random seed: the same seed and data give the same result."
_ESTIMATE = "Whether to fit, which shows what the graph is worth and takes most of the time."
_OUTPUT = "Model file to write."
_CHECK = "Also print what ebboost check prints, of this same fit."
_LEVEL = "Share of true values that prediction intervals contain."


@dataclass(frozen=True)
class Fitting:
    """How to fit."""

    preset: Annotated[Preset, option("--preset", "NAME", _PRESET)] = "default"
    rounds: Annotated[int, option("--rounds", "NUMBER", _ROUNDS, min=1)] = 3000
    folds: Annotated[int | None, option("--folds", "NUMBER", _FOLDS, min=1)] = None
    max_seconds: Annotated[float | None, option("--max-seconds", "NUMBER", _SECONDS, min=0.1)] = (
        None
    )
    seed: Annotated[int, option("--seed", "NUMBER", _SEED)] = 0

    def estimator(self, task: str, loss: str) -> EBBSRegressor | EBBSClassifier:
        """Return the unfitted estimator of a task."""
        kind = EBBSClassifier if task == "classification" else EBBSRegressor
        changes: dict[str, Any] = {"n_estimators": self.rounds, "random_state": self.seed}
        changes |= {"max_seconds": self.max_seconds, "loss": loss}
        changes |= {} if self.folds is None else {"n_folds": self.folds}
        return kind(**changes) if self.preset == "default" else kind.from_preset("fast", **changes)


@with_options
def check(
    nodes: NodesFile,
    target: Target,
    options: Options,
    fitting: Fitting,
    edges: EdgesFile = None,
    estimate: Annotated[bool, option("--estimate/--no-estimate", None, _ESTIMATE)] = True,
    as_json: Json = False,
) -> None:
    """Check the data, and fit to see what the graph is worth; no model is written.

    Fitting 20,000 rows takes about half a minute. ebboost fit --check prints the same and keeps the
    model.
    """
    with messages():
        problem = read_problem(nodes, edges, target, options)
        estimator = fitting.estimator(problem.task, options.loss_name)
        arguments = problem.arguments | {"callbacks": [ProgressBar()]}
        result = check_graph(
            problem.X, problem.y, estimator=estimator, estimate=estimate, **arguments
        )
    if as_json:
        console.print_json(result.to_dict() | {"read": problem.facts})
    else:
        print_check(result, f"{nodes.name}, target {target}", problem.facts)


def print_check(result: GraphCheck, title: str, read: dict[str, str]) -> None:
    """Print the conclusion, how files were read, facts, and warnings."""
    screen = console.terminal()
    if result.verdict is not None:
        screen.print(Text(result.verdict, style="bold"))
    console.print_facts(title, [*read.items(), *result.facts()])
    for warning in result.warnings:
        screen.print(Text.assemble(("! ", "bold yellow"), warning))


@with_options
def fit(
    nodes: NodesFile,
    target: Target,
    options: Options,
    fitting: Fitting,
    edges: EdgesFile = None,
    output: Annotated[Path, option("--output -o", "FILE", _OUTPUT)] = Path("model.ebb"),
    and_check: Annotated[bool, option("--check", None, _CHECK)] = False,
    interval: Annotated[float, option("--interval", "SHARE", _LEVEL, min=0.01, max=0.999)] = 0.9,
    as_json: Json = False,
) -> None:
    """Train on a table and its edges, and write a model file.

    20,000 rows take about half a minute, classes longer. Ctrl-C writes the best model so far.
    """
    outputs.check_output(output, nodes, edges)
    if output.exists() and not outputs.is_regular(output):
        raise ValueError(f"{output} is not a file that a model could be written to.")
    with messages():
        problem = read_problem(nodes, edges, target, options)
        model = fitting.estimator(problem.task, options.loss_name)
        model.fit(problem.X, problem.y, callbacks=[ProgressBar()], **problem.arguments)
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a model that there is, is written
        model = model.from_model(replace(model.model_, source=problem.source))
        with outputs.replacing(output) as temporary:
            model.save(temporary)
        signal.signal(signal.SIGINT, handler)
    own = model.model_
    if own.stop_reason == INTERRUPTED:
        best = f"{count(len(own.rounds), 'model')} of {len(own.selection)} members"
        outputs.written.append(f"{output} has the best model so far, {best}")
        raise typer.Exit(130)
    facts = fit_facts(own, problem, output, interval)
    result = check_data(own, fitting.seed) if and_check else None
    if as_json:
        console.print_json(facts | ({} if result is None else {"check": result.to_dict()}))
        return
    if result is not None:
        print_check(result, f"{nodes.name}, target {target}", problem.facts)
    shown = {} if and_check else problem.facts
    console.print_facts(f"{target}, {problem.task}", [*shown.items(), *fit_rows(facts, own)])
    print_members(own)
    file = shlex.quote(str(output))
    has_gaps = own.labels.size < own.n_rows
    command = f"predict {file} -o predictions.csv"
    if not has_gaps:
        command = f"explain {file} {shlex.quote(str(problem.X.index[0]))}"
    print(f"\nNext: ebboost {command}\n      ebboost report {file} --open")


def fit_facts(model: Model, problem: Problem, output: Path, level: float) -> dict[str, Any]:
    """Return what a fit has found, for JSON and for print."""
    held = diagnostics.held_out(model)
    facts: dict[str, Any] = {
        "task": problem.task,
        "read": problem.facts,
        "model": str(output),
        "bytes": output.stat().st_size,
        "rows": model.n_rows,
        "columns": model.n_features,
        "edges": 0 if model.graph is None else model.graph.n_edges,
        "labels": model.labels.size,
        "rounds": model.rounds,
        "members": [row._asdict() for row in diagnostics.member_rows(model)],
        "uses_graph": model.uses_graph,
        "gain": None if model.gain is None else vars(model.gain),
        "held_out": 0 if held is None else held.rows.size,
    }
    if held is None:
        return facts
    facts |= held.metrics
    if held.is_classes:
        commonest = int(np.bincount(diagnostics.class_codes(model)).argmax())
        facts["accuracy_of_commonest_class"] = float((held.truth == commonest).mean())
        facts["calibration_error"] = diagnostics.calibration_error(held)._asdict()
        return facts
    mean = float(np.average(model.labels.target[:, 0], weights=model.labels.weight))
    facts["rmse_of_mean"] = float(np.sqrt(((held.truth - mean) ** 2).mean()))
    widths, rows = half_widths(model, level)
    return facts | {
        "interval": level,
        "half_width": float(np.median(widths)),
        "half_width_of": rows,
    }


def fit_rows(facts: dict[str, Any], model: Model) -> list[tuple[str, str]]:
    """Return what a fit has found in words."""
    nouns = {"rows": "row", "columns": "column", "edges": "edge", "labels": "label"}
    sizes = ", ".join(count(facts[name], noun) for name, noun in nouns.items())
    rows = [("data", sizes)]
    if model.gain is not None:
        rows.append(("graph", verdict(model.gain, model.uses_graph)))
    if "rmse" in facts:
        mean = facts["rmse_of_mean"]
        error = f"{figure(facts['rmse'])}; {figure(mean)} for the mean (R² {facts['r2']:.3f})"
        rows += [("held-out RMSE", error), ("held-out MAE", figure(facts["mae"]))]
        width = f"±{figure(facts['half_width'])} or less for half of {facts['half_width_of']}"
        width = width if np.isfinite(facts["half_width"]) else "none: too few held-out labels"
        rows.append((f"{percent(facts['interval'])} interval", width))
    if "accuracy" in facts:
        constant = percent(facts["accuracy_of_commonest_class"], 1)
        shares = f"{percent(facts['accuracy'], 1)}; {constant} for the commonest class"
        rows.append(("held-out accuracy", shares))
        error = facts["calibration_error"]
        chance = f"{error['expected']:.3f} ± {error['deviation']:.3f} by chance"
        rows.append(("calibration error", f"{error['value']:.3f}; {chance}"))
    for name in ("deviance", "d2", "log_loss", "brier", "roc_auc", "average_precision"):
        if name in facts:
            rows.append((f"held-out {diagnostics.TITLES[name]}", f"{facts[name]:.4g}"))
    measured = "nothing: too few labels to hold some out"
    if n := facts["held_out"]:
        measured = f"{n:,} labels, each by models that were not trained on it"
    models = f"{count(len(facts['rounds']), 'model')}, {file_size(facts['bytes'])}"
    file = f"{facts['model']}, {models}; it contains the table"
    return [*rows, ("measured on", measured), ("model", file)]


def print_members(model: Model) -> None:
    """Print the members of a model by their weights."""
    rows = diagnostics.member_rows(model)
    if len(rows) < 2:
        return
    metric = metric_of(model.output.loss)
    table = console.column_table("member", ">weight", f">{metric}", ">rounds", ">seconds")
    for row in rows:
        numbers = (f"{row.weight:.3f}", figure(row.error), f"{row.rounds:.0f}")
        table.add_row(row.name, *numbers, figure(row.seconds, 2))
    console.terminal().print(table)
