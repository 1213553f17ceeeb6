"""How predictions change with the problem; docs/reliability.md states how exactly each holds."""

import numpy as np
import pytest
from scipy import sparse

import ebboost as eb

N = 160
RNG = np.random.default_rng(0)
POINTS = RNG.random((N, 2))
X = RNG.normal(size=(N, 3))
GRAPH = eb.Graph.build_knn(POINTS, k=4)
LABELLED = RNG.random(N) < 0.6
TRUTH = np.sin(5 * POINTS[:, 0]) + X[:, 0] + 0.5 * X[:, 1] ** 2
Y = np.where(LABELLED, TRUTH, np.nan)
DEFAULT = {"n_estimators": 8, "n_folds": 2, "random_state": 0}
PARTS = {
    "smoothing": eb.Laplacian(1.0, 3),
    "labels": eb.LatentField(),
    "neighbor_features": eb.NeighborFeatures(),
    "feature_smoothing": None,
    "early_stopping": False,
    "n_folds": 1,
    "learning_rate": 0.1,
}


def fitted(X=X, y=Y, graph=GRAPH, weight=None, **settings):
    model = eb.EBBSRegressor(**{**DEFAULT, **settings})
    return model.fit(X, y, weight, graph=graph).predict()


def leaves(curvature):
    """Trees whose leaves are limited by their curvature, not by their number of rows."""
    params = {"min_data_in_bin": 1, "min_sum_hessian_in_leaf": curvature}
    return eb.LightGBM(min_child_samples=0, params=params)


def difference(predictions, expected):
    """The largest difference in standard deviations of the predictions."""
    return np.abs(predictions - expected).max() / expected.std()


@pytest.fixture(scope="module")
def default():
    return fitted()


@pytest.mark.parametrize(("factor", "shift"), [(1e-6, 0.0), (1e9, 0.0), (-1.0, 0.0), (3.0, 700.0)])
def test_default_scales_and_shifts_with_the_labels(default, factor, shift):
    predictions = fitted(y=factor * Y + shift)
    assert difference((predictions - shift) / factor, default) < 1e-10


def test_default_does_not_depend_on_the_number_of_threads(default):
    assert np.array_equal(fitted(n_jobs=2), default)


def test_default_does_not_depend_on_the_unit_of_the_weights(default):
    assert np.array_equal(fitted(weight=np.full(N, 4.0)), default)


def test_default_predicts_disconnected_copies_equally():
    twice = sparse.block_diag([GRAPH.adjacency] * 2).tocsr()
    # Spectral columns are there to tell parts of a graph apart.
    settings = {"graph": eb.Graph.from_scipy(twice), "spectral_features": None}
    predictions = fitted(np.vstack([X, X]), np.tile(Y, 2), **settings)
    assert difference(predictions[N:], predictions[:N]) < 1e-12


def test_permuted_nodes_have_permuted_predictions():
    order = RNG.permutation(N)
    graph = eb.Graph.from_scipy(GRAPH.adjacency[order][:, order])
    predictions = fitted(X[order], Y[order], graph, **PARTS)
    assert difference(predictions, fitted(**PARTS)[order]) < 1e-12


def test_a_disconnected_copy_changes_no_prediction():
    twice = sparse.block_diag([GRAPH.adjacency] * 2).tocsr()
    predictions = fitted(
        np.vstack([X, X]), np.tile(Y, 2), eb.Graph.from_scipy(twice), learner=leaves(8.0), **PARTS
    )
    assert difference(predictions[:N], fitted(learner=leaves(4.0), **PARTS)) < 1e-12


def test_isolated_unlabelled_nodes_change_no_prediction():
    more = sparse.block_diag([GRAPH.adjacency, sparse.csr_array((20, 20))]).tocsr()
    predictions = fitted(
        np.vstack([X, X[:20]]),
        np.append(Y, np.full(20, np.nan)),
        eb.Graph.from_scipy(more),
        learner=leaves(4.0),
        **PARTS,
    )
    assert difference(predictions[:N], fitted(learner=leaves(4.0), **PARTS)) < 1e-12


def test_duplicated_rows_with_half_the_weight_change_no_prediction():
    """At rows that were trained on: between them, splits of equal gain may differ."""
    settings = {"early_stopping": False, "n_folds": 1, "learning_rate": 0.1, "graph": None}
    smallest = {
        copies: eb.LightGBM(min_child_samples=10 * copies, params={"min_data_in_bin": 1})
        for copies in (1, 2)
    }
    twice = {"y": np.tile(TRUTH, 2), "weight": np.full(2 * N, 0.5), "learner": smallest[2]}
    predictions = fitted(np.vstack([X, X]), **twice, **settings)
    once = fitted(y=TRUTH, learner=smallest[1], **settings)
    assert difference(predictions[:N], once) < 1e-12
