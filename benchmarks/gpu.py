"""Time of a round on a GPU, and what it is made of: propagation, trees, their values, and the rest.

    python benchmarks/gpu.py [--nodes 2400000] [--edges 60000000] [--columns 100] [--rounds 100]
    [--labels none] [--cpu 5]

A random graph, on which gathers have no locality to profit from; half of the nodes are labelled.
The total is timed in a run of its own; in a second one the GPU finishes each part before the next
begins, which takes a little longer. All are of a median round: the first also compiles, sorts and
allocates. ``--cpu 5`` also times five rounds of the same fit on the CPU.
"""

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cupy
import numpy as np
import xgboost
from scipy import sparse

import ebboost as eb
from ebboost.learners import xgboost as _xgboost
from ebboost.propagation import laplacian as _laplacian

PARTS = {
    "propagation": (_laplacian.GradientSteps, "apply"),
    "trees": (xgboost.Booster, "boost"),
    "values": (_xgboost.XGBoostGrower, "_newest_values"),
}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (
        ("nodes", 2_400_000),
        ("edges", 60_000_000),
        ("columns", 100),
        ("rounds", 100),
        ("cpu", 0),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--labels", default="none")
    parser.add_argument("--max-bin", type=int, default=256)
    return parser.parse_args()


def random_graph(n_nodes: int, n_edges: int) -> eb.Graph:
    """About so many edges between nodes drawn at random; the GPU sorts them in a moment."""
    ends = cupy.random.default_rng(0).integers(0, n_nodes, (2, n_edges))
    ends = ends[:, ends[0] != ends[1]]
    entry = cupy.unique(
        cupy.concatenate([ends[0] * n_nodes + ends[1], ends[1] * n_nodes + ends[0]])
    )
    start = cupy.searchsorted(entry, cupy.arange(n_nodes + 1) * n_nodes)
    column, start = (entry % n_nodes).astype(np.int32).get(), start.astype(np.int32).get()
    return eb.Graph(
        sparse.csr_array((np.ones(column.size), column, start), shape=(n_nodes, n_nodes))
    )


def problem(size: argparse.Namespace) -> tuple[Any, Any, eb.Graph]:
    random = cupy.random.default_rng(1)
    X = random.standard_normal((size.nodes, size.columns), dtype=np.float32)
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * random.standard_normal(size.nodes, dtype=np.float32)
    y[random.random(size.nodes) < 0.5] = np.nan
    inputs = X.get(), y.get().astype(np.float64), random_graph(size.nodes, size.edges)
    del X, y
    cupy.get_default_memory_pool().free_all_blocks()
    return inputs


@contextmanager
def timed_parts() -> Iterator[dict[str, list[float]]]:
    """Seconds of each call of each part, the GPU waited for before and after it."""
    spent: dict[str, list[float]] = {part: [] for part in PARTS}
    originals = {part: getattr(*target) for part, target in PARTS.items()}

    def waited(part: str, original: Any) -> Any:
        def run(*arguments: Any, **options: Any) -> Any:
            cupy.cuda.Device().synchronize()
            start = time.perf_counter()
            result = original(*arguments, **options)
            cupy.cuda.Device().synchronize()
            spent[part].append(time.perf_counter() - start)
            return result

        return run

    for part, (kind, name) in PARTS.items():
        setattr(kind, name, waited(part, originals[part]))
    try:
        yield spent
    finally:
        for part, (kind, name) in PARTS.items():
            setattr(kind, name, originals[part])


def fit(X: Any, y: Any, graph: eb.Graph, size: argparse.Namespace, rounds: int, device: str) -> Any:
    """Return the fitted model and the seconds of its fit."""
    model = eb.EBBSRegressor(
        rounds,
        0.1,
        smoothing=eb.Laplacian(2.0, 5),
        labels=size.labels,
        learner=eb.XGBoost(max_bin=size.max_bin),
        early_stopping=False,
        device=device,
        n_jobs=-1,
        random_state=0,
    )
    start = time.perf_counter()
    model.fit(X, y, graph=graph)
    return model, time.perf_counter() - start


def per_round(model: Any) -> float:
    """Milliseconds of the median round."""
    seconds = np.diff(model.history_["seconds"])
    return 1e3 * float(np.median(seconds)) if seconds.size else float("nan")


def main() -> None:
    size = parsed()
    X, y, graph = problem(size)
    n_kept = f"{graph.adjacency.nnz:,} stored edges"
    print(
        f"{size.nodes:,} nodes, {n_kept}, {size.columns} columns, labels={size.labels!r}, "
        f"{size.rounds} rounds"
    )
    fit(X, y, graph, size, 3, "cuda")  # compiles, and allocates once
    model, seconds = fit(X, y, graph, size, size.rounds, "cuda")
    milliseconds = per_round(model)
    print(
        f"a round {milliseconds:8.2f} ms; the fit {seconds:.2f} s, "
        f"its rounds {model.history_['seconds'][-1]:.2f} s",
        flush=True,
    )
    with timed_parts() as spent:
        split, _ = fit(X, y, graph, size, size.rounds, "cuda")
    parts = {
        part: 1e3 * np.median(calls) * round(len(calls) / size.rounds)
        for part, calls in spent.items()
    }
    for part, milliseconds in parts.items():
        print(f"  {part:12}{milliseconds:8.2f} ms")
    print(f"  {'the rest':12}{per_round(split) - sum(parts.values()):8.2f} ms")
    taken = cupy.cuda.runtime.memGetInfo()
    print(
        f"loss {model.history_['training'][-1]:.6f}; "
        f"{(taken[1] - taken[0]) / 1e9:.2f} GB taken after the fit",
        flush=True,
    )
    if size.cpu:
        slow, _ = fit(X, y, graph, size, size.cpu, "cpu")
        loss = model.history_["training"][size.cpu - 1]
        print(
            f"on the CPU a round takes {per_round(slow):.0f} ms, "
            f"{per_round(slow) / milliseconds:.0f} times as long; loss after "
            f"{size.cpu} rounds {slow.history_['training'][-1]:.6f} there, {loss:.6f} on the GPU"
        )


if __name__ == "__main__":
    main()
