"""The command line: ``python -m benchmarks run``, then ``python -m benchmarks report``."""

import argparse
import sys
import traceback
import warnings
from pathlib import Path

import numpy as np

from benchmarks import database, report
from benchmarks.methods import METHODS, arrays
from benchmarks.tasks import TASKS, Task

QUICK = ["county", "avazu", "elect80"]
QUICK_STORE = Path("build/bench-quick.jsonl")
EXAMPLES = """examples:
  python -m benchmarks run                     # every method that is installed, every task: hours
  python -m benchmarks run --quick             # three data sets, one split each: minutes
  python -m benchmarks run --data county --methods LightGBM ebboost --splits 0
  python -m benchmarks report                  # tables of results.md, the README and the pages
  python -m benchmarks export build/gnn        # tasks for a machine with a GPU; there
  python -m benchmarks.networks build/gnn      # and here again
  python -m benchmarks merge build/gnn         # its predictions; or the rows of another machine
"""


def methods_of(group: str) -> list[str]:
    """Return the methods of a group: a graph that knows nothing is nothing to those without one."""
    names = [name for name, method in METHODS.items() if method.is_installed]
    return [name for name in names if "ebboost" in name or not group.startswith("rewired")]


def row_of(task: Task, group: str, split: int, method: str, predictions: np.ndarray) -> dict:
    """Return the row of a run, without its seconds."""
    package = METHODS[method].package
    return {
        "experiment": "accuracy",
        "data": group,
        "split": split,
        "method": method,
        "error": float(f"{task.error(predictions):.6g}"),
        "metric": task.metric,
        "labels": int(task.known.size + (0 if task.eval_set is None else task.eval_set.size)),
        "version": f"{package} {database.version(package)}" if METHODS[method].is_installed else "",
        "machine": database.machine(),
    }


def run(options: argparse.Namespace) -> int:
    """Do the runs that the file lacks; return how many failed."""
    groups = QUICK if options.quick else options.data
    splits = [0] if options.quick else options.splits
    path = QUICK_STORE if options.quick else options.store
    done = {} if options.again else database.read(path)
    failed = 0
    for group in groups:
        count, make = TASKS[group]
        for split in range(count) if splits is None else splits:
            wanted = [name for name in methods_of(group) if name in options.methods]
            keys = {("accuracy", group, split, name): name for name in wanted}
            missing = [name for key, name in keys.items() if key not in done]
            if not missing or split >= count:
                continue
            task = make(split, "test")
            for name in missing:
                method = METHODS[name]
                if not method.can(task):
                    continue
                settings = {"device": options.device} if name == "GNN" else {}
                try:
                    predictions, seconds = database.timed(
                        lambda method=method, task=task, settings=settings: method.predict(
                            task, **settings
                        )
                    )
                    row = row_of(task, group, split, name, predictions) | seconds
                except Exception:
                    traceback.print_exc()
                    failed += 1
                    continue
                database.add(row, path)
                cost = f"{row['processor_seconds']} s"
                print(f"{group} {split} {name}: {row['error']:.5g} in {cost}", flush=True)
    if options.quick:
        print(report.tables(database.read(path))["results"])
    else:
        database.write(database.read(path).values(), path)
    return failed


def export(options: argparse.Namespace) -> int:
    """Write tasks as arrays for ``benchmarks.networks``."""
    options.folder.mkdir(parents=True, exist_ok=True)
    for group in options.data:
        count, make = TASKS[group]
        for split in range(count):
            task = make(split, "test")
            if METHODS["GNN"].can(task):
                np.savez_compressed(options.folder / f"{group}~{split}.npz", **arrays(task))
    return 0


def merge(options: argparse.Namespace) -> int:
    """Take in a file of rows, or a folder of predictions that networks have made."""
    if options.source.is_file():
        print(f"{database.merge(options.source, options.store)} rows merged")
        return 0
    for path in sorted(options.source.glob("*.gnn.npz")):
        group, _, split = path.name.removesuffix(".gnn.npz").partition("~")
        stored = np.load(path)
        task = TASKS[group][1](int(split), "test")
        row = row_of(task, group, int(split), "GNN", stored["predictions"])
        row |= {"machine": str(stored["machine"]), "version": str(stored["version"])}
        database.add(row | {"seconds": round(float(stored["seconds"]), 2)}, options.store)
        print(f"{group} {split} GNN: {row['error']:.5g}")
    database.write(database.read(options.store).values(), options.store)
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return the exit status."""
    style = {"formatter_class": argparse.RawDescriptionHelpFormatter, "epilog": EXAMPLES}
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, **style)
    commands = parser.add_subparsers(dest="command", required=True)
    plain = [group for group in TASKS if not group.startswith("rewired")]
    names = {"nargs": "+", "choices": list(TASKS), "metavar": "NAME"}
    one = commands.add_parser("run", help="do the runs that the database lacks")
    one.add_argument("--quick", action="store_true", help=f"some runs, in {QUICK_STORE}")
    one.add_argument("--data", default=list(TASKS), **names)
    one.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    one.add_argument("--splits", nargs="+", type=int)
    one.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="of the GNN")
    one.add_argument("--again", action="store_true", help="also runs that are in the database")
    one.add_argument("--store", type=Path, default=database.DATABASE)
    one = commands.add_parser("report", help="write the tables of results.md and of all pages")
    one = commands.add_parser("export", help="write tasks for a machine with a GPU")
    one.add_argument("folder", type=Path)
    one.add_argument("--data", default=plain, **names)
    one = commands.add_parser("merge", help="take in the runs of another machine")
    one.add_argument("source", type=Path)
    one.add_argument("--store", type=Path, default=database.DATABASE)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    if options.command == "report":
        return report.write()
    return {"run": run, "export": export, "merge": merge}[options.command](options)


if __name__ == "__main__":
    sys.exit(main())
