"""A smooth field on a graph, its labels, and cheap estimators."""

import numpy as np
import pandas as pd

import ebboost as eb

N = 300
rng = np.random.default_rng(0)
POINTS = rng.random((N, 2))
GRAPH = eb.Graph.build_knn(POINTS, k=6)
IDS = np.array([f"n{(7 * i) % N:03d}" for i in range(N)], dtype=object)
NAMED = eb.Graph(GRAPH.adjacency, IDS)
TABLE = pd.DataFrame(rng.normal(size=(N, 3)), columns=["a", "b", "c"])
FIELD = 2 * np.sin(6 * POINTS[:, 0]) + 2 * np.cos(5 * POINTS[:, 1])
TRUTH = FIELD + TABLE["a"].to_numpy() + 0.2 * rng.normal(size=N)
TRAIN = np.sort(rng.permutation(N)[:180])
TEST = np.setdiff1d(np.arange(N), TRAIN)
CHEAP = {"n_estimators": 10, "n_folds": 2, "random_state": 0, "n_jobs": 1}
FIXED = {**CHEAP, "smoothing": None, "labels": "field"}


def regressor(**changes):
    return eb.EBBSRegressor(**{**FIXED, **changes})


def classifier(**changes):
    return eb.EBBSClassifier(**{**FIXED, **changes})


def labels(known=TRAIN):
    """Labels of all rows, NaN where they are not known."""
    y = np.full(N, np.nan)
    y[known] = TRUTH[known]
    return y
