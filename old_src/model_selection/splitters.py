"""Folds of labelled nodes: random, by a scikit-learn splitter, blocks of the graph or of time."""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import check_random_state

from ebboost.data import validation as checks
from ebboost.data.parameters import check_number
from ebboost.data.splitting import latest_blocks
from ebboost.graph import Graph, Graphs

Positions = NDArray[np.int64]
Fold = tuple[Positions, Positions]
RandomState = int | np.random.RandomState | None


@runtime_checkable
class Splitter(Protocol):
    """A splitter of scikit-learn."""

    def split(self, X: Any, y: Any, groups: Any) -> Iterable[tuple[Any, Any]]:
        """Yield positions of training and test rows."""


@dataclass(frozen=True)
class GraphBlockFold:
    """Folds that are blocks of the graph: most neighbours of a held-out node are held out too.

    In random folds a held-out node has neighbours with known labels: they measure how well gaps
    are filled. Blocks measure how well a new region is predicted. The graph is bisected repeatedly
    along a breadth-first order that starts at its periphery, so that blocks are connected and
    their sizes differ by at most a tenth. Small components, isolated nodes among them, are not
    split; they are distributed over the folds.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    random_state : int, RandomState or None, default=None
        Fixes where the breadth-first orders start.

    Examples
    --------
    >>> import ebboost as eb
    >>> path = eb.Graph.from_edges([0, 1, 2, 3, 4], [1, 2, 3, 4, 5])
    >>> folds = eb.GraphBlockFold(3, random_state=0)
    >>> sorted(test.tolist() for train, test in folds.split(path))
    [[0, 1], [2, 3], [4, 5]]
    """

    n_splits: int = 5
    random_state: RandomState = None

    def __post_init__(self) -> None:
        check_number("n_splits", self.n_splits, integer=True, low=2)

    def blocks(self, graph: Graph, nodes: ArrayLike | None = None) -> Positions:
        """Return the block of each node.

        Parameters
        ----------
        graph : Graph
            The graph to divide.
        nodes : array-like of int or bool, optional
            The nodes that count for the size of a block, such as the labelled ones. Default: all.

        Returns
        -------
        ndarray of shape (n_nodes,)
            A number from 0 to ``n_splits - 1`` for each node.
        """
        if not isinstance(graph, Graph):
            raise TypeError(f"graph must be an ebboost.Graph, got {type(graph)}.")
        counted = np.zeros(graph.n_nodes, dtype=np.int64)
        counted[_chosen(graph, nodes)] = 1
        kind = "node" if nodes is None else "labelled node"
        _check_enough(int(counted.sum()), self.n_splits, "n_splits", kind)
        random = check_random_state(self.random_state)
        component = graph.component_labels
        size = np.bincount(component, counted, minlength=graph.n_components)
        # Splitting a component this small would hardly improve the balance.
        is_small = size <= 0.1 * size.sum() / self.n_splits

        block = np.empty(graph.n_nodes, dtype=np.int64)
        in_small = is_small[component]
        large = random.permutation(np.flatnonzero(~in_small))
        parts = _bisect(graph.adjacency, large, counted, self.n_splits, random)
        for number, part in enumerate(parts):
            block[part] = number
        loads = np.bincount(block[large], counted[large], self.n_splits)
        n_members = np.bincount(component, minlength=graph.n_components)
        order = np.flatnonzero(is_small)[np.argsort(-size[is_small], kind="stable")]
        block_of_component = np.zeros(graph.n_components, dtype=np.int64)
        block_of_component[order] = _distribute(size[order], n_members[order], loads)
        block[in_small] = block_of_component[component[in_small]]
        return block

    def split(self, graph: Graph, nodes: ArrayLike | None = None) -> Iterator[Fold]:
        """Yield the training and test nodes of each fold.

        Parameters
        ----------
        graph : Graph
            The graph to divide.
        nodes : array-like of int or bool, optional
            The nodes to divide, such as the labelled ones. Default: all.

        Yields
        ------
        train, test : ndarray of int
            Row positions.
        """
        block = self.blocks(graph, nodes)
        chosen = _chosen(graph, nodes)
        for number in range(self.n_splits):
            in_test = block[chosen] == number
            yield chosen[~in_test], chosen[in_test]


