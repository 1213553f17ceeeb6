"""Coverage and interval score of 90 % intervals: ``python -m benchmarks.intervals``.

Labels of train and validation rows are known, and the test rows are predicted; Lucas is fitted with
``time``, for its test rows are later sales. Beside them are intervals of one width: the 90 %
quantile of the sizes of the same model's residuals at labels that it was not trained on. The score
is the mean of the width and 20 times the distance of labels outside; smaller is better.
"""

import argparse
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import database
from benchmarks.tasks import TASKS, Array, Task, fit_and_predict

DATA = ("lucas", "county", "elect80", "kchouse", "house", "modis")
LEVEL = 0.9


def task_of(data: str, split: int) -> Task:
    """Return a task whose validation rows are labels like any others."""
    task = TASKS[data][1](split, "test")
    known = task.known
    if task.eval_set is not None:
        known = np.concatenate([known, task.eval_set])
    arguments = {"time": "sdate"} if data == "lucas" else task.arguments
    return replace(task, known=known, eval_set=None, arguments=arguments)


def scored(lower: Array, upper: Array, y: Array) -> tuple[float, float]:
    """Return coverage and interval score."""
    outside = np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
    score = upper - lower + 2.0 / (1.0 - LEVEL) * outside
    return float(np.mean(outside == 0)), float(np.mean(score))


def measure(data: str, split: int) -> dict:
    """Return the row of a split, without version and machine."""
    task = task_of(data, split)
    (model, predictions), seconds = database.timed(lambda: fit_and_predict(task))
    found = model.predict(nodes=task.test, interval=LEVEL)
    y = task.y[task.test]
    coverage, score = scored(found.lower, found.upper, y)
    unseen = model.model_.unseen
    half = float(np.quantile(np.abs(unseen.target[:, 0] - unseen.raw[:, 0]), LEVEL))
    constant = scored(predictions - half, predictions + half, y)
    row = {"experiment": "intervals", "data": data, "split": split, "method": "ebboost"}
    row |= {"error": score, "metric": "interval score", "coverage": coverage}
    return row | {"constant_coverage": constant[0], "constant_error": constant[1], **seconds}


def main(arguments: list[str] | None = None) -> None:
    """Measure what the database lacks."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA, metavar="NAME")
    parser.add_argument("--splits", nargs="+", type=int)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--store", type=Path, default=database.DATABASE)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    done = {} if options.again else database.read(options.store)
    for data in options.data:
        for split in range(TASKS[data][0]) if options.splits is None else options.splits:
            if ("intervals", data, split, "ebboost") in done or split >= TASKS[data][0]:
                continue
            version = f"ebboost {database.version('ebboost')}"
            row = measure(data, split) | {"version": version, "machine": database.machine()}
            database.add(row, options.store)
            share = 100 * row["coverage"]
            print(f"{data} {split}: {share:.1f} %, score {row['error']:.4g}", flush=True)
    database.write(database.read(options.store).values(), options.store)


if __name__ == "__main__":
    main()
