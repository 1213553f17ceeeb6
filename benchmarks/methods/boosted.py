"""Res-GNN and BGNN (Ivanov & Prokhorenkova, 2021): trees whose predictions are a network's input.

Res-GNN trains the trees to the end, then the network on them. BGNN goes back and forth: trees are
added, their predictions become input features, a few gradient steps move the network *and* those
features, and how far the features of the training nodes moved is what the next trees learn.
"""

from typing import Any

import numpy as np
import torch

from benchmarks.methods import networks
from benchmarks.methods.trees import as_text, catboost, catboost_scores
from benchmarks.problem import Outcome, Problem

EPOCHS, PATIENCE = 200, 10
HIDDEN = 64


def residual(
    problem: Problem, network: str, learning_rate: float, dropout: float, replace: bool
) -> Outcome:
    """Res-GNN: a network on CatBoost's predictions; BGNN without end-to-end training."""
    trees = catboost(problem, learning_rate=0.1, depth=6).predicted.reshape(len(problem.y), -1)
    features = (
        networks.scaled(trees, problem) if replace else networks.encoded(problem, extra=trees)
    )
    return networks.trained(problem, features, network, learning_rate, dropout, HIDDEN)


def bgnn(
    problem: Problem,
    network: str,
    learning_rate: float,
    dropout: float,
    replace: bool,
    steps: int,
    trees: int = 0,
) -> Outcome:
    """BGNN.

    Parameters
    ----------
    replace : bool
        Whether predictions of the trees replace the columns of X or are added to them.
    steps : int
        Gradient steps in each round.
    trees : int
        Trees added in each round; 0 for as many as there are steps.
    """
    ensemble = Ensemble(problem, trees or steps)
    width = ensemble.predicted.shape[1]
    columns = (
        np.zeros((len(problem.y), 0), dtype=np.float32) if replace else networks.encoded(problem)
    )
    learner = networks.Learner(problem, columns.shape[1] + width, network, dropout, HIDDEN)
    features = torch.zeros(
        len(problem.y), columns.shape[1] + width, device=learner.device, requires_grad=True
    )
    optimizer = torch.optim.Adam([*learner.model.parameters(), features], lr=learning_rate)
    best, target = networks.Best(problem, PATIENCE), None
    curve = {"training": list[float](), "validation": list[float]()}
    for _ in range(EPOCHS):
        ensemble.grow(target)
        start = torch.as_tensor(
            np.hstack([columns, ensemble.predicted]), dtype=torch.float32, device=learner.device
        )
        features.data.copy_(start)
        curve["training"] += [learner.step(features, optimizer) for _ in range(steps)]
        stop = best.see(learner.predict(features))
        curve["validation"].append(best.last)
        target = (
            (features.detach() - start)[problem.train, columns.shape[1] :].double().cpu().numpy()
        )
        if stop or np.abs(target).max() < 1e-12 or not np.isfinite(target).all():
            break
    return Outcome(best.predicted, None, curve, learner.notes(best), learner.device)


class Ensemble:
    """CatBoost's trees: first on the labels, then on the changes of the network's inputs."""

    def __init__(self, problem: Problem, n_trees: int) -> None:
        self._problem, self._n_trees, self._X = problem, n_trees, as_text(problem)
        self.predicted = np.zeros((len(problem.y), problem.n_classes or 1))
        self._everyone = self._pool(np.arange(len(problem.y)), None)

    def _pool(self, nodes: np.ndarray, labels: Any) -> Any:
        import catboost

        return catboost.Pool(self._problem.rows(nodes, self._X), labels, self._problem.categorical)

    def grow(self, target: np.ndarray | None) -> None:
        """Add trees and their predictions; without a target, on the labels."""
        import catboost

        classes = self._problem.n_classes and target is None
        kind = catboost.CatBoostClassifier if classes else catboost.CatBoostRegressor
        many = "MultiRMSE" if self._problem.n_classes else "RMSE"
        model = kind(
            iterations=self._n_trees,
            depth=6,
            learning_rate=0.1,
            loss_function="MultiClass" if classes else many,
            random_seed=self._problem.seed,
            thread_count=self._problem.threads,
            verbose=False,
            allow_const_label=True,
            allow_writing_files=False,
        )
        labels = self._problem.y[self._problem.train] if target is None else target.squeeze()
        model.fit(self._pool(self._problem.train, labels))
        added = catboost_scores(model, self._everyone, self._problem)
        self.predicted = self.predicted + added.reshape(self.predicted.shape)
