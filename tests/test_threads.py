"""Threads: the same predictions with any number, no more than are ours, none lost in a fork."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import ebboost as eb
from ebboost.threads import max_threads

RNG = np.random.default_rng(0)
POINTS, X = RNG.random((300, 2)), RNG.normal(size=(300, 3))
GRAPH = eb.Graph.build_knn(POINTS, k=5)
Y = np.where(np.arange(300) % 3, X[:, 0] + np.sin(6.0 * POINTS[:, 0]), np.nan)
NEW, EDGES = X[:40] + 0.1, (np.arange(40), np.arange(40))


def fitted(kind=eb.EBBSRegressor, seed=0, y=Y, **changes):
    settings = {"n_estimators": 5, "n_folds": 3, "n_jobs": 1, "random_state": seed} | changes
    return kind(**settings).fit(X, y, graph=GRAPH)


# ---------------------------------------------------------------------- the same predictions


@pytest.mark.parametrize("learner", ["lightgbm", "xgboost"])
def test_predictions_do_not_depend_on_the_number_of_threads(learner):
    if learner == "xgboost":
        pytest.importorskip("xgboost")
    alone = fitted(learner=learner)
    for n_jobs in (3, None, -1):
        model = fitted(learner=learner, n_jobs=n_jobs)
        np.testing.assert_array_equal(model.predict(), alone.predict())
        expected = alone.predict(NEW, attach=EDGES)
        np.testing.assert_array_equal(model.predict(NEW, attach=EDGES), expected)


def test_probabilities_do_not_depend_on_the_number_of_threads():
    y = np.where(np.isnan(Y), None, np.where(Y > 0, "up", "down"))
    one, three = (fitted(eb.EBBSClassifier, y=y, n_jobs=n_jobs) for n_jobs in (1, 3))
    np.testing.assert_array_equal(one.predict_proba(), three.predict_proba())


@pytest.mark.parametrize("learner", ["lightgbm", "xgboost"])
def test_trees_of_several_threads_are_those_of_one(learner):
    if learner == "xgboost":
        pytest.importorskip("xgboost")
    n = 60_000 if learner == "lightgbm" else 20_000
    rng = np.random.default_rng(0)
    table = rng.normal(size=(n, 70 if learner == "lightgbm" else 30)).astype(np.float32)
    y = table[:, 0] * table[:, 1] + rng.normal(size=n)
    models = [
        eb.EBBSRegressor(4, early_stopping=False, n_jobs=n_jobs, learner=learner, random_state=0)
        for n_jobs in (1, 2)
    ]
    one, two = (model.fit(table, y).predict(table[:500]) for model in models)
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_fits_at_the_same_time_are_those_fitted_alone(backend):
    alone = [fitted(seed=seed).predict() for seed in range(3)]
    jobs = (joblib.delayed(fitted)(seed=seed, n_jobs=2) for seed in range(3))
    together = joblib.Parallel(2, backend=backend)(jobs)
    for one, model in zip(alone, together, strict=True):
        np.testing.assert_array_equal(model.predict(), one)


def test_one_model_is_used_by_many_threads_at_once():
    model = fitted(n_jobs=2)
    calls = [
        model.predict,
        lambda: model.predict(NEW, attach=EDGES),
        lambda: np.vstack(model.predict(interval=0.9)),
        lambda: model.explain([3])["contribution"].to_numpy(),
        lambda: model.predict(new_labels=([0, 3], [1.0, 2.0])),
    ]
    expected = [call() for call in calls]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: calls[number % 5](), range(40)))
    for number, result in enumerate(found):
        np.testing.assert_array_equal(result, expected[number % 5])


# ---------------------------------------------------------------------- how many


def test_a_number_that_is_given_is_taken_and_limits_of_others_hold():
    assert max_threads(1) == 1 and max_threads(2) == 2
    assert 1 <= max_threads(None) <= joblib.cpu_count()
    with threadpool_limits(1, user_api="openmp"):
        assert max_threads(-1) == 1


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_workers_of_joblib_take_their_share(backend):
    jobs = (joblib.delayed(max_threads)(-1) for _ in range(2))
    assert joblib.Parallel(joblib.cpu_count(), backend=backend)(jobs) == [1, 1]


def test_threads_wait_without_spinning_and_libraries_are_imported_when_used():
    code = "import sys, os, ebboost; print(os.environ['OMP_WAIT_POLICY'])\n"
    code += "print([name for name in ('lightgbm', 'xgboost', 'optuna') if name in sys.modules])"
    environment = {name: text for name, text in os.environ.items() if name != "OMP_WAIT_POLICY"}
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert printed.stdout.split() == ["PASSIVE", "[]"]


# ---------------------------------------------------------------------- forks

FORKED = """
import multiprocessing, sys, warnings
import numpy as np
import ebboost as eb
warnings.simplefilter("ignore", DeprecationWarning)  # of forks of processes with threads
rng = np.random.default_rng(0)
points, X = rng.random((300, 2)), rng.normal(size=(300, 3))
y = np.where(np.arange(300) % 3, X[:, 0] + points[:, 0], np.nan)
graph = eb.Graph.build_knn(points, k=5)
edges = (np.arange(280), np.arange(280))

def fit():
    return eb.EBBSRegressor(3, n_folds=2, n_jobs=2, learner=sys.argv[1], random_state=0).fit(
        X, y, graph=graph
    )

def use(model):
    again = fit().predict()
    return model.predict(X[:280] + 0.1, attach=edges), model.explain([3])["contribution"], again

model = fit()
expected = use(model)
def child(queue):
    queue.put(use(model))
context = multiprocessing.get_context("fork")
for _ in range(2):
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    found = queue.get(timeout=100)
    process.join(100)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("learner", ["lightgbm", "xgboost"])
def test_a_forked_process_fits_and_predicts_the_same_and_does_not_hang(learner):
    if learner == "xgboost":
        pytest.importorskip("xgboost")
    command = [sys.executable, "-c", FORKED, learner]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.stdout.strip() == "done", done.stderr
