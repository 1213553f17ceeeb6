"""The command line: reads files, calls the library, prints. What it computes lives in other rooms.

Results go to standard output, notes and progress to standard error. Every mistake is one line on standard error and an
exit code: 1 for bad files or data, 2 for a wrong command line, 130 for Ctrl-C.
"""

import json
import os
import shlex
import subprocess
import sys
import traceback
import warnings
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

import ebboost
from ebboost.boosting.callbacks import Callback, Interrupt, RoundInfo
from ebboost.cli import roles as columns
from ebboost.cli import tables as files
from ebboost.estimators import EBBSClassifier, EBBSRegressor
from ebboost.inspection.formatting import figure
from ebboost.inspection.graph_check import GraphCheck, check_graph
from ebboost.inspection.report import write_report
from ebboost.model import serialization as modelfile

TOP = 8


class _OneLine(TyperGroup):
    """Turns every error into one line and an exit code."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run, and leave with the code that the outcome has earned."""
        try:
            code = super().main(*args, **extra | {"standalone_mode": False})
        except (KeyboardInterrupt, typer.Abort):
            code = 130
        except Exception as error:
            code = _say(error)
        if code == 130:
            _complain("stopped; no file was changed.")
        sys.exit(code if isinstance(code, int) else 0)


def _say(error: Exception) -> int:
    """Print one line about an error and return the exit code."""
    if os.environ.get("EBBOOST_DEBUG"):
        traceback.print_exc()
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # a wrong command line
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "ebboost"
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message())
        else:
            said = error.format_message()
            _complain(f"{said}{'' if said[-1:] in '.?!' else '.'} See {command} --help.")
        return int(error.exit_code)
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        _complain(f"{place}{error.strerror}.")
    elif isinstance(error, MemoryError):
        _complain("there is not enough memory for this.")
    elif isinstance(error, (ValueError, TypeError, OSError, ImportError)):
        _complain(str(error))
    else:
        _complain(
            f"internal error, {type(error).__name__}: {error}. EBBOOST_DEBUG=1 shows where; please report it."
        )
    return 1


def _complain(text: str) -> None:
    print("ebboost: " + " ".join(text.split()), file=sys.stderr)


app = typer.Typer(
    name="ebboost",
    cls=_OneLine,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Gradient boosting that sees a graph: a table of nodes, a table of edges, a target column.",
    epilog="Five minutes: ebboost demo --files counties; cd counties; ebboost check nodes.csv edges.csv -t pc_turnout; "
    "ebboost fit nodes.csv edges.csv -t pc_turnout; ebboost predict model.ebb -o predictions.csv; "
    "ebboost report model.ebb --open",
)


class Task(StrEnum):
    """What the target is."""

    auto = "auto"
    regression = "regression"
    classification = "classification"


def _column(*names: str, text: str) -> Any:
    return typer.Option(*names, metavar="COLUMN", help=text)


