"""Algorithm 1 end to end, the penalty, feature smoothing, presets, and the table of equations."""

import pickle
import re
from importlib import import_module

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.tree import DecisionTreeRegressor

import ebboost as eb
from ebboost import paper
from ebboost.boosting import Point
from ebboost.data.labels import Labels
from ebboost.paper.objectives import PenalizedObjective
from tests.paper.problems import SklearnTree, neighbor_sums, regressor
from tests.paper.test_robust import numeric_gradient
from tests.paper.test_smoothers import dense_form
from tests.strategies import random_graph

SMOOTHERS = [
    eb.Laplacian(2.0, 5),
    eb.Laplacian(1.0, method="exact"),
    paper.Jacobi(2.0, 3, normalized=False),
    paper.Chebyshev(2.0, 4),
    paper.Kernel("laplacian", 0.5, tolerance=1e-10),
]


@pytest.mark.parametrize("penalty", [0.0, 0.3])
@pytest.mark.parametrize("smoothing", SMOOTHERS, ids=lambda one: type(one).__name__)
def test_algorithm_1_with_dense_matrices(smoothing, penalty):
    """Propagate, pull the gradient back, fit a tree to it on all rows, search the line, step."""
    X, y, graph = neighbor_sums(n=60, n_labelled=40, edges=100)
    tree = DecisionTreeRegressor(max_depth=2, random_state=0)
    m = regressor(n_estimators=6, learning_rate=0.7, smoothing=smoothing, penalty=penalty)
    m.set_params(learner=SklearnTree(tree)).fit(X, y, graph=graph)

    known = ~np.isnan(y)
    every = dense_form(smoothing, graph)
    P, target, f = every[known], y[known] - y[known].mean(), np.zeros(60)
    bound = smoothing.operator(graph).magnitude
    magnitude = None if bound is None else bound.apply(np.eye(60))[known]
    losses = []
    for _ in range(6):
        gradient = P.T @ (P @ f - target) + penalty * f  # (9) at the labels, (8) on all rows
        weight = np.full(60, smoothing.operator(graph).norm_bound ** 2)
        if magnitude is not None:
            weight = magnitude.T @ magnitude.sum(axis=1)
        weight = weight + penalty
        residual = np.divide(-gradient, weight, out=np.zeros(60), where=weight > 1e-12)
        h = clone(tree).fit(X, residual, sample_weight=weight).predict(X)  # (11)
        step = -gradient @ h / ((P @ h) @ (P @ h) + penalty * h @ h)
        f = f + 0.7 * step * h  # (12)
        losses.append(0.5 * np.mean((target - P @ f) ** 2) + 0.5 * penalty * f @ f / 40)
    np.testing.assert_allclose(m.history_["training"], losses, rtol=1e-6)
    np.testing.assert_allclose(m.predict(), every @ f + y[known].mean(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("loss", [eb.SquaredError(), eb.LogLoss(), eb.Poisson()], ids=repr)
def test_gradient_and_parabola_of_the_penalised_loss_are_those_of_its_values(loss):
    rng = np.random.default_rng(0)
    graph, rows = random_graph(14, 30), np.arange(0, 14, 2)
    labels = Labels(rows, rng.integers(0, 2, (7, 1)).astype(float), rng.random(7) + 0.1)
    operator = paper.Kernel().operator(graph)
    objective = PenalizedObjective(loss, labels, operator, 14, penalty=0.7)
    scores, tree = rng.normal(size=(2, 14, 1))
    mass = objective.total_weight

    def total(at):
        return mass * objective.value(Point(at, operator.apply(at)))

    point = Point(scores, operator.apply(scores))
    np.testing.assert_allclose(
        objective.gradient(point), numeric_gradient(total, scores), atol=1e-6
    )
    slope, bend, _ = objective.parabola(point, objective.direction(point, tree))
    low, middle, high = (total(scores + by * tree) for by in (-1e-4, 0.0, 1e-4))
    assert slope == pytest.approx((high - low) / 2e-4, rel=1e-5)
    curvature = (high - 2 * middle + low) / 1e-8
    assert bend >= curvature - 1e-3
    if type(loss) is eb.SquaredError:
        assert bend == pytest.approx(curvature, rel=1e-3)
    diagonal = objective.curvature(point)
    assert float((diagonal * tree**2).sum()) >= bend - 1e-9


def test_a_penalty_shrinks_the_scores():
    X, y, graph = neighbor_sums()
    sizes = []
    for penalty in (0.0, 1.0, 100.0):
        m = regressor(n_estimators=100, penalty=penalty).fit(X, y, graph=graph)
        sizes.append(float(np.linalg.norm(m.model_.components[0].scores)))
    assert sizes[0] > sizes[1] > 3.0 * sizes[2]


@pytest.mark.parametrize(
    "smoothing", [*SMOOTHERS, paper.Robust()], ids=lambda one: type(one).__name__
)
def test_every_propagation_helps_where_neighbours_are_alike(smoothing):
    rng = np.random.default_rng(0)
    position = rng.random((600, 2))
    hidden = np.sin(7 * position[:, 0]) + np.cos(6 * position[:, 1])
    X = np.column_stack([hidden + rng.normal(size=600), rng.normal(size=600)])
    y = hidden + 0.1 * rng.normal(size=600)
    graph, known = eb.Graph.build_knn(position, k=6), np.arange(200)
    error = []
    for one in (None, smoothing):
        m = paper.PaperRegressor(200, smoothing=one, random_state=0)
        m.fit(X, y[known], nodes=known, graph=graph)
        error.append(np.sqrt(np.mean((m.predict()[200:] - y[200:]) ** 2)))
    assert error[1] < 0.8 * error[0]


def test_smoothed_features_are_appended():
    X, y, graph = neighbor_sums()
    strong = eb.Laplacian(20.0, 5)
    m = regressor(feature_smoothing=strong).fit(X, y, graph=graph)
    one = m.model_.components[0]
    columns = one.features.transform(m.model_.table, m.model_.places).values
    np.testing.assert_allclose(columns, np.hstack([X, strong.operator(graph).apply(X)]))
    assert one.columns[4:] == tuple(f"smoothed({name})" for name in one.columns[:4])


def test_kernels_are_smoothers_of_the_default_too():
    X, y, graph = neighbor_sums(n=300, n_labelled=200)
    m = eb.EBBSRegressor(30, smoothing=paper.Kernel(), n_folds=2, random_state=0)
    m.fit(X, y, graph=graph)
    new = m.predict(X[:5], attach=(np.arange(5), np.arange(5)))
    assert new.shape == (5,) and np.isfinite(new).all()


def test_it_is_an_estimator_of_scikit_learn():
    X, y, graph = neighbor_sums()
    m = regressor(momentum=paper.CorrectedMomentum(0.1), penalty=0.1, labels=paper.MaskedLabels())
    assert repr(clone(m)) == repr(m) and m.get_params()["labels__share"] == 0.5
    m.set_params(labels="none").fit(X, y, graph=graph)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(m)).predict(), m.predict())
    np.testing.assert_array_equal(clone(m).fit(X, y, graph=graph).predict(), m.predict())
    assert m.model_.estimator == "PaperRegressor" and len(m.model_.components) == 1
    assert "PaperRegressor: 25 rounds" in m.summary()
    lower, upper = regressor(early_stopping=5).fit(X, y, graph=graph).predict(interval=0.9)[1:]
    assert (lower < upper).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": -1.0}, "penalty"),
        ({"penalty": np.nan}, "penalty"),
        ({"n_folds": 2}, "n_folds"),
        ({"learning_rate": None}, "learning_rate"),
        ({"labels": "leave-one-out"}, "labels must be"),
        ({"smoothing": "strong"}, "smoothing"),
        ({"learner": "catboost"}, "learner must be"),
    ],
)
def test_wrong_parameters_are_refused_by_name(parameters, message):
    X, y, graph = neighbor_sums()
    with pytest.raises(ValueError, match=message):
        regressor(**parameters).fit(X, y, graph=graph)


