"""Early stopping, history, progress bar and callbacks of one's own."""

import io
import signal

import numpy as np
import pytest

import ebboost as eb
from ebboost.boosting import callbacks
from ebboost.boosting.callbacks import History, Interrupt, RoundInfo, StopBehind
from ebboost.boosting.iterate import Iterate
from tests.problems import fixed_regressor, neighbor_sums


def test_best_round_is_restored_on_validation_nodes():
    X, y, graph = neighbor_sums(n=400, n_labelled=400)
    train, held = np.arange(0, 200), np.arange(200, 400)
    m = fixed_regressor(
        n_estimators=400, early_stopping=True, n_iter_no_change=15, learning_rate=0.5
    )
    m.fit(X, y[train], nodes=train, graph=graph, eval_set=(held, y[held]))
    losses = np.array(m.history_["validation"])
    assert m.n_iter_ == losses.argmin() + 1
    assert losses.size == m.n_iter_ + 15
    assert 0.5 * np.mean((m.predict()[held] - y[held]) ** 2) == pytest.approx(losses.min())
    assert m.stop_reason_ == "the validation loss no longer improved"


def test_labels_are_held_out_when_no_eval_set_is_given():
    X, y, graph = neighbor_sums(n=400, n_labelled=400)
    assert (
        len(fixed_regressor(early_stopping=True).fit(X, y, graph=graph).history_["validation"]) > 0
    )
    assert fixed_regressor(early_stopping=False).fit(X, y, graph=graph).history_["validation"] == []
    few = np.where(np.arange(400) < 9, y, np.nan)
    assert (
        fixed_regressor(early_stopping=True).fit(X, few, graph=graph).history_["validation"] == []
    )


def test_callbacks_see_every_round_and_can_stop():
    X, y, graph = neighbor_sums()
    seen = []

    class Watch(eb.Callback):
        def after_round(self, progress):
            seen.append((progress.round, progress.training_loss, len(progress.model.weights)))
            return progress.round == 6

    m = fixed_regressor().fit(X, y, graph=graph, callbacks=[Watch()])
    assert [round_ for round_, _, _ in seen] == list(range(7))
    assert [loss for _, loss, _ in seen] == m.history_["training"]
    assert m.n_iter_ == seen[-1][2] == 7


def test_progress_bar_shows_round_losses_and_time():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    X, y, graph = neighbor_sums(n_labelled=200)
    for stream in (Terminal(), io.StringIO()):
        bar = eb.ProgressBar(every=0.0, stream=stream)
        fixed_regressor().fit(X, y, graph=graph, nodes=None, callbacks=[bar])
        text = stream.getvalue()
        assert "model 1 (as given, fold 1)  round 25  loss" in text
        assert text.endswith("s\n")
        assert ("\r" in text) == stream.isatty()


@pytest.mark.parametrize(("is_terminal", "rounds"), [(True, [3, 5]), (False, [5])])
def test_progress_is_written_now_and_then_and_at_the_end(is_terminal, rounds, monkeypatch):
    class Stream(io.StringIO):
        def isatty(self):
            return is_terminal

    ticks = iter([100.0, 100.05, 100.06, 100.15, 100.2, 106.0, 110.0])
    monkeypatch.setattr(callbacks.time, "perf_counter", lambda: next(ticks))
    stream = Stream()
    bar = eb.ProgressBar(every=0.1, stream=stream)
    bar.before_training(9)
    for number in range(5):
        bar.after_round(RoundInfo(number, 9, 1.0, None, None, 1.0, 1.0, "none"))
    bar.after_training(None)
    lines = stream.getvalue().replace("\r\033[K", "\n").split("\n")
    written = [line for line in lines if line]
    assert [int(line.split("round ")[1].split()[0]) for line in written] == [*rounds, 5]
    assert written[-1] == "model 1 (no graph, fold 1)  round 5  loss 1  10.0 s"


def test_a_round_has_the_candidate_and_the_fold_of_its_model():
    X, y, graph = neighbor_sums()
    seen = []

    class Watch(eb.Callback):
        def before_training(self, n_rounds):
            seen.append([])

        def after_round(self, info):
            seen[-1].append((info.candidate, info.fold, info.round))

    changes = {"n_estimators": 3, "early_stopping": True, "n_folds": 2, "labels": "auto"}
    model = fixed_regressor(**changes).fit(X, y, graph=graph, callbacks=[Watch()])
    assert [rounds[0] for rounds in seen[:2]] == [("propagation", 0, 0), ("propagation", 1, 0)]
    assert {rounds[0][0] for rounds in seen} == set(model.selection_["candidate"])
    bar = eb.ProgressBar(stream=io.StringIO())
    fixed_regressor(**changes).fit(X, y, graph=graph, callbacks=[bar])
    assert f"model {len(seen)} (" in bar.stream.getvalue()


