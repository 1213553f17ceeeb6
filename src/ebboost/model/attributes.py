"""What a fit has learned: documented attributes, a summary, explanations, and a file of it."""

import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from html import escape
from inspect import signature
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from ebboost.backends.threads import threads_for
from ebboost.data import validation as checks
from ebboost.data.types import Array, TableLike
from ebboost.model import serialization
from ebboost.model.explain import Explanation, contribution_rows, explain, tree_table
from ebboost.model.frames import as_frame
from ebboost.model.inputs import fitted_table
from ebboost.model.predict import row_order
from ebboost.model.shards import explain_shards
from ebboost.model.state import FittedState
from ebboost.model.summary import summarize
from ebboost.propagation import EdgeWeights, Robust, threads


def learned(path: str, doc: str) -> Any:
    """Return a documented property over the fitted state."""
    read = attrgetter(path)
    return property(lambda self: read(self.state_), doc=doc)


def _importances(state: FittedState, own: bool) -> Array:
    """Shares of the columns of X in the gain of the trees, of the node or of its neighbours."""
    shares = []
    for one in state.candidates:  # those that have no trees count for nothing
        importances = one.ensemble.importances()
        is_directed = state.graph is not None and state.graph.outgoing is not None
        arguments = (one.column_origin, state.n_features, is_directed)
        total = one.pipeline.input_importances(importances, *arguments).sum()
        low_rank = one.pipeline.low_rank
        n_own = state.n_features if low_rank is None else low_rank.directions.shape[1]
        is_own = np.arange(importances.size) < n_own
        chosen = np.where(is_own if own else ~is_own, importances, 0.0)
        gains = one.pipeline.input_importances(chosen, *arguments)
        if total > 0:
            shares.append(gains / total)
    return np.mean(shares, axis=0) if shares else np.zeros(state.n_features)


