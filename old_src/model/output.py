"""The meaning of y: how labels become targets, and how scores become predictions."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import compute_sample_weight

from ebboost.boosting.calibration import IDENTITY, Calibration
from ebboost.boosting.losses import REGRESSION_LOSSES, LogLoss, Loss, Softmax, regression_loss
from ebboost.boosting.losses.base import initial_scores
from ebboost.data import validation as checks
from ebboost.data.labels import Labels
from ebboost.data.types import Array, IntArray

ClassWeight = Mapping[object, float] | str | None


@dataclass(frozen=True)
class Output:
    """The meaning of y: numbers, one column of scores; :class:`ClassOutput` is that of classes."""

    loss: Loss  # of equation (7), whose inverse link maps scores to predictions
    classes: NDArray[Any] | None = None  # sorted; None for numbers
    calibration: Calibration = IDENTITY  # of the scores of classes, counts and amounts

    @classmethod
    def from_labels(cls, values: NDArray[Any], loss: Loss | str) -> Self:
        """Return the output of these labels with this ``loss`` parameter."""
        return cls(regression_loss(loss))

    def encode(self, values: NDArray[Any], name: str) -> Array:
        """Return labels as a target of shape (m, n_outputs); ``name`` is for messages."""
        return np.asarray(values, dtype=np.float64)[:, None]

    def encode_checked(self, values: NDArray[Any], name: str) -> Array:
        """Return :meth:`encode`; ValueError for labels that the loss is not defined for."""
        target = self.encode(values, name)
        try:
            self._check(target, np.arange(len(target)), "position")
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        return target

    def _check(self, target: Array, rows: IntArray, noun: str) -> None:
        """Raise ValueError for labels that the loss is not defined for, with the first of them."""
        try:
            if target.size:
                self.loss.check(target)
        except ValueError as error:
            for row, label in zip(rows.tolist(), np.asarray(target), strict=True):
                try:
                    self.loss.check(label[None])
                except ValueError as first:
                    text = str(first).removesuffix(".")
                    raise ValueError(f"{text} ({noun} {row}).") from None
            raise error

    def decode(self, raw: Array) -> NDArray[Any]:
        """Return what ``predict`` returns for raw predictions: numbers in the units of y."""
        return self.apply_link(raw)[:, 0]

    def apply_link(self, raw: Array) -> Array:
        """Return the inverse link of calibrated raw predictions: (m, 1), or (m, n_classes)."""
        return self.loss.inverse_link(self.calibration.apply(raw))

    def fit_loss(self, labels: Labels, offset: Array | None = None) -> Self:
        """Return this output with the parameters of its loss estimated from the training labels."""
        labelled = (labels.target, labels.weight)
        self._check(labels.target, labels.nodes, "row")
        if self.loss.log_link and not (labels.target > 0).any():
            name = type(self.loss).__name__
            raise ValueError(f"y must not be 0 at every labelled node for the {name} loss.")
        scores = None
        if offset is not None:
            scores = initial_scores(self.loss, *labelled, offset[labels.nodes])
        return replace(self, loss=self.loss.prepared(*labelled, scores))

    def label_weights(self, values: NDArray[Any], class_weight: ClassWeight) -> Array | float:
        """Return what the sample weights are multiplied by."""
        return 1.0


@dataclass(frozen=True)
class ClassOutput(Output):
    """Classes: probabilities are those of calibrated scores."""

    classes: NDArray[Any] = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def from_labels(cls, values: NDArray[Any], loss: Loss | str) -> Self:
        """Return the output of a classifier; its classes are those of ``values``."""
        checks.check_discrete(values)
        classes = np.unique(values)
        checks.check_n_classes(classes)
        return cls(_classification_loss(loss, classes.size), classes)

    def fit_loss(self, labels: Labels, offset: Array | None = None) -> Self:
        """Return this output with a fitted loss, which must have a probability for each class."""
        fitted = super().fit_loss(labels, offset)
        n_outputs = labels.target.shape[1]
        shape = np.shape(fitted.loss.inverse_link(np.zeros((1, n_outputs))))
        if shape != (1, self.classes.size):
            raise ValueError(
                f"inverse_link of loss={fitted.loss!r} must return a probability for each of "
                f"{self.classes.size} classes, got the shape {shape} for a row of {n_outputs} "
                "scores. There is one score for each class; of two classes only eb.LogLoss and its "
                "subclasses have one."
            )
        return fitted

    def encode(self, values: NDArray[Any], name: str) -> Array:
        """Return one column for two classes under the log loss, else a column for each class."""
        index_of = {label: index for index, label in enumerate(self.classes.tolist())}
        codes = (index_of.get(label, -1) for label in values.tolist())
        index = np.fromiter(codes, np.int64, values.size)
        if (index < 0).any():
            unknown = values.tolist()[int(np.flatnonzero(index < 0)[0])]
            raise ValueError(
                f"{name} holds the class {unknown!r}, which the training labels do not have. "
                f"The classes are {self.classes.tolist()}."
            )
        if self.classes.size == 2 and isinstance(self.loss, LogLoss):
            return index.astype(np.float64)[:, None]
        return np.eye(self.classes.size)[index]

    def decode(self, raw: Array) -> NDArray[Any]:
        """Return the most probable class of each node."""
        return np.asarray(self.classes)[self.apply_link(raw).argmax(axis=1)]

    def label_weights(self, values: NDArray[Any], class_weight: ClassWeight) -> Array | float:
        """Return the weight of each label's class."""
        checks.check_class_weight(class_weight, self.classes)
        if class_weight is None:
            return 1.0
        return compute_sample_weight(class_weight, values)


def _classification_loss(loss: Loss | str | None, n_classes: int) -> Loss:
    if isinstance(loss, tuple(REGRESSION_LOSSES.values())):
        text = f"loss={loss!r} is a loss for numbers, not for probabilities. Use 'log_loss'."
        raise ValueError(text)
    if isinstance(loss, Loss):
        return loss
    if loss not in ("auto", "log_loss", None):
        text = f"loss must be 'auto', 'log_loss' or a Loss for a classifier, got {loss!r}."
        raise ValueError(text)
    return LogLoss() if n_classes == 2 else Softmax()
