"""Memory, messages, agreement and time of a fit that is divided among Dask workers.

    python benchmarks/cluster.py [--nodes 1000000] [--rounds 30] [--workers 1 2 4]
                                 [--large 0] [--out benchmarks/results/cluster.md]
    python benchmarks/cluster.py --kills
    python benchmarks/cluster.py --model [--nodes 1000000]

Nodes lie on a grid, row after row, each connected to five others nearby; table and edges are
Parquet files. Every fit runs in processes of its own, whose peaks of memory the system counts.
``--model`` fits the cost of each part of a round to small fits, and compares what follows from it
with larger ones by one and two workers. Each run replaces its own block of the page of results, and
of the table of fits only the rows of the same fits.

``--large`` is a second number of nodes, for the memory of the client. Others may use the machine:
the processor seconds of a process leave out what it waits. Each process trains with one thread.
"""

import argparse
import importlib
import inspect
import itertools
import json
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.optimize import nnls

import ebboost as eb
from ebboost.backends.dask.collectives import Collective, DaskCollective
from ebboost.backends.dask.sharding import Partition, shard_graph

COLUMNS = 20
FILES = 8
HEADER_OF_FITS = (
    "| nodes | processes | rounds | client, MB | a worker, MB | seconds | seconds a round "
    "| of a processor | halo, bytes a round | largest difference of 1,000 predictions |",
    "|" + "---|" * 10,
)


def width(n_nodes: int) -> int:
    """Nodes in a row of the grid."""
    return int(np.sqrt(n_nodes))


def write_data(folder: Path, n_nodes: int, n_edges: int = 5) -> None:
    """Write table and edges, so many for each node, a part of the rows at a time."""
    side = width(n_nodes)
    steps = (1, 2, side - 1, side, side + 1, 3, side - 2, side + 2, 2 * side, 2 * side + 1)
    steps = steps[:n_edges]
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
    """Bytes that workers send in a sweep over a planar grid in float32.

    Those of the nodes of the halo, those that the sockets took, and those of an allreduce.
    """
    from concurrent.futures import ThreadPoolExecutor

    from scipy import sparse

    side = width(n_nodes)
    n_nodes = side * side
    row = np.arange(n_nodes)
    right = row[row % side < side - 1]
    ends = [(right, right + 1), (row[:-side], row[side:])]
    cuts = np.linspace(0, n_nodes, n_workers + 1).astype(int).tolist()
    partition = Partition(tuple(((a, b),) for a, b in pairwise(cuts)))
    sources = np.concatenate([a for a, _ in ends] + [b for _, b in ends])
    targets = np.concatenate([b for _, b in ends] + [a for a, _ in ends])
    adjacency = sparse.csr_array((np.ones(sources.size), (sources, targets)), (n_nodes, n_nodes))
    workers = SocketPairs.connect(n_workers)
    scores = np.ones(n_nodes, dtype=np.float32)

    def sweep(own: SocketPairs) -> tuple[int, int]:
        graph = shard_graph(partition.select(own.rank, adjacency), partition, own)
        product = graph.adjacency
        vector = partition.select(own.rank, scores)
        product(vector)
        before = own.written
        product(vector)
        return graph.halo.size * scores.itemsize, own.written - before

    with ThreadPoolExecutor(n_workers) as pool:
        values, sent = np.sum(list(pool.map(sweep, workers)), axis=0).tolist()
    return values, sent, scores.nbytes * (2.0 - 1.0 / n_workers) * n_workers


class SocketPairs(DaskCollective):
    """Workers in threads of one process, with the messages of those of a cluster."""

    def __init__(self, rank: int, sockets: dict[int, Any]) -> None:
        Collective.__init__(self)
        self.rank = rank
        self.count = len(sockets) + 1
        #: Bytes that the sockets have taken.
        self.written = 0
        self.open({rank: CountedSocket(one, self) for rank, one in sockets.items()})

    @classmethod
    def connect(cls, count: int) -> "list[SocketPairs]":
        """Return workers that are connected with each other."""
        sockets: list[dict[int, Any]] = [{} for _ in range(count)]
        for one in range(count):
            for other in range(one):
                sockets[one][other], sockets[other][one] = socket.socketpair()
        return [cls(rank, own) for rank, own in enumerate(sockets)]

    def allgather_objects(self, value: Any) -> list[Any]:
        """Return the objects of all workers."""
        own = np.frombuffer(pickle.dumps(value), dtype=np.uint8)
        return [pickle.loads(part.tobytes()) for part in self.allgather(own)]


