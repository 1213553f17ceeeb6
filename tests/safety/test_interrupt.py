"""Ctrl-C at any moment of a fit: a complete model of what has been trained, or the exception."""

import os
import pickle
import signal
import threading
import time
import warnings

import numpy as np
import pytest

import ebboost as eb
from tests.safety.commands import finite, process, run, write_tables
from tests.safety.problems import CHEAP, FIELD, GRAPH, POINTS, TABLE, TRUTH, labels, regressor

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals differ")
KNOWN = np.isfinite(labels())
CLASSES = np.where(KNOWN, np.digitize(TRUTH, [-1.0, 1.0]).astype(object), None)
COUNTS = np.where(KNOWN, np.random.default_rng(0).poisson(np.exp(FIELD / 3)), np.nan)
SETTINGS = {"n_folds": 3, "random_state": 0, "n_jobs": 1}
FITS = {
    "numbers": lambda: eb.EBBSRegressor(**SETTINGS).fit(TABLE, labels(), graph=GRAPH),
    "classes": lambda: eb.EBBSClassifier(n_estimators=40, **SETTINGS).fit(
        TABLE, CLASSES, graph=GRAPH
    ),
    "counts": lambda: eb.EBBSRegressor(loss="negative_binomial", **SETTINGS).fit(
        TABLE, COUNTS, graph=GRAPH
    ),
    "coordinates": lambda: eb.EBBSRegressor(**SETTINGS).fit(TABLE, labels(), coordinates=POINTS),
}
PAUSE = 2.1  # sooner after another one, Ctrl-C ends what is running at once
last = -PAUSE


@pytest.fixture(autouse=True)
def _ctrl_c():
    """Ctrl-C as in a terminal, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    time.sleep(max(last + PAUSE - time.monotonic(), 0.0))
    yield
    signal.signal(signal.SIGINT, before)


def press():
    global last
    last = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)


def interrupted(fit, after):
    """What a fit gives in which Ctrl-C is pressed after so many seconds, and what it warns of."""
    timer = threading.Timer(after, press)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        timer.start()
        try:
            model = fit()
        except KeyboardInterrupt:
            model = None
        finally:
            timer.cancel()
    return model, any("fit was interrupted" in str(one.message) for one in caught)


def is_complete(model):
    """Whether predictions, intervals, the summary, copies and files of a model are right."""
    if hasattr(model, "predict_proba"):
        good = finite(model.predict_proba()) and model.predict(interval=0.9).contains.any(1).all()
    else:
        prediction, lower, upper = model.predict(interval=0.9)
        good = finite(prediction) and bool((lower <= upper).all())
        good = good and finite(model.predict_distribution().var())
    copied = pickle.loads(pickle.dumps(model))
    return good and model.summary() and np.array_equal(copied.predict(), model.predict())


@pytest.mark.parametrize(
    ("kind", "share"), [("numbers", 0.3), ("classes", 0.5), ("counts", 0.6), ("coordinates", 0.8)]
)
def test_ctrl_c_gives_a_complete_model_of_what_has_been_trained(kind, share):
    start = time.perf_counter()
    FITS[kind]()
    seconds = time.perf_counter() - start
    model, is_said = interrupted(FITS[kind], share * seconds)
    assert model is not None and is_complete(model)
    assert is_said == (model.stop_reason_ == "it was interrupted")


class AtRound(eb.Callback):
    """Presses Ctrl-C in a round of the fit."""

    def __init__(self, number):
        self.number = number
        self.n_rounds = 0

    def after_round(self, info):
        self.n_rounds += 1
        if self.n_rounds == self.number:
            press()


def test_ctrl_c_before_there_is_a_model_raises():
    model = regressor().fit(TABLE, labels(), graph=GRAPH)
    before = model.predict()
    with pytest.raises(KeyboardInterrupt):
        model.fit(TABLE, -labels(), graph=GRAPH, callbacks=[AtRound(1)])
    assert np.array_equal(model.predict(), before)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_models_that_are_complete_are_used_alone():
    one_member = {"learner": eb.LightGBM(), "labels": "none", "neighbor_features": None}
    settings = {**SETTINGS, **one_member, "spectral_features": None, "smoothing": None}
    whole = eb.EBBSRegressor(**settings).fit(TABLE, labels(), graph=GRAPH)
    counter = AtRound(0)
    eb.EBBSRegressor(**settings).fit(TABLE, labels(), graph=GRAPH, callbacks=[counter])
    last_fold = AtRound(counter.n_rounds - 3)
    with pytest.warns(UserWarning, match="interrupted: the model is the best so far, 2 models"):
        model = eb.EBBSRegressor(**settings).fit(
            TABLE, labels(), graph=GRAPH, callbacks=[last_fold]
        )
    assert model.rounds_ == whole.rounds_[:2] and is_complete(model)
    assert set(model.model_.unseen.rows) < set(whole.model_.unseen.rows)


def fit_in_a_loop():
    for _ in range(3):
        regressor().fit(TABLE, TRUTH, graph=GRAPH, callbacks=[AtRound(15)])


def test_a_second_ctrl_c_raises_at_once_and_loops_over_fits_end():
    with pytest.raises(KeyboardInterrupt):
        regressor().fit(TABLE, labels(), graph=GRAPH, callbacks=[AtRound(3), AtRound(3)])
    time.sleep(PAUSE)
    with pytest.warns(UserWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        fit_in_a_loop()


def test_a_thread_and_a_handler_of_the_user_are_left_alone():
    pressed = []
    signal.signal(signal.SIGINT, lambda *_: pressed.append(1))
    model = regressor().fit(TABLE, labels(), graph=GRAPH, callbacks=[AtRound(3)])
    assert pressed and model.stop_reason_ != "it was interrupted"
    models = []

    def fit():
        models.append(eb.EBBSRegressor(**CHEAP).fit(TABLE, TRUTH))

    thread = threading.Thread(target=fit)
    thread.start()
    thread.join()
    assert is_complete(models[0])


@pytest.mark.parametrize("command", ["check", "fit", "predict", "report", "explain"])
def test_ctrl_c_while_a_command_reads_changes_no_file(command, tmp_path, monkeypatch):
    def pressed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("ebboost.cli.problem.read_table", pressed)
    monkeypatch.setattr("ebboost.cli.commands.load", pressed)
    words = {"check": ("e.csv", "-t", "y"), "fit": ("e.csv", "-t", "y"), "explain": ("1",)}
    result = run(command, tmp_path / "n.csv", *words.get(command, ()), code=130)
    assert result.err == "ebboost: stopped; no file was changed." and not os.listdir(tmp_path)


@pytest.mark.parametrize("moment", ["import", "fit"])
def test_the_command_line_writes_what_it_has_and_says_so(moment, tmp_path):
    write_tables(tmp_path)
    words = ("fit", "nodes.csv", "edges.csv", "-t", "price", "-o", "m.ebb", "--folds", 8)
    with process(*words, cwd=tmp_path) as running:
        if moment == "import":
            time.sleep(0.2)
        while moment == "fit" and "1 of " not in running.stderr.readline():
            pass  # a line for each member
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)
    assert running.returncode == 130 and "Traceback" not in errors
    if moment == "import":
        assert errors == "ebboost: stopped; no file was changed.\n"
        assert not (tmp_path / "m.ebb").exists()
        return
    assert "stopped; m.ebb has the best model so far" in errors
    assert is_complete(eb.load(tmp_path / "m.ebb"))
