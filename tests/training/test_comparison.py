"""Comparisons of candidates at labels that their models were not trained on."""

import numpy as np
import pytest

from ebboost.training.comparison import compare, losses_of
from tests.problems import homophilous
from tests.training.problems import auto, fold_model, problem_of


def test_losses_are_compared_node_by_node_and_those_of_eval_set_with_them():
    X, y, graph = homophilous(60)
    nodes = np.arange(50, 60)
    labels = np.where(np.arange(60) < 50, y, np.nan)
    problem = problem_of(auto(n_folds=2), X, labels, graph, (nodes, y[nodes]))
    folds = [problem.labels.held_out(fold).target[:, 0] for fold in range(2)]
    near = {k: fold_model(target + 0.1, y[nodes] + 0.1) for k, target in enumerate(folds)}
    far = {k: fold_model(target + 1.0, y[nodes] + 1.0) for k, target in enumerate(folds)}
    assert losses_of(problem, near, [0, 1]) == pytest.approx(np.full(60, 0.005))
    result = compare(problem, far, near)
    assert result.gain == pytest.approx(0.495) and result.standard_error == pytest.approx(0.0)
    # Held-out labels and eval_set contradict each other: eval_set decides.
    mixed = {k: fold_model(target + 2.0, y[nodes] + 0.1) for k, target in enumerate(folds)}
    assert compare(problem, far, mixed).gain == pytest.approx(0.495)


def test_only_folds_that_both_candidates_have_are_compared():
    X, y, graph = homophilous(60)
    problem = problem_of(auto(n_folds=2), X, y, graph)
    folds = [problem.labels.held_out(fold).target[:, 0] for fold in range(2)]
    both = {0: fold_model(folds[0] + 1.0), 1: fold_model(folds[1] + 9.0)}
    assert compare(problem, both, {0: fold_model(folds[0])}).gain == pytest.approx(0.5)
