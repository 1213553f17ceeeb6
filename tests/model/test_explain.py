import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import ebboost as eb
from tests.problems import homophilous

LEARNERS = [eb.LightGBM(), eb.XGBoost(), eb.CatBoost(4), eb.ScikitLearn(Ridge())]


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@pytest.mark.parametrize("labels", ["none", "field", "leave-one-out"])
def test_parts_add_up_to_the_prediction(learner, labels):
    X, y, graph = homophilous(300)
    m = eb.EBBSRegressor(
        30, learner=learner, labels=labels, smoothing=eb.Laplacian(1.0, 2), random_state=0, n_jobs=1
    )
    m.set_params(neighbor_features=eb.NeighborFeatures(["mean"])).fit(
        X, y[:200], nodes=np.arange(200), graph=graph
    )
    for explanation in m.explain([0, 150, 299]):
        assert explanation.score == pytest.approx(m.predict()[explanation.node])
        assert explanation.total == pytest.approx(explanation.score, abs=1e-5)
        assert set(explanation.labels) <= set(range(200))
        assert bool(explanation.labels) == (labels != "none")
        assert explanation.node not in explanation.neighbors


def test_neighbours_reach_as_far_as_the_steps():
    X, y, _ = homophilous(60)
    path = eb.Graph.from_edges(np.arange(59), np.arange(1, 60))
    m = eb.EBBSRegressor(10, smoothing=eb.Laplacian(1.0, 2), labels="none", n_jobs=1).fit(
        X, y, graph=path
    )
    assert sorted(m.explain([30])[0].neighbors) == [28, 29, 31, 32]


def test_an_isolated_node_is_explained_by_itself():
    X, y, _ = homophilous(60)
    graph = eb.Graph.from_edges([0], [1], n_nodes=60)
    m = eb.EBBSRegressor(10, smoothing=eb.Laplacian(), labels="field", n_jobs=1)
    m.fit(X, y[:50], nodes=np.arange(50), graph=graph)
    explanation = m.explain([55])[0]
    assert explanation.neighbors == {}
    assert explanation.labels == {}


def test_columns_are_named():
    X, y, graph = homophilous(200)
    frame = pd.DataFrame(X, columns=["size", "age", "noise"])
    m = eb.EBBSRegressor(60, smoothing=None, labels="none", random_state=0, n_jobs=1).fit(
        frame, y, graph=graph
    )
    explanation = m.explain([3])[0]
    assert set(explanation.own) == {"size", "age", "noise"}
    assert "size" in str(explanation)
    assert f"score {explanation.score:.6g}" in str(explanation)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_class_score_is_explained(n_classes):
    X, y, graph = homophilous(300)
    classes = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    m = eb.EBBSClassifier(20, labels="field", smoothing=eb.Laplacian(), random_state=0, n_jobs=1)
    m.fit(X, classes[:200], nodes=np.arange(200), graph=graph)
    explanation = m.explain([250])[0]
    assert explanation.total == pytest.approx(explanation.score, abs=1e-5)
    assert not explanation.labels_in_sum


def test_a_loaded_model_asks_for_the_table(tmp_path):
    X, y, graph = homophilous(200)
    m = eb.EBBSRegressor(20, random_state=0, n_jobs=1).fit(X, y, graph=graph)
    m.save(tmp_path / "m.ebb")
    again = eb.load(tmp_path / "m.ebb")
    with pytest.raises(ValueError, match="Pass it"):
        again.explain([0])
    assert again.explain([5], X)[0].total == pytest.approx(m.explain([5])[0].total)
    with pytest.raises(ValueError, match="fitted on 200"):
        again.explain([5], X[:10])


