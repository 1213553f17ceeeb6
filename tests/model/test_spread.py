"""The spread of labels: noise, field and columns."""

from dataclasses import replace

import numpy as np
import pytest

import ebboost as eb
from ebboost.data.labels import Labels
from ebboost.model.spread import distribution_with, field_variance, neighbor_columns


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


def test_known_sizes_of_neighbours_are_neither_large_nor_small_on_average():
    """Labels that are held out have fewer neighbours of known size than rows to predict."""
    random = np.random.default_rng(0)
    graph = eb.Graph.build_knn(random.random((2000, 2)), k=5)
    labels = Labels(np.arange(2000), np.zeros((2000, 1)), np.ones(2000))
    size = np.abs(random.normal(size=2000))
    for share in (0.1, 1.0):
        known = np.where(random.random(2000) < share, size, np.nan)
        columns = neighbor_columns(graph, known, labels, np.arange(2000))
        assert columns[:, 1].mean() == pytest.approx(0.0, abs=0.02)
    assert columns[:, 0].tolist() == np.diff(graph.adjacency.indptr).tolist()


def test_tails_between_heavy_and_normal_ones_are_heavy(spatial):
    state = spatial[0].state_
    shapes = np.array([[0.0, 0.0, 1.0, 1.0, 3.0], [1.0, 0.0, 1.0, 1.0, 1e6]])
    spread = replace(state.spread, shapes=shapes)
    distribution = distribution_with(state, spread, np.array([[0.5]]), np.ones(1))
    assert distribution.shape.df == pytest.approx(6.0, rel=1e-4)


def test_the_spread_of_a_saved_model_is_the_same_for_new_rows(tmp_path):
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 2))
    y = X[:, 0] + random.normal(size=400) * np.exp(0.5 * X[:, 1])
    model = eb.EBBSRegressor(10, selection="rules", random_state=0, n_jobs=1).fit(X, y)
    model.save(tmp_path / "model.ebb")
    rows = random.normal(size=(50, 2))
    one, other = (m.predict_distribution(rows) for m in (model, eb.load(tmp_path / "model.ebb")))
    np.testing.assert_array_equal(one.variance, other.variance)
    assert np.corrcoef(np.log(one.variance), rows[:, 1])[0, 1] > 0.8
