"""``ebboost demo``: what a graph adds, on data that ship with the package."""

import shlex
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from scipy import sparse

from ebboost.callbacks import ProgressBar
from ebboost.cli import console, outputs
from ebboost.cli.problem import Json, option
from ebboost.data.features import NeighborFeatures
from ebboost.datasets import load_elect80, load_lucas
from ebboost.estimators import EBBSRegressor

_FILES = "Write a small data set there instead, to try the other commands on."
_OUTPUT = "Also write the model of ebboost to this file."


def demo(
    folder: Annotated[Path | None, option("--files", "FOLDER", _FILES)] = None,
    output: Annotated[Path | None, option("--output -o", "FILE", _OUTPUT)] = None,
    as_json: Json = False,
) -> None:
    """Compare LightGBM without and with columns of neighbours, and ebboost, on 25,357 house sales.

    Takes about half a minute.
    """
    if folder is not None:
        if output is not None:
            raise typer.BadParameter("--output and --files exclude each other: give one of them.")
        _write_counties(folder, as_json)
        return
    if output is not None:
        outputs.check_output(output)
    with console.messages():
        results = measure(output)
    if as_json:
        console.print_json(results)
        return
    print(page(results))
    if output is not None:
        print(f"\nThe model is in {output}.")


def measure(output: Path | None = None) -> dict[str, Any]:
    """Fit the three models and return their errors, at houses sold later than those fitted on."""
    from lightgbm import LGBMRegressor

    X, y, graph, splits = load_lucas()
    train, test = splits[0]["train"], splits[0]["test"]
    models, errors = [], {}

    def add(name: str, n_models: int, seconds: float, predicted: Any) -> None:
        residual = y[test] - predicted
        errors[name] = residual**2
        models.append(
            {
                "name": name,
                "rmse": float(np.sqrt((residual**2).mean())),
                "r2": 1.0 - float((residual**2).mean() / y[test].var()),
                "typical_error": float(np.median(np.abs(np.expm1(-residual)))),
                "models": n_models,
                "seconds": seconds,
            }
        )

    start = time.perf_counter()
    plain = LGBMRegressor(random_state=0, verbose=-1).fit(X.iloc[train], y[train])
    add("LightGBM", 1, time.perf_counter() - start, plain.predict(X.iloc[test]))
    start = time.perf_counter()
    features = NeighborFeatures()
    values = features.fit_transform(X, graph=graph)
    wide = pd.DataFrame(values, columns=features.get_feature_names_out())
    near = LGBMRegressor(random_state=0, verbose=-1).fit(wide.iloc[train], y[train])
    add(
        "LightGBM + columns of neighbours",
        1,
        time.perf_counter() - start,
        near.predict(wide.iloc[test]),
    )
    start = time.perf_counter()
    model = EBBSRegressor(random_state=0)
    model.fit(X, y[train], nodes=train, graph=graph, callbacks=[ProgressBar()])
    add("ebboost", len(model.rounds_), time.perf_counter() - start, model.predict(nodes=test))
    if output is not None:
        source = {"id": "row", "target": "log price"}
        with outputs.replacing(output) as temporary:
            model.from_model(replace(model.model_, source=source)).save(temporary)
    degree, built = np.diff(graph.adjacency.indptr)[test], X["yrbuilt"].to_numpy()[test]
    groups = {
        "1 or 2 neighbours": (degree >= 1) & (degree <= 2),
        "3 neighbours": degree == 3,
        "4 neighbours or more": degree >= 4,
        "built before 1920": built < 1920,
        "built 1920 to 1959": (built >= 1920) & (built < 1960),
        "built since 1960": built >= 1960,
    }
    rows = [
        {
            "name": name,
            "houses": int(own.sum()),
            "rmse": [float(np.sqrt(one[own].mean())) for one in errors.values()],
        }
        for name, own in groups.items()
    ]
    return {
        "houses": len(X),
        "columns": X.shape[1],
        "edges": graph.n_edges,
        "to_predict": len(test),
        "models": models,
        "groups": rows,
        "summary": model.summary(),
    }


def page(results: dict[str, Any]) -> str:
    """Return the results as a page of text."""
    lines = [
        "House sales in Lucas County, Ohio: learn from sales up to 1996, predict the log",
        "prices of 1997 and 1998. The coordinates are not among the columns.",
        f"{results['houses']:,} houses, {results['columns']} columns, {results['edges']:,} edges "
        f"between neighbours; {results['to_predict']:,} to predict.",
        "",
        f"{'':34}{'RMSE':>7}{'R²':>7}{'typical error':>15}{'models':>8}{'seconds':>9}",
    ]
    row = "{name:34}{rmse:7.3f}{r2:7.3f}{typical_error:15.1%}{models:8}{seconds:9.1f}"
    lines += [row.format(**model) for model in results["models"]]
    lines += ["", f"{'RMSE by group':26}{'':14}{'LightGBM':>10}{'+ columns':>11}{'ebboost':>9}"]
    for group in results["groups"]:
        one, two, three = group["rmse"]
        houses = f"{group['houses']:,} houses"
        lines.append(f"  {group['name']:24}{houses:>14}{one:10.3f}{two:11.3f}{three:9.3f}")
    return "\n".join([*lines, "", results["summary"]])


def _write_counties(folder: Path, as_json: bool) -> None:
    """Write US counties as tables of nodes and edges, the turnout of test nodes empty."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: name a folder.")
    files = {"nodes": folder / "nodes.csv", "edges": folder / "edges.csv"}
    for path in files.values():
        if path.exists() or path.is_symlink():
            raise ValueError(f"{path} exists: name another folder, or remove that file.")
    X, y, graph, splits = load_elect80()
    y[splits[0]["test"]] = np.nan
    nodes = X.assign(pc_turnout=y).round(6).reset_index()
    ends = sparse.triu(graph.adjacency, format="coo").coords
    edges = pd.DataFrame({"source": graph.node_ids[ends[0]], "target": graph.node_ids[ends[1]]})
    folder.mkdir(parents=True, exist_ok=True)
    outputs.write_table(nodes, files["nodes"])
    outputs.write_table(edges, files["edges"])
    if as_json:
        console.print_json(files | {"target": "pc_turnout"})
        return
    print(f"{files['nodes']}: 3 107 US counties and their turnout in 1980, empty in 40 % of them.")
    print(f"{files['edges']}: which of them share a border.")
    print(f"Next: ebboost fit {shlex.join(map(str, files.values()))} --target pc_turnout --check")
