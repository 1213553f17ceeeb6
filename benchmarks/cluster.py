"""Memory, messages, agreement and time of a fit that is divided among Dask workers.

    python benchmarks/cluster.py [--nodes 1000000] [--rounds 30] [--workers 1 2 4]
                                 [--large 0] [--out benchmarks/results/cluster.md]
    python benchmarks/cluster.py --kills 20

Nodes lie on a grid, row after row, each connected to five others nearby; table and edges are
Parquet files. Every fit runs in processes of its own, whose peaks of memory the system counts.
``--large`` is a second number of nodes, for the memory of the client. Others may use the machine:
the processor seconds of a process leave out what it waits. Each process trains with one thread.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ebboost as eb
from ebboost.backends.dask.collectives import HEADER

COLUMNS = 20
FILES = 8


def width(n_nodes: int) -> int:
    """Nodes in a row of the grid."""
    return int(np.sqrt(n_nodes))


def write_data(folder: Path, n_nodes: int) -> None:
    """Write table and edges, a part of the rows at a time."""
    steps = (1, 2, width(n_nodes) - 1, width(n_nodes), width(n_nodes) + 1)
    for name in ("nodes", "edges"):
        (folder / name).mkdir(parents=True)
    ends = np.linspace(0, n_nodes, FILES + 1).astype(int)
    for part, (start, stop) in enumerate(pairwise(ends)):
        random = np.random.default_rng(part)
        # Few values, so that workers find the bins of one process.
        X = random.integers(0, 100, (stop - start, COLUMNS)).astype(np.float32)
        row = np.arange(start, stop)
        y = X[:, 0] / 100 + np.sin(row / 5000.0) + 0.3 * random.normal(size=row.size)
        y[random.random(row.size) < 0.5] = np.nan
        table = {f"x{i}": X[:, i] for i in range(COLUMNS)} | {"y": y}
        pq.write_table(pa.table(table), folder / "nodes" / f"part.{part}.parquet")
        source = np.repeat(row, len(steps))
        target = source + np.tile(steps, row.size)
        inside = target < n_nodes
        edges = pa.table({"source": source[inside], "target": target[inside]})
        pq.write_table(edges, folder / "edges" / f"part.{part}.parquet", row_group_size=1 << 20)


def estimator(rounds: int, labels: str) -> Any:
    """The model of all fits."""
    parts = {"smoothing": eb.Laplacian(1.0, 2), "labels": labels, "early_stopping": False}
    return eb.EBBSRegressor(rounds, 0.1, learner=eb.XGBoost(6), random_state=0, n_jobs=1, **parts)


def memory(line: str) -> float:
    """A number of MB from the status of this process: VmHWM, the peak, or VmRSS, now."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{line}:")[1].split()[0]) / 1024


