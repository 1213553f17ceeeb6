"""Tuning: the best trial is refitted, never worse than the defaults; poor trials stop."""

import sys
from functools import wraps

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

import ebboost as eb
from ebboost import GraphBlockFold, tune
from tests.model_selection.problems import problem as any_problem

optuna = pytest.importorskip("optuna")


def problem():
    return any_problem(150, neighbor_effect=0.3)


def small(kind=eb.EBBSRegressor, **changes):
    settings = {"n_estimators": 10, "n_jobs": 1, "learning_rate": 0.1, "n_folds": 1}
    settings |= {"selection": "rules"}
    return kind(**(settings | changes))


def search(model=None, *, n_trials=4, graph="problem", **changes):
    X, y, default_graph = problem()
    if isinstance(model, eb.EBBSClassifier):
        y = (y > 0).astype(int)
    graph = default_graph if graph == "problem" else graph
    options = {"random_state": 0, "verbose": 0} | changes
    return tune(small() if model is None else model, X, y, graph, n_trials=n_trials, **options)


@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
def test_the_best_trial_is_refitted_on_all_labelled_nodes(kind):
    X, y, graph = problem()
    y = y if kind is eb.EBBSRegressor else np.where(y > 0, "up", "down")
    m = small(kind, random_state=1)
    best = tune(m, X, y, graph, n_trials=4, random_state=0, verbose=0)
    assert isinstance(best, kind) and len(best.study_.trials) == 4
    by_hand = clone(m).set_params(**best.best_params_).fit(X, y, graph=graph)
    np.testing.assert_array_equal(best.predict(), by_hand.predict())
    assert (
        not hasattr(m, "study_") and m.get_params()["learning_rate"] == 0.1
    )  # the model itself is unchanged


def test_the_first_trial_is_the_model_unchanged_and_the_best_is_never_worse():
    X, y, graph = problem()
    val, train = np.arange(30), np.arange(30, 150)
    m = small(random_state=0, learning_rate=0.01)
    best = tune(
        m,
        X,
        y[train],
        graph,
        nodes=train,
        eval_set=(val, y[val]),
        n_trials=5,
        random_state=0,
        verbose=0,
    )
    unchanged = clone(m).fit(X, y[train], nodes=train, graph=graph, eval_set=(val, y[val]))
    first = best.study_.trials[0]
    assert first.params == {}
    assert first.value == min(unchanged.history_["validation"])
    assert min(best.history_["validation"]) == best.study_.best_value <= first.value
    assert best.best_params_  # ten rounds at 0.01 can be beaten


def test_if_nothing_is_better_the_model_stays_as_it_is():
    best = search(
        space={"learning_rate": lambda trial: trial.suggest_float("learning_rate", 1e-4, 2e-4)}
    )
    assert best.best_params_ == {}
    assert best.study_.best_trial.number == 0


def test_the_same_random_state_gives_the_same_search_and_model():
    first, second, other = (search(random_state=seed) for seed in (3, 3, 4))
    assert [trial.params for trial in first.study_.trials] == [
        trial.params for trial in second.study_.trials
    ]
    assert [trial.value for trial in first.study_.trials] == [
        trial.value for trial in second.study_.trials
    ]
    np.testing.assert_array_equal(first.predict(), second.predict())
    assert [trial.params for trial in first.study_.trials] != [
        trial.params for trial in other.study_.trials
    ]


def test_labels_of_other_nodes_are_not_used():
    X, y, graph = problem()
    known = np.arange(100)
    gaps = np.where(np.arange(150) < 100, y, np.nan)
    options = {"n_trials": 3, "random_state": 0, "verbose": 0}
    listed = tune(small(), X, y[known], graph, nodes=known, **options)
    with_gaps = tune(small(), X, gaps, graph, **options)
    np.testing.assert_array_equal(listed.predict(), with_gaps.predict())


