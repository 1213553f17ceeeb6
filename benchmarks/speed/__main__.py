"""Time and memory of a fit compared with LightGBM, the published algorithm and others.

Each fit runs in a process of its own. Raw numbers go to speed.json, a table and figures beside it.
"""

import argparse
import sys
import tempfile
import time
from itertools import groupby
from pathlib import Path

from benchmarks.speed import plan
from benchmarks.speed.aims import Results, aims, over
from benchmarks.speed.fits import METHODS, OURS, PLAIN, RECIPE, SAME
from benchmarks.speed.measuring import Case, import_seconds, measure
from benchmarks.speed.problems import Problem
from benchmarks.speed.store import Store

EXAMPLES = """examples:
  python -m benchmarks.speed                            # everything: a quarter of an hour
  python -m benchmarks.speed --quick --out build/speed  # everything at a hundredth of its size
  python -m benchmarks.speed nodes import               # some parts
  python -m benchmarks.speed --resume --limit 140       # continues, for at most 140 seconds
  python -m benchmarks.speed --nodes 20000 --threads 1  # one size, printed and not stored
  python -m benchmarks.speed --default house --threads 1
"""
RESULTS = Path(__file__).parents[1] / "results" / "speed"
MODULES = ("sklearn", "sklearn.ensemble", "ebboost")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(
        prog="python -m benchmarks.speed",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join(plan.PARTS)}; default: all"
    )
    top.add_argument(
        "--methods",
        nargs="+",
        metavar="NAME",
        help=f"of {'; '.join(METHODS)}; default: all installed",
    )
    top.add_argument(
        "--threads", type=int, help="default: one, but all cores in the sweep of nodes"
    )
    top.add_argument(
        "--repeats", type=int, default=1, help="processes for each fit; the least time counts"
    )
    top.add_argument(
        "--quick", action="store_true", help="a hundredth of the nodes, a tenth of the rounds"
    )
    top.add_argument("--resume", action="store_true", help="leave out what the file has")
    top.add_argument(
        "--limit",
        type=float,
        metavar="SECONDS",
        help="start nothing after so long; 0 with --resume only reports",
    )
    top.add_argument(
        "--out", type=Path, default=RESULTS, help="the folder for speed.json, speed.md and figures"
    )
    one = top.add_argument_group("one size, printed and not stored")
    for name, default in (("nodes", 20_000), ("edges", 100_000), ("columns", 20), ("rounds", 200)):
        one.add_argument(f"--{name}", type=int, help=f"default: {default:,}")
    top.add_argument(
        "--default",
        nargs="+",
        metavar="DATA",
        help="time the default fit on these data sets, and no more",
    )
    return top


def main(arguments: list[str] | None = None) -> int:
    """Measure and report; return the exit status."""
    options = parser().parse_args(arguments)
    for unknown in {*options.parts} - {*plan.PARTS}:
        print(f"there is no part {unknown!r}; there are: {', '.join(plan.PARTS)}", file=sys.stderr)
        return 2
    for unknown in {*(options.methods or ())} - {*METHODS}:
        print(f"there is no method {unknown!r}; there are: {'; '.join(METHODS)}", file=sys.stderr)
        return 2
    if options.default:
        from benchmarks.speed.defaults import default_over_plain

        try:
            default_over_plain(options.default, options.threads or 1)
        except FileNotFoundError as error:
            print(error, file=sys.stderr)
            return 2
    elif any(getattr(options, name) for name in ("nodes", "edges", "columns", "rounds")):
        _one_size(options)
    else:
        _measure(options)
    return 0


def _measure(options: argparse.Namespace) -> None:
    store, parts = Store.at(options.out / "speed.json"), options.parts or plan.PARTS
    end = time.monotonic() + (float("inf") if options.limit is None else options.limit)
    absent = {name: why for part in parts for name, why in plan.skipped(part).items()}
    for name, why in absent.items():
        print(f"skipped {name}: {why}", file=sys.stderr)
    wanted = dict.fromkeys(
        case for part in parts for case in plan.cases(part, options.threads, options.quick)
    )
    left = [
        case
        for case in wanted
        if case.method not in absent and case.method in (options.methods or METHODS)
    ]
    left = [case for case in left if not (options.resume and case in store.runs)]
    if "import" in parts and not (options.resume and store.imports):
        store.imports = import_seconds(MODULES, 1 if options.quick else 9)
        store.write()
    with tempfile.TemporaryDirectory() as scratch:
        # Those on one problem come one after the other, repeated: a disturbance affects all of
        # them.
        for _, cases in groupby(left, lambda case: case.problem):
            if not _run(list(cases), store, options.repeats, end, Path(scratch)):
                print("out of time: --resume goes on from here", file=sys.stderr)
                break
    from benchmarks.speed.report import write

    results = Results(store, options.threads, options.quick)
    for path in write(results, options.out):
        print(path)
    for aim in aims(results):
        print(f"{'met    ' if aim.met else 'NOT MET'} {aim.must:>7}  {aim.measured:24} {aim.what}")


def _run(cases: list[Case], store: Store, repeats: int, end: float, scratch: Path) -> bool:
    """Measure cases; return False where time ran out."""
    for repeat in range(repeats):
        for case in cases:
            if time.monotonic() > end:
                return False
            try:
                store.add(run := measure(case, scratch), again=repeat > 0 and case in store.runs)
            except RuntimeError as error:
                print(error, file=sys.stderr)
            else:
                print(
                    f"{case}: {run.best:.3g} s, {run.peak / run.inputs:.2f} inputs", file=sys.stderr
                )
    return True


def _one_size(options: argparse.Namespace) -> None:
    problem = Problem(options.nodes or 20_000, options.edges or 100_000, options.columns or 20)
    rounds, threads = options.rounds or 200, options.threads or 1
    names = options.methods or [
        name for name in (PLAIN, SAME, OURS, RECIPE) if not METHODS[name].missing()
    ]
    with tempfile.TemporaryDirectory() as scratch:
        row = {
            name: measure(Case(problem, name, rounds, threads), Path(scratch))
            for name in (PLAIN, *names)
        }
    print(
        f"n = {problem.nodes:,}, |E| = {problem.edges:,}, d = {problem.columns}, {rounds} rounds, "
        f"{threads} threads"
    )
    print(f"{'':36}{'seconds':>9}{'over plain':>12}{'memory / inputs':>17}")
    for name, run in row.items():
        print(f"{name:36}{run.best:9.2f}{over(row, name):12.2f}{run.peak / run.inputs:17.2f}")


if __name__ == "__main__":
    sys.exit(main())
