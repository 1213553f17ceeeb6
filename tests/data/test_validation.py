"""Every mistake is met by a message that names the argument, the place and the remedy."""

import re
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.exceptions import DataConversionWarning, NotFittedError

import ebboost as eb

N = 12
X = np.arange(2.0 * N).reshape(N, 2)
Y = np.arange(float(N))
CLASSES = np.array(["a", "b", "c"] * 4, dtype=object)
GRAPH = eb.Graph.from_edges(np.arange(N - 1), np.arange(1, N))
NAMED = eb.Graph.from_networkx(nx.path_graph([f"n{i}" for i in range(N)]))
FRAME = pd.DataFrame(X, columns=["u", "v"])


SMALL = {
    "n_estimators": 2,
    "n_jobs": 1,
    "random_state": 0,
    "learner": eb.LightGBM(min_child_samples=1),
}


def regressor(**changes):
    return eb.EBBSRegressor(**{**SMALL, **changes})


def classifier(**changes):
    return eb.EBBSClassifier(**{**SMALL, **changes})


def but(values, position, value):
    changed = np.array(values)
    changed[position] = value
    return changed


def refused(error, words, call):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert re.search(re.escape(word), str(caught.value)), f"{word!r} is not in: {caught.value}"


# ---------------------------------------------------------------------- graph


@pytest.mark.parametrize("n_rows", [N - 1, N + 1])
def test_graph_and_table_must_have_the_same_size(n_rows):
    table = np.zeros((n_rows, 2))
    words = [f"X has {n_rows} rows", f"graph has {N} nodes", "one row per node"]
    refused(ValueError, words, lambda: regressor().fit(table, np.zeros(n_rows), graph=GRAPH))
    fitted = regressor().fit(X, Y, graph=GRAPH)
    refused(ValueError, words, lambda: fitted.predict(table, graph=GRAPH))


@pytest.mark.parametrize(
    "graph", [GRAPH.adjacency, nx.path_graph(N), GRAPH.adjacency.toarray(), "graph.graphml"]
)
def test_graphs_of_other_libraries_raise_an_error_that_names_the_converter(graph):
    refused(TypeError, ["graph", "Graph.from_"], lambda: regressor().fit(X, Y, graph=graph))
    fitted = regressor().fit(X, Y, graph=GRAPH)
    refused(TypeError, ["graph", "Graph.from_"], lambda: fitted.predict(X, graph=graph))


def test_an_index_with_the_node_ids_in_another_order_is_rejected():
    ordered = FRAME.set_axis(NAMED.node_ids)
    swapped = ordered.iloc[[1, 0, *range(2, N)]]
    fitted = regressor().fit(ordered, Y, graph=NAMED)
    words = ["index of X", "row 0 is 'n1'", "node 0 is 'n0'", "X.loc[graph.node_ids]"]
    refused(ValueError, words, lambda: regressor().fit(swapped, Y, graph=NAMED))
    refused(ValueError, words, lambda: fitted.predict(swapped, graph=NAMED))
    # The remedy works, and an index that names something else is none of our business.
    assert (
        fitted.predict(swapped.loc[NAMED.node_ids], graph=NAMED)
        == fitted.predict(ordered, graph=NAMED)
    ).all()
    regressor().fit(FRAME, Y, graph=NAMED)


def test_a_model_fitted_on_a_graph_predicts_only_with_one():
    fitted = classifier().fit(X, CLASSES, graph=GRAPH)
    for call in (fitted.predict, fitted.predict_proba):
        refused(
            ValueError,
            ["fitted on a graph", "predict()", "predict(X_new, graph=g_new)"],
            lambda call=call: call(X[1:]),
        )
    refused(ValueError, ["graph was given without X"], lambda: fitted.predict(graph=GRAPH))


def test_an_unfitted_model_raises_not_fitted_error():
    with pytest.raises(NotFittedError, match="fit"):
        regressor().predict()


# ---------------------------------------------------------------------- labels