@dataclass(frozen=True)
class TimeSplit:
    """Folds in the order of time: each block of nodes is held out from training on earlier ones.

    Nodes of one time are in one block, so that all training nodes are earlier than those held out.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 1: the nodes are divided into one block more, the first of which
        is never held out. Fewer folds if few times differ.

    Examples
    --------
    >>> import ebboost as eb
    >>> for train, test in eb.TimeSplit(2).split([2020, 2021, 2019, 2020, 2021, 2019]):
    ...     print(train, test)
    [2 5] [0 3]
    [0 2 3 5] [1 4]
    """

    n_splits: int = 5

    def __post_init__(self) -> None:
        check_number("n_splits", self.n_splits, integer=True, low=1)

    def split(self, time: ArrayLike, nodes: ArrayLike | None = None) -> Iterator[Fold]:
        """Yield the training and test nodes of each fold.

        Parameters
        ----------
        time : array-like of shape (n_nodes,)
            Numbers or dates.
        nodes : array-like of int or bool, optional
            The nodes to divide, such as the labelled ones. Default: all.

        Yields
        ------
        train, test : ndarray of int
            Row positions.
        """
        values = checks.as_times(time)
        chosen = np.arange(values.size)
        if nodes is not None:
            chosen = checks.node_positions(nodes, values.size)
        share = self.n_splits / (self.n_splits + 1)
        block = latest_blocks(values[chosen], share, self.n_splits)
        if (block >= 0).all():
            raise ValueError("time must differ among the nodes to divide.")
        for number in range(block.max() + 1):
            yield chosen[block < number], chosen[block == number]


def _chosen(graph: Graph, nodes: ArrayLike | None) -> Positions:
    """Positions of the nodes that count, by default all."""
    return (
        np.arange(graph.n_nodes) if nodes is None else checks.node_positions(nodes, graph.n_nodes)
    )


def _distribute(sizes: Positions, n_members: Positions, loads: Positions) -> list[int]:
    """The block of each component, the largest first: always the block with the smallest load."""
    smallest = [(int(load), 0, number) for number, load in enumerate(loads)]
    heapq.heapify(smallest)
    blocks = []
    for size, members in zip(sizes, n_members, strict=True):
        load, n_nodes, number = smallest[0]
        heapq.heapreplace(smallest, (load + int(size), n_nodes + int(members), number))
        blocks.append(number)
    return blocks


def _bisect(
    adjacency: sparse.csr_array,
    nodes: Positions,
    counted: Positions,
    n_parts: int,
    random: np.random.RandomState,
) -> list[Positions]:
    """Divide ``nodes`` into parts whose counts differ by at most one."""
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


def _lengthwise_order(adjacency: sparse.csr_array, random: np.random.RandomState) -> Positions:
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


def _breadth_first(adjacency: sparse.csr_array, starts: Positions) -> Positions:
    """All nodes in breadth-first order, from an extra node with an edge to each start."""
    n = adjacency.shape[0]
    indices = np.concatenate([adjacency.indices, starts])
    indptr = np.concatenate([adjacency.indptr, [indices.size]])
    extended = sparse.csr_array((np.ones(indices.size), indices, indptr), shape=(n + 1, n + 1))
    order = csgraph.breadth_first_order(extended, n, directed=True, return_predecessors=False)
    return np.asarray(order[1:], dtype=np.int64)


# ---------------------------------------------------------------------- folds of labelled nodes


