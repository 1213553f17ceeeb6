"""What a graph is worth, on data that ships with the package: what ``ebboost demo`` shows."""

import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics import r2_score

from ebboost.boosting.callbacks import unless_interrupted
from ebboost.datasets import load_elect80, load_lucas
from ebboost.estimators import EBBSRegressor

Array = NDArray[np.float64]


def measure(keep: Path | None = None) -> dict[str, Any]:
    """Fit without and with the graph and return what each reached; the model with it may be kept in a file."""
    X, y, graph, splits = load_lucas()
    train, test = splits[0]["train"], splits[0]["test"]
    found: dict[str, Any] = {
        "houses": len(X),
        "columns": X.shape[1],
        "pairs": graph.n_edges,
        "to_predict": len(test),
    }
    found["models"], predictions = [], []
    for name, edges in (
        ("LightGBM trees, no graph", None),
        ("the same trees through the graph", graph),
    ):
        model = EBBSRegressor(random_state=0)
        start = time.perf_counter()
        model.fit(X, y[train], nodes=train, graph=edges)
        seconds = time.perf_counter() - start
        predicted = unless_interrupted(model).predict()
        error = float(np.median(np.abs(np.expm1(predicted[test] - y[test]))))
        reached = {"r2": float(r2_score(y[test], predicted[test])), "typical_error": error}
        found["models"].append(
            {"name": name, **reached, "rounds": model.n_iter_, "seconds": seconds}
        )
        predictions.append(predicted)
    found["groups"] = _by_group(X, y, test, graph.degrees, predictions)
    found["summary"] = model.summary()
    if keep is not None:
        model.names_ = {"id": "row", "target": "log price"}
        model.save(keep, table=True)
    return found


def describe_parameters(found: dict[str, Any]) -> str:
    """Return what :func:`measure` found as a page of text."""
    lines = [
        "House sales in Lucas County, Ohio: learn from sales up to 1996, predict the log",
        "prices of 1997 and 1998.",
        f"{found['houses']:,} houses, {found['columns']} columns, {found['pairs']:,} pairs of neighbours; "
        f"{found['to_predict']:,} to predict.",
        "The columns do not include the coordinates: with them, trees recover much of",
        "what the graph knows.",
        "",
        f"{'':34}{'R²':>7}{'typical error':>15}{'rounds':>9}{'seconds':>10}",
    ]
    for m in found["models"]:
        lines.append(
            f"{m['name']:34}{m['r2']:7.3f}{m['typical_error']:15.1%}{m['rounds']:9}{m['seconds']:10.1f}"
        )
    lines += ["", "Where the graph helped most (mean squared error of the log price):"]
    for g in found["groups"]:
        error = f"{g['without']:.3f} → {g['with_graph']:.3f}   {g['with_graph'] / g['without'] - 1.0:+.0%}"
        lines.append(f"  {g['name']:24}{g['houses']:6,} houses   {error}")
    summary = [
        textwrap.fill(line, 80, subsequent_indent=12 * " ")
        for line in found["summary"].splitlines()
    ]
    return "\n".join([*lines, "", *summary])


def counties() -> tuple[Any, Any]:
    """Return tables of nodes and of edges to try commands on: US counties, the turnout empty in the test part."""
    X, y, graph, splits = load_elect80()
    turnout = y.copy()
    turnout[splits[0]["test"]] = np.nan
    nodes = X.assign(pc_turnout=turnout).round(6).reset_index()
    pairs = sparse.triu(graph.adjacency, format="coo").coords
    edges = type(nodes)(
        {name: graph.node_ids[ends] for name, ends in zip(("source", "target"), pairs, strict=True)}
    )
    return nodes, edges


def _by_group(
    X: Any, y: Array, test: NDArray[np.int64], degrees: Array, predictions: list[Array]
) -> list[dict[str, Any]]:
    """Error without and with the graph, by group of houses, the largest gain first."""
    built, ties = np.asarray(X["yrbuilt"])[test], degrees[test]
    groups = {
        "1 or 2 neighbours": (ties >= 1) & (ties <= 2),
        "3 neighbours": ties == 3,
        "4 neighbours or more": ties >= 4,
        "built before 1920": built < 1920,
        "built 1920 to 1959": (built >= 1920) & (built < 1960),
        "built since 1960": built >= 1960,
    }
    found = []
    for name, group in groups.items():
        without, with_graph = (
            float(np.mean((p[test][group] - y[test][group]) ** 2)) for p in predictions
        )
        found.append(
            {"name": name, "houses": int(group.sum()), "without": without, "with_graph": with_graph}
        )
    return sorted(found, key=lambda group: group["with_graph"] / group["without"])
