import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import spearmanr

import ebboost as eb
from ebboost.inspection.layout import layout
from tests.strategies import graphs


@given(graphs())
@settings(max_examples=40, deadline=None)
def test_every_node_has_finite_coordinates(graph):
    points = layout(graph.adjacency)
    assert points.shape == (graph.n_nodes, 2)
    assert np.isfinite(points).all()


def test_a_grid_is_laid_out_as_a_grid():
    true = np.argwhere(np.ones((15, 15))).astype(float)
    points = layout(eb.Graph.build_radius(true, 1.0).adjacency)
    pairs = np.triu_indices(225, 1)
    far, near = (np.linalg.norm(p[pairs[0]] - p[pairs[1]], axis=1) for p in (true, points))
    assert spearmanr(far, near).statistic > 0.95


def test_components_do_not_overlap():
    ring = np.arange(40)
    source = np.concatenate([ring, 40 + ring])
    target = np.concatenate([np.roll(ring, -1), 40 + np.roll(ring, -1)])
    points = layout(eb.Graph.from_edges(source, target, n_nodes=83).adjacency)
    first, second = points[:40], points[40:80]
    apart = first.max(axis=0) < second.min(axis=0)
    assert (apart | (second.max(axis=0) < first.min(axis=0))).any()
    assert len(np.unique(points[80:].round(6), axis=0)) == 3  # isolates do not overlap


def test_the_same_graph_is_laid_out_the_same():
    graph = eb.Graph.build_knn(np.random.default_rng(0).random((100, 2)), k=4)
    assert layout(graph.adjacency) == pytest.approx(layout(graph.adjacency))
