"""The lemmas, the theorem and the corollary, checked as numbers: on random graphs, on shipped data and on County."""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyRegressor
from sklearn.tree import DecisionTreeRegressor

import ebboost as eb
from tests.problems import fixed_regressor, neighbor_sums
from tests.propagation.test_operators import dense_form
from tests.strategies import graphs, random_graph

COUNTY = (
    Path(os.environ.get("EBBOOST_DATA", Path(__file__).parents[2] / "../shared/datasets"))
    / "county"
)
LAMBDAS = st.sampled_from([0.1, 1.0, 10.0, 300.0])
ROUGH = {"step": "theorem", "normalized": False}


def distance(smoother, graph, nodes=slice(None)):
    """‖P^(k) − P*‖₂, with dense matrices."""
    ideal = eb.Laplacian(smoother.lam, method="exact", normalized=smoother.normalized)
    return np.linalg.norm((dense_form(smoother, graph) - dense_form(ideal, graph))[nodes], 2)


# ---------------------------------------------------------------------- P^(k) against P*


@given(
    graph=graphs(min_nodes=2),
    lam=LAMBDAS,
    k=st.integers(0, 60),
    normalized=st.booleans(),
    m=st.integers(1, 12),
)
@settings(max_examples=80, deadline=None)
def test_error_of_k_steps_is_within_the_bound_of_the_proof(graph, lam, k, normalized, m):
    """‖P^(k) − P*‖ ≤ e^{−μk/2σ}‖P^(0) − P*‖, on all rows and on the labelled ones; and c = μ/σ, twice as fast."""
    start, after = (
        eb.Laplacian(lam, steps, normalized=normalized, step="theorem") for steps in (0, k)
    )
    found = eb.convergence.constants(graph, after)
    for nodes in (slice(None), slice(0, min(m, graph.n_nodes))):
        error, first = distance(after, graph, nodes), distance(start, graph, nodes)
        assert error <= np.exp(-found.mu * k / (2 * found.sigma)) * first + 1e-9
        assert error <= np.exp(-found.mu * k / found.sigma) * first + 1e-9
    assert error <= found.error + 1e-9


@given(graph=graphs(min_nodes=2), lam=LAMBDAS, k=st.integers(0, 40), normalized=st.booleans())
@pytest.mark.parametrize("method", ["gradient", "jacobi", "chebyshev"])
@settings(max_examples=40, deadline=None)
def test_error_is_within_the_bound_of_each_method(method, graph, lam, k, normalized):
    smoother = eb.Laplacian(lam, k, normalized=normalized, method=method)
    assert (
        distance(smoother, graph)
        <= eb.convergence.constants(graph, smoother).error * (1 + 1e-9) + 1e-9
    )


@given(
    graph=graphs(min_nodes=2),
    lam=LAMBDAS,
    tol=st.sampled_from([0.3, 1e-2, 1e-5]),
    normalized=st.booleans(),
)
@pytest.mark.parametrize("method", ["gradient", "jacobi", "chebyshev"])
@settings(max_examples=25, deadline=None)
def test_auto_takes_enough_steps_and_no_step_more_than_the_bound_asks_for(
    method, graph, lam, tol, normalized
):
    smoother = eb.Laplacian(lam, "auto", normalized=normalized, method=method, tol=tol)
    needed = eb.convergence.steps_for(graph, smoother, tol)
    if needed > 2_000:
        return
    operator = smoother.operator(graph)
    assert operator.n_steps == needed
    ideal = eb.Laplacian(lam, method="exact", normalized=normalized).operator(graph)
    eye = np.eye(graph.n_nodes)
    assert np.linalg.norm(operator.apply(eye) - ideal.apply(eye), 2) <= tol * (1 + 1e-6)
    if needed > 1:
        assert smoother.contraction(smoother.system(graph)).error(needed - 1) > tol


