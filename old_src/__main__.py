"""The command ``ebboost``, also ``python -m ebboost``."""

import sys


def main() -> None:
    """Run the command line, or name the packages that it lacks."""
    try:
        from ebboost.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich", "pandas"):
            raise
        sys.exit("The command line needs typer, rich and pandas: pip install typer rich pandas")
    except KeyboardInterrupt:
        sys.exit(130)
    app(prog_name="ebboost")


if __name__ == "__main__":
    main()
