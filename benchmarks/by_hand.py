"""The default against LightGBM with columns of neighbours and of their labels, made by hand.

    python -m benchmarks.by_hand [--names elect80 ncovr ...] [--seeds 0]

Every column that is listed becomes a target, predicted from the others: tasks beside those that the
numbers of the default were chosen on. 60 % of the rows have labels. LightGBM (learning rate 0.05)
is stopped on a sixth of them after 50 rounds without a gain, and trained again on all for as many
rounds; it is given the columns, those and their means over neighbours and neighbours of neighbours,
and the mean label of the neighbours, or their share of each class, as well. Its best of the three
by test error (RMSE, or log-loss of classes) is the rival.
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
CLASSES = {
    "lucas": ("garage", "stories"),
    "kchouse": ("condition", "waterfront", "view"),
    "twitch_de": ("mature", "partner"),
}
FEWEST_OF_CLASS = 50
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
    related = {"lotsize": ["frontage", "depth"], "TLA": ["rooms"], "garage": ["garagesqft"]}
    for target in (*TARGETS.get(name, ()), *CLASSES.get(name, ())):
        rest = X.drop(columns=[target, *related.get(target, [])])
        y = X[target].to_numpy(float) if target in TARGETS.get(name, ()) else classes(X[target])
        yield target, rest, y, graph


def classes(column: pandas.Series) -> np.ndarray:
    """Return the numbers of levels; -1 for those of few rows, which a split may not have."""
    column = column.astype(object)
    is_rare = column.map(column.value_counts()) < FEWEST_OF_CLASS
    return pandas.factorize(column.mask(is_rare), sort=True)[0]


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


def neighbors_labels(graph: eb.Graph, nodes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return means of the labels of neighbours, and their number; a node's own is left out."""
    adjacency = sparse.csr_array(graph.adjacency)
    adjacency = adjacency - sparse.diags_array(adjacency.diagonal())
    values = y[:, None] if y.dtype.kind == "f" else np.eye(y.max() + 1)[y]
    is_known = np.zeros((len(y), 1))
    is_known[nodes] = 1.0
    weight = adjacency @ is_known
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (adjacency @ (np.where(is_known, values, 0.0))) / weight
    return np.hstack([means, weight])


def error(predictions: np.ndarray, y: np.ndarray) -> float:
    """Return the RMSE of numbers, or the log-loss of probabilities of classes."""
    if predictions.ndim == 1:
        return float(np.sqrt(np.mean((predictions - y) ** 2)))
    return float(-np.mean(np.log(np.clip(predictions[np.arange(y.size), y], 1e-15, None))))


def lightgbm_error(table: np.ndarray, y: np.ndarray, split: list[np.ndarray]) -> float:
    """Return the test error of LightGBM with as many rounds as the validation nodes ask for."""
    import lightgbm

    train, validation, test = split
    settings = {"learning_rate": 0.05, "num_leaves": 31 if train.size > 2_500 else 15}
    settings |= {"colsample_bytree": 0.5, "random_state": 0, "n_jobs": 1, "verbose": -1}
    stop = lightgbm.early_stopping(50, verbose=False)
    kind = lightgbm.LGBMRegressor if y.dtype.kind == "f" else lightgbm.LGBMClassifier
    model = kind(n_estimators=5_000, **settings)
    held_out = [(table[validation], y[validation])]
    model.fit(table[train], y[train], eval_set=held_out, callbacks=[stop])
    known = np.concatenate([train, validation])
    again = kind(n_estimators=max(model.best_iteration_, 1), **settings)
    again.fit(table[known], y[known])
    predict = again.predict if kind is lightgbm.LGBMRegressor else again.predict_proba
    return error(np.asarray(predict(table[test])), y[test])


def compare(task: Task, seed: int) -> dict[str, float]:
    """Return the test error of each method and the processor seconds of the default."""
    _, X, y, graph = task
    order = np.random.default_rng(seed).permutation(np.flatnonzero(np.isfinite(y) & (y != -1)))
    split = np.split(order, [order.size // 2, 6 * order.size // 10])
    own, with_neighbors = hand_made(X, graph)
    labels = neighbors_labels(graph, split[0], y)
    errors = {
        "LightGBM": lightgbm_error(own, y, split),
        "+ neighbours": lightgbm_error(with_neighbors, y, split),
        "+ their labels": lightgbm_error(np.hstack([with_neighbors, labels]), y, split),
    }
    known = np.sort(np.concatenate(split[:2]))
    start = time.process_time()
    kind = eb.EBBSRegressor if y.dtype.kind == "f" else eb.EBBSClassifier
    model = kind(random_state=0, n_jobs=1).fit(X, y[known], nodes=known, graph=graph)
    predict = model.predict if kind is eb.EBBSRegressor else model.predict_proba
    errors["default"] = error(predict(nodes=split[2]), y[split[2]])
    errors["seconds"] = time.process_time() - start
    return errors


def main() -> None:
    """Write the table to ``results/by_hand.md``."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--names", nargs="*", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--targets", nargs="*", help="all that are listed")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    methods = ("LightGBM", "+ neighbours", "+ their labels", "default")
    lines = [f"| data | target | {' | '.join(methods)} | default over the best | seconds |"]
    lines.append("|" + "---|" * (len(methods) + 4))
    for name in options.names:
        for task in tasks(name):
            if options.targets is not None and task[0] not in options.targets:
                continue
            runs = [compare(task, seed) for seed in options.seeds]
            mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
            ratio = mean["default"] / min(mean[method] for method in methods[:-1])
            cells = [f"{mean[method]:.4g}" for method in methods]
            cells += [f"{ratio:.3f}", f"{mean['seconds']:.0f}"]
            lines.append(f"| {name} | {task[0]} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    title = (
        "# The default against columns made by hand\n\n`python -m benchmarks.by_hand`: test RMSE "
        "(log-loss of classes), mean over draws of the labels "
    )
    title += f"(seeds {', '.join(map(str, options.seeds))}); processor seconds of the default. "
    title += "LightGBM has one setting, and its best table by test error is the rival.\n\n"
    RESULT.write_text(title + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"written to {RESULT}")


if __name__ == "__main__":
    main()
