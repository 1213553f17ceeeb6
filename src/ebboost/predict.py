"""Predictions of a fitted model: for its rows, for new rows near them, for another graph."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.validation import _check_feature_names, _get_feature_names

from ebboost._common import Array, IntArray, LabelledRows, TableLike, warn_caller
from ebboost.data import checks
from ebboost.data.coordinates import NEEDS_COORDINATES, append_columns, join_columns
from ebboost.data.labels import Labels
from ebboost.data.neighbors import Places
from ebboost.data.reader import count_rows, split_geometry
from ebboost.data.row_order import RowOrder
from ebboost.data.table import Table
from ebboost.field import FieldEnergy, Posterior, at, conditional_mean
from ebboost.graph import Graph
from ebboost.graph._edges import edge_weights
from ebboost.graph.ids import positions_of
from ebboost.model import Component, Model
from ebboost.threads import max_threads, threads

NEW_NODES = (
    "The rows of X are taken as new nodes, without labels: graph has other node ids than that of "
    "the fit, or none. Pass attach= to connect new rows to fitted nodes, or new_labels=(nodes, y); "
    "new_labels=([], []) if no label is known."
)
NEEDS_TABLE = "needs the table fitted on, for the columns of neighbours: save it with table=True."


@dataclass(frozen=True)
class Rows:
    """Rows to predict: those of the fit, or a table and where its rows are.

    New rows have ``edges`` to the nodes of the fitted graph, and edges ``between`` each other; or
    they are at ``nodes`` of it, −1 for none; or they have ``places`` on a graph of their own.
    """

    table: Table | None = None
    offset: Array | None = None
    edges: sparse.csr_array | None = None
    between: sparse.csr_array | None = None
    nodes: IntArray | None = None
    places: Places | None = None
    points: Array | None = None  # of rows with coordinates
    trials: Array | None = None  # of rows whose labels are shares

    @cached_property
    def near(self) -> tuple[IntArray, sparse.csr_array]:
        """The fitted nodes that edges lead to, and the edges to these alone."""
        assert self.edges is not None
        nodes, ends = np.unique(self.edges.indices, return_inverse=True)
        parts = (self.edges.data, ends, self.edges.indptr)
        return nodes, sparse.csr_array(parts, shape=(self.edges.shape[0], nodes.size))

    @property
    def degrees(self) -> Array:
        """Degrees of new nodes with edges."""
        assert self.edges is not None
        parts = [self.edges] if self.between is None else [self.edges, self.between]
        return sum((np.asarray(part.sum(axis=1)).ravel() for part in parts), np.zeros(1))


@dataclass(frozen=True)
class Predictions:
    """Raw predictions of rows; ``position`` are those among the fitted rows, None for others."""

    raw: Array
    rows: Rows
    position: IntArray | None = None


def predict_rows(
    model: Model,
    X: TableLike = None,
    *,
    graph: Graph | None = None,
    nodes: ArrayLike | None = None,
    attach: Any = None,
    new_labels: LabelledRows | None = None,
    groups: Any = None,
    offset: Any = None,
    exposure: Any = None,
) -> Predictions:
    """Return predictions of all or some rows."""
    order = order_of(model, X, graph)
    order.check(offset=offset, exposure=exposure, groups=groups, attach=attach)
    new_labels = order.pair(new_labels, "new_labels")
    with threads(max_threads(model.parameters.get("n_jobs"))):
        has_trials = model.output.loss.has_trials and exposure is not None and X is not None
        own = None if has_trials else exposure
        rows = locate(model, X, graph, attach, groups, offset, own)
        if has_trials:
            n_rows = model.n_rows if rows.table is None else rows.table.n_rows
            rows = replace(rows, trials=checks.row_numbers(exposure, n_rows, "exposure"))
        if rows.table is None:
            raw = model.raw.copy()
            if new_labels is not None:
                known = (model.n_rows, model.labels.rows, model.trials)
                labels = extra_labels(model, new_labels, *known)
                raw = model.predictions_given(model.labels.concat(labels))
            result = Predictions(raw, rows, np.arange(model.n_rows))
        elif rows.places is not None or new_labels is not None:
            result = Predictions(on_graph(model, rows, new_labels), rows)
        else:
            pairs = enumerate(model.components)
            parts = [one.to_raw(new_scores(model, number, rows)) for number, one in pairs]
            result = Predictions(model.weighted(parts, rows.offset), rows)
    if nodes is None:
        return result
    return select(result, checks.node_positions(order.rows(nodes), len(result.raw), repeats=True))


def order_of(model: Model, X: TableLike, graph: Graph | None) -> RowOrder:
    """Return what is known about the order of the rows to predict."""
    if X is None:
        names = model.graph if model.places is not None and model.places.are_rows else None
        return RowOrder(None, names, model.row_labels)
    return RowOrder(X, graph)


def names_of(model: Model, X: TableLike, graph: Graph | None, nodes: Any) -> Any:
    """Return what rows are called: their pandas index, or ids of a graph; None if they are not."""
    order = order_of(model, X, graph)
    names = order.ids if order.index is None else order.index
    if names is None or nodes is None:
        return names
    return names[checks.node_positions(order.rows(nodes), len(names), repeats=True)]


def select(predictions: Predictions, chosen: IntArray) -> Predictions:
    """Return the predictions of some rows."""
    rows = predictions.rows
    parts = {
        name: value if value is None else value[chosen]
        for name, value in vars(rows).items()
        if name in ("offset", "edges", "nodes", "points", "trials")
    }
    if rows.table is not None:
        parts["table"] = rows.table.subset(chosen)
    if rows.between is not None:
        parts["between"] = rows.between[chosen][:, chosen]
    position = predictions.position
    own = replace(rows, **parts)
    return Predictions(predictions.raw[chosen], own, None if position is None else position[chosen])


def locate(
    model: Model,
    X: TableLike,
    graph: Graph | None,
    attach: Any,
    groups: Any,
    offset: Any,
    exposure: Any,
) -> Rows:
    """Return where the rows of a table are; those of the fit if it is the fitted table."""
    if X is None:
        for name, value in (("graph", graph), ("attach", attach), ("groups", groups)):
            if value is not None:
                raise ValueError(f"{name} was given without X: pass predict(X_new, {name}=...).")
        if offset is not None or exposure is not None:
            raise ValueError(
                "offset and exposure of the fitted rows are those of fit: pass them with X. For "
                "rates divide predict() by the exposure."
            )
        return Rows()
    X, points = with_coordinates(model, X, attach)
    attach = attach if model.coordinates is None else None  # points by now
    table = read_table(model, X)
    n_rows = table.n_rows
    column = offset_of(model, offset, exposure, n_rows)
    fitted = model.places
    plain = all(one is None for one in (graph, attach, groups, column))
    if fitted is None:
        if graph is not None or attach is not None or groups is not None:
            name = "graph" if graph is not None else "attach" if attach is not None else "groups"
            raise ValueError(f"{name} was given, but this model was fitted without one.")
        return Rows(table, column)
    if plain and points is None and is_fitted_table(model, table):
        return Rows()
    if model.coordinates is not None and graph is None:
        if points is None and plain and is_fitted_table(model, table):
            return Rows()
        own = model.coordinates.read(table, points)
        return Rows(table, column, edges=model.coordinates.edges(own), points=own)
    if groups is not None:
        from ebboost.groups import nodes_of, read_groups

        if fitted.are_rows:
            raise ValueError("groups was given, but this model was fitted without groups.")
        return Rows(table, column, nodes=nodes_of(fitted, read_groups(X, groups, n_rows)))
    if attach is not None and not fitted.groups:
        between = None
        if graph is not None:
            checks.check_graph(graph, n_rows, X)
            between = graph.adjacency
        return Rows(table, column, edges=attached_edges(model, attach, n_rows), between=between)
    if not fitted.are_rows:
        raise ValueError(
            "This model was fitted with groups: call predict() for the fitted rows, or "
            "predict(X_new, groups=...) with the group of each new row."
        )
    if graph is None:
        raise ValueError(
            "This model was fitted on a graph, so a prediction needs one: call predict() for the "
            "fitted rows, predict(X_new, attach=(rows, nodes)) for rows that are connected to "
            "them, or predict(X_new, graph=g_new) for rows with a graph of their own."
        )
    checks.check_graph(graph, n_rows, X)
    return Rows(table, column, places=Places.of_rows(graph))


def with_coordinates(model: Model, X: TableLike, attach: Any) -> tuple[Any, Any]:
    """Return a table with columns of its coordinates, if the fit had such; and other points."""
    X, geometry = split_geometry(X)
    points = geometry if model.coordinates is None or attach is None else attach
    has_columns = model.coordinates is not None and bool(model.coordinates.columns)
    if not has_columns or np.shape(X)[1:] != (len(model.reader.names) - 2,):
        return X, points
    if points is not None:
        return append_columns(X, points)[0], None
    if model.table is not None and count_rows(X) == model.n_rows:
        joined = join_columns(X, model.table.values[:, -2:], model.reader.names[-2:])
        if is_fitted_table(model, model.reader.read(joined)):
            return joined, None
    raise ValueError(NEEDS_COORDINATES)


def read_table(model: Model, X: TableLike) -> Table:
    """Return another table, rejected if its columns are not those of the fit."""
    learned: dict[str, object] = {"n_features_in_": len(model.reader.names)}
    if model.feature_names is not None:
        own = _get_feature_names(X)  # in another order they are sorted by the reader
        is_same = own is not None and set(own) == set(model.feature_names)
        learned["feature_names_in_"] = own if is_same else model.feature_names
    # scikit-learn reads these two attributes and the name of the class.
    _check_feature_names(type(model.estimator, (), learned)(), X, reset=False)
    table = model.reader.read(X)
    if table.values.shape[1] != len(model.reader.names):
        expected = f"{model.estimator} is expecting {len(model.reader.names)} features as input"
        raise ValueError(f"X has {table.values.shape[1]} features, but {expected}.")
    return table


def is_fitted_table(model: Model, table: Table) -> bool:
    """Whether a table is the fitted one, as far as the model knows it."""
    if model.table is None or table.n_rows != model.n_rows:
        return False
    one, other = table.values, model.table.values
    if sparse.issparse(one):
        return bool((one != other).nnz == 0)
    return bool(np.array_equal(one, other, equal_nan=True))


def offset_of(model: Model, offset: Any, exposure: Any, n_rows: int) -> Array | None:
    """Return the offset of new rows; they need one if and only if the fit had one."""
    column = checks.offset_column(offset, exposure, n_rows, model.output.loss.log_link)
    if column is None and model.offset is not None:
        raise ValueError(
            "This model was fitted with an offset or exposure, and new rows need their own: pass "
            "predict(X_new, exposure=...) or predict(X_new, offset=...)."
        )
    own = next((one.loss for one in model.components if one.loss is not None), None)
    if column is not None and own is not None:
        raise ValueError(
            f"offset was given, but this model was fitted without one, partly with the "
            f"{type(own).__name__} loss: fit with offset=... or with loss='squared_error'."
        )
    return column


def attached_edges(model: Model, attach: Any, n_rows: int) -> sparse.csr_array:
    """Return the edges of new rows to fitted nodes, from pairs and their weights."""
    assert model.places is not None
    graph = model.places.graph
    if not isinstance(attach, (tuple, list)) or len(attach) not in (2, 3):
        raise ValueError(
            "attach must be (rows, nodes) or (rows, nodes, weight): rows of X and the fitted nodes "
            "that they are connected to."
        )
    rows = checks.node_positions(attach[0], n_rows, "attach[0]", repeats=True)
    found = RowOrder(None, graph).rows(attach[1], "attach[1]", strict=True)
    table = "the table fitted on"
    nodes = checks.node_positions(found, graph.n_nodes, "attach[1]", repeats=True, table=table)
    if rows.size != nodes.size:
        problem = f"attach names {rows.size} rows and {nodes.size} fitted nodes"
        raise ValueError(f"{problem}: pass a pair for each edge.")
    weight = np.ones(rows.size)
    if len(attach) == 3:
        weight = edge_weights(attach[2], rows.size)
    entries = sparse.coo_array((weight, (rows, nodes)), shape=(n_rows, graph.n_nodes))
    edges = sparse.csr_array(entries)
    edges.eliminate_zeros()
    return edges


def new_columns(model: Model, one: Component, rows: Rows) -> Table:
    """Return the columns of a component's trees for new rows."""
    assert rows.table is not None
    if model.places is None or not one.features.uses_graph:
        return one.features.transform(rows.table, None)
    if rows.places is not None:
        return features_on(model, one, rows.places).transform(rows.table, rows.places)
    if model.table is None:
        raise ValueError(f"predict {NEEDS_TABLE}")
    if rows.nodes is not None:
        return one.features.at_nodes(rows.table, model.table, model.places, rows.nodes)
    assert rows.edges is not None
    degrees = model.places.graph.degrees
    if one.features.smoothing is not None:  # which fills in means over all rows
        return one.features.join(rows.table, model.table, rows.edges, (rows.degrees, degrees))
    nodes, edges = rows.near
    vectors = one.features.vectors
    features = replace(one.features, vectors=None if vectors is None else vectors[nodes])
    return features.join(
        rows.table, model.table.subset(nodes), edges, (rows.degrees, degrees[nodes])
    )