def test_with_time_the_latest_labels_end_the_training():
    X, y, graph = neighbor_sums(n_labelled=200)
    time = np.random.default_rng(0).permutation(200)
    for labels in ("none", "masked"):
        m = regressor(labels=labels, early_stopping=5, n_estimators=60)
        m.fit(X, y, graph=graph, time=time)
        assert sorted(time[m.model_.unseen.rows]) == list(range(180, 200))
        assert len(m.history_["validation"]) == len(m.history_["cosine"]) >= m.n_iter_


# ---------------------------------------------------------------------- presets


def test_the_preset_has_the_published_settings():
    numbers = eb.EBBSRegressor.from_preset("paper", random_state=0)
    assert type(numbers) is paper.PaperRegressor
    assert (numbers.n_estimators, numbers.early_stopping, numbers.random_state) == (1000, 100, 0)
    assert (numbers.smoothing.lam, numbers.smoothing.n_steps) == (2.0, 5)
    assert (numbers.feature_smoothing.lam, numbers.feature_smoothing.n_steps) == (20.0, 5)
    assert (numbers.learner.depth, numbers.learner.shrinkage) == (6, 0.2)
    assert numbers.labels.smooth_errors and numbers.labels.smooth_labels
    classes = eb.EBBSClassifier.from_preset("paper", learner=eb.LightGBM())
    assert type(classes) is paper.PaperClassifier
    assert (classes.n_estimators, classes.early_stopping, classes.labels) == (200, 20, "none")
    assert classes.feature_smoothing is None and type(classes.learner) is eb.LightGBM


