"""The errors and processor seconds of the default, beside the stored ones of version 0.2.0.

    python -m benchmarks.default [--groups county …] [--splits 0 …] [--on val] [--record LABEL]

Each row is appended to a file of JSON lines when it is measured, so that a run goes on where it
stopped. ``--record 0.2.0`` is how the stored table was written; it never moves by itself.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.tasks import TASKS, fit_and_predict, tasks

STORED = Path(__file__).parent / "results" / "default-0.2.0.jsonl"


def rows_of(path: Path) -> dict[tuple[str, int, str], dict]:
    """Return the rows of a file by group, split and nodes that are predicted."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = map(json.loads, lines)
    return {(row["group"], row["split"], row["on"]): row for row in rows}


def measure(groups: list[str], splits: list[int] | None, on: str, path: Path) -> None:
    """Append the rows that a file lacks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done = rows_of(path)
    wanted = [
        group
        for group in groups
        if any((group, split, on) not in done for split in splits or range(TASKS[group][0]))
    ]
    for group, split, task in tasks(wanted, splits, on):
        if (group, split, on) in done:
            continue
        wall, start = time.perf_counter(), time.process_time()
        model, predictions = fit_and_predict(task)
        row = {
            "group": group,
            "split": split,
            "on": on,
            "error": task.error(predictions),
            "seconds": round(time.process_time() - start, 2),
            "wall": round(time.perf_counter() - wall, 2),
        }
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)


def table(path: Path, groups: list[str], on: str) -> str:
    """Return mean errors and seconds beside the stored ones, on the splits that both have."""
    stored, now = rows_of(STORED), rows_of(path)
    lines = ["| task | splits | 0.2.0 | now | ratio | seconds 0.2.0 | now | ratio |", "|---" * 8 + "|"]
    ratios: dict[str, list[float]] = {}
    for group in groups:
        keys = [key for key in now if key[0] == group and key[2] == on and key in stored]
        if not keys:
            continue
        error = [np.mean([rows[key]["error"] for key in keys]) for rows in (stored, now)]
        seconds = [np.sum([rows[key]["seconds"] for key in keys]) for rows in (stored, now)]
        ratio = error[1] / error[0]
        time_ratio = seconds[1] / max(seconds[0], 1e-9)
        cells = [group, str(len(keys)), f"{error[0]:.5g}", f"{error[1]:.5g}", f"{ratio:.4f}"]
        cells += [f"{seconds[0]:.1f}", f"{seconds[1]:.1f}", f"{time_ratio:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
        for name in ("all", "rewired" if group.startswith("rewired") else "plain"):
            ratios.setdefault(name, []).append([ratio, time_ratio])
    for name, pairs in ratios.items():
        mean = np.exp(np.log(pairs).mean(axis=0))
        lines.append(f"| geometric mean, {name} | {len(pairs)} | | | {mean[0]:.4f} | | | {mean[1]:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--groups", nargs="*", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--splits", nargs="*", type=int)
    parser.add_argument("--on", default="test", choices=["test", "val"])
    parser.add_argument("--record", help="write the rows of this version to the stored table")
    parser.add_argument("--store", type=Path, default=Path("build/bench-default/rows.jsonl"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    path = STORED if options.record else options.store
    measure(options.groups, options.splits, options.on, path)
    print(table(path, options.groups, options.on))


if __name__ == "__main__":
    main()
