"""Files and models that the tests of the command line share."""

import shutil

import numpy as np
import pytest

from tests.cli.commands import grid, run


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with tables and two fitted models."""
    path = tmp_path_factory.mktemp("cli")
    nodes, edges = grid()
    kinds = nodes.assign(kind=nodes["kind"].where(np.arange(len(nodes)) % 4 > 0))
    for name, table in (("nodes.csv", nodes), ("kinds.csv", kinds), ("edges.csv", edges)):
        table.to_csv(path / name, index=False)
    for table, target in (("nodes.csv", "price"), ("kinds.csv", "kind")):
        model = path / f"{target}.ebb"
        run("fit", path / table, path / "edges.csv", "-t", target, "-o", model, "--rounds", 30)
    return path


@pytest.fixture
def copy(folder, tmp_path):
    """The tables in a folder of their own, to be changed."""
    for name in ("nodes.csv", "edges.csv", "kinds.csv"):
        shutil.copy(folder / name, tmp_path)
    return tmp_path
