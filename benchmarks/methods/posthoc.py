"""Smoothing after training: CatBoost+ and Correct and Smooth (Huang et al., 2021).

Both start from CatBoost's predictions without the graph and spread the training labels' errors,
then the labels.
"""

from typing import Any

import numpy as np
from scipy import sparse

import ebboost as eb
from benchmarks.methods.trees import catboost
from benchmarks.problem import Outcome, Problem

STEPS = 50  # of label propagation


def catboost_plus(problem: Problem, lam: float = 2.0, n_steps: int = 5) -> Outcome:
    """CatBoost, smoothed after training as in section 3.4 of the paper.

    For regression errors are smoothed by (15), then labels put in the place of predictions and all
    of it smoothed; for classes the probabilities are smoothed.
    """
    base = catboost(problem, learning_rate=0.1, depth=6)
    smoother, predicted = eb.Laplacian(lam, n_steps).operator(problem.graph), base.predicted.copy()
    if not problem.n_classes:
        errors = np.zeros_like(predicted)
        errors[problem.train] = problem.y[problem.train] - predicted[problem.train]
        predicted = predicted + smoother.apply(errors)
        predicted[problem.train] = problem.y[problem.train]
    return Outcome(smoother.apply(predicted), notes=base.notes)


def correct_and_smooth(problem: Problem, correct: float, smooth: float) -> Outcome:
    """Propagate residuals with weight ``correct``, then labels with weight ``smooth``."""
    base = catboost(problem, learning_rate=0.1, depth=6)
    predicted = base.predicted.reshape(len(problem.y), -1)
    scores = correct_and_smooth_scores(problem, predicted, problem.train, correct, smooth)
    return Outcome(scores.squeeze(), notes=base.notes)


def correct_and_smooth_scores(
    problem: Any, predicted: np.ndarray, train: np.ndarray, correct: float, smooth: float
) -> np.ndarray:
    """Return predictions corrected and smoothed with the labels of ``train``.

    ``problem`` has y, graph and n_classes.
    """
    known = problem.y[train, None]
    if problem.n_classes:
        known = np.eye(problem.n_classes)[problem.y[train]]
    errors = np.zeros_like(predicted)
    errors[train] = known - predicted[train]
    spread = _propagated(problem.graph, errors, correct)
    if problem.n_classes:  # "autoscale": a spread error is as large as a known one
        size = np.abs(errors[train]).sum(axis=1).mean()
        length = np.abs(spread).sum(axis=1, keepdims=True)
        scale = np.divide(size, length, out=np.zeros_like(length), where=length > 1e-12)
        spread = np.where(scale > 1000.0, 1.0, scale) * spread
    corrected = predicted + spread
    corrected[train] = known
    return _propagated(problem.graph, corrected, smooth)


def _propagated(graph: eb.Graph, start: np.ndarray, weight: float) -> np.ndarray:
    """Return the fixed point of Z = weight·SZ + (1 − weight)·start, S = D^{-1/2}AD^{-1/2}."""
    scale = sparse.diags_array(1.0 / np.sqrt(np.where(graph.degrees > 0, graph.degrees, 1.0)))
    S, spread = scale @ graph.adjacency @ scale, start
    for _ in range(STEPS if weight else 0):
        spread = weight * (S @ spread) + (1.0 - weight) * start
    return spread
