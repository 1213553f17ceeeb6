"""Hold out labelled nodes, at random or the latest: for early stopping, for tuning."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from ebboost.data.sharded import order_statistics, total_rows

Positions = NDArray[np.int64]


def hold_out(
    values: NDArray[Any], fraction: float, seed: int, stratify: bool
) -> tuple[Positions, Positions]:
    """Return sorted positions of labels to train on and of the fraction, rounded up, held out.

    If ``stratify``, values are classes of which each part holds the same share; without effect
    where a class has a single label or there are more classes than labels to hold out.
    """
    if stratify:
        counts = np.unique(values, return_counts=True)[1]
        stratify = counts.min() >= 2 and np.ceil(fraction * values.size) >= counts.size
    options = {"random_state": seed, "stratify": values if stratify else None}
    train, held_out = train_test_split(np.arange(values.size), test_size=fraction, **options)
    return np.sort(train), np.sort(held_out)


def assign_folds(values: NDArray[Any], n_folds: int, seed: int, stratify: bool) -> Positions:
    """Return the fold of each label, of equal sizes; each with the same share of every class."""
    random = np.random.default_rng(seed)
    order = random.permutation(values.size)
    if stratify:
        order = order[np.argsort(values[order], kind="stable")]
    fold = np.empty(values.size, dtype=np.int64)
    fold[order] = np.arange(values.size) % n_folds
    return fold


def latest_blocks(time: NDArray[np.float64], share: float, n_blocks: int) -> Positions:
    """Return the block of each of the latest labels, numbered in the order of time, else −1.

    Blocks hold the same number of labels, ``share`` of all in total, but for labels of one time,
    which are in one block.
    """
    n_labels = total_rows(time)
    n_held_out = max(round(share * n_labels), 1)
    # As many labels are earlier than all of a block.
    starts = [-(-block * n_held_out // n_blocks) for block in range(n_blocks)]
    n_earlier = [n_labels - n_held_out + start for start in starts]
    block = np.zeros_like(time, dtype=np.int64) - 1
    for last in order_statistics(time, n_earlier):
        block += time > last
    if block.max() < 0:
        block[time == time.max()] = 0
    has_labels = np.bincount(block + 1, minlength=n_blocks + 1)[1:] > 0
    number = np.append(np.cumsum(has_labels) - 1, -1)
    return np.asarray(number[np.asarray(block)], like=block)
