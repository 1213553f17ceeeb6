"""The command ``ebboost``, also ``python -m ebboost``."""

import signal
import sys

from ebboost._ctrl_c import stop


def main() -> None:
    """Run the command line, or name the packages that it lacks."""
    try:
        from ebboost.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich", "pandas"):
            raise
        sys.exit("The command line needs typer, rich and pandas: pip install typer rich pandas")
    is_handled = signal.getsignal(signal.SIGINT) is stop
    if is_handled:  # commands say themselves what Ctrl-C has left
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        app(prog_name="ebboost")
    finally:
        if is_handled:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
