import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import ebboost as eb
from ebboost.training import defaults
from tests.problems import homophilous
from tests.strategies import random_graph


def small(kind=eb.EBBSRegressor, **changes):
    settings = {
        "n_estimators": 20,
        "random_state": 0,
        "n_jobs": 1,
        "learning_rate": 0.3,
        "learner": eb.LightGBM(),
    }
    return kind(**(settings | {"smoothing": eb.Laplacian(), "labels": "none"} | changes))


def problem(n=240, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    graph = random_graph(n, 700, seed)
    y = 3 * X[:, 0] + (graph.adjacency @ X[:, 1]) + 0.2 * rng.normal(size=n)
    return X, y, graph


# LightGBM counts the rows of a leaf by their share of the curvature, not by their weight: a row of
# weight 2 is not two rows to it. The validation nodes that are held out differ as well.
WEIGHTS = "rows of a leaf are counted, not weighed"


@parametrize_with_checks(
    [eb.EBBSRegressor(30, n_jobs=1), eb.EBBSClassifier(30, n_jobs=1)],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
        "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
    },
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names:UserWarning")
def test_scikit_learn_accepts_the_estimators(estimator, check):
    check(estimator)


@pytest.mark.parametrize("feature_smoothing", [None, eb.Laplacian(5.0, 3)])
def test_an_informative_graph_improves_r2(feature_smoothing):
    rng = np.random.default_rng(0)
    place = rng.random((1000, 2))
    field = np.sin(6 * place[:, 0]) + np.cos(5 * place[:, 1])
    X = (field + 2.0 * rng.normal(size=1000))[
        :, None
    ]  # what a node knows of itself is mostly noise
    graph = eb.Graph.build_knn(place, k=8)
    train, test = np.arange(500), np.arange(500, 1000)
    m = small(n_estimators=200, feature_smoothing=feature_smoothing).fit(
        X, field[train], nodes=train, graph=graph
    )
    plain = small(n_estimators=200).fit(X, field[train], nodes=train)
    assert m.score(None, field, nodes=test) > plain.score(X[test], field[test]) + 0.25


def test_labels_with_gaps_and_labels_of_listed_nodes_are_the_same():
    X, y, graph = problem()
    known = np.arange(0, 240, 2)
    gaps = np.full(240, np.nan)
    gaps[known] = y[known]
    mask = np.zeros(240, bool)
    mask[known] = True
    models = [
        small().fit(X, gaps, graph=graph),
        small().fit(X, [None if np.isnan(v) else v for v in gaps], graph=graph),
        small().fit(X, y[known], nodes=known, graph=graph),
        small().fit(X, y[mask], nodes=mask, graph=graph),
        small().fit(X, pd.Series(gaps).astype("Float64"), graph=graph),
        small().fit(X, pl.Series(gaps), graph=graph),
    ]
    for m in models[1:]:
        np.testing.assert_array_equal(m.predict(), models[0].predict())


def test_a_node_of_weight_zero_counts_as_unlabelled():
    X, y, graph = problem()
    weight = (np.arange(240) % 2 == 0).astype(float)
    gaps = np.where(weight > 0, y, np.nan)
    a = small(early_stopping=False).fit(X, y, weight, graph=graph)
    b = small(early_stopping=False).fit(X, gaps, graph=graph)
    np.testing.assert_array_equal(a.predict(), b.predict())


def test_weights_pull_the_fit_towards_heavy_nodes():
    X = np.zeros((100, 1))
    y = np.repeat([0.0, 1.0], 50)
    m = small(early_stopping=False).fit(X, y, np.repeat([1.0, 3.0], 50))
    np.testing.assert_allclose(m.predict(), 0.75)


def test_class_weights_move_the_prior():
    X, y = np.zeros((100, 1)), np.repeat(["a", "b"], [80, 20])
    plain = small(eb.EBBSClassifier, early_stopping=False).fit(X, y).predict_proba()
    balanced = (
        small(eb.EBBSClassifier, early_stopping=False, class_weight="balanced")
        .fit(X, y)
        .predict_proba()
    )
    np.testing.assert_allclose(plain[0], [0.8, 0.2], atol=1e-6)
    np.testing.assert_allclose(balanced[0], [0.5, 0.5], atol=1e-6)


@pytest.mark.parametrize(
    "labels", [["no", "yes"], ["x", "y", "z"], [3, 7], [False, True], [1.5, 2.5, 9.0]], ids=repr
)
def test_classes_may_be_anything_that_sorts(labels):
    X, y, graph = problem()
    codes = np.digitize(y, np.quantile(y, np.linspace(0, 1, len(labels) + 1)[1:-1]))
    truth = np.array(labels, dtype=object if isinstance(labels[0], str) else None)[codes]
    if isinstance(labels[0], float):
        truth = truth.astype(object)
        truth = np.array([str(v) for v in truth])  # fractions are no class labels to scikit-learn
    hidden = truth.astype(object)
    hidden[::4] = None
    m = small(eb.EBBSClassifier, smoothing=None).fit(X, hidden, graph=graph)
    assert sorted(set(m.predict().tolist())) == sorted(set(truth.tolist()))
    assert m.predict().dtype.kind == m.classes_.dtype.kind
    assert m.score(None, truth) > 0.5
    np.testing.assert_allclose(m.predict_proba().sum(axis=1), 1.0)
    np.testing.assert_array_equal(m.classes_[m.predict_proba().argmax(1)], m.predict())


def test_a_new_graph_can_be_predicted():
    X, y, graph = problem()
    X_new, _, graph_new = problem(seed=1, n=100)
    m = small().fit(X, y, graph=graph)
    predicted = m.predict(X_new, graph=graph_new)
    P = m.smoothing_.operator(graph_new)
    by_hand = m.init_score_[0] + P.apply(m.ensemble_.booster.predict(X_new))
    np.testing.assert_allclose(predicted, by_hand)
    np.testing.assert_allclose(m.predict(X_new, graph=graph_new, nodes=[5, 2]), predicted[[5, 2]])


def test_feature_smoothing_gives_the_trees_smoothed_columns():
    X, y, graph = problem()
    spec = eb.Laplacian(20.0, 5)
    direct = small(smoothing=None, feature_smoothing=spec).fit(X, y, graph=graph)
    by_hand = small(smoothing=None).fit(
        np.hstack([X, spec.operator(graph).apply(X)]), y, graph=graph
    )
    np.testing.assert_allclose(direct.predict(), by_hand.predict())
    assert direct.feature_importances_.shape == (3,)
    np.testing.assert_allclose(
        direct.feature_importances_, by_hand.feature_importances_.reshape(2, 3).sum(0)
    )


def test_missing_values_do_not_spread_through_feature_smoothing():
    X, y, graph = problem()
    X[::5, 1] = np.nan
    m = small(feature_smoothing=eb.Laplacian(2.0, 3)).fit(X, y, graph=graph)
    assert np.isfinite(m.predict()).all()
    X[:, 1] = np.nan
    assert np.isfinite(m.predict(X, graph=graph)).all()


def test_pandas_polars_and_numpy_give_the_same_model():
    X, y, graph = problem()
    names = ["a", "b", "c"]
    frames = [
        pd.DataFrame(X, columns=names),
        pl.DataFrame(X, schema=names),
        X,
        np.asfortranarray(X),
    ]
    predictions = [small().fit(frame, y, graph=graph).predict() for frame in frames]
    for other in predictions[1:]:
        np.testing.assert_array_equal(other, predictions[0])
    m = small().fit(frames[0], y, graph=graph)
    assert m.feature_names_in_.tolist() == names
    np.testing.assert_allclose(m.predict(frames[1], graph=graph), m.predict())


def test_same_seed_same_model_other_seed_other_model():
    X, y, graph = problem()
    learner = eb.LightGBM(colsample_bytree=0.5)
    first, second, other = (
        small(learner=learner, random_state=s).fit(X, y, graph=graph).predict() for s in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_estimators_clone_pickle_and_joblib(tmp_path):
    X, y, graph = problem()
    m = small(smoothing=eb.Laplacian(3.0), learner=eb.LightGBM(num_leaves=9)).fit(X, y, graph=graph)
    fresh = clone(m)
    assert not hasattr(fresh, "ensemble_")
    np.testing.assert_array_equal(fresh.fit(X, y, graph=graph).predict(), m.predict())
    joblib.dump(m, tmp_path / "m.joblib")
    for copy in (pickle.loads(pickle.dumps(m)), joblib.load(tmp_path / "m.joblib")):
        np.testing.assert_array_equal(copy.predict(X, graph=graph), m.predict(X, graph=graph))


def test_a_stored_model_recognises_the_table_fitted_on_without_holding_it(tmp_path, monkeypatch):
    monkeypatch.setattr(defaults, "MIN_GAIN", -1.0)  # average whatever was tried
    X, y, graph = homophilous(200)
    pipeline = make_pipeline(StandardScaler(), eb.EBBSRegressor(10, random_state=0, n_jobs=1))
    pipeline.fit(X, y, ebbsregressor__graph=graph)
    model = pipeline[-1]
    table = pipeline[0].transform(X)
    assert len(model.state_.members) > 1
    model.save(tmp_path / "m.ebb")
    sent = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(sent.predict(X), model.predict())
    assert sent.score(X, y) == pipeline.score(X, y)
    for copy in (sent[-1], eb.load(tmp_path / "m.ebb")):
        assert all(one.table is None for one in (copy.state_, *copy.state_.members))
        np.testing.assert_array_equal(copy.predict(table), model.predict())
        with pytest.raises(ValueError, match="a prediction needs one"):
            copy.predict(table + 1.0)
    again = pickle.loads(pickle.dumps(sent))
    np.testing.assert_array_equal(again.predict(X), model.predict())


def test_nested_parameters_can_be_searched():
    m = small(smoothing=eb.Laplacian(), learner=eb.LightGBM())
    m.set_params(smoothing__lam=7.0, learner__num_leaves=5)
    assert m.smoothing.lam == 7.0
    assert m.learner.num_leaves == 5


def test_a_pipeline_passes_the_graph_on():
    X, y, graph = problem()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        kind=np.where(X[:, 2] > 0, "up", "down")
    )
    columns = ColumnTransformer(
        [("n", StandardScaler(), ["a", "b"]), ("k", OneHotEncoder(), ["kind"])]
    )
    pipe = make_pipeline(columns, small())
    pipe.fit(frame, y, ebbsregressor__graph=graph)
    direct = small().fit(columns.fit_transform(frame), y, graph=graph)
    expected = direct.predict(columns.transform(frame), graph=graph)
    np.testing.assert_array_equal(pipe.predict(frame, graph=graph), expected)


def test_wide_sparse_tables_fit():
    rng = np.random.default_rng(0)
    informative = sparse.random_array((400, 5), density=0.5, format="csr", rng=rng)
    noise = sparse.random_array((400, 3000), density=0.01, format="csr", rng=rng)
    X = sparse.hstack([informative, noise], format="csr")
    y = np.asarray(informative.sum(axis=1)).ravel()
    m = small(smoothing=None, n_estimators=60).fit(X, y, graph=random_graph(400, 900))
    assert m.score(None, y) > 0.5


def test_a_user_s_own_loss_is_a_small_class():
    class LogCosh(eb.Loss):
        def value(self, scores, target):
            return np.logaddexp(scores - target, target - scores).sum(axis=1)

        def gradient(self, scores, target):
            return np.tanh(scores - target)

    X, y, graph = problem()
    m = small(loss=LogCosh()).fit(X, y, graph=graph)
    assert m.score(None, y) > 0.5


def test_a_loss_of_classes_must_have_a_probability_for_each():
    class Logistic(eb.Loss):
        def value(self, scores, target):
            return (np.logaddexp(0.0, scores) - target * scores).sum(axis=1)

        def gradient(self, scores, target):
            return 1.0 / (1.0 + np.exp(-scores)) - target

        def inverse_link(self, scores):
            share = 1.0 / (1.0 + np.exp(-scores))
            return np.hstack([1.0 - share, share])

    X, y, graph = problem()
    with pytest.raises(ValueError, match=r"for each of 2 classes, got the shape \(1, 4\)"):
        small(eb.EBBSClassifier, loss=Logistic()).fit(X, y > 0, graph=graph)


@pytest.mark.parametrize(("loss", "check"), [("huber", np.mean), ("quantile", np.median)])
def test_huber_and_quantile_losses_resist_outliers(loss, check):
    X, y, graph = problem()
    wild = y.copy()
    wild[:10] += 1e4
    m = small(loss=loss, n_estimators=60).fit(X, wild, graph=graph)
    assert r2_score(y[10:], m.predict()[10:]) > 0.5


def test_quantiles_are_quantiles():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 1))
    y = X[:, 0] + rng.normal(size=3000)
    for alpha in (0.1, 0.5, 0.9):
        m = small(loss=eb.Quantile(alpha), n_estimators=200, learning_rate=0.3).fit(X, y)
        assert np.mean(y <= m.predict()) == pytest.approx(alpha, abs=0.04)


