"""Gradient boosting through a graph, for classes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import compute_sample_weight

from ebboost.boosting.calibration import ProbabilityField, expected_calibration_error
from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import REGRESSION_LOSSES, LogLoss, Loss, Softmax
from ebboost.boosting.momentum import Momentum
from ebboost.data import validation as checks
from ebboost.data.features import NeighborFeatures
from ebboost.data.labels import Labels
from ebboost.estimators._base import BaseEBBS
from ebboost.graph import Graph, Graphs
from ebboost.learners import CatBoost
from ebboost.propagation import Laplacian, Smoother

Array = NDArray[np.float64]


class EBBSClassifier(ClassifierMixin, BaseEBBS):
    """Gradient boosting through a graph, for classes.

    Parameters
    ----------
    n_estimators, learning_rate, smoothing, labels, learner, momentum, penalty, early_stopping
        As in :class:`EBBSRegressor`, like all other parameters but these two:
    loss : "auto", "log_loss" or Loss, default="auto"
        Log-loss on one score for two classes, cross-entropy on a score per class for more.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.

    Attributes
    ----------
    classes_ : ndarray
        The classes, sorted.
    temperature_, label_strength_ : float
        How scores became probabilities and how much labels were trusted, chosen on validation nodes.
    calibration_error_ : float or None
        Expected calibration error on the validation nodes: how far stated probabilities are from observed shares. A
        little optimistic, as the same nodes chose the temperature.
    n_iter_, history_, best_candidate_, smoothing_, labels_, ensemble_, graph_
        As in :class:`EBBSRegressor`.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> X = np.arange(100.0)[:, None]
    >>> y = np.array(["low"] * 50 + ["high"] * 50, dtype=object)
    >>> y[::3] = None  # unknown
    >>> m = eb.EBBSClassifier(n_estimators=20, random_state=0).fit(X, y, graph=eb.Graph.build_knn(X, k=2))
    >>> m.predict(nodes=[0, 99]).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        n_estimators: int = 1000,
        learning_rate: float | None = None,
        *,
        smoothing: Smoother | str | None = "auto",
        labels: LatentField | str = "auto",
        neighbor_features: NeighborFeatures | str | None = "auto",
        feature_smoothing: Smoother | str | None = "auto",
        relations: Mapping[str, float] | str = "auto",
        learner: Any = "lightgbm",
        loss: Loss | str = "auto",
        momentum: Momentum | str | bool = False,
        penalty: float = 0.0,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = None,
        categorical_features: Any = "auto",
        class_weight: Any = None,
        device: str = "cpu",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_estimators,
            learning_rate,
            smoothing=smoothing,
            labels=labels,
            neighbor_features=neighbor_features,
            feature_smoothing=feature_smoothing,
            relations=relations,
            learner=learner,
            loss=loss,
            momentum=momentum,
            penalty=penalty,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            categorical_features=categorical_features,
            device=device,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight

    def predict_proba(
        self,
        X: Any = None,
        *,
        graph: Graphs | None = None,
        nodes: Any = None,
        new_labels: Any = None,
    ) -> Array:
        """Probability of every class, in the order of ``classes_``; arguments as in :meth:`predict`."""
        return self._predicted(X, graph, nodes, new_labels)

    def predict(
        self,
        X: Any = None,
        *,
        graph: Graphs | None = None,
        nodes: Any = None,
        new_labels: Any = None,
        interval: Any = None,
    ) -> NDArray[Any]:
        """Predict the class of every fitted node, or of another table and its graph.

        Parameters
        ----------
        X : table, optional
            Rows to predict; default: the nodes the model was fitted on.
        graph : Graph or dict of Graph, optional
            The graph of the rows of ``X``; needed if the model was fitted on one.
        nodes : array-like of int or bool, optional
            Only these rows. Of another table only the rows that they need are looked at, as far away as the model's
            smoothing and columns reach; with ``known``, all are.
        new_labels : (nodes, y), optional
            Labels that have become known since the fit.
        interval : None
            Classes have none: see :meth:`predict_proba`.
        """
        return self._told(self._predicted(X, graph, nodes, new_labels), interval)

    def _told(self, probabilities: Array, interval: Any) -> NDArray[Any]:
        """The most likely class of each node."""
        if interval is not None:
            raise ValueError(
                "interval is for EBBSRegressor; a classifier says how sure it is with predict_proba()."
            )
        return np.asarray(self.classes_)[probabilities.argmax(axis=1)]

    def _finished(
        self, scores: Array, smoothed: Array, graph: Graph | None, known: Labels | None
    ) -> Array:
        """Probabilities of smoothed scores, with what known labels say added."""
        return self._calibrated.probabilities(
            smoothed, self.loss_, known, self._field(graph, known)
        )

    def _said(self, smoothed: Array, target: Array) -> Array:
        return self._calibrated.errors(smoothed, self.loss_, target)

    def _heard(self, smoothed: Array, spread: Array) -> Array:
        return self._calibrated.corrected(smoothed, self.loss_, spread)

    def score(
        self,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        *,
        graph: Graph | None = None,
        nodes: Any = None,
    ) -> float:
        """Return the accuracy of the predictions; labels that are None or NaN are left out."""
        truth, predicted, weight = checks.scored_labels(
            y, sample_weight, nodes, self.predict(X, graph=graph), True
        )
        return float(accuracy_score(truth, predicted, sample_weight=weight))

    def _learn_classes(self, values: NDArray[Any]) -> None:
        checks.check_discrete(values)
        self.classes_ = np.unique(values)
        checks.check_n_classes(self.classes_)

    def _target(self, values: NDArray[Any], name: str) -> Array:
        position_of = {label: position for position, label in enumerate(self.classes_.tolist())}
        position = np.fromiter(
            (position_of.get(label, -1) for label in values.tolist()), np.int64, values.size
        )
        if (position < 0).any():
            strange = values.tolist()[int(np.flatnonzero(position < 0)[0])]
            raise ValueError(
                f"{name} holds a class that the training labels do not: {strange!r}. Known are {self.classes_.tolist()}."
            )
        if self.classes_.size == 2 and isinstance(self._plain_loss(), LogLoss):
            return position.astype(np.float64)[:, None]
        return np.eye(self.classes_.size)[position]

    def _plain_loss(self) -> Loss:
        if isinstance(self.loss, tuple(REGRESSION_LOSSES.values())):
            raise ValueError(
                f"loss={self.loss!r} is for numbers: its predictions are no probabilities. Use 'log_loss'."
            )
        if isinstance(self.loss, Loss):
            return self.loss
        if self.loss not in ("auto", "log_loss", None):
            raise ValueError(
                f"loss must be 'auto', 'log_loss' or a Loss for a classifier, got {self.loss!r}."
            )
        return LogLoss() if self.classes_.size == 2 else Softmax()

    def _loss(self, training: Labels) -> Loss:
        return self._plain_loss().prepared(training.target, training.weight)

    def _strata(self, values: NDArray[Any]) -> NDArray[Any] | None:
        counts = np.unique(values, return_counts=True)[1]
        held = int(np.ceil(self.validation_fraction * values.size))
        return values if counts.min() >= 2 and held >= counts.size else None

    def _class_weight(self, values: NDArray[Any]) -> Array | float:
        checks.class_weight(self.class_weight, self.classes_)
        if self.class_weight is None:
            return 1.0
        weights: Array = compute_sample_weight(self.class_weight, values)
        return weights

    @classmethod
    def _paper(cls) -> dict[str, Any]:
        return {
            "n_estimators": 200,
            "learning_rate": 1.0,
            "n_iter_no_change": 20,
            "smoothing": Laplacian(2.0, 5),
            "labels": "none",
            "neighbor_features": None,
            "feature_smoothing": None,
            "learner": CatBoost(6),
        }

    @property
    def temperature_(self) -> float:
        """The temperature that scores are divided by."""
        return self._calibrated.temperature

    @property
    def label_strength_(self) -> float:
        """How much of the field of labels is added to the probabilities, 0 to 1."""
        return self._calibrated.strength

    def _predicted_fitted_nodes(self) -> Array:
        return self._finished(
            self.scores_, self.init_score_ + self.propagated_scores_, self.graph_, self._training
        )

    def _learn_from_held_out(self, validation: Labels | None, out_of_fold: Array | None) -> None:
        """Choose how scores become probabilities and how much labels are trusted."""
        self._calibrated = ProbabilityField()
        self.calibration_error_: float | None = None
        smoothed, training = self.init_score_ + self.propagated_scores_, self._training
        field = self._field(self.graph_, training)
        if validation is not None:
            self._calibrated.choose(smoothed, self.loss_, training, field, validation)
        elif field is not None:
            self._calibrated.choose_left_out(smoothed, self.loss_, training, field)
        self.raw_predictions_ = self._predicted_fitted_nodes()
        if validation is not None:
            stated = self.raw_predictions_[validation.nodes]
            self.calibration_error_ = expected_calibration_error(stated, validation.target)

    def _explained_scores(self) -> Array:
        return self.init_score_ + self.propagated_scores_

    def _summary_lines(self) -> list[str]:
        lines = [
            f"scores      temperature {self.temperature_:g}, labels trusted {self.label_strength_:.0%}"
        ]
        if self.calibration_error_ is not None:
            lines.append(
                f"calibration expected error {self.calibration_error_:.3f} on the validation nodes"
            )
        return lines