def test_encoded_categories_are_explained_with_their_codes_or_not_at_all(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=80), "kind": rng.choice(list("abc"), 80)})
    y, graph = X["x"] + (X["kind"] == "a"), eb.Graph.build_knn(X[["x"]].to_numpy(), k=3)
    given = {
        "smoothing": eb.Laplacian(1.0, 2),
        "labels": "none",
        "learner": "catboost",
        "random_state": 0,
    }
    model = eb.EBBSRegressor(5, **given).fit(X, y, graph=graph)
    for name, table in (("with", True), ("without", False)):
        model.save(tmp_path / name, table=table)
    told = eb.load(tmp_path / "with").explain([7])[0]
    assert told.total == pytest.approx(told.score, abs=1e-5)
    bare = eb.load(tmp_path / "without")
    with pytest.raises(ValueError, match="encoded without their own labels"):
        bare.explain([7], X)
    eb.write_report(bare, tmp_path / "report.html", X=X)
    assert "encoded without their own labels" in (tmp_path / "report.html").read_text(
        encoding="utf-8"
    )


def test_masked_models_have_no_such_sum():
    X, y, graph = homophilous(200)
    m = eb.EBBSRegressor.from_preset("paper", n_estimators=3, n_jobs=1).fit(X, y, graph=graph)
    with pytest.raises(ValueError, match="is not a sum"):
        m.explain([0])


def test_intervals_hold_their_share_of_the_truth():
    X, y, graph = homophilous(3000)
    train, rest = np.arange(1500), np.arange(1500, 3000)
    for level in (0.8, 0.9):
        m = eb.EBBSRegressor(80, random_state=0, n_jobs=1).fit(
            X, y[train], nodes=train, graph=graph
        )
        found = m.predict(interval=level, nodes=rest)
        inside = (found.lower <= y[rest]) & (y[rest] <= found.upper)
        assert np.mean(inside) == pytest.approx(level, abs=0.07)
        np.testing.assert_array_equal(found.prediction, m.predict(nodes=rest))


def test_few_labels_leave_each_other_out_for_intervals():
    X, y, graph = homophilous(800)
    held = []
    for seed in range(5):
        few = np.random.default_rng(seed).choice(800, 45, replace=False)
        m = eb.EBBSRegressor(random_state=0, n_jobs=1).fit(X, y[few], nodes=few, graph=graph)
        assert "out of fold" in m.conformity_source_
        found = m.predict(interval=0.9)
        rest = np.setdiff1d(np.arange(800), few)
        held.append(
            np.mean((found.lower <= y) & (y <= found.upper), where=np.isin(np.arange(800), rest))
        )
    assert 0.82 < np.mean(held) < 0.98


def test_an_interval_that_few_labels_cannot_hold_is_infinite():
    X, y, graph = homophilous(100)
    m = eb.EBBSRegressor(5, n_jobs=1).fit(X, y[:20], nodes=np.arange(20), graph=graph)
    assert np.isinf(m.predict(interval=0.99).upper).all()


def test_intervals_need_nodes_that_were_not_trained_on():
    X, y, graph = homophilous(100)
    for m, known in ((eb.EBBSRegressor(5, early_stopping=False), 100), (eb.EBBSRegressor(5), 5)):
        m.set_params(n_jobs=1).fit(X, y[:known], nodes=np.arange(known), graph=graph)
        with pytest.raises(
            ValueError, match="interval needs residuals at nodes that were not trained on"
        ):
            m.predict(interval=0.9)


@pytest.mark.parametrize("interval", [2, 0.0, 1.0, "wide", -0.5, 90])
def test_an_interval_must_be_a_share(interval):
    X, y, graph = homophilous(100)
    m = eb.EBBSRegressor(5, n_jobs=1).fit(X, y, graph=graph)
    with pytest.raises(ValueError, match="interval must be a number between 0 and 1"):
        m.predict(interval=interval)


def test_a_classifier_has_no_intervals():
    X, y, graph = homophilous(100)
    with pytest.raises(ValueError, match="predict_proba"):
        eb.EBBSClassifier(5, n_jobs=1).fit(X, y > 0, graph=graph).predict(interval=0.9)