@pytest.mark.parametrize(
    ("y", "options", "words"),
    [
        (None, {}, ["requires y", "NaN"]),
        (np.full(N, np.nan), {}, ["No node is labelled", "y"]),
        ([], {"nodes": []}, ["No node is labelled", "y"]),
        (Y, {"sample_weight": np.zeros(N)}, ["No node is labelled", "sample_weight is zero"]),
        (
            np.full(N, np.nan),
            {"sample_weight": np.ones(N)},
            ["No node is labelled", "y holds no known label"],
        ),
        (Y[:5], {}, ["y has 5 labels", f"{N} rows", "nodes="]),
        (Y.reshape(3, 4), {}, ["y", "1d array", "(3, 4)"]),
        ([[1.0], [2.0, 3.0]], {}, ["y must be a flat list"]),
        (["tall"] * N, {}, ["y must hold numbers", "position 0", "'tall'", "EBBSClassifier"]),
        ([1.0, None, "tall"] * 4, {}, ["position 2", "'tall'"]),
        (np.arange(N).astype("M8[D]"), {}, ["y must hold numbers", "dates or times", "Convert"]),
        (but(Y, 3, np.inf), {}, ["y", "infinity", "position 3", "NaN"]),
        (
            [1.0, np.nan],
            {"nodes": [4, 7]},
            ["y has no label (NaN) at position 1", "nodes", "take it out"],
        ),
        ([1.0, -np.inf], {"nodes": [4, 7]}, ["y", "infinity", "position 1"]),
        ([1.0], {"nodes": [4, 7]}, ["nodes names 2 rows", "y has 1 labels"]),
        ([1.0, 2.0], {"nodes": [4, 4]}, ["nodes names row 4 twice", "position 1"]),
        (
            [1.0, 2.0],
            {"nodes": [4, N]},
            [f"nodes names row {N} at position 1", f"0 to {N - 1}", "index_of"],
        ),
        ([1.0, 2.0], {"nodes": [-1, 4]}, ["nodes names row -1 at position 0"]),
        ([1.0, 2.0], {"nodes": [True, True]}, ["nodes is a mask of 2 entries", f"{N} rows"]),
        ([1.0, 2.0], {"nodes": [[4], [7]]}, ["nodes", "one-dimensional", "(2, 1)"]),
        (Y, {"sample_weight": np.ones(3)}, ["sample_weight", "(3,)", f"({N},)"]),
        (Y, {"sample_weight": but(np.ones(N), 2, -1.0)}, ["sample_weight", "position 2", "-1"]),
        (Y, {"sample_weight": but(np.ones(N), 2, np.nan)}, ["sample_weight", "position 2", "nan"]),
        (Y, {"sample_weight": ["x"] * N}, ["sample_weight", "numbers", "'x'"]),
    ],
)
def test_invalid_labels_raise_errors_with_their_position(y, options, words):
    refused(ValueError, words, lambda: regressor().fit(X, y, graph=GRAPH, **options))


def test_nodes_must_be_positions_or_ids():
    def fit(nodes):
        return regressor().fit(X, [1.0, 2.0], graph=NAMED, nodes=nodes)

    words = ["nodes", "row positions", "graph.index_of(ids)"]
    refused(TypeError, words, lambda: fit([4.0, 7.0]))
    refused(ValueError, ["nodes has no node id at row 0"], lambda: fit([None, 4]))
    refused(ValueError, ["nodes, entry 1", "'m7'", "not an id"], lambda: fit(["n4", "m7"]))
    fitted = fit(NAMED.index_of(["n4", "n7"]))
    assert fit(["n4", "n7"]).validation_nodes_.size == fitted.validation_nodes_.size
    refused(TypeError, words, lambda: fitted.predict(nodes=[4.0, 7.0]))


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (["a"] * N, ["only one class", "'a'", "two classes"]),
        (["a", None] * 6, ["only one class", "'a'"]),
        (["a", 1, None] * 4, ["y mixes labels of different kinds", "int", "str"]),
        (np.linspace(0, 1, N), ["continuous"]),
    ],
)
def test_a_classifier_needs_two_classes_of_one_kind(y, words):
    refused(ValueError, words, lambda: classifier().fit(X, y, graph=GRAPH))


