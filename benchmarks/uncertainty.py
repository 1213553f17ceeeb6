"""Coverage of 90 % intervals, overall and by groups, and scores of predictive distributions.

    python -m benchmarks.uncertainty [names …] [--rules] [--write FILE]
    python -m benchmarks.uncertainty sets [--rules]
    python -m benchmarks.uncertainty variances
    python -m benchmarks.uncertainty alarms

Every data set is fitted on the labels of its first split, those with few nodes on five splits, by
the default estimator, or with ``--rules`` by ``selection="rules"`` and four folds; labels for
validation are among those to train on. Lucas is fitted with ``time``, which holds out
the latest fifth. Coverage is that of test nodes; groups of several splits are joined.
"Constant" are intervals of one width from the same residuals, as in version 0.1.0. The interval
score is the mean of width + (2/α) × the distance of labels outside.
"""

import argparse
import json
import time
import warnings
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse, stats

import ebboost as eb
from benchmarks.data import home, load
from ebboost.inspection.model_checks import MIN_CALIBRATION_ERROR, MIN_CORRELATION
from ebboost.inspection.report._context import Context

LEVEL = 0.9
NAMES = ("lucas", "county", "avazu", "house", "kchouse", "elect80")
N_GROUPS = 10
FEW_NODES = 5_000
RULES: dict[str, str | int] = {"selection": "rules", "n_folds": 4}


