"""Warnings of the sparse solver."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import ebboost as eb
from ebboost.propagation import SparseSolver, _compiled
from tests.strategies import random_graph


@pytest.mark.parametrize("columns", [1, 2], ids=["one column", "several"])
@pytest.mark.parametrize("loops", ["compiled", "scipy"])
def test_convergence_warning_names_the_parameters_to_change(loops, columns, monkeypatch):
    if loops == "scipy":
        monkeypatch.setattr(_compiled, "COMPILED", None)
    elif _compiled.COMPILED is None:
        pytest.skip("the loops were not compiled here")
    monkeypatch.setattr(SparseSolver, "direct_up_to", 0)
    monkeypatch.setattr(SparseSolver, "max_iterations", 2)
    graph, scores = random_graph(300, 900), np.random.default_rng(0).normal(size=(300, columns))
    with pytest.warns(
        ConvergenceWarning,
        match=r"after 2 iterations with a relative.*lam=10000.* smaller one, normalized=True",
    ):
        eb.Laplacian(1e4, normalized=False, method="exact").operator(graph).apply(scores)
    with pytest.warns(
        ConvergenceWarning, match=r"smaller lam \(now 1000.0\) or a larger tau \(now 0.001\)"
    ):
        eb.LatentField(1000.0, 0.001).operator(graph, np.arange(300), np.ones(300)).posterior_mean(
            scores
        )