def test_the_default_space_has_bounds_and_smooths_only_with_edges():
    best = search(n_trials=8)
    suggested = best.study_.trials[1:]
    assert all(0.02 <= trial.params["learning_rate"] <= 0.3 for trial in suggested)
    assert all(7 <= trial.params["num_leaves"] <= 63 for trial in suggested)
    assert all(
        ("lam" in trial.params) == (trial.params["smoothing"] == "laplacian") for trial in suggested
    )
    assert {trial.params["smoothing"] for trial in suggested} == {"laplacian", "none"}
    assert "smoothing" not in search(graph=None).study_.trials[1].params
    assert (
        "smoothing"
        not in search(graph=eb.Graph.from_edges([], [], n_nodes=150)).study_.trials[1].params
    )


def test_other_learners_and_what_else_the_model_wunchanged_stay():
    m = small(learner=Ridge(), smoothing=eb.Laplacian(2.0, method="chebyshev"), n_estimators=3)
    best = search(m, n_trials=6)
    assert "num_leaves" not in best.study_.trials[1].params
    assert isinstance(best.learner, Ridge)
    assert best.smoothing is None or best.smoothing.method == "chebyshev"
    m = small(learner=eb.LightGBM(max_depth=2))
    assert search(m).learner.max_depth == 2


@pytest.mark.parametrize("as_dict", [True, False])
def test_a_custom_space_is_searched(as_dict):
    space = {
        "learning_rate": lambda trial: trial.suggest_float("rate", 0.2, 0.9),
        "learner__num_leaves": lambda trial: trial.suggest_int("leaves", 2, 5),
    }
    m = small(learner=eb.LightGBM(), learning_rate=0.01)
    best = search(
        m,
        space=space
        if as_dict
        else lambda trial: {name: draw(trial) for name, draw in space.items()},
    )
    best_trial = best.study_.best_trial
    assert best_trial.number > 0  # ten rounds need a higher rate
    assert best.best_params_ == {
        "learning_rate": best_trial.params["rate"],
        "learner__num_leaves": best_trial.params["leaves"],
    }
    assert (
        best.learning_rate == best_trial.params["rate"]
        and best.learner.num_leaves == best_trial.params["leaves"]
    )


def test_pruned_trials_stop_during_a_fit():
    class AlwaysPrune(optuna.pruners.BasePruner):
        def prune(self, study, trial):
            return True

    study = optuna.create_study(pruner=AlwaysPrune(), sampler=optuna.samplers.RandomSampler(seed=0))
    best = search(n_trials=3, study=study)
    assert best.study_ is study
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "PRUNED", "PRUNED"]
    assert list(study.trials[0].intermediate_values) == [1, 2]  # 5 and 10 rounds at 0.1
    assert len(study.trials[1].intermediate_values) == 1
    assert best.best_params_ == {}


def test_the_median_pruner_stops_poor_trials_but_not_small_learning_rates():
    m = small(n_estimators=150, early_stopping=False)

    def last_of_eight(name, usual, last):
        space = {name: lambda trial: usual if trial.number < 7 else last}
        return search(m, n_trials=8, space=space, graph=None).study_.trials[7]

    hopeless = last_of_eight("penalty", 0.0, 1e6)
    assert hopeless.state.name == "PRUNED" and hopeless.last_step == 10
    slow = last_of_eight(
        "learning_rate", 0.1, 0.05
    )  # compared where it has the same rounds × rate as the others
    assert slow.state.name == "COMPLETE" and slow.last_step == 15


def test_folds_give_the_mean_of_their_losses():
    X, y, graph = problem()
    cv = [(np.arange(50, 150), np.arange(50)), (np.arange(100), np.arange(100, 150))]
    best = search(small(random_state=0), cv=cv, n_trials=2)
    losses = [
        min(
            small(random_state=0)
            .fit(X, y[train], nodes=train, graph=graph, eval_set=(test, y[test]))
            .history_["validation"]
        )
        for train, test in cv
    ]
    assert best.study_.trials[0].value == pytest.approx(np.mean(losses), rel=1e-12)


@pytest.mark.parametrize("cv", [3, GraphBlockFold(3, random_state=0)])
def test_integers_and_block_folds_are_accepted_as_cv(cv):
    assert len(search(small(eb.EBBSClassifier), cv=cv, n_trials=2).study_.trials) == 2


