"""Use models from threads and other processes, in other units, and on a busy machine.

    python tools/stress.py [--runs 100] [--nodes 12000] [--only threads fork]

threads: a model of each kind is loaded anew for every run, and eight threads call every public
method of it, of its graph and of one predictor, each in an order of its own; answers must be those
of one thread. fork, spawn: after a fit with two threads a child fits, and calls all of them. units:
R² where labels are multiplied by 1e-12 to 1e12. busy: time of a fit with n_jobs=-1 over that of
LightGBM, while every core has another process; for times the machine must be idle otherwise. Prints
JSON; the exit code is 1 if a limit is exceeded. A minute without progress ends the program with the
stack of every thread.
"""

import argparse
import faulthandler
import inspect
import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import ebboost as eb  # sets how threads wait, before scikit-learn loads OpenMP
from ebboost.backends import threads as thread_counts

# isort: split
import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import r2_score
from sklearn.tree import DecisionTreeRegressor

N_THREADS = 8
PATIENCE = 60
UNITS = (1e-12, 1e-8, 1e-4, 1.0, 1e4, 1e8, 1e12)
KINDS: dict[str, dict[str, Any]] = {
    "lightgbm": {},
    "xgboost": {"learner": "xgboost"},
    "catboost": {"learner": "catboost"},
    "scikit-learn": {"learner": HistGradientBoostingRegressor(max_iter=2)},  # has threads
    "classes": {},
    "robust": {"smoothing": eb.Robust()},
    "kernel": {"smoothing": eb.Kernel("diffusion")},
}
LEARNERS = ("lightgbm", "xgboost", "catboost", "scikit-learn")
Uses = dict[str, Callable[[], Any]]
LOSSES = ("squared_error", "huber", "quantile", "poisson", "gamma", "tweedie")


def problem(n_nodes: int) -> tuple[Any, Any, eb.Graph]:
    """Return a table, labels of two thirds of its rows, and a graph of nearest neighbours."""
    X = np.random.default_rng(0).normal(size=(n_nodes, 4))
    y = X[:, 0] + np.sin(3.0 * X[:, 1])
    return X, np.where(np.arange(n_nodes) % 3, y, np.nan), eb.Graph.build_knn(X[:, :2], k=6)


def fit(kind: str, X: Any, y: Any, graph: eb.Graph, **changes: Any) -> Any:
    """Return a fitted model of a kind."""
    parts = {"smoothing": eb.Laplacian(1.0, 2), "labels": "field", "n_folds": 2}
    settings: dict[str, Any] = {"n_jobs": 2, "random_state": 0} | parts | KINDS[kind] | changes
    if kind == "classes":
        known = np.flatnonzero(np.isfinite(y))
        return eb.EBBSClassifier(3, **settings).fit(X, y[known] > 0, nodes=known, graph=graph)
    return eb.EBBSRegressor(settings.pop("n_estimators", 3), **settings).fit(X, y, graph=graph)


def on_model(model: Any, X: Any, graph: eb.Graph) -> Uses:
    """Return a call of every public method and attribute of a model, by name."""
    n_nodes = graph.n_nodes
    labels = (np.arange(n_nodes) % 2).astype(bool if hasattr(model, "classes_") else float)
    new = ([6], labels[:1])
    attributes = [name for name in public(type(model)) if name.endswith("_")]
    uses: Uses = {name: partial(getattr, model, name) for name in attributes}

    def predict() -> list[Any]:
        return [
            model.predict(),
            model.predict(new_labels=new),
            model.predict(-X, graph=graph, new_labels=([], [])),
            model.predict(X[:2], attach=([0, 1], [3, 4])),
            model.predict(interval=0.8),
        ]

    def save() -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder, "model"))
            return sorted(os.listdir(folder))

    return uses | {
        "edge_weights": lambda: model.edge_weights().weight,
        "explain": lambda: model.explain([3, 6], X).to_numpy()[:, 1:],
        "explanations": lambda: [one.total for one in model.explanations([3, 6], X)],
        "get_params": lambda: sorted(model.get_params()),
        "predict": predict,
        "predict_distribution": lambda: model.predict_distribution().mean,
        "predict_proba": lambda: model.predict_proba(-X, graph=graph, new_labels=([], [])),
        "predictor": lambda: model.predictor(X, graph=graph).predict([3, 6]),
        "save": save,
        "score": lambda: model.score(y=labels),
        "summary": model.summary,
        "tree_features": lambda: model.tree_features(X).to_numpy(),
        "uncertainty": lambda: model.uncertainty([3, 6]).to_numpy(),
    }


