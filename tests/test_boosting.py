"""Algorithm 1: gradients by finite differences, curvatures as bounds, descent, when it ends."""

from dataclasses import replace

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebboost as eb
from ebboost.boosting import Objective, Point, boost
from ebboost.data.labels import Labels
from ebboost.field import Posterior
from ebboost.learners.base import Grower
from ebboost.smoothing import Identity
from tests import dense
from tests.strategies import LOSSES, fixed, graphs, homophilous, random_graph, table_of

SMOOTHERS = [
    None,
    eb.Laplacian(2.0, 3),
    eb.Laplacian(2.0, 3, normalized=False),
    eb.Laplacian(2.0, method="exact"),
]
FIELD = eb.LatentField(1.5, 0.2)
SMOOTH = [loss for loss in LOSSES if not isinstance(loss, (eb.Huber, eb.Quantile))]


class Problem:
    """An objective of random labels, with the same in dense matrices."""

    def __init__(self, loss, graph, seed, smoother=None, field=None, offset=False, repeats=False):
        rng = np.random.default_rng(seed)
        self.loss, self.field = loss, field
        n_rows = 2 * graph.n_nodes if repeats else graph.n_nodes
        self.nodes = rng.integers(0, graph.n_nodes, n_rows) if repeats else np.arange(n_rows)
        rows = np.sort(rng.choice(n_rows, max(n_rows // 2, 1), replace=False))
        _, labels, _ = dense.labels_at(loss, graph, seed, rows.size)
        self.labels = replace(labels, rows=rows)
        self.offset = rng.normal(size=(n_rows, 1)) if offset else None
        self.operator = Identity() if smoother is None else smoother.operator(graph)
        more = {}
        if field is not None:
            known = self.nodes[rows]
            more = {"posterior": Posterior(field.prior(graph), known), "node_of_row": self.nodes}
            self.Q = dense.precision(graph, field)
        self.objective = Objective(
            loss, self.labels, self.operator, n_rows, offset=self.offset, **more
        )
        self.shape = (n_rows, self.labels.target.shape[1])

    def without_field(self, scores):
        fixed_scores = self.objective.init_score + (0.0 if self.offset is None else self.offset)
        return (fixed_scores + self.operator.apply(scores))[self.labels.rows]

    def value(self, scores):
        """J: the energy with the field minimised out by a general optimiser."""
        eta = self.without_field(scores)
        if self.field is None:
            return float(self.labels.weight @ self.loss.value(eta, self.labels.target))
        parts = (self.loss, eta, self.labels, self.nodes[self.labels.rows], self.Q)
        return dense.energy(*parts)(dense.mode(*parts).ravel())[0]

    def at(self, scores):
        """The point of these scores, with z at its mode."""
        smoothed = self.operator.apply(scores)
        if self.field is None:
            return Point(scores, smoothed)
        eta = self.without_field(scores)
        z = dense.mode(self.loss, eta, self.labels, self.nodes[self.labels.rows], self.Q)
        return Point(scores, smoothed, z, self.Q @ z)


PARTS = {
    "plain": {},
    "offset": {"offset": True},
    "field": {"field": FIELD},
    "field and offset": {"field": FIELD, "offset": True},
    "repeated nodes": {"field": FIELD, "repeats": True, "offset": True},
}


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
@pytest.mark.parametrize("parts", PARTS)
@given(graph=graphs(min_nodes=3, max_nodes=8), seed=st.integers(0, 1000), data=st.data())
@settings(max_examples=3, deadline=None)
def test_gradients_equal_finite_differences_of_the_minimised_energy(loss, parts, graph, seed, data):
    """Equation (8), an envelope: ∇J = Pᵀ W ∂ℓ/∂η at the minimising z."""
    smoother = data.draw(st.sampled_from(SMOOTHERS[:1] if "repeat" in parts else SMOOTHERS))
    problem = Problem(loss, graph, seed, smoother, **PARTS[parts])
    rng = np.random.default_rng(seed)
    scores, direction = 0.3 * rng.normal(size=(2, *problem.shape))
    gradient = problem.objective.gradient(problem.at(scores))
    up, down = (problem.value(scores + s * 1e-4 * direction) for s in (1.0, -1.0))
    expected = (up - down) / 2e-4
    size = np.abs(gradient * direction).sum()
    assert (gradient * direction).sum() == pytest.approx(expected, abs=1e-4 * size + 1e-6)


@pytest.mark.parametrize("smoother", SMOOTHERS, ids=repr)
@pytest.mark.parametrize("parts", PARTS)
@given(graph=graphs(min_nodes=2), seed=st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_curvature_majorises_the_hessian(smoother, parts, graph, seed):
    """diag(d) − PᵀHP is positive semi-definite, and with a field the Hessian is smaller still."""
    if "repeat" in parts and smoother is not None:
        return
    problem = Problem(eb.SquaredError(), graph, seed, smoother, **PARTS[parts])
    o, n = problem.objective, problem.shape[0]
    P = problem.operator.apply(np.eye(n))[problem.labels.rows]
    H = np.diag(problem.labels.weight)
    if problem.field is not None:
        S = dense.places(len(problem.Q), problem.nodes[problem.labels.rows])
        H = H - H @ S @ np.linalg.inv(S.T @ H @ S + problem.Q) @ S.T @ H
    bound = np.diag(np.broadcast_to(o.curvature(o.start()), (n, 1))[:, 0])
    assert np.linalg.eigvalsh(bound - P.T @ H @ P).min() >= -1e-9


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("parts", PARTS)
@given(graph=graphs(min_nodes=4), seed=st.integers(0, 1000), rate=st.floats(0.05, 1.0))
@settings(max_examples=4, deadline=None)
def test_no_round_raises_the_objective_and_z_stays_near_its_mode(loss, parts, graph, seed, rate):
    smoother = SMOOTHERS[seed % 4] if "repeat" not in parts else None
    problem = Problem(loss, graph, seed, smoother, **PARTS[parts])
    table = table_of(np.random.default_rng(seed).normal(size=(problem.shape[0], 2)))
    learner = eb.LightGBM(4, min_child_samples=1)
    options = {"n_outputs": problem.shape[1], "n_jobs": 1, "device": "cpu"}
    grower = learner.bin(table, np.arange(table.n_rows), **options).grower(0)
    o = problem.objective
    boosted = boost(o, grower, n_rounds=10, learning_rate=rate)
    losses = np.array([o.value(o.start()), *boosted.losses["training"]])
    assert (np.diff(losses) <= 1e-8 * np.abs(losses).max()).all()
    # The trees are those of the scores, and the objective is near that of the exact mode.
    compiled = grower.compile(boosted.best.weights).predict(table)
    np.testing.assert_allclose(compiled, boosted.best.scores, rtol=1e-5, atol=1e-6)
    if problem.field is not None:
        eta = problem.without_field(boosted.best.scores)
        z = o._energy.mode(eta)
        exact = o._energy.value(eta, z, problem.Q @ z) / problem.labels.weight.sum()
        assert losses[-1] == pytest.approx(exact, abs=0.1 * np.ptp(losses) + 1e-6)


@given(graph=graphs(min_nodes=3), seed=st.integers(0, 1000), repeats=st.booleans())
@settings(max_examples=30, deadline=None)
def test_squared_error_with_a_field_is_generalised_least_squares(graph, seed, repeats):
    """J(f) = ½ eᵀ(W⁻¹ + S Q⁻¹ Sᵀ)⁻¹ e, with e the residuals without the field."""
    problem = Problem(eb.SquaredError(), graph, seed, field=FIELD, offset=True, repeats=repeats)
    scores = np.random.default_rng(seed).normal(size=problem.shape)
    S = dense.places(len(problem.Q), problem.nodes[problem.labels.rows])
    covariance = np.diag(1.0 / problem.labels.weight) + S @ np.linalg.inv(problem.Q) @ S.T
    e = problem.labels.target - problem.without_field(scores)
    expected = 0.5 * float((e.T @ np.linalg.solve(covariance, e))[0, 0])
    o, point = problem.objective, problem.at(scores)
    assert o.value(point) * problem.labels.weight.sum() == pytest.approx(expected, rel=1e-6)
    gradient = np.zeros(problem.shape)
    gradient[problem.labels.rows] = -np.linalg.solve(covariance, e)
    np.testing.assert_allclose(o.gradient(point), gradient, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("parts", PARTS)
@given(seed=st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_the_step_is_the_exact_line_search_for_squared_error(parts, seed):
    smoother = None if "repeat" in parts else eb.Laplacian(2.0, 3)
    problem = Problem(eb.SquaredError(), random_graph(15, 30, seed), seed, smoother, **PARTS[parts])
    o, rng = problem.objective, np.random.default_rng(seed)
    point, tree = problem.at(rng.normal(size=problem.shape)), rng.normal(size=problem.shape)
    direction = o.direction(point, tree)
    best = o.step(point, direction)
    values = [o.value(o.move(point, direction, best + off)) for off in (0.0, -0.1, 1e-2, 0.1)]
    assert values[0] <= min(values[1:])
    exact = problem.value(point.scores + best * tree) / problem.labels.weight.sum()
    assert values[0] == pytest.approx(exact, rel=1e-4)  # z answers as if it were minimised anew


@pytest.mark.parametrize("loss", [eb.LogLoss(), eb.Softmax(), eb.Poisson(), eb.Gamma()], ids=repr)
@pytest.mark.parametrize("field", [None, FIELD])
def test_steps_without_a_bound_are_at_most_newton_steps_enlarged_by_the_field(loss, field):
    problem = Problem(loss, random_graph(20, 40), 0, eb.Laplacian(1.0, 2), field)
    o = problem.objective
    point = problem.at(np.zeros(problem.shape))
    tree = -1e-3 * o.gradient(point)  # short: the minimum of the parabola is far away
    direction = o.direction(point, tree)
    bend = enlarged = (
        o.at_labels("curvature", point) * direction.smoothed[problem.labels.rows] ** 2
    ).sum()
    if field is not None:
        own = direction.smoothed[problem.labels.rows]
        answer = direction.response[problem.nodes[problem.labels.rows]]
        enlarged = (o.at_labels("curvature", point) * own * (own + answer)).sum()
    assert o.step(point, direction) == pytest.approx(o.score_unit * bend / enlarged)


def test_validation_loss_is_that_of_the_smoothed_predictions():
    graph = random_graph(10, 20)
    P = eb.Laplacian(2.0, 3).operator(graph)
    training = Labels(np.arange(5), np.arange(5.0)[:, None], np.ones(5))
    held = Labels(np.arange(5, 8), np.ones((3, 1)), np.array([1.0, 2.0, 3.0]))
    o = Objective(eb.SquaredError(), training, P, 10, validation=held)
    scores = np.random.default_rng(0).normal(size=(10, 1))
    predicted = 2.0 + P.apply(scores)[5:8, 0]
    expected = np.average(0.5 * (predicted - 1.0) ** 2, weights=[1.0, 2.0, 3.0])
    assert o.validation_value(Point(scores, P.apply(scores))) == pytest.approx(expected)


@pytest.mark.parametrize("scale", [1e-200, 1e-6, 1.0, 1e200])
def test_trees_see_gradients_in_units_of_the_spread_of_the_labels(scale):
    labels = Labels(np.arange(3), scale * np.array([[0.0], [1.0], [5.0]]), np.ones(3))
    o = Objective(eb.SquaredError(), labels, Identity(), 3)
    assert np.isclose(o.score_unit, scale * np.std([0.0, 1.0, 5.0]), rtol=1e-12, atol=0.0)
    gradient = o.gradient(o.start()) / o.unit
    np.testing.assert_allclose(gradient, o.init_score - labels.target, rtol=1e-12)
    np.testing.assert_array_equal(o.curvature(o.start()) / o.unit, 1.0)


def test_unlabelled_neighbours_of_a_label_have_a_gradient_others_none():
    graph = eb.Graph.from_edges([0, 1], [1, 2], n_nodes=5)
    labels = Labels(np.array([0, 4]), np.array([[5.0], [0.0]]), np.ones(2))
    o = Objective(eb.SquaredError(), labels, eb.Laplacian(2.0, 2).operator(graph), 5)
    gradient = o.gradient(o.start())[:, 0]
    assert (gradient[:3] < 0).all() and gradient[3] == 0 and gradient[4] > 0
    assert (o.curvature(o.start())[:, 0] > 0).tolist() == [True, True, True, False, True]


class Listed(Grower):
    """Grows the given trees, one after the other."""

    def __init__(self, trees):
        self.trees = list(trees)

    def grow(self, gradient, curvature):
        return self.trees.pop(0) if self.trees else None

    def compile(self, weights):
        raise AssertionError


def plain_objective():
    labels = Labels(np.arange(4), np.array([[0.0], [1.0], [5.0], [2.0]]), np.ones(4))
    return Objective(eb.Huber(1.0), labels, Identity(), 4)


def test_training_stops_where_no_tree_can_be_grown():
    trees = [np.array([[-1.0], [0.0], [1.0], [0.0]])] * 3
    result = boost(plain_objective(), Listed(trees), n_rounds=9, learning_rate=0.5)
    assert result.n_trained == 3 and "no tree could be grown" in result.reason


@pytest.mark.parametrize("useful", [9, 10])
def test_training_stops_after_ten_rounds_without_descent(useful):
    zero, tree = np.zeros((4, 1)), np.array([[-1.0], [0.0], [1.0], [0.0]])
    trees = [zero] * useful + [tree] + [zero] * 30
    result = boost(plain_objective(), Listed(trees), n_rounds=99, learning_rate=0.5)
    assert "no step along a new tree" in result.reason
    assert result.n_trained == (10 if useful == 10 else 20)


class Backwards(eb.SquaredError):
    """Its gradient points uphill."""

    constant_curvature = False

    def gradient(self, scores, target):
        return target - scores


class TooFlat(Backwards):
    """Squared error with a tenth of its curvature: Newton steps are ten times too long."""

    def gradient(self, scores, target):
        return scores - target

    def curvature(self, scores, target):
        return 0.1


def test_no_step_is_taken_if_every_step_raises_the_loss():
    X, y, _ = homophilous(100)
    model = fixed(loss=Backwards()).fit(X, y)
    assert "no step along a new tree" in model.stop_reason_
    np.testing.assert_allclose(model.predict(), y.mean())


def test_steps_that_are_too_long_are_halved_until_the_loss_falls():
    X, y, _ = homophilous(100)
    model = fixed(loss=TooFlat(), learning_rate=1.0).fit(X, y)
    assert (np.diff(model.history_["training"]) < 0.0).all()
    y = np.exp(3.0 * y)
    model = fixed(loss="poisson", learning_rate=1.0).fit(np.log(y)[:, None], y)
    losses = np.array(model.history_["training"])
    assert (np.diff(losses) <= 1e-9 * np.abs(losses[:-1])).all()


@pytest.mark.parametrize(("every", "tolerance"), [(1, 1e-5), (2, 0.05)])
def test_without_a_graph_the_fit_is_that_of_lightgbm(every, tolerance):
    X, y, _ = homophilous(400)
    known = np.arange(0, 400, every)
    bins = {"max_bin": 1000, "min_data_in_bin": 1}
    learner = eb.LightGBM(8, min_child_samples=5, params=bins)
    model = fixed(learner=learner, learning_rate=0.1).fit(X, y[known], nodes=known)
    own = {"objective": "regression", "num_leaves": 8, "min_data_in_leaf": 5, "num_threads": 1}
    data = lightgbm.Dataset(X[known], y[known])
    reference = lightgbm.train(own | bins | {"verbose": -1}, data, 20)
    errors = [
        np.mean((p - y[known]) ** 2) for p in (model.predict()[known], reference.predict(X[known]))
    ]
    assert errors[0] == pytest.approx(errors[1], rel=tolerance)


class Spoilt(eb.Loss):
    """Squared error that goes wrong in one of its parts, at one label, once the model has moved."""

    def __init__(self, part="gradient", by=np.nan):
        self.part, self.by = part, by

    def _spoilt(self, part, values, scores, target):
        moved = (target == 5.0) & (scores != scores[0, 0])
        hit = moved.any(axis=1) if part == "value" else moved
        return np.where(hit & (self.part == part), self.by, values)

    def value(self, scores, target):
        return self._spoilt("value", 0.5 * ((scores - target) ** 2).sum(axis=1), scores, target)

    def gradient(self, scores, target):
        return self._spoilt("gradient", scores - target, scores, target)

    def curvature(self, scores, target):
        return self._spoilt("curvature", np.ones_like(scores), scores, target)


@pytest.mark.parametrize(
    ("part", "by"),
    [
        ("value", np.nan),
        ("gradient", np.nan),
        ("gradient", np.inf),
        ("curvature", np.nan),
        ("curvature", -1.0),
    ],
)
def test_a_loss_that_is_not_finite_is_reported_with_its_row_and_round(part, by):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = np.round(X[:, 0])
    y[17] = 5.0
    number = 1 if part == "value" else 2
    words = rf"^Round {number}: the {part} of Spoilt\(.*\) is .*{by} ?\]? at row 17.*\[5.0\]"
    with pytest.raises(ValueError, match=words):
        fixed(loss=Spoilt(part, by)).fit(X, y)
