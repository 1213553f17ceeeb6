"""Propagation over the graph: every operator P that turns base scores f into smoothed scores P f.

A *smoother* such as :class:`Laplacian` is a recipe: parameters, no data. ``smoother.on(graph)`` gives the
*operator*, a scipy ``LinearOperator`` that also knows its adjoint and a bound on its norm. That of :class:`Robust` is not
linear, but is such a linear one at each point.
"""

from ebbflow.compiled import allowed_threads, threads
from ebbflow.smoothing._base import IdentityOperator, Propagation, Smoother, SmoothingOperator
from ebbflow.smoothing._contraction import Contraction
from ebbflow.smoothing._kernel import Kernel
from ebbflow.smoothing._laplacian import Laplacian
from ebbflow.smoothing._robust import EdgeWeights, Robust
from ebbflow.smoothing._solve import SparseSolver
from ebbflow.smoothing._sweep import Sweep, stepped, sweep_on
from ebbflow.smoothing._system import GraphMatrix

__all__ = [
    "Contraction",
    "EdgeWeights",
    "GraphMatrix",
    "IdentityOperator",
    "Kernel",
    "Laplacian",
    "Propagation",
    "Robust",
    "Smoother",
    "SmoothingOperator",
    "SparseSolver",
    "Sweep",
    "allowed_threads",
    "stepped",
    "sweep_on",
    "threads",
]
