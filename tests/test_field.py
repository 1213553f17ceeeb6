"""The latent field against dense matrices: modes, variances, new nodes; rows that share a node."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

import ebboost as eb
from ebboost.data.labels import Labels
from ebboost.field import FieldEnergy, Posterior, conditional_mean, posterior_variances
from tests import dense
from tests.strategies import LOSSES, adjacency_of_copies, graphs, random_graph

FIELD = eb.LatentField(1.5, 0.2)
STRENGTHS = st.builds(eb.LatentField, st.floats(0.0, 20.0), st.floats(0.01, 2.0))


@given(graph=graphs(), field=STRENGTHS)
@settings(max_examples=60, deadline=None)
def test_the_prior_is_its_dense_definition(graph, field):
    prior = field.prior(graph)
    expected = dense.precision(graph, field)
    np.testing.assert_allclose(prior.matrix @ np.eye(graph.n_nodes), expected, atol=1e-12)
    assert np.linalg.eigvalsh(expected).min() >= field.tau - 1e-9


def test_noise_has_the_covariance_of_the_precision():
    graph = eb.Graph.from_edges([0, 1, 2], [1, 2, 0], [1.0, 2.0, 0.5], n_nodes=5)
    prior = FIELD.prior(graph)
    noise = prior.noise(np.random.default_rng(0), 400_000)
    np.testing.assert_allclose(np.cov(noise), dense.precision(graph, FIELD), atol=0.02)


@given(graph=graphs(), field=STRENGTHS, seed=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_the_mode_of_squared_error_is_its_closed_form(graph, field, seed):
    """Equation (15), z = K SᵀW e with K = (SᵀWS + Q)⁻¹, also where rows share a node."""
    scores, labels, nodes = dense.labels_at(eb.SquaredError(), graph, seed)
    S, W = dense.places(graph.n_nodes, nodes), np.diag(labels.weight)
    K = np.linalg.inv(S.T @ W @ S + dense.precision(graph, field))
    expected = K @ S.T @ W @ (labels.target - scores)
    posterior = Posterior(field.prior(graph), nodes)
    z = FieldEnergy(posterior, eb.SquaredError(), labels).mode(scores)
    np.testing.assert_allclose(z, expected, rtol=1e-6, atol=1e-8)


@given(graph=graphs(), seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_sums_and_systems_are_those_of_the_dense_places(graph, seed):
    rng = np.random.default_rng(seed)
    nodes = rng.integers(0, graph.n_nodes, 7)
    posterior = Posterior(FIELD.prior(graph), nodes)
    S, Q = dense.places(graph.n_nodes, nodes), dense.precision(graph, FIELD)
    values, curvature = rng.normal(size=(7, 2)), rng.random((7, 2))
    np.testing.assert_allclose(posterior.sums(values), S.T @ values, atol=1e-12)
    right = rng.normal(size=(graph.n_nodes, 2))
    for h in (curvature, curvature[:, :1]):
        own = np.broadcast_to(h, (7, 2))
        expected = [
            np.linalg.solve(S.T @ np.diag(own[:, c]) @ S + Q, right[:, c]) for c in range(2)
        ]
        result = posterior.solve(h, right, 1e-12)
        np.testing.assert_allclose(result, np.column_stack(expected), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@given(graph=graphs(min_nodes=2), seed=st.integers(0, 1000))
@settings(max_examples=8, deadline=None)
def test_the_mode_of_every_loss_is_that_of_a_general_optimiser(loss, graph, seed):
    scores, labels, nodes = dense.labels_at(loss, graph, seed)
    Q = dense.precision(graph, FIELD)
    compute = dense.energy(loss, scores, labels, nodes, Q)
    z = FieldEnergy(Posterior(FIELD.prior(graph), nodes), loss, labels).mode(scores)
    best = dense.mode(loss, scores, labels, nodes, Q)
    value, gradient = compute(z.ravel())
    least = compute(best.ravel())[0]
    assert value <= least + 1e-9 * max(1.0, abs(least))
    start = np.linalg.norm(compute(np.zeros(z.size))[1])
    assert np.linalg.norm(gradient) <= 1e-6 * max(start, 1.0)
    np.testing.assert_allclose(z, best, atol=2e-4)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_gradient_of_the_energy_equals_finite_differences(loss):
    graph = random_graph(10, 20)
    scores, labels, nodes = dense.labels_at(loss, graph, 0)
    energy = FieldEnergy(Posterior(FIELD.prior(graph), nodes), loss, labels)
    Q = dense.precision(graph, FIELD)
    z = np.random.default_rng(0).normal(size=(10, scores.shape[1]))
    gradient = energy.gradient(scores, z, Q @ z)
    for entry in np.ndindex(z.shape):
        move = np.zeros_like(z)
        move[entry] = 1e-6
        up, down = (energy.value(scores, z + s * move, Q @ (z + s * move)) for s in (1, -1))
        assert (up - down) / 2e-6 == pytest.approx(gradient[entry], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@given(graph=graphs(min_nodes=2), seed=st.integers(0, 1000))
@settings(max_examples=8, deadline=None)
def test_no_newton_step_raises_the_energy(loss, graph, seed):
    scores, labels, nodes = dense.labels_at(loss, graph, seed)
    energy = FieldEnergy(Posterior(FIELD.prior(graph), nodes), loss, labels)
    z = 3.0 * np.random.default_rng(seed).normal(size=(graph.n_nodes, scores.shape[1]))
    prior_z = dense.precision(graph, FIELD) @ z
    for _ in range(5):
        before = energy.value(scores, z, prior_z)
        z, prior_z = energy.newton(scores, z, prior_z)
        assert energy.value(scores, z, prior_z) <= before
        np.testing.assert_allclose(prior_z, dense.precision(graph, FIELD) @ z, atol=1e-6)


def test_a_newton_step_beyond_the_range_of_numbers_is_halved():
    graph = random_graph(10, 15)
    labels = Labels(np.arange(10), np.full((10, 1), 3.0), np.ones(10))
    posterior = Posterior(eb.LatentField(1e-4, 1e-6).prior(graph), np.arange(10))
    scores = np.full((10, 1), -12.0)  # a Newton step is about e¹² times too long
    z = FieldEnergy(posterior, eb.Poisson(), labels).mode(scores)
    assert (np.abs(np.exp(scores + z) - 3.0) < 0.1).all()


def test_rows_that_share_a_node_are_one_label_of_their_mean_and_weight():
    graph = random_graph(12, 25)
    rng = np.random.default_rng(0)
    target, weight = rng.normal(size=(6, 1)), rng.random(6) + 0.1
    nodes = np.array([3, 3, 3, 7, 7, 0])
    each = Labels(np.arange(6), target, weight)
    sums = np.bincount(nodes, weight)[[0, 3, 7]]
    means = np.bincount(nodes, weight * target[:, 0])[[0, 3, 7]] / sums
    joined = Labels(np.arange(3), means[:, None], sums)
    prior = FIELD.prior(graph)
    one = FieldEnergy(Posterior(prior, nodes), eb.SquaredError(), each)
    other = FieldEnergy(Posterior(prior, np.array([0, 3, 7])), eb.SquaredError(), joined)
    np.testing.assert_allclose(one.mode(np.zeros((6, 1))), other.mode(np.zeros((3, 1))), rtol=1e-9)


def test_a_disconnected_copy_has_the_same_field_and_is_not_reached_without_labels():
    graph = random_graph(20, 50)
    scores, labels, nodes = dense.labels_at(eb.Poisson(), graph, 0)
    once = FieldEnergy(Posterior(FIELD.prior(graph), nodes), eb.Poisson(), labels).mode(scores)
    prior = FIELD.prior(adjacency_of_copies(graph))
    alone = FieldEnergy(Posterior(prior, nodes), eb.Poisson(), labels).mode(scores)
    np.testing.assert_allclose(alone, np.vstack([once, 0.0 * once]), atol=1e-7)
    twice = Labels(np.arange(40), np.tile(labels.target, (2, 1)), np.tile(labels.weight, 2))
    posterior = Posterior(prior, np.concatenate([nodes, 20 + nodes]))
    both = FieldEnergy(posterior, eb.Poisson(), twice).mode(np.tile(scores, (2, 1)))
    np.testing.assert_allclose(both, np.vstack([once, once]), atol=1e-7)


def variance_problem(n, m, kind="plane"):
    rng = np.random.default_rng(1)
    graph = eb.Graph.build_knn(rng.random((n, 2)), k=5)
    if kind == "path":
        graph = eb.Graph.from_edges(np.arange(n - 1), np.arange(1, n))
    elif kind == "dense":
        graph = random_graph(n, 5 * n)
    field = eb.LatentField(4.0, 0.1)
    nodes, curvature = rng.integers(0, n, m), rng.uniform(0.2, 2.0, (m, 1))
    S = dense.places(n, nodes)
    system = S.T @ (curvature * S) + dense.precision(graph, field)
    return Posterior(field.prior(graph), nodes), curvature, np.diag(np.linalg.inv(system))


def test_variances_on_small_graphs_are_exact():
    posterior, curvature, exact = variance_problem(150, 60)
    every = posterior_variances(posterior, curvature, None)
    np.testing.assert_allclose(every, exact, rtol=1e-6)
    few = posterior_variances(posterior, curvature, np.array([5, 70, 5]))
    np.testing.assert_allclose(few, exact[[5, 70, 5]], rtol=1e-6)


@pytest.mark.parametrize("kind", ["path", "plane", "dense"])
def test_variances_on_large_graphs_are_within_a_few_percent(kind):
    posterior, curvature, exact = variance_problem(1_200, 500, kind)
    estimate = posterior_variances(posterior, curvature, None)
    ratio = estimate / exact
    assert np.sqrt(np.mean((ratio - 1.0) ** 2)) < 0.1  # √(2/200) of the part that is drawn
    assert ratio.mean() == pytest.approx(1.0, abs=0.02)
    some = posterior_variances(posterior, curvature, np.arange(20, 60))
    np.testing.assert_array_equal(some, estimate[20:60])
    few = posterior_variances(posterior, curvature, np.arange(3))
    np.testing.assert_allclose(few, exact[:3], rtol=1e-4)


def test_labels_make_variances_smaller_near_them_only():
    path = eb.Graph.from_edges(np.arange(49), np.arange(1, 50))
    prior = eb.LatentField(1.0, 0.5).prior(path)
    none = posterior_variances(Posterior(prior, np.zeros(0, dtype=int)), np.zeros((0, 1)), None)
    known = posterior_variances(Posterior(prior, np.array([0, 0])), np.ones((2, 1)), None)
    assert known[0] < 0.5 * none[0] and known[1] < 0.95 * none[1]
    assert known[40] == pytest.approx(none[40], rel=1e-6)


def conditional(field, edges, between, z, degrees):
    """The least energy in the new nodes, an edge at a time; and the curvature of each alone."""
    m = len(edges)
    own = edges.sum(axis=1) + between.sum(axis=1)
    scale = 1.0 / np.sqrt(np.where(own > 0, own, 1.0))
    A, b = field.tau * np.eye(m), np.zeros((m, z.shape[1]))
    for i in range(m):
        if own[i] == 0.0:
            A[i, i] += field.lam
        for j in np.flatnonzero(edges[i]):
            weight = field.lam * edges[i, j] * scale[i] / np.sqrt(max(degrees[j], 1e-300) or 1.0)
            A[i, i] += weight
            b[i] += weight * z[j]
        for k in range(m):
            weight = field.lam * between[i, k] * scale[i] * scale[k]
            A[i, i] += weight
            A[i, k] -= weight
    return np.linalg.solve(A, b), 1.0 / np.diag(A)


@pytest.mark.parametrize("connected", [False, True])
@given(graph=graphs(min_nodes=3), field=STRENGTHS, seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_new_nodes_have_the_conditional_mean_of_the_fitted_ones(connected, graph, field, seed):
    rng = np.random.default_rng(seed)
    edges = rng.random((4, graph.n_nodes)) * (rng.random((4, graph.n_nodes)) < 0.4)
    edges[:, graph.degrees == 0] = 0.0
    between = np.zeros((4, 4))
    if connected:
        between[0, 1] = between[1, 0] = 0.7
        between[1, 3] = between[3, 1] = 2.0
    z = rng.normal(size=(graph.n_nodes, 2))
    inner = sparse.csr_array(between) if connected else None
    parts = (field, sparse.csr_array(edges), inner, z, graph.degrees)
    expected = conditional(field, edges, between, z, graph.degrees)
    for result, wanted in zip(conditional_mean(*parts), expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-7, atol=1e-9)


def test_a_new_node_at_a_fitted_one_is_drawn_towards_it():
    graph = random_graph(10, 20)
    z = np.random.default_rng(0).normal(size=(10, 1))
    edges = sparse.csr_array(np.eye(10)[[4]])
    near, far = (
        conditional_mean(eb.LatentField(lam, 0.01), edges, None, z, graph.degrees)[0][0, 0]
        for lam in (100.0, 1e-4)
    )
    assert near == pytest.approx(z[4, 0], rel=0.01) and abs(far) < 0.02 * abs(z[4, 0])


def test_strengths_are_scaled_cloned_and_kept_in_range():
    field = eb.LatentField(1.23456, 0.0065432)
    assert field.scaled(10.0).get_params() == {"lam": 12.3, "tau": 0.0654}
    assert clone(field).get_params() == field.get_params()
    tiny = eb.LatentField(1e-290, 1e-290).scaled(1e-20)
    tiny.prior(random_graph(5, 5))
    eb.LatentField(1e90, 1e90).scaled(1e20).prior(random_graph(5, 5))


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("lam", [0.0, 0.5], [-0.5, 1e101, np.nan, "strong", True]),
        ("tau", [1e-9, 3.0], [0.0, -0.5, 1e101, np.nan, None]),
    ],
)
def test_parameters_are_accepted_in_their_range_only(name, inside, outside):
    graph = random_graph(5, 5)
    for number in inside:
        eb.LatentField(**{name: number}).prior(graph)
    for number in outside:
        with pytest.raises(ValueError, match=f"LatentField: {name} must be"):
            eb.LatentField(**{name: number}).prior(graph)
