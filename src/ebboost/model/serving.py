"""Predictions to serve: kept for every node, looked up for a few, and put right around rows that change.

f̃ = P f is linear in f. A row that changes moves its own score, or with columns made from neighbours those around it, by
δ, and f̃ by P δ, which is zero beyond the k edges that P reaches: only there anything is computed.
"""

from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.data import validation as checks
from ebboost.data.table import Table

Array = NDArray[np.float64]


class Predictor:
    """The predictions of every node of a graph, for a few at a time; made by ``model.predictor()``.

    Reading is a look-up. An update scores the rows that have changed and smooths the difference as far as the model's
    smoothing reaches from there. Where known labels take part in predictions, their field moves as well, with a reach that
    has no end: it is followed until no prediction can be off by more than ``tolerance`` of the largest change at a label.
    Threads may share a predictor: each reads the predictions before an update or after it, and nothing between.
    """

    tolerance = 1e-8

    def __init__(self, model: Any, X: Any, graph: Any, new_labels: Any) -> None:
        scores, smoothed, self._graph = model._uncorrected(X, graph)
        self._model = object.__new__(type(model))  # as it is now: the model may be fitted again
        self._model.__dict__.update(model.__dict__)
        self._scores, self._smoothed = scores.copy(), smoothed
        self._known = model._known(X, new_labels, len(scores))
        if X is None and new_labels is None:
            self._predicted = model.raw_predictions_.copy()
        else:
            self._predicted = model._finished(scores, smoothed, self._graph, self._known).copy()
        self._field: Any = None
        #: K W e of the field, from the first update on.
        self._spread: Array | None = None
        self._fixed = ""  # why rows may not change, if they may not
        #: The table, where columns are made from neighbours: they are made anew when a neighbour changes.
        self._table: Table | None = None
        self._column_hops = model._preparation.hops(self._graph)
        if self._column_hops != 0:
            self._table = model._fitted_table if X is None else model._read(X)
            if self._table is None:
                self._fixed = (
                    "this model was loaded without its table: pass it, predictor(X, graph=graph)"
                )
            elif self._table.is_sparse or self._column_hops is None:
                self._fixed = "columns made from the graph cannot be made anew for a few rows: make a new predictor"
            else:
                self._table = replace(self._table, values=self._table.values.copy())
        if X is None and model._preparation.encoder is not None:
            self._fixed = (
                "categories of fitted nodes were encoded without their own labels, those of changed rows are not: pass "
                "the table as new rows, predictor(X, graph=graph)"
            )
        self._writing, self._reading = Lock(), Lock()

    def predict(self, nodes: Any = None, *, interval: Any = None) -> Any:
        """Return what the model's own ``predict`` does, for these nodes or for all.

        Parameters
        ----------
        nodes : array-like of int or bool, optional
        interval : float, optional
            As in :meth:`EBBSRegressor.predict`.
        """
        return self._model._told(self._looked_up(nodes), interval)

    def predict_proba(self, nodes: Any = None) -> Array:
        """Return the probability of every class, for these nodes or for all."""
        if not hasattr(self._model, "predict_proba"):
            raise AttributeError(
                f"{type(self._model).__name__} has no probabilities: use predict(nodes)."
            )
        return self._looked_up(nodes)

    def _looked_up(self, nodes: Any) -> Array:
        if nodes is None:
            with self._reading:
                return self._predicted.copy()
        rows = checks.node_positions(nodes, len(self._predicted), repeats=True)
        with self._reading:
            return self._predicted[rows]

    def update(self, nodes: Any, rows: Any) -> None:
        """Put new rows in the place of old ones, and every prediction right that depends on them.

        Parameters
        ----------
        nodes : array-like of int or bool
            Which nodes have changed, each once.
        rows : table
            A row for each, with the columns fitted on.
        """
        if self._fixed:
            raise ValueError(f"Rows of this predictor cannot change, as {self._fixed}.")
        nodes = checks.node_positions(nodes, len(self._predicted))
        if not nodes.size:
            return
        table = self._model._read(rows)
        if table.n_rows != nodes.size:
            raise ValueError(
                f"nodes names {nodes.size} nodes, rows has {table.n_rows}: one row for each is needed."
            )
        with self._writing:
            moved, scores = self._rescored(nodes, table)
            reached, smoothed = self._resmoothed(moved, scores)
            if isinstance(self._model.labels_, MaskedLabels):
                where, predicted = self._remasked(moved, scores, reached, smoothed)
            elif (
                isinstance(self._model.labels_, LatentField)
                and self._known is not None
                and self._graph is not None
            ):
                where, predicted = self._reheard(reached, smoothed)
            else:
                where, predicted = reached, self._model._finished(scores, smoothed, None, None)
            with self._reading:
                if self._table is not None:
                    self._table.values[nodes] = table.values
                self._scores[moved], self._smoothed[reached] = scores, smoothed
                self._predicted[where] = predicted

    def _rescored(self, nodes: NDArray[np.int64], table: Table) -> tuple[NDArray[np.int64], Array]:
        """The nodes whose base scores depend on the changed rows, and those scores."""
        model, hops = self._model, self._column_hops
        if self._table is None or self._graph is None or hops is None:
            return nodes, model._scores(model._preparation.apply(table, None))
        wide = self._graph.neighborhood(nodes, 2 * hops)
        values = self._table.values[wide.nodes]
        values[np.searchsorted(wide.nodes, nodes)] = table.values
        seen = model._preparation.apply(replace(self._table, values=values), wide.graph)
        near = wide.distance <= hops
        return wide.nodes[near], model._scores(seen.subset(near))

    def _resmoothed(
        self, moved: NDArray[np.int64], scores: Array
    ) -> tuple[NDArray[np.int64], Array]:
        """The nodes whose smoothed scores depend on these base scores, and those smoothed scores."""
        model, graph = self._model, self._graph
        hops = model._smoothing_hops(graph)
        if graph is None or hops == 0:
            return moved, model.init_score_ + scores
        if hops is None or not model.smoothing_.linear:
            everywhere = self._scores.copy()
            everywhere[moved] = scores
            operator = model._operator(model.smoothing_, graph, len(everywhere))
            return np.arange(len(everywhere)), model.init_score_ + operator.apply(everywhere)
        near = graph.neighborhood(moved, hops)
        start = np.zeros((near.nodes.size, scores.shape[1]))
        start[np.searchsorted(near.nodes, moved)] = scores - self._scores[moved]
        operator = model._operator(model.smoothing_, near.graph, near.nodes.size)
        return near.nodes, self._smoothed[near.nodes] + operator.apply(start)

    def _remasked(
        self, moved: NDArray[np.int64], scores: Array, reached: NDArray[np.int64], smoothed: Array
    ) -> tuple[Any, Array]:
        """All predictions of the published way, which smooths labels and scores as one."""
        all_scores, all_smoothed = self._scores.copy(), self._smoothed.copy()
        all_scores[moved], all_smoothed[reached] = scores, smoothed
        return slice(None), self._model._finished(
            all_scores, all_smoothed, self._graph, self._known
        )

    def _reheard(
        self, reached: NDArray[np.int64], smoothed: Array
    ) -> tuple[NDArray[np.int64], Array]:
        """The nodes that hear of the change, from their own scores or from labels, and their predictions."""
        model, known = self._model, self._known
        if self._spread is None:
            self._field = model._field(self._graph, known)
            self._spread = self._field.posterior_mean(
                model._said(self._smoothed[known.nodes], known.target)
            )
            self._label_at = np.full(len(self._scores), -1)
            self._label_at[known.nodes] = np.arange(known.nodes.size)
        labelled = self._label_at[reached] >= 0
        nodes, label = reached[labelled], self._label_at[reached[labelled]]
        target = known.target[label]
        change = model._said(smoothed[labelled], target) - model._said(
            self._smoothed[nodes], target
        )
        heard, moved = nodes, np.zeros((0, change.shape[1]))
        if nodes.size:
            heard, moved = self._field.solve_local(
                nodes, self._field.weight[label, None] * change, self.tolerance
            )
        self._spread[heard] += moved
        where = np.union1d(reached, heard)
        everywhere = self._smoothed[where]
        everywhere[np.searchsorted(where, reached)] = smoothed
        return where, model._heard(everywhere, self._spread[where])

    def __getstate__(self) -> dict[str, Any]:
        """All but locks and factorised systems, which cannot leave the process: the next update makes them anew."""
        with self._writing:
            state = {
                name: value
                for name, value in self.__dict__.items()
                if name not in ("_writing", "_reading")
            }
            return state | {"_field": None, "_spread": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._writing, self._reading = Lock(), Lock()

    def __repr__(self) -> str:
        return f"Predictor({type(self._model).__name__}, n_nodes={len(self._predicted)})"
