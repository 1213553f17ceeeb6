"""One candidate by rules: labels and columns of neighbours are used if they are informative."""

import numpy as np
import pytest

import ebboost as eb


def hubs(n_nodes=400, n_hubs=40):
    """A graph of hubs and of leaves with one to nine hubs each, and two columns."""
    rng = np.random.default_rng(0)
    leaves = np.repeat(np.arange(n_hubs, n_nodes), rng.integers(1, 10, n_nodes - n_hubs))
    graph = eb.Graph.from_edges(leaves, rng.integers(n_hubs, size=leaves.size), n_nodes=n_nodes)
    return rng.normal(size=(n_nodes, 2)), graph, rng


def selected(X, y, graph, estimator=eb.EBBSRegressor, **changes):
    return estimator.from_preset("fast", random_state=0, **changes).fit(X, y, graph=graph)


def test_columns_of_neighbours_are_used_where_labels_depend_on_them():
    X, graph, rng = hubs()
    y = X[:, 0] + np.log1p(graph.degrees) + 0.1 * rng.normal(size=len(X))
    model = selected(X, y, graph)
    assert model.best_candidate_ == "neighbour columns"
    assert model.score(X, y) > selected(X, y, None).score(X, y) + 0.1


def test_columns_of_neighbours_are_used_for_classes():
    X, graph, _ = hubs()
    y = np.where(graph.degrees > np.median(graph.degrees), "hub", "leaf")
    assert "neighbour columns" in selected(X, y, graph, eb.EBBSClassifier).best_candidate_


@pytest.mark.parametrize("seed", range(3))
def test_plain_boosting_is_used_where_the_graph_says_nothing(seed):
    X, graph, _ = hubs()
    y = X[:, 0] + np.random.default_rng(seed).normal(size=len(X))
    assert selected(X, y, graph).best_candidate_ == "none"


def points(n_nodes=400):
    """Points in the unit square, their graph, and a column that neighbours do not share."""
    rng = np.random.default_rng(0)
    places = rng.random((n_nodes, 2))
    graph = eb.Graph.build_knn(places, k=6)
    return rng.normal(size=(n_nodes, 1)), places, graph


def test_scores_are_propagated_only_if_that_lowers_the_loss_of_few_labels():
    X, places, graph = points()
    smooth = np.sin(6.0 * places[:, 0])
    own = selected(X, X[:, 0] + smooth, graph)
    assert own.best_candidate_.startswith("field(")
    P = eb.Laplacian(1.0, 2).operator(graph)
    of_neighbors = selected(X, 4.0 * P.apply(X)[:, 0] + smooth, graph)
    assert of_neighbors.best_candidate_.startswith("propagation + field(")


def test_scores_of_classes_are_propagated_only_if_that_lowers_the_loss_of_few_labels():
    X, places, graph = points()
    smooth = np.sin(6.0 * places[:, 0])
    P = eb.Laplacian(1.0, 2).operator(graph)
    for signal, name in ((X[:, 0], "field("), (8.0 * P.apply(X)[:, 0], "propagation + field(")):
        y = np.where(signal + smooth > 0.0, "high", "low")
        assert selected(X, y, graph, eb.EBBSClassifier).best_candidate_.startswith(name)


def test_many_labels_have_one_candidate_without_propagation(monkeypatch):
    monkeypatch.setattr("ebboost.training.defaults.MANY_LABELS_FROM", 100)
    X, places, graph = points()
    model = selected(X, X[:, 0] + np.sin(6.0 * places[:, 0]), graph)
    assert model.selection_["candidate"] == [model.best_candidate_]
    assert "propagation" not in model.best_candidate_


def test_without_labels_of_neighbours_scores_are_propagated():
    X, places, graph = points()
    y = X[:, 0] + np.sin(6.0 * places[:, 0])
    model = eb.EBBSRegressor.from_preset("fast", labels="none", random_state=0)
    assert model.fit(X, y, graph=graph).best_candidate_.startswith("propagation")


def test_counts_and_their_exposure_can_be_compared():
    X, graph, rng = hubs()
    exposure = rng.uniform(1.0, 3.0, len(X))
    y = rng.poisson(exposure * np.log1p(graph.degrees))
    model = eb.EBBSRegressor.from_preset("fast", loss="poisson", random_state=0)
    model.fit(X, y, graph=graph, exposure=exposure)
    assert "neighbour columns" in model.best_candidate_


def test_missing_values_and_categories_do_not_prevent_the_comparison():
    pandas = pytest.importorskip("pandas")
    X, graph, rng = hubs()
    y = np.log1p(graph.degrees) + 0.1 * rng.normal(size=len(X))
    table = pandas.DataFrame(X, columns=["a", "b"])
    table.loc[::3, "a"] = np.nan
    table["kind"] = pandas.Categorical(rng.choice(["x", "y"], len(X)))
    assert selected(table, y, graph, loss="squared_error").best_candidate_ == "neighbour columns"
