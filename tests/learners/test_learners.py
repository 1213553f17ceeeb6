import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.tree import ExtraTreeRegressor

import ebboost as eb
from ebboost.data.table import Table
from ebboost.learners import as_learner
from tests.strategies import random_graph

LEARNERS = {
    "lightgbm": eb.LightGBM(num_leaves=7),
    "xgboost": eb.XGBoost(max_depth=3),
    "catboost": eb.CatBoost(depth=3),
    "catboost-newton": eb.CatBoost(depth=3, newton=True, from_average=False),
    "ridge": eb.ScikitLearn(Ridge()),
    "mixed": eb.ScikitLearn([Ridge(), ExtraTreeRegressor(max_depth=3)]),
    "no-weights": eb.ScikitLearn(KNeighborsRegressor(10)),
}
BOOSTERS = ["lightgbm", "xgboost", "catboost"]


def problem(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    graph = random_graph(n, 900, seed)
    y = 2 * X[:, 0] + X[:, 1] + 0.1 * rng.normal(size=n)
    y[::3] = np.nan
    return X, y, graph


def fitted(learner, X, y, graph, **changes):
    parameters = {
        "n_estimators": 15,
        "learning_rate": 0.3,
        "random_state": 0,
        "n_jobs": 1,
        "early_stopping": False,
    }
    parameters |= {"smoothing": eb.Laplacian(), "labels": "none"}
    return eb.EBBSRegressor(learner=learner, **(parameters | changes)).fit(X, y, graph=graph)


@pytest.mark.parametrize("name", LEARNERS)
def test_learner_lowers_the_loss_and_its_compiled_model_gives_the_same_scores(name):
    X, y, graph = problem()
    for momentum in (False, True, "corrected"):
        m = fitted(LEARNERS[name], X, y, graph, momentum=momentum)
        assert m.history_["training"][-1] < 0.5 * m.history_["training"][0]
        np.testing.assert_allclose(m.predict(X, graph=graph), m.predict(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LEARNERS)
def test_learner_handles_several_outputs(name):
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


@pytest.mark.parametrize("name", BOOSTERS)
@pytest.mark.parametrize("outputs", [1, 2])
def test_every_round_is_grown_on_the_numbers_it_is_given(name, outputs):
    """Also where they are written over those of the last round; and from a curvature that is kept, and cannot be."""
    X, y, _ = problem()
    table, random = Table(X, ("a", "b", "c")), np.random.default_rng(1)
    start = {"n_outputs": outputs, "seed": 3, "n_jobs": 1, "device": "cpu"}
    over, anew, kept, copied = (LEARNERS[name].start(table, **start) for _ in range(4))
    gradient, curvature, fixed = random.random((3, 300, outputs))
    fixed.flags.writeable = False
    for _ in range(4):
        gradient[:] = np.nan_to_num(y)[:, None] + random.normal(size=gradient.shape)
        curvature[:] = random.random(curvature.shape) + 0.1
        np.testing.assert_array_equal(
            over.grow(gradient, curvature), anew.grow(gradient.copy(), curvature.copy())
        )
        np.testing.assert_array_equal(
            kept.grow(gradient, fixed), copied.grow(gradient, fixed.copy())
        )


@pytest.mark.parametrize("forgotten", [False, True])
def test_an_ensemble_beside_another_grows_as_if_alone(forgotten):
    X, y, _ = problem()
    table, gradient = Table(X, ("a", "b", "c")), np.nan_to_num(y)[:, None]
    start = {"n_outputs": 1, "seed": 3, "n_jobs": 1, "device": "cpu"}
    learner = eb.LightGBM(num_leaves=5, colsample_bytree=0.7, subsample=0.8)
    first, alone = learner.start(table, **start), learner.start(table, **start)
    for _ in range(3):
        first.grow(gradient, np.ones((300, 1)))
    if forgotten:
        first.free()
    beside = first.clone_with_shared_bins()
    for step in range(4):
        grown = [
            growing.grow(gradient - 0.1 * step, np.ones((300, 1))) for growing in (beside, alone)
        ]
        np.testing.assert_array_equal(*grown)
    np.testing.assert_array_equal(
        *(growing.compile([1.0] * 4).predict(table) for growing in (beside, alone))
    )


@pytest.mark.parametrize("name", LEARNERS)
def test_same_seed_gives_the_same_model_bit_for_bit(name):
    X, y, graph = problem()
    first, second = (fitted(LEARNERS[name], X, y, graph).predict() for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", BOOSTERS)
def test_a_grown_tree_is_the_least_squares_fit_on_its_leaves(name):
    """Each leaf holds −Σg/Σh over its rows: checked through the values alone, on one column with two groups."""
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
    tree = learner.start(table, n_outputs=1, seed=0, n_jobs=1, device="cpu").grow(
        gradient, curvature
    )
    for group in (slice(0, 50), slice(50, 100)):
        expected = -gradient[group].sum() / curvature[group].sum()
        np.testing.assert_allclose(tree[group], expected, rtol=1e-4)


@pytest.mark.parametrize("name", BOOSTERS)
def test_a_round_in_which_nothing_grows_takes_no_weight(name):
    """Weights go to the trees that were returned: momentum's second tree may be none, and the next round's is one."""
    rng, one = np.random.default_rng(0), np.ones((100, 1))
    table, start = (
        Table(rng.normal(size=(100, 2)), ("a", "b")),
        {"n_outputs": 1, "seed": 0, "n_jobs": 1, "device": "cpu"},
    )
    growing = LEARNERS[name].start(table, **start)
    gradients = (
        rng.normal(size=(100, 1)),
        np.zeros((100, 1)),
        rng.normal(size=(100, 1)),
        np.zeros((100, 1)),
    )
    first, none, second, neither = (growing.grow(gradient, one) for gradient in gradients)
    assert none is None and neither is None
    again = LEARNERS[name].start(table, **start)
    again.restore(growing.state())
    for grown in (growing, again):
        third = grown.grow(gradients[2] + 1.0, one)
        for weights in ([], [0.5], [0.5, 2.0], [0.5, 2.0, -1.0]):
            expected = sum(
                (w * tree for w, tree in zip(weights, (first, second, third), strict=False)),
                0 * first,
            )
            np.testing.assert_allclose(grown.compile(weights).predict(table), expected, atol=1e-5)


def test_outputs_of_which_one_has_nothing_left_keep_as_many_trees():
    gradient = np.hstack([np.random.default_rng(0).normal(size=(100, 1)), np.zeros((100, 1))])
    table = Table(gradient + 1.0, ("a", "b"))
    growing = LEARNERS["catboost"].start(table, n_outputs=2, seed=0, n_jobs=1, device="cpu")
    assert growing.grow(gradient, np.ones((100, 1))) is None
    tree = growing.grow(gradient[:, :1] + [[0.0, 1.0]], np.ones((100, 1)))
    np.testing.assert_allclose(growing.compile([1.0]).predict(table), tree, atol=1e-9)


@pytest.mark.parametrize("name", BOOSTERS)
def test_missing_values_are_taken_as_they_are(name):
    X, y, graph = problem()
    X[::4, 1] = np.nan
    assert np.isfinite(fitted(LEARNERS[name], X, y, graph).predict()).all()


def test_missing_values_are_filled_for_regressors_that_refuse_them():
    X, y, graph = problem()
    X[::4, 1] = np.nan
    m = fitted(Ridge(), X, y, graph)
    assert np.isfinite(m.predict()).all()
    X[:, 2] = np.nan
    assert np.isfinite(m.predict(X, graph=graph)).all()


@pytest.mark.parametrize("name", [*BOOSTERS, "ridge"])
def test_categories_carry_their_signal(name):
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
    for kind in (sparse.csr_matrix, sparse.csr_array, sparse.csc_array):
        monkeypatch.setattr(sparse.csr_array, "toarray", lambda *_: pytest.fail("densified"))
        m = fitted(LEARNERS[name], kind(X), y, graph)
        assert m.score(None, y) > 0.5
        np.testing.assert_allclose(
            m.predict(kind(X), graph=graph), m.predict(), rtol=1e-4, atol=1e-5
        )
        monkeypatch.undo()


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", ["empty", "tiny"])
def test_columns_that_lightgbm_takes_for_zeros_give_the_mean(kind, several, capfd):
    tiny = 1e-36 * np.random.default_rng(0).normal(size=(80, 2))
    X, y = sparse.csr_array((80, 2)) if kind == "empty" else tiny, np.arange(80) % 3
    if several:
        m = eb.EBBSClassifier(5, early_stopping=False, n_jobs=1).fit(X, y)
        np.testing.assert_allclose(
            m.predict_proba(), np.tile(np.bincount(y) / 80, (80, 1)), rtol=1e-6
        )
    else:
        m = eb.EBBSRegressor(5, early_stopping=False, n_jobs=1).fit(X, y)
        np.testing.assert_allclose(m.predict(), y.mean(), rtol=1e-6)
    captured = capfd.readouterr()
    assert "Fatal" not in captured.out + captured.err


@pytest.mark.parametrize("name", LEARNERS)
def test_importances_find_the_columns_that_matter(name):
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
def test_models_that_are_no_weighted_sum_of_trees_are_refused(learner):
    ((key, value),) = learner.params.items()
    with pytest.raises(ValueError, match=f"{key}.*{value}.*remove it"):
        fitted(learner, *problem())


@pytest.mark.parametrize("given", [1, 2, 7])
def test_another_number_of_trees_a_round_than_outputs_is_refused(given):
    X, y, graph = problem()
    learner = eb.LightGBM(params={"num_class": given})
    classifier = eb.EBBSClassifier(3, learner=learner, n_jobs=1)
    with pytest.raises(
        ValueError, match=f"num_class={given}, LightGBM grows {given} trees a round, not the 3"
    ):
        classifier.fit(X, np.arange(300) % 3, graph=graph)
    if given > 1:
        with pytest.raises(ValueError, match=f"grows {given} trees a round, not the 1"):
            fitted(learner, X, y, graph)


def test_unknown_parameters_reach_the_library():
    X, y, graph = problem()
    shallow = fitted(eb.LightGBM(params={"max_depth": 1}), X, y, graph)
    assert all(
        tree["num_leaves"] <= 2 for tree in shallow.ensemble_.booster.dump_model()["tree_info"]
    )
    assert fitted(eb.XGBoost(params={"max_depth": 1}), X, y, graph).predict().size == 300
    assert fitted(eb.CatBoost(params={"depth": 1}), X, y, graph).predict().size == 300


def test_a_network_and_a_line_can_be_weak_learners():
    X, y, graph = problem(n=120)
    nets = [
        MLPRegressor(hidden_layer_sizes=(4,), max_iter=20, solver="lbfgs", tol=1e3),
        LinearRegression(),
    ]
    m = fitted(nets, X, y, graph, n_estimators=8, random_state=1)
    assert m.history_["training"][-1] < m.history_["training"][0]
    assert {type(fit[0]).__name__ for _, fit in m.ensemble_.rounds} == {
        "MLPRegressor",
        "LinearRegression",
    }


def test_names_become_learners():
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
def test_a_library_that_is_not_there_is_named_with_the_remedy(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"pip install {name}"):
        fitted(name, *problem())


@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "xgboost"])
def test_a_device_that_a_learner_lacks_is_refused(name):
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


def test_a_tree_that_is_one_leaf_is_read_back(tmp_path):
    weight = [
        0.00010232093137696031,
        7.00986149739471e-05,
        0.0001527767632951559,
        0.000864444678485895,
        1.4252996240782245e-07,
    ]
    learner = eb.CatBoost(
        depth=4, from_average=False
    )  # with nothing to split by, on the rounding of a constant
    model = eb.EBBSRegressor(1, learner=learner, random_state=0)
    model.fit(np.full((5, 1), np.nan), np.full(5, 7.0), sample_weight=weight)
    assert b'"splits": null' in b"".join(model.ensemble_.files().values())
    model.save(tmp_path / "m.ebb")
    np.testing.assert_array_equal(eb.load(tmp_path / "m.ebb").predict(), model.predict())


def test_weights_are_written_into_lightgbms_text_once_whoever_reads_it_first():
    X, y, graph = problem()
    m = fitted(eb.LightGBM(), X, y, graph, momentum=True)
    carried = pickle.loads(pickle.dumps(m))  # before anything was read
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: m.predict(X, graph=graph), range(8)))
    for other in (*found, m.predict(X, graph=graph), carried.predict(X, graph=graph)):
        np.testing.assert_array_equal(other, found[0])
    np.testing.assert_allclose(found[0], m.predict(), atol=1e-9)


