"""Weak learners: trees of LightGBM and XGBoost, networks, scikit-learn regressors."""

from typing import Any

from ebboost.learners.base import Binned, Ensemble, Grower, Learner
from ebboost.learners.lightgbm import LightGBM
from ebboost.learners.network import RandomNetwork
from ebboost.learners.scikit import ScikitLearn
from ebboost.learners.xgboost import XGBoost

__all__ = ["Binned", "Ensemble", "Grower", "Learner", "LightGBM", "RandomNetwork", "ScikitLearn"]
__all__ += ["XGBoost", "as_learner"]


def as_learner(learner: Any) -> Learner:
    """Return the learner that the ``learner`` parameter stands for."""
    if isinstance(learner, Learner):
        return learner
    if learner == "lightgbm":
        return LightGBM()
    if learner == "xgboost":
        return XGBoost()
    hint = f": pass eb.ScikitLearn({learner!r})" if hasattr(learner, "fit") else ""
    raise ValueError(
        f"learner must be 'lightgbm', 'xgboost' or an eb.Learner, got {learner!r}{hint}."
    )
