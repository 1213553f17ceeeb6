"""Parameters of the likelihood and weights of outliers from out-of-fold scores."""

import numpy as np
import pytest

import ebboost as eb


@pytest.mark.parametrize("loss", ["huber", "quantile"])
def test_outliers_have_small_weights_in_the_field(loss):
    random = np.random.default_rng(0)
    n_nodes = 400
    path = np.arange(n_nodes - 1)
    graph = eb.Graph.from_edges(path, path + 1, n_nodes=n_nodes)
    X = random.normal(size=(n_nodes, 1))
    truth = X[:, 0] + np.sin(np.arange(n_nodes) / 20.0)
    known = np.sort(random.choice(n_nodes, 300, replace=False))
    y = truth[known] + 0.1 * random.normal(size=known.size)
    y[::20] += 5.0
    fixed = {"labels": "field", "smoothing": None, "n_folds": 3, "random_state": 0}
    model = eb.EBBSRegressor(60, loss=loss, **fixed).fit(X, y, nodes=known, graph=graph)
    weight = model.state_.labels.weight
    assert weight[::20].max() < 0.1 < np.quantile(np.delete(weight, slice(None, None, 20)), 0.1)
    later = eb.EBBSRegressor(2, loss=loss, **fixed)
    later.fit(X, y[1:], nodes=known[1:], graph=graph, init_model=model)
    assert later.state_.labels.weight[19::20].max() < 0.1
    delta = {"huber": eb.Huber(0.2), "quantile": eb.Quantile(0.5, 0.1)}[loss]
    plain = eb.EBBSRegressor(60, loss=delta, **fixed).fit(X, y, nodes=known, graph=graph)
    assert (plain.state_.labels.weight == 1.0).all()
    unknown = np.setdiff1d(np.arange(n_nodes), known)
    errors = [np.abs(one.predict() - truth)[unknown].mean() for one in (model, plain)]
    assert errors[0] < 0.8 * errors[1]