NodesFile = Annotated[
    Path,
    typer.Argument(
        metavar="NODES", readable=False, help="Table with a row for each node: CSV or Parquet."
    ),
]
EdgesFile = Annotated[
    Path, typer.Argument(metavar="EDGES", readable=False, help="Edges: CSV, Parquet or GraphML.")
]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", readable=False, help="A model written by ebboost fit.")
]
Target = Annotated[
    str, _column("--target", "-t", text="What to predict; rows where it is empty are predicted.")
]
IdColumn = Annotated[
    str | None,
    _column(
        "--id",
        text="Ids of the nodes, as EDGES uses them. Default: named like one, or the first. rows: EDGES counts rows.",
    ),
]
Source = Annotated[
    str | None,
    _column("--source", text="One end of each edge. Default: named like one, or the first."),
]
TargetNode = Annotated[str | None, _column("--target-node", text="The other end of each edge.")]
Weight = Annotated[
    str | None, _column("--weight", text="How strongly the two ends are tied. Default: all alike.")
]
TaskOption = Annotated[
    Task, typer.Option(metavar="TASK", help="auto, regression or classification.")
]
Drop = Annotated[list[str] | None, _column("--drop", text="Column to leave out; may be repeated.")]
Categorical = Annotated[
    list[str] | None, _column("--categorical", text="Numbers that are names; may be repeated.")
]
SkipUnknown = Annotated[
    bool, typer.Option("--skip-unknown", help="Leave out edges that name nodes not in NODES.")
]
Seed = Annotated[
    int, typer.Option(metavar="NUMBER", help="The same seed and data give the same result.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


# ---------------------------------------------------------------------- printing


def _console(error: bool = False) -> Console:
    return Console(stderr=error, markup=False, highlight=False, soft_wrap=False)


def _note(text: str) -> None:
    _console(error=True).print(Text.assemble(("note: ", "yellow"), text))


def _print_json(value: Any) -> None:
    def plain(item: Any) -> Any:
        if isinstance(item, np.generic):
            return item.item()
        if isinstance(item, np.ndarray):
            return item.tolist()
        return str(item)

    print(json.dumps(_finite(value), default=plain, ensure_ascii=False, indent=1, allow_nan=False))


def _finite(value: Any) -> Any:
    """JSON knows neither NaN nor infinity: null."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return value


def _facts(title: str, rows: list[tuple[str, str]]) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        show_header=False,
        pad_edge=False,
    )
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(Text(name), Text(text))
    return table


@contextmanager
def _progress(text: str) -> Iterator[tuple[Progress, Any]]:
    """Show a bar on standard error while something runs, if that is a terminal."""
    parts = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(20),
        TimeElapsedColumn(),
    )
    console = _console(error=True)
    with Progress(*parts, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield bar, bar.add_task(text, total=None)


class _RoundsBar(Callback):
    """Moves the bar with the rounds of boosting."""

    def __init__(self, bar: Progress, task: Any) -> None:
        self.bar, self.task = bar, task

    def after_round(self, progress: RoundInfo) -> None:
        """Show the round."""
        loss = (
            progress.training_loss if progress.validation_loss is None else progress.validation_loss
        )
        text = f"round {progress.round + 1} of {progress.n_rounds} at most, validation loss {figure(loss)}"
        self.bar.update(
            self.task, total=progress.n_rounds, completed=progress.round + 1, description=text
        )


# ---------------------------------------------------------------------- reading


@contextmanager
def _quiet() -> Iterator[None]:
    """Say warnings of the library as notes, once each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        _note(" ".join(text.split()))


def _read(
    nodes: Path,
    edges: Path,
    node_id: str | None,
    source: str | None,
    target_node: str | None,
    weight: str | None,
    skip: bool,
    elsewhere: Any = None,
) -> files.NodesAndEdges:
    with _progress(f"reading {nodes.name} and {edges.name}"):
        data = files.read_nodes_and_edges(
            nodes,
            edges,
            node_id=node_id,
            source=source,
            target_node=target_node,
            weight=weight,
            skip_unknown=skip,
            elsewhere=elsewhere,
        )
    for text in data.notes:
        _note(text)
    return data


def _columns(
    table: Any,
    target: str,
    task: Task,
    drop: list[str] | None,
    categorical: list[str] | None,
    path: Path,
) -> tuple[Any, Any, str]:
    """Features, labels and the kind of task."""
    X, notes = columns.features(table, target, drop or [], categorical or [], path)
    y, kind = columns.labels(table[target], str(task), path)
    for text in notes:
        _note(text)
    return X, y, kind


def _load(path: Path) -> Any:
    with _progress(f"loading {path.name}"):
        return ebboost.load(files.existing(path))


# ---------------------------------------------------------------------- commands


def _version(asked: bool) -> None:
    if asked:
        print(f"ebboost {ebboost.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Gradient boosting that sees a graph."""


@app.command(epilog="Example: ebboost demo --files counties")
def demo(
    folder: Annotated[
        Path | None,
        typer.Option(
            "--files", metavar="FOLDER", help="Instead, write a small data set to try commands on."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            readable=False,
            help="Keep the model that uses the graph in this file.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a graph is worth on 25 357 house sales, in a minute."""
    from ebboost.cli import demo as show

    if folder is None:
        if output is not None:
            files.check_writable(output)
        with _progress("fitting without and with the graph"):
            found = show.measure(keep=output)
        _print_json(found) if as_json else print(show.describe_parameters(found))
        if output is not None and not as_json:
            print(f"\nThe model is in {output}.")
        return
    if output is not None:
        raise typer.BadParameter("--output keeps a model and --files makes none: give one of them.")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: name a folder.")
    folder.mkdir(parents=True, exist_ok=True)
    nodes, edges = show.counties()
    for name, frame in (("nodes.csv", nodes), ("edges.csv", edges)):
        files.write_table(frame, folder / name)
    if as_json:
        _print_json(
            {"nodes": folder / "nodes.csv", "edges": folder / "edges.csv", "target": "pc_turnout"}
        )
        return
    print(
        f"{folder / 'nodes.csv'}: 3 107 US counties and their turnout in 1980, empty in 40 % of them."
    )
    print(f"{folder / 'edges.csv'}: which of them share a border.")
    both = shlex.join(str(folder / name) for name in ("nodes.csv", "edges.csv"))
    print(f"Next: ebboost check {both} --target pc_turnout")


@app.command(epilog="Example: ebboost check nodes.csv edges.csv --target price")
def check(
    nodes: NodesFile,
    edges: EdgesFile,
    target: Target,
    node_id: IdColumn = None,
    source: Source = None,
    target_node: TargetNode = None,
    weight: Weight = None,
    task: TaskOption = Task.auto,
    drop: Drop = None,
    categorical: Categorical = None,
    skip_unknown: SkipUnknown = False,
    folds: Annotated[
        int,
        typer.Option(
            min=2, metavar="NUMBER", help="Folds of the comparison with and without the graph."
        ),
    ] = 3,
    estimate: Annotated[
        bool, typer.Option(help="Whether to make that comparison: it takes most of the time.")
    ] = True,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Does your graph need a confidence boost? Look at the data, and at what the graph would add."""
    files.column_of(
        files.column_names(nodes), target, "--target", nodes
    )  # before the work of reading
    data = _read(nodes, edges, node_id, source, target_node, weight, skip_unknown)
    X, y, kind = _columns(data.table, target, task, drop, categorical, nodes)
    with _quiet(), _progress("comparing with and without the graph") as (bar, job):
        found = check_graph(
            X,
            y,
            data.graph,
            task=kind,
            estimate=estimate,
            n_folds=folds,
            random_state=seed,
            progress=lambda done, total: bar.update(job, completed=done, total=total),
        )
    if as_json:
        _print_json(found.to_dict())
    else:
        _show_check(found, nodes, target)


def _show_check(found: GraphCheck, nodes: Path, target: str) -> None:
    console = _console()
    console.print(_facts(f"{nodes.name}, target {target}", found.facts()))
    for warning in found.warnings:
        console.print(Text.assemble(("! ", "bold yellow"), warning))
    if found.estimate is None:
        return
    e = found.estimate
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in (f"{e.metric}, hidden labels", "without graph", "with graph", "gain"):
        table.add_column(name, justify="left" if name.startswith(e.metric) else "right")
    whole = f"{len(e.choices)} folds of {e.n_labels:,} labels" + (
        ", whole regions" if e.folds == "blocks" else ""
    )
    whole += f" ({e.n_nodes:,} nodes)" if e.n_nodes < found.n_nodes else ""
    table.add_row(whole, figure(e.without), figure(e.with_graph), e.gain_text)
    console.print(table)
    console.print(Text(e.verdict, style="bold"))


@app.command(
    epilog="Example: ebboost fit nodes.csv edges.csv --target price -o houses.ebb; "
    "a long one, begun or taken up again: ebboost fit nodes.csv edges.csv --target price --checkpoint kept --resume"
)
def fit(
    nodes: NodesFile,
    edges: EdgesFile,
    target: Target,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", readable=False, help="The model file to write."
        ),
    ] = Path("model.ebb"),
    node_id: IdColumn = None,
    source: Source = None,
    target_node: TargetNode = None,
    weight: Weight = None,
    task: TaskOption = Task.auto,
    drop: Drop = None,
    categorical: Categorical = None,
    skip_unknown: SkipUnknown = False,
    rounds: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="NUMBER",
            help="Most trees; fewer once the validation loss stops falling.",
        ),
    ] = 1000,
    interval: Annotated[
        float,
        typer.Option(
            min=0.01, max=0.999, metavar="SHARE", help="Share of truths that intervals hold."
        ),
    ] = 0.9,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            readable=False,
            help="Keep there what --resume needs, every 30 seconds.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on from --checkpoint after a crash or Ctrl-C, to the same model."
        ),
    ] = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train on a table and its edges, and write a model file."""
    if resume and checkpoint is None:
        raise typer.BadParameter("--resume needs --checkpoint FOLDER: where to go on from.")
    files.check_writable(output)
    if files.is_special(output):
        raise ValueError(f"{output} is not a file that a model could be written to.")
    files.column_of(
        files.column_names(nodes), target, "--target", nodes
    )  # before the work of reading
    data = _read(nodes, edges, node_id, source, target_node, weight, skip_unknown)
    X, y, kind = _columns(data.table, target, task, drop, categorical, nodes)
    model: Any = (EBBSClassifier if kind == "classification" else EBBSRegressor)(
        rounds, random_state=seed
    )
    with _quiet(), _progress("trying ways of using the graph") as (bar, job):
        watching = [_RoundsBar(bar, job)]
        model.fit(X, y, graph=data.graph, callbacks=watching, checkpoint=checkpoint, resume=resume)
        if model.stop_reason_ == Interrupt.reason:
            if checkpoint is not None:
                _note("the same command with --resume goes on.")
            raise KeyboardInterrupt
    model.names_ = {"id": data.id_name or "row", "target": target}
    with _progress(f"writing {output.name}"):
        model.save(output, table=True)
    facts = columns.held_out_quality(model, interval)
    facts |= {
        "task": kind,
        "nodes": data.graph.n_nodes,
        "edges": data.graph.n_edges,
        "columns": X.shape[1],
        "labels": len(model._training.nodes),
        "graph": model.best_candidate_,
        "rounds": model.n_iter_,
        "race": model.selection_,
        "model": str(output),
        "bytes": output.stat().st_size,
    }
    if as_json:
        _print_json(facts)
        return
    _console().print(_facts(f"{target}, {kind}", _fit_rows(facts)))
    place = shlex.quote(str(output))
    if len(model._training.nodes) < data.graph.n_nodes:
        print(f"\nNext: ebboost predict {place} -o predictions.csv")
    else:
        print(f"\nNext: ebboost explain {place} {shlex.quote(str(data.ids[0]))}")
    print(f"      ebboost report {place} --open")


def _fit_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [
        (
            "data",
            f"{facts['nodes']:,} nodes, {facts['columns']} columns, {facts['edges']:,} edges, {facts['labels']:,} labels",
        )
    ]
    if "rmse" in facts:
        share = 1.0 - (facts["rmse"] / facts["rmse_of_mean"]) ** 2 if facts["rmse_of_mean"] else 0.0
        rows.append(
            (
                "held-out RMSE",
                f"{figure(facts['rmse'])}; {figure(facts['rmse_of_mean'])} if all were their mean (R² {share:.3f})",
            )
        )
        rows.append(("held-out MAE", figure(facts["mae"])))
    if "accuracy" in facts:
        common = facts["accuracy_of_commonest_class"]
        rows.append(
            (
                "held-out accuracy",
                f"{facts['accuracy']:.1%}; {common:.1%} for always the commonest class",
            )
        )
        rows.append(
            (
                "calibration",
                f"stated probabilities are off by {facts['calibration_error']:.3f} on average",
            )
        )
    if facts.get("half_width") is not None:
        width = (
            "none: too few held-out labels"
            if np.isinf(facts["half_width"])
            else "±" + figure(facts["half_width"])
        )
        rows.append((f"{facts['interval']:.0%} interval", width))
    if facts["held_out"]:
        rows.append(
            (
                "measured on",
                f"{facts['held_out']:,} held-out labels, which also chose the rounds: slightly optimistic",
            )
        )
    else:
        rows.append(("measured on", "nothing: too few labels to hold some out"))
    how = (
        "not used: plain boosting did as well"
        if facts["graph"] == "none"
        else f"used ({facts['graph']})"
    )
    if len(facts["race"]) > 1:
        how += "; validation loss after a few rounds: "
        how += ", ".join(
            f"{name} {figure(loss)}"
            for name, loss in sorted(facts["race"].items(), key=lambda item: item[1])
        )
    rows.append(("graph", how))
    rows.append(
        (
            "model",
            f"{facts['model']}, {facts['rounds']} rounds, {_size(facts['bytes'])}; it holds the table too",
        )
    )
    return rows


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:.1f} kB"


@app.command(epilog="Example: ebboost predict houses.ebb --interval 0.9 -o predictions.csv")
def predict(
    model_file: ModelFile,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            readable=False,
            help="CSV or Parquet to write. Default: CSV on standard output.",
        ),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=0.999,
            metavar="SHARE",
            help="Add lower and upper, holding this share of truths.",
        ),
    ] = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="Also rows whose target is known (predicted with it).")
    ] = False,
    nodes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", readable=False, help="Another table to predict, with its own --edges."
        ),
    ] = None,
    edges: Annotated[
        Path | None,
        typer.Option(metavar="FILE", readable=False, help="The edges between the rows of --nodes."),
    ] = None,
    attach: Annotated[
        bool,
        typer.Option(
            "--attach",
            help="--edges also name nodes that the model was fitted on: new rows join its graph.",
        ),
    ] = False,
    node_id: IdColumn = None,
    source: Source = None,
    target_node: TargetNode = None,
    weight: Weight = None,
    skip_unknown: SkipUnknown = False,
    as_json: Json = False,
) -> None:
    """Predict the rows whose target was empty, or the rows of a new table and its edges.

    Writes the id, the prediction, and lower and upper (with --interval) or a probability for each class.
    """
    if output is not None:
        files.check_writable(output)
    if (nodes is None) != (edges is None):
        raise typer.BadParameter("--nodes and --edges belong together: give both or neither.")
    if attach and nodes is None:
        raise typer.BadParameter("--attach needs --nodes and --edges.")
    model = _load(model_file)
    if interval is not None and hasattr(model, "classes_"):
        raise ValueError(
            "--interval is for numbers: this model predicts classes and gives a probability for each."
        )
    asked: dict[str, Any]
    if nodes is None or edges is None:
        known = set() if everyone else set(model._training.nodes.tolist())
        rows = np.array(
            [row for row in range(len(model.scores_)) if row not in known], dtype=np.int64
        )
        if not rows.size:
            raise ValueError(
                "The target was known in every row, so there is nothing to predict: --all writes them all."
            )
        ids, asked = [columns.id_texts(model)[row] for row in rows], {"nodes": rows}
    else:
        data = _read_new(
            model, nodes, edges, attach, node_id, source, target_node, weight, skip_unknown
        )
        X, given = columns.new_rows(model, data, attach, nodes)
        wanted = (
            np.arange(len(data.table))
            if everyone
            else np.setdiff1d(np.arange(len(data.table)), given[0])
        )
        if not wanted.size:
            raise ValueError(
                f"{nodes}: the target is known in every row: --all predicts them nevertheless."
            )
        ids, asked = (
            [str(data.ids[row]) for row in wanted],
            {"X": X, "graph": data.graph, "nodes": wanted},
        )
        known_labels = columns.known_labels(model, given, len(data.table), attach)
        asked |= {} if known_labels is None else {"new_labels": known_labels}
    with _quiet(), _progress("predicting"):
        frame = columns.predictions(model, ids, asked, interval)
    if output is not None:
        files.write_table(frame, output)
        if as_json:
            _print_json({"output": str(output), "rows": len(frame)})
        else:
            print(f"{output}: {len(frame):,} predictions")
    elif as_json:
        _print_json(frame.to_dict("records"))
    else:
        frame.to_csv(sys.stdout, index=False)