def fit_on_workers(folder: Path, n_workers: int, rounds: int, labels: str) -> dict[str, Any]:
    """Fit with the rows and edges on workers."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": ":0", "host": "127.0.0.1"}
    with (
        LocalCluster(n_workers=n_workers, memory_limit=0, **options) as cluster,
        Client(cluster) as client,
    ):
        client.run(lambda: __import__("ebboost.training.shards"))
        nodes = dd.read_parquet(folder / "nodes")
        own = memory("VmRSS")
        at_start = client.run(memory, "VmRSS")
        start = time.perf_counter()
        columns = [f"x{i}" for i in range(COLUMNS)]
        graph = eb.ParquetGraph(folder / "edges")
        clock = Clock()
        model = estimator(rounds, labels)
        model.fit(nodes[columns], nodes["y"], graph=graph, callbacks=[clock])
        seconds = time.perf_counter() - start
        peaks = client.run(memory, "VmHWM")
        result = {"client": memory("VmHWM") - own, "seconds": seconds} | clock.medians
        result["worker"] = max(peaks[one] - at_start[one] for one in peaks)
        result["cluster"] = model.cluster_
        predictions = model.predict()
        sample = predictions[:: 1 + len(predictions) // 1000].compute()
        return result | {"sample": sample.tolist()}


def fit_alone(folder: Path, rounds: int, labels: str) -> dict[str, Any]:
    """Fit in one process."""
    import pandas as pd

    own = memory("VmRSS")
    start = time.perf_counter()
    frame = pd.read_parquet(folder / "nodes")
    graph = eb.Graph.from_parquet(folder / "edges", n_nodes=len(frame))
    clock = Clock()
    y = frame.pop("y")
    model = estimator(rounds, labels).fit(frame, y, graph=graph, callbacks=[clock])
    seconds = time.perf_counter() - start
    sample = model.predict()[:: 1 + len(frame) // 1000]
    result = {"client": memory("VmHWM") - own, "seconds": seconds} | clock.medians
    return result | {"sample": sample.tolist()}


class Clock(eb.Callback):
    """Notes when rounds end."""

    def __init__(self) -> None:
        self.times: list[tuple[float, float]] = []

    def after_round(self, progress: eb.RoundInfo) -> None:
        """Note the time, and that of the processor in this process."""
        self.times.append((time.perf_counter(), time.process_time()))

    @property
    def medians(self) -> dict[str, float]:
        """Median seconds of a round, and those of the processor."""
        elapsed, used = np.median(np.diff(self.times, axis=0), axis=0).tolist()
        return {"round": elapsed, "processor": used}


def run(*arguments: Any) -> dict[str, Any]:
    """Run one fit in a process of its own."""
    command = [sys.executable, __file__, "--one", json.dumps([str(part) for part in arguments])]
    output = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in output.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise RuntimeError(output.stderr[-3000:])
    result: dict[str, Any] = json.loads(lines[-1])
    print(arguments[1:], {key: value for key, value in result.items() if key != "sample"})
    return result


def halo_share(n_nodes: int, n_workers: int) -> tuple[float, float, float]:
    """Bytes of a sweep in float32: of the halo, with headers, and of an allreduce."""
    side = width(n_nodes)
    # Each cut of a planar grid, with an edge to the right, below and below to the right.
    values = 2 * (n_workers - 1) * (side + 1) * 4.0
    messages = 2 * (n_workers - 1) * HEADER.size
    return values, values + messages, 4.0 * n_nodes * (2.0 - 1.0 / n_workers) * n_workers


def kills(folder: Path, count: int) -> tuple[int, int]:
    """Kill a worker at some round of each of ``count`` fits; return how many failed by its name.

    Also returns how many were resumed to the predictions of a fit without a kill, in turns by as
    many workers and by one fewer.
    """
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    columns = [f"x{i}" for i in range(COLUMNS)]
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "host": "127.0.0.1"}
    nodes = dd.read_parquet(folder / "nodes")

    def fit(n_workers: int = 3, **arguments: Any) -> Any:
        graph = eb.ParquetGraph(folder / "edges")
        X = nodes.repartition(npartitions=n_workers)
        model = estimator(count, "field")
        model.fit(X[columns], X["y"], graph=graph, **arguments)
        return model.predict().compute()

    expected = None
    n_named = 0
    n_resumed = 0
    for number in range(count):
        with LocalCluster(n_workers=3, **options) as cluster, Client(cluster) as client:
            expected = fit() if expected is None else expected
            address, process = sorted(client.run(os.getpid).items())[number % 3]
            checkpoint = eb.Checkpoint(folder / f"checkpoint {number}", every=1)
            try:
                fit(checkpoint=checkpoint, callbacks=[Killer(number, process)])
            except RuntimeError as error:
                n_named += address in str(error)
            n_workers = 3 - number % 2
            client.wait_for_workers(n_workers, timeout=120)
            resumed = fit(n_workers, checkpoint=checkpoint, resume=True)
            n_resumed += bool(np.abs(resumed - expected).max() < 1e-4)
        print(number + 1, "killed,", n_named, "named,", n_resumed, "resumed", flush=True)
    return n_named, n_resumed


class Killer(eb.Callback):
    """Kills a process of this machine after a round."""

    def __init__(self, last: int, process: int) -> None:
        self.last = last
        self.process = process

    def after_round(self, progress: eb.RoundInfo) -> None:
        """Kill it."""
        if progress.round == self.last:
            os.kill(self.process, signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--labels", default="none")
    parser.add_argument("--kills", type=int, default=0, help="fits in which a worker is killed")
    parser.add_argument("--one", help="one fit, for processes of its own")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / "cluster.md"
    )
    options = parser.parse_args()
    if options.one:
        folder, n_workers, rounds, labels = json.loads(options.one)
        if int(n_workers):
            result = fit_on_workers(Path(folder), int(n_workers), int(rounds), labels)
        else:
            result = fit_alone(Path(folder), int(rounds), labels)
        print(json.dumps(result))
        return
    if options.kills:
        with tempfile.TemporaryDirectory() as name:
            write_data(Path(name) / "few", 20_000)
            print(*kills(Path(name) / "few", options.kills), "named and resumed")
        return
    lines = [
        "| nodes | processes | client, MB | a worker, MB | seconds | seconds a round "
        "| of a processor | halo, bytes a round | largest difference of 1,000 predictions |",
        "|" + "---|" * 9,
    ]
    with tempfile.TemporaryDirectory() as name:
        sizes = {options.nodes: [0, *options.workers]}
        if options.large:
            sizes[options.large] = [max(options.workers)]
        for n_nodes, counts in sizes.items():
            folder = Path(name) / str(n_nodes)
            write_data(folder, n_nodes)
            alone = None
            for count in counts:
                result = run(folder, count, options.rounds, options.labels)
                alone = result if not count else alone
                lines.append(table_row(n_nodes, count, result, alone, options.rounds))
    options.out.write_text("\n".join(lines) + "\n\n" + page_of_halo())


def table_row(
    n_nodes: int, count: int, result: dict[str, Any], alone: dict[str, Any] | None, rounds: int
) -> str:
    """A row of the table."""
    cells = [f"{n_nodes:,}", f"{count} workers" if count else "one process"]
    cells += [f"{result['client']:.0f}", f"{result['worker']:.0f}" if count else "–"]
    cells += [f"{result['seconds']:.1f}", f"{result['round']:.2f}", f"{result['processor']:.2f}"]
    cells.append(f"{result['cluster']['halo_bytes'] / rounds:,.0f}" if count else "–")
    difference = "–"
    if count and alone is not None:
        gaps = np.abs(np.subtract(result["sample"], alone["sample"]))
        difference = f"{gaps.max():.1e}"
    return "| " + " | ".join([*cells, difference]) + " |"


def page_of_halo() -> str:
    """A sentence on the bytes of a sweep."""
    values, sent, reduced = halo_share(1_000_000, 4)
    return (
        "Counted from the nodes at its cuts, a sweep over a planar grid of 1,000,000 nodes on 4 "
        f"workers sends {sent:,.0f} bytes, {sent / values:.3f} of those of the halo and "
        f"{sent / reduced:.4f} of those of an allreduce.\n"
    )


if __name__ == "__main__":
    main()
