"""Fit time as ratios in one run: against plain LightGBM, and against the published recipe.

    python benchmarks/speed.py [--nodes 20000] [--edges 100000] [--columns 20] [--rounds 200] [--threads 2]
    python benchmarks/speed.py --default house coauthor_cs [--threads 1]

The published recipe makes a new CatBoost pool and grows one tree on it in every round, and propagates k = 5 steps
forward and back; it is timed over a tenth of the rounds and scaled up. ``--default`` times, on data sets and their first
splits, the default fit, its choosing included, against LightGBM's own early-stopped fit on the same table.
"""

import argparse
import time
from typing import Any

import catboost
import lightgbm
import numpy as np
from data import Data, load
from scipy import sparse

import ebbflow as eb


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("nodes", 20_000), ("edges", 100_000), ("columns", 20), ("rounds", 200), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--default", nargs="+", metavar="NAME", help="time the default fit on these data sets")
    return parser.parse_args()


def timed(function: object, repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()  # type: ignore[operator]
        times.append(time.perf_counter() - start)
    return min(times)


def plain_fit(data: Data, split: dict[str, np.ndarray], threads: int) -> None:
    """LightGBM's own early-stopped fit without the graph."""
    X = sparse.csr_matrix(data.X) if sparse.issparse(data.X) else data.X
    rows = {part: X.iloc[nodes] if hasattr(X, "iloc") else X[nodes] for part, nodes in split.items()}
    settings: dict[str, Any] = {"objective": "regression", "num_threads": threads, "verbose": -1}
    if data.classes:
        settings |= {"objective": "multiclass", "num_class": int(data.y.max()) + 1}
    train = lightgbm.Dataset(rows["train"], data.y[split["train"]])
    held = lightgbm.Dataset(rows["val"], data.y[split["val"]], reference=train)
    stop = [lightgbm.early_stopping(20 if data.classes else 50, verbose=False)]
    lightgbm.train(settings, train, 2000, [held], callbacks=stop)


def default_fit(data: Data, split: dict[str, np.ndarray], threads: int) -> None:
    kind = eb.EBBSClassifier if data.classes else eb.EBBSRegressor
    held = (split["val"], data.y[split["val"]])
    model = kind(random_state=0, n_jobs=threads)
    model.fit(data.X, data.y[split["train"]], nodes=split["train"], graph=data.graph, eval_set=held)


def default_over_plain(names: list[str], threads: int) -> None:
    print(f"{'first three splits':28}{'plain':>9}{'default':>9}{'ratio':>8}   seconds, {threads} threads")
    for name in names:
        data = load(name)
        repeats = 1 if data.classes or name == "wiki" else 3
        times = [
            [
                timed(lambda fit=fit, split=split, data=data: fit(data, split, threads), repeats)
                for split in data.splits[:3]
            ]
            for fit in (plain_fit, default_fit)
        ]
        plain, default = map(np.mean, times)
        print(f"{name:28}{plain:9.2f}{default:9.2f}{default / plain:8.1f}", flush=True)


def main() -> None:
    size = parsed()
    if size.default:
        default_over_plain(size.default, size.threads)
        return
    rng = np.random.default_rng(0)
    X = rng.normal(size=(size.nodes, size.columns))
    ends = np.sort(rng.integers(0, size.nodes, (size.edges, 2)), axis=1)
    graph = eb.Graph.from_edges(ends[:, 0], ends[:, 1], n_nodes=size.nodes)
    y = X[:, 0] * X[:, 1] + 0.3 * (graph.adjacency @ X[:, 2]) + rng.normal(size=size.nodes)
    smoothing = eb.Laplacian(2.0, 5)

    def plain() -> None:
        parameters = {"objective": "regression", "num_leaves": 31, "num_threads": size.threads, "verbose": -1}
        lightgbm.train(parameters, lightgbm.Dataset(X, y), size.rounds)

    def ours() -> None:
        settings = {"labels": "none", "learner": eb.LightGBM(), "learning_rate": 0.1, "early_stopping": False}
        model = eb.EBBSRegressor(size.rounds, smoothing=smoothing, n_jobs=size.threads, **settings)
        model.fit(X, y, graph=graph)

    def published(rounds: int) -> None:
        # Propagation as published, with a sparse library's own products: our loops are no part of the recipe.
        looped = sparse.csr_array(graph.adjacency + sparse.eye_array(size.nodes))
        root = 1.0 / np.sqrt(np.asarray(looped.sum(axis=1)).ravel())
        coupling = sparse.csr_array(looped.multiply(root[:, None]).multiply(root[None, :]))

        def propagated(f: np.ndarray) -> np.ndarray:
            z = f
            for _ in range(smoothing.n_steps):
                z = (smoothing.lam * (coupling @ z) + f) / (1.0 + smoothing.lam)
            return z

        scores = np.zeros(size.nodes)
        for _ in range(rounds):
            residual = propagated(y - propagated(scores))  # forward and back for the gradient
            tree = catboost.CatBoostRegressor(
                iterations=1, learning_rate=0.2, depth=6, thread_count=size.threads, verbose=False,
                allow_writing_files=False,
            )  # fmt: skip
            tree.fit(catboost.Pool(X, residual))
            scores += tree.predict(X)
            tree.predict(X)  # once for f and once for the momentum sequence, as published
            propagated(scores)  # and once more for the losses

    tenth = max(size.rounds // 10, 1)
    seconds = {
        "plain LightGBM": timed(plain),
        "ebbflow, smoothing alone": timed(ours),
        "published recipe": timed(lambda: published(tenth), 1) * size.rounds / tenth,
    }
    print(
        f"n = {size.nodes:,}, |E| = {graph.n_edges:,}, d = {size.columns}, {size.rounds} rounds, {size.threads} threads"
    )
    base, mine = seconds["plain LightGBM"], seconds["ebbflow, smoothing alone"]
    print(f"{'':28}{'seconds':>9}{'over plain':>12}{'over ours':>11}")
    for name, spent in seconds.items():
        print(f"{name:28}{spent:9.2f}{spent / base:12.2f}{spent / mine:11.2f}")


if __name__ == "__main__":
    main()
