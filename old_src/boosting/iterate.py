"""A point f of the function space: a weighted sum of trees, and P applied to it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, cast

from ebboost.data.types import Array

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Iterate:
    """The model after some rounds: scores of every node, the same after propagation, tree weights.

    Attributes
    ----------
    scores : ndarray of shape (n, c)
        f on every node.
    propagated : ndarray or callable
        P f, if P is linear: it then moves as the scores do. Otherwise a function of the iterate
        that computes it on first use. Objectives may append columns of their own.
    weights : tuple of float
        The weight of each tree grown so far.
    cache : dict
        Quantities computed at this point, by name.
    """

    scores: Array
    propagated: Array | Callable[["Iterate"], Array]
    weights: tuple[float, ...] = ()
    cache: dict[str, object] = field(default_factory=dict, repr=False)

    def cached(self, name: str, compute: Callable[[], T]) -> T:
        """Return the quantity ``name`` at this point, computed on first use."""
        if name not in self.cache:
            self.cache[name] = compute()
        return cast(T, self.cache[name])

    @property
    def smoothed(self) -> Array:
        """P applied to the scores."""
        propagated = self.propagated
        if callable(propagated):
            return self.cached("smoothed", lambda: propagated(self))
        return propagated

    def take_step(self, step: float, tree: Array, smoothed_tree: Array) -> "Iterate":
        """Return f + step·tree, with one tree more."""
        propagated = self.propagated
        if not callable(propagated):
            propagated = _add_multiple(propagated, step, smoothed_tree)
        return Iterate(_add_multiple(self.scores, step, tree), propagated, (*self.weights, step))

    def interpolate(self, other: "Iterate", theta: float) -> "Iterate":
        """Return (1−θ)f + θ·other."""
        pairs = zip(self.weights, other.weights, strict=True)
        propagated = self.propagated
        if not callable(propagated):
            propagated = (1.0 - theta) * propagated + theta * other.smoothed
        scores = (1.0 - theta) * self.scores + theta * other.scores
        weights = tuple((1.0 - theta) * a + theta * b for a, b in pairs)
        return Iterate(scores, propagated, weights)


def _add_multiple(start: Array, step: float, direction: Array) -> Array:
    result = step * direction
    result += start
    return result
