"""Layers of random ReLU units with ridge regression on top: smooth functions, where trees step.

Columns are transformed to normal scores, categories to indicators. Each round draws units
max(0, a·x + b) of up to three columns, and solves a ridge regression for their weights, so that a
round takes a few matrix products. The Shapley values of a unit of three columns are exact sums of
eight terms.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from numbers import Integral, Real
from operator import add
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.linalg import solve
from scipy.special import ndtri

from ebboost.data.archive import parse_npy
from ebboost.data.table import Table
from ebboost.data.types import Array, IntArray
from ebboost.learners.base import Ensemble, Learner, TreeGrower, newton_target

UNIT_COLUMNS = 3
MAX_LEVELS = 20  # of a category that have an indicator
MIN_LEVEL_ROWS = 10
KNOTS = 65  # of the normal scores of a column, at its quantiles
OUTERMOST = 0.002  # rank beyond which normal scores are constant
# Share of the rows beyond those with labels, above which an input is constant there, as trees are.
# Units go on beyond the last label and forecast a trend: RMSE of Lucas in 1995 and 1996 from labels
# before .553, constant .341 (trees .328); of later sales of King County .162 and .158.
BEYOND = 0.05
BLOCK_ROWS = 8192  # predicted at once
IMPORTANCE_ROWS = 256  # whose contributions measure the importance of columns
NUMBER = -1  # in place of a level
MISSING = -2
Float32 = np.ndarray[Any, np.dtype[np.float32]]


class RandomNetwork(Learner):
    """Random ReLU units whose weights are found by ridge regression, anew each round.

    Its functions are smooth where those of trees are piecewise constant. The default averages
    models of it with models of trees if that lowers the error at held-out labels.

    Parameters
    ----------
    n_units : int, default=64
        Units of a round.
    ridge : float, default=0.001
        Penalty of their weights, in units of the mean square of a unit.

    Examples
    --------
    >>> import ebboost as eb
    >>> X, y, graph, splits = eb.datasets.load_elect80()
    >>> train = splits[0]["train"]
    >>> model = eb.EBBSRegressor(
    ...     learner=eb.RandomNetwork(),
    ...     learning_rate=0.3,
    ...     smoothing=None,
    ...     labels="field",
    ...     random_state=0,
    ... )
    >>> _ = model.fit(X, y[train], nodes=train, graph=graph)
    >>> bool(model.score(X, y, nodes=splits[0]["test"]) > 0.7)
    True
    """

    name = "network"
    is_concurrent = True

    def __init__(self, n_units: int = 64, ridge: float = 1e-3) -> None:
        self.n_units = n_units
        self.ridge = ridge

    def start(
        self, table: Table, *, n_outputs: int, seed: int, n_jobs: int, device: str
    ) -> "NetworkGrower":
        """Transform the columns; see :meth:`Learner.start`."""
        self.check(device)
        if table.is_sparse:
            raise ValueError("learner='network' needs a table that is not sparse: use 'lightgbm'.")
        if not (isinstance(self.n_units, Integral) and self.n_units > 0):
            raise ValueError(f"n_units must be a positive integer, got {self.n_units!r}.")
        if not (isinstance(self.ridge, Real) and self.ridge > 0.0):
            raise ValueError(f"ridge must be a positive number, got {self.ridge!r}.")
        scaling = Scaling.fit(table)
        rows = scaling.transform(table.values)
        return NetworkGrower(self, scaling, rows, (n_outputs, len(table.names)), seed)

    @classmethod
    def load(cls, files: dict[str, bytes]) -> "NetworkEnsemble":
        """Return the units in a model file; see :meth:`Learner.load`."""
        arrays = {}
        own = ("weights", "importance")
        for name in (*Scaling.__dataclass_fields__, *Units.__dataclass_fields__, *own):
            arrays[name] = parse_npy(files[f"network-{name}.npy"])
        scaling = Scaling(*(arrays[name] for name in Scaling.__dataclass_fields__))
        units = Units(*(arrays[name] for name in Units.__dataclass_fields__))
        return NetworkEnsemble(scaling, units, arrays["weights"], arrays["importance"])


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

    def hidden(self, rows: Array) -> Array:
        """Return the values of the units at rows of inputs."""
        return np.maximum(rows @ self.directions(rows.shape[1]) + self.biases, 0.0)

    def weighted(self, hidden: Array) -> Array:
        """Return the outputs of one round from the values of its units."""
        return hidden @ self.outputs[:-1].astype(np.float64) + self.outputs[-1]

    @staticmethod
    def concat(parts: "Sequence[Units]") -> "Units":
        """Return the units of several rounds as one."""
        names = Units.__dataclass_fields__
        return Units(*(np.concatenate([getattr(one, name) for one in parts]) for name in names))


class NetworkGrower(TreeGrower):
    """Inputs of a table and the units drawn so far."""

    def __init__(
        self,
        learner: RandomNetwork,
        scaling: Scaling,
        rows: Array,
        sizes: tuple[int, int],
        seed: int,
    ) -> None:
        self._learner = learner
        self._shared = (scaling, rows)  # with growers for other labels
        self._scaling = scaling
        self._rows = rows
        self._sizes = sizes  # numbers of outputs and of columns
        self._shape = (len(rows), sizes[0])
        self._random = np.random.default_rng(seed)
        self._rounds: list[Units] = []
        self._limits: Array | None = None  # least and greatest inputs, once they are known

    def _limit(self, limits: Array) -> None:
        """Make inputs constant beyond limits of them."""
        self._limits = limits
        if np.isfinite(limits).any():
            scaling, rows = self._shared
            self._scaling = scaling.limited(limits)
            self._rows = rows.clip(*limits)

    def _limits_of(self, used: IntArray) -> Array:
        """The range of the rows that are trained on, infinite where few others are beyond."""
        rows = self._rows
        least = rows[used].min(axis=0)
        most = rows[used].max(axis=0)
        is_number = self._scaling.level == NUMBER
        is_below = is_number & ((rows < least).mean(axis=0) > BEYOND)
        is_above = is_number & ((rows > most).mean(axis=0) > BEYOND)
        return np.array([np.where(is_below, least, -np.inf), np.where(is_above, most, np.inf)])

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Draw units and find their weights; see :meth:`TreeGrower.grow`."""
        n_inputs = self._rows.shape[1]
        if not gradient.any() or not n_inputs:
            return None
        n_units = self._learner.n_units
        random = self._random
        used = np.flatnonzero((curvature > 0.0).any(axis=1))
        if self._limits is None:
            self._limit(self._limits_of(used))
        inputs = random.integers(n_inputs, size=(n_units, UNIT_COLUMNS))
        coefficients = random.normal(size=inputs.shape).astype(np.float32)
        n_columns = random.integers(1, UNIT_COLUMNS + 1, n_units)
        coefficients[np.arange(UNIT_COLUMNS) >= n_columns[:, None]] = 0.0
        for later in range(1, UNIT_COLUMNS):  # an input that was drawn twice counts once
            is_repeated = (inputs[:, :later] == inputs[:, [later]]).any(axis=1)
            coefficients[is_repeated, later] = 0.0
        empty = np.zeros((n_units + 1, self._shape[1]), dtype=np.float32)
        units = Units(inputs, coefficients, empty[:-1, 0], empty)
        projected = self._rows @ units.directions(n_inputs)
        # A unit begins at one of the rows, drawn by rank: the order of rows does not matter.
        ranks = random.integers(used.size, size=n_units)
        pairs = zip(projected[used].T, ranks, strict=True)
        values = [np.partition(one, rank)[rank] for one, rank in pairs]
        units = replace(units, biases=-np.array(values, dtype=np.float32))
        hidden = np.maximum(projected + units.biases, 0.0)
        known = np.column_stack([hidden[used], np.ones(used.size)])
        parts = np.broadcast_to(curvature, self._shape)[used]
        outputs = [
            self._solve(known, gradient[used, one], parts[:, one]) for one in range(self._shape[1])
        ]
        units = replace(units, outputs=np.column_stack(outputs).astype(np.float32))
        self._rounds.append(units)
        return units.weighted(hidden)

    def _solve(self, hidden: Array, gradient: Array, curvature: Array) -> Array:
        """Weights of the units for one output, by ridge regression."""
        target, weight = newton_target(gradient, curvature)
        weighted = hidden * weight[:, None]
        gram = weighted.T @ hidden
        gram[np.diag_indices_from(gram)] += self._learner.ridge * np.trace(gram) / len(gram)
        result: Array = solve(gram, weighted.T @ target, assume_a="pos")
        return result

    def compile(self, weights: Sequence[float]) -> "NetworkEnsemble":
        """Return the weighted sum of the rounds; see :meth:`TreeGrower.compile`."""
        pairs = zip(weights, self._rounds, strict=False)
        used = [(weight, units) for weight, units in pairs if weight != 0.0]
        none = Units(
            np.zeros((0, UNIT_COLUMNS), dtype=np.int64),
            np.zeros((0, UNIT_COLUMNS), dtype=np.float32),
            np.zeros(0, dtype=np.float32),
            np.zeros((0, self._shape[1]), dtype=np.float32),
        )
        units = Units.concat([none, *(one for _, one in used)])
        sums = np.array([weight for weight, _ in used], dtype=np.float64)
        ensemble = NetworkEnsemble(self._scaling, units, sums, np.zeros(self._sizes[1]))
        sample = self._rows[:: max(len(self._rows) // IMPORTANCE_ROWS, 1)]
        shares = ensemble.shares(sample)[:, :, :-1]
        ensemble.importance = (shares**2).sum(axis=1).mean(axis=0)
        return ensemble

    def clone_with_shared_bins(
        self, seed: int, changes: Mapping[str, object] = MappingProxyType({})
    ) -> "NetworkGrower":
        """Return a grower on the same inputs; see :meth:`TreeGrower.clone_with_shared_bins`."""
        return NetworkGrower(self._learner, *self._shared, self._sizes, seed)

    def state(self) -> dict[str, Any]:
        """Return the units and the state of the random generator."""
        rounds = [dict(vars(one)) for one in self._rounds]
        random = self._random.bit_generator.state
        return {"rounds": rounds, "random": random, "limits": self._limits}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint; see :meth:`TreeGrower.restore`."""
        self._rounds = [Units(**one) for one in state["rounds"]]
        self._random.bit_generator.state = state["random"]
        if state["limits"] is not None:
            self._limit(state["limits"])


class NetworkEnsemble(Ensemble):
    """A weighted sum of rounds of units on the same inputs."""

    def __init__(self, scaling: Scaling, units: Units, weights: Array, importance: Array) -> None:
        self.scaling = scaling
        self.units = units
        self.weights = weights
        self.importance = importance  # of each column of the table

    @property
    def n_units(self) -> int:
        """Number of units of each round."""
        return len(self.units.inputs) // max(self.weights.size, 1)

    def predict(self, table: Table) -> Array:
        """Return scores; see :meth:`Ensemble.predict`."""
        n_outputs = self.units.outputs.shape[1]
        parts = [np.zeros((0, n_outputs))]
        for block in table.blocks():
            for start in range(0, block.n_rows, BLOCK_ROWS):
                rows = self.scaling.transform(block.values[start : start + BLOCK_ROWS])
                scores = np.zeros((len(rows), n_outputs))
                for number, weight in enumerate(self.weights):
                    units = self.units.round(number, self.n_units)
                    scores += weight * units.weighted(units.hidden(rows))
                parts.append(scores)
        return np.concatenate(parts)

    def importances(self) -> Array:
        """Return the mean square of the contributions of each column at some fitted rows."""
        return self.importance

    def contributions(self, table: Table) -> Array:
        """Return Shapley values against a row of medians; see :meth:`Ensemble.contributions`."""
        return self.shares(self.scaling.transform(table.materialize().values))

    def shares(self, rows: Array) -> Array:
        """Return the contributions of columns at rows of inputs, that of the medians last."""
        n_outputs = self.units.outputs.shape[1]
        result = np.zeros((len(rows), n_outputs, self.importance.size + 1))
        for number, weight in enumerate(self.weights):
            units = self.units.round(number, self.n_units)
            outputs = weight * units.outputs.astype(np.float64)
            result[:, :, -1] += np.maximum(units.biases, 0.0) @ outputs[:-1] + outputs[-1]
            for position, values in enumerate(_shapley_values(units, rows)):
                columns = self.scaling.source[units.inputs[:, position]]
                for column in np.unique(columns):
                    own = columns == column
                    result[:, :, column] += values[:, own] @ outputs[:-1][own]
        return result

    def files(self) -> dict[str, bytes]:
        """Return each array as a file of numpy."""
        arrays = vars(self.scaling) | vars(self.units)
        arrays |= {"weights": self.weights, "importance": self.importance}
        files = {}
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
            files[f"network-{name}.npy"] = buffer.getvalue()
        return files

    def check(self, n_columns: int, n_outputs: int, categories: Mapping[int, int]) -> None:
        """Raise ``ValueError`` for arrays that do not belong together or to the table."""
        scaling = self.scaling
        units = self.units
        n_inputs = scaling.source.size
        n_units = len(units.inputs)
        n_rounds = self.weights.size
        shapes = (
            (scaling.source, (n_inputs,)),
            (scaling.level, (n_inputs,)),
            (scaling.knots, (n_inputs, KNOTS)),
            (scaling.scores, (n_inputs, KNOTS)),
            (units.inputs, (n_units, UNIT_COLUMNS)),
            (units.coefficients, (n_units, UNIT_COLUMNS)),
            (units.biases, (n_units,)),
            (units.outputs, (n_units + n_rounds, n_outputs)),
            (self.weights, (n_rounds,)),
            (self.importance, (n_columns,)),
        )
        if any(array.shape != shape for array, shape in shapes):
            raise ValueError("arrays of a network do not belong together, or to the table")
        if n_units % max(n_rounds, 1) or (n_units and not n_inputs):
            raise ValueError("rounds of a network do not have the same number of units")
        integers = (scaling.source, scaling.level, units.inputs)
        floats = [array for array, _ in shapes if not any(array is one for one in integers)]
        if any(array.dtype != np.int64 for array in integers) or any(
            array.dtype.kind != "f" or not np.isfinite(array).all() for array in floats
        ):
            raise ValueError("numbers of a network are not finite, or not of their kind")
        for array, end in ((scaling.source, n_columns), (units.inputs, n_inputs)):
            if array.size and not 0 <= array.min() <= array.max() < end:
                raise ValueError("a network reads a column that the table does not have")
        is_number = scaling.level == NUMBER
        is_category = np.isin(scaling.source, list(categories))
        n_levels = np.array([categories.get(one, 0) for one in scaling.source.tolist()])
        is_level = (scaling.level >= 0) & is_category & (scaling.level < n_levels)
        is_known = (is_number & ~is_category) | is_level | (scaling.level == MISSING)
        if not is_known.all() or (np.diff(scaling.knots, axis=1) < 0.0).any():
            raise ValueError("an input of a network is not of the kind of its column")


def _shapley_values(units: Units, rows: Array) -> list[Array]:
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


def join(ensembles: Sequence[NetworkEnsemble], weight: float) -> NetworkEnsemble | None:
    """Return the sum of networks times a weight; None if they do not have the same inputs."""
    first = ensembles[0]
    if not all(one.scaling.equals(first.scaling) for one in ensembles):
        return None
    units = Units.concat([one.units for one in ensembles])
    weights = np.concatenate([one.weights for one in ensembles])
    importance = np.mean([one.importance for one in ensembles], axis=0)
    return NetworkEnsemble(first.scaling, units, weight * weights, importance)
