"""Predictions of fitted rows, of rows beside them, in their groups, and on other graphs."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import ebboost as eb
from ebboost.data.labels import Labels
from ebboost.field import conditional_mean
from tests import dense
from tests.strategies import fixed, homophilous, quick

N, OLD = 200, 150
X, Y, GRAPH = homophilous(N)
TRAIN = np.arange(0, N, 2)
FIELD = eb.LatentField(1.5, 0.2)
PARTS = {"labels": FIELD, "smoothing": eb.Laplacian(1.0, 2)}
BLOCK = GRAPH.adjacency[OLD:][:, :OLD]
ATTACH = (*BLOCK.tocoo().coords, BLOCK.tocoo().data)
BETWEEN = eb.Graph.from_scipy(GRAPH.adjacency[OLD:][:, OLD:])
INNER = eb.Graph.from_scipy(GRAPH.adjacency[:OLD][:, :OLD])
NAMES = np.array([f"n{i}" for i in range(N)], dtype=object)


def fitted(**options):
    graph = options.pop("graph", GRAPH)
    return fixed(**PARTS | options).fit(X, Y[TRAIN], nodes=TRAIN, graph=graph)


@pytest.fixture(scope="module")
def inner():
    """A model of the first rows; the others are new."""
    return fixed(**PARTS).fit(X[:OLD], Y[:OLD], graph=INNER)


@pytest.fixture(scope="module")
def default():
    """The whole portfolio, with nodes of names."""
    graph = eb.Graph(GRAPH.adjacency, NAMES)
    return quick().fit(X, Y[TRAIN], nodes=TRAIN, graph=graph)


def test_the_fitted_table_is_predicted_with_its_labels(default):
    expected = default.predict()
    np.testing.assert_array_equal(default.predict(X), expected)
    again = default.predict(X, graph=default.graph_)
    np.testing.assert_allclose(again, expected, rtol=1e-5, atol=1e-6)
    mask = np.isin(np.arange(N), [3, 7])
    for nodes in ([3, 7], mask, ["n3", "n7"]):
        np.testing.assert_array_equal(default.predict(nodes=nodes), expected[[3, 7]])
    np.testing.assert_array_equal(default.predict(X, nodes=mask), expected[mask])
    np.testing.assert_array_equal(default.predict(nodes=[3, 3]), expected[[3, 3]])
    assert default.score(X, Y) == default.score(None, Y)
    steps = make_pipeline(FunctionTransformer(), fixed(**PARTS))
    y = np.where(np.arange(N) % 2, np.nan, Y)
    steps.fit(X, y, ebbsregressor__graph=GRAPH)
    np.testing.assert_allclose(steps.predict(X), steps[-1].predict())


def test_nodes_with_the_same_ids_have_their_labels_on_another_graph(default):
    order = np.random.default_rng(0).permutation(N)
    graph = eb.Graph(eb.Graph.from_scipy(GRAPH.adjacency[order][:, order]).adjacency, NAMES[order])
    predicted = default.predict(X[order], graph=graph)
    np.testing.assert_allclose(predicted, default.predict()[order], rtol=1e-4, atol=1e-5)
    half = np.sort(order[:100])
    model = fitted(graph=default.graph_)
    part = eb.Graph.from_scipy(GRAPH.adjacency[half][:, half])
    known = np.flatnonzero(np.isin(half, TRAIN))
    with_labels = model.predict(X[half], graph=part, new_labels=(known, Y[half[known]]))
    by_ids = model.predict(X[half], graph=eb.Graph(part.adjacency, NAMES[half]))
    np.testing.assert_allclose(by_ids, with_labels, rtol=1e-9)


def test_unknown_nodes_have_no_labels_and_a_warning_says_so(default):
    part = eb.Graph.build_knn(X[:50], 3)
    with pytest.warns(UserWarning, match="taken as new nodes, without labels"):
        predicted = default.predict(X[:50], graph=part)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same = default.predict(X[:50], graph=part, new_labels=([], []))
        fitted(labels="none").predict(X[:50], graph=part)
    np.testing.assert_array_equal(predicted, same)


def test_returned_arrays_are_copies(default):
    before = default.predict().copy()
    default.predict()[:] = 0.0
    default.predict(X)[:] = 0.0
    default.predict(interval=0.9).lower[:] = 0.0
    np.testing.assert_array_equal(default.predict(), before)
    classes = fixed(eb.EBBSClassifier).fit(X, Y > 0)
    shares = classes.predict_proba().copy()
    classes.predict_proba()[:] = 0.0
    np.testing.assert_array_equal(classes.predict_proba(), shares)


# ---------------------------------------------------------------------- new rows


@pytest.mark.parametrize("between", [None, BETWEEN])
def test_attached_rows_have_scores_and_field_given_those_of_fitted_ones(inner, between):
    predicted = inner.predict(X[OLD:], attach=ATTACH, graph=between)
    one, model = inner.model_.components[0], inner.model_
    base = one.ensemble.predict(one.features.transform(model.reader.read(X[OLD:]), None))
    near = model.smoothed[0] - one.init_score
    scores = one.smoothing.join(base, BLOCK, near, INNER.degrees)
    edges = None if between is None else between.adjacency
    z = conditional_mean(FIELD, BLOCK, edges, model.fields[0], INNER.degrees)[0]
    np.testing.assert_allclose(predicted, (one.init_score + scores + z)[:, 0], rtol=1e-9)


def test_attached_rows_are_predicted_better_than_alone_and_one_as_in_a_batch(inner):
    together = inner.predict(X[OLD:], attach=ATTACH)
    alone = inner.predict(X[OLD:], attach=([], []))
    truth = Y[OLD:]
    assert np.mean((together - truth) ** 2) < 0.5 * np.mean((alone - truth) ** 2)
    one = inner.model_.components[0]
    base = one.init_score + one.ensemble.predict(inner.model_.reader.fit(X[OLD:]))
    np.testing.assert_allclose(alone, base[:, 0])
    for row in (0, 17, 49):
        entries = ATTACH[0] == row
        own = (np.zeros(entries.sum(), dtype=int), ATTACH[1][entries], ATTACH[2][entries])
        single = inner.predict(X[[OLD + row]], attach=own)
        np.testing.assert_allclose(single, together[[row]], rtol=1e-9)
    some = inner.predict(X[OLD:], attach=ATTACH, nodes=[4, 2])
    np.testing.assert_array_equal(some, together[[4, 2]])


def test_every_member_attaches_rows_of_tables_sparse_and_dense():
    wide = sparse.hstack([sparse.csr_array(X), sparse.random(N, 200, 0.05, random_state=0)]).tocsr()
    for table in (X, wide):
        smoothed = fixed(feature_smoothing=eb.Laplacian(), **PARTS)
        smoothed.fit(table[:OLD], Y[:OLD], graph=INNER)
        assert np.isfinite(smoothed.predict(table[OLD:], attach=ATTACH)).all()
        model = quick(n_estimators=40).fit(table[:OLD], Y[:OLD], graph=INNER)
        predicted = model.predict(table[OLD:], attach=ATTACH)
        assert np.corrcoef(predicted, Y[OLD:])[0, 1] > 0.8
        classes = quick(eb.EBBSClassifier, n_estimators=4)
        classes.fit(table[:OLD], Y[:OLD] > 0, graph=INNER)
        assert classes.predict_proba(table[OLD:], attach=ATTACH).sum() == pytest.approx(N - OLD)


# ---------------------------------------------------------------------- new labels


@pytest.mark.parametrize("loss", ["squared_error", "huber", "poisson"])
def test_new_labels_move_the_field_as_if_known_at_the_fit(loss):
    y = Y if loss != "poisson" else np.random.default_rng(0).poisson(np.exp(Y)).astype(float)
    model = fixed(labels=FIELD, loss=loss).fit(X, y[TRAIN], nodes=TRAIN, graph=GRAPH)
    new = np.array([1, 33, 77])
    predicted = model.predict(new_labels=(new, y[new]))
    base = model.model_.smoothed[0]
    rows = np.concatenate([TRAIN, new])
    labels = Labels(rows, y[rows, None], np.ones(rows.size))
    z = dense.mode(model.loss_, base[rows], labels, rows, dense.precision(GRAPH, FIELD))
    expected = model.loss_.inverse_link(base + z)[:, 0]
    np.testing.assert_allclose(predicted, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(model.predict(new_labels=([], [])), model.predict())


@pytest.mark.parametrize("between", [None, BETWEEN])
def test_new_labels_of_attached_rows_are_those_of_the_joined_graph(inner, between):
    new = np.arange(5)
    predicted = inner.predict(X[OLD:], attach=ATTACH, graph=between, new_labels=(new, Y[OLD + new]))
    corner = sparse.csr_array((50, 50)) if between is None else between.adjacency
    whole = sparse.csr_array(sparse.block_array([[INNER.adjacency, BLOCK.T], [BLOCK, corner]]))
    known = np.arange(OLD + 5)
    graph = eb.Graph(whole)
    expected = inner.predict(X, graph=graph, new_labels=(known, Y[known]))[OLD:]
    np.testing.assert_allclose(predicted, expected, rtol=1e-7)


def test_new_labels_inform_neighbours_in_every_member():
    y = np.where(np.arange(N) < 60, Y, np.nan)
    later = np.arange(60, 140)
    rest = np.arange(140, N)
    model = quick(n_estimators=30).fit(X, y, graph=GRAPH)
    informed = model.predict(new_labels=(later, Y[later]))[rest]
    before = model.predict()[rest]
    assert np.mean((informed - Y[rest]) ** 2) < 0.8 * np.mean((before - Y[rest]) ** 2)
    losses = []
    for seed in range(3):
        X_, y_, graph = homophilous(N, seed)
        truth = np.where(y_ > 0, "up", "down")
        known = np.where(np.arange(N) < 60, truth, None)
        classes = quick(eb.EBBSClassifier, n_estimators=10).fit(X_, known, graph=graph)
        new = (later, truth[later])
        shares = [classes.predict_proba(new_labels=pair) for pair in (new, ([], []))]
        losses.append([[log_loss(truth[at], p[at]) for p in shares] for at in (later, rest)])
    own, others = np.mean(losses, axis=0)
    assert own[0] < own[1] and others[0] < others[1]


# ---------------------------------------------------------------------- groups and offsets


def test_rows_of_known_groups_have_their_effect_and_of_others_that_of_their_neighbours():
    graph = eb.Graph.from_edges(np.arange(9), np.arange(1, 10))
    groups = np.random.default_rng(0).integers(0, 9, N)  # group 9 has no rows
    y = Y + groups
    model = fixed(labels=FIELD).fit(X, y, groups=groups, graph=graph)
    z = model.model_.fields[0][:, 0]
    one = model.model_.components[0]
    base = (one.init_score + one.ensemble.predict(model.model_.reader.read(X[:4] + 0.1)))[:, 0]
    predicted = model.predict(X[:4] + 0.1, groups=[3, 8, 9, 77])
    np.testing.assert_allclose(predicted, base + [z[3], z[8], z[9], 0.0])
    assert z[9] > 0.3 * z[8] > 0.0
    again = model.predict(X, groups=groups)
    np.testing.assert_allclose(again, model.predict(), rtol=1e-9)
    default = quick().fit(X, y, groups=groups, graph=graph)
    with pytest.warns(UserWarning, match="1 of 4 rows are of groups without labels"):
        assert np.isfinite(default.predict(X[:4], groups=[3, 8, 9, 77])).all()


def test_offsets_of_new_rows_are_added_to_their_scores():
    offset = np.random.default_rng(0).normal(size=N)
    counts = np.random.default_rng(1).poisson(np.exp(0.5 * Y + offset)).astype(float)
    options = {"labels": FIELD, "loss": "poisson"}
    model = fixed(**options).fit(X[:OLD], counts[:OLD], graph=INNER, offset=offset[:OLD])
    rate = model.predict(X[OLD:], attach=ATTACH, offset=np.zeros(50))
    twice = model.predict(X[OLD:], attach=ATTACH, exposure=np.full(50, 2.0))
    np.testing.assert_allclose(twice, 2.0 * rate)
    plain = fixed(labels=FIELD).fit(X[:OLD], Y[:OLD], graph=INNER)
    moved = plain.predict(X[OLD:], attach=ATTACH, offset=offset[OLD:])
    np.testing.assert_allclose(moved, plain.predict(X[OLD:], attach=ATTACH) + offset[OLD:])


# ---------------------------------------------------------------------- wrong uses


GROUPED = {"groups": np.arange(N) % 7}
SKEWED = np.exp(2.0 * Y)


@pytest.mark.parametrize(
    ("fit", "predict", "words"),
    [
        ({"graph": GRAPH}, {"X": X[1:]}, "this model was fitted on a graph|fitted on a graph"),
        ({"graph": GRAPH}, {"X": X + 1.0}, r"predict\(X_new, attach=\(rows, nodes\)\)"),
        ({"graph": GRAPH}, {"graph": GRAPH}, r"graph was given without X"),
        ({"graph": GRAPH}, {"attach": ([0], [0])}, "attach was given without X"),
        ({"graph": GRAPH}, {"groups": [1]}, "groups was given without X"),
        ({"graph": GRAPH}, {"offset": np.ones(N)}, "offset and exposure of the fitted rows"),
        ({"graph": GRAPH}, {"X": X[:3], "groups": [0, 1, 2]}, "fitted without groups"),
        ({"graph": GRAPH}, {"X": X[:3], "graph": GRAPH}, "X has 3 rows but graph has 200 nodes"),
        ({"graph": GRAPH}, {"X": X[:3], "attach": [0, 1]}, "attach|edge"),
        ({"graph": GRAPH}, {"X": X[:3], "attach": ([0, 1], [0])}, "2 rows and 1 fitted nodes"),
        ({"graph": GRAPH}, {"X": X[:3], "attach": ([7], [0])}, r"attach\[0\] names row 7"),
        ({"graph": GRAPH}, {"X": X[:3], "attach": ([0], [N])}, r"attach\[1\] names row 200"),
        ({"graph": GRAPH}, {"X": X[:3], "attach": ([0], [0], [-1.0])}, "negative"),
        ({"graph": GRAPH}, {"new_labels": ([0], [1.0])}, "has used that label already"),
        ({"graph": GRAPH}, {"new_labels": [1]}, r"new_labels must be a pair"),
        ({"graph": GRAPH}, {"new_labels": ([1], [np.nan])}, "no label"),
        ({"graph": GRAPH}, {"new_labels": ([1, 1], [1.0, 2.0])}, "twice"),
        ({"graph": GRAPH}, {"nodes": [N]}, "names row 200"),
        ({"graph": GRAPH}, {"nodes": np.ones(3, dtype=bool)}, "mask of 3"),
        ({"graph": GRAPH}, {"interval": 1.5}, "interval must be a number"),
        ({"graph": GRAPH}, {"interval": 0}, "interval must be a number"),
        (
            {"graph": GRAPH, "offset": Y},
            {"X": X[:3], "attach": ([], [])},
            "new rows need their own",
        ),
        ({}, {"X": X, "graph": GRAPH}, "graph was given, but this model was fitted without one"),
        ({}, {"X": X, "attach": ([0], [0])}, "attach was given, but this model was fitted without"),
        ({}, {"X": X, "groups": [0] * N}, "groups was given, but this model was fitted without"),
        ({}, {"new_labels": ([1], [1.0])}, "new_labels was given, but this model does not use"),
        ({}, {"X": X, "new_labels": ([1], [1.0])}, "new_labels needs a model that was fitted on"),
        ({}, {"X": X[:, :2]}, "2 features, but EBBSRegressor is expecting 3"),
        (GROUPED, {"X": X[:3]}, r"fitted with groups: .*predict\(X_new, groups=...\)"),
        (GROUPED, {"X": X[:3], "groups": [1]}, "groups has 1 entries, X has 3 rows"),
        (GROUPED, {"X": X[:3], "groups": [None] * 3}, "no node id at row 0"),
    ],
)
def test_wrong_uses_of_predict_are_met_by_a_message(fit, predict, words):
    options = {"labels": FIELD} if "graph" in fit or "groups" in fit else {}
    model = fixed(n_estimators=2, **options).fit(X, Y[TRAIN], nodes=TRAIN, **fit)
    with pytest.raises(ValueError, match=words):
        model.predict(**predict)


def test_an_offset_needs_the_likelihood_of_the_fit():
    model = quick(smoothing=None, labels="none").fit(X, SKEWED, graph=GRAPH)
    if any(one.loss is not None for one in model.model_.components):
        with pytest.raises(ValueError, match="fit with offset="):
            model.predict(X[:2], attach=([], []), offset=[1.0, 2.0])
    with pytest.raises(ValueError, match="exposure needs a loss of counts"):
        model.predict(X[:2], attach=([], []), exposure=[1.0, 2.0])


def test_models_that_use_no_labels_say_so():
    model = fixed(smoothing=eb.Laplacian()).fit(X, Y[TRAIN], nodes=TRAIN, graph=GRAPH)
    with pytest.raises(ValueError, match="does not use labels at prediction"):
        model.predict(new_labels=([1], [1.0]))
    classes = fixed(eb.EBBSClassifier, labels=FIELD)
    classes.fit(X, np.where(Y[TRAIN] > 0, "a", "b"), nodes=TRAIN, graph=GRAPH)
    with pytest.raises(ValueError, match="new_labels holds the class 'c'"):
        classes.predict(new_labels=([1], ["c"]))
