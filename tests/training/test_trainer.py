"""Ctrl-C and exceptions during a fit."""

import signal
import threading

import numpy as np
import pytest

import ebboost as eb
from ebboost.boosting.callbacks import Interrupt, unless_interrupted
from tests.training.problems import (
    GRAPH,
    RaiseInRound,
    X,
    Y,
    checkpoint_every,
    fingerprint,
    regressor,
    resume_fit,
)


class CtrlC(eb.Callback):
    """Sends SIGINT after a round, once or more often."""

    def __init__(self, at, times=1):
        self.at = at
        self.times = times

    def after_round(self, info):
        if info.round + 1 == self.at:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def _no_ctrl_c_before(monkeypatch):
    monkeypatch.setattr(Interrupt, "_last", -Interrupt.grace_seconds)


def test_ctrl_c_stops_after_the_round_and_the_fit_can_be_resumed(tmp_path, uninterrupted):
    with pytest.warns(UserWarning, match=r"interrupted: .* 5 rounds. resume=True continues from"):
        model = regressor().fit(
            X, Y, graph=GRAPH, checkpoint=checkpoint_every(100, tmp_path), callbacks=[CtrlC(5)]
        )
    assert len(model.history_["training"]) == 5 and model.stop_reason_ == "it was interrupted"
    assert model.predict().shape == (90,) and "it was interrupted" in model.summary()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        unless_interrupted(model)
    assert fingerprint(resume_fit(tmp_path)) == uninterrupted


def test_a_fit_that_ends_in_a_later_fold_says_that_it_was_interrupted():
    class InThirdFold(CtrlC):
        def after_round(self, info):
            if info.fold == 2:
                super().after_round(info)

    with pytest.warns(UserWarning, match="interrupted"):
        model = regressor(n_folds=4).fit(X, Y, graph=GRAPH, callbacks=[InThirdFold(2)])
    assert len(model.state_.rounds) == 2  # those that were complete
    assert model.stop_reason_ == "it was interrupted" and "it was interrupted" in model.summary()


def test_a_second_ctrl_c_raises_and_leaves_the_estimator_unchanged():
    model = regressor(3).fit(X, Y, graph=GRAPH)
    before = model.predict()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, 2.0 * Y, graph=GRAPH, callbacks=[CtrlC(2, times=2)])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert (model.predict() == before).all()


def test_ctrl_c_in_a_loop_over_fits_ends_the_loop():
    with pytest.warns(UserWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        eb.cross_validate(
            regressor(), X, Y, graph=GRAPH, cv=3, fit_parameters={"callbacks": [CtrlC(2)]}
        )
    with pytest.raises(KeyboardInterrupt):  # soon after, in a fit that has just begun
        regressor().fit(X, Y, graph=GRAPH, callbacks=[CtrlC(1)])


def test_ctrl_c_during_model_selection_gives_a_model_and_can_be_resumed(tmp_path):
    def model():
        return eb.EBBSRegressor(8, n_folds=2, random_state=0)

    class InThirdModel(eb.Callback):
        n_models = 0

        def before_training(self, n_rounds):
            self.n_models += 1

        def after_round(self, info):
            if self.n_models == 3 and info.round == 2:
                signal.raise_signal(signal.SIGINT)

    with pytest.warns(UserWarning, match="interrupted"):
        part = model().fit(X, Y, graph=GRAPH, checkpoint=tmp_path, callbacks=[InThirdModel()])
    assert np.isfinite(part.predict()).all()
    assert part.stop_reason_ == "it was interrupted"
    resumed = model().fit(X, Y, graph=GRAPH, checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(resumed.predict(), model().fit(X, Y, graph=GRAPH).predict())


def test_a_user_defined_signal_handler_stays_and_threads_install_none():
    pressed = []
    before = signal.signal(signal.SIGINT, lambda *_: pressed.append(1))
    try:
        model = regressor(4).fit(X, Y, graph=GRAPH, callbacks=[CtrlC(2)])
    finally:
        signal.signal(signal.SIGINT, before)
    assert pressed and model.stop_reason_ != "it was interrupted"
    models = []
    thread = threading.Thread(target=lambda: models.append(regressor(2).fit(X, Y, graph=GRAPH)))
    thread.start()
    thread.join()
    assert models[0].n_iter_ <= 2


def test_a_callback_that_raises_leaves_the_estimator_unchanged():
    model = regressor(3).fit(X, Y, graph=GRAPH)
    before = model.predict()
    keys = set(vars(model))
    with pytest.raises(RuntimeError, match="a callback raised"):
        model.fit(X[:, :2], -Y, graph=GRAPH, callbacks=[RaiseInRound(2)])
    assert (model.predict() == before).all() and set(vars(model)) == keys
    new = regressor()
    with pytest.raises(RuntimeError):
        new.fit(X, Y, graph=GRAPH, callbacks=[RaiseInRound(1)])
    assert not hasattr(new, "n_features_in_")
