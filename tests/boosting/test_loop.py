"""Algorithm 1: descent, plain boosting as a special case, and when training stops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import ExtraTreeRegressor

import ebboost as eb
from ebboost.boosting import loop as boosting
from ebboost.boosting.loop import Boosting, boost
from ebboost.boosting.objective import Objective
from ebboost.data.labels import Labels
from ebboost.data.table import Table
from ebboost.propagation import IdentityOperator
from tests.problems import fixed_regressor, neighbor_sums
from tests.strategies import graphs

SMOOTHINGS = [
    None,
    eb.Laplacian(0.5, 2),
    eb.Laplacian(5.0, 4, method="jacobi"),
    eb.Laplacian(20.0, method="exact"),
]


SMOOTHINGS += [eb.Laplacian(5.0, 4, method="chebyshev"), eb.Laplacian(2.0, 3, normalized=False)]


SMOOTHINGS += [
    eb.Kernel("diffusion", 100.0),
    eb.Kernel("random-walk", 2.0),
    eb.Kernel("random-walk", 2.0, p=12),
]


@given(
    graph=graphs(min_nodes=3, max_nodes=40),
    seed=st.integers(0, 1000),
    smoothing=st.sampled_from(SMOOTHINGS),
    loss=st.sampled_from(["squared_error", "huber", "quantile", "poisson"]),
    learning_rate=st.floats(0.01, 1.0),
    penalty=st.sampled_from([0.0, 0.1, 10.0]),
    leaves=st.integers(2, 15),
)
@settings(max_examples=60, deadline=None)
def test_training_loss_never_rises(graph, seed, smoothing, loss, learning_rate, penalty, leaves):
    rng = np.random.default_rng(seed)
    n = graph.n_nodes
    y = np.abs(rng.normal(size=n)) + 0.01
    y[rng.random(n) < 0.5] = np.nan
    y[0] = 1.0
    m = fixed_regressor(
        n_estimators=12,
        smoothing=smoothing,
        loss=loss,
        learning_rate=learning_rate,
        penalty=penalty,
        learner=eb.LightGBM(num_leaves=leaves, min_child_samples=1),
    ).fit(rng.normal(size=(n, 2)), y, graph=graph)
    losses = np.array(m.history_["training"])
    assert (np.diff(losses) <= 1e-9 * np.abs(losses[:-1]) + 1e-12).all()
    assert np.isfinite(m.predict()).all()


@given(
    graph=graphs(min_nodes=6, max_nodes=40), seed=st.integers(0, 1000), n_classes=st.integers(2, 4)
)
@settings(max_examples=30, deadline=None)
def test_training_loss_of_a_classifier_never_rises(graph, seed, n_classes):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, graph.n_nodes)
    y[:2] = [0, 1]
    learner = eb.LightGBM(num_leaves=7, min_child_samples=1)
    m = eb.EBBSClassifier(
        12,
        0.5,
        early_stopping=False,
        learner=learner,
        n_jobs=1,
        smoothing=eb.Laplacian(),
        labels="none",
    )
    m.fit(rng.normal(size=(graph.n_nodes, 2)), y, graph=graph)
    losses = np.array(m.history_["training"])
    assert (np.diff(losses) <= 1e-9 * np.abs(losses[:-1]) + 1e-12).all()


@pytest.mark.parametrize(("every", "tolerance"), [(1, 1e-5), (2, 0.05)])
def test_without_a_graph_the_fit_is_plain_boosting_on_the_labelled_rows(every, tolerance):
    """P = I: LightGBM's own model if all rows are labelled, and nearly so if every other row is.

    The difference is that LightGBM counts the rows of a leaf by their share of the curvature.
    """
    import lightgbm

    X, y, _ = neighbor_sums(n=400, n_labelled=400)
    known = np.arange(0, 400, every)
    bins = {"max_bin": 1000, "min_data_in_bin": 1}
    learner = eb.LightGBM(num_leaves=8, min_child_samples=5 * every, params=bins)
    ours = fixed_regressor(learner=learner, learning_rate=0.1).fit(X, y[known], nodes=known)
    own = {
        "objective": "regression",
        "num_leaves": 8,
        "min_data_in_leaf": 5,
        "num_threads": 1,
        "verbose": -1,
        **bins,
    }
    reference = lightgbm.train(own, lightgbm.Dataset(X[known], y[known]), 25)
    errors = [
        np.mean((p - y[known]) ** 2) for p in (ours.predict()[known], reference.predict(X[known]))
    ]
    assert errors[0] == pytest.approx(errors[1], rel=tolerance)


def test_model_is_the_weighted_sum_of_its_trees():
    """The compiled ensemble returns the scores that the loop accumulated."""
    X, y, graph = neighbor_sums()
    for momentum in (False, True, "corrected"):
        m = fixed_regressor(momentum=momentum).fit(X, y, graph=graph)
        np.testing.assert_allclose(m.predict(X, graph=graph), m.predict(), rtol=1e-9, atol=1e-9)


def test_penalty_shrinks_the_predictions():
    X, y, graph = neighbor_sums()
    spread = [
        np.ptp(fixed_regressor(penalty=p).fit(X, y, graph=graph).predict())
        for p in (0.0, 1.0, 100.0)
    ]
    assert spread[0] > spread[1] > spread[2]


def test_after_callbacks_run_after_all_others_in_every_round():
    calls = []

    class Noted(eb.Callback):
        def __init__(self, name):
            self.name = name

        def before_training(self, n_rounds):
            calls.append((self.name, n_rounds))

        def after_round(self, progress):
            calls.append((self.name, "round", progress.round))
            return False

    table = Table(np.arange(40.0)[:, None], ("a",), (), (0,))
    growing = eb.LightGBM(4, min_child_samples=5).start(
        table, n_outputs=1, seed=0, n_jobs=1, device="cpu"
    )
    labels = Labels(np.arange(40), np.arange(40.0)[:, None] % 7, np.ones(40))
    objective = Objective(IdentityOperator(40), eb.SquaredError(), labels)
    result = boost(
        Boosting(objective, growing, n_rounds=2, learning_rate=0.5),
        [Noted("first")],
        after=[Noted("last")],
    )
    events = [(2,), ("round", 0), ("round", 1)]
    assert calls == [(name, *event) for event in events for name in ("first", "last")]
    assert result.stop_reason == "all rounds were trained"


def test_callbacks_continue_from_their_states():
    class Count(eb.Callback):
        state_names = ("n_rounds",)

        def before_training(self, n_rounds):
            self.n_rounds = 0

        def after_round(self, info):
            self.n_rounds += 1
            return self.n_rounds == 5

    labels = Labels(np.arange(40), np.arange(40.0)[:, None], np.ones(40))
    table = Table(np.arange(40.0)[:, None], ("x",), (), (0,))
    options = {"n_outputs": 1, "seed": 0, "n_jobs": 1, "device": "cpu"}
    for states, n_rounds in (((), 5), (({"n_rounds": 3},), 2)):
        grower = eb.LightGBM(3, min_child_samples=5).start(table, **options)
        objective = Objective(IdentityOperator(40), eb.SquaredError(), labels, None)
        boosting = Boosting(objective, grower, n_rounds=9, learning_rate=0.1)
        result = boost(boosting, [Count()], states=states)
        assert result.n_rounds == n_rounds and result.stop_reason == Count.reason


def test_boosting_stops_when_nothing_is_left_to_learn():
    m = fixed_regressor(n_estimators=50).fit(np.zeros((30, 1)), np.arange(30.0))
    assert "no tree could be grown" in m.stop_reason_
    np.testing.assert_allclose(m.predict(), 14.5)


@pytest.mark.parametrize("seed", range(8))
def test_a_stopped_run_stays_stopped_and_its_trees_sum_to_its_scores(seed):
    """With few sampled columns a round may grow no tree, and a later round one."""
    n = 200
    X = np.zeros((n, 8))
    X[:, 0] = np.random.default_rng(0).normal(size=n)
    for column in range(1, 8):
        X[5 * column : 5 * column + 3, column] = 1.0
    table = Table(X, tuple("abcdefgh"), (), tuple(range(8)))
    learner = eb.LightGBM(4, min_child_samples=5, colsample_bytree=0.2)
    growing = learner.start(table, n_outputs=1, seed=seed, n_jobs=1, device="cpu")
    labels = Labels(np.arange(n), (X[:, :1] > 0).astype(float), np.ones(n))
    boosting = Boosting(
        Objective(IdentityOperator(n), eb.SquaredError(), labels),
        growing,
        n_rounds=20,
        learning_rate=0.5,
    )
    done = list(boosting)
    assert len(done) < 20
    assert list(boosting) == []
    np.testing.assert_allclose(
        growing.compile(boosting.model.weights).predict(table), boosting.model.scores, atol=1e-9
    )


def test_training_stops_after_ten_rounds_without_descent():
    from sklearn.dummy import DummyRegressor

    m = fixed_regressor(n_estimators=50, learner=DummyRegressor(strategy="constant", constant=0.0))
    m.fit(np.arange(30.0)[:, None], np.arange(30.0))
    assert "no step along a new tree" in m.stop_reason_
    assert len(m.history_["step"]) == 10


def test_no_step_is_taken_if_every_step_raises_the_loss():
    class Backwards(eb.SquaredError):
        def gradient(self, scores, target):
            return target - scores

    X, y, graph = neighbor_sums()
    m = fixed_regressor(loss=Backwards()).fit(X, y, graph=graph)
    assert m.history_["step"] == [0.0] * 10
    assert "no step along a new tree" in m.stop_reason_
    np.testing.assert_array_equal(m.predict(), m.predict()[0])


def test_nine_rounds_in_a_row_without_descent_do_not_stop_training():
    class Moody(ExtraTreeRegressor):
        fits = 0

        def fit(self, X, y, sample_weight=None):
            type(self).fits += 1
            return super().fit(X, 0 * y if type(self).fits % 10 else y, sample_weight)

    X, y, graph = neighbor_sums()
    m = fixed_regressor(n_estimators=30, learner=eb.ScikitLearn(Moody(max_depth=2))).fit(
        X, y, graph=graph
    )
    assert len(m.history_["step"]) == 30
    assert m.stop_reason_ == "all rounds were trained"


def test_line_search_steps_back_from_an_infinite_loss():
    y = np.exp(np.random.default_rng(0).normal(0.0, 3.0, 200))
    model = eb.EBBSRegressor(30, 1.0, loss="poisson", early_stopping=False, n_jobs=1).fit(
        np.log(y)[:, None], y
    )
    assert np.isfinite(model.predict()).all()
    assert (
        np.diff(model.history_["training"]) <= 1e-9 * np.abs(model.history_["training"][:-1])
    ).all()


def test_a_step_that_is_too_long_is_halved_until_the_loss_falls():
    class TooFlat(eb.Loss):
        """Squared error with a tenth of its curvature: Newton steps are ten times too long."""

        def value(self, scores, target):
            return 0.5 * ((scores - target) ** 2).sum(axis=1)

        def gradient(self, scores, target):
            return scores - target

        def curvature(self, scores, target):
            return 0.1

    X, y, graph = neighbor_sums()
    model = fixed_regressor(loss=TooFlat(), learning_rate=1.0, labels="none").fit(X, y, graph=graph)
    history = model.history_
    assert min(history["step"]) > 0.0 and (np.diff(history["training"]) < 0.0).all()


def test_the_loop_imports_no_array_library():
    assert "numpy" not in vars(boosting) and "np" not in vars(boosting)