class CountedSocket:
    """A socket that counts what it sends."""

    def __init__(self, connection: socket.socket, owner: SocketPairs) -> None:
        self._connection = connection
        self._owner = owner

    def sendall(self, content: Any) -> None:
        """Send bytes."""
        self._owner.written += len(content)
        self._connection.sendall(content)

    def makefile(self, *arguments: Any) -> Any:
        """Return what bytes are read from."""
        return self._connection.makefile(*arguments)


#: Where a worker is killed: a function, and before which of its calls.
SHARDS = "ebboost.training.shards"
HALO = "ebboost.backends.dask.halo"
COLLECTIVES = "ebboost.backends.dask.collectives"
LEARNER = "ebboost.learners.xgboost"
PLACES = (
    (SHARDS, "read_shard", 1),
    (SHARDS, "read_relations", 1),
    ("ebboost.backends.dask.edges", "RowEntries.merge", 1),
    ("ebboost.backends.dask.edges", "shard_graph", 1),
    (HALO, "Halo.connect", 1),
    (SHARDS, "prepare_shard", 1),
    (SHARDS, "fingerprint_of_rows", 1),
    (SHARDS, "train_shard", 1),
    (LEARNER, "XGBoostGrower.__init__", 1),
    (LEARNER, "XGBoostGrower.grow", 1),
    (LEARNER, "XGBoostGrower.grow", 5),
    (LEARNER, "XGBoostGrower.state", 3),
    (HALO, "ShardSweep.conjugate_gradients", 2),
    (HALO, "ShardSweep.conjugate_gradients", 9),
    (HALO, "Halo.exchange", 40),
    (HALO, "Halo.exchange", 70),
    (COLLECTIVES, "DaskCollective.exchange", 120),
    (COLLECTIVES, "DaskCollective.allreduce", 60),
    ("ebboost.boosting.loop", "Boosting.state", 6),
    (SHARDS, "finish", 1),
)


def die_at(module: str, name: str, call: int) -> None:
    """Have this process killed before a call of a function."""
    owner: Any = importlib.import_module(module)
    *outer, name = name.split(".")
    for part in outer:
        owner = getattr(owner, part)
    function = getattr(owner, name)
    count = itertools.count(1)

    def counted(*arguments: Any, **options: Any) -> Any:
        if next(count) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)

    is_class_method = outer and isinstance(inspect.getattr_static(owner, name), classmethod)
    setattr(owner, name, staticmethod(counted) if is_class_method else counted)


