"""Projection of the negative gradient on a tree, in the norm of the curvature."""

import math
from typing import NamedTuple

import numpy as np

from ebboost._native import COMPILED
from ebboost.data.sharded import ShardedArray
from ebboost.data.types import Array

# Curvatures below this share of the largest are rounding errors: nodes there have no gradient
# either.
NEGLIGIBLE_CURVATURE = 1e-12


class Projection(NamedTuple):
    """The projection ``length · tree`` and the cosine of the angle; Γ is the least of these."""

    length: float
    cosine: float


def project_on_tree(gradient: Array, curvature: Array, tree: Array) -> Projection:
    """Return the projection of −gradient/curvature on a tree, for ‖v‖² = Σ curvature·v².

    Trees are fitted in this norm, and the loss is 1-smooth in it, because the curvature majorises
    its Hessian. With a constant curvature it is the norm of the paper.
    """
    floor = NEGLIGIBLE_CURVATURE * float(curvature.max()) or 1.0
    inner, tree_norm, gradient_norm = directional_sums(gradient, curvature, tree, floor)
    if tree_norm <= 0.0 or gradient_norm <= 0.0:
        return Projection(0.0, 0.0)
    return Projection(-inner / tree_norm, -inner / math.sqrt(tree_norm * gradient_norm))


def directional_sums(
    gradient: Array, curvature: Array, direction: Array, floor: float = 0.0
) -> tuple[float, float, float]:
    """Return Σ g·v, Σ d·v² and, for a positive ``floor``, Σ g²/max(d, floor), else 0."""
    shape = direction.shape
    if isinstance(direction, ShardedArray):
        local = [np.asarray(part) for part in (gradient, curvature, direction)]
        own = np.array(directional_sums(local[0], local[1], local[2], floor))
        first, second, third = direction.workers.allreduce(own).tolist()
        return first, second, third
    if (
        COMPILED is not None
        and type(direction) is np.ndarray
        and gradient.shape == curvature.shape == shape
    ):
        inputs = (gradient, curvature, direction)
        arrays = [np.ascontiguousarray(array, dtype=np.float64) for array in inputs]
        addresses = [array.ctypes.data for array in arrays]
        result = np.empty(3)
        COMPILED.ebboost_along(direction.size, *addresses, floor, result.ctypes.data)
        first, second, third = result.tolist()
        return first, second, third
    sums = [_sum_of_products(gradient, direction)]
    sums.append(_sum_of_products(np.broadcast_to(curvature, shape), direction, direction))
    if floor > 0.0:
        sums.append(_sum_of_products(gradient, gradient / np.maximum(curvature, floor)))
    # Converted only now: a GPU computes all three before it is waited for.
    first, second, *rest = map(float, sums)
    return first, second, rest[0] if rest else 0.0


def _sum_of_products(first: Array, *others: Array) -> np.float64:
    """Sum of entrywise products, by einsum, which allocates nothing but is slow on a GPU."""
    if isinstance(first, np.ndarray):
        return np.einsum(",".join(["ij"] * (1 + len(others))) + "->", first, *others)
    return math.prod(others, start=first).sum()
