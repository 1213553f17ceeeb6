"""Peak memory of building a graph, fitting and predicting from Parquet files.

    python benchmarks/on_disk.py [--nodes 1000000] [--edges 5000000] [--columns 50] [--rounds 20]
        [--neighbors]

The files are written first, by another process. Memory is the growth of the resident set: mapped
files included, whose pages the system drops when it needs them, and without these. ``--neighbors``
adds the mean, least and greatest value of every column among neighbours.
"""

import argparse
import multiprocessing
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ebboost as eb

ROWS = 50_000


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (
        ("nodes", 1_000_000),
        ("edges", 5_000_000),
        ("columns", 50),
        ("rounds", 20),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--neighbors", action="store_true")
    return parser.parse_args()


def write(folder: Path, size: argparse.Namespace) -> None:
    rng = np.random.default_rng(0)

    def parts(count: int, columns: dict[str, object]) -> object:
        for first in range(0, count, ROWS):
            rows = min(ROWS, count - first)
            yield pa.table({name: make(rows) for name, make in columns.items()})

    numbers = {
        f"x{i}": lambda rows: rng.normal(size=rows).astype(np.float32) for i in range(size.columns)
    }
    ends = dict.fromkeys(("source", "target"), lambda rows: rng.integers(0, size.nodes, rows))
    for name, count, columns in (("table", size.nodes, numbers), ("edges", size.edges, ends)):
        writer = None
        for part in parts(count, columns):
            writer = writer or pq.ParquetWriter(folder / f"{name}.parquet", part.schema)
            writer.write_table(part)
        writer.close()


def resident(kind: str) -> float:
    """VmRSS or RssAnon now, or VmHWM at its highest, in MiB."""
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith(kind)).split()[1]) / 1024


class Peak(threading.Thread):
    """Watches the memory without mapped files."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.before = resident("RssAnon")
        self.most = self.before

    def run(self) -> None:
        """Look a hundred times a second."""
        while True:
            self.most = max(self.most, resident("RssAnon"))
            time.sleep(0.01)


def main() -> None:
    size = parsed()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        writer = multiprocessing.get_context("spawn").Process(target=write, args=(folder, size))
        writer.start()
        writer.join()
        before = resident("VmRSS")
        peak = Peak()
        peak.start()
        X = eb.ParquetTable(folder / "table.parquet")
        decoded = 8 * X.shape[0] * X.shape[1] / 2**20
        print(
            f"table {X.shape[0]:,} x {X.shape[1]}, {decoded:,.0f} MiB of float64; "
            f"{size.edges:,} edges"
        )
        print(f"{'peak, growth since the start':28}{'MiB':>10}{'unmapped':>10}{'seconds':>10}")

        def report_memory(what: str, since: float) -> float:
            memory = f"{resident('VmHWM') - before:10,.0f}{peak.most - peak.before:10,.0f}"
            print(f"{what:28}{memory}{time.process_time() - since:10.1f}", flush=True)
            return time.process_time()

        start = time.process_time()
        graph = eb.Graph.from_parquet(
            folder / "edges.parquet", n_nodes=size.nodes, directory=folder / "graph"
        )
        start = report_memory("Graph.from_parquet", start)
        y = np.random.default_rng(1).normal(size=size.nodes)
        settings = {
            "smoothing": eb.Laplacian(2.0, 5),
            "labels": "none",
            "early_stopping": False,
            "neighbor_features": eb.NeighborFeatures() if size.neighbors else None,
            "feature_smoothing": None,
            "random_state": 0,
        }
        model = eb.EBBSRegressor(size.rounds, n_jobs=1, **settings).fit(X, y, graph=graph)
        start = report_memory("fit", start)
        model.predict(X, graph=graph)
        report_memory("predict", start)


if __name__ == "__main__":
    main()
