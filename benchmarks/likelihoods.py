"""Classes with few labels, and losses that bear outliers.

    python -m benchmarks.likelihoods classes [--seeds 0 1 …]
    python -m benchmarks.likelihoods calibration [--seeds 0 1 …] [--selection search]
    python -m benchmarks.likelihoods outliers [--selection search]
    python -m benchmarks.likelihoods rounds

Classes: outer walls of Lucas with 2 000 labels and Coauthor-CS with 20 labels a class, all other
nodes being test nodes. Rivals are LightGBM with the columns of a node and the mean of its
neighbours', alone, followed by Correct and Smooth (weights chosen on a fifth of the labels), and
with shares of the classes among labelled nodes at one and two edges, the own label left out.
"Calibration" is the expected calibration error, and the largest of 19 in 20 samples of labels drawn
from the probabilities.

Calibration: seven problems with labels drawn at random, of Coauthor-CS in proportion to the
classes. "Estimated, up to" is the same as by chance for probabilities whose scale and intercepts
are off by as much as estimates from that many labels are. "Excess" is the mean confidence less the
accuracy: its mean over seeds tells bias from what a draw of the labels causes. "By test labels" are
means and the 95 % quantile of the same model calibrated anew to as many labels of test nodes, at
most half of them: what no calibration at known labels can be expected to surpass.

Outliers: RMSE of later sales of Lucas with clean labels, and with 5 % of the labels known moved
by up to five standard deviations; the squared error, Huber's and the median.

Rounds: processor seconds a round with a latent field, of the seven walls of Lucas and fifths of the
prices of House, and of their prices; the median of a fit with one thread.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import lightgbm
import numpy as np
from scipy import sparse

import ebboost as eb
from benchmarks.data import load
from benchmarks.methods.posthoc import correct_and_smooth_scores
from ebboost.boosting.calibration import expected_calibration_error, fit_calibration
from ebboost.data.labels import Labels

ROUNDS = 300
PATIENCE = 30
WEIGHTS = tuple(product((0.5, 0.8, 0.95), (0.0, 0.5, 0.8)))
PARAMETERS = {"learning_rate": 0.05, "num_leaves": 15, "min_child_samples": 5, "verbose": -1}
N_DRAWS = 400
N_CALIBRATIONS = 20


class Problem(NamedTuple):
    """Numbered classes of all nodes, and the nodes whose classes are known."""

    X: np.ndarray | sparse.csr_array
    y: np.ndarray
    graph: eb.Graph
    known: np.ndarray

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.y.max()) + 1

    @property
    def test(self) -> np.ndarray:
        """Nodes to compare predictions at."""
        return np.setdiff1d(np.arange(self.y.size), self.known)

    def split(self, share: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
        """Return known nodes to train and to validate on."""
        order = np.random.default_rng(0).permutation(self.known)
        return np.split(order, [int((1.0 - share) * order.size)])

    def mean_of_neighbors(self, values: np.ndarray | sparse.csr_array) -> sparse.csr_array:
        """Return the mean of the neighbours' values."""
        degrees = np.maximum(self.graph.degrees, 1e-300)
        return sparse.csr_array(sparse.diags_array(1.0 / degrees) @ self.graph.adjacency @ values)


def problems(seed: int) -> Iterator[tuple[str, Problem]]:
    """Yield the data sets with their known labels drawn at random."""
    random = np.random.default_rng(seed)
    X, wall, graph, _ = eb.datasets.load_lucas("wall")
    y = np.unique(wall, return_inverse=True)[1]
    columns = X.apply(lambda c: c if c.dtype.kind in "if" else c.astype("category").cat.codes)
    known = np.sort(random.choice(y.size, 2_000, replace=False))
    yield "Lucas, walls", Problem(columns.to_numpy(float), y, graph, known)
    data = load("coauthor_cs")
    y = np.asarray(data.y)
    chosen = [random.permutation(np.flatnonzero(y == c))[:20] for c in np.unique(y)]
    known = np.sort(np.concatenate(chosen))
    yield "Coauthor-CS", Problem(sparse.csr_array(data.X), y, data.graph, known)


def with_neighbors(problem: Problem, labelled: np.ndarray | None) -> sparse.csr_array | np.ndarray:
    """Return the columns, the mean of the neighbours', and the classes of labelled nodes nearby."""
    parts = [problem.X, problem.mean_of_neighbors(problem.X)]
    if labelled is not None:
        parts.append(label_columns(problem, labelled))
    columns = sparse.csr_array(sparse.hstack([sparse.csr_array(part) for part in parts]))
    return columns if sparse.issparse(problem.X) else columns.toarray()


