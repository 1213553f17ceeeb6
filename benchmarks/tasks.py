"""The tasks of all benchmarks: a table, a graph, known labels, and rows to predict.

Data sets are read from the folder ``EBBOOST_DATA``, or ``shared/datasets`` beside the project;
Lucas, ncovr and elect80 ship with the package. With ``on="test"`` the labels of train and
validation rows are known and the test rows are predicted. With ``on="val"`` only the labels of
train rows are known, and the validation rows are predicted: choices are made by these.
"""

import json
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

import ebboost as eb

Array = np.ndarray
Split = dict[str, Array]
NUMBERS = ("county", "avazu", "house", "lucas", "elect80", "kchouse", "twitch_de")
FIVE = range(5)
# θ of a negative binomial for the homicides, by out-of-fold scores of LightGBM on each split.
NCOVR_THETA = (8.2946, 7.4862, 6.9372, 8.0035, 8.0472)


def home() -> Path:
    """Return the folder that holds one folder per data set."""
    default = Path(__file__).parents[2] / "shared" / "datasets"
    return Path(os.environ.get("EBBOOST_DATA", default))


@dataclass(frozen=True)
class Task:
    """One fit, and the rows whose predictions are compared with the truth.

    Attributes
    ----------
    known, eval_set, test : ndarray
        Rows to train on, rows to validate with (their labels are known, too), and rows to predict.
    metric : {"RMSE", "log-loss", "error rate", "Poisson deviance", "negative binomial deviance"}
    parameters : dict
        Parameters of ebboost's estimator.
    arguments : dict
        Arguments of fit: exposure, groups, or the names of columns with coordinates.
    coordinates : ndarray of shape (n, 2), optional
        Where the rows are, in a plane, for methods that need it.
    new_rows : bool
        Whether the rows of ``test`` are left out of the fit.
    """

    name: str
    X: Any
    y: Array
    graph: eb.Graph | None
    known: Array
    test: Array
    eval_set: Array | None = None
    metric: str = "RMSE"
    theta: float = 1.0  # of the negative binomial deviance
    parameters: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    coordinates: Array | None = None
    new_rows: bool = False

    @property
    def n_classes(self) -> int:
        """The number of classes; 0 for numbers and counts."""
        return int(self.y.max()) + 1 if self.metric in ("log-loss", "error rate") else 0

    @property
    def is_count(self) -> bool:
        """Whether counts are predicted."""
        return self.metric.endswith("deviance")

    def error(self, predictions: Array) -> float:
        """Return the error of predictions (or probabilities) of the test rows."""
        truth = self.y[self.test]
        if self.metric == "RMSE":
            return float(np.sqrt(np.mean((predictions - truth) ** 2)))
        if self.metric == "log-loss":
            stated = predictions[np.arange(truth.size), truth]
            return float(-np.mean(np.log(np.maximum(stated, 1e-15))))
        if self.metric == "error rate":
            return float(np.mean(predictions.argmax(axis=1) != truth))
        if self.metric == "Poisson deviance":
            log_ratio = np.log(np.where(truth > 0, truth, 1.0) / predictions) * (truth > 0)
            return float(np.mean(2.0 * (truth * log_ratio - truth + predictions)))
        loss = eb.NegativeBinomial(self.theta)
        return 0.5 * float(loss.deviance(np.log(predictions)[:, None], truth[:, None]).mean())


@dataclass(frozen=True)
class Data:
    """A data set: columns, labels, graph, and splits into train, val and test nodes."""

    X: Any
    y: Array
    graph: eb.Graph
    splits: list[Split]
    coordinates: Array | None = None


def random_split(n_nodes: int, seed: int) -> Split:
    """Return 60, 20 and 20 % of the nodes."""
    order = np.random.default_rng(seed).permutation(n_nodes)
    parts = np.split(order, [int(0.6 * n_nodes), int(0.8 * n_nodes)])
    return dict(zip(("train", "val", "test"), parts, strict=True))


