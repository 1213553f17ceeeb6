"""Cached predictions with incremental updates for changed rows.

P f is linear in f. A row that changes moves its own score, or with neighbour columns those around
it, by δ, and P f by P δ, which is zero beyond the k edges that P reaches.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebboost.boosting.field_mode import posterior_mode
from ebboost.boosting.latent_field import FieldPosterior
from ebboost.boosting.losses import Loss
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.data import validation as checks
from ebboost.data.labels import Labels
from ebboost.data.once import SharedLock, lazy_property
from ebboost.data.row_order import RowOrder
from ebboost.data.table import Table
from ebboost.data.types import Array, IntArray
from ebboost.graph import Graphs
from ebboost.model.inputs import read_table
from ebboost.model.intervals import Intervals, PredictionSets, with_intervals, with_sets
from ebboost.model.predict import (
    NO_OFFSET,
    Offset,
    TableScores,
    apply_labels,
    fixed_scores,
    labels_for,
    propagation_hops,
    score_table,
    tree_scores,
)
from ebboost.model.rows import RowPredictions
from ebboost.model.spread import LocalSpread, spread_of_rows
from ebboost.model.state import FittedState


class _CachedField:
    """The latent field, updated where scores at labels change."""

    def __init__(
        self, posterior: FieldPosterior, labels: Labels, loss: Loss, propagated: Array
    ) -> None:
        self._posterior = posterior
        self._labels = labels
        self._loss = loss
        self._scores = propagated[labels.nodes]
        self._label_index = np.full(len(propagated), -1)
        self._label_index[labels.nodes] = np.arange(labels.nodes.size)
        self.mean = self._mode()

    def _mode(self) -> Array:
        return posterior_mode(self._posterior, self._loss, self._scores, self._labels.target)

    def update(self, nodes: IntArray, scores: Array, tolerance: float) -> IntArray:
        """Update the field for new scores of some nodes, and return the nodes where it moves."""
        is_labelled = self._label_index[nodes] >= 0
        nodes = nodes[is_labelled]
        if not nodes.size:
            return nodes
        index = self._label_index[nodes]
        change = self._scores[index] - scores[is_labelled]
        self._scores[index] = scores[is_labelled]
        if not self._loss.constant_curvature:  # the field is not linear in the scores
            self.mean = self._mode()
            return np.arange(len(self.mean))
        weighted = self._posterior.weight[index, None] * change
        moved, shift = self._posterior.solve_local(nodes, weighted, tolerance)
        self.mean[moved] += shift
        return moved


class Predictor:
    """Cached predictions of every node, updated where rows change; see ``model.predictor()``.

    An update scores the changed rows and propagates the difference as far as P reaches. Where
    predictions use labels, the latent field changes as well; it is updated until no prediction can
    be off by more than ``tolerance`` times the largest change at a label. Threads may share a
    predictor: each reads the predictions before or after an update.

    Parameters
    ----------
    state : FittedState
    X, graph, new_labels, offset
        As in ``predict``.
    order : RowOrder, optional
        The index and the ids of the rows.
    """

    tolerance = 1e-8

    def __init__(
        self,
        state: FittedState,
        X: object,
        graph: Graphs | None,
        new_labels: object,
        offset: Offset = NO_OFFSET,
        order: RowOrder | None = None,
    ) -> None:
        if state.is_causal:
            raise ValueError("predictor() is not supported with causal=True: use predict().")
        self._state = state
        self._X = X
        self._order = RowOrder() if order is None else order
        self._is_fitted = X is None and new_labels is None
        self._writing = SharedLock()
        self._reading = SharedLock()
        arguments = (X, graph, new_labels, offset)
        self._members = [Predictor(one, *arguments) for one in state.members]
        if self._members:
            self._raw = self._mean()
            return
        scored = score_table(state, X, graph, offset)
        is_new = X is not None
        n_rows = len(scored.scores)
        self._fixed = fixed_scores(state, n_rows, offset) if is_new else state.fixed_scores
        self._graph = scored.graph
        self._scores = scored.scores.copy()
        self._propagated = scored.propagated
        self._labels = labels_for(state, X, scored, new_labels)
        is_fitted = self._is_fitted
        raw = state.raw_predictions if is_fitted else apply_labels(state, scored, self._labels)
        self._raw = raw.copy()
        self._field: _CachedField | None = None  # from the first update on
        self._column_hops = state.pipeline.hops(self._graph)
        #: The table, where columns depend on neighbours and are computed again when one changes.
        self._table: Table | None = None
        self._fixed_because = self._read_columns(X)

    def _mean(self) -> Array:
        """The mean of the members' predictions."""
        return np.mean([one._raw for one in self._members], axis=0)

    def _read_columns(self, X: object) -> str:
        """Copy the table if columns depend on neighbours; return why rows cannot change, or ""."""
        state = self._state
        if X is None and state.pipeline.encoder is not None:
            return (
                "categories of fitted nodes were encoded without their own labels: pass the table "
                "as new rows, predictor(X, graph=graph)"
            )
        if self._column_hops == 0:
            return ""
        table = state.table if X is None else read_table(state, X)
        if table is None:
            return "this model has no table: pass it, predictor(X, graph=graph)"
        if table.is_sparse or self._column_hops is None:
            text = "columns computed from the graph cannot be updated for a few rows"
            return f"{text}: make a new predictor"
        self._table = replace(table, values=table.values.copy())
        return ""

    def predict(
        self, nodes: ArrayLike | None = None, *, interval: float | None = None
    ) -> NDArray[Any] | Intervals | PredictionSets:
        """Return what the model's ``predict`` returns, for these nodes or for all.

        Parameters
        ----------
        nodes : array-like of int or bool, optional
        interval : float, optional
            As in :meth:`EBBSRegressor.predict`; the local spread is that of the rows that this
            predictor was created with.

        Returns
        -------
        ndarray of shape (n,), Intervals or PredictionSets
        """
        nodes = self._order.rows(nodes)
        raw = self._look_up(nodes)
        if interval is None:
            return self._state.output.decode(raw)
        if self._state.is_classifier:
            return with_sets(self._state, raw, interval)
        rows = self._rows().subset(nodes)
        selected = rows.position
        local = LocalSpread(*(part[selected] for part in self._spread))
        return with_intervals(self._state, rows._replace(raw=raw), local, interval)

    def _rows(self) -> RowPredictions:
        """The predictions of all rows, and what they depend on."""
        if self._is_fitted:
            return RowPredictions.of_fitted_nodes(self._state)
        one = self._members[0] if self._members else self
        labels = one._labels
        at_labels = None if labels is None else self._raw[labels.nodes]
        rows = np.arange(len(self._raw))
        return RowPredictions(self._raw, rows, one._graph, labels, at_labels, self._X is None)

    @lazy_property
    def _spread(self) -> LocalSpread:
        return spread_of_rows(self._state, self._rows(), self._X, None)

    def predict_proba(self, nodes: ArrayLike | None = None) -> Array:
        """Return the probability of every class, for these nodes or for all.

        Parameters
        ----------
        nodes : array-like of int or bool, optional

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        if not self._state.is_classifier:
            raise AttributeError(f"{self._state.estimator} has no probabilities: use predict().")
        return self._state.output.apply_link(self._look_up(self._order.rows(nodes)))

    def _look_up(self, nodes: ArrayLike | None) -> Array:
        if nodes is None:
            with self._reading:
                return self._raw.copy()
        rows = checks.node_positions(nodes, len(self._raw), repeats=True)
        with self._reading:
            return self._raw[rows]

    def update(self, nodes: ArrayLike, rows: object) -> None:
        """Replace rows of the table and update every prediction that depends on them.

        Parameters
        ----------
        nodes : array-like of int or bool
            Nodes whose rows have changed, each once.
        rows : table
            A row for each, with the columns of the fit.
        """
        nodes = self._order.rows(nodes)
        self._order.check(nodes, rows=rows)
        if self._members:
            with self._writing:
                for one in self._members:
                    one.update(nodes, rows)
                with self._reading:
                    self._raw = self._mean()
            return
        if self._fixed_because:
            raise ValueError(f"Rows of this predictor cannot change: {self._fixed_because}.")
        nodes = checks.node_positions(nodes, len(self._raw))
        if not nodes.size:
            return
        table = read_table(self._state, rows)
        if table.n_rows != nodes.size:
            text = f"nodes names {nodes.size} nodes, rows has {table.n_rows}: pass a row for each."
            raise ValueError(text)
        with self._writing:
            scored, scores = self._score_again(nodes, table)
            reached, propagated = self._propagate_again(scored, scores)
            changed, raw = self._apply_labels_again(scored, scores, reached, propagated)
            with self._reading:
                if self._table is not None:
                    self._table.values[nodes] = table.values
                self._scores[scored] = scores
                self._propagated[reached] = propagated
                self._raw[changed] = raw

    def _score_again(self, nodes: IntArray, table: Table) -> tuple[IntArray, Array]:
        """The nodes whose scores depend on the changed rows, and those scores."""
        state = self._state
        hops = self._column_hops
        if self._table is None or self._graph is None or hops is None:
            return nodes, tree_scores(state, state.pipeline.transform(table, None))
        wide = self._graph.neighborhood(nodes, 2 * hops)
        values = self._table.values[wide.nodes]
        values[np.searchsorted(wide.nodes, nodes)] = table.values
        features = state.pipeline.transform(replace(self._table, values=values), wide.graph)
        near = wide.distance <= hops
        return wide.nodes[near], tree_scores(state, features.subset(near))

    def _propagate_again(self, scored: IntArray, scores: Array) -> tuple[IntArray, Array]:
        """The nodes whose propagated scores depend on these scores, and those propagated scores."""
        state = self._state
        smoothing = state.candidate.smoothing
        hops = propagation_hops(state, self._graph)
        if self._graph is None or hops == 0 or smoothing is None:
            return scored, self._fixed[scored] + scores
        if hops is None or not smoothing.linear:
            all_scores = self._scores.copy()
            all_scores[scored] = scores
            all_propagated = smoothing.operator(self._graph).apply(all_scores)
            return np.arange(len(all_scores)), self._fixed + all_propagated
        near = self._graph.neighborhood(scored, hops)
        change = np.zeros((near.nodes.size, scores.shape[1]))
        change[np.searchsorted(near.nodes, scored)] = scores - self._scores[scored]
        propagated_change = smoothing.operator(near.graph).apply(change)
        return near.nodes, self._propagated[near.nodes] + propagated_change

    def _apply_labels_again(
        self, scored: IntArray, scores: Array, reached: IntArray, propagated: Array
    ) -> tuple[IntArray, Array]:
        """The nodes whose predictions change, and those raw predictions."""
        state = self._state
        if isinstance(state.candidate.labels, MaskedLabels):  # labels are propagated with scores
            all_scores = self._scores.copy()
            all_scores[scored] = scores
            scored_table = TableScores(all_scores, self._propagated, self._graph)
            raw = apply_labels(state, scored_table, self._labels)
            return np.arange(len(raw)), raw
        if self._field is None:
            use = state.candidate.labels
            labels = self._labels
            if use is None or labels is None or self._graph is None:
                return reached, state.to_raw(propagated)
            posterior = use.operator(self._graph, labels.nodes, labels.weight)
            labels = state.candidate.clipped(labels)
            self._field = _CachedField(posterior, labels, state.training_loss, self._propagated)
        moved = self._field.update(reached, propagated, self.tolerance)
        changed = np.union1d(reached, moved)
        all_propagated = self._propagated[changed]
        all_propagated[np.searchsorted(changed, reached)] = propagated
        return changed, state.to_raw(all_propagated + self._field.mean[changed])

    def __getstate__(self) -> dict[str, Any]:
        """All but the factorised precision matrix, which the next update computes."""
        with self._writing:
            return self.__dict__ | {"_field": None}

    def __repr__(self) -> str:
        return f"Predictor({self._state.estimator}, n_nodes={len(self._raw)})"
