"""Gradient boosting on tables whose rows are nodes of a graph.

>>> import ebboost as eb
>>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, None, None, 3.0]
>>> graph = eb.Graph.from_edges([0, 1, 2], [1, 2, 3])
>>> eb.EBBSRegressor(n_estimators=5).fit(X, y, graph=graph).predict().shape
(4,)
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ebboost import _ctrl_c  # noqa: F401 - before what takes long
from ebboost.callbacks import Callback, EarlyStopping, RoundInfo
from ebboost.data.features import NeighborFeatures, SpectralFeatures
from ebboost.estimators import EBBSClassifier, EBBSRegressor, load
from ebboost.explain import Explanation
from ebboost.field import LatentField
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
from ebboost.smoothing import Laplacian, Operator, Smoother

if TYPE_CHECKING:
    from ebboost import cluster, datasets, paper
    from ebboost.applicability import Applicability
    from ebboost.files import ModelFileError
    from ebboost.groups import GroupFields
    from ebboost.inspection import plots as plot
    from ebboost.inspection.graph_check import GraphCheck, check_graph
    from ebboost.inspection.report import write_report
    from ebboost.inspection.shap import shap_values
    from ebboost.losses.shares import Beta, Binomial
    from ebboost.losses.zeros import Hurdle, ZeroInflated
    from ebboost.model_selection.bind import bind
    from ebboost.model_selection.cross_validation import cross_validate
    from ebboost.model_selection.splitters import BlockFold, DistanceFold, GraphBlockFold, TimeSplit
    from ebboost.model_selection.tuning import tune

__version__ = "0.3.0"
logging.getLogger("ebboost").addHandler(logging.NullHandler())

__all__ = ["Applicability", "Beta", "Binomial", "BlockFold", "Callback", "DistanceFold"]
__all__ += ["EBBSClassifier", "EBBSRegressor", "EarlyStopping", "Explanation", "Gain"]
__all__ += ["Gamma", "Graph", "GraphBlockFold", "GraphCheck", "GroupFields", "Huber", "Hurdle"]
__all__ += ["Intervals"]
__all__ += ["Laplacian", "LatentField", "Learner", "LightGBM", "LogLoss", "Loss", "Model"]
__all__ += ["ModelFileError", "NegativeBinomial", "NeighborFeatures", "Operator", "Poisson"]
__all__ += ["PredictionSets", "Quantile", "RandomNetwork", "RoundInfo", "ScikitLearn", "Smoother"]
__all__ += ["Softmax", "SpectralFeatures", "SquaredError", "TimeSplit", "Tweedie", "XGBoost"]
__all__ += ["ZeroInflated"]
__all__ += ["bind", "check_graph", "cluster", "cross_validate", "datasets", "load", "paper"]
__all__ += ["plot", "shap_values", "tune", "write_report"]

_ON_FIRST_USE = {  # what a fit and a prediction do not need
    "Applicability": "ebboost.applicability",
    "Beta": "ebboost.losses.shares",
    "Binomial": "ebboost.losses.shares",
    "Hurdle": "ebboost.losses.zeros",
    "ZeroInflated": "ebboost.losses.zeros",
    "cluster": "ebboost.cluster",
    "datasets": "ebboost.datasets",
    "paper": "ebboost.paper",
    "plot": "ebboost.inspection.plots",
    "GroupFields": "ebboost.groups",
    "ModelFileError": "ebboost.files",
    "GraphCheck": "ebboost.inspection.graph_check",
    "check_graph": "ebboost.inspection.graph_check",
    "write_report": "ebboost.inspection.report",
    "shap_values": "ebboost.inspection.shap",
    "bind": "ebboost.model_selection.bind",
    "cross_validate": "ebboost.model_selection.cross_validation",
    "BlockFold": "ebboost.model_selection.splitters",
    "DistanceFold": "ebboost.model_selection.splitters",
    "GraphBlockFold": "ebboost.model_selection.splitters",
    "TimeSplit": "ebboost.model_selection.splitters",
    "tune": "ebboost.model_selection.tuning",
}


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module 'ebboost' has no attribute {name!r}")
    module = import_module(_ON_FIRST_USE[name])
    return getattr(module, name, module)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
