"""The meaning of y: how labels become targets, and how scores become predictions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import compute_sample_weight

from ebboost._common import Array
from ebboost.data import checks
from ebboost.data.labels import Labels
from ebboost.losses import REGRESSION_LOSSES, LogLoss, Loss, Softmax, SquaredError, regression_loss
from ebboost.losses.base import initial_scores

ClassWeight = Mapping[object, float] | str | None


@dataclass(frozen=True)
class Output:
    """A loss, whose inverse link maps scores to predictions; the classes, or None for numbers."""

    loss: Loss
    classes: NDArray[Any] | None = None  # sorted

    @classmethod
    def of_numbers(cls, loss: Loss | str | None) -> Self:
        """Return the output of a regressor with this ``loss`` parameter."""
        if isinstance(loss, Loss):
            return cls(loss)
        if loss is None or loss == "auto":
            return cls(SquaredError())
        if isinstance(loss, str) and loss in REGRESSION_LOSSES:
            return cls(regression_loss(loss))
        raise ValueError(
            f"loss must be one of {sorted(REGRESSION_LOSSES)}, 'auto' or a Loss, got {loss!r}."
        )

    @classmethod
    def of_classes(cls, values: NDArray[Any], loss: Loss | str | None) -> Self:
        """Return the output of a classifier, whose classes are those of ``values``."""
        checks.check_discrete(values)
        classes = np.unique(values)
        checks.check_n_classes(classes)
        of_numbers = {path.split(".")[1] for path, _ in REGRESSION_LOSSES.values()}
        if isinstance(loss, Loss) and type(loss).__name__ in of_numbers:
            text = f"loss={loss!r} is a loss for numbers, not for probabilities. Use 'log_loss'."
            raise ValueError(text)
        if isinstance(loss, Loss):
            return cls(loss, classes)
        if loss not in ("auto", "log_loss", None):
            text = f"loss must be 'auto', 'log_loss' or a Loss for a classifier, got {loss!r}."
            raise ValueError(text)
        return cls(LogLoss() if classes.size == 2 else Softmax(), classes)

    @property
    def is_classifier(self) -> bool:
        """Whether predictions are classes."""
        return self.classes is not None

    def encode(self, values: NDArray[Any], name: str) -> Array:
        """Return labels as a target of shape (m, n_outputs).

        Numbers have one column; two classes under the log loss too, else there is one for each.
        ValueError for labels that the loss is not defined for; ``name`` is for messages.
        """
        if self.classes is None:
            target = np.asarray(values, dtype=np.float64)[:, None]
        else:
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
                target = index.astype(np.float64)[:, None]
            else:
                target = np.eye(self.classes.size)[index]
        try:
            if target.size:
                self.loss.check(target)
        except ValueError as error:
            for position, label in enumerate(target):
                try:
                    self.loss.check(label[None])
                except ValueError as first:
                    text = f"{str(first).removesuffix('.')} ({name}, position {position})."
                    raise ValueError(text) from None
            raise error
        return target

    def decode(self, raw: Array) -> NDArray[Any]:
        """Return what ``predict`` returns for raw predictions: numbers, or classes."""
        linked = self.apply_link(raw)
        return linked[:, 0] if self.classes is None else self.classes[linked.argmax(axis=1)]

    def apply_link(self, raw: Array) -> Array:
        """Return predictions of shape (m, 1), or probabilities of shape (m, n_classes)."""
        return self.loss.inverse_link(raw)

    def fitted(self, labels: Labels, offset: Array | None, scores: Array | None = None) -> Self:
        """Return this output with the open parameters of its loss estimated from labels."""
        if self.loss.log_link and not (labels.target > 0).any():
            name = type(self.loss).__name__
            raise ValueError(f"y must not be 0 at every labelled row for the {name} loss.")
        labelled = (labels.target, labels.weight)
        if scores is None and offset is not None:
            scores = initial_scores(self.loss, *labelled, offset[labels.rows])
        output = replace(self, loss=self.loss.prepared(*labelled, scores))
        if self.classes is not None:
            n_outputs = labels.target.shape[1]
            shape = np.shape(output.loss.inverse_link(np.zeros((1, n_outputs))))
            if shape != (1, self.classes.size):
                raise ValueError(
                    f"inverse_link of loss={output.loss!r} must return a probability for each of "
                    f"{self.classes.size} classes, got the shape {shape} for a row of {n_outputs} "
                    "scores. There is one score for each class; of two classes only eb.LogLoss and "
                    "its subclasses have one."
                )
        return output

    def label_weights(self, values: NDArray[Any], class_weight: ClassWeight) -> Array | float:
        """Return what the sample weights are multiplied by."""
        if class_weight is None or self.classes is None:
            return 1.0
        checks.check_class_weight(class_weight, self.classes)
        return compute_sample_weight(class_weight, values)