def _read_new(
    model: Any,
    nodes: Path,
    edges: Path,
    attach: bool,
    node_id: str | None,
    source: str | None,
    target_node: str | None,
    weight: str | None,
    skip: bool,
) -> files.NodesAndEdges:
    """Read the new table and its edges; with ``attach``, the fitted nodes come after the new ones."""
    usual = columns.name_of(model, "id", "")
    if node_id is None and usual in files.column_names(nodes):
        node_id = usual
    if not attach:
        return _read(nodes, edges, node_id, source, target_node, weight, skip)
    if model.graph_ is None:
        raise ValueError("--attach needs a model that was fitted on a graph.")
    fitted: Any = np.array(columns.id_texts(model), dtype=object)
    data = _read(nodes, edges, node_id, source, target_node, weight, skip, fitted)
    data.graph = files.attached(data.graph, model.graph_)
    return data


@app.command(epilog="Example: ebboost explain houses.ebb 4711")
def explain(
    model_file: ModelFile,
    nodes: Annotated[
        list[str], typer.Argument(metavar="NODE...", help="The ids of one or more nodes.")
    ],
    top: Annotated[
        int, typer.Option(min=1, metavar="NUMBER", help="How many parts to list of each kind.")
    ] = TOP,
    as_json: Json = False,
) -> None:
    """Take a prediction apart: own columns + neighbours' columns + neighbours' labels = score."""
    model = _load(model_file)
    ids = columns.id_texts(model)
    place = {text: row for row, text in enumerate(ids)}
    for node in nodes:
        if node not in place:
            raise ValueError(f"{model_file} has no node {node!r}. {files.suggestion(node, ids)}")
    with _quiet(), _progress("explaining"):
        found = model.explain([place[node] for node in nodes])
    if as_json:
        _print_json([_explained(explanation, model, ids) for explanation in found])
        return
    for explanation in found:
        _show_explanation(_explained(explanation, model, ids), top)


