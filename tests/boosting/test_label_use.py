"""What known labels change in a fitted model."""

import numpy as np
import pytest

import ebboost as eb
from tests.problems import homophilous


def fitted(**changes):
    X, y, graph = homophilous()
    settings = {
        "n_estimators": 60,
        "random_state": 0,
        "n_jobs": 1,
        "smoothing": None,
        "labels": "field",
    } | changes
    m = eb.EBBSRegressor(**settings).fit(X, y[:300], nodes=np.arange(300), graph=graph)
    return m, X, y, graph


@pytest.mark.parametrize("labels", ["field", "leave-one-out", "masked"])
def test_labels_improve_predictions_on_a_homophilous_graph(labels):
    changes = {"smoothing": eb.Laplacian(2.0, 5)} if labels == "masked" else {}
    if labels == "masked":
        changes |= {"learner": eb.CatBoost(4, shrinkage=0.3), "learning_rate": 1.0}
    with_labels, _, y, _ = fitted(labels=labels, **changes)
    without = fitted(labels="none")[0]
    test = np.arange(300, 600)
    assert with_labels.score(None, y, nodes=test) > without.score(None, y, nodes=test) + 0.4


def test_new_labels_improve_predictions_without_a_new_fit():
    m, _, y, _ = fitted()
    later, test = np.arange(300, 450), np.arange(450, 600)
    before = np.mean((m.predict()[test] - y[test]) ** 2)
    after = np.mean((m.predict(new_labels=(later, y[later]))[test] - y[test]) ** 2)
    assert after < before
    np.testing.assert_array_equal(m.predict(), m.predict())


def test_new_labels_improve_predictions_on_a_new_graph():
    m = fitted()[0]
    X, y, graph = homophilous(seed=1)
    some, rest = np.arange(0, 600, 2), np.arange(1, 600, 2)
    without = m.predict(X, graph=graph, new_labels=([], []))
    informed = m.predict(X, graph=graph, new_labels=(some, y[some]))
    assert np.mean((informed - y)[rest] ** 2) < 0.6 * np.mean((without - y)[rest] ** 2)


def test_invalid_new_labels_are_rejected():
    m = fitted()[0]
    with pytest.raises(ValueError, match="new_labels and y share"):
        m.predict(new_labels=([0], [1.0]))
    with pytest.raises(ValueError, match="new_labels must be a pair"):
        m.predict(new_labels=5)
    with pytest.raises(ValueError, match="does not use labels at prediction"):
        fitted(labels="none")[0].predict(new_labels=([400], [1.0]))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("some", "labels must be"),
        (eb.LatentField(lam=-1.0), "lam"),
        (eb.LatentField(tau=0.0), "tau"),
        (eb.LatentField(lam=float("nan")), "lam"),
        (eb.LatentField(tau=float("inf")), "tau"),
        (eb.LatentField(unlabelled="few"), "unlabelled must be a number"),
        (eb.LatentField(unlabelled=1.0, leave_one_out=True), "unlabelled=0"),
    ],
    ids=repr,
)
def test_invalid_parameters_are_rejected_by_name(labels, message):
    with pytest.raises(ValueError, match=message):
        fitted(labels=labels)


@pytest.mark.parametrize("labels", ["leave-one-out", "masked"])
def test_leave_one_out_and_masked_labels_need_squared_error(labels):
    with pytest.raises(ValueError, match="needs loss='squared_error'"):
        fitted(labels=labels, loss="huber")
    X, y, graph = homophilous()
    with pytest.raises(ValueError, match="needs loss='squared_error'"):
        eb.EBBSClassifier(labels=labels).fit(X, y > 0, graph=graph)


@pytest.mark.parametrize("loss", ["huber", "quantile", "poisson", "negative_binomial", "gamma"])
def test_field_improves_predictions_under_every_likelihood(loss):
    X, y, graph = homophilous()
    if loss not in ("huber", "quantile"):
        y = np.exp(y)
    deviances = {}
    for labels in (eb.LatentField(1.0, 0.01), "none"):
        m = eb.EBBSRegressor(60, loss=loss, labels=labels, smoothing=None, random_state=0, n_jobs=1)
        m.fit(X, y[:300], nodes=np.arange(300), graph=graph)
        deviance = m.loss_.deviance(m.raw_predictions_, y[:, None])
        deviances[m.labels_ is None] = deviance[300:].mean()
        if labels != "none":
            later = m.predict(new_labels=(np.arange(300, 450), y[300:450]))
            assert np.mean((later - y)[450:] ** 2) < np.mean((m.predict() - y)[450:] ** 2)
    assert deviances[False] < 0.7 * deviances[True]


def test_subclasses_of_squared_error_use_the_field_of_any_likelihood():
    class Doubled(eb.SquaredError):
        constant_curvature = False

        def value(self, scores, target):
            return 2.0 * super().value(scores, target)

        def gradient(self, scores, target):
            return 2.0 * super().gradient(scores, target)

        def curvature(self, scores, target):
            return np.full_like(scores, 2.0)

    with pytest.raises(ValueError, match="needs loss='squared_error'"):
        fitted(labels="leave-one-out", loss=Doubled())
    doubled = fitted(labels=eb.LatentField(4.0, 0.1), loss=Doubled())[0]
    single = fitted(labels=eb.LatentField(2.0, 0.05))[0]
    np.testing.assert_allclose(doubled.predict(), single.predict(), rtol=0.1, atol=0.1)


def test_new_labels_have_the_weight_of_training_labels():
    X, y, graph = homophilous(300)
    held = (np.arange(200, 250), y[200:250])
    predictions = [
        eb.EBBSRegressor(15, labels="field", smoothing=None, random_state=0, n_jobs=1)
        .fit(X, y[:200], np.full(200, w), nodes=np.arange(200), graph=graph, eval_set=held)
        .predict(new_labels=(np.arange(250, 280), y[250:280]))
        for w in (1.0, 10.0)
    ]
    np.testing.assert_allclose(predictions[0], predictions[1], rtol=1e-6)


def test_similarity_predicts_from_nodes_with_the_same_neighbours():
    """Labels of nodes on the same two hubs agree while neighbours (the hubs) have other labels."""
    rng = np.random.default_rng(0)
    n_hubs = 60
    hub = rng.integers(0, n_hubs, 600)
    node = np.arange(600) + n_hubs
    graph = eb.Graph.from_edges(np.r_[hub, (hub * 7 + 3) % n_hubs], np.r_[node, node])
    noise = 0.05 * rng.normal(size=600)
    y = np.r_[10 * rng.normal(size=n_hubs), rng.normal(size=n_hubs)[hub] + noise]
    X = rng.normal(size=(y.size, 2))
    labelled = node[rng.random(600) < 0.7]
    rest = np.setdiff1d(node, labelled)
    field = eb.LatentField(0.5, 0.005, normalized=False, similarity=True)
    model = eb.EBBSRegressor(60, smoothing=None, labels=field, random_state=0)
    model.fit(X, y[labelled], nodes=labelled, graph=graph)
    assert model.score(None, y, nodes=rest) > 0.8


def test_masked_training_rejects_a_penalty():
    with pytest.raises(ValueError, match="penalty must be 0"):
        fitted(labels="masked", penalty=1.0, smoothing=eb.Laplacian())
