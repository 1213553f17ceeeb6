"""Momentum: both recursions written out, restarts, and the rest of a fit unchanged."""

from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.tree import DecisionTreeRegressor

import ebboost as eb
from ebboost.boosting.momentum import as_momentum
from tests.problems import fixed_regressor, neighbor_sums


def test_simple_momentum_follows_its_recursion():
    """θ_t = 2/(t+2): the weights of f and h after each round, by hand."""
    X, y, graph = neighbor_sums()
    steps, weights = [], []

    class Watch(eb.Callback):
        def after_round(self, progress):
            steps.append(progress.step)
            weights.append(progress.model.weights)

    fixed_regressor(n_estimators=4, momentum=True).fit(X, y, graph=graph, callbacks=[Watch()])
    f, h = np.zeros(0), np.zeros(0)
    for t, step in enumerate(steps):
        theta = 2 / (t + 2)
        g = (1 - theta) * f + theta * h
        f, h = np.append(g, step), np.append(h, step / theta)
        np.testing.assert_allclose(weights[t], f)


def test_corrected_momentum_is_the_algorithm_of_lu_et_al():
    """Algorithm 2 of Lu et al. with a dense P, independent of the library."""
    X, y, graph = neighbor_sums(n=60, n_labelled=40, edges=100)
    phi, rate, known = 0.3, 0.5, ~np.isnan(y)
    tree = DecisionTreeRegressor(max_depth=2, random_state=0)
    smoothing = eb.Laplacian(1.0, 3)
    m = fixed_regressor(n_estimators=8, learning_rate=rate, learner=tree, smoothing=smoothing)
    m.set_params(momentum=eb.CorrectedMomentum(phi, restart=False)).fit(X, y, graph=graph)

    P = smoothing.operator(graph).apply(np.eye(60))[known]
    target, weight = y[known] - y[known].mean(), P.T @ P.sum(axis=1)
    reached = weight > 0
    f, h, missing, losses = np.zeros(60), np.zeros(60), np.zeros(60), []

    def fitted_to(residual):
        return clone(tree).fit(X, residual, sample_weight=weight).predict(X)

    for t in range(8):
        theta = 2 / (t + 2)
        g = (1 - theta) * f + theta * h
        r = np.where(reached, P.T @ (target - P @ g), 0.0) / np.where(reached, weight, 1.0)
        first = fitted_to(r)
        f = g + rate * (target - P @ g) @ (P @ first) / np.sum((P @ first) ** 2) * first
        corrected = r + (t + 1) / (t + 2) * missing
        second = fitted_to(corrected)
        missing = corrected - second
        h = h + phi * rate / theta * second
        losses.append(0.5 * np.mean((target - P @ f) ** 2))
    np.testing.assert_allclose(m.history_["training"], losses, rtol=1e-8)


def test_restarts_prevent_divergence():
    X, y, graph = neighbor_sums()
    small = {"n_estimators": 150, "learning_rate": 1.0, "learner": eb.LightGBM(4)}
    loose = fixed_regressor(momentum=eb.CorrectedMomentum(1.0, restart=False), **small).fit(
        X, y, graph=graph
    )
    tamed = fixed_regressor(momentum=eb.CorrectedMomentum(1.0), **small).fit(X, y, graph=graph)
    simple = fixed_regressor(momentum=True, **small).fit(X, y, graph=graph)
    start = loose.history_["training"][0]
    assert loose.history_["training"][-1] > 100 * start
    assert tamed.history_["training"][-1] < 0.2 * start
    assert simple.history_["training"][-1] < 0.2 * start


def test_simple_momentum_restarts_at_a_model_that_raised_the_loss():
    losses = iter([1.0, 0.5, 0.7])
    point = SimpleNamespace(take_step=lambda *_: point)
    step = SimpleNamespace(step=1.0, tree=None, smoothed_tree=None)
    objective = SimpleNamespace(
        start=lambda: point, value=lambda _: next(losses), descent_tolerance=0.0
    )
    state = as_momentum("simple").start(objective, None, 0.1)
    thetas = []
    models = [object(), object()]
    for model in models:
        state.update(model, step)
        thetas.append(state.theta)
    assert thetas == [2 / 3, 1.0] and state.ahead is models[1]