def label_columns(problem: Problem, nodes: np.ndarray) -> np.ndarray:
    """Return shares of the classes among ``nodes`` at one and two edges, the own label left out."""
    labels = np.zeros((problem.y.size, problem.n_classes))
    labels[nodes, problem.y[nodes]] = 1.0
    edges = (problem.graph.adjacency != 0).astype(float)
    first = edges @ labels
    second = edges @ first - np.diff(edges.indptr)[:, None] * labels
    parts = [part / np.maximum(part.sum(axis=1, keepdims=True), 1.0) for part in (first, second)]
    return np.hstack(parts)


def boosted(problem: Problem, train: np.ndarray, held: np.ndarray, labels: bool) -> np.ndarray:
    """Return probabilities of LightGBM, stopped at ``held``."""
    X = with_neighbors(problem, train if labels else None)
    settings = {"objective": "multiclass", "num_class": problem.n_classes, "num_threads": 1}
    data = lightgbm.Dataset(X[train], problem.y[train], free_raw_data=False)
    valid = lightgbm.Dataset(X[held], problem.y[held], reference=data)
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    model = lightgbm.train(PARAMETERS | settings, data, ROUNDS, [valid], callbacks=[stop])
    if labels:  # test nodes may use all known ones
        X = with_neighbors(problem, problem.known)
    return np.asarray(model.predict(X))


def smoothed(problem: Problem) -> np.ndarray:
    """Return Correct and Smooth of LightGBM's probabilities, its weights chosen on a fifth."""
    train, held = problem.split()
    base = boosted(problem, train, held, labels=False)

    def accuracy(weights: tuple[float, float]) -> float:
        scores = correct_and_smooth_scores(problem, base, train, *weights)
        return float(np.mean(scores[held].argmax(axis=1) == problem.y[held]))

    best = max(WEIGHTS, key=accuracy)
    scores = np.maximum(correct_and_smooth_scores(problem, base, problem.known, *best), 1e-6)
    return scores / scores.sum(axis=1, keepdims=True)


def ours(problem: Problem) -> np.ndarray:
    """Return probabilities of ebboost's default."""
    model = eb.EBBSClassifier(random_state=0)
    model.fit(problem.X, problem.y[problem.known], nodes=problem.known, graph=problem.graph)
    return model.predict_proba()


METHODS = {
    "LightGBM, neighbours' columns": lambda p: boosted(p, *p.split(), labels=False),
    "+ Correct and Smooth": smoothed,
    "+ labels of neighbours": lambda p: boosted(p, *p.split(), labels=True),
    "ebboost": ours,
}


