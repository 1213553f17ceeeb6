"""Columns of the trees of the residuals' sizes."""

from types import SimpleNamespace

import numpy as np
import pytest

import ebboost as eb
from ebboost.data.labels import Labels
from ebboost.training.problem import LabelFolds
from ebboost.training.spread import neighbors_of_held_out

N = 12


@pytest.mark.parametrize("in_time", [False, True])
def test_residuals_of_neighbours_are_of_models_that_were_not_trained_on_the_label(in_time):
    random = np.random.default_rng(0)
    graph = eb.Graph.from_scipy(np.ones((N, N)) - np.eye(N))
    nodes = np.arange(N - 2)
    labels = Labels(nodes, np.zeros((nodes.size, 1)), np.ones(nodes.size))
    evaluation = Labels(np.array([N - 2, N - 1]), np.zeros((2, 1)), np.ones(2))
    fold = nodes % 3
    folds = LabelFolds(labels, labels.weight, fold, evaluation, in_time)
    record = SimpleNamespace(nodes=np.arange(N))
    state = SimpleNamespace(validation=record, n_nodes=N, graph=graph, labels=labels)
    number = np.append(fold, [3, 3])  # that of eval_set, which no model is trained on
    size = random.uniform(0.5, 2.0, N)
    columns = neighbors_of_held_out(state, folds, size)
    np.testing.assert_array_equal(columns[:, 0], np.append(np.full(N - 2, N - 3), [N - 2, N - 2]))
    for other in range(4):
        changed = neighbors_of_held_out(state, folds, np.where(number == other, size**2, size))
        depends = ~np.isclose(changed[:, 1], columns[:, 1])
        expected = (number >= other) if in_time else (number == other) | (number == 3)
        np.testing.assert_array_equal(depends, expected)
