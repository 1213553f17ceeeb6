"""Files and models that the tests of the command line share."""

import shutil

import numpy as np
import pandas as pd
import pytest

from tests.safety.commands import edit, run, write_tables

#: Options that make a fit fast.
QUICK = ("--rounds", 15, "--folds", 2)


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A folder with tables and two fitted models."""
    folder = tmp_path_factory.mktemp("cli")
    nodes, edges = write_tables(folder)
    kind = np.where(pd.read_csv(nodes)["a"] > 0, "high", "low")
    edit(nodes, lambda table: table.assign(kind=kind))
    table = pd.read_csv(nodes, dtype=str, keep_default_na=False)
    known = np.arange(len(table)) % 4 > 0
    table.assign(kind=np.where(known, kind, "")).to_csv(folder / "kinds.csv", index=False)
    run("fit", nodes, edges, "-t", "price", "-o", folder / "price.ebb", *QUICK)
    words = ("--drop", "price", "--drop", "a", "-o", folder / "kind.ebb", *QUICK)
    run("fit", folder / "kinds.csv", edges, "-t", "kind", *words)
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A copy of that folder, which is the current one."""
    for path in made.iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path
