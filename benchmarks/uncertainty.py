"""Coverage of 90 % intervals, overall and by groups, and scores of predictive distributions.

    python -m benchmarks.uncertainty [names …] [--write FILE]

Every data set is fitted once, on the labels of its first split, with ``selection="rules"`` and four
folds (the default selects among candidates and takes minutes); labels for validation are among
those to train on, except Lucas, whose latest tenth is ``eval_set``. Coverage is that of test nodes.
"Constant" are intervals of one width from the same residuals, as in version 0.1.0. The interval
score is the mean of width + (2/α) × the distance of labels outside.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse, stats

import ebboost as eb
from benchmarks.data import home, load

LEVEL = 0.9
NAMES = ("lucas", "county", "avazu", "house", "kchouse", "elect80")
N_GROUPS = 10


class Case:
    """A data set: table, labels, graph, known and test nodes, and a grouping column."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.evaluation: np.ndarray | None = None
        self.groups: dict[str, np.ndarray] = {}
        getattr(self, f"_{name}", self._official)()

    def _official(self) -> None:
        data = load(self.name)
        self.X, self.y, self.graph = data.X, data.y.astype(float), data.graph
        split = data.splits[0]
        self.train = np.concatenate([split["train"], split["val"]])
        self.test = split["test"]

    def _lucas(self) -> None:
        self.X, self.y, self.graph, splits = eb.datasets.load_lucas()
        train = splits[0]["train"]
        train = train[np.argsort(self.X["sdate"].to_numpy()[train], kind="stable")]
        self.train, self.evaluation = np.split(train, [len(train) - len(train) // 10])
        self.test = splits[0]["test"]
        built = self.X["yrbuilt"].to_numpy()
        labelled = np.zeros(len(self.y))
        labelled[train] = 1.0
        n_labelled = (self.graph.adjacency != 0).astype(float) @ labelled
        self.groups = {
            "built before 1920": built < 1920,
            "built 1920–59": (built >= 1920) & (built < 1960),
            "built since 1960": built >= 1960,
            **{f"{n} labelled neighbours": n_labelled == n for n in range(3)},
            "3 or more labelled neighbours": n_labelled >= 3,
        }

    def _kchouse(self) -> None:
        X = pd.read_csv(home() / "kchouse" / "nodes.csv.gz")
        self.y = np.log(X["price"].to_numpy(float))
        east = np.cos(np.radians(47.5))
        self.graph = eb.Graph.build_knn(X[["long", "lat"]].to_numpy(float) * [east, 1.0], k=5)
        days = (pd.to_datetime(X["date"]) - pd.Timestamp("2014-01-01")).dt.days
        self.X = X.drop(columns=["price", "id"]).assign(date=days.astype(float))
        split = json.loads((home() / "kchouse" / "masks.json").read_text())["0"]
        self.train = np.array(split["train"] + split["val"])
        self.test = np.array(split["test"])

    def _elect80(self) -> None:
        X = pd.read_csv(home() / "elect80" / "nodes.csv")
        edges = pd.read_csv(home() / "elect80" / "edges.csv").to_numpy()
        self.y = X["pc_turnout"].to_numpy(float)
        self.graph = eb.Graph.from_edges(edges[:, 0], edges[:, 1], n_nodes=len(X))
        self.X = X[["pc_college", "pc_homeownership", "pc_income"]]
        order = np.random.default_rng(0).permutation(len(X))
        self.train, self.test = np.split(order, [int(0.8 * len(X))])


def fit(case: Case) -> eb.EBBSRegressor:
    """Fit the estimator of this page."""
    model = eb.EBBSRegressor(selection="rules", n_folds=4, random_state=0)
    held = None if case.evaluation is None else (case.evaluation, case.y[case.evaluation])
    arguments = {"nodes": case.train, "graph": case.graph, "eval_set": held}
    return model.fit(case.X, case.y[case.train], **arguments)


def interval_score(low: np.ndarray, high: np.ndarray, y: np.ndarray) -> float:
    """Mean of width plus penalised distance of labels outside."""
    outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return float(np.mean(high - low + 2.0 / (1.0 - LEVEL) * outside))


def worst_of_ten(covered: np.ndarray, *columns: np.ndarray) -> list[float]:
    """Least coverage among ten groups of equal size by each column."""
    worst = []
    for column in columns:
        order = np.argsort(column, kind="stable")
        parts = np.array_split(order, N_GROUPS)
        worst.append(min(float(covered[part].mean()) for part in parts))
    return worst


def measure(name: str) -> tuple[list[str], list[str]]:
    """Return the row of a data set, and lines about its groups."""
    case = Case(name)
    start = time.perf_counter()
    model = fit(case)
    seconds = time.perf_counter() - start
    y = case.y[case.test]
    new = None if case.evaluation is None else (case.evaluation, case.y[case.evaluation])
    intervals = model.predict(interval=LEVEL, nodes=case.test, new_labels=new)
    distribution = model.predict_distribution(nodes=case.test, new_labels=new)
    covered = (intervals.lower <= y) & (y <= intervals.upper)
    chosen = slice(-case.evaluation.size, None) if case.evaluation is not None else slice(None)
    residuals = np.sort(np.abs(model.validation_target_ - model.validation_prediction_)[chosen, 0])
    half = residuals[int(np.ceil((residuals.size + 1) * LEVEL)) - 1]
    constant = (intervals.prediction - half, intervals.prediction + half)
    ratio = interval_score(*intervals[1:], y) / interval_score(*constant, y)
    column = int(np.argmax(model.feature_importances_))
    table = model.state_.table.values[case.test, column]
    degrees = np.diff(sparse.csr_array(case.graph.adjacency).indptr)[case.test]
    by = (intervals.prediction, degrees, table)
    worst = worst_of_ten(covered, *by)
    one_width = (constant[0] <= y) & (y <= constant[1])
    worst_constant = worst_of_ten(one_width, *by)
    normal = stats.norm(intervals.prediction, np.sqrt(np.mean(residuals**2)))
    row = [name, f"{100 * covered.mean():.1f}", " / ".join(f"{100 * w:.0f}" for w in worst)]
    row += [f"{100 * one_width.mean():.1f}", " / ".join(f"{100 * w:.0f}" for w in worst_constant)]
    row += [f"{ratio:.3f}", f"{distribution.log_density(y).mean():.3f}"]
    row += [f"{normal.logpdf(y).mean():.3f}", f"{distribution.crps(y).mean():.4g}"]
    row += [f"{seconds:.0f}"]
    lines = [
        f"| {group} | {int(mask[case.test].sum()):,} | {100 * covered[mask[case.test]].mean():.1f} "
        f"| {100 * one_width[mask[case.test]].mean():.1f} |"
        for group, mask in case.groups.items()
    ]
    return row, lines


HEAD = (
    "| data | covered % | worst of ten groups by prediction / degree / leading column | constant: "
    "covered % | constant: worst | interval score over constant | log density | that of one normal "
    "| CRPS | seconds |"
)


def main() -> None:
    """Measure the named data sets and print or write tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [HEAD, "|" + "---|" * 10]
    groups: list[str] = []
    for name in arguments.names:
        row, of_groups = measure(name)
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], *of_groups, sep="\n", flush=True)
        if of_groups:
            groups += ["", f"{name} by group", "", "| group | test nodes | covered % | constant |"]
            groups += ["|---|---|---|---|", *of_groups]
    if arguments.write is not None:
        arguments.write.write_text("\n".join([*lines, *groups]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
