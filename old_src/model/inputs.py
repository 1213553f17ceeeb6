"""Tables and graphs to predict, read and checked against those of the fit."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_feature_names

from ebboost.backends.dask import gathered, is_dask
from ebboost.data import validation as checks
from ebboost.data.parquet import ParquetTable
from ebboost.data.reader import rows_of
from ebboost.data.table import Table
from ebboost.data.types import IntArray, TableLike
from ebboost.data.warn import warn_caller
from ebboost.graph import Graph, Graphs
from ebboost.model.state import FittedState

NO_POSITION = (
    "The rows of X are taken as new nodes: graph has neither the node ids nor the edges of the "
    "fit, so that their spectral columns are 0. Pass attach= to connect them to fitted nodes, or "
    "fit with spectral_features=None."
)


def read_table(state: FittedState, X: object) -> Table:
    """Return another table, rejected if its columns are not those of the fit."""
    check_feature_names(state, X)
    table = state.reader.read(*gathered(X))
    n_columns = table.values.shape[1]
    if n_columns != state.n_features:
        expected = f"{state.estimator} is expecting {state.n_features} features as input"
        raise ValueError(f"X has {n_columns} features, but {expected}.")
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
    if table.n_rows != state.n_nodes:
        problem = f"X has {table.n_rows} rows but the model was fitted on {state.n_nodes}"
        raise ValueError(f"{problem}: pass the table fitted on.")
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
    if state.graph is not None and state.graph.groups is not None:
        raise ValueError(
            "This model was fitted with groups: call predict() for the fitted rows, or "
            "predict(X_new, groups=...) with the group of each new row."
        )
    if state.graph is not None and graph is None:
        raise ValueError(
            "This model was fitted on a graph, so a prediction needs one: call predict() for the "
            "fitted nodes, predict(X_new, attach=(rows, nodes)) for rows that are connected to "
            "them, or predict(X_new, graph=g_new) for rows with a graph of their own."
        )
    if state.graph is None and graph is not None:
        raise ValueError("graph was given, but this model was fitted without one: call predict(X).")
    checks.check_graph(graph, n_rows, X)
    strengths = state.relation_strengths
    if isinstance(graph, Mapping) and strengths is not None and set(graph) != set(strengths):
        text = f"graph must have the relations of the fit, {list(strengths)}, got {list(graph)}."
        raise ValueError(text)
    one_graph = mix_relations(graph, strengths)
    return None if one_graph is None else aligned_graph(state, one_graph)


def aligned_graph(state: FittedState, graph: Graph) -> Graph:
    """Return another graph with the spectral vectors of the fitted nodes that it has."""
    assert state.graph is not None
    uses_directions = state.pipeline.neighbor_features is not None
    directed = graph.outgoing is not None
    if uses_directions and directed != (state.graph.outgoing is not None):
        raise ValueError(f"graph must be made with directed={not directed}, as at fit.")
    if state.graph.vectors is None:
        return graph
    row_of = rows_of_nodes(state.graph, graph)
    if state.candidate.labels is None and (row_of < 0).all():
        warn_caller(NO_POSITION)
    vectors = np.zeros((graph.n_nodes, state.graph.vectors.shape[1]), dtype=np.float32)
    vectors[row_of[row_of >= 0]] = state.graph.vectors[row_of >= 0]
    return graph.with_vectors(vectors)


def rows_of_nodes(fitted: Graph, graph: Graph) -> IntArray:
    """The row of each fitted node in another graph, by its id or in the same graph; -1 for none."""
    if graph.has_ids and fitted.has_ids:
        position = {node: row for row, node in enumerate(graph.node_ids.tolist())}
        return np.array([position.get(node, -1) for node in fitted.node_ids.tolist()])
    return np.arange(fitted.n_nodes) if fitted.has_edges_of(graph) else np.full(fitted.n_nodes, -1)


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
        raise TypeError(f"graph must be one: the model was fitted on one graph, got {list(graph)}.")
    return Graph.mix(graph, strengths)
