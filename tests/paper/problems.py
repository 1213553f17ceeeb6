"""A problem, models and a learner that the tests of this folder share."""

import numpy as np
from sklearn.base import clone

import ebboost as eb
from ebboost.learners import Binned, Ensemble, Grower
from ebboost.learners.base import newton_target
from tests.strategies import random_graph


def path(n_nodes):
    return eb.Graph.from_edges(np.arange(n_nodes - 1), np.arange(1, n_nodes))


def neighbor_sums(n=200, seed=0, n_labelled=120, edges=500):
    """X, y and a random graph: y depends on neighbours; NaN beyond ``n_labelled``."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    graph = random_graph(n, edges, seed)
    y = X[:, 0] * X[:, 1] + graph.adjacency @ X[:, 2] + 0.3 * rng.normal(size=n)
    y[n_labelled:] = np.nan
    return X, y, graph


def regressor(**changes):
    """An unfitted PaperRegressor without early stopping."""
    settings = {"n_estimators": 25, "learning_rate": 0.1, "early_stopping": False, "n_jobs": 1}
    return eb.paper.PaperRegressor(**(settings | {"random_state": 0} | changes))


class SklearnTree(eb.Learner):
    """A regressor of scikit-learn, fitted to −gradient/curvature with the curvature as weights."""

    name = "tree"

    def __init__(self, regressor=None):
        self.regressor = regressor

    def bin(self, table, rows, **options):
        return _Binned(self.regressor, table.values[rows])

    def load(self, files):
        raise NotImplementedError


class _Binned(Binned):
    def __init__(self, regressor, values):
        self.parts = regressor, values

    def grower(self, seed):
        return _Grower(*self.parts)


class _Grower(Grower):
    def __init__(self, regressor, values):
        self.regressor, self.values, self.fitted = regressor, values, []

    def grow(self, gradient, curvature):
        target, weight = newton_target(gradient, curvature)
        tree = clone(self.regressor).fit(self.values, target[:, 0], sample_weight=weight[:, 0])
        values = tree.predict(self.values)[:, None]
        if not values.any():
            return None
        self.fitted.append(tree)
        return values

    def compile(self, weights):
        return _Sum(list(zip(weights, self.fitted, strict=False)))


class _Sum(Ensemble):
    def __init__(self, parts):
        self.parts = parts

    def predict(self, table):
        result = np.zeros(table.n_rows)
        for weight, tree in self.parts:
            result += weight * tree.predict(table.values)
        return result[:, None]

    def importances(self):
        return np.ones(1)

    def files(self):
        return {}
