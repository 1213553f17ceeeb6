"""The same again: another process writes the same bytes; and nothing ever asks the network."""

import os
import subprocess
import sys
import zipfile

import pytest

from ebboost.model.serialization import describe

FITS = """
import sys
import numpy as np, pandas as pd, ebboost as eb

random = np.random.default_rng(0)
X = pd.DataFrame({"x": random.normal(size=150), "kind": random.choice(["a", "b", "c"], 150)})
graph = eb.Graph.build_knn(X[["x"]].to_numpy(), k=4)
y = X["x"].to_numpy() + random.normal(0.0, 0.1, 150)
y[::3] = np.nan
classes = np.where(np.isnan(y), None, np.where(y > 0, "high", "low"))
models = {
    "numbers": (eb.EBBSRegressor(5, n_jobs=1, n_folds=2), y),
    "two-threads": (eb.EBBSRegressor(5, n_jobs=2, n_folds=2), y),
    "classes": (eb.EBBSClassifier(5, n_jobs=1), classes),
    "xgboost": (eb.EBBSRegressor(5, n_jobs=1, learner="xgboost", n_folds=2), y),
    "catboost": (eb.EBBSRegressor(5, n_jobs=1, learner="catboost"), y),
}
for name, (model, labels) in models.items():
    path = f"{sys.argv[1]}/{name}.ebb"
    model.set_params(random_state=1).fit(X, labels, graph=graph).save(path, table=True)
    eb.load(path).predict(X, graph=graph)
"""

OFFLINE = """
import socket

def refuse(*arguments, **named):
    raise RuntimeError(f"asked the network: {arguments}")

socket.socket.__init__ = socket.getaddrinfo = socket.gethostbyname = refuse
"""


def ran(script, *arguments):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(
        command, env=os.environ | {"PYTHONHASHSEED": "random"}, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """What two processes wrote, the second of them without a network."""
    found = [tmp_path_factory.mktemp(name) for name in ("one", "two")]
    for folder, before in zip(found, ("", OFFLINE), strict=True):
        done = ran(before + FITS, folder)
        assert done.returncode == 0, done.stderr
    return found


@pytest.mark.parametrize("name", ["numbers", "two-threads", "classes", "xgboost", "catboost"])
def test_two_processes_write_the_same_bytes(name, folders):
    paths = [folder / f"{name}.ebb" for folder in folders]
    if paths[0].read_bytes() != paths[1].read_bytes():  # say which entry
        entries = [
            {name: file.read(name) for name in file.namelist()}
            for file in map(zipfile.ZipFile, paths)
        ]
        pytest.fail(
            f"differ: {[name for name in entries[0] if entries[0][name] != entries[1].get(name)]}"
        )


def test_neither_import_nor_fit_nor_file_asks_the_network(folders):
    """The second of the two processes could not have: here is that it would have been caught."""
    assert (
        "asked the network"
        in ran(OFFLINE + "import urllib.request; urllib.request.urlopen('http://localhost')").stderr
    )


def test_a_model_file_says_where_it_was_made(folders):
    made = describe(folders[0] / "numbers.ebb")["environment"]
    assert {
        "python",
        "machine",
        "system",
        "numpy",
        "scipy",
        "scikit-learn",
        "lightgbm",
        "sweeps",
    } <= set(made)
    assert made["sweeps"] in ("compiled", "scipy")