def test_poisson_predicts_rates():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 1))
    y = rng.poisson(np.exp(X[:, 0]))
    m = small(loss="poisson", n_estimators=100).fit(X, y)
    assert (m.predict() > 0).all()
    assert np.corrcoef(np.log(m.predict()), X[:, 0])[0, 1] > 0.95


def test_a_graph_without_edges_gives_the_model_without_graph():
    X, y, _ = problem()
    empty = eb.Graph.from_edges([], [], n_nodes=240)
    np.testing.assert_allclose(
        small().fit(X, y, graph=empty).predict(), small().fit(X, y).predict()
    )


def test_isolated_unlabelled_nodes_get_finite_predictions():
    X, y, _ = problem()
    graph = eb.Graph.from_edges([0], [1], n_nodes=240)
    y[5:] = np.nan
    assert np.isfinite(small().fit(X, y, graph=graph).predict()).all()


def test_scoring_follows_scikit_learn():
    X, y, graph = problem()
    m = small().fit(X, y, graph=graph)
    gaps = np.where(np.arange(240) < 50, y, np.nan)
    expected = r2_score(y[:50], m.predict()[:50])
    assert m.score(X, gaps, graph=graph) == pytest.approx(expected)
    assert m.score(None, gaps) == pytest.approx(expected)
    assert m.score(None, y[:50], nodes=np.arange(50)) == pytest.approx(expected)
    assert m.score(None, y, nodes=np.arange(50)) == pytest.approx(expected)
    with pytest.raises(ValueError, match="nodes="):
        m.score(None, y[:50])


