"""A fit that was disturbed, and resumed, ends as if nothing had happened."""

import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

import ebboost as eb
from ebboost.boosting.callbacks import Interrupt, unless_interrupted

ROOT = Path(__file__).parents[2]
FAULTS = runpy.run_path(str(ROOT / "tools" / "faults.py"))
CASES, fitted, fingerprint, Raising = (
    FAULTS[name] for name in ("CASES", "fitted", "fingerprint", "Raising")
)
ROUNDS = FAULTS["ROUNDS"]
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(90, 3))
Y = X[:, 0] + 0.1 * RANDOM.normal(size=90)
GRAPH = eb.Graph.build_knn(X, k=4)
SMOOTH = eb.Laplacian(1.0, 2)


def regressor(rounds=12, **changes):
    return eb.EBBSRegressor(
        rounds, **{"random_state": 0, "smoothing": SMOOTH, "labels": "none", **changes}
    )


def often(folder, every=2, **options):
    return eb.Checkpoint(folder, every=every, seconds=None, **options)


def left(folder, at=7, model=None, **options):
    """A fit whose callback raised: what it left in the folder."""
    with pytest.raises(RuntimeError, match="a callback raised"):
        (model or regressor()).fit(
            X, Y, graph=GRAPH, checkpoint=often(folder), callbacks=[Raising(at)], **options
        )
    return sorted(os.listdir(folder))


def resumed(folder, model=None, **options):
    return (model or regressor()).fit(
        X, Y, graph=GRAPH, checkpoint=often(folder), resume=True, **options
    )


@pytest.fixture(scope="module")
def whole():
    return fingerprint(regressor().fit(X, Y, graph=GRAPH))


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_fit_is_the_undisturbed_one_bit_for_bit(case, tmp_path):
    checkpoint = often(tmp_path / "kept", 5, pickle=case == "scikit-learn")
    undisturbed = fitted(case)
    rounds = len(undisturbed.history_["training"])
    with pytest.raises(RuntimeError, match="a callback raised"):
        fitted(case, checkpoint=checkpoint, callbacks=[Raising(rounds - 2)])
    again = fitted(case, checkpoint=checkpoint, resume=True)
    assert fingerprint(again) == fingerprint(undisturbed)
    if case not in ("scikit-learn", "CatBoost"):  # no plain format; a number drawn for every model
        for name, model in (("one.ebb", undisturbed), ("two.ebb", again)):
            model.history_.pop("seconds", None)
            model.save(tmp_path / name)
        assert (tmp_path / "one.ebb").read_bytes() == (tmp_path / "two.ebb").read_bytes()


