"""Cross-validation: labels are held out, the graph is not; scores as in scikit-learn."""

import warnings

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import (
    accuracy_score,
    log_loss,
    make_scorer,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
)
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
)
from sklearn.model_selection import cross_validate as sklearn_cross_validate
from sklearn.svm import LinearSVC

import ebboost as eb
from ebboost import GraphBlockFold, cross_validate
from tests.model_selection.problems import problem
from tests.strategies import random_graph


def small(kind=eb.EBBSRegressor, **changes):
    return kind(
        **({"n_estimators": 8, "random_state": 0, "n_jobs": 1, "learning_rate": 0.3} | changes)
    )


class Spy(RegressorMixin, BaseEstimator):
    """Notes what it was shown; predicts the mean."""

    seen: list = []  # noqa: RUF012 (shared by the clones)

    def fit(self, X, y, graph=None, nodes=None, sample_weight=None):
        self.seen.append((X, np.array(y), graph, np.array(nodes), sample_weight))
        self.mean_ = np.mean(y)
        return self

    def predict(self, X=None, nodes=None):
        return np.full(len(nodes), self.mean_)


@pytest.fixture
def spy():
    Spy.seen = []
    return Spy()


# ---------------------------------------------------------------------- labels are held out, the
# graph is not


def test_every_fold_is_fitted_on_all_rows_and_edges_but_only_its_labels(spy):
    X, y, graph = problem()
    cross_validate(spy, X, y, graph, cv=4, random_state=0)
    assert len(spy.seen) == 4
    for table, labels, fold_graph, nodes, _ in spy.seen:
        assert table is X and fold_graph is graph
        np.testing.assert_array_equal(labels, y[nodes])
        assert nodes.size == 90
    held = [np.setdiff1d(np.arange(120), nodes) for *_, nodes, _ in spy.seen]
    np.testing.assert_array_equal(np.sort(np.concatenate(held)), np.arange(120))


@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
def test_labels_of_a_fold_cannot_influence_its_predictions(kind):
    X, y, graph = problem()
    y = y if kind is eb.EBBSRegressor else (y > 0).astype(int)
    folds = list(KFold(3).split(X))
    before = cross_validate(small(kind), X, y, graph, cv=folds, return_predictions=True)[
        "predictions"
    ]
    train, test = folds[1]
    changed = y.copy()
    changed[test] = y[test][::-1] if kind is eb.EBBSRegressor else 1 - y[test]
    after = cross_validate(small(kind), X, changed, graph, cv=folds, return_predictions=True)[
        "predictions"
    ]
    np.testing.assert_array_equal(before[test], after[test])
    assert (before[train] != after[train]).any()  # where they are trained on they do


def test_predictions_are_those_of_a_fit_by_hand():
    X, y, graph = problem()
    folds = list(KFold(3, shuffle=True, random_state=1).split(X))
    result = cross_validate(small(), X, y, graph, cv=folds, return_predictions=True, scoring="r2")
    for number, (train, test) in enumerate(folds):
        by_hand = small().fit(X, y[train], nodes=train, graph=graph).predict(nodes=test)
        np.testing.assert_array_equal(result["predictions"][test], by_hand)
        assert result["test_score"][number] == r2_score(y[test], by_hand)


def test_nodes_without_a_label_are_neither_trained_on_nor_scored(spy):
    X, y, graph = problem()
    y[::3] = np.nan
    result = cross_validate(spy, X, y, graph, cv=KFold(4), return_predictions=True)
    np.testing.assert_array_equal(np.isnan(result["predictions"]), np.isnan(y))
    assert all(np.isfinite(labels).all() for _, labels, *_ in spy.seen)
    assert np.isfinite(result["test_r2"]).all()


def test_classes_without_a_label_are_none_in_the_predictions():
    X, y, graph = problem()
    y = np.where(y > 0, "up", "down").astype(object)
    y[:20] = None
    result = cross_validate(
        small(eb.EBBSClassifier), X, y, graph, cv=3, random_state=0, return_predictions=True
    )
    assert set(result["predictions"][:20]) == {None}
    assert set(result["predictions"][20:]) <= {"up", "down"}


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, np.ndarray.tolist])
def test_dataframes_and_lists_score_as_arrays(table):
    X, y, graph = problem()
    expected = cross_validate(small(), X, y, graph, cv=KFold(3))
    result = cross_validate(small(), table(X), y.tolist(), graph, cv=KFold(3))
    np.testing.assert_array_equal(result["test_r2"], expected["test_r2"])