def kills(folder: Path) -> str:
    """Kill a worker at each place, resume, and compare with a fit without a kill."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    columns = [f"x{i}" for i in range(COLUMNS)]
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "host": "127.0.0.1"}
    nodes = dd.read_parquet(folder / "nodes")

    def fit(n_workers: int, **arguments: Any) -> Any:
        graph = eb.ParquetGraph(folder / "edges")
        X = nodes.repartition(npartitions=n_workers)
        model = estimator(8, "field")
        model.fit(X[columns], X["y"], graph=graph, **arguments)
        return model.predict().compute()

    n_named = 0
    differences = []
    expected = None
    for number, place in enumerate(PLACES):
        with LocalCluster(n_workers=3, **options) as cluster, Client(cluster) as client:
            expected = fit(3) if expected is None else expected
            workers = sorted(client.scheduler_info()["workers"])
            # The first worker writes the checkpoints.
            address = workers[0 if "state" in place[1] else number % 3]
            client.run(die_at, *place, workers=[address])
            checkpoint = eb.Checkpoint(folder / f"checkpoint {number}", every=1)
            try:
                fit(3, checkpoint=checkpoint)
                message = "was not killed"
            except RuntimeError as error:
                message = str(error)
            n_named += address in message
            n_workers = 3 - number % 2
            client.wait_for_workers(n_workers, timeout=120)
            resumed = fit(n_workers, checkpoint=checkpoint, resume=True)
            differences.append(float(np.abs(resumed - expected).max()))
        print(number + 1, place, message[:60], f"{differences[-1]:.1e}", flush=True)
    return (
        f"A worker was killed at each of {len(PLACES)} places (`--kills`): the error named it "
        f"{n_named} times, and the fit was resumed, by turns with as many workers and with one "
        f"less, to within {max(differences):.0e} of the predictions of a fit without a kill."
    )


#: The parts of a round, and the functions that they are the time of, without that of other parts.
PARTS = {
    "trees": ("ebboost.learners.xgboost", "XGBoostGrower.grow"),
    "propagation": ("ebboost.backends.dask.halo", "ShardSteps.__call__"),
    "field": ("ebboost.backends.dask.halo", "ShardSweep.conjugate_gradients"),
    "messages": ("ebboost.backends.dask.collectives", "DaskCollective.exchange"),
    "rest": ("ebboost.boosting.loop", "Boosting.__next__"),
}


class PartTimer:
    """Processor seconds of the parts of each round in this process, and how often each ran.

    That of a part with sweeps is the number of sweeps.
    """

    newest: "PartTimer"

    def __init__(self) -> None:
        self.rounds: list[dict[str, tuple[float, int]]] = []
        self._running: list[str] = []
        self._since = 0.0
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._counts = dict.fromkeys(PARTS, 0)
        for part, (module, name) in PARTS.items():
            self._replace(module, name, part)
        self._replace(*PARTS["propagation"][:1], "HaloVectors.receive", None)
        PartTimer.newest = self

    def _replace(self, module: str, name: str, part: str | None) -> None:
        owner_name, method = name.split(".")
        owner = getattr(importlib.import_module(module), owner_name)
        function = getattr(owner, method)

        def timed(*arguments: Any, **options: Any) -> Any:
            return self._run(part, function, *arguments, **options)

        setattr(owner, method, timed)

    def _run(self, part: str | None, function: Any, *arguments: Any, **options: Any) -> Any:
        if not self._running and part != "rest":  # not in a round
            return function(*arguments, **options)
        if part is None:
            self._counts[self._running[-1]] += 1
            return function(*arguments, **options)
        self._switch()
        self._running.append(part)
        self._counts[part] += part not in ("propagation", "field")
        try:
            return function(*arguments, **options)
        finally:
            self._switch()
            self._running.pop()
            if not self._running:
                each = {one: (self._seconds[one], self._counts[one]) for one in PARTS}
                self.rounds.append(each)
                self._seconds = dict.fromkeys(PARTS, 0.0)
                self._counts = dict.fromkeys(PARTS, 0)

    def _switch(self) -> None:
        now = time.thread_time()
        if self._running:
            self._seconds[self._running[-1]] += now - self._since
        self._since = now


def part_costs(folder: Path, n_workers: int, rounds: int) -> dict[str, Any]:
    """Median processor seconds of the parts of a round with a field, and how often each ran."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": ":0", "host": "127.0.0.1"}
    with (
        LocalCluster(n_workers=n_workers, memory_limit=0, **options) as cluster,
        Client(cluster) as client,
    ):
        client.run(start_timer)
        nodes = dd.read_parquet(folder / "nodes")
        columns = [f"x{i}" for i in range(COLUMNS)]
        graph = eb.ParquetGraph(folder / "edges")
        estimator(rounds, "field").fit(nodes[columns], nodes["y"], graph=graph)
        of_all = client.run(timed_rounds).values()
        # Not the first round, which prepares, and not the end of the last.
        each = [one for own in of_all for one in own[1:rounds]]
        return {part: np.median([one[part] for one in each], axis=0).tolist() for part in PARTS}


def start_timer() -> None:
    """Have this process count the costs of parts."""
    PartTimer()


def timed_rounds() -> Any:
    """The costs that this process has counted."""
    return PartTimer.newest.rounds


Case = tuple[int, int, int]  # nodes, edges of each, workers
Measured = Mapping[Case, Mapping[str, Sequence[float]]]


