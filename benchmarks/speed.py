"""Seconds and memory by number of rows, beside LightGBM: ``python -m benchmarks.speed``.

Points are uniform in the unit square and connected to their 6 nearest; 20 normal columns; y is
x₀ + ½ x₁ x₂ + 1.2 sin(20 u) cos(17 v) and noise of deviation ½, known for 80 % of the points; the
error is that of the predictions of the other points against y without noise. Every fit runs in a
process of its own with two threads. "memory" is what a fit takes at its peak beside the problem.
"""

import argparse
import importlib
import json
import os
import resource
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import database

SIZES = (10_000, 100_000, 1_000_000)
METHODS = ("LightGBM", "LightGBM with coordinates", "ebboost fast", "ebboost")
THREADS = 2
N_COLUMNS = 20
NEIGHBORS = 6
KNOWN = 0.8
NOISE = 0.5


def problem(n_rows: int) -> dict[str, Any]:
    """Return the problem of a size."""
    rng = np.random.default_rng(0)
    position = rng.random((n_rows, 2))
    X = rng.normal(size=(n_rows, N_COLUMNS))
    truth = X[:, 0] + 0.5 * X[:, 1] * X[:, 2]
    truth += 1.2 * np.sin(20 * position[:, 0]) * np.cos(17 * position[:, 1])
    y = truth + NOISE * rng.normal(size=n_rows)
    known, rest = np.split(rng.permutation(n_rows), [int(KNOWN * n_rows)])
    return {"X": X, "position": position, "truth": truth, "y": y, "known": known, "rest": rest}


def lightgbm(X: np.ndarray, y: np.ndarray, known: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Train LightGBM, stopped on a tenth of the labels, and predict the rest."""
    import lightgbm as lgb

    held_out, train = np.split(known, [known.size // 10])
    settings = {"objective": "regression", "num_threads": THREADS, "verbose": -1, "seed": 0}
    data = lgb.Dataset(X[train], y[train])
    valid = lgb.Dataset(X[held_out], y[held_out], reference=data)
    stop = lgb.early_stopping(20, verbose=False)
    return lgb.train(settings, data, 2_000, [valid], callbacks=[stop]).predict(X[rest])


def predict(method: str, X: np.ndarray, position: np.ndarray, y: Any, known: Any, rest: Any) -> Any:
    """Fit a method, the graph of ebboost included, and predict the rest."""
    if method == "LightGBM":
        return lightgbm(X, y, known, rest)
    if method == "LightGBM with coordinates":
        return lightgbm(np.hstack([X, position]), y, known, rest)
    import ebboost as eb

    graph = eb.Graph.build_knn(position, NEIGHBORS)
    folds = {"n_folds": 1} if method == "ebboost fast" else {}
    model = eb.EBBSRegressor(random_state=0, n_jobs=THREADS, **folds)
    return model.fit(X, y[known], nodes=known, graph=graph).predict(nodes=rest)


def resident() -> int:
    """Return the bytes of memory that this process uses now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def measure(method: str, n_rows: int) -> dict[str, Any]:
    """Fit in this process and return the row, without version and machine."""
    importlib.import_module("ebboost" if "ebboost" in method else "lightgbm")
    own = problem(n_rows)
    truth = own.pop("truth")
    before, peak, done = resident(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            peak[0] = max(peak[0], resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    wall, processor = time.perf_counter(), time.process_time()
    predictions = predict(method, **own)
    seconds = time.perf_counter() - wall, time.process_time() - processor
    done.set()
    watcher.join()
    return {
        "experiment": "speed",
        "data": f"{n_rows} points",
        "split": 0,
        "method": method,
        "rows": n_rows,
        "error": float(np.sqrt(np.mean((predictions - truth[own["rest"]]) ** 2))),
        "metric": "RMSE",
        "seconds": round(seconds[0], 3),
        "processor_seconds": round(seconds[1], 3),
        "memory_mb": round(max(peak[0] - before, 0) / 1e6, 1),
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure what the database lacks, each fit in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--store", type=Path, default=database.DATABASE)
    parser.add_argument("--here", action="store_true", help="measure in this process, and print")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    if options.here:
        print(json.dumps(measure(options.methods[0], options.sizes[0])))
        return
    done = {} if options.again else database.read(options.store)
    for n_rows in options.sizes:
        for method in options.methods:
            if ("speed", f"{n_rows} points", 0, method) in done:
                continue
            command = [sys.executable, "-m", "benchmarks.speed", "--here", "--methods", method]
            environment = os.environ | {"OMP_WAIT_POLICY": "PASSIVE"}
            environment |= {"OMP_NUM_THREADS": str(THREADS)}
            output = subprocess.run(
                [*command, "--sizes", str(n_rows)], env=environment, check=True, text=True,
                stdout=subprocess.PIPE,
            ).stdout  # fmt: skip
            package = "ebboost" if "ebboost" in method else "lightgbm"
            version = f"{package} {database.version(package)}"
            row = json.loads(output) | {"version": version, "machine": database.machine()}
            database.add(row, options.store)
            print(f"{n_rows} {method}: {row['error']:.4g} in {row['seconds']} s", flush=True)
    database.write(database.read(options.store).values(), options.store)


if __name__ == "__main__":
    main()
