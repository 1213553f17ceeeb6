"""The field of any likelihood against dense Newton steps, closed forms and finite differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

import ebboost as eb
from ebboost.boosting import field_mode
from ebboost.boosting.field_mode import FieldEnergy, LikelihoodFieldObjective, posterior_mode
from ebboost.boosting.iterate import Iterate
from ebboost.boosting.latent_field import FieldObjective
from ebboost.boosting.loop import Boosting, boost
from ebboost.data.labels import Labels
from ebboost.data.table import Table
from ebboost.learners import as_learner
from ebboost.propagation import IdentityOperator
from tests.problems import loss_data
from tests.strategies import graphs, random_graph, signed_graphs

SMOOTH = [
    *(eb.SquaredError(), eb.Huber(0.7), eb.Poisson(), eb.NegativeBinomial(1.5), eb.Gamma()),
    *(eb.Tweedie(1.4), eb.LogLoss(), eb.Softmax()),
]
ALL = [*SMOOTH, eb.Quantile(0.3, 0.05)]


class LogCosh(eb.Loss):
    """A loss as users write it."""

    def value(self, scores, target):
        return np.log(np.cosh(scores - target)).sum(axis=1)

    def gradient(self, scores, target):
        return np.tanh(scores - target)


def problem(loss, graph, seed=0, field=None):
    """Scores at labelled nodes, the labels, and the field."""
    rng = np.random.default_rng(seed)
    nodes = np.sort(rng.permutation(graph.n_nodes)[: max(graph.n_nodes // 2, 1)])
    scores, target = loss_data(loss, seed, nodes.size)
    field = (field or eb.LatentField(1.5, 0.1)).operator(graph, nodes, rng.random(nodes.size) + 0.2)
    return scores, Labels(nodes, target, field.weight), field


def dense_mode(loss, scores, labels, field, steps=200):
    """Newton's method with the full Hessian by finite differences, written down once more."""
    n, c = field.n_nodes, scores.shape[1]
    precision = field.prior.times(np.eye(n))
    z = np.zeros((n, c))
    for _ in range(steps):
        eta = scores + z[labels.nodes]
        gradient = precision @ z
        gradient[labels.nodes] += labels.weight[:, None] * loss.gradient(eta, labels.target)
        hessian = np.kron(precision, np.eye(c)).reshape(n, c, n, c)
        for column in range(c):
            move = np.zeros((1, c))
            move[0, column] = 1e-6
            rise = loss.gradient(eta + move, labels.target)
            rise = (rise - loss.gradient(eta - move, labels.target)) / 2e-6
            for row, node in enumerate(labels.nodes):
                hessian[node, :, node, column] += labels.weight[row] * rise[row]
        step = np.linalg.solve(hessian.reshape(n * c, n * c), gradient.ravel()).reshape(n, c)
        z = z - step * min(1.0, 1.0 / np.abs(step).max(initial=1e-300))
        if np.abs(step).max() < 1e-9:
            break
    return z


