"""Random ReLU units of a network: their inputs, values and Shapley values."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from operator import add
from typing import Any, TypeVar

import numpy as np
from scipy.special import ndtri

from ebboost._native import COMPILED
from ebboost.data.sharded import (
    of_all_rows,
    shard_like,
    sorted_statistics,
    sum_over_workers,
    total_rows,
)
from ebboost.data.table import Table
from ebboost.data.types import Array, IntArray

UNIT_COLUMNS = 3
BLOCK_ROWS = 1024  # whose units are computed at once: they stay in the processor's cache
MAX_LEVELS = 20  # of a category that have an indicator
MIN_LEVEL_ROWS = 10
COLUMNS_AT_ONCE = 16  # whose quantiles are found together, of rows in several workers
KNOTS = 65  # of the normal scores of a column, at its quantiles
ROUNDING = 1e-6  # relative error of values that count as equal
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
        n_columns = len(table.names)
        for start in range(0, n_columns, COLUMNS_AT_ONCE):
            inputs += _inputs(table, range(start, min(start + COLUMNS_AT_ONCE, n_columns)))
        empty = np.zeros((0, KNOTS))
        return cls(
            np.array([one[0] for one in inputs], dtype=np.int64),
            np.array([one[1] for one in inputs], dtype=np.int64),
            np.array([one[2] for one in inputs]) if inputs else empty,
            np.array([one[3] for one in inputs]) if inputs else empty,
        )

    def transform(self, values: Any) -> Array:
        """Return the inputs of rows, 0 where a number is missing."""
        result = np.empty((len(values), self.source.size), order="F")
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


def _inputs(table: Table, columns: range) -> list[tuple[int, int, Array, Array]]:
    """Column, level, knots and scores of the inputs of some columns, of all workers' rows."""
    values = table.values
    n_rows = total_rows(values)
    nothing = np.zeros(KNOTS)
    known = []
    for column in columns:
        own = np.asarray(values[:, column], dtype=np.float64)
        known.append(np.sort(own[~np.isnan(own)]))
    sizes = sum_over_workers(np.array([one.size for one in known], dtype=np.float64), values)
    n_known = dict(zip(columns, sizes.astype(np.int64).tolist(), strict=True))
    numbers = [one for one in columns if n_known[one] and one not in table.categorical]
    scores = _normal_scores(
        [known[one - columns[0]] for one in numbers], [n_known[one] for one in numbers], values
    )
    inputs = []
    for column in columns:
        if column in table.categorical:
            own = known[column - columns[0]]
            levels = np.unique(of_all_rows(shard_like(np.unique(own), values)))
            counts = sum_over_workers(_doubled_ranks(own, levels)[1], values)
            order = np.argsort(-counts, kind="stable")[:MAX_LEVELS]
            is_used = (counts[order] >= MIN_LEVEL_ROWS) & (counts[order] < n_rows)
            inputs += [(column, int(one), nothing, nothing) for one in levels[order][is_used]]
        elif column in numbers:
            knots, normal = scores[numbers.index(column)]
            if knots[0] < knots[-1]:
                inputs.append((column, NUMBER, knots, normal))
        if MIN_LEVEL_ROWS <= n_rows - n_known[column] < n_rows:
            inputs.append((column, MISSING, nothing, nothing))
    return inputs


def _doubled_ranks(known: Array, points: Array, width: Array | float = 0.0) -> Array:
    """Twice the mean rank of each point among sorted values, and how many values equal it.

    Values within the ``width`` of a point are equal to it.
    """
    below = np.searchsorted(known, points - width, "left")
    up_to = np.searchsorted(known, points + width, "right")
    return np.array([below + up_to, up_to - below], dtype=np.float64)


def _distinct(points: Array) -> tuple[Array, Array]:
    """Sorted points that differ by more than rounding, and by how much values equal to one may.

    Ranks of values that are equal but for rounding, such as those of a spectral embedding at nodes
    of the same degree, would be noise.
    """
    size = np.abs(points)
    width = ROUNDING * (size + 0.1 * np.median(size))
    is_new = np.append(True, np.diff(points) > width[1:])[: points.size]
    return points[is_new], width[is_new]


