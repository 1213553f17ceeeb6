"""ebbflow: gradient boosting that sees a graph.

Rows of a table are nodes, edges say which rows influence each other, and trees are trained through the graph.

>>> import ebbflow as eb
>>> g = eb.Graph.from_edges([0, 1, 2], [1, 2, 3])
>>> m = eb.EBBSRegressor(n_estimators=5).fit([[0.0], [1.0], [2.0], [3.0]], [0.0, None, None, 3.0], graph=g)
>>> m.predict().shape
(4,)
"""

from ebbflow import convergence, datasets, plot
from ebbflow.callbacks import Callback, EarlyStopping, Progress, ProgressBar
from ebbflow.checking import GraphCheck, check_graph
from ebbflow.checkpoint import Checkpoint
from ebbflow.estimators import EBBSClassifier, EBBSRegressor, Intervals, Predictor
from ebbflow.evaluation import GraphBlockFold, cross_validate
from ebbflow.explaining import Explanation
from ebbflow.features import NeighborFeatures
from ebbflow.graph import Graph
from ebbflow.labels import Field, Masked
from ebbflow.learners import CatBoost, Learner, LightGBM, ScikitLearn, XGBoost
from ebbflow.losses import Huber, LogLoss, Loss, Poisson, Quantile, Softmax, SquaredError
from ebbflow.modelfile import ModelFileError, load
from ebbflow.momentum import CorrectedMomentum
from ebbflow.report import write_report
from ebbflow.smoothing import EdgeWeights, Kernel, Laplacian, Robust, Smoother, SmoothingOperator
from ebbflow.table import ParquetTable
from ebbflow.tuning import tune

__version__ = "0.1.0"

__all__ = [
    "Callback",
    "CatBoost",
    "Checkpoint",
    "CorrectedMomentum",
    "EBBSClassifier",
    "EBBSRegressor",
    "EarlyStopping",
    "EdgeWeights",
    "Explanation",
    "Field",
    "Graph",
    "GraphBlockFold",
    "GraphCheck",
    "Huber",
    "Intervals",
    "Kernel",
    "Laplacian",
    "Learner",
    "LightGBM",
    "LogLoss",
    "Loss",
    "Masked",
    "ModelFileError",
    "NeighborFeatures",
    "ParquetTable",
    "Poisson",
    "Predictor",
    "Progress",
    "ProgressBar",
    "Quantile",
    "Robust",
    "ScikitLearn",
    "Smoother",
    "SmoothingOperator",
    "Softmax",
    "SquaredError",
    "XGBoost",
    "check_graph",
    "convergence",
    "cross_validate",
    "datasets",
    "load",
    "plot",
    "tune",
    "write_report",
]
