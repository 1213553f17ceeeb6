import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics import (
    accuracy_score,
    log_loss,
    mean_poisson_deviance,
    mean_squared_error,
    r2_score,
    roc_auc_score,
)

import ebboost as eb
from ebboost.boosting.metrics import Scored
from ebboost.data.table import Table
from ebboost.inspection import diagnostics
from ebboost.inspection.diagnostics import Validation
from ebboost.model.inputs import fitted_table
from ebboost.model.predict import with_labels
from ebboost.training import defaults
from tests.inspection.models import QUICK, fitted, fitted_classes
from tests.problems import homophilous


def test_every_label_is_held_out_once_where_there_are_folds():
    model, _, y = fitted()
    held_out = diagnostics.validation(model.state_)
    assert held_out.truth == pytest.approx(y[held_out.nodes])
    assert np.sort(held_out.nodes) == pytest.approx(np.arange(300))


def test_held_out_labels_of_one_model_are_not_trained_on():
    model, _, y = fitted(n_folds=1)
    held_out = diagnostics.validation(model.state_)
    assert held_out.truth == pytest.approx(y[held_out.nodes])
    assert held_out.nodes.size == 30
    assert not np.isin(held_out.nodes, model.state_.training_labels.nodes).any()


def test_metrics_equal_those_of_scikit_learn():
    held_out = diagnostics.validation(fitted()[0].state_)
    rmse = mean_squared_error(held_out.truth, held_out.prediction) ** 0.5
    assert held_out.metrics["rmse"] == pytest.approx(rmse)
    assert held_out.metrics["r2"] == pytest.approx(r2_score(held_out.truth, held_out.prediction))
    model, _, classes = fitted_classes()
    held_out = diagnostics.validation(model.state_)
    truth = classes[held_out.nodes]
    predicted = model.classes_[held_out.prediction.astype(int)]
    assert held_out.metrics["accuracy"] == pytest.approx(accuracy_score(truth, predicted))
    assert held_out.metrics["log_loss"] == pytest.approx(log_loss(truth, held_out.probabilities))


def test_likelihoods_and_two_classes_have_metrics_of_their_own():
    truth, prediction = np.random.default_rng(0).poisson(3.0, size=(2, 40)) + 1.0
    scored = Scored(eb.Poisson(), np.log(prediction)[:, None], truth[:, None], np.ones(40))
    counts = Validation(np.arange(40), truth, prediction, scored=scored)
    half = counts.subset(np.arange(40) < 20)
    expected = mean_poisson_deviance(truth[:20], prediction[:20])
    assert half.metrics["deviance"] == pytest.approx(expected)
    assert set(counts.metrics) - {"rmse", "mae", "median", "r2"} == {"deviance", "d2"}
    stated = np.random.default_rng(1).random(40)
    is_above = (truth > 4.0).astype(float)
    parts = (is_above, np.round(stated), np.column_stack([1.0 - stated, stated]))
    metrics = Validation(np.arange(40), *parts).metrics
    assert metrics["roc_auc"] == pytest.approx(roc_auc_score(is_above, stated))
    assert metrics["brier"] == pytest.approx(np.mean((is_above - stated) ** 2))


def test_a_fit_without_validation_nodes_has_none_and_the_error_has_a_remedy():
    model, _, _ = fitted(early_stopping=False)
    assert diagnostics.validation(model.state_) is None
    with pytest.raises(ValueError, match="eval_set"):
        diagnostics.require_validation(model.state_)


@pytest.mark.parametrize("fit", [fitted, fitted_classes])
def test_training_labels_alone_reproduce_the_validation_predictions(fit):
    state = fit(n_folds=1)[0].state_
    before = with_labels(state, state.training_labels)
    nodes = state.validation.nodes
    # The field of classes is a Newton iterate in training, and the mode in a prediction.
    allowed = 0.05 if fit is fitted_classes else 1e-6
    assert before.raw_predictions[nodes] == pytest.approx(state.validation.prediction, abs=allowed)
    if fit is fitted:  # the final model uses those labels
        assert state.raw_predictions[nodes] != pytest.approx(state.validation.prediction)


@pytest.mark.parametrize("n_folds", [1, 2])
@pytest.mark.parametrize("parts", [{}, {"smoothing": None, "labels": "field"}])
def test_without_graph_is_plain_boosting_on_the_same_labels_and_folds(n_folds, parts, monkeypatch):
    monkeypatch.setattr(defaults, "COMPARE_TREES_UP_TO", 0)
    monkeypatch.setattr(defaults, "NETWORKS_UP_TO", 0)
    model, X, y = fitted.__wrapped__(n_folds=n_folds, **parts)
    held_out = diagnostics.validation(model.state_)
    nodes = np.arange(300)
    plain = eb.EBBSRegressor(40, **QUICK | {"n_folds": n_folds}).fit(X, y[nodes], nodes=nodes)
    result = diagnostics.without_graph(model, model.state_.table)
    expected = dict(zip(plain.validation_nodes_, plain.validation_prediction_[:, 0], strict=True))
    assert result.nodes.tolist() == held_out.nodes.tolist()
    assert result.prediction == pytest.approx([expected[node] for node in result.nodes])
    assert held_out.loss.mean() < 0.5 * result.loss.mean()  # half of the signal is in the graph


def test_without_graph_uses_the_nodes_of_eval_set():
    X, y, graph = homophilous(400)
    labels = {"nodes": np.arange(200), "eval_set": (np.arange(200, 300), y[200:300])}
    model = eb.EBBSRegressor(10, **QUICK, smoothing=None, labels="field")
    model.fit(X, y[:200], graph=graph, **labels)
    result = diagnostics.without_graph(model, model.state_.table)
    assert np.sort(result.nodes).tolist() == list(range(300))
    assert result.truth == pytest.approx(y[result.nodes])


