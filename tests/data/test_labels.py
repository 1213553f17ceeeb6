"""Labelled nodes: index, weights, subsets."""

import numpy as np
import pytest

from ebboost.data.labels import Labels, one_hot


def labels(nodes, weight=None):
    nodes = np.asarray(nodes)
    weight = np.ones(nodes.size) if weight is None else np.asarray(weight)
    return Labels(nodes, np.arange(2.0 * nodes.size).reshape(-1, 2), weight)


@pytest.mark.parametrize("nodes", [[3, 4, 5], [3, 5, 4], [7], [], [2, 4], [3, 3, 5]])
def test_the_index_selects_the_nodes_and_is_a_slice_if_they_are_contiguous(nodes):
    index = labels(np.array(nodes, dtype=int)).index
    np.testing.assert_array_equal(np.arange(9)[index], nodes)
    assert isinstance(index, slice) == (nodes in ([3, 4, 5], [7]))


def test_values_are_multiplied_by_the_weights():
    weighted = labels([0, 1], [2.0, 3.0])
    assert weighted.weighted(np.array([1.0, 10.0])).tolist() == [2.0, 30.0]
    assert weighted.weighted(np.ones((2, 2))).tolist() == [[2.0, 2.0], [3.0, 3.0]]
    assert weighted.total_weight == 5.0
    values = np.array([1.0, 2.0])
    assert labels([0, 1]).weighted(values) is values


def test_subset_and_concat_are_inverse():
    original = labels([4, 1, 7], [1.0, 2.0, 3.0])
    mask = np.array([True, False, True])
    joined = original.subset(mask).concat(original.subset(~mask))
    assert joined.nodes.tolist() == [4, 7, 1]
    assert joined.target[:, 0].tolist() == [0.0, 4.0, 2.0]
    assert joined.weight.tolist() == [1.0, 3.0, 2.0]


def test_one_column_of_two_classes_becomes_two():
    assert one_hot(np.array([[1.0], [0.0]])).tolist() == [[0.0, 1.0], [1.0, 0.0]]
    three = np.eye(3)
    assert one_hot(three) is three


def test_the_subset_of_all_labels_is_no_copy():
    labels = Labels(np.arange(3), np.ones((3, 1)), np.ones(3))
    assert labels.subset(np.ones(3, dtype=bool)) is labels
    assert labels.subset(np.arange(3)) is not labels
