"""The data sets of the paper, read by path: ``EBBOOST_DATA`` (or ``--data``) says where they are.

Three layouts: folders of the field's own format (X.csv, y.csv, graph.graphml, masks.json), the
Coauthor archives (data.npz), and ogbn-arxiv as the ``ogb`` package leaves it on disk. A folder that
is broken is refused by name.
"""

import json
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import ebboost as eb

REGRESSION = ("county", "avazu", "house", "vk", "wiki")
CLASSIFICATION = ("house_class", "vk_class", "slap", "dblp")
FOLDERS = (*REGRESSION, *CLASSIFICATION)
COAUTHOR = ("coauthor_cs", "coauthor_phy")
ARXIV = ("ogbn_arxiv",)
SPLITS = 5
SPARSE_FROM = 1000  # columns
SPARSE_UP_TO = 0.2  # share of entries that are not 0


class Data(NamedTuple):
    """A data set with its official splits."""

    name: str
    X: Any
    y: np.ndarray
    graph: eb.Graph
    splits: list[dict[str, np.ndarray]]
    classes: bool
    coordinates: np.ndarray | None = None  # for methods that need coordinates rather than edges


def home() -> Path:
    """Return the folder that holds one folder per data set."""
    default = Path(__file__).parent.parent.parent / "shared" / "datasets"
    return Path(os.environ.get("EBBOOST_DATA", default))


def names() -> list[str]:
    """Return every data set there is a reader for; lucas ships with the package."""
    return [*FOLDERS, *COAUTHOR, *ARXIV, "lucas"]


def missing(name: str) -> str:
    """Return why a data set cannot be read, or nothing if it is at hand."""
    if name == "lucas":
        return ""
    if name not in names():
        return f"there is no reader for {name!r}: {', '.join(names())}"
    if not (home() / name).is_dir():
        return f"{home() / name} is not there"
    needed = {"ogbn_arxiv": "raw/edge.csv.gz", **dict.fromkeys(COAUTHOR, "data.npz")}.get(
        name, "graph.graphml"
    )
    return "" if (home() / name / needed).is_file() else f"{home() / name} has no {needed}"


def available() -> list[str]:
    """Return the names of the data sets at hand."""
    return [name for name in names() if not missing(name)]


def load(name: str) -> Data:
    """Read one data set; ``NAME-rewired`` is the same with its edges shuffled."""
    if name.endswith("-rewired"):
        return rewired(load(name.removesuffix("-rewired")))._replace(name=name)
    if why := missing(name):
        raise FileNotFoundError(
            f"{why}. Set EBBOOST_DATA to the folder that holds {name}, or: "
            f"python -m benchmarks fetch {name}"
        )
    if name == "lucas":
        return _lucas()
    if name in COAUTHOR:
        return _coauthor(name)
    return _arxiv(name) if name in ARXIV else _folder(name)


def _folder(name: str) -> Data:
    X, y, graph, splits = eb.datasets.load_folder(home() / name)
    for number, split in enumerate(splits):
        if wrong := {"train", "val", "test"} ^ set(split):
            raise ValueError(
                f"{home() / name / 'masks.json'}, split {number}: "
                f"{sorted(wrong)} too few or too many."
            )
    if not sum(dtype == "category" for dtype in X.dtypes) and X.shape[1] > SPARSE_FROM:
        values = X.to_numpy(dtype=np.float64)
        if np.count_nonzero(values) < SPARSE_UP_TO * values.size:
            X = sparse.csr_array(values)
    if name in CLASSIFICATION:
        return Data(name, X, np.unique(y, return_inverse=True)[1], graph, splits, True)
    return Data(name, X, y.astype(float), graph, splits, False)


def _lucas() -> Data:
    X, y, graph, splits = eb.datasets.load_lucas(coordinates=True)
    # Tested on later sales, so stopped on the latest of those to train on: errors at random ones
    # would be too small.
    train = splits[0]["train"]
    train = train[np.argsort(X["sdate"].to_numpy()[train], kind="stable")]
    cut = len(train) - len(train) // 10
    split = {"train": train[:cut], "val": train[cut:], "test": splits[0]["test"]}
    coordinates = X[["x", "y"]].to_numpy(dtype=float)
    return Data("lucas", X.drop(columns=["x", "y"]), y, graph, [split], False, coordinates)


