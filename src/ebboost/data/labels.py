"""The labelled rows: positions, targets and weights; and the folds in which they are held out."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ebboost._common import Array, IntArray
from ebboost.sums import mean, total


@dataclass(frozen=True)
class Labels:
    """Positions of m labelled rows, their labels with a column per output, and their weights."""

    rows: IntArray
    target: Array
    weight: Array

    @property
    def size(self) -> int:
        """Number of labels."""
        return int(self.rows.size)

    def mean(self, values: Array) -> float:
        """Return the weighted mean of a value for each label."""
        return float(total(self.weight * values)) / float(total(self.weight))

    def concat(self, others: "Labels") -> "Labels":
        """Return these labels followed by others."""
        pairs = zip(vars_of(self), vars_of(others), strict=True)
        rows, target, weight = (np.concatenate(pair) for pair in pairs)
        return Labels(rows, target, weight)

    def convert(self, convert: Callable[[Array], Array]) -> "Labels":
        """Return the labels with another type of arrays for targets and weights."""
        return Labels(self.rows, convert(self.target), convert(self.weight))

    def subset(self, chosen: NDArray[np.bool_] | IntArray) -> "Labels":
        """Return the labels that a mask of shape (m,) or positions select."""
        return Labels(self.rows[chosen], self.target[chosen], self.weight[chosen])

    def relative(self) -> "Labels":
        """Return the labels with weights divided by their mean: only ratios of weights count."""
        return Labels(self.rows, self.target, self.weight / mean(self.weight))


def vars_of(labels: Labels) -> tuple[IntArray, Array, Array]:
    """Return the three arrays of labels."""
    return labels.rows, labels.target, labels.weight


def one_hot(target: Array) -> Array:
    """Return targets with a column per class; of two classes, one column becomes two."""
    return np.hstack([1.0 - target, target]) if target.shape[1] == 1 else target


@dataclass(frozen=True)
class Folds:
    """Which labels each of K models is not trained on.

    ``held_out[k]`` are positions among the labels; those of ``training[k]`` the model is trained
    on. The labels of ``eval_set`` are trained on by none.
    """

    labels: Labels
    training: tuple[IntArray, ...]
    held_out: tuple[IntArray, ...]
    evaluation: Labels | None = None
    in_time: bool = False  # training labels are earlier than those held out

    @classmethod
    def of(cls, labels: Labels, fold: IntArray, evaluation: Labels | None = None) -> "Folds":
        """Return folds from the number of the fold of each label."""
        numbers = range(int(fold.max()) + 1)
        training = tuple(np.flatnonzero(fold != number) for number in numbers)
        held_out = tuple(np.flatnonzero(fold == number) for number in numbers)
        return cls(labels, training, held_out, evaluation)

    @property
    def fold_of_label(self) -> IntArray:
        """The number of the fold that each label is held out in."""
        fold = np.zeros(self.labels.size, dtype=np.int64)
        for number, own in enumerate(self.held_out):
            fold[own] = number
        return fold

    @property
    def n_models(self) -> int:
        """Number of models."""
        return len(self.training)

    @cached_property
    def unseen(self) -> Labels:
        """The labels that each was predicted by a model not trained on it, fold by fold."""
        held = self.labels.subset(np.concatenate(self.held_out))
        return held if self.evaluation is None else held.concat(self.evaluation)

    def first(self, count: int) -> "Folds":
        """Return the first models, of a fit that ended early."""
        return replace(self, training=self.training[:count], held_out=self.held_out[:count])

    def validation(self, fold: int) -> Labels | None:
        """Return the labels to stop a model on; None where all are trained on."""
        held = self.labels.subset(self.held_out[fold])
        if self.evaluation is not None:
            held = held.concat(self.evaluation)
        return held if held.size else None


def random_folds(values: NDArray[np.generic], n_folds: int, seed: int, stratify: bool) -> IntArray:
    """Return the fold of each label: equally many in each; of classes, of each class."""
    random = np.random.default_rng(seed)
    order = random.permutation(values.size)
    if stratify:  # deal the rows of one class after those of another
        order = order[np.argsort(values[order], kind="stable")]
    fold = np.empty(values.size, dtype=np.int64)
    fold[order] = np.arange(values.size) % n_folds
    return fold


def split_at_random(
    labels: Labels, n_folds: int, seed: int, classes: bool, evaluation: Labels | None
) -> Folds:
    """Return ``n_folds`` folds at random."""
    kinds = one_hot(labels.target).argmax(axis=1) if classes else labels.rows
    return Folds.of(labels, random_folds(kinds, n_folds, seed, classes), evaluation)


def split_share(
    labels: Labels, share: float, seed: int, classes: bool, evaluation: Labels | None
) -> Folds:
    """Return one model, for which a share of the labels is held out."""
    every = np.arange(labels.size)
    if share == 0.0:
        return Folds(labels, (every,), (every[:0],), evaluation)
    n_parts = max(round(1.0 / share), 2)
    kinds = one_hot(labels.target).argmax(axis=1) if classes else labels.rows
    fold = random_folds(kinds, n_parts, seed, classes)
    return Folds(labels, (np.flatnonzero(fold > 0),), (np.flatnonzero(fold == 0),), evaluation)


def split_in_time(labels: Labels, time: Array, n_blocks: int, share: float) -> Folds:
    """Return blocks of the latest labels, each predicted from all labels before it.

    The blocks have this share of the labels together. Labels of one time are in one block.
    """
    own = np.sort(time)
    places = np.linspace((1.0 - share) * own.size, own.size, n_blocks + 1)[:-1].round().astype(int)
    starts = np.unique(own[np.minimum(places, own.size - 1)])
    starts = starts[starts > own[0]]
    block = np.searchsorted(starts, time, side="right") - 1  # −1 before the first
    training = tuple(np.flatnonzero(block < k) for k in range(starts.size))
    held_out = tuple(np.flatnonzero(block == k) for k in range(starts.size))
    return Folds(labels, training, held_out, in_time=True)