def stored_splits(name: str) -> list[Split]:
    """Return the splits in ``masks.json``."""
    stored = json.loads((home() / name / "masks.json").read_text())
    parts = [stored[number] for number in sorted(stored, key=int)]
    return [{name: np.asarray(rows) for name, rows in split.items()} for split in parts]


@lru_cache(maxsize=2)
def read(name: str) -> Data:
    """Read a data set."""
    if name == "lucas":
        X, y, graph, splits = eb.datasets.load_lucas(coordinates=True)
        # Tested on later sales, so stopped on the latest of those to train on.
        train = splits[0]["train"]
        train = train[np.argsort(X["sdate"].to_numpy()[train], kind="stable")]
        cut = len(train) - len(train) // 10
        split = {"train": train[:cut], "val": train[cut:], "test": splits[0]["test"]}
        places = X[["x", "y"]].to_numpy(dtype=float)
        return Data(X.drop(columns=["x", "y"]), y, graph, [split], places)
    if name.startswith("coauthor"):
        stored = np.load(home() / name / "data.npz")

        def matrix(kind: str) -> sparse.csr_array:
            parts = (stored[f"{kind}_data"], stored[f"{kind}_indices"], stored[f"{kind}_indptr"])
            return sparse.csr_array(parts, shape=tuple(stored[f"{kind}_shape"]))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # these files list each edge once in some rows
            graph = eb.Graph.from_scipy(matrix("adj"))
        return Data(matrix("attr").astype(np.float64), stored["labels"], graph, stored_splits(name))
    if name in ("county", "avazu", "house", "wiki"):
        X, y, graph, splits = eb.datasets.load_folder(home() / name)
        if name == "wiki":
            X = sparse.csr_array(X.to_numpy(dtype=np.float64))
        return Data(X, y.astype(float), graph, splits)
    table = pd.read_csv(next((home() / name).glob("nodes.csv*")))
    if name == "kchouse":
        y = np.log(table.pop("price").to_numpy(dtype=float))
        date = pd.to_datetime(table.pop("date"))
        table["days"] = (date - date.min()).dt.days
        places = table[["long", "lat"]].to_numpy() * [np.cos(np.radians(47.5)), 1.0]
        graph = eb.Graph.build_knn(places, k=5)
        return Data(table.drop(columns="id"), y, graph, stored_splits(name), places)
    table = table.sort_values("id", ignore_index=True) if name == "twitch_de" else table
    edges = pd.read_csv(home() / name / "edges.csv").to_numpy()
    graph = eb.Graph.from_edges(edges[:, 0], edges[:, 1], n_nodes=len(table))
    if name == "twitch_de":
        y = np.log1p(table.pop("views").to_numpy(dtype=float))
        return Data(table.drop(columns="id").astype(float), y, graph, stored_splits(name))
    y = table.pop("pc_turnout").to_numpy(dtype=float)
    splits = [random_split(len(table), seed) for seed in FIVE]
    return Data(table.drop(columns="FIPS", errors="ignore").astype(float), y, graph, splits)


def rewired(graph: eb.Graph, seed: int = 0) -> eb.Graph:
    """Return a graph with the far ends of all edges shuffled: it knows nothing."""
    low, high = sparse.triu(graph.adjacency).tocoo().coords
    high = np.random.default_rng(seed).permutation(high)
    return eb.Graph.from_edges(np.minimum(low, high), np.maximum(low, high), n_nodes=graph.n_nodes)


def on_split(task: Task, split: Split, on: str) -> Task:
    """Return a task with the known and test nodes of a split."""
    if on == "val":
        return replace(task, known=split["train"], test=split["val"])
    return replace(task, known=split["train"], eval_set=split["val"], test=split["test"])


def numbers(name: str, split: int, on: str) -> Task:
    """Return a regression on an official split."""
    data = read(name)
    nothing = np.zeros(0, dtype=int)
    task = Task(f"{name} {split}", data.X, data.y, data.graph, nothing, nothing)
    if name == "kchouse":  # its coordinates are columns of the table
        task = replace(task, coordinates=data.coordinates)
    return on_split(task, data.splits[split], on)