def labelled_folds(
    cv: object,
    nodes: Positions,
    values: NDArray[Any],
    graph: Graphs | None,
    n_rows: int,
    *,
    stratify: bool,
    groups: ArrayLike | None = None,
    time: ArrayLike | None = None,
    random_state: RandomState = None,
) -> list[Fold]:
    """Return row positions of labelled nodes to train on and to hold out, fold by fold."""
    if isinstance(cv, TimeSplit):
        if time is None:
            raise ValueError("cv=TimeSplit(...) divides the nodes by time: pass time.")
        return list(cv.split(time, nodes))
    if groups is not None and (not isinstance(cv, Splitter) or isinstance(cv, GraphBlockFold)):
        raise ValueError(
            f"groups needs a grouped splitter in cv, such as GroupKFold(5), got cv={cv!r}."
        )
    if isinstance(cv, GraphBlockFold):
        if graph is None:
            raise ValueError("cv=GraphBlockFold(...) divides the graph: pass graph.")
        return list(cv.split(checks.as_single_graph(graph), nodes))
    if isinstance(cv, Integral):
        check_number("cv", cv, integer=True, low=2)
        _check_enough(nodes.size, int(cv), "cv", "labelled node")
        kind = StratifiedKFold if stratify else KFold
        cv = kind(int(cv), shuffle=True, random_state=random_state)
    if isinstance(cv, Splitter) and not isinstance(cv, str):
        pairs = _split(cv, nodes, values, groups, n_rows)
        folds = [(nodes[train], nodes[test]) for train, test in pairs]
    elif isinstance(cv, Iterable) and not isinstance(cv, (str, bytes, Mapping)):
        folds = [_check_pair(pair, number, nodes, n_rows) for number, pair in enumerate(cv)]
    else:
        raise ValueError(
            "cv must be a number of folds, a scikit-learn splitter, an iterable of (train, test) "
            f"row positions, GraphBlockFold() or TimeSplit(), got {cv!r}."
        )
    if not folds:
        raise ValueError("cv has no fold: pass at least one pair (train, test).")
    for number, (train, test) in enumerate(folds):
        _check_fold(number, train, test)
    return folds


def _split(
    splitter: Splitter,
    nodes: Positions,
    values: NDArray[Any],
    groups: ArrayLike | None,
    n_rows: int,
) -> list[tuple[Any, Any]]:
    """The folds of a scikit-learn splitter, as positions among the labelled nodes."""
    if groups is not None:
        groups = np.asarray(groups)
        if groups.shape != (n_rows,):
            raise ValueError(
                f"groups must have an entry for each of the {n_rows} rows of X, got shape "
                f"{groups.shape}."
            )
        groups = groups[nodes]
    try:
        return list(splitter.split(nodes[:, None], values, groups))
    except ValueError as error:
        if groups is None and "groups" in str(error):
            raise ValueError(
                f"cv={splitter!r} needs groups: pass groups=, the group of each row of X."
            ) from None
        raise ValueError(
            f"cv={splitter!r} cannot split the {nodes.size} labelled nodes: {error}"
        ) from None


def _check_pair(pair: object, number: int, nodes: Positions, n_rows: int) -> Fold:
    """A pair (train, test) as positions of labelled nodes."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ValueError(
            f"cv[{number}] must be a pair (train, test) of row positions, got {type(pair)}."
        )
    train = checks.node_positions(pair[0], n_rows, f"cv[{number}][0]")
    test = checks.node_positions(pair[1], n_rows, f"cv[{number}][1]")
    return train[np.isin(train, nodes)], test[np.isin(test, nodes)]


def _check_fold(number: int, train: Positions, test: Positions) -> None:
    for part, name in ((train, "trains on"), (test, "holds out")):
        if not part.size:
            raise ValueError(
                f"Fold {number} of cv {name} no labelled node: y must have labels there."
            )
    shared = np.intersect1d(train, test)
    if shared.size:
        raise ValueError(
            f"Fold {number} of cv has {shared.size} node(s), such as row {int(shared[0])}, in both "
            "train and test: leave them out of one."
        )


def _check_enough(n_nodes: int, n_splits: int, name: str, kind: str) -> None:
    if n_nodes < n_splits:
        raise ValueError(
            f"{name}={n_splits} folds need at least one {kind} each, there are {n_nodes}: use "
            "fewer folds."
        )
