"""The measurement behind every tuned number: the error with each of them lower and higher.

    python -m benchmarks.defaults [--datasets county avazu house lucas] [--splits 0 1]

Models are fitted on the training labels, a part of which stops the training; the error is that of
the official validation nodes, relative to the default's. Test nodes are not looked at.
"""

import argparse
import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import ebboost as eb
from benchmarks.data import Data, load
from ebboost.training import defaults

RESULT = Path(__file__).parent / "results" / "defaults.md"
SIZES = ("CLASSES", "FEWEST_LABELS", "FEW_LABELS", "MANY_LABELS")
#: Numbers of the module: lower and higher.
NUMBERS: dict[str, tuple[Any, Any]] = {
    "MANY_LABELS_FROM": (1_000, 20_000),
    "MAX_BIN_WITH_GRAPH": (63, 255),
    "BIN_SAMPLE": (5_000, 200_000),
    "PROPAGATION": ((0.5, 2), (2.0, 2)),
    "PROPAGATION, steps": ((1.0, 1), (1.0, 4)),
    "FEATURE_SMOOTHING": ((10.0, 5), (40.0, 5)),
    "FEATURE_SMOOTHING, steps": ((20.0, 2), (20.0, 10)),
    "MIN_GAIN": (0.0, 0.02),
    "STANDARD_ERRORS": (0.0, 1.0),
    "GRAPH_STANDARD_ERRORS": (0.5, 2.0),
    "ENOUGH_HELD_OUT": (2_000, 8_000),
    "MAX_AVERAGED": (1, 8),
}
CLASS_NUMBERS: dict[str, tuple[Any, Any]] = {
    "CLASS_PROPAGATION": ((1.0, 5), (4.0, 5)),
    "CLASS_PROPAGATION, steps": ((2.0, 2), (2.0, 10)),
    "LOW_RANK": (64, 256),
}


def error(data: Data, split: dict[str, np.ndarray], seed: int) -> float:
    """Return RMSE, or the share of wrong classes, at the validation nodes of a default fit."""
    kind = eb.EBBSClassifier if data.classes else eb.EBBSRegressor
    model = kind(random_state=seed, n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data.X, data.y[split["train"]], graph=data.graph, nodes=split["train"])
    truth = data.y[split["val"]]
    predicted = model.predict(nodes=split["val"])
    if data.classes:
        return float(np.mean(truth != predicted))
    return float(np.sqrt(np.mean((truth - predicted) ** 2)))


@contextlib.contextmanager
def changed(name: str, value: Any) -> Iterator[None]:
    """Set a number of the module for a while."""
    before = getattr(defaults, name)
    setattr(defaults, name, value)
    try:
        yield
    finally:
        setattr(defaults, name, before)


def alternatives(classes: bool, size: str) -> dict[str, tuple[str, list[Any]]]:
    """Return the numbers to vary: shown name, name in the module, values."""
    table: dict[str, tuple[str, list[Any]]] = {
        name: (name.partition(",")[0], list(values))
        for name, values in (CLASS_NUMBERS if classes else NUMBERS).items()
    }
    base = getattr(defaults, size)
    for field in fields(base):
        value = getattr(base, field.name)
        if isinstance(value, int):
            values = [max(1, value // 2), 2 * value]
        else:
            values = [0.5 * value, min(2.0 * value, 1.0) if value <= 1.0 else 2.0 * value]
        values = [replace(base, **{field.name: new}) for new in values if new != value]
        table[f"{size}.{field.name}"] = (size, values)
    return table


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=["county", "avazu", "house", "lucas"])
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    lines = ["| data set | number | default | lower | higher |", "|---|---|---|---|---|"]
    for name in arguments.datasets:
        data = load(name)
        splits = [data.splits[s] for s in arguments.splits if s < len(data.splits)]

        def mean_error(data: Data = data, splits: list[Any] = splits) -> float:
            return float(np.mean([error(data, split, seed) for seed, split in enumerate(splits)]))

        n_train = len(splits[0]["train"])
        task = defaults.Task(data.classes, int(0.9 * n_train), sparse.issparse(data.X))
        size = defaults.for_size(task)
        size_name = next(key for key in SIZES if getattr(defaults, key) is size)
        reference = mean_error()
        lines.append(f"| {name} | default | {reference:.4g} | | |")
        for shown, (attribute, values) in alternatives(data.classes, size_name).items():
            cells = []
            for value in values:
                with changed(attribute, value):
                    cells.append(f"{100 * (mean_error() / reference - 1):+.1f} %")
            cells += [""] * (2 - len(cells))
            field = shown.partition(".")[2]
            current = getattr(defaults, attribute)
            current = getattr(current, field) if field else current
            lines.append(f"| {name} | {shown} | {current} | {cells[0]} | {cells[1]} |")
            print(lines[-1], flush=True)
    arguments.out.write_text(f"{__doc__}\n" + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
