"""The data sets of the paper, read by path: ``EBBFLOW_DATA`` says where they are."""

import json
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import ebbflow as eb

FOLDERS = ("county", "avazu", "house", "wiki")
COAUTHOR = ("coauthor_cs", "coauthor_phy")


class Data(NamedTuple):
    """A data set with its official splits."""

    name: str
    X: Any
    y: np.ndarray
    graph: eb.Graph
    splits: list[dict[str, np.ndarray]]
    classes: bool


def home() -> Path:
    """Return the folder that holds one folder per data set."""
    default = Path(__file__).parent.parent.parent / "shared" / "datasets"
    return Path(os.environ.get("EBBFLOW_DATA", default))


def available() -> list[str]:
    """Return the names of the data sets at hand; lucas ships with the package."""
    return [name for name in (*FOLDERS, *COAUTHOR) if (home() / name).is_dir()] + ["lucas"]


def load(name: str) -> Data:
    """Read one data set."""
    if name == "lucas":
        X, y, graph, splits = eb.datasets.load_lucas()
        # Tested on later sales, so stopped on the latest of those to train on: errors at random ones would be too small.
        train = splits[0]["train"]
        train = train[np.argsort(X["sdate"].to_numpy()[train], kind="stable")]
        cut = len(train) - len(train) // 10
        split = {"train": train[:cut], "val": train[cut:], "test": splits[0]["test"]}
        return Data(name, X, y, graph, [split], False)
    if not (home() / name).is_dir():
        raise FileNotFoundError(f"{home() / name} is not there; set EBBFLOW_DATA to the folder that holds {name}.")
    if name in COAUTHOR:
        return _coauthor(name)
    X, y, graph, splits = eb.datasets.load_folder(home() / name)
    if name == "wiki":  # thousands of 0/1 columns
        X = sparse.csr_array(X.to_numpy(dtype=np.float64))
    return Data(name, X, y.astype(float), graph, splits, False)


def _coauthor(name: str) -> Data:
    stored = np.load(home() / name / "data.npz", allow_pickle=False)

    def matrix(kind: str) -> sparse.csr_array:
        parts = (stored[f"{kind}_data"], stored[f"{kind}_indices"], stored[f"{kind}_indptr"])
        return sparse.csr_array(parts, shape=tuple(stored[f"{kind}_shape"]))

    masks = json.loads((home() / name / "masks.json").read_text())
    splits = [{part: np.asarray(nodes) for part, nodes in masks[key].items()} for key in sorted(masks, key=int)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # these files list each edge once in some rows
        graph = eb.Graph.from_scipy(matrix("adj"))
    return Data(name, matrix("attr").astype(np.float64), stored["labels"], graph, splits, True)


def rewired(data: Data, seed: int = 0) -> Data:
    """Return the data set with the far ends of all edges shuffled: a graph that knows nothing."""
    upper = sparse.triu(data.graph.adjacency).tocoo()
    ends = np.random.default_rng(seed).permutation(upper.coords[1])
    low, high = np.minimum(upper.coords[0], ends), np.maximum(upper.coords[0], ends)
    return data._replace(graph=eb.Graph.from_edges(low, high, n_nodes=data.graph.n_nodes))
