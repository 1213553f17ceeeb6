"""Gradient boosting on tables whose rows are nodes of a graph.

>>> import ebboost as eb
>>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, None, None, 3.0]
>>> graph = eb.Graph.from_edges([0, 1, 2], [1, 2, 3])
>>> eb.EBBSRegressor(n_estimators=5).fit(X, y, graph=graph).predict().shape
(4,)
"""

import logging
from importlib import import_module
from typing import Any

from ebboost import datasets
from ebboost.callbacks import Callback, EarlyStopping, ProgressBar, RoundInfo
from ebboost.data.features import NeighborFeatures, SpectralFeatures
from ebboost.estimators import EBBSClassifier, EBBSRegressor, load
from ebboost.explain import Explanation
from ebboost.field import LatentField
from ebboost.files import ModelFileError
from ebboost.graph import Graph
from ebboost.intervals import Intervals, PredictionSets
from ebboost.learners import Learner, LightGBM, RandomNetwork, ScikitLearn, XGBoost
from ebboost.losses import (
    Gamma,
    Huber,
    LogLoss,
    Loss,
    NegativeBinomial,
    Poisson,
    Quantile,
    Softmax,
    SquaredError,
    Tweedie,
)
from ebboost.model import Gain, Model
from ebboost.model_selection.bind import bind
from ebboost.model_selection.cross_validation import cross_validate
from ebboost.model_selection.splitters import GraphBlockFold, TimeSplit
from ebboost.model_selection.tuning import tune
from ebboost.smoothing import Laplacian, Operator, Smoother

__version__ = "0.3.0"
logging.getLogger("ebboost").addHandler(logging.NullHandler())

__all__ = ["Callback", "EBBSClassifier", "EBBSRegressor", "EarlyStopping", "Explanation", "Gain"]
__all__ += ["Gamma", "Graph", "GraphBlockFold", "Huber", "Intervals", "Laplacian", "LatentField"]
__all__ += ["Learner", "LightGBM", "LogLoss", "Loss", "Model", "ModelFileError"]
__all__ += ["NegativeBinomial", "NeighborFeatures", "Operator", "Poisson", "PredictionSets"]
__all__ += ["ProgressBar", "Quantile", "RandomNetwork", "RoundInfo", "ScikitLearn", "Smoother"]
__all__ += ["Softmax", "SpectralFeatures", "SquaredError", "TimeSplit", "Tweedie", "XGBoost"]
__all__ += ["bind", "cross_validate", "datasets", "load", "tune"]


def __getattr__(name: str) -> Any:
    if name == "paper":  # imported when it is used
        return import_module("ebboost.paper")
    raise AttributeError(f"module 'ebboost' has no attribute {name!r}")
