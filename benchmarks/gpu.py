"""Seconds on a GPU: ``python -m benchmarks.gpu round`` and ``python -m benchmarks.gpu default``.

"round" times the rounds of propagated trees on a random graph of 2.4 million nodes and 120 million
entries, and what they are made of. "default" fits a problem like those of ``benchmarks.speed`` and
says what each step took; ``--device cpu`` does the same without a GPU.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

import ebboost as eb
import ebboost.fit as core
import ebboost.intervals
from benchmarks.speed import KNOWN, NEIGHBORS, NOISE
from ebboost.learners.network import NetworkGrower
from ebboost.learners.xgboost import XGBoostGrower

STEPS = ["read", "cross_fit", "estimate_strengths", "estimate_spread", "component", "combine"]
STEPS += ["columns_of", "needed_rows"]


def timed(spent: dict[str, float], place: Any, name: str, wait: Callable[[], Any]) -> None:
    """Have a function add up the seconds of its calls."""
    original, label = getattr(place, name), f"{getattr(place, '__name__', place)}.{name}"

    def run(*arguments: Any, **options: Any) -> Any:
        wait()
        start = time.perf_counter()
        try:
            return original(*arguments, **options)
        finally:
            wait()
            spent[label] = spent.get(label, 0.0) + time.perf_counter() - start

    setattr(place, name, run)


def random_graph(n_nodes: int, n_edges: int) -> eb.Graph:
    """Return about so many edges between nodes drawn at random, sorted on the GPU."""
    import cupy

    ends = cupy.random.default_rng(0).integers(0, n_nodes, (2, n_edges))
    ends = ends[:, ends[0] != ends[1]]
    both = [ends[0] * n_nodes + ends[1], ends[1] * n_nodes + ends[0]]
    entry = cupy.unique(cupy.concatenate(both))
    start = cupy.searchsorted(entry, cupy.arange(n_nodes + 1) * n_nodes)
    parts = [np.ones(entry.size), (entry % n_nodes).astype(np.int32).get()]
    parts.append(start.astype(np.int32).get())
    return eb.Graph(sparse.csr_array(tuple(parts), shape=(n_nodes, n_nodes)))


class Clock(eb.Callback):
    """The end of each round."""

    def before_training(self, n_rounds: int) -> None:
        """Start."""
        self.times = [time.perf_counter()]

    def after_round(self, info: Any) -> None:
        """Note the time; the loss of the round was waited for."""
        self.times.append(time.perf_counter())


def rounds(n_nodes: int, n_edges: int, n_columns: int, n_rounds: int) -> None:
    """Print the milliseconds of a median round, and of its parts in a second fit."""
    import cupy
    import xgboost

    from ebboost.gpu.objects import CudaSteps

    random = np.random.default_rng(1)
    X = random.standard_normal((n_nodes, n_columns), dtype=np.float32)
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * random.standard_normal(n_nodes)
    y[random.random(n_nodes) < 0.5] = np.nan
    graph = random_graph(n_nodes, n_edges)
    print(f"{n_nodes:,} nodes, {graph.adjacency.nnz:,} entries, {n_columns} columns", flush=True)

    def fit(count: int) -> float:
        clock = Clock()
        options = {"neighbor_features": None, "spectral_features": None, "random_state": 0}
        model = eb.EBBSRegressor(
            count, 0.1, smoothing=eb.Laplacian(2.0, 5), labels="none", device="cuda",
            learner=eb.XGBoost(), early_stopping=False, **options,
        )  # fmt: skip
        model.fit(X, y, graph=graph, callbacks=[clock])
        print(f"loss {model.model_.history['training'][-1]:.6f}", flush=True)
        return 1e3 * float(np.median(np.diff(clock.times)))

    fit(3)  # compiles the kernels
    print(f"a round takes {fit(n_rounds):.2f} ms", flush=True)
    spent: dict[str, float] = {}
    wait = cupy.cuda.Device().synchronize
    parts = [(CudaSteps, "apply"), (XGBoostGrower, "grow"), (xgboost.Booster, "boost")]
    for place, name in parts:
        timed(spent, place, name, wait)
    whole = fit(n_rounds)
    for name, seconds in spent.items():
        print(f"  {name:20} {1e3 * seconds / n_rounds:.2f} ms of {whole:.2f}")


def default(n_rows: int, device: str) -> None:
    """Print the seconds of the default, of its steps, and its error."""
    random = np.random.default_rng(0)
    position, X = random.random((n_rows, 2)), random.normal(size=(n_rows, 20))
    truth = X[:, 0] + 0.5 * X[:, 1] * X[:, 2]
    truth += 1.2 * np.sin(20 * position[:, 0]) * np.cos(17 * position[:, 1])
    y = truth + NOISE * random.normal(size=n_rows)
    known = random.random(n_rows) < KNOWN
    graph = eb.Graph.build_knn(position, NEIGHBORS)
    spent: dict[str, float] = {}
    wait: Callable[[], Any] = int
    if device == "cuda":
        import cupy

        from ebboost.gpu.solver import CudaSolver

        wait = cupy.cuda.Device().synchronize
        small = slice(0, 300_000, 100)  # so that kernels are compiled before
        few = eb.Graph.build_knn(position[small], NEIGHBORS)
        eb.EBBSRegressor(5, device=device, n_folds=2).fit(X[small], y[small], graph=few)
        timed(spent, CudaSolver, "solve", wait)
    for place, names in (
        (core, STEPS),
        (ebboost.intervals, ("field_variance", "grow_scale")),
        (NetworkGrower, ("grow", "compile")),
        (XGBoostGrower, ("grow", "compile")),
        (eb.XGBoost, ("bin",)),
        (eb.RandomNetwork, ("bin",)),
    ):
        for name in names:
            timed(spent, place, name, wait)
    start, processor = time.perf_counter(), time.process_time()
    model = eb.EBBSRegressor(random_state=0, device=device)
    model.fit(X, np.where(known, y, np.nan), graph=graph)
    seconds = time.perf_counter() - start, time.process_time() - processor
    error = float(np.sqrt(np.mean((model.predict() - truth)[~known] ** 2)))
    print(f"{n_rows:,} rows, {device}: {seconds[0]:.1f} s ({seconds[1]:.1f} of processors)")
    print(f"RMSE {error:.5f}", flush=True)
    for name, one in sorted(spent.items(), key=lambda pair: -pair[1]):
        print(f"  {name:40} {one:.2f}")
    for row in model.model_.selection:
        print("  {member:40} {loss:.5f} {weight:.3f} {rounds:.0f} {seconds:.2f} s".format(**row))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["round", "default"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sizes", nargs=4, type=int, default=(2_400_000, 60_000_000, 100, 60))
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    if chosen.what == "round":
        rounds(*chosen.sizes)
    else:
        default(chosen.rows, chosen.device)
