"""``ebboost demo``: what a graph adds, on data that ship with the package."""

import shlex
import textwrap
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from scipy import sparse
from sklearn.metrics import r2_score

from ebboost.boosting.callbacks import unless_interrupted
from ebboost.cli import console, inputs, outputs, tables
from ebboost.datasets import load_elect80, load_lucas
from ebboost.estimators import EBBSRegressor

_FILES = "Write a small data set there instead, to try the other commands on."
_OUTPUT = "Also write the model that uses the graph to this file."


def demo(
    folder: Annotated[Path | None, inputs.option("--files", "FOLDER", _FILES)] = None,
    output: Annotated[Path | None, inputs.option("--output -o", "FILE", _OUTPUT)] = None,
    as_json: inputs.Json = False,
) -> None:
    """Compare predictions without and with a graph, on 25 357 house sales."""
    if folder is not None:
        if output is not None:
            raise typer.BadParameter("--output and --files exclude each other: give one of them.")
        _write_counties(folder, as_json)
        return
    if output is not None:
        outputs.check_output(output)
    with console.progress("fitting without and with the graph"):
        results = measure(output)
    if as_json:
        console.print_json(results)
        return
    print(_page(results))
    if output is not None:
        print(f"\nThe model is in {output}.")


def measure(output: Path | None = None) -> dict[str, Any]:
    """Fit without and with the graph and return the metrics of both; write the second model."""
    X, y, graph, splits = load_lucas()
    train = splits[0]["train"]
    test = splits[0]["test"]
    models = []
    squared_errors = {}
    for name, edges in (("LightGBM trees, no graph", None), ("the same trees, with graph", graph)):
        model = EBBSRegressor(random_state=0)
        start = time.perf_counter()
        model.fit(X, y[train], nodes=train, graph=edges)
        facts = {"rounds": model.n_iter_, "seconds": time.perf_counter() - start}
        predicted = unless_interrupted(model).predict(nodes=test)
        residuals = y[test] - predicted
        typical_error = float(np.median(np.abs(np.expm1(-residuals))))
        metrics = {"name": name, "r2": r2_score(y[test], predicted), "typical_error": typical_error}
        models.append(metrics | facts)
        squared_errors["without" if edges is None else "with_graph"] = residuals**2
    if output is not None:
        model.save(output, table=True, source={"id": "row", "target": "log price"})
    houses = pd.DataFrame(squared_errors)
    houses["built"] = X["yrbuilt"].to_numpy()[test]
    houses["degree"] = graph.degrees[test]
    return {
        "houses": len(X),
        "columns": X.shape[1],
        "edges": graph.n_edges,
        "to_predict": len(test),
        "models": models,
        "groups": _by_group(houses),
        "summary": model.summary(),
    }


def _by_group(houses: pd.DataFrame) -> list[dict[str, Any]]:
    """Mean squared error without and with the graph by group of houses, the largest gain first."""
    groups = {
        "1 or 2 neighbours": "1 <= degree <= 2",
        "3 neighbours": "degree == 3",
        "4 neighbours or more": "degree >= 4",
        "built before 1920": "built < 1920",
        "built 1920 to 1959": "1920 <= built < 1960",
        "built since 1960": "built >= 1960",
    }
    rows = []
    for name, condition in groups.items():
        group = houses.query(condition)
        errors = group[["without", "with_graph"]].mean().to_dict()
        rows.append({"name": name, "houses": len(group), **errors})
    return sorted(rows, key=lambda row: row["with_graph"] / row["without"])


def _page(results: dict[str, Any]) -> str:
    """The metrics as a page of text."""
    lines = [
        "House sales in Lucas County, Ohio: learn from sales up to 1996, predict the log",
        "prices of 1997 and 1998.",
        f"{results['houses']:,} houses, {results['columns']} columns, {results['edges']:,} edges "
        f"between neighbours; {results['to_predict']:,} to predict.",
        "The coordinates are not among the columns: with them, trees alone recover much",
        "of what the graph adds.",
        "",
        f"{'':34}{'R²':>7}{'typical error':>15}{'rounds':>9}{'seconds':>10}",
    ]
    row = "{name:34}{r2:7.3f}{typical_error:15.1%}{rounds:9}{seconds:10.1f}"
    lines += [row.format(**model) for model in results["models"]]
    lines += ["", "Where the graph improves most (mean squared error of the log price):"]
    row = "  {name:24}{houses:6,} houses   {without:.3f} → {with_graph:.3f}   {change:+.0%}"
    for group in results["groups"]:
        change = group["with_graph"] / group["without"] - 1.0
        lines.append(row.format(**group, change=change))
    lines.append("")
    for line in results["summary"].splitlines():
        lines.append(textwrap.fill(line, 80, subsequent_indent=12 * " "))
    return "\n".join(lines)


def _write_counties(folder: Path, as_json: bool) -> None:
    """Write US counties as tables of nodes and edges, the turnout of test nodes empty."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: name a folder.")
    files = {"nodes": folder / "nodes.csv", "edges": folder / "edges.csv"}
    outputs.check_new([*files.values()])
    X, y, graph, splits = load_elect80()
    y[splits[0]["test"]] = np.nan
    nodes = X.assign(pc_turnout=y).round(6).reset_index()
    ends = sparse.triu(graph.adjacency, format="coo").coords
    edges = pd.DataFrame({"source": graph.node_ids[ends[0]], "target": graph.node_ids[ends[1]]})
    folder.mkdir(parents=True, exist_ok=True)
    tables.write_table(nodes, files["nodes"])
    tables.write_table(edges, files["edges"])
    if as_json:
        console.print_json(files | {"target": "pc_turnout"})
        return
    print(f"{files['nodes']}: 3 107 US counties and their turnout in 1980, empty in 40 % of them.")
    print(f"{files['edges']}: which of them share a border.")
    print(f"Next: ebboost check {shlex.join(map(str, files.values()))} --target pc_turnout")
