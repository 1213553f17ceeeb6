"""Momentum: both recursions written out, restarts, and the rest of a fit unchanged."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.tree import DecisionTreeRegressor

import ebboost as eb
from ebboost.boosting import Point
from ebboost.paper import CatBoost, CorrectedMomentum, PaperClassifier, PaperRegressor
from ebboost.paper.momentum import as_momentum, interpolate, project_on_tree
from tests.paper.problems import SklearnTree, neighbor_sums, regressor


class Watch(eb.Callback):
    def __init__(self):
        self.rounds = []

    def after_round(self, info):
        self.rounds.append(info)


def test_simple_momentum_follows_its_recursion():
    """θ_t = 2/(t+2): the weights of f and h after each round, by hand."""
    X, y, graph = neighbor_sums()
    watch = Watch()
    regressor(n_estimators=4, momentum=True).fit(X, y, graph=graph, callbacks=[watch])
    f, h = np.zeros(0), np.zeros(0)
    for t, info in enumerate(watch.rounds):
        theta = 2 / (t + 2)
        g = (1 - theta) * f + theta * h
        f, h = np.append(g, info.step), np.append(h, info.step / theta)
        np.testing.assert_allclose(info.model.weights, f)


def test_corrected_momentum_is_the_algorithm_of_lu_et_al():
    """Algorithm 2 of Lu et al. with a dense P, independent of the library."""
    X, y, graph = neighbor_sums(n=60, n_labelled=40, edges=100)
    phi, rate, known = 0.3, 0.5, ~np.isnan(y)
    tree = DecisionTreeRegressor(max_depth=2, random_state=0)
    smoothing = eb.Laplacian(1.0, 3)
    momentum = CorrectedMomentum(phi, restart=False)
    m = regressor(n_estimators=8, learning_rate=rate, learner=SklearnTree(tree))
    m.set_params(smoothing=smoothing, momentum=momentum).fit(X, y, graph=graph)

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
    np.testing.assert_allclose(m.predict()[known], P @ f + y[known].mean(), rtol=1e-6, atol=1e-6)


def test_restarts_prevent_divergence():
    X, y, graph = neighbor_sums()

    def losses(momentum):
        small = {"n_estimators": 150, "learning_rate": 1.0, "learner": eb.LightGBM(4)}
        return regressor(momentum=momentum, **small).fit(X, y, graph=graph).history_["training"]

    loose = losses(CorrectedMomentum(1.0, restart=False))
    assert loose[-1] > 100 * loose[0]
    assert losses(CorrectedMomentum(1.0))[-1] < 0.2 * loose[0]
    assert losses(True)[-1] < 0.2 * loose[0]


def test_points_are_interpolated_in_every_part():
    rng = np.random.default_rng(0)
    one, two = (Point(*rng.normal(size=(4, 5, 1)), weights=(w, 2.0)) for w in (1.0, 3.0))
    mixed = interpolate(one, two, 0.25)
    for name in ("scores", "smoothed", "z", "prior_z"):
        expected = 0.75 * getattr(one, name) + 0.25 * getattr(two, name)
        np.testing.assert_allclose(getattr(mixed, name), expected)
    assert mixed.weights == (1.5, 2.0)
    plain = interpolate(Point(one.scores, one.scores), Point(two.scores, two.scores), 0.5)
    assert plain.z is None


def test_a_projection_is_orthogonal_in_the_norm_of_the_curvature():
    rng = np.random.default_rng(0)
    gradient, tree, curvature = rng.normal(size=(3, 20, 1))
    curvature = np.abs(curvature)
    curvature[:3], gradient[:3] = 0.0, 0.0
    target = np.where(curvature > 0, -gradient / np.where(curvature > 0, curvature, 1.0), 0.0)
    length, cosine = project_on_tree(gradient, curvature, tree)
    assert np.sum(curvature * (target - length * tree) * tree) == pytest.approx(0.0, abs=1e-12)
    norms = np.sqrt(np.sum(curvature * target**2) * np.sum(curvature * tree**2))
    assert cosine == pytest.approx(np.sum(curvature * target * tree) / norms)
    assert project_on_tree(gradient, curvature, 0.0 * tree) == (0.0, 0.0)


def test_names_stand_for_momentum_objects():
    X, y, graph = neighbor_sums()

    def predicted(momentum):
        return regressor(momentum=momentum).fit(X, y, graph=graph).predict()

    np.testing.assert_array_equal(predicted(True), predicted("simple"))
    np.testing.assert_array_equal(predicted("corrected"), predicted(CorrectedMomentum(0.2)))
    assert np.abs(predicted("corrected") - predicted(CorrectedMomentum(0.1))).max() > 1e-6
    assert clone(regressor(momentum=CorrectedMomentum(0.1))).get_params()["momentum__phi"] == 0.1


@pytest.mark.parametrize(
    ("momentum", "words"),
    [
        (CorrectedMomentum(0.0), "phi must be"),
        (CorrectedMomentum(1.5), "phi must be"),
        (CorrectedMomentum("much"), "phi must be"),
        (CorrectedMomentum(restart=1), "restart must be True or False"),
        ("nesterov", "'simple', 'corrected' or CorrectedMomentum"),
        (1, "'simple', 'corrected' or CorrectedMomentum"),
        (None, "'simple', 'corrected' or CorrectedMomentum"),
    ],
)
def test_invalid_momentum_is_rejected(momentum, words):
    with pytest.raises(ValueError, match=words):
        as_momentum(momentum)
    with pytest.raises(ValueError, match=words):
        PaperRegressor(momentum=momentum).fit(np.arange(10.0)[:, None], np.arange(10.0))


def test_best_round_is_restored_with_both_its_trees():
    X, y, graph = neighbor_sums(n=400, n_labelled=400)
    train, held = np.arange(0, 200), np.arange(200, 400)
    m = regressor(n_estimators=400, early_stopping=15, learning_rate=0.5, momentum="corrected")
    m.fit(X, y[train], nodes=train, graph=graph, eval_set=(held, y[held]))
    losses = np.array(m.history_["validation"])
    assert m.n_iter_ == losses.argmin() + 1 == losses.size - 15
    assert m.model_.components[0].ensemble.booster.num_trees() == 2 * m.n_iter_
    assert 0.5 * np.mean((m.predict()[held] - y[held]) ** 2) == pytest.approx(losses.min())
    np.testing.assert_allclose(m.predict(X, graph=graph), m.predict(), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("labels", ["field", "masked"])
@pytest.mark.parametrize("momentum", [True, "corrected"])
def test_momentum_works_with_every_use_of_labels(labels, momentum):
    X, y, graph = neighbor_sums()
    m = regressor(momentum=momentum, labels=labels).fit(X, y, graph=graph)
    assert m.history_["training"][-1] < m.history_["training"][0]
    one = m.model_.components[0]
    np.testing.assert_allclose(one.scores, one.ensemble.predict(m.model_.table), atol=1e-8)


def test_momentum_with_the_field_and_another_loss_descends():
    X, y, graph = neighbor_sums()
    counts = np.round(np.exp(np.clip(y, -3, 3)))
    for momentum in (False, True, "corrected"):
        m = regressor(momentum=momentum, labels="field", loss="poisson", learning_rate=0.3)
        losses = m.fit(X, counts, graph=graph).history_["training"]
        assert losses[-1] < losses[0] and np.isfinite(losses).all()


def test_corrected_momentum_works_for_classes():
    X, y, graph = neighbor_sums()
    classes = np.select([y < -1, y < 1], ["low", "middle"], "high").astype(object)
    classes[np.isnan(y)] = None
    m = PaperClassifier(30, 0.3, momentum="corrected", random_state=0, early_stopping=False)
    m.fit(X, classes, graph=graph)
    assert m.history_["training"][-1] < 0.5 * m.history_["training"][0]
    again = m.predict_proba(X, graph=graph)
    np.testing.assert_allclose(again, m.predict_proba(), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", [eb.LightGBM, CatBoost])
def test_weights_match_trees_if_no_second_tree_is_grown(kind):
    class Silent(kind):
        """Has nothing left to fit when the second round's second tree is grown."""

        def bin(self, table, rows, **options):
            binned = super().bin(table, rows, **options)
            grower_of = binned.grower

            def grower(seed):
                growing, calls = grower_of(seed), iter(range(1000))
                grow = growing.grow
                growing.grow = lambda g, h: grow(g * (next(calls) != 3), h)
                return growing

            binned.grower = grower
            return binned

    X = np.random.default_rng(0).normal(size=(200, 2))
    m = regressor(n_estimators=5, learner=Silent(), momentum="corrected")
    m.fit(X, X[:, 0] + X[:, 1] ** 2)
    assert m.history_["cosine"][1] == 0.0 < m.history_["cosine"][2]
    assert m.n_iter_ == 5
    one = m.model_.components[0]
    np.testing.assert_allclose(one.ensemble.predict(m.model_.table), one.scores, atol=1e-5)
