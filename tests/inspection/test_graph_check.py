"""``check_graph``: facts, problems and what the graph is worth."""

import json

import numpy as np
import pandas as pd
import pytest

import ebboost as eb
from ebboost.inspection.graph_check import verdict
from tests.inspection.conftest import CHEAP, CLASSES, GRAPH, IDS, KNOWN, LABELS, POINTS, TABLE, N

RANDOM = np.random.default_rng(3)


def check(X=TABLE, y=LABELS, graph=GRAPH, **options):
    return eb.check_graph(X, y, graph, **{"estimate": False, **options})


def test_facts_are_those_of_the_data():
    result = check(TABLE.assign(gap=np.where(np.arange(N) % 4, 1.0, np.nan)))
    assert (result.n_rows, result.n_columns, result.n_labelled) == (N, 6, KNOWN.sum())
    assert (result.n_nodes, result.n_edges) == (N, GRAPH.n_edges)
    assert result.n_components == GRAPH.n_components and result.n_isolates == 0
    assert result.most_neighbors == np.diff(GRAPH.adjacency.indptr).max()
    assert result.missing == {"gap": 0.25} and result.task == "regression"
    assert result.autocorrelation.value > 0.5 and result.autocorrelation.p_value < 0.01
    assert result.gain is None and result.verdict is None and result.model is None
    text = str(result)
    assert f"{KNOWN.sum()} labelled, {N - KNOWN.sum()} to predict" in text
    assert "gap 25%" in text and "Moran's I" in text
    assert json.loads(json.dumps(result.to_dict(), default=float))["n_edges"] == GRAPH.n_edges


def test_a_notebook_shows_what_print_shows_and_names_are_no_markup():
    result = check(TABLE.assign(**{"<i>one</i>": 1.0}))
    assert repr(result) == str(result) and "Constant or empty: '<i>one</i>'" in str(result)
    assert "&lt;i&gt;one&lt;/i&gt;" in result._repr_html_()


def test_the_fit_is_the_model_and_its_gain():
    estimator, X = eb.EBBSRegressor(**CHEAP), TABLE.drop(columns=["x", "y"])
    result = check(X, estimator=estimator, estimate=True)
    assert result.model is estimator and result.gain == estimator.gain_
    alone = eb.EBBSRegressor(**CHEAP).fit(X, LABELS, graph=GRAPH)
    np.testing.assert_array_equal(estimator.predict(), alone.predict())
    assert result.uses_graph and result.gain.relative > 0.2
    assert result.verdict.startswith("The graph helps. RMSE") and result.verdict in str(result)
    random = eb.Graph.build_knn(RANDOM.random((N, 2)), k=5)
    X = X.reset_index(drop=True)
    result = check(X, graph=random, estimator=eb.EBBSRegressor(**CHEAP), estimate=True)
    assert "helps" not in result.verdict


def test_the_verdict_is_that_of_the_errors():
    for with_graph, words in (
        (0.5, "The graph helps. RMSE 1.000 without the graph, 0.5000 with it"),
        (0.9, "adds little: the difference is within two standard errors"),
        (1.5, "does harm: fit without it"),
    ):
        assert words in verdict(eb.Gain("RMSE", 1.0, with_graph, 0.1, 100), True)
    assert "is not used" in verdict(eb.Gain("RMSE", 1.0, 1.0, 0.1, 100), False)


def same_class_edges():
    return eb.Graph.from_edges(*np.nonzero(np.triu(CLASSES[:, None] == CLASSES, 1)), n_nodes=N)


def islands():
    """The graph without edges of the rows on the right."""
    keep = POINTS[:, 0] < 0.8
    return eb.Graph.from_scipy(GRAPH.adjacency.multiply(np.outer(keep, keep)).tocsr())


PLAIN = eb.Graph.from_scipy(GRAPH.adjacency)
ROWS = TABLE.reset_index(drop=True)
NOISE = LABELS + 0.3 * RANDOM.normal(size=N)
MIXED = np.random.default_rng(2).normal(size=N)


def with_column(values):
    return ROWS.assign(c=values), LABELS, PLAIN


PROBLEMS = {
    "Constant or empty: 'c' (empty)": with_column(np.nan),
    "like an id: 'c'": with_column(np.arange(N) + 1000),
    "in nearly every row, like an id: 'c'": with_column(IDS),
    "Nearly copies the target: 'c'": with_column(2 * np.nan_to_num(LABELS)),
    "Explains most of the target alone: 'c'": with_column(np.nan_to_num(NOISE)),
    "rows to predict but rarely in labelled rows: 'c'": with_column(NOISE**2),
    "may mean unknown: 'c' (-999 in 25%)": with_column(np.where(np.arange(N) % 4, 1.5, -999)),
    "Often missing: 'c' (50%)": with_column(np.where(np.arange(N) % 2, POINTS[:, 0], np.nan)),
    "rows repeat another row": (pd.concat([ROWS[:160], ROWS[:80]]), LABELS, PLAIN),
    "nodes have no edge": (ROWS, LABELS, islands()),
    "All labels are equal": (ROWS, np.where(KNOWN, 3.0, np.nan), PLAIN),
    "neighbours of each other": (ROWS, np.where(POINTS[:, 0] < 0.3, LABELS, np.nan), PLAIN),
    "same class only": (ROWS, np.where(KNOWN, CLASSES, None), same_class_edges()),
    "hardly correlated between neighbours": (ROWS, MIXED, PLAIN),
}


@pytest.mark.filterwarnings("ignore:Column .* different texts")  # as said by the fit
@pytest.mark.parametrize("words", PROBLEMS)
def test_problems_are_found_where_they_are(words):
    X, y, graph = PROBLEMS[words]
    found = [one for one in check(X.reset_index(drop=True), y, graph).warnings if words in one]
    assert len(found) == 1 and found[0].endswith(".")
    assert not any(words in one for one in check(ROWS, LABELS, PLAIN).warnings)


def test_classes_groups_and_coordinates_are_checked_too():
    result = check(y=np.where(KNOWN, CLASSES, None))
    assert result.task == "classification" and result.autocorrelation.name == "edge agreement"
    group = np.arange(N) // 4
    towns = eb.Graph.build_knn(POINTS[::4], k=3)
    result = check(TABLE, LABELS, towns, groups=group)
    assert result.n_nodes == N // 4 and result.n_rows == N
    result = check(TABLE, LABELS, None, coordinates=["x", "y"])
    assert result.n_edges > N and result.autocorrelation.value > 0.5


def test_wrong_arguments_are_named():
    for options, message in (
        ({"graph": None}, "needs a graph, coordinates= or groups="),
        ({"graph": GRAPH.adjacency}, "must be an ebboost.Graph"),
        ({"task": "reg"}, "task must be one of"),
        ({"coordinate": ["x", "y"]}, "no argument 'coordinate'"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            check(**options)