def test_names_stand_for_momentum_objects():
    X, y, graph = neighbor_sums()

    def predicted(momentum):
        return fixed_regressor(momentum=momentum).fit(X, y, graph=graph).predict()

    np.testing.assert_array_equal(predicted(True), predicted("simple"))
    np.testing.assert_array_equal(predicted("corrected"), predicted(eb.CorrectedMomentum(0.2)))
    np.testing.assert_array_equal(predicted("corrected"), predicted("corrected"))  # bit for bit
    assert np.abs(predicted("corrected") - predicted(eb.CorrectedMomentum(0.1))).max() > 1e-6
    assert (
        clone(fixed_regressor(momentum=eb.CorrectedMomentum(0.1))).get_params()["momentum__phi"]
        == 0.1
    )


@pytest.mark.parametrize(
    ("momentum", "words"),
    [
        (eb.CorrectedMomentum(0.0), "phi must be"),
        (eb.CorrectedMomentum(1.5), "phi must be"),
        (eb.CorrectedMomentum("much"), "phi must be"),
        (eb.CorrectedMomentum(restart=1), "restart must be True or False"),
        ("nesterov", "momentum"),
    ],
)
def test_invalid_momentum_is_rejected(momentum, words):
    with pytest.raises(ValueError, match=words):
        fixed_regressor(momentum=momentum).fit(np.arange(10.0)[:, None], np.arange(10.0))


@pytest.mark.parametrize("momentum", ["nesterov", 1, None])
def test_as_momentum_rejects_other_values(momentum):
    with pytest.raises(ValueError, match=r"'simple', 'corrected' or eb\.CorrectedMomentum"):
        as_momentum(momentum)


def test_best_round_is_restored_with_both_its_trees():
    X, y, graph = neighbor_sums(n=400, n_labelled=400)
    train, held = np.arange(0, 200), np.arange(200, 400)
    m = fixed_regressor(
        n_estimators=400,
        early_stopping=True,
        n_iter_no_change=15,
        learning_rate=0.5,
        momentum="corrected",
    )
    m.fit(X, y[train], nodes=train, graph=graph, eval_set=(held, y[held]))
    losses = np.array(m.history_["validation"])
    assert m.n_iter_ == losses.argmin() + 1
    assert m.ensemble_.booster.num_trees() == 2 * m.n_iter_
    assert 0.5 * np.mean((m.predict()[held] - y[held]) ** 2) == pytest.approx(losses.min())
    np.testing.assert_allclose(m.predict(X, graph=graph), m.predict(), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("labels", ["field", "leave-one-out", "masked"])
def test_corrected_momentum_works_with_every_use_of_labels(labels):
    X, y, graph = neighbor_sums()
    m = fixed_regressor(momentum="corrected", labels=labels).fit(X, y, graph=graph)
    assert m.history_["training"][-1] < m.history_["training"][0]
    np.testing.assert_allclose(m.scores_, m.ensemble_.predict(m.state_.table), rtol=1e-8, atol=1e-8)


def test_corrected_momentum_works_for_classes():
    X, y, graph = neighbor_sums()
    classes = np.select([np.isnan(y), y < -1, y < 1], ["unknown", "low", "middle"], "high").astype(
        object
    )
    classes[np.isnan(y)] = None
    m = eb.EBBSClassifier(
        30, 0.3, momentum="corrected", smoothing=eb.Laplacian(), labels="none", random_state=0
    )
    m.set_params(early_stopping=False, n_jobs=1).fit(X, classes, graph=graph)
    assert m.history_["training"][-1] < 0.5 * m.history_["training"][0]
    np.testing.assert_allclose(
        m.predict_proba(X, graph=graph), m.predict_proba(), rtol=1e-8, atol=1e-8
    )


@pytest.mark.parametrize("kind", [eb.LightGBM, eb.XGBoost, eb.CatBoost])
def test_weights_match_trees_if_no_second_tree_is_grown(kind):
    class Silent(kind):
        """Has nothing left to fit when the second round's second tree is grown."""

        def start(self, table, **settings):
            growing, calls = super().start(table, **settings), count()
            grow = growing.grow
            growing.grow = lambda gradient, curvature: grow(
                gradient * (next(calls) != 3), curvature
            )
            return growing

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    m = eb.EBBSRegressor(
        5, learner=Silent(), momentum="corrected", early_stopping=False, n_jobs=1, random_state=0
    )
    m.fit(X, X[:, 0] + X[:, 1] ** 2)
    np.testing.assert_allclose(m.predict(X), m.predict(), rtol=1e-5, atol=1e-5)
