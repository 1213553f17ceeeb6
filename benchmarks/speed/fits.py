"""The measured fits, each ``fit(inputs, rounds, threads) -> Fitted``.

What takes long is run for fewer rounds or epochs than requested; ``share`` then says which part of
the work was done.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import ebboost as eb
from benchmarks.speed.problems import Inputs

SMOOTHING = eb.Laplacian(2.0, 5)
EPOCHS = 200
GUESS = 0.1  # learning rate


class Fitted(NamedTuple):
    """How many rounds, or epochs, were run, and which share of the requested ones they are."""

    rounds: int
    share: float = 1.0


# ---------------------------------------------------------------------- ours


def smoothing(inputs: Inputs, rounds: int, threads: int) -> Fitted:
    """Smoothing alone, with our settings of the trees."""
    return _ours(inputs, threads, n_estimators=rounds, learning_rate=GUESS, **_ALONE)


def same_trees(inputs: Inputs, rounds: int, threads: int) -> Fitted:
    """Smoothing alone, with the settings of the trees that plain LightGBM has."""
    return _ours(
        inputs, threads, n_estimators=rounds, learning_rate=GUESS, learner=eb.LightGBM(), **_ALONE
    )


def default_rounds(inputs: Inputs, rounds: int, threads: int) -> Fitted:
    """The default, with model selection, for all rounds."""
    return _ours(inputs, threads, n_estimators=rounds, n_iter_no_change=rounds)


def default(inputs: Inputs, rounds: int, threads: int) -> Fitted:
    """The default as it comes, stopped early."""
    return _ours(inputs, threads)


_ALONE: dict[str, Any] = {"smoothing": SMOOTHING, "labels": "none", "early_stopping": False}


def _ours(inputs: Inputs, threads: int, **settings: Any) -> Fitted:
    kind = eb.EBBSClassifier if inputs.classes else eb.EBBSRegressor
    model = kind(**settings, n_jobs=threads, random_state=0).fit(
        inputs.X, inputs.y, graph=inputs.graph
    )
    return Fitted(model.n_iter_)


# ---------------------------------------------------------------------- others


def plain(inputs: Inputs, rounds: int, threads: int) -> Fitted:
    """LightGBM without the graph: the same rows, rounds and leaves."""
    _booster(inputs, rounds, threads)
    return Fitted(rounds)


def plain_stopped(inputs: Inputs, rounds: int, threads: int) -> Fitted:
    """LightGBM without the graph, stopped early on a tenth of the rows."""
    import lightgbm

    held = np.random.default_rng(0).random(len(inputs.y)) < 0.1
    train = lightgbm.Dataset(inputs.X[~held], inputs.y[~held])
    seen = lightgbm.Dataset(inputs.X[held], inputs.y[held], reference=train)
    stop = [lightgbm.early_stopping(20 if inputs.classes else 50, verbose=False)]
    booster = lightgbm.train(_settings(inputs, threads), train, 1000, [seen], callbacks=stop)
    return Fitted(booster.current_iteration())


def published(inputs: Inputs, rounds: int, threads: int) -> Fitted:
    """The published algorithm: a new CatBoost pool and one tree in every round."""
    import catboost

    # With a sparse library's own products: our loops are no part of the recipe.
    n = len(inputs.y)
    looped = sparse.csr_array(inputs.graph.adjacency + sparse.eye_array(n))
    root = 1.0 / np.sqrt(np.asarray(looped.sum(axis=1)).ravel())
    coupling = sparse.csr_array(looped.multiply(root[:, None]).multiply(root[None, :]))

    def propagated(f: np.ndarray) -> np.ndarray:
        z = f
        for _ in range(SMOOTHING.n_steps):
            z = (SMOOTHING.lam * (coupling @ z) + f) / (1.0 + SMOOTHING.lam)
        return z

    known = np.eye(inputs.classes)[inputs.y] if inputs.classes else inputs.y
    scores = np.zeros_like(known)
    done = max(rounds // 10, 1)
    for _ in range(done):
        outputs = propagated(scores)
        if inputs.classes:
            outputs = np.exp(outputs - outputs.max(axis=1, keepdims=True))
            outputs /= outputs.sum(axis=1, keepdims=True)
        tree = catboost.CatBoostRegressor(
            iterations=1,
            learning_rate=0.2,
            depth=6,
            thread_count=threads,
            verbose=False,
            allow_writing_files=False,
            loss_function="MultiRMSE" if inputs.classes else "RMSE",
        )
        tree.fit(catboost.Pool(inputs.X, propagated(known - outputs)))
        scores = scores + tree.predict(inputs.X)
        tree.predict(inputs.X)  # once for f and once for the momentum sequence, as published
        propagated(scores)  # and once more for the losses
    return Fitted(done, done / rounds)


def correct_and_smooth(inputs: Inputs, rounds: int, threads: int) -> Fitted:
    """Plain LightGBM, then PyTorch Geometric's Correct and Smooth, 50 steps each."""
    import torch
    from torch_geometric.nn import CorrectAndSmooth

    torch.set_num_threads(threads)
    outputs = (
        _booster(inputs, rounds, threads)
        .predict(inputs.X, num_threads=threads)
        .reshape(len(inputs.y), -1)
    )
    outputs = np.hstack([1.0 - outputs, outputs]) if inputs.classes == 2 else outputs
    pairs = torch.as_tensor(np.stack(inputs.graph.adjacency.nonzero()), dtype=torch.long)
    truth = (
        torch.as_tensor(inputs.y)
        if inputs.classes
        else torch.as_tensor(inputs.y[:, None], dtype=torch.float32)
    )
    known = torch.ones(len(inputs.y), dtype=torch.bool)
    after = CorrectAndSmooth(50, 0.8, 50, 0.8)
    soft = after.correct(torch.as_tensor(outputs, dtype=torch.float32), truth, known, pairs)
    after.smooth(soft, truth, known, pairs)
    return Fitted(rounds)


