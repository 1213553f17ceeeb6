"""Folds of rows with a known label: blocks of the graph or of time, and any of scikit-learn."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples

from ebboost._common import Array, IntArray, Seed, check_number
from ebboost.data import checks
from ebboost.data.labels import Labels, split_in_time
from ebboost.data.neighbors import Places
from ebboost.data.reader import column_of
from ebboost.graph import Graph
from ebboost.graph.ids import as_row_numbers, is_missing

Fold = tuple[IntArray, IntArray]


class Splitter(ABC):
    """Base class of splitters, which have the interface of scikit-learn's."""

    n_splits: int

    @abstractmethod
    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[Fold]:
        """Yield the numbers of rows to train on and to hold out, of each fold."""

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds; arguments are ignored."""
        return self.n_splits


@dataclass(frozen=True)
class GraphBlockFold(Splitter):
    """Folds that are blocks of the graph: most neighbours of a held-out row are held out too.

    Random folds measure how well gaps between known labels are filled. Blocks measure how well a
    new region is predicted: expect larger errors, which differ from block to block. The graph is
    bisected repeatedly along a breadth-first order, into blocks with as many labels each.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    graph : Graph, optional
        The graph of the rows. ``cross_validate`` passes its own.
    buffer : int, default=0
        Do not train on labels within so many edges of a held-out label: with 1 no label that is
        trained on is a neighbour of a held-out one.
    random_state : int, RandomState or None, default=None
        Fixes where the breadth-first orders start.

    Examples
    --------
    >>> import ebboost as eb
    >>> path = eb.Graph.from_edges([0, 1, 2, 3, 4], [1, 2, 3, 4, 5])
    >>> folds = eb.GraphBlockFold(3, random_state=0)
    >>> sorted(test.tolist() for train, test in folds.split(path))
    [[0, 1], [2, 3], [4, 5]]

    In scikit-learn: ``cross_val_score(Ridge(), X, y, cv=eb.GraphBlockFold(5, graph=g))``.
    """

    n_splits: int = 5
    _: KW_ONLY
    graph: Graph | None = None
    buffer: int = 0
    random_state: Seed = None

    def __post_init__(self) -> None:
        check_number("n_splits", self.n_splits, integer=True, low=2)
        check_number("buffer", self.buffer, integer=True, low=0)

    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[Fold]:
        """Yield the numbers of rows to train on and to hold out, of each fold.

        Parameters
        ----------
        X : Graph or table, optional
            The graph, if the splitter has none; of a table only the number of rows counts.
        y : array-like, optional
            Rows with an unknown label, NaN or None, are in no fold.
        groups : array-like, optional
            The node of each row, by id or number, where rows are not the nodes of the graph.
        """
        graph = X if isinstance(X, Graph) else self.graph
        if not isinstance(graph, Graph):
            raise ValueError("GraphBlockFold divides a graph: pass GraphBlockFold(5, graph=g).")
        nodes = np.arange(graph.n_nodes)
        if groups is not None:
            nodes = checks.RowOrder(None, graph).rows(groups, "groups")
            size = graph.n_nodes
            nodes = checks.node_positions(nodes, size, "groups", repeats=True, table="graph")
        if X is not None and X is not graph and _num_samples(X) != nodes.size:
            raise ValueError(
                f"X has {_num_samples(X)} rows, but graph has {graph.n_nodes} nodes: pass the node "
                "of each row as groups, or all rows, with NaN in y where the label is unknown."
            )
        rows = _labelled(y, nodes.size)
        nodes = nodes[rows]
        if rows.size < self.n_splits:
            raise ValueError(f"n_splits={self.n_splits} needs as many labels, got {rows.size}.")
        counted = np.bincount(nodes, minlength=graph.n_nodes)
        random = check_random_state(self.random_state)
        every = np.arange(graph.n_nodes)
        for block in _bisect(graph.adjacency, every, counted, self.n_splits, random):
            in_test = np.isin(nodes, block)
            near = np.zeros(graph.n_nodes)
            near[nodes[in_test]] = 1.0
            for _ in range(self.buffer):
                near = np.minimum(near + (graph.adjacency @ near > 0.0), 1.0)
            yield rows[~in_test & (near[nodes] == 0.0)], rows[in_test]


def _bisect(
    adjacency: sparse.csr_array,
    nodes: IntArray,
    counted: IntArray,
    n_parts: int,
    random: np.random.RandomState,
) -> list[IntArray]:
    """Divide ``nodes`` into parts of about equal counts."""
    if n_parts == 1 or nodes.size == 0:
        return [nodes] * n_parts
    ordered = nodes[_lengthwise_order(adjacency[nodes][:, nodes], random)]
    n_left = n_parts // 2
    running = np.cumsum(counted[ordered])
    share, rest = divmod(int(running[-1]), n_parts)
    n_counted = share * n_left + min(rest, n_left)
    cut = int(np.searchsorted(running, n_counted)) + 1 if n_counted else 0
    left = _bisect(adjacency, ordered[:cut], counted, n_left, random)
    return left + _bisect(adjacency, ordered[cut:], counted, n_parts - n_left, random)


def _lengthwise_order(adjacency: sparse.csr_array, random: np.random.RandomState) -> IntArray:
    """Breadth-first order from a peripheral node of each component, one after the other."""
    n_components, component = csgraph.connected_components(adjacency, directed=False)
    shuffled = random.permutation(adjacency.shape[0])
    starts = shuffled[np.unique(component[shuffled], return_index=True)[1]]
    order = _breadth_first(adjacency, starts)
    # The node that is reached last is peripheral; from there the order runs lengthwise.
    last = np.empty(n_components, dtype=np.int64)
    last[component[order]] = order
    order = _breadth_first(adjacency, last)
    return order[np.argsort(component[order], kind="stable")]


def _breadth_first(adjacency: sparse.csr_array, starts: IntArray) -> IntArray:
    """All nodes in breadth-first order, from an extra node with an edge to each start."""
    n = adjacency.shape[0]
    indices = np.concatenate([adjacency.indices, starts])
    indptr = np.concatenate([adjacency.indptr, [indices.size]])
    extended = sparse.csr_array((np.ones(indices.size), indices, indptr), shape=(n + 1, n + 1))
    order = csgraph.breadth_first_order(extended, n, directed=True, return_predecessors=False)
    return np.asarray(order[1:], dtype=np.int64)


@dataclass(frozen=True)
class TimeSplit(Splitter):
    """Folds in the order of time: each block of labels is predicted from earlier ones.

    Labels of one time are in one block.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds. Labels are divided into one block more; the first is never held out.
    time : column name or array-like of shape (n_rows,), optional
        Numbers or dates. ``cross_validate`` passes its own.

    Examples
    --------
    >>> import ebboost as eb
    >>> for train, test in eb.TimeSplit(2).split([2020, 2021, 2019, 2020, 2021, 2019]):
    ...     print(train, test)
    [2 5] [0 3]
    [0 2 3 5] [1 4]
    """

    n_splits: int = 5
    _: KW_ONLY
    time: Any = None

    def __post_init__(self) -> None:
        check_number("n_splits", self.n_splits, integer=True, low=1)

    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[Fold]:
        """Yield the numbers of rows to train on and to hold out, of each fold.

        Parameters
        ----------
        X : table or times, optional
            The table with the column of times; the times, if the splitter has none.
        y : array-like, optional
            Rows with an unknown label, NaN or None, are in no fold.
        groups : object
            Ignored.
        """
        if self.time is None and np.ndim(X) != 1:
            raise ValueError("TimeSplit divides rows by time: pass TimeSplit(5, time=...).")
        time = X if self.time is None else self.time
        times = checks.as_times(column_of(X, time, "time") if isinstance(time, str) else time)
        if X is not None and _num_samples(X) != times.size:
            raise ValueError(f"time has {times.size} entries, X has {_num_samples(X)} rows.")
        rows = _labelled(y, times.size)
        labels = Labels(rows, np.ones((rows.size, 1)), np.ones(rows.size))
        share = self.n_splits / (self.n_splits + 1)
        folds = split_in_time(labels, times[rows], self.n_splits, share)
        if folds.n_models < self.n_splits:
            raise ValueError(
                f"n_splits={self.n_splits}, but the times of the labels allow {folds.n_models} "
                "blocks with earlier labels: use fewer folds."
            )
        for train, test in zip(folds.training, folds.held_out, strict=True):
            yield rows[train], rows[test]


def _labelled(y: Any, n_rows: int) -> IntArray:
    """The numbers of the rows whose label is known."""
    if y is None:
        return np.arange(n_rows)
    if _num_samples(y) != n_rows:
        raise ValueError(f"y has {_num_samples(y)} entries, but there are {n_rows} rows.")
    return np.flatnonzero([not is_missing(value) for value in np.asarray(y).tolist()])


def folds_of(
    cv: Any,
    X: Any,
    y: NDArray[Any],
    *,
    classes: bool,
    places: Places | None,
    groups: ArrayLike | None,
    time: Array | None,
    random_state: Seed,
) -> list[Fold]:
    """Return the folds that ``cv`` stands for; labels ``y`` of all rows are None where unknown."""
    rows = _labelled(y, len(y))
    if isinstance(cv, Integral):
        kind = StratifiedKFold if classes else KFold
        cv = kind(int(cv), shuffle=True, random_state=random_state)
    if isinstance(cv, GraphBlockFold) and cv.graph is None and places is not None:
        pairs = cv.split(places.graph, y, as_row_numbers(places.node_of_row))
    elif isinstance(cv, Splitter):
        is_given = isinstance(cv, TimeSplit) and cv.time is None and time is not None
        pairs = cv.split(time if is_given else X, y)
    elif hasattr(cv, "split") and not isinstance(cv, str):
        own = None if groups is None else np.asarray(groups)[rows]
        with warnings.catch_warnings():  # of splitters that need no groups
            warnings.filterwarnings("ignore", "The groups parameter is ignored")
            found = list(cv.split(rows[:, None], np.asarray(y[rows].tolist()), own))
        pairs = ((rows[train], rows[test]) for train, test in found)
    elif isinstance(cv, Iterable) and not isinstance(cv, str):
        pairs = iter(cv)
    else:
        raise ValueError(
            "cv must be a number of folds, a splitter such as GraphBlockFold(5) or one of "
            f"scikit-learn, or pairs (train, test) of row numbers, got {cv!r}."
        )
    folds = []
    for number, pair in enumerate(pairs):
        parts = [checks.node_positions(part, len(y), f"cv, fold {number},") for part in pair]
        train, test = (part[np.isin(part, rows)] for part in parts)
        if not train.size or not test.size or np.isin(test, train).any():
            raise ValueError(
                f"cv, fold {number}, trains on {train.size} labels and holds out {test.size}: both "
                "must be 1 or more, of different rows."
            )
        folds.append((train, test))
    if not folds:
        raise ValueError("cv has no fold: pass at least one pair (train, test).")
    return folds
