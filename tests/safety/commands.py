"""The command line, run in this process or in another one."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
from scipy import sparse

import ebboost as eb
from ebboost.__main__ import main
from tests.safety.problems import GRAPH, IDS, POINTS, TABLE, labels

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(Path(eb.__file__).parents[1]),
    "OMP_NUM_THREADS": "1",
    "COLUMNS": "300",
}


class Result(NamedTuple):
    """What a command has printed, and its exit code."""

    code: int
    out: str
    err: str


def run(*words, code=0):
    """The result of a command that exits with ``code``."""
    out, err = io.StringIO(), io.StringIO()
    argv = ["ebboost", *map(str, words)]
    with (
        mock.patch.object(sys, "argv", argv),
        mock.patch.dict(os.environ, {"COLUMNS": "300"}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        number = 0
        try:
            main()
        except SystemExit as stop:
            number = stop.code or 0
    result = Result(number, out.getvalue(), " ".join(err.getvalue().split()))
    assert result.code == code, result
    assert "Traceback" not in result.err
    return result


def process(*words, **options):
    """Another process that runs a command."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-m", "ebboost", *map(str, words)]
    return subprocess.Popen(command, **{"text": True, "env": ENVIRONMENT, **pipes, **options})


def write_tables(folder):
    """Write nodes.csv and edges.csv of the problem to a folder, and return both paths."""
    nodes = TABLE.assign(id=IDS, lon=POINTS[:, 0], lat=POINTS[:, 1], price=labels())
    ends = sparse.triu(GRAPH.adjacency, format="coo").coords
    edges = pd.DataFrame({"source": IDS[ends[0]], "target": IDS[ends[1]]})
    for name, table in (("nodes.csv", nodes), ("edges.csv", edges)):
        table.round(6).to_csv(folder / name, index=False)
    return folder / "nodes.csv", folder / "edges.csv"


def edit(path, change):
    """Change the rows of a CSV file, read as text."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    change(table).to_csv(path, index=False)


def finite(values):
    """Whether all numbers are finite."""
    return bool(np.isfinite(np.asarray(values, dtype=float)).all())
