"""Methods without torch on a small graph: better than a constant, with and without graph."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import data
from benchmarks.methods import METHODS
from benchmarks.methods.posthoc import _propagated
from benchmarks.problem import Problem, quality

LIGHT = [
    name for name, method in METHODS.items() if "torch" not in method.needs and method.in_tables
]
LIGHT.remove("GPBoost")  # needs coordinates


@pytest.mark.parametrize("name", LIGHT)
@pytest.mark.parametrize("dataset", ["county", "slap"])
def test_a_method_predicts_every_node_and_beats_a_constant(home, name, dataset):
    loaded = data.load(dataset)
    problem = Problem.of(loaded, 0, seed=0)
    method = METHODS[name]
    outcome = method(problem, **method.configurations(dataset)[0])
    test = loaded.splits[0]["test"]
    assert (
        outcome.predicted.shape == ((80, 2) if loaded.classes else (80,))
        and np.isfinite(outcome.predicted).all()
    )
    reached = quality(loaded.classes, outcome.predicted[test], loaded.y[test])
    if loaded.classes:
        assert reached > 100 * max(np.mean(loaded.y[test] == kind) for kind in (0, 1))
    else:
        assert reached < loaded.y[test].std()


@pytest.mark.parametrize(
    "name", ["LightGBM, neighbours", "CatBoost, graph", "CatBoost+", "Correct and smooth", "EBBS"]
)
def test_methods_with_a_graph_change_with_it(home, name):
    method, loaded = METHODS[name], data.load("county")
    settings = method.configurations("county")[0]
    first, second = (
        method(Problem.of(d, 0, 0), **settings).predicted for d in (loaded, data.rewired(loaded))
    )
    assert np.abs(first - second).max() > 1e-6


@pytest.mark.parametrize("name", ["LightGBM", "CatBoost", "XGBoost"])
def test_methods_without_a_graph_do_not_change_with_it(home, name):
    method, loaded = METHODS[name], data.load("county")
    settings = method.configurations("county")[0]
    first, second = (
        method(Problem.of(d, 0, 0), **settings).predicted for d in (loaded, data.rewired(loaded))
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", ["LightGBM", "CatBoost", "XGBoost", "EBBS"])
def test_a_class_without_a_training_node_is_never_predicted(home, name):
    loaded = data.load("slap")
    loaded.y[loaded.splits[0]["test"][0]] = 2
    method = METHODS[name]
    outcome = method(Problem.of(loaded, 0, seed=0), **method.configurations("slap")[0])
    assert outcome.predicted.shape == (80, 3) and set(outcome.predicted.argmax(axis=1)) <= {0, 1}


@pytest.mark.parametrize("similarity", [True, False])
def test_spectral_features_and_similar_neighbourhoods_are_requested_for_wiki(home, similarity):
    assert {"similarity": similarity} in METHODS["EBBS"].configurations("wiki")
    loaded = data.load("county")
    numeric = replace(Problem.of(loaded, 0, seed=0), X=loaded.X[["a", "b"]].fillna(0.0))
    outcome = METHODS["EBBS"](numeric, similarity=similarity)
    test = loaded.splits[0]["test"]
    assert quality(False, outcome.predicted[test], loaded.y[test]) < loaded.y[test].std()


def test_label_propagation_reaches_its_fixed_point(home):
    graph = data.load("county").graph
    start = np.random.default_rng(0).normal(size=(80, 2))
    scale = np.diag(1 / np.sqrt(graph.degrees))
    exact = 0.5 * np.linalg.solve(
        np.eye(80) - 0.5 * scale @ graph.adjacency.toarray() @ scale, start
    )
    np.testing.assert_allclose(_propagated(graph, start, 0.5), exact, atol=1e-12)


def test_grids_are_those_of_the_published_experiments():
    assert (
        len(METHODS["BGNN"].configurations("county")) == 64
        and len(METHODS["Res-GNN"].configurations("county")) == 32
    )
    assert {c["learning_rate"] for c in METHODS["GCN"].configurations("county")} == {0.01, 0.1}
    assert METHODS["GCN"].configurations("coauthor_cs") == [
        {"learning_rate": 0.005, "dropout": 0.5, "hidden": 256, "layers": 3}
    ]