def measure_parts(n_nodes: int, rounds: int) -> Measured:
    """Costs of the parts of fits of some sizes, by one and two workers."""
    measured: dict[Case, dict[str, Sequence[float]]] = {}
    sizes = (n_nodes // 4, n_nodes // 2, n_nodes)
    with tempfile.TemporaryDirectory() as name:
        for size, n_edges in itertools.product(sizes, (5, 10)):
            folder = Path(name) / f"{size}-{n_edges}"
            write_data(folder, size, n_edges)
            for n_workers in (1, 2):
                result = run(folder, n_workers, rounds, "field", "timed")
                measured[size, n_edges, n_workers] = result
    return measured


def terms(part: str, nodes: float, n_edges: int) -> list[float]:
    """What the cost of a part is a sum of: a fixed one, and those of nodes and of edges."""
    own = nodes / 1e6
    return [1.0, own, own * n_edges] if part in ("propagation", "field") else [1.0, own]


def fit_costs(measured: Measured, n_nodes: int) -> dict[str, Any]:
    """Seconds of each term, from the fits of fewer nodes.

    Those of a message are of fits by two workers, others by one. By least squares of relative
    errors, and none is negative.
    """
    costs = {}
    for part in PARTS:
        n_workers = 2 if part == "messages" else 1
        cases = [one for one in measured if one[0] < n_nodes and one[2] == n_workers]
        each = [measured[one][part][0] / max(measured[one][part][1], 1) for one in cases]
        rows = [terms(part, one[0] / n_workers, one[1]) for one in cases]
        costs[part] = nnls(np.array(rows) / np.array(each)[:, None], np.ones(len(each)))[0]
    return costs


def cost_model(measured: Measured, n_nodes: int) -> str:
    """Costs of the parts of a round, and what they predict for larger fits, as measured."""
    costs = fit_costs(measured, n_nodes)
    lines = [
        f"Processor milliseconds of the parts of a round with a field, by the costs of fits of "
        f"{n_nodes // 4:,} and {n_nodes // 2:,} nodes, and as measured:",
        "",
        "| nodes a worker | edges a node | workers | part | predicted, ms | measured, ms | ratio |",
        "|" + "---|" * 7,
    ]
    for (size, n_edges, n_workers), found in measured.items():
        for part, (seconds, count) in found.items():
            if size < n_nodes or (part == "messages" and n_workers == 1):
                continue
            own = size // n_workers
            predicted = max(count, 1) * float(np.dot(terms(part, own, n_edges), costs[part]))
            cells = [f"{own:,}", f"{n_edges}", f"{n_workers}", part]
            cells += [f"{1e3 * value:.1f}" for value in (predicted, seconds)]
            lines.append("| " + " | ".join([*cells, f"{seconds / predicted:.2f}"]) + " |")
    found = measured[n_nodes, 10, 2]
    counts = {part: max(count, 1) for part, (_, count) in found.items()}
    return "\n".join([*lines, "", sentence_of(costs), "", on_paper(costs, counts)])


def sentence_of(costs: Mapping[str, Any]) -> str:
    """The costs in words."""
    each = {part: [1e3 * value for value in one] for part, one in costs.items()}  # ns a node
    sweeps = {
        part: [each[part][1] + n_edges * each[part][2] for n_edges in (5, 10)]
        for part in ("propagation", "field")
    }
    return (
        f"Trees take {each['trees'][1]:.0f} ns per node and round, a sweep of propagation "
        f"{sweeps['propagation'][0]:.1f} ns with 5 and {sweeps['propagation'][1]:.1f} ns with 10 "
        f"edges per node, an iteration of the field {sweeps['field'][0]:.1f} and "
        f"{sweeps['field'][1]:.1f} ns, other vectors {each['rest'][1]:.0f} ns. A message or a sum "
        f"takes {1e3 * each['messages'][0]:.0f} µs, and {each['messages'][1]:.2f} ns per node of "
        "the worker, whose vectors are read and written in between."
    )


def on_paper(costs: Mapping[str, Any], counts: Mapping[str, float]) -> str:
    """Seconds of a round of 10⁹ nodes with 10 edges each on 64 workers, from the costs of parts."""
    n_nodes = 1e9 / 64
    seconds = {
        part: counts[part] * float(np.dot(terms(part, n_nodes, 10), costs[part])) for part in PARTS
    }
    # Sums are sent to every other worker, one after the other: the first finds the cache cold.
    seconds["messages"] += 62 * counts["messages"] * float(costs["messages"][0])
    text = ", ".join(f"{part} {value:.2f} s" for part, value in seconds.items())
    total = sum(seconds.values())
    without = total - seconds["field"]
    return (
        f"10⁹ nodes, 10¹⁰ edges, 64 workers of one thread: {text}; together {total:.2f} s of a "
        f"processor a round, {without:.2f} s without a field."
    )


def replace_block(page: str, name: str, text: str) -> str:
    """The page with another text after the comment that names a block, others as they are."""
    head, *parts = re.split(r"^<!-- (\w+) -->\n", page, flags=re.MULTILINE)
    blocks = dict(zip(parts[::2], parts[1::2], strict=True)) | {name: f"\n{text.strip()}\n\n"}
    written = "".join(f"<!-- {one} -->\n{content}" for one, content in blocks.items())
    return (head + written).rstrip() + "\n"


def block_of(page: str, name: str) -> str:
    """The text of a block, empty if there is none."""
    found = re.search(rf"^<!-- {name} -->\n(.*?)(?=^<!-- |\Z)", page, re.DOTALL | re.MULTILINE)
    return found[1].strip() if found else ""


def merge_rows(table: str, rows: Sequence[str]) -> str:
    """The table of fits with the rows of others that have the same nodes, processes and rounds."""
    by_fit = {}
    for row in [*table.splitlines()[2:], *rows]:
        nodes, processes, rounds, *_ = row.strip("|").split("|")
        fit = (int(nodes.replace(",", "")), int(rounds), processes.strip())
        by_fit[fit] = row
    order = sorted(by_fit, key=lambda fit: (fit[0], fit[1], fit[2] != "one process", fit[2]))
    return "\n".join([*HEADER_OF_FITS, *(by_fit[fit] for fit in order)])


def write_block(path: Path, name: str, text: str) -> None:
    """Write one block of the page of results, and show it."""
    page = path.read_text() if path.exists() else ""
    path.write_text(replace_block(page, name, text))
    print(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--only-workers", action="store_true", help="no fit in one process")
    parser.add_argument("--large", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--edges", type=int, default=5, help="edges of a node, up to 10")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--labels", default="none")
    parser.add_argument("--kills", action="store_true", help="kill a worker at each of 20 places")
    parser.add_argument("--model", action="store_true", help="costs of the parts of a round")
    parser.add_argument("--one", help="one fit, for processes of its own")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / "cluster.md"
    )
    options = parser.parse_args()
    if options.one:
        folder, n_workers, rounds, labels, *timed = json.loads(options.one)
        if timed:
            result = part_costs(Path(folder), int(n_workers), int(rounds))
        elif int(n_workers):
            result = fit_on_workers(Path(folder), int(n_workers), int(rounds), labels)
        else:
            result = fit_alone(Path(folder), int(rounds), labels)
        print(json.dumps(result))
        return
    if options.kills:
        with tempfile.TemporaryDirectory() as name:
            write_data(Path(name) / "few", 20_000)
            write_block(options.out, "kills", kills(Path(name) / "few"))
        return
    if options.model:
        measured = measure_parts(options.nodes, options.rounds)
        write_block(options.out, "model", cost_model(measured, options.nodes))
        return
    rows = []
    with tempfile.TemporaryDirectory() as name:
        sizes = {options.nodes: [0, *options.workers]}
        if options.large:
            sizes[options.large] = [max(options.workers)]
        if options.only_workers:
            sizes[options.nodes] = options.workers
        for n_nodes, counts in sizes.items():
            folder = Path(name) / str(n_nodes)
            write_data(folder, n_nodes, options.edges)
            alone = None
            for count in counts:
                result = run(folder, count, options.rounds, options.labels)
                alone = result if not count else alone
                rows.append(table_row(n_nodes, count, result, alone, options.rounds))
    page = options.out.read_text() if options.out.exists() else ""
    write_block(options.out, "fits", merge_rows(block_of(page, "fits"), rows))
    write_block(options.out, "halo", page_of_halo())


def table_row(
    n_nodes: int, count: int, result: dict[str, Any], alone: dict[str, Any] | None, rounds: int
) -> str:
    """A row of the table."""
    cells = [f"{n_nodes:,}", f"{count} workers" if count else "one process", f"{rounds}"]
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
        "Counted at the sockets, a sweep over a planar grid of 1,000,000 nodes on 4 workers sends "
        f"{sent:,.0f} bytes, {sent / values:.3f} of those of the halo and "
        f"{sent / reduced:.4f} of those of an allreduce.\n"
    )


if __name__ == "__main__":
    main()
