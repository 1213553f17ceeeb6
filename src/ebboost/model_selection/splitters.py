"""Folds of rows with a known label: blocks of the graph or of time, and any of scikit-learn."""

from __future__ import annotations

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
from scipy.spatial import cKDTree
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples

from ebboost._common import Array, IntArray, Seed, check_number
from ebboost.data import checks
from ebboost.data.distances import Distances, deal, matched_folds, squares
from ebboost.data.labels import Labels, split_in_time
from ebboost.data.neighbors import Places
from ebboost.data.reader import column_of
from ebboost.data.row_order import RowOrder
from ebboost.formatting import count
from ebboost.graph import Graph
from ebboost.graph._build import as_points
from ebboost.graph.ids import as_row_numbers, is_missing
from ebboost.kriging import correlation_range

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
            nodes = RowOrder(None, graph).rows(groups, "groups")
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
class DistanceFold(Splitter):
    """Folds whose held-out labels are as far from the others as rows to predict are from labels.

    Labels are held out in blocks; their size is the one with which the distances to the nearest
    label that is trained on are most alike (nearest-neighbour distance matching, kNNDM). The
    default of ``fit`` draws such folds where the rows to predict are far from labels.

    Parameters
    ----------
    n_splits : int, default=5
        The most folds; fewer if blocks must be large.
    to : array-like of int, optional
        Rows to predict; default: those without a label.
    coordinates : array-like of shape (n_rows, 2), optional
        Points of a plane. ``cross_validate`` passes its own, or its graph.
    graph : Graph, optional
        The graph of the rows: distances are then hops.
    random_state : int, RandomState or None, default=None
        Fixes the blocks.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> points = np.random.default_rng(0).random((600, 2))
    >>> y = np.where(points[:, 0] < 0.6, 1.0, np.nan)  # labels in the west
    >>> folds = eb.DistanceFold(3, coordinates=points, random_state=0)
    >>> 2 <= len(list(folds.split(None, y))) <= 3
    True
    """

    n_splits: int = 5
    _: KW_ONLY
    to: ArrayLike | None = None
    coordinates: Any = None
    graph: Graph | None = None
    random_state: Seed = None

    def __post_init__(self) -> None:
        check_number("n_splits", self.n_splits, integer=True, low=2)

    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[Fold]:
        """Yield the numbers of rows to train on and to hold out, of each fold.

        Parameters
        ----------
        X : Graph, Distances or table, optional
            The graph, if the splitter has none; of a table only the number of rows counts.
        y : array-like, optional
            Rows with an unknown label, NaN or None, are those to predict.
        groups : object
            Ignored.
        """
        distances = _distances(self.coordinates, self.graph, X, "DistanceFold")
        rows = _labelled(y, distances.n_rows)
        to = np.setdiff1d(np.arange(distances.n_rows), rows)
        if self.to is not None:
            to = checks.node_positions(self.to, distances.n_rows, "to")
        if not to.size or rows.size < 2 * self.n_splits:
            raise ValueError(
                f"DistanceFold needs rows to predict and {2 * self.n_splits} labels: there are "
                f"{to.size} and {rows.size}. Pass to=rows, or y with NaN where it is unknown."
            )
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        random = np.random.default_rng(seed)
        far = distances.nearest(to, rows)[0]
        fold, _ = matched_folds(distances, rows, far, self.n_splits, random)
        for number in np.unique(fold).tolist():
            yield rows[fold != number], rows[fold == number]


@dataclass(frozen=True)
class BlockFold(Splitter):
    """Folds of square blocks of the map.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds; blocks are dealt to them at random.
    size : "range" or float, default="range"
        The side of a block, in units of the coordinates; of latitude and longitude in kilometres.
        ``"range"``: where the correlation of labels has fallen to 5 %, three times the range of a
        Gaussian process with an exponential covariance; at most a third of the map.
    buffer : float, default=0.0
        Do not train on labels that are nearer to a held-out one than this.
    coordinates : array-like of shape (n_rows, 2), optional
        Points of a plane. ``cross_validate`` passes its own.
    random_state : int, RandomState or None, default=None
        Fixes the blocks and how they are dealt.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> points = np.random.default_rng(0).random((200, 2))
    >>> folds = eb.BlockFold(4, size=0.2, buffer=0.05, coordinates=points, random_state=0)
    >>> len(list(folds.split(points)))
    4
    """

    n_splits: int = 5
    _: KW_ONLY
    size: float | str = "range"
    buffer: float = 0.0
    coordinates: Any = None
    random_state: Seed = None

    def __post_init__(self) -> None:
        check_number("n_splits", self.n_splits, integer=True, low=2)
        check_number("buffer", self.buffer, low=0.0)
        if self.size != "range":
            check_number("size", self.size, low=0.0, closed="neither")

    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[Fold]:
        """Yield the numbers of rows to train on and to hold out, of each fold.

        Parameters
        ----------
        X : Distances or table, optional
            Of a table only the number of rows counts.
        y : array-like, optional
            Rows with an unknown label, NaN or None, are in no fold.
        groups : object
            Ignored.
        """
        distances = _distances(self.coordinates, None, X, "BlockFold")
        points = distances.points
        if points is None:
            raise ValueError("BlockFold needs coordinates: for a graph use GraphBlockFold.")
        rows = _labelled(y, distances.n_rows)
        points = distances.scale * points[rows]
        random = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        size = self.size if self.size != "range" else _range(points, y, rows)
        block = squares(points, float(size), random)
        if block.max() + 1 < self.n_splits:
            raise ValueError(
                f"n_splits={self.n_splits} needs as many blocks, and labels are in "
                f"{count(int(block.max()) + 1, 'block')} of size {float(size):.3g}: pass a smaller "
                "size."
            )
        fold = deal(block, self.n_splits, random)
        for number in range(self.n_splits):
            held_out, others = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
            if self.buffer:
                gap = cKDTree(points[held_out]).query(points[others])[0]
                others = others[gap >= self.buffer]
            if not others.size:
                raise ValueError(
                    f"buffer={self.buffer:g} leaves no label to train on: pass a smaller one."
                )
            yield rows[others], rows[held_out]


def _range(points: Array, y: Any, rows: IntArray) -> float:
    """Where the correlation of labels has fallen to 5 %."""
    try:
        values = np.asarray(np.asarray(y)[rows].tolist(), dtype=np.float64)
    except (TypeError, ValueError, IndexError):
        raise ValueError('size="range" needs labels y that are numbers: pass a size.') from None
    return correlation_range(points, values)


def _distances(coordinates: Any, graph: Graph | None, X: Any, name: str) -> Distances:
    """The distances that a splitter was given, or that were passed to ``split``."""
    if isinstance(X, Distances):
        return X
    if coordinates is not None:
        return Distances(as_points(coordinates, "euclidean", "coordinates"))
    graph = X if isinstance(X, Graph) else graph
    if graph is None:
        more = " or graph=g" if name == "DistanceFold" else ""
        raise ValueError(f"{name} needs points: pass {name}(5, coordinates=points){more}.")
    return Distances(None, graph, np.arange(graph.n_nodes))


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
    distances: Distances | None,
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
    elif isinstance(cv, (DistanceFold, BlockFold)) and cv.coordinates is None:
        pairs = cv.split(distances, y)
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
