"""Cost of a round on a Dask cluster of one and two workers, measured and by a cost model.

    python benchmarks/cluster.py [--rounds 9] [--cases 6] [--out benchmarks/results/cluster.md]

The model's constants come from the parts alone: sums of arrays over the workers (seconds a call and
a byte), sweeps of a worker's rows (seconds a weight and a node) and trees on a worker's rows. What
every worker does for all nodes, a number of seconds a node and output, is the remainder of the fits
of one worker; those of two are predicted. Times are processor seconds of a worker, the least of
their repeats, because others may use the machine: what a worker waits is not in them. Bytes on the
wire are those of the loopback device.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, get_client, wait
from scipy import sparse

import ebboost as eb
from ebboost.backends.dask import cluster as dask_cluster
from ebboost.backends.dask.collectives import Collective
from ebboost.backends.dask.sharding import BlockGraph, GraphRows, Rows
from ebboost.backends.dask.worker import communicator, reuse_memory
from ebboost.data.table import Table
from ebboost.learners import XGBoost
from ebboost.propagation import sweep_on

DEPTH, BINS = 6, 256


@dataclass(frozen=True)
class Case:
    """A fit."""

    nodes: int
    degree: int
    outputs: int
    columns: int
    labels: str = "none"

    steps: int = 2

    def data(self) -> tuple[np.ndarray, np.ndarray, eb.Graph]:
        """A table, labels for half the nodes, and a graph."""
        random = np.random.default_rng(0)
        n = self.nodes
        # Neighbours are near in the order of the rows, as in a graph whose nodes have been put into
        # a good order.
        source = np.repeat(np.arange(n), self.degree // 2)
        target = (source + random.integers(1, 2000, source.size)) % n
        ends = np.concatenate([source, target]), np.concatenate([target, source])
        adjacency = sparse.csr_array((np.ones(ends[0].size), ends), shape=(n, n))
        adjacency.data[:] = 1.0
        X = random.normal(size=(n, self.columns))
        y = X[:, 0] + np.sin(np.arange(n) / 500.0) + 0.3 * random.normal(size=n)
        if self.outputs > 1:
            y = np.digitize(y, np.quantile(y, np.linspace(0, 1, self.outputs + 1)[1:-1])).astype(
                float
            )
        y[random.random(n) < 0.5] = np.nan
        return X, y, eb.Graph(adjacency)

    def estimator(self, rounds: int) -> Any:
        """What is fitted."""
        kind = eb.EBBSRegressor if self.outputs == 1 else eb.EBBSClassifier
        parts = {"smoothing": eb.Laplacian(1.0, self.steps), "labels": self.labels}
        return kind(
            rounds, 0.1, learner=XGBoost(DEPTH), early_stopping=False, random_state=0, **parts
        )

    def sent(self, iterations: float) -> float:
        """Bytes of vectors that a worker hands to the collective in a round: the model."""
        n, c, k = self.nodes, self.outputs, self.steps
        wide = 4 if n > 10_000 else 8
        scores = 2 * k * wide * n * c + 4 * n * c  # k sweeps forward and k back; the tree's values
        if c > 1:  # curvatures that change: P applied to ones, and back, in full precision
            scores += 8 * k * n + 8 * k * n * c
        return scores + (iterations + 2) * 4 * n if self.labels == "field" else scores

    def histograms(self) -> float:
        """Bytes of histograms that XGBoost sums in a round; one child of two is a difference."""
        return 16.0 * 2 ** (DEPTH - 1) * self.columns * BINS * self.outputs


CASES = [
    Case(50_000, 10, 1, 20),
    Case(200_000, 10, 1, 20),
    Case(200_000, 40, 1, 20),
    Case(200_000, 10, 1, 60),
    Case(200_000, 10, 4, 20),
    Case(200_000, 10, 1, 20, "field"),
]


def least(function: Callable[[], Any], repeats: int = 15) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


class Clock(eb.Callback):
    """Processor seconds of the worker after each round."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def after_round(self, progress: eb.RoundInfo) -> None:
        """Note them."""
        self.seconds.append(time.process_time())


