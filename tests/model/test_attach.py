"""New rows connected to fitted nodes, against the joined table and graph."""

import numpy as np
import pytest
from scipy import sparse

import ebboost as eb
from tests.problems import homophilous

N = 200
OLD = 150
X, Y, GRAPH = homophilous(N)
BLOCK = GRAPH.adjacency[OLD:][:, :OLD].tocoo()
ROWS, NODES = BLOCK.coords
BETWEEN = eb.Graph.from_scipy(GRAPH.adjacency[OLD:][:, OLD:])


def fitted(labels="field", features=None, model=eb.EBBSRegressor, y=Y, ids=None, table=X):
    graph = eb.Graph(sparse.csr_array(GRAPH.adjacency[:OLD][:, :OLD]), ids)
    parts = {"smoothing": eb.Laplacian(1.0, 2), "neighbor_features": features, "labels": labels}
    model = model(10, random_state=0, n_jobs=1, **parts)
    return model.fit(table[:OLD], y[:OLD], graph=graph)


@pytest.mark.parametrize("labels", ["field", "masked", "none"])
@pytest.mark.parametrize("features", [None, eb.NeighborFeatures()])
def test_attached_rows_are_predicted_as_in_the_joined_table(labels, features):
    model = fitted(labels, features)
    known = None if labels == "none" else (np.arange(OLD), Y[:OLD])
    expected = model.predict(X, graph=GRAPH, new_labels=known)[OLD:]
    attach = (ROWS, NODES, BLOCK.data)
    for options in ({"attach": attach, "graph": BETWEEN}, {"attach": GRAPH}):
        np.testing.assert_allclose(model.predict(X[OLD:], **options), expected, rtol=1e-9)
    some = model.predict(X[OLD:], attach=attach, graph=BETWEEN, nodes=[4, 2])
    np.testing.assert_allclose(some, expected[[4, 2]], rtol=1e-9)


def test_sparse_rows_are_attached():
    counts = sparse.csr_array(np.maximum(X, 0.0))
    model = fitted(features=eb.NeighborFeatures(), table=counts)
    known = (np.arange(OLD), Y[:OLD])
    expected = model.predict(counts, graph=GRAPH, new_labels=known)[OLD:]
    np.testing.assert_allclose(model.predict(counts[OLD:], attach=GRAPH), expected, rtol=1e-9)


def test_labels_of_new_rows_are_used_as_well():
    model = fitted()
    known = (np.arange(OLD + 5), Y[: OLD + 5])
    expected = model.predict(X, graph=GRAPH, new_labels=known)[OLD:]
    new_labels = (np.arange(5), Y[OLD : OLD + 5])
    predicted = model.predict(X[OLD:], attach=GRAPH, new_labels=new_labels)
    np.testing.assert_allclose(predicted, expected, rtol=1e-9)


def test_fitted_nodes_are_named_by_their_ids():
    ids = np.array([f"node {i}" for i in range(OLD)], dtype=object)
    by_position = fitted().predict(X[OLD:], attach=(ROWS, NODES))
    np.testing.assert_allclose(
        fitted(ids=ids).predict(X[OLD:], attach=(ROWS, ids[NODES])), by_position
    )


def test_classes_of_attached_rows_have_probabilities():
    classes = np.where(np.median(Y) < Y, "high", "low").astype(object)
    model = fitted(model=eb.EBBSClassifier, y=classes)
    probabilities = model.predict_proba(X[OLD:], attach=GRAPH)
    assert probabilities.shape == (N - OLD, 2)
    known = (np.arange(OLD), classes[:OLD])
    expected = model.predict_proba(X, graph=GRAPH, new_labels=known)[OLD:]
    np.testing.assert_allclose(probabilities, expected, rtol=1e-7)


