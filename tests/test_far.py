"""Rows to predict that are far from labels: folds, the Gaussian process, intervals, warnings."""

import warnings

import numpy as np
import pytest
from scipy.spatial import cKDTree

import ebboost as eb
from ebboost.data.distances import Distances, difference, separate, transport
from ebboost.intervals import two_variances
from ebboost.kriging import GaussianProcess, likeliest_process

LEVEL = 0.9


def on_a_map(kind, n=900, seed=0):
    """A table with a column and two coordinates, labels, and which of these are known."""
    rng = np.random.default_rng(seed)
    points = rng.random((n, 2))
    X = np.column_stack([rng.normal(size=n), points])
    y = X[:, 0] + 2.0 * np.sin(5.0 * points[:, 0]) * np.cos(4.0 * points[:, 1])
    y += 0.3 * rng.normal(size=n)
    center = cKDTree(rng.random((6, 2))).query(points)[0]
    far = {"clusters": center > np.quantile(center, 0.35), "left": points[:, 0] > 0.6}
    return X, y, ~far.get(kind, rng.random(n) < 0.5)


def fitted(kind, **settings):
    X, y, known = on_a_map(kind)
    rows = np.flatnonzero(known)
    model = eb.EBBSRegressor(40, random_state=0, n_jobs=1, **settings)
    return model.fit(X, y[rows], nodes=rows, coordinates=[1, 2]), X, y, np.flatnonzero(~known)


@pytest.fixture(scope="module")
def clusters():
    return fitted("clusters")


# ---------------------------------------------------------------------- folds


@pytest.mark.parametrize("of_graph", [False, True])
def test_folds_change_where_rows_to_predict_are_far_and_only_there(of_graph):
    alarms = 0
    for seed in range(40):
        X, _, known = on_a_map("random" if seed % 4 else "clusters", 500, seed)
        rows = np.flatnonzero(known)
        where = Distances(X[:, 1:])
        if of_graph:
            where = Distances(None, eb.Graph.build_knn(X[:, 1:], 5), np.arange(500))
        fold = np.random.default_rng(seed).permutation(rows.size) % 5
        found, facts = separate(where, 500, rows, fold, seed)
        if seed % 4 == 0:
            assert facts.is_matched and facts.to_predict > facts.at_random
            far = where.nearest(np.flatnonzero(~known), rows)[0]
            wide, narrow = (transport(where.held_out(rows, one), far) for one in (fold, found))
            assert narrow < 0.6 * wide
        else:
            alarms += facts.is_matched
            assert facts.is_matched or found is fold
    assert alarms <= 2


def test_difference_is_that_of_distribution_functions():
    assert difference(np.arange(10.0), np.arange(10.0)) == 0.0
    assert difference(np.arange(10.0), np.arange(10.0) + 100.0) == 1.0
    assert difference(np.arange(10.0) + 100.0, np.arange(10.0)) <= 0.0


def test_hops_to_the_nearest_label_on_a_path():
    path = eb.Graph.from_edges(range(9), range(1, 10), n_nodes=11)  # and a node alone
    hops, nearest = Distances(None, path, np.arange(11)).nearest(np.arange(11), np.array([0, 9]))
    np.testing.assert_array_equal(hops[:10], [0, 1, 2, 3, 4, 4, 3, 2, 1, 0])
    np.testing.assert_array_equal(nearest[:10], [0] * 5 + [1] * 5)
    assert np.isinf(hops[10])


def test_distance_fold_holds_out_each_label_once_and_as_far_as_rows_to_predict():
    X, y, known = on_a_map("left")
    labels = np.where(known, y, np.nan)
    points = X[:, 1:]
    folds = list(eb.DistanceFold(4, coordinates=points, random_state=0).split(X, labels))
    held = np.concatenate([test for _, test in folds])
    np.testing.assert_array_equal(np.sort(held), np.flatnonzero(known))
    pairs = [cKDTree(points[train]).query(points[test])[0] for train, test in folds]
    far = cKDTree(points[known]).query(points[~known])[0]
    assert 0.5 < np.median(np.concatenate(pairs)) / np.median(far) < 2.0
    scores = eb.cross_validate(
        eb.EBBSRegressor(10, n_folds=1, labels="none"), X, labels, cv=eb.DistanceFold(3),
        coordinates=[1, 2], scoring="rmse",
    )  # fmt: skip
    assert np.isfinite(scores["test_score"]).all()
    with pytest.raises(ValueError, match="rows to predict"):
        next(eb.DistanceFold(4, coordinates=points).split(X, y))