def test_weights_are_taken_at_the_rows_trained_on(spy):
    X, y, graph = problem()
    weight = np.arange(120.0)
    cross_validate(spy, X, y, graph, cv=3, random_state=0, fit_parameters={"sample_weight": weight})
    for *_, nodes, fold_weight in spy.seen:
        np.testing.assert_array_equal(fold_weight, weight[nodes])


# ---------------------------------------------------------------------- like scikit-learn


@pytest.mark.parametrize(
    ("model", "scoring"),
    [
        (
            lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1),
            ["r2", "neg_mean_absolute_error"],
        ),
        (
            lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1),
            ["roc_auc", "neg_log_loss", "f1"],
        ),
        (Ridge(), ["neg_root_mean_squared_error"]),
        (LogisticRegression(), {"auc": "roc_auc", "loss": "neg_log_loss"}),
        (LinearSVC(), ["roc_auc", "accuracy"]),
    ],
)
def test_without_a_graph_a_plain_estimator_scores_as_in_scikit_learn(model, scoring):
    X, y, _ = problem()
    if not isinstance(model, RegressorMixin):
        y = (y > 0).astype(int)
    cv = KFold(4, shuffle=True, random_state=0)
    ours = cross_validate(model, X, y, cv=cv, scoring=scoring)
    theirs = sklearn_cross_validate(model, X, y, cv=cv, scoring=scoring)
    assert set(ours) == set(theirs)
    for name in theirs:
        if name.startswith("test_"):
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-12)


def test_a_whole_number_means_the_same_folds_as_the_splitter():
    X, y, _ = problem()
    ours = cross_validate(Ridge(), X, y, cv=4, random_state=3)
    theirs = sklearn_cross_validate(
        Ridge(), X, y, cv=KFold(4, shuffle=True, random_state=3), scoring="r2"
    )
    np.testing.assert_allclose(ours["test_r2"], theirs["test_score"])
    classes = (y > 0).astype(int)
    ours = cross_validate(LogisticRegression(), X, classes, cv=4, random_state=3)
    cv = StratifiedKFold(4, shuffle=True, random_state=3)
    theirs = sklearn_cross_validate(LogisticRegression(), X, classes, cv=cv, scoring="accuracy")
    np.testing.assert_allclose(ours["test_accuracy"], theirs["test_score"])


def test_groups_stay_together(spy):
    X, y, graph = problem()
    y[5] = np.nan
    groups = np.arange(120) // 10
    cross_validate(spy, X, y, graph, cv=GroupKFold(4), groups=groups)
    for *_, nodes, _ in spy.seen:
        held = np.setdiff1d(np.flatnonzero(np.isfinite(y)), nodes)
        assert not set(groups[held]) & set(groups[nodes])


# ---------------------------------------------------------------------- scores


def test_scorers_of_every_kind_agree_with_the_metrics():
    X, y, graph = problem()
    y = (y > 0).astype(int)
    train, test = np.arange(80), np.arange(80, 120)
    scored_nodes = []

    def by_hand(estimator, nodes, truth):
        scored_nodes.append(nodes)
        return accuracy_score(truth[:10], estimator.predict(nodes[:10]))

    scoring = {
        "accuracy": "accuracy",
        "auc": "roc_auc",
        "loss": "neg_log_loss",
        "from_metric": make_scorer(accuracy_score),
        "own": by_hand,
    }
    result = cross_validate(
        small(eb.EBBSClassifier), X, y, graph, cv=[(train, test)], scoring=scoring
    )
    m = small(eb.EBBSClassifier).fit(X, y[train], nodes=train, graph=graph)
    predicted, probability = m.predict(nodes=test), m.predict_proba(nodes=test)
    assert (
        result["test_accuracy"] == result["test_from_metric"] == accuracy_score(y[test], predicted)
    )
    assert result["test_auc"] == roc_auc_score(y[test], probability[:, 1])
    assert result["test_loss"] == -log_loss(y[test], probability)
    assert result["test_own"] == accuracy_score(y[test][:10], predicted[:10])
    np.testing.assert_array_equal(scored_nodes[0], test)