def test_the_rows_of_the_selection_are_best_first_and_one_is_selected():
    state = fitted()[0].state_
    rows = diagnostics.selection_rows(state)
    assert [row.loss for row in rows] == sorted(state.selection["loss"])
    assert [row.selected for row in rows].count(True) == len(state.candidate_names)
    assert "without the graph" in [row.name for row in rows]
    assert all(row.folds.endswith(" of 2") for row in rows)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_without_graph_for_classes_with_weights_and_categories(n_classes):
    X, y, graph = homophilous(400)
    kind = np.where(X[:, 0] > 0, "up", "down")
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=kind)
    classes = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    model = eb.EBBSClassifier(
        20, class_weight="balanced", labels="field", smoothing=eb.Laplacian(), **QUICK
    )
    model.fit(frame, classes, graph=graph)
    result = diagnostics.without_graph(model, model.state_.table)
    assert result.probabilities.shape == (model.validation_nodes_.size, n_classes)
    assert result.probabilities.sum(axis=1) == pytest.approx(1.0)
    assert result.metrics["accuracy"] > 1.1 / n_classes


def test_without_graph_takes_sparse_tables():
    X, y, graph = homophilous(300)
    model = eb.EBBSRegressor(10, labels="field", smoothing=None, **QUICK)
    model.fit(sparse.csr_array(X), y, graph=graph)
    result = diagnostics.without_graph(model, model.state_.table)
    assert result.truth == pytest.approx(y[result.nodes])
    assert result.metrics["r2"] > 0


def test_coverage_is_counted_where_widths_do_not_come_from():
    random = np.random.default_rng(0)
    X = random.normal(size=(2000, 1))
    truth = random.normal(size=2000)
    model = eb.EBBSRegressor(2, n_folds=2, smoothing=None, n_jobs=1, random_state=0)
    observed = diagnostics.coverage(model.fit(X, truth).state_)
    assert observed.share == pytest.approx(observed.levels, abs=0.025)
    assert observed.width[observed.levels.index(0.95)] == pytest.approx(1.96, abs=0.2)
    few = diagnostics.coverage(model.fit(X[:10], truth[:10]).state_)
    assert np.isinf(few.width[-1])  # five errors are too few for 95%


def test_share_range_holds_nineteen_of_twenty_samples():
    low, high = diagnostics.share_range(0.9, 100)
    shares = np.random.default_rng(0).binomial(100, 0.9, 4000) / 100
    assert np.mean((shares >= low) & (shares <= high)) == pytest.approx(0.95, abs=0.03)


def test_calibrated_probabilities_lie_on_the_diagonal():
    rng = np.random.default_rng(0)
    p = rng.random(20_000)
    probabilities = np.column_stack([1 - p, p])
    truth = (rng.random(20_000) < p).astype(float)
    prediction = probabilities.argmax(axis=1).astype(float)
    held_out = Validation(np.arange(20_000), truth, prediction, probabilities)
    stated, accuracy, n_nodes = diagnostics.calibration(held_out)
    assert accuracy == pytest.approx(stated, abs=0.03)
    assert n_nodes.sum() == 20_000


def test_confusion_counts_the_most_frequent_classes():
    truth = np.array([0.0, 0.0, 0.0, 1.0, 2.0, 2.0])
    prediction = np.array([0.0, 0.0, 2.0, 1.0, 2.0, 0.0])
    held_out = Validation(np.arange(6), truth, prediction, np.zeros((6, 3)))
    classes, counts = diagnostics.confusion(held_out, 3, most=2)
    assert classes.tolist() == [0, 2]
    assert counts.tolist() == [[2, 1], [1, 1]]


def test_importances_name_the_columns_of_x():
    X, y, graph = homophilous(300)
    frame = pd.DataFrame(X, columns=["size", "age", "noise"])
    ranked = diagnostics.importances(eb.EBBSRegressor(30, **QUICK).fit(frame, y, graph=graph))
    assert ranked[0][0] == "size"
    assert {name for name, _ in ranked} == {"size", "age", "noise"}
    assert sum(share for _, share in ranked) == pytest.approx(1.0)


def table(names, values, categorical=()):
    values = np.asarray(values, dtype=float)
    return Table(values, tuple(names), categorical, tuple(range(len(names))))


def test_coordinates_are_recognized_by_the_names_of_their_columns():
    values = [[1.0, 0.0, 5.0], [2.0, 1.0, 7.0]]
    points, names = diagnostics.coordinates(table(("Y", "price", "X"), values))
    assert points.tolist() == [[5.0, 1.0], [7.0, 2.0]]
    assert names == "X and Y"
    assert diagnostics.coordinates(table(("a", "price", "X"), values)) is None
    assert diagnostics.coordinates(table(("x", "y"), [[1.0, np.nan], [0.0, 1.0]])) is None
    assert diagnostics.coordinates(table(("x", "y"), [[1.0, 0.0], [0.0, 1.0]], (0,))) is None
    assert diagnostics.coordinates(None) is None


def test_degrees_of_longitude_shrink_towards_the_poles():
    points, _ = diagnostics.coordinates(table(("lon", "lat"), [[0.0, 59.0], [1.0, 61.0]]))
    assert np.ptp(points[:, 0]) == pytest.approx(0.5, abs=1e-3)


def test_the_table_of_a_loaded_model_may_be_passed(tmp_path):
    model, X, _ = fitted()
    model.save(tmp_path / "m.ebb")
    state = eb.load(tmp_path / "m.ebb").state_
    assert fitted_table(state) is None
    assert fitted_table(state, X).values == pytest.approx(X)
    with pytest.raises(ValueError, match="fitted on 600"):
        fitted_table(state, X[:10])
