"""Explanations: exact sums of contributions, and which rows and labels they name."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import ebboost as eb
from tests.strategies import fixed, homophilous, quick

N = 200
X, Y, GRAPH = homophilous(N)
KNOWN = np.arange(140)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
    kind=np.array(list("uvw"))[np.arange(N) % 3]
)
ROWS = [0, 17, 139, 140, 199]
LEARNERS = [eb.LightGBM(7, min_child_samples=5), eb.RandomNetwork(16)]
PARTS = {
    "plain": {},
    "smoothing": {"smoothing": eb.Laplacian(1.0, 2)},
    "exact": {"smoothing": eb.Laplacian(1.0, method="exact")},
    "field": {"labels": eb.LatentField()},
    "neighbours": {"neighbor_features": eb.NeighborFeatures()},
    "all": {
        "smoothing": eb.Laplacian(1.0, 2),
        "labels": eb.LatentField(),
        "neighbor_features": eb.NeighborFeatures(),
        "feature_smoothing": eb.Laplacian(2.0, 2),
        "spectral_features": eb.SpectralFeatures(4),
    },
}


def check(model, X=None):
    """Each explanation adds up to the raw prediction of its row."""
    raw = model.model_.raw
    for one in model.explanations(ROWS, X):
        assert one.score == raw[one.node, one.output] and one.output == raw[one.node].argmax()
        assert one.total == pytest.approx(one.score, abs=1e-5 * max(1.0, abs(one.score)))
    table = model.explain(ROWS, X)
    sums = table.groupby("node", sort=False)["contribution"].sum()
    expected = [raw[row, raw[row].argmax()] for row in ROWS]
    np.testing.assert_allclose(sums, expected, atol=1e-5 * max(1.0, np.abs(expected).max()))
    return table


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("learner", LEARNERS, ids=["lightgbm", "network"])
def test_contributions_add_up_for_every_part_and_learner(parts, learner):
    model = fixed(learner=learner, **PARTS[parts]).fit(FRAME, Y[KNOWN], nodes=KNOWN, graph=GRAPH)
    table = check(model)
    assert ("label of row" in set(table["part"])) == ("labels" in PARTS[parts])
    assert ("score of row" in set(table["part"])) == ("smoothing" in PARTS[parts])
    assert ("column of neighbours" in set(table["part"])) == (parts in ("neighbours", "all"))


@pytest.mark.parametrize("loss", ["squared_error", "huber", "quantile", "poisson", "gamma"])
def test_contributions_of_the_default_add_up_for_every_loss(loss):
    y = (
        np.exp(0.5 * Y)
        if loss == "gamma"
        else np.round(np.exp(0.5 * Y))
        if loss == "poisson"
        else Y
    )
    offset = 0.1 * np.arange(N) / N
    model = quick(loss=loss, n_estimators=6)
    model.fit(FRAME, y[KNOWN], nodes=KNOWN, graph=GRAPH, offset=offset)
    table = check(model)
    stated = table[table["part"] == "offset"]["contribution"]
    np.testing.assert_allclose(stated, offset[ROWS])


@pytest.mark.parametrize("n_classes", [2, 4])
def test_contributions_of_classes_add_up_to_the_score_of_the_predicted_one(n_classes):
    classes = np.digitize(Y, np.quantile(Y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    model = quick(eb.EBBSClassifier, n_estimators=4)
    check(model.fit(FRAME, classes[KNOWN], nodes=KNOWN, graph=GRAPH))


def test_skewed_numbers_groups_coordinates_and_sparse_tables_are_explained():
    skewed = quick(n_estimators=6).fit(FRAME, np.exp(2.0 * Y), graph=GRAPH)
    assert any(one.loss is not None for one in skewed.model_.components)
    check(skewed)
    check(quick(n_estimators=6).fit(FRAME, Y, groups=np.arange(N) % 9))
    points = np.random.default_rng(0).random((N, 2))
    check(quick(n_estimators=6).fit(X, Y, coordinates=points))
    wide = sparse.hstack([sparse.csr_array(X), sparse.random(N, 200, 0.05, random_state=0)]).tocsr()
    check(quick(n_estimators=6).fit(wide, Y, graph=GRAPH))


def test_labels_nearby_and_the_column_that_matters_have_the_largest_contributions():
    path = eb.Graph.from_edges(np.arange(N - 1), np.arange(1, N))
    y = np.where(np.arange(N) == 100, 5.0, 0.0) + 2.0 * X[:, 1]
    known = np.setdiff1d(np.arange(N), [99])
    model = fixed(labels=eb.LatentField(5.0, 0.1)).fit(X, y[known], nodes=known, graph=path)
    one = model.explanations(99)[0]
    assert max(one.labels, key=lambda row: abs(one.labels[row])) in (98, 100)
    assert 99 not in one.labels and set(one.own) == {"x0", "x1", "x2"}
    far = sum(abs(v) for row, v in one.labels.items() if abs(row - 99) > 40)
    assert far < 0.05 * sum(map(abs, one.labels.values()))
    assert np.mean([abs(e.own["x1"]) for e in model.explanations(range(0, N, 9))]) > 0.5


def test_a_printed_explanation_shows_the_largest_parts_and_the_rest_as_one():
    model = fixed(**PARTS["all"]).fit(FRAME, Y[KNOWN], nodes=KNOWN, graph=GRAPH)
    text = str(model.explanations([150])[0])
    assert text.startswith("row 150: score ") and "other labels" in text and "column " in text
    shown = [float(line.split()[-1]) for line in text.splitlines()[1:]]
    assert sum(shown) == pytest.approx(model.predict()[150], abs=1e-2)
    assert model.explanations([150])[0]._repr_html_() == f"<pre>{text}</pre>"


def test_rows_are_named_as_elsewhere_and_wrong_tables_are_rejected():
    model = fixed().fit(X, Y)
    assert model.explanations(3)[0].node == 3
    with pytest.raises(ValueError, match="names row 200"):
        model.explanations([N])
    with pytest.raises(ValueError, match="X has 5 rows but the model was fitted on 200"):
        model.explanations([3], X[:5])
    before = model.explanations(3)[0].own
    model.explanations([3], X[::-1])
    assert model.explanations(3)[0].own == before
