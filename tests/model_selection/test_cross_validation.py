import warnings

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
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
from ebboost.model_selection.cross_validation import GraphBlockFold, cross_validate
from tests.strategies import graphs, random_graph


def small(kind=eb.EBBSRegressor, **changes):
    return kind(
        **({"n_estimators": 8, "random_state": 0, "n_jobs": 1, "learning_rate": 0.3} | changes)
    )


def problem(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    graph = random_graph(n, 3 * n, seed)
    y = 3 * X[:, 0] + (graph.adjacency @ X[:, 1]) + 0.2 * rng.normal(size=n)
    return X, y, graph


def grid(side=20):
    place = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
    return eb.Graph.build_radius(place, radius=1.0)


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


# ---------------------------------------------------------------------- labels are hidden, the graph is not


def test_every_fold_sees_the_whole_table_and_graph_and_only_its_own_labels(spy):
    X, y, graph = problem()
    cross_validate(spy, X, y, graph, cv=4, random_state=0)
    assert len(spy.seen) == 4
    for table, labels, given_graph, nodes, _ in spy.seen:
        assert table is X and given_graph is graph
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
    found = cross_validate(small(), X, y, graph, cv=folds, return_predictions=True, scoring="r2")
    for number, (train, test) in enumerate(folds):
        by_hand = small().fit(X, y[train], nodes=train, graph=graph).predict(nodes=test)
        np.testing.assert_array_equal(found["predictions"][test], by_hand)
        assert found["test_score"][number] == r2_score(y[test], by_hand)


def test_nodes_without_a_label_are_neither_trained_on_nor_scored(spy):
    X, y, graph = problem()
    y[::3] = np.nan
    found = cross_validate(spy, X, y, graph, cv=KFold(4), return_predictions=True)
    np.testing.assert_array_equal(np.isnan(found["predictions"]), np.isnan(y))
    assert all(np.isfinite(labels).all() for _, labels, *_ in spy.seen)
    assert np.isfinite(found["test_r2"]).all()


def test_classes_without_a_label_are_none_in_the_predictions():
    X, y, graph = problem()
    y = np.where(y > 0, "up", "down").astype(object)
    y[:20] = None
    found = cross_validate(
        small(eb.EBBSClassifier), X, y, graph, cv=3, random_state=0, return_predictions=True
    )
    assert set(found["predictions"][:20]) == {None}
    assert set(found["predictions"][20:]) <= {"up", "down"}


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, np.ndarray.tolist])
def test_tables_of_any_kind(table):
    X, y, graph = problem()
    expected = cross_validate(small(), X, y, graph, cv=KFold(3))
    found = cross_validate(small(), table(X), y.tolist(), graph, cv=KFold(3))
    np.testing.assert_array_equal(found["test_r2"], expected["test_r2"])


