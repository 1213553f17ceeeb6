"""Codes of categories are categories, whether they are integers, a pandas category or text."""

import numpy as np
import pandas as pd
import pytest

import ebboost as eb
from tests.safety.commands import run, write_tables
from tests.safety.problems import CHEAP, GRAPH, IDS, POINTS, TABLE, TRAIN, N

CODE = np.random.default_rng(1).integers(1, 13, N)  # 10 is after 9, as text too
EFFECT = 2.0 * np.random.default_rng(2).normal(size=13)
AROUND = GRAPH.adjacency @ EFFECT[CODE] / 6
TRUTH = EFFECT[CODE] + AROUND + TABLE["a"].to_numpy()
LABELS = np.where(np.isin(np.arange(N), TRAIN), TRUTH, np.nan)
CODED = TABLE.assign(code=CODE)
LISTED = {"categorical_features": ["code"]}
KINDS = {
    "listed": (CODED, LISTED),
    "listed by position": (CODED, {"categorical_features": [3]}),
    "floats": (CODED.astype({"code": float}), LISTED),
    "a gap in the numbers": (CODED.astype({"code": "Int64"}), LISTED),
    "category": (CODED.astype({"code": "category"}), {}),
    "ordered category": (CODED.assign(code=pd.Categorical(CODE, ordered=True)), {}),
    "text category": (CODED.astype({"code": str}).astype({"code": "category"}), {}),
    "array": (CODED.to_numpy(), {"categorical_features": [3]}),
}
SETTINGS = {
    "all columns": {
        "neighbor_features": eb.NeighborFeatures(),
        "feature_smoothing": eb.Laplacian(),
        "smoothing": eb.Laplacian(),
        "labels": "field",
        **CHEAP,
    },
    "default": {"n_folds": 2, "random_state": 0, "n_jobs": 1, "n_estimators": 40},
    "rules": {"n_folds": 1, "random_state": 0, "n_jobs": 1, "selection": "rules"},
    "xgboost": {"learner": "xgboost", "neighbor_features": eb.NeighborFeatures(), **CHEAP},
    "network": {"learner": "network", "neighbor_features": eb.NeighborFeatures(), **CHEAP},
}


def predictions(X, estimator, settings, y=LABELS):
    model = estimator(**settings).fit(X, y, graph=GRAPH)
    raw = model.predict_proba() if estimator is eb.EBBSClassifier else model.predict()
    return raw, model


@pytest.mark.parametrize("name", SETTINGS)
def test_predictions_do_not_depend_on_how_codes_are_written(name):
    if name == "xgboost":
        pytest.importorskip("xgboost")
    settings = SETTINGS[name]
    expected, _ = predictions(CODED.astype({"code": str}), eb.EBBSRegressor, settings)
    few = ("listed", "category")  # of what takes longer
    kinds = KINDS if name in ("all columns", "rules") else {kind: KINDS[kind] for kind in few}
    for kind, (X, more) in kinds.items():
        result, _ = predictions(X, eb.EBBSRegressor, settings | more)
        np.testing.assert_array_equal(result, expected, err_msg=kind)


def test_classes_too():
    y = np.where(np.isnan(LABELS), None, (np.median(TRUTH) < TRUTH).astype(object))
    settings = SETTINGS["all columns"]
    text = CODED.astype({"code": str})
    expected, _ = predictions(text, eb.EBBSClassifier, settings, y)
    result, _ = predictions(CODED, eb.EBBSClassifier, settings | LISTED, y)
    np.testing.assert_array_equal(result, expected)


def test_columns_of_neighbours_are_shares_of_levels_and_no_means_of_codes():
    for kind in ("listed", "category"):
        X, more = KINDS[kind]
        _, model = predictions(X, eb.EBBSRegressor, SETTINGS["all columns"] | more)
        names = list(model.tree_features().columns)
        assert {"mean(a)", "smoothed(a)", "share(code=others)"} <= set(names)
        wrong = {f"{what}(code)" for what in ("mean", "min", "max", "smoothed")}
        assert not wrong & set(names)
        share = names[[name.startswith("share(code=") for name in names].index(True)]
        level = int(share.partition("=")[2].rstrip(")"))
        expected = GRAPH.adjacency @ (level == CODE) / GRAPH.adjacency.sum(axis=1)
        np.testing.assert_allclose(model.tree_features()[share], expected)


def test_new_rows_have_the_categories_of_the_fit():
    new = CODED.iloc[:20]
    graph = eb.Graph.build_knn(POINTS[:20], k=4)
    results = []
    for X, more in ((CODED, LISTED), (CODED.astype({"code": str}), {})):
        _, model = predictions(X, eb.EBBSRegressor, SETTINGS["all columns"] | more)
        some = new if more else new.astype({"code": str})
        with pytest.warns(UserWarning, match="new nodes"):
            results.append(model.predict(some, graph=graph))
    np.testing.assert_array_equal(*results)


def test_the_command_line_is_python(tmp_path):
    nodes, edges = write_tables(tmp_path)
    table = CODED.assign(id=IDS, price=LABELS).round(6)
    table.to_csv(nodes, index=False)
    words = ("-t", "price", "--preset", "fast", "--rounds", 10, "-o", tmp_path / "m.ebb")
    result = run("fit", nodes, edges, *words, "--categorical", "code")
    assert "categories" in result.out and "code (12)" in result.out
    model = eb.EBBSRegressor.from_preset("fast", n_estimators=10, random_state=0, **LISTED)
    named = eb.Graph(GRAPH.adjacency, IDS)
    y = table["price"].to_numpy()
    expected = model.fit(table[["a", "b", "c", "code"]], y, graph=named)
    np.testing.assert_allclose(eb.load(tmp_path / "m.ebb").predict(), expected.predict())
