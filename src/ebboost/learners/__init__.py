"""Weak learners: trees of LightGBM and XGBoost, networks, scikit-learn regressors."""

from typing import Any

from ebboost.learners.base import Binned, Ensemble, Grower, Learner
from ebboost.learners.lightgbm import LightGBM
from ebboost.learners.network import RandomNetwork
from ebboost.learners.scikit import ScikitLearn
from ebboost.learners.xgboost import XGBoost

__all__ = ["Binned", "Ensemble", "Grower", "Learner", "LightGBM", "RandomNetwork", "ScikitLearn"]
__all__ += ["XGBoost", "as_learner"]


#: Libraries of trees, and which "auto" stands for on a device.
LIBRARIES: dict[str, type[Learner]] = {"lightgbm": LightGBM, "xgboost": XGBoost}
AUTO = {"cpu": "lightgbm", "cuda": "xgboost"}


def as_learner(learner: Any, device: str = "cpu") -> Learner:
    """Return the learner that the ``learner`` parameter stands for."""
    if isinstance(learner, Learner):
        return learner
    if isinstance(learner, str) and learner in (*LIBRARIES, "auto"):
        return LIBRARIES[AUTO[device] if learner == "auto" else learner]()
    hint = f": pass eb.ScikitLearn({learner!r})" if hasattr(learner, "fit") else ""
    raise ValueError(
        f"learner must be 'auto', 'lightgbm', 'xgboost' or an eb.Learner, got {learner!r}{hint}."
    )
