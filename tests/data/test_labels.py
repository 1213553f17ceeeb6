"""Labels, and the folds in which they are held out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebboost.data.labels import Labels, one_hot, split_at_random, split_in_time, split_share


def labels(m, weight=None):
    weight = np.ones(m) if weight is None else np.asarray(weight)
    return Labels(np.arange(m) * 2, np.arange(2.0 * m).reshape(-1, 2), weight)


def test_subset_and_concat_are_inverse():
    original = labels(3, [1.0, 2.0, 3.0])
    mask = np.array([True, False, True])
    joined = original.subset(mask).concat(original.subset(~mask))
    assert joined.rows.tolist() == [0, 4, 2]
    assert joined.target[:, 0].tolist() == [0.0, 4.0, 2.0]
    assert joined.weight.tolist() == [1.0, 3.0, 2.0]


def test_means_and_relative_weights():
    weighted = labels(2, [2.0, 6.0])
    assert weighted.mean(np.array([1.0, 5.0])) == 4.0
    assert weighted.relative().weight.tolist() == [0.5, 1.5]


def test_one_column_of_two_classes_becomes_two():
    assert one_hot(np.array([[1.0], [0.0]])).tolist() == [[0.0, 1.0], [1.0, 0.0]]
    three = np.eye(3)
    assert one_hot(three) is three


def check_parts(folds, m):
    """Each label is held out once, and never trained on where it is."""
    held = np.concatenate(folds.held_out)
    assert np.sort(held).tolist() == list(range(m))
    for training, held_out in zip(folds.training, folds.held_out, strict=True):
        assert not set(training) & set(held_out)
        assert np.sort([*training, *held_out]).tolist() == list(range(m))


@given(m=st.integers(2, 60), n_folds=st.integers(2, 9), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_folds_at_random_are_equally_large(m, n_folds, seed):
    folds = split_at_random(labels(m), min(n_folds, m), seed, False, None)
    check_parts(folds, m)
    assert np.ptp([held.size for held in folds.held_out]) <= 1
    again = split_at_random(labels(m), min(n_folds, m), seed, False, None)
    assert all((a == b).all() for a, b in zip(folds.held_out, again.held_out, strict=True))


@given(shares=st.lists(st.integers(1, 20), min_size=2, max_size=5), n_folds=st.integers(2, 5))
@settings(max_examples=40, deadline=None)
def test_each_class_is_dealt_evenly_to_the_folds(shares, n_folds):
    kinds = np.repeat(np.arange(len(shares)), shares)
    target = np.eye(len(shares))[kinds]
    own = Labels(np.arange(kinds.size), target, np.ones(kinds.size))
    folds = split_at_random(own, n_folds, 0, True, None)
    check_parts(folds, kinds.size)
    counts = [np.bincount(kinds[held], minlength=len(shares)) for held in folds.held_out]
    assert (np.ptp(counts, axis=0) <= 1).all()


def test_a_share_is_held_out_of_one_model_and_beside_it_the_evaluation():
    evaluation = Labels(np.array([100]), np.zeros((1, 2)), np.ones(1))
    folds = split_share(labels(50), 0.1, 0, False, evaluation)
    assert folds.n_models == 1 and folds.held_out[0].size == 5 and folds.training[0].size == 45
    assert folds.validation(0).rows[-1] == 100 and folds.unseen.size == 6
    none = split_share(labels(50), 0.0, 0, False, None)
    assert none.training[0].size == 50 and none.validation(0) is None and none.unseen.size == 0


@given(m=st.integers(12, 80), n_times=st.integers(2, 30), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_blocks_in_time_are_predicted_from_all_before_them(m, n_times, seed):
    time = np.random.default_rng(seed).integers(0, n_times, m).astype(float)
    folds = split_in_time(labels(m), time, 4, 0.2)
    held = np.concatenate([[], *folds.held_out]).astype(int)
    assert len(set(held)) == held.size
    for training, held_out in zip(folds.training, folds.held_out, strict=True):
        assert training.size and held_out.size
        assert time[training].max() < time[held_out].min()
        assert set(training) == set(np.flatnonzero(time < time[held_out].min()))
    if np.unique(time).size == m:
        assert held.size == m - round(0.8 * m)


def test_there_are_no_blocks_of_a_single_time():
    assert split_in_time(labels(20), np.ones(20), 4, 0.2).n_models == 0


@pytest.mark.parametrize("n_models", [1, 2])
def test_the_first_folds_of_a_fit_that_ended_early(n_models):
    folds = split_at_random(labels(20), 4, 0, False, None).first(n_models)
    assert folds.n_models == n_models and folds.unseen.size == 5 * n_models
