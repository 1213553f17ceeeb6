"""New rows connected to the nodes of a fitted graph."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ebboost.data import validation as checks
from ebboost.data.row_order import RowOrder
from ebboost.graph import Graph
from ebboost.graph.ids import as_id_array

#: New rows and the fitted nodes that they are connected to, and weights if not all are 1; or the
#: graph of the fitted nodes followed by the new rows.
Attachment: TypeAlias = Graph | Sequence[ArrayLike]


def attached_graph(
    fitted: Graph, n_new: int, attach: Attachment, graph: Graph | None = None
) -> Graph:
    """Return the graph of the fitted nodes followed by ``n_new`` rows.

    ``graph`` has the edges between the new rows; those of the fit are always included. If it is
    directed, pairs lead from a row to a fitted node.
    """
    n_nodes = fitted.n_nodes + n_new
    if isinstance(attach, Graph) and attach.groups is not None and attach.n_nodes == n_nodes:
        return attach
    if isinstance(attach, Graph):
        if graph is not None:
            raise ValueError("attach is a graph of all nodes: leave graph= out.")
        if attach.n_nodes != n_nodes:
            expected = f"{fitted.n_nodes} fitted nodes followed by the {n_new} rows of X"
            raise ValueError(f"attach must have the {expected}, got {attach.n_nodes} nodes.")
        same = not (attach.has_ids and fitted.has_ids)
        if not same and not np.array_equal(attach.node_ids[: fitted.n_nodes], fitted.node_ids):
            text = "attach must begin with the fitted nodes in their order: their ids differ from"
            raise ValueError(f"{text} model.graph_.node_ids.")
        cross = attach
    else:
        rows, nodes, weight = _pairs(fitted, n_new, attach)
        ends = (fitted.n_nodes + rows, nodes)
        cross = Graph.from_edges(*ends, weight, n_nodes, directed=fitted.outgoing is not None)
    if graph is None:
        empty: list[int] = []
        graph = Graph.from_edges(empty, empty, n_nodes=n_new, directed=cross.outgoing is not None)
    checks.check_graph(graph, n_new, None)
    parts = (fitted, graph, cross)
    if fitted.outgoing is None:
        return Graph(_joined(*(part.adjacency for part in parts)))
    matrices = [part.outgoing for part in parts]
    if any(matrix is None for matrix in matrices):
        raise ValueError("attach and graph must be directed, as the graph of the fit is.")
    return Graph.from_scipy(_joined(*matrices), directed=True)


def attached_groups(fitted: Graph | None, groups: Iterable[object]) -> Graph:
    """Return the graph of the fitted rows followed by new ones, by the groups of all."""
    if fitted is None or fitted.groups is None:
        raise ValueError("groups was given, but this model was fitted without groups.")
    between, group_of = fitted.groups
    known = between.node_ids[group_of]
    new = as_id_array(groups.to_numpy() if hasattr(groups, "to_numpy") else groups, "groups")
    ids: Iterable[object] = [*known.tolist(), *new.tolist()]
    if {known.dtype.kind, new.dtype.kind} == {"i"}:
        ids = np.concatenate([known, new])
    return Graph.from_groups(ids, between)


def _joined(
    fitted: sparse.csr_array, new: sparse.csr_array, cross: sparse.csr_array
) -> sparse.csr_array:
    """Return one adjacency matrix; where two have an edge, the larger weight."""
    return sparse.csr_array(sparse.block_diag([fitted, new], format="csr").maximum(cross))


def _pairs(
    fitted: Graph, n_new: int, attach: Sequence[ArrayLike]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64] | None]:
    """Return rows of X, fitted nodes and weights; nodes may be named by their ids."""
    if not isinstance(attach, (tuple, list)) or len(attach) not in (2, 3):
        raise ValueError(
            "attach must be (rows, nodes) or (rows, nodes, weight): rows of X and the fitted nodes "
            "that they are connected to; or a Graph of the fitted nodes followed by the rows."
        )
    rows = checks.node_positions(attach[0], n_new, "attach[0]", repeats=True)
    ends = RowOrder(graph=fitted).rows(attach[1], "attach[1]", strict=True)
    nodes = checks.node_positions(
        ends, fitted.n_nodes, "attach[1]", repeats=True, table="the table fitted on"
    )
    if rows.size != nodes.size:
        problem = f"attach names {rows.size} rows and {nodes.size} fitted nodes"
        raise ValueError(f"{problem}: pass a pair for each edge.")
    weight = np.asarray(attach[2], dtype=np.float64) if len(attach) == 3 else None
    return rows, nodes, weight