@pytest.mark.parametrize("loss", [*SMOOTH, LogCosh()], ids=repr)
@given(graph=graphs(min_nodes=2, max_nodes=12), seed=st.integers(0, 1000))
@settings(max_examples=8, deadline=None)
def test_mode_is_that_of_dense_newton_steps(loss, graph, seed):
    scores, labels, field = problem(loss, graph, seed)
    expected = dense_mode(loss, scores, labels, field)
    z = posterior_mode(field, loss, scores, labels.target)
    np.testing.assert_allclose(z, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_newton_steps_end_at_the_mode_or_where_no_step_helps(loss, monkeypatch):
    """A quantile has no derivative at its labels: its gradient does not vanish."""
    n_steps = []
    step = FieldEnergy.step
    monkeypatch.setattr(FieldEnergy, "step", lambda *args: n_steps.append(1) or step(*args))
    scores, labels, field = problem(loss, random_graph(30, 60))
    posterior_mode(field, loss, scores, labels.target)
    assert len(n_steps) <= (18 if isinstance(loss, eb.Quantile) else 11)


@pytest.mark.parametrize(("share", "is_corrected"), [(0.02, False), (0.04, True)])
def test_the_field_is_corrected_where_its_gradient_exceeds_three_percent(share, is_corrected):
    """Of the gradient of the loss, in the norm of all nodes."""
    o = objective(eb.Poisson(), random_graph(40, 80))
    point = at(o, np.zeros((40, 1)))
    o.minimize_field(point)
    move = np.random.default_rng(0).normal(size=(40, 1))
    mode = o._remainder

    def ratio(size):
        eta = o.fixed_scores() + mode + size * move
        of_loss = np.zeros_like(eta)
        nodes = o.labels.nodes
        of_loss[nodes] = o.labels.weight[:, None] * (np.exp(eta[nodes]) - o.labels.target)
        of_field = of_loss + o.field.prior.times(mode + size * move)
        return np.linalg.norm(of_field) / np.linalg.norm(of_loss)

    size = brentq(lambda size: ratio(size) - share, 0.0, 0.5)
    o._remainder = mode + size * move
    point.cache.clear()
    before = o.value(point)
    o.gradient(point)
    assert (o.value(point) < before) == is_corrected


@pytest.mark.parametrize("loss", ALL, ids=repr)
@given(graph=graphs(min_nodes=2) | signed_graphs(min_nodes=2), seed=st.integers(0, 1000))
@settings(max_examples=8, deadline=None)
def test_no_newton_step_raises_the_energy(loss, graph, seed):
    scores, labels, field = problem(loss, graph, seed)
    energy = FieldEnergy(field, loss, labels)
    z = np.random.default_rng(seed).normal(size=(graph.n_nodes, scores.shape[1]))
    before = energy.at(scores, z)
    last = None
    for tolerance in (0.5, 0.1, 1e-8):
        gradient = energy.gradient(before.prior_z, energy.loss_gradient(scores, before.z))
        after, last = energy.step(scores, before, gradient, tolerance, last)
        assert after.value == pytest.approx(energy.at(scores, after.z).value, rel=1e-12)
        assert after.value <= before.value
        before = after


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_energy_gradient_equals_finite_differences(loss):
    graph = random_graph(12, 20)
    scores, labels, field = problem(loss, graph)
    energy = FieldEnergy(field, loss, labels)
    z = np.random.default_rng(0).normal(size=(12, scores.shape[1]))
    gradient = energy.gradient(field.prior.times(z), energy.loss_gradient(scores, z))
    for entry in np.ndindex(z.shape):
        move = np.zeros_like(z)
        move[entry] = 1e-6
        rise = energy.at(scores, z + move).value - energy.at(scores, z - move).value
        assert rise / 2e-6 == pytest.approx(gradient[entry], rel=1e-5, abs=1e-5)


def objective(loss, graph, seed=0, penalty=0.0, offset=None):
    _, labels, field = problem(loss, graph, seed)
    operator = eb.Laplacian(1.0, 2).operator(graph)
    parts = (operator, loss, labels, None, penalty, field, offset)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(field_mode, "RESPONSE_TOLERANCE", 1e-9)
        return LikelihoodFieldObjective(*parts)


def at(o, scores):
    return Iterate(scores, o.propagate(scores))


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
@given(graph=graphs(min_nodes=3, max_nodes=10), seed=st.integers(0, 100))
@settings(max_examples=5, deadline=None)
def test_gradient_at_the_mode_is_that_of_the_energy_without_the_field(loss, graph, seed):
    """Envelope theorem: ∇J(f) = Pᵀ W ∂ℓ/∂η for J(f) = min_z E(f, z)."""
    random = np.random.default_rng(seed)
    offset = random.normal(size=(graph.n_nodes, 1))
    o = objective(loss, graph, seed, offset=offset)
    scores = random.normal(size=(graph.n_nodes, o.labels.target.shape[1]))
    nodes = o.labels.nodes

    def marginal(f):
        at_labels = o.fixed_scores(nodes) + o.operator.apply(f)[nodes]
        z = posterior_mode(o.field, loss, at_labels, o.labels.target)
        return FieldEnergy(o.field, loss, o.labels).at(at_labels, z).value

    point = at(o, scores)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(field_mode, "MIN_CORRECTION", 1e-4)
        for _ in range(50):
            gradient = o.gradient(point)
    direction = random.normal(size=scores.shape)
    rise = (marginal(scores + 1e-4 * direction) - marginal(scores - 1e-4 * direction)) / 2e-4
    size = np.abs(gradient).sum()
    assert rise == pytest.approx((gradient * direction).sum(), rel=0.01, abs=0.01 * size + 1e-6)


@pytest.mark.parametrize("loss", [eb.LogLoss(), eb.Poisson(), eb.Huber(0.7)], ids=repr)
def test_steps_without_a_bound_are_at_most_newton_steps_enlarged_by_the_field(loss):
    """Along a short tree the parabola of E has its minimum far away."""
    o = objective(loss, random_graph(20, 40))
    point = o.start()
    nodes = o.labels.nodes
    tree = -1e-3 * o.gradient(point)
    h = o.labels.weight * loss.curvature(o.predict(point)[nodes], o.labels.target)[:, 0]
    t = o.operator.apply(tree)
    system = o.field.prior.csr.toarray()
    system[nodes, nodes] += h
    right = np.zeros((20, 1))
    right[nodes] = h[:, None] * t[nodes]
    response = np.linalg.solve(system, right)
    rest = (h[:, None] * t[nodes] * (t - response)[nodes]).sum()
    slope = (o.gradient(point) * tree).sum()
    expected = -slope / rest
    if not loss.majorised:
        expected = min(expected, (h[:, None] * t[nodes] ** 2).sum() / rest)
    step = o.newton_step(point, tree, o.propagate(tree, point))
    assert step == pytest.approx(expected, rel=1e-6)
    assert loss.majorised == (step > 100.0)


@given(graph=graphs(min_nodes=3), seed=st.integers(0, 100), penalty=st.sampled_from([0.0, 0.3]))
@settings(max_examples=20, deadline=None)
def test_squared_error_is_the_closed_form_of_generalised_least_squares(graph, seed, penalty):
    random = np.random.default_rng(seed)
    offset = random.normal(size=(graph.n_nodes, 1))
    o = objective(eb.SquaredError(), graph, seed, penalty, offset)
    closed = FieldObjective(o.operator, o.loss, o.labels, None, penalty, o.field, offset)
    scores, tree = random.normal(size=(2, graph.n_nodes, 1))
    point = at(o, scores)
    expected = at(closed, scores)
    assert o.value(point) == pytest.approx(closed.value(expected), rel=1e-6)
    np.testing.assert_allclose(o.gradient(point), closed.gradient(expected), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(o.predict(point), closed.predict(expected), rtol=1e-4, atol=1e-6)
    step = o.newton_step(point, tree, o.propagate(tree, point))
    assert step == pytest.approx(closed.newton_step(expected, tree, closed.propagate(tree)))


@pytest.mark.parametrize("loss", [*ALL, LogCosh()], ids=repr)
@pytest.mark.parametrize("learner", [eb.LightGBM(4, min_child_samples=1), "scikit-learn"], ids=str)
@given(graph=graphs(min_nodes=6, max_nodes=30), seed=st.integers(0, 1000))
@settings(max_examples=3, deadline=None)
def test_energy_never_rises_while_boosting(loss, learner, graph, seed):
    from sklearn.tree import DecisionTreeRegressor

    o = objective(loss, graph, seed)
    random = np.random.default_rng(seed)
    table = Table(random.normal(size=(graph.n_nodes, 2)), ("a", "b"), (), (0, 1))
    learner = DecisionTreeRegressor(max_depth=2) if learner == "scikit-learn" else learner
    n_outputs = o.labels.target.shape[1]
    grower = as_learner(learner).start(table, n_outputs=n_outputs, seed=0, n_jobs=1, device="cpu")
    boosting = Boosting(o, grower, n_rounds=10, learning_rate=0.7)
    energies = [o.value(o.start())]
    energies += [info.training_loss for info in boosting]
    energies = np.array(energies)
    assert (np.diff(energies) <= 1e-9 * np.abs(energies[:-1])).all()


def test_field_follows_the_trees_without_a_solve_of_its_own(monkeypatch):
    """With exact solves of squared error the linear response is all: no Newton step is needed."""
    graph = random_graph(60, 150)
    o = objective(eb.SquaredError(), graph)
    point = at(o, np.random.default_rng(0).normal(size=(60, 1)))
    expected = o.gradient(point)
    monkeypatch.setattr(FieldEnergy, "step", None)
    np.testing.assert_array_equal(o.gradient(point), expected)


def test_systems_are_factorised_anew_when_rounds_are_four_times_as_many(monkeypatch):
    o = objective(eb.Poisson(), random_graph(6, 8))
    rounds = []
    monkeypatch.setattr(o.field, "factorize", lambda _: rounds.append(o._n_gradients))
    monkeypatch.setattr(type(o.field), "has_factor", True)
    for _ in range(1100):
        o.gradient(o.start())
    assert rounds == [16, 64, 256, 1024]


def test_a_newton_step_beyond_the_range_of_numbers_is_halved():
    field = eb.LatentField(1e-4, 1e-6).operator(random_graph(10, 15), np.arange(10), np.ones(10))
    scores = np.full((10, 1), -12.0)  # a Newton step is about e¹² times too long
    target = np.full((10, 1), 3.0)
    z = posterior_mode(field, eb.Poisson(), scores, target)
    assert np.isfinite(z).all() and (np.abs(np.exp(scores + z) - target) < 1.0).all()


def test_factors_of_later_rounds_change_fits_little_and_are_restored(monkeypatch):
    random = np.random.default_rng(0)
    points = random.uniform(size=(1_200, 2))
    graph = eb.Graph.build_knn(points, k=5)
    X = random.normal(size=(1_200, 2))
    y = np.digitize(X[:, 0] + np.sin(8.0 * points[:, 0]) + random.normal(size=1_200), [-0.5, 0.5])
    nodes = np.arange(0, 1_200, 2)
    labels = Labels(nodes, np.eye(3)[y[nodes]], np.ones(nodes.size))

    def run(at, n_rounds, state=None):
        monkeypatch.setattr(field_mode, "FACTORIZE_AT", at)
        field = eb.LatentField(0.05, 0.001).operator(graph, nodes, labels.weight)
        table = Table(X, ("first", "second"))
        learner = eb.LightGBM().start(table, n_outputs=3, seed=0, n_jobs=1, device="cpu")
        arguments = (IdentityOperator(1_200), eb.Softmax(), labels, None, 0.0, field)
        objective = LikelihoodFieldObjective(*arguments)
        boosting = Boosting(objective, learner, n_rounds=n_rounds, learning_rate=0.3)
        if state is not None:
            boosting.restore(state)
        boost(boosting, [])
        return boosting

    never = run((), 12).model
    anew = run((4,), 12).model
    assert not np.array_equal(anew.scores, never.scores)
    assert np.abs(anew.scores - never.scores).max() < 0.05 * np.ptp(never.scores)
    state = run((4,), 8).state() | {"n_rounds": 12}
    np.testing.assert_array_equal(run((4,), 12, state).model.scores, anew.scores)
