"""The command line: ``python -m benchmarks run``, then ``python -m benchmarks report``."""

import argparse
import os
import sys
from pathlib import Path

EXAMPLES = """examples:
  python -m benchmarks list
  python -m benchmarks run --datasets county avazu --methods CatBoost EBBS --splits 0 1
  python -m benchmarks run --jobs 2            # everything available; continues after a kill
  python -m benchmarks merge other.sqlite      # runs made on another machine
  python -m benchmarks report                  # Markdown, HTML, LaTeX and figures
  python -m benchmarks fetch county
"""
RESULTS = Path(__file__).parent / "results"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    style = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    top = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, epilog=EXAMPLES, **style
    )
    top.add_argument(
        "--data",
        type=Path,
        help="the folder that holds one folder per data set; default: EBBOOST_DATA",
    )
    commands = top.add_subparsers(dest="command", required=True)
    add = {
        name: commands.add_parser(name, help=text, description=text, epilog=EXAMPLES, **style)
        for name, text in {
            "list": "show data sets and methods, and what is missing",
            "run": "do the runs that the file lacks",
            "report": "write tables, figures and the page",
            "merge": "take in the runs of other files",
            "fetch": "download data sets and check them",
        }.items()
    }
    for name in ("run", "report", "merge"):
        add[name].add_argument(
            "--store", type=Path, default=RESULTS / "runs.sqlite", help="the SQLite file of runs"
        )
    for name in ("run", "fetch"):
        add[name].add_argument(
            "--data", type=Path, default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
    add["run"].add_argument("--datasets", nargs="+", metavar="NAME", help="default: all at hand")
    add["run"].add_argument(
        "--methods", nargs="+", metavar="NAME", help="default: all that are installed"
    )
    add["run"].add_argument("--splits", nargs="+", type=int, metavar="K", help="default: all")
    add["run"].add_argument(
        "--configurations", type=int, metavar="N", help="only the first N of each grid"
    )
    add["run"].add_argument(
        "--jobs", type=int, default=1, help="runs at once, each in its own process"
    )
    add["run"].add_argument("--threads", type=int, default=1, help="threads of each run")
    add["run"].add_argument(
        "--limit", type=float, metavar="SECONDS", help="give a run up after so long"
    )
    add["run"].add_argument("--retry", action="store_true", help="do failed runs again")
    add["report"].add_argument("--out", type=Path, default=RESULTS, help="the folder to write to")
    add["merge"].add_argument("files", nargs="+", type=Path)
    add["fetch"].add_argument("names", nargs="+", metavar="NAME")
    add["fetch"].add_argument("--from", dest="url", metavar="URL", help="a mirror of the archive")
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return the exit status."""
    options = parser().parse_args(arguments)
    if options.data is not None:
        os.environ["EBBOOST_DATA"] = str(options.data)  # children read it too
    try:
        return COMMANDS[options.command](options)
    except (OSError, ValueError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("benchmarks: stopped; the same command goes on from here", file=sys.stderr)
        return 130


def _list(options: argparse.Namespace) -> int:
    from benchmarks import data
    from benchmarks.methods import METHODS

    def absent(modules: str) -> str:
        return f", needs {modules}: not installed" if modules else ""

    print(f"data sets (in {data.home()})")
    for name in data.names():
        print(f"  {name:24}{data.missing(name) or 'at hand'}")
    print("methods")
    for method in METHODS.values():
        count = len(method.configurations("county"))
        print(f"  {method.name:24}{count} configurations{absent(method.missing())}")
    return 0


def _run(options: argparse.Namespace) -> int:
    from benchmarks import data, runner
    from benchmarks.methods import METHODS
    from benchmarks.store import Store

    full_grids = options.configurations is None  # methods for a figure need their full grid
    datasets = options.datasets or data.available()
    methods = options.methods or [
        name for name, method in METHODS.items() if method.in_tables or full_grids
    ]
    planned = runner.plan(datasets, methods, options.splits, options.configurations)
    failed = runner.work(
        planned, Store(options.store), options.jobs, options.threads, options.limit, options.retry
    )
    if failed:
        print(
            f"{failed} runs failed: the report lists them, --retry does them again", file=sys.stderr
        )
    return 0


def _report(options: argparse.Namespace) -> int:
    from benchmarks.report import write
    from benchmarks.store import Store

    for path in write(Store(options.store), options.out):
        print(path)
    return 0


def _merge(options: argparse.Namespace) -> int:
    from benchmarks.store import Store

    print(f"{Store(options.store).merge(options.files)} runs merged")
    return 0


def _fetch(options: argparse.Namespace) -> int:
    from benchmarks.fetching import fetch

    for name in options.names:
        print(fetch(name, options.url))
    return 0


COMMANDS = {"list": _list, "run": _run, "report": _report, "merge": _merge, "fetch": _fetch}

if __name__ == "__main__":
    sys.exit(main())