def test_weights_are_taken_at_the_rows_trained_on(spy):
    X, y, graph = problem()
    weight = np.arange(120.0)
    cross_validate(spy, X, y, graph, cv=3, random_state=0, fit_parameters={"sample_weight": weight})
    for *_, nodes, given_weight in spy.seen:
        np.testing.assert_array_equal(given_weight, weight[nodes])


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
    asked_for = []

    def by_hand(estimator, nodes, truth):
        asked_for.append(nodes)
        return accuracy_score(truth[:10], estimator.predict(nodes[:10]))

    scoring = {
        "accuracy": "accuracy",
        "auc": "roc_auc",
        "loss": "neg_log_loss",
        "made": make_scorer(accuracy_score),
        "own": by_hand,
    }
    found = cross_validate(
        small(eb.EBBSClassifier), X, y, graph, cv=[(train, test)], scoring=scoring
    )
    m = small(eb.EBBSClassifier).fit(X, y[train], nodes=train, graph=graph)
    predicted, probability = m.predict(nodes=test), m.predict_proba(nodes=test)
    assert found["test_accuracy"] == found["test_made"] == accuracy_score(y[test], predicted)
    assert found["test_auc"] == roc_auc_score(y[test], probability[:, 1])
    assert found["test_loss"] == -log_loss(y[test], probability)
    assert found["test_own"] == accuracy_score(y[test][:10], predicted[:10])
    np.testing.assert_array_equal(asked_for[0], test)


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
    found = cross_validate(
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
    assert found["test_zero"] == 0.0
    assert np.isfinite(found["test_loss"]).all()


def test_log_loss_of_a_fold_that_lacks_a_class():
    X, y, graph = problem()
    y = np.digitize(y, [-1.0, 1.0])
    test = np.flatnonzero(y != 1)[:20]
    train = np.setdiff1d(np.arange(120), test)
    found = cross_validate(small(eb.EBBSClassifier), X, y, graph, cv=[(train, test)])
    m = small(eb.EBBSClassifier).fit(X, y[train], nodes=train, graph=graph)
    assert found["test_neg_log_loss"] == -log_loss(
        y[test], m.predict_proba(nodes=test), labels=[0, 1, 2]
    )


def test_a_line_for_every_fold(capsys):
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
        ({"cv": 1}, "cv must be a whole number of at least 2"),
        ({"cv": True}, "cv must be a whole number of at least 2"),
        ({"cv": 121}, "cv=121 folds need at least a labelled node each, there are 120"),
        ({"cv": "five"}, "cv must be a number of folds"),
        ({"cv": 2.5}, "cv must be a number of folds"),
        ({"cv": []}, "cv holds no fold"),
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
        ({"cv": GroupKFold(3), "groups": [1, 2]}, "give the group of every row"),
        ({"cv": GroupKFold(3), "groups": np.zeros(120)}, "cannot split the 120 labelled nodes"),
        ({"cv": 3, "groups": np.zeros(120)}, "groups only means something to a grouped splitter"),
        (
            {"cv": RepeatedKFold(n_splits=3, n_repeats=2), "return_predictions": True},
            "needs each node held out once",
        ),
        ({"cv": GraphBlockFold(3), "graph": None}, "pass graph"),
        ({"scoring": "no such"}, "no such"),
        ({"scoring": mean_absolute_error}, "make_scorer"),
        ({"scoring": []}, "scoring must be"),
        ({"scoring": {"a": 3}}, r"scoring\['a'\] must be"),
        ({"scoring": [make_scorer(r2_score)]}, "use a dict"),
        ({"scoring": ["r2", "r2"]}, "use a dict"),
        ({"scoring": lambda *_: "good"}, "must return a number"),
        ({"fit_parameters": {"eval_set": ([0], [1.0])}}, "fit_parameters may not hold 'eval_set'"),
        ({"fit_parameters": {"checkpoint": "kept"}}, "fit_parameters may not hold 'checkpoint'"),
        ({"y": np.full(120, np.nan)}, "No node is labelled"),
        ({"y": np.zeros(7)}, "y has 7 labels"),
        ({"graph": random_graph(5, 5)}, "graph has 5 nodes"),
    ],
)
def test_mistakes_are_named(changes, message):
    X, y, graph = problem()
    given_arguments = {"y": y, "graph": graph} | changes
    with pytest.raises(ValueError, match=message):
        cross_validate(small(n_estimators=1), X, given_arguments.pop("y"), **given_arguments)


def test_an_estimator_without_a_graph_refuses_one():
    X, y, graph = problem()
    with pytest.raises(TypeError, match=r"Ridge\.fit takes no graph"):
        cross_validate(Ridge(), X, y, graph)


def test_an_error_says_which_fold_it_came_from():
    X, y, graph = problem()
    y = (y > 0).astype(int)
    one_class = np.flatnonzero(y == 1)
    cv = [(np.arange(80), np.arange(80, 120)), (one_class, np.flatnonzero(y == 0))]
    with pytest.raises(ValueError, match="only one class") as caught:
        cross_validate(small(eb.EBBSClassifier), X, y, graph, cv=cv)
    assert "fold 2 of 2" in caught.value.__notes__[0]


# ---------------------------------------------------------------------- blocks


@settings(max_examples=150, deadline=None)
@given(graphs(min_nodes=2, max_nodes=40), st.integers(2, 6), st.integers(0, 100), st.data())
def test_every_counted_node_is_held_out_once_and_folds_are_balanced(graph, n_splits, seed, data):
    n_splits = min(n_splits, graph.n_nodes)
    nodes = None
    if data.draw(st.booleans()):
        size = data.draw(st.integers(n_splits, graph.n_nodes))
        nodes = np.sort(np.random.default_rng(seed).permutation(graph.n_nodes)[:size])
    fold = GraphBlockFold(n_splits, random_state=seed)
    pairs = list(fold.split(graph, nodes))
    everyone = np.arange(graph.n_nodes) if nodes is None else nodes
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in pairs])), everyone)
    for train, test in pairs:
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), everyone)
    sizes = [test.size for _, test in pairs]
    assert max(sizes) - min(sizes) <= max(1.0, 0.1 * everyone.size / n_splits)
    np.testing.assert_array_equal(fold.blocks(graph, nodes), fold.blocks(graph, nodes))
    assert set(fold.blocks(graph, nodes)) <= set(range(n_splits))