def gcn(inputs: Inputs, rounds: int, threads: int) -> Fitted:
    """A graph convolutional network of two layers of 64 units, ``EPOCHS`` full batches."""
    import torch

    from benchmarks import problem
    from benchmarks.methods import networks

    all_nodes = np.arange(len(inputs.y))
    all_labelled = problem.Problem(
        "",
        inputs.X,
        inputs.y,
        inputs.graph,
        all_nodes,
        all_nodes,
        inputs.classes,
        None,
        seed=0,
        threads=threads,
    )
    learner = networks.Learner(all_labelled, inputs.X.shape[1], "gcn", dropout=0.0, hidden=64)
    X = torch.as_tensor(networks.encoded(all_labelled), device=learner.device)
    optimizer = torch.optim.Adam(learner.model.parameters(), lr=0.01)
    done = EPOCHS // 10 if len(inputs.y) < 200_000 else EPOCHS // 50
    for _ in range(done):
        learner.step(X, optimizer)
    return Fitted(done, done / EPOCHS)


def gpboost(inputs: Inputs, rounds: int, threads: int) -> Fitted:
    """GPBoost: trees and a Gaussian process over coordinates (Vecchia's approximation)."""
    import gpboost

    process = gpboost.GPModel(
        gp_coords=inputs.coordinates,
        cov_function="exponential",
        gp_approx="vecchia",
        seed=0,
        num_parallel_threads=threads,
    )
    done = max(rounds // 50, 1)
    settings = {"learning_rate": GUESS, "num_leaves": 31, "verbose": -1, "num_threads": threads}
    gpboost.train(settings, gpboost.Dataset(inputs.X, inputs.y), done, gp_model=process)
    return Fitted(done, done / rounds)


def _settings(inputs: Inputs, threads: int) -> dict[str, Any]:
    what: dict[str, Any] = {"objective": "binary" if inputs.classes == 2 else "regression"}
    if inputs.classes > 2:
        what = {"objective": "multiclass", "num_class": inputs.classes}
    return what | {"learning_rate": GUESS, "num_leaves": 31, "num_threads": threads, "verbose": -1}


def _booster(inputs: Inputs, rounds: int, threads: int) -> Any:
    import lightgbm

    return lightgbm.train(_settings(inputs, threads), lightgbm.Dataset(inputs.X, inputs.y), rounds)


# ---------------------------------------------------------------------- all of them


@dataclass(frozen=True)
class Method:
    """A fit and where it can be run.

    Attributes
    ----------
    largest : int
        Most nodes: beyond, it takes minutes.
    """

    fit: Callable[[Inputs, int, int], Fitted]
    needs: tuple[str, ...] = ()
    largest: int = 1_000_000
    places_only: bool = False
    classes: bool = True

    def missing(self) -> str:
        """Return the modules that it needs and that are not installed."""
        return ", ".join(module for module in self.needs if find_spec(module) is None)


PLAIN, OURS, SAME = "plain LightGBM", "ebboost, smoothing", "ebboost, smoothing, plain's trees"
ROUNDS, DEFAULT, STOPPED = (
    "ebboost, default, all rounds",
    "ebboost, default",
    "plain LightGBM, early stopping",
)
RECIPE = "published recipe"
NETS = ("torch", "torch_geometric")
METHODS = {
    PLAIN: Method(plain),
    OURS: Method(smoothing),
    SAME: Method(same_trees),
    ROUNDS: Method(default_rounds),
    STOPPED: Method(plain_stopped, largest=100_000),
    DEFAULT: Method(default, largest=100_000),
    RECIPE: Method(published, needs=("catboost",)),
    "plain, then Correct and Smooth": Method(correct_and_smooth, needs=NETS),
    "GCN, 200 epochs": Method(gcn, needs=NETS, largest=300_000),
    "GPBoost": Method(gpboost, needs=("gpboost",), largest=50_000, places_only=True, classes=False),
}
