"""The gradient (8) against finite differences, the curvature against the Hessian."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebboost as eb
from ebboost.boosting.iterate import Iterate
from ebboost.boosting.objective import Objective
from ebboost.data.labels import Labels
from ebboost.propagation import IdentityOperator
from tests.problems import loss_data
from tests.strategies import graphs, random_graph, signed_graphs

OPERATORS = {
    "identity": None,
    **{
        f"{method}-{'normalised' if normalized else 'plain'}": eb.Laplacian(
            2.0, 3, method=method, normalized=normalized
        )
        for method in ("gradient", "jacobi", "chebyshev", "exact")
        for normalized in (True, False)
    },
    "kernel-bounded": eb.Kernel("random-walk", 2.0),
    "kernel-unbounded": eb.Kernel("random-walk", 2.0, p=12),
    "kernel-plain": eb.Kernel("diffusion", 2.0, normalized=False, sigma=0.5),
}


LOSSES = [
    eb.SquaredError(),
    eb.Huber(0.7),
    eb.Quantile(0.3, 1e-3),
    eb.Poisson(),
    eb.LogLoss(),
    eb.Softmax(),
]


def objective_on(smoother, graph, loss, penalty=0.3, seed=0):
    n = graph.n_nodes
    rng = np.random.default_rng(seed)
    nodes = np.sort(rng.choice(n, max(n // 2, 1), replace=False))
    _, target = loss_data(loss, seed, nodes.size)
    if isinstance(loss, eb.Poisson):
        target = target + 0.5
    operator = IdentityOperator(n) if smoother is None else smoother.operator(graph)
    return Objective(
        operator, loss, Labels(nodes, target, rng.random(nodes.size) + 0.1), penalty=penalty
    )


def at(objective, scores):
    return Iterate(scores, objective.propagate(scores))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("name", OPERATORS)
def test_gradient_equals_finite_differences(name, loss):
    graph = random_graph(12, 25)
    objective = objective_on(OPERATORS[name], graph, loss)
    mass = objective.labels.weight.sum()
    rng = np.random.default_rng(1)
    scores = 0.5 * rng.normal(size=(12, objective.labels.target.shape[1]))
    gradient = objective.gradient(at(objective, scores))
    assert np.abs(gradient).min(axis=1).max() > 0
    for node in range(12):
        for column in range(scores.shape[1]):
            move = np.zeros_like(scores)
            move[node, column] = 1e-5
            rise = objective.value(at(objective, scores + move)) - objective.value(
                at(objective, scores - move)
            )
            assert mass * rise / 2e-5 == pytest.approx(gradient[node, column], abs=1e-6)


@pytest.mark.parametrize("name", OPERATORS)
@given(graph=graphs(min_nodes=2) | signed_graphs(min_nodes=2), seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_curvature_majorises_the_hessian(name, graph, seed):
    """diag(d) − PᵀHP is positive semi-definite: no step along a tree can overshoot."""
    objective = objective_on(OPERATORS[name], graph, eb.SquaredError(), penalty=0.0, seed=seed)
    dense = objective.propagate(np.eye(graph.n_nodes))
    weights = np.zeros(graph.n_nodes)
    weights[objective.labels.nodes] = objective.labels.weight
    hessian = dense.T @ np.diag(weights) @ dense
    bound = np.diag(
        np.broadcast_to(objective.curvature(objective.start()), (graph.n_nodes, 1))[:, 0]
    )
    assert np.linalg.eigvalsh(bound - hessian).min() >= -1e-9 * max(1.0, float(hessian.max()))


def test_without_smoothing_only_labelled_nodes_have_curvature_and_gradient():
    objective = objective_on(None, random_graph(10, 5), eb.SquaredError(), penalty=0.0)
    unlabelled = np.setdiff1d(np.arange(10), objective.labels.nodes)
    curvature = objective.curvature(objective.start())
    np.testing.assert_allclose(curvature[objective.labels.nodes, 0], objective.labels.weight)
    np.testing.assert_array_equal(curvature[unlabelled], 0.0)
    np.testing.assert_array_equal(objective.gradient(objective.start())[unlabelled], 0.0)


@pytest.mark.parametrize("n_labels", [8, 12], ids=["some", "all"])
def test_the_order_of_the_labels_does_not_matter(n_labels):
    rng = np.random.default_rng(0)
    operator = eb.Laplacian(1.0, 2).operator(random_graph(12, 25))
    labels = Labels(np.arange(n_labels), rng.normal(size=(n_labels, 1)), rng.random(n_labels))
    scores = rng.normal(size=(12, 1))
    one, other = (
        Objective(operator, eb.Huber(0.5), labels.subset(rows))
        for rows in (np.arange(n_labels), rng.permutation(n_labels))
    )
    points = at(one, scores), at(other, scores)
    assert one.value(points[0]) == pytest.approx(other.value(points[1]))
    np.testing.assert_allclose(one.gradient(points[0]), other.gradient(points[1]), atol=1e-12)
    np.testing.assert_allclose(one.curvature(points[0]), other.curvature(points[1]), atol=1e-12)


def test_unlabelled_neighbours_of_a_labelled_node_have_a_gradient():
    graph = eb.Graph.from_edges([0, 1], [1, 2], n_nodes=4)
    labels = Labels(np.array([0]), np.array([[5.0]]), np.ones(1))
    objective = Objective(eb.Laplacian(2.0, 2).operator(graph), eb.SquaredError(), labels)
    objective.init_score = np.zeros(1)
    gradient = objective.gradient(objective.start())[:, 0]
    assert (gradient[:3] < 0).all()
    assert gradient[3] == 0


@pytest.mark.parametrize("loss", [eb.SquaredError()], ids=repr)
@given(seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_newton_step_is_the_exact_line_search_for_squared_error(loss, seed):
    objective = objective_on(eb.Laplacian(2.0, 3), random_graph(15, 30, seed), loss, seed=seed)
    rng = np.random.default_rng(seed)
    point, tree = at(objective, rng.normal(size=(15, 1))), rng.normal(size=(15, 1))
    smoothed = objective.propagate(tree)
    best = objective.newton_step(point, tree, smoothed)
    value = objective.value(point.take_step(best, tree, smoothed))
    for off in (-0.1, -1e-3, 1e-3, 0.1):
        assert value <= objective.value(point.take_step(best + off, tree, smoothed)) + 1e-12


def test_validation_loss_is_that_of_the_smoothed_predictions():
    graph = random_graph(10, 20)
    loss, P = eb.SquaredError(), eb.Laplacian(2.0, 3).operator(graph)
    training = Labels(np.arange(5), np.arange(5.0)[:, None], np.ones(5))
    held = Labels(np.arange(5, 8), np.ones((3, 1)), np.array([1.0, 2.0, 3.0]))
    objective = Objective(P, loss, training, held)
    scores = np.random.default_rng(0).normal(size=(10, 1))
    predicted = 2.0 + P.apply(scores)[5:8, 0]
    expected = (0.5 * np.array([1.0, 2.0, 3.0]) * (predicted - 1.0) ** 2).sum() / 6.0
    assert objective.validation_value(at(objective, scores)) == pytest.approx(expected)
    assert Objective(P, loss, training).validation_value(objective.start()) is None


def test_only_ratios_of_weights_matter_and_the_initial_score_is_the_weighted_mean():
    labels = Labels(np.array([0, 1]), np.array([[0.0], [1.0]]), np.array([3.0, 1.0]))
    heavy = Labels(labels.nodes, labels.target, 10 * labels.weight)
    one, ten = (Objective(IdentityOperator(3), eb.SquaredError(), part) for part in (labels, heavy))
    assert one.init_score.tolist() == [0.25]
    np.testing.assert_allclose(one.gradient(one.start()), ten.gradient(ten.start()))
    np.testing.assert_allclose(one.gradient(one.start())[:2, 0], [1.5 * 0.25, 0.5 * -0.75])


def test_unit_is_the_mean_curvature_of_a_label_at_the_start():
    labels = Labels(np.arange(3), np.array([[1.0], [2.0], [9.0]]), np.array([1.0, 2.0, 3.0]))
    o = Objective(IdentityOperator(4), eb.Poisson(), labels)
    assert o.unit == pytest.approx(np.exp(o.init_score[0]))
    assert (
        Objective(
            IdentityOperator(4), eb.LogLoss(), Labels(np.arange(2), np.eye(2)[:, :1], np.ones(2))
        ).unit
        == 1.0
    )


def test_gradients_in_units_do_not_depend_on_the_scale_of_the_operator():
    """P of (13) shrinks by 1/(1+λ) if r(0) = 1: regularisation of trees is relative to it."""
    graph = random_graph(30, 60)
    one, tenth = (  # P = 1/(1 + s), and a tenth of it
        objective_on(eb.Kernel(lambda s, k=k: k - 1 + k * s, 1.0), graph, eb.SquaredError(), 0.0)
        for k in (1, 10)
    )
    for o, share in ((one, 1.0), (tenth, 0.1)):
        np.testing.assert_allclose(o.unit / one.unit, share**2)
        np.testing.assert_allclose(
            o.gradient(o.start()) / o.unit, one.gradient(one.start()) / one.unit / share
        )
        np.testing.assert_allclose(
            o.curvature(o.start()) / o.unit, one.curvature(one.start()) / one.unit, atol=1e-12
        )


@pytest.mark.parametrize("loss", [eb.LogLoss(), eb.Softmax()], ids=repr)
def test_steps_of_classes_are_at_most_newton_steps(loss):
    target = np.eye(2)[:, : 1 if isinstance(loss, eb.LogLoss) else 2]
    o = Objective(IdentityOperator(2), loss, Labels(np.arange(2), target, np.ones(2)))
    tree = 1e-3 * (target - 0.5)  # short, and down the gradient: a parabola says far more than 1
    assert o.newton_step(o.start(), tree, tree) == 1.0


def test_curvature_of_operators_with_negative_entries_is_the_squared_norm():
    class Flip(IdentityOperator):
        norm_bound, nonnegative = 3.0, False

        def apply(self, scores):
            return -3.0 * scores

        adjoint = apply

    o = Objective(Flip(2), eb.SquaredError(), Labels(np.arange(2), np.zeros((2, 1)), np.ones(2)))
    np.testing.assert_allclose(o.curvature(o.start()), 9.0)


def test_an_operator_of_norm_zero_has_the_units_of_the_labels():
    class Nothing(IdentityOperator):
        norm_bound = 0.0

        def apply(self, scores):
            return 0.0 * scores

    labels = Labels(np.arange(2), np.array([[1.0], [5.0]]), np.ones(2))
    o = Objective(Nothing(2), eb.SquaredError(), labels)
    assert (o.unit, o.score_unit) == (1.0, 2.0)


def test_a_curvature_that_is_the_same_in_all_rounds_cannot_be_changed():
    o = objective_on(eb.Laplacian(1.0, 2), random_graph(10, 20), eb.SquaredError())
    curvature = o.curvature(o.start())
    assert o.curvature(at(o, np.ones((10, 1)))) is curvature
    with pytest.raises(ValueError, match="read-only"):
        curvature[0] = 1.0


@pytest.mark.parametrize("unit", [1.0, 1e39, 1e300])
@pytest.mark.parametrize(
    "smoother", ["gradient-normalised", "gradient-plain", "jacobi-plain", "chebyshev-plain"]
)
def test_training_switches_to_float64_beyond_the_range_of_float32(smoother, unit, monkeypatch):
    path = eb.Graph.from_edges(np.arange(49), np.arange(1, 50), weight=np.full(49, unit))
    full = objective_on(OPERATORS[smoother], path, eb.SquaredError())
    monkeypatch.setattr("ebboost.boosting.objective.DOUBLE_PRECISION_UP_TO", 0)
    short = objective_on(OPERATORS[smoother], path, eb.SquaredError())
    tree = np.random.default_rng(0).normal(size=(50, 1))
    np.testing.assert_allclose(
        short.gradient(short.start()), full.gradient(full.start()), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(short.propagate(tree), full.propagate(tree), rtol=1e-4, atol=1e-5)
    assert short.double_precision == (unit > 1e38)


@pytest.mark.parametrize("scale", [1e-200, 1e-6, 1.0, 1e200])
def test_gradients_are_in_units_of_the_spread_of_the_labels(scale):
    labels = Labels(np.arange(3), scale * np.array([[0.0], [1.0], [5.0]]), np.ones(3))
    objective = Objective(IdentityOperator(3), eb.SquaredError(), labels)
    assert np.isclose(objective.score_unit, scale * np.std([0.0, 1.0, 5.0]), rtol=1e-12, atol=0.0)
    curvature = objective.curvature(objective.start())
    gradient, same = objective.in_units(objective.gradient(objective.start()), curvature)
    assert objective.unit == 1.0 and same is curvature
    difference = objective.init_score - labels.target
    np.testing.assert_allclose(gradient * objective.score_unit, difference, rtol=1e-12)
    objective.unit = 4.0
    np.testing.assert_array_equal(objective.in_units(curvature, curvature)[1], curvature / 4.0)


@pytest.mark.parametrize("target", [np.zeros((3, 1)), np.full((3, 1), np.inf)])
def test_labels_without_a_finite_spread_have_the_unit_one(target):
    with np.errstate(all="ignore"):
        objective = Objective(
            IdentityOperator(3), eb.SquaredError(), Labels(np.arange(3), target, np.ones(3))
        )
    assert objective.score_unit == 1.0


def test_scores_of_log_links_and_of_classes_have_the_unit_one():
    labels = Labels(np.arange(3), np.array([[0.0], [1.0], [1.0]]), np.ones(3))
    for loss in (eb.Poisson(), eb.LogLoss()):
        assert Objective(IdentityOperator(3), loss, labels).score_unit == 1.0


def test_curvature_that_depends_on_the_scores_is_computed_at_each_point():
    labels = Labels(np.arange(3), np.array([[0.0], [1.0], [1.0]]), np.ones(3))
    objective = Objective(
        eb.Laplacian(1.0, 1).operator(eb.Graph.from_edges([0, 1], [1, 2])), eb.LogLoss(), labels
    )
    start = objective.start()
    far = start.take_step(5.0, np.ones((3, 1)), objective.propagate(np.ones((3, 1))))
    assert (objective.curvature(far) < 0.5 * objective.curvature(start)).all()


def test_curvature_of_a_loss_is_broadcast_to_the_outputs():
    class Two(eb.SquaredError):
        def curvature(self, scores, target):
            return self.shape

    labels = Labels(np.arange(3), np.zeros((3, 2)), np.ones(3))
    for shape in (np.full((3, 1), 2.0), np.full(1, 2.0), np.full((1, 2), 2.0), 2.0):
        loss = Two()
        loss.shape = shape
        objective = Objective(IdentityOperator(3), loss, labels)
        result = np.broadcast_to(objective.curvature(objective.start()), (3, 2))
        np.testing.assert_array_equal(result, np.full((3, 2), 2.0))


def large_problem(n=12_000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = X[:, 0] + np.sin(3 * X[:, 1]) + 0.1 * rng.normal(size=n)
    return X, y, random_graph(n, 4 * n)


def test_float32_gradient_of_a_large_graph_agrees_with_float64():
    _, y, graph = large_problem()
    labels = Labels(np.arange(0, y.size, 2), y[::2, None], np.ones(y[::2].size))
    one, other = (
        Objective(eb.Laplacian().operator(graph), eb.SquaredError(), labels) for _ in range(2)
    )
    assert not one.double_precision
    other.double_precision = True
    result, expected = one.gradient(one.start()), other.gradient(other.start())
    assert not np.array_equal(result, expected)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("labels", ["none", "field"])
def test_float32_fit_on_a_large_graph_agrees_with_float64_to_a_percent(labels, monkeypatch):
    """Splits that nearly tie may differ; predictions differ by at most 1 % of their spread."""
    X, y, graph = large_problem()
    y[::2] = np.nan
    fits = []
    for exact_up_to in (10_000, 10**9):
        monkeypatch.setattr("ebboost.boosting.objective.DOUBLE_PRECISION_UP_TO", exact_up_to)
        model = eb.EBBSRegressor(
            15, smoothing=eb.Laplacian(1.0, 2), labels=labels, early_stopping=False, random_state=0
        )
        fits.append(model.fit(X, y, graph=graph).predict())
    short, full = fits
    assert not np.array_equal(short, full)
    assert np.sqrt(np.mean((short - full) ** 2)) < 0.01 * full.std()


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
def test_a_non_finite_loss_is_reported_with_its_node_and_round(part, by):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = np.round(X[:, 0])
    y[17] = 5.0
    model = eb.EBBSRegressor(10, loss=Spoilt(part, by), early_stopping=False, n_jobs=1)
    number = 1 if part == "value" else 2
    with pytest.raises(
        ValueError,
        match=rf"^Round {number}: the {part} of Spoilt\(.*\) is .*{by} ?\]? at node 17.*\[5.0\]",
    ):
        model.fit(X, y, graph=random_graph(80, 200))


def test_a_loss_of_the_wrong_shape_is_rejected():
    class Column(eb.SquaredError):
        def value(self, scores, target):
            return 0.5 * (scores - target) ** 2

    class Short(eb.SquaredError):
        def curvature(self, scores, target):
            return np.ones(3)

    X = np.arange(20.0)[:, None]
    for loss, words in (
        (Column(), r"value of Column\(\) must have shape \(20,\) here, got \(20, 1\)"),
        (Short(), r"curvature of Short\(\) must have shape \(20, 1\) here, got \(3,\)"),
    ):
        with pytest.raises(ValueError, match=words):
            eb.EBBSRegressor(2, loss=loss, early_stopping=False).fit(X, X[:, 0])