def test_block_fold_keeps_its_buffer_and_takes_the_size_from_the_range():
    X, y, _ = on_a_map("random")
    points = X[:, 1:]
    for size in (0.2, "range"):
        blocks = eb.BlockFold(4, size=size, buffer=0.05, coordinates=points, random_state=0)
        folds = list(blocks.split(X, y))
        assert np.unique(np.concatenate([test for _, test in folds])).size == len(X)
        for train, test in folds:
            assert cKDTree(points[train]).query(points[test])[0].min() >= 0.05
    with pytest.raises(ValueError, match="smaller size"):
        next(eb.BlockFold(4, size=9.0, coordinates=points).split(X, y))


# ---------------------------------------------------------------------- the Gaussian process


@pytest.mark.parametrize("smoothness", [0.5, 1.5, 2.5])
def test_process_is_the_exact_posterior_if_all_labels_are_near(smoothness):
    rng = np.random.default_rng(0)
    known, new = rng.random((30, 2)), rng.random((5, 2))
    residuals, weight = rng.normal(size=30), rng.uniform(0.5, 2.0, 30)
    process = GaussianProcess(2.0, 0.3, 0.1, smoothness)
    mean, variance = process.posterior(new, known, residuals, weight)

    def covariance(a, b):
        return process.covariance(np.linalg.norm(a[:, None] - b[None], axis=2))

    system = covariance(known, known) + np.diag(0.1 / weight)
    solved = np.linalg.solve(system, covariance(known, new))
    np.testing.assert_allclose(mean, solved.T @ residuals, rtol=1e-6)
    exact = 2.0 - (solved * covariance(known, new)).sum(axis=0)
    np.testing.assert_allclose(variance, exact, rtol=1e-6)


def test_likelihood_finds_the_process_that_labels_were_drawn_from():
    rng = np.random.default_rng(1)
    points = rng.random((900, 2))
    true = GaussianProcess(1.0, 0.1, 0.2)
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
    root = np.linalg.cholesky(true.covariance(gaps) + 0.2 * np.eye(900))
    found = likeliest_process(points, root @ rng.normal(size=900), np.ones(900), 0.5, 1e-4, 0)
    assert 0.1 < found.noise < 0.3
    assert 0.5 < (found.variance / found.range) / 10.0 < 2.0


# ---------------------------------------------------------------------- models


def test_far_from_labels_errors_fall_and_intervals_cover(clusters):
    model, X, y, far = clusters
    prediction, lower, upper = model.predict(nodes=far, interval=LEVEL)
    without = fitted("clusters", labels="none", n_folds=1)[0].predict(nodes=far)
    assert np.mean((prediction - y[far]) ** 2) < np.mean((without - y[far]) ** 2)
    assert 0.65 < np.mean((lower <= y[far]) & (y[far] <= upper)) <= 1.0
    labels = model.model_.labels.rows
    distance = cKDTree(X[labels, 1:]).query(X[far, 1:])[0]
    order = np.argsort(distance)
    assert (upper - lower)[order[-60:]].mean() > 1.2 * (upper - lower)[order[:60]].mean()
    assert "blocks of labels" in model.summary()


def test_a_process_is_saved_explained_and_predicts_new_rows(clusters, tmp_path):
    model, X, y, far = clusters
    components = model.model_.components
    assert any(one.process is not None for one in components)
    model.save(tmp_path / "model.ebb")
    loaded = eb.load(tmp_path / "model.ebb")
    np.testing.assert_array_equal(loaded.predict(), model.predict())
    new = X[far[:7]] + [0.0, 1e-9, 0.0]
    np.testing.assert_allclose(model.predict(new), model.predict(nodes=far[:7]), atol=1e-4)
    widths = [
        np.ptp(np.array(one.predict(new, interval=LEVEL)[1:]), axis=0) for one in (model, loaded)
    ]
    np.testing.assert_allclose(*widths)
    one = model.explanations(far[:1])[0]
    total = (
        one.base + sum(one.own.values()) + sum(one.neighbors.values()) + sum(one.labels.values())
    )
    np.testing.assert_allclose(total, model.predict(nodes=far[:1])[0], rtol=1e-6)
    near = model.predict(new, new_labels=([0], [y[far[0]] + 9.0]))
    assert near[0] > model.predict(new)[0] + 1.0


