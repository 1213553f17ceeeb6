"""The methods of a fitted model: predictions, their scores, and how sure they are."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score, r2_score

from ebboost.boosting.metrics import MetricFunction, Scored, as_metric
from ebboost.data import validation as checks
from ebboost.data.types import LabelledNodes, LabelsLike, TableLike
from ebboost.graph import Graphs
from ebboost.model.attach import Attachment
from ebboost.model.attributes import LearnedAttributes
from ebboost.model.distribution import PredictiveDistribution
from ebboost.model.frames import as_frame
from ebboost.model.intervals import find_groups, with_intervals, with_sets
from ebboost.model.predict import (
    Offset,
    RowArguments,
    in_order,
    predict_rows,
    row_order,
    with_coordinates,
)
from ebboost.model.predict_shards import decode_shards, interval_shards, raw_shards
from ebboost.model.serving import Predictor
from ebboost.model.spread import (
    class_distribution,
    distribution_of,
    require_spread,
    spread_of_rows,
    variance_columns,
)


class FittedModel(LearnedAttributes):
    """A model with a fitted state; the base class of the estimators."""

    def predict(
        self,
        X: TableLike = None,
        *,
        graph: Graphs | None = None,
        nodes: ArrayLike | None = None,
        new_labels: LabelledNodes | None = None,
        attach: Attachment | None = None,
        coordinates: ArrayLike | None = None,
        interval: float | None = None,
        interval_groups: ArrayLike | None = None,
        empty_sets: bool = False,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> Any:
        """Predict for every fitted node, or for another table and its graph.

        Fitted nodes are predicted with all labels that ``fit`` was given, also where the table
        fitted on is passed again, with or without its graph. Of another table, rows whose node ids
        are those of fitted nodes have their labels; without ids all rows are new, with a warning.
        A node whose own label is known is predicted with it.

        Parameters
        ----------
        X : table, optional
            Rows to predict; default: the fitted nodes.
        graph : Graph or dict of Graph, optional
            The graph of the rows of ``X``; needed if the model was fitted on one, unless ``X`` is
            the table fitted on or ``attach`` is given.
        nodes : array-like of int or bool, optional
            Only these rows. Of another table only rows within the reach of propagation and
            neighbour columns are read; with ``new_labels``, all are.
        new_labels : (nodes, y), optional
            Labels that have become known since the fit; the field uses them without a new fit.
        attach : (rows, nodes), (rows, nodes, weight) or Graph, optional
            Edges from rows of ``X``, which are new, to fitted nodes (by id, if the graph has ids):
            the rows join the fitted graph and its labels. Edges between the new rows are those of
            ``graph``. As a Graph: of the fitted nodes followed by the rows of ``X``.
        coordinates : array of shape (n, 2) or GeoSeries, optional
            Of new rows, where the model was fitted on coordinates that are not columns of ``X``.
        groups : column name or array-like of shape (n,), optional
            The group of each new row, after a fit with groups; new groups have no field.
        time : column name or array-like of shape (n,), optional
            The time of each new row, where the model was fitted with ``causal=True``.
        interval : float, optional
            Also return intervals that cover this share of labels, e.g. 0.9; of classes, sets.
            Conformal prediction in units of the local spread (:meth:`predict_distribution`), from
            labels that were not trained on: those of ``eval_set``, or else all out of fold; for
            nodes that are later than all labels, after a fit with ``time``, from forecasts of
            labels as far ahead. Of counts both ends are counts.
        interval_groups : column name or array-like of shape (n_nodes,), optional
            Calibrate intervals in each group by its own labels, where there are 50 or more. An
            array has a group for each fitted node.
        empty_sets : bool, default=False
            Of classes: sets may be empty, where no class is as probable as the true ones of this
            share of labels. They then contain the true class as often as ``interval`` says; by
            default they contain the most probable class at least, and where the accuracy is higher
            than ``interval``, the true one more often.
        offset, exposure : array-like, optional
            Of the rows of ``X``, as in :meth:`fit`; needed if the model was fitted with one. Fitted
            nodes have theirs.

        Returns
        -------
        ndarray of shape (n,), Intervals(prediction, lower, upper), or for classes
        PredictionSets(prediction, contains); with a :class:`ParquetGraph` a Dask array

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> g = eb.Graph.build_knn(X, k=4)
        >>> model = eb.EBBSRegressor(20, random_state=0).fit(X, X[:, 0], graph=g)
        >>> prediction, lower, upper = model.predict(interval=0.9)
        >>> bool((lower <= upper).all())
        True
        >>> model.predict(X[:2] + 0.1, attach=([0, 1], [0, 1])).shape  # new rows, an edge each
        (2,)
        """
        state = self.state_
        edges = (graph, nodes, new_labels, attach, coordinates)
        arguments = RowArguments(X, *edges, Offset(offset, exposure), groups, time)
        arguments = in_order(state, arguments)
        row_order(state).check(interval_groups=interval_groups)
        X, coordinates = with_coordinates(state, X, coordinates)
        nodes = arguments.nodes
        arguments = arguments._replace(X=X, coordinates=coordinates)
        if empty_sets and (interval is None or not state.is_classifier):
            raise ValueError("empty_sets=True needs a classifier, and interval.")
        if interval is None:
            shards = raw_shards(state, arguments)
            if shards is not None:
                return decode_shards(state.output, shards)
        elif interval_groups is None:
            intervals = interval_shards(state, arguments, interval, empty_sets)
            if intervals is not None:
                return intervals
        rows = predict_rows(state, arguments)
        if interval is None:
            if interval_groups is not None:
                raise ValueError("interval_groups needs interval, the share of labels to cover.")
            return state.output.decode(rows.raw)
        by_group = None
        if interval_groups is not None:
            by_group = find_groups(state, interval_groups, X, nodes)
        if state.is_classifier:
            return with_sets(state, rows.raw, interval, by_group, empty_sets)
        spread = spread_of_rows(state, rows, X, nodes)
        return with_intervals(state, rows, spread, interval, by_group)

    def score(
        self,
        X: TableLike = None,
        y: LabelsLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        graph: Graphs | None = None,
        nodes: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        metric: str | MetricFunction | None = None,
    ) -> float:
        """Return R² of a regressor's predictions, the accuracy of a classifier's, or a metric.

        Parameters
        ----------
        X, graph, nodes, offset, exposure
            As in :meth:`predict`.
        y : array-like
            Labels; NaN and None are left out.
        sample_weight : array-like, optional
        metric : str or function, optional
            ``"deviance"``, ``"d2"`` (the share of the deviance explained), for numbers also
            ``"r2"``, ``"rmse"``, ``"mae"``, for classes ``"accuracy"``, ``"log_loss"``,
            ``"brier"``, ``"roc_auc"``, ``"average_precision"`` (of the second of two classes, else
            the mean over classes); or a function ``metric(y_true, y_predicted)`` of numbers, or of
            class indices and probabilities.

        Returns
        -------
        float

        Examples
        --------
        >>> import ebboost as eb, numpy as np
        >>> X = np.arange(100.0)[:, None]
        >>> model = eb.EBBSRegressor(50, random_state=0).fit(X, X[:, 0])
        >>> model.score(X, X[:, 0]) > 0.9, model.score(X, X[:, 0], metric="mae") < 10.0
        (True, True)
        """
        if metric is not None:
            return self._metric(metric, X, y, sample_weight, graph, nodes, Offset(offset, exposure))
        predictions = self.predict(X, graph=graph, offset=offset, exposure=exposure)
        classes = self.state_.is_classifier
        order = row_order(self.state_, X, graph)
        nodes = order.rows(nodes)
        order.check(nodes, y=y, sample_weight=sample_weight)
        scored = checks.scored_labels(y, sample_weight, nodes, predictions, classes)
        compute = accuracy_score if classes else r2_score
        return float(compute(scored[0], scored[1], sample_weight=scored[2]))

    def _metric(
        self,
        metric: str | MetricFunction,
        X: TableLike,
        y: LabelsLike | None,
        sample_weight: ArrayLike | None,
        graph: Graphs | None,
        nodes: ArrayLike | None,
        offset: Offset,
    ) -> float:
        """The metric of predictions at known labels."""
        state = self.state_
        one = as_metric(metric, state.is_classifier)
        raw = predict_rows(state, in_order(state, RowArguments(X, graph, offset=offset))).raw
        order = row_order(state, X, graph)
        nodes = order.rows(nodes)
        order.check(nodes, y=y, sample_weight=sample_weight)
        all_rows = np.arange(len(raw))
        scored = checks.scored_labels(y, sample_weight, nodes, all_rows, state.is_classifier)
        truth, rows, weight = scored
        column = state.offset
        if X is not None:
            column = checks.offset_column(*offset, len(raw), state.loss.log_link)
        return one.compute(
            Scored(
                state.loss,
                state.output.calibration.apply(raw[rows]),
                state.output.encode_checked(truth, "y"),
                np.ones(rows.size) if weight is None else weight,
                None if column is None else column[rows],
            )
        )

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
        state = self.state_
        offsets = Offset(offset, exposure)
        arguments = in_order(state, RowArguments(X, graph, new_labels=new_labels, offset=offsets))
        order = row_order(state, X, graph)
        return Predictor(state, X, graph, arguments.new_labels, offsets, order)

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
        field, times a factor of trees and networks that are trained on the sizes of out-of-fold
        residuals. Numbers have a Student t distribution with two scales, amounts gamma, counts
        negative binomial, classes their probabilities. After a fit with ``time``, nodes that are
        later than all labels have the drift and the spread of forecasts of labels as far ahead.

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
        edges = (graph, nodes, new_labels, attach, coordinates)
        offsets = Offset(offset, exposure)
        arguments = in_order(state, RowArguments(X, *edges, offsets, groups, time))
        X, coordinates = with_coordinates(state, X, coordinates)
        nodes = arguments.nodes
        rows = predict_rows(state, arguments._replace(X=X, coordinates=coordinates))
        if state.is_classifier:
            return class_distribution(state, rows.raw)
        require_spread(state, "predict_distribution")
        return distribution_of(state, rows, spread_of_rows(state, rows, X, nodes))

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
        state = self.state_
        return as_frame(variance_columns(state, row_order(state).rows(nodes)))
