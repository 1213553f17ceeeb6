"""Correlation between a node's value and the mean over its neighbours: homophily as one number."""

import numpy as np
from numpy.typing import NDArray

from ebboost.data.types import Array, IntArray
from ebboost.graph import Graph

MIN_NODES = 10  # with a neighbour among the nodes; fewer give no correlation


def neighbor_means(graph: Graph, nodes: IntArray, values: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Weighted means of centred values over the neighbours of each node among ``nodes``.

    Edges of negative weight contribute their value with the opposite sign. Also returns which nodes
    have such a neighbour; the mean of others is 0.
    """
    known = np.zeros((graph.n_nodes, 1))
    centred = np.zeros((graph.n_nodes, values.shape[1]))
    known[nodes] = 1.0
    centred[nodes] = values - values.mean(axis=0)
    mass = (graph.unsigned.adjacency @ known)[nodes]
    sums = (graph.adjacency @ centred)[nodes]
    return np.divide(sums, mass, out=np.zeros_like(sums), where=mass > 0), mass[:, 0] > 0


def neighbor_correlation(graph: Graph, nodes: IntArray, values: Array) -> float:
    """Correlation between labels or residuals of nodes and their mean over neighbours.

    Between -1 and 1; 0 where fewer than 10 nodes have a neighbour among ``nodes``. Columns of
    ``values`` are classes.
    """
    columns = values.reshape(nodes.size, -1)
    means, has_neighbors = neighbor_means(graph, nodes, columns)
    if has_neighbors.sum() < MIN_NODES:
        return 0.0
    own = (columns - columns.mean(axis=0))[has_neighbors]
    means = means[has_neighbors]
    spread = float(np.sqrt((own**2).sum() * (means**2).sum()))
    return float((own * means).sum()) / spread if spread > 0 else 0.0
