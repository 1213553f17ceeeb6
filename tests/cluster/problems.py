"""Tables of nodes and edges in parts, and the same on one machine."""

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import ebboost as eb
import ebboost.cluster as cluster


@dataclass
class Problem:
    frame: pd.DataFrame  # features, and y with NaN where unknown
    edges: pd.DataFrame
    graph: eb.Graph

    @property
    def X(self):
        return self.frame.drop(columns=["y", "id", "w", "t"], errors="ignore")

    def write(self, folder: Path, parts: int = 3, **options: Any) -> cluster.Prepared:
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in (("nodes", self.frame), ("edges", self.edges)):
            path = folder / f"{name}.parquet"
            table.to_parquet(path, row_group_size=-(-len(table) // parts), index=False)
        return cluster.prepare(folder / "nodes.parquet", folder / "edges.parquet", **options)


def grid(n_nodes: int, seed: int = 0, labelled: float = 0.5) -> Problem:
    """A grid with a smooth field."""
    random = np.random.default_rng(seed)
    side = int(np.sqrt(n_nodes))
    n = side * side
    row, column = np.divmod(np.arange(n), side)
    X = random.integers(0, 100, (n, 4)).astype(float)
    X[:, 1] = random.uniform(0, 100, n)  # of more values than bins
    y = X[:, 0] / 50 + 1.5 * np.sin(row / 9) * np.cos(column / 7) + X[:, 1] * X[:, 2] / 5000
    y += 0.4 * random.normal(size=n)
    y[random.random(n) >= labelled] = np.nan
    source = np.concatenate([np.flatnonzero(column < side - 1), np.flatnonzero(row < side - 1)])
    step = np.repeat([1, side], [source.size // 2, source.size - source.size // 2])
    edges = pd.DataFrame({"source": source, "target": source + step})
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y)
    return Problem(frame, edges, eb.Graph.from_edges(source, source + step, n_nodes=n))


def fast(kind: Any = eb.EBBSRegressor, **changes: Any) -> Any:
    settings = {"learner": "xgboost", "random_state": 0, "n_jobs": 1, **changes}
    return kind.from_preset("fast", **settings)


@contextmanager
def dask_client(n_workers: int):
    from distributed import Client

    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    options |= {"silence_logs": logging.CRITICAL}
    with Client(n_workers=n_workers, **options) as client:
        yield client


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Largest difference in standard deviations."""
    return float(np.abs(one - other).max() / other.std())
