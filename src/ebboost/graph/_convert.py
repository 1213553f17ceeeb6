"""Graphs of other libraries, dataframes and matrices to a symmetric adjacency and node ids."""

import os
from collections.abc import Iterable
from importlib import import_module
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ebboost._common import TableLike, warn_caller
from ebboost.graph._edges import (
    DISTANCE_NAMES,
    WEIGHT_NAMES,
    Weights,
    distance_weights,
    edge_columns,
    edge_weights,
    node_positions,
    one_way_matrix,
)
from ebboost.graph.ids import Ids, as_id_array, check_unique_ids, is_default, lookup, positions_of


class Conversion(NamedTuple):
    """Edges from row to column, whether the input has directions, and node ids.

    Of an edge list it is not known: an undirected one lists the ends of an edge in any order.
    """

    one_way: sparse.csr_array
    has_directions: bool = False
    node_ids: Ids | None = None


def from_edges(
    source: ArrayLike, target: ArrayLike, weight: ArrayLike | None, n_nodes: int | None
) -> Conversion:
    """Convert an edge list of node positions."""
    src = node_positions(source, "source")
    dst = node_positions(target, "target")
    if src.shape != dst.shape:
        sizes = f"{src.size} and {dst.size} edges"
        raise ValueError(f"source and target must be equally long, got {sizes}.")
    if n_nodes is None:
        n_nodes = int(max(src.max(initial=-1), dst.max(initial=-1))) + 1
    n_nodes = check_n_nodes(n_nodes)
    weights = None if weight is None else edge_weights(weight, src.size)
    return Conversion(one_way_matrix(src, dst, weights, n_nodes))


def check_n_nodes(n_nodes: int) -> int:
    """Return ``n_nodes`` as an int of at least 1."""
    if not isinstance(n_nodes, (int, np.integer)) or n_nodes < 1:
        raise ValueError(f"n_nodes must be an integer of at least 1, got {n_nodes!r}.")
    return int(n_nodes)


def from_matrix(matrix: Any) -> Conversion:
    """Convert a sparse or dense adjacency matrix."""
    if not sparse.issparse(matrix):
        matrix = np.asarray(matrix)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 1:
        raise ValueError(f"matrix must be two-dimensional and square, got shape {matrix.shape}.")
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"matrix must hold real numbers, got dtype {matrix.dtype}.")
    entries = sparse.coo_array(matrix)
    entries.sum_duplicates()
    row, column = entries.coords
    try:
        weights = edge_weights(entries.data, entries.data.size)
    except ValueError as error:
        first = int(np.flatnonzero(~np.isfinite(entries.data) | (entries.data < 0))[0])
        raise ValueError(f"matrix, row {row[first]}, column {column[first]}: {error}") from None
    keep = (row != column) & (weights > 0)
    one_way = sparse.csr_array((weights[keep], (row[keep], column[keep])), shape=matrix.shape)
    return Conversion(one_way, has_directions=True)


def from_dataframe(
    edges: TableLike,
    nodes: TableLike,
    source: str | None,
    target: str | None,
    weight: str | None,
    distance: str | None,
    node_id: str | None,
    drop_unknown: bool,
) -> Conversion:
    """Convert a dataframe of edges between nodes with ids."""
    table = _eager(edges, "edges")
    if weight is not None and distance is not None:
        raise ValueError("weight and distance exclude each other: name one column.")
    columns = edge_columns(table.columns, source, target, weight or distance, "edges")
    values = {f"edges[{column!r}]": table.get_column(column).to_numpy() for column in columns}
    ends = {name: as_id_array(ids, name) for name, ids in values.items()}
    weights = None
    if name := weight or distance:
        weights = edge_weights(table.get_column(name).to_numpy(), len(table))
        weights = weights if distance is None else distance_weights(weights)
    else:
        _warn_of_weights([name for name in table.columns if name not in columns])
    if nodes is None:
        source_ids, target_ids = ends.values()
        try:
            ids = as_id_array(sorted({*source_ids.tolist(), *target_ids.tolist()}), "edges")
        except TypeError:
            raise TypeError(
                "edges holds ids of different kinds, which cannot be sorted: pass nodes, the ids "
                "in the order of the rows of your table."
            ) from None
    elif nw.dependencies.is_into_dataframe(nodes):
        node_table = _eager(nodes, "nodes")
        column = node_table.columns[0] if node_id is None else node_id
        if column not in node_table.columns:
            others = node_table.columns
            raise ValueError(f"node_id={column!r} is not a column of nodes; there are {others}.")
        ids = as_id_array(node_table.get_column(column).to_numpy(), f"nodes[{column!r}]")
    else:
        ids = as_id_array(nodes, "nodes")
    if drop_unknown:
        known = np.all([positions_of(ids, end) >= 0 for end in ends.values()], axis=0)
        ends = {name: end[known] for name, end in ends.items()}
        weights = None if weights is None else weights[known]
    return _from_ids(ids, ids, ends, weights)


def _warn_of_weights(unused: list[str]) -> None:
    """Warn of a column that is named like weights or distances but not used."""
    for argument, usual in (("weight", WEIGHT_NAMES), ("distance", DISTANCE_NAMES)):
        for name in unused:
            if str(name).lower() in usual:
                use = f"pass {argument}={name!r}, or edges without this column"
                warn_caller(f"Column {name!r} of edges is not used: {use}.")
                return


