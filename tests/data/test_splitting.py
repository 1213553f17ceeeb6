"""A share of the labels is held out: sorted, disjoint, stratified where every class allows it."""

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from ebboost.data.splitting import hold_out, latest_blocks


@pytest.mark.parametrize("stratify", [False, True])
def test_the_two_parts_are_disjoint_sorted_and_complete(stratify):
    values = np.arange(60) % 3
    train, held_out = hold_out(values, 0.1, seed=4, stratify=stratify)
    assert held_out.size == 6
    assert np.all(np.diff(train) > 0) and np.all(np.diff(held_out) > 0)
    np.testing.assert_array_equal(np.union1d(train, held_out), np.arange(60))


def test_the_split_is_that_of_scikit_learn():
    values = np.random.default_rng(0).normal(size=50)
    expected = train_test_split(np.arange(50), test_size=0.2, random_state=7)
    for part, reference in zip(hold_out(values, 0.2, 7, stratify=False), expected, strict=True):
        np.testing.assert_array_equal(part, np.sort(reference))


def test_each_class_is_held_out_in_proportion():
    values = np.repeat(["rare", "common"], [20, 80])
    _, held_out = hold_out(values, 0.25, seed=0, stratify=True)
    assert (values[held_out] == "rare").sum() == 5


@pytest.mark.parametrize(
    "values",
    [
        np.array(["single", *["common"] * 29]),  # a class with one label
        np.repeat(np.arange(10), 3),  # ten classes, six labels to hold out
    ],
)
def test_classes_that_cannot_be_stratified_are_split_at_random(values):
    stratified = hold_out(values, 0.2, seed=1, stratify=True)
    plain = hold_out(values, 0.2, seed=1, stratify=False)
    for part, reference in zip(stratified, plain, strict=True):
        np.testing.assert_array_equal(part, reference)


@pytest.mark.parametrize("n_times", [2, 7, 1000])
def test_blocks_in_time_hold_out_the_latest_labels_in_order(n_times):
    time = np.random.default_rng(0).permutation(200) % float(n_times)
    block = latest_blocks(time, 0.2, 4)
    assert set(block) == set(range(-1, block.max() + 1))
    for number in range(block.max() + 1):
        assert time[block == number].min() > time[block < number].max()
    if n_times == 1000:
        assert (np.bincount(block + 1)[1:] == 10).all()
