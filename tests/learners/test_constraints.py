"""Constraints by names of columns, on tables with columns of neighbours."""

import numpy as np
import pandas as pd
import pytest

import ebboost as eb
from ebboost.data.table import Table
from ebboost.learners.constraints import translate_constraints
from tests.strategies import fixed, quick

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(300, 3)), columns=["area", "age", "noise"])
Y = np.sin(3 * X["area"]) + X["area"] * (0.2 + 0.5 * X["age"])
GRAPH = eb.Graph.build_knn(X[["age"]].to_numpy(), k=5)
# Columns of X, the mean of each among neighbours, and a degree.
NAMES = ("a", "b", "c", "mean(a)", "mean(b)", "mean(c)", "degree")
TABLE = Table(np.zeros((2, 7)), NAMES, (2,), (0, 1, 2, 0, 1, 2, -1))


def predictions(learner, changes):
    """What a model predicts of node 5 where its columns are changed, all others as they were."""
    model = fixed(n_estimators=30, learner=learner, neighbor_features=eb.NeighborFeatures())
    model.fit(X, Y.to_numpy(), graph=GRAPH)
    result = []
    for change in changes:
        changed = X.copy()
        changed.loc[5, list(change)] = list(change.values())
        result.append(model.predict(changed, graph=GRAPH, new_labels=([], []))[5])
    return np.array(result)


def test_scores_rise_with_a_column_that_must_rise():
    areas = [{"area": area} for area in np.linspace(-3.0, 3.0, 25)]
    free = predictions(eb.LightGBM(), areas)
    rising = predictions(eb.LightGBM(params={"monotone_constraints": {"area": 1, "noise": 0}}), areas)
    assert np.diff(free).min() < -0.05
    assert np.diff(rising).min() >= 0.0 < np.ptp(rising)


def test_columns_of_two_groups_do_not_interact():
    corners = [{"area": area, "age": age} for area in (-1.0, 1.0) for age in (-1.0, 1.0)]
    signs = np.array([1.0, -1.0, -1.0, 1.0])
    free = predictions(eb.LightGBM(), corners)
    apart = predictions(eb.LightGBM(params={"interaction_constraints": [["area"]]}), corners)
    assert abs(free @ signs) > 0.1
    assert apart @ signs == pytest.approx(0.0, abs=1e-5)


def test_every_member_takes_constraints():
    learner = eb.LightGBM(params={"monotone_constraints": {"area": 1}})
    model = quick(n_estimators=3, learner=learner).fit(X, Y.to_numpy(), graph=GRAPH)
    assert np.isfinite(model.predict()).all()


def test_columns_computed_from_others_have_no_direction_and_are_in_their_group():
    params = {"monotone_constraints": {"b": -1, 0: 1}, "num_leaves": 3}
    directions = [1, -1, 0, 0, 0, 0, 0]
    translated = translate_constraints(params, TABLE)
    assert translated == {"monotone_constraints": directions, "num_leaves": 3}
    params = {"interaction_constraints": [["a", "b"], ["b", 2]]}
    groups = translate_constraints(params, TABLE)["interaction_constraints"]
    assert groups == [[0, 1, 3, 4], [1, 2, 4, 5], [6]]
    groups = translate_constraints({"interaction_constraints": [["a"]]}, TABLE)
    assert groups["interaction_constraints"] == [[0, 3], [1, 2, 4, 5, 6]]
    assert translate_constraints(None, TABLE) == {}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"monotone_constraints": [1, 0]}, r"must be a dict of columns of X .* got \[1, 0\]"),
        ({"monotone_constraints": {"a": 2}}, "of column 'a' must be 1, -1 or 0, got 2"),
        ({"monotone_constraints": {"mean(a)": 1}}, r"no column 'mean\(a\)' .* 'a', 'b', 'c'"),
        ({"monotone_constraints": {7: 1}}, "X has no column 7"),
        ({"monotone_constraints": {"c": 1}}, "column 'c' has categories"),
        ({"interaction_constraints": "a,b"}, "must be a list of groups .* got 'a,b'"),
        ({"interaction_constraints": ["a", "b"]}, "must be a list of groups"),
        ({"interaction_constraints": [["z"]]}, "interaction_constraints: X has no column 'z'"),
    ],
)
def test_invalid_constraints_raise_with_their_column(params, message):
    with pytest.raises(ValueError, match=message):
        translate_constraints(params, TABLE)


def test_a_projected_table_has_no_columns_to_constrain():
    table = Table(np.zeros((2, 1)), ("direction(0)",), (), (-1,))
    with pytest.raises(ValueError, match="no column 'a' that trees split; there are none"):
        translate_constraints({"monotone_constraints": {"a": 1}}, table)
