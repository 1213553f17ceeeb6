"""Propagation over the graph: every operator P that turns base scores f into smoothed scores P f.

A *smoother* such as :class:`Laplacian` is a recipe: parameters, no data. ``smoother.on(graph)`` gives the
*operator*, a scipy ``LinearOperator`` that also knows its adjoint and a bound on its norm.
"""

from ebbflow.smoothing._base import IdentityOperator, Smoother, SmoothingOperator
from ebbflow.smoothing._kernel import Kernel
from ebbflow.smoothing._laplacian import Laplacian
from ebbflow.smoothing._solve import SparseSolver

__all__ = ["IdentityOperator", "Kernel", "Laplacian", "Smoother", "SmoothingOperator", "SparseSolver"]
