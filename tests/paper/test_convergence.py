"""Lemmas, Theorem 1 and Corollary 1 as inequalities on random graphs, and reports on fits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyRegressor
from sklearn.tree import DecisionTreeRegressor

import ebboost as eb
from ebboost.paper import Chebyshev, CorrectedMomentum, Jacobi, convergence
from ebboost.paper.steps import contraction
from tests.paper.problems import SklearnTree, neighbor_sums, regressor
from tests.paper.test_smoothers import dense_form
from tests.strategies import graphs, random_graph

LAMBDAS = st.sampled_from([0.1, 1.0, 10.0, 300.0])
ROUGH = {"normalized": False}


def exact(smoother):
    return eb.Laplacian(smoother.lam, method="exact", normalized=smoother.normalized)


def distance(smoother, graph, rows=slice(None)):
    """‖P^(k) − P*‖₂, with dense matrices."""
    difference = dense_form(smoother, graph) - dense_form(exact(smoother), graph)
    return np.linalg.norm(difference[rows], 2)


# ---------------------------------------------------------------------- lemmas


@given(graph=graphs(min_nodes=2), lam=LAMBDAS, k=st.integers(0, 60), m=st.integers(1, 12))
@settings(max_examples=50, deadline=None)
def test_error_of_k_steps_is_within_the_bound_of_the_proof(graph, lam, k, m):
    """‖P^(k) − P*‖ ≤ e^{−μk/2σ}‖P^(0) − P*‖ on all and on labelled rows; and c = μ/σ."""
    start, after = (eb.Laplacian(lam, steps, **ROUGH) for steps in (0, k))
    result = convergence.constants(graph, after)
    for rows in (slice(0, min(m, graph.n_nodes)), slice(None)):
        error, first = distance(after, graph, rows), distance(start, graph, rows)
        assert error <= np.exp(-result.mu * k / (2 * result.sigma)) * first + 1e-9
        assert error <= np.exp(-result.mu * k / result.sigma) * first + 1e-9
    assert error <= result.error + 1e-9
    assert result.c >= result.mu / result.sigma - 1e-12


@given(graph=graphs(min_nodes=2), lam=LAMBDAS, k=st.integers(0, 40), normalized=st.booleans())
@pytest.mark.parametrize("kind", [eb.Laplacian, Jacobi, Chebyshev])
@settings(max_examples=25, deadline=None)
def test_error_is_within_the_bound_of_each_method(kind, graph, lam, k, normalized):
    smoother = kind(lam, k, normalized=normalized)
    bound = convergence.constants(graph, smoother).error
    assert distance(smoother, graph) <= bound * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("lam", [10.0, 100.0])
def test_chebyshev_needs_about_the_square_root_of_the_steps(lam):
    n, tol = 200, 1e-4
    ring = eb.Graph.from_edges(range(n), [*range(1, n), 0])
    gradient, jacobi, chebyshev = (
        contraction(kind(lam, **ROUGH), ring).steps(tol)
        for kind in (eb.Laplacian, Jacobi, Chebyshev)
    )
    assert chebyshev <= 1.1 * np.sqrt(gradient * np.log(2 / tol)) < gradient
    assert 0.5 * gradient < jacobi < 2.0 * gradient
    for kind, steps in ((eb.Laplacian, gradient), (Chebyshev, chebyshev)):
        assert 0.2 * tol < distance(kind(lam, steps, **ROUGH), ring) <= tol  # not by far too many


def test_the_exact_inverse_has_no_error_and_other_smoothers_no_constants():
    graph = random_graph(20, 40)
    found = convergence.constants(graph, eb.Laplacian(2.0, method="exact"))
    assert (found.error, found.n_steps, found.c) == (0.0, None, np.inf)
    with pytest.raises(TypeError, match="smoother must be a Laplacian"):
        convergence.constants(graph, "strong")


@pytest.mark.parametrize("n", [12, 150])
def test_constants_are_those_of_dense_matrices(n):
    graph, smoother = random_graph(n, 3 * n), eb.Laplacian(3.0, 4, **ROUGH)
    rows = np.arange(0, n, 2)
    result = convergence.constants(graph, smoother, rows, penalty=0.5)
    laplacian = np.diag(graph.degrees) - graph.adjacency.toarray()
    spectrum = np.linalg.eigvalsh(np.eye(n) + 3.0 * laplacian)
    assert spectrum[0] == pytest.approx(result.mu)
    assert spectrum[-1] <= result.sigma * (1 + 1e-12) <= 1.011 * spectrum[-1]
    norm = np.linalg.norm(dense_form(smoother, graph)[rows], 2)
    assert result.sigma_k == pytest.approx(norm**2 + 0.5, rel=1e-5)


# ---------------------------------------------------------------------- theorems


def test_minimum_cosine_of_trees_of_one_leaf_and_of_all():
    X = np.random.default_rng(0).normal(size=(100, 2))
    every, none = DecisionTreeRegressor(), DummyRegressor(strategy="constant", constant=0.0)
    assert convergence.minimum_cosine(SklearnTree(every), X) == pytest.approx(1.0)
    assert convergence.minimum_cosine(SklearnTree(none), X) == 0.0


def test_minimum_cosine_of_the_mean_is_known_in_closed_form():
    """A regressor that predicts the weighted mean has cos = |Σ w r|/√(Σ w · Σ w r²)."""
    rng = np.random.default_rng(3)
    X, weight = rng.normal(size=(50, 2)), rng.random(50)
    noise = np.random.default_rng(0).standard_normal((50, 1))[:, 0]
    expected = abs(weight @ noise) / np.sqrt(weight.sum() * (weight @ noise**2))
    mean = SklearnTree(DummyRegressor())
    found = convergence.minimum_cosine(mean, X, curvature=weight, n_draws=1)
    assert found == pytest.approx(expected)
    with pytest.raises(ValueError, match="curvature must be 50 numbers"):
        convergence.minimum_cosine(mean, X, curvature=[1.0])
    with pytest.raises(ValueError, match="gamma must be a number in"):
        convergence.largest_phi(1.5)


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
@settings(max_examples=20, deadline=None)
def test_theorem_1_holds_for_any_reference(graph, seed, lam, rate, penalty):
    """With trees that fit anything, Γ = 1 and φ = 1/5: the bound holds for every f*."""
    X, y, rng = labelled(graph, seed)
    m = regressor(learning_rate=rate, smoothing=eb.Laplacian(lam, 3), penalty=penalty)
    m.set_params(learner=SklearnTree(DecisionTreeRegressor()))
    m.set_params(momentum=CorrectedMomentum(0.2, restart=False)).fit(X, y, graph=graph)
    if not m.history_["training"]:  # a single label is its own mean
        return
    known = ~np.isnan(y)
    P, target = dense_form(eb.Laplacian(lam, 3), graph)[known], y[known] - y[known].mean()
    for reference in (np.linalg.lstsq(P, target, rcond=1e-8)[0], 0.1 * rng.normal(size=y.size)):
        result = convergence.report(m, reference)
        assert (np.minimum.accumulate(result.loss)[1:] <= result.bound[1:] + 1e-9).all()
        ridge = 0.5 * penalty * reference @ reference / known.sum()
        loss = 0.5 * np.mean((target - P @ reference) ** 2) + ridge
        assert result.optimum == pytest.approx(loss)


def test_theorem_1_holds_for_weak_trees_with_their_phi():
    X, y, graph = neighbor_sums(n=120, n_labelled=80, edges=200)
    momentum = CorrectedMomentum(convergence.largest_phi(0.5), restart=False)
    tree = SklearnTree(DecisionTreeRegressor(max_leaf_nodes=25, random_state=0))
    m = regressor(n_estimators=100, learner=tree, learning_rate=1.0, momentum=momentum)
    result = convergence.report(m.fit(X, y, graph=graph))
    assert 0.5 < result.gamma < 0.95 and "is within" in result.guarantee
    assert (np.minimum.accumulate(result.loss)[1:] <= result.bound[1:] + 1e-9).all()


@given(
    graph=graphs(min_nodes=4, max_nodes=30),
    seed=st.integers(0, 1000),
    smoothing=st.sampled_from([None, eb.Laplacian(2.0, 3), Chebyshev(5.0, 4), Jacobi(2.0, 3)]),
    labels=st.sampled_from(["none", "field"]),
    rate=st.sampled_from([0.1, 0.5, 1.0]),
    penalty=st.sampled_from([0.01, 1.0]),
    leaves=st.integers(2, 8),
)
@settings(max_examples=25, deadline=None)
def test_corollary_1_holds_for_any_learner(graph, seed, smoothing, labels, rate, penalty, leaves):
    X, y, _ = labelled(graph, seed)
    m = regressor(n_estimators=15, learning_rate=rate, smoothing=smoothing, labels=labels)
    tree = SklearnTree(DecisionTreeRegressor(max_leaf_nodes=leaves, random_state=0))
    m.set_params(learner=tree, penalty=penalty).fit(X, y, graph=graph)
    if not m.history_["training"]:
        return
    result = convergence.report(m)
    assert (result.loss >= result.optimum - 1e-9).all()
    assert (result.loss <= result.bound + 1e-6 * result.loss[0]).all()


def test_optimum_of_a_penalised_fit_is_the_ridge_solution_over_distinct_rows():
    X, y, graph = neighbor_sums(n=80, n_labelled=50, edges=160)
    X[1], X[70] = X[0], X[0]
    m = regressor(penalty=0.3, smoothing=eb.Laplacian(2.0, 4)).fit(X, y, graph=graph)
    known, same = ~np.isnan(y), np.unique(X, axis=0, return_inverse=True)[1].ravel()
    P, G = dense_form(eb.Laplacian(2.0, 4), graph)[known], np.eye(same.max() + 1)[same]
    target = y[known] - y[known].mean()
    f = G @ np.linalg.solve(G.T @ (P.T @ P + 0.3 * np.eye(80)) @ G, G.T @ P.T @ target)
    expected = (0.5 * np.sum((target - P @ f) ** 2) + 0.15 * f @ f) / known.sum()
    assert convergence.report(m).optimum == pytest.approx(expected, rel=1e-6)


# ---------------------------------------------------------------------- reports


def test_report_names_the_theorem_that_applies():
    X, y, graph = neighbor_sums()

    def report(**changes):
        return convergence.report(regressor(**changes).fit(X, y, graph=graph))

    plain = report()
    assert "every round descends" in plain.guarantee and plain.bound is None and plain.monotone
    assert "Corollary 1" in report(penalty=0.1).guarantee
    assert "none: Theorem 1 is about corrected momentum" in report(momentum=True).guarantee
    corrected = report(momentum="corrected")
    assert "Theorem 1" in corrected.guarantee and "is beyond" in corrected.guarantee
    wild = report(momentum=CorrectedMomentum(1.0), n_estimators=100, learning_rate=1.0)
    assert "restarted after round" in wild.guarantee and not wild.monotone
    assert np.isnan(wild.bound[-1]) and "rose in" in repr(wild)
    assert report(smoothing=None).smoothing is None
    for text in ("training loss", "guarantee", "bound", "cosine Γ", "‖P^(k) − P*‖"):
        assert text in repr(corrected)
    counts = regressor(loss="poisson", learning_rate=0.3).fit(X, np.round(np.exp(y)), graph=graph)
    other = convergence.report(counts)
    assert other.monotone and other.guarantee.startswith("every round descends")
    with pytest.raises(ValueError, match="has no cosines"):
        convergence.report(eb.EBBSRegressor(5, n_folds=1).fit(X, y, graph=graph))


@pytest.mark.parametrize("labels", ["none", "field"])
def test_report_rebuilds_the_objective_of_the_fit(labels):
    """The value of the history at the best round is the loss of the final scores."""
    X, y, graph = neighbor_sums(n=400, n_labelled=300)
    weight = np.random.default_rng(1).random(400) + 0.5
    m = regressor(labels=labels, early_stopping=1000, penalty=0.2, momentum="corrected")
    m.fit(X, y, sample_weight=weight, graph=graph)
    best = int(np.argmin(m.history_["validation"]))
    optimum = convergence.report(m).optimum
    assert optimum == pytest.approx(m.history_["training"][best], rel=1e-6)


def test_propagation_gap_bounds_what_more_steps_would_change():
    X, y, graph = neighbor_sums()
    for smoothing in (eb.Laplacian(5.0, 1), eb.Laplacian(5.0, 10), Jacobi(5.0, 3), Chebyshev(5.0)):
        m = regressor(smoothing=smoothing).fit(X, y, graph=graph)
        one, result = m.model_.components[0], convergence.report(m)
        ideal = exact(smoothing).operator(graph).apply(one.scores)[:120, 0] + one.init_score
        moved = 0.5 * np.mean((y[:120] - ideal) ** 2) - result.loss[-1]
        assert abs(moved) <= result.propagation_gap
    m = regressor(smoothing=eb.Laplacian(method="exact")).fit(X, y, graph=graph)
    assert convergence.report(m).propagation_gap == 0


@pytest.fixture(scope="module")
def lucas():
    X, y, graph, _ = eb.datasets.load_lucas()
    known = np.random.default_rng(0).permutation(2000)[:1200]
    part = eb.Graph.from_scipy(graph.adjacency[:2000, :2000])

    def fit(n_rounds, **changes):
        m = regressor(n_estimators=n_rounds, **({"learning_rate": 0.02} | changes))
        return convergence.report(m.fit(X.iloc[:2000], y[known], nodes=known, graph=part))

    return fit


def decay_exponent(loss, first, last):
    t = np.arange(first, last)
    return np.polyfit(np.log(t), np.log(loss[first:last]), 1)[0]


def test_momentum_reaches_the_same_training_loss_in_a_fifth_of_the_rounds(lucas):
    """At the same learning rate and with the same trees; the gain grows with the rounds."""
    plain = lucas(640)
    assert plain.monotone
    for momentum in ("simple", "corrected"):
        fast = lucas(320, momentum=momentum).loss
        reached = np.minimum.accumulate(fast)
        gains = [rounds / np.argmax(reached <= plain.loss[rounds]) for rounds in (40, 160, 640)]
        assert gains[2] >= 5.0
        assert gains[0] < gains[1] < gains[2]
    assert decay_exponent(fast, 40, 320) <= -2.0 < -1.0 < decay_exponent(plain.loss, 40, 320)


def test_penalty_makes_convergence_linear(lucas):
    """The distance from the optimum falls linearly on a logarithmic axis."""
    deep = eb.LightGBM(64, min_child_samples=1, params={"min_sum_hessian_in_leaf": 1e-6})
    result = lucas(200, learning_rate=0.5, penalty=1.0, learner=deep)
    gap, t = result.loss - result.optimum, np.arange(20, 201)
    assert result.monotone and (gap > 0).all() and (result.loss <= result.bound).all()
    assert np.corrcoef(t, np.log(gap[20:]))[0, 1] < -0.99
    first, second = (np.polyfit(t[k : k + 90], np.log(gap[20 + k :][:90]), 1)[0] for k in (0, 90))
    assert second < -0.01 and 0.5 < second / first < 2.0