@pytest.mark.skipif(os.name == "nt", reason="signals and limits differ")
def test_kill_9_full_disks_and_damage_leave_the_result_as_it_is():
    words = ["--fits", "6", "--cases", "field", "LightGBM drawing rows and columns", "--json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    found = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "faults.py"), *words],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert found.returncode == 0, found.stderr
    assert [fits for _, _, fits, _ in json.loads(found.stdout).values()] == [1] * 6


def test_a_checkpoint_does_not_change_the_model_and_at_most_two_are_kept(tmp_path, whole):
    model = regressor().fit(X, Y, graph=GRAPH, checkpoint=often(tmp_path, 3))
    assert fingerprint(model) == whole
    assert sorted(os.listdir(tmp_path)) == ["round-00000007.ckpt", "round-00000010.ckpt"]
    assert fingerprint(resumed(tmp_path)) == whole  # of a fit that has ended, too


def test_resuming_from_nothing_starts_from_the_beginning(tmp_path, whole):
    assert fingerprint(resumed(tmp_path / "new" / "folder")) == whole


def test_a_model_of_no_fixed_seed_goes_on_with_its_own(tmp_path):
    seen = []

    class Watch(eb.Callback):
        def after_round(self, progress):
            seen.append((progress.round, progress.training_loss))

    free = {
        "random_state": None,
        "learner": eb.LightGBM(7, colsample_bytree=0.4),
        "n_iter_no_change": 50,
    }
    with pytest.raises(RuntimeError):
        regressor(**free).fit(
            X, Y, graph=GRAPH, checkpoint=often(tmp_path), callbacks=[Watch(), Raising(7)]
        )
    model = resumed(tmp_path, regressor(**free))
    assert model.history_["training"][:7] == [loss for _, loss in seen]


def test_a_callback_with_a_state_goes_on_from_it(tmp_path):
    class Sum(eb.Callback):
        total = 0.0

        def after_round(self, progress):
            self.total += progress.training_loss

        def state(self):
            return {
                "total": self.total,
                "kinds": [None, "text", {"array": np.arange(3)}, b"bytes", np.float64(0.5)],
            }

        def restore(self, state):
            self.total = state["total"]
            assert (state["kinds"][2]["array"] == np.arange(3)).all() and state["kinds"][
                3
            ] == b"bytes"

    with pytest.raises(RuntimeError):
        regressor().fit(
            X, Y, graph=GRAPH, checkpoint=often(tmp_path), callbacks=[Raising(7), Sum()]
        )
    again = Sum()
    model = resumed(tmp_path, callbacks=[again])
    assert again.total == sum(model.history_["training"])


def test_other_data_graphs_and_parameters_are_refused_by_name(tmp_path):
    left(tmp_path)
    other = X.copy()
    other[5, 1] += 1e-9
    checkpoint = often(tmp_path)

    def refused(match, model=None, table=X, labels=Y, graph=GRAPH):
        with pytest.raises(ValueError, match=match):
            (model or regressor()).fit(
                table, labels, graph=graph, checkpoint=checkpoint, resume=True
            )

    refused("of another fit: X differs. Resume", table=other)
    refused("fit: y differs", labels=Y + 1e-9)
    refused("fit: graph differs", graph=eb.Graph.build_knn(X, k=5))
    refused(r"fit: learning_rate was None and is 0.2\.", regressor(learning_rate=0.2))
    refused(
        r"smoothing was Laplacian\(.*lam=1,.* and is Laplacian\(.*lam=2,",
        regressor(smoothing=eb.Laplacian(2.0, 2)),
    )
    refused("n_jobs was 1 and is 2", regressor(n_jobs=2))
    refused("random_state differs", regressor(random_state=1))
    assert len(os.listdir(tmp_path)) == 2


def test_the_same_number_of_another_type_is_the_same_and_another_function_is_another(
    tmp_path, whole
):
    left(tmp_path / "number")
    assert (
        fingerprint(resumed(tmp_path / "number", regressor(np.int64(12), penalty=np.float32(0.0))))
        == whole
    )
    left(tmp_path / "function", model=regressor(smoothing=eb.Kernel(lambda s: s)))
    with pytest.raises(ValueError, match="smoothing was"):
        resumed(tmp_path / "function", regressor(smoothing=eb.Kernel(lambda s: 2.0 * s)))
    resumed(tmp_path / "function", regressor(smoothing=eb.Kernel(lambda s: s)))


def test_an_earlier_fit_is_not_overwritten(tmp_path):
    kept = left(tmp_path)
    with pytest.raises(ValueError, match=r"holds checkpoints of an earlier fit\. Pass resume=True"):
        regressor().fit(X, Y, graph=GRAPH, checkpoint=tmp_path)
    assert sorted(os.listdir(tmp_path)) == kept


@pytest.mark.parametrize("both", [False, True])
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(both, tmp_path, whole):
    for name in left(tmp_path)[0 if both else 1 :]:
        content = bytearray((tmp_path / name).read_bytes())
        content[len(content) // 2] ^= 1
        (tmp_path / name).write_bytes(content)
    with pytest.warns(UserWarning, match="is damaged") as caught:
        assert fingerprint(resumed(tmp_path)) == whole
    ends = ["an older one is used.", "the fit starts from the beginning."][: 1 + both]
    assert [str(warning.message).split("): ")[1] for warning in caught] == ends
    assert {warning.filename for warning in caught} == {__file__}


def test_what_is_written_is_plain_and_whole(tmp_path):
    name = left(tmp_path)[-1]
    with zipfile.ZipFile(tmp_path / name) as file:
        kinds = {entry.rsplit(".", 1)[1] for entry in file.namelist()}
        manifest = json.loads(file.read("manifest.json"))
        for entry in file.namelist():
            if entry.endswith(".npy"):
                with file.open(entry) as array:
                    np.lib.format.read_array(array, allow_pickle=False)
    assert kinds == {"json", "npy", "bin"}
    assert {"format_version", "fingerprint", "versions", "sha256", "round"} <= set(manifest)
    assert manifest["versions"]["ebboost"] == eb.__version__


def test_other_versions_are_told(tmp_path, monkeypatch):
    left(tmp_path)
    monkeypatch.setattr("ebboost.training.checkpoint.versions", lambda: {"lightgbm": "99.0"})
    with pytest.warns(UserWarning, match=r"was written with .*lightgbm .* \(now 99.0\)"):
        resumed(tmp_path)


def test_folders_that_cannot_be_used_are_refused_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for place in ("file", "file/below"):
        with pytest.raises(NotADirectoryError, match=r"checkpoint: .* is a file, or below one"):
            regressor().fit(X, Y, graph=GRAPH, checkpoint=tmp_path / place)
    monkeypatch.setattr("builtins.open", denied)
    with pytest.raises(PermissionError, match=r"checkpoint: .*closed cannot be written to"):
        regressor().fit(X, Y, graph=GRAPH, checkpoint=tmp_path / "closed")
    monkeypatch.undo()
    with pytest.raises(TypeError, match="checkpoint must be a folder"):
        regressor().fit(X, Y, graph=GRAPH, checkpoint=3)
    with pytest.raises(ValueError, match="resume=True needs"):
        regressor().fit(X, Y, graph=GRAPH, resume=True)
    for wrong in ({"every": 0}, {"every": True}, {"seconds": -1.0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} of Checkpoint must be"):
            eb.Checkpoint(tmp_path, **wrong)


def denied(path, *_, **__):
    raise PermissionError(13, "Permission denied", str(path))


@pytest.mark.skipif(os.name == "nt", reason="no such lock")
def test_two_fits_do_not_share_a_folder(tmp_path):
    class Second(eb.Callback):
        def after_round(self, progress):
            with pytest.raises(ValueError, match="another fit is writing to"):
                resumed(tmp_path)

    regressor(2).fit(X, Y, graph=GRAPH, checkpoint=often(tmp_path), callbacks=[Second()])


def test_a_disk_that_fills_up_costs_no_fit_and_no_checkpoint(tmp_path, whole, monkeypatch):
    real, calls = os.fsync, []

    def full(handle):
        calls.append(handle)
        if len(calls) > 4:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr("os.fsync", full)
    with pytest.warns(
        UserWarning,
        match=r"could not be written .*No space left.*continues, the previous one is intact",
    ):
        assert fingerprint(regressor().fit(X, Y, graph=GRAPH, checkpoint=often(tmp_path))) == whole
    monkeypatch.undo()
    assert len(os.listdir(tmp_path)) == 2
    assert fingerprint(resumed(tmp_path)) == whole


def test_what_needs_pickle_must_be_allowed_when_written_and_when_read(tmp_path):
    from sklearn.linear_model import Ridge

    def model():
        return regressor(4, learner=Ridge())

    with pytest.raises(
        ValueError, match=r"only pickle can store.*eb.Checkpoint\(folder, pickle=True\)"
    ):
        model().fit(X, Y, graph=GRAPH, checkpoint=tmp_path)
    model().fit(X, Y, graph=GRAPH, checkpoint=often(tmp_path, pickle=True))
    with pytest.raises(ValueError, match="holds a pickle"):
        resumed(tmp_path, model())


@pytest.mark.parametrize(
    ("learner", "name"),
    [
        (eb.LightGBM(params={"data_sample_strategy": "goss"}), "data_sample_strategy=goss"),
        (eb.LightGBM(subsample=0.5, params={"bagging_freq": 3}), "bagging_freq=3"),
        (eb.XGBoost(params={"colsample_bynode": 0.5}), "colsample_bynode=0.5"),
    ],
    ids=["goss", "bagging", "bynode"],
)
def test_draws_that_cannot_be_repeated_are_refused_before_the_first_round(learner, name, tmp_path):
    with pytest.raises(ValueError, match=f"checkpoint: the random draws of .* with {name}"):
        regressor(learner=learner).fit(X, Y, graph=GRAPH, checkpoint=tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_learner_without_a_state_is_refused(tmp_path, monkeypatch):
    from ebboost.learners import TreeGrower
    from ebboost.learners.lightgbm import LightGBMGrower

    monkeypatch.setattr(LightGBMGrower, "state", TreeGrower.state)
    with pytest.raises(ValueError, match=r"LightGBMGrower has no state\(\)"):
        regressor().fit(X, Y, graph=GRAPH, checkpoint=tmp_path)


# ---------------------------------------------------------------------- Ctrl-C, and fits that raise


class CtrlC(eb.Callback):
    """Presses Ctrl-C after a round, as often as told."""

    def __init__(self, at, times=1):
        self.at, self.times = at, times

    def after_round(self, progress):
        if progress.round + 1 == self.at:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def _no_ctrl_c_before(monkeypatch):
    monkeypatch.setattr(Interrupt, "_last", -Interrupt.grace_seconds)


def test_ctrl_c_ends_with_a_model_after_the_round_and_can_be_resumed(tmp_path, whole):
    with pytest.warns(
        UserWarning, match=r"interrupted after round 5: .* resume=True continues from"
    ):
        model = regressor().fit(
            X, Y, graph=GRAPH, checkpoint=often(tmp_path, 100), callbacks=[CtrlC(5)]
        )
    assert len(model.history_["training"]) == 5 and model.stop_reason_ == "it was interrupted"
    assert model.predict().shape == (90,) and "it was interrupted" in model.summary()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        unless_interrupted(model)
    assert fingerprint(resumed(tmp_path)) == whole


def test_a_second_ctrl_c_raises_at_once_and_leaves_the_estimator_as_it_was():
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


def test_ctrl_c_during_the_race_ends_it_and_keeps_no_checkpoint(tmp_path, monkeypatch):
    asked = []
    real = eb.boosting.objective.Objective.curvature

    def counting(self, point):
        asked.append(0)
        if len(asked) == 8:
            signal.raise_signal(signal.SIGINT)
        return real(self, point)

    monkeypatch.setattr("ebboost.boosting.objective.Objective.curvature", counting)
    with pytest.warns(UserWarning, match="interrupted"):
        model = eb.EBBSRegressor(40, random_state=0).fit(X, Y, graph=GRAPH, checkpoint=tmp_path)
    assert len(asked) == 8 or model.n_iter_ <= 9
    assert np.isfinite(model.predict()).all() and os.listdir(tmp_path) == []


def test_a_handler_of_the_users_own_is_left_alone_and_threads_have_none():
    pressed = []
    before = signal.signal(signal.SIGINT, lambda *_: pressed.append(1))
    try:
        model = regressor(4).fit(X, Y, graph=GRAPH, callbacks=[CtrlC(2)])
    finally:
        signal.signal(signal.SIGINT, before)
    assert pressed and model.stop_reason_ != "it was interrupted"
    found = []
    thread = threading.Thread(target=lambda: found.append(regressor(2).fit(X, Y, graph=GRAPH)))
    thread.start()
    thread.join()
    assert found[0].n_iter_ <= 2


def test_a_callback_that_raises_leaves_the_estimator_as_it_was():
    model = regressor(3).fit(X, Y, graph=GRAPH)
    before, keys = model.predict(), set(vars(model))
    with pytest.raises(RuntimeError, match="a callback raised"):
        model.fit(X[:, :2], -Y, graph=GRAPH, callbacks=[Raising(2)])
    assert (model.predict() == before).all() and set(vars(model)) == keys
    new = regressor()
    with pytest.raises(RuntimeError):
        new.fit(X, Y, graph=GRAPH, callbacks=[Raising(1)])
    assert not hasattr(new, "n_features_in_")


@pytest.mark.parametrize(
    "given", [Raising(7), iter([Raising(7)])], ids=["one alone", "an iterator"]
)
def test_callbacks_may_be_given_as_without_a_checkpoint(given, tmp_path, whole):
    with pytest.raises(RuntimeError, match="a callback raised"):
        regressor().fit(X, Y, graph=GRAPH, checkpoint=often(tmp_path / "kept"), callbacks=given)
    assert fingerprint(resumed(tmp_path / "kept")) == whole


def test_what_is_no_callback_is_named_with_a_checkpoint_too(tmp_path):
    with pytest.raises(TypeError, match=r"callbacks\[0\] must be an eb.Callback"):
        regressor().fit(X, Y, graph=GRAPH, checkpoint=tmp_path / "kept", callbacks=[print])
