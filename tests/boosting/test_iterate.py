"""Iterates: steps, interpolation and the cache."""

import numpy as np

from ebboost.boosting.iterate import Iterate


def test_interpolation_mixes_scores_and_weights():
    a, b = (
        Iterate(np.ones((2, 1)), np.ones((2, 1)), (1.0, 2.0)),
        Iterate(np.zeros((2, 1)), np.zeros((2, 1)), (3.0, 4.0)),
    )
    assert a.interpolate(b, 0.25).weights == (1.5, 2.5)
    np.testing.assert_array_equal(a.interpolate(b, 0.25).scores, 0.75)


def test_a_step_adds_a_multiple_of_the_tree_and_its_weight():
    start = Iterate(np.ones((2, 1)), np.full((2, 1), 2.0), (0.5,))
    moved = start.take_step(3.0, np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]]))
    np.testing.assert_array_equal(moved.scores, [[4.0], [1.0]])
    np.testing.assert_array_equal(moved.smoothed, [[2.0], [5.0]])
    assert moved.weights == (0.5, 3.0)


def test_scores_of_an_operator_that_is_not_linear_are_propagated_once():
    calls = []

    def propagate(point):
        calls.append(point)
        return point.scores**2

    moved = Iterate(np.ones((2, 1)), propagate).take_step(1.0, np.ones((2, 1)), np.zeros((2, 1)))
    for _ in range(2):
        np.testing.assert_array_equal(moved.smoothed, 4.0)
    assert len(calls) == 1
    moved.cache.clear()
    np.testing.assert_array_equal(moved.smoothed, 4.0)
    assert len(calls) == 2
