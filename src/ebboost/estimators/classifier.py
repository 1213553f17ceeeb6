"""The classifier."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions

from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import Loss
from ebboost.boosting.metrics import MetricFunction
from ebboost.boosting.momentum import Momentum
from ebboost.data.features import NeighborFeatures, SpectralFeatures
from ebboost.data.types import Array, LabelledNodes, TableLike
from ebboost.estimators._parameters import CLASS_LOSSES, CLASS_WEIGHT, fill_docstring
from ebboost.estimators.base import BaseEBBS
from ebboost.graph import Graphs
from ebboost.learners import CatBoost
from ebboost.model.attach import Attachment
from ebboost.model.attributes import learned
from ebboost.model.output import ClassOutput, ClassWeight
from ebboost.model.predict import Offset, RowArguments, predict_rows
from ebboost.model.predict_shards import link_shards, raw_shards
from ebboost.propagation import Laplacian, Smoother


@fill_docstring(loss=CLASS_LOSSES, extra=CLASS_WEIGHT)
class EBBSClassifier(ClassifierMixin, BaseEBBS):
    """Gradient boosting through a graph, for classes.

    Parameters
    ----------
    %(parameters)s

    Attributes
    ----------
    state_ : FittedState
        Everything that the fit has learned; the other attributes are documented properties of it.

    Examples
    --------
    >>> import ebboost as eb, numpy as np
    >>> X = np.arange(100.0)[:, None]
    >>> y = np.array(["low"] * 50 + ["high"] * 50, dtype=object)
    >>> y[::3] = None  # unknown
    >>> g = eb.Graph.build_knn(X, k=2)
    >>> m = eb.EBBSClassifier(n_estimators=20, random_state=0).fit(X, y, graph=g)
    >>> m.predict(nodes=[0, 99]).tolist()
    ['low', 'high']
    """

    _output_type = ClassOutput
    _paper_parameters: ClassVar[Mapping[str, Any]] = {
        "n_estimators": 200,
        "learning_rate": 1.0,
        "n_iter_no_change": 20,
        "smoothing": Laplacian(2.0, 5),
        "labels": "none",
        "neighbor_features": None,
        "feature_smoothing": None,
        "spectral_features": None,
        "learner": CatBoost(6),
    }
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseEBBS._parameter_constraints,
        "class_weight": [Mapping, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        n_estimators: int = 3000,
        learning_rate: float | None = None,
        *,
        smoothing: Smoother | str | None = "auto",
        labels: LatentField | str = "auto",
        neighbor_features: NeighborFeatures | str | None = "auto",
        feature_smoothing: Smoother | str | None = "auto",
        spectral_features: SpectralFeatures | str | None = "auto",
        relations: Mapping[str, float] | str = "auto",
        learner: Any = "lightgbm",
        loss: Loss | str = "auto",
        momentum: Momentum | str | bool = False,
        penalty: float = 0.0,
        early_stopping: bool = True,
        selection: str = "search",
        n_folds: int | str = "auto",
        eval_metric: str | MetricFunction = "loss",
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = None,
        categorical_features: Sequence[str | int] | str = "auto",
        class_weight: ClassWeight = None,
        device: str = "cpu",
        n_jobs: int | None = None,
        random_state: int | RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_estimators=n_estimators,
            learning_rate=learning_rate,
            smoothing=smoothing,
            labels=labels,
            neighbor_features=neighbor_features,
            feature_smoothing=feature_smoothing,
            spectral_features=spectral_features,
            relations=relations,
            learner=learner,
            loss=loss,
            momentum=momentum,
            penalty=penalty,
            early_stopping=early_stopping,
            selection=selection,
            n_folds=n_folds,
            eval_metric=eval_metric,
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
        X: TableLike = None,
        *,
        graph: Graphs | None = None,
        nodes: ArrayLike | None = None,
        new_labels: LabelledNodes | None = None,
        attach: Attachment | None = None,
        coordinates: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> Array:
        """Return the probability of every class, in the order of ``classes_``.

        Parameters
        ----------
        X, graph, nodes, new_labels, attach, coordinates, offset, groups, time
            As in :meth:`predict`.

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        edges = (graph, nodes, new_labels, attach, coordinates)
        arguments = RowArguments(X, *edges, Offset(offset), groups, time)
        shards = raw_shards(self.state_, arguments)
        if shards is not None:
            return link_shards(self.state_.output, shards)
        return self.state_.output.apply_link(predict_rows(self.state_, arguments).raw)

    score = BaseEBBS.score  # that of the mixin takes no graph
    classes_ = learned("classes", "The classes, sorted.")
    temperature_ = learned("output.temperature", "Temperature of the scores.")
    calibration_error_ = learned(
        "calibration_error", "Expected calibration error on the validation nodes."
    )
