"""Weak learners: LightGBM, XGBoost, CatBoost, random networks, scikit-learn, and your own."""

from sklearn.base import is_regressor

from ebboost.learners.base import Ensemble, Learner, Pickled, TreeGrower, check_device
from ebboost.learners.catboost import CatBoost
from ebboost.learners.lightgbm import LightGBM
from ebboost.learners.network import RandomNetwork
from ebboost.learners.sklearn import ScikitLearn
from ebboost.learners.xgboost import XGBoost

__all__ = ["CatBoost", "Ensemble", "Learner", "LightGBM", "Pickled", "RandomNetwork", "ScikitLearn"]
__all__ += ["TreeGrower", "XGBoost", "as_learner", "check_device"]

LEARNERS: dict[str, type[Learner]] = {
    "lightgbm": LightGBM,
    "xgboost": XGBoost,
    "catboost": CatBoost,
    "network": RandomNetwork,
}


def as_learner(learner: object) -> Learner:
    """Learner of an estimator's parameter: a name, a learner, a regressor or a list of them."""
    if isinstance(learner, Learner):
        return learner
    if isinstance(learner, str) and learner in LEARNERS:
        return LEARNERS[learner]()
    if isinstance(learner, (list, tuple)) or (hasattr(learner, "fit") and is_regressor(learner)):
        return ScikitLearn(learner)
    raise ValueError(
        f"learner must be one of {sorted(LEARNERS)}, a learner such as "
        f"eb.LightGBM(num_leaves=15), a scikit-learn regressor or a list of them, got {learner!r}."
    )
