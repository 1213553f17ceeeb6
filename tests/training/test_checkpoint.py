"""Checkpoints: a fit that was interrupted and resumed equals the uninterrupted one."""

import errno
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import ebboost as eb
from ebboost.learners import TreeGrower
from ebboost.learners.lightgbm import LightGBMGrower
from tests.training.problems import (
    CASES,
    GRAPH,
    ROOT,
    RaiseInRound,
    X,
    Y,
    checkpoint_every,
    fingerprint,
    fit_case,
    interrupt_fit,
    regressor,
    resume_fit,
)


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_fit_equals_the_uninterrupted_one_bit_for_bit(case, tmp_path):
    checkpoint = checkpoint_every(5, tmp_path / "checkpoints", pickle=case == "scikit-learn")
    seen = []

    class Count(eb.Callback):
        def after_round(self, info):
            seen.append(info.round)

    expected = fit_case(case, callbacks=[Count()])
    with pytest.raises(RuntimeError, match="a callback raised"):  # in the last model
        fit_case(case, checkpoint=checkpoint, callbacks=[RaiseInRound(len(seen) - 2)])
    again = fit_case(case, checkpoint=checkpoint, resume=True)
    assert fingerprint(again) == fingerprint(expected)
    if case not in ("scikit-learn", "CatBoost"):  # no plain format; a number drawn for every model
        for name, model in (("one.ebb", expected), ("two.ebb", again)):
            model.history_.pop("seconds", None)
            model.save(tmp_path / name)
        assert (tmp_path / "one.ebb").read_bytes() == (tmp_path / "two.ebb").read_bytes()


@pytest.mark.skipif(os.name == "nt", reason="signals and limits differ")
def test_kills_full_disks_and_damaged_files_do_not_change_the_result():
    words = ["--fits", "6", "--cases", "field", "LightGBM drawing rows and columns", "--json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    process = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "faults.py"), *words],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert process.returncode == 0, process.stderr
    assert [fits for _, _, fits, _ in json.loads(process.stdout).values()] == [1] * 6


def test_checkpoints_do_not_change_the_model_and_the_newest_two_remain(tmp_path, uninterrupted):
    model = regressor().fit(X, Y, graph=GRAPH, checkpoint=checkpoint_every(3, tmp_path))
    assert fingerprint(model) == uninterrupted
    assert sorted(os.listdir(tmp_path)) == ["round-00000007.ckpt", "round-00000010.ckpt"]
    assert fingerprint(resume_fit(tmp_path)) == uninterrupted  # of a fit that has ended, too


def test_resuming_from_an_empty_folder_starts_from_the_beginning(tmp_path, uninterrupted):
    assert fingerprint(resume_fit(tmp_path / "new" / "folder")) == uninterrupted


def test_a_resumed_fit_without_random_state_uses_the_seed_of_the_first_run(tmp_path):
    seen = []

    class Watch(eb.Callback):
        def after_round(self, info):
            seen.append((info.round, info.training_loss))

    free = {
        "random_state": None,
        "learner": eb.LightGBM(7, colsample_bytree=0.4),
        "n_iter_no_change": 50,
    }
    with pytest.raises(RuntimeError):
        regressor(**free).fit(
            X,
            Y,
            graph=GRAPH,
            checkpoint=checkpoint_every(2, tmp_path),
            callbacks=[Watch(), RaiseInRound(7)],
        )
    model = resume_fit(tmp_path, regressor(**free))
    assert model.history_["training"][:7] == [loss for _, loss in seen]


def test_the_state_of_a_callback_is_restored(tmp_path):
    class Sum(eb.Callback):
        total = 0.0

        def after_round(self, info):
            self.total += info.training_loss

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
            X,
            Y,
            graph=GRAPH,
            checkpoint=checkpoint_every(2, tmp_path),
            callbacks=[RaiseInRound(7), Sum()],
        )
    again = Sum()
    model = resume_fit(tmp_path, callbacks=[again])
    assert again.total == pytest.approx(sum(model.history_["training"]), rel=1e-12)


