"""Theorem 1 and Corollary 1 as inequalities on random graphs; Γ against closed forms."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyRegressor
from sklearn.tree import DecisionTreeRegressor

import ebboost as eb
from tests.problems import fixed_regressor, neighbor_sums
from tests.propagation.closed_forms import dense_form
from tests.strategies import graphs


def test_minimum_cosine_is_one_for_interpolation_and_zero_for_a_constant():
    X = np.random.default_rng(0).normal(size=(100, 2))
    assert eb.convergence.minimum_cosine(DecisionTreeRegressor(), X) == pytest.approx(1.0)
    assert (
        eb.convergence.minimum_cosine(DummyRegressor(strategy="constant", constant=0.0), X) == 0.0
    )


def test_minimum_cosine_of_the_mean_is_known_in_closed_form():
    """A regressor that predicts the weighted mean has cos = |Σ w r|/√(Σ w · Σ w r²)."""
    rng = np.random.default_rng(3)
    X, weight = rng.normal(size=(50, 2)), rng.random(50)
    noise = np.random.default_rng(0).standard_normal((50, 1))[:, 0]
    expected = abs(weight @ noise) / np.sqrt(weight.sum() * (weight @ noise**2))
    result = eb.convergence.minimum_cosine(DummyRegressor(), X, curvature=weight, n_draws=1)
    assert result == pytest.approx(expected)


def test_minimum_cosine_rejects_invalid_arguments():
    X = np.random.default_rng(0).normal(size=(10, 2))
    with pytest.raises(ValueError, match="curvature must be 10 numbers"):
        eb.convergence.minimum_cosine("lightgbm", X, curvature=[1.0])
    with pytest.raises(ValueError, match="does not support categories"):
        eb.convergence.minimum_cosine(DecisionTreeRegressor(), X, categorical_features=[0])
    with pytest.raises(ValueError, match="gamma must be a number in"):
        eb.convergence.largest_phi(1.5)


def labelled(graph, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(graph.n_nodes, 2)), rng.normal(size=graph.n_nodes)
    y[rng.random(graph.n_nodes) < 0.4] = np.nan
    y[0] = 1.0
    return X, y, rng


@given(
    graph=graphs(min_nodes=4, max_nodes=30),
    seed=st.integers(0, 1000),
    lam=st.sampled_from([0.3, 2.0, 30.0]),
    rate=st.sampled_from([0.1, 1.0]),
    penalty=st.sampled_from([0.0, 0.1]),
)
@settings(max_examples=25, deadline=None)
def test_theorem_1_holds_for_any_reference(graph, seed, lam, rate, penalty):
    """With trees that fit anything, Γ = 1 and φ = 1/5: the bound holds for every f*."""
    X, y, rng = labelled(graph, seed)
    m = fixed_regressor(
        n_estimators=25, learning_rate=rate, smoothing=eb.Laplacian(lam, 3), penalty=penalty
    )
    m.set_params(learner=DecisionTreeRegressor(), momentum=eb.CorrectedMomentum(0.2, restart=False))
    m.fit(X, y, graph=graph)
    if not m.history_["training"]:  # a single label is its own mean
        return
    known = ~np.isnan(y)
    P = dense_form(eb.Laplacian(lam, 3), graph)[known]
    for reference in (
        np.linalg.lstsq(P, y[known] - y[known].mean(), rcond=1e-8)[0],
        0.1 * rng.normal(size=graph.n_nodes),
    ):
        result = eb.convergence.report(m, SimpleNamespace(scores_=reference[:, None]))
        assert (np.minimum.accumulate(result.loss)[1:] <= result.bound[1:] + 1e-9).all()
        assert result.optimum == pytest.approx(
            0.5 * np.mean((y[known] - y[known].mean() - P @ reference) ** 2)
            + 0.5 * penalty * reference @ reference / known.sum()
        )


def test_theorem_1_holds_for_weak_trees_with_their_phi():
    X, y, graph = neighbor_sums(n=120, n_labelled=80, edges=200)
    tree = DecisionTreeRegressor(max_leaf_nodes=25)
    phi = eb.convergence.largest_phi(0.5)
    m = fixed_regressor(
        n_estimators=100,
        learner=tree,
        learning_rate=1.0,
        momentum=eb.CorrectedMomentum(phi, restart=False),
    )
    result = eb.convergence.report(m.fit(X, y, graph=graph))
    assert 0.5 < result.gamma < 0.95 and "is within" in result.guarantee
    assert (np.minimum.accumulate(result.loss)[1:] <= result.bound[1:] + 1e-9).all()


@given(
    graph=graphs(min_nodes=4, max_nodes=30),
    seed=st.integers(0, 1000),
    smoothing=st.sampled_from(
        [None, eb.Laplacian(2.0, 3), eb.Laplacian(5.0, 4, method="chebyshev")]
    ),
    labels=st.sampled_from(["none", "field", "leave-one-out"]),
    rate=st.sampled_from([0.1, 0.5, 1.0]),
    penalty=st.sampled_from([0.01, 1.0]),
    leaves=st.integers(2, 8),
)
@settings(max_examples=25, deadline=None)
def test_corollary_1_holds_for_any_learner(graph, seed, smoothing, labels, rate, penalty, leaves):
    X, y, _ = labelled(graph, seed)
    m = fixed_regressor(
        n_estimators=15, learning_rate=rate, smoothing=smoothing, labels=labels, penalty=penalty
    )
    m.set_params(learner=DecisionTreeRegressor(max_leaf_nodes=leaves)).fit(X, y, graph=graph)
    if not m.history_["training"]:
        return
    result = eb.convergence.report(m)
    assert (result.loss >= result.optimum - 1e-9).all()
    assert (result.loss <= result.bound + 1e-6 * result.loss[0]).all()


def test_optimum_of_a_penalised_fit_is_the_ridge_solution_over_distinct_rows():
    X, y, graph = neighbor_sums(n=80, n_labelled=50, edges=160)
    X[1], X[70] = X[0], X[0]
    m = fixed_regressor(penalty=0.3, smoothing=eb.Laplacian(2.0, 4)).fit(X, y, graph=graph)
    known, same = ~np.isnan(y), np.unique(X, axis=0, return_inverse=True)[1].ravel()
    P, G = dense_form(eb.Laplacian(2.0, 4), graph)[known], np.eye(same.max() + 1)[same]
    target = y[known] - y[known].mean()
    f = G @ np.linalg.solve(G.T @ (P.T @ P + 0.3 * np.eye(80)) @ G, G.T @ P.T @ target)
    expected = (0.5 * np.sum((target - P @ f) ** 2) + 0.15 * f @ f) / known.sum()
    assert eb.convergence.report(m).optimum == pytest.approx(expected, rel=1e-6)
