"""Fitted models that the tests of inspection share."""

from functools import cache

import numpy as np

import ebboost as eb
from tests.problems import homophilous

QUICK = {"random_state": 0, "n_jobs": 1, "n_folds": 2}


@cache
def fitted(n_labels=300, **changes):
    X, y, graph = homophilous(600)
    model = eb.EBBSRegressor(40, **QUICK | changes)
    return model.fit(X, y[:n_labels], nodes=np.arange(n_labels), graph=graph), X, y


@cache
def fitted_classes(n_classes=3, **changes):
    X, y, graph = homophilous(600)
    limits = np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1])
    classes = np.array(["low", "mid", "top"])[np.digitize(y, limits)]
    parameters = QUICK | {"smoothing": eb.Laplacian(), "labels": "field"} | changes
    model = eb.EBBSClassifier(30, **parameters)
    return model.fit(X, classes[:300], nodes=np.arange(300), graph=graph), X, classes
