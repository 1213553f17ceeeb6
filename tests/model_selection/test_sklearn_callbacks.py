"""Callbacks of scikit-learn 1.9."""

import numpy as np
import pytest
from sklearn.base import clone

import ebboost as eb

pytest.importorskip("sklearn.callback")
X = np.random.default_rng(0).normal(size=(120, 2))


class Recorder:
    """Counts tasks, and stops each model after some rounds."""

    def __init__(self, most=10**9):
        self.most, self.begun, self.ended, self.calls = most, [], [], []

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.begun.append(context.task_name)

    def on_fit_task_end(self, estimator, context):
        self.ended.append(context.task_name)
        return context.task_name == "round" and context.task_id + 1 >= self.most


def test_every_model_and_round_is_a_task():
    recorder = Recorder(most=4)
    model = eb.EBBSRegressor(20, n_folds=3, random_state=0).set_callbacks(recorder)
    model.fit(X, X[:, 0])
    assert recorder.calls == ["setup", "teardown"]
    assert recorder.begun.count("fit") == recorder.ended.count("fit") == 1
    assert recorder.begun.count("model") == recorder.ended.count("model") == 6
    assert recorder.ended.count("round") == 6 * 4
    assert max(model.rounds_) <= 4


def test_they_change_nothing_else_and_end_with_errors():
    settings = {"n_folds": 2, "random_state": 0}
    plain = eb.EBBSRegressor(10, **settings).fit(X, X[:, 0])
    recorder = Recorder()
    watched = clone(eb.EBBSRegressor(10, **settings).set_callbacks(recorder))
    assert np.array_equal(watched.fit(X, X[:, 0]).predict(), plain.predict())
    recorder.calls.clear()
    with pytest.raises(ValueError, match="labels"):
        watched.fit(X, X[:3, 0])
    assert recorder.calls == ["setup", "teardown"]