def test_verbose_writes_to_standard_error(capsys):
    X, y, graph = neighbor_sums()
    fixed_regressor(verbose=1, early_stopping=True).fit(X, y, graph=graph)
    captured = capsys.readouterr()
    assert "validation" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("stopping", [eb.EarlyStopping(1), StopBehind(0.0, 1)])
def test_without_validation_nodes_all_rounds_are_trained(stopping):
    assert rounds_until_stopped(stopping, [None] * 10) is None
    last = Iterate(np.zeros((1, 1)), np.zeros((1, 1)))
    assert stopping.after_training(last) is last


def test_n_iter_no_change_must_be_a_positive_integer():
    for number in (0, 1.5):
        with pytest.raises(ValueError, match="n_iter_no_change"):
            eb.EarlyStopping(number)
    assert rounds_until_stopped(eb.EarlyStopping(1), [3.0, 2.0, 2.0, 1.0]) == 3


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_min_improvement_must_be_in_the_unit_interval(share):
    with pytest.raises(ValueError, match="min_improvement"):
        eb.EarlyStopping(5, min_improvement=share)


def rounds_until_stopped(stopping, losses):
    stopping.before_training(len(losses))
    for number, loss in enumerate(losses):
        if stopping.after_round(RoundInfo(number, len(losses), 0.0, loss, None, 1.0, 1.0)):
            return number + 1
    return None


def test_min_improvement_stops_slow_descent():
    falling = [0.99**t for t in range(30)]
    level = [falling[-1] * 0.9999**t for t in range(1, 100)]
    assert rounds_until_stopped(eb.EarlyStopping(10), falling + level) is None
    # Ten rounds at 1 % gain 9.6 %; at .01 %, .1 %: the stop comes once a percent needs more than
    # the last ten rounds.
    stopping = eb.EarlyStopping(10, min_improvement=0.01)
    assert rounds_until_stopped(stopping, falling + level) == 30 + 10
    assert stopping.reason == "the last 10 rounds lowered the validation loss by less than 1 %"
    stopping.before_training(10)  # another fit
    assert stopping.reason == eb.EarlyStopping.reason
    assert rounds_until_stopped(eb.EarlyStopping(10, min_improvement=0.01), falling) is None


def test_min_improvement_is_relative_to_the_best_loss():
    jumping = [-1.0, -0.5] * 20
    assert rounds_until_stopped(eb.EarlyStopping(10), jumping) == 11
    sinking = [-1.0 - 0.1 * t for t in range(40)]
    assert rounds_until_stopped(eb.EarlyStopping(10, min_improvement=0.01), sinking) is None


def test_a_validation_loss_that_is_never_a_number_is_reported_with_its_rounds():
    with pytest.raises(ValueError, match="was nan in each of the first 4 rounds"):
        rounds_until_stopped(eb.EarlyStopping(4), [float("nan")] * 9)
    assert rounds_until_stopped(eb.EarlyStopping(4), [float("nan")] * 3 + [1.0] * 5) == 8


def test_history_records_increasing_seconds():
    history = History()
    X, y, graph = neighbor_sums()
    fixed_regressor().fit(X, y, graph=graph, callbacks=[history])
    assert len(history.losses["seconds"]) == 25
    assert (np.diff(history.losses["seconds"]) > 0).all()


@pytest.mark.parametrize("before", [[], [100.0, 200.0, 250.0]])
def test_seconds_of_a_restored_history_count_those_before(before, monkeypatch):
    ticks = iter([7.0, 10.0])
    monkeypatch.setattr(callbacks.time, "perf_counter", lambda: next(ticks))
    history = History()
    history.before_training(10)
    history.restore({"losses": history.losses | {"seconds": list(before)}})
    history.after_round(RoundInfo(len(before), 10, 0.0, None, None, 1.0, 1.0))
    assert history.losses["seconds"] == [*before, sum(before[-1:]) + 3.0]