UNKNOWN = [None, np.nan, pd.NA, float("nan")]


@pytest.mark.parametrize("unknown", UNKNOWN, ids=["None", "np.nan", "pd.NA", "nan"])
@pytest.mark.parametrize(
    "wrap", [list, lambda y: np.array(y, dtype=object), lambda y: pd.Series(y, dtype=object)]
)
def test_every_marker_of_a_missing_label_is_unknown(unknown, wrap):
    y = wrap(["a", "b", unknown] * 4)
    assert classifier().fit(X, y).classes_.tolist() == ["a", "b"]
    model = regressor().fit(X, wrap([1.0, 3.0, unknown] * 4))
    assert model.init_score_ == pytest.approx(2.0)


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(pd.array([1, 3, None] * 4, dtype="Int64")),
        pd.Series(pd.array([1, 3, None] * 4, dtype="Float64")),
        pl.Series([1, 3, None] * 4),
        pa.array([1, 3, None] * 4),
        pa.chunked_array([[1, 3, None] * 4]),
    ],
    ids=["Int64", "Float64", "polars", "pyarrow", "chunked"],
)
def test_labels_may_be_a_column_of_any_dataframe(y):
    assert regressor().fit(X, y).init_score_ == pytest.approx(2.0)
    assert classifier().fit(X, y).classes_.tolist() == [1, 3]


def test_text_labels_may_be_a_column_of_any_dataframe():
    for y in (
        pd.Series(CLASSES),
        pd.Series(CLASSES, dtype="category"),
        pl.Series(CLASSES.tolist()),
        pa.array(CLASSES),
    ):
        assert classifier().fit(X, y).classes_.tolist() == ["a", "b", "c"]


def test_a_column_of_labels_is_flattened_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        assert regressor().fit(X, Y[:, None]).predict().shape == (N,)


def test_masks_and_positions_are_equivalent():
    mask = Y % 2 == 0
    models = [
        regressor().fit(X, Y[mask], graph=GRAPH, nodes=nodes)
        for nodes in (mask, np.flatnonzero(mask), mask.tolist())
    ]
    hidden = regressor().fit(X, np.where(mask, Y, np.nan), graph=GRAPH)
    for model in models:
        assert (model.predict() == hidden.predict()).all()
        assert (model.predict(nodes=mask) == hidden.predict()[mask]).all()


# ---------------------------------------------------------------------- eval_set

HALF = np.where(np.arange(N) < 6, Y, np.nan)


@pytest.mark.parametrize(
    ("eval_set", "words"),
    [
        (([5, 6], [1.0, 2.0]), ["eval_set and y share 1 labelled", "row 5", "NaN"]),
        ([6], ["eval_set must be a pair (nodes, labels)"]),
        ({"nodes": [6]}, ["eval_set must be a pair"]),
        ((X[6:], Y[6:]), ["eval_set must be (nodes, labels)", "rows into X"]),
        (([[6], [7, 8]], [1.0, 2.0]), ["eval_set must be (nodes, labels)"]),
        (([6, 7], [1.0]), ["eval_set[0] names 2 rows", "eval_set[1] has 1 labels"]),
        (([], []), ["eval_set is empty"]),
        (([6, 6], [1.0, 2.0]), ["eval_set[0] names row 6 twice"]),
        (([6, 40], [1.0, 2.0]), ["eval_set[0] names row 40 at position 1"]),
        (([True] * 3, [1.0] * 3), ["eval_set[0] is a mask of 3"]),
        (([6, 7], [1.0, np.nan]), ["eval_set[1] has no label (NaN) at position 1"]),
        (([6, 7], [1.0, np.inf]), ["eval_set", "infinity", "position 1"]),
        (([6, 7], [1.0, "tall"]), ["eval_set[1]", "position 1", "'tall'"]),
    ],
)
def test_invalid_eval_sets_raise_errors(eval_set, words):
    refused(ValueError, words, lambda: regressor().fit(X, HALF, graph=GRAPH, eval_set=eval_set))


