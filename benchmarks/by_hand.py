"""The default against LightGBM with columns of neighbours and of their labels, made by hand.

    python -m benchmarks.by_hand [--names elect80 ncovr ...] [--seeds 0]

Every numeric column that is listed becomes a target, predicted from the others: tasks on which
nothing of the default was chosen. 60 % of the rows have labels. LightGBM (learning rate 0.05) is
stopped on a sixth of them after 50 rounds without a gain, and trained again on all for as many
rounds; it is given the columns, those and their means over neighbours and neighbours of neighbours,
and the mean label of the neighbours as well. Its best of the three by test error is the rival.
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas
from scipy import sparse

import ebboost as eb
from benchmarks.data import home
from benchmarks.regret import read

RESULT = Path(__file__).parent / "results" / "by_hand.md"
TARGETS = {
    "ncovr": ("UE90", "DV90", "GI89", "FH90", "BLK90"),
    "county": ("MedianIncome", "BachelorRate", "DeathRate"),
    "elect80": ("pc_college", "pc_homeownership", "pc_income"),
    "lucas": ("TLA", "lotsize"),
    "kchouse": ("grade", "yr_built"),
    "twitch_de": ("days",),
}
Task = tuple[str, pandas.DataFrame, np.ndarray, eb.Graph]


def tasks(name: str) -> Iterator[Task]:
    """Yield the name of each target of a data set, its other columns, the target and the graph."""
    if name == "ncovr":
        table = pandas.read_csv(home() / name / "nodes.csv")
        position = pandas.Series(np.arange(len(table)), index=table["FIPS"])
        edges = pandas.read_csv(home() / name / "edges.csv").apply(lambda ids: ids.map(position))
        ends = edges.dropna().to_numpy(dtype=np.int64).T
        graph = eb.Graph.from_edges(*ends, n_nodes=len(table))
        X = table[
            [one for one in table if one[-2:] in ("89", "90") and one[:2] not in ("HC", "PO")]
        ]
    else:
        data = read(name)
        X = data.X if isinstance(data.X, pandas.DataFrame) else pandas.DataFrame(data.X)
        X = X.drop(columns=[one for one in ("long", "lat", "zipcode") if one in X])
        graph = data.graph
    for target in TARGETS[name]:
        related = {"lotsize": ["frontage", "depth"], "TLA": ["rooms"]}.get(target, [])
        yield target, X.drop(columns=[target, *related]), X[target].to_numpy(dtype=float), graph


def hand_made(X: pandas.DataFrame, graph: eb.Graph) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns as numbers, and these with means over neighbours at one and two steps."""
    is_number = {one: pandas.api.types.is_numeric_dtype(X[one]) for one in X}
    coded = {one: X[one] if is_number[one] else X[one].astype("category").cat.codes for one in X}
    own = pandas.DataFrame(coded).to_numpy(dtype=float)
    adjacency = graph.adjacency
    sums = np.asarray(adjacency.sum(axis=1)).ravel()
    mean = sparse.diags_array(1.0 / np.where(sums > 0, sums, 1.0)) @ adjacency
    once = mean @ np.nan_to_num(own)
    return own, np.hstack([own, once, mean @ once])


def neighbors_labels(
    graph: eb.Graph, nodes: np.ndarray, y: np.ndarray, n_nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean label and the number of labelled neighbours, a node's own label left out."""
    adjacency = sparse.csr_array(graph.adjacency)
    adjacency = adjacency - sparse.diags_array(adjacency.diagonal())
    is_known = np.zeros(n_nodes)
    is_known[nodes] = 1.0
    labels = np.zeros(n_nodes)
    labels[nodes] = y[nodes]
    weight = adjacency @ is_known
    with np.errstate(invalid="ignore", divide="ignore"):
        return (adjacency @ labels) / weight, weight


def lightgbm_error(table: np.ndarray, y: np.ndarray, split: list[np.ndarray]) -> float:
    """Return the test RMSE of LightGBM with as many rounds as the validation nodes ask for."""
    import lightgbm

    train, validation, test = split
    settings = {"learning_rate": 0.05, "num_leaves": 31 if train.size > 2_500 else 15}
    settings |= {"colsample_bytree": 0.5, "random_state": 0, "n_jobs": 1, "verbose": -1}
    stop = lightgbm.early_stopping(50, verbose=False)
    model = lightgbm.LGBMRegressor(n_estimators=5_000, **settings)
    held_out = [(table[validation], y[validation])]
    model.fit(table[train], y[train], eval_set=held_out, callbacks=[stop])
    known = np.concatenate([train, validation])
    again = lightgbm.LGBMRegressor(n_estimators=max(model.best_iteration_, 1), **settings)
    predictions = again.fit(table[known], y[known]).predict(table[test])
    return float(np.sqrt(np.mean((predictions - y[test]) ** 2)))


def compare(task: Task, seed: int) -> dict[str, float]:
    """Return the test RMSE of each method and the processor seconds of the default."""
    _, X, y, graph = task
    order = np.random.default_rng(seed).permutation(np.flatnonzero(np.isfinite(y)))
    split = np.split(order, [order.size // 2, 6 * order.size // 10])
    own, with_neighbors = hand_made(X, graph)
    labels = np.column_stack(neighbors_labels(graph, split[0], y, len(y)))
    errors = {
        "LightGBM": lightgbm_error(own, y, split),
        "+ neighbours": lightgbm_error(with_neighbors, y, split),
        "+ their labels": lightgbm_error(np.hstack([with_neighbors, labels]), y, split),
    }
    known = np.sort(np.concatenate(split[:2]))
    start = time.process_time()
    model = eb.EBBSRegressor(random_state=0, n_jobs=1).fit(X, y[known], nodes=known, graph=graph)
    predictions = model.predict(nodes=split[2])
    errors["default"] = float(np.sqrt(np.mean((predictions - y[split[2]]) ** 2)))
    errors["seconds"] = time.process_time() - start
    return errors


def main() -> None:
    """Write the table to ``results/by_hand.md``."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--names", nargs="*", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    methods = ("LightGBM", "+ neighbours", "+ their labels", "default")
    lines = [f"| data | target | {' | '.join(methods)} | default over the best | seconds |"]
    lines.append("|" + "---|" * (len(methods) + 4))
    for name in options.names:
        for task in tasks(name):
            runs = [compare(task, seed) for seed in options.seeds]
            mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
            ratio = mean["default"] / min(mean[method] for method in methods[:-1])
            cells = [f"{mean[method]:.4g}" for method in methods]
            cells += [f"{ratio:.3f}", f"{mean['seconds']:.0f}"]
            lines.append(f"| {name} | {task[0]} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    title = (
        "# The default against columns made by hand\n\nTest RMSE, mean over draws of the labels "
    )
    title += f"(seeds {', '.join(map(str, options.seeds))}); processor seconds of the default.\n\n"
    RESULT.write_text(title + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"written to {RESULT}")


if __name__ == "__main__":
    main()
