"""Masked labels against equation (15) and finite differences."""

import numpy as np
import pytest

import ebboost as eb
from ebboost.boosting.iterate import Iterate
from ebboost.boosting.label_use import objective_for
from ebboost.boosting.masked_labels import MaskedObjective, masked_prediction
from ebboost.data.labels import Labels
from ebboost.propagation import IdentityOperator
from tests.strategies import random_graph


@pytest.mark.parametrize(
    "use",
    [eb.MaskedLabels(), eb.MaskedLabels(smooth_labels=False), eb.MaskedLabels(smooth_errors=False)],
    ids=repr,
)
def test_gradient_equals_finite_differences(use):
    graph = random_graph(15, 30)
    rng = np.random.default_rng(0)
    labels = Labels(np.arange(10), rng.normal(size=(10, 1)), np.ones(10))
    o = MaskedObjective(
        eb.Laplacian(2.0, 3).operator(graph), eb.SquaredError(), labels, None, 0.0, use, 0
    )
    scores = rng.normal(size=(15, 1))
    gradient = o.gradient(Iterate(scores, scores))
    mass = (~o._is_shown).sum()
    assert 0 < mass < 10
    for node in range(15):
        move = np.zeros_like(scores)
        move[node] = 1e-5
        rise = o._value(Iterate(scores + move, scores)) - o._value(Iterate(scores - move, scores))
        assert mass * rise / 2e-5 == pytest.approx(gradient[node, 0], abs=1e-6)


def test_prediction_is_equation_15():
    graph = random_graph(12, 25)
    P = eb.Laplacian(2.0, 5).operator(graph)
    scores = np.random.default_rng(0).normal(size=(12, 1))
    shown = Labels(np.array([1, 4]), np.array([[2.0], [3.0]]), np.ones(2))
    mask = np.zeros((12, 1))
    mask[[1, 4]] = 1.0
    truth = np.zeros((12, 1))
    truth[[1, 4], 0] = [2.0, 3.0]
    expected = scores + P.apply(mask * (truth - scores))
    zero = np.zeros(1)
    np.testing.assert_allclose(
        masked_prediction(eb.MaskedLabels(smooth_labels=False), P, scores, shown, zero), expected
    )
    expected = P.apply(np.where(mask > 0, truth, expected))
    np.testing.assert_allclose(
        masked_prediction(eb.MaskedLabels(), P, scores, shown, zero), expected
    )
    moved = Labels(shown.nodes, shown.target + 7.0, shown.weight)
    np.testing.assert_allclose(
        masked_prediction(eb.MaskedLabels(), P, scores, moved, np.array([7.0])), 7.0 + expected
    )


def test_masked_training_fits_a_large_mean():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = 100 + X[:, 0] + 0.3 * rng.normal(size=400)
    graph = eb.Graph.build_knn(X[:, :2], k=5)
    m = eb.EBBSRegressor(200, labels="masked", random_state=0, n_jobs=1).fit(
        X, y[:60], nodes=np.arange(60), graph=graph
    )
    assert np.sqrt(np.mean((m.predict()[200:] - y[200:]) ** 2)) < 2.0


def test_masks_show_the_given_share_and_are_drawn_anew():
    labels = Labels(np.arange(2000), np.zeros((2000, 1)), np.ones(2000))
    use = eb.MaskedLabels(share=0.9)
    o = MaskedObjective(IdentityOperator(2000), eb.SquaredError(), labels, None, 0.0, use, 0)
    assert o._is_shown.mean() == pytest.approx(0.9, abs=0.03)
    before = o._is_shown.copy()
    o.gradient(o.start())
    assert not np.array_equal(o._is_shown, before)


def test_masked_step_is_twice_the_gradient_as_published():
    graph = eb.Graph.from_edges([0, 1], [1, 2])
    labels = Labels(np.arange(3), np.arange(3.0)[:, None], np.ones(3))
    objective = objective_for(
        eb.MaskedLabels(),
        graph,
        eb.Laplacian().operator(graph),
        eb.SquaredError(),
        labels,
        None,
        0.0,
        0,
    )
    point, tree = objective.start(), np.ones((3, 1))
    step = objective.newton_step(point, tree, objective.propagate(tree, point))
    assert step == 2.0 * objective.score_unit  # trees are grown in this unit


def test_a_mask_that_hides_no_label_has_no_loss():
    labels = Labels(np.arange(3), np.arange(3.0)[:, None], np.ones(3))
    use = eb.MaskedLabels(share=1.0 - 1e-12)
    o = MaskedObjective(IdentityOperator(3), eb.SquaredError(), labels, None, 0.0, use, 0)
    assert o.value(o.start()) == 0.0


@pytest.mark.parametrize("share", [0.0, -0.1, 1.0, 1.5, "half"])
def test_share_must_be_in_the_unit_interval(share):
    labels = Labels(np.arange(3), np.zeros((3, 1)), np.ones(3))
    use = eb.MaskedLabels(share=share)
    with pytest.raises(ValueError, match=r"MaskedLabels: share must be a number in \(0, 1\)"):
        MaskedObjective(IdentityOperator(3), eb.SquaredError(), labels, None, 0.0, use, 0)