def test_a_model_stops_by_the_gain_of_its_last_rounds():
    losses = [1.0 - 0.01 * t for t in range(11)]  # .05 in five rounds, of the .5 that are missing
    behind = {gap: StopBehind(losses[-1] - gap, patience=5) for gap in (0.49, 0.51)}
    for gap, callback in behind.items():
        assert rounds_until_stopped(callback, losses) == (None if gap < 0.5 else 11)
    assert rounds_until_stopped(StopBehind(0.6, 2), [0.5] + [1.0] * 9) is None  # the first was best


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_interrupts_are_handled_only_where_nobody_else_does(handler):
    before = signal.signal(signal.SIGINT, handler)
    try:
        with Interrupt():
            is_own = signal.getsignal(signal.SIGINT) is not handler
            assert is_own == (handler is signal.default_int_handler)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_first_ctrl_c_ends_training_after_the_round_and_a_second_one_at_once(monkeypatch):
    now = 100.0
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: now)
    monkeypatch.setattr(Interrupt, "_last", -Interrupt.grace_seconds)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Interrupt(), pytest.raises(KeyboardInterrupt):  # there is no model yet
            signal.raise_signal(signal.SIGINT)
        now += 2.0 * Interrupt.grace_seconds
        with Interrupt() as first:
            first.has_model = True
            signal.raise_signal(signal.SIGINT)
            assert first.after_round(None)
            now += 2.0 * Interrupt.grace_seconds
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        now += 2.0 * Interrupt.grace_seconds
        with Interrupt() as later:  # another fit, long after
            later.has_model = True
            signal.raise_signal(signal.SIGINT)
            assert later.is_set
        with Interrupt() as soon:
            soon.has_model = True
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("final", "stops"), [(0.5, False), (0.99, True)])
def test_a_model_stops_only_where_it_cannot_reach_the_loss_of_another(final, stops):
    callback = StopBehind(loss=0.6, patience=5)
    callback.before_training(100)
    losses = final + (1.0 - final) * 0.9 ** np.arange(60)
    model = Iterate(np.zeros((1, 1)), np.zeros((1, 1)))
    infos = [RoundInfo(t, 100, 0.0, loss, model, 1.0, 1.0) for t, loss in enumerate(losses)]
    rounds = [info.round for info in infos if callback.after_round(info)]
    assert bool(rounds) == stops
    assert all(number >= 10 for number in rounds)  # not before two times the patience


def test_losses_reach_a_logger_with_rising_steps():
    X, y, graph = neighbor_sums(n_labelled=200)
    logged = []

    def log(metrics, step):
        logged.append((step, metrics))

    m = eb.EBBSRegressor(6, n_folds=2, selection="rules", random_state=0)
    m.fit(X, y, graph=graph, callbacks=[eb.LogMetrics(log, every=2)])
    assert [step for step, _ in logged] == [0, 2, 4, 6, 8, 10]
    assert [list(metrics) for _, metrics in logged] == [
        [f"model_{number}/training", f"model_{number}/validation"] for number in (1, 1, 1, 2, 2, 2)
    ]
    assert logged[1][1]["model_1/training"] == m.evals_result_["training"]["loss"][2]
    assert logged[1][1]["model_1/validation"] == m.evals_result_["validation"]["loss"][2]
    with pytest.raises(TypeError, match="log must be called as log"):
        eb.LogMetrics("mlflow")
    for every in (0, 0.5):
        with pytest.raises(ValueError, match="every must be an integer >= 1"):
            eb.LogMetrics(log, every)


def test_results_have_the_names_and_the_layout_of_lightgbm():
    X, y, graph = neighbor_sums(n_labelled=200)
    m = eb.EBBSRegressor(5, n_folds=1, selection="rules", eval_metric="mae", random_state=0)
    m.fit(X, y, graph=graph)
    assert m.evals_result_["training"]["loss"] == m.history_["training"]
    assert m.evals_result_["validation"]["mae"] == m.history_["validation"]
    assert m.best_iteration_ == m.n_iter_


def test_models_and_the_selection_are_logged_and_silent_without_a_handler(caplog, capfd):
    X, y, graph = neighbor_sums(n_labelled=200)
    fast = {"n_folds": 1, "selection": "rules", "random_state": 0}
    eb.EBBSRegressor(3, **fast).fit(X, y, graph=graph)
    assert caplog.records == [] and capfd.readouterr() == ("", "")
    with caplog.at_level("INFO", logger="ebboost"):
        m = eb.EBBSRegressor(3, **fast).fit(X, y, graph=graph)
    model, selected = (record.getMessage() for record in caplog.records)
    assert model.startswith(f"model {m.best_candidate_}, fold 1: 3 rounds in ")
    assert selected == f"EBBSRegressor: selected {m.best_candidate_}"