def on_graph(graph: eb.Graph) -> Uses:
    """Return a call of every public method and attribute of a graph, by name."""
    uses: Uses = {name: partial(getattr, graph, name) for name in public(eb.Graph)}
    return uses | {
        "has_edges_of": lambda: graph.has_edges_of(graph),
        "index_of": lambda: graph.index_of([3, 6]),
        "neighborhood": lambda: graph.neighborhood([3], 2).nodes,
        "neighbors": lambda: graph.neighbors(3),
        "similar_neighborhoods": lambda: graph.similar_neighborhoods().degrees,
        "summary": graph.summary,
        "with_time": lambda: graph.with_time(np.arange(graph.n_nodes)).time,
        "with_vectors": lambda: graph.with_vectors(np.eye(graph.n_nodes, 2)).vectors,
    }


def on_predictor(predictor: eb.Predictor, X: Any) -> Uses:
    """Return a call of every public method of a predictor, by name."""

    def update() -> None:
        predictor.update([3, 6], X[[3, 6]])  # the rows that it has

    return {
        "predict": lambda: [predictor.predict([3, 6]), predictor.predict(interval=0.8)],
        "predict_proba": lambda: predictor.predict_proba([3, 6]),
        "tolerance": lambda: predictor.tolerance,
        "update": update,
    }


def public(kind: type) -> list[str]:
    """Return the names of the public methods and properties of a class that change nothing."""
    members = ((name, inspect.getattr_static(kind, name)) for name in dir(kind))
    constructors = (classmethod, staticmethod, str, int, float, bool, type(None))
    requests = ("_", "set_", "get_metadata", "fit")
    return [
        name
        for name, member in members
        if not name.startswith(requests) and not isinstance(member, constructors)
    ]


def answer(use: Callable[[], Any]) -> list[Any]:
    """Return what a call gives as arrays and texts; of a method that a model lacks, the message."""
    try:
        return flat(use())
    except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
        return [f"{type(error).__name__}: {error}"]


def flat(value: Any) -> list[Any]:
    """Return the numbers and texts in a value."""
    if isinstance(value, (list, tuple)):
        return [one for part in value for one in flat(part)]
    if isinstance(value, (str, float, int, np.ndarray)):
        return [value]
    return [type(value).__name__]


def all_uses(model: Any, X: Any, graph: eb.Graph) -> Uses:
    """Return every use of a model, of its graph and of one predictor that is shared."""
    predictor = model.predictor(X, graph=graph)
    parts = {
        "model": on_model(model, X, graph),
        "graph": on_graph(model.graph_),
        "predictor": on_predictor(predictor, X),
    }
    return {f"{part}.{name}": use for part, uses in parts.items() for name, use in uses.items()}


def expect(answers: list[Any], expected: list[Any], name: str) -> None:
    """Raise unless both are equal; predictions that are updated, to rounding."""
    for one, other in zip(answers, expected, strict=True):
        if isinstance(one, np.ndarray) and one.dtype.kind == "f":
            limit = 1e-7 if name.startswith("predictor.") else 0.0
            np.testing.assert_allclose(one, other, limit, limit, err_msg=name)
        else:
            np.testing.assert_array_equal(one, other, err_msg=name)


def threads(runs: int, n_nodes: int) -> dict[str, int]:
    """Return how many runs ended with the answers of one thread, by kind."""
    X, y, graph = problem(n_nodes)
    ended = dict.fromkeys(KINDS, 0)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(N_THREADS) as pool:
        for number, kind in enumerate(KINDS):
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            model = fit(kind, X, y, graph)
            path = Path(folder, "model")
            if kind != "scikit-learn":  # its trees have no file
                model.save(path)
            expected = {name: answer(use) for name, use in all_uses(model, X, graph).items()}
            for run in range(number, runs, len(KINDS)):
                faulthandler.dump_traceback_later(PATIENCE, exit=True)
                shared = model if kind == "scikit-learn" else eb.load(path)
                uses = all_uses(shared, X, graph)
                barrier = threading.Barrier(N_THREADS)

                def use(
                    thread: int, uses: Uses = uses, barrier: Any = barrier, run: int = run
                ) -> Any:
                    names = list(uses)
                    np.random.default_rng([run, thread]).shuffle(names)
                    barrier.wait()
                    return {name: answer(uses[name]) for name in names}

                for answers in pool.map(use, range(N_THREADS)):
                    for name, one in answers.items():
                        expect(one, expected[name], name)
                ended[kind] += 1
    return ended