@pytest.mark.parametrize("name", BOOSTERS)
def test_an_empty_first_round_takes_no_weight(name):
    """LightGBM keeps a tree of one leaf then."""
    rng = np.random.default_rng(0)
    table = Table(rng.normal(size=(100, 2)), ("a", "b"))
    one = np.ones((100, 1))
    options = {"n_outputs": 1, "seed": 0, "n_jobs": 1, "device": "cpu"}
    grower = LEARNERS[name].start(table, **options)
    assert grower.grow(np.zeros((100, 1)), one) is None
    resumed = LEARNERS[name].start(table, **options)
    resumed.restore(grower.state())
    for current in (grower, resumed):
        tree = current.grow(table.values[:, :1], one)
        np.testing.assert_allclose(current.compile([2.0]).predict(table), 2 * tree, atol=1e-5)


def test_growers_on_shared_bins_are_restored_independently():
    X, y, _ = problem()
    table = Table(X, ("a", "b", "c"))
    one = np.ones((300, 1))
    gradients = [np.nan_to_num(y)[:, None] - 0.1 * step for step in range(5)]
    learner = eb.LightGBM(num_leaves=5, colsample_bytree=0.7, subsample=0.8)
    first = learner.start(table, n_outputs=1, seed=3, n_jobs=1, device="cpu")
    states = []
    for n_rounds in (3, 2):
        grower = first.clone_with_shared_bins()
        for gradient in gradients[:n_rounds]:
            grower.grow(gradient, one)
        states.append(grower.state())
    resumed = [first.clone_with_shared_bins() for _ in states]
    for grower, state in zip(resumed, states, strict=True):
        grower.restore(state)
    fresh = first.clone_with_shared_bins()
    resumed[1].grow(gradients[2], one)
    for gradient in gradients[:3]:
        fresh.grow(gradient, one)
    trees = [grower.grow(gradients[3], one) for grower in (*resumed, fresh)]
    np.testing.assert_array_equal(trees[0], trees[2])
    np.testing.assert_array_equal(trees[1], trees[2])
    texts = [grower.compile([1.0, 2.0, 3.0]).files() for grower in (*resumed, fresh)]
    assert texts[0] == texts[1] == texts[2]