@pytest.mark.parametrize("n_splits", [2, 5, 8])
def test_neighbours_of_a_node_are_mostly_in_its_block(n_splits):
    graph = grid(30)
    block = GraphBlockFold(n_splits, random_state=0).blocks(graph)
    edges = graph.adjacency.tocoo()
    assert (block[edges.coords[0]] == block[edges.coords[1]]).mean() > 0.85  # 1/n_splits at random


def test_blocks_of_a_path_are_stretches_of_it():
    path = eb.Graph.from_edges(np.arange(99), np.arange(1, 100))
    block = GraphBlockFold(4, random_state=1).blocks(path)
    assert (np.diff(block) != 0).sum() == 3
    np.testing.assert_array_equal(np.bincount(block), 25)


def test_small_components_stay_whole_and_are_dealt_to_all_folds():
    big = sparse.triu(grid(20).adjacency).coords
    pairs = np.arange(400, 440)  # twenty components of two nodes
    graph = eb.Graph.from_edges(
        [*big[0], *pairs[::2]], [*big[1], *pairs[1::2]], n_nodes=500
    )  # and 60 isolates
    block = GraphBlockFold(5, random_state=0).blocks(graph)
    np.testing.assert_array_equal(block[pairs[::2]], block[pairs[1::2]])
    np.testing.assert_array_equal(np.bincount(block[graph.isolates], minlength=5), 12)
    np.testing.assert_array_equal(np.bincount(block), 100)


def test_blocks_hold_as_many_labels_each_where_labels_crowd_together():
    graph = grid(20)
    labelled = np.arange(100)  # a quarter of the grid
    sizes = [test.size for _, test in GraphBlockFold(5, random_state=0).split(graph, labelled)]
    assert sizes == [20] * 5


def test_another_random_state_gives_other_blocks():
    graph = grid(20)
    first, second = (GraphBlockFold(5, random_state=seed).blocks(graph) for seed in (0, 1))
    assert (first != second).any()


def test_a_new_region_is_harder_to_predict_than_gaps():
    rng = np.random.default_rng(0)
    place = rng.random((400, 2))
    y = np.sin(9 * place[:, 0]) * np.cos(9 * place[:, 1])
    graph = eb.Graph.build_knn(place, k=6)
    m = small(n_estimators=40)
    gaps = cross_validate(m, place, y, graph, cv=5, random_state=0)
    regions = cross_validate(m, place, y, graph, cv=GraphBlockFold(5, random_state=0))
    assert regions["test_r2"].mean() < gaps["test_r2"].mean() - 0.1


def test_blocks_of_a_large_graph_are_cut_quickly():
    graph = random_graph(50_000, 100_000)  # thousands of components
    block = GraphBlockFold(10, random_state=0).blocks(graph)
    np.testing.assert_array_equal(np.bincount(block), 5000)


@pytest.mark.parametrize("n_splits", [1, 0, -1, 2.0, True, "2"])
def test_a_block_fold_needs_two_folds(n_splits):
    with pytest.raises(ValueError, match="n_splits must be a whole number of at least 2"):
        GraphBlockFold(n_splits)


def test_more_blocks_than_nodes_and_no_graph_at_all():
    with pytest.raises(ValueError, match="n_splits=9 folds need at least a node each, there are 4"):
        GraphBlockFold(9).blocks(random_graph(4, 3))
    with pytest.raises(TypeError, match="cuts an ebboost"):
        list(GraphBlockFold(2).split(np.eye(3)))


def test_test_sets_may_overlap_as_long_as_no_fold_trains_on_its_own():
    X, y, _ = problem()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = cross_validate(Ridge(), X, y, cv=ShuffleSplit(4, random_state=0))
    assert found["test_r2"].shape == (4,)
