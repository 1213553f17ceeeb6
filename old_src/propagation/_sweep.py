"""One pass over the edges of a graph, scale∘(A v) + keep∘v + source: all that propagation needs.

:class:`Sweep` is what each backend implements: scipy here, compiled loops in `_compiled.py`, a GPU
or a cluster in `ebboost.backends`. Steps and conjugate gradients are written once on top of it;
a backend overrides them where it has something faster.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ebboost.data.types import AnyArray, Array, IntArray
from ebboost.propagation._cg import conjugate_gradients

Vector = NDArray[Any]
Tables = Sequence[Array | None]
#: scale, keep and source of a sweep.
Terms = Sequence[Vector | None]
#: Diagonal of a system, its inverse, and by what the entries of a residual are multiplied.
System = tuple[AnyArray, AnyArray, AnyArray]


class Sweep(ABC):
    """The edges of one graph, ready to be swept."""

    #: Iterations of conjugate gradients between two looks at the residual.
    check_every = 1
    #: Whether columns of a system are solved faster one after the other.
    solves_columns = False

    def __init__(self, n_nodes: int) -> None:
        self.n_nodes = n_nodes

    def __call__(
        self,
        v: AnyArray,
        scale: AnyArray = None,
        keep: AnyArray = None,
        source: AnyArray = None,
        out: AnyArray = None,
    ) -> AnyArray:
        """Return scale∘(A v) + keep∘v + source, written to ``out`` if there is one.

        ``v`` is float32 or float64 of shape (n,) or (n, c), as are ``source`` and ``out``, which
        must not be ``v``; ``scale`` and ``keep`` are of shape (n,).
        """
        self.check_rows(v)
        dtype = np.float32 if v.dtype == np.float32 else np.float64
        v = np.ascontiguousarray(v, dtype=dtype, like=v)
        out = np.empty_like(v) if out is None else out
        self._write(v, out, (scale, keep, source))
        return out

    @abstractmethod
    def _write(self, v: AnyArray, out: AnyArray, terms: Terms) -> None:
        """Write the sweep to ``out``."""

    def steps(
        self, root: AnyArray, scale: AnyArray, keep: AnyArray, alpha: float, count: int
    ) -> "Steps":
        """Return the map of scores that :class:`Steps` describes, for float64 vectors."""
        return Steps(self, (root, scale, keep), alpha, count)

    def conjugate_gradients(
        self, right: AnyArray, system: System, target: float, max_iter: int
    ) -> tuple[Any, float]:
        """Solve (diag(diagonal) − A) z = right, one column in float64.

        Stops when the residual, its entries times ``size``, is no longer than ``target``; also
        returns that length.
        """
        diagonal, inverse, size = system
        multiply = partial(self, scale=-np.ones_like(right), keep=diagonal)
        check = (target, max_iter, size, self.check_every)
        z, length = conjugate_gradients(multiply, right, partial(np.multiply, inverse), *check)
        return z, float(length)

    def arranged(self, dtype: np.dtype[Any]) -> "Arranged":
        """Return the order in which vectors of a float type are swept."""
        return Arranged(self)

    def with_halo(self, values: AnyArray) -> AnyArray:
        """Return values of all nodes that are neighbours of rows: of these too if all are here."""
        return values

    def check_rows(self, values: AnyArray) -> None:
        """Raise ValueError unless there is a row for each node."""
        if len(values) != self.n_nodes:
            expected = f"a row for each of the {self.n_nodes} nodes"
            raise ValueError(f"Scores must have {expected}, got shape {values.shape}.")


class Arranged:
    """Vectors of numbers of nodes in the order in which they are swept: here that of the nodes."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep

    def positions(self, nodes: IntArray) -> IntArray:
        """Return where vectors have the numbers of some nodes."""
        return nodes

    def work(self, count: int, dtype: np.dtype[Any]) -> Vector:
        """Return ``count`` vectors to write to."""
        return np.zeros((count, self._sweep.n_nodes), dtype)

    def arrange(self, vector: Vector, out: Vector) -> None:
        """Write numbers of nodes to a vector."""
        out[:] = vector

    def restore(self, vector: Vector) -> Vector:
        """Return a copy as numbers of nodes."""
        return vector.copy()

    def renew(self, vector: Vector) -> None:
        """Have a vector swept as it is, after some of its entries have changed."""

    def sweep(self, v: Vector, out: Vector, scale: Vector, keep: Vector, source: Vector) -> None:
        """Write scale∘(A v) + keep∘v + source to ``out``."""
        self._sweep(v, scale, keep, source, out=out)

    def sums(self, residual: Array, scaled: Array, image: Array, size: Array) -> Array:
        """Return the sums of an iteration of conjugate gradients: r·s, s·image and |size∘r|²."""
        sized = size * residual
        pairs = ((residual, scaled), (scaled, image), (sized, sized))
        return np.array([(one * other).sum() for one, other in pairs])

    def advance(
        self, beta: float, step: float, inverse: Array, newest: Array, *state: Array
    ) -> None:
        """Take a step of conjugate gradients: ``state`` is s, direction, image, z and residual."""
        scaled, direction, image, z, residual = state
        direction *= beta
        direction += scaled
        image *= beta
        image += newest
        z += step * direction
        residual -= step * image
        np.multiply(inverse, residual, out=scaled)


