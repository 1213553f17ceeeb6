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
from sklearn.metrics import r2_score, root_mean_squared_error

from ebboost.cli.outputs import check_output, messages, print_text, write_table
from ebboost.cli.problem import option
from ebboost.data.features import NeighborFeatures
from ebboost.datasets import load_elect80, load_lucas
from ebboost.estimators import EBBSRegressor

_FILES = "Write a small data set there instead, to try the other commands on."
_OUTPUT = "Also write the model of ebboost to this file."


def demo(
    folder: Annotated[Path | None, option("--files", "FOLDER", _FILES)] = None,
    output: Annotated[Path | None, option("--output -o", "FILE", _OUTPUT)] = None,
) -> None:
    """Compare LightGBM without and with columns of neighbours, and ebboost, on 25,357 house sales.

    Takes about half a minute.
    """
    if folder is not None and output is not None:
        raise typer.BadParameter("--output and --files exclude each other: give one of them.")
    if folder is not None:
        _write_counties(folder)
        return
    if output is not None:
        check_output(output)
    with messages():
        _compare(output)


def _compare(output: Path | None) -> None:
    """Fit the three models, and print their errors at houses sold later than those fitted on."""
    from lightgbm import LGBMRegressor

    X, y, graph, splits = load_lucas()
    train, test = splits[0]["train"], splits[0]["test"]
    print("House sales in Lucas County, Ohio: learn from sales up to 1996, predict the log")
    print("prices of 1997 and 1998. The coordinates are not among the columns.")
    print(f"{len(X):,} houses, {X.shape[1]} columns, {graph.n_edges:,} edges between neighbours.")
    print("All have default settings. ebboost also learns from the prices of neighbours.")
    print(f"\n{'':34}{'RMSE':>7}{'R²':>7}{'typical error':>15}{'models':>8}{'seconds':>9}")

    def show(name: str, n_models: int, start: float, predicted: Any) -> None:
        seconds = time.perf_counter() - start
        errors = (root_mean_squared_error(y[test], predicted), r2_score(y[test], predicted))
        typical = float(np.median(np.abs(np.expm1(predicted - y[test]))))
        row = f"{name:34}{errors[0]:7.3f}{errors[1]:7.3f}{typical:15.1%}"
        print(f"{row}{n_models:8}{seconds:9.1f}", flush=True)

    start = time.perf_counter()
    plain = LGBMRegressor(random_state=0, verbose=-1).fit(X.iloc[train], y[train])
    show("LightGBM", 1, start, plain.predict(X.iloc[test]))
    start = time.perf_counter()
    features = NeighborFeatures()
    values = features.fit_transform(X, graph=graph)
    wide = pd.DataFrame(values, columns=features.get_feature_names_out())
    near = LGBMRegressor(random_state=0, verbose=-1).fit(wide.iloc[train], y[train])
    show("LightGBM + columns of neighbours", 1, start, near.predict(wide.iloc[test]))
    start = time.perf_counter()
    model = EBBSRegressor(random_state=0, verbose=1)
    model.fit(X, y[train], nodes=train, graph=graph)
    show("ebboost", len(model.rounds_), start, model.predict(nodes=test))
    print("\nThe model of ebboost, with errors at held-out sales up to 1996:")
    print_text(model.summary())
    if output is not None:
        model = model.from_model(replace(model.model_, source={"target": "log price"}))
        model.save(output)
        print(f"\nThe model is in {output}.")


def _write_counties(folder: Path) -> None:
    """Write US counties as tables of nodes and edges, the turnout of test nodes empty."""
    nodes, edges = folder / "nodes.csv", folder / "edges.csv"
    for path in (nodes, edges):
        if path.exists() or path.is_symlink():
            raise ValueError(f"{path} exists: name another folder, or remove that file.")
    X, y, graph, splits = load_elect80()
    y[splits[0]["test"]] = np.nan
    ends = sparse.triu(graph.adjacency, format="coo").coords
    pairs = {"source": graph.node_ids[ends[0]], "target": graph.node_ids[ends[1]]}
    folder.mkdir(parents=True, exist_ok=True)
    write_table(X.assign(pc_turnout=y).round(6).reset_index(), nodes)
    write_table(pd.DataFrame(pairs), edges)
    print(f"{nodes}: 3 107 US counties and their turnout in 1980, empty in 40 % of them.")
    print(f"{edges}: which of them share a border.")
    files = shlex.join([str(nodes), str(edges)])
    print(f"Next: ebboost fit {files} --target pc_turnout --check")