def _explained(explanation: Any, model: Any, ids: list[str]) -> dict[str, Any]:
    parts = {
        "own_columns": explanation.own,
        "neighbour_columns": {ids[row]: value for row, value in explanation.neighbors.items()},
        "labels": {ids[row]: value for row, value in explanation.labels.items()},
    }
    answer = {
        "node": ids[explanation.node],
        "score": explanation.score,
        "base": explanation.base,
        **parts,
    }
    if hasattr(model, "classes_"):
        stated = model.predict_proba(nodes=[explanation.node])[0]
        answer |= {
            "prediction": model.classes_[stated.argmax()],
            "probability": float(stated.max()),
        }
        explained = explanation.output if len(model.classes_) > 2 else 1
        return answer | {
            "class_explained": model.classes_[explained],
            "labels_in_sum": explanation.labels_in_sum,
        }
    return answer | {
        "prediction": float(model.predict(nodes=[explanation.node])[0]),
        "labels_in_sum": True,
    }


def _signed(value: float) -> str:
    return ("+" if value >= 0 else "") + figure(value)


def _show_explanation(told: dict[str, Any], top: int) -> None:
    console = _console()
    if "class_explained" in told:
        head = f"node {told['node']}: {told['prediction']} ({told['probability']:.1%}); score of {told['class_explained']}"
    else:
        head = f"node {told['node']}: prediction {figure(told['prediction'], 6)}"
    table = Table(
        title=Text(head), title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False
    )
    table.add_column("")
    table.add_column("part")
    table.add_column("adds", justify="right")
    table.add_row("base", "where every node starts", _signed(told["base"]))
    _add_parts(table, "column", told["own_columns"], top)
    _add_parts(table, "score of node", told["neighbour_columns"], top)
    if told["labels_in_sum"]:
        _add_parts(table, "label of node", told["labels"], top)
    table.add_section()
    table.add_row("sum", "score", figure(told["score"], 6), style="bold")
    if told["labels"] and not told["labels_in_sum"]:
        table.add_section()
        table.add_row("after it", "known labels move the probability", "")
        _add_parts(table, "label of node", told["labels"], top)
    console.print(table)


