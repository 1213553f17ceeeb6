"""The columns that trees are grown on: the user's, and those computed from the graph.

:class:`NeighborFeatures` and :class:`SpectralFeatures` are also transformers for any model.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import check_is_fitted

from ebboost._common import Array, IntArray, Seed, check_bool, check_number
from ebboost.data.checks import check_graph
from ebboost.data.neighbors import (
    STATISTICS,
    Block,
    Levels,
    Places,
    frequent_levels,
    neighbor_columns,
    on_nodes,
    smoothed_columns,
)
from ebboost.data.reader import TableReader
from ebboost.data.spectral import Vectors, spectral_columns, spectral_vectors
from ebboost.data.table import Table
from ebboost.graph import Graph
from ebboost.smoothing import Smoother

# Degrees by which coordinates are rotated: trees then split along more directions than two.
ANGLES = (22.5, 45.0, 67.5)


class _GraphTransformer(TransformerMixin, BaseEstimator, ABC):
    """Base class of transformers that add columns computed from the graph."""

    _names: list[str]  # of the columns that are added

    def fit(self, X: object, y: object = None, *, graph: Graph | None = None) -> Self:
        """Learn the columns of ``X`` and store the graph.

        Parameters
        ----------
        X : dataframe, array or sparse matrix of shape (n_nodes, n_features)
            Row i is node i.
        y : None
            Ignored.
        graph : Graph
            The graph of the rows. In a Pipeline it is passed as ``<step>__graph``.

        Returns
        -------
        self
            The fitted transformer.
        """
        name = type(self).__name__
        if not isinstance(graph, Graph):
            raise ValueError(
                f"{name} needs a graph: fit(X, graph=g); in a Pipeline {name.lower()}__graph=g."
            )
        self.check()
        self._reader = TableReader()
        table = self._reader.fit(X)
        check_graph(graph, table.n_rows, X)
        self.graph_ = graph
        self.n_features_in_ = len(self._reader.names)
        self._map = FeatureMap(**self._part()).learn(table, Places.of_rows(graph), 0)
        columns = self._map.transform(table, Places.of_rows(graph))
        self._names = list(columns.names)
        return self

    def check(self) -> None:
        """Raise ValueError if a parameter is not valid."""

    def _part(self) -> dict[str, Any]:
        """The transformer as a part of a :class:`FeatureMap`."""
        raise AssertionError

    def fit_transform(
        self, X: object, y: object = None, *, graph: Graph | None = None
    ) -> Array | sparse.csr_array:
        """Fit to ``X`` and ``graph``, then transform ``X``: see :meth:`fit`, :meth:`transform`."""
        return self.fit(X, y, graph=graph).transform(X)

    def transform(self, X: object, *, graph: Graph | None = None) -> Array | sparse.csr_array:
        """Return ``X`` with further columns.

        Parameters
        ----------
        X : dataframe, array or sparse matrix of shape (n_nodes, n_features)
            The columns seen in :meth:`fit`.
        graph : Graph, optional
            The graph of these rows; by default the one passed to :meth:`fit`.

        Returns
        -------
        ndarray or csr_array of shape (n_nodes, n_features_out)
            The columns named by :meth:`get_feature_names_out`.
        """
        check_is_fitted(self, "graph_")
        table = self._reader.read(X)
        own = graph or self.graph_
        check_graph(own, table.n_rows, X)
        return self._map.transform(table, Places.of_rows(own)).values

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the columns that ``transform`` returns.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str objects
            The names of the columns of ``X``, then names such as ``"mean(x0)"`` or ``"spectral0"``.
        """
        check_is_fitted(self, "graph_")
        return np.asarray(self._names, dtype=object)


