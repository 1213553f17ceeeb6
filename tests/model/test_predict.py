"""Which labels a prediction uses: those of fitted nodes, whichever way their rows are passed."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import ebboost as eb
from tests.problems import homophilous

N = 200
X, Y, GRAPH = homophilous(N)
TRAIN = np.arange(0, N, 2)
PARTS = {"smoothing": eb.Laplacian(1.0, 2), "neighbor_features": eb.NeighborFeatures()}


def fitted(labels="field", graph=GRAPH, **options):
    model = eb.EBBSRegressor(10, labels=labels, random_state=0, n_jobs=1, **PARTS | options)
    return model.fit(X, Y[TRAIN], nodes=TRAIN, graph=graph)


def named(ids, graph=GRAPH):
    return eb.Graph(graph.adjacency, np.array(ids, dtype=object))


NAMES = [f"node {i}" for i in range(N)]


@pytest.mark.parametrize("learner", ["lightgbm", "catboost"])
@pytest.mark.parametrize("labels", ["field", "masked"])
def test_the_fitted_table_is_predicted_with_its_labels(labels, learner):
    pytest.importorskip(learner)
    model = fitted(labels, learner=learner)
    expected = model.predict()
    copy = eb.Graph.from_scipy(GRAPH.adjacency)
    for predicted in (
        model.predict(X),
        model.predict(X, graph=GRAPH),
        model.predict(X, graph=copy),
    ):
        np.testing.assert_allclose(predicted, expected, rtol=1e-9)
    np.testing.assert_allclose(model.predict(X, graph=GRAPH, nodes=[3, 1]), expected[[3, 1]])
    np.testing.assert_allclose(model.predictor(X, graph=GRAPH).predict(), expected, rtol=1e-9)
    assert model.score(X, Y, graph=GRAPH) == pytest.approx(model.score(None, Y))
    assert model.score(X, Y) == pytest.approx(model.score(None, Y))


def test_a_loaded_model_knows_its_labels_without_its_table(tmp_path):
    model = fitted()
    model.save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    np.testing.assert_allclose(loaded.predict(X, graph=GRAPH), model.predict(), rtol=1e-9)
    np.testing.assert_array_equal(loaded.predict(X), model.predict())
    with pytest.raises(ValueError, match="so a prediction needs one"):
        loaded.predict(X + 1.0)


def test_a_pipeline_predicts_the_fitted_rows_with_labels():
    steps = make_pipeline(FunctionTransformer(), eb.EBBSRegressor(10, labels="field", **PARTS))
    steps.fit(X, np.where(np.arange(N) % 2, np.nan, Y), ebbsregressor__graph=GRAPH)
    np.testing.assert_allclose(steps.predict(X), steps[-1].predict())


def test_a_few_changed_rows_are_the_same_nodes():
    model = fitted()
    changed = X.copy()
    changed[7] += 1.0
    expected = model.predict(changed, graph=GRAPH, new_labels=(TRAIN, Y[TRAIN]))
    np.testing.assert_allclose(model.predict(changed, graph=GRAPH), expected)
    assert not np.allclose(expected, model.predict())


def test_other_rows_on_the_same_graph_are_new_nodes():
    model = fitted()
    other = np.random.default_rng(1).normal(size=X.shape)
    with pytest.warns(UserWarning, match="taken as new nodes, without labels"):
        predicted = model.predict(other, graph=GRAPH)
    np.testing.assert_allclose(predicted, model.predict(other, graph=GRAPH, new_labels=([], [])))
    with pytest.warns(UserWarning, match="taken as new nodes, without labels"):
        model.predict(other[:50], graph=eb.Graph.build_knn(other[:50], 3), nodes=[4])


def test_labels_are_those_of_nodes_with_the_same_ids():
    model = fitted(graph=named(NAMES))
    order = np.random.default_rng(0).permutation(N)
    ids = [NAMES[i] for i in order]
    graph = named(ids, eb.Graph.from_scipy(GRAPH.adjacency[order][:, order]))
    np.testing.assert_allclose(model.predict(X[order], graph=graph), model.predict()[order])
    half = np.sort(order[:100])
    part = eb.Graph.from_scipy(GRAPH.adjacency[half][:, half])
    known = np.flatnonzero(np.isin(half, TRAIN))
    expected = model.predict(X[half], graph=part, new_labels=(known, Y[half[known]]))
    by_ids = model.predict(X[half], graph=named([NAMES[i] for i in half], part))
    np.testing.assert_allclose(by_ids, expected)


def test_a_new_label_replaces_that_of_the_fit():
    model = fitted()
    again = model.predict(X, graph=GRAPH, new_labels=([0], [Y[0] + 5.0]))
    assert again[0] > model.predict()[0] + 0.5
    with pytest.raises(ValueError, match="the model has used that label already"):
        model.predict(new_labels=([0], [1.0]))


def test_models_without_labels_take_new_tables_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fitted("none")
        part = eb.Graph.from_scipy(GRAPH.adjacency[:150][:, :150])
        inner = np.flatnonzero(GRAPH.adjacency[:, 150:].sum(axis=1)[:150] == 0)
        predicted = model.predict(X[:150], graph=part)
    assert np.corrcoef(predicted[inner], model.predict()[inner])[0, 1] > 0.9


def test_directions_inform_predictions_and_are_saved(tmp_path):
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 400, (2, 1600))
    X = rng.normal(size=(400, 2))
    graph = eb.Graph.from_edges(source, target, n_nodes=400, directed=True)
    y = graph.outgoing.T @ X[:, 0]  # of incoming neighbours
    train, test = np.arange(300), np.arange(300, 400)
    errors = {}
    for name, one in (("directed", graph), ("undirected", eb.Graph(graph.adjacency))):
        model = eb.EBBSRegressor(60, labels="none", random_state=0, **PARTS | {"smoothing": None})
        model.fit(X, y[train], nodes=train, graph=one)
        errors[name] = np.mean((model.predict(nodes=test) - y[test]) ** 2)
        if name == "directed":
            model.save(tmp_path / "m.ebb", table=True)
            loaded = eb.load(tmp_path / "m.ebb")
            np.testing.assert_allclose(loaded.predict(X, graph=graph), model.predict())
            assert (loaded.graph_.outgoing != graph.outgoing).nnz == 0
            some = model.predict(X, graph=graph, nodes=[5, 2])
            np.testing.assert_allclose(some, model.predict()[[5, 2]])
    assert errors["directed"] < 0.8 * errors["undirected"]


def test_shares_of_categories_are_saved(tmp_path):
    kinds = pd.DataFrame({"x": X[:, 0], "kind": np.array(list("abcdefghijkl"))[np.arange(N) % 12]})
    model = eb.EBBSRegressor(10, random_state=0, **PARTS | {"labels": "field"})
    model.fit(kinds, Y[TRAIN], nodes=TRAIN, graph=GRAPH)
    model.save(tmp_path / "m.ebb", table=True)
    loaded = eb.load(tmp_path / "m.ebb")
    np.testing.assert_allclose(loaded.predict(kinds, graph=GRAPH), model.predict())
    assert any(name.startswith("share(kind=") for name in loaded.explanations([0])[0].own)