def on_the_wire() -> int:
    """Bytes that this machine has sent to itself."""
    line = next(
        line
        for line in Path("/proc/net/dev").read_text().splitlines()
        if line.strip().startswith("lo:")
    )
    return int(line.split()[9])


def together(
    function: Callable[..., Any], workers: list[str], arguments: list[tuple[Any, ...]]
) -> list[Any]:
    """Run a function in several workers that are joined by a collective."""
    client = get_client()
    address = client.submit(
        dask_cluster.start_tracker, len(workers), workers=workers[0], pure=False
    ).result()
    futures = [
        client.submit(_joined, function, rank, address, *own, workers=[worker], pure=False)
        for rank, (worker, own) in enumerate(zip(workers, arguments, strict=True))
    ]
    return client.gather(futures)


def _joined(function: Callable[..., Any], rank: int, address: dict[str, Any], *own: Any) -> Any:
    with communicator(rank, address) as collective, reuse_memory():
        return function(collective, *own)


def sums(collective: Collective) -> list[tuple[int, float]]:
    """Seconds of a sum over the workers, by bytes."""
    arrays = [np.ones(size, np.float32) for size in (2, 50_000, 200_000, 800_000)]
    return [(array.nbytes, least(partial(collective.allreduce, array), 40)) for array in arrays]


def sweeps(collective: Collective, case: Case) -> float:
    """Seconds of a sweep of this worker's rows, without what is sent."""
    _, _, graph = case.data()
    rows = rows_of(case, collective.count)[collective.rank]
    sweep = sweep_on(BlockGraph(GraphRows.cut(graph, rows), rows, collective).adjacency.block)
    v = (
        np.ones(case.nodes, np.float32)
        if case.outputs == 1
        else np.ones((case.nodes, case.outputs), np.float32)
    )
    one = np.ones(case.nodes, np.float32)
    return least(lambda: sweep(v, one, one, v))


