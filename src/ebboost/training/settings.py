"""The constructor parameters of an estimator, typed, as the training code reads them."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from typing import Any

from sklearn.base import BaseEstimator

from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import Loss
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.boosting.metrics import MetricFunction
from ebboost.boosting.momentum import Momentum
from ebboost.data.features import NeighborFeatures, SpectralFeatures
from ebboost.model.output import ClassWeight
from ebboost.propagation import Smoother


@dataclass(frozen=True)
class Settings:
    """Parameters of a fit; their meaning is documented at :class:`ebboost.EBBSRegressor`."""

    n_estimators: int
    learning_rate: float | None
    smoothing: Smoother | str | None
    labels: LatentField | MaskedLabels | str
    neighbor_features: NeighborFeatures | str | None
    feature_smoothing: Smoother | str | None
    spectral_features: SpectralFeatures | str | None
    relations: Mapping[str, float] | str
    neighbors: int | str
    learner: Any
    loss: Loss | str
    momentum: Momentum | str | bool
    penalty: float
    early_stopping: bool
    selection: str
    n_folds: int | str
    eval_metric: str | MetricFunction
    validation_fraction: float
    n_iter_no_change: int | None
    categorical_features: Sequence[str | int] | str
    device: str
    n_jobs: int | None
    random_state: Any
    verbose: int
    class_weight: ClassWeight = None

    @staticmethod
    def parameters_of(estimator: BaseEstimator) -> dict[str, Any]:
        """Return the parameters of an estimator, and the settings that its class fixes.

        Parts are copied, so that ``set_params`` on one of them does not change a fitted model.
        """
        names = (field.name for field in fields(Settings) if hasattr(estimator, field.name))
        values = {name: getattr(estimator, name) for name in names}
        values |= estimator.get_params(deep=False)
        return {
            name: copy(value) if hasattr(value, "set_params") else value
            for name, value in values.items()
        }

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> "Settings":
        """Return the settings among the parameters of an estimator."""
        names = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in parameters.items() if name in names})
