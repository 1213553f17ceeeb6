"""Hold out a share of the labelled nodes: for early stopping, for tuning."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

Positions = NDArray[np.int64]


def hold_out(
    values: NDArray[Any], fraction: float, seed: int, stratify: bool
) -> tuple[Positions, Positions]:
    """Split labels at random into those to train on and those to hold out.

    Parameters
    ----------
    values : ndarray of shape (n_labels,)
        Labels of the labelled nodes.
    fraction : float
        Share of them to hold out, rounded up.
    seed : int
        Fixes the split.
    stratify : bool
        Whether ``values`` are classes, of which each part holds the same share. Without effect
        where a class has a single label or there are more classes than labels to hold out.

    Returns
    -------
    train, held_out : ndarray of int
        Positions in ``values``, sorted.

    Examples
    --------
    >>> import numpy as np
    >>> from ebboost.data.splitting import hold_out
    >>> train, held_out = hold_out(np.repeat(["a", "b"], 10), 0.2, seed=0, stratify=True)
    >>> train.size, held_out.size, int((held_out < 10).sum())
    (16, 4, 2)
    """
    strata = values if stratify and _can_stratify(values, fraction) else None
    train, held_out = train_test_split(
        np.arange(values.size), test_size=fraction, random_state=seed, stratify=strata
    )
    return np.sort(train), np.sort(held_out)


def _can_stratify(values: NDArray[Any], fraction: float) -> bool:
    """Whether every class has two labels and the held-out part can hold one of each."""
    counts = np.unique(values, return_counts=True)[1]
    n_held_out = int(np.ceil(fraction * values.size))
    return bool(counts.min() >= 2 and n_held_out >= counts.size)
