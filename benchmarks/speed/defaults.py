"""Time of the default fit, with model selection, over LightGBM's early-stopped fit."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import lightgbm
import numpy as np
from scipy import sparse

import ebboost as eb
from benchmarks.data import Data, load

Split = dict[str, np.ndarray]


def default_over_plain(names: Sequence[str], threads: int) -> None:
    """Print a line for each data set: the mean of three splits."""
    print(
        f"{'first three splits':28}{'plain':>9}{'default':>9}{'ratio':>8}   "
        f"seconds, {threads} threads"
    )
    for name in names:
        data = load(name)
        repeats = 1 if data.classes or name == "wiki" else 3
        plain, default = (
            np.mean([_least(fit, data, split, threads, repeats) for split in data.splits[:3]])
            for fit in (plain_fit, default_fit)
        )
        print(f"{name:28}{plain:9.2f}{default:9.2f}{default / plain:8.1f}", flush=True)


def plain_fit(data: Data, split: Split, threads: int) -> None:
    """LightGBM's own early-stopped fit without the graph."""
    X = sparse.csr_matrix(data.X) if sparse.issparse(data.X) else data.X
    rows = {
        part: X.iloc[nodes] if hasattr(X, "iloc") else X[nodes] for part, nodes in split.items()
    }
    settings: dict[str, Any] = {"objective": "regression", "num_threads": threads, "verbose": -1}
    if data.classes:
        settings |= {"objective": "multiclass", "num_class": int(data.y.max()) + 1}
    train = lightgbm.Dataset(rows["train"], data.y[split["train"]])
    held = lightgbm.Dataset(rows["val"], data.y[split["val"]], reference=train)
    stop = [lightgbm.early_stopping(20 if data.classes else 50, verbose=False)]
    lightgbm.train(settings, train, 2000, [held], callbacks=stop)


def default_fit(data: Data, split: Split, threads: int) -> None:
    """Everything left to itself."""
    kind = eb.EBBSClassifier if data.classes else eb.EBBSRegressor
    held = (split["val"], data.y[split["val"]])
    model = kind(random_state=0, n_jobs=threads)
    model.fit(data.X, data.y[split["train"]], nodes=split["train"], graph=data.graph, eval_set=held)


def _least(
    fit: Callable[[Data, Split, int], None], data: Data, split: Split, threads: int, repeats: int
) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        fit(data, split, threads)
        times.append(time.perf_counter() - start)
    return min(times)
