"""What holds of every learner: the compiled model is the sum of its trees; inputs; explanations."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import ebboost as eb
from ebboost.data.reader import TableReader
from ebboost.data.table import Table
from ebboost.learners import as_learner
from tests.strategies import fixed, homophilous, table_of

LEARNERS = {
    "lightgbm": eb.LightGBM(7, min_child_samples=5),
    "sampled": eb.LightGBM(7, min_child_samples=5, subsample=0.7, colsample_bytree=0.6),
    "network": eb.RandomNetwork(16),
}


def grower(learner, table, n_outputs=1, seed=3):
    return learner.bin(
        table, np.arange(table.n_rows), n_outputs=n_outputs, n_jobs=1, device="cpu"
    ).grower(seed)


def mixed_table(n=300, levels=("a", "b", "c", None)):
    """Numbers, missing values and a category."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n, 2))
    values[::5, 1] = np.nan
    kinds = rng.choice(levels, n)
    return TableReader().fit(pd.DataFrame(values, columns=["one", "two"]).assign(kind=kinds))


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_the_compiled_model_is_the_weighted_sum_of_its_trees(name, n_outputs):
    table = mixed_table()
    rng = np.random.default_rng(1)
    growing = grower(LEARNERS[name], table, n_outputs)
    curvature = np.where(table.values[:, :1] < 0.7, rng.random((300, 1)) + 0.5, 0.0)
    noise = [rng.normal(size=(300, n_outputs)) + table.values[:, :1] for _ in range(4)]
    gradients = [one * (curvature > 0.0) for one in noise]  # 0 at rows that do not count
    trees = [growing.grow(gradient, curvature) for gradient in gradients]
    for weights in ([0.5, -2.0, 1 / 3, 7.0], [0.5, 2.0], [0.0], []):
        expected = sum(w * tree for w, tree in zip(weights, trees, strict=False))
        ensemble = growing.compile(weights)
        result = ensemble.predict(table) if weights or name == "network" else 0.0
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LEARNERS)
def test_the_mean_of_models_predicts_and_explains_the_mean(name):
    table = mixed_table()
    rng = np.random.default_rng(1)
    ensembles = []
    for seed in range(3):
        growing = grower(LEARNERS[name], table, 2, seed)
        for _ in range(2 + seed):
            growing.grow(rng.normal(size=(300, 2)) + table.values[:, :1], np.ones((300, 1)))
        ensembles.append(growing.compile([0.5] * (2 + seed)))
    mean = type(ensembles[0]).mean(ensembles)
    expected = np.mean([one.predict(table) for one in ensembles], axis=0)
    np.testing.assert_allclose(mean.predict(table), expected, rtol=1e-5, atol=1e-6)
    contributions = mean.contributions(table)
    assert contributions.shape == (300, 2, 4)
    np.testing.assert_allclose(contributions.sum(axis=2), mean.predict(table), atol=1e-5)
    assert mean.importances().shape == (3,) and mean.importances()[0] > 0.0


@pytest.mark.parametrize("name", LEARNERS)
def test_contributions_add_up_for_missing_and_unseen_values_too(name):
    table = mixed_table()
    growing = grower(LEARNERS[name], table)
    growing.grow(np.nan_to_num(table.values).sum(axis=1, keepdims=True), np.ones((300, 1)))
    ensemble = growing.compile([0.7])
    strange = Table(
        np.array([[np.nan, 1.0, np.nan], [50.0, np.nan, 2.0]]), table.names, (2,), (0, 1, 2)
    )
    assert np.isfinite(ensemble.predict(strange)).all()
    total = ensemble.contributions(strange).sum(axis=2)
    np.testing.assert_allclose(total, ensemble.predict(strange), atol=1e-5)


@pytest.mark.parametrize("name", ["lightgbm", "network"])
def test_the_order_of_rows_does_not_matter(name):
    table = mixed_table()
    order = np.random.default_rng(0).permutation(300)
    gradient = np.nan_to_num(table.values).sum(axis=1, keepdims=True)
    one, other = grower(LEARNERS[name], table), grower(LEARNERS[name], table.subset(order))
    for step in range(3):
        first = one.grow(gradient - step, np.ones((300, 1)))
        second = other.grow(gradient[order] - step, np.ones((300, 1)))
        np.testing.assert_allclose(second, first[order], atol=2e-4)


@pytest.mark.parametrize("name", LEARNERS)
def test_the_same_seed_grows_the_same_trees_and_growers_do_not_share_any(name):
    table = mixed_table()
    binned = LEARNERS[name].bin(table, np.arange(table.n_rows), n_outputs=1, n_jobs=1, device="cpu")
    gradient = np.nan_to_num(table.values[:, :1])
    one, other, third = binned.grower(3), binned.grower(3), binned.grower(4)
    for step in range(3):
        trees = [g.grow(gradient - step, np.ones((300, 1))) for g in (one, other, third)]
        np.testing.assert_array_equal(trees[0], trees[1])
    assert name == "lightgbm" or not np.array_equal(trees[0], trees[2])


@pytest.mark.parametrize("name", LEARNERS)
def test_an_empty_round_takes_no_weight(name):
    """Also a first one, of which LightGBM keeps a tree of one leaf."""
    table = mixed_table()
    one = np.ones((300, 1))
    growing = grower(LEARNERS[name], table)
    gradient = np.nan_to_num(table.values[:, :1])
    grown = [growing.grow(scale * gradient, one) for scale in (0.0, 1.0, 0.0, 2.0)]
    assert grown[0] is None and grown[2] is None
    expected = 0.5 * grown[1] - 1.5 * grown[3]
    np.testing.assert_allclose(growing.compile([0.5, -1.5]).predict(table), expected, atol=1e-4)


