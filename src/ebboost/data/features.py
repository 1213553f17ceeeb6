"""Features made from the graph: what a node's neighbours look like.

:class:`NeighborFeatures` is a scikit-learn transformer of its own, for any model. The estimators add the paper's
[X, P_x X] with :func:`with_smoothed_columns`.
"""

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import check_is_fitted

from ebboost.data.reader import TableReader
from ebboost.data.table import MAX_VALUE, Table
from ebboost.graph import Graph
from ebboost.propagation import Propagation, sweep_on

Array = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64] | sparse.csr_array
STATISTICS = ("mean", "min", "max")


class NewColumns(NamedTuple):
    """Columns to be added to a table, as :meth:`Table.with_columns` takes them."""

    blocks: list[Any]
    names: list[str]
    origin: list[int]

    @classmethod
    def concat(cls, parts: Iterable["NewColumns"]) -> "NewColumns":
        """Return columns beside each other."""
        joined = cls([], [], [])
        for part in parts:
            joined.blocks.extend(part.blocks)
            joined.names.extend(part.names)
            joined.origin.extend(part.origin)
        return joined


def with_smoothed_columns(table: Table, smoother: Propagation) -> Table:
    """Append P_x X. Where values are missing, the known ones around stand in: (P x₀/P m)·P1 with m the known mask.

    Columns of category codes have no P_x X and are left alone.
    """
    return table.with_columns(*smoothed_columns(table, lambda: smoother))


def smoothed_columns(table: Table, made: Callable[[], Propagation]) -> NewColumns:
    """Return P_x X; P_x is made when it is needed, and not kept."""
    categorical = set(table.categorical)
    numeric = [column for column in range(len(table.names)) if column not in categorical]
    blocks: list[Any] = []
    if table.is_sparse:
        smoother = made()
        if not getattr(smoother, "takes_sparse", False):
            raise ValueError(
                "X is sparse, and this feature_smoothing would fill it: use eb.Laplacian(...) with method='gradient' or "
                "'chebyshev', eb.Kernel(...), or None."
            )
        blocks = [smoother.apply(table.select(numeric).values)]
    elif table.is_distributed:
        smoother = made()
        for batch in table.batches(numeric):
            blocks.append(
                table.local_rows(
                    _smoothed_known(smoother, batch.values, _is_complete(batch.values))
                )
            )
    elif numeric:
        blocks = [SmoothedColumns(table, numeric, made)]
    return NewColumns(
        blocks, [f"smoothed({table.names[c]})" for c in numeric], [table.origin[c] for c in numeric]
    )


