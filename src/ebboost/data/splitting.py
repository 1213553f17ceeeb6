"""Hold out a share of the labelled nodes: for early stopping, for tuning."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

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