def test_other_data_graphs_and_parameters_are_rejected_by_name(tmp_path):
    interrupt_fit(tmp_path)
    other = X.copy()
    other[5, 1] += 1e-9
    checkpoint = checkpoint_every(2, tmp_path)

    def check_rejected(match, model=None, table=X, labels=Y, graph=GRAPH):
        with pytest.raises(ValueError, match=match):
            (model or regressor()).fit(
                table, labels, graph=graph, checkpoint=checkpoint, resume=True
            )

    check_rejected("of another fit: X differs. Resume", table=other)
    check_rejected("fit: y differs", labels=Y + 1e-9)
    check_rejected("fit: graph differs", graph=eb.Graph.build_knn(X, k=5))
    check_rejected(r"fit: learning_rate was None and is 0.2\.", regressor(learning_rate=0.2))
    check_rejected(
        r"smoothing was Laplacian\(.*lam=1,.* and is Laplacian\(.*lam=2,",
        regressor(smoothing=eb.Laplacian(2.0, 2)),
    )
    check_rejected("n_jobs was 1 and is 2", regressor(n_jobs=2))
    check_rejected("random_state differs", regressor(random_state=1))
    assert len(os.listdir(tmp_path)) == 2


def test_equal_numbers_of_other_types_match_and_other_functions_do_not(tmp_path, uninterrupted):
    interrupt_fit(tmp_path / "number")
    assert (
        fingerprint(
            resume_fit(tmp_path / "number", regressor(np.int64(12), penalty=np.float32(0.0)))
        )
        == uninterrupted
    )
    interrupt_fit(tmp_path / "function", model=regressor(smoothing=eb.Kernel(lambda s: s)))
    with pytest.raises(ValueError, match="smoothing was"):
        resume_fit(tmp_path / "function", regressor(smoothing=eb.Kernel(lambda s: 2.0 * s)))
    resume_fit(tmp_path / "function", regressor(smoothing=eb.Kernel(lambda s: s)))


def test_checkpoints_of_an_earlier_fit_are_not_overwritten(tmp_path):
    names = interrupt_fit(tmp_path)
    with pytest.raises(ValueError, match=r"holds checkpoints of an earlier fit\. Pass resume=True"):
        regressor().fit(X, Y, graph=GRAPH, checkpoint=tmp_path)
    assert sorted(os.listdir(tmp_path)) == names


