"""Search for parameters: the value of a trial is the metric at held-out labels."""

import os
import signal

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold

import ebboost as eb
from tests.model_selection.problems import on_a_map, quick

optuna = pytest.importorskip("optuna")
X, Y, GRAPH = on_a_map()
LABELLED = np.where(np.arange(len(Y)) % 4, Y, np.nan)
TEST = np.arange(0, len(Y), 4)


def search(model=None, X=X, y=LABELLED, graph=GRAPH, **options):
    options = {"n_trials": 4, "random_state": 0, "verbose": 0} | options
    return eb.tune(quick() if model is None else model, X, y, graph, **options)


def rates(trial):
    return {"learning_rate": trial.suggest_float("rate", 0.01, 0.5)}


# ---------------------------------------------------------------------- what a trial is worth


@pytest.mark.parametrize("metric", ["rmse", "mae", "r2"])
def test_the_value_of_a_trial_is_the_metric_of_cross_validation(metric):
    cv = KFold(2, shuffle=True, random_state=0)
    tuned = search(metric=metric, space=rates, cv=cv, n_trials=3)
    assert tuned.study_.user_attrs["metric"] == metric
    for number, trial in enumerate(tuned.study_.trials):
        model = quick(learning_rate=trial.params.get("rate", 0.3))
        assert bool(trial.params) == bool(number)  # the first is the model as it is
        scores = eb.cross_validate(model, X, LABELLED, GRAPH, cv=cv, scoring=metric)["test_score"]
        assert trial.value == pytest.approx(scores.mean())
    values = [trial.value for trial in tuned.study_.trials]
    assert tuned.study_.best_value == (max(values) if metric == "r2" else min(values))


@pytest.mark.parametrize(
    ("model", "y", "metric"),
    [
        (quick(), Y, "rmse"),
        (quick(loss="poisson"), np.round(np.exp(Y)), "deviance"),
        (quick(eb.EBBSClassifier), (Y > 0).astype(int), "log_loss"),
    ],
)
def test_the_default_metric(model, y, metric):
    tuned = search(model, y=y, space=rates, n_trials=1, cv=2)
    assert tuned.study_.user_attrs["metric"] == metric
    assert tuned.best_params_ == {} and tuned.learning_rate == model.learning_rate


def test_the_result_is_the_model_with_the_best_parameters():
    poor = quick(learning_rate=0.01)
    tuned = search(poor, space=rates, n_trials=5)
    assert tuned.best_params_ == {"learning_rate": tuned.study_.best_trial.params["rate"]}
    assert poor.learning_rate == 0.01 < tuned.learning_rate
    own = quick(**tuned.best_params_).fit(X, LABELLED, graph=GRAPH)
    np.testing.assert_array_equal(tuned.predict(), own.predict())
    before = poor.fit(X, LABELLED, graph=GRAPH).score(None, Y[TEST], nodes=TEST)
    assert tuned.score(None, Y[TEST], nodes=TEST) > before


@pytest.mark.parametrize("learner", ["lightgbm", "xgboost", eb.RandomNetwork(16)])
def test_the_default_space_suits_the_learner(learner):
    if learner == "xgboost":
        pytest.importorskip("xgboost")
    model = quick(learner=learner, labels="auto", n_estimators=4)
    names = {name for trial in search(model, cv=2).study_.trials for name in trial.params}
    of_trees = {"lightgbm": {"num_leaves", "reg_lambda"}, "xgboost": {"min_child_weight"}}
    own = of_trees.get(learner, set()) if isinstance(learner, str) else set()
    assert own | {"smoothing", "neighbor_features"} <= names
    assert ("learning_rate" in names) == isinstance(learner, str)
    alone = search(model, graph=None, cv=2, n_trials=2).study_.trials[1].params
    assert "smoothing" not in alone


