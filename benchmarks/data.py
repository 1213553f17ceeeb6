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


def with_random_edges(data: Data, share: float = 0.3, seed: int = 0) -> tuple[Data, np.ndarray]:
    """Return the data set with this share of edges added between random nodes, and which edges, by rows, are new."""
    upper = sparse.triu(data.graph.adjacency, 1).tocsr()
    rng, n, wanted = np.random.default_rng(seed), data.graph.n_nodes, round(share * upper.nnz)
    taken = set((upper.tocoo().coords[0].astype(np.int64) * n + upper.tocoo().coords[1]).tolist())
    added: list[int] = []
    while len(added) < wanted:
        low, high = np.sort(rng.integers(0, n, (wanted, 2)), axis=1).T
        fresh = (key for key, loop in zip((low * n + high).tolist(), low == high, strict=True) if not loop)
        for key in fresh:
            if key not in taken and len(added) < wanted:
                taken.add(key)
                added.append(key)
    low, high = np.divmod(np.array(added), n)
    new = sparse.csr_array((np.full(wanted, np.median(upper.data)), (low, high)), shape=upper.shape)
    graph = eb.Graph.from_scipy(upper + upper.T + new + new.T)
    source, target = sparse.triu(graph.adjacency, 1, format="csr").tocoo().coords
    return data._replace(graph=graph), np.isin(source.astype(np.int64) * n + target, added)
