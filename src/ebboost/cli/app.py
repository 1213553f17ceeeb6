"""The command ``ebboost``: its commands, and how errors end.

Every error is one line on standard error and an exit code: 1 for invalid files or data, 2 for a
wrong command line, 130 for Ctrl-C.
"""

import os
import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import ebboost
from ebboost.cli import commands
from ebboost.cli.demo import demo
from ebboost.cli.outputs import print_error


class _OneLineErrors(TyperGroup):
    """Turns every error into one line and an exit code."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and exit with its code."""
        try:
            code = super().main(*args, **extra | {"standalone_mode": False})
        except (KeyboardInterrupt, typer.Abort):
            print_error("stopped; no file was changed.")
            code = 130
        except Exception as error:
            code = _report_error(error)
        sys.exit(code if isinstance(code, int) else 0)


def _report_error(error: Any) -> int:
    """Print one line about an error and return the exit code."""
    if os.environ.get("EBBOOST_DEBUG"):
        traceback.print_exc()
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message())
    elif hasattr(error, "format_message"):  # a wrong command line
        context = getattr(error, "ctx", None)
        command = "ebboost" if context is None else context.command_path
        message = error.format_message()
        print_error(f"{message}{'' if message[-1:] in '.?!' else '.'} See {command} --help.")
    elif isinstance(error, OSError) and error.strerror:
        print_error(f"{error.filename or ''}: {error.strerror}.".removeprefix(": "))
    elif isinstance(error, (ValueError, TypeError, OSError, ImportError)):
        print_error(str(error))
    else:
        remedy = "EBBOOST_DEBUG=1 shows where; please report it."
        print_error(f"internal error, {type(error).__name__}: {error}. {remedy}")
    return int(getattr(error, "exit_code", 1))


app = typer.Typer(
    name="ebboost",
    cls=_OneLineErrors,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Five minutes: ebboost demo --files counties; cd counties; "
    "ebboost fit nodes.csv edges.csv -t pc_turnout --check; "
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


for command in (demo, commands.check, commands.fit, commands.predict, commands.explain):
    app.command()(command)
app.command()(commands.report)
