import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse

import ebboost as eb
from ebboost.data.table import Table
from ebboost.learners import lightgbm
from tests.learners.helpers import fitted, problem, start


def test_a_grower_with_shared_bins_grows_the_trees_of_one_with_its_own():
    X, y, _ = problem()
    table, gradient = Table(X, ("a", "b", "c")), np.nan_to_num(y)[:, None]
    learner = eb.LightGBM(num_leaves=5, colsample_bytree=0.7, subsample=0.8)
    first, alone = start(learner, table), start(learner, table)
    for _ in range(3):
        first.grow(gradient, np.ones((300, 1)))
    clone = first.clone_with_shared_bins(3)
    for step in range(4):
        grown = [
            growing.grow(gradient - 0.1 * step, np.ones((300, 1))) for growing in (clone, alone)
        ]
        np.testing.assert_array_equal(*grown)
    np.testing.assert_array_equal(
        *(growing.compile([1.0] * 4).predict(table) for growing in (clone, alone))
    )


def test_a_grower_with_shared_bins_may_grow_other_trees():
    X, y, _ = problem()
    table, gradient = Table(X, ("a", "b", "c")), np.nan_to_num(y)[:, None]
    random = start(eb.LightGBM(7, params={"extra_trees": True}), table)
    usual = start(eb.LightGBM(5), table)
    other = usual.clone_with_shared_bins(3, {"num_leaves": 7, "extra_trees": True})
    again = other.clone_with_shared_bins(3, {"num_leaves": 5, "extra_trees": None})
    for _ in range(3):
        grown = [one.grow(gradient, np.ones((300, 1))) for one in (random, other, usual, again)]
        np.testing.assert_array_equal(grown[0], grown[1])
        np.testing.assert_array_equal(grown[2], grown[3])
        assert np.abs(grown[0] - grown[2]).max() > 0.0


def test_growers_on_shared_bins_are_restored_independently():
    X, y, _ = problem()
    table = Table(X, ("a", "b", "c"))
    one = np.ones((300, 1))
    gradients = [np.nan_to_num(y)[:, None] - 0.1 * step for step in range(5)]
    learner = eb.LightGBM(num_leaves=5, colsample_bytree=0.7, subsample=0.8)
    first = start(learner, table)
    states = []
    for n_rounds in (3, 2):
        grower = first.clone_with_shared_bins(3)
        for gradient in gradients[:n_rounds]:
            grower.grow(gradient, one)
        states.append(grower.state())
    resumed = [first.clone_with_shared_bins(3) for _ in states]
    for grower, state in zip(resumed, states, strict=True):
        grower.restore(state)
    fresh = first.clone_with_shared_bins(3)
    resumed[1].grow(gradients[2], one)
    for gradient in gradients[:3]:
        fresh.grow(gradient, one)
    trees = [grower.grow(gradients[3], one) for grower in (*resumed, fresh)]
    np.testing.assert_array_equal(trees[0], trees[2])
    np.testing.assert_array_equal(trees[1], trees[2])
    texts = [grower.compile([1.0, 2.0, 3.0]).files() for grower in (*resumed, fresh)]
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", ["empty", "tiny"])
def test_a_table_of_zeros_to_lightgbm_gives_the_mean(kind, several, capfd):
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


@pytest.mark.parametrize("num_class", [1, 2, 7])
def test_num_class_other_than_the_number_of_outputs_is_rejected(num_class):
    X, y, graph = problem()
    learner = eb.LightGBM(params={"num_class": num_class})
    classifier = eb.EBBSClassifier(3, learner=learner, n_jobs=1)
    with pytest.raises(
        ValueError,
        match=f"num_class={num_class}, LightGBM grows {num_class} trees a round, not the 3",
    ):
        classifier.fit(X, np.arange(300) % 3, graph=graph)
    if num_class > 1:
        with pytest.raises(ValueError, match=f"grows {num_class} trees a round, not the 1"):
            fitted(learner, X, y, graph)


def test_weights_are_applied_once_by_concurrent_readers():
    X, y, graph = problem()
    m = fitted(eb.LightGBM(), X, y, graph, momentum=True)
    carried = pickle.loads(pickle.dumps(m))  # before anything was read
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: m.predict(X, graph=graph), range(8)))
    for other in (*found, m.predict(X, graph=graph), carried.predict(X, graph=graph)):
        np.testing.assert_array_equal(other, found[0])
    np.testing.assert_allclose(found[0], m.predict(), atol=1e-9)


def test_params_are_passed_to_lightgbm():
    model = fitted(eb.LightGBM(params={"max_depth": 1}), *problem())
    trees = model.ensemble_.booster.dump_model()["tree_info"]
    assert all(tree["num_leaves"] <= 2 for tree in trees)


def test_compiled_leaves_are_those_of_the_trees_times_their_weights():
    X, y, _ = problem()
    table = Table(X, ("a", "b", "c"))
    grower = start(eb.LightGBM(num_leaves=4), table)
    weights = [0.1, -2.0, 1 / 3]
    for weight in weights:
        grower.grow(weight + np.nan_to_num(y)[:, None], np.ones((300, 1)))
    plain, weighted = (grower.compile(w).booster for w in ([1.0, 1.0, 1.0], weights))
    for tree, weight in enumerate(weights):
        for leaf in range(4):
            expected = weight * plain.get_leaf_output(tree, leaf)
            assert weighted.get_leaf_output(tree, leaf) == expected


def test_bins_of_blocks_do_not_depend_on_the_private_hook(monkeypatch):
    """Rows of the sample are then made one at a time."""
    X, y, graph = problem()
    monkeypatch.setattr("ebboost.data.table.EAGER_LIMIT", 0)
    settings = {"neighbor_features": eb.NeighborFeatures(), "smoothing": None}
    expected = fitted(eb.LightGBM(), X, y, graph, **settings)
    monkeypatch.setattr(lightgbm, "_rows_at", lambda values, indices: iter(()))
    without_hook = fitted(eb.LightGBM(), X, y, graph, **settings)
    assert without_hook.ensemble_.files() == expected.ensemble_.files()
