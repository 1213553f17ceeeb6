"""Requests per second of one core's time for the predictions of a few nodes of a large graph.

    python benchmarks/serving.py [--nodes 1000000] [--edges 5000000] [--columns 20] [--rounds 100]
    [--steps 5] [--near]
                                 [--labels]

Reads from a predictor, updates of one row, and predictions of one node of a table never seen, on a
graph of random edges, where five steps reach a tenth of all nodes, or with ``--near`` on a
nearest-neighbour graph in the plane. With ``--labels`` half the nodes are labelled, and the latent
field is used.
"""

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np

import ebboost as eb


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (
        ("nodes", 1_000_000),
        ("edges", 5_000_000),
        ("columns", 20),
        ("rounds", 100),
        ("steps", 5),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--near", action="store_true", help="a graph of neighbours in the plane")
    parser.add_argument("--labels", action="store_true", help="use the field of known labels")
    return parser.parse_args()


def a_second(request: Callable[[int], object], most: int, seconds: float = 5.0) -> float:
    """Requests per second of processor time, without the first one."""
    request(0)
    start, done = time.process_time(), 0
    while done < most and time.process_time() - start < seconds:
        done += 1
        request(done)
    return done / (time.process_time() - start)


def main() -> None:
    size = parsed()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(size.nodes, size.columns)).astype(np.float32)
    if size.near:
        graph = eb.Graph.build_knn(
            rng.random((size.nodes, 2)), k=max(round(1.7 * size.edges / size.nodes), 1)
        )
    else:
        ends = np.sort(rng.integers(0, size.nodes, (size.edges, 2), dtype=np.int32), axis=1)
        graph = eb.Graph.from_edges(ends[:, 0], ends[:, 1], n_nodes=size.nodes)
        del ends
    y = X[:, 0] * X[:, 1] + 0.3 * (graph.adjacency @ X[:, 2]) / 5.0
    if size.labels:
        y[rng.random(size.nodes) < 0.5] = np.nan
    settings = {
        "labels": "field" if size.labels else "none",
        "learner": eb.LightGBM(),
        "early_stopping": False,
        "n_jobs": 1,
        "random_state": 0,
    }
    model = eb.EBBSRegressor(size.rounds, 0.1, smoothing=eb.Laplacian(2.0, size.steps), **settings)
    model.fit(X, y, graph=graph)
    print(
        f"n = {graph.n_nodes:,}, |E| = {graph.n_edges:,}, k = {size.steps}, {model.n_iter_} rounds",
        flush=True,
    )
    reached = np.mean(
        [
            graph.neighborhood([node], size.steps).nodes.size
            for node in rng.integers(0, size.nodes, 20)
        ]
    )
    print(f"{'nodes within k edges':44}{reached:12,.0f}")
    start = time.process_time()
    predictor = model.predictor()
    print(f"{'predictor of the fitted nodes, seconds':44}{time.process_time() - start:12.3f}")
    start = time.process_time()
    model.predict(X, graph=graph)
    print(
        f"{'predict all of a table and graph, seconds':44}{time.process_time() - start:12.1f}",
        flush=True,
    )
    ask, rows = rng.integers(0, size.nodes, (200_000, 10)), rng.normal(size=(20_000, size.columns))

    def update(number: int, count: int) -> None:
        nodes = np.unique(ask[number, :count])
        predictor.update(nodes, rows[number : number + nodes.size])

    rates = {
        "predictor.predict, 1 node": a_second(lambda i: predictor.predict(ask[i, :1]), 100_000),
        "predictor.predict, 10 nodes": a_second(lambda i: predictor.predict(ask[i]), 100_000),
        "model.predict(nodes=), 10 fitted nodes": a_second(
            lambda i: model.predict(nodes=ask[i]), 100_000
        ),
        "predictor.update, 1 row": a_second(lambda i: update(i, 1), 10_000),
        "predictor.update, 10 rows": a_second(lambda i: update(i, 10), 1_000),
        "model.predict(X, graph=, nodes=), 1 node": a_second(
            lambda i: model.predict(X, graph=graph, nodes=ask[i, :1]), 1_000
        ),
    }
    for name, rate in rates.items():
        print(f"{name + ', a second':44}{rate:12,.1f}")
    print(
        f"{'peak memory, GiB':44}{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:12.2f}"
    )


if __name__ == "__main__":
    main()
