"""Compare the default with version 0.2.0, whose errors and processor seconds are stored.

    python -m benchmarks.default [--groups county avazu] [--splits 0]
    python -m benchmarks.default --on val        # error on validation rows, without comparison

Prints a table, and fails if a group of tasks has more than 2 % more error than version 0.2.0 had,
or the seven public data sets more than .5 % in the mean. Runs are kept in build/default.jsonl, so
that a run goes on where it stopped; a run of other source code counts as missing. The stored table
never moves: ``--record`` writes the rows of this version to a file of its own.
"""

import argparse
import json
import sys
import warnings
from hashlib import sha256
from pathlib import Path

import numpy as np

import ebboost as eb
from benchmarks.database import RESULTS, timed
from benchmarks.tasks import NUMBERS, TASKS, fit_and_predict

STORED = RESULTS / "default-0.2.0.jsonl"
RUNS = Path("build/default.jsonl")
MEANS = {
    "the seven": NUMBERS,
    "classes": ("elect80 thirds", "kchouse thirds", "walls", "coauthor_cs", "coauthor_phy"),
    "few labels": ("lucas 1000", "lucas 300", "lucas 100"),
    "rewired": tuple(f"rewired {name}" for name in NUMBERS),
}
WORST_GROUP = 1.02
WORST_MEAN = 1.005  # of the seven
Rows = dict[tuple[str, int], dict]


def read_rows(path: Path, **wanted: str) -> Rows:
    """Return the rows of a file by group and split, those with the wanted entries."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines]
    rows = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
    return {(row["group"], row["split"]): row for row in rows}


def source_code() -> str:
    """Return a hash of the library's source."""
    folder = Path(eb.__file__).parent
    files = sorted([*folder.rglob("*.py"), *folder.rglob("*.c")])
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def measure(groups: list[str], splits: list[int] | None, on: str, path: Path) -> Rows:
    """Run what the file lacks, and return the rows of these groups."""
    source = source_code()
    path.parent.mkdir(parents=True, exist_ok=True)
    done = read_rows(path, on=on, source=source)
    for group in groups:
        count, make = TASKS[group]
        for split in range(count) if splits is None else splits:
            if (group, split) in done or split >= count:
                continue
            task = make(split, on)
            (_, predictions), seconds = timed(lambda task=task: fit_and_predict(task))
            row = {"group": group, "split": split, "error": task.error(predictions)}
            row |= {"seconds": seconds["processor_seconds"], "on": on, "source": source}
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{group} {split}: {row['error']:.5g} in {row['seconds']} s", file=sys.stderr)
            done[group, split] = row
    return {key: row for key, row in done.items() if key[0] in groups}


def compare(rows: Rows, stored: Rows) -> dict[str, tuple[float, float, float]]:
    """Return error, error ratio and seconds ratio by group, on the splits that both have."""
    table = {}
    for group in dict.fromkeys(group for group, _ in rows):
        keys = [key for key in rows if key[0] == group and key in stored]
        if keys:
            now, then = ([table[key] for key in keys] for table in (rows, stored))
            error, before = (np.mean([row["error"] for row in part]) for part in (now, then))
            seconds, old = (sum(row["seconds"] for row in part) for part in (now, then))
            table[group] = (float(error), float(error / before), seconds / old)
    for name, groups in MEANS.items():
        ratios = [table[group][1:] for group in groups if group in table]
        if len(ratios) > 1:
            table[f"mean of {name}"] = (np.nan, *np.exp(np.log(ratios).mean(axis=0)).tolist())
    return table


def verdict(table: dict[str, tuple[float, float, float]]) -> list[str]:
    """Return what is worse than it may be."""
    worse = [
        f"{group}: {100 * (ratio - 1):.1f} % more error than in 0.2.0"
        for group, (_, ratio, _) in table.items()
        if ratio > WORST_GROUP
    ]
    mean = table.get("mean of the seven", (0.0, 0.0, 0.0))[1]
    if WORST_MEAN < mean <= WORST_GROUP:
        worse.append(f"mean of the seven: {100 * (mean - 1):.1f} % more error than in 0.2.0")
    return worse


def show(table: dict[str, tuple[float, float, float]]) -> str:
    """Return the table as Markdown."""
    lines = ["| task | error | over 0.2.0 | processor seconds over 0.2.0 |", "|---|---|---|---|"]
    for group, (error, ratio, seconds) in table.items():
        shown = "" if np.isnan(error) else f"{error:.5g}"
        lines.append(f"| {group} | {shown} | {ratio:.4f} | {seconds:.2f} |")
    return "\n".join(lines)


def record(rows: Rows, folder: Path = RESULTS) -> Path:
    """Write the rows to the file of this version, which must not exist."""
    path = folder / f"default-{eb.__version__}.jsonl"
    names = ("group", "split", "error", "seconds")
    with path.open("x", encoding="utf-8") as file:
        for row in rows.values():
            file.write(json.dumps({name: row[name] for name in names}) + "\n")
    return path


def main(arguments: list[str] | None = None) -> int:
    """Measure what is missing and print the table; return 1 if something is worse."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    stored = read_rows(STORED)
    groups = [group for group in TASKS if (group, 0) in stored]
    parser.add_argument("--groups", nargs="*", default=groups, choices=groups, metavar="GROUP")
    parser.add_argument("--splits", nargs="*", type=int)
    parser.add_argument("--on", default="test", choices=["test", "val"])
    parser.add_argument("--record", action="store_true", help="write the rows of this version")
    parser.add_argument("--runs", type=Path, default=RUNS)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    rows = measure(options.groups, options.splits, options.on, options.runs)
    if options.on == "val":
        return 0
    table = compare(rows, stored)
    print(show(table))
    worse = verdict(table)
    print("\n".join(worse), file=sys.stderr)
    if options.record:
        print(f"written to {record(rows)}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