@pytest.mark.parametrize("lam", [10.0, 100.0, 300.0])
def test_chebyshev_reaches_the_same_error_in_about_the_square_root_of_the_steps(lam):
    """As measured on a ring, whose spectrum is known and has no gap: σ log(1/tol) steps against ½√σ log(2/tol)."""
    n, tol = 200, 1e-4
    graph = eb.Graph.from_edges(range(n), [*range(1, n), 0])
    values = 1 + lam * (2 - 2 * np.cos(2 * np.pi * np.arange(n) / n))
    sigma, centre, radius = values.max(), (values.max() + 1) / 2, (values.max() - 1) / 2

    def error(residual):
        return np.abs(residual * (1 - 1 / values)).max()

    gradient = next(k for k in range(1, 10**6) if error((1 - values / sigma) ** k) <= tol)
    for chebyshev in range(1, gradient):
        basis = np.polynomial.chebyshev.Chebyshev.basis(chebyshev)
        if error(basis((centre - values) / radius) / basis(centre / radius)) <= tol:
            break
    assert (
        distance(eb.Laplacian(lam, chebyshev, method="chebyshev", normalized=False), graph)
        <= 1.2 * tol
    )
    assert chebyshev <= np.sqrt(gradient * np.log(2 / tol))
    smoothers = [eb.Laplacian(lam, method=method, **ROUGH) for method in ("gradient", "chebyshev")]
    bounded = [eb.convergence.steps_for(graph, smoother, tol) for smoother in smoothers]
    assert gradient <= bounded[0] <= 1.1 * gradient
    assert chebyshev <= bounded[1] <= 1.1 * chebyshev + 1


def test_a_number_is_lambda_and_anything_else_is_refused():
    graph = random_graph(20, 40)
    assert eb.convergence.steps_for(graph, 2.0, 0.01) == eb.convergence.steps_for(
        graph, eb.Laplacian(2.0), 0.01
    )
    assert eb.convergence.steps_for(graph, eb.Laplacian(2.0, method="exact"), 0.01) == 0
    with pytest.raises(ValueError, match="tol must be a number > 0, got 0"):
        eb.convergence.steps_for(graph, 2.0, 0)
    with pytest.raises(TypeError, match=r"smoother must be an eb\.Laplacian"):
        eb.convergence.constants(graph, "strong")


@pytest.mark.parametrize("n", [12, 150])
def test_constants_are_those_of_dense_matrices(n):
    graph, smoother = random_graph(n, 3 * n), eb.Laplacian(3.0, 4, **ROUGH)
    nodes = np.arange(0, n, 2)
    found = eb.convergence.constants(graph, smoother, nodes, penalty=0.5)
    spectrum = np.linalg.eigvalsh(
        np.eye(n) + 3.0 * (np.diag(graph.degrees) - graph.adjacency.toarray())
    )
    assert spectrum[0] == pytest.approx(found.mu)
    assert spectrum[-1] <= found.sigma * (1 + 1e-12) <= 1.011 * spectrum[-1]
    assert found.sigma_k == pytest.approx(
        np.linalg.norm(dense_form(smoother, graph)[nodes], 2) ** 2 + 0.5, rel=1e-5
    )


# ---------------------------------------------------------------------- the learner's angle


def test_minimum_cosine_is_one_for_a_learner_that_fits_anything_and_zero_for_one_that_fits_nothing():
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
    found = eb.convergence.minimum_cosine(DummyRegressor(), X, curvature=weight, n_draws=1)
    assert found == pytest.approx(expected)


def test_minimum_cosine_refuses_what_it_cannot_measure():
    X = np.random.default_rng(0).normal(size=(10, 2))
    with pytest.raises(ValueError, match="curvature must be 10 numbers"):
        eb.convergence.minimum_cosine("lightgbm", X, curvature=[1.0])
    with pytest.raises(ValueError, match="does not support categories"):
        eb.convergence.minimum_cosine(DecisionTreeRegressor(), X, categorical_features=[0])
    with pytest.raises(ValueError, match="gamma must be a number in"):
        eb.convergence.largest_phi(1.5)


# ---------------------------------------------------------------------- the theorem and the corollary, on random graphs


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
def test_theorem_1_holds_against_any_rival(graph, seed, lam, rate, penalty):
    """With trees that fit anything, Γ = 1 and φ = 1/5 is allowed: the bound is then a theorem, for every f*."""
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
    for rival in (
        np.linalg.lstsq(P, y[known] - y[known].mean(), rcond=1e-8)[0],
        0.1 * rng.normal(size=graph.n_nodes),
    ):
        found = eb.convergence.report(m, SimpleNamespace(scores_=rival[:, None]))
        assert (np.minimum.accumulate(found.loss)[1:] <= found.bound[1:] + 1e-9).all()
        assert found.optimum == pytest.approx(
            0.5 * np.mean((y[known] - y[known].mean() - P @ rival) ** 2)
            + 0.5 * penalty * rival @ rival / known.sum()
        )


