"""Propagation over the graph: every operator P that turns base scores f into smoothed scores P f.

A *smoother* such as :class:`Laplacian` has parameters and no data. ``smoother.operator(graph)`` is
the *operator*, a scipy ``LinearOperator`` with an adjoint and a bound on its norm. That of
:class:`Robust` is not linear, but has such a linear operator at each point.
"""

from ebboost._native import allowed_threads, threads
from ebboost.propagation._bounds import Contraction
from ebboost.propagation._cg import conjugate_gradients
from ebboost.propagation._compiled import sweep_on
from ebboost.propagation._factor import Factor
from ebboost.propagation._matrix import GraphMatrix
from ebboost.propagation._solver import SparseSolver
from ebboost.propagation._sweep import Arranged, Steps, Sweep, System, Terms, add_terms
from ebboost.propagation.base import IdentityOperator, Propagation, PropagationOperator, Smoother
from ebboost.propagation.kernel import Kernel
from ebboost.propagation.laplacian import Laplacian
from ebboost.propagation.robust import EdgeWeights, Robust

__all__ = ["Arranged", "Contraction", "EdgeWeights", "Factor", "GraphMatrix", "IdentityOperator"]
__all__ += ["Kernel", "Laplacian", "Propagation", "PropagationOperator", "Robust", "Smoother"]
__all__ += ["SparseSolver", "Steps", "Sweep", "System", "Terms", "add_terms", "allowed_threads"]
__all__ += ["conjugate_gradients", "sweep_on", "threads"]
