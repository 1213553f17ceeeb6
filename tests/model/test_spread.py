"""The spread of labels: noise, field and columns."""

import numpy as np
import pytest

import ebboost as eb
from ebboost.model.spread import field_variance


@pytest.fixture(scope="module")
def spatial():
    random = np.random.default_rng(1)
    points = random.random((500, 2))
    graph = eb.Graph.build_knn(points, k=5)
    y = np.sin(9 * points[:, 0]) + 0.1 * random.normal(size=500)
    X = random.normal(size=(500, 2))
    nodes = np.flatnonzero(points[:, 1] < 0.5)  # labels in one half
    field = eb.LatentField(5.0, 0.05)
    m = eb.EBBSRegressor(10, smoothing=None, labels=field, n_folds=2, random_state=0, n_jobs=1)
    return m.fit(X, y[nodes], nodes=nodes, graph=graph), X, y, points


def test_field_variance_is_the_diagonal_of_the_posterior_covariance(spatial):
    state = spatial[0].state_
    posterior = state.candidate.labels.operator(
        state.graph, state.labels.nodes, np.ones(state.labels.nodes.size)
    )
    matrix = posterior.prior.csr.toarray()
    matrix[state.labels.nodes, state.labels.nodes] += 1.0
    exact = np.diag(np.linalg.inv(matrix))
    np.testing.assert_allclose(state.spread.field_variance, exact)


def test_nodes_far_from_labels_have_wider_intervals(spatial):
    m, _, _, points = spatial
    intervals = m.predict(interval=0.9)
    width = intervals.upper - intervals.lower
    assert width[points[:, 1] > 0.8].mean() > 1.1 * width[points[:, 1] < 0.4].mean()


def test_new_labels_narrow_the_intervals_around_them(spatial):
    m, _, y, points = spatial
    far = np.flatnonzero(points[:, 1] > 0.8)
    before, after = (
        m.predict(interval=0.9, nodes=far[1::2], new_labels=labels)
        for labels in (None, (far[::2], y[far[::2]]))
    )
    assert np.mean(after.upper - after.lower) < 0.95 * np.mean(before.upper - before.lower)


def test_without_labels_the_variance_is_that_of_the_prior(spatial):
    state = spatial[0].state_
    posterior = state.candidate.labels.operator(state.graph, np.array([0]), np.ones(1))
    exact = np.diag(np.linalg.inv(posterior.prior.csr.toarray()))
    variance, _ = field_variance(state, state.graph, None, None)
    np.testing.assert_allclose(variance, exact)


def test_uncertainty_adds_up_and_tells_field_from_noise(spatial):
    m, _, _, points = spatial
    table = m.uncertainty()
    np.testing.assert_allclose(
        table["noise"] + table["field"] + table["features"], table["variance"]
    )
    np.testing.assert_allclose(table["variance"], m.predict_distribution().variance)
    far = points[:, 1] > 0.8
    assert table["field"][far].mean() > 1.5 * table["field"][~far].mean()
    assert np.ptp(table["noise"]) == pytest.approx(0.0, abs=1e-12)
