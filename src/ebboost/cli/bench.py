"""``ebboost bench``: run the benchmarks of a checkout."""

import subprocess
import sys
from pathlib import Path

import typer

import ebboost


def bench(context: typer.Context) -> None:
    """Run the benchmarks of a checkout of ebboost: python -m benchmarks, with the same options."""
    root = Path(ebboost.__file__).parents[2]
    if not (root / "benchmarks" / "__main__.py").is_file():
        raise ValueError(
            "There are no benchmarks in this installation of ebboost: run this from a checkout of "
            "its repository."
        )
    command = [sys.executable, "-m", "benchmarks", *context.args]
    raise typer.Exit(subprocess.run(command, cwd=root, check=False).returncode)