def features_on(model: Model, one: Component, places: Places) -> Any:
    """Return features whose spectral vectors are those of another graph's nodes, by their ids."""
    vectors = one.features.vectors
    if vectors is None or model.places is None:
        return one.features
    known = rows_of_nodes(model.places.in_one_group().graph, places.graph)
    own = np.zeros((places.graph.n_nodes, vectors.shape[1]), dtype=vectors.dtype)
    own[known[known >= 0]] = vectors[known >= 0]
    return replace(one.features, vectors=own)


def rows_of_nodes(fitted: Graph, graph: Graph) -> IntArray:
    """Return the position of each fitted node in another graph, by its id; −1 for none."""
    if fitted is graph:
        return np.arange(fitted.n_nodes)
    if not (graph.has_ids and fitted.has_ids):
        return np.full(fitted.n_nodes, -1)
    return positions_of(graph.node_ids, fitted.node_ids)


def new_scores(model: Model, number: int, rows: Rows) -> Array:
    """Return scores of new rows near the fitted ones, which stay as they are."""
    one = model.components[number]
    base = one.ensemble.predict(new_columns(model, one, rows))
    fixed = one.init_score + (0.0 if rows.offset is None else rows.offset)
    if model.places is None:
        return fixed + base
    degrees = model.places.graph.degrees
    z = model.fields[number]
    if rows.edges is not None:
        nodes, edges = rows.near
        if one.smoothing is not None:
            near = model.smoothed[number][nodes] - one.init_score
            near = near if model.offset is None else near - model.offset[nodes]
            base = one.smoothing.join(base, edges, near, degrees[nodes])
        if one.process is not None:
            base = base + model.process_given(number, model.labels, rows.points)[0][:, None]
        elif z is not None and one.field is not None:
            mean, _ = conditional_mean(one.field, edges, rows.between, z[nodes], degrees[nodes])
            base = base + mean
    elif rows.nodes is not None and z is not None:
        base = base + at(z, rows.nodes.reshape(len(rows.nodes), -1))
    return fixed + base


