"""The command ``ebboost``: its commands, and how errors end.

Results go to standard output, notes and progress to standard error. Every error is one line on
standard error and an exit code: 1 for invalid files or data, 2 for a wrong command line, 130 for
Ctrl-C.
"""

import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import ebboost
from ebboost.cli import outputs
from ebboost.cli.check import check
from ebboost.cli.console import print_error
from ebboost.cli.demo import demo
from ebboost.cli.explain import explain
from ebboost.cli.fit import fit
from ebboost.cli.predict import predict
from ebboost.cli.report import inspect, report

NOTHING_WRITTEN = "no file was changed"


class _OneLineErrors(TyperGroup):
    """Turns every error into one line and an exit code."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and exit with its code."""
        outputs.written.clear()
        try:
            code = super().main(*args, **extra | {"standalone_mode": False})
        except (KeyboardInterrupt, typer.Abort) as stop:
            end_of_file = stop.__cause__  # which typer takes for Ctrl-D
            code = _report_error(end_of_file) if isinstance(end_of_file, EOFError) else 130
        except Exception as error:
            code = _report_error(error)
        if code == 130:
            print_error(f"stopped; {outputs.written[-1] if outputs.written else NOTHING_WRITTEN}.")
        sys.exit(code if isinstance(code, int) else 0)


def _report_error(error: Exception) -> int:
    """Print one line about an error and return the exit code."""
    if os.environ.get("EBBOOST_DEBUG"):
        traceback.print_exc()
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # a wrong command line
        message = error.format_message().replace("Value error, ", "")
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message)
        else:
            context = getattr(error, "ctx", None)
            command = "ebboost" if context is None else context.command_path
            stop = "" if message[-1:] in ".?!" else "."
            print_error(f"{message}{stop} See {command} --help.")
        return int(error.exit_code)
    if isinstance(error, OSError) and error.strerror:
        file = f"{error.filename}: " if error.filename else ""
        print_error(f"{file}{error.strerror}.")
    elif isinstance(error, EOFError):
        print_error(f"a file is cut off, copy it again: {error}")
    elif isinstance(error, MemoryError):
        print_error("there is not enough memory for this.")
    elif isinstance(error, (ValueError, TypeError, OSError, ImportError)):
        print_error(str(error))
    else:
        remedy = "EBBOOST_DEBUG=1 shows where; please report it."
        print_error(f"internal error, {type(error).__name__}: {error}. {remedy}")
    return 1


app = typer.Typer(
    name="ebboost",
    cls=_OneLineErrors,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Five minutes: ebboost demo --files counties; cd counties; "
    "ebboost check nodes.csv edges.csv -t pc_turnout; "
    "ebboost fit nodes.csv edges.csv -t pc_turnout; "
    "ebboost predict model.ebb -o predictions.csv; ebboost report model.ebb --open",
)


def _print_version(requested: bool) -> None:
    if requested:
        print(f"ebboost {ebboost.__version__}")
        raise typer.Exit


_VERSION = typer.Option(
    "--version", callback=_print_version, is_eager=True, help="Print the version."
)


@app.callback()
def main(version: Annotated[bool, _VERSION] = False) -> None:
    """Gradient boosting on tables whose rows are nodes of a graph.

    Needs a table of nodes, a table of edges and the name of the column to predict.
    """


def bench(context: typer.Context) -> None:
    """Run the benchmarks of a checkout of ebboost: python -m benchmarks, with the same options."""
    root = Path(ebboost.__file__).parents[2]
    if not (root / "benchmarks" / "__main__.py").is_file():
        raise ValueError("This installation has no benchmarks: run this from a checkout.")
    command = [sys.executable, "-m", "benchmarks", *context.args]
    raise typer.Exit(subprocess.run(command, cwd=root, check=False).returncode)


_LONG_FIT = "a long fit, started or continued: ebboost fit nodes.csv edges.csv --target price"
_EXAMPLES: dict[Callable[..., None], str] = {
    demo: "demo --files counties",
    check: "check nodes.csv edges.csv --target price",
    fit: "fit nodes.csv edges.csv --target price -o houses.ebb; "
    f"{_LONG_FIT} --checkpoint folder --resume",
    predict: "predict houses.ebb --interval 0.9 -o predictions.csv",
    explain: "explain houses.ebb 4711",
    report: 'report houses.ebb -o houses.html --title "Houses in Lucas County"',
    inspect: "inspect houses.ebb",
}
for command, example in _EXAMPLES.items():
    app.command(epilog=f"Example: ebboost {example}")(command)
app.command(
    epilog="Example: ebboost bench -- --help",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(bench)