def test_theorem_1_holds_for_weaker_trees_with_the_phi_that_is_theirs():
    X, y, graph = neighbor_sums(n=120, n_labelled=80, edges=200)
    tree = DecisionTreeRegressor(max_leaf_nodes=25)
    phi = eb.convergence.largest_phi(0.5)
    m = fixed_regressor(
        n_estimators=100,
        learner=tree,
        learning_rate=1.0,
        momentum=eb.CorrectedMomentum(phi, restart=False),
    )
    found = eb.convergence.report(m.fit(X, y, graph=graph))
    assert 0.5 < found.gamma < 0.95 and "is within" in found.guarantee
    assert (np.minimum.accumulate(found.loss)[1:] <= found.bound[1:] + 1e-9).all()


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
    found = eb.convergence.report(m)
    assert (found.loss >= found.optimum - 1e-9).all()
    assert (found.loss <= found.bound + 1e-6 * found.loss[0]).all()


def test_optimum_of_a_penalised_fit_is_the_ridge_solution_over_rows_that_differ():
    X, y, graph = neighbor_sums(n=80, n_labelled=50, edges=160)
    X[1], X[70] = X[0], X[0]
    m = fixed_regressor(penalty=0.3, smoothing=eb.Laplacian(2.0, 4)).fit(X, y, graph=graph)
    known, same = ~np.isnan(y), np.unique(X, axis=0, return_inverse=True)[1].ravel()
    P, G = dense_form(eb.Laplacian(2.0, 4), graph)[known], np.eye(same.max() + 1)[same]
    target = y[known] - y[known].mean()
    f = G @ np.linalg.solve(G.T @ (P.T @ P + 0.3 * np.eye(80)) @ G, G.T @ P.T @ target)
    expected = (0.5 * np.sum((target - P @ f) ** 2) + 0.15 * f @ f) / known.sum()
    assert eb.convergence.report(m).optimum == pytest.approx(expected, rel=1e-6)


# ---------------------------------------------------------------------- reports


def test_report_tells_which_theorem_speaks():
    X, y, graph = neighbor_sums()

    def said(**changes):
        return eb.convergence.report(fixed_regressor(**changes).fit(X, y, graph=graph))

    assert "every round descends" in said().guarantee and said().bound is None and said().monotone
    assert "Corollary 1" in said(penalty=0.1).guarantee
    assert "none: the simple momentum" in said(momentum=True).guarantee
    corrected = said(momentum="corrected")
    assert "Theorem 1" in corrected.guarantee and "is beyond" in corrected.guarantee
    wild = said(momentum=eb.CorrectedMomentum(1.0), n_estimators=100, learning_rate=1.0)
    assert "restarted after round" in wild.guarantee and not wild.monotone
    assert np.isnan(wild.bound[-1]) and "rose in" in repr(wild)
    assert said(smoothing=None).smoothing is None
    for text in ("training loss", "guarantee", "bound", "cosine Γ", "‖P^(k) − P*‖"):
        assert text in repr(corrected)


def test_report_sees_the_objective_that_was_fitted(tmp_path):
    """The history's last value is that of the final scores, with labels held out, weights and a model read from a file."""
    X, y, graph = neighbor_sums(n=400, n_labelled=300)
    weight = np.random.default_rng(1).random(400) + 0.5
    for labels in ("none", "field"):
        m = fixed_regressor(
            labels=labels,
            early_stopping=True,
            n_iter_no_change=10_000,
            penalty=0.2,
            momentum="corrected",
        )
        m.fit(X, y, sample_weight=weight, graph=graph)
        m.scores_ = m.scores_.copy()
        found = eb.convergence.report(m)
        best = int(np.argmin(m.history_["validation"]))
        assert found.optimum == pytest.approx(m.history_["training"][best], rel=1e-6)
        m.save(tmp_path / "m.ebb")
        again = eb.convergence.report(eb.load(tmp_path / "m.ebb"))
        np.testing.assert_allclose(again.bound, found.bound)


