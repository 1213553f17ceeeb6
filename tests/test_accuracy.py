"""The default is as accurate as version 0.2.0 was, whose errors are stored here."""

import numpy as np
import pytest
from scipy.special import xlogy

import ebboost as eb

ROOM = 1.01  # for other versions of libraries


def rmse(predicted, y):
    return np.sqrt(np.mean((predicted - y) ** 2))


def split(n_rows, n_labels, seed):
    order = np.random.default_rng(seed).permutation(n_rows)
    return np.sort(order[:n_labels]), np.sort(order[n_labels:])


def elections():
    X, y, graph, splits = eb.datasets.load_elect80()
    train, test = splits[0]["train"], splits[0]["test"]
    model = eb.EBBSRegressor(random_state=0, n_jobs=1).fit(X, y[train], nodes=train, graph=graph)
    return rmse(model.predict()[test], y[test])


def house_prices():
    """Every tenth house, connected to those that were two steps away."""
    X, y, graph, _ = eb.datasets.load_lucas()
    rows = np.arange(0, len(y), 10)
    near = (graph.adjacency @ graph.adjacency)[rows][:, rows].tolil()
    near.setdiag(0)
    X, y, graph = X.iloc[rows].reset_index(drop=True), np.asarray(y)[rows], near.tocsr()
    graph.eliminate_zeros()
    train, test = split(y.size, 1_500, 3)
    model = eb.EBBSRegressor(random_state=0, n_jobs=1)
    model.fit(X, y[train], nodes=train, graph=eb.Graph.from_scipy(graph))
    return rmse(model.predict()[test], y[test])


def classes():
    X, y, graph, _ = eb.datasets.load_elect80()
    third = np.searchsorted(np.quantile(y, [1 / 3, 2 / 3]), y)
    train, test = split(y.size, 500, 0)
    model = eb.EBBSClassifier(random_state=0, n_jobs=1)
    proba = model.fit(X, third[train], nodes=train, graph=graph).predict_proba()
    return -np.log(proba[test, third[test]]).mean()


def counts():
    X, y, graph, _ = eb.datasets.load_elect80()
    random = np.random.default_rng(0)
    exposure = random.uniform(1, 20, y.size)
    counted = random.poisson(exposure * y)
    order = random.permutation(y.size)
    train, test = np.sort(order[:800]), np.sort(order[800:])
    model = eb.EBBSRegressor(loss="poisson", random_state=0, n_jobs=1)
    model.fit(X, counted[train], nodes=train, graph=graph, exposure=exposure)
    mean, known = model.predict()[test], counted[test]
    return np.mean(2 * (xlogy(known, known / mean) - known + mean))


@pytest.mark.parametrize(
    ("task", "stored"),
    [(elections, 0.05243), (house_prices, 0.31543), (classes, 0.6857), (counts, 1.1402)],
)
def test_error_of_the_default(task, stored):
    assert task() <= ROOM * stored
