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


@pytest.mark.parametrize("labels", ["none", eb.LatentField(1.0, 0.05)], ids=["none", "field"])
def test_dispersion_is_estimated_at_eval_set_where_no_label_is_held_out(labels):
    random = np.random.default_rng(0)
    n_nodes = 1200
    X = random.uniform(-1.5, 1.5, (n_nodes, 1))
    means = np.exp(2.0 + 2.0 * X[:, 0])
    y = random.poisson(means * random.gamma(4.0, 0.25, n_nodes)).astype(float)
    graph = eb.Graph.build_knn(random.random((n_nodes, 2)), k=4)
    known, held = np.split(np.arange(n_nodes), [800])
    settings = {"loss": "negative_binomial", "n_folds": 1, "random_state": 0, "n_jobs": 1}
    model = eb.EBBSRegressor(100, 0.2, labels=labels, smoothing=None, **settings)
    model.fit(X, y[known], nodes=known, graph=graph, eval_set=(held, y[held]))
    assert 2.5 < model.loss_.theta < 6.5  # 4; around a constant about .9
    few = (held[:5], y[held[:5]])
    model.fit(X, y[known], nodes=known, graph=graph, eval_set=few)
    assert model.loss_.theta < 1.5