def test_preset_of_numbers_beats_trees_without_the_graph_on_elections():
    X, y, graph, _ = eb.datasets.load_elect80()
    order = np.random.default_rng(0).permutation(len(y))
    train, held, rest = np.split(order, [1800, 2400])

    def error(**changes):
        m = eb.EBBSRegressor.from_preset("paper", n_estimators=150, random_state=0, **changes)
        m.fit(X, y[train], nodes=train, graph=graph, eval_set=(held, y[held]))
        assert m.n_iter_ > 20
        return np.sqrt(np.mean((m.predict()[rest] - y[rest]) ** 2))

    alone = error(smoothing=None, labels="none", feature_smoothing=None)
    assert error() < 0.85 * alone


def test_preset_of_classes_beats_trees_without_the_graph():
    rng = np.random.default_rng(0)
    position = rng.random((400, 2))
    truth = (3 * position[:, 0]).astype(int)
    X = np.column_stack([truth + 1.5 * rng.normal(size=400), rng.normal(size=400)])
    graph, known = eb.Graph.build_knn(position, k=6), np.arange(200)
    score = []
    for smoothing in (None, eb.Laplacian(2.0, 5)):
        m = eb.EBBSClassifier.from_preset("paper", smoothing=smoothing, random_state=0)
        m.set_params(n_estimators=40).fit(X, truth[known], nodes=known, graph=graph)
        score.append(m.score(None, truth[200:], nodes=np.arange(200, 400)))
    assert score[1] > score[0] + 0.1


# ---------------------------------------------------------------------- the table of equations


def test_every_equation_of_the_paper_has_an_implementation():
    rows = re.findall(r"^(\([\d(), –]+\)) .* ([\w.]+):([\w.]+)$", paper.__doc__, re.MULTILINE)
    numbers = set()
    for equations, module, name in rows:
        found = import_module(f"ebboost.{module}")
        for part in name.split("."):
            found = getattr(found, part)
        ends = [int(one) for one in re.findall(r"\d+", equations)]
        numbers |= set(range(ends[0], ends[-1] + 1)) if "–" in equations else set(ends)
    assert numbers == set(range(1, 36))
    for module, name in re.findall(r"``([\w.]+):(\w+)``", paper.__doc__):
        assert hasattr(import_module(f"ebboost.{module}"), name)
