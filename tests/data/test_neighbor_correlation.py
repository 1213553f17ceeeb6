import numpy as np
import pytest

import ebboost as eb
from ebboost.data.neighbor_correlation import neighbor_correlation, neighbor_means


def test_correlation_equals_that_of_explicit_neighbor_means():
    rng = np.random.default_rng(0)
    graph = eb.Graph.build_knn(rng.random((60, 2)), k=4)
    nodes = np.sort(rng.permutation(60)[:40])
    values = rng.normal(size=40)
    weights = graph.adjacency.toarray()[np.ix_(nodes, nodes)]
    linked = weights.sum(axis=1) > 0
    centred = values - values.mean()
    means = (weights @ centred)[linked] / weights.sum(axis=1)[linked]
    own = centred[linked]
    expected = own @ means / np.sqrt((own @ own) * (means @ means))
    assert neighbor_correlation(graph, nodes, values) == pytest.approx(expected)
    assert neighbor_means(graph, nodes, values[:, None])[0][linked, 0] == pytest.approx(means)


def test_too_few_linked_nodes_have_no_correlation():
    graph = eb.Graph.from_edges([0], [1], n_nodes=20)
    assert neighbor_correlation(graph, np.arange(20), np.arange(20.0)) == 0.0


def test_opposite_labels_of_neighbors_have_correlation_minus_one():
    ring = eb.Graph.from_edges(np.arange(20), (np.arange(20) + 1) % 20)
    assert neighbor_correlation(ring, np.arange(20), np.tile([0.0, 1.0], 10)) == pytest.approx(-1)
