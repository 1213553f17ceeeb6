"""Random networks: ridge regression on units, Shapley values, inputs."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import ebboost as eb
from ebboost.data.reader import TableReader
from ebboost.learners.network import Scaling
from tests.learners.test_learners import grower, mixed_table
from tests.strategies import fixed, homophilous, table_of


def network(n_outputs=1, n_rounds=1):
    table = mixed_table(120, ["a", "b"])
    rng = np.random.default_rng(0)
    growing = grower(eb.RandomNetwork(8), table, n_outputs)
    for _ in range(n_rounds):
        growing.grow(rng.normal(size=(120, n_outputs)), rng.random((120, 1)) + 0.1)
    return growing.compile([0.5] * n_rounds), table


def hidden_values(units, rows):
    """The values of units at rows of inputs, one unit at a time, and a column of 1."""
    hidden = np.ones((len(rows), len(units.inputs) + 1))
    for number, (inputs, coefficients) in enumerate(
        zip(units.inputs, units.coefficients, strict=True)
    ):
        own = rows[:, inputs] @ coefficients + units.biases[number]
        hidden[:, number] = np.maximum(own, 0.0)
    return hidden


@pytest.mark.parametrize("per_output", [False, True])
def test_weights_of_a_round_solve_the_ridge_regression(per_output):
    rng = np.random.default_rng(0)
    table = table_of(rng.normal(size=(200, 3)))
    gradient = rng.normal(size=(200, 2))
    curvature = rng.random((200, 2 if per_output else 1))
    curvature[::3] = 0.0  # rows without a label
    growing = grower(eb.RandomNetwork(10, ridge=0.01), table, 2)
    values = growing.grow(gradient, curvature)
    ensemble = growing.compile([1.0])
    hidden = hidden_values(ensemble.units, ensemble.scaling.transform(table.values)[:-1].T)
    for output in range(2):
        weight = curvature[:, output % curvature.shape[1]]
        gram = hidden.T @ (weight[:, None] * hidden)
        gram += 0.01 * np.trace(gram) / 11 * np.eye(11)
        right = hidden.T @ np.where(weight > 0.0, -gradient[:, output], 0.0)
        expected = hidden @ np.linalg.solve(gram, right)
        np.testing.assert_allclose(values[:, output], expected, atol=1e-4)


def test_contributions_are_shapley_values():
    """Against their definition: the mean over all orders in which inputs are revealed."""
    ensemble, table = network()
    contributions = ensemble.contributions(table)[:, 0]
    rows = ensemble.scaling.transform(table.values)[:-1].T.astype(np.float64)
    n_inputs = rows.shape[1]

    def predict(known):
        masked = np.where(np.isin(np.arange(n_inputs), known), rows, 0.0)
        return 0.5 * hidden_values(ensemble.units, masked) @ ensemble.units.outputs[:, 0]

    expected = np.zeros((120, 4))
    expected[:, -1] = predict([])
    orders = list(permutations(range(n_inputs)))
    for order in orders:
        for position, one in enumerate(order):
            gain = predict(order[: position + 1]) - predict(order[:position])
            expected[:, ensemble.scaling.source[one]] += gain / len(orders)
    np.testing.assert_allclose(contributions, expected, atol=1e-5)


def test_inputs_are_normal_scores_and_indicators():
    table = mixed_table(300)
    scaling = Scaling.fit(table, np.arange(table.n_rows))
    inputs = scaling.transform(table.values)[:-1]
    assert scaling.source.tolist() == [0, 1, 1, 2, 2, 2, 2]  # numbers, missing, levels, missing
    order = np.argsort(table.values[:, 0])
    assert (np.diff(inputs[0, order]) >= 0.0).all()
    assert abs(inputs[0].mean()) < 0.05 and inputs[0].std() == pytest.approx(1.0, abs=0.1)
    np.testing.assert_array_equal(inputs[2], np.isnan(table.values[:, 1]))
    np.testing.assert_array_equal(inputs[3:].sum(axis=0), 1.0)


def test_values_that_are_equal_but_for_rounding_have_the_same_input():
    rng = np.random.default_rng(0)
    degrees = np.sqrt(rng.integers(1, 6, size=300)) * (1.0 + 1e-8 * rng.normal(size=300))
    degrees -= np.sqrt(3.0)  # noise around zero, too
    table = table_of(degrees[:, None])
    inputs = Scaling.fit(table, np.arange(table.n_rows)).transform(table.values)[0]
    for level in np.unique(degrees.round(4)):
        assert np.ptp(inputs[degrees.round(4) == level]) < 1e-4
    assert np.unique(inputs.round(3)).size == 5


def test_inputs_are_constant_beyond_the_rows_of_the_fit():
    table = table_of(np.arange(200.0)[:, None])
    scaling = Scaling.fit(table, np.arange(table.n_rows))
    ends = scaling.transform(np.array([[-1e30], [0.0], [199.0], [1e30]]))[0]
    assert ends[0] == ends[1] < ends[2] == ends[3]


def test_units_of_informative_columns_are_kept_and_drawn_more_often():
    rng = np.random.default_rng(0)
    table = table_of(rng.normal(size=(3000, 20)))
    growing = grower(eb.RandomNetwork(32), table)
    scores = np.zeros((3000, 1))
    target = np.abs(table.values[:, [3]])
    for _ in range(10):
        scores += 0.3 * growing.grow(scores - target, np.ones((3000, 1)))
    units = growing.compile([0.3] * 10).units
    is_informative = ((units.inputs == 3) & (units.coefficients != 0.0)).any(axis=1)
    first, later = is_informative[:32].mean(), is_informative[32:].mean()
    assert first > 0.2 and later > first  # one of ten units, if they were drawn at random


def test_wrong_parameters_and_sparse_tables_are_rejected():
    X, y, _ = homophilous(60)
    for wrong in (0, "8", None):
        with pytest.raises(ValueError, match="n_units must be"):
            fixed(learner=eb.RandomNetwork(wrong)).fit(X, y)
    for wrong in (-1.0, "a", None):
        with pytest.raises(ValueError, match="ridge must be"):
            fixed(learner=eb.RandomNetwork(8, wrong)).fit(X, y)
    fixed(learner=eb.RandomNetwork(np.int64(8))).fit(X, y)
    with pytest.raises(ValueError, match="not sparse"):
        fixed(learner=eb.RandomNetwork()).fit(sparse.random(60, 300, 0.1, random_state=0), y)


def test_rare_levels_have_no_indicator():
    kinds = ["often"] * 30 + ["rare"] * 3 + ["seldom"] * 12
    table = TableReader().fit(pd.DataFrame({"kind": kinds}))
    scaling = Scaling.fit(table, np.arange(table.n_rows))
    levels = [table.categories[0][level] for level in scaling.level]
    assert sorted(levels) == ["often", "seldom"]
