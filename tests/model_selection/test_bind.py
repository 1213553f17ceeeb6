"""Tools of scikit-learn on an estimator that carries its graph."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingRegressor
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ebboost as eb
from tests.model_selection.problems import on_a_map, quick

VALUES, Y, GRAPH = on_a_map(240)
FRAME = pd.DataFrame(VALUES, columns=["a", "b", "c"])
TRAIN, TEST = np.arange(160), np.arange(160, 240)
CLASSES = np.where(Y > 0, "up", "down")


@pytest.fixture(scope="module")
def fitted():
    bound = eb.bind(quick(), FRAME, GRAPH)
    return bound.fit(bound.X.iloc[TRAIN], Y[TRAIN])


def test_predictions_are_those_of_the_model_with_its_graph(fitted):
    model = quick().fit(FRAME, Y[TRAIN], nodes=TRAIN, graph=GRAPH)
    np.testing.assert_array_equal(fitted.predict(fitted.X), model.predict())
    shuffled = np.random.default_rng(0).permutation(240)
    np.testing.assert_array_equal(
        fitted.predict(fitted.X.iloc[shuffled]), model.predict()[shuffled]
    )
    assert fitted.score(fitted.X.iloc[TEST], Y[TEST]) == model.score(None, Y[TEST], nodes=TEST)


@pytest.mark.parametrize("kind", ["pandas", "polars", "array"])
def test_cross_validation_hides_labels_and_keeps_the_graph(kind):
    table = VALUES if kind == "array" else FRAME
    if kind == "polars":
        table = pytest.importorskip("polars").from_pandas(FRAME)
    bound = eb.bind(quick(), table, GRAPH)
    found = cross_val_predict(bound, bound.X, Y, cv=3)
    for train, test in zip(([*range(80, 240)],), ([*range(80)],), strict=True):
        own = quick().fit(VALUES, Y[train], nodes=train, graph=GRAPH).predict(nodes=test)
        np.testing.assert_allclose(found[test], own)


def test_a_search_sets_parameters_of_the_model_by_their_names():
    bound = eb.bind(quick(learner=eb.LightGBM()), FRAME, GRAPH)
    grid = {"labels": ["none", "field"], "learner__num_leaves": [7]}
    search = GridSearchCV(bound, grid, cv=2).fit(bound.X, Y)
    assert search.best_params_ == {"labels": "field", "learner__num_leaves": 7}
    assert search.best_estimator_.get_params()["learner__num_leaves"] == 7
    assert bound.get_params()["labels"] == "field"  # as it was
    cv = eb.GraphBlockFold(3, graph=GRAPH, random_state=0)
    assert GridSearchCV(bound, grid, cv=cv).fit(bound.X, Y).n_splits_ == 3


def test_a_pipeline_goes_inside():
    pipeline = make_pipeline(StandardScaler(), quick())
    bound = eb.bind(pipeline, FRAME, GRAPH)
    grid = {"ebbsregressor__labels": ["none", "field"]}
    search = GridSearchCV(bound, grid, cv=2).fit(bound.X, Y)
    assert search.best_params_ == {"ebbsregressor__labels": "field"}
    table = StandardScaler().fit_transform(FRAME)
    model = quick().fit(table, Y[TRAIN], nodes=TRAIN, graph=GRAPH)
    bound.fit(bound.X.iloc[TRAIN], Y[TRAIN])
    np.testing.assert_allclose(bound.predict(bound.X), model.predict())
    outside = make_pipeline(StandardScaler().set_output(transform="pandas"), fresh())
    with pytest.raises(ValueError, match=r"eb\.bind\(make_pipeline\(StandardScaler\(\), model\)"):
        outside.fit(fresh().X, Y)


def fresh(**changes):
    return eb.bind(quick(**changes), FRAME, GRAPH)


@pytest.mark.parametrize("learner", ["lightgbm", "network"])
def test_importance_and_dependence_find_the_column_that_matters(learner):
    learner = eb.RandomNetwork(16) if learner == "network" else learner
    bound = fresh(learner=learner, neighbor_features=None)
    bound.fit(bound.X, Y)
    importance = permutation_importance(bound, bound.X, Y, n_repeats=2, random_state=0)
    assert importance.importances_mean[:3].argmax() == 0
    curve = partial_dependence(bound, bound.X, ["a"], grid_resolution=5)
    slope = np.polyfit(curve["grid_values"][0], curve["average"][0], 1)[0]
    assert slope == pytest.approx(1.0, abs=0.3)  # that of the labels
    assert np.ptp(partial_dependence(bound, bound.X, ["b"])["average"]) < 0.5


def test_changed_values_change_what_trees_and_propagation_say():
    bound = eb.bind(quick(smoothing=eb.Laplacian(), labels="none"), FRAME, GRAPH)
    bound.fit(bound.X, Y)
    changed = bound.X.assign(a=bound.X["a"] + 1.0)
    own = bound.model_.predict(changed.drop(columns="node"), graph=GRAPH)
    np.testing.assert_allclose(bound.predict(changed), own)


def test_classes():
    bound = eb.bind(quick(eb.EBBSClassifier), FRAME, GRAPH)
    assert is_classifier(bound) and is_regressor(fresh()) and not is_classifier(fresh())
    assert cross_val_score(bound, bound.X, CLASSES, cv=3, scoring="roc_auc").min() > 0.8
    calibrated = CalibratedClassifierCV(bound, cv=2).fit(bound.X.iloc[TRAIN], CLASSES[TRAIN])
    assert calibrated.score(bound.X.iloc[TEST], CLASSES[TEST]) > 0.7
    bound.fit(bound.X.iloc[TRAIN], CLASSES[TRAIN])
    np.testing.assert_array_equal(bound.classes_, ["down", "up"])
    np.testing.assert_allclose(bound.predict_proba(bound.X).sum(axis=1), 1.0)
    assert not hasattr(fresh(), "predict_proba")


def test_coordinates_groups_and_exposure_are_carried_too():
    rng = np.random.default_rng(0)
    data = {"coordinates": rng.random((240, 2)), "exposure": rng.uniform(1.0, 9.0, 240)}
    counts = rng.poisson(data["exposure"] * np.exp(0.3 * VALUES[:, 0])).astype(float)
    bound = eb.bind(quick(loss="poisson"), FRAME, **data)
    bound.fit(bound.X.iloc[TRAIN], counts[TRAIN])
    own = quick(loss="poisson").fit(FRAME, counts[TRAIN], nodes=TRAIN, **data)
    np.testing.assert_array_equal(bound.predict(bound.X), own.predict())
    changed = bound.X.assign(a=bound.X["a"] + 1e-13)
    np.testing.assert_allclose(bound.predict(changed), own.predict())
    groups = np.arange(240) // 10
    grouped = eb.bind(quick(), FRAME, groups=groups)
    grouped.fit(grouped.X.iloc[TRAIN], Y[TRAIN])
    own = quick().fit(FRAME, Y[TRAIN], nodes=TRAIN, groups=groups)
    np.testing.assert_array_equal(grouped.predict(grouped.X), own.predict())


def test_the_geometry_of_a_table_is_its_graph():
    geopandas = pytest.importorskip("geopandas")
    points = np.random.default_rng(0).random((240, 2))
    table = geopandas.GeoDataFrame(FRAME, geometry=geopandas.points_from_xy(*points.T))
    bound = eb.bind(quick(), table)
    assert cross_val_score(bound, bound.X, np.sin(7 * points[:, 0]), cv=3).min() > 0.5


def test_weights_of_rows():
    weight = np.random.default_rng(0).random(160)
    bound = fresh().fit(fresh().X.iloc[TRAIN], Y[TRAIN], sample_weight=weight)
    own = quick().fit(FRAME, Y[TRAIN], weight, nodes=TRAIN, graph=GRAPH)
    np.testing.assert_array_equal(bound.predict(bound.X), own.predict())


def test_clones_share_the_graph_and_copies_work_elsewhere(fitted):
    assert clone(fitted).data["graph"] is GRAPH
    copied = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copied.predict(copied.X), fitted.predict(fitted.X))
    stacked = StackingRegressor([("graph", fresh()), ("ridge", Ridge())], cv=2)
    assert stacked.fit(fitted.X, Y).predict(fitted.X).shape == (240,)


def test_messages_do_not_print_the_table():
    bound = fresh()
    assert repr(bound).startswith("bind(EBBSRegressor(") and "240 rows" in repr(bound)
    assert "240" in bound._repr_html_()
    with pytest.raises(ValueError, match=r"Invalid parameter 'rate' for .*EBBSReg") as caught:
        GridSearchCV(bound, {"rate": [1]}, cv=2).fit(bound.X, Y)
    assert "learning_rate" in str(caught.value) and len(str(caught.value)) < 1_000


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda: eb.bind(Ridge(), FRAME, GRAPH), TypeError, "Pipeline that ends .* got Ridge"),
        (lambda: eb.bind(CountVectorizer(), FRAME), TypeError, "got CountVectorizer"),
        (lambda: eb.bind(quick(), FRAME.assign(node=1), GRAPH), ValueError, "'node': rename it"),
        (lambda: fresh().fit(FRAME, Y), ValueError, "rows of bound.X"),
        (lambda: fresh().fit(VALUES, Y), ValueError, "rows of bound.X"),
        (lambda: fresh().fit(fresh().X * 2.0, Y), ValueError, "as they are"),
        (lambda: fresh().fit(fresh().X[::-1].assign(node=range(240)), Y), ValueError, "as they"),
        (lambda: eb.bind(quick(), FRAME[:9], GRAPH).fit(fresh().X[:9], Y[:9]), ValueError, "240 n"),
        (lambda: fresh().predict(fresh().X), ValueError, "not fitted"),
    ],
)
def test_wrong_uses_are_named(use, error, message):
    with pytest.raises(error, match=message):
        use()
