"""New rows connected to the nodes of a fitted graph."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ebboost.data import validation as checks
from ebboost.graph import Graph

#: New rows and the fitted nodes that they are connected to, and weights if not all are 1; or the
#: graph of the fitted nodes followed by the new rows.
Attachment: TypeAlias = Graph | Sequence[ArrayLike]


def attached_graph(
    fitted: Graph, n_new: int, attach: Attachment, graph: Graph | None = None
) -> Graph:
    """Return the graph of the fitted nodes followed by ``n_new`` rows.

    ``graph`` has the edges between the new rows; those of the fit are always included.
    """
    n_nodes = fitted.n_nodes + n_new
    if isinstance(attach, Graph):
        if graph is not None:
            raise ValueError("attach is a graph of all nodes: leave graph= out.")
        if attach.n_nodes != n_nodes:
            expected = f"{fitted.n_nodes} fitted nodes followed by the {n_new} rows of X"
            raise ValueError(f"attach must have the {expected}, got {attach.n_nodes} nodes.")
        new = attach.adjacency
    else:
        rows, nodes, weight = _pairs(fitted, n_new, attach)
        cross = Graph.from_edges(fitted.n_nodes + rows, nodes, weight, n_nodes)
        new = cross.adjacency
    blocks = [fitted.adjacency, sparse.csr_array((n_new, n_new))]
    if graph is not None:
        checks.check_graph(graph, n_new, None)
        blocks[1] = graph.adjacency
    old = sparse.block_diag(blocks, format="csr")
    return Graph(sparse.csr_array(old.maximum(new)))


def _pairs(fitted: Graph, n_new: int, attach: Sequence[ArrayLike]) -> tuple:
    """Return rows of X, fitted nodes and weights; nodes may be named by their ids."""
    if not isinstance(attach, (tuple, list)) or len(attach) not in (2, 3):
        raise ValueError(
            "attach must be (rows, nodes) or (rows, nodes, weight): rows of X and the fitted nodes "
            "that they are connected to; or a Graph of the fitted nodes followed by the rows."
        )
    rows = checks.node_positions(attach[0], n_new, "attach[0]", repeats=True)
    if fitted.has_ids:
        nodes = fitted.index_of(attach[1])
    else:
        nodes = checks.node_positions(attach[1], fitted.n_nodes, "attach[1]", repeats=True)
    if rows.size != nodes.size:
        problem = f"attach names {rows.size} rows and {nodes.size} fitted nodes"
        raise ValueError(f"{problem}: pass a pair for each edge.")
    weight = np.asarray(attach[2], dtype=np.float64) if len(attach) == 3 else None
    return rows, nodes, weight
