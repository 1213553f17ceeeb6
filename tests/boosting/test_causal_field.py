"""The field of nodes with a time, from labels of earlier nodes."""

from functools import partial

import numpy as np
import pytest

import ebboost as eb
from ebboost.backends import Backend
from ebboost.boosting import causal_field
from ebboost.boosting.losses import Poisson, SquaredError
from ebboost.data.labels import Labels

N = 60
RNG = np.random.default_rng(0)
TIME = np.arange(N) % 10.0
POINTS = RNG.uniform(size=(N, 2))
GRAPH = eb.Graph.build_knn(POINTS, 5, weight="distance").with_time(TIME)
NODES = np.sort(RNG.permutation(np.flatnonzero(TIME < 9))[:40])
LABELS = Labels(NODES, RNG.poisson(3.0, (40, 1)).astype(float), np.ones(40))
FIELD = eb.LatentField(2.0, 0.1)
mode = partial(Backend().field_mode, FIELD)


def causal(labels=LABELS, graph=GRAPH, loss=None):
    return mode(graph, labels, loss or SquaredError(), np.zeros((labels.nodes.size, 1)))


@pytest.mark.parametrize("loss", [SquaredError(), Poisson()])
@pytest.mark.parametrize("grouped", [False, True])
def test_later_labels_and_later_nodes_change_nothing(loss, grouped):
    graph = GRAPH
    if grouped:
        graph = eb.Graph.from_groups(np.arange(N) % 12).with_time(TIME)
    before = causal(graph=graph, loss=loss)
    is_later = TIME[LABELS.nodes] >= 5.0
    changed = Labels(NODES, np.where(is_later[:, None], 50.0, LABELS.target), np.ones(40))
    after = causal(changed, graph, loss)
    early = TIME <= 5.0
    np.testing.assert_allclose(after[early], before[early], rtol=1e-6, atol=1e-9)
    assert np.abs(after - before)[TIME > 5.0].max() > 0.1
    assert (before[TIME == 0.0] == 0.0).all()


def test_edges_of_later_nodes_change_nothing():
    weights = GRAPH.adjacency.tolil()
    late = np.flatnonzero(TIME > 5.0)
    weights[late, :] = 0.0
    weights[:, late] = 0.0
    without = eb.Graph.from_scipy(weights.tocsr()).with_time(TIME)
    early = TIME <= 5.0
    np.testing.assert_allclose(causal(graph=without)[early], causal()[early], atol=1e-9)


def test_a_node_has_the_conditional_mean_of_its_earlier_neighbours():
    star = eb.Graph.from_edges([0, 1], [2, 2], [1.0, 3.0]).with_time(np.array([0.0, 0.0, 1.0]))
    labels = Labels(np.array([0, 1]), np.array([[1.0], [2.0]]), np.ones(2))
    apart = 1.0 / (1.0 + FIELD.tau + FIELD.lam)  # z / y of a node without edges
    # Degrees are 4 for the node in question; its neighbours have no other edge.
    weights = np.array([1.0, 3.0]) / np.sqrt(4.0 * np.array([1.0, 3.0]))
    expected = FIELD.lam * weights @ (apart * np.array([1.0, 2.0]))
    expected /= FIELD.lam * weights.sum() + FIELD.tau
    assert causal(labels, star)[2, 0] == pytest.approx(expected)


def test_a_chain_of_nodes_without_labels_passes_the_field_on():
    chain = eb.Graph.from_edges([0, 1, 2], [1, 2, 3]).with_time(np.arange(4.0))
    labels = Labels(np.array([0]), np.array([[1.0]]), np.ones(1))
    field = causal(labels, chain)[:, 0]
    assert field[0] == 0.0
    assert field[1] > field[2] > field[3] > 0.0


def test_with_many_times_labels_are_still_earlier(monkeypatch):
    exact = causal()
    monkeypatch.setattr(causal_field, "MAX_PERIODS", 3)
    few = causal()
    last = TIME == 9.0
    np.testing.assert_allclose(few[last], exact[last])
    is_later = TIME[NODES] >= 5.0
    changed = Labels(NODES, np.where(is_later[:, None], 50.0, LABELS.target), np.ones(40))
    np.testing.assert_allclose(causal(changed)[TIME <= 5.0], few[TIME <= 5.0], atol=1e-9)


def test_outputs_have_fields_of_their_own():
    target = np.hstack([LABELS.target, -LABELS.target])
    both = mode(GRAPH, Labels(NODES, target, np.ones(40)), SquaredError(), np.zeros((40, 2)))
    np.testing.assert_allclose(both, np.hstack([causal(), -causal()]), atol=1e-9)
