"""The command ``ebbflow``, also ``python -m ebbflow``: says what to install where its extra is missing."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from ebbflow.cli import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.exit('The command line needs typer and rich: pip install "ebbflow[cli]"')
    except KeyboardInterrupt:
        sys.exit(130)
    app(prog_name="ebbflow")


if __name__ == "__main__":
    main()