def lucas_with_coordinates(split: int, on: str) -> Task:
    """Return the house sales with coordinates in place of the graph."""
    data = read("lucas")
    X = data.X.assign(x=data.coordinates[:, 0], y=data.coordinates[:, 1])
    task = numbers("lucas", split, on)
    where = {"coordinates": ["x", "y"]}
    return replace(task, X=X, graph=None, coordinates=data.coordinates, arguments=where)


def temperatures(split: int, on: str) -> Task:
    """Return the temperatures of land under clouds."""
    table = pd.read_csv(next((home() / "modis").glob("*.csv*")))
    known = np.flatnonzero(table["split"] == "train")
    test = np.flatnonzero(table["split"] == "test")
    if on == "val":
        known, test = np.split(np.random.default_rng(split).permutation(known), [-20_000])
    X = table[["lon", "lat"]]
    places = X.to_numpy() * [np.cos(np.radians(X["lat"].mean())), 1.0]
    y = table["temp"].to_numpy(dtype=float)
    where = {"coordinates": ["lon", "lat"]}
    return Task("modis", X, y, None, known, test, coordinates=places, arguments=where)


def rewired_numbers(name: str, split: int, on: str) -> Task:
    """Return a regression on a graph that knows nothing."""
    task = numbers(name, split, on)
    return replace(task, name=f"rewired {task.name}", graph=rewired(read(name).graph))


def few_labels(n_labels: int, seed: int, on: str) -> Task:
    """Return the log prices of Lucas, with few labels."""
    data = read("lucas")
    split = data.splits[0]
    pool = split["train"] if on == "val" else np.concatenate([split["train"], split["val"]])
    known = np.random.default_rng(seed).choice(np.sort(pool), n_labels, replace=False)
    test = split["val" if on == "val" else "test"]
    return Task(f"lucas, {n_labels} labels {seed}", data.X, data.y, data.graph, known, test)


def thirds(name: str, split: int, on: str) -> Task:
    """Return tertiles of the labels as classes, with the labels of ``train`` alone."""
    task = numbers(name, split, on)
    classes = np.searchsorted(np.quantile(task.y, [1 / 3, 2 / 3]), task.y)
    return replace(task, name=f"{name} thirds {split}", y=classes, metric="log-loss", eval_set=None)


def walls(split: int, on: str) -> Task:
    """Return the outer walls of Lucas, 2 000 labels of all nodes."""
    X, wall, graph, _ = eb.datasets.load_lucas("wall")
    y = np.unique(wall, return_inverse=True)[1]
    known = np.sort(np.random.default_rng(split).choice(y.size, 2_000, replace=False))
    rest = np.random.default_rng(99).permutation(np.setdiff1d(np.arange(y.size), known))
    test = np.sort(rest[:5_000] if on == "val" else rest[5_000:])
    return Task(f"walls {split}", X, y, graph, known, test, metric="log-loss")


def coauthor(name: str, split: int, on: str) -> Task:
    """Return the fields of authors."""
    task = replace(numbers(name, split, on), metric="error rate")
    return replace(task, y=np.asarray(task.y, dtype=int))


def homicides(split: int, on: str) -> Task:
    """Return counts with exposure."""
    X, y, graph, splits = eb.datasets.load_ncovr(coordinates=True)
    exposure = X.pop("population").to_numpy()
    parts = splits[split]
    known = parts["train"] if on == "val" else np.concatenate([parts["train"], parts["val"]])
    return Task(
        f"ncovr {split}",
        X.drop(columns=["lon", "lat"]),
        y,
        graph,
        known,
        parts["val" if on == "val" else "test"],
        metric="negative binomial deviance",
        theta=NCOVR_THETA[split],
        parameters={"loss": "negative_binomial"},
        arguments={"exposure": exposure},
    )