def on_graph(model: Model, rows: Rows, new_labels: LabelledRows | None) -> Array:
    """Return raw predictions of rows on a graph of their own, or with labels of their own.

    Labels of fitted nodes with the same ids are used, too.
    """
    assert rows.table is not None
    if model.places is None:
        raise ValueError("new_labels needs a model that was fitted on a graph.")
    n_rows = rows.table.n_rows
    labels: Labels | None = None
    if rows.places is None:  # the fitted nodes followed by the new ones
        if rows.edges is None:
            raise ValueError("new_labels of rows at fitted nodes are not supported: fit again.")
        graph = joined_graph(model.places.graph, rows)
        places, first, labels = Places.of_rows(graph), model.n_rows, model.labels
    else:
        places, first, graph = rows.places, 0, rows.places.graph
        nodes = model.places.node_of_row[model.labels.rows]
        known = rows_of_nodes(model.places.graph, graph)[nodes]
        if (known >= 0).any():
            labels = replace(model.labels, rows=known).subset(known >= 0)
        elif new_labels is None and any(one.field is not None for one in model.components):
            warn_caller(NEW_NODES)
    if new_labels is not None:
        own = extra_labels(model, new_labels, n_rows, np.zeros(0, dtype=np.int64), rows.trials)
        own = replace(own, rows=own.rows + first)
        labels = (
            own if labels is None else labels.subset(~np.isin(labels.rows, own.rows)).concat(own)
        )
    raw = []
    for one in model.components:
        base = one.ensemble.predict(new_columns(model, one, rows))
        base = np.vstack([one.scores, base]) if first else base
        if one.smoothing is not None:
            base = one.smoothing.operator(graph).apply(base)
        offset = rows.offset
        if first and offset is not None and model.offset is not None:
            offset = np.vstack([model.offset, offset])
        scores = one.init_score + base + (0.0 if offset is None else offset)
        if one.process is not None and labels is not None and labels.size:
            scores = scores + process_on(model, one, rows, labels, scores)
        elif one.field is not None and labels is not None and labels.size:
            known_labels = one.labels_for(labels).relative()
            posterior = Posterior(one.field.prior(graph), places.node_of_row[labels.rows])
            energy = FieldEnergy(posterior, one.loss or model.output.loss, known_labels)
            scores = scores + energy.mode(scores[labels.rows])[places.node_of_row]
        raw.append(one.to_raw(scores[first:]))
    return model.weighted(raw, rows.offset)