def _coauthor(name: str) -> Data:
    folder = home() / name
    stored = np.load(folder / "data.npz", allow_pickle=False)
    absent = {
        f"{kind}_{part}"
        for kind in ("adj", "attr")
        for part in ("data", "indices", "indptr", "shape")
    }
    if absent := (absent | {"labels"}) - set(stored.files):
        raise ValueError(f"{folder / 'data.npz'} lacks the arrays {sorted(absent)}.")

    def matrix(kind: str) -> sparse.csr_array:
        parts = (stored[f"{kind}_data"], stored[f"{kind}_indices"], stored[f"{kind}_indptr"])
        return sparse.csr_array(parts, shape=tuple(stored[f"{kind}_shape"]))

    X, y = matrix("attr").astype(np.float64), stored["labels"]
    if len(y) != X.shape[0]:
        raise ValueError(
            f"{folder / 'data.npz'}: labels has {len(y)} entries, attr {X.shape[0]} rows."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # these files list each edge once in some rows
        graph = eb.Graph.from_scipy(matrix("adj"))
    return Data(name, X, y, graph, _coauthor_splits(folder / "masks.json", len(y)), True)


def _coauthor_splits(masks: Path, n_nodes: int) -> list[dict[str, np.ndarray]]:
    """Read splits stored with the data, or draw 6 : 2 : 2: none were published."""
    if masks.is_file():
        stored = json.loads(masks.read_text())
        return [
            {part: np.asarray(nodes) for part, nodes in stored[key].items()}
            for key in sorted(stored, key=int)
        ]
    first, second = int(0.6 * n_nodes), int(0.8 * n_nodes)
    orders = [np.random.default_rng(seed).permutation(n_nodes) for seed in range(SPLITS)]
    return [{"train": o[:first], "val": o[first:second], "test": o[second:]} for o in orders]


def _arxiv(name: str) -> Data:
    import pandas

    folder = home() / name

    def read(path: str, dtype: type) -> np.ndarray:
        if not (folder / path).is_file():
            raise FileNotFoundError(f"{folder} has no {path}.")
        return pandas.read_csv(folder / path, header=None, dtype=dtype).to_numpy()

    X, y = (
        read("raw/node-feat.csv.gz", np.float32).astype(np.float64),
        read("raw/node-label.csv.gz", np.int64).ravel(),
    )
    if len(y) != len(X):
        raise ValueError(
            f"{folder}: node-label.csv.gz has {len(y)} rows, node-feat.csv.gz has {len(X)}."
        )
    edges = read("raw/edge.csv.gz", np.int64)
    if edges.min() < 0 or edges.max() >= len(X):
        raise ValueError(
            f"{folder / 'raw/edge.csv.gz'} names node {edges.max()}, "
            f"there are nodes 0 to {len(X) - 1}."
        )
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # citations go one way; their graph here does not
        graph = eb.Graph.from_edges(edges[:, 0], edges[:, 1], n_nodes=len(X))
    parts = {"train": "train", "val": "valid", "test": "test"}
    split = {
        part: read(f"split/time/{file}.csv.gz", np.int64).ravel() for part, file in parts.items()
    }
    for part, nodes in split.items():
        if nodes.min() < 0 or nodes.max() >= len(X):
            raise ValueError(
                f"{folder / 'split/time'}: {part!r} names row {nodes.max()}, "
                f"there are {len(X)} nodes."
            )
    return Data(name, X, y, graph, [split], True)


def rewired(data: Data, seed: int = 0) -> Data:
    """Return the data set with the far ends of all edges shuffled: a graph that knows nothing."""
    upper = sparse.triu(data.graph.adjacency).tocoo()
    ends = np.random.default_rng(seed).permutation(upper.coords[1])
    low, high = np.minimum(upper.coords[0], ends), np.maximum(upper.coords[0], ends)
    return data._replace(graph=eb.Graph.from_edges(low, high, n_nodes=data.graph.n_nodes))


def with_random_edges(data: Data, share: float = 0.3, seed: int = 0) -> tuple[Data, np.ndarray]:
    """Return the data set with a share of random edges added, and which edges are new."""
    upper = sparse.triu(data.graph.adjacency, 1).tocsr()
    rng, n, wanted = np.random.default_rng(seed), data.graph.n_nodes, round(share * upper.nnz)
    taken = set((upper.tocoo().coords[0].astype(np.int64) * n + upper.tocoo().coords[1]).tolist())
    added: list[int] = []
    while len(added) < wanted:
        low, high = np.sort(rng.integers(0, n, (wanted, 2)), axis=1).T
        fresh = (
            key
            for key, loop in zip((low * n + high).tolist(), low == high, strict=True)
            if not loop
        )
        for key in fresh:
            if key not in taken and len(added) < wanted:
                taken.add(key)
                added.append(key)
    low, high = np.divmod(np.array(added), n)
    new = sparse.csr_array((np.full(wanted, np.median(upper.data)), (low, high)), shape=upper.shape)
    graph = eb.Graph.from_scipy(upper + upper.T + new + new.T)
    source, target = sparse.triu(graph.adjacency, 1, format="csr").tocoo().coords
    return data._replace(graph=graph), np.isin(source.astype(np.int64) * n + target, added)
