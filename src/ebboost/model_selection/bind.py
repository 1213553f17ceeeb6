"""Estimators that carry the graph, for tools of scikit-learn that pass rows of a table alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ebboost._common import Array, IntArray, LabelsLike, TableLike
from ebboost.data.coordinates import join_columns
from ebboost.data.reader import TableReader, split_geometry
from ebboost.estimators import BaseEBBS
from ebboost.graph import Graph

NODE = "node"  # the column with the number of the row
NO_ROWS = (
    f"X must be rows of bound.X as they are, whose last column {NODE!r} is the number of the row. "
    "Put transformers inside: eb.bind(make_pipeline(StandardScaler(), model), X, graph)."
)


def bind(model: Any, X: TableLike, graph: Graph | None = None, **data: Any) -> BoundEstimator:
    """Return an estimator that carries its table and graph, for the tools of scikit-learn.

    ``GridSearchCV``, ``cross_val_score``, ``CalibratedClassifierCV``, ``partial_dependence`` and
    others pass rows of a table. Let them pass rows of ``bound.X``, which is X with the number of
    each row in a last column, ``node``. Fits then see all rows and edges, and the labels of the
    rows that they are passed. Parameters are those of the model: ``{"learning_rate": [0.1, 0.3]}``.

    Parameters
    ----------
    model : EBBSRegressor, EBBSClassifier, or a Pipeline that ends with one
    X : dataframe or array of shape (n_rows, n_features)
        Every row.
    graph : Graph, optional
        Edges between the rows.
    **data
        ``coordinates``, ``groups``, ``time``, ``offset`` and ``exposure`` of all rows, as in
        ``model.fit``.

    Returns
    -------
    estimator

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> g = eb.Graph.build_knn(X, k=4)
    >>> bound = eb.bind(eb.EBBSRegressor.from_preset("fast", random_state=0), X, g)
    >>> search = GridSearchCV(bound, {"labels": ["none", "field"]}, cv=2)
    >>> bool(search.fit(bound.X, X[:, 0]).best_score_ > 0.5)
    True
    """
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if not isinstance(last, BaseEBBS):
        raise TypeError(
            "model must be an EBBSRegressor or EBBSClassifier, or a Pipeline that ends with one, "
            f"got {type(model).__name__}."
        )
    X, geometry = split_geometry(X)
    if geometry is not None and graph is None:
        data = {"coordinates": geometry} | data
    kind = BoundClassifier if is_classifier(last) else BoundRegressor
    return kind(model, X, {"graph": graph, **data})


class BoundEstimator(BaseEstimator):
    """A model with its table and graph; see :func:`bind`."""

    def __init__(self, model: Any, table: TableLike, data: dict[str, Any]) -> None:
        self.model, self.table, self.data = model, table, data
        is_frame = nw.dependencies.is_into_dataframe(table)
        known: Any = nw.from_native(table, eager_only=True) if is_frame else np.asarray(table)
        if sparse.issparse(table) or (is_frame and NODE in known.columns):
            raise ValueError(f"X must be dense, and have no column {NODE!r}: rename it.")
        node = np.arange(len(known))
        if is_frame:
            column = nw.new_series(NODE, node, None, backend=known.implementation)
            self.X = known.with_columns(column).to_native()
        else:
            self.X = np.column_stack([known, node])
        self._reader = TableReader()
        self._known = self._reader.fit(self.X).values

    def fit(self, X: TableLike, y: LabelsLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit on the labels of rows of ``bound.X``, with the table and the graph of all rows."""
        nodes, is_known = self._nodes(X)
        if not is_known:
            raise ValueError(NO_ROWS)
        data, n_rows = dict(self.data), len(self._known)
        labels = np.full(n_rows, None if is_classifier(self) else np.nan)
        labels[nodes] = np.asarray(y)
        if sample_weight is not None:
            data["sample_weight"] = np.zeros(n_rows)
            data["sample_weight"][nodes] = sample_weight
        if isinstance(self.model, Pipeline):
            data = {f"{self.model.steps[-1][0]}__{name}": value for name, value in data.items()}
        self.model_ = clone(self.model).fit(self.table, labels, **data)
        return self

    def predict(self, X: TableLike) -> NDArray[Any]:
        """Predict rows of ``bound.X``, those whose labels were fitted with their own label."""
        return self._last.model_.output.decode(self._raw(X))

    def _raw(self, X: TableLike) -> Array:
        """Raw predictions; with changed values, as in partial dependence, the field of the fit."""
        nodes, is_known = self._nodes(X)
        model = self._last.model_
        assert model.table is not None
        if is_known:
            return model.raw[nodes]
        is_frame = nw.dependencies.is_into_dataframe(X)
        rows = nw.from_native(X).drop(NODE).to_native() if is_frame else np.asarray(X)[:, :-1]
        rows = self.model_[:-1].transform(rows) if isinstance(self.model_, Pipeline) else rows
        if model.coordinates is not None and np.shape(rows)[1] == len(model.reader.names) - 2:
            rows = join_columns(rows, model.table.values[nodes, -2:], model.reader.names[-2:])
        values = model.table.values.copy()
        values[nodes] = model.reader.read(rows).values
        table = replace(model.table, values=values)
        components, raw = [], []
        for one in model.components:
            columns = one.features.transform(table, model.places)
            components.append(replace(one, scores=one.ensemble.predict(columns)))
        changed = replace(model, components=tuple(components))
        for one, scores, z in zip(components, changed.smoothed, model.fields, strict=True):
            if z is not None and model.places is not None:
                scores = scores + z[model.places.node_of_row]
            raw.append(one.to_raw(scores))
        return model.weighted(raw, model.offset)[nodes]

    def _nodes(self, X: TableLike) -> tuple[IntArray, bool]:
        """The numbers of rows, and whether they have the values of the table."""
        try:
            values = self._reader.read(X).values
        except ValueError as error:
            raise ValueError(f"{NO_ROWS} ({error})") from None
        if not np.isin(values[:, -1], self._known[:, -1]).all():
            raise ValueError(NO_ROWS)
        nodes = values[:, -1].astype(np.int64)
        return nodes, np.array_equal(values, self._known[nodes], equal_nan=True)

    @property
    def _last(self) -> BaseEBBS:
        check_is_fitted(self)
        return self.model_[-1] if isinstance(self.model_, Pipeline) else self.model_

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the model."""
        return self.model.get_params(deep)

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the model."""
        self.model.set_params(**params)
        return self

    def __sklearn_clone__(self) -> Self:
        return type(self)(clone(self.model), self.table, self.data)

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"bind({self.model!r}, X with {len(self._known)} rows)"


class BoundRegressor(RegressorMixin, BoundEstimator):
    """A regressor with its table and graph."""


class BoundClassifier(ClassifierMixin, BoundEstimator):
    """A classifier with its table and graph."""

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes."""
        return self._last.classes_

    def predict_proba(self, X: TableLike) -> Array:
        """Return the probability of every class, for rows of ``bound.X``."""
        return self._last.model_.output.apply_link(self._raw(X))
