"""The file of runs."""

import doctest

import pytest

import benchmarks.store
from benchmarks.store import Result, Run, Store, written


def result(split=0, status="done", test=1.0, **more):
    run = Run("county", "CatBoost", written({"depth": 6}), split, split)
    return Result(run, status, "RMSE", 0.5, test, **more)


def test_stored_results_are_read_back(tmp_path):
    stored = result(
        seconds=1.5,
        memory_mb=20.0,
        notes={"rounds": 3},
        curve={"training": [1.0, 0.5]},
        versions={"a": "1"},
    )
    store = Store(tmp_path / "new" / "runs.sqlite")
    store.add(stored)
    assert Store(tmp_path / "new" / "runs.sqlite").results() == [stored]
    assert store.results("avazu") == [] and store.results("county", "CatBoost") == [stored]


def test_a_configuration_is_the_same_in_any_order():
    assert written({"a": 1, "b": 2}) == written({"b": 2, "a": 1})


def test_failed_runs_count_as_finished_unless_retried(tmp_path):
    store = Store(tmp_path / "runs.sqlite")
    store.add(result(0))
    store.add(result(1, "failed"))
    assert {run.split for run in store.ended()} == {0, 1}
    assert {run.split for run in store.ended(failed_too=False)} == {0}


def test_merging_adds_new_runs_and_replaces_failed_ones_only(tmp_path):
    ours, theirs = Store(tmp_path / "ours.sqlite"), Store(tmp_path / "theirs.sqlite")
    ours.add(result(0, test=1.0))
    ours.add(result(1, "failed"))
    theirs.add(result(0, test=9.0))
    theirs.add(result(1, test=2.0))
    theirs.add(result(2, "failed"))
    assert ours.merge([tmp_path / "theirs.sqlite"]) == 2
    assert [(r.run.split, r.status, r.test) for r in ours.results()][:2] == [
        (0, "done", 1.0),
        (1, "done", 2.0),
    ]
    assert ours.merge([tmp_path / "theirs.sqlite"]) == 0


def test_files_that_are_not_a_store_are_rejected_by_name(tmp_path):
    (tmp_path / "notes.txt").write_text(
        "not a database, but long enough to look like something else" * 50
    )
    with pytest.raises(ValueError, match=r"notes\.txt is not a file of benchmark runs"):
        Store(tmp_path / "notes.txt")
    with pytest.raises(FileNotFoundError, match=r"no file .*absent"):
        Store(tmp_path / "ours.sqlite").merge([tmp_path / "absent.sqlite"])


def test_the_docstring_example_runs():
    ran = doctest.testmod(benchmarks.store)
    assert ran.attempted and not ran.failed
