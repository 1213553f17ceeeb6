"""Learners, a small regression problem, and fits of it, shared by the tests of learners."""

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import ExtraTreeRegressor

import ebboost as eb
from tests.strategies import random_graph

LEARNERS = {
    "lightgbm": eb.LightGBM(num_leaves=7),
    "xgboost": eb.XGBoost(max_depth=3),
    "catboost": eb.CatBoost(depth=3),
    "catboost-newton": eb.CatBoost(depth=3, newton=True, from_average=False),
    "network": eb.RandomNetwork(16),
    "ridge": eb.ScikitLearn(Ridge()),
    "mixed": eb.ScikitLearn([Ridge(), ExtraTreeRegressor(max_depth=3)]),
    "no-weights": eb.ScikitLearn(KNeighborsRegressor(10)),
}
BOOSTERS = ["lightgbm", "xgboost", "catboost"]


def start(learner, table, n_outputs=1, seed=3):
    return learner.start(table, n_outputs=n_outputs, seed=seed, n_jobs=1, device="cpu")


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
