"""Use models from threads and forked processes, in other units, and on a busy machine.

    python tools/stress.py [--runs 100]

threads: a model of each kind is loaded anew for every run, and eight threads use it at once;
answers must be those of one thread. forks: after a fit with two threads a child fits, predicts and
looks up. units: R² where labels are multiplied by 1e-12 to 1e12. busy: time of a fit with n_jobs=-1
over that of LightGBM, while every core has another process. Prints JSON; the exit code is 1 if a
limit is exceeded. A minute without progress ends the program with the stack of every thread.
"""

import argparse
import faulthandler
import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ebboost as eb  # sets how threads wait, before scikit-learn loads OpenMP
from ebboost.backends import threads as thread_counts

# isort: split
import numpy as np
from sklearn.metrics import r2_score
from sklearn.tree import DecisionTreeRegressor

N_THREADS = 8
PATIENCE = 60
UNITS = (1e-12, 1e-8, 1e-4, 1.0, 1e4, 1e8, 1e12)
KINDS: dict[str, dict[str, Any]] = {
    "lightgbm": {},
    "xgboost": {"learner": "xgboost"},
    "catboost": {"learner": "catboost"},
    "scikit-learn": {"learner": DecisionTreeRegressor(max_depth=4)},
    "classes": {},
    "robust": {"smoothing": eb.Robust()},
    "kernel": {"smoothing": eb.Kernel("diffusion")},
}
LEARNERS = ("lightgbm", "xgboost", "catboost", "scikit-learn")
LOSSES = ("squared_error", "huber", "quantile", "poisson", "gamma", "tweedie")


def problem(n_nodes: int) -> tuple[Any, Any, eb.Graph]:
    """Return a table, labels of two thirds of its rows, and a graph of nearest neighbours."""
    X = np.random.default_rng(0).normal(size=(n_nodes, 4))
    y = X[:, 0] + np.sin(3.0 * X[:, 1])
    return X, np.where(np.arange(n_nodes) % 3, y, np.nan), eb.Graph.build_knn(X[:, :2], k=6)


def fit(kind: str, X: Any, y: Any, graph: eb.Graph, **changes: Any) -> Any:
    """Return a fitted model of a kind."""
    parts = {"smoothing": eb.Laplacian(1.0, 2), "labels": "field", "early_stopping": False}
    settings: dict[str, Any] = {"n_jobs": 2, "random_state": 0} | parts | KINDS[kind] | changes
    if kind == "classes":
        known = np.flatnonzero(np.isfinite(y))
        return eb.EBBSClassifier(3, **settings).fit(X, y[known] > 0, nodes=known, graph=graph)
    return eb.EBBSRegressor(settings.pop("n_estimators", 3), **settings).fit(X, y, graph=graph)


def answers(model: Any, X: Any, graph: eb.Graph, number: int) -> Any:
    """Return what a thread computes: explanations, new labels, a table, or a predictor."""
    label = [True if hasattr(model, "classes_") else 1.0]
    if number % 4 == 0:
        return [one.total for one in model.explanations([3, 6], X)]
    if number % 4 == 1:
        return model.predict(new_labels=([6], label))
    if number % 4 == 2:
        return model.predict(-X, graph=graph, new_labels=([], []))
    predictor = model.predictor(X, graph=graph)
    return [*predictor.predict([3, 6]), model.graph_.n_components, *model.graph_.degrees]


def threads(runs: int) -> dict[str, int]:
    """Return how many runs ended with the answers of one thread, by kind."""
    X, y, graph = problem(12_000)
    ended = dict.fromkeys(KINDS, 0)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(N_THREADS) as pool:
        for number, kind in enumerate(KINDS):
            model = fit(kind, X, y, graph)
            path = Path(folder, "model")
            if kind != "scikit-learn":  # its trees have no file
                model.save(path)
            expected = [answers(model, X, graph, one) for one in range(4)]
            for _ in range(number, runs, len(KINDS)):
                faulthandler.dump_traceback_later(PATIENCE, exit=True)
                shared = model if kind == "scikit-learn" else eb.load(path)
                barrier = threading.Barrier(N_THREADS)

                def use(thread: int, shared: Any = shared, barrier: Any = barrier) -> Any:
                    barrier.wait()
                    return answers(shared, X, graph, thread)

                for thread, answer in enumerate(pool.map(use, range(N_THREADS))):
                    np.testing.assert_array_equal(answer, expected[thread % 4], err_msg=kind)
                ended[kind] += 1
    return ended


