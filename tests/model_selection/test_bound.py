"""Tools of scikit-learn on an estimator with its graph."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV, calibration_curve
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_score

import ebboost as eb

QUICK = {"smoothing": None, "labels": "field", "n_folds": 1, "random_state": 0, "n_jobs": 1}
random = np.random.default_rng(0)
VALUES = random.normal(size=(240, 3))
POINTS = random.random((240, 2))
GRAPH = eb.Graph.build_knn(POINTS, k=5)
Y = VALUES[:, 0] + 3.0 * np.sin(6 * POINTS[:, 0])
FRAME = pd.DataFrame(VALUES, columns=["a", "b", "c"])


def bound(X=FRAME, kind=eb.EBBSRegressor, **parameters):
    return eb.bind(kind(20, **QUICK | parameters), GRAPH, X)


def test_predictions_are_those_of_the_model_with_its_graph():
    b = bound()
    train = np.arange(160)
    b.fit(b.X.iloc[train], Y[train])
    m = eb.EBBSRegressor(20, **QUICK).fit(FRAME, Y[train], nodes=train, graph=GRAPH)
    np.testing.assert_allclose(b.predict(b.X.iloc[160:]), m.predict()[160:], rtol=1e-6)


@pytest.mark.parametrize("X", [FRAME, VALUES], ids=["frame", "array"])
def test_cross_validation_hides_labels_and_uses_the_graph(X):
    b = bound(X)
    with_graph = cross_val_score(b, b.X, Y, cv=3).mean()
    alone = cross_val_score(bound(X, labels="none"), b.X, Y, cv=3).mean()
    assert with_graph > alone + 0.2


def test_grid_search_sets_parameters_of_the_model():
    b = bound()
    search = GridSearchCV(b, {"model__labels": ["none", "field"]}, cv=2).fit(b.X, Y)
    assert search.best_params_ == {"model__labels": "field"}


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_importance_and_dependence_find_the_column_that_matters(library):
    frame = FRAME.assign(kind=np.where(VALUES[:, 1] > 0, "x", "y"), year=np.arange(240) % 7)
    b = bound(frame if library == "pandas" else pytest.importorskip(library).from_pandas(frame))
    b.fit(b.X.iloc[:160], Y[:160])
    test = b.X.iloc[160:]
    importance = permutation_importance(b, test, Y[160:], n_repeats=2, random_state=0)
    assert importance.importances_mean[:3].argmax() == 0
    curve = partial_dependence(b, test, ["a"], grid_resolution=5)["average"][0]
    assert curve[-1] > curve[0] + 1.0
    assert np.ptp(partial_dependence(b, test, ["year"])["average"]) < 0.5
    kinds = partial_dependence(b, test, ["kind"], categorical_features=["kind"])["average"]
    assert np.ptp(kinds) < 0.5


@pytest.mark.parametrize("learner", ["lightgbm", "network"])
def test_dependence_at_labelled_nodes_is_that_of_their_labels(learner):
    b = bound(learner=learner)
    b.fit(b.X, Y)
    np.testing.assert_allclose(b.predict(b.X), b.model_.predict(), rtol=1e-6)
    result = partial_dependence(b, b.X, ["a"], grid_resolution=5)
    slope = np.polyfit(result["grid_values"][0], result["average"][0], 1)[0]
    assert slope == pytest.approx(1.0, abs=0.3)  # that of the labels


def test_classes_have_probabilities_and_a_calibration_curve():
    y = np.where(Y > 0, "up", "down")
    b = bound(kind=eb.EBBSClassifier)
    b.fit(b.X.iloc[:160], y[:160])
    probability = b.predict_proba(b.X.iloc[160:])[:, 1]
    shares, means = calibration_curve(y[160:] == "up", probability, n_bins=3)
    assert shares[-1] > shares[0] and means[-1] > means[0]
    assert b.score(b.X.iloc[160:], y[160:]) > 0.6


@pytest.mark.parametrize("learner", ["lightgbm", "network"])
def test_classes_are_calibrated_again_by_scikit_learn(learner):
    y = np.where(Y > 0, "up", "down")
    b = bound(kind=eb.EBBSClassifier, learner=learner)
    calibrated = CalibratedClassifierCV(b, cv=2).fit(b.X.iloc[:160], y[:160])
    assert calibrated.score(b.X.iloc[160:], y[160:]) > 0.6


def test_clones_share_the_graph():
    b = bound()
    assert clone(b).data is b.data


@pytest.mark.parametrize(
    ("X", "message"),
    [(FRAME[:10], "240 rows"), (FRAME.assign(node=1), "must not have a column 'node'")],
)
def test_tables_that_do_not_fit_raise(X, message):
    with pytest.raises(ValueError, match=message):
        bound(X)
