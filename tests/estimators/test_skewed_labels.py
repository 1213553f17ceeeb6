"""Squared error of skewed labels: the default may train with the Poisson loss."""

import numpy as np
import pandas as pd
import pytest

import ebboost as eb
from tests.problems import skewed

KNOWN = np.arange(400)
REST = np.arange(400, 600)


def fitted(**changes):
    settings = {"n_estimators": 80, "learning_rate": 0.3, "n_folds": 3, "random_state": 0}
    X, y, graph = skewed()
    table = pd.DataFrame(X, columns=["one", "two", "three"])
    model = eb.EBBSRegressor(**(settings | {"n_jobs": 1} | changes))
    return model.fit(table, y[KNOWN], nodes=KNOWN, graph=graph), table, y, graph


@pytest.fixture(scope="module")
def fit():
    return fitted()


@pytest.fixture(scope="module")
def members(fit):
    """Losses of the averaged candidates, None for that of the fit."""
    return [one.candidate.loss for one in fit[0].state_.candidates]


def test_the_poisson_loss_is_selected_where_it_predicts_better(fit, members):
    model, _, y, _ = fit
    assert eb.Poisson in map(type, members)
    assert "Poisson loss" in model.best_candidate_ and "Poisson loss" in model.summary()
    squared = fitted(loss="squared_error")[0]
    assert not any("Poisson" in name for name in squared.selection_["candidate"])
    errors = [np.sqrt(np.mean((one.predict() - y)[REST] ** 2)) for one in (model, squared)]
    assert errors[0] < 0.95 * errors[1]
    assert model.predict().min() > 0.0


def test_means_of_predictions_are_those_of_held_out_labels(fit):
    record = fit[0].state_.validation
    assert record.prediction.mean() == pytest.approx(record.target.mean(), rel=0.02)


def test_the_gain_of_the_graph_is_that_over_plain_boosting_with_the_same_loss(fit):
    model = fit[0]
    gain = model.gain_
    table = dict(zip(model.selection_["candidate"], model.selection_["loss"], strict=True))
    plain = [name for name in table if name.startswith("none") and "Poisson" in name]
    assert gain.without == pytest.approx(
        min(np.sqrt(2.0 * table[name]) for name in plain), rel=0.05
    )


@pytest.mark.parametrize("learner", ["lightgbm", "network"])
def test_explanations_add_up_to_predictions(learner):
    model, _, _, _ = fitted(learner=learner, n_estimators=20)
    assert any(one.candidate.loss for one in model.state_.candidates)
    nodes = [3, 450]
    explanations = model.explanations(nodes)
    np.testing.assert_allclose([one.total for one in explanations], model.predict(nodes=nodes))
    np.testing.assert_allclose([one.score for one in explanations], model.predict(nodes=nodes))
    assert explanations[1].labels and explanations[1].own
    table = model.explain(nodes, decimals=3)
    total = table.groupby("node")["contribution"].sum()
    np.testing.assert_allclose(total, model.predict(nodes=nodes), atol=1e-3)


def test_stored_models_predict_the_same(fit, tmp_path):
    model, table, _, graph = fit
    model.save(tmp_path / "m.ebb", table=True)
    stored = eb.load(tmp_path / "m.ebb")
    np.testing.assert_array_equal(stored.predict(), model.predict())
    np.testing.assert_allclose(stored.predict(table, graph=graph), model.predict(), rtol=1e-9)
    np.testing.assert_allclose(
        [one.total for one in stored.explanations([5])], stored.predict(nodes=[5])
    )
    kinds = [[type(one.candidate.loss) for one in m.state_.candidates] for m in (stored, model)]
    assert kinds[0] == kinds[1]


def test_predictors_predict_and_update_as_the_model_does(fit):
    model, table, _, graph = fit
    predictor = model.predictor(table, graph=graph)
    np.testing.assert_allclose(predictor.predict(), model.predict(), rtol=1e-9)
    changed = table.copy()
    changed.loc[[7, 420]] = changed.loc[[8, 421]].to_numpy()
    try:
        predictor.update([7, 420], changed.loc[[7, 420]])
    except ValueError as error:  # spectral columns depend on the whole graph
        pytest.skip(str(error))
    nodes = np.arange(600)
    expected = model.predict(
        changed, graph=graph, nodes=nodes, new_labels=(KNOWN, skewed()[1][KNOWN])
    )
    np.testing.assert_allclose(predictor.predict(), expected, rtol=1e-6)


def test_new_labels_may_be_negative(fit):
    model = fit[0]
    without = model.predict(nodes=REST)
    low = model.predict(nodes=REST, new_labels=([450], [-3.0]))
    zero = model.predict(nodes=REST, new_labels=([450], [0.0]))
    assert np.isfinite(low).all() and (zero <= without + 1e-9).mean() > 0.9
    assert low[50] <= zero[50] + 1e-9


def test_an_offset_needs_one_in_fit(fit):
    model, table, _, graph = fit
    with pytest.raises(ValueError, match=r"fit with offset=\.\.\. or with loss='squared_error'"):
        model.predict(table, graph=graph, offset=np.ones(600))
    later = fitted(loss="squared_error", labels="none", n_estimators=5)[0]
    shifted = later.predict(table, graph=graph, offset=np.ones(600))
    np.testing.assert_allclose(shifted, later.predict() + 1.0)


def test_intervals_and_variances_are_those_of_numbers(fit):
    model, _, y, _ = fit
    interval = model.predict(nodes=REST, interval=0.9)
    covered = (interval.lower <= y[REST]) & (y[REST] <= interval.upper)
    assert 0.82 < covered.mean() < 0.97
    assert np.ptp(interval.upper - interval.lower) > 0.0
    parts = model.uncertainty(REST)
    total = parts["noise"] + parts["field"] + parts["features"]
    np.testing.assert_allclose(parts["variance"], total)
    assert (parts["field"] > 0.0).all()


def test_rules_choose_the_loss_too():
    model, _, y, _ = fitted(selection="rules", n_folds=1)
    assert type(model.state_.candidate.loss) is eb.Poisson
    squared = fitted(selection="rules", n_folds=1, loss="squared_error")[0]
    errors = [np.mean((one.predict() - y)[REST] ** 2) for one in (model, squared)]
    assert errors[0] < errors[1]


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_the_unit_of_the_labels_does_not_matter(unit):
    X, y, graph = skewed(300)
    known = np.arange(200)
    model = eb.EBBSRegressor(30, learning_rate=0.3, n_folds=2, random_state=0, n_jobs=1)
    one = model.fit(X, y[known], nodes=known, graph=graph)
    names, expected = one.selection_["candidate"], one.predict()
    other = model.fit(X, unit * y[known], nodes=known, graph=graph)
    assert len(other.selection_["candidate"]) == len(names)
    np.testing.assert_allclose(other.predict() / unit, expected, rtol=1e-3)
