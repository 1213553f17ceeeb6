"""The problems that an audit reports."""

import re

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

import ebboost as eb
from ebboost.inspection import data_audit


def grid(side):
    coords = np.argwhere(np.ones((side, side))).astype(float)
    return eb.Graph.build_radius(coords, 1.0)


def warnings(X, y, graph):
    return eb.check_graph(X, y, graph, estimate=False).warnings


def test_each_problem_of_a_column_is_named_and_a_clean_table_has_none():
    rng = np.random.default_rng(0)
    n = 400
    y = np.repeat(rng.normal(size=20), 20) + 0.5 * rng.normal(size=n)
    y[::4] = np.nan
    clean = pd.DataFrame({"x": rng.normal(size=n), "kind": rng.choice(["a", "b"], n)})
    assert warnings(clean, y, grid(20)) == []
    labels = np.where(np.isnan(y), 0.0, y)
    problems = {
        "copy": (np.exp(labels), "Nearly copies the target: 'copy' (100% explained)."),
        "close": (labels + 0.2 * rng.normal(size=n), "Explains most of the target alone: 'close'"),
        "same": (np.ones(n), "Constant or empty: 'same'."),
        "nothing": (np.full(n, np.nan), "Constant or empty: 'nothing' (empty)."),
        "number": (np.arange(n), "like an identifier: 'number'."),
        "label": ([f"row {i}" for i in range(n)], "like an identifier: 'label'."),
        "late": (
            np.where(np.isnan(y), np.nan, rng.normal(size=n)),
            "rarely in labelled rows: 'late' (100% against 0%).",
        ),
        "gaps": (np.where(np.arange(n) % 3, rng.normal(size=n), np.nan), "missing: 'gaps' (34%)."),
    }
    for name, (column, text) in problems.items():
        (warning,) = warnings(clean.assign(**{name: column}), y, grid(20))
        assert text in warning


def test_a_date_for_each_row_is_no_identifier():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=400), "sold": pd.date_range("2020-01-01", periods=400)})
    y = np.repeat(rng.normal(size=20), 20) + 0.5 * rng.normal(size=400)
    assert warnings(X, y, grid(20)) == []


def test_columns_with_the_same_problem_share_one_warning():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(np.ones((400, 7)), columns=list("abcdefg")).assign(x=rng.normal(size=400))
    y = np.repeat(np.arange(20.0), 20) + rng.normal(size=400)
    (warning,) = warnings(X, y, grid(20))
    assert warning.startswith("Constant or empty: 'a', 'b', 'c', 'd', 'e' and 2 more.")


def test_problems_of_graphs_and_rows_are_named():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=100)})
    y = np.repeat(["a", "b"], 50).astype(object)
    start = np.concatenate([np.arange(49), np.arange(50, 99)])
    within = eb.Graph.from_edges(start, start + 1)
    assert any("same class only" in text for text in warnings(X, y, within))
    y[0] = None
    isolated = eb.Graph.from_edges(np.arange(1, 99), np.arange(2, 100), n_nodes=100)
    assert "1 of 100 nodes has no edge, 1 of them to predict" in warnings(X, y, isolated)[0]
    doubled = pd.DataFrame({"x": np.tile(rng.normal(size=50), 2)})
    ring = eb.Graph.from_edges(np.arange(100), (np.arange(100) + 1) % 100)
    assert any("50 rows repeat another row" in text for text in warnings(doubled, y, ring))


def test_components_without_labels_and_uncorrelated_labels_are_named():
    rng = np.random.default_rng(0)
    y = rng.normal(size=400)
    X = rng.normal(size=(400, 2))
    (text,) = (one for one in warnings(X, y, grid(20)) if "hardly correlated between" in one)
    assert re.search(r": -?0\.0\d, where -?0\.0\d ± 0\.0\d is expected without any relation", text)
    edges = np.arange(0, 398)
    two = eb.Graph.from_edges(np.delete(edges, 199), np.delete(edges, 199) + 1, n_nodes=400)
    y[200:] = np.nan
    assert any("199 nodes in components without any label" in t for t in warnings(X, y, two))


def test_labels_that_are_too_few_to_tell_give_no_warning_about_their_correlation():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(64, 2)), random.normal(size=64)
    assert not any("hardly correlated" in text for text in warnings(X, y, grid(8)))


@given(st.integers(0, 2**32))
def test_repeated_rows_are_counted_exactly(seed):
    rng = np.random.default_rng(seed)
    values = rng.choice([0.0, -0.0, 1.0, np.nan, 1e300, -1e-300], size=(60, 4))
    different = {tuple("?" if v != v else v + 0.0 for v in row) for row in values.tolist()}
    assert data_audit.repeated_rows(values) == 60 - len(different)