@pytest.mark.parametrize("both", [False, True])
def test_a_damaged_checkpoint_is_skipped_with_a_warning_at_the_call_of_fit(
    both, tmp_path, uninterrupted
):
    for name in interrupt_fit(tmp_path)[0 if both else 1 :]:
        content = bytearray((tmp_path / name).read_bytes())
        content[len(content) // 2] ^= 1
        (tmp_path / name).write_bytes(content)
    with pytest.warns(UserWarning, match="is damaged") as caught:
        model = regressor().fit(
            X, Y, graph=GRAPH, checkpoint=checkpoint_every(2, tmp_path), resume=True
        )
    assert fingerprint(model) == uninterrupted
    ends = ["an older one is used.", "the fit starts from the beginning."][: 1 + both]
    assert [str(warning.message).split("): ")[1] for warning in caught] == ends
    assert {warning.filename for warning in caught} == {__file__}


def test_a_checkpoint_is_a_zip_of_json_arrays_and_bytes(tmp_path):
    name = interrupt_fit(tmp_path)[-1]
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


def test_other_versions_of_packages_are_a_warning(tmp_path, monkeypatch):
    interrupt_fit(tmp_path)
    monkeypatch.setattr("ebboost.training.checkpoint.versions", lambda: {"lightgbm": "99.0"})
    with pytest.warns(UserWarning, match=r"was written with .*lightgbm .* \(now 99.0\)"):
        resume_fit(tmp_path)


def test_unusable_folders_and_settings_are_rejected_before_training(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for name in ("file", "file/below"):
        with pytest.raises(NotADirectoryError, match=r"checkpoint: .* is a file, or below one"):
            regressor().fit(X, Y, graph=GRAPH, checkpoint=tmp_path / name)
    monkeypatch.setattr("builtins.open", deny)
    with pytest.raises(PermissionError, match=r"checkpoint: .*closed cannot be written to"):
        regressor().fit(X, Y, graph=GRAPH, checkpoint=tmp_path / "closed")
    monkeypatch.undo()
    regressor(2).fit(X, Y, graph=GRAPH, checkpoint=tmp_path / "closed")  # it is not locked
    with pytest.raises(TypeError, match="checkpoint must be a folder"):
        regressor().fit(X, Y, graph=GRAPH, checkpoint=3)
    with pytest.raises(ValueError, match="resume=True needs"):
        regressor().fit(X, Y, graph=GRAPH, resume=True)
    for wrong in ({"every": 0}, {"every": True}, {"seconds": -1.0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} of Checkpoint must be"):
            eb.Checkpoint(tmp_path, **wrong)


def deny(path, *_, **__):
    raise PermissionError(13, "Permission denied", str(path))


@pytest.mark.skipif(os.name == "nt", reason="no such lock")
def test_two_fits_cannot_write_to_one_folder(tmp_path):
    class Second(eb.Callback):
        def after_round(self, info):
            with pytest.raises(ValueError, match="another fit is writing to"):
                resume_fit(tmp_path)

    regressor(2).fit(
        X, Y, graph=GRAPH, checkpoint=checkpoint_every(2, tmp_path), callbacks=[Second()]
    )


@pytest.mark.skipif(os.name == "nt", reason="no such lock")
def test_file_systems_without_locks_can_be_used(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    regressor(2).fit(X, Y, graph=GRAPH, checkpoint=tmp_path)
    assert os.listdir(tmp_path) == ["round-00000001.ckpt"]


def test_a_full_disk_leaves_the_fit_and_the_previous_checkpoint_intact(
    tmp_path, uninterrupted, monkeypatch
):
    real = os.fsync
    calls = []

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
        assert (
            fingerprint(
                regressor().fit(X, Y, graph=GRAPH, checkpoint=checkpoint_every(2, tmp_path))
            )
            == uninterrupted
        )
    monkeypatch.undo()
    assert len(os.listdir(tmp_path)) == 2
    assert fingerprint(resume_fit(tmp_path)) == uninterrupted


def test_pickle_must_be_allowed_for_writing_and_for_reading(tmp_path):
    def model():
        return regressor(4, learner=Ridge())

    with pytest.raises(
        ValueError, match=r"only pickle can store.*eb.Checkpoint\(folder, pickle=True\)"
    ):
        model().fit(X, Y, graph=GRAPH, checkpoint=tmp_path)
    model().fit(X, Y, graph=GRAPH, checkpoint=checkpoint_every(2, tmp_path, pickle=True))
    with pytest.raises(ValueError, match="holds a pickle"):
        resume_fit(tmp_path, model())


@pytest.mark.parametrize(
    ("learner", "name"),
    [
        (eb.LightGBM(params={"data_sample_strategy": "goss"}), "data_sample_strategy=goss"),
        (eb.LightGBM(subsample=0.5, params={"bagging_freq": 3}), "bagging_freq=3"),
    ],
    ids=["goss", "bagging"],
)
def test_random_draws_that_cannot_be_repeated_are_rejected_before_the_first_round(
    learner, name, tmp_path
):
    with pytest.raises(ValueError, match=f"checkpoint: the random draws of .* with {name}"):
        regressor(learner=learner).fit(X, Y, graph=GRAPH, checkpoint=tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_learner_without_state_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(LightGBMGrower, "state", TreeGrower.state)
    with pytest.raises(ValueError, match=r"LightGBMGrower has no state\(\)"):
        regressor().fit(X, Y, graph=GRAPH, checkpoint=tmp_path)


@pytest.mark.parametrize(
    "callbacks", [RaiseInRound(7), iter([RaiseInRound(7)])], ids=["one alone", "an iterator"]
)
def test_callbacks_may_be_one_callback_or_an_iterator(callbacks, tmp_path, uninterrupted):
    with pytest.raises(RuntimeError, match="a callback raised"):
        regressor().fit(
            X,
            Y,
            graph=GRAPH,
            checkpoint=checkpoint_every(2, tmp_path / "checkpoints"),
            callbacks=callbacks,
        )
    assert fingerprint(resume_fit(tmp_path / "checkpoints")) == uninterrupted


def test_objects_that_are_not_callbacks_are_rejected(tmp_path):
    with pytest.raises(TypeError, match=r"callbacks\[0\] must be an eb.Callback"):
        regressor().fit(X, Y, graph=GRAPH, checkpoint=tmp_path / "checkpoints", callbacks=[print])
