"""Cross-validation: labels are hidden, rows and edges are not; metrics by name."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import (
    accuracy_score,
    log_loss,
    mean_absolute_error,
    mean_poisson_deviance,
    r2_score,
    root_mean_squared_error,
)
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold

import ebboost as eb
from tests.model_selection.problems import on_a_map, quick

X, Y, GRAPH = on_a_map()
N = len(Y)
FOLDS = list(KFold(3, shuffle=True, random_state=1).split(X))
CLASSES = np.where(Y > 0, "up", "down").astype(object)


def predictions(model, y, graph=GRAPH, **options):
    options = {"cv": FOLDS, "return_predictions": True} | options
    return eb.cross_validate(model, X, y, graph, **options)["predictions"]


# ---------------------------------------------------------------------- what a fold sees


def test_scores_and_predictions_are_those_of_fits_by_hand():
    scoring = ["r2", "rmse", "mae"]
    result = eb.cross_validate(
        quick(), X, Y, GRAPH, cv=FOLDS, scoring=scoring, return_predictions=True
    )
    for number, (train, test) in enumerate(FOLDS):
        own = quick().fit(X, Y[train], nodes=train, graph=GRAPH).predict(nodes=test)
        np.testing.assert_array_equal(result["predictions"][test], own)
        expected = [
            f(Y[test], own) for f in (r2_score, root_mean_squared_error, mean_absolute_error)
        ]
        found = [result[f"test_{name}"][number] for name in scoring]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
def test_labels_of_a_fold_do_not_change_its_predictions(kind):
    y = Y if kind is eb.EBBSRegressor else CLASSES
    train, test = FOLDS[1]
    changed = y.copy()
    changed[test] = y[test][::-1]
    before, after = (predictions(quick(kind), labels) for labels in (y, changed))
    np.testing.assert_array_equal(before[test], after[test])
    assert (before[train] != after[train]).any()  # which are trained on in other folds


def test_the_graph_helps_in_gaps_more_than_in_new_regions():
    blocks = eb.GraphBlockFold(4, buffer=2, random_state=0)
    gaps, regions, plain = (
        eb.cross_validate(quick(), X, Y, graph, cv=cv, scoring="r2", random_state=0)["test_score"]
        for graph, cv in ((GRAPH, 4), (GRAPH, blocks), (None, 4))
    )
    assert gaps.mean() > regions.mean() + 0.2
    assert gaps.mean() > plain.mean() + 0.2


def test_rows_without_a_label_are_not_scored():
    y = Y.copy()
    y[::3] = np.nan
    found = predictions(quick(), y, cv=4, random_state=0)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(y))
    classes = CLASSES.copy()
    classes[:20] = None
    found = predictions(quick(eb.EBBSClassifier), classes, cv=3, random_state=0)
    assert set(found[:20]) == {None} and set(found[20:]) == {"up", "down"}


def test_listed_labels_are_those_of_the_whole_column():
    known = np.arange(0, N, 2)
    y = np.full(N, np.nan)
    y[known] = Y[known]
    whole = predictions(quick(), y, cv=3, random_state=0)
    np.testing.assert_array_equal(
        predictions(quick(), Y[known], cv=3, random_state=0, nodes=known), whole
    )


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, np.ndarray.tolist])
def test_dataframes_and_lists_score_as_arrays(table):
    expected = eb.cross_validate(quick(), X, Y, GRAPH, cv=FOLDS)
    result = eb.cross_validate(quick(), table(X), Y.tolist(), GRAPH, cv=FOLDS)
    np.testing.assert_array_equal(result["test_r2"], expected["test_r2"])


# ---------------------------------------------------------------------- other data of a fit


def test_weights_count_in_training_and_in_scores():
    weight = np.random.default_rng(0).random(N) + 0.1
    weight[:10] = 0.0  # unlabelled
    train, test = np.arange(10, 90), np.arange(90, N)
    result = eb.cross_validate(quick(), X, Y, GRAPH, cv=[(train, test)], sample_weight=weight)
    own = quick().fit(X, Y[train], weight[train], nodes=train, graph=GRAPH).predict(nodes=test)
    assert result["test_rmse"] == pytest.approx(
        root_mean_squared_error(Y[test], own, sample_weight=weight[test])
    )
    assert predictions(quick(), Y, cv=3, sample_weight=weight)[:10] == pytest.approx(
        np.nan, nan_ok=True
    )


def test_exposures_are_those_of_all_rows():
    rng = np.random.default_rng(0)
    exposure = rng.uniform(0.5, 20.0, N)
    counts = rng.poisson(exposure * np.exp(0.3 * X[:, 0])).astype(float)
    model = quick(loss="poisson")
    train, test = FOLDS[0]
    result = eb.cross_validate(model, X, counts, GRAPH, cv=FOLDS[:1], exposure=exposure)
    fitted = quick(loss="poisson").fit(
        X, counts[train], nodes=train, graph=GRAPH, exposure=exposure
    )
    deviance = mean_poisson_deviance(counts[test], fitted.predict(nodes=test))
    assert result["test_deviance"][0] == pytest.approx(deviance)
    rate = counts[train].sum() / exposure[train].sum()
    constant = mean_poisson_deviance(counts[test], exposure[test] * rate)
    assert result["test_d2"][0] == pytest.approx(1.0 - deviance / constant, abs=0.05)


def test_coordinates_make_the_graph_of_every_fold_and_of_blocks():
    points = np.random.default_rng(0).random((N, 2))
    y = np.sin(7.0 * points[:, 0]) + np.cos(5.0 * points[:, 1])
    cv = eb.GraphBlockFold(3, random_state=0)
    data = {"coordinates": points, "cv": cv, "return_predictions": True}
    found = eb.cross_validate(quick(), X, y, **data)["predictions"]
    graph = quick().fit(X, y, coordinates=points).graph_
    for train, test in cv.split(graph):
        own = quick().fit(X, y[train], nodes=train, coordinates=points)
        np.testing.assert_array_equal(found[test], own.predict(nodes=test))


def test_groups_are_those_of_the_model_and_of_the_folds():
    groups = np.arange(N) // 8
    effect = np.random.default_rng(0).normal(size=N)[groups]
    y = X[:, 0] + 3.0 * effect
    shared = {"groups": groups, "scoring": "r2", "random_state": 0}
    known = eb.cross_validate(quick(), X, y, cv=4, **shared)["test_score"]
    fresh = eb.cross_validate(quick(), X, y, cv=GroupKFold(4), **shared)["test_score"]
    blocks = eb.cross_validate(quick(), X, y, cv=eb.GraphBlockFold(4), **shared)["test_score"]
    assert known.mean() > fresh.mean() + 0.3  # effects of groups that are held out are unknown
    assert known.mean() > blocks.mean() + 0.3


def test_times_of_a_fit_divide_the_folds():
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(year=np.arange(N) // 10 + 2000)
    result = eb.cross_validate(
        quick(), frame, Y, GRAPH, cv=eb.TimeSplit(3), time="year", return_estimator=True
    )
    for number, model in enumerate(result["estimator"]):
        trained = frame["year"].iloc[model.model_.labels.rows]
        train, _ = list(eb.TimeSplit(3).split(frame["year"]))[number]
        assert trained.max() == frame["year"].iloc[train].max()


# ---------------------------------------------------------------------- scores


def test_metrics_of_classes_agree_with_scikit_learn():
    names = {
        "accuracy": "accuracy",
        "log_loss": "log_loss",
        "own": lambda y, p: p[y == 1, 1].mean(),
    }
    train, test = FOLDS[0]
    model = quick(eb.EBBSClassifier)
    result = eb.cross_validate(model, X, CLASSES, GRAPH, cv=FOLDS[:1], scoring=names)
    fitted = quick(eb.EBBSClassifier).fit(X, CLASSES[train], nodes=train, graph=GRAPH)
    p = fitted.predict_proba(nodes=test)
    truth = CLASSES[test].astype(str)
    assert result["test_accuracy"][0] == accuracy_score(truth, fitted.predict(nodes=test))
    assert result["test_log_loss"][0] == pytest.approx(log_loss(truth, p))
    assert result["test_own"][0] == pytest.approx(p[truth == "up", 1].mean())


def test_a_class_that_a_fold_lacks_has_probability_zero():
    y = np.digitize(Y, [-1.0, 1.0])
    train = np.flatnonzero(y != 1)
    others, lacking = train[40:], np.flatnonzero(y == 1)
    cv = [(train[:40], np.concatenate([others, lacking])), (train[:40], others)]
    model = quick(eb.EBBSClassifier)
    both, known = eb.cross_validate(model, X, y, GRAPH, cv=cv, scoring=["accuracy", "log_loss"])[
        "test_accuracy"
    ]
    assert both == pytest.approx(known * others.size / (others.size + lacking.size))
    losses = eb.cross_validate(model, X, y, GRAPH, cv=cv, scoring="log_loss")["test_score"]
    assert losses[0] > 100.0 > losses[1]
    # A fold whose held-out labels lack a class is scored as any other.
    full = np.setdiff1d(np.arange(N), others)
    scored = eb.cross_validate(model, X, y, GRAPH, cv=[(full, others)])
    fitted = quick(eb.EBBSClassifier).fit(X, y[full], nodes=full, graph=GRAPH)
    expected = log_loss(y[others], fitted.predict_proba(nodes=others), labels=[0, 1, 2])
    assert scored["test_log_loss"][0] == pytest.approx(expected)


def test_names_of_the_scores():
    def keys(model, y, **options):
        found = eb.cross_validate(model, X, y, GRAPH, cv=FOLDS[:1], **options)
        return {name for name in found if name.startswith("test")}

    assert keys(quick(), Y) == {"test_r2", "test_rmse"}
    assert keys(quick(loss="poisson"), np.exp(Y)) == {"test_d2", "test_deviance"}
    assert keys(quick(eb.EBBSClassifier), CLASSES) == {"test_accuracy", "test_log_loss"}
    assert keys(quick(), Y, scoring="mae") == {"test_mae", "test_score"}
    assert keys(quick(), Y, scoring=mean_absolute_error) == {"test_score"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cv": 0}, "n_splits=0"),
        ({"cv": "five"}, "cv must be a number of folds, a splitter"),
        ({"cv": []}, "cv has no fold"),
        ({"cv": [(np.arange(5), np.arange(3, 9))]}, "fold 0, trains on 5 .* of different rows"),
        ({"cv": [(np.arange(5), [])]}, "holds out 0"),
        ({"cv": [(np.arange(5), [N])]}, f"cv, fold 0, names row {N}"),
        ({"cv": eb.TimeSplit(2)}, r"TimeSplit\(5, time=\.\.\.\)"),
        ({"cv": eb.GraphBlockFold(2), "graph": None}, r"GraphBlockFold\(5, graph=g\)"),
        ({"scoring": "accuracy"}, "scoring of a regressor must be one of .*'rmse'"),
        ({"scoring": "neg_root_mean_squared_error"}, "'rmse'"),
        ({"cv": RepeatedKFold(n_splits=2), "return_predictions": True}, "held out once"),
        ({"model": quick(learning_rate=7.0)}, "learning_rate"),
        ({"y": Y[:9]}, "y has 9 labels but X has"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    arguments = {"model": quick(), "X": X, "y": Y, "graph": GRAPH} | change
    with pytest.raises(ValueError, match=message):
        eb.cross_validate(**arguments)


def test_other_estimators_are_left_to_scikit_learn():
    with pytest.raises(TypeError, match=r"sklearn\.model_selection\.cross_validate"):
        eb.cross_validate(Ridge(), X, Y)


def test_an_error_names_its_fold():
    y = np.where(np.arange(N) < 80, "a", "b")
    cv = [(np.arange(0, N, 2), np.arange(1, N, 2)), (np.arange(80), np.arange(80, N))]
    with pytest.raises(ValueError, match="only one class") as caught:
        eb.cross_validate(quick(eb.EBBSClassifier), X, y, GRAPH, cv=cv)
    assert caught.value.__notes__ == ["In fold 2 of 2, with 80 labels."]


IDS = np.array([f"n{i:03d}" for i in range(N)], dtype=object)
NAMED = eb.Graph(GRAPH.adjacency, IDS)
FRAME = pd.DataFrame(X, index=IDS, columns=["a", "b", "c"])
LABELS = pd.Series(Y, index=IDS)


@pytest.mark.parametrize("argument", ["y", "sample_weight", "offset", "time", "coordinates"])
def test_rows_in_another_order_are_rejected(argument):
    data = {"y": LABELS, argument: LABELS.abs() if argument == "sample_weight" else LABELS}
    if argument == "coordinates":
        data[argument] = FRAME[["b", "c"]]

    def run():
        eb.cross_validate(
            quick(), FRAME, graph=None if argument == "coordinates" else NAMED, cv=2, **data
        )

    run()
    data[argument] = data[argument].sample(frac=1.0, random_state=1)
    with pytest.raises(ValueError, match="another order"):
        run()
