import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, r2_score

import ebboost as eb
from ebboost.data.table import Table
from ebboost.inspection import diagnostics as diagnosis
from ebboost.inspection.diagnostics import HeldOut
from tests.problems import homophilous

QUICK = {"random_state": 0, "n_jobs": 1}


def fitted(n_labels=300, **changes):
    X, y, graph = homophilous(600)
    model = eb.EBBSRegressor(40, **QUICK | changes)
    return model.fit(X, y[:n_labels], nodes=np.arange(n_labels), graph=graph), X, y


def fitted_classes(n_classes=3, **changes):
    X, y, graph = homophilous(600)
    classes = np.array(["low", "mid", "top"])[
        np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    ]
    model = eb.EBBSClassifier(
        30, **QUICK | {"smoothing": eb.Laplacian(), "labels": "field"} | changes
    )
    return model.fit(X, classes[:300], nodes=np.arange(300), graph=graph), X, classes


def test_held_out_labels_are_the_users():
    model, _, y = fitted()
    held = diagnosis.held_out(model)
    assert held.truth == pytest.approx(y[held.nodes])
    assert not np.isin(held.nodes, diagnosis.training_labels(model).nodes).any()


def test_quality_is_that_of_scikit_learn():
    model, _, _ = fitted()
    held = diagnosis.held_out(model)
    found = diagnosis.quality(held)
    assert found["rmse"] == pytest.approx(mean_squared_error(held.truth, held.prediction) ** 0.5)
    assert found["r2"] == pytest.approx(r2_score(held.truth, held.prediction))
    model, _, classes = fitted_classes()
    held = diagnosis.held_out(model)
    found = diagnosis.quality(held)
    truth, predicted = classes[held.nodes], model.classes_[held.prediction.astype(int)]
    assert found["accuracy"] == pytest.approx(accuracy_score(truth, predicted))
    assert found["log_loss"] == pytest.approx(log_loss(truth, held.probabilities))


def test_nothing_held_out_is_none_and_says_how_to_hold_out():
    model, _, _ = fitted(n_labels=30)
    assert diagnosis.held_out(model) is None
    with pytest.raises(ValueError, match="eval_set"):
        diagnosis.needs_held_out(model)


@pytest.mark.parametrize("make", [fitted, fitted_classes])
def test_before_held_out_predicts_as_fit_did(make):
    model, _, _ = make()
    before = diagnosis.before_held_out(model)
    assert before.raw_predictions_[model.validation_nodes_] == pytest.approx(
        model.validation_prediction_
    )
    if make is fitted:  # the final model has used those labels since
        assert model.raw_predictions_[model.validation_nodes_] != pytest.approx(
            model.validation_prediction_
        )


def test_without_graph_is_plain_boosting_on_the_same_labels():
    model, X, _ = fitted()
    held = diagnosis.held_out(model)
    training = diagnosis.training_labels(model)
    plain = eb.EBBSRegressor(40, **QUICK).fit(
        X, training.target[:, 0], nodes=training.nodes, eval_set=(held.nodes, held.truth)
    )
    found = diagnosis.without_graph(model, model.state_.table)
    assert found.prediction == pytest.approx(plain.predict(nodes=held.nodes))
    assert held.cost.mean() < 0.5 * found.cost.mean()  # half of the signal is in the graph alone


@pytest.mark.parametrize("n_classes", [2, 3])
def test_without_graph_for_classes_with_weights_and_categories(n_classes):
    X, y, graph = homophilous(400)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        kind=np.where(X[:, 0] > 0, "up", "down")
    )
    classes = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    model = eb.EBBSClassifier(
        20, class_weight="balanced", labels="field", smoothing=eb.Laplacian(), **QUICK
    )
    model.fit(frame, classes, graph=graph)
    found = diagnosis.without_graph(model, model.state_.table)
    assert found.probabilities.shape == model.validation_prediction_.shape
    assert found.probabilities.sum(axis=1) == pytest.approx(1.0)


def test_without_graph_takes_sparse_tables():
    X, y, graph = homophilous(300)
    model = eb.EBBSRegressor(10, labels="field", smoothing=None, **QUICK).fit(
        sparse.csr_array(X), y, graph=graph
    )
    assert diagnosis.without_graph(model, model.state_.table).prediction.shape == (30,)


