import numpy as np
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neural_network import MLPRegressor

from tests.learners.helpers import fitted, problem


def test_missing_values_are_imputed_for_regressors_that_reject_them():
    X, y, graph = problem()
    X[::4, 1] = np.nan
    m = fitted(Ridge(), X, y, graph)
    assert np.isfinite(m.predict()).all()
    X[:, 2] = np.nan
    assert np.isfinite(m.predict(X, graph=graph)).all()


def test_one_of_several_regressors_is_drawn_each_round():
    X, y, graph = problem(n=120)
    nets = [
        MLPRegressor(hidden_layer_sizes=(4,), max_iter=20, solver="lbfgs", tol=1e3),
        LinearRegression(),
    ]
    m = fitted(nets, X, y, graph, n_estimators=8, random_state=1)
    assert m.history_["training"][-1] < m.history_["training"][0]
    assert {type(fit[0]).__name__ for _, fit in m.ensemble_.rounds} == {
        "MLPRegressor",
        "LinearRegression",
    }