def from_networkx(graph: Any, weight: str | None, nodes: Iterable[object] | None) -> Conversion:
    """Convert a networkx graph."""
    if not hasattr(graph, "is_directed") or not hasattr(graph, "nodes"):
        raise TypeError(f"graph must be a networkx graph, got {type(graph)}.")
    graph_ids = as_id_array(graph.nodes, "graph.nodes")
    ids = graph_ids if nodes is None else as_id_array(nodes, "nodes")
    if nodes is None and ids.dtype.kind in "iu":
        ids = np.sort(ids)
    lookup(ids, graph_ids, "graph", "Add it to nodes, or remove it from the graph.")
    edges = list(graph.edges(data=weight or False, default=1.0))
    sides = enumerate(("source", "target"))
    ends = {name: as_id_array([edge[i] for edge in edges], name) for i, name in sides}
    weights = edge_weights([edge[2] if weight else 1.0 for edge in edges], len(edges))
    return _from_ids(ids, ids, ends, weights, graph.is_directed())


def from_igraph(graph: Any, weight: str | None) -> Conversion:
    """Convert an igraph graph; ids are the vertex attribute ``name``, where there is one."""
    if not hasattr(graph, "get_edgelist") or not hasattr(graph, "vs"):
        raise TypeError(f"graph must be an igraph.Graph, got {type(graph)}.")
    ends = np.asarray(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2)
    values = graph.es[weight] if weight in graph.es.attributes() else None
    weights = None if values is None else edge_weights(values, len(ends))
    one_way = one_way_matrix(ends[:, 0], ends[:, 1], weights, check_n_nodes(graph.vcount()))
    ids = None
    if "name" in graph.vs.attributes():
        ids = as_id_array(graph.vs["name"], "graph.vs['name']")
        check_unique_ids(ids)
    return Conversion(one_way, graph.is_directed(), ids)


def from_parquet(
    path: str | os.PathLike[str],
    source: str | None,
    target: str | None,
    weight: str | None,
    n_nodes: int | None,
) -> Conversion:
    """Convert an edge list of positions in Parquet files."""
    parquet = import_module("pyarrow.parquet")
    names = parquet.ParquetDataset(path).schema.names
    ends = edge_columns(names, source, target, weight, os.fspath(path))
    columns = [*ends, *([] if weight is None else [weight])]
    table = parquet.read_table(path, columns=columns)
    values = [table[name].to_numpy() for name in columns]
    return from_edges(values[0], values[1], values[2] if weight else None, n_nodes)


def from_graphml(path: str | os.PathLike[str], weight: str, nodes: Any) -> Conversion:
    """Convert a GraphML file; ids in it are text."""
    networkx = import_module("networkx")
    try:
        graph = networkx.read_graphml(path)
    except OSError:
        raise
    except Exception as error:  # of the XML parser, or of networkx
        raise ValueError(f"{os.fspath(path)} cannot be read as GraphML: {error}") from None
    texts = list(graph.nodes)
    if nodes is None:
        is_number = all(text.isdecimal() and str(int(text)) == text for text in texts)
        nodes = sorted(map(int, texts)) if is_number else texts
    ids = as_id_array(nodes, "nodes")
    as_text = np.asarray([str(value) for value in ids.tolist()], dtype=object)
    try:
        lookup(as_text, as_id_array(texts, "node"), "node", "Add it to nodes, or drop it.")
        own = from_networkx(graph, weight, as_text)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None
    return own._replace(node_ids=None if is_default(ids) else ids)


def from_pyg(data: Any) -> Conversion:
    """Convert a PyTorch Geometric ``Data``."""
    if getattr(data, "edge_index", None) is None:
        raise TypeError(f"data must be a torch_geometric Data with edge_index, got {type(data)}.")
    index = _to_numpy(data.edge_index)
    if index.ndim != 2 or index.shape[0] != 2:
        raise ValueError(f"data.edge_index must have shape (2, n_edges), got {index.shape}.")
    weight = getattr(data, "edge_weight", None)
    weights = None if weight is None else _to_numpy(weight).ravel()
    return from_edges(index[0], index[1], weights, getattr(data, "num_nodes", None))


def from_libpysal(weights: Any) -> Conversion:
    """Convert a libpysal ``Graph`` or ``W``."""
    if not hasattr(weights, "sparse"):
        raise TypeError(f"weights must be a libpysal Graph or W, got {type(weights)}.")
    unique = weights.unique_ids if hasattr(weights, "unique_ids") else weights.id_order
    ids = as_id_array(unique, "weights")
    return from_matrix(weights.sparse)._replace(node_ids=None if is_default(ids) else ids)


def _from_ids(
    ids: Ids, spelled: Ids, ends: dict[str, Ids], weights: Weights | None, directed: bool = False
) -> Conversion:
    """Convert edges between ids; ``spelled`` are the ids as the edges write them."""
    if ids.size == 0:
        raise ValueError("nodes is empty: a graph needs at least one node.")
    check_unique_ids(ids)
    source, target = (lookup(spelled, end, name) for name, end in ends.items())
    one_way = one_way_matrix(source, target, weights, ids.size)
    return Conversion(one_way, directed, None if is_default(ids) else ids)


def _to_numpy(tensor: Any) -> NDArray[Any]:
    """Return a torch tensor on any device as an array."""
    return np.asarray(tensor.detach().cpu() if hasattr(tensor, "detach") else tensor)


def _eager(table: Any, name: str) -> nw.DataFrame[Any]:
    try:
        return nw.from_native(table, eager_only=True)
    except TypeError:
        kinds = "dataframe (pandas, polars or pyarrow)"
        raise TypeError(f"{name} must be a {kinds}, got {type(table)}.") from None
