"""Operators, posteriors and labels on the GPU, with the interface of those of the core."""

from dataclasses import replace
from functools import cached_property, singledispatch
from typing import Any
from weakref import WeakKeyDictionary

import cupy
import numpy as np
from scipy import sparse

from ebboost.data.labels import Labels
from ebboost.field import Posterior, Prior
from ebboost.gpu.matrices import CudaMatrix
from ebboost.gpu.solver import CudaSolver
from ebboost.gpu.tiles import Tiles
from ebboost.learners.network import products
from ebboost.linalg import Solver
from ebboost.smoothing import ExactInverse, GradientSteps, Identity, Operator

PARTS = 128  # of the rows of a table, whose products are added up
#: Matrices and precisions that members share, by those of the core.
_moved: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


@singledispatch
def move(value: Any) -> Any:
    """Return a value on the GPU; what is there already, or has no arrays, as it is."""
    return value


@move.register
def _(value: np.ndarray) -> Any:
    return cupy.asarray(value)


@move.register
def _(value: sparse.csr_array) -> Any:
    return cupy.asarray(value.toarray())  # the few coefficients of a network's units


@products.register
def _(first: cupy.ndarray, second: cupy.ndarray) -> Any:
    # Of few rows and very many columns: products of parts, which use all of the GPU.
    width = first.shape[1] // PARTS
    left, right = (
        cupy.ascontiguousarray(one[:, : PARTS * width]).reshape(len(one), PARTS, width)
        for one in (first, second)
    )
    parts = left.transpose(1, 0, 2) @ right.transpose(1, 2, 0)
    rest = first[:, PARTS * width :] @ second[:, PARTS * width :].T
    return parts.sum(axis=0, dtype=np.float64) + rest


@move.register
def _(value: Labels) -> Labels:
    return replace(value, **{name: move(array) for name, array in vars(value).items()})


def once(make: Any, host: Any) -> Any:
    """Return what was made from an object of the core, made once."""
    if host not in _moved:
        _moved[host] = make(host)
    return _moved[host]


class OnHost(Operator):
    """An operator of the core, for which scores make their way to the CPU and back."""

    def __init__(self, host: Operator) -> None:
        self.host = host
        self.norm_bound, self.nonnegative = host.norm_bound, host.nonnegative

    def apply(self, scores: Any) -> Any:
        """Return P scores."""
        return cupy.asarray(self.host.apply(scores.get()))

    def adjoint(self, gradient: Any) -> Any:
        """Return Pᵀ gradient."""
        return cupy.asarray(self.host.adjoint(gradient.get()))

    @property
    def magnitude(self) -> Operator | None:
        """A map that bounds the entries of P in size."""
        bound = self.host.magnitude
        return None if bound is None else OnHost(bound)


class CudaSteps(Operator):
    """Gradient steps; of large graphs without weights, in single precision and in tiles."""

    def __init__(self, host: GradientSteps) -> None:
        self.norm_bound, self.nonnegative = host.norm_bound, host.nonnegative
        self.n_steps, self.alpha = host.n_steps, host.alpha
        self._host = host._step.matrix
        self._tiles = Tiles.of(self._host, host.alpha)

    @cached_property
    def _matrix(self) -> CudaMatrix:
        return CudaMatrix(self._host)

    def apply(self, scores: Any) -> Any:
        """Return the scores after k steps."""
        if self._tiles is not None:
            columns = [self._tiles.steps(one, self.n_steps, self.alpha) for one in scores.T]
            if not any(one is None for one in columns):
                return cupy.stack(columns, axis=1)
        z = scores
        for _ in range(self.n_steps):
            z = self._matrix.times(z, self.alpha, scores)
        return z


class CudaInverse(Operator):
    """The exact minimiser, by conjugate gradients."""

    def __init__(self, host: ExactInverse) -> None:
        solver = host._solver
        diagonal = cupy.asarray(solver.diagonal)
        self._solver = CudaSolver(CudaMatrix(solver.matrix.matrix), diagonal)

    def apply(self, scores: Any) -> Any:
        """Return the solution of (I + λL) Z = scores."""
        return self._solver.solve(scores)


class CudaPrior:
    """A precision matrix; what the core factorises, it factorises here too."""

    def __init__(self, host: Prior) -> None:
        self.host, self.structure, self.n_nodes = host, host.structure, host.n_nodes
        self.matrix = CudaMatrix(host.matrix.matrix)
        self.diagonal = cupy.asarray(host.diagonal)
        self.data, self.noise = host.data, host.noise

    def system(self, on_nodes: Any, near: Solver | None = None, once: bool = False) -> Any:
        """Return the solver of Q + diag(h), for h of shape (n_nodes,)."""
        has_factor = near is not None and near._factor is not None
        if self.structure.factorises(once) and not has_factor:
            return self.host.system(on_nodes.get(), None, once)
        return CudaSolver(self.matrix, self.diagonal + on_nodes, on_nodes, near)


class CudaPosterior(Posterior):
    """The field given labels, on the GPU."""

    def __init__(self, host: Posterior) -> None:
        self.prior: Any = once(CudaPrior, host.prior)
        self.nodes: Any = cupy.asarray(host.nodes)
        self._is_unique = host._is_unique
        if not self._is_unique:  # sums in an order that is the same in every fit
            size = host.nodes.size
            ends = (host.nodes, np.arange(size))
            shape = (host.prior.n_nodes, size)
            self._members = CudaMatrix(sparse.csr_array((np.ones(size), ends), shape=shape))

    def sums(self, values: Any) -> Any:
        """Return Sᵀv: sums over the labels of each node, of values of shape (m, c)."""
        return super().sums(values) if self._is_unique else self._members.times(values)

    def solve(
        self, curvature: Any, right: Any, tolerance: float, near: Solver | None = None
    ) -> Any:
        """Solve one system for b of shape (n_nodes, c), each column with its own curvature."""
        columns = []
        for number in range(right.shape[1]):
            own = curvature[:, [number if curvature.shape[1] > 1 else 0]]
            solver = self.solver(own, near, once=True)
            columns.append(solver.solve(right[:, number], tolerance))
        return cupy.stack(columns, axis=1)


@move.register
def _(value: Operator) -> Operator:
    is_here = isinstance(value, (OnHost, CudaSteps, CudaInverse, Identity))
    return value if is_here else OnHost(value)


@move.register
def _(value: GradientSteps) -> Operator:
    return once(CudaSteps, value)


@move.register
def _(value: ExactInverse) -> Operator:
    return OnHost(value) if value._solver.is_direct else once(CudaInverse, value)


@move.register
def _(value: Posterior) -> Posterior:
    return value if isinstance(value, CudaPosterior) else CudaPosterior(value)