class SmoothedColumns:
    """P_x X for the rows that are asked for; computed for all of them when first asked, as it comes from far around."""

    def __init__(
        self, table: Table, numeric: Sequence[int], made: Callable[[], Propagation]
    ) -> None:
        self._table, self._numeric, self._made = table, numeric, made
        self.shape = (table.n_rows, len(numeric))
        self._smoothed: list[NDArray[Any]] = []

    @property
    def dtype(self) -> Any:
        """That of the table, or one that can hold what float32 cannot."""
        own = self._table.values.dtype
        return (
            own if own == np.float64 else np.result_type(*(part.dtype for part in self._computed()))
        )

    def _computed(self) -> list[NDArray[Any]]:
        if not self._smoothed:
            complete = all(
                _is_complete(batch.values) for batch in self._table.batches(self._numeric)
            )
            smoother, share = (
                self._made(),
                1 if complete else 2,
            )  # where values are missing, twice as much is held
            for batch in self._table.batches(self._numeric, share):
                self._smoothed.append(_smoothed_known(smoother, batch.values, complete))
        return self._smoothed

    def write(self, rows: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Write the values of these rows."""
        first = 0
        for part in self._computed():
            out[:, first : first + part.shape[1]] = part[rows]
            first += part.shape[1]

    def release(self) -> None:
        """Drop them; they are computed again when asked for."""
        self._smoothed = []


def _is_complete(values: NDArray[Any]) -> bool:
    """Whether no value is missing; without an array on the way."""
    return not np.isnan(np.min(values, initial=0.0))


def _smoothed_known(smoother: Propagation, values: NDArray[Any], complete: bool) -> NDArray[Any]:
    if complete:
        return _smoothed(smoother, values)
    known = ~np.isnan(values)
    reached = _smoothed(smoother, known.astype(values.dtype))
    total = _smoothed(smoother, np.where(known, values, 0.0))
    level = _smoothed(smoother, np.ones((len(values), 1), dtype=values.dtype))
    smoothed = total.astype(np.result_type(total, level), copy=False)
    smoothed *= level
    heard = np.abs(reached) > 1e-12
    np.divide(smoothed, reached, out=smoothed, where=heard)
    smoothed[~heard] = np.nan
    return smoothed


def _smoothed(smoother: Propagation, values: NDArray[Any]) -> NDArray[Any]:
    """P values, in the type of the values where that can hold it."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        smoothed = smoother.apply(values)
    if values.dtype == np.float64 or np.isfinite(smoothed).all():
        return smoothed
    return smoother.apply(
        values.astype(np.float64)
    )  # weights or columns beyond the range of float32


def with_neighbor_columns(
    table: Table, graph: Graph, statistics: Sequence[str], degree: bool
) -> Table:
    """Append statistics over neighbours of every column, and the degrees.

    Category codes are ranks of their sorted values and are treated as numbers. A sparse table stays sparse and has
    means only, as nearly every minimum is 0.
    """
    return table.with_columns(*neighbor_columns(table, graph, statistics, degree))


def neighbor_columns(
    table: Table, graph: Graph, statistics: Sequence[str], degree: bool
) -> NewColumns:
    """Return statistics over neighbours of every column, and the degrees."""
    adjacency, sums = _weights_and_sums(graph)
    taken, own = _taken(statistics, table.is_sparse), graph.degrees[:, None]
    if own.max(initial=0.0) > MAX_VALUE:
        own = np.minimum(own, MAX_VALUE)
    names = [f"{statistic}({name})" for statistic in taken for name in table.names]
    origin = [*table.origin] * len(taken)
    if degree:
        names, origin = [*names, "degree", "mean(degree)"], [*origin, -1, -1]
    blocks: list[Any] = []
    if taken and table.is_distributed:
        blocks = _spread_columns(table, adjacency, sums, taken)
    elif taken and table.is_sparse:
        blocks = [
            sparse.diags_array(1.0 / np.where(sums > 0, sums, 1.0)) @ (adjacency @ table.values)
        ] * len(taken)
    elif taken:
        blocks = [NeighborColumns(table.values, adjacency, sums, taken)]
    if degree and (table.is_distributed or table.is_sparse):
        columns = np.hstack([own, _all_rows(own, adjacency, sums, ["mean"], nothing=0.0)])
        blocks.append(sparse.csr_array(columns) if table.is_sparse else table.local_rows(columns))
    elif degree:
        blocks += [own, NeighborColumns(own, adjacency, sums, ["mean"], nothing=0.0)]
    return NewColumns(blocks, names, origin)


def _taken(statistics: Sequence[str], is_sparse: bool) -> list[str]:
    return [statistic for statistic in statistics if statistic == "mean" or not is_sparse]


class NeighborColumns:
    """Statistics over the neighbours of every column, for the rows that are asked for.

    Missing values count for nothing; where no neighbour is known, the answer is ``nothing``.
    """

    dtype = np.dtype(np.float64)

    def __init__(
        self,
        values: NDArray[Any],
        adjacency: Any,
        sums: Array,
        statistics: Sequence[str],
        nothing: float = np.nan,
    ) -> None:
        self._values, self._sweep = values, sweep_on(adjacency)
        self._by_rows: NDArray[Any] | None = (
            None  # the values, copied if their columns lie one after the other
        )
        self._sums = sums if _is_complete(values) else None
        self._statistics, self._nothing = list(statistics), nothing
        self.shape = (len(values), values.shape[1] * len(self._statistics))

    def write(self, rows: NDArray[np.int64], out: NDArray[np.float64]) -> None:
        """Write the values of these rows."""
        parts = np.split(out, len(self._statistics), axis=1)
        places = {name: self._statistics.index(name) for name in self._statistics}
        asked = [parts[places[name]] if name in places else None for name in STATISTICS]
        if self._by_rows is None:
            self._by_rows = np.ascontiguousarray(self._values)
        self._sweep.neighbor_statistics(self._by_rows, rows, self._sums, asked, self._nothing)
        for name, part in zip(self._statistics, parts, strict=True):
            if part is not parts[places[name]]:  # named twice
                part[...] = parts[places[name]]

    def release(self) -> None:
        """Drop the copy, if one was made."""
        self._by_rows = None


def _all_rows(
    values: NDArray[Any],
    adjacency: Any,
    sums: Array,
    statistics: Sequence[str],
    nothing: float = np.nan,
) -> Array:
    """The same for all rows at once; where rows are spread over processes, each makes its own."""

    def of_rows(block: sparse.csr_array) -> Array:
        columns = NeighborColumns(values, block, sums, statistics, nothing)
        columns.write(np.arange(len(values)), out := np.empty(columns.shape))
        return out

    found: Array = (
        adjacency.by_rows(of_rows) if hasattr(adjacency, "by_rows") else of_rows(adjacency)
    )
    return found


def _spread_columns(
    table: Table, adjacency: Any, sums: Array, statistics: Sequence[str]
) -> list[Array]:
    """One column after the other: what a worker holds of all rows must be little."""
    made = [
        table.local_rows(_all_rows(batch.values, adjacency, sums, statistics))
        for batch in table.batches(range(len(table.names)))
    ]
    return [
        np.hstack([columns[:, [place]] for columns in made]) for place in range(len(statistics))
    ]


def _weights_and_sums(graph: Graph) -> tuple[sparse.csr_array, Array]:
    """Weights to take means with, and their sums: as they are, or as shares where products with them might overflow."""
    adjacency, degrees = graph.adjacency, graph.degrees
    if (
        not sparse.issparse(adjacency)
        or not adjacency.nnz
        or (adjacency.data.max() < 1e100 and adjacency.data.min() > 1e-100)
    ):
        return adjacency, degrees
    shares = adjacency.data / np.repeat(degrees, np.diff(adjacency.indptr))
    shared = sparse.csr_array((shares, adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    return shared, (degrees > 0).astype(np.float64)


class _GraphTransformer(TransformerMixin, BaseEstimator):
    """Base class of transformers that add columns computed from the graph."""

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
        table = self._reader.fit(X)
        self._check_rows(table, graph)
        self.graph_ = graph
        self.n_features_in_ = len(self._reader.names)
        return self

    def fit_transform(self, X: object, y: object = None, *, graph: Graph | None = None) -> Matrix:
        """Fit to ``X`` and ``graph``, then transform ``X``: see :meth:`fit`, :meth:`transform`."""
        return self.fit(X, y, graph=graph).transform(X)

    def _read(self, X: object, graph: Graph | None = None) -> Table:
        check_is_fitted(self, "graph_")
        table = self._reader.read(X)
        self._check_rows(table, graph or self.graph_)
        return table

    def _check_rows(self, table: Table, graph: Graph) -> None:
        if graph.n_nodes != table.n_rows:
            raise ValueError(
                f"X has {table.n_rows} rows but graph has {graph.n_nodes} nodes: X needs one row per "
                "node, in the same order."
            )


class NeighborFeatures(_GraphTransformer):
    """Statistics of the neighbours' features as further columns, for any model.

    Parameters
    ----------
    statistics : sequence of {"mean", "min", "max"}, default=("mean", "min", "max")
        Statistics over the neighbours of a node, for every column; categories count by the rank of
        their value. Sparse tables stay sparse and get means only.
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
        """Raise ValueError if ``statistics`` is not a list of known statistics."""
        unknown = [name for name in self.statistics if name not in STATISTICS]
        if isinstance(self.statistics, str) or unknown:
            raise ValueError(
                f"statistics must be a list out of {list(STATISTICS)}, got {self.statistics!r}."
            )

    def fit(self, X: object, y: object = None, *, graph: Graph | None = None) -> Self:  # noqa: D102
        self.check()
        return super().fit(X, y, graph=graph)

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
        graph = graph or self.graph_
        added = with_neighbor_columns(table, graph, self.statistics, self.degree)
        return added.materialize().values

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the columns that :meth:`transform` returns.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str objects
            The names, such as ``"mean(x0)"``.
        """
        check_is_fitted(self, "graph_")
        names = list(self._reader.names)
        statistics = _taken(self.statistics, self._reader.is_sparse)
        out = names + [f"{statistic}({name})" for statistic in statistics for name in names]
        return np.asarray(out + ["degree", "mean(degree)"] * self.degree, dtype=object)


class SpectralFeatures(_GraphTransformer):
    """Spectral embedding of the graph as further columns, for any model.

    The columns are ÂV with Â = D^{-1/2} A D^{-1/2} and V its leading singular vectors: nodes that are
    connected to the same part of the graph have similar values. They belong to the nodes of the
    fitted graph; other nodes have no embedding.

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

    def __init__(
        self, n_components: int = 64, random_state: int | np.random.RandomState | None = None
    ) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: object, y: object = None, *, graph: Graph | None = None) -> Self:  # noqa: D102
        if not isinstance(self.n_components, Integral) or self.n_components < 1:
            raise ValueError(
                f"n_components must be an integer of at least 1, got {self.n_components!r}."
            )
        super().fit(X, y, graph=graph)
        unsigned = self.graph_.unsigned
        scale = 1.0 / np.sqrt(np.where(unsigned.degrees > 0, unsigned.degrees, 1.0))
        normalized = sparse.diags_array(scale) @ unsigned.adjacency @ sparse.diags_array(scale)
        vectors = _singular_vectors(normalized, self.n_components, 4, self.random_state)
        self.embedding_: Array = normalized @ vectors
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

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the columns that :meth:`transform` returns.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str objects
            The names of the columns of ``X``, then ``"spectral0"``, ``"spectral1"`` and so on.
        """
        check_is_fitted(self, "graph_")
        spectral = [f"spectral{i}" for i in range(self.embedding_.shape[1])]
        return np.asarray([*self._reader.names, *spectral], dtype=object)


class LowRank:
    """Sparse counts in a few dense columns: the leading singular directions of X.

    Trees split on one column at a time and see little in one of thousands of sparse counts; they see a lot in the
    directions that those columns share. Columns are weighed by the logarithm of their rarity and rows given unit length
    first, as is usual for counts of words.
    """

    def __init__(self, n_components: int) -> None:
        self.n_components = n_components
        self.rarity: Array = np.zeros(0)
        self.directions: Array = np.zeros((0, 0))

    def fit_transform(self, table: Table, seed: int) -> Table:
        """Learn the directions and project."""
        seen = np.bincount(table.values.indices, minlength=table.values.shape[1])
        self.rarity = np.log((table.n_rows + 1.0) / (seen + 1.0))
        self.directions = _singular_vectors(
            self._weighted(table.values), self.n_components, 1, seed
        )
        return self.transform(table)

    def transform(self, table: Table) -> Table:
        """Project another table."""
        projected = self._weighted(table.values) @ self.directions
        names = tuple(f"direction({i})" for i in range(projected.shape[1]))
        return Table(projected, names, (), (-1,) * len(names))

    def _weighted(self, values: sparse.csr_array) -> sparse.csr_array:
        weighted = sparse.csr_array(values.astype(np.float64).multiply(self.rarity[None, :]))
        weighted.data[np.isnan(weighted.data)] = 0.0
        length = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
        return sparse.csr_array(
            sparse.diags_array(1.0 / np.where(length > 0, length, 1.0)) @ weighted
        )


def _singular_vectors(
    matrix: sparse.csr_array,
    n_components: int,
    n_iter: int,
    random_state: int | np.random.RandomState | None,
) -> Array:
    """Return the leading right singular vectors as columns."""
    n_components = max(min(n_components, min(matrix.shape) - 1), 1)
    vectors: Array = randomized_svd(
        matrix, n_components, n_iter=n_iter, n_oversamples=8, random_state=random_state
    )[2].T
    return vectors
