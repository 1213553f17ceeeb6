"""The field of groups of rows, against dense matrices."""

import numpy as np
import pytest

import ebboost as eb
from ebboost.boosting.field_mode import FieldEnergy, posterior_mode
from ebboost.boosting.label_use import objective_for
from ebboost.boosting.latent_field import LeaveOneOutObjective
from ebboost.data.labels import Labels
from ebboost.propagation import IdentityOperator
from tests.strategies import random_graph

N = 60
M = 12
RNG = np.random.default_rng(0)
GROUPS = RNG.integers(0, M - 2, N)  # two groups have no rows, and one has a single row
GROUPS[GROUPS == 0] = 1
GROUPS[0] = 0
BETWEEN = random_graph(M, 20)
S = np.eye(M)[GROUPS]
LABELLED = np.sort(RNG.permutation(N)[:40])
WEIGHT = RNG.uniform(0.5, 2.0, 40)
WEIGHT /= WEIGHT.mean()
FIELD = eb.LatentField(lam=1.5, tau=0.1)
POSTERIOR = FIELD.operator(eb.Graph.from_groups(GROUPS, BETWEEN), LABELLED, WEIGHT)


def prior():
    root = np.diag(1 / np.sqrt(np.where(BETWEEN.degrees > 0, BETWEEN.degrees, 1.0)))
    normalized = root @ BETWEEN.adjacency.toarray() @ root
    row_sums = np.where(BETWEEN.degrees > 0, normalized.sum(axis=1), 1.0)
    return 1.5 * (np.diag(row_sums) - normalized) + 0.1 * np.eye(M)


def on_rows(values):
    full = np.zeros((N, values.shape[1]))
    full[LABELLED] = values
    return full


def covariance(weight):
    """S K Sᵀ, the posterior covariance of the rows' values."""
    diagonal = on_rows(weight[:, None])[:, 0]
    return S @ np.linalg.inv(S.T @ np.diag(diagonal) @ S + prior()) @ S.T


def test_posterior_means_are_those_of_the_dense_matrices():
    residuals = RNG.normal(size=(40, 2))
    expected = covariance(WEIGHT) @ on_rows(WEIGHT[:, None] * residuals)
    np.testing.assert_allclose(POSTERIOR.posterior_mean(residuals), expected, atol=1e-9)
    right = RNG.normal(size=(N, 2))
    np.testing.assert_allclose(POSTERIOR.solve(right), covariance(WEIGHT) @ right, atol=1e-9)
    nodes, local = POSTERIOR.solve_local(LABELLED[:3], residuals[:3], 1e-8)
    expected = covariance(WEIGHT)[:, LABELLED[:3]] @ residuals[:3]
    np.testing.assert_allclose(local, expected[nodes], atol=1e-7)


def test_a_system_with_the_curvature_of_a_likelihood_is_solved():
    curvature = RNG.uniform(0.2, 1.0, (40, 1))
    right = RNG.normal(size=(N, 2))
    expected = covariance(curvature[:, 0]) @ right
    np.testing.assert_allclose(POSTERIOR.solve_system(curvature, right, 1e-12), expected, atol=1e-9)


def test_responses_to_values_of_labelled_rows_are_those_of_the_system():
    curvature = RNG.uniform(0.2, 1.0, (40, 1))
    values = RNG.normal(size=(40, 1))
    expected = covariance(curvature[:, 0]) @ on_rows(values)
    np.testing.assert_allclose(POSTERIOR.respond(curvature, values, 1e-12), expected, atol=1e-9)


def test_the_mode_is_reached_where_derivatives_by_group_vanish(monkeypatch):
    counts = RNG.poisson(2.0, (40, 1)).astype(float)
    n_steps = []
    step = FieldEnergy.step
    monkeypatch.setattr(FieldEnergy, "step", lambda *args: n_steps.append(1) or step(*args))
    z = posterior_mode(POSTERIOR, eb.Poisson(), np.zeros((40, 1)), counts, 1e-4)
    assert len(n_steps) <= 4
    of_loss = on_rows(WEIGHT[:, None] * (np.exp(z[LABELLED]) - counts))
    gradient = POSTERIOR.prior.times(z) + of_loss
    norm = np.linalg.norm(S.T @ gradient)
    assert POSTERIOR.squared_norm(gradient) == pytest.approx(norm**2)
    assert norm < 1e-4 * np.linalg.norm(S.T @ on_rows(WEIGHT[:, None] * (1.0 - counts)))


def test_leave_one_out_residuals_are_those_without_the_row():
    residuals = RNG.normal(size=(40, 1))
    left_out = POSTERIOR.leave_one_out(residuals)
    for row in (0, 7, 39):
        weight = WEIGHT.copy()
        weight[row] = 0.0
        z = covariance(weight) @ on_rows(weight[:, None] * residuals)
        np.testing.assert_allclose(left_out[row], residuals[row] - z[LABELLED[row]], atol=1e-9)


def test_the_energy_of_the_prior_is_that_of_the_groups():
    of_groups = RNG.normal(size=(M, 1))
    z = of_groups[GROUPS]
    has_rows = np.isin(np.arange(M), GROUPS)
    Q = prior()
    between = Q[np.ix_(has_rows, ~has_rows)]
    reduced = Q[np.ix_(has_rows, has_rows)]
    reduced = reduced - between @ np.linalg.solve(Q[np.ix_(~has_rows, ~has_rows)], between.T)
    expected = of_groups[has_rows].T @ reduced @ of_groups[has_rows]
    assert float((z * POSTERIOR.prior.times(z)).sum()) == pytest.approx(float(expected[0, 0]))


def test_a_weight_of_unlabelled_rows_is_rejected():
    field = eb.LatentField(unlabelled=1.0)
    with pytest.raises(ValueError, match="not supported with groups"):
        field.operator(eb.Graph.from_groups(GROUPS), LABELLED, WEIGHT)


def test_labels_of_groups_may_be_left_out_one_by_one():
    graph = eb.Graph.from_groups(GROUPS, BETWEEN)
    use = eb.LatentField(leave_one_out=True)
    labels = Labels(LABELLED, np.ones((LABELLED.size, 1)), WEIGHT)
    parts = (use, graph, IdentityOperator(graph.n_nodes), eb.SquaredError(), labels, None)
    assert isinstance(objective_for(*parts, 0.0, 0), LeaveOneOutObjective)
