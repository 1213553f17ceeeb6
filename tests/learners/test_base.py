"""What holds of every learner."""

import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

import ebboost as eb
from ebboost.data.table import Table
from ebboost.learners import as_learner
from ebboost.learners.base import PartialGrower
from tests.learners.helpers import BOOSTERS, LEARNERS, fitted, problem, start


@pytest.mark.parametrize("name", LEARNERS)
def test_training_loss_falls_and_the_compiled_model_reproduces_the_scores(name):
    X, y, graph = problem()
    for momentum in (False, True, "corrected"):
        m = fitted(LEARNERS[name], X, y, graph, momentum=momentum)
        assert m.history_["training"][-1] < 0.5 * m.history_["training"][0]
        np.testing.assert_allclose(m.predict(X, graph=graph), m.predict(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("learner", [eb.LightGBM(7, min_child_samples=1), eb.RandomNetwork(16)])
def test_functions_grown_on_the_rows_with_curvature_are_those_grown_on_all(learner):
    X, y, _ = problem()
    table = Table(X, ("a", "b", "c"))
    rows = np.flatnonzero(~np.isnan(y))
    curvature = np.isfinite(y)[:, None].astype(float)
    curvature.setflags(write=False)
    usual = start(learner, table)
    part = PartialGrower(start(learner, table).on_rows(rows), rows)
    for step in range(4):
        gradient = curvature * (np.nan_to_num(y)[:, None] - 0.1 * step)
        whole = usual.grow(gradient, curvature)
        tree = part.grow(gradient, curvature)
        np.testing.assert_allclose(tree[rows], whole[rows], rtol=1e-5, atol=1e-6)
        assert not tree[np.isnan(y)].any() and whole[np.isnan(y)].any()
    predicted = [one.compile([1.0] * 4).predict(table) for one in (usual, part)]
    np.testing.assert_allclose(*predicted, rtol=1e-5, atol=1e-6)
    marked = part.mark_missing(np.ones((300, 1)))
    np.testing.assert_array_equal(np.isnan(marked[:, 0]), np.isnan(y))


@pytest.mark.parametrize("name", ["lightgbm", "network"])
def test_a_grower_on_some_rows_is_cloned_into_one_on_all_and_restored(name):
    X, y, _ = problem()
    table = Table(X, ("a", "b", "c"))
    rows = np.arange(0, 300, 2)
    gradient = np.nan_to_num(y)[:, None]
    curvature = np.ones((300, 1))
    first = start(LEARNERS[name], table)
    parts = [PartialGrower(first.on_rows(rows), rows) for _ in range(2)]
    for _ in range(2):
        parts[0].grow(gradient, curvature)
    parts[1].restore(parts[0].state())
    np.testing.assert_array_equal(*(one.grow(0.5 * gradient, curvature) for one in parts))
    whole = [one.clone_with_shared_bins(3) for one in (parts[0], first)]
    np.testing.assert_array_equal(*(one.grow(gradient, curvature) for one in whole))
    again = PartialGrower(whole[0].on_rows(rows[:50]), rows[:50])
    assert np.flatnonzero(again.grow(gradient, curvature)).max() <= rows[49]


@pytest.mark.parametrize("name", LEARNERS)
def test_several_outputs(name):
    X, y, graph = problem()
    classes = np.select([y < -1, y < 1], ["low", "middle"], "high").astype(object)
    classes[np.isnan(y)] = None
    m = eb.EBBSClassifier(
        20,
        0.5,
        learner=LEARNERS[name],
        random_state=0,
        n_jobs=1,
        early_stopping=False,
        smoothing=None,
        labels="none",
    )
    m.fit(X, classes, graph=graph)
    assert m.score(None, classes) > 0.8
    assert m.predict_proba(X, graph=graph).shape == (300, 3)
    np.testing.assert_allclose(
        m.predict_proba(X, graph=graph), m.predict_proba(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", [*BOOSTERS, "network"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_gradients_and_curvatures_may_be_overwritten_between_rounds(name, outputs):
    """Curvatures that are read-only may be cached by the learner."""
    X, y, _ = problem()
    table, random = Table(X, ("a", "b", "c")), np.random.default_rng(1)
    over, anew, fixed_copy, copied = (start(LEARNERS[name], table, outputs) for _ in range(4))
    gradient, curvature, fixed = random.random((3, 300, outputs))
    fixed.flags.writeable = False
    for _ in range(4):
        gradient[:] = np.nan_to_num(y)[:, None] + random.normal(size=gradient.shape)
        curvature[:] = random.random(curvature.shape) + 0.1
        np.testing.assert_array_equal(
            over.grow(gradient, curvature), anew.grow(gradient.copy(), curvature.copy())
        )
        np.testing.assert_array_equal(
            fixed_copy.grow(gradient, fixed), copied.grow(gradient, fixed.copy())
        )


@pytest.mark.parametrize("name", LEARNERS)
def test_same_seed_gives_the_same_model_bit_for_bit(name):
    X, y, graph = problem()
    first, second = (fitted(LEARNERS[name], X, y, graph).predict() for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", BOOSTERS)
def test_a_grown_tree_is_the_least_squares_fit_on_its_leaves(name):
    """Each leaf holds −Σg/Σh over its rows; one column with two groups."""
    X = np.repeat([[0.0], [1.0]], 50, axis=0)
    rng = np.random.default_rng(0)
    gradient, curvature = rng.normal(size=(100, 1)), rng.random((100, 1)) + 0.5
    exact = {"random_strength": 0, "bootstrap_type": "No"}
    learner = {
        "lightgbm": eb.LightGBM(num_leaves=2),
        "xgboost": eb.XGBoost(max_depth=1),
        "catboost": eb.CatBoost(1, 1e-9, newton=True, from_average=False, params=exact),
    }[name]
    table = Table(X, ("x",), (), (0,))
    tree = start(learner, table, seed=0).grow(gradient, curvature)
    for group in (slice(0, 50), slice(50, 100)):
        expected = -gradient[group].sum() / curvature[group].sum()
        np.testing.assert_allclose(tree[group], expected, rtol=1e-4)


@pytest.mark.parametrize("name", [*BOOSTERS, "network"])
def test_an_empty_round_takes_no_weight(name):
    """Weights belong to the trees that were returned: the second tree of momentum may be None."""
    rng, one = np.random.default_rng(0), np.ones((100, 1))
    table = Table(rng.normal(size=(100, 2)), ("a", "b"))
    growing = start(LEARNERS[name], table)
    gradients = (
        rng.normal(size=(100, 1)),
        np.zeros((100, 1)),
        rng.normal(size=(100, 1)),
        np.zeros((100, 1)),
    )
    first, none, second, neither = (growing.grow(gradient, one) for gradient in gradients)
    assert none is None and neither is None
    again = start(LEARNERS[name], table)
    again.restore(growing.state())
    for grown in (growing, again):
        third = grown.grow(gradients[2] + 1.0, one)
        for weights in ([], [0.5], [0.5, 2.0], [0.5, 2.0, -1.0]):
            expected = sum(
                (w * tree for w, tree in zip(weights, (first, second, third), strict=False)),
                0 * first,
            )
            np.testing.assert_allclose(grown.compile(weights).predict(table), expected, atol=1e-5)


@pytest.mark.parametrize("name", [*BOOSTERS, "network"])
def test_an_empty_first_round_takes_no_weight(name):
    """LightGBM keeps a tree of one leaf then."""
    rng = np.random.default_rng(0)
    table = Table(rng.normal(size=(100, 2)), ("a", "b"))
    one = np.ones((100, 1))
    grower = start(LEARNERS[name], table)
    assert grower.grow(np.zeros((100, 1)), one) is None
    resumed = start(LEARNERS[name], table)
    resumed.restore(grower.state())
    for current in (grower, resumed):
        tree = current.grow(table.values[:, :1], one)
        np.testing.assert_allclose(current.compile([2.0]).predict(table), 2 * tree, atol=1e-5)


@pytest.mark.parametrize("name", [*BOOSTERS, "network"])
def test_missing_values_are_supported(name):
    X, y, graph = problem()
    X[::4, 1] = np.nan
    assert np.isfinite(fitted(LEARNERS[name], X, y, graph).predict()).all()


@pytest.mark.parametrize("name", [*BOOSTERS, "network", "ridge"])
def test_categorical_columns_are_informative(name):
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 12, 400)
    effect = rng.normal(size=12)
    X = pd.DataFrame(
        {"noise": rng.normal(size=400), "kind": pd.Categorical([f"k{k}" for k in kind])}
    )
    y = effect[kind] + 0.05 * rng.normal(size=400)
    m = eb.EBBSRegressor(
        40, 0.3, learner=LEARNERS[name], random_state=0, n_jobs=1, early_stopping=False
    )
    m.fit(X, np.where(np.arange(400) < 300, y, np.nan))
    assert m.score(X.iloc[300:], y[300:]) > 0.8
    strange = X.iloc[:2].assign(kind=pd.Categorical(["new", None]))
    assert np.isfinite(m.predict(strange)).all()


@pytest.mark.parametrize("name", [*BOOSTERS, "ridge"])
def test_sparse_tables_stay_sparse(name, monkeypatch):
    X, y, graph = problem()
    X[np.abs(X) < 0.5] = 0.0
    X = np.hstack([X, np.zeros((len(X), 130))])  # narrow ones do not
    for kind in (sparse.csr_matrix, sparse.csr_array, sparse.csc_array):
        monkeypatch.setattr(sparse.csr_array, "toarray", lambda *_: pytest.fail("densified"))
        m = fitted(LEARNERS[name], kind(X), y, graph)
        assert m.score(None, y) > 0.5
        np.testing.assert_allclose(
            m.predict(kind(X), graph=graph), m.predict(), rtol=1e-4, atol=1e-5
        )
        monkeypatch.undo()


@pytest.mark.parametrize("name", LEARNERS)
def test_importances_rank_the_informative_column_first(name):
    X, y, graph = problem()
    X = np.column_stack([X, np.random.default_rng(1).normal(size=300)])
    m = fitted(LEARNERS[name], X, y, graph, smoothing=None, n_estimators=10)
    if name == "no-weights":  # nearest neighbours have no notion of importance
        np.testing.assert_array_equal(m.feature_importances_, 0.0)
        return
    assert m.feature_importances_.sum() == pytest.approx(1.0)
    assert m.feature_importances_.argmax() == 0


@pytest.mark.parametrize(
    "learner",
    [
        eb.LightGBM(params={"linear_tree": True}),
        eb.LightGBM(params={"linear_trees": "true"}),
        eb.LightGBM(params={"boosting": "dart"}),
        eb.LightGBM(params={"boosting_type": "rf"}),
        eb.XGBoost(params={"booster": "dart"}),
        eb.XGBoost(params={"booster": "gblinear"}),
        eb.XGBoost(params={"num_parallel_tree": 3}),
        eb.XGBoost(params={"multi_strategy": "multi_output_tree"}),
    ],
    ids=lambda learner: f"{learner.name}-{next(iter(learner.params.items()))}",
)
def test_library_parameters_without_fixed_scalar_leaves_are_rejected(learner):
    ((key, value),) = learner.params.items()
    with pytest.raises(ValueError, match=f"{key}.*{value}.*remove it"):
        fitted(learner, *problem())


@pytest.mark.parametrize(
    ("learner", "parameter"),
    [
        (eb.LightGBM(params={"objective": "poisson"}), "loss"),
        (eb.LightGBM(params={"num_boost_round": 7}), "n_estimators"),
        (eb.XGBoost(params={"eta": 0.3}), "learning_rate"),
        (eb.XGBoost(params={"eval_metric": "mae"}), "eval_metric"),
        (eb.CatBoost(params={"loss_function": "Poisson"}), "loss"),
    ],
    ids=lambda one: one if isinstance(one, str) else one.name,
)
def test_library_parameters_that_the_estimator_sets_are_rejected(learner, parameter):
    with pytest.raises(ValueError, match=f"is not supported: pass {parameter}= to the estimator"):
        fitted(learner, *problem())


def test_learner_parameter_is_converted_or_rejected():
    assert isinstance(as_learner("xgboost"), eb.XGBoost)
    assert isinstance(as_learner(Ridge()), eb.ScikitLearn)
    for wrong in ("forest", 3, None):
        with pytest.raises(ValueError, match="learner must be one of"):
            as_learner(wrong)
    with pytest.raises(ValueError, match="empty list"):
        fitted([], *problem())
    with pytest.raises(TypeError, match=r"learner\[1\]"):
        fitted([Ridge(), "tree"], *problem())


@pytest.mark.parametrize("name", ["xgboost", "catboost"])
def test_a_missing_library_is_named_with_its_package(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"pip install {name}"):
        fitted(name, *problem())


@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "xgboost"])
def test_an_unsupported_device_is_rejected(name):
    with pytest.raises(ValueError, match="device='cuda' is not available"):
        fitted(LEARNERS[name], *problem(), device="cuda")


@pytest.mark.parametrize("name", BOOSTERS)
def test_a_model_without_trees_predicts_the_mean(name):
    X, y, graph = problem()

    class StopAtOnce(eb.Callback):
        def after_training(self, model):
            return type(model)(0 * model.scores, 0 * model.smoothed, ())

    m = eb.EBBSRegressor(3, learner=LEARNERS[name], n_jobs=1, early_stopping=False, labels="none")
    m.fit(X, y, graph=graph, callbacks=[StopAtOnce()])
    np.testing.assert_allclose(m.predict(X, graph=graph), np.nanmean(y))


@pytest.mark.parametrize("name", BOOSTERS)
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n_weights", [0, 2])
def test_files_pass_the_check_and_give_the_same_scores(name, n_outputs, n_weights):
    X, _, _ = problem()
    table = Table(X, ("a", "b", "c"))
    grower = start(LEARNERS[name], table, n_outputs)
    for shift in range(3):
        grower.grow(X[:, :n_outputs] + shift, np.ones((300, 1)))
    ensemble = grower.compile([0.5, -1.0][:n_weights])
    loaded = type(LEARNERS[name]).load(ensemble.files())
    loaded.check(3, n_outputs, {})
    np.testing.assert_array_equal(loaded.predict(table), ensemble.predict(table))
    with pytest.raises(ValueError, match="2"):
        type(LEARNERS[name]).load(ensemble.files()).check(2, n_outputs, {})


def test_a_lightgbm_model_of_a_constant_table_passes_the_check():
    grower = start(eb.LightGBM(), Table(np.zeros((30, 2)), ("a", "b")))
    assert grower.grow(np.ones((30, 1)), np.ones((30, 1))) is None
    eb.LightGBM.load(grower.compile([]).files()).check(2, 1, {})


SCALED = [(name, {}) for name in LEARNERS]
SCALED += [
    ("xgboost", {"loss": loss}) for loss in ("huber", "quantile", "poisson", "gamma", "tweedie")
]
SCALED += [("xgboost", {"momentum": "corrected"})]


@pytest.mark.parametrize(("name", "changes"), SCALED)
def test_accuracy_does_not_depend_on_the_units_of_the_labels(name, changes):
    X, y, graph = problem()
    y = np.exp(0.3 * y)
    scores = []
    for scale in (1.0, 1e-12, 1e-4, 1e12):
        model = fitted(LEARNERS[name], X, scale * y, graph, n_estimators=8, **changes)
        scores.append(model.score(None, scale * y))
    assert scores[0] > 0.2
    np.testing.assert_allclose(scores, scores[0], atol=1e-3)