def test_applicability_names_rows_far_from_labels_and_predict_warns_once(clusters):
    model, X, _, far = fitted("random")
    inside = model.applicability(nodes=far)
    assert inside.outside.mean() < 0.1 and inside.distance.shape == far.shape
    moved = X[far[:5]] + [0.0, 50.0, 0.0]
    assert model.applicability(moved).outside.all()
    strange = X[far[:5]] + [100.0, 0.0, 0.0]
    assert model.applicability(strange).outside.all()
    assert list(inside.to_frame()) == ["distance", "dissimilarity", "outside"]
    with pytest.warns(UserWarning, match="farther than labels"):
        model.predict(moved)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(moved)


@pytest.mark.parametrize("kind", ["classes", "counts", "graph"])
def test_other_models_are_fitted_far_from_labels(kind):
    X, y, known = on_a_map("left", 400)
    rows = np.flatnonzero(known)
    where = {"coordinates": [1, 2]}
    model = eb.EBBSRegressor(10, random_state=0, loss="poisson" if kind == "counts" else "auto")
    if kind == "classes":
        model, y = eb.EBBSClassifier(10, random_state=0), np.digitize(X[:, 1], [0.2, 0.4])
    elif kind == "counts":
        y = np.random.default_rng(0).poisson(np.exp(y / 2.0)).astype(float)
    else:
        where = {"graph": eb.Graph.build_knn(X[:, 1:], 5)}
    model.fit(X, y[rows], nodes=rows, **where)
    assert model.model_.separation.is_matched
    assert not any(one.process is not None for one in model.model_.components)
    assert np.isfinite(np.asarray(model.predict(), dtype=float)).all()


# ---------------------------------------------------------------------- folds by name, graphs


def test_folds_can_be_asked_for():
    X, y, known = on_a_map("random", 500)
    rows = np.flatnonzero(known)

    def facts(how, **where):
        model = eb.EBBSRegressor(10, n_folds=how, random_state=0, n_jobs=1)
        where = where or {"coordinates": [1, 2]}
        return model.fit(X, y[rows], nodes=rows, **where).model_.separation

    assert not facts("random").is_matched
    wide = facts("blocks")
    assert wide.is_matched and wide.held_out > 2.0 * wide.at_random
    rows = np.flatnonzero(X[:, 1] < 0.5)
    assert not facts("random").is_matched and facts("distance").is_matched
    graph = {"graph": eb.Graph.build_knn(X[:, 1:], 5)}
    with pytest.raises(ValueError, match="coordinates="):
        facts("blocks", **graph)
    rows = np.arange(500)
    with pytest.raises(ValueError, match="rows to predict"):
        facts("distance", **graph)


def test_rows_far_from_labels_in_a_graph_are_named():
    path = eb.Graph.from_edges(range(199), range(1, 200), n_nodes=202)  # and two nodes alone
    X = np.random.default_rng(0).normal(size=(202, 2))
    known = np.arange(0, 180, 2)
    model = eb.EBBSRegressor(10, random_state=0, n_jobs=1)
    model.fit(X, X[known, 0], nodes=known, graph=path)
    assert model.model_.separation.unit == "hops"
    far = model.applicability(X[:3], attach=([0, 1], [0, 199]))
    np.testing.assert_array_equal(far.distance, [1.0, 22.0, np.inf])
    assert far.outside.tolist()[1:] == [True, True]
    with pytest.warns(UserWarning, match="1 of 3 rows are more than"):
        model.predict(X[:3], attach=([0, 1], [0, 199]))


def test_distance_fold_holds_out_parts_of_graphs_that_are_not_connected():
    path = eb.Graph.from_edges(range(299), range(1, 300), n_nodes=310)
    y = np.where(np.arange(310) < 200, 1.0, np.nan)
    folds = list(eb.DistanceFold(3, graph=path, random_state=0).split(None, y))
    where = Distances(None, path, np.arange(310))
    held = [np.median(where.nearest(test, train)[0]) for train, test in folds]
    assert min(held) > 10.0


def test_variances_far_away_are_those_of_the_process_if_few_blocks_say_otherwise():
    rng = np.random.default_rng(0)
    variance = np.repeat([0.1, 5.0], [900, 100])
    residual = np.sqrt(0.5 + 2.0 * variance) * rng.normal(size=1000)
    few, many = (two_variances(residual, variance, 1.0, count) for count in (1, 10_000))
    assert abs(few[0] * few[1] - 1.0) < 0.1  # the unit, which is the noise of the process
    assert abs(many[0] * many[1] - 2.0) < 0.6 and abs(many[0] - 0.5) < 0.1
