"""The runner: every run once, and a failing run does not stop the others."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import runner
from benchmarks.__main__ import main
from benchmarks.display import Display
from benchmarks.report import all_tables
from benchmarks.store import Run, Store, written

ROOT = Path(__file__).parents[2]


class Quiet(Display):
    """Keeps what it would say."""

    def __init__(self):
        self.lines = []

    def say(self, text):
        self.lines.append(text)


def dies(run, threads, answer):
    """A process that goes down without a word."""
    os._exit(7)


def sleeps(run, threads, answer):
    """A process that does not come back."""
    time.sleep(600)


def outcomes(store):
    """Everything in the tables but what time it took."""
    return [table.markdown() for table in all_tables(store.results()) if table.title != "Cost"]


def test_a_plan_is_the_product_of_its_parts_and_names_what_it_skips(home):
    planned = runner.plan(["county", "avazu"], ["LightGBM", "EBBS", "GPBoost"], splits=[0, 2, 9])
    assert len(planned.runs) == 2 * (4 + 1) and {run.split for run in planned.runs} == {0, 2}
    assert (
        "is not there" in planned.skipped["avazu"]
        and "there are splits 0 to 2" in planned.skipped["split 9 of county"]
    )
    assert any(name.startswith("GPBoost") for name in planned.skipped)
    assert len(runner.plan(["county"], ["LightGBM"], configurations=1).runs) == 3
    with pytest.raises(ValueError, match="no method 'Oracle'"):
        runner.plan(["county"], ["Oracle"])


def test_a_missing_package_skips_the_method_by_name(home, monkeypatch):
    monkeypatch.setattr(
        "benchmarks.methods.find_spec", lambda module: None if module == "catboost" else object()
    )
    planned = runner.plan(["county"], ["CatBoost", "LightGBM"])
    assert planned.skipped == {"CatBoost": "catboost not installed"}
    assert {run.method for run in planned.runs} == {"LightGBM"}


def test_runs_are_measured_and_failures_are_stored_and_shown(home, tmp_path):
    planned = runner.plan(["county"], ["EBBS"], splits=[0])
    bad = Run("county", "EBBS", written({"nonsense": 1}), 0, 0)
    store, shown = Store(tmp_path / "runs.sqlite"), Quiet()
    assert runner.work(runner.Plan([bad, *planned.runs], {}), store, display=shown) == 1
    failed, done = sorted(store.results(), key=lambda result: result.status, reverse=True)
    assert failed.status == "failed" and "nonsense" in failed.error and failed.test is None
    assert done.measure == "RMSE" and 0 < done.test < 1 and done.seconds > 0 and done.memory_mb > 10
    assert (
        0 <= done.notes["coverage"] <= 1
        and done.curve["training"]
        and done.versions["ebboost"]
        and done.finished
    )
    assert any(
        line.split("] ")[-1].startswith("FAILED county EBBS split 0 nonsense=1")
        for line in shown.lines
    )
    assert any(table.title == "Failed runs" for table in all_tables(store.results()))
    again = Quiet()
    assert (
        runner.work(runner.Plan([bad], {}), store, display=again) == 0
        and "0 runs to do, 1 done before" in again.lines
    )
    assert runner.work(runner.Plan([bad], {}), store, retry=True, display=again) == 1


def test_failures_do_not_stop_later_runs(home, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runner, "_child", dies)
    arguments = [
        "--datasets",
        "county",
        "--methods",
        "EBBS",
        "--splits",
        "0",
        "--store",
        str(tmp_path / "runs.sqlite"),
    ]
    assert main(["run", *arguments]) == 0 and "1 runs failed" in capsys.readouterr().err
    assert main(["report", "--store", arguments[-1], "--out", str(tmp_path)]) == 0
    assert "exit code 7" in (tmp_path / "results.md").read_text()


def test_a_process_that_dies_is_a_failed_run(home, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "_child", dies)
    store = Store(tmp_path / "runs.sqlite")
    assert runner.work(runner.plan(["county"], ["EBBS"], splits=[0]), store, display=Quiet()) == 1
    assert store.results()[0].error == "the process ended with exit code 7"


def test_a_run_beyond_its_limit_is_stopped(home, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "_child", sleeps)
    store = Store(tmp_path / "runs.sqlite")
    assert (
        runner.work(
            runner.plan(["county"], ["EBBS"], splits=[0]), store, limit=0.1, display=Quiet()
        )
        == 1
    )
    assert store.results()[0].error == "the run was stopped after 0.1 s"


def rows(path):
    try:
        with sqlite3.connect(path) as file:
            return set(
                file.execute(
                    "SELECT dataset, method, configuration, split, finished, seconds FROM runs"
                )
            )
    except sqlite3.OperationalError:  # the table is not there yet
        return set()


def test_killed_three_times_the_results_equal_those_of_an_uninterrupted_run(home, tmp_path):
    options = ["--datasets", "county", "--methods", "LightGBM", "--splits", "0", "1"]
    planned = runner.plan(["county"], ["LightGBM"], splits=[0, 1])
    disturbed = tmp_path / "disturbed.sqlite"
    command = [sys.executable, "-m", "benchmarks", "run", *options]
    survived, chance = set(), random.Random(0)
    for _ in range(3):
        process = subprocess.Popen(
            [*command, "--store", str(disturbed)], cwd=ROOT, stderr=subprocess.DEVNULL
        )
        while rows(disturbed) == survived and process.poll() is None:
            time.sleep(0.02)
        time.sleep(chance.uniform(0.0, 0.2))
        process.send_signal(signal.SIGKILL)
        process.wait()
        now = rows(disturbed)
        assert survived < now, "a finished run is missing or was repeated"
        survived = now
    assert len(survived) < len(planned.runs), "it ended before it could be killed three times"
    shown, undisturbed = Quiet(), Store(tmp_path / "undisturbed.sqlite")
    assert runner.work(planned, Store(disturbed), jobs=2, display=shown) == 0
    left = len(planned.runs) - len(survived)
    assert f"{left} runs to do, {len(survived)} done before" in shown.lines
    assert survived < rows(disturbed) and len(rows(disturbed)) == len(planned.runs)
    assert runner.work(planned, undisturbed, jobs=2, display=Quiet()) == 0
    assert outcomes(Store(disturbed)) == outcomes(undisturbed)