@lru_cache(maxsize=1)
def _policies() -> tuple[Any, ...]:
    folder = home() / "bemtpl"
    table = pd.read_csv(folder / "policies.csv.gz")
    places = pd.read_csv(folder / "postcodes.csv").set_index("postcode")
    nearest = eb.Graph.build_knn(places[["lat", "long"]].to_numpy(), 6, "haversine")
    postcodes = eb.Graph(nearest.adjacency, places.index.to_numpy())
    exposure = table.pop("expo").to_numpy(dtype=float)
    y = table.pop("nclaims").to_numpy(dtype=float)
    code = table.pop("postcode").to_numpy()
    return table.drop(columns=["id", "amount"]), y, postcodes, exposure, code


def policies(kind: str, split: int, on: str) -> Task:
    """Return claims of policies that share postcodes, on random rows or unseen postcodes."""
    X, y, postcodes, exposure, code = _policies()
    parts = random_split(len(X), split)
    if kind == "unseen":
        stored = json.loads((home() / "bemtpl" / "unseen_postcodes.json").read_text())
        parts = {p: np.flatnonzero(np.isin(code, own)) for p, own in stored[str(split)].items()}
    nothing = np.zeros(0, dtype=int)
    task = Task(
        f"bemtpl {kind} {split}",
        X,
        y,
        postcodes,
        nothing,
        nothing,
        metric="Poisson deviance",
        parameters={"loss": "poisson"},
        arguments={"exposure": exposure, "groups": code},
        new_rows=True,
    )
    return on_split(task, parts, on)


#: By group: how many splits there are, and the function that returns the task of one.
TASKS: dict[str, tuple[int, Callable[[int, str], Task]]] = {
    **{n: (1 if n == "lucas" else 5, lambda s, on, n=n: numbers(n, s, on)) for n in NUMBERS},
    "lucas, coordinates": (1, lucas_with_coordinates),
    "modis": (1, temperatures),
    "wiki": (5, lambda s, on: numbers("wiki", s, on)),
    "elect80 thirds": (1, lambda s, on: thirds("elect80", s, on)),
    "kchouse thirds": (1, lambda s, on: thirds("kchouse", s, on)),
    "walls": (1, walls),
    "coauthor_cs": (5, lambda s, on: coauthor("coauthor_cs", s, on)),
    "coauthor_phy": (2, lambda s, on: coauthor("coauthor_phy", s, on)),
    "ncovr": (5, homicides),
    **{f"lucas {n}": (5, lambda s, on, n=n: few_labels(n, s, on)) for n in (1_000, 300, 100)},
    "bemtpl random": (5, lambda s, on: policies("random", s, on)),
    "bemtpl unseen": (5, lambda s, on: policies("unseen", s, on)),
    **{
        f"rewired {n}": (1 if n == "lucas" else 5, lambda s, on, n=n: rewired_numbers(n, s, on))
        for n in NUMBERS
    },
}


def tasks(groups: list[str], splits: list[int] | None, on: str) -> Iterator[tuple[str, int, Task]]:
    """Yield the tasks of some groups, read one after the other."""
    for group in groups:
        count, make = TASKS[group]
        for split in range(count):
            if splits is None or split in splits:
                yield group, split, make(split, on)


def fit_and_predict(task: Task, **parameters: Any) -> tuple[Any, Array]:
    """Fit ebboost with its default or other parameters; return the model and its predictions."""
    kind = eb.EBBSClassifier if task.n_classes else eb.EBBSRegressor
    model = kind(**{"random_state": 0, "n_jobs": 1, **task.parameters, **parameters})
    X, rows, known, eval_set = task.X, task.arguments, task.known, task.eval_set
    if task.new_rows:
        kept = known if eval_set is None else np.concatenate([known, eval_set])
        X, rows = X.iloc[kept], {name: values[kept] for name, values in rows.items()}
        known = np.arange(known.size)
        eval_set = None if eval_set is None else np.arange(known.size, kept.size)
    validation = None if eval_set is None else (eval_set, task.y[task.eval_set])
    model.fit(X, task.y[task.known], nodes=known, graph=task.graph, eval_set=validation, **rows)
    if task.new_rows:
        test = {name: values[task.test] for name, values in task.arguments.items()}
        return model, model.predict(task.X.iloc[task.test], **test)
    if task.n_classes:
        return model, model.predict_proba(nodes=task.test)
    return model, model.predict(nodes=task.test)
