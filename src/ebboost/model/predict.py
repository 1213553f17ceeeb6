"""Predictions of a fitted model: init_score + P f, and the latent field of known labels."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _check_feature_names

from ebboost.backends import Backend
from ebboost.backends.dask import gathered, is_dask, scores_of
from ebboost.backends.threads import threads_for
from ebboost.boosting.latent_field import FieldPosterior, LatentField
from ebboost.boosting.masked_labels import MaskedLabels, masked_prediction
from ebboost.data import validation as checks
from ebboost.data.labels import Labels
from ebboost.data.parquet import ParquetTable
from ebboost.data.reader import count_rows, rows_of
from ebboost.data.table import Table
from ebboost.data.types import TableLike
from ebboost.graph import Graph, Graphs
from ebboost.model.state import FittedState
from ebboost.propagation import IdentityOperator, Propagation, Smoother, threads

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]


class TableScores(NamedTuple):
    """Scores f of a table, init_score + P f, and the graph of its rows."""

    scores: Array
    propagated: Array
    graph: Graph | None


def predict_raw(
    state: FittedState, X: object, graph: Graphs | None, nodes: ArrayLike | None, new_labels: object
) -> Array:
    """Return raw predictions of all or some nodes; rows beyond the reach of these are not read."""
    if X is not None and nodes is not None and new_labels is None:
        rows_raw = _predict_rows(state, X, graph, nodes)
        if rows_raw is not None:
            return rows_raw
    raw = state.raw_predictions
    if X is not None or graph is not None or new_labels is not None:
        scored = score_table(state, X, graph)
        labels = labels_for(state, X, new_labels, len(scored.scores))
        raw = apply_labels(state, scored, labels)
    if nodes is None:
        return raw.copy()
    return raw[checks.node_positions(nodes, len(raw), repeats=True)]


def score_table(state: FittedState, X: object, graph: Graphs | None) -> TableScores:
    """Return the scores of the fitted nodes, or of another table, before labels are used."""
    if X is None:
        if graph is not None:
            text = "graph was given without X: pass predict(X_new, graph=g_new), or neither."
            raise ValueError(text)
        propagated = state.init_score + state.propagated_scores
        return TableScores(state.scores, propagated, state.graph)
    if is_dask(X) and not state.pipeline.uses_graph:
        check_feature_names(state, X)
        scores = scores_of(X, state.reader, state.pipeline, state.ensemble)
        with threads(1):
            return _propagate(state, scores, graph_for(state, None, len(scores), graph))
    (X,) = gathered(X)
    table = read_table(state, X)
    one_graph = graph_for(state, X, table.n_rows, graph)
    with threads(threads_for(state.n_jobs, table)):
        scores = tree_scores(state, state.pipeline.transform(table, one_graph))
        return _propagate(state, scores, one_graph)


def _propagate(state: FittedState, scores: Array, graph: Graph | None) -> TableScores:
    operator = propagation_operator(state.candidate.smoothing, graph, len(scores))
    return TableScores(scores, state.init_score + operator.apply(scores), graph)


def _predict_rows(
    state: FittedState, X: object, graph: Graphs | None, nodes: ArrayLike
) -> Array | None:
    """Raw predictions of some rows computed from the rows in reach only; None without a limit."""
    check_feature_names(state, X)
    n_rows = count_rows(X)
    one_graph = None if n_rows is None else graph_for(state, X, n_rows, graph)
    column_hops = state.pipeline.hops(one_graph)
    hops = propagation_hops(state, one_graph)
    if n_rows is None or column_hops is None or hops is None:
        return None
    rows = checks.node_positions(nodes, n_rows, repeats=True)
    center = np.unique(rows) if rows.size else np.zeros(1, dtype=np.int64)
    if one_graph is None:
        scores = tree_scores(state, state.pipeline.transform(read_rows(state, X, center), None))
        raw = apply_labels(state, _propagate(state, scores, None), None)
        return raw[np.searchsorted(center, rows)]
    wide = one_graph.neighborhood(center, column_hops + hops)
    table = read_rows(state, X, wide.nodes)
    with threads(threads_for(state.n_jobs, table)):
        features = state.pipeline.transform(table, wide.graph)
        near = one_graph.neighborhood(center, hops) if column_hops else wide
        features = features.subset(wide.distance <= hops) if column_hops else features
        scored = _propagate(state, tree_scores(state, features), near.graph)
    raw = apply_labels(state, scored, None)
    return raw[np.searchsorted(near.nodes, rows)]


def apply_labels(
    state: FittedState, scored: TableScores, labels: Labels | None, backend: Backend | None = None
) -> Array:
    """Return raw predictions: propagated scores combined with the field of the known labels."""
    scores, propagated, graph = scored
    use = state.candidate.labels
    if isinstance(use, MaskedLabels):
        known = labels or Labels(np.zeros(0, dtype=np.int64), np.zeros((0, 1)), np.zeros(0))
        operator = propagation_operator(state.candidate.smoothing, graph, len(scores))
        return masked_prediction(use, operator, scores, known, state.init_score)
    posterior = field_posterior(state, graph, labels, backend) if state.output.uses_field else None
    if posterior is None or labels is None:
        return state.output.combine(propagated, None)
    residuals = state.output.label_residuals(propagated[labels.nodes], labels.target)
    return state.output.combine(propagated, posterior.posterior_mean(residuals))


def field_posterior(
    state: FittedState, graph: Graph | None, labels: Labels | None, backend: Backend | None = None
) -> FieldPosterior | None:
    """Return the posterior of the latent field given labels; None where the model has no field."""
    use = state.candidate.labels
    if graph is None or labels is None or not isinstance(use, LatentField):
        return None
    return (backend or Backend()).field(use, graph, labels)


def with_labels(state: FittedState, labels: Labels, backend: Backend | None = None) -> FittedState:
    """Return the state in which predictions of the fitted nodes use these labels."""
    raw = apply_labels(state, score_table(state, None, None), labels, backend)
    return replace(state, labels=labels, raw_predictions=raw)


def labels_for(state: FittedState, X: object, new_labels: object, n_rows: int) -> Labels | None:
    """Return the labels that a prediction uses: those of the fit for fitted nodes, and new ones."""
    uses_labels = state.candidate.labels is not None
    own = state.labels if X is None and uses_labels else None
    if new_labels is None:
        return own
    if not uses_labels:
        raise ValueError(
            "new_labels was given, but this model does not use labels at prediction "
            "(labels='none', or labels='auto' without a selected field). Fit with labels='field'."
        )
    taken = np.zeros(0, dtype=np.int64) if own is None else own.nodes
    is_classifier = state.is_classifier
    nodes, values = checks.extra_labels(new_labels, taken, n_rows, is_classifier, "new_labels")
    target = state.output.encode(values, "new_labels")
    if own is None:
        return Labels(nodes, target, np.ones(nodes.size))
    return own.concat(Labels(nodes, target, np.full(nodes.size, own.weight.mean())))


def tree_scores(state: FittedState, features: Table) -> Array:
    """Return the scores f of a table of features, block by block."""
    return np.vstack([state.ensemble.predict(block) for block in features.blocks()])


def read_table(state: FittedState, X: object) -> Table:
    """Return another table, rejected if its columns are not those of the fit."""
    check_feature_names(state, X)
    table = state.reader.read(*gathered(X))
    checks.check_n_features(table, state.n_features, state.estimator)
    return table


def read_rows(state: FittedState, X: object, rows: IntArray) -> Table:
    """Return some rows of another table; errors name rows as the user counts them."""
    try:
        return read_table(state, rows_of(X, rows))
    except (TypeError, ValueError):
        read_table(state, X)
        raise


def fitted_table(state: FittedState, X: object = None) -> Table | None:
    """Return the table fitted on: as passed, as the state holds it, or None."""
    if X is None:
        return state.table
    table = read_table(state, X)
    checks.check_n_rows(table, state.n_nodes)
    return table


def named_columns(X: TableLike) -> Any:
    """Return an object that scikit-learn reads the names of the columns of X from."""
    if isinstance(X, ParquetTable):
        return X.empty
    return X._meta if is_dask(X) else X


def check_feature_names(state: FittedState, X: object) -> None:
    """Compare the column names of X with those of the fit, as scikit-learn does."""
    learned: dict[str, object] = {"n_features_in_": state.n_features}
    if state.feature_names is not None:
        learned["feature_names_in_"] = state.feature_names
    # scikit-learn reads these two attributes and the name of the class.
    _check_feature_names(type(state.estimator, (), learned)(), named_columns(X), reset=False)


def graph_for(state: FittedState, X: object, n_rows: int, graph: Graphs | None) -> Graph | None:
    """Return the graph of another table, checked to be there if and only if the fit had one."""
    if state.graph is not None and graph is None:
        raise ValueError(
            "This model was fitted on a graph, so a prediction needs one: call predict() for the "
            "fitted nodes, or predict(X_new, graph=g_new) with the graph of the new rows."
        )
    if state.graph is None and graph is not None:
        raise ValueError("graph was given, but this model was fitted without one: call predict(X).")
    checks.check_graph(graph, n_rows, X)
    strengths = state.relation_strengths
    if isinstance(graph, Mapping) and strengths is not None and set(graph) != set(strengths):
        text = f"graph must have the relations of the fit, {list(strengths)}, got {list(graph)}."
        raise ValueError(text)
    return mix_relations(graph, strengths)


def mix_relations(graph: Graphs | None, strengths: Mapping[str, float] | None) -> Graph | None:
    """Return one graph: the graph itself, or the relations added up by their strengths."""
    if graph is None:
        return None
    if isinstance(graph, Graph):
        if strengths is not None:
            raise TypeError(
                "graph must be a dict with a graph for each relation: this model was fitted on the "
                f"relations {list(strengths)}."
            )
        return graph
    if strengths is None:
        text = f"graph must be one Graph: this model was fitted on one graph, got {list(graph)}."
        raise TypeError(text)
    return Graph.mix(graph, strengths)


def propagation_operator(
    smoothing: Smoother | None, graph: Graph | None, n_rows: int
) -> Propagation:
    """Return P on a graph, the identity without a graph or without smoothing."""
    if smoothing is None or graph is None:
        return IdentityOperator(n_rows)
    return smoothing.operator(graph)


def propagation_hops(state: FittedState, graph: Graph | None) -> int | None:
    """Return how many edges away P reaches; None without a limit."""
    smoothing = state.candidate.smoothing
    return 0 if graph is None or smoothing is None else smoothing.hops(graph)
