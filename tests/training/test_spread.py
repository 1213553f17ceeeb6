"""What the spread of residuals is estimated from."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import ebboost as eb
from ebboost.data.labels import Labels
from ebboost.training.problem import LabelFolds
from ebboost.training.spread import neighbors_of_held_out, variance_left_out

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


@pytest.mark.parametrize("in_time", [False, True])
def test_variances_at_held_out_labels_are_those_without_the_labels_of_their_fold(in_time):
    random = np.random.default_rng(0)
    graph = eb.Graph.build_knn(random.random((80, 2)), k=4)
    X, y, nodes = random.normal(size=(80, 2)), random.normal(size=80), np.arange(60)
    m = eb.EBBSRegressor(5, smoothing=None, labels=eb.LatentField(3.0, 0.1), n_folds=2, n_jobs=1)
    state = m.fit(X, y[nodes], nodes=nodes, graph=graph).state_
    evaluation = Labels(np.arange(60, 65), np.zeros((5, 1)), np.ones(5))
    folds = LabelFolds(state.labels, state.labels.weight, nodes % 3, evaluation, in_time)
    every = np.concatenate([nodes, evaluation.nodes])
    state = replace(state, validation=replace(state.validation, nodes=every))
    result = variance_left_out(state, folds, state.spread.field_variance)
    precision = state.candidate.labels.operator(graph, nodes, np.ones(60)).prior.csr.toarray()
    expected = np.zeros((3, 80))
    for fold in range(3):
        known = nodes[nodes % 3 < fold] if in_time else nodes[nodes % 3 != fold]
        matrix = precision.copy()
        matrix[known, known] += 1.0
        expected[fold] = np.diag(np.linalg.inv(matrix))
    np.testing.assert_allclose(result[:60], expected[nodes % 3, nodes])
    np.testing.assert_allclose(result[60:], expected.mean(axis=0)[evaluation.nodes])


@pytest.mark.parametrize("loss", ["squared_error", "quantile", "huber", "poisson"])
def test_intervals_of_constant_labels_contain_them(loss):
    X = np.random.default_rng(0).normal(size=(60, 2))
    m = eb.EBBSRegressor(5, loss=loss, smoothing=None, labels="none", random_state=0, n_jobs=1)
    intervals = m.fit(X, np.full(60, 7.0)).predict(interval=0.8)
    assert (intervals.lower <= 7.0).all() and (intervals.upper >= 7.0).all()
    if loss != "poisson":
        np.testing.assert_allclose(intervals, 7.0)