class Case:
    """A data set: table, labels, graph, known and test nodes, and a grouping column."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.time: str | None = None
        self.splits: list[tuple[np.ndarray, np.ndarray]] = []
        self.groups: dict[str, np.ndarray] = {}
        getattr(self, f"_{name}", self._official)()

    def _official(self) -> None:
        data = load(self.name)
        self.X, self.y, self.graph = data.X, data.y.astype(float), data.graph
        few = len(self.y) <= FEW_NODES
        self.splits = [
            (np.concatenate([split["train"], split["val"]]), split["test"])
            for split in data.splits[: len(data.splits) if few else 1]
        ]

    def _lucas(self) -> None:
        self.X, self.y, self.graph, splits = eb.datasets.load_lucas()
        self.splits = [(splits[0]["train"], splits[0]["test"])]
        self.time = "sdate"
        built = self.X["yrbuilt"].to_numpy()
        labelled = np.zeros(len(self.y))
        labelled[splits[0]["train"]] = 1.0
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
        self.splits = [(np.array(split["train"] + split["val"]), np.array(split["test"]))]

    def _elect80(self) -> None:
        X = pd.read_csv(home() / "elect80" / "nodes.csv")
        edges = pd.read_csv(home() / "elect80" / "edges.csv").to_numpy()
        self.y = X["pc_turnout"].to_numpy(float)
        self.graph = eb.Graph.from_edges(edges[:, 0], edges[:, 1], n_nodes=len(X))
        self.X = X[["pc_college", "pc_homeownership", "pc_income"]]
        orders = [np.random.default_rng(seed).permutation(len(X)) for seed in range(5)]
        self.splits = [tuple(np.split(order, [int(0.8 * len(X))])) for order in orders]


def fit(case: Case, train: np.ndarray, settings: dict[str, str | int]) -> eb.EBBSRegressor:
    """Fit the estimator of this page."""
    model = eb.EBBSRegressor(**settings, random_state=0, n_jobs=1)
    arguments = {"nodes": train, "graph": case.graph, "time": case.time}
    return model.fit(case.X, case.y[train], **arguments)


def interval_score(low: np.ndarray, high: np.ndarray, y: np.ndarray) -> float:
    """Mean of width plus penalised distance of labels outside."""
    outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return float(np.mean(high - low + 2.0 / (1.0 - LEVEL) * outside))


class Measured(NamedTuple):
    """What is measured at the test nodes of one split; masks have a column for each kind."""

    covered: np.ndarray  # by local intervals, by those of one width
    group: np.ndarray  # tenth by prediction, degree, leading column
    scores: np.ndarray  # interval scores of both, log densities of both, CRPS
    seconds: float


def tenths(column: np.ndarray) -> np.ndarray:
    """Return the tenth that each entry belongs to."""
    rank = np.argsort(np.argsort(column, kind="stable"), kind="stable")
    return rank * N_GROUPS // column.size


def measure_split(
    case: Case, train: np.ndarray, test: np.ndarray, settings: dict[str, str | int]
) -> Measured:
    """Fit one split and measure its test nodes."""
    start = time.process_time()
    model = fit(case, train, settings)
    seconds = time.process_time() - start
    y = case.y[test]
    intervals = model.predict(interval=LEVEL, nodes=test)
    distribution = model.predict_distribution(nodes=test)
    residuals = np.sort(np.abs(model.validation_target_ - model.validation_prediction_)[:, 0])
    half = residuals[int(np.ceil((residuals.size + 1) * LEVEL)) - 1]
    constant = (intervals.prediction - half, intervals.prediction + half)
    ends = (intervals[1:], constant)
    leading = model.state_.table.values[test, int(np.argmax(model.feature_importances_))]
    degrees = np.diff(sparse.csr_array(case.graph.adjacency).indptr)[test]
    normal = stats.norm(intervals.prediction, np.sqrt(np.mean(residuals**2)))
    scores = [interval_score(*one, y) for one in ends]
    scores += [distribution.log_density(y).mean(), normal.logpdf(y).mean()]
    return Measured(
        np.column_stack([(low <= y) & (y <= high) for low, high in ends]),
        np.column_stack([tenths(one) for one in (intervals.prediction, degrees, leading)]),
        np.array([*scores, distribution.crps(y).mean()]),
        seconds,
    )


def measure(name: str, settings: dict[str, str | int]) -> tuple[list[str], list[str]]:
    """Return the row of a data set, and lines about its groups."""
    case = Case(name)
    splits = [measure_split(case, *split, settings) for split in case.splits]
    covered = np.concatenate([one.covered for one in splits])
    group = np.concatenate([one.group for one in splits])
    scores = np.mean([one.scores for one in splits], axis=0)
    row = [name, f"{len(covered):,}"]
    for inside in covered.T:
        worst = [
            min(100 * inside[tenth == number].mean() for number in range(N_GROUPS))
            for tenth in group.T
        ]
        row += [f"{100 * inside.mean():.1f}", " / ".join(f"{value:.0f}" for value in worst)]
    row += [f"{scores[0] / scores[1]:.3f}", f"{scores[2]:.3f}", f"{scores[3]:.3f}"]
    row += [f"{scores[4]:.4g}", f"{np.mean([one.seconds for one in splits]):.0f}"]
    test = case.splits[0][1]
    lines = [
        f"| {text} | {int(mask[test].sum()):,} "
        f"| {' | '.join(f'{100 * share:.1f}' for share in covered[mask[test]].mean(axis=0))} |"
        for text, mask in case.groups.items()
    ]
    return row, lines


def sets(preset: str | None = None, name: str = "coauthor_cs") -> None:
    """Print coverage and size of prediction sets of test nodes, which may be empty or not."""
    data = load(name)
    for split in data.splits[:3]:
        known = np.concatenate([split["train"], split["val"]])
        model = eb.EBBSClassifier(random_state=0, n_jobs=1)
        if preset is not None:
            model = eb.EBBSClassifier.from_preset(preset, random_state=0, n_jobs=1)
        model.fit(data.X, data.y[known], nodes=known, graph=data.graph)
        truth = np.searchsorted(model.classes_, data.y[split["test"]])
        for level in (0.9, 0.95, 0.98):
            for empty in (False, True):
                contains = model.predict(
                    nodes=split["test"], interval=level, empty_sets=empty
                ).contains
                size = contains.sum(axis=1)
                covered = contains[np.arange(truth.size), truth]
                cells = (level, empty, 100 * covered.mean(), size.mean(), 100 * (size == 0).mean())
                print("| {} | {} | {:.1f} | {:.3f} | {:.1f} |".format(*cells), flush=True)


def variances(n_nodes: int = 100_000, n_exact: int = 1_000) -> None:
    """Print the error of posterior variances against exact ones, and processor seconds."""
    random = np.random.default_rng(0)
    ends = random.integers(0, n_nodes, (2, 4 * n_nodes))
    graphs = {
        "5 neighbours of points in 2 dimensions": eb.Graph.build_knn(
            random.random((n_nodes, 2)), 5
        ),
        "5 neighbours of points in 5 dimensions": eb.Graph.build_knn(
            random.random((n_nodes, 5)), 5
        ),
        "random edges": eb.Graph.from_edges(*ends[:, ends[0] != ends[1]], n_nodes=n_nodes),
    }
    for name, graph in graphs.items():
        for lam, tau, share in ((8.0, 0.05, 0.6), (30.0, 0.3, 0.75), (1.0, 0.005, 0.3)):
            nodes = np.sort(random.choice(n_nodes, int(share * n_nodes), replace=False))
            posterior = eb.LatentField(lam, tau).operator(graph, nodes, np.ones(nodes.size))
            curvature = np.ones(nodes.size)
            start = time.process_time()
            result = posterior.variances(curvature)
            seconds = time.process_time() - start
            chosen = random.choice(n_nodes, n_exact, replace=False)
            parts = np.array_split(chosen, n_exact // 10)
            exact = np.concatenate([posterior.variances(curvature, part).values for part in parts])
            error = np.abs(result.values[chosen] / exact - 1.0)
            cells = (name, lam, tau, share, *(f"{100 * e:.1f}" for e in (error.mean(), result[1])))
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
            raised += ["graph"] if context.graph_gain and context.graph_gain.is_harm else []
            for name in [*raised, *(["any"] if raised else [])]:
                counts[name] += 1
        print("classes" if classes else "numbers", n_sets, counts, flush=True)


HEAD = (
    "| data | test nodes | covered % | worst of ten groups by prediction / degree / leading column "
    "| constant: covered % | constant: worst | interval score over constant | log density "
    "| that of one normal | CRPS | processor seconds |"
)


def main() -> None:
    """Measure the named data sets and print or write tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument(
        "--rules", action="store_true", help="no search: fixed rules (sets: the preset fast)"
    )
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    others = {
        "sets": partial(sets, "fast" if arguments.rules else None),
        "variances": variances,
        "alarms": alarms,
    }
    if arguments.names[0] in others:
        return others[arguments.names[0]]()
    lines = [HEAD, "|" + "---|" * 11]
    groups: list[str] = []
    for name in arguments.names:
        row, of_groups = measure(name, RULES if arguments.rules else {})
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], *of_groups, sep="\n", flush=True)
        if of_groups:
            groups += ["", f"{name} by group", "", "| group | test nodes | covered % | constant |"]
            groups += ["|---|---|---|---|", *of_groups]
    if arguments.write is not None:
        arguments.write.write_text("\n".join([*lines, *groups]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
