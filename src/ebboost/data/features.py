"""Features computed from the graph as scikit-learn transformers, for any model."""

from abc import ABC
from collections.abc import Sequence
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ebboost.data.graph_columns import STATISTICS, frequent_levels, neighbor_columns, neighbor_names
from ebboost.data.low_rank import Seed
from ebboost.data.parameters import check_bool, check_number
from ebboost.data.reader import TableReader
from ebboost.data.spectral import spectral_columns, spectral_vectors
from ebboost.data.table import Table
from ebboost.data.types import Array
from ebboost.data.validation import check_graph
from ebboost.graph import Graph

Matrix: TypeAlias = Array | sparse.csr_array


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
        self._reader = TableReader()
        check_graph(graph, self._reader.fit(X).n_rows, X)
        self.graph_ = graph
        self.n_features_in_ = len(self._reader.names)
        return self

    def fit_transform(self, X: object, y: object = None, *, graph: Graph | None = None) -> Matrix:
        """Fit to ``X`` and ``graph``, then transform ``X``: see :meth:`fit`, :meth:`transform`."""
        return self.fit(X, y, graph=graph).transform(X)

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
        return np.asarray([*self._reader.names, *self._names], dtype=object)

    def _read(self, X: object, graph: Graph | None = None) -> Table:
        check_is_fitted(self, "graph_")
        table = self._reader.read(X)
        check_graph(graph or self.graph_, table.n_rows, X)
        if table.on_disk:
            np.asarray(table.values)  # raises an error that says what to do
        return table


class NeighborFeatures(_GraphTransformer):
    """Statistics of the neighbours' features as further columns, for any model.

    Parameters
    ----------
    statistics : sequence of {"mean", "min", "max"}, default=("mean", "min", "max")
        Statistics over the neighbours of a node, for every column of numbers. Categories, of text
        or numbers, have the share of each of their ten most frequent levels, or of nine and the
        others together, if "mean" is listed. Sparse tables stay sparse and get
        means only. Of a directed graph, incoming and outgoing neighbours have their own columns. Of
        rows with groups, numeric columns have the mean of the group, and neighbouring groups
        statistics of these means.
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

    def fit(self, X: object, y: object = None, *, graph: Graph | None = None) -> Self:  # noqa: D102
        self.check()
        super().fit(X, y, graph=graph)
        table = self._read(X)
        self._levels = frequent_levels(table)
        wanted = (self.statistics, self.degree, self._levels)
        if self.graph_.groups is not None:
            self._names = neighbor_columns(table, self.graph_, *wanted)[1]
        else:
            self._names = neighbor_names(table, *wanted, self.graph_.outgoing is not None)
        return self

    def transform(self, X: object, *, graph: Graph | None = None) -> Matrix:
        """Return ``X`` with the statistics of neighbours as further columns.

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
        table = self._read(X, graph)
        wanted = (self.statistics, self.degree, self._levels)
        added = neighbor_columns(table, graph or self.graph_, *wanted)
        return table.with_columns(*added).materialize().values


class SpectralFeatures(_GraphTransformer):
    """Spectral embedding of the graph as further columns, for any model.

    Half of the columns are ÂV with Â = D^{-1/2} A D^{-1/2} and V its leading singular vectors:
    nodes that are connected to the same part of the graph have similar values. The others are AU
    with those of A itself: nodes that are connected to the same hubs have similar values. They
    belong to the nodes of the fitted graph; other nodes have no embedding.

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
    embedding_ : ndarray of shape (n_nodes, n_components)
        The spectral embedding.
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

    def fit(self, X: object, y: object = None, *, graph: Graph | None = None) -> Self:  # noqa: D102
        self.check()
        super().fit(X, y, graph=graph)
        vectors = spectral_vectors(self.graph_, self.n_components, self.random_state)
        self.embedding_: Array = spectral_columns(self.graph_, vectors)
        self._names = [f"spectral{i}" for i in range(self.embedding_.shape[1])]
        return self

    def transform(self, X: object) -> Matrix:
        """Return ``X`` with the spectral embedding as further columns.

        Parameters
        ----------
        X : dataframe, array or sparse matrix of shape (n_nodes, n_features)
            The columns and nodes seen in :meth:`fit`.

        Returns
        -------
        ndarray or csr_array of shape (n_nodes, n_features + n_components)
            The columns named by :meth:`get_feature_names_out`.
        """
        values = self._read(X).values
        if sparse.issparse(values):
            return sparse.hstack([values, sparse.csr_array(self.embedding_)], format="csr")
        return np.hstack([values, self.embedding_])
