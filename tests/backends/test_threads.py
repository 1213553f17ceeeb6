"""Threads: no more than are ours, and one model used by many at once."""

import json
import os
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import joblib
import lightgbm
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import ebboost as eb
from ebboost.backends import threads as cores
from ebboost.backends import threads as thread_counts
from ebboost.learners import as_learner
from ebboost.learners import base as learners_base
from ebboost.propagation import allowed_threads
from tests.strategies import random_graph

N = 400
RNG = np.random.default_rng(0)
X, GRAPH = RNG.normal(size=(N, 3)), random_graph(N, 1200)
Y = X[:, 0] + 0.1 * RNG.normal(size=N)
NEW, NEW_GRAPH = RNG.normal(size=(150, 3)), random_graph(150, 400, seed=1)


def fitted(y=Y, **changes):
    parameters = {"n_estimators": 5, "random_state": 0, "n_jobs": 1, "labels": "none"}
    return eb.EBBSRegressor(**parameters | changes).fit(X, y, graph=GRAPH)


# ---------------------------------------------------------------------- how many


def test_usable_cores_are_those_of_the_process(monkeypatch):
    monkeypatch.setattr(
        cores, "threadpool_info", lambda: [{"user_api": "openmp", "num_threads": 64}]
    )
    monkeypatch.setattr(joblib, "cpu_count", lambda: 8)
    monkeypatch.setattr(cores, "physical_cores", lambda: 4)
    assert (cores.usable(), cores.usable(only_physical=True)) == (8, 4)


def test_where_physical_cores_are_not_known_logical_ones_are_counted(monkeypatch, recwarn):
    def count(only_physical_cores):
        warnings.warn("Could not find the number of physical cores", stacklevel=2)
        return 8

    monkeypatch.setattr(joblib, "cpu_count", count)
    assert cores.physical_cores.__wrapped__() == 8 and not recwarn.list


def test_limits_of_openmp_are_kept_and_those_of_blas_are_not_ours(monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda only_physical_cores=False: 8)
    pools = [{"user_api": "blas", "num_threads": 1}, {"user_api": "openmp", "num_threads": 3}]
    monkeypatch.setattr(cores, "threadpool_info", lambda: pools)
    assert cores.usable() == 3


def test_a_limit_set_with_threadpoolctl_holds_inside_it():
    with threadpool_limits(1):
        assert cores.usable() == 1


def test_a_worker_process_of_joblib_takes_its_share():
    assert joblib.Parallel(joblib.cpu_count())(
        joblib.delayed(cores.usable)() for _ in range(2)
    ) == [1, 1]


def test_a_worker_thread_of_joblib_takes_one(monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda only_physical_cores=False: 8)
    found = joblib.Parallel(2, backend="threading")(
        joblib.delayed(cores.usable)() for _ in range(2)
    )
    assert found == [1, 1]


@pytest.mark.parametrize(
    ("n_jobs", "entries", "expected"),
    [(None, 10, 1), (None, 10**9, 6), (-1, 10, 1), (-1, 350, 4), (-1, 10**9, 7), (3, 10, 3)],
)
def test_a_number_that_is_given_is_taken_and_small_tables_get_one(
    n_jobs, entries, expected, monkeypatch
):
    monkeypatch.setattr(cores, "usable", lambda only_physical=False: 6 if only_physical else 7)
    monkeypatch.setattr(thread_counts, "SINGLE_THREAD_ENTRIES", 100)
    monkeypatch.setattr(thread_counts, "ENTRIES_PER_THREAD", 100)
    seen = thread_counts.threads_for(
        n_jobs, type("T", (), {"values": np.broadcast_to(0.0, (entries, 1))})()
    )
    assert seen == expected


@pytest.mark.parametrize("learner", ["lightgbm", "xgboost", "catboost"])
def test_trees_of_small_tables_are_grown_with_one_thread(learner, monkeypatch):
    seen = []
    kind = type(as_learner(learner))
    start = kind.start

    def look(self, *arguments, **named):
        seen.append(named["n_jobs"])
        return start(self, *arguments, **named)

    monkeypatch.setattr(kind, "start", look)
    settings = {"learner": learner, "n_jobs": 2, "smoothing": eb.Laplacian(), "n_folds": 1}
    fitted(**settings)
    monkeypatch.setattr(thread_counts, "ENTRIES_PER_THREAD", 1)
    fitted(**settings)
    assert seen[:1] + seen[-1:] == [1, 2]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_trees_predict_with_as_many_threads_as_they_were_grown_with(n_jobs, monkeypatch):
    model, seen = fitted(n_jobs=n_jobs, learner=eb.LightGBM()), []
    predict = lightgbm.Booster.predict

    def look(self, *arguments, **named):
        seen.append(named["num_threads"])
        return predict(self, *arguments, **named)

    monkeypatch.setattr(lightgbm.Booster, "predict", look)
    model.predict(NEW, graph=NEW_GRAPH)  # few rows, which one thread predicts sooner
    monkeypatch.setattr(learners_base, "FEW_ROWS", 0)
    model.predict(NEW, graph=NEW_GRAPH)
    model.explanations([0])
    assert seen == [1, n_jobs, n_jobs]
    assert allowed_threads() == 1


@pytest.mark.parametrize("policy", [None, "ACTIVE"])
def test_threads_of_openmp_wait_without_spinning_unless_the_environment_says_otherwise(policy):
    environment = {name: text for name, text in os.environ.items() if name != "OMP_WAIT_POLICY"}
    if policy is not None:
        environment["OMP_WAIT_POLICY"] = policy
    code = "import sys, os, ebboost; assert 'lightgbm' not in sys.modules\n"
    code += "print(os.environ['OMP_WAIT_POLICY'])"
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == (policy or "PASSIVE")


# ---------------------------------------------------------------------- many at once


STRESS = Path(__file__).parents[2] / "tools" / "stress.py"


def test_the_stress_test_calls_every_public_method():
    tool = runpy.run_path(str(STRESS))
    table, labels, graph = tool["problem"](60)
    models = [tool["fit"](kind, table, labels, graph) for kind in ("lightgbm", "classes")]
    uses = [tool["all_uses"](model, table, graph) for model in models]
    for part, kind in [("graph", eb.Graph), ("predictor", eb.Predictor)]:
        assert {f"{part}.{name}" for name in tool["public"](kind)} <= uses[0].keys()
    for model, calls in zip(models, uses, strict=True):
        assert {f"model.{name}" for name in tool["public"](type(model))} <= calls.keys()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_threads_and_processes_that_share_a_model_compute_the_same():
    command = [sys.executable, STRESS, "--only", "threads", "fork", "spawn"]
    command += ["--nodes", "400", "--runs", "7"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    result = json.loads(done.stdout)
    assert [*result["threads"].values()] == [1] * 7
    assert [*result["fork"]] == [*result["spawn"]] and len(result["fork"]) == 4


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_fits_at_the_same_time_are_those_fitted_alone(backend):
    seeds = range(3)
    alone = [fitted(random_state=seed, n_folds=2).predict() for seed in seeds]
    together = joblib.Parallel(2, backend=backend)(
        joblib.delayed(fitted)(random_state=seed, n_folds=2) for seed in seeds
    )
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(other.predict(), one)