def test_rows_without_an_edge_are_predicted_alone():
    model = fitted()
    alone = model.predict(X[OLD:], attach=([], []))
    new = eb.Graph.from_edges([], [], n_nodes=N - OLD)
    np.testing.assert_allclose(alone, model.predict(X[OLD:], graph=new, new_labels=([], [])))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attach": [0, 1, 2, 3]}, r"attach must be \(rows, nodes\)"),
        ({"attach": ([0, 1], [0])}, "names 2 rows and 1 fitted nodes"),
        ({"attach": ([N], [0])}, r"attach\[0\] names row 200"),
        ({"attach": ([0], [OLD])}, r"attach\[1\] names row 150 .*, the table fitted on has"),
        ({"attach": BETWEEN}, "150 fitted nodes followed by the 50 rows of X, got 50 nodes"),
        ({"attach": GRAPH, "graph": BETWEEN}, "leave graph= out"),
        ({"attach": ([0], [0]), "graph": GRAPH}, "50 rows but graph has 200 nodes"),
        ({"attach": ([0], [0]), "graph": {"a": BETWEEN}}, "attach takes one graph"),
    ],
)
def test_invalid_attachments_are_rejected(options, words):
    with pytest.raises(ValueError, match=words):
        fitted().predict(X[OLD:], **options)


def test_an_unknown_id_of_an_attachment_is_named():
    ids = np.array([f"house {i}" for i in range(OLD)], dtype=object)
    with pytest.raises(ValueError, match=r"attach\[1\], entry 1 is 'hut'"):
        fitted(ids=ids).predict(X[OLD:], attach=([0, 1], ["house 3", "hut"]))


def test_attach_needs_new_rows_and_a_graph(tmp_path):
    with pytest.raises(ValueError, match="attach needs X"):
        fitted().predict(attach=GRAPH)
    plain = eb.EBBSRegressor(3, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="fitted on a graph"):
        plain.predict(X, attach=([0], [0]))
    model = fitted(features=eb.NeighborFeatures())
    model.save(tmp_path / "m.ebb")
    with pytest.raises(ValueError, match="save the model with table=True"):
        eb.load(tmp_path / "m.ebb").predict(X[OLD:], attach=GRAPH)
    model.save(tmp_path / "m.ebb", table=True)
    again = eb.load(tmp_path / "m.ebb").predict(X[OLD:], attach=GRAPH)
    np.testing.assert_allclose(again, model.predict(X[OLD:], attach=GRAPH))


def test_directions_of_attached_rows_are_those_of_the_joined_graph():
    rng = np.random.default_rng(0)
    one_way = sparse.random_array((N, N), density=0.03, rng=rng, format="lil")
    one_way.setdiag(0.0)
    one_way[:OLD, OLD:] = 0.0  # edges between the parts lead from new rows to fitted nodes
    one_way = sparse.csr_array(one_way)
    joined = eb.Graph.from_scipy(one_way, directed=True)
    fitted_graph = eb.Graph.from_scipy(one_way[:OLD][:, :OLD], directed=True)
    between = eb.Graph.from_scipy(one_way[OLD:][:, OLD:], directed=True)
    block = one_way[OLD:][:, :OLD].tocoo()
    y = Y + one_way.T @ X[:, 1]
    parts = {"smoothing": None, "neighbor_features": eb.NeighborFeatures(), "labels": "field"}
    model = eb.EBBSRegressor(10, random_state=0, **parts).fit(X[:OLD], y[:OLD], graph=fitted_graph)
    expected = model.predict(X, graph=joined, new_labels=(np.arange(OLD), y[:OLD]))[OLD:]
    pairs = (*block.coords, block.data)
    for options in ({"attach": pairs, "graph": between}, {"attach": joined}):
        np.testing.assert_allclose(model.predict(X[OLD:], **options), expected, rtol=1e-9)
    with pytest.raises(ValueError, match="must be directed, as the graph of the fit is"):
        model.predict(X[OLD:], attach=pairs, graph=BETWEEN)
    with pytest.raises(ValueError, match="graph must be made with directed=True"):
        model.predict(X, graph=GRAPH)
