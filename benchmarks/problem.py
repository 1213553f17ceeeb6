"""Input and output of a method; test labels are hidden."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

import ebboost as eb
from benchmarks.data import Data


@dataclass(frozen=True)
class Problem:
    """One split of one data set, without its test labels.

    Attributes
    ----------
    y : ndarray
        Labels of train and validation nodes; NaN, or -1 for classes, everywhere else.
    """

    name: str
    X: Any
    y: np.ndarray
    graph: eb.Graph
    train: np.ndarray
    val: np.ndarray
    n_classes: int  # 0: regression
    coordinates: np.ndarray | None
    seed: int
    threads: int

    @classmethod
    def of(cls, data: Data, split: int, seed: int, threads: int = 1) -> "Problem":
        """Take a split and hide its test labels."""
        train, val = data.splits[split]["train"], data.splits[split]["val"]
        y = np.full(
            len(data.y),
            -1 if data.classes else np.nan,
            dtype=np.int64 if data.classes else np.float64,
        )
        for nodes in (train, val):
            y[nodes] = data.y[nodes]
        n_classes = int(data.y.max()) + 1 if data.classes else 0
        return cls(
            data.name, data.X, y, data.graph, train, val, n_classes, data.coordinates, seed, threads
        )

    @property
    def categorical(self) -> list[str]:
        """Names of the category columns."""
        return (
            [name for name, dtype in self.X.dtypes.items() if dtype == "category"]
            if self.is_table
            else []
        )

    @property
    def is_table(self) -> bool:
        """Whether X is a dataframe."""
        return hasattr(self.X, "iloc")

    def rows(self, nodes: np.ndarray, X: Any = None) -> Any:
        """Return rows of X, or of another table with a row for each node."""
        X = self.X if X is None else X
        X = sparse.csr_matrix(X) if sparse.issparse(X) else X
        return X.iloc[nodes] if hasattr(X, "iloc") else X[nodes]


def quality(classes: bool, predicted: np.ndarray, truth: np.ndarray) -> float:
    """Accuracy in percent of scores (n, c), or root mean squared error of values (n,)."""
    if classes:
        return 100.0 * float(np.mean(predicted.argmax(axis=1) == truth))
    return float(np.sqrt(np.mean((predicted - truth) ** 2)))


def scored(model: Any, data: Data, nodes: np.ndarray) -> float:
    """Quality of a fitted model's predictions at some nodes."""
    predicted = model.predict_proba(nodes=nodes) if data.classes else model.predict(nodes=nodes)
    return quality(data.classes, predicted, data.y[nodes])


@dataclass(frozen=True)
class Outcome:
    """What a method found.

    Attributes
    ----------
    predicted : ndarray
        For every node: values (n,), or a score for each class (n, c).
    interval : tuple of ndarray, optional
        Lower and upper ends for every node, made to hold the truth nine times in ten.
    curve : dict
        Losses by round: ``training`` and ``validation``.
    """

    predicted: np.ndarray
    interval: tuple[np.ndarray, np.ndarray] | None = None
    curve: dict[str, list[float]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    device: str = "cpu"