def test_poor_trials_stop_after_a_fold(capsys):
    def space(trial):
        number = trial.suggest_int("number", 0, 100)
        return (
            {"n_estimators": 1, "learning_rate": 0.01}
            if trial.number > 5
            else {"verbose": number * 0}
        )

    study = optuna.create_study(pruner=optuna.pruners.MedianPruner(n_startup_trials=2))
    trials = search(space=space, n_trials=8, study=study, cv=3, verbose=1).study_.trials
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * 6 + ["PRUNED"] * 2
    assert [len(trial.intermediate_values) for trial in trials[6:]] == [1, 1]
    assert ["stopped" in line for line in capsys.readouterr().err.splitlines()] == [False] * 6 + [
        True
    ] * 2


# ---------------------------------------------------------------------- budget


def test_the_search_is_fixed_by_its_seed():
    first, second = (search(space=rates).study_.trials for _ in range(2))
    assert [trial.value for trial in first] == [trial.value for trial in second]


def test_max_seconds_ends_the_search():
    tuned = search(n_trials=1_000, max_seconds=1e-6)
    assert len(tuned.study_.trials) < 2 and tuned.predict().shape == Y.shape


def test_a_study_is_continued():
    study = optuna.create_study()
    search(study=study, space=rates, n_trials=3)
    tuned = search(study=study, space=rates, n_trials=2)
    assert len(study.trials) == 5
    assert [bool(trial.params) for trial in study.trials] == [False, True, True, True, True]
    best = study.best_trial.params
    assert tuned.best_params_ == ({"learning_rate": best["rate"]} if best else {})


def test_ctrl_c_ends_the_search_with_the_best_so_far():
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def space(trial):
        if trial.number == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return rates(trial)

    tuned = search(space=space, n_trials=50)
    assert len(tuned.study_.trials) == 3 and tuned.predict().shape == Y.shape


def test_a_line_for_each_trial(capsys):
    search(space=rates, n_trials=2, verbose=1)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["trial 1", "trial 2"]
    assert all("rmse" in line for line in lines) and "rate=" in lines[1]


# ---------------------------------------------------------------------- arguments


def test_other_data_of_a_fit_are_passed_on():
    rng = np.random.default_rng(0)
    exposure = rng.uniform(1.0, 9.0, len(Y))
    counts = rng.poisson(exposure * np.exp(0.3 * X[:, 0])).astype(float)
    nodes = np.arange(0, len(Y), 2)
    data = {"exposure": exposure, "nodes": nodes, "coordinates": rng.random((len(Y), 2))}
    model = quick(loss="poisson")
    tuned = search(model, y=counts[nodes], graph=None, n_trials=1, **data)
    own = quick(loss="poisson").fit(X, counts[nodes], **data)
    np.testing.assert_array_equal(tuned.predict(), own.predict())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_trials": 0}, ValueError, "n_trials must be an integer >= 1"),
        ({"space": {"learning_rate": 0.1}}, TypeError, "space must be a function of a trial"),
        ({"metric": "accuracy"}, ValueError, "must be one of .*'rmse'"),
        (
            {"metric": "r2", "study": optuna.create_study()},
            ValueError,
            "maximize one value, the r2",
        ),
        ({"space": lambda trial: {"rate": trial.suggest_float("r", 0, 1)}}, ValueError, "'rate'"),
        ({"eval": 1}, TypeError, "eval"),
    ],
)
def test_wrong_arguments_are_named(options, error, message):
    with pytest.raises(error, match=message):
        search(**options)


def test_rows_in_another_order_are_rejected():
    ids = [f"n{i:03d}" for i in range(len(Y))]
    named = eb.Graph(GRAPH.adjacency, np.array(ids, dtype=object))
    frame, y = pd.DataFrame(X, index=ids), pd.Series(LABELLED, index=ids)
    offset = pd.Series(0.1 * Y, index=ids)
    search(X=frame, y=y, graph=named, offset=offset, n_trials=1)
    for wrong in ({"y": y.sample(frac=1.0)}, {"offset": offset.sample(frac=1.0), "y": y}):
        with pytest.raises(ValueError, match="another order"):
            search(X=frame, graph=named, n_trials=1, **wrong)