def process_on(
    model: Model, one: Component, rows: Rows, labels: Labels, scores: Array
) -> Array | float:
    """Return the mean of a process at the fitted rows followed by new ones, given labels of both.

    0 for rows of another graph, whose points are not known.
    """
    if rows.points is None or model.coordinates is None or one.process is None:
        return 0.0
    points = np.vstack([model.coordinates.points, rows.points])
    residuals = (labels.target - scores[labels.rows])[:, 0]
    known = (points[labels.rows], residuals, labels.relative().weight)
    return one.process.posterior(points, *known)[0][:, None]


def joined_graph(fitted: Graph, rows: Rows) -> Graph:
    """Return the graph of the fitted nodes followed by new rows with edges to them."""
    assert rows.edges is not None
    n_new = rows.edges.shape[0]
    between = rows.between if rows.between is not None else sparse.csr_array((n_new, n_new))
    blocks = [[fitted.adjacency, rows.edges.T], [rows.edges, between]]
    return Graph(sparse.csr_array(sparse.block_array(blocks, format="csr")))


def extra_labels(
    model: Model,
    new_labels: LabelledRows,
    n_rows: int,
    taken: Sequence[int] | IntArray,
    trials: Array | None,
) -> Labels:
    """Return new labels, weighing as much as those of the fit do on average or by their trials."""
    classes = model.output.is_classifier
    rows, values = checks.extra_labels(new_labels, np.asarray(taken), n_rows, classes, "new_labels")
    if rows.size and not any(one.field is not None for one in model.components):
        raise ValueError(
            "new_labels was given, but this model does not use labels at prediction: no field "
            "helped, or labels='none'. Fit with labels='field'."
        )
    target = model.output.encode(values, "new_labels")
    weight = model.labels.weight.mean() if model.labels.size else 1.0
    relative = np.ones(rows.size) if trials is None else model.weight_of(trials[rows])
    return Labels(rows, target, weight * relative)
