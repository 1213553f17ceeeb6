"""Masked labels against equation (15) and finite differences."""

import pickle

import numpy as np
import pytest

import ebboost as eb
from ebboost.boosting import Point
from ebboost.data.labels import Labels
from ebboost.paper import MaskedLabels, PaperClassifier, PaperRegressor
from ebboost.paper.masked import checksum
from ebboost.paper.objectives import MaskedObjective
from ebboost.smoothing import Identity
from tests.paper.problems import neighbor_sums, regressor
from tests.strategies import random_graph

USES = [MaskedLabels(), MaskedLabels(smooth_labels=False), MaskedLabels(smooth_errors=False)]


def objective_of(masked, labels, operator, n_rows):
    return MaskedObjective(eb.SquaredError(), labels, operator, n_rows, masked=masked, seed=0)


@pytest.mark.parametrize("masked", USES, ids=repr)
def test_gradient_equals_finite_differences(masked):
    rng = np.random.default_rng(0)
    labels = Labels(np.arange(10), rng.normal(size=(10, 1)), np.ones(10))
    operator = eb.Laplacian(2.0, 3).operator(random_graph(15, 30))
    objective = objective_of(masked, labels, operator, 15)
    scores = rng.normal(size=(15, 1))
    gradient = objective.gradient(Point(scores, scores))
    mass = (~objective.is_shown).sum()
    assert 0 < mass < 10
    for row in range(15):
        move = np.zeros_like(scores)
        move[row] = 1e-5
        up, down = (objective.value(Point(scores + by, scores)) for by in (move, -move))
        assert mass * (up - down) / 2e-5 == pytest.approx(gradient[row, 0], abs=1e-6)


def test_prediction_is_equation_15():
    P = eb.Laplacian(2.0, 5).operator(random_graph(12, 25))
    scores = np.random.default_rng(0).normal(size=(12, 1))
    rows, target = np.array([1, 4]), np.array([[2.0], [3.0]])
    mask, truth = np.zeros((12, 1)), np.zeros((12, 1))
    mask[rows], truth[rows] = 1.0, target
    errors = scores + P.apply(mask * (truth - scores))
    found = MaskedLabels(smooth_labels=False).smooth(P, scores, rows, target)
    np.testing.assert_allclose(found, errors)
    expected = P.apply(np.where(mask > 0, truth, errors))
    np.testing.assert_allclose(MaskedLabels().smooth(P, scores, rows, target), expected)


@pytest.mark.parametrize("masked", USES, ids=repr)
def test_a_fitted_model_predicts_by_equation_15_from_all_labels(masked):
    X, y, graph = neighbor_sums()
    offset = np.random.default_rng(0).normal(size=200)
    m = regressor(labels=masked, smoothing=eb.Laplacian(1.0, 3)).fit(
        X, y, graph=graph, offset=offset
    )
    one = m.model_.components[0]
    fixed = one.init_score + offset[:, None]
    known, P = np.flatnonzero(~np.isnan(y)), eb.Laplacian(1.0, 3).operator(graph)
    expected = fixed + masked.smooth(P, one.scores, known, y[known, None] - fixed[known])
    np.testing.assert_allclose(m.predict(), expected[:, 0])
    again = pickle.loads(pickle.dumps(m))
    np.testing.assert_array_equal(again.predict(), m.predict())
    np.testing.assert_allclose(again.model_.predictions_given(again.model_.labels), m.model_.raw)


def test_validation_loss_is_that_of_the_predictions():
    X, y, graph = neighbor_sums(n_labelled=200)
    known, held = np.arange(100), np.arange(100, 200)
    m = regressor(n_estimators=60, early_stopping=10, labels="masked", learning_rate=0.5)
    m.fit(X, y[known], nodes=known, graph=graph, eval_set=(held, y[held]))
    losses = m.history_["validation"]
    assert 0.5 * np.mean((m.predict()[held] - y[held]) ** 2) == pytest.approx(min(losses))


