"""Problems, models and checks that several test modules share."""

import ast
import inspect
import re

import numpy as np

import ebboost as eb
from ebboost.testing import random_graph


def homophilous(n=600, seed=0):
    """X, y and a spatial graph over which y varies smoothly, also beyond the columns of X."""
    rng = np.random.default_rng(seed)
    position = rng.random((n, 2))
    hidden = np.sin(7 * position[:, 0]) + np.cos(6 * position[:, 1])
    X = rng.normal(size=(n, 3))
    return X, hidden + 0.5 * X[:, 0] + 0.1 * rng.normal(size=n), eb.Graph.build_knn(position, k=6)


def skewed(n=600, seed=0):
    """X, positive y whose effects and noise are multiplied, and a spatial graph."""
    X, y, graph = homophilous(n, seed)
    rng = np.random.default_rng(seed + 1)
    return X, np.exp(y) * rng.gamma(10.0, 0.1, n), graph


def neighbor_sums(n=200, seed=0, n_labelled=120, edges=500):
    """X, y and a random graph: y depends on neighbours; NaN beyond ``n_labelled``."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    graph = random_graph(n, edges, seed)
    y = X[:, 0] * X[:, 1] + graph.adjacency @ X[:, 2] + 0.3 * rng.normal(size=n)
    y[n_labelled:] = np.nan
    return X, y, graph


def fixed_regressor(**changes):
    """An unfitted regressor without early stopping and without model selection."""
    settings = {
        "n_estimators": 25,
        "learning_rate": 0.1,
        "early_stopping": False,
        "random_state": 0,
        "n_jobs": 1,
        "smoothing": eb.Laplacian(),
        "labels": "none",
        "learner": eb.LightGBM(),
    }
    return eb.EBBSRegressor(**(settings | changes))


def loss_data(loss, seed, m=30):
    """Random scores and targets of shape (m, c) that the loss is defined for."""
    rng = np.random.default_rng(seed)
    c = 4 if isinstance(loss, eb.Softmax) else 1
    scores = rng.normal(size=(m, c))
    if isinstance(loss, eb.Softmax):
        return scores, np.eye(c)[rng.integers(0, c, m)]
    if isinstance(loss, eb.LogLoss):
        return scores, rng.integers(0, 2, (m, 1)).astype(float)
    if isinstance(loss, eb.Gamma):
        return scores, rng.gamma(2.0, 1.0, (m, 1))
    if loss.log_link:
        return scores, rng.poisson(2.0, (m, 1)).astype(float)
    return scores, rng.normal(scale=2.0, size=(m, 1))


def documented_defaults(kind):
    """The defaults that the docstring of a class states, by parameter."""
    parameters = re.search(
        r"Parameters\n-+\n(.*?)(\n\n\w+\n-+\n|$)", inspect.getdoc(kind), re.DOTALL
    )
    stated = re.findall(r"^(\w+) : .*?(?:default=(.+)|(optional))$", parameters[1], re.MULTILINE)
    return {name: ast.literal_eval(value) if value else None for name, value, _ in stated}


def own_defaults(kind):
    """The defaults of the parameters of a class."""
    parameters = inspect.signature(kind).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not one.empty}