def test_n_jobs_is_limited_to_a_multiple_of_the_cores():
    X, y, _ = problem()
    few, many = (
        eb.EBBSRegressor(3, labels="none", smoothing=None, n_jobs=n, random_state=0).fit(X, y)
        for n in (1, 10**9)
    )
    np.testing.assert_allclose(many.predict(), few.predict(), atol=1e-9)


def test_two_threads_are_reproducible_bit_for_bit():
    X, y, graph = problem()
    fixed = {"smoothing": eb.Laplacian(1.0, 2), "labels": "field", "early_stopping": False}
    first, second = (
        eb.EBBSRegressor(30, n_jobs=2, random_state=0, **fixed).fit(X, y, graph=graph).predict()
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


def test_notebooks_show_the_summary_below_the_diagram():
    X, y, graph = problem()
    m = small(verbose=0)
    assert "EBBSRegressor: " not in m._repr_html_()
    m.fit(X, y, graph={"<b>": graph})
    for shown in (m._repr_html_(), m._repr_mimebundle_()["text/html"]):
        assert "sk-" in shown
        assert "EBBSRegressor: " in shown and "relations   &lt;b&gt; 1" in shown
        assert "<b>" not in shown[shown.rindex("<pre") :]
    with config_context(display="text"):
        assert set(m._repr_mimebundle_()) == {"text/plain"}
        assert not hasattr(m, "_repr_html_")