class NeighborFeatures(_GraphTransformer):
    """Statistics of the neighbours' features as further columns, for any model.

    Parameters
    ----------
    statistics : sequence of {"mean", "min", "max"}, default=("mean", "min", "max")
        Statistics over the neighbours of a node, for every column of numbers. Categories have the
        share of each of their ten most frequent levels, or of nine and the others together, if
        "mean" is listed. Sparse tables stay sparse and get means only.
    degree : bool, default=True
        Add the degree of a node and the mean degree of its neighbours.

    Attributes
    ----------
    graph_ : Graph
        The graph passed to :meth:`fit`.
    n_features_in_ : int
        Number of columns of ``X``.

    See Also
    --------
    SpectralFeatures : Spectral embedding of the graph as columns.

    Examples
    --------
    >>> import ebboost as eb
    >>> path = eb.Graph.from_edges([0, 1], [1, 2])
    >>> features = eb.NeighborFeatures(statistics=["mean"], degree=False)
    >>> features.fit_transform([[1.0], [2.0], [5.0]], graph=path).tolist()
    [[1.0, 2.0], [2.0, 3.0], [5.0, 2.0]]

    In a Pipeline the graph is passed to ``fit`` and remembered:
    ``make_pipeline(eb.NeighborFeatures(), Ridge()).fit(X, y, neighborfeatures__graph=g)``.
    """

    def __init__(self, statistics: Sequence[str] = STATISTICS, degree: bool = True) -> None:
        self.statistics = statistics
        self.degree = degree

    def check(self) -> None:
        """Raise ValueError if a parameter is not valid."""
        unknown = [name for name in self.statistics if name not in STATISTICS]
        if isinstance(self.statistics, str) or unknown:
            raise ValueError(
                f"statistics must be a list out of {list(STATISTICS)}, got {self.statistics!r}."
            )
        check_bool("degree", self.degree)

    def _part(self) -> dict[str, Any]:
        return {"neighbors": self}


class SpectralFeatures(_GraphTransformer):
    """Spectral embedding of the graph as further columns, for any model.

    Half of the columns are ÂV with Â = D^{-1/2} A D^{-1/2} and V its leading singular vectors:
    nodes that are connected to the same part of the graph have similar values. The others are AU
    with those of A itself: nodes that are connected to the same hubs have similar values. They
    belong to the nodes of the fitted graph.

    Parameters
    ----------
    n_components : int, default=64
        Number of columns; fewer if the graph has fewer nodes.
    random_state : int, RandomState instance or None, default=None
        Seed of the randomized singular value decomposition.

    Attributes
    ----------
    graph_ : Graph
        The graph passed to :meth:`fit`.
    n_features_in_ : int
        Number of columns of ``X``.

    See Also
    --------
    NeighborFeatures : Statistics of the neighbours' features as columns.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> path = eb.Graph.from_edges(range(9), range(1, 10))
    >>> features = eb.SpectralFeatures(n_components=2, random_state=0)
    >>> features.fit_transform(np.zeros((10, 3)), graph=path).shape
    (10, 5)
    """

    def __init__(self, n_components: int = 64, random_state: Seed = None) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def check(self) -> None:
        """Raise ValueError if a parameter is not valid."""
        check_number("n_components", self.n_components, low=1, integer=True)

    def vectors(self, graph: Graph, seed: int) -> Vectors:
        """Return the singular vectors of a graph.

        Parameters
        ----------
        graph : Graph
        seed : int
            In place of ``random_state`` where that is None.

        Returns
        -------
        ndarray of shape (n_nodes, n_components)
        """
        if self.random_state is not None:
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return spectral_vectors(graph, self.n_components, seed)

    def _part(self) -> dict[str, Any]:
        return {"spectral": self}


