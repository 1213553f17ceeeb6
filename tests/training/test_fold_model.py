"""Models of folds: the means of their predictions."""

import numpy as np
import pytest

from ebboost.testing import random_graph
from ebboost.training.fold_model import mean_factor, with_factors
from tests.problems import homophilous
from tests.training.problems import auto, fold_model, problem_of


def test_predictions_are_multiplied_by_the_ratio_of_means_in_other_folds():
    X, y, graph = homophilous(70)
    y = np.exp(y)
    nodes = np.arange(60, 70)
    labels = np.where(np.arange(70) < 60, y, np.nan)
    weight = np.random.default_rng(0).random(70) + 0.5
    problem = problem_of(auto(n_folds=3), X, labels, graph, (nodes, y[nodes]), weight)
    held = [problem.labels.held_out(fold) for fold in range(3)]
    shares = (0.5, 0.8, 0.9)
    models = {
        fold: fold_model(share * held[fold].target[:, 0], share * y[nodes])
        for fold, share in enumerate(shares)
    }
    sums = np.array([(one.weight * one.target[:, 0]).sum() for one in held])
    assert mean_factor(problem, models) == pytest.approx(sums.sum() / (sums @ shares))
    scaled = with_factors(problem, models)
    for fold, one in scaled.items():
        others = np.arange(3) != fold
        factor = sums[others].sum() / (sums[others] @ np.array(shares)[others])
        np.testing.assert_allclose(one.held_out, factor * models[fold].held_out)
        whole = mean_factor(problem, models) * models[fold].evaluation
        np.testing.assert_allclose(one.evaluation, whole)
    alone = with_factors(problem, {1: models[1]})[1]  # there is no other fold
    np.testing.assert_array_equal(alone.held_out, models[1].held_out)
    few = problem_of(auto(n_folds=3), X[:19], y[:19], random_graph(19, 30, 0))
    held = {fold: few.labels.held_out(fold).target[:, 0] for fold in range(3)}
    assert mean_factor(few, {fold: fold_model(0.5 * one) for fold, one in held.items()}) == 1.0
    zeros = {
        fold: fold_model(0.0 * one.held_out[:, 0], 0.0 * y[nodes]) for fold, one in models.items()
    }
    assert mean_factor(problem, zeros) == 1.0
