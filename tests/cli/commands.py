"""A small data set in files, and the command line run on it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

import ebboost as eb
from ebboost.cli.app import app

SIDE = 14
COMMANDS = ("demo", "check", "fit", "predict", "explain", "report", "bench", "inspect")
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(Path(eb.__file__).parents[1]),
    "OMP_NUM_THREADS": "1",
}


def grid(side=SIDE):
    """Nodes of a square grid with ids like "007", a price that varies smoothly, and a class."""
    rng = np.random.default_rng(0)
    n = side * side
    row, column = np.divmod(np.arange(n), side)
    price = 100 + 10 * np.sin(row / 3.0) + 5 * np.cos(column / 3.0) + rng.normal(size=n)
    nodes = pd.DataFrame(
        {
            "id": [f"{i:03d}" for i in range(n)],
            "size": rng.normal(size=n),
            "rooms": rng.integers(1, 6, n),
        }
    )
    nodes["kind"] = np.where(row < side // 2, "north", "south")
    nodes["price"] = np.where(np.arange(n) % 3 == 0, np.nan, price)
    pairs = [(i, i + 1) for i in range(n) if column[i] < side - 1] + [
        (i, i + side) for i in range(n - side)
    ]
    edges = pd.DataFrame([(f"{a:03d}", f"{b:03d}") for a, b in pairs], columns=["from", "to"])
    return nodes, edges


def few_houses(n=500):
    """Some of the houses of Lucas County, in the form of ``load_lucas``."""
    X, y, graph, splits = eb.datasets.load_lucas()
    rows = np.sort(np.random.default_rng(0).permutation(len(X))[:n])
    small = eb.Graph.from_scipy(graph.adjacency[rows][:, rows])
    parts = {name: np.flatnonzero(np.isin(rows, part)) for name, part in splits[0].items()}
    return X.iloc[rows].reset_index(drop=True), y[rows], small, [parts]


def run(*words, code=0):
    """The result of a command that exits with ``code``."""
    result = CliRunner().invoke(app, [str(word) for word in words], prog_name="ebboost")
    assert result.exit_code == code, (
        result.exit_code,
        result.stdout,
        result.stderr,
        result.exception,
    )
    return result


def error_line(*words, code=1):
    """The one line on standard error that a wrong call prints; nothing on standard output."""
    result = run(*words, code=code)
    lines = [
        line
        for line in result.stderr.splitlines()
        if not line.startswith("note: ") and line.startswith("ebboost: ")
    ]
    assert len(lines) == 1 and "Traceback" not in result.stderr
    assert result.stdout == ""
    return lines[0]


def python(*words, **options):
    """The result of another Python process."""
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=120,
        **options,
    )


def put(folder, name, text):
    """The path of a file with a text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path