class Steps:
    """The map f ↦ v/root after k sweeps v ← scale∘(A v) + keep∘v + α v⁰ from v⁰ = root∘f.

    Takes scores of shape (n,) or (n, c) and returns the same shape and float type.
    """

    def __init__(self, sweep: Sweep, vectors: Sequence[AnyArray], alpha: float, count: int) -> None:
        self.sweep = sweep
        self.alpha = alpha
        self.count = count
        double = np.dtype(np.float64)
        self._vectors = {double: tuple(vector.astype(double, copy=False) for vector in vectors)}

    def __reduce__(self) -> tuple[Any, ...]:
        vectors = self._vectors[np.dtype(np.float64)]
        return type(self), (self.sweep, vectors, self.alpha, self.count)

    def vectors(self, dtype: np.dtype[Any]) -> tuple[Any, ...]:
        """Return root, scale and keep in the float type of some scores, converted once."""
        dtype = np.dtype(np.float32 if dtype == np.float32 else np.float64)
        if dtype not in self._vectors:
            vectors = self._vectors[np.dtype(np.float64)]
            self._vectors[dtype] = tuple(vector.astype(dtype) for vector in vectors)
        return self._vectors[dtype]

    def __call__(self, scores: AnyArray) -> AnyArray:
        """Return the scores after the steps."""
        self.sweep.check_rows(scores)
        root, scale, keep = self.vectors(scores.dtype)
        root = root if scores.ndim == 1 else root[:, None]
        v = np.ascontiguousarray(root * scores, like=scores)
        source = self.alpha * v
        other = np.empty_like(v)
        for _ in range(self.count):
            v, other = self.sweep(v, scale, keep, source, out=other), v
        v /= root
        return v


class ScipySweep(Sweep):
    """A sweep by scipy's product, a third as fast as the compiled loops."""

    def __init__(self, adjacency: sparse.csr_array) -> None:
        super().__init__(adjacency.shape[0])
        # Of the same arrays, which scipy may not replace here.
        self.adjacency = copy.copy(adjacency)
        self._by_type = {np.dtype(np.float64): self.adjacency}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.adjacency,)

    def _write(self, v: Vector, out: Vector, terms: Terms) -> None:
        out[...] = self.adjacency_in(v.dtype) @ v
        add_terms(out, v, terms)

    def release(self) -> None:
        """Free vectors that only speed up further sweeps."""

    def adjacency_in(self, dtype: np.dtype[Any]) -> sparse.csr_array:
        """Return the adjacency in a float type, converted once."""
        adjacency = self._by_type.get(dtype)
        if adjacency is None:  # of two threads, both use the copy that was stored first
            adjacency = self._by_type.setdefault(dtype, self.adjacency.astype(dtype))
        return adjacency

    def neighbor_statistics(
        self, values: Vector, rows: IntArray, sums: Array | None, out: Tables, missing: float
    ) -> None:
        """Write the weighted mean, minimum and maximum of ``values`` over the neighbours of rows.

        ``out`` has a table of len(rows) rows for each of the three, columns of one float64 table,
        or None. Means are divided by ``sums``, the sum of the weights of each node; if that is
        None, values may be NaN and are left out. ``missing`` is written where no value is.
        """
        edges = self.adjacency[rows]
        connected = np.flatnonzero(np.diff(edges.indptr) > 0)
        starts = edges.indptr[connected]
        positions = np.arange(edges.nnz)
        per_edge = sparse.csr_array((edges.data, positions, edges.indptr), (rows.size, edges.nnz))
        for column in range(values.shape[1]):
            neighbors = values[edges.indices, column].astype(np.float64)
            present = ~np.isnan(neighbors) if sums is None else np.ones(edges.nnz, dtype=bool)
            mean, *extremes = (None if table is None else table[:, column] for table in out)
            if mean is not None:
                total = per_edge @ np.where(present, neighbors, 0.0)
                mass = per_edge @ present.astype(float) if sums is None else sums[rows]
                mean[...] = missing
                np.divide(total, mass, out=mean, where=mass > 0)
            picks = ((np.minimum, np.inf), (np.maximum, -np.inf))
            for table, (pick, limit) in zip(extremes, picks, strict=True):
                if table is not None:
                    table[...] = missing
                    picked = pick.reduceat(np.where(present, neighbors, limit), starts)
                    table[connected] = np.where(picked == limit, missing, picked)


def add_terms(product: Vector, v: Vector, terms: Terms) -> None:
    """Turn A v into scale∘(A v) + keep∘v + source, in place."""
    scale, keep, source = terms
    columnwise = (slice(None),) if v.ndim == 1 else (slice(None), None)
    if scale is not None:
        product *= scale[columnwise]
    if keep is not None:
        product += keep[columnwise] * v
    if source is not None:
        product += source
