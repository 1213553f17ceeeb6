"""A small regression problem, interrupted and resumed fits, searches and models of folds."""

import os
import runpy
from pathlib import Path

import numpy as np
import pytest

import ebboost as eb
from ebboost.data.reader import TableReader
from ebboost.model.output import Output
from ebboost.training.fold_model import FoldModel
from ebboost.training.problem import FitData
from ebboost.training.settings import Settings
from ebboost.training.trainer import Trainer

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


def auto(kind=eb.EBBSRegressor, **changes):
    """An unfitted model with the search and few rounds."""
    fast = {"n_estimators": 60, "learning_rate": 0.3, "n_folds": 3, "n_iter_no_change": 5}
    return kind(**({"random_state": 0, "n_jobs": 1} | fast | changes))


def problem_of(model, X, y, graph, eval_set=None, sample_weight=None):
    """What ``fit`` prepares."""
    parameters = Settings.parameters_of(model)
    reader = TableReader("auto")
    trainer = Trainer(type(model).__name__, parameters, Output)
    data = FitData(X, y, sample_weight, graph, eval_set=eval_set)
    return trainer.prepare(data, reader, reader.fit(X))


def fold_model(held_out, evaluation=()):
    """A model of which only predictions matter."""
    held_out = np.asarray(held_out, dtype=float)[:, None]
    evaluation = np.asarray(evaluation, dtype=float)[:, None]
    parts = (held_out, held_out, evaluation, evaluation)
    return FoldModel(None, np.zeros(1), np.zeros((0, 1)), *parts, 1, 1, "", {}, 0.0)
