"""Gradient boosting on tables whose rows are nodes of a graph.

>>> import ebboost as eb
>>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, None, None, 3.0]
>>> graph = eb.Graph.from_edges([0, 1, 2], [1, 2, 3])
>>> eb.EBBSRegressor(n_estimators=5).fit(X, y, graph=graph).predict().shape
(4,)
"""

import logging

from ebboost import _ctrl_c, datasets  # noqa: F401 - before what takes long
from ebboost.backends.dask.partitioning import partition_nodes
from ebboost.boosting.callbacks import Callback, EarlyStopping, LogMetrics, ProgressBar, RoundInfo
from ebboost.boosting.latent_field import LatentField
from ebboost.boosting.losses import (
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
from ebboost.boosting.masked_labels import MaskedLabels
from ebboost.boosting.momentum import CorrectedMomentum
from ebboost.data.features import NeighborFeatures, SpectralFeatures
from ebboost.data.parquet import ParquetTable
from ebboost.estimators import EBBSClassifier, EBBSRegressor, load
from ebboost.graph import Graph, ParquetGraph
from ebboost.inspection import plots as plot
from ebboost.inspection.graph_check import GraphCheck, check_graph
from ebboost.inspection.report import write_report
from ebboost.learners import CatBoost, Learner, LightGBM, RandomNetwork, ScikitLearn, XGBoost
from ebboost.model.distribution import PredictiveDistribution
from ebboost.model.explain import Explanation
from ebboost.model.intervals import Intervals, PredictionSets
from ebboost.model.serialization import ModelFileError
from ebboost.model.serving import Predictor
from ebboost.model.state import FittedState
from ebboost.model_selection.bound import bind
from ebboost.model_selection.cross_validation import cross_validate
from ebboost.model_selection.splitters import GraphBlockFold, TimeSplit
from ebboost.model_selection.tuning import tune
from ebboost.propagation import (
    EdgeWeights,
    Kernel,
    Laplacian,
    PropagationOperator,
    Robust,
    Smoother,
)
from ebboost.theory import convergence
from ebboost.training.checkpoint import Checkpoint

__version__ = "0.2.0"
logging.getLogger("ebboost").addHandler(logging.NullHandler())

__all__ = ["Callback", "CatBoost", "Checkpoint", "CorrectedMomentum", "EBBSClassifier"]
__all__ += ["EBBSRegressor", "EarlyStopping", "EdgeWeights", "Explanation", "FittedState", "Gamma"]
__all__ += ["Graph", "GraphBlockFold", "GraphCheck", "Huber", "Intervals", "Kernel", "Laplacian"]
__all__ += ["LatentField", "Learner", "LightGBM", "LogLoss", "LogMetrics", "Loss", "MaskedLabels"]
__all__ += ["ModelFileError", "NegativeBinomial", "NeighborFeatures", "ParquetGraph"]
__all__ += ["ParquetTable", "Poisson", "PredictionSets", "PredictiveDistribution", "Predictor"]
__all__ += ["ProgressBar", "PropagationOperator", "Quantile", "RandomNetwork", "Robust"]
__all__ += ["RoundInfo", "ScikitLearn", "Smoother", "Softmax", "SpectralFeatures", "SquaredError"]
__all__ += ["TimeSplit", "Tweedie", "XGBoost", "bind", "check_graph", "convergence"]
__all__ += ["cross_validate", "datasets", "load", "partition_nodes", "plot", "tune", "write_report"]
