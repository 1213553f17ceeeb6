"""A small problem on a map, and fast models."""

import numpy as np

import ebboost as eb


def on_a_map(n=160, seed=0):
    """X, y and the graph of nearest points; y depends on a column and on the place."""
    rng = np.random.default_rng(seed)
    points = rng.random((n, 2))
    X = rng.normal(size=(n, 3))
    y = X[:, 0] + 2.0 * np.sin(6.0 * points[:, 0]) + 0.1 * rng.normal(size=n)
    return X, y, eb.Graph.build_knn(points, k=5)


def quick(kind=eb.EBBSRegressor, **changes):
    """One model of few rounds with a field."""
    settings = {"n_folds": 1, "labels": "field", "random_state": 0, "n_jobs": 1}
    return kind(**{"n_estimators": 10, "learning_rate": 0.3, **settings, **changes})