def test_with_few_labels_the_rounds_of_the_best_trial_are_used():
    X, y, graph = problem()
    few = np.where(np.arange(150) < 9, y, np.nan)
    best = tune(
        small(n_estimators=300, n_iter_no_change=5, learning_rate=0.5, n_folds="auto"),
        X,
        few,
        graph,
        n_trials=2,
        random_state=0,
        verbose=0,
    )
    assert best.best_params_["n_estimators"] == best.study_.best_trial.user_attrs["n_rounds"] < 300
    assert best.n_iter_ <= best.best_params_["n_estimators"]


def test_rare_classes_are_never_held_out_alone():
    X, y, graph = problem()
    y = np.digitize(y, [-4.0, 4.0])
    y[7], y[8] = 5, 6
    best = tune(
        small(eb.EBBSClassifier, n_estimators=3), X, y, graph, n_trials=2, random_state=0, verbose=0
    )
    assert best.classes_.tolist() == [0, 1, 2, 5, 6]


def test_a_study_can_be_continued():
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    search(n_trials=2, study=study)
    best = search(n_trials=2, study=study)
    assert [trial.params == {} for trial in study.trials] == [True, False, False, False]
    assert best.study_.best_value == min(trial.value for trial in study.trials)


def test_verbose_logs_a_line_for_every_trial(caplog):
    level = optuna.logging.get_verbosity()
    optuna.logging.enable_propagation()  # of 4.0, which has a handler of its own
    search(n_trials=2, verbose=1)
    lines = {record.message for record in caplog.records}
    assert sum("finished with value" in line for line in lines) == 2
    caplog.clear()
    search(n_trials=2, verbose=0)
    assert not caplog.records
    assert optuna.logging.get_verbosity() == level


def test_a_tuned_model_can_be_saved_and_loaded(tmp_path):
    best = search(n_trials=2)
    best.save(tmp_path / "m.ebb")
    np.testing.assert_allclose(eb.load(tmp_path / "m.ebb").predict(), best.predict())


def test_without_optuna_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"pip install optuna"):
        search()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_trials": 0}, "n_trials must be"),
        ({"cv": 3, "eval_set": ([0], [1.0])}, "cv and eval_set both"),
        ({"cv": 1}, "cv must be an integer >= 2"),
        ({"space": {}}, "space must be a function"),
        ({"space": {"penalty": 3}}, r"space\['penalty'\] must be a function of a trial"),
        ({"space": lambda _: {"no_such": 3}}, "space sets 'no_such', which is not a parameter"),
        ({"space": lambda _: {"learner__num_leaves": 3}}, "pass the part"),
        ({"space": lambda _: {"loss": "huber"}}, "cannot be compared"),
        ({"study": "maximise"}, "study must minimise"),
    ],
)
def test_invalid_arguments_raise_an_error(changes, message):
    if "study" in changes:
        changes = {"study": optuna.create_study(direction="maximize")}
    with pytest.raises(ValueError, match=message):
        search(small(n_estimators=1), **({"n_trials": 2} | changes))


def test_a_space_that_returns_no_dict_raises_an_error():
    with pytest.raises(TypeError, match="space must return a dict"):
        search(space=lambda _: None)


def test_other_estimators_raise_an_error():
    with pytest.raises(
        TypeError, match="model must be an EBBSRegressor or EBBSClassifier, got Ridge"
    ):
        search(Ridge())


def test_too_few_labels_to_hold_out_raise_an_error():
    with pytest.raises(ValueError, match="too few to hold a fifth out: pass eval_set"):
        tune(small(), [[0.0], [1.0]], [0.0, 1.0], verbose=0)


def test_trials_share_the_parameters_of_the_loss_that_are_estimated(monkeypatch):
    fit = eb.EBBSRegressor.fit
    deltas = []

    @wraps(fit)
    def noted(self, *arguments, **named):
        fit(self, *arguments, **named)
        deltas.append(self.loss_.delta)
        return self

    monkeypatch.setattr(eb.EBBSRegressor, "fit", noted)
    search(small(loss="huber", labels="none", random_state=0), n_trials=3)
    assert deltas[0] == deltas[1] == deltas[2]
