"""Propagation over the graph: every operator P that turns base scores f into smoothed scores P f.

A *smoother* such as :class:`Laplacian` is a recipe: parameters, no data. ``smoother.on(graph)`` gives the
*operator*, a scipy ``LinearOperator`` that also knows its adjoint and a bound on its norm.
"""

from ebbflow.smoothing._base import IdentityOperator, Smoother, SmoothingOperator
from ebbflow.smoothing._contraction import Contraction
from ebbflow.smoothing._kernel import Kernel
from ebbflow.smoothing._laplacian import Laplacian
from ebbflow.smoothing._solve import SparseSolver
from ebbflow.smoothing._sweep import threads
from ebbflow.smoothing._system import GraphMatrix

__all__ = [
    "Contraction",
    "GraphMatrix",
    "IdentityOperator",
    "Kernel",
    "Laplacian",
    "Smoother",
    "SmoothingOperator",
    "SparseSolver",
    "threads",
]