def in_child(kind: str, model: Any, X: Any, y: Any, graph: eb.Graph, expected: Any) -> None:
    """Fit, and use the model in another process."""
    fit(kind, X, y, graph)
    for name, use in all_uses(model, X, graph).items():
        expect(answer(use), expected[name], name)


def processes(method: str, n_nodes: int) -> dict[str, float]:
    """Return the seconds of a process that is forked or spawned after the fits, by learner."""
    X, y, graph = problem(n_nodes)
    cases = {}
    for kind in LEARNERS:
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        model = fit(kind, X, y, graph)
        expected = {name: answer(use) for name, use in all_uses(model, X, graph).items()}
        cases[kind] = (kind, model, X, y, graph, expected)
    faulthandler.cancel_dump_traceback_later()
    seconds = {}
    with multiprocessing.get_context(method).Pool(1) as pool:
        pool.apply_async(os.getpid).get(PATIENCE)  # it has started
        for kind, arguments in cases.items():
            start = time.perf_counter()
            pool.apply_async(in_child, arguments).get(PATIENCE)
            seconds[kind] = round(time.perf_counter() - start, 2)
    return seconds


def units() -> dict[str, float]:
    """Return the largest difference of R² between units, by learner and loss."""
    X, y, graph = problem(300)
    known = np.isfinite(y)
    differences = {}
    for kind in LEARNERS:
        few: dict[str, Any] = {"n_estimators": 20, "n_jobs": 1}
        if kind == "scikit-learn":
            few["learner"] = DecisionTreeRegressor(max_depth=4)
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
    """Return median seconds with n_jobs=-1 beside a busy process for each core, and ratios."""
    import lightgbm

    faulthandler.dump_traceback_later(10 * PATIENCE, exit=True)
    X, _, graph = problem(20_000)
    y = X[:, 0] + np.sin(3.0 * X[:, 1])
    settings = {"learner": eb.LightGBM(), "labels": "none", "n_folds": 1, "n_jobs": -1}
    plain = eb.EBBSRegressor(100, 0.1, early_stopping=False, random_state=0, **settings)
    plain.set_params(smoothing=None, neighbor_features=None, feature_smoothing=None)
    models = {
        "lightgbm": partial(lightgbm.LGBMRegressor(verbose=-1, n_jobs=-1).fit, X, y),
        "plain": partial(plain.fit, X, y, graph=graph),
        "propagation": partial(
            clone(plain).set_params(smoothing=eb.Laplacian()).fit, X, y, graph=graph
        ),
    }
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=spin, daemon=True) for _ in range(os.cpu_count() or 1)]
    for other in others:
        other.start()
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in models}
    for _ in range(7):
        for name, train in models.items():
            start, worked = time.perf_counter(), time.process_time()
            train()
            seconds[name].append((time.perf_counter() - start, time.process_time() - worked))
    for other in others:
        other.terminate()
    medians = {name: np.median(taken, axis=0) for name, taken in seconds.items()}
    result = {"lightgbm seconds": round(float(medians["lightgbm"][0]), 3)}
    for name in ("plain", "propagation"):
        ratio, worked = (medians[name] / medians["lightgbm"]).round(2).tolist()
        result |= {f"{name} ratio": ratio, f"{name} ratio of processor time": worked}
    return result


def main() -> None:
    """Run everything and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="of eight threads")
    parser.add_argument("--nodes", type=int, default=12_000, help="of the graph that they use")
    parts = ("busy", "units", "fork", "spawn", "threads")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    result: dict[str, Any] = {}
    if "busy" in options.only:
        result["busy"] = busy()
    if "units" in options.only:
        result["units"] = max(units().values())
    thread_counts.ENTRIES_PER_THREAD = 1  # else trees of such tables are grown by one thread
    for method in ("fork", "spawn"):
        if method in options.only:
            result[method] = processes(method, options.nodes // 4)
    if "threads" in options.only:
        result["threads"] = threads(options.runs, options.nodes)
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps(result, indent=1))
    is_met = sum(result.get("threads", {"": options.runs}).values()) == options.runs
    is_met &= result.get("units", 0.0) <= 1e-3
    limited = ("plain ratio", "propagation ratio of processor time")
    is_met &= all(result.get("busy", {}).get(name, 0.0) <= 1.5 for name in limited)
    sys.exit(not is_met)


if __name__ == "__main__":
    main()