def calibration(probabilities: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the calibration error, and what 19 in 20 samples from the probabilities stay below."""
    classes = np.eye(probabilities.shape[1])
    random = np.random.default_rng(0)
    cumulative = probabilities.cumsum(axis=1)
    draws = []
    for _ in range(N_DRAWS):
        drawn = (random.random((y.size, 1)) > cumulative).sum(axis=1).clip(max=len(classes) - 1)
        draws.append(expected_calibration_error(probabilities, classes[drawn]))
    error = expected_calibration_error(probabilities, classes[y])
    return error, float(np.quantile(draws, 0.95))


def estimated_range(probabilities: np.ndarray, n_labels: int) -> float:
    """Return what 19 in 20 samples stay below if scale and intercepts are estimated from labels."""
    scores = np.log(np.maximum(probabilities, 1e-12))
    n_classes = scores.shape[1]
    moves = np.concatenate([scores[:, :, None], np.tile(np.eye(n_classes), (len(scores), 1, 1))], 2)
    centered = moves - np.einsum("nc,nck->nk", probabilities, moves)[:, None]
    information = np.einsum("nc,nck,ncl->kl", probabilities, centered, centered) / len(scores)
    covariance = np.linalg.pinv(n_labels * information, rcond=1e-6, hermitian=True)
    random = np.random.default_rng(0)
    errors = []
    for off in random.multivariate_normal(np.zeros(n_classes + 1), covariance, N_DRAWS // 4):
        true = eb.Softmax().inverse_link(scores * (1.0 + off[0]) + off[1:])
        drawn = (random.random((len(true), 1)) > true.cumsum(axis=1)).sum(axis=1)
        target = np.eye(n_classes)[drawn.clip(max=n_classes - 1)]
        errors.append(expected_calibration_error(probabilities, target))
    return float(np.quantile(errors, 0.95))


class ByTestLabels(NamedTuple):
    """Figures of probabilities that are calibrated at labels of test nodes, means over draws."""

    log_loss: float
    error: float
    largest_error: float


def calibrated_by_test_labels(
    probabilities: np.ndarray, y: np.ndarray, n_labels: int
) -> ByTestLabels:
    """Calibrate probabilities anew at as many labels of test nodes, at most half of them."""
    scores = np.log(np.maximum(probabilities, 1e-12))
    loss = eb.Softmax()
    target = np.eye(scores.shape[1])[y]
    if scores.shape[1] == 2:
        scores = scores[:, 1:] - scores[:, :1]
        target = target[:, 1:]
        loss = eb.LogLoss()
    losses, errors = [], []
    for seed in range(N_CALIBRATIONS):
        order = np.random.default_rng(seed).permutation(y.size)
        nodes = order[: min(n_labels, y.size // 2)]
        labels = Labels(nodes, target[nodes], np.ones(nodes.size))
        calibrated = fit_calibration(scores[nodes], loss, labels).apply(scores)
        losses.append(loss.value(calibrated, target).mean())
        errors.append(expected_calibration_error(loss.inverse_link(calibrated), target))
    return ByTestLabels(
        float(np.mean(losses)), float(np.mean(errors)), float(np.quantile(errors, 0.95))
    )


def calibration_problems(seed: int) -> Iterator[tuple[str, Problem]]:
    """Yield classes whose labels are drawn at random."""

    def drawn(X: object, y: np.ndarray, graph: eb.Graph, n_labels: int) -> Problem:
        nodes = np.random.default_rng(seed).choice(y.size, n_labels, replace=False)
        return Problem(X, y, graph, np.sort(nodes))

    X, price, graph, _ = eb.datasets.load_lucas()
    yield "Lucas, price above median", drawn(X, (price > np.median(price)) * 1, graph, 2_000)
    X, wall, graph, _ = eb.datasets.load_lucas("wall")
    y = np.unique(wall, return_inverse=True)[1]
    for n_labels in (2_000, 15_000):
        yield "Lucas, walls", drawn(X, y, graph, n_labels)
    X, turnout, graph, _ = eb.datasets.load_elect80()
    yield "elect80, above median", drawn(X, (turnout > np.median(turnout)) * 1, graph, 1_500)
    data = load("county")
    yield "County, above median", drawn(data.X, (data.y > np.median(data.y)) * 1, data.graph, 1_500)
    data = load("house")
    y = np.digitize(data.y, np.quantile(data.y, (0.2, 0.4, 0.6, 0.8)))
    yield "House, fifths", drawn(data.X, y, data.graph, 2_000)
    data = load("coauthor_cs")
    y = np.asarray(data.y)
    random = np.random.default_rng(seed)
    parts = [random.permutation(np.flatnonzero(y == one)) for one in np.unique(y)]
    known = np.concatenate([part[: max(round(0.11 * part.size), 2)] for part in parts])
    yield "Coauthor-CS", Problem(sparse.csr_array(data.X), y, data.graph, np.sort(known))


def compare_calibration(seeds: list[int], selection: str) -> None:
    """Print the table of calibration errors."""
    titles = ("data", "seed", "labels", "accuracy %", "log-loss", "calibration")
    titles += ("by chance up to", "estimated, up to", "excess", "damping")
    titles += ("by test labels: log-loss", "calibration", "up to")
    print(f"| {' | '.join(titles)} |")
    print(f"|{'---|' * len(titles)}")
    n_folds = 3 if selection == "rules" else "auto"
    for seed in seeds:
        for data, problem in calibration_problems(seed):
            model = eb.EBBSClassifier(selection=selection, n_folds=n_folds, random_state=0)
            model.fit(problem.X, problem.y[problem.known], nodes=problem.known, graph=problem.graph)
            probabilities = model.predict_proba()[problem.test]
            y = problem.y[problem.test]
            accuracy = np.mean(probabilities.argmax(axis=1) == y)
            likelihood = np.log(np.maximum(probabilities[np.arange(y.size), y], 1e-15))
            error, chance = calibration(probabilities, y)
            estimated = estimated_range(probabilities, problem.known.size)
            numbers = (-likelihood.mean(), error, chance, estimated)
            excess = probabilities.max(axis=1).mean() - accuracy
            cells = (f"{100.0 * accuracy:.1f}", *(f"{number:.4f}" for number in numbers))
            again = calibrated_by_test_labels(probabilities, y, problem.known.size)
            more = (f"{excess:+.4f}", f"{model.calibration_.damping:.2f}")
            more += tuple(f"{number:.4f}" for number in again)
            row = (data, seed, problem.known.size, *cells, *more)
            print(f"| {' | '.join(map(str, row))} |", flush=True)


def compare_classes(seeds: list[int]) -> None:
    """Print the table of classes."""
    print(
        "| data | seed | method | accuracy % | log-loss | calibration | by chance up to | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for seed in seeds:
        for data, problem in problems(seed):
            y = problem.y[problem.test]
            for name, method in METHODS.items():
                start = time.perf_counter()
                probabilities = method(problem)[problem.test]
                seconds = time.perf_counter() - start
                accuracy = 100.0 * np.mean(probabilities.argmax(axis=1) == y)
                likelihood = np.log(np.maximum(probabilities[np.arange(y.size), y], 1e-15))
                error, chance = calibration(probabilities, y)
                cells = (f"{accuracy:.1f}", f"{-likelihood.mean():.3f}", f"{error:.3f}")
                row = (data, seed, name, *cells, f"{chance:.3f}", f"{seconds:.0f}")
                print(f"| {' | '.join(map(str, row))} |", flush=True)


def compare_outliers(selection: str) -> None:
    """Print the table of losses."""
    X, y, graph, splits = eb.datasets.load_lucas()
    train, test = splits[0]["train"], splits[0]["test"]
    random = np.random.default_rng(0)
    moved = y[train].copy()
    rows = random.choice(train.size, train.size // 20, replace=False)
    moved[rows] += 5.0 * y[train].std() * random.uniform(-1.0, 1.0, rows.size)
    print("| labels | loss | RMSE of later sales | MAE | seconds |")
    print("|---|---|---|---|---|")
    for labels, known in {"clean": y[train], "5 % outliers": moved}.items():
        for loss in ("squared_error", "huber", eb.Quantile(0.5)):
            start = time.perf_counter()
            n_folds = 2 if selection == "rules" else "auto"
            model = eb.EBBSRegressor(
                loss=loss, selection=selection, n_folds=n_folds, random_state=0
            )
            model.fit(X, known, nodes=train, graph=graph)
            errors = y[test] - model.predict()[test]
            values = (np.sqrt(np.mean(errors**2)), np.abs(errors).mean())
            cells = [f"{value:.4f}" for value in values]
            row = (labels, loss, *cells, f"{time.perf_counter() - start:.0f}")
            print(f"| {' | '.join(map(str, row))} |", flush=True)


class Clock(eb.Callback):
    """Processor time after each round."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def after_round(self, info: eb.RoundInfo) -> None:
        """Note the time."""
        self.times.append(time.process_time())


def compare_rounds(n_rounds: int = 80) -> None:
    """Print the table of seconds."""
    print("| data | labels | numbers, ms | classes, ms | outputs | ratio |")
    print("|---|---|---|---|---|---|")
    X, price, graph, _ = eb.datasets.load_lucas()
    wall = X.pop("wall").astype(str).to_numpy()
    data = load("house")
    fifth = np.digitize(data.y, np.quantile(data.y, (0.2, 0.4, 0.6, 0.8)))
    both = {"Lucas, walls": (X, price, wall, graph), "House": (data.X, data.y, fifth, data.graph)}
    with_p = eb.Laplacian(1.0, 2)
    cases = [("Lucas, walls", n_labels, 4.0, 0.05, with_p) for n_labels in (2_000, 15_000)]
    cases += [("House", 12_384, *strengths, None) for strengths in ((0.05, 0.001), (0.5, 0.01))]
    for name, n_labels, lam, tau, smoothing in cases:
        X, numbers, classes, graph = both[name]
        nodes = np.sort(np.random.default_rng(0).choice(classes.size, n_labels, replace=False))
        fixed = {"labels": eb.LatentField(lam, tau), "smoothing": smoothing, "n_jobs": 1}
        seconds = []
        for kind, y in ((eb.EBBSRegressor, numbers), (eb.EBBSClassifier, classes)):
            clock = Clock()
            model = kind(n_rounds, 0.1, early_stopping=False, random_state=0, **fixed)
            model.fit(X, y[nodes], nodes=nodes, graph=graph, callbacks=[clock])
            seconds.append(float(np.median(np.diff(clock.times[2:]))))
        n_outputs = np.unique(classes[nodes]).size
        ratio = seconds[1] / (n_outputs * seconds[0])
        cells = (n_labels, *(f"{1e3 * one:.1f}" for one in seconds), n_outputs, f"{ratio:.2f}")
        print(f"| {name}, λ = {lam}, τ = {tau} | {' | '.join(map(str, cells))} |", flush=True)


TABLES: dict[str, Callable[[argparse.Namespace], None]] = {
    "classes": lambda arguments: compare_classes(arguments.seeds),
    "calibration": lambda arguments: compare_calibration(arguments.seeds, arguments.selection),
    "outliers": lambda arguments: compare_outliers(arguments.selection),
    "rounds": lambda arguments: compare_rounds(),
}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1])
    parser.add_argument("--selection", choices=("rules", "search"), default="rules")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    TABLES[arguments.table](arguments)


if __name__ == "__main__":
    main()
