"""Correlation between a node's value and the mean over its neighbours: homophily as one number."""

import numpy as np
from numpy.typing import NDArray

from ebboost.graph import Graph

Array = NDArray[np.float64]
MIN_NODES = 10  # with a neighbour among the nodes; fewer give no correlation


def neighbor_means(
    graph: Graph, nodes: NDArray[np.int64], values: Array
) -> tuple[Array, NDArray[np.bool_]]:
    """Weighted means of centred values over the neighbours of each node.

    Parameters
    ----------
    graph : Graph
        Edges of negative weight contribute their value with the opposite sign.
    nodes : ndarray of shape (m,)
        Nodes whose values are known; other nodes are ignored.
    values : ndarray of shape (m, k)
        Centred by column before the means are taken.

    Returns
    -------
    means : ndarray of shape (m, k)
        0 where a node has no neighbour among ``nodes``.
    has_neighbors : ndarray of bool of shape (m,)
    """
    known = np.zeros((graph.n_nodes, 1))
    centred = np.zeros((graph.n_nodes, values.shape[1]))
    known[nodes] = 1.0
    centred[nodes] = values - values.mean(axis=0)
    mass = (graph.unsigned.adjacency @ known)[nodes]
    sums = (graph.adjacency @ centred)[nodes]
    return np.divide(sums, mass, out=np.zeros_like(sums), where=mass > 0), mass[:, 0] > 0


def neighbor_correlation(graph: Graph, nodes: NDArray[np.int64], values: Array) -> float:
    """Correlation between values and the mean value of neighbours.

    Parameters
    ----------
    graph : Graph
    nodes : ndarray of shape (m,)
        Nodes whose values are known.
    values : ndarray of shape (m,) or (m, k)
        Labels or residuals of these nodes; one column for each class.

    Returns
    -------
    float
        Between -1 and 1; 0 where fewer than 10 nodes have a neighbour among ``nodes``.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> from ebboost.data.neighbor_correlation import neighbor_correlation
    >>> path = eb.Graph.from_edges(np.arange(49), np.arange(1, 50))
    >>> round(neighbor_correlation(path, np.arange(50), np.arange(50.0)), 2)
    1.0
    """
    columns = values.reshape(nodes.size, -1)
    means, has_neighbors = neighbor_means(graph, nodes, columns)
    if has_neighbors.sum() < MIN_NODES:
        return 0.0
    own = (columns - columns.mean(axis=0))[has_neighbors]
    means = means[has_neighbors]
    spread = float(np.sqrt((own**2).sum() * (means**2).sum()))
    return float((own * means).sum()) / spread if spread > 0 else 0.0