class LearnedAttributes(BaseEstimator):
    """An estimator that shows what its fitted state has learned."""

    _state: FittedState
    n_jobs: int | None

    def summary(self) -> str:
        """Return a description of the fitted model: what was selected, and which labels it uses.

        Returns
        -------
        str

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.arange(50.0)[:, None]
        >>> model = eb.EBBSRegressor(5, early_stopping=False, random_state=0).fit(X, X[:, 0])
        >>> print(model.summary())
        EBBSRegressor: 5 rounds
        ended       all rounds were trained
        graph       none given
        intervals   none: every label was trained on
        """
        return summarize(self.state_)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        table: bool = False,
        source: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the fitted model to one file, without pickle; read it with :func:`ebboost.load`.

        Parameters
        ----------
        path : path
        table : bool, default=False
            Store the table fitted on too, so that predictions can be explained without it. Graph
            and labels are always stored.
        source : dict, optional
            Names of the id and label columns, of a model that was fitted from files; stored as
            ``state_.source``.

        Examples
        --------
        >>> import ebboost as eb, numpy as np, os, tempfile
        >>> X = np.arange(50.0)[:, None]
        >>> model = eb.EBBSRegressor(5, random_state=0).fit(X, X[:, 0])
        >>> path = os.path.join(tempfile.mkdtemp(), "model.ebb")
        >>> model.save(path)
        >>> bool((eb.load(path).predict() == model.predict()).all())
        True
        """
        state = self.state_
        if table and state.table is None:
            raise ValueError(
                "table=True, but this model has no table: it was loaded from a file or a pickle "
                "without one, or trained on a ParquetTable or a Dask collection."
            )
        state = state if source is None else replace(state, source=dict(source))
        serialization.save(state, path, table)

    def explain(self, nodes: ArrayLike, X: TableLike = None, *, decimals: int | None = None) -> Any:
        """Return the predictions of fitted nodes as a table of contributions that add up to them.

        Parameters
        ----------
        nodes : array-like of int
            Rows to explain.
        X : table, optional
            The table fitted on; needed after loading from a file or a pickle, which do not hold it.
        decimals : int, optional
            Round so that the contributions to a node add up to its rounded score, to the digit.

        Returns
        -------
        dataframe of pandas, polars or pyarrow, whichever is installed
            ``node``; ``part``: ``"base"``, ``"offset"``, ``"column"`` (the node's own, by
            TreeSHAP), ``"column of neighbours"``, ``"score of node"`` (the columns of another node,
            through the smoothing) or ``"label of node"`` (through the latent field); ``name`` of
            the column or row of the node; ``contribution`` to the score, that is before the inverse
            link.

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.arange(60.0)[:, None]
        >>> model = eb.EBBSRegressor(20, labels="none", random_state=0).fit(X, X[:, 0])
        >>> table = model.explain([30], decimals=2)
        >>> bool(np.isclose(table["contribution"].sum(), np.round(model.predict()[30], 2)))
        True
        """
        return as_frame(contribution_rows(self.explanations(nodes, X), self.state_, decimals))

    def explanations(self, nodes: ArrayLike, X: TableLike = None) -> list[Explanation]:
        """Return the predictions of fitted nodes as exact sums of contributions, to print or plot.

        Parameters
        ----------
        nodes : array-like of int
            Rows to explain.
        X : table, optional
            The table fitted on; needed after loading from a file or a pickle, which do not hold it.

        Returns
        -------
        list of Explanation
            For each node the contributions of its own columns, of its neighbours' columns and of
            its neighbours' labels to the score.

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.arange(60.0)[:, None]
        >>> model = eb.EBBSRegressor(20, labels="none", random_state=0).fit(X, X[:, 0])
        >>> one = model.explanations([30])[0]
        >>> bool(np.isclose(one.base + sum(one.own.values()), model.predict()[30]))
        True
        """
        state = self.state_
        order = row_order(state)
        order.check(X=X)
        nodes = order.rows(np.atleast_1d(nodes))
        if state.shards is not None:
            rows = checks.node_positions(nodes, state.shards.n_nodes)
            return explain_shards(state.shards, rows)
        table = fitted_table(state, X)
        rows = checks.node_positions(nodes, state.n_nodes)
        with threads(threads_for(state.n_jobs, table)):
            return explain(state, rows, table)

    def tree_features(self, X: TableLike = None) -> Any:
        """Return the columns that the trees of ``ensemble_`` use, by name: those of X and others.

        Parameters
        ----------
        X : table, optional
            The table fitted on; needed after loading from a file or a pickle, which do not hold it.

        Returns
        -------
        dataframe of pandas, polars or pyarrow, whichever is installed
            A row for each fitted node; categories are codes. For tools that read boosters, e.g.
            ``shap.TreeExplainer(model.ensemble_.booster)(model.tree_features())``.

        Examples
        --------
        >>> import ebboost as eb, pandas as pd
        >>> X = pd.DataFrame({"size": range(60)}, dtype=float)
        >>> g = eb.Graph.build_knn(X, k=2)
        >>> parts = {"neighbor_features": eb.NeighborFeatures(("mean",)), "random_state": 0}
        >>> model = eb.EBBSRegressor(5, **parts).fit(X, X["size"], graph=g)
        >>> "mean(size)" in model.tree_features().columns
        True
        """
        state = self.state_
        row_order(state).check(X=X)
        table = tree_table(state, fitted_table(state, X))
        values = table.values.toarray() if table.is_sparse else np.asarray(table.values)
        return as_frame(dict(zip(table.names, values.T, strict=True)))

    def edge_weights(self) -> EdgeWeights:
        """Return how robust smoothing weights each edge: the mean of ρ' over its steps.

        Returns
        -------
        EdgeWeights(source, target, weight)
            Each edge of the fitted graph once, source < target. 1: as it is, 0: removed.

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.repeat([[0.0], [1.0]], 30, axis=0)  # two paths, and one edge between them
        >>> g = eb.Graph.from_edges(np.arange(59), np.arange(1, 60))
        >>> robust = eb.Robust(penalty="geman-mcclure", scale=0.5)
        >>> m = eb.EBBSRegressor(50, smoothing=robust, labels="none", random_state=0)
        >>> source, target, weight = m.fit(X, 10 * X[:, 0], graph=g).edge_weights()
        >>> int(source[weight.argmin()]), int(target[weight.argmin()])
        (29, 30)
        """
        state = self.state_
        smoothing = state.candidate.smoothing
        if not isinstance(smoothing, Robust) or state.graph is None:
            text = "edge_weights needs smoothing=eb.Robust(...) and a graph; this model has"
            raise ValueError(f"{text} {smoothing}.")
        return smoothing.operator(state.graph).edge_weights(state.scores)

    @classmethod
    def from_state(cls, state: FittedState) -> Self:
        """Return an estimator with this fitted state.

        Parameters
        ----------
        state : FittedState

        Returns
        -------
        estimator
        """
        names = signature(cls).parameters
        parameters = {name: value for name, value in state.parameters.items() if name in names}
        model = cls(**parameters)
        model._state = state
        return model

    @property
    def state_(self) -> FittedState:
        """Everything that the fit has learned, with the current ``n_jobs``."""
        if "_state" not in self.__dict__:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with "
                "appropriate arguments before using this estimator."
            )
        state: FittedState = self._state
        if self.n_jobs == state.n_jobs:
            return state
        return replace(state, parameters={**state.parameters, "n_jobs": self.n_jobs})

    n_features_in_ = learned("n_features", "Number of columns of X.")
    n_iter_ = learned("n_iter", "Number of rounds; of several models, the mean.")
    best_iteration_ = learned("n_iter", "LightGBM's name of ``n_iter_``.")
    rounds_ = learned("rounds", "Number of rounds of each model: one model for each fold.")
    history_ = learned("history", "Losses, steps, cosines and seconds of the first model's rounds.")
    selection_ = learned(
        "selection",
        "The candidates of model selection, best first, as lists: candidate, folds, rounds, loss "
        "at labels that were not trained on, its standard_error, seconds.",
    )
    gain_ = learned(
        "gain",
        "What the graph is worth, a GraphGain: the error without and with it at labels that were "
        "not trained on; None where plain boosting was not among the candidates.",
    )
    best_candidate_ = learned("candidate.name", "Name of the selected candidate.")
    stop_reason_ = learned("stop_reason", "Why training ended.")
    smoothing_ = learned("candidate.smoothing", "The selected propagation, a Smoother or None.")
    labels_ = learned("candidate.labels", "The selected use of labels, a LatentField or None.")
    loss_ = learned("loss", "The loss, its scale estimated from the labels.")
    ensemble_ = learned("ensemble", "The trees; ``ensemble_.booster`` is an ordinary booster.")
    graph_ = learned("graph", "The graph fitted on; of several relations, their weighted sum.")
    coordinates_ = learned(
        "coordinates",
        "Points of the fitted rows and their graph: neighbors, weighted, and those compared.",
    )
    relation_strengths_ = learned("relation_strengths", "Strength of each relation.")
    cluster_ = learned("cluster", "Workers, reductions and bytes of a fit on a cluster.")
    init_score_ = learned("init_score", "Score of every node before the first tree.")
    scores_ = learned("scores", "Scores f of the fitted nodes.")
    propagated_scores_ = learned("propagated_scores", "P f of the fitted nodes.")
    raw_predictions_ = learned("raw_predictions", "Predictions before the inverse link.")
    validation_nodes_ = learned(
        "validation.nodes",
        "Nodes predicted without their labels: with several models all labelled nodes, out of "
        "fold, and those of eval_set.",
    )
    validation_target_ = learned("validation.target", "Labels of the validation nodes.")
    validation_prediction_ = learned(
        "validation.prediction", "Raw predictions of the validation nodes, without their labels."
    )

    @property
    def evals_result_(self) -> dict[str, dict[str, list[float]]]:
        """Losses of the first model's rounds in LightGBM's layout: by data, then by metric."""
        history = self.state_.history
        metric = self.state_.parameters.get("eval_metric", "loss")
        name = metric if isinstance(metric, str) else metric.__name__
        losses = {"training": {"loss": history["training"]}}
        return losses | {"validation": {name: history["validation"]}}

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns of X, where they have names."""
        if self.state_.feature_names is None:
            raise AttributeError("feature_names_in_: X had no column names at fit.")
        return self.state_.feature_names

    @property
    def feature_importances_(self) -> Array:
        """Share of each column of X in the gain of the trees: its own and that of neighbours."""
        return self.own_importances_ + self.neighbor_importances_

    @property
    def own_importances_(self) -> Array:
        """Share of each column of X in the gain of the trees, for the node itself."""
        return _importances(self.state_, own=True)

    @property
    def neighbor_importances_(self) -> Array:
        """Share of each column of X in the gain of the trees, in the columns of neighbours."""
        return _importances(self.state_, own=False)

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in self.__dict__

    def __copy__(self) -> Self:
        return self._with_attributes(vars(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy that shares the table fitted on, which nothing changes; a pickle has none."""
        if "_state" in vars(self):
            for one in (self._state, *self._state.members):
                memo |= {id(table): table for table in (one.table, one.encoded_table)}
        return self._with_attributes(
            {name: deepcopy(value, memo) for name, value in vars(self).items()}
        )

    def _with_attributes(self, attributes: Mapping[str, Any]) -> Self:
        new = type(self).__new__(type(self))
        new.__dict__.update(attributes)
        return new

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if "_state" in state:
            state = state | {"_state": self._state.without_table()}
        return state

    def _repr_html_inner(self) -> str:
        """scikit-learn's diagram and, once fitted, the summary below it."""
        diagram: str = super()._repr_html_inner()
        if not self.__sklearn_is_fitted__():
            return diagram
        style = "margin:0.5em 0 0;font-size:85%;white-space:pre-wrap"
        return f'{diagram}<pre style="{style}">{escape(self.summary())}</pre>'

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        return bundle | ({"text/html": self._repr_html_inner()} if "text/html" in bundle else {})