def test_propagation_gap_bounds_what_more_steps_would_change():
    X, y, graph = neighbor_sums()
    for steps in (1, 3, 10):
        m = fixed_regressor(smoothing=eb.Laplacian(5.0, steps)).fit(X, y, graph=graph)
        ideal = (
            eb.Laplacian(5.0, method="exact").operator(graph).apply(m.scores_)[:120, 0]
            + m.init_score_[0]
        )
        found = eb.convergence.report(m)
        assert abs(0.5 * np.mean((y[:120] - ideal) ** 2) - found.loss[-1]) <= found.propagation_gap
    assert (
        eb.convergence.report(
            fixed_regressor(smoothing=eb.Laplacian(method="exact")).fit(X, y, graph=graph)
        ).propagation_gap
        == 0
    )


def test_report_refuses_what_no_theorem_speaks_of():
    X, y, graph = neighbor_sums()
    with pytest.raises(ValueError, match="about squared error"):
        eb.convergence.report(fixed_regressor(loss="huber").fit(X, y, graph=graph))
    with pytest.raises(ValueError, match="masked"):
        eb.convergence.report(fixed_regressor(labels="masked").fit(X, y, graph=graph))
    old = fixed_regressor().fit(X, y, graph=graph)
    del old.history_["cosine"]
    with pytest.raises(ValueError, match="history_ has no cosines"):
        eb.convergence.report(old)


# ---------------------------------------------------------------------- training loss against rounds, on real data


def lucas():
    X, y, graph, _ = eb.datasets.load_lucas()
    known = np.random.default_rng(0).permutation(2000)[:1200]
    return X.iloc[:2000], y[:2000], eb.Graph.from_scipy(graph.adjacency[:2000, :2000]), known


def county():
    if not COUNTY.exists():
        pytest.skip("County is not at hand")
    X, y, graph, splits = eb.datasets.load_folder(COUNTY)
    return X, y.astype(float), graph, splits[0]["train"]


@pytest.fixture(scope="module", params=[lucas, county], ids=["lucas", "county"])
def fitted(request):
    X, y, graph, known = request.param()

    def fit(n_rounds, **changes):
        return fixed_regressor(n_estimators=n_rounds, **{"learning_rate": 0.02} | changes).fit(
            X, y[known], nodes=known, graph=graph
        )

    return fit


def slope(loss, first, last):
    t = np.arange(first, last)
    return np.polyfit(np.log(t), np.log(loss[first:last]), 1)[0]


def test_momentum_reaches_the_same_training_loss_in_a_fifth_of_the_rounds(fitted):
    """At one learning rate and with the same trees; by more the longer the run, as the square root of its rounds."""
    plain = eb.convergence.report(fitted(640))
    assert plain.monotone
    for momentum in ("simple", "corrected"):
        fast = eb.convergence.report(fitted(320, momentum=momentum)).loss
        reached = np.minimum.accumulate(fast)
        gains = [rounds / np.argmax(reached <= plain.loss[rounds]) for rounds in (40, 160, 640)]
        assert gains[2] >= 5.0
        assert gains[0] < gains[1] < gains[2]
    assert slope(fast, 40, 320) <= -2.0 < -1.0 < slope(plain.loss, 40, 320)


def test_penalty_makes_convergence_linear(fitted):
    """The distance from the optimum over all functions of the columns is a straight line on a logarithmic axis."""
    deep = eb.LightGBM(64, min_child_samples=1, params={"min_sum_hessian_in_leaf": 1e-6})
    found = eb.convergence.report(fitted(200, learning_rate=0.5, penalty=1.0, learner=deep))
    gap, t = found.loss - found.optimum, np.arange(20, 201)
    assert found.monotone and (gap > 0).all() and (found.loss <= found.bound).all()
    assert np.corrcoef(t, np.log(gap[20:]))[0, 1] < -0.99
    halves = [
        np.polyfit(t[part], np.log(gap[20:][part]), 1)[0] for part in (slice(0, 90), slice(90, 181))
    ]
    assert halves[1] < -0.01 and 0.5 < halves[1] / halves[0] < 2.0