@pytest.mark.parametrize("name", LEARNERS)
def test_constant_and_missing_columns_grow_nothing(name, capfd):
    for values in (np.ones((50, 2)), np.full((50, 2), np.nan)):
        growing = grower(LEARNERS[name], table_of(values))
        assert growing.grow(np.arange(50.0)[:, None], np.ones((50, 1))) is None
        assert np.isfinite(growing.compile([]).importances()).all()
    captured = capfd.readouterr()
    assert "Fatal" not in captured.out + captured.err


@pytest.mark.parametrize("name", LEARNERS)
def test_rows_without_curvature_have_no_influence(name):
    table = mixed_table()
    rng = np.random.default_rng(0)
    curvature = np.where(np.arange(300) < 150, 1.0, 0.0)[:, None]
    gradient = np.nan_to_num(table.values[:, :1])
    other = np.where(curvature > 0.0, gradient, rng.normal(size=(300, 1)))
    if name == "network":  # trees need gradients of 0 there, as the objective has them
        one, two = (grower(LEARNERS[name], table).grow(g, curvature) for g in (gradient, other))
        np.testing.assert_array_equal(one, two)
    tree = grower(LEARNERS[name], table).grow(gradient, 0.0 * curvature)
    assert tree is None or np.isfinite(tree).all()


@pytest.mark.parametrize("name", LEARNERS)
def test_categories_are_informative(name):
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 12, 600)
    effect = rng.normal(size=12)
    X = pd.DataFrame({"noise": rng.normal(size=600), "kind": [f"k{k}" for k in kind]})
    y = effect[kind] + 0.3 * rng.normal(size=600)
    model = fixed(n_estimators=60, learner=LEARNERS[name]).fit(X[:450], y[:450])
    assert model.score(X[450:], y[450:]) > 0.8
    assert model.feature_importances_.argmax() == 1
    strange = X.iloc[:2].assign(kind=["new", None])
    assert np.isfinite(model.predict(strange)).all()


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("unit", [1e-12, 1e-4, 1e12])
def test_accuracy_does_not_depend_on_the_units_of_labels_and_columns(name, unit):
    X, y, graph = homophilous(200)
    options = {"learner": LEARNERS[name], "smoothing": eb.Laplacian(1.0, 2)}
    one = fixed(**options).fit(X, y, graph=graph).predict()
    other = fixed(**options).fit(X, unit * y, graph=graph).predict()
    np.testing.assert_allclose(other / unit, one, atol=1e-5 * one.std())
    other = fixed(**options).fit(unit * X, y, graph=graph)
    assert other.score(None, y) == pytest.approx(np.corrcoef(one, y)[0, 1] ** 2, abs=0.15)


def test_lightgbm_of_a_sparse_table_is_that_of_the_dense_one():
    dense = np.random.default_rng(0).normal(size=(200, 4))
    dense[np.abs(dense) < 0.8] = 0.0
    learner = eb.LightGBM(7, min_child_samples=5, params={"enable_bundle": False})
    gradient = dense[:, :1] + dense[:, 1:2]
    tables = (table_of(dense), table_of(sparse.csr_array(dense)))
    trees = [grower(learner, table).grow(gradient, np.ones((200, 1))) for table in tables]
    np.testing.assert_allclose(*trees, atol=1e-6)
    ensemble = grower(learner, tables[1])
    ensemble.grow(gradient, np.ones((200, 1)))
    compiled = ensemble.compile([1.0])
    predicted = [compiled.predict(table) for table in tables]
    np.testing.assert_allclose(*predicted)
    np.testing.assert_allclose(
        compiled.contributions(tables[1]).sum(axis=2), predicted[0], atol=1e-6
    )


def test_a_lightgbm_tree_is_the_least_squares_fit_on_its_leaves():
    """Each leaf holds −Σg/Σh over its rows."""
    rng = np.random.default_rng(0)
    table = table_of(np.repeat([[0.0], [1.0]], 50, axis=0))
    gradient, curvature = rng.normal(size=(100, 1)), rng.random((100, 1)) + 0.5
    tree = grower(eb.LightGBM(num_leaves=2), table).grow(gradient, curvature)
    for group in (slice(0, 50), slice(50, 100)):
        expected = -gradient[group].sum() / curvature[group].sum()
        np.testing.assert_allclose(tree[group], expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"linear_tree": True}, "linear_tree.*remove it"),
        ({"linear_trees": "true"}, "linear_trees.*remove it"),
        ({"boosting": "dart"}, "dart.*remove it"),
        ({"boosting_type": "rf"}, "rf.*remove it"),
        ({"objective": "poisson"}, "pass loss= to the estimator"),
        ({"num_boost_round": 7}, "pass n_estimators= to the estimator"),
        ({"eta": 0.3}, "pass learning_rate= to the estimator"),
        ({"metric": "mae"}, "pass early_stopping= to the estimator"),
        ({"num_class": 3}, "grows 3 trees a round, not the 1"),
    ],
)
def test_params_that_make_no_sum_of_trees_or_belong_to_the_estimator_are_refused(params, words):
    X, y, _ = homophilous(60)
    with pytest.raises(ValueError, match=words):
        fixed(learner=eb.LightGBM(params=params)).fit(X, y)


def test_learners_by_name_and_wrong_ones():
    assert isinstance(as_learner("lightgbm"), eb.LightGBM)
    X, y, _ = homophilous(60)
    for wrong in ("forest", 3, None):
        with pytest.raises(ValueError, match="learner must be"):
            fixed(learner=wrong).fit(X, y)
    for learner in [one for one in LEARNERS.values() if "cuda" not in one.devices]:
        with pytest.raises(ValueError, match="device='cuda' is not available"):
            fixed(learner=learner, device="cuda").fit(X, y)
