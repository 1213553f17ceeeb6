"""Predictions of a fitted model: init_score + P f, and the latent field of known labels."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ebboost.backends import Backend
from ebboost.backends.dask import gathered, is_dask, scores_of
from ebboost.backends.dask.edges import open_graphs
from ebboost.backends.threads import threads_for
from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.masked_labels import MaskedLabels, masked_prediction
from ebboost.data import validation as checks
from ebboost.data.coordinates import NEEDS_COORDINATES, append_columns, join_columns, split_geometry
from ebboost.data.fingerprint import fingerprint_of
from ebboost.data.labels import Labels
from ebboost.data.reader import count_rows, dense_if_narrow, group_column
from ebboost.data.row_order import RowOrder
from ebboost.data.table import Table
from ebboost.data.types import AnyArray, Array, IntArray, LabelledNodes, TableLike
from ebboost.data.warn import warn_caller
from ebboost.graph import Graph, Graphs
from ebboost.model.attach import Attachment, attached_graph, attached_groups
from ebboost.model.inputs import (
    check_feature_names,
    graph_for,
    read_rows,
    read_table,
    rows_of_nodes,
)
from ebboost.model.rows import RowPredictions
from ebboost.model.state import FittedState
from ebboost.propagation import IdentityOperator, Propagation, Smoother, threads

NEW_NODES = (
    "The rows of X are taken as new nodes, without labels: graph has neither the node ids nor the "
    "edges of the fit, or X other rows. Pass attach= to connect new rows to fitted nodes, or "
    "new_labels=(nodes, y); new_labels=([], []) if no label is known."
)


class Offset(NamedTuple):
    """The arguments ``offset`` and ``exposure`` of a prediction."""

    offset: ArrayLike | None = None
    exposure: ArrayLike | None = None


NO_OFFSET = Offset()


class TableScores(NamedTuple):
    """Scores f of a table, fixed scores + P f, and the graph of its rows."""

    scores: Array
    propagated: Array
    graph: Graph | None


class RowArguments(NamedTuple):
    """The arguments of ``predict`` about the rows to predict."""

    X: TableLike = None
    graph: Graphs | None = None
    nodes: ArrayLike | None = None
    new_labels: LabelledNodes | None = None
    attach: Attachment | None = None
    coordinates: ArrayLike | None = None
    offset: Offset = NO_OFFSET
    groups: ArrayLike | None = None
    time: ArrayLike | None = None


def row_order(state: FittedState, X: object = None, graph: object = None) -> RowOrder:
    """Return the order of the rows of another table and its graph, or of the fitted nodes."""
    if X is None:
        return RowOrder(graph=state.graph, index=state.row_labels)
    return RowOrder(X, graph)


def in_order(state: FittedState, arguments: RowArguments) -> RowArguments:
    """Return the arguments with nodes as row numbers; ValueError if rows are in another order."""
    X, graph, nodes, new_labels, attach, coordinates, offset, groups, time = arguments
    order = row_order(state, X, graph)
    if isinstance(attach, Graph) and attach.has_ids and attach.groups is None:
        order.ids = attach.node_ids[state.n_nodes :]
        of_ids = RowOrder()
        of_ids.ids = order.ids
        of_ids.check(X=X)
    order.check(coordinates=coordinates, groups=groups, time=time)
    order.check(offset=offset.offset, exposure=offset.exposure)
    new_labels = order.pair(new_labels, "new_labels")
    return arguments._replace(nodes=order.rows(nodes), new_labels=new_labels)


def predict_rows(state: FittedState, arguments: RowArguments) -> RowPredictions:
    """Return predictions of all or some nodes; rows beyond the reach of these are not read."""
    arguments = arguments._replace(graph=open_graphs(arguments.graph, arguments.X))
    if state.members:
        parts = [predict_rows(one, arguments) for one in state.members]
        result = parts[0]._replace(raw=np.mean([part.raw for part in parts], axis=0))
        known = [part.label_scores for part in parts if part.label_scores is not None]
        return result._replace(label_scores=np.mean(known, axis=0)) if known else result
    X, graph, nodes, new_labels, attach, coordinates, offset, groups, time = arguments
    X, coordinates = with_coordinates(state, X, coordinates)
    times = _times(state, X, time)
    if times is not None and isinstance(graph, Graph):
        graph = graph.with_time(times)
    if groups is not None:
        attach = attached_groups(state.graph, group_column(X, groups))
    has_no_edges = X is not None and graph is None and attach is None
    is_plain = has_no_edges and all(part is None for part in (new_labels, *offset))
    if is_plain and is_fitted_table(state, X, coordinates):
        result = RowPredictions.of_fitted_nodes(state)
    elif attach is not None or (has_no_edges and state.coordinates is not None):
        new = arguments._replace(X=X, graph=graph, attach=attach, coordinates=coordinates)
        result = _predict_attached(state, new, times)
    else:
        if X is not None and nodes is not None and not _may_use_labels(state, graph, new_labels):
            local = _predict_near(state, X, graph, nodes, offset)
            if local is not None:
                if state.candidate.labels is not None and new_labels is None:
                    warn_caller(NEW_NODES)
                return local
        if all(part is None for part in (X, graph, new_labels, *offset)):
            result = RowPredictions.of_fitted_nodes(state)
        else:
            scored = score_table(state, X, graph, offset)
            labels = labels_for(state, X, scored, new_labels)
            raw = apply_labels(state, scored, labels)
            at_labels = None if labels is None else raw[labels.nodes]
            rows = np.arange(len(raw))
            result = RowPredictions(raw, rows, scored.graph, labels, at_labels, X is None)
    return result.subset(nodes)


def with_coordinates(
    state: FittedState, X: TableLike, coordinates: ArrayLike | None
) -> tuple[Any, Any]:
    """Return a table with columns of its coordinates, if the fit had such, and other ones."""
    if X is None:
        return X, coordinates
    X, geometry = split_geometry(X if state.reader.is_sparse else dense_if_narrow(X))
    coordinates = geometry if coordinates is None else coordinates
    has_columns = state.coordinates is not None and bool(state.coordinates.columns)
    if not has_columns or np.shape(X)[1:] != (state.n_features - 2,):
        return X, coordinates
    if coordinates is not None:
        return append_columns(X, coordinates)[0], None
    if state.table is not None and count_rows(X) == state.n_nodes:
        joined = join_columns(X, state.table.values[:, -2:], state.reader.names[-2:])
        if is_fitted_table(state, joined):
            return joined, None
    raise ValueError(NEEDS_COORDINATES)


def _times(state: FittedState, X: object, time: ArrayLike | None) -> Array | None:
    """The times of the rows of another table; None unless only earlier neighbours are used."""
    if time is not None and not state.is_causal:
        raise ValueError("time was given, but this model was not fitted with causal=True.")
    if X is None or state.graph is None or not state.is_causal:
        return None
    if time is not None:
        return checks.time_column(time, read_table(state, X))
    if is_fitted_table(state, X):
        return state.graph.time
    raise ValueError("This model was fitted with causal=True: pass predict(X_new, time=...).")


def is_fitted_table(state: FittedState, X: object, coordinates: ArrayLike | None = None) -> bool:
    """Whether a table has the rows of the fitted one, as far as the state knows them."""
    is_known = state.table is not None or state.table_digest is not None
    if state.graph is None or not is_known or count_rows(X) != state.n_nodes:
        return False
    table = read_table(state, X)
    if coordinates is not None and state.coordinates is not None:
        points = state.coordinates.read(table, coordinates)
        if not np.array_equal(points, state.coordinates.points):
            return False
    if state.table is None:
        return fingerprint_of(table.values) == state.table_digest
    return _same_values(table.values, state.table.values)


def _same_values(one: AnyArray, other: AnyArray) -> bool:
    if sparse.issparse(one) or sparse.issparse(other):
        return sparse.issparse(one) and sparse.issparse(other) and (one != other).nnz == 0
    return bool(np.array_equal(one, other, equal_nan=True))


def _may_use_labels(state: FittedState, graph: Graphs | None, new_labels: object) -> bool:
    """Whether the rows of another table may have labels: new ones, or those of fitted nodes."""
    if new_labels is not None and not _is_empty(new_labels):
        return True
    if state.candidate.labels is None or state.graph is None:
        return False
    if isinstance(graph, Mapping) or graph is None:
        return True
    return bool((rows_of_nodes(state.graph, graph) >= 0).any())


def _is_empty(new_labels: object) -> bool:
    """Whether labels are ([], []): none is known."""
    if not isinstance(new_labels, (tuple, list)) or len(new_labels) != 2:
        return False
    return all(np.size(part) == 0 for part in new_labels)


def _predict_attached(
    state: FittedState, arguments: RowArguments, times: Array | None
) -> RowPredictions:
    """Return predictions of new rows that are connected to fitted nodes."""
    X, graph, _, new_labels, attach, coordinates, offset, *_ = arguments
    if state.graph is None or X is None:
        raise ValueError("attach needs X, the new rows, and a model that was fitted on a graph.")
    if isinstance(graph, Mapping) or state.relation_strengths is not None:
        raise ValueError("attach takes one graph, this model or graph has relations.")
    table = read_table(state, X)
    if attach is None and state.coordinates is not None:
        attach = state.coordinates.attach(table, coordinates)
    assert attach is not None
    joined = attached_graph(state.graph, table.n_rows, attach, graph)
    if state.graph.vectors is not None:
        vectors = np.zeros((joined.n_nodes, state.graph.vectors.shape[1]), dtype=np.float32)
        vectors[: state.n_nodes] = state.graph.vectors
        joined = joined.with_vectors(vectors)
    if state.graph.time is not None and times is not None:
        joined = joined.with_time(np.append(state.graph.time, times))
    fixed = np.vstack([state.fixed_scores, fixed_scores(state, table.n_rows, offset)])
    with threads(threads_for(state.n_jobs, table)):
        if state.pipeline.uses_graph:
            if state.table is None:
                problem = "attach needs the table fitted on, for the columns of neighbours"
                raise ValueError(f"{problem}: save the model with table=True.")
            all_rows = state.table.stack(table)
            scores = tree_scores(state, state.pipeline.transform(all_rows, joined))
        else:
            new = tree_scores(state, state.pipeline.transform(table, None))
            scores = np.vstack([state.scores, new])
        scored = _propagate(state, scores, joined, fixed)
    labels = state.labels if state.candidate.labels is not None else None
    if new_labels is not None:
        new_nodes = np.zeros(0, dtype=np.int64)
        own = _encoded_labels(state, new_labels, table.n_rows, new_nodes)
        own = replace(own, nodes=own.nodes + state.n_nodes)
        labels = own if labels is None else labels.concat(own)
    raw = apply_labels(state, scored, labels)
    at_labels = None if labels is None else raw[labels.nodes]
    rows = np.arange(state.n_nodes, len(raw))
    return RowPredictions(raw[state.n_nodes :], rows, joined, labels, at_labels, True)


def fixed_scores(state: FittedState, n_rows: int, offset: Offset) -> Array:
    """Return initial score and offset of the rows of another table."""
    column = checks.offset_column(*offset, n_rows, state.loss.log_link)
    if column is None and state.offset is not None:
        raise ValueError(
            "This model was fitted with an offset or exposure, and new rows need their own: pass "
            "predict(X_new, exposure=...) or predict(X_new, offset=...)."
        )
    if column is not None and state.candidate.loss is not None:
        name = type(state.candidate.loss).__name__
        raise ValueError(
            f"offset was given, but this model was fitted without one, with the {name} loss, which "
            "predicted labels better: fit with offset=... or with loss='squared_error'."
        )
    return np.broadcast_to(
        state.init_score + (0.0 if column is None else column), (n_rows, state.n_outputs)
    )


def score_table(
    state: FittedState, X: object, graph: Graphs | None, offset: Offset = NO_OFFSET
) -> TableScores:
    """Return the scores of the fitted nodes, or of another table, before labels are used."""
    if X is None:
        if graph is not None:
            raise ValueError("graph was given without X: pass predict(X_new, graph=g_new).")
        if any(part is not None for part in offset):
            raise ValueError(
                "offset and exposure of the fitted nodes are those of fit: pass them with X. For "
                "rates divide predict() by the exposure."
            )
        propagated = state.fixed_scores + state.propagated_scores
        return TableScores(state.scores, propagated, state.graph)
    if is_dask(X) and not state.pipeline.uses_graph:
        check_feature_names(state, X)
        scores = scores_of(X, state.reader, state.pipeline, state.ensemble)
        fixed = fixed_scores(state, len(scores), Offset(*gathered(*offset)))
        with threads(1):
            return _propagate(state, scores, graph_for(state, None, len(scores), graph), fixed)
    (X,) = gathered(X)
    table = read_table(state, X)
    one_graph = graph_for(state, X, table.n_rows, graph)
    fixed = fixed_scores(state, table.n_rows, offset)
    with threads(threads_for(state.n_jobs, table)):
        scores = tree_scores(state, state.pipeline.transform(table, one_graph))
        return _propagate(state, scores, one_graph, fixed)


def _propagate(state: FittedState, scores: Array, graph: Graph | None, fixed: Array) -> TableScores:
    operator = propagation_operator(state.candidate.smoothing, graph, len(scores))
    return TableScores(scores, fixed + operator.apply(scores), graph)


def _predict_near(
    state: FittedState, X: object, graph: Graphs | None, nodes: ArrayLike, offset: Offset
) -> RowPredictions | None:
    """Predictions of some rows computed from the rows in reach only; None without a limit."""
    check_feature_names(state, X)
    n_rows = count_rows(X)
    one_graph = None if n_rows is None else graph_for(state, X, n_rows, graph)
    column_hops = state.pipeline.hops(one_graph)
    hops = propagation_hops(state, one_graph)
    if n_rows is None or column_hops is None or hops is None:
        return None
    rows = checks.node_positions(nodes, n_rows, repeats=True)
    fixed = fixed_scores(state, n_rows, offset)
    center = np.unique(rows) if rows.size else np.zeros(1, dtype=np.int64)
    if one_graph is None:
        scores = tree_scores(state, state.pipeline.transform(read_rows(state, X, center), None))
        raw = apply_labels(state, _propagate(state, scores, None, fixed[center]), None)
        return RowPredictions(raw[np.searchsorted(center, rows)], rows, None)
    wide = one_graph.neighborhood(center, column_hops + hops)
    table = read_rows(state, X, wide.nodes)
    with threads(threads_for(state.n_jobs, table)):
        features = state.pipeline.transform(table, wide.graph)
        near = one_graph.neighborhood(center, hops) if column_hops else wide
        features = features.subset(wide.distance <= hops) if column_hops else features
        scored = _propagate(state, tree_scores(state, features), near.graph, fixed[near.nodes])
    raw = apply_labels(state, scored, None)
    return RowPredictions(raw[np.searchsorted(near.nodes, rows)], rows, one_graph)


def apply_labels(
    state: FittedState, scored: TableScores, labels: Labels | None, backend: Backend | None = None
) -> Array:
    """Return raw predictions: propagated scores and the field of the known labels."""
    scores, propagated, graph = scored
    use = state.candidate.labels
    if isinstance(use, MaskedLabels):
        known = labels or Labels(np.zeros(0, dtype=np.int64), np.zeros((0, 1)), np.zeros(0))
        operator = propagation_operator(state.candidate.smoothing, graph, len(scores))
        return masked_prediction(use, operator, scores, known, state.init_score)
    if graph is None or labels is None or not isinstance(use, LatentField):
        return state.to_raw(propagated)
    labels = state.candidate.clipped(labels)
    problem = (graph, labels, state.training_loss, propagated[labels.nodes])
    mode = (backend or Backend()).field_mode(use, *problem)
    return state.to_raw(propagated + mode)


def with_labels(state: FittedState, labels: Labels, backend: Backend | None = None) -> FittedState:
    """Return the state in which predictions of the fitted nodes use these labels."""
    if state.members:
        members = tuple(with_labels(one, labels, backend) for one in state.members)
        return replace(state, labels=labels).with_members(members)
    raw = apply_labels(state, score_table(state, None, None), labels, backend)
    return replace(state, labels=labels, raw_predictions=raw)


def labels_for(
    state: FittedState, X: object, scored: TableScores, new_labels: object
) -> Labels | None:
    """Return the labels that a prediction uses: those of fitted nodes among the rows, and new ones.

    A new label of a row replaces that of the fit.
    """
    own = None
    if state.candidate.labels is not None:
        own = state.labels if X is None else _labels_of_rows(state, X, scored, new_labels)
    if new_labels is None:
        return own
    taken = own.nodes if own is not None and X is None else np.zeros(0, dtype=np.int64)
    new = _encoded_labels(state, new_labels, len(scored.scores), taken)
    if own is None:
        return new if new.nodes.size else None
    return own.subset(~np.isin(own.nodes, new.nodes)).concat(new)


def _encoded_labels(state: FittedState, new_labels: object, n_rows: int, taken: IntArray) -> Labels:
    """Return new labels, weighing as much as those of the fit do on average."""
    is_classifier = state.is_classifier
    nodes, values = checks.extra_labels(new_labels, taken, n_rows, is_classifier, "new_labels")
    if state.candidate.labels is None and nodes.size:
        raise ValueError(
            "new_labels was given, but this model does not use labels at prediction "
            "(labels='none', or labels='auto' without a selected field). Fit with labels='field'."
        )
    target = state.output.encode_checked(values, "new_labels")
    weight = state.labels.weight.mean() if state.labels.nodes.size else 1.0
    return Labels(nodes, target, np.full(nodes.size, weight))


def _labels_of_rows(
    state: FittedState, X: object, scored: TableScores, new_labels: object
) -> Labels | None:
    """Return the labels of the rows that are fitted nodes: by their ids, or if all are the same."""
    graph = scored.graph
    if graph is None or state.graph is None:
        return None
    row_of = rows_of_nodes(state.graph, graph)
    has_ids = graph.has_ids and state.graph.has_ids
    same = not has_ids and row_of.size and (row_of >= 0).all()
    if same and not _has_fitted_rows(state, X, scored.scores):
        row_of[:] = -1
    labels = replace(state.labels, nodes=row_of[state.labels.nodes])
    if (row_of < 0).all() and new_labels is None:
        warn_caller(NEW_NODES)
    known = labels.nodes >= 0
    return labels.subset(known) if known.any() else None


def _has_fitted_rows(state: FittedState, X: object, scores: Array) -> bool:
    """Whether rows on the fitted graph are the fitted ones: the trees score half or more equally.

    Another table on the same graph, such as a second image on one grid of pixels, has other scores.
    """
    tolerance = 1e-6 * float(np.abs(state.scores).max(initial=0.0))
    is_same = (np.abs(scores - state.scores) <= tolerance).all(axis=1)
    return bool(is_same.mean() >= 0.5) or is_fitted_table(state, X)


def tree_scores(state: FittedState, features: Table) -> Array:
    """Return the scores f of a table of features, block by block."""
    return np.vstack([state.ensemble.predict(block) for block in features.blocks()])


def propagation_operator(
    smoothing: Smoother | None, graph: Graph | None, n_rows: int
) -> Propagation:
    """Return P on a graph, the identity without a graph, without smoothing, or with groups."""
    if smoothing is None or graph is None or graph.groups is not None:
        return IdentityOperator(n_rows)
    return smoothing.operator(graph)


def propagation_hops(state: FittedState, graph: Graph | None) -> int | None:
    """Return how many edges away P reaches; None without a limit."""
    smoothing = state.candidate.smoothing
    if graph is None or graph.groups is not None or smoothing is None:
        return 0
    return smoothing.hops(graph)
