"""Explanations: exact sums of contributions, and how they are printed."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import ebboost as eb
from tests.problems import homophilous

LEARNERS = [
    eb.LightGBM(),
    eb.XGBoost(),
    eb.CatBoost(4),
    eb.RandomNetwork(8),
    eb.ScikitLearn(Ridge()),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@pytest.mark.parametrize("labels", ["none", "field", "leave-one-out"])
def test_contributions_add_up_to_the_prediction(learner, labels):
    X, y, graph = homophilous(300)
    m = eb.EBBSRegressor(
        30, learner=learner, labels=labels, smoothing=eb.Laplacian(1.0, 2), random_state=0, n_jobs=1
    )
    m.set_params(neighbor_features=eb.NeighborFeatures(["mean"])).fit(
        X, y[:200], nodes=np.arange(200), graph=graph
    )
    for explanation in m.explanations([0, 150, 299]):
        assert explanation.score == pytest.approx(m.predict()[explanation.node])
        assert explanation.total == pytest.approx(explanation.score, abs=1e-5)
        assert set(explanation.labels) <= set(range(200))
        assert bool(explanation.labels) == (labels != "none")
        assert explanation.node not in explanation.neighbors


def test_neighbors_contribute_within_the_reach_of_the_steps():
    X, y, _ = homophilous(60)
    path = eb.Graph.from_edges(np.arange(59), np.arange(1, 60))
    m = eb.EBBSRegressor(10, smoothing=eb.Laplacian(1.0, 2), labels="none", n_jobs=1).fit(
        X, y, graph=path
    )
    assert sorted(m.explanations([30])[0].neighbors) == [28, 29, 31, 32]


def test_an_isolated_node_has_contributions_of_its_own_columns_only():
    X, y, _ = homophilous(60)
    graph = eb.Graph.from_edges([0], [1], n_nodes=60)
    m = eb.EBBSRegressor(10, smoothing=eb.Laplacian(), labels="field", n_jobs=1)
    m.fit(X, y[:50], nodes=np.arange(50), graph=graph)
    explanation = m.explanations([55])[0]
    assert explanation.neighbors == {}
    assert explanation.labels == {}


def test_own_contributions_are_named_by_column():
    X, y, graph = homophilous(200)
    frame = pd.DataFrame(X, columns=["size", "age", "noise"])
    m = eb.EBBSRegressor(60, smoothing=None, labels="none", random_state=0, n_jobs=1).fit(
        frame, y, graph=graph
    )
    explanation = m.explanations([3])[0]
    assert set(explanation.own) == {"size", "age", "noise"}
    assert "size" in str(explanation)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_contributions_add_up_to_the_score_of_a_class(n_classes):
    X, y, graph = homophilous(300)
    classes = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    m = eb.EBBSClassifier(20, labels="field", smoothing=eb.Laplacian(), random_state=0, n_jobs=1)
    m.fit(X, classes[:200], nodes=np.arange(200), graph=graph)
    explanation = m.explanations([250])[0]
    assert explanation.total == pytest.approx(explanation.score, abs=1e-5)
    assert explanation.labels


@pytest.mark.parametrize(
    "loss", ["poisson", "negative_binomial", "gamma", "tweedie", "huber"], ids=str
)
def test_contributions_add_up_to_the_score_under_every_likelihood(loss):
    X, y, graph = homophilous(300)
    exposure = np.random.default_rng(0).uniform(1.0, 9.0, 300)
    y = np.round(exposure * np.exp(y)) + 1.0
    m = eb.EBBSRegressor(20, loss=loss, labels="field", smoothing=eb.Laplacian(), random_state=0)
    offset = np.log(exposure)
    m.set_params(n_jobs=1).fit(X, y[:200], nodes=np.arange(200), graph=graph, offset=offset)
    for node in (10, 250):
        explanation = m.explanations([node])[0]
        assert explanation.labels and explanation.offset == pytest.approx(offset[node])
        assert explanation.total == pytest.approx(m.raw_predictions_[node, 0], abs=1e-4)


def test_a_loaded_model_needs_the_table(tmp_path):
    X, y, graph = homophilous(200)
    m = eb.EBBSRegressor(20, random_state=0, n_jobs=1).fit(X, y, graph=graph)
    m.save(tmp_path / "m.ebb")
    again = eb.load(tmp_path / "m.ebb")
    with pytest.raises(ValueError, match="Pass it"):
        again.explanations([0])
    assert again.explanations([5], X)[0].total == pytest.approx(m.explanations([5])[0].total)
    with pytest.raises(ValueError, match="fitted on 200"):
        again.explanations([5], X[:10])


def test_encoded_categories_need_the_stored_table(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=80), "kind": rng.choice(list("abc"), 80)})
    y = X["x"] + (X["kind"] == "a")
    graph = eb.Graph.build_knn(X[["x"]].to_numpy(), k=3)
    model = eb.EBBSRegressor(
        5, smoothing=eb.Laplacian(1.0, 2), labels="none", learner="catboost", random_state=0
    ).fit(X, y, graph=graph)
    for name, table in (("with", True), ("without", False)):
        model.save(tmp_path / name, table=table)
    explanation = eb.load(tmp_path / "with").explanations([7])[0]
    assert explanation.total == pytest.approx(explanation.score, abs=1e-5)
    bare = eb.load(tmp_path / "without")
    with pytest.raises(ValueError, match="encoded without their own labels"):
        bare.explanations([7], X)
    eb.write_report(bare, tmp_path / "report.html", X=X)
    assert "encoded without their own labels" in (tmp_path / "report.html").read_text(
        encoding="utf-8"
    )


def test_models_with_masked_labels_are_rejected():
    X, y, graph = homophilous(200)
    m = eb.EBBSRegressor.from_preset("paper", n_estimators=3, n_jobs=1).fit(X, y, graph=graph)
    with pytest.raises(ValueError, match="is not a sum"):
        m.explanations([0])


def printed_numbers(explanation):
    """The printed score, and the printed contributions by name."""
    title, *lines = str(explanation).splitlines()
    pairs = (line.strip().rsplit(maxsplit=1) for line in lines)
    return title.rsplit(maxsplit=1)[1], {name.strip(): value for name, value in pairs}


def test_printed_contributions_add_up_to_the_printed_score():
    own = {f"x{i}": 0.0137 * (-1) ** i for i in range(9)}
    neighbors = {row: 0.00049 * row for row in range(7)}
    parts = sum(own.values()) + sum(neighbors.values()) + 0.25
    explanation = eb.Explanation(3, 0, 10.998 + parts, 10.998, own, neighbors, {8: 0.25})
    score, contributions = printed_numbers(explanation)
    assert contributions["base"].startswith("+10.99")
    decimals = [len(text.split(".")[1]) for text in (score, *contributions.values())]
    assert len(set(decimals)) == 1
    assert sum(map(Decimal, contributions.values())) == Decimal(score)
    assert float(score) == pytest.approx(explanation.score, abs=1e-3)


@pytest.mark.parametrize(("n", "text"), [(5, None), (6, "1 other column"), (9, "4 other columns")])
def test_contributions_beyond_the_largest_five_are_one_line(n, text):
    own = {f"x{i}": 1.0 + i for i in range(n)}
    explanation = eb.Explanation(0, 0, 1.0 + sum(own.values()), 1.0, own)
    names = list(printed_numbers(explanation)[1])
    assert len(names) == 1 + min(n, 6)
    assert names[-1] == (text or "column x0")


def test_an_offset_is_printed_as_a_part_of_the_sum():
    explanation = eb.Explanation(0, 0, 2.25, 1.0, {"x": 0.5}, {}, {4: 0.25}, offset=0.5)
    assert printed_numbers(explanation)[1]["offset"] == "+0.5000"
    assert explanation.total == explanation.score


def test_an_explanation_of_zero_is_printed():
    assert "score 0" in str(eb.Explanation(0, 0, 0.0, 0.0))


def test_the_table_adds_up_to_the_digit_and_names_the_parts():
    X, y, graph = homophilous(200)
    m = eb.EBBSRegressor(15, smoothing=eb.Laplacian(), labels="field", n_folds=1, random_state=0)
    m.fit(X, y, graph=graph)
    table = m.explain([3, 60])
    totals = table.groupby("node")["contribution"].sum()
    np.testing.assert_allclose(totals, m.raw_predictions_[[3, 60], 0], atol=1e-7)
    assert {"base", "column", "score of node", "label of node"} <= set(table["part"])
    rounded = m.explain([3], decimals=3)["contribution"]
    np.testing.assert_allclose(rounded, rounded.round(3), atol=1e-12)
    assert rounded.sum() == pytest.approx(round(float(m.raw_predictions_[3, 0]), 3), abs=1e-9)


def test_importances_of_own_and_neighbours_columns_add_up():
    X, y, graph = homophilous(300)
    columns = eb.NeighborFeatures()
    m = eb.EBBSRegressor(10, smoothing=None, labels="none", neighbor_features=columns, n_folds=1)
    m.fit(X, y, graph=graph)
    assert m.neighbor_importances_.sum() > 0 and m.own_importances_.sum() > 0
    total = m.own_importances_ + m.neighbor_importances_
    np.testing.assert_allclose(m.feature_importances_, total)
    assert total.sum() == pytest.approx(1.0)


def test_candidates_that_predict_other_classes_explain_the_class_of_their_mean():
    X, y, graph = homophilous(240)
    classes = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    options = {"smoothing": None, "selection": "rules", "random_state": 0, "n_jobs": 1}
    states = [
        eb.EBBSClassifier(n_rounds, labels=labels, **options)
        .fit(X, classes[:160], nodes=np.arange(160), graph=graph)
        .state_
        for n_rounds, labels in ((3, "field"), (30, "none"))
    ]
    model = eb.EBBSClassifier.from_state(states[0].with_members(tuple(states)))
    mean = model.raw_predictions_
    largest = mean.argmax(axis=1)
    assert (states[0].raw_predictions.argmax(axis=1) != largest).any()
    for one in model.explanations(np.arange(240)):
        assert one.output == largest[one.node]
        assert one.total == pytest.approx(mean[one.node].max(), abs=1e-5)


def test_the_mean_of_trees_and_networks_is_explained_to_the_printed_digit():
    X, y, graph = homophilous(240)
    options = {"smoothing": None, "labels": "field", "random_state": 0, "n_jobs": 1}
    nodes = np.arange(160)
    states = [
        eb.EBBSRegressor(20, learner=learner, neighbor_features=columns, **options)
        .fit(X, y[nodes], nodes=nodes, graph=graph)
        .state_
        for learner, columns in (("lightgbm", eb.NeighborFeatures(["mean"])), ("network", None))
    ]
    model = eb.EBBSRegressor.from_state(states[0].with_members(tuple(states)))
    table = model.explain(np.arange(150, 170), decimals=3)
    sums = table.groupby("node")["contribution"].sum()
    np.testing.assert_allclose(sums, model.raw_predictions_[150:170, 0].round(3), atol=1e-9)
    assert {"column", "column of neighbours", "label of node"} <= set(table["part"])
    parts = (model.own_importances_, model.neighbor_importances_)
    np.testing.assert_allclose(np.sum(parts), 1.0)
    assert parts[1].sum() > 0.0
