"""The part of an estimator that is fitted: learned attributes and methods over a fitted state."""

import os
from collections.abc import Mapping
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
from ebboost.data.types import LabelledNodes, TableLike
from ebboost.graph import Graphs
from ebboost.model import serialization
from ebboost.model.attach import Attachment
from ebboost.model.distribution import PredictiveDistribution
from ebboost.model.explain import Explanation, contribution_rows, explain
from ebboost.model.frames import as_frame
from ebboost.model.predict import Offset, RowArguments, fitted_table, predict_rows, with_coordinates
from ebboost.model.serving import Predictor
from ebboost.model.spread import (
    class_distribution,
    distribution_of,
    require_spread,
    spread_of_rows,
    variance_columns,
)
from ebboost.model.state import FittedState
from ebboost.model.summary import summarize
from ebboost.propagation import EdgeWeights, Robust, threads

Array = NDArray[np.float64]


def learned(path: str, doc: str) -> Any:
    """Return a documented property over the fitted state."""
    read = attrgetter(path)
    return property(lambda self: read(self.state_), doc=doc)


def _importances(state: FittedState, own: bool) -> Array:
    """Shares of the columns of X in the gain of the trees, of the node or of its neighbours."""
    shares = []
    for one in state.candidates:
        importances = one.ensemble.importances()
        arguments = (one.column_origin, state.n_features)
        total = one.pipeline.input_importances(importances, *arguments).sum()
        is_own = np.arange(importances.size) < state.n_features
        if one.pipeline.low_rank is not None:
            is_own[:] = True
        chosen = np.where(is_own if own else ~is_own, importances, 0.0)
        gains = one.pipeline.input_importances(chosen, *arguments)
        shares.append(gains / total if total > 0 else gains)
    return np.mean(shares, axis=0)


class FittedModel(BaseEstimator):
    """A model with a fitted state; the base class of the estimators."""

    _state: FittedState
    n_jobs: int | None

    def predictor(
        self,
        X: TableLike = None,
        *,
        graph: Graphs | None = None,
        new_labels: LabelledNodes | None = None,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> Predictor:
        """Return cached predictions of every node, for look-up and incremental updates.

        Parameters
        ----------
        X, graph, new_labels, offset, exposure
            As in :meth:`predict`; default: the fitted nodes.

        Returns
        -------
        Predictor
            ``predict(nodes)`` looks predictions up, ``update(nodes, rows)`` replaces rows; threads
            may share one.

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.random.default_rng(0).normal(size=(300, 3))
        >>> g = eb.Graph.build_knn(X[:, :1], k=5)
        >>> m = eb.EBBSRegressor(20, smoothing=eb.Laplacian(), labels="none", random_state=0)
        >>> predictor = m.fit(X, X[:, 0], graph=g).predictor()
        >>> before = predictor.predict([7])
        >>> predictor.update([7], X[[7]] + 1.0)
        >>> bool(predictor.predict([7]) > before)
        True
        """
        return Predictor(self.state_, X, graph, new_labels, Offset(offset, exposure))

    def predict_distribution(
        self,
        X: TableLike = None,
        *,
        graph: Graphs | None = None,
        nodes: ArrayLike | None = None,
        new_labels: LabelledNodes | None = None,
        attach: Attachment | None = None,
        coordinates: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> PredictiveDistribution:
        """Return the predictive distribution of each node: mean, variance, quantiles, scores.

        The variance adds the noise of the likelihood and the posterior variance of the latent
        field, times a factor of trees that are grown on the sizes of out-of-fold residuals. Numbers
        have a Student t distribution with two scales, amounts gamma, counts negative binomial,
        classes their probabilities.

        Parameters
        ----------
        X, graph, nodes, new_labels, attach, coordinates, offset, exposure, groups, time
            As in :meth:`predict`.

        Returns
        -------
        PredictiveDistribution

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(400, 2))
        >>> y = X[:, 0] + rng.normal(size=400) * np.exp(X[:, 1])
        >>> g = eb.Graph.build_knn(X[:, :1], k=5)
        >>> m = eb.EBBSRegressor(20, selection="rules", random_state=0).fit(X, y, graph=g)
        >>> distribution = m.predict_distribution()
        >>> bool(np.corrcoef(distribution.variance, X[:, 1])[0, 1] > 0.5)
        True
        """
        state = self.state_
        X, coordinates = with_coordinates(state, X, coordinates)
        edges = (graph, nodes, new_labels, attach, coordinates)
        offsets = Offset(offset, exposure)
        rows = predict_rows(state, RowArguments(X, *edges, offsets, groups, time))
        if state.is_classifier:
            return class_distribution(state, rows.raw)
        require_spread(state, "predict_distribution")
        return distribution_of(state, rows.raw, spread_of_rows(state, rows, X, nodes))

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

    def uncertainty(self, nodes: ArrayLike | None = None) -> Any:
        """Return where predictions of fitted nodes are unsure, and why.

        Parameters
        ----------
        nodes : array-like of int or bool, optional
            Only these rows.

        Returns
        -------
        dataframe of pandas, polars or pyarrow, whichever is installed
            ``node``, ``prediction``, ``variance``, and what it adds up from: ``noise`` of the
            likelihood, posterior variance of the ``field``, and what the ``features`` change,
            negative where rows with such columns are surer than on average.
        """
        return as_frame(variance_columns(self.state_, nodes))

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
        """
        state = self.state_
        table = fitted_table(state, X)
        rows = checks.node_positions(np.atleast_1d(nodes), state.n_nodes)
        with threads(threads_for(state.n_jobs, table)):
            return explain(state, rows, table)

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

    def summary(self) -> str:
        """Return a description of the fitted model: what was selected, and which labels it uses.

        Returns
        -------
        str
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
        """
        state = self.state_
        if table and state.table is None:
            raise ValueError(
                "table=True, but this model has no table: it was loaded from a file or a pickle "
                "without one, or trained on a ParquetTable or a Dask collection."
            )
        state = state if source is None else replace(state, source=dict(source))
        serialization.save(state, path, table)

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

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if "_state" in state:
            state = state | {"_state": replace(self._state, table=None, encoded_table=None)}
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