@dataclass
class FeatureMap:
    """Transformation of a table into the columns of the trees, learned once.

    Parts that are None add no columns. ``own`` are the columns of the table: "all", "none", or
    "vectors", the leading singular vectors of a sparse table.
    """

    neighbors: NeighborFeatures | None = None
    smoothing: Smoother | None = None  # P_x of [X, P_x X]
    spectral: SpectralFeatures | None = None
    own: str = "all"
    #: Two columns of coordinates that are rotated, and what the second is multiplied by first.
    rotation: tuple[int, int, float] | None = None
    n_directions: int = 128
    hidden: tuple[int, ...] = ()  # columns of the table that trees do not see
    levels: Levels = field(default_factory=dict)
    vectors: Vectors | None = None  # of the graph
    rarity: Array | None = None  # of the columns of a sparse table
    directions: Array | None = None

    @property
    def uses_graph(self) -> bool:
        """Whether columns are computed from the graph."""
        return (self.neighbors, self.smoothing, self.spectral) != (None, None, None)

    def learn(self, table: Table, places: Places | None, seed: int) -> Self:
        """Return the transformation with what it learns from the table and the graph."""
        learned: dict[str, Any] = {}
        if self.own == "vectors":
            counts = np.bincount(table.values.indices, minlength=table.values.shape[1])
            rarity = np.log((table.n_rows + 1.0) / (counts + 1.0))
            most = max(min(self.n_directions, min(table.values.shape) - 1), 1)
            options = {"n_iter": 1, "n_oversamples": 8, "random_state": seed}
            rows = _unit_rows(table.values, rarity)
            learned = {"rarity": rarity, "directions": randomized_svd(rows, most, **options)[2].T}
        if self.neighbors is not None and not table.is_sparse:
            learned["levels"] = frequent_levels(table)
        if self.spectral is not None and places is not None and self.vectors is None:
            learned["vectors"] = self.spectral.vectors(places.in_one_group().graph, seed)
        return replace(self, **learned)

    def transform(self, table: Table, places: Places | None) -> Table:
        """Return the columns of the trees for a table and the graph of its rows."""
        own = self._own_columns(table)
        if places is None:
            return own if self.rotation is None else self._with_blocks(own)
        places = places.in_one_group()
        return self._with_blocks(own, self._node_blocks(own, places), places.rows)

    def at_nodes(self, new: Table, fitted: Table, places: Places, nodes: IntArray) -> Table:
        """Return the columns of new rows at nodes of the fitted graph, −1 for none."""
        own = self._own_columns(new)
        if not self.uses_graph:
            return self._with_blocks(own)
        blocks = self._node_blocks(self._own_columns(fitted), places.in_one_group())
        there = replace(places, node_of_row=nodes).in_one_group()
        return self._with_blocks(own, blocks, there.rows)

    def join(
        self, new: Table, fitted: Table, edges: sparse.csr_array, degrees: tuple[Array, Array]
    ) -> Table:
        """Return the columns of new rows with ``edges`` to the rows of the fitted table.

        ``degrees`` are those of the new and of the fitted nodes.
        """
        own = self._own_columns(new)
        blocks = []
        if self.neighbors is not None or self.smoothing is not None:
            every = self._own_columns(fitted)
        if self.neighbors is not None:
            nodes = on_nodes(every, None, self.levels)
            blocks.append(self._neighbors(edges, nodes, every, degrees))
        if self.smoothing is not None:
            parts = [one.values[:, own.numeric] for one in (every, own)]
            near, mine = (p.toarray() if sparse.issparse(p) else p for p in parts)
            n_known = (~np.isnan(near)).sum(axis=0)
            mean = np.where(n_known > 0, np.nansum(near, axis=0) / np.maximum(n_known, 1), np.nan)
            near, mine = (np.where(np.isnan(one), mean, one) for one in (near, mine))
            names = [f"smoothed({own.names[column]})" for column in own.numeric]
            origin = [own.origin[column] for column in own.numeric]
            blocks.append((self.smoothing.join(mine, edges, near, degrees[1]), names, origin))
        if self.spectral is not None and self.vectors is not None:
            blocks.append(spectral_columns(edges, *degrees, self.vectors))
        return self._with_blocks(own, blocks)

    def _with_blocks(
        self, own: Table, blocks: Sequence[Block] = (), rows: Callable[[Any], Any] | None = None
    ) -> Table:
        """The table with rotated coordinates, and with blocks of columns of the nodes.

        ``rows`` returns the values of each row's node; by default rows are nodes.
        """
        result = own if self.rotation is None else rotated(own, *self.rotation)
        for values, names, origin in blocks:
            result = result.with_columns(rows(values) if rows else values, names, origin)
        return result

    def _node_blocks(self, own: Table, places: Places) -> list[Block]:
        """Columns of all nodes, computed from the graph."""
        graph = places.graph
        degrees = (graph.degrees, graph.degrees)
        blocks: list[Block] = []
        if self.neighbors is not None:
            nodes = on_nodes(own, places, self.levels)
            if not places.are_rows:
                blocks.append((nodes[0], [f"group_mean({name})" for name in nodes[1]], nodes[2]))
            blocks.append(self._neighbors(graph.adjacency, nodes, own, degrees))
        if self.smoothing is not None and places.are_rows:
            blocks.append(smoothed_columns(own, self.smoothing, graph))
        if self.spectral is not None and self.vectors is not None:
            blocks.append(spectral_columns(graph.adjacency, *degrees, self.vectors))
        return blocks

    def _neighbors(
        self, weights: sparse.csr_array, nodes: Block, own: Table, degrees: tuple[Array, Array]
    ) -> Block:
        assert self.neighbors is not None
        n_numbers = len(own.names) if own.is_sparse else len(own.numeric)
        wanted = degrees if self.neighbors.degree else None
        return neighbor_columns(weights, nodes, n_numbers, self.neighbors.statistics, wanted)

    def _own_columns(self, table: Table) -> Table:
        if self.own == "none":
            return Table(np.zeros((table.n_rows, 0)), ())
        if self.own == "all" and not self.hidden:
            return table
        if self.own == "all":
            values = table.values.copy()
            values[:, list(self.hidden)] = 0.0
            return replace(table, values=values)
        assert self.rarity is not None
        projected = _unit_rows(table.values, self.rarity) @ self.directions
        names = tuple(f"direction({i})" for i in range(projected.shape[1]))
        return Table(projected, names, (), (-1,) * len(names))

    def input_importances(self, importances: Array, origin: Sequence[int], n_columns: int) -> Array:
        """Return importances of the features, added up over the columns they come from."""
        if self.directions is not None:  # shared among columns by the squares of its entries
            width = self.directions.shape[1]
            return np.asarray((self.directions**2) @ importances[:width])
        total = np.zeros(n_columns + 1)  # the last for columns of the graph alone, of origin −1
        np.add.at(total, list(origin), importances)
        return total[:-1]


def rotated(table: Table, first: int, second: int, scale: float) -> Table:
    """Return the table with two columns of coordinates rotated by some angles as more columns."""
    columns = table.values[:, [first, second]]
    columns = columns.toarray() if table.is_sparse else columns
    one, other = columns[:, 0], scale * columns[:, 1]
    blocks, names = [], []
    for angle in ANGLES:
        cosine, sine = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
        blocks += [cosine * one + sine * other, cosine * other - sine * one]
        names += [f"{table.names[column]} at {angle:g}°" for column in (first, second)]
    return table.with_columns(np.column_stack(blocks), names, [first, second] * len(ANGLES))


def _unit_rows(values: sparse.csr_array, rarity: Array) -> sparse.csr_array:
    """Columns weighted by their rarity, rows scaled to unit length, as is usual for words."""
    weighted = sparse.csr_array(values.astype(np.float64).multiply(rarity[None, :]))
    weighted.data[np.isnan(weighted.data)] = 0.0
    norm = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    return sparse.csr_array(sparse.diags_array(1.0 / np.where(norm > 0, norm, 1.0)) @ weighted)
