"""Coverage of 90 % intervals, overall and by groups, and scores of predictive distributions.

    python -m benchmarks.uncertainty [names …] [--write FILE]
    python -m benchmarks.uncertainty variances
    python -m benchmarks.uncertainty alarms

Every data set is fitted once, on the labels of its first split, with ``selection="rules"`` and four
folds (the default selects among candidates and takes minutes); labels for validation are among
those to train on. Lucas is fitted with ``time``, which holds out the latest fifth. Coverage is that
of test nodes.
"Constant" are intervals of one width from the same residuals, as in version 0.1.0. The interval
score is the mean of width + (2/α) × the distance of labels outside.
"""

import argparse
import json
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse, stats
from scipy.sparse.linalg import splu

import ebboost as eb
from benchmarks.data import home, load
from ebboost.inspection.model_checks import MIN_CALIBRATION_ERROR, MIN_CORRELATION
from ebboost.inspection.report._context import Context

LEVEL = 0.9
NAMES = ("lucas", "county", "avazu", "house", "kchouse", "elect80")
N_GROUPS = 10


class Case:
    """A data set: table, labels, graph, known and test nodes, and a grouping column."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.time: str | None = None
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
        self.train = splits[0]["train"]
        self.test = splits[0]["test"]
        self.time = "sdate"
        built = self.X["yrbuilt"].to_numpy()
        labelled = np.zeros(len(self.y))
        labelled[self.train] = 1.0
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
    arguments = {"nodes": case.train, "graph": case.graph, "time": case.time}
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
    intervals = model.predict(interval=LEVEL, nodes=case.test)
    distribution = model.predict_distribution(nodes=case.test)
    covered = (intervals.lower <= y) & (y <= intervals.upper)
    residuals = np.sort(np.abs(model.validation_target_ - model.validation_prediction_)[:, 0])
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


def variances(n_nodes: int = 100_000, n_exact: int = 1_000) -> None:
    """Print the error of posterior variances against exact ones, and processor seconds."""
    random = np.random.default_rng(0)
    graph = eb.Graph.build_knn(random.random((n_nodes, 2)), k=5)
    for lam, tau, share in ((8.0, 0.05, 0.6), (30.0, 0.3, 0.75), (1.0, 0.005, 0.3)):
        nodes = np.sort(random.choice(n_nodes, int(share * n_nodes), replace=False))
        posterior = eb.LatentField(lam, tau).operator(graph, nodes, np.ones(nodes.size))
        start = time.process_time()
        result = posterior.variances(np.ones(nodes.size))
        seconds = time.process_time() - start
        matrix = sparse.csc_array(posterior.prior.csr)
        diagonal = matrix.diagonal()
        diagonal[nodes] += 1.0
        matrix.setdiag(diagonal)
        factor = splu(matrix, "MMD_AT_PLUS_A", 0.0, options={"SymmetricMode": True})
        chosen = random.choice(n_nodes, n_exact, replace=False)
        exact = np.empty(n_exact)
        for row, node in enumerate(chosen):
            unit = np.zeros(n_nodes)
            unit[node] = 1.0
            exact[row] = factor.solve(unit)[node]
        error = np.abs(result.values[chosen] / exact - 1.0)
        cells = (lam, tau, share, f"{100 * error.mean():.1f}", f"{100 * result.relative_error:.1f}")
        print(f"| {' | '.join(map(str, (*cells, f'{seconds:.1f}')))} |", flush=True)


def alarms(n_sets: int = 100, n_nodes: int = 400) -> None:
    """Print the share of data sets drawn from fitted models that raise a warning."""
    random = np.random.default_rng(1)
    points = random.random((n_nodes, 2))
    graph = eb.Graph.build_knn(points, k=5)
    X = random.normal(size=(n_nodes, 3))
    truth = X[:, 0] + 2.0 * np.sin(5.0 * points[:, 0]) * np.cos(5.0 * points[:, 1])
    for classes in (False, True):
        settings = {"labels": eb.LatentField(0.5 if classes else 2.0, 0.02), "n_folds": 4}
        kind = eb.EBBSClassifier if classes else eb.EBBSRegressor
        y = truth + random.normal(size=n_nodes)
        y = (y > 0).astype(int) if classes else y
        make = partial(kind, 60, smoothing=None, random_state=0, n_jobs=1, **settings)
        state = make().fit(X, y, graph=graph).state_
        prior = settings["labels"].operator(graph, state.labels.nodes, np.ones(n_nodes)).prior
        root = np.linalg.cholesky(np.linalg.inv(prior.csr.toarray()))
        dispersion = 1.0 if classes else state.spread.dispersion
        trees = state.fixed_scores + state.propagated_scores
        counts = dict.fromkeys(("correlation", "calibration", "graph", "any"), 0)
        for _ in range(n_sets):
            field = np.sqrt(dispersion) * root @ random.normal(size=(n_nodes, 1))
            drawn = state.loss.sample(random, trees + field, dispersion)[:, 0]
            drawn = drawn.astype(int) if classes else drawn
            model = make().fit(X, drawn, graph=graph)
            context = Context.from_model(model, None)
            checks = {
                "correlation": (context.residual_check, MIN_CORRELATION),
                "calibration": (context.calibration_check, MIN_CALIBRATION_ERROR),
            }
            raised = [k for k, (check, least) in checks.items() if check and check.exceeds(least)]
            raised += ["graph"] if context.graph_difference.is_harm else []
            for name in [*raised, *(["any"] if raised else [])]:
                counts[name] += 1
        print("classes" if classes else "numbers", n_sets, counts, flush=True)


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
    if list(arguments.names) in (["variances"], ["alarms"]):
        return {"variances": variances, "alarms": alarms}[arguments.names[0]]()
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
