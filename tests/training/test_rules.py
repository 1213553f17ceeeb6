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


def selected(X, y, graph, estimator=eb.EBBSRegressor):
    return estimator.from_preset("fast", random_state=0).fit(X, y, graph=graph)


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


def test_missing_values_and_categories_do_not_prevent_the_comparison():
    pandas = pytest.importorskip("pandas")
    X, graph, rng = hubs()
    y = np.log1p(graph.degrees) + 0.1 * rng.normal(size=len(X))
    table = pandas.DataFrame(X, columns=["a", "b"])
    table.loc[::3, "a"] = np.nan
    table["kind"] = pandas.Categorical(rng.choice(["x", "y"], len(X)))
    assert selected(table, y, graph).best_candidate_ == "neighbour columns"
