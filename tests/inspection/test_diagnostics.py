"""The numbers behind plots and report, against closed forms and other libraries."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

import ebboost as eb
from ebboost.formatting import date, figure, number, percent
from ebboost.inspection import diagnostics
from ebboost.inspection.audit import neighbor_correlation
from ebboost.inspection.explained import round_to_sum
from ebboost.inspection.graph_check import label_autocorrelation
from tests.inspection.conftest import KNOWN, LABELS, TABLE, N

PATH = eb.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4], [1.0, 2.0, 3.0, 4.0])
ROWS = np.arange(5)


def morans_i(graph, values):
    """(n / Σ w) · Σ_ij w_ij z_i z_j / Σ z_i², as Moran wrote it."""
    weights, z = graph.adjacency.toarray(), values - values.mean()
    return values.size / weights.sum() * (z @ weights @ z) / (z @ z)


def test_morans_i_is_its_formula_and_its_expectation_the_mean_over_permutations():
    values = np.array([1.0, 2.0, 4.0, 8.0, 9.0])
    found = label_autocorrelation(PATH, ROWS, values, classes=False)
    assert found.name == "Moran's I" and found.n_edges == 4
    assert found.value == pytest.approx(morans_i(PATH, values))
    every = [morans_i(PATH, np.array(one)) for one in itertools.permutations(values)]
    assert found.expected == pytest.approx(np.mean(every))
    assert found.p_value == pytest.approx(np.mean(np.array(every) >= found.value - 1e-9), abs=0.06)


def test_morans_i_is_1_within_components_and_minus_1_on_a_two_coloured_cycle():
    pairs = eb.Graph.from_edges([0, 2], [1, 3])
    values = np.array([1.0, 1.0, 5.0, 5.0])
    assert label_autocorrelation(pairs, ROWS[:4], values, False).value == pytest.approx(1.0)
    cycle = eb.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0])
    values = np.array([1.0, -1.0, 1.0, -1.0])
    assert label_autocorrelation(cycle, ROWS[:4], values, False).value == pytest.approx(-1.0)
    assert label_autocorrelation(PATH, ROWS[::2], np.array([1.0, 2.0, 4.0]), False) is None
    assert label_autocorrelation(PATH, ROWS, np.ones(5), False) is None  # all are equal


def test_edge_agreement_is_the_weight_within_classes():
    values = np.array([0.0, 0.0, 0.0, 1.0, 1.0])
    found = label_autocorrelation(PATH, ROWS, values, classes=True)
    assert found.value == pytest.approx((1 + 2 + 4) / 10)
    assert found.expected == pytest.approx((3 * 2 + 2 * 1) / (5 * 4))  # of two rows at random


def test_labels_of_neighbours_correlate_as_their_means():
    rng = np.random.default_rng(0)
    points = rng.random((100, 2))
    graph, values = eb.Graph.build_knn(points, k=4), points[:, 0]
    weights = graph.adjacency.toarray()
    around = weights @ (values - values.mean()) / weights.sum(axis=1)
    own = values - values.mean()
    expected = own @ around / np.sqrt((own @ own) * (around @ around))
    found = neighbor_correlation(graph, np.arange(100), values[:, None])
    assert found == pytest.approx(expected) and found > 0.9
    assert neighbor_correlation(PATH, ROWS, np.ones((5, 1))) is None  # too few


def test_metrics_are_those_of_scikit_learn(numbers, classes, pairs):
    held = diagnostics.held_out(numbers.model_)
    assert np.array_equal(np.sort(held.rows), np.flatnonzero(KNOWN))
    np.testing.assert_array_equal(held.truth, LABELS[held.rows])
    expected = {
        "rmse": metrics.root_mean_squared_error(held.truth, held.prediction),
        "mae": metrics.mean_absolute_error(held.truth, held.prediction),
        "median": metrics.median_absolute_error(held.truth, held.prediction),
        "r2": metrics.r2_score(held.truth, held.prediction),
    }
    assert held.metrics == pytest.approx(expected)
    assert held.error() == pytest.approx(expected["rmse"])
    assert numbers.gain_.with_graph == pytest.approx(expected["rmse"])
    assert diagnostics.without_graph(numbers.model_).error() == pytest.approx(numbers.gain_.without)
    for model in (classes, pairs):
        held = diagnostics.held_out(model.model_)
        stated = held.probabilities
        assert held.metrics["log_loss"] == pytest.approx(metrics.log_loss(held.truth, stated))
        assert held.metrics["accuracy"] == metrics.accuracy_score(held.truth, held.prediction)
        chosen, table = diagnostics.confusion(held, 99)
        matrix = metrics.confusion_matrix(held.truth, held.prediction, labels=chosen)
        np.testing.assert_array_equal(table, matrix)
    auc = metrics.roc_auc_score(held.truth, stated[:, 1])
    assert held.metrics["roc_auc"] == pytest.approx(auc)


def test_intervals_and_sets_cover_what_they_state(numbers, classes):
    found = diagnostics.coverage(numbers.model_)
    n_labels = KNOWN.sum()
    for level, share in zip(found.levels, found.share, strict=True):
        assert abs(share - level) < 3 * np.sqrt(level * (1 - level) / n_labels) + 2 / n_labels
    assert (np.diff(found.share) >= 0).all()
    covered, size = diagnostics.set_coverage(diagnostics.held_out(classes.model_))
    assert covered.mean() > 0.8 and size.min() >= 1 and size.max() <= 3


class Stated:
    """Held-out labels of two classes with stated probabilities."""

    def __init__(self, probabilities, truth):
        self.probabilities = self.predictions = np.column_stack([1 - probabilities, probabilities])
        self.truth, self.rows, self.scored = truth, np.arange(truth.size), self
        self.prediction = (probabilities > 0.5).astype(float)


@pytest.mark.parametrize("true_power", [1.0, 3.0])
def test_calibration_tells_right_probabilities_from_wrong_ones(true_power):
    rng = np.random.default_rng(0)
    stated = rng.uniform(0.5, 1.0, 4000)
    held = Stated(stated, (rng.random(4000) < stated**true_power).astype(float))
    error = diagnostics.calibration_error(held)
    is_right = abs(error.value - error.expected) < 3 * error.deviation
    assert is_right == (true_power == 1.0)
    mean, accuracy, n_rows = diagnostics.calibration(held)
    assert n_rows.sum() == 4000 and (n_rows @ accuracy) == (held.truth == held.prediction).sum()
    np.testing.assert_allclose(n_rows @ mean, stated.sum())
    assert (np.abs(accuracy - mean**true_power) < 0.06).all()


def test_groups_are_the_labels_that_they_name(numbers):
    model = numbers.model_
    held = diagnostics.held_out(model)
    groups = dict(diagnostics.label_groups(model, model.table, held))
    assert groups["All"].all()
    thirds = [own for name, own in groups.items() if name.endswith("third of predictions")]
    assert np.sum(thirds, axis=0).max() == 1 and all(
        own.sum() >= KNOWN.sum() // 3 for own in thirds
    )
    adjacency = model.graph.adjacency != 0
    n_labelled = (adjacency @ KNOWN.astype(float))[held.rows]
    np.testing.assert_array_equal(groups["3 or more labelled neighbours"], n_labelled >= 3)


def test_importances_are_shares_of_the_columns_of_the_user(numbers, plain):
    for model in (numbers, plain):
        ranked = diagnostics.importances(model.model_)
        assert sum(one.share for one in ranked) == pytest.approx(1.0)
        assert {one.name for one in ranked} - {"place in the graph"} == set(model.feature_names_in_)
        assert [one.share for one in ranked] == sorted((one.share for one in ranked), reverse=True)
    assert ranked[0].of_neighbors == 0.0
    names = [one.name for one in diagnostics.importances(numbers.model_)]
    assert names.index("<b>bold</b>") < names.index("two")


def test_places_are_the_coordinates(numbers, plain):
    place = diagnostics.places(numbers.model_)
    np.testing.assert_array_equal(place.points, numbers.model_.table.values[:, -2:])
    assert place.source == "x and y" and diagnostics.places(plain.model_) is None


def test_what_is_no_fitted_model_is_named(plain):
    with pytest.raises(TypeError, match=r"must be a fitted EBBSRegressor.*got ndarray"):
        diagnostics.fitted_model(np.zeros(3))
    with pytest.raises(ValueError, match="is not fitted"):
        diagnostics.fitted_model(eb.EBBSRegressor())
    with pytest.raises(ValueError, match=rf"3 rows, the model was fitted on {N}"):
        diagnostics.fitted_table(plain.model_, TABLE[:3][["two", "kind"]])
    whole = eb.EBBSRegressor(3, early_stopping=False).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="Every label was trained on"):
        diagnostics.require_held_out(whole.model_)


def test_numbers_are_written_as_people_write_them():
    values = [0.0535812, 1234.5678, 18410.3, 0.5, 1e-9, np.nan]
    assert list(map(figure, values)) == ["0.05358", "1235", "18,410", "0.5000", "1e-09", "–"]
    assert list(map(number, [2.0, 12345.0, 0.5])) == ["2", "12,345", "0.5"]
    shares = [0.0333, 0.5, 0.9999, 1.0, 0.0]
    assert list(map(percent, shares)) == ["3.33%", "50%", "99.9%", "100%", "0%"]
    assert date(18628.0) == "2021-01-01" and date(18628.5) == "2021-01-01 12:00"


@given(st.lists(st.floats(-1e3, 1e3), max_size=12), st.integers(0, 4))
def test_rounded_contributions_add_up(values, decimals):
    rounded = round_to_sum(values, decimals)
    assert sum(rounded) == pytest.approx(round(sum(values), decimals), abs=1.01 * 10**-decimals)
    assert all(abs(a - b) <= 1.001 * 10**-decimals for a, b in zip(rounded, values, strict=True))