def test_a_single_scorer_is_also_the_score_and_the_default_is_two():
    X, y, _ = problem()
    single = cross_validate(Ridge(), X, y, cv=3, scoring="r2", random_state=0)
    assert set(single) == {"fit_time", "score_time", "test_r2", "test_score"}
    own = cross_validate(Ridge(), X, y, cv=3, scoring=make_scorer(r2_score), random_state=0)
    assert set(own) == {"fit_time", "score_time", "test_score"}
    np.testing.assert_array_equal(single["test_score"], own["test_score"])
    usual = cross_validate(Ridge(), X, y, cv=3, random_state=0)
    np.testing.assert_array_equal(usual["test_r2"], single["test_score"])
    assert (usual["test_neg_root_mean_squared_error"] < 0).all()
    assert "test_neg_log_loss" not in cross_validate(LinearSVC(), X, (y > 0).astype(int), cv=3)


def test_a_class_that_a_fold_was_not_trained_on_has_probability_zero():
    X, y, graph = problem()
    y = np.digitize(y, [-1.0, 1.0])
    train = np.flatnonzero(y != 1)[:50]
    test = np.setdiff1d(np.arange(120), train)
    result = cross_validate(
        small(eb.EBBSClassifier),
        X,
        y,
        graph,
        cv=[(train, test)],
        scoring={
            "loss": "neg_log_loss",
            "zero": lambda m, nodes, _: float(np.abs(m.predict_proba(nodes)[:, 1]).max()),
        },
    )
    assert result["test_zero"] == 0.0
    assert np.isfinite(result["test_loss"]).all()


def test_log_loss_of_a_fold_that_lacks_a_class():
    X, y, graph = problem()
    y = np.digitize(y, [-1.0, 1.0])
    test = np.flatnonzero(y != 1)[:20]
    train = np.setdiff1d(np.arange(120), test)
    result = cross_validate(small(eb.EBBSClassifier), X, y, graph, cv=[(train, test)])
    m = small(eb.EBBSClassifier).fit(X, y[train], nodes=train, graph=graph)
    assert result["test_neg_log_loss"] == -log_loss(
        y[test], m.predict_proba(nodes=test), labels=[0, 1, 2]
    )


def test_verbose_writes_a_line_for_every_fold(capsys):
    X, y, _ = problem()
    cross_validate(Ridge(), X, y, cv=3, scoring="r2", verbose=1)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("fold 2/3  r2 0.")
    cross_validate(Ridge(), X, y, cv=3)
    assert capsys.readouterr().err == ""