def in_child(kind: str, model: Any, X: Any, y: Any, graph: eb.Graph) -> None:
    """Fit, predict and look up in a forked process."""
    fit(kind, X, y, graph)
    for number in range(4):
        answers(model, X, graph, number)


def forks() -> dict[str, float]:
    """Return the seconds of a forked child over those of the parent, by learner."""
    X, y, graph = problem(3_000)
    seconds = {}
    for kind in LEARNERS:
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        model = fit(kind, X, y, graph)
        child = multiprocessing.get_context("fork").Process(
            target=in_child, args=(kind, model, X, y, graph)
        )
        start = time.perf_counter()
        child.start()
        child.join()
        seconds[kind] = round(time.perf_counter() - start, 2)
        if child.exitcode:
            raise RuntimeError(f"{kind}: the child ended with {child.exitcode}")
    return seconds


def units() -> dict[str, float]:
    """Return the largest difference of R² between units, by learner and loss."""
    X, y, graph = problem(300)
    known = np.isfinite(y)
    differences = {}
    few: dict[str, Any] = {"n_estimators": 20, "n_jobs": 1}
    for kind in LEARNERS:
        for loss in LOSSES:
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            labels = np.exp(y) if loss in ("poisson", "gamma", "tweedie") else y
            for use in ("field", "none"):
                scores = []
                for unit in UNITS:
                    model = fit(kind, X, unit * labels, graph, loss=loss, labels=use, **few)
                    scores.append(r2_score(labels[known], model.predict()[known] / unit))
                differences[f"{kind} {loss} {use}"] = float(np.ptp(scores))
    return differences


def spin() -> None:
    """Keep a core busy."""
    while True:
        pass


def busy() -> dict[str, float]:
    """Return median seconds with n_jobs=-1 beside a busy process for each core, and their ratio."""
    import lightgbm

    faulthandler.dump_traceback_later(5 * PATIENCE, exit=True)
    X, _, graph = problem(20_000)
    y = X[:, 0] + np.sin(3.0 * X[:, 1])
    settings = {"learner": eb.LightGBM(), "smoothing": None, "labels": "none", "n_jobs": -1}
    ours = eb.EBBSRegressor(100, 0.1, early_stopping=False, random_state=0, **settings)
    theirs = lightgbm.LGBMRegressor(verbose=-1, n_jobs=-1)
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=spin, daemon=True) for _ in range(os.cpu_count() or 1)]
    for other in others:
        other.start()
    seconds: list[tuple[float, float]] = []
    for _ in range(7):
        start = time.perf_counter()
        ours.fit(X, y, graph=graph)
        middle = time.perf_counter()
        theirs.fit(X, y)
        seconds.append((middle - start, time.perf_counter() - middle))
    for other in others:
        other.terminate()
    own, plain = np.median(seconds, axis=0)
    return {"ebboost": round(own, 3), "lightgbm": round(plain, 3), "ratio": round(own / plain, 2)}


def main() -> None:
    """Run everything and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    runs = parser.parse_args().runs
    warnings.simplefilter("ignore")
    result: dict[str, Any] = {"busy": busy(), "units": max(units().values())}
    thread_counts.ENTRIES_PER_THREAD = 1  # else trees of such tables are grown by one thread
    result["forks"] = forks()
    result |= {"threads": threads(runs)}
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps(result, indent=1))
    is_met = sum(result["threads"].values()) == runs and result["units"] <= 1e-3
    sys.exit(not (is_met and result["busy"]["ratio"] <= 1.5))


if __name__ == "__main__":
    main()
