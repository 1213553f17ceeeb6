"""The scikit-learn face."""

from ebbflow.estimators._classifier import EBBSClassifier
from ebbflow.estimators._predictor import Predictor
from ebbflow.estimators._regressor import EBBSRegressor, Intervals

__all__ = ["EBBSClassifier", "EBBSRegressor", "Intervals", "Predictor"]
