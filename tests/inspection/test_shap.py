"""Explanations in the format of SHAP, which is not needed to test it."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import ebboost as eb

rng = np.random.default_rng(0)
POINTS = rng.random((150, 2))
X = pd.DataFrame({"a": rng.normal(size=150), "b": rng.choice(["u", "v"], 150)})
GRAPH = eb.Graph.build_knn(POINTS, k=5)


@pytest.fixture
def shap(monkeypatch):
    module = ModuleType("shap")
    module.Explanation = SimpleNamespace
    monkeypatch.setitem(sys.modules, "shap", module)


@pytest.mark.parametrize("loss", ["squared_error", "poisson"])
def test_values_and_base_add_up_to_the_score(shap, loss):
    y = np.exp(X["a"] / 3 + np.sin(5 * POINTS[:, 0]))
    where = {"graph": GRAPH, "offset": np.linspace(0, 0.1, 150)}
    model = eb.EBBSRegressor(30, n_folds=2, loss=loss, random_state=0).fit(
        X, y[:100], nodes=range(100), **where
    )
    rows = [3, 120]
    result = eb.shap_values(model, rows)
    score = np.log(model.predict(nodes=rows)) if loss == "poisson" else model.predict(nodes=rows)
    assert np.allclose(result.values.sum(axis=1) + result.base_values, score)
    assert result.values.shape == result.data.shape == (2, len(result.feature_names))
    assert result.feature_names[:2] == ["a", "b"]
    assert "labels of other rows" in result.feature_names
    assert np.array_equal(result.data[:, 0], X["a"].to_numpy()[rows])


def test_without_shap_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "shap", None)
    model = eb.EBBSRegressor(5, n_folds=1, random_state=0).fit(X, X["a"])
    with pytest.raises(ImportError, match="pip install shap"):
        eb.shap_values(model, [0])