def tree(case: Case, share: int) -> float:
    """Seconds of a round of trees on a worker's rows, alone."""
    X, _, _ = case.data()
    X = X[: case.nodes // share]
    names = tuple(map(str, range(X.shape[1])))
    growing = XGBoost(DEPTH).start(
        Table(X, names, (), (0,)), n_outputs=case.outputs, seed=0, n_jobs=1, device="cpu"
    )
    gradient = X[:, :1] + np.random.default_rng(1).normal(size=(len(X), case.outputs))
    with reuse_memory():
        return least(lambda: growing.grow(gradient, np.ones((len(X), 1))), 8)


def rows_of(case: Case, count: int) -> list[Rows]:
    ends = np.linspace(0, case.nodes, count + 1).astype(int).tolist()
    return [Rows(((ends[i], ends[i + 1]),), case.nodes) for i in range(count)]


@dataclass
class Measured:
    """What one fit took."""

    seconds: float
    sent: float
    calls: float
    wire: float


def fitted(case: Case, workers: list[str], rounds: int) -> Measured:
    """Fit twice, with few rounds and with more: what one more round sends is the difference."""
    client = get_client()
    X, y, graph = case.data()
    parts = [
        client.scatter(X[slice(*rows.ranges[0])], workers=[worker], hash=False)
        for rows, worker in zip(rows_of(case, len(workers)), workers, strict=True)
    ]
    shape = (case.nodes // len(workers), case.columns)
    lazy = da.concatenate([da.from_delayed(part, shape, float) for part in map(_delayed, parts)])
    models, few = [], 2
    for count in (few, rounds):
        wire = on_the_wire()
        clock = Clock()
        model = case.estimator(count).fit(lazy, y, graph=graph, callbacks=[clock])
        models.append((model, on_the_wire() - wire))
    (small, _), (large, _) = models
    more = rounds - few
    sent, calls = (large.cluster_[name] - small.cluster_[name] for name in ("bytes", "calls"))
    seconds = float(np.diff(clock.seconds).min())
    return Measured(seconds, sent / more, calls / more, (models[1][1] - models[0][1]) / more)


def _delayed(future: Any) -> Any:
    import dask

    return dask.delayed(lambda part: part)(future)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cases", type=int, default=len(CASES), help="only the first so many")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / "cluster.md"
    )
    options = parser.parse_args()
    dask_cluster.MAX_REPLICATED_WEIGHTS = 0
    lines = []
    cluster = LocalCluster(2, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1")
    with cluster, Client(cluster) as client:
        workers = sorted(client.nthreads())
        wait(client.submit(time.sleep, 0))
        constants = {}
        for count in (1, 2):
            some = together(sums, workers[:count], [()] * count)[0]
            per_byte, per_call = np.polyfit(*np.array(some[1:]).T, 1)
            constants[count] = max(per_byte, 0.0), some[0][1]
            lines.append(f"| {count} | {1e6 * some[0][1]:.0f} | {1e9 * per_byte:.2f} |")
        table = []
        for case in CASES[: options.cases]:
            for count in (1, 2):
                measured = fitted(case, workers[:count], options.rounds)
                swept = max(together(sweeps, workers[:count], [(case,)] * count))
                grown = client.submit(tree, case, count, workers=[workers[0]], pure=False).result()
                per_byte, per_call = constants[count]
                iterations = max(
                    measured.sent / (4 * case.nodes) - case.sent(-2) / (4 * case.nodes) - 2, 0
                )
                iterations = round(iterations) if case.labels == "field" else 0
                sent = case.sent(iterations)
                n_sweeps = 2 * case.steps + iterations + (case.steps * 2 if case.outputs > 1 else 0)
                parts = [per_byte * sent + per_call * measured.calls, n_sweeps * swept, grown]
                wire = (2 * count - 1) * (sent + case.histograms())
                table.append((case, count, measured, sent, wire, parts))
                print(*table[-1], flush=True)
    options.out.write_text(page(lines, table))


def page(sums_table: list[str], table: list[Any]) -> str:
    """The tables that the docs include."""
    left = [
        (measured.seconds - sum(parts)) / (case.nodes * case.outputs)
        for case, count, measured, _, _, parts in table
        if count == 1 and case.labels == "none"
    ]
    per_node = float(np.median(left))
    text = ["| workers | µs a call | ns a byte |", "|---|---|---|", *sums_table, ""]
    text += [
        "| nodes | edges | outputs | columns | labels | workers "
        "| vectors, MB a round | modelled | on the wire, MB a round | modelled "
        "| ms a round | modelled | of it sums | sweeps | trees | the rest |",
        "|" + "---|" * 16,
    ]
    for case, count, measured, sent, wire, parts in table:
        parts = [*parts, per_node * case.nodes * case.outputs]
        n_edges = case.nodes * case.degree // 2
        size = f"{case.nodes:,} | {n_edges:,} | {case.outputs} | {case.columns} | {case.labels}"
        wires = f"{measured.wire / 1e6:.1f} | {wire / 1e6:.1f}" if count > 1 else "– | –"
        of = " | ".join(f"{1e3 * part:.0f}" for part in parts)
        text.append(
            f"| {size} | {count} | {measured.sent / 1e6:.2f} | {sent / 1e6:.2f} | {wires} "
            f"| {1e3 * measured.seconds:.0f} | {1e3 * sum(parts):.0f} | {of} |"
        )
    rest = (
        f"The rest is {1e9 * per_node:.0f} ns a node and output, the median of what one worker "
        "leaves without a field."
    )
    return "\n".join([*text, "", rest, ""])


if __name__ == "__main__":
    main()
