"""Small problems for cross-validation and tuning."""

import numpy as np

from tests.strategies import random_graph


def problem(n=120, seed=0, neighbor_effect=1.0):
    """X, y and a random graph; y depends on a column of the node and one of its neighbours."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    graph = random_graph(n, 3 * n, seed)
    sums = graph.adjacency @ X[:, 1]
    return X, 3 * X[:, 0] + neighbor_effect * sums + 0.2 * rng.normal(size=n), graph
