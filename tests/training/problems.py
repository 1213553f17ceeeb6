"""A small regression problem, and fits of it that are interrupted and resumed."""

import os
import runpy
from pathlib import Path

import numpy as np
import pytest

import ebboost as eb

ROOT = Path(__file__).parents[2]
_FAULTS = runpy.run_path(str(ROOT / "tools" / "faults.py"))
CASES = _FAULTS["CASES"]
RaiseInRound = _FAULTS["Raising"]
fit_case = _FAULTS["fitted"]
fingerprint = _FAULTS["fingerprint"]

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(90, 3))
Y = X[:, 0] + 0.1 * _RNG.normal(size=90)
GRAPH = eb.Graph.build_knn(X, k=4)


def regressor(n_rounds=12, **changes):
    """An unfitted regressor without model selection."""
    fixed = {"random_state": 0, "smoothing": eb.Laplacian(1.0, 2), "labels": "none"}
    return eb.EBBSRegressor(n_rounds, **(fixed | changes))


def checkpoint_every(n_rounds, folder, **options):
    """A checkpoint that is written by rounds, not by the clock."""
    return eb.Checkpoint(folder, every=n_rounds, seconds=None, **options)


def interrupt_fit(folder, model=None):
    """Fit until a callback raises in round 7; return the names of the checkpoints."""
    with pytest.raises(RuntimeError, match="a callback raised"):
        (model or regressor()).fit(
            X, Y, graph=GRAPH, checkpoint=checkpoint_every(2, folder), callbacks=[RaiseInRound(7)]
        )
    return sorted(os.listdir(folder))


def resume_fit(folder, model=None, **options):
    """Resume a fit from the checkpoints in a folder."""
    checkpoint = checkpoint_every(2, folder)
    return (model or regressor()).fit(
        X, Y, graph=GRAPH, checkpoint=checkpoint, resume=True, **options
    )
