import numpy as np
import pytest

import ebboost as eb
from ebboost.data.labels import Labels
from ebboost.training.relations import relation_strengths
from tests.strategies import random_graph


def town(n=900, seed=0):
    """Three relations: similar neighbours, random pairs, and opposite rivals."""
    rng = np.random.default_rng(seed)
    X, position = rng.normal(size=(n, 3)), rng.normal(size=(n, 2))
    hidden = np.sin(2 * position[:, 0]) + np.cos(2 * position[:, 1])
    y = X[:, 0] + 1.5 * hidden + 0.3 * rng.normal(size=n)
    order = np.argsort(hidden)
    rivals = eb.Graph.from_edges(order[: n // 2], order[::-1][: n // 2], n_nodes=n)
    relations = {
        "near": eb.Graph.build_knn(position, 6),
        "lot": random_graph(n, 4 * n, seed),
        "rival": rivals,
    }
    return X, y, relations


def every_node(y):
    return Labels(np.arange(y.size), y[:, None], np.ones(y.size))


def small(kind=eb.EBBSRegressor, **changes):
    parameters = {"smoothing": eb.Laplacian(1.0, 2), "labels": "none", "early_stopping": False}
    return kind(25, learning_rate=0.3, random_state=0, n_jobs=1, **parameters | changes)


def test_a_mixture_adds_weights_times_strengths():
    one, two = (
        eb.Graph.from_edges([0, 1], [1, 2], n_nodes=4),
        eb.Graph.from_edges([1], [2], [3.0], n_nodes=4),
    )
    mixed = eb.Graph.mix({"one": one, "two": two}, {"one": 2.0, "two": -0.5})
    expected = 2.0 * one.adjacency.toarray() - 0.5 * two.adjacency.toarray()
    np.testing.assert_array_equal(mixed.adjacency.toarray(), expected)
    np.testing.assert_array_equal(mixed.degrees, np.abs(expected).sum(1))
    assert eb.Graph.mix({"one": one, "two": two}).degrees.tolist() == [1.0, 5.0, 4.0, 0.0]


def test_edges_that_cancel_are_gone():
    graph = eb.Graph.from_edges([0, 1], [1, 2])
    half = eb.Graph.from_edges([0], [1], n_nodes=3)
    assert eb.Graph.mix({"a": graph, "b": half}, {"a": 1.0, "b": -1.0}).n_edges == 1


def test_signed_graphs_have_an_unsigned_version():
    plain = eb.Graph.from_edges([0, 1], [1, 2])
    signed = eb.Graph.mix({"a": plain}, {"a": -1.0})
    assert signed.is_signed and not plain.is_signed and plain.unsigned is plain
    np.testing.assert_array_equal(signed.unsigned.adjacency.toarray(), plain.adjacency.toarray())


def test_a_mixture_keeps_the_ids():
    import pandas as pd

    edges = pd.DataFrame({"a": ["x"], "b": ["y"]})
    graphs = {name: eb.Graph.from_dataframe(edges, nodes=["y", "z", "x"]) for name in "uv"}
    assert eb.Graph.mix(graphs).node_ids.tolist() == ["y", "z", "x"]
    other = eb.Graph.from_dataframe(edges, nodes=["x", "y", "z"])
    with pytest.raises(ValueError, match=r"'u' and 'w' have different node ids"):
        eb.Graph.mix({"u": graphs["u"], "w": other})


@pytest.mark.parametrize(
    ("relations", "strengths", "message"),
    [
        ({}, None, "dict of relations is empty"),
        ([random_graph(5, 5)], None, "Relations must be a dict"),
        ({"a": random_graph(5, 5)}, [1.0], "Strengths must be a dict"),
        ({"a": 3}, None, "Relation 'a' must be an ebboost.Graph"),
        ({3: random_graph(5, 5)}, None, "Names of relations must be text"),
        ({"a": random_graph(5, 5), "b": random_graph(6, 5)}, None, "'b' has 6 nodes, 'a' has 5"),
        ({"a": random_graph(5, 5)}, {"b": 1.0}, "names 'b', which is not a relation"),
        ({"a": random_graph(5, 5), "b": random_graph(5, 5)}, {"a": 1.0}, "'b' has no strength"),
        ({"a": random_graph(5, 5)}, {"a": float("nan")}, "'a' must be a finite number"),
        ({"a": random_graph(5, 5)}, {"a": True}, "'a' must be a finite number"),
        ({"a": random_graph(5, 5)}, {"a": 0.0}, "At least one strength must not be 0"),
    ],
)
def test_invalid_relations_and_strengths_raise_errors(relations, strengths, message):
    with pytest.raises((ValueError, TypeError), match=message):
        eb.Graph.mix(relations, strengths)


def test_strengths_are_estimated_from_labels():
    _, y, relations = town()
    result = relation_strengths(relations, every_node(y))
    assert result["near"] > 0.05 and result["lot"] == 0.0 and result["rival"] < -0.05
    assert max(map(abs, result.values())) == 1.0


def test_a_relation_that_repeats_another_adds_nothing():
    _, y, relations = town()
    near = relations["near"]
    alone = relation_strengths({"near": near}, every_node(y))
    noisy = eb.Graph.mix({"near": near, "lot": relations["lot"]}, {"near": 1.0, "lot": 0.5})
    both = relation_strengths({"near": near, "noisy": noisy}, every_node(y))
    assert alone == {"near": 1.0} and both["near"] == 1.0 and both["noisy"] <= 0.0


def test_uninformative_relations_have_equal_strengths():
    rng = np.random.default_rng(0)
    relations = {
        "a": random_graph(300, 600, 1),
        "b": random_graph(300, 600, 2),
        "empty": random_graph(300, 0),
    }
    assert set(relation_strengths(relations, every_node(rng.normal(size=300))).values()) == {1.0}


@pytest.mark.parametrize("case", ["one value", "no labelled neighbour", "no edges"])
def test_uninformative_labels_give_equal_strengths(case):
    X, y, relations = town(100)
    if case == "one value":
        y = np.ones(100)
    if case == "no labelled neighbour":
        relations = {name: eb.Graph.from_edges([0], [99], n_nodes=100) for name in relations}
        y[50:] = np.nan
    if case == "no edges":
        relations = {name: eb.Graph.from_edges([], [], n_nodes=100) for name in relations}
    model = small().fit(X, y, graph=relations)
    assert set(model.relation_strengths_.values()) == {1.0}
    assert np.isfinite(model.predict()).all()


@pytest.mark.parametrize("unit", [1e-180, 1e180])
def test_strengths_do_not_depend_on_the_unit_of_the_labels(unit):
    _, y, relations = town()
    expected = relation_strengths(relations, every_node(y))
    assert relation_strengths(relations, every_node(unit * y)) == pytest.approx(expected)


def test_estimated_strengths_beat_equal_strengths():
    X, y, relations = town()
    train, test = np.arange(0, 400), np.arange(400, 900)

    def error(**parameters):
        m = small(labels="field", smoothing=eb.Laplacian(1.0, 2), **parameters)
        m.fit(X, y[train], nodes=train, graph=relations)
        return float(np.mean((m.predict(nodes=test) - y[test]) ** 2))

    assert error() < 0.8 * error(relations=dict.fromkeys(relations, 1.0))


@pytest.mark.parametrize("kind", ["regression", "classes"])
def test_a_model_of_relations_is_used_like_any_other(kind, tmp_path):
    X, y, relations = town(300)
    model = small(eb.EBBSRegressor if kind == "regression" else eb.EBBSClassifier)
    target = y if kind == "regression" else np.where(y > 0, "dear", "cheap")
    model.fit(X, target[:200], nodes=np.arange(200), graph=relations)
    assert model.relation_strengths_["rival"] < 0
    assert "relations   near" in model.summary() and "estimated from the labels" in model.summary()
    model.save(tmp_path / "m.ebb")
    loaded = eb.load(tmp_path / "m.ebb")
    assert loaded.relation_strengths_ == model.relation_strengths_
    np.testing.assert_array_equal(loaded.predict(), model.predict())
    again = loaded.predict(X, graph=relations)
    np.testing.assert_array_equal(again, model.predict(X, graph=relations))
    assert eb.cross_validate(model, X, target, relations, cv=2)["fit_time"].size == 2
    assert (
        eb.cross_validate(model, X, target, relations, cv=eb.GraphBlockFold(2))["fit_time"].size
        == 2
    )


def test_explanations_of_signed_graphs_add_up():
    X, y, relations = town(300)
    model = small(labels="field", smoothing=eb.Laplacian(1.0, 2)).fit(X, y, graph=relations)
    for explanation in model.explanations([0, 7], X):
        assert explanation.total == pytest.approx(
            model.predict(nodes=[explanation.node])[0], abs=1e-5
        )


def test_training_descends_on_signed_graphs():
    X, y, relations = town(300)
    strengths = {"near": 1.0, "lot": 0.5, "rival": -2.0}
    for method in ("gradient", "jacobi", "chebyshev", "exact"):
        smoothing = eb.Laplacian(2.0, 3, method=method)
        model = small(smoothing=smoothing, labels="none", relations=strengths, early_stopping=False)
        losses = model.fit(X, y, graph=relations).history_["training"]
        assert (np.diff(losses) <= 1e-9).all()


def test_strengths_given_are_used():
    X, y, relations = town(300)
    strengths = {"near": 1.0, "lot": 0.0, "rival": 0.0}
    mixed = small(relations=strengths).fit(X, y, graph=relations)
    alone = small().fit(X, y, graph=relations["near"])
    assert mixed.relation_strengths_ == strengths and "as given" in mixed.summary()
    np.testing.assert_array_equal(mixed.predict(), alone.predict())


def test_invalid_uses_of_relations_raise_errors():
    X, y, relations = town(300)
    with pytest.raises(ValueError, match="'relations' parameter"):
        small(relations=3).fit(X, y, graph=relations)
    with pytest.raises(ValueError, match="graph is not a dict of relations"):
        small(relations={"near": 1.0}).fit(X, y, graph=relations["near"])
    with pytest.raises(ValueError, match="names 'far', which is not a relation"):
        small(relations={"far": 1.0}).fit(X, y, graph=relations)
    with pytest.raises(ValueError, match="leave-one-out' needs relations of positive strength"):
        small(
            relations={"near": 1.0, "lot": 0.0, "rival": -1.0},
            labels="leave-one-out",
            smoothing=eb.Laplacian(),
        ).fit(X, y, graph=relations)
    model = small().fit(X, y, graph=relations)
    with pytest.raises(TypeError, match=r"fitted on the relations \['near', 'lot', 'rival'\]"):
        model.predict(X, graph=relations["near"])
    with pytest.raises(ValueError, match="must have the relations of the fit"):
        model.predict(X, graph={"near": relations["near"]})
    with pytest.raises(TypeError, match="fitted on one graph"):
        small().fit(X, y, graph=relations["near"]).predict(X, graph=relations)
