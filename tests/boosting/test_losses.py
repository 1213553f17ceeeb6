"""Losses against finite differences, bounds, scikit-learn and their best constants."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss

import ebboost as eb
from tests.problems import loss_data

REGRESSION = [eb.SquaredError(), eb.Huber(0.7), eb.Quantile(0.3, 1e-3), eb.Poisson()]
BOUNDED = [eb.SquaredError(), eb.Huber(0.7)]


@pytest.mark.parametrize("loss", [*REGRESSION, eb.LogLoss(), eb.Softmax()], ids=repr)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_gradient_is_the_finite_difference_of_the_value(loss, seed):
    scores, target = loss_data(loss, seed)
    gradient, h = loss.gradient(scores, target), 1e-6
    for column in range(scores.shape[1]):
        move = np.zeros_like(scores)
        move[:, column] = h
        difference = (loss.value(scores + move, target) - loss.value(scores - move, target)) / (
            2 * h
        )
        near_kink = (
            np.abs(scores - target)[:, 0] < 1e-5
            if scores.shape[1] == 1
            else np.zeros(len(scores), bool)
        )
        np.testing.assert_allclose(difference[~near_kink], gradient[~near_kink, column], atol=1e-6)


@pytest.mark.parametrize("loss", BOUNDED, ids=repr)
@given(seed=st.integers(0, 10_000), scale=st.floats(1e-3, 30.0))
@settings(max_examples=30, deadline=None)
def test_parabola_of_the_curvature_lies_above_the_loss(loss, seed, scale):
    scores, target = loss_data(loss, seed)
    move = scale * np.random.default_rng(seed + 1).normal(size=scores.shape)
    curvature = np.broadcast_to(loss.curvature(scores, target), scores.shape)
    above = (
        loss.value(scores, target)
        + (loss.gradient(scores, target) * move).sum(1)
        + 0.5 * (curvature * move**2).sum(1)
    )
    assert (loss.value(scores + move, target) <= above + 1e-9).all()


@pytest.mark.parametrize(
    "loss", [eb.SquaredError(), eb.Poisson(), eb.LogLoss(), eb.Softmax()], ids=repr
)
def test_curvature_of_smooth_losses_is_the_second_derivative(loss):
    scores, target = loss_data(loss, 0, 50)
    curvature, h = np.broadcast_to(loss.curvature(scores, target), scores.shape), 1e-6
    for column in range(scores.shape[1]):
        move = np.zeros_like(scores)
        move[:, column] = h
        difference = (
            loss.gradient(scores + move, target) - loss.gradient(scores - move, target)
        ) / (2 * h)
        np.testing.assert_allclose(difference[:, column], curvature[:, column], rtol=1e-6)


def test_quantile_parabola_lies_above_up_to_its_rounding():
    loss = eb.Quantile(0.2, 1e-9)
    scores, target = loss_data(loss, 0, 500)
    move = np.random.default_rng(1).normal(size=scores.shape)
    above = loss.value(scores, target) + (loss.gradient(scores, target) * move)[:, 0]
    above += 0.5 * (loss.curvature(scores, target) * move**2)[:, 0]
    assert (loss.value(scores + move, target) <= above + 1e-6).all()


@pytest.mark.parametrize("loss", [*REGRESSION, eb.LogLoss(), eb.Softmax()], ids=repr)
def test_initial_score_is_the_best_constant(loss):
    _, target = loss_data(loss, 3, 200)
    weight = np.random.default_rng(0).random(200)
    start = loss.initial(target, weight)
    total = weight @ loss.value(np.tile(start, (200, 1)), target)
    for size in (1e-3, 0.1):
        for sign in (-1, 1):
            for column in range(target.shape[1]):
                other = start.copy()
                other[column] += sign * size
                # Huber starts at the median, which is near its optimum, not at it.
                slack = 2.0 if isinstance(loss, eb.Huber) else 1e-9
                assert total <= weight @ loss.value(np.tile(other, (200, 1)), target) + slack


def test_cross_entropy_and_links_agree_with_scikit_learn():
    scores, target = loss_data(eb.Softmax(), 0)
    probability = eb.Softmax().inverse_link(scores)
    np.testing.assert_allclose(probability.sum(1), 1.0)
    assert eb.Softmax().value(scores, target).mean() == pytest.approx(
        log_loss(target.argmax(1), probability)
    )
    scores, target = loss_data(eb.LogLoss(), 0)
    expected = log_loss(target[:, 0], eb.LogLoss().inverse_link(scores))
    assert eb.LogLoss().value(scores, target).mean() == pytest.approx(expected)


def test_extreme_scores_stay_finite():
    for loss in (eb.LogLoss(), eb.Softmax()):
        scores = np.outer([800.0, -800.0], np.ones(1 if isinstance(loss, eb.LogLoss) else 3))
        target = np.zeros_like(scores)
        target[:, 0] = 1.0
        assert np.isfinite(loss.value(scores, target)).all()
        assert np.isfinite(loss.gradient(scores, target)).all()


def test_scale_of_huber_and_quantile_follows_the_labels():
    target = np.random.default_rng(0).normal(size=(1000, 1))
    weight = np.ones(1000)
    small, large = (eb.Huber().prepared(scale * target, weight).delta for scale in (1.0, 100.0))
    assert large == pytest.approx(100 * small)
    assert small == pytest.approx(1.345, rel=0.1)
    assert eb.Huber(2.0).prepared(target, weight).delta == 2.0
    assert eb.Quantile(0.5).prepared(100 * target, weight).rounding == pytest.approx(5.0, rel=0.1)
    assert eb.Huber().prepared(np.zeros((5, 1)), np.ones(5)).delta > 0


def test_robust_scale_falls_back_to_the_standard_deviation():
    def delta(*labels):
        return eb.Huber().prepared(np.array(labels)[:, None], np.ones(len(labels))).delta

    assert delta(0.0, 1.0, 2.0, 3.0, 1000.0) == pytest.approx(1.345 * 1.4826)
    assert delta(5.0, 5.0, 5.0, 9.0) == pytest.approx(1.345 * np.std([5.0, 5.0, 5.0, 9.0]))
    assert delta(5.0, 5.0, 5.0) == pytest.approx(1.345)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (eb.Huber(-1.0), "delta"),
        (eb.Huber(0.0), "delta"),
        (eb.Quantile(1.5), "alpha"),
        (eb.Quantile(0.5, -1.0), "rounding"),
    ],
    ids=repr,
)
def test_invalid_parameters_are_rejected_by_name(loss, message):
    with pytest.raises(ValueError, match=message):
        loss.prepared(np.ones((3, 1)), np.ones(3))


def test_poisson_rejects_negative_labels_and_zeros_only():
    with pytest.raises(ValueError, match="negative"):
        eb.EBBSRegressor(loss="poisson").fit([[0.0], [1.0]], [-1.0, 2.0])
    with pytest.raises(ValueError, match="must not be 0 at every"):
        eb.EBBSRegressor(loss="poisson").fit([[0.0], [1.0]], [0.0, 0.0])


def test_unknown_loss_is_rejected():
    with pytest.raises(ValueError, match="loss must be one of"):
        eb.EBBSRegressor(loss="absolute").fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(ValueError, match="loss must be"):
        eb.EBBSClassifier(loss="hinge").fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("missing", ["value", "gradient"])
def test_custom_losses_need_a_value_and_a_gradient(missing):
    parts = {name: getattr(eb.SquaredError, name) for name in ("value", "gradient")}
    assert type("Mine", (eb.Loss,), parts)().curvature(np.zeros((2, 1)), np.ones((2, 1))) == 1.0
    del parts[missing]
    with pytest.raises(TypeError, match=missing):
        type("Mine", (eb.Loss,), parts)()


@pytest.mark.parametrize(
    "loss", [eb.Quantile(rounding=0.0), eb.Quantile(rounding=-1.0), eb.Huber(0.0)], ids=str
)
def test_widths_must_be_positive(loss):
    with pytest.raises(ValueError, match="must be a number > 0"):
        loss.prepared(np.arange(5.0)[:, None], np.ones(5))


def test_initial_score_of_the_quantile_loss_is_the_weighted_quantile():
    target, weight = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 1.0, 10.0])
    assert eb.Quantile(alpha=0.5).initial(target, weight).tolist() == [3.0]
    assert eb.Quantile(alpha=0.1).initial(target, weight).tolist() == [2.0]
