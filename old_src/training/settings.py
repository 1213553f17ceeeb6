"""The constructor parameters of an estimator, typed, as the training code reads them."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any

from numpy.random import RandomState
from sklearn.base import BaseEstimator

from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import Loss
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.boosting.metrics import MetricFunction
from ebboost.boosting.momentum import Momentum
from ebboost.data.features import NeighborFeatures, SpectralFeatures
from ebboost.model.output import ClassWeight
from ebboost.propagation import Smoother


@dataclass(eq=False, repr=False)
class Parameters:
    """Parameters of both estimators; :class:`ebboost.EBBSRegressor` documents their meaning."""

    n_estimators: int = 3000
    learning_rate: float | None = None
    _: KW_ONLY
    smoothing: Smoother | str | None = "auto"
    labels: LatentField | MaskedLabels | str = "auto"
    neighbor_features: NeighborFeatures | str | None = "auto"
    feature_smoothing: Smoother | str | None = "auto"
    spectral_features: SpectralFeatures | str | None = "auto"
    relations: Mapping[str, float] | str = "auto"
    neighbors: int | str = "auto"
    learner: Any = "lightgbm"
    loss: Loss | str = "auto"
    momentum: Momentum | str | bool = False
    penalty: float = 0.0
    early_stopping: bool = True
    selection: str = "search"
    n_folds: int | str = "auto"
    eval_metric: str | MetricFunction = "loss"
    validation_fraction: float = 0.1
    n_iter_no_change: int | None = None
    categorical_features: Sequence[str | int] | str = "auto"
    device: str = "cpu"
    n_jobs: int | None = None
    random_state: int | RandomState | None = None
    verbose: int = 0


@dataclass(eq=False, repr=False)
class Settings(Parameters):
    """Parameters of a fit."""

    _: KW_ONLY
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