def _add_parts(table: Table, label: str, parts: dict[str, float], top: int) -> None:
    ranked = sorted(parts.items(), key=lambda part: -abs(part[1]))
    for name, value in ranked[:top]:
        table.add_row(label, Text(str(name)), _signed(value))
    if ranked[top:]:
        table.add_row(
            label, f"{len(ranked) - top:,} others", _signed(sum(value for _, value in ranked[top:]))
        )


@app.command(
    epilog='Example: ebboost report houses.ebb -o houses.html --title "Houses in Lucas County"'
)
def report(
    model_file: ModelFile,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            readable=False,
            help="HTML to write. Default: MODEL.html.",
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Heading. Default: the target's name.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    as_json: Json = False,
) -> None:
    """Write a report on a model as one HTML file, to show to a colleague."""
    place = output or model_file.with_suffix(".html")
    files.check_writable(place)
    model = _load(model_file)
    target = columns.name_of(model, "target", "")
    title = title or (f"{target}: what the model learned" if target else None)
    with _quiet(), _progress("writing the report"), files.replacing(place) as temporary:
        write_report(model, temporary, title=title)
    _print_json({"output": str(place)}) if as_json else print(place)
    if show and not webbrowser.open(place.resolve().as_uri()):
        _note(f"no browser was found: open {place} yourself.")


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Example: ebboost bench -- --help",
)
def bench(context: typer.Context) -> None:
    """Run the benchmarks of a checkout of ebboost: python -m benchmarks, with all options handed on."""
    root = Path(ebboost.__file__).parents[2]
    if not (root / "benchmarks" / "__main__.py").is_file():
        raise ValueError(
            "There are no benchmarks beside this ebboost: run this from a checkout of its repository."
        )
    raise typer.Exit(
        subprocess.run(
            [sys.executable, "-m", "benchmarks", *context.args], cwd=root, check=False
        ).returncode
    )