def _normal_scores(
    known: Sequence[Array], sizes: Sequence[int], like: Any
) -> list[tuple[Array, Array]]:
    """Quantiles of sorted columns, the last repeated, and the normal scores of their ranks.

    ``sizes`` are those of the columns, the rows of other workers included if ``like`` is sharded.
    """
    if not known:
        return []
    shares = np.linspace(0.0, 1.0, KNOTS)
    ranks = [np.rint(shares * (size - 1)).astype(np.int64) + 1 for size in sizes]
    distinct = [_distinct(np.unique(one)) for one in sorted_statistics(known, ranks, like)]
    knots = [points for points, _ in distinct]
    doubled = [_doubled_ranks(one, *own)[0] for one, own in zip(known, distinct, strict=True)]
    parts = np.split(
        sum_over_workers(np.concatenate(doubled), like), np.cumsum([one.size for one in knots])[:-1]
    )
    result = []
    for points, rank, size in zip(knots, parts, sizes, strict=True):
        scores = ndtri(np.clip(rank / (2.0 * size), OUTERMOST, 1.0 - OUTERMOST))
        padding = (0, KNOTS - points.size)
        result.append((np.pad(points, padding, "edge"), np.pad(scores, padding, "edge")))
    return result


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
            result[self.inputs[:, position], columns] += self.coefficients[:, position]
        return result

    def round(self, number: int, n_units: int) -> "Units":
        """Return the units of one round."""
        own = slice(number * n_units, (number + 1) * n_units)
        weights = self.outputs[number * (n_units + 1) : (number + 1) * (n_units + 1)]
        return Units(self.inputs[own], self.coefficients[own], self.biases[own], weights)

    def hidden(self, columns: Floats) -> Floats:
        """Return the values of the units at columns of inputs, a row for each unit."""
        directions = self.directions(len(columns)).astype(columns.dtype)
        values: Floats = directions.T @ columns
        values += self.biases[:, None]
        return np.maximum(values, 0.0, out=values)

    def times(self, columns: Float32, factors: Float32) -> Float32:
        """Return :meth:`hidden` and a constant 1 as the last row, times a factor for each column.

        ``columns`` may be a part of a larger array in the order of C.
        """
        n_units = len(self.inputs)
        n_rows = columns.shape[1]
        result = np.empty((n_units + 1, n_rows), dtype=np.float32)
        if COMPILED is None:
            result[:-1] = factors * self.hidden(columns)
            result[-1] = factors
            return result
        sizes = (n_rows, columns.strides[0] // columns.itemsize, n_units)
        arrays = (columns, *self._parameters, factors, result)
        COMPILED.ebboost_hidden(*sizes, *(array.ctypes.data for array in arrays))
        return result

    def sums(self, columns: Float32, weight: Array, targets: Array) -> Array:
        """Return the sums of w h and w h², and of t h for each row t of ``targets``, for each unit.

        In double precision: what is chosen by them shall not depend on how workers divide the rows.
        """
        if COMPILED is None:
            hidden = self.hidden(columns.astype(np.float64))
            return np.vstack([hidden @ weight, hidden**2 @ weight, targets @ hidden.T])
        n_units = len(self.inputs)
        n_rows = columns.shape[1]
        result = np.empty((len(targets) + 2, n_units))
        sizes = (n_rows, columns.strides[0] // columns.itemsize, n_units, len(targets))
        arrays = (columns, *self._parameters, weight, targets, result)
        COMPILED.ebboost_unit_sums(*sizes, *(array.ctypes.data for array in arrays))
        return result

    @property
    def _parameters(self) -> tuple[np.ndarray, ...]:
        """Inputs, coefficients and biases as compiled loops read them."""
        inputs = np.ascontiguousarray(self.inputs, dtype=np.int64)
        singles = (self.coefficients, self.biases)
        return inputs, *(np.ascontiguousarray(one, dtype=np.float32) for one in singles)

    def scores(self, rows: Array) -> Array:
        """Return the outputs of one round at rows of inputs."""
        columns = np.ascontiguousarray(rows.T, dtype=np.float64)
        n_rows = columns.shape[1]
        result = np.empty((self.outputs.shape[1], n_rows))
        if COMPILED is not None:
            sizes = (n_rows, len(self.inputs), len(result))
            outputs = np.ascontiguousarray(self.outputs, dtype=np.float32)
            arrays = (columns, *self._parameters, outputs, result)
            COMPILED.ebboost_units(*sizes, *(array.ctypes.data for array in arrays))
            return result.T
        weights = self.outputs.astype(np.float64)
        for block in blocks(n_rows):
            result[:, block] = weights[:-1].T @ self.hidden(columns[:, block]) + weights[-1:].T
        return result.T

    @staticmethod
    def concat(parts: "Sequence[Units]") -> "Units":
        """Return the units of several rounds as one."""
        names = Units.__dataclass_fields__
        return Units(*(np.concatenate([getattr(one, name) for one in parts]) for name in names))


def blocks(n_rows: int) -> Iterator[slice]:
    """Slices of all rows."""
    for start in range(0, n_rows, BLOCK_ROWS):
        yield slice(start, start + BLOCK_ROWS)


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
