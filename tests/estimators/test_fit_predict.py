"""What users rely on in fit and predict: units, weights, order, validation labels, categories."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import log_loss, r2_score
from sklearn.tree import DecisionTreeRegressor

import ebboost as eb
from tests.problems import fixed_regressor, homophilous, neighbor_sums
from tests.strategies import random_graph


def test_without_validation_nodes_a_weak_but_significant_correlation_uses_the_graph():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    coordinates = rng.random((1500, 2))
    graph = eb.Graph.build_knn(coordinates, k=4)
    y = 0.35 * np.sin(6 * coordinates[:, 0]) + rng.normal(size=1500)
    fixed = {"early_stopping": False, "n_jobs": 1}
    assert eb.EBBSRegressor(5, **fixed).fit(X, y, graph=graph).best_candidate_ != "none"
    noise = rng.normal(size=1500)
    assert eb.EBBSRegressor(5, **fixed).fit(X, noise, graph=graph).best_candidate_ == "none"


@pytest.mark.parametrize(
    "changes",
    [{"labels": "none"}, {"labels": "field"}, {"smoothing": None, "labels": "none"}],
    ids=repr,
)
def test_predictions_do_not_depend_on_the_scale_of_sample_weights(changes):
    X, y, graph = homophilous(400)
    weight = np.random.default_rng(0).random(400) + 0.5
    changes = {"smoothing": eb.Laplacian(1.0, 2), **changes}
    models = [
        eb.EBBSRegressor(20, random_state=0, n_jobs=1, **changes)
        .fit(X, y, scale * weight, graph=graph)
        .predict()
        for scale in (1.0, 1e-3, 1e4)
    ]
    for other in models[1:]:
        np.testing.assert_allclose(other, models[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("loss", "scale"), [("quantile", 1e6), ("huber", 1e-4), ("squared_error", 1e5)]
)
def test_predictions_scale_with_the_labels(loss, scale):
    X, y, graph = homophilous(400)
    parts = {"smoothing": eb.Laplacian(1.0, 2), "labels": "none"}
    plain, scaled = (
        eb.EBBSRegressor(15, loss=loss, random_state=0, n_jobs=1, **parts).fit(
            X, s * y, graph=graph
        )
        for s in (1.0, scale)
    )
    assert plain.n_iter_ > 0
    np.testing.assert_allclose(
        scaled.predict() / scale, plain.predict(), rtol=1e-3, atol=1e-3 * np.std(y)
    )


def test_small_rates_are_learned_by_poisson():
    X, _, graph = homophilous(600)
    m = eb.EBBSRegressor(60, loss="poisson", selection="rules", random_state=0, n_jobs=1).fit(
        X, 1e-3 * np.exp(X[:, 0]), graph=graph
    )
    assert np.corrcoef(np.log(m.predict()), X[:, 0])[0, 1] > 0.9


def test_few_labels_do_not_overfit():
    rng = np.random.default_rng(0)
    scores = []
    for seed in range(3):
        X = np.random.default_rng(seed).normal(size=(400, 5))
        y = X[:, 0] + 2.0 * rng.normal(size=400)
        m = eb.EBBSRegressor(random_state=0, n_jobs=1).fit(X, y[:45], nodes=np.arange(45))
        assert m.n_iter_ < 300
        scores.append(r2_score(X[45:, 0], m.predict()[45:]))
    assert np.mean(scores) > -0.3


def test_neighbours_target_encodings_do_not_leak_labels():
    """Pairs of neighbours share a category: the encoding of one is the label of the other."""
    rng = np.random.default_rng(0)
    n = 2000
    x = rng.normal(size=n)
    y = np.sin(2 * x) + 0.3 * rng.normal(size=n)
    frame = pd.DataFrame({"x": x, "pair": [f"p{i // 2}" for i in range(n)]})
    graph = eb.Graph.from_edges(np.arange(0, n, 2), np.arange(1, n, 2))
    train, rest = np.arange(0, 1500, 2), np.arange(1500, n)
    learner = eb.CatBoost(4, newton=True, from_average=False)
    settings = {
        "learner": learner,
        "smoothing": None,
        "labels": "none",
        "neighbor_features": eb.NeighborFeatures(),
    }
    scores = [
        eb.EBBSRegressor(80, 0.3, random_state=0, n_jobs=1, **settings)
        .fit(table, y[train], nodes=train, graph=graph)
        .score(None, y, nodes=rest)
        for table in (frame, frame[["x"]])
    ]
    assert scores[0] > scores[1] - 0.1
    assert scores[1] > 0.7


def test_validation_labels_inform_the_final_predictions():
    X, y, graph = homophilous(900)
    m = eb.EBBSRegressor(60, labels="field", smoothing=None, random_state=0, n_jobs=1)
    m.fit(X, y[:500], nodes=np.arange(500), graph=graph)
    held = m.validation_nodes_
    assert held.size == 50
    # a label that is known is nearly what is predicted there
    residuals = np.abs(m.validation_target_ - m.validation_prediction_)
    assert np.abs(m.predict(nodes=held) - y[held]).mean() < 0.7 * np.median(residuals) + 0.1
    with pytest.raises(ValueError, match="has used that label already"):
        m.predict(new_labels=(held, y[held]))
    separate = eb.EBBSRegressor(60, labels="field", smoothing=None, random_state=0, n_jobs=1)
    separate.fit(
        X, y[:450], nodes=np.arange(450), graph=graph, eval_set=(np.arange(450, 500), y[450:500])
    )
    assert set(separate.state_.labels.nodes) == set(range(450))


def test_a_classifier_without_validation_nodes_still_uses_labels():
    X, y, graph = homophilous(300)
    classes = (y > np.median(y)).astype(int)
    m = eb.EBBSClassifier(20, labels="field", smoothing=eb.Laplacian(), random_state=0, n_jobs=1)
    m.fit(X, classes[:40], nodes=np.arange(40), graph=graph)
    later = np.arange(40, 200)
    informed = m.predict_proba(new_labels=(later, classes[later]))[200:]
    assert log_loss(classes[200:], informed) < log_loss(classes[200:], m.predict_proba()[200:])


@pytest.mark.parametrize("learner", ["lightgbm", "catboost", "xgboost"])
def test_constant_columns_and_constant_labels_give_the_mean(learner, capfd):
    for X, y in (
        (np.ones((80, 2)), np.arange(80.0)),
        (np.random.default_rng(0).normal(size=(80, 2)), np.full(80, 3.0)),
    ):
        m = eb.EBBSRegressor(5, learner=learner, early_stopping=False, n_jobs=1).fit(
            X, y, graph=random_graph(80, 100)
        )
        np.testing.assert_allclose(m.predict(), y.mean(), rtol=1e-6)
    assert "Fatal" not in capfd.readouterr().out


def test_a_catboost_model_without_trees_can_be_saved(tmp_path):
    m = eb.EBBSRegressor(5, learner="catboost", early_stopping=False, n_jobs=1).fit(
        np.ones((30, 2)), np.arange(30.0)
    )
    m.save(tmp_path / "m.ebb")
    np.testing.assert_allclose(eb.load(tmp_path / "m.ebb").predict(np.ones((4, 2))), 14.5)
    assert m.feature_importances_.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("columns", [1, 5, 400])
def test_sparse_classification_works_for_any_number_of_columns(columns):
    rng = np.random.default_rng(0)
    dense = rng.random((200, columns)) * (rng.random((200, columns)) < 0.3)
    dense[0, 0] = np.nan
    y = (np.nan_to_num(dense[:, 0]) > 0).astype(int)
    m = eb.EBBSClassifier(10, random_state=0, n_jobs=1).fit(
        sparse.csr_array(dense), y, graph=random_graph(200, 300)
    )
    probabilities = m.predict_proba()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert m.score(None, y) > max(y.mean(), 1 - y.mean())


def test_sparse_tables_with_64_bit_indices_fit_scikit_learn_learners():
    X = sparse.random_array((100, 20), density=0.2, format="csr", rng=np.random.default_rng(0))
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    m = eb.EBBSRegressor(5, learner=DecisionTreeRegressor(max_depth=3), n_jobs=1, random_state=0)
    assert np.isfinite(m.fit(X, np.arange(100.0), graph=random_graph(100, 200)).predict()).all()


def test_a_classifier_rejects_regression_losses():
    with pytest.raises(ValueError, match="is a loss for numbers"):
        eb.EBBSClassifier(loss=eb.SquaredError()).fit(np.arange(60.0)[:, None], np.arange(60) % 2)


@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
def test_encoded_categories_are_explained_exactly(kind):
    X, y, graph = homophilous(300)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        kind=np.where(X[:, 1] > 0, "up", "down")
    )
    target = y if kind is eb.EBBSRegressor else (y > 0)
    m = kind(
        15, learner="catboost", labels="none", smoothing=eb.Laplacian(), random_state=0, n_jobs=1
    )
    for explanation in m.fit(frame, target, graph=graph).explanations(range(0, 300, 50)):
        assert explanation.total == pytest.approx(explanation.score, abs=1e-5)


def test_explaining_another_table_does_not_change_the_model():
    X, y, graph = homophilous(200)
    m = eb.EBBSRegressor(20, random_state=0, n_jobs=1).fit(X, y, graph=graph)
    before = m.explanations(3)[0].own
    m.explanations([3], X[::-1])
    assert m.explanations(3)[0].own == before


def test_a_model_without_graph_rejects_a_graph_at_prediction():
    X, y, graph = homophilous(100)
    m = eb.EBBSRegressor(5, n_jobs=1).fit(X, y)
    with pytest.raises(ValueError, match="fitted without one"):
        m.predict(X, graph=graph)


def test_nodes_may_be_repeated_at_prediction():
    X, y, graph = homophilous(100)
    m = eb.EBBSRegressor(5, n_jobs=1).fit(X, y, graph=graph)
    np.testing.assert_array_equal(m.predict(nodes=[3, 3]), np.repeat(m.predict()[3], 2))


def test_permuting_nodes_permutes_predictions():
    X, y, graph = homophilous(300)
    order = np.random.default_rng(0).permutation(300)
    shuffled = eb.Graph.from_scipy(graph.adjacency[order][:, order])
    known = np.arange(200)
    m = eb.EBBSRegressor(30, spectral_features=None, random_state=0, n_jobs=1)
    m.fit(X, y[:200], nodes=known, graph=graph)
    new_labels = (np.argsort(order)[known], y[known])
    np.testing.assert_allclose(
        m.predict(X[order], graph=shuffled, new_labels=new_labels), m.predict()[order], rtol=1e-8
    )


def test_fixed_parts_are_reported_where_the_graph_is_uninformative():
    X, y, _ = homophilous(300)
    m = eb.EBBSRegressor(20, labels="field", random_state=0, n_jobs=1).fit(
        X, y, graph=random_graph(300, 600)
    )
    assert m.best_candidate_ != "none"
    assert "not used" not in m.summary()


@pytest.mark.parametrize("share", [0.0, 1.0, -5])
def test_masked_labels_reject_a_share_outside_of_0_and_1(share):
    X, y, graph = homophilous(100)
    with pytest.raises(ValueError, match=r"share must be a number in \(0, 1\)"):
        eb.EBBSRegressor(5, labels=eb.MaskedLabels(share=share), smoothing=eb.Laplacian()).fit(
            X, y, graph=graph
        )


def test_callbacks_and_verbose_are_checked():
    X, y, graph = homophilous(100)
    assert (
        eb.EBBSRegressor(3, n_jobs=1).fit(X, y, graph=graph, callbacks=eb.EarlyStopping(2)).n_iter_
        <= 3
    )
    with pytest.raises(TypeError, match=r"callbacks must be a list of eb\.Callback, got 5"):
        eb.EBBSRegressor(3).fit(X, y, graph=graph, callbacks=5)
    with pytest.raises(TypeError, match=r"callbacks\[0\]"):
        eb.EBBSRegressor(3).fit(X, y, graph=graph, callbacks=[print])
    with pytest.raises(ValueError, match="verbose"):
        eb.EBBSRegressor(3, verbose="loud").fit(X, y, graph=graph)


def test_an_unknown_class_in_eval_set_is_named():
    X, _, graph = homophilous(100)
    with pytest.raises(ValueError, match="eval_set holds the class"):
        eb.EBBSClassifier(3).fit(
            X[:, :], ["a", "b"] * 25, nodes=np.arange(50), graph=graph, eval_set=([60], [1])
        )


def test_a_constant_class_weight_changes_nothing():
    X, y, graph = homophilous(300)
    classes = np.digitize(y, np.quantile(y, [0.33, 0.66]))
    settings = {
        "n_estimators": 10,
        "smoothing": eb.Laplacian(),
        "labels": "field",
        "random_state": 0,
        "n_jobs": 1,
    }
    plain, weighted = (
        eb.EBBSClassifier(class_weight=w, **settings).fit(
            X, classes[:200], nodes=np.arange(200), graph=graph
        )
        for w in (None, dict.fromkeys(range(3), 10.0))
    )
    np.testing.assert_allclose(weighted.predict_proba(), plain.predict_proba(), atol=1e-9)


def test_labels_in_another_order_than_the_rows_are_rejected():
    X, y, graph = homophilous(100)
    frame = pd.DataFrame(X, columns=list("abc"), index=[f"n{i}" for i in range(100)])
    labels = pd.Series(y, index=frame.index)
    assert eb.EBBSRegressor(3, n_jobs=1).fit(frame, labels, graph=graph).n_iter_ <= 3
    with pytest.raises(ValueError, match=r"y.loc\[X.index\]"):
        eb.EBBSRegressor(3).fit(frame, labels.sample(frac=1, random_state=0), graph=graph)


@pytest.mark.parametrize("share", [0.99, 0.001])
def test_validation_fraction_must_leave_labels_to_train_and_validate(share):
    X, y, graph = homophilous(100)
    with pytest.raises(ValueError, match="validation_fraction"):
        eb.EBBSRegressor(3, n_folds=1, validation_fraction=share).fit(X, y, graph=graph)


@pytest.mark.parametrize("n_labels", [2, 3, 10])
@pytest.mark.parametrize("kind", [eb.EBBSRegressor, eb.EBBSClassifier])
def test_presets_fit_few_labels_without_validation_nodes(kind, n_labels):
    X, y, graph = homophilous(60)
    target = y if kind is eb.EBBSRegressor else np.arange(60) % 2
    nodes = np.arange(n_labels)
    for preset in ("fast", "best"):
        m = kind.from_preset(preset, n_estimators=3, n_jobs=1, random_state=0)
        m.fit(X, target[nodes], nodes=nodes, graph=graph)
        predictions = m.predict()
        low, high = target[nodes].min(), target[nodes].max()
        assert predictions.shape == (60,)
        assert ((predictions >= low - 1.0) & (predictions <= high + 1.0)).all()


def test_numpy_scalars_are_accepted_as_parameters():
    X, y, graph = homophilous(100)
    m = eb.EBBSRegressor(np.int64(3), np.float32(0.5), n_jobs=1).fit(X, y, graph=graph)
    assert np.isfinite(m.predict(interval=np.float32(0.5)).upper).all()


def test_changing_returned_predictions_does_not_change_the_model():
    X, y, graph = neighbor_sums()
    model = fixed_regressor().fit(X, y, graph=graph)
    before = model.predict().copy()
    model.predict()[:] = 0.0
    np.testing.assert_array_equal(model.predict(), before)
    classes = np.where(y > 0, "high", "low")[:120]
    classifier = eb.EBBSClassifier(5, random_state=0).fit(X, classes, nodes=np.arange(120))
    before = classifier.predict_proba().copy()
    classifier.predict_proba()[:] = 0.0
    np.testing.assert_array_equal(classifier.predict_proba(), before)


def test_the_warning_of_a_column_vector_points_at_the_caller():
    X, y, graph = homophilous(100)
    model = eb.EBBSRegressor(3, labels="field", n_jobs=1, random_state=0)
    with pytest.warns(DataConversionWarning, match="column-vector y") as caught:
        model.fit(X, y[:80, None], nodes=np.arange(80), graph=graph)
    assert caught[0].filename == __file__
    with pytest.warns(DataConversionWarning, match="column-vector new_labels") as caught:
        model.predict(new_labels=([90, 95], y[[90, 95], None]))
    assert caught[0].filename == __file__


def test_other_relations_at_prediction_than_at_fit_are_named():
    X, y, graph = homophilous(100)
    model = eb.EBBSRegressor(3, n_jobs=1).fit(X, y, graph={"near": graph, "far": graph})
    for other in ({"near": graph}, {"near": graph, "city": graph}):
        with pytest.raises(ValueError, match=r"relations of the fit, \['near', 'far'\], got"):
            model.predict(X, graph=other)