def test_masked_training_fits_a_large_mean():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = 100 + X[:, 0] + 0.3 * rng.normal(size=400)
    graph = eb.Graph.build_knn(X[:, :2], k=5)
    m = PaperRegressor(200, labels="masked", random_state=0).fit(
        X, y[:60], nodes=np.arange(60), graph=graph
    )
    assert np.sqrt(np.mean((m.predict()[200:] - y[200:]) ** 2)) < 2.0


def test_masks_show_the_given_share_and_are_drawn_anew():
    labels = Labels(np.arange(2000), np.zeros((2000, 1)), np.ones(2000))
    objective = objective_of(MaskedLabels(share=0.9), labels, Identity(), 2000)
    assert objective.is_shown.mean() == pytest.approx(0.9, abs=0.03)
    before = objective.is_shown.copy()
    objective.gradient(objective.start())
    assert not np.array_equal(objective.is_shown, before)


def test_masked_step_is_twice_the_gradient_as_published():
    labels = Labels(np.arange(3), np.arange(3.0)[:, None], np.ones(3))
    operator = eb.Laplacian().operator(eb.Graph.from_edges([0, 1], [1, 2]))
    objective = objective_of(MaskedLabels(), labels, operator, 3)
    point, tree = objective.start(), np.ones((3, 1))
    step = objective.step(point, objective.direction(point, tree))
    assert step == 2.0 * objective.score_unit  # trees are grown in this unit


def test_it_may_start_from_zero_and_hide_no_label():
    labels = Labels(np.arange(3), np.arange(3.0)[:, None] + 5.0, np.ones(3))
    zero = objective_of(MaskedLabels(from_zero=True), labels, Identity(), 3)
    assert zero.init_score == 0.0 != objective_of(MaskedLabels(), labels, Identity(), 3).init_score
    every = objective_of(MaskedLabels(share=1.0 - 1e-12), labels, Identity(), 3)
    assert every.value(every.start()) == 0.0


def test_a_checksum_is_that_of_edges_and_weights():
    graph = random_graph(20, 40)
    assert checksum(graph) == checksum(eb.Graph.from_scipy(graph.adjacency))
    assert checksum(graph) != checksum(eb.Graph.from_scipy(2.0 * graph.adjacency))


def test_what_masked_labels_do_not_support_is_refused():
    X, y, graph = neighbor_sums()

    def fit(kind=PaperRegressor, target=y, where=graph, labels="masked", **options):
        return kind(5, labels=labels, **options).fit(X, target, graph=where)

    for share in (0.0, -0.1, 1.0, 1.5, "half"):
        with pytest.raises(ValueError, match=r"MaskedLabels: share must be a number in \(0, 1\)"):
            fit(labels=MaskedLabels(share=share))
    with pytest.raises(ValueError, match="loss='squared_error' and penalty=0"):
        fit(penalty=0.1)
    with pytest.raises(ValueError, match="loss='squared_error' and penalty=0"):
        fit(loss="huber")
    with pytest.raises(ValueError, match="loss='squared_error' and penalty=0"):
        fit(PaperClassifier, np.arange(200) % 2)
    for options in ({"where": None}, {"smoothing": None}):
        with pytest.raises(ValueError, match="needs a linear smoothing, and a graph"):
            fit(**options)
    with pytest.raises(ValueError, match="labels must be"):
        eb.EBBSRegressor(5, labels="masked").fit(X, y, graph=graph)
    model = fit()
    with pytest.raises(ValueError, match="predicts the rows of its fit only"):
        model.predict(X, graph=random_graph(200, 400))
    with pytest.raises(ValueError, match="predicts the rows of its fit only"):
        model.predict(X[:1], attach=([0], [0]))
    with pytest.raises(ValueError, match="no sum of contributions"):
        model.explanations([0])
    with pytest.raises(ValueError, match="changes it in every round"):
        eb.paper.convergence.report(model)