@app.command("inspect", epilog="Example: ebboost inspect houses.ebb")
def inspect_file(model_file: ModelFile, as_json: Json = False) -> None:
    """Show what is inside a model file, without loading the model."""
    told = modelfile.describe(files.existing(model_file))
    if as_json:
        _print_json(told)
        return
    names = told["names"] or {}
    shown = ", ".join(told["columns"][:12]) + (" …" if len(told["columns"]) > 12 else "")
    rows = [
        ("estimator", f"{told['estimator']}, {told['n_iter']} rounds: {told['stop_reason']}"),
        ("target", str(names.get("target", "not named"))),
        (
            "nodes",
            f"{told['n_nodes']:,}, {told['n_labels']:,} of them with a label; ids: {names.get('id') or 'none'}",
        ),
        (
            "edges",
            "no graph"
            if told["n_edges"] is None
            else f"{told['n_edges']:,}; use: {told['choice']}",
        ),
        ("columns", f"{len(told['columns'])}: {shown}"),
    ]
    if told["classes"] is not None:
        rows.append(("classes", ", ".join(str(label) for label in told["classes"])))
    rows.append(
        (
            "table",
            "inside: share the file only with those who may see the data"
            if told["has_table"]
            else "not inside",
        )
    )
    made_with = (f"{name} {version}" for name, version in told["environment"].items())
    rows += [
        ("made with", ", ".join(made_with)),
        ("format", f"{told['format_version']}, {_size(told['file_bytes'])}"),
    ]
    rows += [(f"  {name}", _size(size)) for name, size in told["bytes"].items()]
    # Whatever a stranger named, no name moves the cursor or changes a colour.
    shown_rows = [
        (name, "".join(c if c.isprintable() else "\ufffd" for c in text)) for name, text in rows
    ]
    _console().print(_facts(str(model_file), shown_rows))
