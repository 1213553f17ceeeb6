"""Problems and settings that the tests of all backends share."""

import numpy as np
import pytest

import ebboost as eb
from tests.strategies import random_graph

SETTINGS = {
    "nothing": {"smoothing": None, "labels": "none"},
    "smoothing": {"smoothing": eb.Laplacian(2.0, 5), "labels": "none"},
    "jacobi": {
        "smoothing": eb.Laplacian(2.0, 3, method="jacobi", normalized=False),
        "labels": "none",
    },
    "chebyshev": {
        "smoothing": eb.Laplacian(2.0, 3, method="chebyshev"),
        "labels": "none",
        "penalty": 0.1,
    },
    "exact": {"smoothing": eb.Laplacian(2.0, method="exact"), "labels": "none"},
    "kernel": {"smoothing": eb.Kernel("diffusion", normalized=False, sigma=0.5), "labels": "none"},
    "field": {"smoothing": eb.Laplacian(1.0, 2), "labels": "field"},
    "similarity": {
        "smoothing": None,
        "labels": eb.LatentField(0.5, 0.05, normalized=False, similarity=True),
    },
    "leave-one-out": {"smoothing": eb.Laplacian(1.0, 2), "labels": "leave-one-out"},
    "masked": {"smoothing": eb.Laplacian(1.0, 2), "labels": "masked"},
    "momentum": {"smoothing": eb.Laplacian(1.0, 2), "labels": "field", "momentum": "corrected"},
    "search": {},
    **{
        loss: {"smoothing": eb.Laplacian(1.0, 2), "labels": labels, "loss": loss}
        for loss, labels in [
            *(("huber", "none"), ("quantile", "none")),
            *(("poisson", "field"), ("negative_binomial", "field")),
        ]
    },
}


def problem(n=300, n_labelled=150):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    graph = random_graph(n, 3 * n)
    y = np.exp(0.5 * (X[:, 0] + 0.3 * (graph.adjacency @ X[:, 1])))
    y[n_labelled:] = np.nan
    return X, y, graph


def resume_after_crash(model, X, y, graph, folder):
    """Fit the model, with a crash in the fifth round, and take it up again from its checkpoint."""
    often = eb.Checkpoint(folder, every=2)

    class Crash(eb.Callback):
        def after_round(self, progress):
            if progress.round == 4:
                raise RuntimeError("crash")

    with pytest.raises(RuntimeError, match="crash"):
        model.fit(X, y, graph=graph, checkpoint=often, callbacks=[Crash()])
    Crash.after_round = eb.Callback.after_round
    return model.fit(X, y, graph=graph, checkpoint=often, resume=True, callbacks=[Crash()])