# ---------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cv": 1}, "cv must be an integer >= 2"),
        ({"cv": True}, "cv must be an integer >= 2"),
        ({"cv": 121}, "cv=121 folds need at least one labelled node each, there are 120"),
        ({"cv": "five"}, "cv must be a number of folds"),
        ({"cv": 2.5}, "cv must be a number of folds"),
        ({"cv": []}, "cv has no fold"),
        ({"cv": [np.arange(120)]}, r"cv\[0\] must be a pair"),
        (
            {"cv": [([0, 1], [2]), ([0, 1], [1, 2])]},
            "Fold 1 of cv has 1 node.s., such as row 1, in both",
        ),
        ({"cv": [([0, 1], [500])]}, r"cv\[0\]\[1\] names row 500"),
        ({"cv": [([0, 1], [])]}, "Fold 0 of cv holds out no labelled node"),
        ({"cv": [([], [0])]}, "Fold 0 of cv trains on no labelled node"),
        ({"cv": GroupKFold(3)}, "needs groups: pass groups="),
        ({"cv": LeaveOneGroupOut()}, "needs groups: pass groups="),
        (
            {"cv": GroupKFold(3), "groups": [1, 2]},
            "groups must have an entry for each of the 120 rows",
        ),
        ({"cv": GroupKFold(3), "groups": np.zeros(120)}, "cannot split the 120 labelled nodes"),
        ({"cv": 3, "groups": np.zeros(120)}, "groups needs a grouped splitter"),
        (
            {"cv": RepeatedKFold(n_splits=3, n_repeats=2), "return_predictions": True},
            "needs each node held out once",
        ),
        ({"cv": GraphBlockFold(3), "graph": None}, "pass graph"),
        ({"scoring": "no such"}, "no such"),
        ({"scoring": mean_absolute_error}, "make_scorer"),
        ({"scoring": 3}, "scoring must be the name of a scorer"),
        ({"scoring": []}, "Empty list was given"),
        ({"scoring": {"a": 3}}, "or a dict of name to scorer, got"),
        ({"scoring": [make_scorer(r2_score)]}, "elements must be unique strings"),
        ({"scoring": ["r2", "r2"]}, "Duplicate elements were found"),
        ({"scoring": lambda *_: "good"}, "could not convert string to float"),
        (
            {"fit_parameters": {"eval_set": ([0], [1.0])}},
            "fit_parameters must not contain 'eval_set'",
        ),
        (
            {"fit_parameters": {"checkpoint": "folder"}},
            "fit_parameters must not contain 'checkpoint'",
        ),
        ({"y": np.full(120, np.nan)}, "No node is labelled"),
        ({"y": np.zeros(7)}, "y has 7 labels"),
        ({"graph": random_graph(5, 5)}, "graph has 5 nodes"),
    ],
)
def test_invalid_arguments_raise_an_error(changes, message):
    X, y, graph = problem()
    arguments = {"y": y, "graph": graph} | changes
    with pytest.raises(ValueError, match=message):
        cross_validate(small(n_estimators=1), X, arguments.pop("y"), **arguments)


def test_a_graph_for_an_estimator_without_one_raises_an_error():
    X, y, graph = problem()
    with pytest.raises(TypeError, match=r"Ridge\.fit takes no graph"):
        cross_validate(Ridge(), X, y, graph)


def test_an_error_names_its_fold():
    X, y, graph = problem()
    y = (y > 0).astype(int)
    one_class = np.flatnonzero(y == 1)
    cv = [(np.arange(80), np.arange(80, 120)), (one_class, np.flatnonzero(y == 0))]
    with pytest.raises(ValueError, match="only one class") as caught:
        cross_validate(small(eb.EBBSClassifier), X, y, graph, cv=cv)
    assert "fold 2 of 2" in caught.value.__notes__[0]


def test_a_new_region_is_harder_to_predict_than_gaps():
    rng = np.random.default_rng(0)
    points = rng.random((400, 2))
    y = np.sin(9 * points[:, 0]) * np.cos(9 * points[:, 1])
    graph = eb.Graph.build_knn(points, k=6)
    m = small(n_estimators=40)
    gaps = cross_validate(m, points, y, graph, cv=5, random_state=0)
    regions = cross_validate(m, points, y, graph, cv=GraphBlockFold(5, random_state=0))
    assert regions["test_r2"].mean() < gaps["test_r2"].mean() - 0.1


def test_test_sets_of_different_folds_may_overlap():
    X, y, _ = problem()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = cross_validate(Ridge(), X, y, cv=ShuffleSplit(4, random_state=0))
    assert result["test_r2"].shape == (4,)


def test_time_split_needs_the_time_and_passes_it_to_fit():
    X, y, graph = problem()
    time = np.arange(len(y)) // 10
    with pytest.raises(ValueError, match="pass time"):
        cross_validate(small(), X, y, graph, cv=eb.TimeSplit(2))
    options = {"cv": eb.TimeSplit(2), "time": time, "fit_parameters": {"causal": True}}
    result = cross_validate(small(), X, y, graph, **options, return_predictions=True)
    assert result["test_r2"].shape == (2,)
    assert np.isnan(result["predictions"][time < time.max() / 4]).all()
    ridge = cross_validate(Ridge(), X, y, cv=eb.TimeSplit(2), time=time)
    assert ridge["test_r2"].shape == (2,)