def test_coverage_is_counted_where_widths_do_not_come_from():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=4000)
    found = diagnosis.coverage(HeldOut(np.arange(4000), truth, np.zeros(4000)))
    assert found.share == pytest.approx(found.levels, abs=0.02)
    assert found.width[found.levels.index(0.95)] == pytest.approx(1.96, abs=0.15)
    few = diagnosis.coverage(HeldOut(np.arange(8), truth[:8], np.zeros(8)))
    assert np.isinf(few.width[-1])  # four errors cannot tell what holds 95 %


def test_calibration_of_honest_probabilities_is_the_diagonal():
    rng = np.random.default_rng(0)
    p = rng.random(20_000)
    probabilities = np.column_stack([1 - p, p])
    truth = (rng.random(20_000) < p).astype(float)
    said, seen, count = diagnosis.calibration(
        HeldOut(np.arange(20_000), truth, probabilities.argmax(axis=1).astype(float), probabilities)
    )
    assert seen == pytest.approx(said, abs=0.03)
    assert count.sum() == 20_000


def test_importances_name_the_users_columns():
    X, y, graph = homophilous(300)
    frame = pd.DataFrame(X, columns=["size", "age", "noise"])
    model = eb.EBBSRegressor(30, **QUICK).fit(frame, y, graph=graph)
    ranked = diagnosis.importances(model)
    assert ranked[0][0] == "size"
    assert {name for name, _ in ranked} == {"size", "age", "noise"}
    assert sum(share for _, share in ranked) == pytest.approx(1.0)


def place_table(names, values, categorical=()):
    return Table(
        np.asarray(values, dtype=float), tuple(names), categorical, tuple(range(len(names)))
    )


def test_places_are_found_by_their_names():
    values = [[1.0, 0.0, 5.0], [2.0, 1.0, 7.0]]
    place, names = diagnosis.coordinates(place_table(("Y", "price", "X"), values))
    assert place.tolist() == [[5.0, 1.0], [7.0, 2.0]]
    assert names == "X and Y"
    assert diagnosis.coordinates(place_table(("a", "price", "X"), values)) is None
    assert diagnosis.coordinates(place_table(("x", "y"), [[1.0, np.nan], [0.0, 1.0]])) is None
    assert (
        diagnosis.coordinates(place_table(("x", "y"), [[1.0, 0.0], [0.0, 1.0]], categorical=(0,)))
        is None
    )
    assert diagnosis.coordinates(None) is None


def test_degrees_of_longitude_shrink_towards_the_poles():
    place, _ = diagnosis.coordinates(place_table(("lon", "lat"), [[0.0, 59.0], [1.0, 61.0]]))
    assert np.ptp(place[:, 0]) == pytest.approx(0.5, abs=1e-3)


def test_the_table_may_be_handed_over(tmp_path):
    model, X, _ = fitted()
    model.save(tmp_path / "m.ebb")
    again = eb.load(tmp_path / "m.ebb")
    assert diagnosis.fitted_table(again) is None
    assert diagnosis.fitted_table(again, X).values == pytest.approx(X)
    with pytest.raises(ValueError, match="fitted on 600"):
        diagnosis.fitted_table(again, X[:10])


def test_errors_of_neighbours_are_alike_where_the_graph_was_left_unused():
    X, y, graph = homophilous(1000)
    half = np.random.default_rng(0).permutation(1000)
    left, used = (
        eb.EBBSRegressor(
            30,
            labels=labels,
            smoothing=None,
            neighbor_features=None,
            feature_smoothing=None,
            **QUICK,
        ).fit(X, y[half[:500]], nodes=half[:500], eval_set=(half[500:], y[half[500:]]), graph=graph)
        for labels in ("none", "field")
    )
    alike = [diagnosis.errors_alike(model, diagnosis.held_out(model)) for model in (left, used)]
    assert alike[0] > 0.8
    assert alike[1] < alike[0] - 0.1
    assert (
        diagnosis.errors_alike(fitted()[0], diagnosis.held_out(fitted()[0])) is None
    )  # too few to tell
    assert not diagnosis.uses_graph(left) and diagnosis.uses_graph(used)
