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

from ebboost import _ctrl_c, datasets  # noqa: F401 - before what takes long
from ebboost.callbacks import Callback, EarlyStopping, ProgressBar, RoundInfo
from ebboost.data.features import NeighborFeatures, SpectralFeatures
from ebboost.estimators import EBBSClassifier, EBBSRegressor, load
from ebboost.explain import Explanation
from ebboost.field import LatentField
from ebboost.files import ModelFileError
from ebboost.graph import Graph
from ebboost.inspection import plots as plot
from ebboost.inspection.graph_check import GraphCheck, check_graph
from ebboost.inspection.report import write_report
from ebboost.intervals import Intervals, PredictionSets
from ebboost.learners import Learner, LightGBM, RandomNetwork
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
from ebboost.smoothing import Laplacian, Operator, Smoother

__version__ = "0.3.0"
logging.getLogger("ebboost").addHandler(logging.NullHandler())

__all__ = ["Callback", "EBBSClassifier", "EBBSRegressor", "EarlyStopping", "Explanation", "Gain"]
__all__ += ["Gamma", "Graph", "Huber", "Intervals", "Laplacian", "LatentField", "Learner"]
__all__ += ["LightGBM", "LogLoss", "Loss", "Model", "ModelFileError", "NegativeBinomial"]
__all__ += ["NeighborFeatures"]
__all__ += ["Operator", "Poisson", "PredictionSets", "ProgressBar", "Quantile", "RandomNetwork"]
__all__ += ["RoundInfo", "Smoother", "Softmax", "SpectralFeatures", "SquaredError", "Tweedie"]
__all__ += ["GraphCheck", "check_graph", "datasets", "load", "plot", "write_report"]


def __getattr__(name: str) -> Any:
    if name == "paper":  # imported when it is used
        return import_module("ebboost.paper")
    raise AttributeError(f"module 'ebboost' has no attribute {name!r}")
