"""The command ``ebboost``, also ``python -m ebboost``: says what to install where its extra is missing."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from ebboost.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.exit('The command line needs typer and rich: pip install "ebboost[cli]"')
    except KeyboardInterrupt:
        sys.exit(130)
    app(prog_name="ebboost")


if __name__ == "__main__":
    main()
