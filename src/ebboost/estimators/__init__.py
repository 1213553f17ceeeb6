"""The scikit-learn face."""

from ebboost.estimators._classifier import EBBSClassifier
from ebboost.estimators._regressor import EBBSRegressor, Intervals
from ebboost.model.serving import Predictor

__all__ = ["EBBSClassifier", "EBBSRegressor", "Intervals", "Predictor"]