def test_eval_set_must_hold_positions():
    refused(
        TypeError,
        ["eval_set[0]", "index_of"],
        lambda: regressor().fit(X, HALF, eval_set=(["n6"], [1.0])),
    )


def test_an_eval_set_with_an_unknown_class_is_rejected():
    y = np.where(np.arange(N) < 6, CLASSES, None)
    words = ["eval_set", "'z'", "['a', 'b', 'c']"]
    refused(ValueError, words, lambda: classifier().fit(X, y, eval_set=([7, 8], ["a", "z"])))


# ---------------------------------------------------------------------- the table at prediction


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["u"], ["missing", "v"]),
        (["u", "v", "w"], ["unseen", "w"]),
        (["u", "w"], ["unseen", "w", "missing", "v"]),
        (["v", "u"], ["order"]),
    ],
)
def test_columns_must_be_those_of_fit(frame, names, words):
    fitted = regressor().fit(frame({"u": X[:, 0], "v": X[:, 1]}), Y)
    refused(ValueError, words, lambda: fitted.predict(frame(dict.fromkeys(names, X[:, 0]))))


@pytest.mark.parametrize("width", [1, 3])
def test_the_number_of_columns_must_be_that_of_fit(width):
    fitted = regressor().fit(X, Y)
    refused(
        ValueError,
        [f"X has {width} features", "expecting 2"],
        lambda: fitted.predict(np.zeros((4, width))),
    )


def test_text_in_a_numeric_column_raises_an_error_with_row_and_column():
    as_objects = X.astype(object)
    as_objects[3, 1] = "tall"
    refused(
        ValueError, ["row 3, column 1", "'tall'", "categor"], lambda: regressor().fit(as_objects, Y)
    )
    fitted = regressor().fit(FRAME, Y)
    words = ["column 'v'", "numeric at fit", "'tall'", "Convert"]
    refused(ValueError, words, lambda: fitted.predict(FRAME.assign(v=["tall"] * N)))


# ---------------------------------------------------------------------- score


def test_score_takes_labels_of_all_rows_or_of_listed_nodes():
    model = regressor(n_estimators=30).fit(X, Y, graph=GRAPH)
    truth, shuffled = Y + np.where(Y % 2, 0.5, -0.5), np.random.default_rng(0).permutation(N)
    expected = model.score(None, truth)
    assert 0.5 < expected < 1.0
    assert model.score(None, truth[shuffled], nodes=shuffled) == pytest.approx(expected)
    few = np.array([7, 2, 9])
    assert model.score(None, truth, nodes=few) == model.score(None, truth[few], nodes=few)
    assert model.score(None, but(truth, 0, np.nan)) == model.score(
        None, truth[1:], nodes=np.arange(1, N)
    )
    refused(
        ValueError,
        ["y has 5 labels", f"{N} predictions", "nodes="],
        lambda: model.score(None, truth[:5]),
    )
    refused(ValueError, ["no known label"], lambda: model.score(None, np.full(N, np.nan)))
    refused(ValueError, ["score needs y"], lambda: model.score(None))


def test_valid_input_raises_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = regressor().fit(FRAME, HALF, graph=GRAPH, eval_set=([6, 7], [6.0, 7.0]))
        assert np.isfinite(model.predict(FRAME, graph=GRAPH)).all()


@pytest.mark.parametrize(("others", "warns"), [(1.0, False), (5.0, True)])
def test_minus_one_is_asked_about_where_it_is_no_step_below_zero(others, warns, recwarn):
    y = np.where(Y < 2, -1.0, others * (Y % 2))
    eb.EBBSRegressor(1, early_stopping=False).fit(X, y)
    assert ["y is -1 in 2 rows" in str(one.message) for one in recwarn] == [True] * warns
