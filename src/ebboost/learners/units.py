"""Random ReLU units of a network: their inputs, values and Shapley values."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from operator import add
from typing import Any, TypeVar

import numpy as np
from scipy.special import ndtri

from ebboost.data.table import Table
from ebboost.data.types import Array, IntArray

UNIT_COLUMNS = 3
MAX_LEVELS = 20  # of a category that have an indicator
MIN_LEVEL_ROWS = 10
KNOTS = 65  # of the normal scores of a column, at its quantiles
OUTERMOST = 0.002  # rank beyond which normal scores are constant
NUMBER = -1  # in place of a level
MISSING = -2
Float32 = np.ndarray[Any, np.dtype[np.float32]]
Floats = TypeVar("Floats", Array, Float32)  # in double or single precision


@dataclass(frozen=True)
class Scaling:
    """Inputs of the units: normal scores of columns, and indicators of levels and missing values.

    ``source`` is the column of each input, ``level`` its category, NUMBER or MISSING.
    """

    source: IntArray
    level: IntArray
    knots: Array
    scores: Array

    @classmethod
    def fit(cls, table: Table) -> "Scaling":
        """Return the inputs of a table; columns of one value have none."""
        inputs: list[tuple[int, int, Array, Array]] = []
        nothing = np.zeros(KNOTS)
        for column in range(len(table.names)):
            values = table.values[:, column]
            known = np.sort(values[~np.isnan(values)])
            if column in table.categorical:
                levels, counts = np.unique(known, return_counts=True)
                order = np.argsort(-counts, kind="stable")[:MAX_LEVELS]
                is_used = (counts[order] >= MIN_LEVEL_ROWS) & (counts[order] < values.size)
                inputs += [(column, int(one), nothing, nothing) for one in levels[order][is_used]]
            elif known.size and known[0] < known[-1]:
                inputs.append((column, NUMBER, *_normal_scores(known)))
            if MIN_LEVEL_ROWS <= values.size - known.size < values.size:
                inputs.append((column, MISSING, nothing, nothing))
        empty = np.zeros((0, KNOTS))
        return cls(
            np.array([one[0] for one in inputs], dtype=np.int64),
            np.array([one[1] for one in inputs], dtype=np.int64),
            np.array([one[2] for one in inputs]) if inputs else empty,
            np.array([one[3] for one in inputs]) if inputs else empty,
        )

    def transform(self, values: Any) -> Array:
        """Return the inputs of rows, 0 where a number is missing."""
        result = np.empty((len(values), self.source.size))
        for number, (column, level) in enumerate(zip(self.source, self.level, strict=True)):
            own = np.asarray(values[:, column], dtype=np.float64)
            if level == NUMBER:
                scores = np.interp(own, self.knots[number], self.scores[number])
                result[:, number] = np.where(np.isnan(own), 0.0, scores)
            else:
                result[:, number] = np.isnan(own) if level == MISSING else own == level
        return result

    def limited(self, limits: Array) -> "Scaling":
        """Return these inputs with numbers that are constant below and above limits of them."""
        knots = self.knots.copy()
        scores = self.scores.copy()
        for number in np.flatnonzero(np.isfinite(limits).any(axis=0)):
            ends = np.interp(limits[:, number], scores[number], knots[number])
            knots[number] = knots[number].clip(*ends)
            scores[number] = scores[number].clip(*limits[:, number])
        return replace(self, knots=knots, scores=scores)

    def equals(self, other: "Scaling") -> bool:
        """Whether both have the same inputs."""
        names = self.__dataclass_fields__
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)


def _normal_scores(known: Array) -> tuple[Array, Array]:
    """Quantiles of sorted values, the last repeated, and the normal scores of their ranks."""
    knots = np.unique(np.quantile(known, np.linspace(0.0, 1.0, KNOTS), method="nearest"))
    ranks = np.searchsorted(known, knots, "left") + np.searchsorted(known, knots, "right")
    scores = ndtri(np.clip(ranks / (2.0 * known.size), OUTERMOST, 1.0 - OUTERMOST))
    padding = KNOTS - knots.size
    return np.pad(knots, (0, padding), "edge"), np.pad(scores, (0, padding), "edge")


@dataclass(frozen=True)
class Units:
    """Units of some rounds: the inputs of each, its coefficients and bias; weights with bias last.

    A round with K units has K rows of the first three arrays, and K + 1 of ``outputs``.
    """

    inputs: IntArray
    coefficients: Float32
    biases: Float32
    outputs: Float32

    def directions(self, n_inputs: int) -> Array:
        """Return the coefficients as a matrix with a column for each unit."""
        result = np.zeros((n_inputs, len(self.inputs)))
        columns = np.arange(len(self.inputs))
        for position in range(UNIT_COLUMNS):
            entries = (self.inputs[:, position], columns)
            np.add.at(result, entries, self.coefficients[:, position].astype(np.float64))
        return result

    def round(self, number: int, n_units: int) -> "Units":
        """Return the units of one round."""
        own = slice(number * n_units, (number + 1) * n_units)
        weights = self.outputs[number * (n_units + 1) : (number + 1) * (n_units + 1)]
        return Units(self.inputs[own], self.coefficients[own], self.biases[own], weights)

    def hidden(self, rows: Floats, directions: Floats) -> Floats:
        """Return the values of the units, whose directions are given, at rows of inputs."""
        values: Floats = rows @ directions
        values += self.biases
        return np.maximum(values, 0.0, out=values)

    def weighted(self, hidden: Array) -> Array:
        """Return the outputs of one round from the values of its units."""
        return hidden @ self.outputs[:-1].astype(np.float64) + self.outputs[-1]

    @staticmethod
    def concat(parts: "Sequence[Units]") -> "Units":
        """Return the units of several rounds as one."""
        names = Units.__dataclass_fields__
        return Units(*(np.concatenate([getattr(one, name) for one in parts]) for name in names))


def shapley_values(units: Units, rows: Array) -> list[Array]:
    """Shapley values of the inputs of each unit, by position, against inputs of 0."""
    terms = [
        rows[:, units.inputs[:, position]] * units.coefficients[:, position].astype(np.float64)
        for position in range(UNIT_COLUMNS)
    ]

    def value(members: Sequence[int]) -> Array:
        return np.maximum(reduce(add, [terms[one] for one in members], units.biases), 0.0)

    shares = {0: 1.0 / 3.0, 1: 1.0 / 6.0, 2: 1.0 / 3.0}  # |S|! (2 − |S|)! / 3!
    result = []
    for position in range(UNIT_COLUMNS):
        others = [one for one in range(UNIT_COLUMNS) if one != position]
        total = np.zeros_like(terms[0])
        for size, share in shares.items():
            for members in combinations(others, size):
                total += share * (value([*members, position]) - value(members))
        result.append(total)
    return result
