"""The command ``ebboost``, also ``python -m ebboost``."""

import signal
import sys

from ebboost import _ctrl_c


def main() -> None:
    """Run the command line, or name the packages that it lacks."""
    try:
        from ebboost.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich", "pandas"):
            raise
        sys.exit("The command line needs typer, rich and pandas: pip install typer rich pandas")
    if signal.getsignal(signal.SIGINT) is _ctrl_c.stop:  # commands say what Ctrl-C has left
        signal.signal(signal.SIGINT, signal.default_int_handler)
    app(prog_name="ebboost")


if __name__ == "__main__":
    main()
