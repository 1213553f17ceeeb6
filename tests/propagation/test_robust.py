"""Robust smoothing (14): steps lower the energy, rounds lower the loss."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone

import ebboost as eb
from ebboost.boosting.latent_field import FieldObjective, LatentField, LeaveOneOutObjective
from ebboost.boosting.objective import Objective
from ebboost.data.labels import Labels
from ebboost.propagation.robust import RobustOperator
from tests.propagation.closed_forms import dense_laplacian
from tests.strategies import graphs, random_graph

RHO = {  # of t, the squared difference in units of the scale
    "sqrt": lambda t: 2 * np.sqrt(1 + t) - 2,
    "log": lambda t: np.log(1 + t),
    "geman-mcclure": lambda t: t / (1 + t),
    "truncated": lambda t: np.minimum(t, 1),
    0.5: lambda t: 4 * (1 + t) ** 0.25 - 4,
    1.5: lambda t: ((1 + t) ** 0.75 - 1) / 0.75,
}
PENALTY_NAMES = list(RHO)


def robust(penalty="log", scale=1.0, lam=2.0, n_steps=5, normalized=True):
    return eb.Robust(lam, n_steps, penalty=penalty, scale=scale, normalized=normalized)


def energy_at(smoother, graph, z, f):
    """The energy (14), from the edges."""
    edges = sparse.triu(graph.adjacency).tocoo()
    i, j = edges.coords
    strength = edges.data
    root = np.ones(graph.n_nodes)
    if smoother.normalized:
        root = 1 / np.sqrt(graph.degrees + 1)
        strength = strength * root[i] * root[j]
    gap = (root[i, None] * z[i] - root[j, None] * z[j]) / np.sqrt(root[i] * root[j])[:, None]
    units = smoother.scale**2
    penalties = units * RHO[smoother.penalty]((gap**2).sum(axis=1) / units)
    return ((z - f) ** 2).sum() + smoother.lam * strength @ penalties


def weights_of(penalty, t):
    """Weights of an edge across which scores differ by √t."""
    one_step = robust(penalty, n_steps=1, normalized=False)
    operator = one_step.operator(eb.Graph.from_edges([0], [1]))
    scores = np.stack([np.zeros_like(t), np.sqrt(t)], axis=1)
    return np.concatenate([operator.edge_weights(pair).weight for pair in scores])


@pytest.mark.parametrize("penalty", PENALTY_NAMES)
def test_weights_are_the_derivatives_of_concave_penalties(penalty):
    t = np.linspace(0.0, 6.0, 61) + 0.013  # not the kink at 1
    weights = weights_of(penalty, t)
    numeric = (RHO[penalty](t + 1e-6) - RHO[penalty](t - 1e-6)) / 2e-6
    np.testing.assert_allclose(weights, numeric, rtol=1e-6, atol=1e-8)
    assert (np.diff(weights) <= 1e-15).all() and (weights >= 0).all()
    assert weights_of(penalty, np.zeros(1)) == RHO[penalty](0.0) + 1.0 == 1.0


def test_the_square_root_is_the_l1_penalty_and_p_2_the_quadratic_one():
    t = np.linspace(0.0, 9.0, 10)
    np.testing.assert_allclose(weights_of(1.0, t), weights_of("sqrt", t))
    np.testing.assert_array_equal(weights_of(2, t), 1.0)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("penalty", PENALTY_NAMES)
@given(
    graph=graphs(min_nodes=2),
    seed=st.integers(0, 1000),
    scale=st.floats(0.05, 5.0),
    lam=st.floats(0.0, 20.0),
    outputs=st.integers(1, 3),
)
@settings(max_examples=40, deadline=None)
def test_every_step_lowers_the_energy(penalty, normalized, graph, seed, scale, lam, outputs):
    f = np.random.default_rng(seed).normal(size=(graph.n_nodes, outputs))
    energies = []
    for n_steps in range(7):
        smoother = robust(penalty, scale, lam, n_steps, normalized)
        energies.append(energy_at(smoother, graph, smoother.operator(graph).apply(f), f))
    assert (np.diff(energies) <= 1e-12 * (1.0 + energies[0])).all()


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("penalty", PENALTY_NAMES)
def test_steps_are_those_of_the_equation(penalty, normalized):
    """The second step against Z − α/2 ∂E/∂Z, numerically."""
    graph = random_graph(9, 16)
    smoother = robust(penalty, 0.8, 1.7, 2, normalized)
    f = np.random.default_rng(0).normal(size=(9, 2))
    once, twice = (
        robust(penalty, 0.8, 1.7, k, normalized).operator(graph).apply(f) for k in (1, 2)
    )
    gradient = np.zeros_like(f)
    for place in np.ndindex(*f.shape):
        move = np.zeros_like(f)
        move[place] = 1e-6
        above, below = (energy_at(smoother, graph, once + part, f) for part in (move, -move))
        gradient[place] = (above - below) / 2e-6
    alpha = smoother.operator(graph).alpha
    np.testing.assert_allclose(twice, once - 0.5 * alpha * gradient, atol=1e-7)


def test_many_steps_of_a_convex_penalty_reach_its_minimiser():
    """The square root of 1 + ‖·‖² is convex: scipy must find the same minimum."""
    graph = random_graph(8, 12)
    f = np.random.default_rng(0).normal(size=(8, 1))
    smoother = robust("sqrt", 0.5, 1.0, 400)
    found = minimize(lambda z: energy_at(smoother, graph, z[:, None], f), f.ravel(), tol=1e-12).x
    np.testing.assert_allclose(smoother.operator(graph).apply(f).ravel(), found, atol=1e-5)


@pytest.mark.parametrize("normalized", [True, False])
@given(graph=graphs(), seed=st.integers(0, 1000), penalty=st.sampled_from(PENALTY_NAMES))
@settings(max_examples=40, deadline=None)
def test_with_a_large_scale_it_is_laplacian_smoothing(normalized, graph, seed, penalty):
    f = np.random.default_rng(seed).normal(size=(graph.n_nodes, 2))
    expected = eb.Laplacian(2.0, 5, normalized=normalized).operator(graph).apply(f)
    np.testing.assert_allclose(
        robust(penalty, 1e6, normalized=normalized).operator(graph).apply(f), expected, atol=1e-9
    )


def test_with_a_small_scale_every_edge_is_cut():
    graph = random_graph(30, 60)
    f = np.random.default_rng(0).normal(size=(30, 1))
    np.testing.assert_allclose(robust("truncated", 1e-6).operator(graph).apply(f), f)
    np.testing.assert_allclose(robust("geman-mcclure", 1e-6).operator(graph).apply(f), f, atol=1e-9)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("penalty", PENALTY_NAMES)
@given(graph=graphs(), seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_operator_at_a_point_leads_there_and_passes_the_dot_test(penalty, normalized, graph, seed):
    rng = np.random.default_rng(seed)
    f, u, v = rng.normal(size=(3, graph.n_nodes, 2))
    operator = robust(penalty, 0.7, normalized=normalized).operator(graph)
    frozen = operator.linearize(f)
    dense = frozen.apply(np.eye(graph.n_nodes))
    np.testing.assert_allclose(frozen.apply(f.copy()), operator.apply(f), atol=1e-12)
    np.testing.assert_allclose(dense @ u, frozen.apply(u), atol=1e-12)
    np.testing.assert_allclose(frozen.adjoint(v), dense.T @ v, atol=1e-12)
    assert np.linalg.norm(dense, 2) <= frozen.norm_bound + 1e-9
    assert operator.norm_bound == frozen.norm_bound == 1.0  # and no less: that of no steps is 1
    assert frozen.nonnegative and dense.min() >= -1e-12
    np.testing.assert_allclose(operator.apply(f[:, 0]), operator.apply(f[:, :1])[:, 0])
    single = operator.apply(f.astype(np.float32))
    assert (
        single.dtype == np.float32
        and operator.apply(np.zeros(graph.n_nodes, dtype=int)).dtype == np.float64
    )


def test_operator_leaves_its_input_alone():
    f = np.random.default_rng(0).normal(size=(20, 2))
    before = f.copy()
    for n_steps in (0, 3):
        operator = robust(n_steps=n_steps).operator(random_graph(20, 40))
        operator.apply(f)[:] = 7.0
        operator.linearize(f).adjoint(f)
        np.testing.assert_array_equal(f, before)


def test_edge_weights_come_in_the_order_of_the_edges_and_are_those_of_the_steps():
    graph = random_graph(12, 25)
    f = np.random.default_rng(0).normal(size=(12, 3))
    source, target, weight = (
        robust("log", 0.9, n_steps=1, normalized=False).operator(graph).edge_weights(f)
    )
    upper = np.argwhere(np.triu(graph.adjacency.toarray()) > 0)
    np.testing.assert_array_equal(np.column_stack([source, target]), upper)
    expected = [1 / (1 + ((f[i] - f[j]) ** 2).sum() / 0.81) for i, j in upper]
    np.testing.assert_allclose(weight, expected)
    np.testing.assert_array_equal(robust(n_steps=0).operator(graph).edge_weights(f).weight, 1.0)


def test_normalised_smoothing_of_a_regular_graph_compares_plain_differences():
    ring = eb.Graph.from_edges(np.arange(10), (np.arange(10) + 1) % 10)
    f = np.random.default_rng(0).normal(size=(10, 1))
    both = [
        robust(n_steps=1, normalized=normalized).operator(ring).edge_weights(f).weight
        for normalized in (True, False)
    ]
    np.testing.assert_allclose(*both)


# ---------------------------------------------------------------------- the objective


def objective_on(graph, smoother, loss=None, seed=0, kind=Objective):
    rng = np.random.default_rng(seed)
    nodes = np.sort(rng.choice(graph.n_nodes, graph.n_nodes // 2, replace=False))
    loss = loss or eb.SquaredError()
    target = rng.normal(size=(nodes.size, 1))
    if isinstance(loss, eb.Softmax):
        target = np.eye(3)[rng.integers(0, 3, nodes.size)]
    labels = Labels(nodes, target, rng.random(nodes.size) + 0.1)
    extra = () if kind is Objective else (LatentField().operator(graph, nodes, labels.weight),)
    return kind(smoother.operator(graph), loss, labels, None, 0.3, *extra)


def numeric_gradient(value, scores):
    gradient = np.zeros_like(scores)
    for place in np.ndindex(*scores.shape):
        move = np.zeros_like(scores)
        move[place] = 1e-5
        gradient[place] = (value(scores + move) - value(scores - move)) / 2e-5
    return gradient


@pytest.mark.parametrize("kind", [Objective, FieldObjective, LeaveOneOutObjective])
@pytest.mark.parametrize("penalty", PENALTY_NAMES)
def test_gradient_is_that_of_the_loss_with_its_weights_frozen(penalty, kind):
    graph = random_graph(14, 30)
    objective = objective_on(graph, robust(penalty, 0.8), kind=kind)
    scores = np.random.default_rng(1).normal(size=(14, 1))
    point = objective.start().take_step(1.0, scores, scores)
    frozen = objective_on(graph, _Fixed(objective.operator.linearize(scores)), kind=kind)
    mass = objective.labels.weight.sum()
    assert frozen.value(_at(frozen, scores)) == pytest.approx(objective.value(point))
    expected = numeric_gradient(lambda at: mass * frozen.value(_at(frozen, at)), scores)
    np.testing.assert_allclose(objective.gradient(point), expected, atol=1e-6)


@pytest.mark.parametrize("loss", [eb.SquaredError(), eb.Softmax()], ids=repr)
def test_truncation_makes_it_the_gradient_of_the_loss_itself_and_others_do_not(loss):
    graph = random_graph(14, 30)
    outputs = 3 if isinstance(loss, eb.Softmax) else 1
    scores = np.random.default_rng(1).normal(size=(14, outputs))
    off = {}
    for penalty in ("truncated", "log"):
        objective = objective_on(graph, robust(penalty, 0.8), loss)
        mass = objective.labels.weight.sum()
        expected = numeric_gradient(lambda at, o=objective: mass * o.value(_at(o, at)), scores)  # noqa: B023
        off[penalty] = float(np.abs(objective.gradient(_at(objective, scores)) - expected).max())
    assert off["truncated"] < 1e-6
    assert off["log"] > 1e-3


def test_weights_are_computed_once_at_each_point(monkeypatch):
    objective = objective_on(random_graph(12, 25), robust())
    n_calls = []
    linearize = RobustOperator.linearize
    monkeypatch.setattr(
        RobustOperator, "linearize", lambda *args: n_calls.append(1) or linearize(*args)
    )
    start = objective.start()
    for point in (start, start.take_step(1.0, np.ones_like(start.scores), start.scores)):
        n_calls.clear()
        for compute in (objective.value, objective.gradient, objective.curvature):
            compute(point)
        assert len(n_calls) == 1


def test_iterates_smooth_anew_wherever_they_move():
    objective = objective_on(random_graph(14, 30), robust(scale=0.5))
    rng = np.random.default_rng(0)
    tree, other = rng.normal(size=(2, 14, 1))
    start = objective.start()
    moved, far = start.take_step(0.5, tree, None), start.take_step(2.0, other, None)
    mixed = moved.interpolate(far, 0.25)
    np.testing.assert_allclose(moved.smoothed, objective.operator.apply(0.5 * tree))
    np.testing.assert_allclose(mixed.smoothed, objective.operator.apply(0.375 * tree + 0.5 * other))
    assert mixed.weights == (0.75 * 0.5 + 0.25 * 2.0,)


class _Fixed(eb.Smoother):
    """A smoother that gives one operator, whatever the graph."""

    def __init__(self, operator):
        self.linear_map = operator

    def operator(self, graph):
        return self.linear_map


def _at(objective, scores):
    return objective.start().take_step(1.0, scores, objective.propagate(scores, objective.start()))


# ---------------------------------------------------------------------- the estimators


def two_groups(seed=0, spurious=60):
    """Two groups of 60 connected nodes with different means, and some edges between them."""
    rng = np.random.default_rng(seed)
    group = np.repeat([0, 1], 60)
    inner = np.concatenate([rng.integers(0, 60, (150, 2)), rng.integers(60, 120, (150, 2))])
    across = np.column_stack([rng.integers(0, 60, spurious), rng.integers(60, 120, spurious)])
    ends = np.sort(np.concatenate([inner, across]), axis=1)
    ends = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
    X = np.column_stack([group + 0.3 * rng.normal(size=120), rng.normal(size=120)])
    return X, 6.0 * group + rng.normal(size=120), eb.Graph.from_edges(*ends.T, n_nodes=120), group


@pytest.mark.parametrize("labels", ["none", "field", "leave-one-out"])
@pytest.mark.parametrize("penalty", PENALTY_NAMES)
@pytest.mark.parametrize("momentum", [False, True])
def test_training_loss_never_rises(penalty, labels, momentum):
    X, y, graph, _ = two_groups()
    model = eb.EBBSRegressor(
        25,
        0.5,
        smoothing=robust(penalty, 1.0),
        labels=labels,
        momentum=momentum,
        early_stopping=False,
        random_state=0,
    ).fit(X, y, graph=graph)
    losses = np.array(model.history_["training"])
    assert losses[-1] < losses[0]
    if not momentum:  # with it, each round descends from a point ahead of the last
        slack = 1e-12 if labels == "none" else 2e-3
        assert (np.diff(losses) <= slack * losses[:-1]).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_edges_between_groups_are_cut(seed):
    X, y, graph, group = two_groups(seed, spurious=120)
    known = np.random.default_rng(seed).random(120) < 0.5
    model = eb.EBBSRegressor(
        100, 0.1, smoothing=robust(scale=3.0), labels="none", early_stopping=False, random_state=0
    )
    source, target, weight = model.fit(X, y[known], nodes=known, graph=graph).edge_weights()
    across = group[source] != group[target]
    assert np.median(weight[across]) < 0.3 < 0.8 < np.median(weight[~across])


@pytest.mark.parametrize("penalty", ["log", "geman-mcclure", "truncated"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_noise_goes_and_steps_between_groups_stay(penalty, seed):
    _, y, graph, group = two_groups(seed, spurious=120)
    f, truth = (y - 3.0)[:, None], (6.0 * group - 3.0)[:, None]
    error = [
        np.mean((smoother.operator(graph).apply(f) - truth) ** 2)
        for smoother in (eb.Laplacian(2.0, 5), robust(penalty, 3.0), eb.Laplacian(0.0, 5))
    ]
    assert error[1] < 0.5 * error[0] and error[1] < error[2]


def test_auto_scale_is_three_times_the_spread_of_the_labels_and_follows_their_units():
    X, y, graph, _ = two_groups()
    fits = [
        eb.EBBSRegressor(
            20, smoothing=eb.Robust(), labels="none", early_stopping=False, random_state=0
        ).fit(X, unit * y, graph=graph)
        for unit in (1.0, 1000.0)
    ]
    assert fits[0].smoothing_.scale == pytest.approx(3 * y.std())
    assert fits[0].smoothing.scale == "auto"
    np.testing.assert_allclose(fits[1].predict(), 1000.0 * fits[0].predict(), rtol=1e-5)
    np.testing.assert_allclose(
        fits[1].edge_weights().weight, fits[0].edge_weights().weight, rtol=1e-6
    )


def test_spread_of_labels_is_in_units_of_the_scores():
    y, weight = np.random.default_rng(0).gamma(3.0, size=(500, 1)), np.ones(500)
    assert eb.SquaredError().label_scale(y, weight) == pytest.approx(y.std())
    assert eb.Poisson().label_scale(y, weight) == pytest.approx(y.std() / y.mean())
    two = (y > np.quantile(y, 0.8)).astype(float)
    assert eb.LogLoss().label_scale(two, weight) == pytest.approx(1 / np.sqrt(0.2 * 0.8))
    huber = eb.Huber().prepared(y, weight)
    assert huber.label_scale(y, weight) == pytest.approx(
        np.sqrt(np.mean((y - np.median(y)) ** 2)), rel=0.01
    )


def test_equal_labels_have_no_spread_and_can_be_fitted():
    X, _, graph, _ = two_groups()
    model = eb.EBBSRegressor(5, smoothing=eb.Robust(), labels="none", early_stopping=False)
    np.testing.assert_allclose(model.fit(X, np.ones(120), graph=graph).predict(), 1.0)


@pytest.mark.parametrize("labels", ["none", "field"])
@pytest.mark.parametrize("classes", [2, 3])
def test_classifier_trains_through_it(classes, labels):
    X, _, graph, group = two_groups(spurious=20)
    y = group if classes == 2 else np.where(X[:, 1] > 1, 2, group)
    model = eb.EBBSClassifier(30, smoothing=eb.Robust(), labels=labels, random_state=0)
    model.fit(X, y[::2], nodes=np.arange(0, 120, 2), graph=graph)
    assert model.score(None, y) > (0.85 if classes == 2 else 0.7)
    assert model.edge_weights().weight.shape == (graph.n_edges,)


@pytest.mark.parametrize("labels", ["auto", "none", "field", "leave-one-out"])
def test_saved_loaded_pickled_and_cloned_it_predicts_the_same(labels, tmp_path):
    X, y, graph, _ = two_groups()
    y[::4] = np.nan
    model = eb.EBBSRegressor(15, smoothing=eb.Robust(penalty="sqrt"), labels=labels, random_state=0)
    model.fit(X, y, graph=graph)
    model.save(tmp_path / "m.ebb")
    others = [
        eb.load(tmp_path / "m.ebb"),
        pickle.loads(pickle.dumps(model)),
        clone(model).fit(X, y, graph=graph),
    ]
    X_new, _, new_graph, _ = two_groups(seed=5)
    new = {"graph": new_graph, "new_labels": ([], [])}
    for other in others:
        assert other.smoothing_.get_params() == model.smoothing_.get_params()
        np.testing.assert_allclose(other.predict(), model.predict())
        np.testing.assert_allclose(other.predict(X_new, **new), model.predict(X_new, **new))
        if isinstance(model.smoothing_, eb.Robust):
            np.testing.assert_allclose(other.edge_weights().weight, model.edge_weights().weight)


def test_the_same_table_and_graph_predict_as_fitted():
    X, y, graph, _ = two_groups()
    model = eb.EBBSRegressor(15, smoothing=robust(), labels="none", random_state=0).fit(
        X, y, graph=graph
    )
    np.testing.assert_allclose(model.predict(X, graph=graph), model.predict(), rtol=1e-6)


@pytest.mark.parametrize("labels", ["none", "field"])
def test_explanations_add_up_to_the_prediction(labels):
    X, y, graph, _ = two_groups()
    y[::4] = np.nan
    model = eb.EBBSRegressor(15, smoothing=robust(scale=2.0), labels=labels, random_state=0).fit(
        X, y, graph=graph
    )
    for explanation in model.explanations([0, 3, 77]):
        assert explanation.total == pytest.approx(explanation.score, rel=1e-6)
        assert explanation.score == pytest.approx(model.predict()[explanation.node])
        assert explanation.neighbors


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": "cauchy"}, "penalty must be one of"),
        ({"scale": "auto"}, "only an estimator can fill 'auto' in"),
    ],
)
def test_wrong_settings_are_refused_by_name(parameters, message):
    with pytest.raises(ValueError, match=message):
        eb.Robust(**{"scale": 1.0} | parameters).operator(random_graph(5, 5))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"smoothing": eb.Robust(), "labels": "masked"}, "smoothing must be linear"),
        ({"feature_smoothing": eb.Robust()}, "feature_smoothing must be linear"),
    ],
)
def test_a_linear_smoother_is_required_where_named(parameters, message):
    X, y, graph, _ = two_groups()
    with pytest.raises(ValueError, match=message):
        eb.EBBSRegressor(5, **parameters).fit(X, y, graph=graph)


def test_models_without_robust_smoothing_have_no_edge_weights():
    X, y, graph, _ = two_groups()
    model = eb.EBBSRegressor(5, smoothing=eb.Laplacian(), labels="none").fit(X, y, graph=graph)
    with pytest.raises(ValueError, match=r"needs smoothing=eb\.Robust.*has Laplacian"):
        model.edge_weights()


def test_dense_laplacian_of_the_reweighted_graph_gives_the_steps():
    """One step by hand: Z − α[(I + λ Rᵀ(D_w − A_w)R)Z − f], R = diag(1/√d̃)."""
    graph = random_graph(10, 20)
    f = np.random.default_rng(0).normal(size=(10, 1))
    operator = robust("log", 0.7, n_steps=1).operator(graph)
    source, target, weight = operator.edge_weights(f)
    adjacency = np.zeros((10, 10))
    adjacency[source, target] = adjacency[target, source] = (
        weight * graph.adjacency.toarray()[source, target]
    )
    root = np.diag(1 / np.sqrt(graph.degrees + 1))
    laplacian = root @ (np.diag(adjacency.sum(1)) - adjacency) @ root
    np.testing.assert_allclose(
        operator.apply(f), f - operator.alpha * 2.0 * laplacian @ f, atol=1e-12
    )
    quadratic = root @ (np.diag(graph.degrees) - graph.adjacency.toarray()) @ root
    np.testing.assert_allclose(quadratic, dense_laplacian(graph, True), atol=1e-12)


def test_edges_with_signs_are_refused():
    graph = eb.Graph.mix({"unlike": random_graph(10, 20)}, {"unlike": -1.0})
    with pytest.raises(ValueError, match="strengths of relations must not be negative"):
        eb.Robust(scale=1.0).operator(graph)


def test_convergence_bounds_are_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    model = eb.EBBSRegressor(5, smoothing=eb.Robust(), labels="none", random_state=0)
    model.fit(X, X[:, 0], graph=eb.Graph.build_knn(X, 3))
    with pytest.raises(ValueError, match="linear P"):
        eb.convergence.report(model)
