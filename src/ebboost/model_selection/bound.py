"""An estimator with its graph, for tools of scikit-learn that pass rows of a table and no graph."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Self

import narwhals as nw
import narwhals.selectors as ncs
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.data import validation as checks
from ebboost.data.row_order import RowOrder
from ebboost.data.types import Array, LabelsLike, TableLike
from ebboost.estimators.base import BaseEBBS
from ebboost.estimators.classifier import EBBSClassifier
from ebboost.graph import Graph
from ebboost.graph.ids import as_row_numbers
from ebboost.model.predict import RowArguments, predict_rows, score_table

NODE = "node"


@dataclass(frozen=True)
class NodeTable:
    """A graph and the table of its nodes; copies share it, as neither changes."""

    graph: Graph
    values: Any  # dataframe of narwhals, or array
    names: tuple[str, ...] = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> "NodeTable":
        return self

    def split(self, X: TableLike) -> tuple[NDArray[np.int64], Any]:
        """Return the nodes of rows, and the table of all nodes with these rows in it."""
        if self.names:
            frame = nw.from_native(X, eager_only=True)
            nodes = frame[NODE].to_numpy().astype(np.int64)
            columns = {name: self.values[name].to_numpy().copy() for name in self.names}
            for name, column in columns.items():
                rows = frame[name].to_numpy()
                columns[name] = column.astype(np.result_type(column, rows), copy=False)
                columns[name][nodes] = rows
            series = [
                nw.new_series(name, column, None, backend=self.values.implementation)
                for name, column in columns.items()
            ]
            return nodes, self.values.with_columns(*series).to_native()
        rows = np.asarray(X)
        nodes = rows[:, -1].astype(np.int64)
        values = self.values.copy()
        values[nodes] = rows[:, :-1]
        return nodes, values


class BoundEstimator(BaseEstimator):
    """An estimator and the nodes of its graph; see :func:`bind`.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
    data : NodeTable
    """

    def __init__(self, model: BaseEBBS, data: NodeTable) -> None:
        self.model = model
        self.data = data

    @property
    def X(self) -> Any:
        """The table with a column ``node``, to pass to scikit-learn; its rows name their nodes."""
        table = self.data.values
        if self.data.names:
            nodes = np.arange(len(table))
            column = nw.new_series(NODE, nodes, None, backend=table.implementation)
            return table.with_columns(column).to_native()
        return np.column_stack([table, np.arange(len(table))])

    def fit(self, X: TableLike, y: LabelsLike) -> Self:
        """Fit on the labels of some rows, with the graph and the columns of all nodes.

        Parameters
        ----------
        X : rows of :attr:`X`
        y : array-like of shape (n_rows,)

        Returns
        -------
        self
        """
        RowOrder(X).check(y=y)
        nodes, table = self.data.split(X)
        rows = as_row_numbers(nodes)
        self.model_ = clone(self.model).fit(table, np.asarray(y), nodes=rows, graph=self.data.graph)
        self.n_features_in_ = self.model_.n_features_in_ + 1
        return self

    def _raw(self, X: TableLike) -> Array:
        """Raw predictions of rows: the trees see their values, the field is that of the fit.

        Labels were observed at the values of the fit. A field of their residuals at other values
        would take back what these change.
        """
        check_is_fitted(self)
        nodes, table = self.data.split(X)
        state = self.model_.state_
        graph = self.data.graph
        if any(isinstance(one.candidate.labels, MaskedLabels) for one in state.candidates):
            return predict_rows(state, RowArguments(table, graph, nodes, ([], []))).raw
        parts = []
        for one in state.candidates:
            field = one.final_scores - one.fixed_scores - one.propagated_scores
            parts.append(one.to_raw(score_table(one, table, graph).propagated + field))
        raw: Array = np.mean(parts, axis=0)[nodes]
        return raw

    def predict(self, X: TableLike) -> NDArray[Any]:
        """Predict rows, which may have other values than the table.

        The latent field is that of the labels and values of ``fit``.

        Parameters
        ----------
        X : rows of :attr:`X`

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return self.model_.state_.output.decode(self._raw(X))

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in self.__dict__


class BoundRegressor(RegressorMixin, BoundEstimator):
    """A regressor and the nodes of its graph."""


class BoundClassifier(ClassifierMixin, BoundEstimator):
    """A classifier and the nodes of its graph."""

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes."""
        classes: NDArray[Any] = self.model_.classes_
        return classes

    def predict_proba(self, X: TableLike) -> NDArray[np.float64]:
        """Return the probability of every class.

        Parameters
        ----------
        X : rows of :attr:`X`

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
        """
        return self.model_.state_.output.apply_link(self._raw(X))


def _for_sklearn(frame: Any) -> Any:
    """A dataframe of pandas, where it is installed, with numbers as floats.

    scikit-learn's partial dependence and permutation importance take no others.
    """
    frame = frame.with_columns(ncs.numeric().cast(nw.Float64))
    return nw.from_native(frame.to_pandas()) if find_spec("pandas") is not None else frame


def bind(model: BaseEBBS, graph: Graph, X: TableLike) -> BoundEstimator:
    """Return an estimator that carries its graph, for scikit-learn's tools.

    Cross-validation, grid search, permutation importance and partial dependence pass rows of a
    table. The table to pass is ``bound.X``: it has one more column, ``node``. Fits see the graph
    and the columns of all nodes, and the labels of the rows that they are passed; parameters are
    those of ``model`` with the prefix ``model__``. Rows with other values than those of the fit,
    as in partial dependence, change what trees and smoothing add; the latent field stays.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
    graph : Graph
    X : dataframe or array of shape (n_nodes, n_features)
        Every node. ``bound.X`` is a dataframe of pandas, where that is installed, with numbers as
        floats: scikit-learn's inspection takes no others.

    Returns
    -------
    BoundEstimator

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> g = eb.Graph.build_knn(X, k=4)
    >>> model = eb.EBBSRegressor(20, smoothing=None, labels="field", n_folds=1, random_state=0)
    >>> bound = eb.bind(model, g, X)
    >>> bool(cross_val_score(bound, bound.X, X[:, 0], cv=3).min() > 0.5)
    True
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"graph must be a Graph, got {type(graph).__name__}.")
    if sparse.issparse(X):
        raise TypeError("X must be a dataframe or an array, got a sparse matrix.")
    if nw.dependencies.is_into_dataframe(X):
        values = _for_sklearn(nw.from_native(X, eager_only=True))
        names = tuple(values.columns)
        if NODE in names:
            raise ValueError(f"X must not have a column {NODE!r}: rename it.")
    else:
        values = np.asarray(X)
        names = ()
    if len(values) != graph.n_nodes:
        raise ValueError(f"X must have {graph.n_nodes} rows, one for each node, got {len(values)}.")
    checks.check_graph(graph, graph.n_nodes, X)
    kind = BoundClassifier if isinstance(model, EBBSClassifier) else BoundRegressor
    return kind(model, NodeTable(graph, values, names))
