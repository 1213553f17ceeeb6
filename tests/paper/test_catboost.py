"""CatBoost as a learner, and its ordered target statistics against a literal loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebboost as eb
from ebboost.data.labels import Labels
from ebboost.data.table import Table
from ebboost.paper import CatBoost
from ebboost.paper.encoding import EncodedFeatures, encode_categories
from tests.paper.problems import neighbor_sums, regressor


def grower(learner, table, n_outputs=1):
    options = {"n_outputs": n_outputs, "n_jobs": 1, "device": "cpu"}
    return learner.bin(table, np.arange(table.n_rows), **options).grower(3)


@pytest.mark.parametrize("learner", [CatBoost(3), CatBoost(3, newton=True, from_average=False)])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_a_compiled_model_is_the_weighted_sum_of_its_trees(learner, n_outputs):
    rng = np.random.default_rng(0)
    table = Table(rng.normal(size=(150, 3)), ("a", "b", "c"))
    growing = grower(learner, table, n_outputs)
    curvature = rng.uniform(0.5, 2.0, (150, 1))
    trees = [growing.grow(rng.normal(size=(150, n_outputs)), curvature) for _ in range(3)]
    ensemble = growing.compile([0.5, -2.0])  # the third tree is dropped
    scores = ensemble.predict(table)
    np.testing.assert_allclose(scores, 0.5 * trees[0] - 2.0 * trees[1], atol=1e-8)
    again = CatBoost.load(ensemble.files())
    np.testing.assert_array_equal(again.predict(table), scores)
    shares = again.contributions(table)
    np.testing.assert_allclose(shares.sum(axis=2), scores, atol=1e-6)
    assert again.importances().shape == (3,) and again.importances().sum() > 0
    assert not growing.compile([]).predict(table).any()


def test_trees_fit_the_gradient_of_all_rows_equally_or_by_curvature():
    """Two leaves: means of the negative gradient (11), or of −gradient/curvature by curvature."""
    table = Table(np.repeat([[0.0], [1.0]], 4, axis=0), ("a",))
    gradient = np.array([1.0, 2.0, 3.0, 6.0, -1.0, -1.0, -2.0, 0.0])[:, None]
    curvature = np.array([1.0, 2.0, 3.0, 4.0, 1.0, 1.0, 1.0, 1.0])[:, None]
    plain = grower(CatBoost(1, l2_leaf_reg=0.0), table).grow(gradient, curvature)
    np.testing.assert_allclose(plain[::4, 0], [-3.0, 1.0], atol=1e-6)
    newton = grower(CatBoost(1, l2_leaf_reg=0.0, newton=True), table).grow(gradient, curvature)
    np.testing.assert_allclose(newton[::4, 0], [-1.2, 1.0], atol=1e-6)
    half = grower(CatBoost(1, l2_leaf_reg=0.0, shrinkage=0.5, from_average=False), table)
    np.testing.assert_allclose(half.grow(gradient, curvature), 0.5 * plain, atol=1e-6)


def test_all_outputs_have_as_many_trees_when_one_has_nothing_to_split():
    gradient = np.hstack([np.random.default_rng(0).normal(size=(100, 1)), np.zeros((100, 1))])
    table = Table(gradient + 1.0, ("a", "b"))
    growing = grower(CatBoost(3), table, 2)
    assert growing.grow(gradient, np.ones((100, 1))) is None
    tree = growing.grow(gradient[:, :1] + [[0.0, 1.0]], np.ones((100, 1)))
    np.testing.assert_allclose(growing.compile([1.0]).predict(table), tree, atol=1e-9)


def test_params_are_passed_to_catboost_and_checked():
    X, y, graph = neighbor_sums()
    model = regressor(learner=CatBoost(params={"depth": 1})).fit(X, y, graph=graph)
    counts = model.model_.components[0].ensemble.models[0].get_tree_leaf_counts()
    assert all(count <= 2 for count in counts)
    with pytest.raises(ValueError, match="pass n_estimators= to the estimator"):
        regressor(learner=CatBoost(params={"iterations": 5})).fit(X, y, graph=graph)
    up = CatBoost(params={"monotone_constraints": {0: 1}})
    X[:, 1] = np.nan
    model = regressor(learner=up, smoothing=None).fit(X[:, :2], X[:, 0] + 0.1 * X[:, 3])
    order = np.argsort(X[:, 0])
    assert (np.diff(model.predict()[order]) >= -1e-9).all()


def test_it_is_a_learner_of_the_default_too():
    X, y, graph = neighbor_sums()
    model = eb.EBBSRegressor(20, learner=CatBoost(3, newton=True), n_folds=1, random_state=0)
    model.fit(X, y, graph=graph)
    assert np.corrcoef(model.predict()[:120], y[:120])[0, 1] > 0.5
    explained = model.explanations([150])[0]
    assert explained.total == pytest.approx(model.predict()[150], rel=1e-5)


# ---------------------------------------------------------------------- categories


def example(seed, n=30, n_outputs=1, n_categories=4):
    """A numeric column between two of categories (NaN: missing), two thirds labelled."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(-1, n_categories, (n, 2)).astype(float)
    codes[codes < 0] = np.nan
    values = np.column_stack([codes[:, 0], rng.normal(size=n), codes[:, 1]])
    table = Table(values, ("a", "x", "b"), categorical=(0, 2), origin=(0, 1, 2))
    rows = np.sort(rng.choice(n, 2 * n // 3, replace=False))
    target = rng.normal(3.0, 1.0, (rows.size, n_outputs))
    return table, Labels(rows, target, rng.random(rows.size) + 0.1)


def slow_encoding(table, labels, column, seed):
    """One row and one label at a time; every sum starts from nothing."""
    order = np.random.default_rng(seed).permutation(labels.size)
    position = {labels.rows[label]: rank for rank, label in enumerate(order)}
    result = np.empty((table.n_rows, labels.target.shape[1]))
    for row in range(table.n_rows):
        rank = position.get(row)
        heard = [label for label in order if rank is None or position[labels.rows[label]] < rank]
        for_prior = heard or [label for label in order if labels.rows[label] != row]
        prior = sum(labels.weight[label] * labels.target[label] for label in for_prior)
        prior = prior / sum(labels.weight[label] for label in for_prior)
        total, count = 1.0 * prior, 1.0
        for label in heard:
            a, b = table.values[labels.rows[label], column], table.values[row, column]
            if a == b or (np.isnan(a) and np.isnan(b)):
                total = total + labels.weight[label] * labels.target[label]
                count += labels.weight[label]
        result[row] = total / count
    return result


@given(seed=st.integers(0, 10_000), n_outputs=st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_equals_a_literal_loop_over_rows_and_labels(seed, n_outputs):
    table, labels = example(seed, n_outputs=n_outputs)
    encoded = encode_categories(table, labels, seed)[2]
    more = list(range(3, 3 + 2 * (n_outputs - 1)))
    first, last = [0, *more[: n_outputs - 1]], [2, *more[n_outputs - 1 :]]
    for columns, origin in ((first, 0), (last, 2)):
        expected = slow_encoding(table, labels, origin, seed)
        np.testing.assert_allclose(encoded.values[:, columns], expected, rtol=1e-12)
        assert {encoded.origin[column] for column in columns} == {origin}
    assert (encoded.values[:, 1] == table.values[:, 1]).all()
    assert encoded.names[:3] == ("a", "x", "b") and encoded.categorical == ()


@given(seed=st.integers(0, 10_000), changed=st.integers(0, 19))
@settings(max_examples=30, deadline=None)
def test_a_label_never_enters_the_encoding_of_its_own_row(seed, changed):
    table, labels = example(seed)
    target = labels.target.copy()
    target[changed] += 1000.0
    moved = Labels(labels.rows, target, labels.weight)
    before, after = (encode_categories(table, one, seed)[2].values for one in (labels, moved))
    row = labels.rows[changed]
    assert (after[row] == before[row]).all()
    others = np.setdiff1d(np.arange(table.n_rows), labels.rows)  # through the mean, at least
    assert (after[others][:, [0, 2]] > before[others][:, [0, 2]]).all()


def test_categories_are_shrunk_to_the_mean_of_all_by_one_label():
    table = Table(np.array([[0.0], [1.0], [np.nan]]), ("a",), categorical=(0,), origin=(0,))
    labels = Labels(np.arange(3), np.array([[1.0], [4.0], [10.0]]), np.ones(3))
    prior, means, _ = encode_categories(table, labels, 0)
    later = Table(np.array([[0.0], [1.0], [np.nan], [7.0]]), ("a",), (0,), (0,))
    encoded = EncodedFeatures(prior=prior, means=means).transform(later, None)
    # (1 + 5)/2, (4 + 5)/2; missing is a category like any other; a code never seen gets the mean.
    assert encoded.values.ravel().tolist() == [3.0, 4.5, 7.5, 5.0]


@pytest.mark.parametrize("seed", range(3))
def test_unique_categories_do_not_predict_noise(seed):
    """With a category per row, a leak would let any tree read the labels off the encoding."""
    n = 2000
    table = Table(np.arange(n, dtype=float)[:, None], ("name",), categorical=(0,), origin=(0,))
    labels = Labels(np.arange(n), np.random.default_rng(seed).normal(size=(n, 1)), np.ones(n))
    encoded = encode_categories(table, labels, seed)[2].values[:, 0]
    ranks = [np.argsort(np.argsort(one)) for one in (encoded, labels.target[:, 0])]
    assert abs(np.corrcoef(*ranks)[0, 1]) < 4 / np.sqrt(n)


def test_a_model_of_categories_predicts_new_rows_and_smooths_encodings():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    town = rng.integers(0, 12, 300)
    effect = rng.normal(size=12)
    X = pandas.DataFrame({"town": [f"t{one}" for one in town], "x": rng.normal(size=300)})
    y = effect[town] + 0.1 * rng.normal(size=300)
    graph = eb.Graph.build_knn(rng.normal(size=(300, 2)), k=4)
    known = np.arange(200)
    model = regressor(n_estimators=100, learner=CatBoost(4), smoothing=None)
    model.fit(X, y[known], nodes=known, graph=graph)
    assert np.sqrt(np.mean((model.predict()[200:] - y[200:]) ** 2)) < 0.3
    new = model.predict(X[200:], attach=(np.arange(100), np.arange(100)))
    np.testing.assert_allclose(new, model.predict()[200:])
    with pytest.raises(ValueError, match="where categories are encoded"):
        model.explanations([0])
    smooth = regressor(learner=CatBoost(4), feature_smoothing=eb.Laplacian(20.0, 5))
    smooth.fit(X, y[known], nodes=known, graph=graph)
    names = smooth.model_.components[0].columns
    assert names == ("town", "x", "smoothed(town)", "smoothed(x)")
    assert smooth.feature_importances_.shape == (2,)
