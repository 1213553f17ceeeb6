"""Serve and update for long under several clients, and fit often: neither may grow or slow down.

    python tools/soak.py [--minutes 20] [--clients 8] [--nodes 20000] [--fits 10000]

Threads share a predictor of a model with smoothing, neighbour columns and a latent field; nine of
ten requests look up ten nodes, one replaces a row. At the end the predictions must be those of a
new predictor on the replaced rows. Then small models are fitted in the same process. A line per
minute, or per tenth of the fits, shows requests or fits per second, times in milliseconds (median
and 99 %) and memory in MiB. The exit code is 1 if memory grew by more than a tenth, or the
median time by more than half, from the first to the last third.
"""

import argparse
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np

import ebboost as eb

BATCH = 10  # nodes of a look-up
UPDATES = 0.1  # share of the requests


def memory() -> float:
    """Resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Load:
    """Clients that look up and update, and the seconds of their requests since the last line."""

    def __init__(self, predictor: eb.Predictor, X: np.ndarray) -> None:
        self.predictor = predictor
        self.X = X
        self.stop = threading.Event()
        self.seconds: dict[str, list[float]] = {"look-up": [], "update": []}
        self.failures: list[BaseException] = []
        self.writing = threading.Lock()

    def run(self, seed: int) -> None:
        """Send requests until told to stop."""
        random = np.random.default_rng(seed)
        try:
            while not self.stop.is_set():
                kind = "update" if random.random() < UPDATES else "look-up"
                nodes = random.choice(len(self.X), BATCH, replace=False)
                start = time.perf_counter()
                if kind == "look-up":
                    if not np.isfinite(self.predictor.predict(nodes)).all():
                        raise AssertionError(f"predictions of {nodes} are not finite")
                else:
                    row = random.normal(size=(1, self.X.shape[1]))
                    with self.writing:  # the table must change in the order of the updates
                        self.predictor.update(nodes[:1], row)
                        self.X[nodes[0]] = row[0]
                self.seconds[kind].append(time.perf_counter() - start)
        except BaseException as error:
            self.failures.append(error)
            self.stop.set()

    def line(self, elapsed: float) -> tuple[float, float]:
        """Print what happened since the last line; return the memory and the median look-up."""
        taken = self.seconds
        self.seconds = {kind: [] for kind in taken}
        parts = [f"{memory():8.1f} MiB"]
        for kind, seconds in taken.items():
            half, most = 1000 * np.percentile(seconds or [np.nan], [50, 99])
            rate = len(seconds) / elapsed
            parts.append(f"{kind}: {rate:9.1f}/s, median {half:7.3f} ms, 99 % {most:8.3f} ms")
        print("  ".join(parts), flush=True)
        return memory(), float(np.median(taken["look-up"] or [np.nan]))


def problem(n: int) -> tuple[np.ndarray, np.ndarray, eb.Graph]:
    """A table, labels and the graph of near points."""
    random = np.random.default_rng(0)
    points = random.random((n, 2))
    X = random.normal(size=(n, 5))
    y = np.where(random.random(n) < 0.3, np.sin(6 * points[:, 0]) + X[:, 0], np.nan)
    return X, y, eb.Graph.build_knn(points, k=6)


def serve(minutes: float, n_clients: int, n_nodes: int) -> list[tuple[float, float]]:
    """Memory and median time of a look-up, for each minute."""
    X, y, graph = problem(n_nodes)
    model = eb.EBBSRegressor(
        50, early_stopping=False, smoothing=eb.Laplacian(1.0, 3), random_state=0
    )
    model.set_params(labels=eb.LatentField(), neighbor_features=eb.NeighborFeatures())
    model.set_params(feature_smoothing=None).fit(X, y, graph=graph)
    rows = X.copy()
    known = np.flatnonzero(~np.isnan(y))
    new = {"graph": graph, "new_labels": (known, y[known])}
    load = Load(model.predictor(rows, **new), rows)
    clients = [threading.Thread(target=load.run, args=(seed,)) for seed in range(n_clients)]
    for client in clients:
        client.start()
    lines = []
    interval = min(60.0, 60 * minutes / 9)
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end and not load.stop.wait(interval):
        lines.append(load.line(interval))
    load.stop.set()
    for client in clients:
        client.join()
    if load.failures:
        raise load.failures[0]
    expected = model.predictor(rows, **new).predict()
    difference = np.abs(load.predictor.predict() - expected).max() / expected.std()
    print(f"difference from a new predictor: {difference:.1e} standard deviations")
    if difference > 1e-6:
        raise AssertionError("updates have drifted")
    return lines


def fit(n_fits: int) -> list[tuple[float, float]]:
    """Memory and seconds of a fit, for each tenth of the fits."""
    X, y, graph = problem(60)
    lines = []
    for _ in range(10):
        start = time.perf_counter()
        for seed in range(n_fits // 10):
            fast = eb.EBBSRegressor.from_preset("fast", n_estimators=3, random_state=seed)
            fast.fit(X, y, graph=graph).predict()
        seconds = (time.perf_counter() - start) / max(n_fits // 10, 1)
        lines.append((memory(), seconds))
        print(f"{memory():8.1f} MiB  {1 / seconds:9.1f} fits/s", flush=True)
    return lines


def is_steady(lines: list[tuple[float, float]]) -> bool:
    """Whether neither memory nor time grew from the first third to the last."""
    third = max(len(lines) // 3, 1)
    first, last = (np.median(part, axis=0) for part in (lines[:third], lines[-third:]))
    return bool(last[0] <= 1.1 * first[0] and last[1] <= 1.5 * first[1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--fits", type=int, default=10_000)
    options = parser.parse_args()
    steady = is_steady(serve(options.minutes, options.clients, options.nodes))
    if options.fits:
        steady &= is_steady(fit(options.fits))
    print("steady" if steady else "NOT steady: memory or time grew")
    sys.exit(not steady)
