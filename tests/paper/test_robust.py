"""Robust smoothing (14): steps lower the energy, rounds lower the loss."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize

import ebboost as eb
from ebboost.boosting import Point
from ebboost.data.labels import Labels
from ebboost.field import Posterior
from ebboost.paper import PaperClassifier, PaperRegressor, Robust
from ebboost.paper.objectives import PenalizedObjective, RobustObjective
from tests.strategies import graphs, random_graph

RHO = {  # of t, the squared difference in units of the scale
    "sqrt": lambda t: 2 * np.sqrt(1 + t) - 2,
    "log": lambda t: np.log(1 + t),
    "geman-mcclure": lambda t: t / (1 + t),
    "truncated": lambda t: np.minimum(t, 1),
    0.5: lambda t: 4 * (1 + t) ** 0.25 - 4,
}
PENALTIES = list(RHO)


def robust(penalty="log", scale=1.0, lam=2.0, n_steps=5, normalized=True):
    return Robust(lam, n_steps, penalty=penalty, scale=scale, normalized=normalized)


def energy_at(smoother, graph, z, f):
    """The energy (14), from the edges."""
    edges = sparse.triu(graph.adjacency).tocoo()
    i, j = edges.coords
    strength, root = edges.data, np.ones(graph.n_nodes)
    if smoother.normalized:
        root = 1 / np.sqrt(graph.degrees + 1)
        strength = strength * root[i] * root[j]
    gap = (root[i, None] * z[i] - root[j, None] * z[j]) / np.sqrt(root[i] * root[j])[:, None]
    units = smoother.scale**2
    penalties = units * RHO[smoother.penalty]((gap**2).sum(axis=1) / units)
    return ((z - f) ** 2).sum() + smoother.lam * strength @ penalties


def weights_of(penalty, t):
    """Weights of an edge across which scores differ by √t."""
    operator = robust(penalty, n_steps=1, normalized=False).operator(eb.Graph.from_edges([0], [1]))
    pairs = np.stack([np.zeros_like(t), np.sqrt(t)], axis=1)
    return np.concatenate([operator.edge_weights(pair).weight for pair in pairs])


@pytest.mark.parametrize("penalty", PENALTIES)
def test_weights_are_the_derivatives_of_concave_penalties(penalty):
    t = np.linspace(0.0, 6.0, 61) + 0.013  # not the kink at 1
    weights = weights_of(penalty, t)
    numeric = (RHO[penalty](t + 1e-6) - RHO[penalty](t - 1e-6)) / 2e-6
    np.testing.assert_allclose(weights, numeric, rtol=1e-6, atol=1e-8)
    assert (np.diff(weights) <= 1e-15).all() and (weights >= 0).all()
    assert weights_of(penalty, np.zeros(1)) == 1.0


def test_the_square_root_is_the_l1_penalty_and_p_2_the_quadratic_one():
    t = np.linspace(0.0, 9.0, 10)
    np.testing.assert_allclose(weights_of(1.0, t), weights_of("sqrt", t))
    np.testing.assert_array_equal(weights_of(2, t), 1.0)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("penalty", PENALTIES)
@given(
    graph=graphs(min_nodes=2),
    seed=st.integers(0, 1000),
    scale=st.floats(0.05, 5.0),
    lam=st.floats(0.0, 20.0),
    outputs=st.integers(1, 3),
)
@settings(max_examples=20, deadline=None)
def test_every_step_lowers_the_energy(penalty, normalized, graph, seed, scale, lam, outputs):
    f = np.random.default_rng(seed).normal(size=(graph.n_nodes, outputs))
    energies = []
    for n_steps in range(7):
        smoother = robust(penalty, scale, lam, n_steps, normalized)
        energies.append(energy_at(smoother, graph, smoother.operator(graph).apply(f), f))
    assert (np.diff(energies) <= 1e-12 * (1.0 + energies[0])).all()


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_steps_are_those_of_the_equation(penalty, normalized):
    """The second step against Z − α/2 ∂E/∂Z, numerically."""
    graph = random_graph(9, 16)
    smoother, single = (robust(penalty, 0.8, 1.7, k, normalized) for k in (2, 1))
    f = np.random.default_rng(0).normal(size=(9, 2))
    once, twice = single.operator(graph).apply(f), smoother.operator(graph).apply(f)
    slope = numeric_gradient(lambda z: energy_at(smoother, graph, z, f), once)
    alpha = smoother.operator(graph).alpha
    np.testing.assert_allclose(twice, once - 0.5 * alpha * slope, atol=1e-7)


def test_many_steps_of_a_convex_penalty_reach_its_minimiser():
    graph = random_graph(8, 12)
    f = np.random.default_rng(0).normal(size=(8, 1))
    smoother = robust("sqrt", 0.5, 1.0, 400)
    found = minimize(lambda z: energy_at(smoother, graph, z[:, None], f), f.ravel(), tol=1e-12).x
    np.testing.assert_allclose(smoother.operator(graph).apply(f).ravel(), found, atol=1e-5)


@pytest.mark.parametrize("normalized", [True, False])
@given(graph=graphs(min_nodes=2), seed=st.integers(0, 1000), penalty=st.sampled_from(PENALTIES))
@settings(max_examples=30, deadline=None)
def test_with_a_large_scale_it_is_laplacian_smoothing(normalized, graph, seed, penalty):
    f = np.random.default_rng(seed).normal(size=(graph.n_nodes, 2))
    laplacian = eb.Laplacian(2.0, 5, normalized=normalized)
    smoother = robust(penalty, 1e6, normalized=normalized)
    smoothed = smoother.operator(graph).apply(f)
    np.testing.assert_allclose(smoothed, laplacian.operator(graph).apply(f), atol=1e-9)
    parts = (f[:1], sparse.csr_array(np.arange(graph.n_nodes)[None] / 3.0), f, graph.degrees)
    np.testing.assert_allclose(smoother.join(*parts), laplacian.join(*parts), atol=1e-9)


@pytest.mark.parametrize("normalized", [True, False])
def test_steps_of_a_new_node_are_those_of_its_energy(normalized):
    """The second step, with the energy of the fitted nodes joined by one."""
    rng = np.random.default_rng(3)
    fitted, weight = random_graph(9, 16), np.where(rng.random(9) < 0.5, rng.random(9), 0.0)
    f, near = rng.normal(size=(1, 2)), rng.normal(size=(9, 2))
    edges = sparse.csr_array(weight[None])
    once, twice = (
        robust("log", 0.8, 1.7, k, normalized).join(f, edges, near, fitted.degrees) for k in (1, 2)
    )
    own = weight.sum()
    root = 1 / np.sqrt(np.append(fitted.degrees, own) + 1) if normalized else np.ones(10)

    def energy(z):
        gap = (root[9] * z - root[:9, None] * near) / np.sqrt(root[9] * root[:9])[:, None]
        rho = 0.64 * np.log(1 + (gap**2).sum(axis=1) / 0.64)
        return ((z - f) ** 2).sum() + 1.7 * (weight * root[9] * root[:9]) @ rho

    alpha = 1 / (1 + 1.7 * (1.0 if normalized else own))
    np.testing.assert_allclose(
        twice, once - 0.5 * alpha * numeric_gradient(energy, once), atol=1e-7
    )


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("penalty", PENALTIES)
@given(graph=graphs(), seed=st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_operator_at_a_point_leads_there_and_passes_the_dot_test(penalty, normalized, graph, seed):
    f, u, v = np.random.default_rng(seed).normal(size=(3, graph.n_nodes, 2))
    operator = robust(penalty, 0.7, normalized=normalized).operator(graph)
    before = f.copy()
    frozen = operator.linearize(f)
    dense = frozen.apply(np.eye(graph.n_nodes))
    np.testing.assert_allclose(frozen.apply(f), operator.apply(f), atol=1e-12)
    np.testing.assert_allclose(dense @ u, frozen.apply(u), atol=1e-12)
    np.testing.assert_allclose(frozen.adjoint(v), dense.T @ v, atol=1e-12)
    assert np.linalg.norm(dense, 2) <= frozen.norm_bound + 1e-9
    assert frozen.nonnegative and dense.min() >= -1e-12
    np.testing.assert_allclose(operator.apply(f[:, 0]), operator.apply(f[:, :1])[:, 0])
    np.testing.assert_array_equal(f, before)


def test_edge_weights_come_in_the_order_of_the_edges_and_are_those_of_the_steps():
    graph = random_graph(12, 25)
    f = np.random.default_rng(0).normal(size=(12, 3))
    one_step = robust("log", 0.9, n_steps=1, normalized=False)
    source, target, weight = one_step.operator(graph).edge_weights(f)
    upper = np.argwhere(np.triu(graph.adjacency.toarray()) > 0)
    np.testing.assert_array_equal(np.column_stack([source, target]), upper)
    expected = [1 / (1 + ((f[i] - f[j]) ** 2).sum() / 0.81) for i, j in upper]
    np.testing.assert_allclose(weight, expected)
    np.testing.assert_array_equal(robust(n_steps=0).operator(graph).edge_weights(f).weight, 1.0)


# ---------------------------------------------------------------------- the objective


def numeric_gradient(value, scores):
    gradient = np.zeros_like(scores)
    for place in np.ndindex(*scores.shape):
        move = np.zeros_like(scores)
        move[place] = 1e-5
        gradient[place] = (value(scores + move) - value(scores - move)) / 2e-5
    return gradient


def objective_on(graph, operator, loss=None, with_field=False):
    rng = np.random.default_rng(0)
    rows = np.sort(rng.choice(graph.n_nodes, graph.n_nodes // 2, replace=False))
    loss = loss or eb.SquaredError()
    target = rng.normal(size=(rows.size, 1))
    if isinstance(loss, eb.Softmax):
        target = np.eye(3)[rng.integers(0, 3, rows.size)]
    labels = Labels(rows, target, rng.random(rows.size) + 0.1)
    field = {}
    if with_field:
        prior = eb.LatentField(2.0, 0.3).prior(graph)
        field = {"posterior": Posterior(prior, rows), "node_of_row": np.arange(graph.n_nodes)}
    kind = PenalizedObjective if hasattr(operator, "attention") else RobustObjective
    return kind(loss, labels, operator, graph.n_nodes, penalty=0.3, **field)


def value_at(objective, operator, scores):
    """J of a P, with z at its mode."""
    smoothed = operator.apply(scores)
    point = Point(scores, smoothed)
    if objective.posterior is not None:
        rows = objective.labels.rows
        z = objective._energy.mode(objective.fixed[rows] + smoothed[rows])
        point = Point(scores, smoothed, z, objective.posterior.prior.matrix @ z)
    return objective.value(point), point


@pytest.mark.parametrize("with_field", [False, True])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_gradient_is_that_of_the_loss_with_its_weights_frozen(penalty, with_field):
    graph = random_graph(14, 30)
    operator = robust(penalty, 0.8).operator(graph)
    objective = objective_on(graph, operator, with_field=with_field)
    scores = np.random.default_rng(1).normal(size=(14, 1))
    value, point = value_at(objective, operator, scores)
    frozen = operator.linearize(scores)
    linear = objective_on(graph, frozen, with_field=with_field)
    mass = objective.total_weight
    assert value_at(linear, frozen, scores)[0] == pytest.approx(value)
    slope = numeric_gradient(lambda at: mass * value_at(linear, frozen, at)[0], scores)
    found = objective.gradient(objective.settle(point))
    np.testing.assert_allclose(found, slope, atol=1e-5)


@pytest.mark.parametrize("loss", [eb.SquaredError(), eb.Softmax()], ids=repr)
def test_truncation_makes_it_the_gradient_of_the_loss_itself_and_others_do_not(loss):
    graph = random_graph(14, 30)
    outputs = 3 if isinstance(loss, eb.Softmax) else 1
    scores = np.random.default_rng(1).normal(size=(14, outputs))
    off = {}
    for penalty in ("truncated", "log"):
        operator = robust(penalty, 0.8).operator(graph)
        objective = objective_on(graph, operator, loss)
        mass = objective.total_weight

        def total(at, objective=objective, operator=operator, mass=mass):
            return mass * value_at(objective, operator, at)[0]

        slope = numeric_gradient(total, scores)
        point = objective.settle(value_at(objective, operator, scores)[1])
        off[penalty] = float(np.abs(objective.gradient(point) - slope).max())
    assert off["truncated"] < 1e-6
    assert off["log"] > 1e-3


def test_a_step_smooths_anew():
    graph = random_graph(14, 30)
    operator = robust(scale=0.5).operator(graph)
    objective = objective_on(graph, operator)
    tree = np.random.default_rng(0).normal(size=(14, 1))
    point = objective.settle(objective.start())
    moved = objective.move(point, objective.direction(point, tree), 0.5)
    np.testing.assert_allclose(moved.smoothed, operator.apply(0.5 * tree))


# ---------------------------------------------------------------------- the estimators


def two_groups(seed=0, spurious=60):
    """Two groups of 60 connected rows with different means, and some edges between them."""
    rng = np.random.default_rng(seed)
    group = np.repeat([0, 1], 60)
    inner = np.concatenate([rng.integers(0, 60, (150, 2)), rng.integers(60, 120, (150, 2))])
    across = np.column_stack([rng.integers(0, 60, spurious), rng.integers(60, 120, spurious)])
    ends = np.sort(np.concatenate([inner, across]), axis=1)
    ends = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
    X = np.column_stack([group + 0.3 * rng.normal(size=120), rng.normal(size=120)])
    return X, 6.0 * group + rng.normal(size=120), eb.Graph.from_edges(*ends.T, n_nodes=120), group


@pytest.mark.parametrize("labels", ["none", "field"])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("momentum", [False, True])
def test_training_loss_never_rises(penalty, labels, momentum):
    X, y, graph, _ = two_groups()
    options = {"labels": labels, "momentum": momentum, "early_stopping": False, "random_state": 0}
    model = PaperRegressor(25, 0.5, smoothing=robust(penalty), **options).fit(X, y, graph=graph)
    losses = np.array(model.history_["training"])
    assert losses[-1] < losses[0]
    if not momentum:  # with it, each round descends from a point ahead of the last
        assert (np.diff(losses) <= 1e-9 * losses[:-1]).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_edges_between_groups_are_cut(seed):
    X, y, graph, group = two_groups(seed, spurious=120)
    known = np.random.default_rng(seed).random(120) < 0.5
    options = {"smoothing": robust(scale=3.0), "early_stopping": False, "random_state": 0}
    model = PaperRegressor(100, 0.1, **options).fit(X, y[known], nodes=known, graph=graph)
    source, target, weight = model.edge_weights()
    across = group[source] != group[target]
    assert np.median(weight[across]) < 0.3 < 0.8 < np.median(weight[~across])


@pytest.mark.parametrize("penalty", ["log", "geman-mcclure", "truncated"])
@pytest.mark.parametrize("seed", [0, 1])
def test_noise_goes_and_steps_between_groups_stay(penalty, seed):
    _, y, graph, group = two_groups(seed, spurious=120)
    f, truth = (y - 3.0)[:, None], (6.0 * group - 3.0)[:, None]
    smoothers = (eb.Laplacian(2.0, 5), robust(penalty, 3.0), eb.Laplacian(0.0, 5))
    error = [np.mean((one.operator(graph).apply(f) - truth) ** 2) for one in smoothers]
    assert error[1] < 0.5 * error[0] and error[1] < error[2]


def test_auto_scale_is_three_times_the_spread_of_the_labels_and_follows_their_units():
    X, y, graph, _ = two_groups()
    options = {"smoothing": Robust(), "early_stopping": False, "random_state": 0}
    one, big = (PaperRegressor(20, **options).fit(X, k * y, graph=graph) for k in (1.0, 1000.0))
    assert one.model_.components[0].smoothing.scale == pytest.approx(3 * y.std())
    assert one.smoothing.scale == "auto"
    np.testing.assert_allclose(big.predict(), 1000.0 * one.predict(), rtol=1e-5)
    np.testing.assert_allclose(big.edge_weights().weight, one.edge_weights().weight, rtol=1e-6)


def test_equal_labels_have_no_spread_and_can_be_fitted():
    X, _, graph, _ = two_groups()
    model = PaperRegressor(5, smoothing=Robust(), early_stopping=False)
    np.testing.assert_allclose(model.fit(X, np.ones(120), graph=graph).predict(), 1.0)


@pytest.mark.parametrize("labels", ["none", "field"])
@pytest.mark.parametrize("classes", [2, 3])
def test_classifier_trains_through_it(classes, labels):
    X, _, graph, group = two_groups(spurious=20)
    y = group if classes == 2 else np.where(X[:, 1] > 1, 2, group)
    model = PaperClassifier(30, smoothing=Robust(), labels=labels, random_state=0)
    model.fit(X, y[::2], nodes=np.arange(0, 120, 2), graph=graph)
    assert model.score(None, y) > (0.85 if classes == 2 else 0.7)
    assert model.edge_weights().weight.shape == (graph.n_edges,)


def test_it_predicts_pickled_on_the_same_graph_on_another_and_for_new_rows():
    X, y, graph, group = two_groups()
    y[::4] = np.nan
    model = PaperRegressor(40, smoothing=Robust(penalty="sqrt"), labels="field", random_state=0)
    model.fit(X, y, graph=graph)
    X_new, _, new_graph, _ = two_groups(seed=5)
    new = {"graph": new_graph, "new_labels": ([], [])}
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(), model.predict())
    np.testing.assert_array_equal(again.predict(X_new, **new), model.predict(X_new, **new))
    np.testing.assert_allclose(model.predict(X, graph=graph), model.predict(), rtol=1e-6)
    attached = model.predict(X_new, attach=(np.arange(120), np.arange(120)))
    assert np.sqrt(np.mean((attached - 6.0 * group) ** 2)) < 1.5


def test_what_needs_a_linear_smoother_refuses():
    X, y, graph, _ = two_groups()
    model = PaperRegressor(5, smoothing=Robust(), random_state=0).fit(X, y, graph=graph)
    with pytest.raises(ValueError, match="no sum of contributions"):
        model.explanations([0])
    with pytest.raises(ValueError, match="linear P"):
        eb.paper.convergence.report(model)
    with pytest.raises(ValueError, match=r"not linear: use eb\.paper\.PaperRegressor"):
        eb.EBBSRegressor(5, smoothing=robust(), n_folds=1).fit(X, y, graph=graph)
    with pytest.raises(ValueError, match=r"only eb\.paper\.PaperRegressor"):
        eb.EBBSRegressor(5, smoothing=Robust(), n_folds=1).fit(X, y, graph=graph)
    with pytest.raises(ValueError, match="needs a linear smoothing"):
        PaperRegressor(5, smoothing=Robust(), labels="masked").fit(X, y, graph=graph)
    with pytest.raises(ValueError, match=r"needs smoothing=Robust\(\), has Laplacian"):
        PaperRegressor(5).fit(X, y, graph=graph).edge_weights()
