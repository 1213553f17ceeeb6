"""Layers of random ReLU units with ridge regression on top: smooth functions, where trees step.

Columns are transformed to normal scores, categories to indicators. Each round draws units
max(0, a·x + b) of up to three columns, keeps those that correlate most with the gradient, and
solves a ridge regression for their weights, so that a round takes a few matrix products.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import combinations
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve
from scipy.special import ndtri

from ebboost._common import Array, IntArray
from ebboost.arrays import here, there
from ebboost.data.table import Table
from ebboost.learners.base import Binned, Ensemble, Grower, Learner, newton_target

Float32 = NDArray[np.float32]
INPUTS = 3  # of a unit, at most
MAX_LEVELS = 20  # of a category that have an indicator
MIN_LEVEL_ROWS = 10
KNOTS = 65  # of the normal scores of a column, at its quantiles
ROUNDING = 1e-6  # relative error of values that count as equal
OUTERMOST = 0.002  # rank beyond which normal scores are constant
NUMBER = -1  # in place of a level
MISSING = -2
START_ROWS = 512  # at which units may begin
# Units drawn for each that is kept, and rows at which they are compared. Inputs of kept units are
# drawn more often: by a share of the draws, and a moving average over rounds.
DRAWS = 4
COMPARED_ROWS = 1_000
GUIDED_SHARE = 0.5
MEMORY = 0.9
FEW_ROWS = 50
EXACT_ROWS = 10_000  # predicted in double precision
IMPORTANCE_ROWS = 64  # whose contributions measure the importance of columns


class RandomNetwork(Learner):
    """Random ReLU units whose weights are found by ridge regression, anew each round.

    Its functions are smooth where those of trees are piecewise constant.

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
    ...     learner=eb.RandomNetwork(), smoothing=None, labels="field", random_state=0
    ... )
    >>> _ = model.fit(X, y[train], nodes=train, graph=graph)
    >>> bool(model.score(X, y, nodes=splits[0]["test"]) > 0.7)
    True
    """

    name = "network"
    devices = ("cpu", "cuda")
    is_concurrent = True

    def __init__(self, n_units: int = 64, ridge: float = 1e-3) -> None:
        self.n_units = n_units
        self.ridge = ridge

    def bin(
        self, table: Table, rows: IntArray, *, n_outputs: int, n_jobs: int, device: str
    ) -> NetworkBinned:
        """Transform the columns; see :meth:`Learner.bin`."""
        self.check(device)
        if table.is_sparse:
            raise ValueError("learner='network' needs a table that is not sparse: use 'lightgbm'.")
        if not (isinstance(self.n_units, Integral) and self.n_units > 0):
            raise ValueError(f"n_units must be a positive integer, got {self.n_units!r}.")
        if not (isinstance(self.ridge, Real) and self.ridge > 0.0):
            raise ValueError(f"ridge must be a positive number, got {self.ridge!r}.")
        return NetworkBinned(self, table, rows, n_outputs)

    @classmethod
    def load(cls, files: dict[str, bytes]) -> NetworkEnsemble:
        """Return the units in a model file; see :meth:`Learner.load`."""

        def read(name: str) -> NDArray[Any]:
            return np.load(io.BytesIO(files[f"network-{name}.npy"]), allow_pickle=False)

        scaling = Scaling(*map(read, Scaling.__dataclass_fields__))
        units = Units(*map(read, Units.__dataclass_fields__))
        rest = (read("weights"), read("sample"), int(read("n_columns")))
        return NetworkEnsemble(scaling, units, *rest)


@dataclass(frozen=True, eq=False)
class Scaling:
    """Inputs of the units: normal scores of columns, and indicators of levels and missing values.

    ``source`` is the column of each input, ``level`` its category, NUMBER or MISSING. Below
    ``least`` and above ``most`` inputs are constant.
    """

    source: IntArray
    level: IntArray
    knots: Array
    scores: Array
    least: Float32
    most: Float32

    @classmethod
    def fit(cls, table: Table, rows: IntArray) -> Scaling:
        """Return the inputs of a table, constant beyond those of some rows, as trees are."""
        nothing = np.zeros(KNOTS)
        inputs: list[tuple[int, int, Array, Array]] = []
        for column in range(len(table.names)):
            values = there(np.asarray(table.values[:, column], dtype=np.float64))
            known = values[~np.isnan(values)]
            if column in table.categorical:
                levels, counts = np.unique(here(known), return_counts=True)
                for place in np.argsort(-counts, kind="stable")[:MAX_LEVELS]:
                    if MIN_LEVEL_ROWS <= counts[place] < table.n_rows:
                        inputs.append((column, int(levels[place]), nothing, nothing))
            elif known.size and known.min() < known.max():
                inputs.append((column, NUMBER, *_normal_scores(known)))
            if MIN_LEVEL_ROWS <= table.n_rows - known.size < table.n_rows:
                inputs.append((column, MISSING, nothing, nothing))
        empty = np.zeros((0, KNOTS))
        most = np.full(len(inputs), np.inf, dtype=np.float32)
        scaling = cls(
            np.array([one[0] for one in inputs], dtype=np.int64),
            np.array([one[1] for one in inputs], dtype=np.int64),
            np.array([one[2] for one in inputs]) if inputs else empty,
            np.array([one[3] for one in inputs]) if inputs else empty,
            -most,
            most,
        )
        own = scaling.transform(table.values[rows])[:-1]
        return replace(scaling, least=here(own.min(axis=1)), most=here(own.max(axis=1)))

    def transform(self, values: Any) -> Float32:
        """Return the inputs of rows as columns of shape (n_inputs + 1, n), the last of them 1.

        Missing numbers are 0.
        """
        nothing = there(np.zeros(0, dtype=np.float32))
        result = np.ones_like(nothing, shape=(self.source.size + 1, len(values)))
        knots, scores = there(self.knots), there(self.scores)
        for number, (column, level) in enumerate(zip(self.source, self.level, strict=True)):
            own = there(np.asarray(values[:, column], dtype=np.float64))
            if level == NUMBER:
                between = np.interp(own, knots[number], scores[number])
                result[number] = np.where(np.isnan(own), 0.0, between)
            else:
                result[number] = np.isnan(own) if level == MISSING else own == level
        ends = (there(self.least[:, None]), there(self.most[:, None]))
        np.clip(result[:-1], *ends, out=result[:-1])
        return result


def _normal_scores(known: Array) -> tuple[Array, Array]:
    """Quantiles of a column, the last repeated, and the normal scores of their ranks.

    Values that are equal but for rounding, such as those of a spectral embedding at nodes of the
    same degree, count as one: their ranks would be noise.
    """
    known = np.sort(known)
    places = np.rint(np.linspace(0.0, 1.0, KNOTS) * (known.size - 1)).astype(np.int64)
    points = np.unique(here(known[there(places)]))
    width = ROUNDING * (np.abs(points) + 0.1 * np.median(np.abs(points)))
    is_new = np.append(True, np.diff(points) > width[1:])
    points, width = points[is_new], width[is_new]
    below = here(np.searchsorted(known, there(points - width), "left"))
    up_to = here(np.searchsorted(known, there(points + width), "right"))
    ranks = (below + up_to) / (2.0 * known.size)
    scores = ndtri(np.clip(ranks, OUTERMOST, 1.0 - OUTERMOST))
    padding = (0, KNOTS - points.size)
    return np.pad(points, padding, "edge"), np.pad(scores, padding, "edge")


@dataclass(frozen=True, eq=False)
class Units:
    """Units of some rounds: the inputs of each, its coefficients and bias; weights with bias last.

    A round with K units has K rows of the first three arrays, and K + 1 of ``outputs``.
    """

    inputs: IntArray
    coefficients: Float32
    biases: Float32
    outputs: Float32

    def hidden(self, columns: NDArray[Any]) -> NDArray[Any]:
        """Return the values of the units at columns of inputs, a row each; the last row is 1.

        The last of the columns is 1.
        """
        n_units, one = len(self.inputs), len(columns) - 1
        coefficients = np.column_stack([self.coefficients, self.biases])
        inputs = np.column_stack([self.inputs, np.full(n_units, one)])
        values, places = np.append(coefficients, np.float32(1.0)), np.append(inputs, one)
        starts = np.append(np.arange(0, places.size, INPUTS + 1), places.size)
        directions = sparse.csr_array((values, places, starts), shape=(n_units + 1, one + 1))
        result = there(directions) @ columns
        return np.maximum(result, 0.0, out=result)

    def take(self, chosen: Any, outputs: Float32) -> Units:
        """Return some of the units with other weights."""
        return Units(self.inputs[chosen], self.coefficients[chosen], self.biases[chosen], outputs)

    def round(self, number: int, n_units: int) -> Units:
        """Return the units of one round."""
        own = slice(number * n_units, (number + 1) * n_units)
        weights = slice(number * (n_units + 1), (number + 1) * (n_units + 1))
        return self.take(own, self.outputs[weights])

    @staticmethod
    def concat(parts: Sequence[Units]) -> Units:
        """Return the units of several rounds as one."""
        names = Units.__dataclass_fields__
        return Units(*(np.concatenate([getattr(one, name) for one in parts]) for name in names))


class NetworkBinned(Binned):
    """Inputs of a table, and the rows at which units may begin."""

    def __init__(
        self, learner: RandomNetwork, table: Table, rows: IntArray, n_outputs: int
    ) -> None:
        self.learner = learner
        self.scaling = Scaling.fit(table, rows)
        self.columns = self.scaling.transform(table.values[rows])
        self.shape = (rows.size, n_outputs)
        self.n_columns = len(table.names)
        # At equal distances along a random direction, so that the order of rows does not matter.
        inputs = self.columns[:-1]
        self.along = there(np.random.default_rng(0).normal(size=len(inputs))) @ inputs
        order = np.argsort(self.along, kind="stable")
        places = np.linspace(0, rows.size - 1, min(rows.size, START_ROWS)).round()
        self.starts = here(inputs[:, order[there(places.astype(np.int64))]].T)

    def grower(self, seed: int) -> NetworkGrower:
        """Return a network without units; see :meth:`Binned.grower`."""
        return NetworkGrower(self, seed)


class NetworkGrower(Grower):
    """The units drawn so far."""

    def __init__(self, binned: NetworkBinned, seed: int) -> None:
        self._binned = binned
        self._random = np.random.default_rng(seed)
        self._rounds: list[Units] = []
        self._shares = np.zeros(binned.scaling.source.size)  # of inputs in the gains of kept units
        self._is_used: NDArray[np.bool_] | None = None

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Draw units and find their weights; see :meth:`Grower.grow`."""
        is_used: NDArray[np.bool_] = np.any(curvature > 0.0, axis=1)
        if not gradient.any() or not is_used.any() or not self._shares.size:
            return None
        if self._is_used is None or not np.array_equal(is_used, self._is_used):
            self._sort(is_used)
        used, others = self._parts
        target, weight = newton_target(gradient[used], curvature[used])
        units = self._choose(self._draw(), target, weight)
        hidden = units.hidden(self._columns[0])
        outputs = self._solve(hidden, target, weight)
        self._rounds.append(units.take(slice(None), outputs))
        tree = np.empty_like(gradient)
        tree[used] = (there(outputs.T) @ hidden).T
        tree[others] = (there(outputs.T) @ units.hidden(self._columns[1])).T
        return tree

    def _sort(self, is_used: NDArray[np.bool_]) -> None:
        """Divide the rows into those trained on, in an order of their own, and others."""
        self._is_used = is_used
        shuffled = np.argsort(np.abs(self._binned.along) * 2.0**20 % 1.0, kind="stable")
        self._parts = (shuffled[is_used[shuffled]], np.flatnonzero(~is_used))
        self._columns = [np.take(self._binned.columns, part, axis=1) for part in self._parts]

    def _draw(self) -> Units:
        """Units without weights, which begin at one of the rows each."""
        n_inputs = self._shares.size
        n_units = DRAWS * self._binned.learner.n_units
        random = self._random
        chances = np.full(n_inputs, 1.0 / n_inputs)
        if self._shares.any():
            own = self._shares / self._shares.sum()
            chances = (1.0 - GUIDED_SHARE) * chances + GUIDED_SHARE * own
        inputs = random.choice(n_inputs, size=(n_units, INPUTS), p=chances)
        coefficients = random.normal(size=inputs.shape).astype(np.float32)
        n_used = random.integers(1, INPUTS + 1, n_units)
        coefficients[np.arange(INPUTS) >= n_used[:, None]] = 0.0
        for later in range(1, INPUTS):  # an input that was drawn twice counts once
            is_repeated = (inputs[:, :later] == inputs[:, [later]]).any(axis=1)
            coefficients[is_repeated, later] = 0.0
        start = random.integers(len(self._binned.starts), size=n_units)
        values = self._binned.starts[start[:, None], inputs]
        biases = -(coefficients * values).sum(axis=1)
        nothing = np.zeros((0, self._binned.shape[1]), dtype=np.float32)
        return Units(inputs, coefficients, biases.astype(np.float32), nothing)

    def _choose(self, units: Units, target: Array, weight: Array) -> Units:
        """Of every few units the one whose values correlate most with the target at some rows.

        These are another part of the rows in each round.
        """
        n_parts = -(-len(target) // COMPARED_ROWS)
        rows = slice(len(self._rounds) % n_parts, None, n_parts)
        hidden = units.hidden(self._columns[0][:, rows].copy())
        mean_weight = weight[rows].mean(axis=1, keepdims=True)
        right = np.hstack([mean_weight, mean_weight * target[rows]]).astype(np.float32)
        sums = here(hidden @ right).astype(np.float64)
        squares = here((hidden * hidden) @ right[:, :1]).astype(np.float64)[:-1, 0]
        total = max(float(sums[-1, 0]), 1e-300)
        mean = sums[:-1, 0] / total
        variance = squares - total * mean**2
        covariance = sums[:-1, 1:] - mean[:, None] * sums[-1, 1:]
        is_constant = variance <= 1e-5 * squares  # beyond the precision of the sums
        gains = np.where(is_constant, 0.0, (covariance**2).sum(axis=1))
        gains /= np.where(is_constant, 1.0, variance)
        best = gains.reshape(-1, DRAWS).argmax(axis=1) + DRAWS * np.arange(len(gains) // DRAWS)
        chosen = units.take(best, units.outputs)
        shares = np.zeros_like(self._shares)
        is_input = chosen.coefficients != 0.0
        np.add.at(shares, chosen.inputs[is_input], np.repeat(gains[best], is_input.sum(axis=1)))
        if shares.any():
            self._shares = MEMORY * self._shares + (1.0 - MEMORY) * shares / shares.sum()
        return chosen

    def _solve(self, hidden: Float32, target: Array, weight: Array) -> Float32:
        """Weights of the units and of the bias for each output, by ridge regression."""
        n_weights = len(hidden)
        results = []
        for output in range(weight.shape[1]):
            root = np.sqrt(weight[:, output]).astype(np.float32)
            own = slice(None) if weight.shape[1] == 1 else slice(output, output + 1)
            is_constant = root.min() == root.max()
            weighted = hidden if is_constant else hidden * root
            gram = here(products(weighted, weighted)).astype(np.float64)
            wanted = (root[:, None] * target[:, own]).astype(np.float32)
            right = here(products(weighted, wanted.T))
            if is_constant:
                gram *= float(root[0]) ** 2
                right *= float(root[0])
            gram[np.diag_indices(n_weights)] += (
                self._binned.learner.ridge * np.trace(gram) / n_weights
            )
            results.append(solve(gram, right, lower=False, assume_a="pos"))
        return np.hstack(results).astype(np.float32)

    def compile(self, weights: Sequence[float]) -> NetworkEnsemble:
        """Return the weighted sum of the rounds; see :meth:`Grower.compile`."""
        binned = self._binned
        none = Units(
            np.zeros((0, INPUTS), dtype=np.int64),
            np.zeros((0, INPUTS), dtype=np.float32),
            np.zeros(0, dtype=np.float32),
            np.zeros((0, binned.shape[1]), dtype=np.float32),
        )
        units = Units.concat([none, *self._rounds[: len(weights)]])
        sums = np.asarray(weights, dtype=np.float64)
        sample = binned.starts[:: max(len(binned.starts) // IMPORTANCE_ROWS, 1)]
        return NetworkEnsemble(binned.scaling, units, sums, sample, binned.n_columns)


@singledispatch
def products(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """Return the products of all pairs of rows."""
    return first @ second.T


class NetworkEnsemble(Ensemble):
    """A weighted sum of rounds of units on the same inputs."""

    learner = "RandomNetwork"

    def __init__(
        self, scaling: Scaling, units: Units, weights: Array, sample: Float32, n_columns: int
    ) -> None:
        self.scaling = scaling
        self.units = units
        self.weights = weights
        self.sample = sample  # some rows of inputs
        self.n_columns = n_columns  # of the table

    def _rounds(self) -> list[tuple[float, Units]]:
        n_units = len(self.units.inputs) // max(self.weights.size, 1)
        weights = enumerate(self.weights.tolist())
        return [(weight, self.units.round(number, n_units)) for number, weight in weights]

    @classmethod
    def mean(cls, ensembles: Sequence[Ensemble]) -> Ensemble:
        """Return one network with the units of all; see :meth:`Ensemble.mean`."""
        networks = [one for one in ensembles if isinstance(one, NetworkEnsemble)]
        first = networks[0]
        if any(one.scaling is not first.scaling for one in networks):
            return super().mean(networks)
        units = Units.concat([one.units for one in networks])
        weights = np.concatenate([one.weights for one in networks]) / len(networks)
        return NetworkEnsemble(first.scaling, units, weights, first.sample, first.n_columns)

    def predict(self, table: Table) -> Array:
        """Return scores; see :meth:`Ensemble.predict`."""
        columns: Any = self.scaling.transform(table.values)
        if table.n_rows <= EXACT_ROWS:  # a row as alone, whichever rows are predicted with it
            columns = columns.astype(np.float64)
        if table.n_rows <= FEW_ROWS:
            return self._predict_few(here(columns))
        scores = there(np.zeros((self.units.outputs.shape[1], table.n_rows)))
        for weight, units in self._rounds():
            scores += weight * (there(units.outputs.T) @ units.hidden(columns))
        return here(scores).T

    def _predict_few(self, columns: NDArray[Any]) -> Array:
        """Scores of a few rows of inputs: all rounds at once, which takes a tenth of the time."""
        units, n_rounds = self.units, self.weights.size
        n_units = len(units.inputs) // max(n_rounds, 1)
        hidden = units.biases[:, None]
        for position in range(INPUTS):
            own = columns[units.inputs[:, position]]
            hidden = hidden + units.coefficients[:, [position]] * own
        hidden = np.maximum(hidden, 0.0).reshape(n_rounds, n_units, columns.shape[1])
        outputs = units.outputs.reshape(n_rounds, n_units + 1, units.outputs.shape[1])
        sums = np.matmul(outputs[:, :-1].transpose(0, 2, 1), hidden) + outputs[:, -1, :, None]
        return np.tensordot(self.weights, sums, 1).T

    def importances(self) -> Array:
        """Return the mean square of the contributions of each column at some fitted rows."""
        shares = self.shares(np.ascontiguousarray(self.sample.T))[:, :, :-1]
        return (shares**2).sum(axis=1).mean(axis=0)

    def contributions(self, table: Table) -> Array:
        """Return Shapley values against a row of medians; see :meth:`Ensemble.contributions`."""
        return self.shares(here(self.scaling.transform(table.values)))

    def shares(self, columns: Float32) -> Array:
        """Return the contributions of columns at rows of inputs, that of the medians last.

        The Shapley values of a unit of three inputs are exact sums of a few terms.
        """
        n_outputs = self.units.outputs.shape[1]
        result = np.zeros((columns.shape[1], n_outputs, self.n_columns + 1))
        for weight, units in self._rounds():
            outputs = weight * units.outputs.astype(np.float64)
            result[:, :, -1] += np.maximum(units.biases, 0.0) @ outputs[:-1] + outputs[-1]
            terms = [
                columns[units.inputs[:, k]].T * units.coefficients[:, k].astype(np.float64)
                for k in range(INPUTS)
            ]
            biases = units.biases + np.zeros_like(terms[0])
            value = {  # of the unit, where only some of its inputs are not their medians
                members: np.maximum(biases + sum(terms[one] for one in members), 0.0)
                for size in range(INPUTS + 1)
                for members in combinations(range(INPUTS), size)
            }
            for position in range(INPUTS):
                others = [one for one in range(INPUTS) if one != position]
                own = np.zeros_like(terms[0])
                for size, share in ((0, 1 / 3), (1, 1 / 6), (2, 1 / 3)):  # |S|! (2 − |S|)! / 3!
                    for members in combinations(others, size):
                        with_it = tuple(sorted((*members, position)))
                        own += share * (value[with_it] - value[members])
                source = self.scaling.source[units.inputs[:, position]]
                for column in np.unique(source):
                    of_column = source == column
                    result[:, :, column] += own[:, of_column] @ outputs[:-1][of_column]
        return result

    def files(self) -> dict[str, bytes]:
        """Return each array as a file of numpy."""
        arrays = vars(self.scaling) | vars(self.units)
        arrays |= {"weights": self.weights, "sample": self.sample}
        arrays["n_columns"] = np.array(self.n_columns)
        files = {}
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, np.asarray(array, order="C"), allow_pickle=False)
            files[f"network-{name}.npy"] = buffer.getvalue()
        return files

    def check(self, n_columns: int, n_outputs: int, categories: Mapping[int, int]) -> None:
        """Raise ``ValueError`` for arrays that do not belong together or to the table."""
        from ebboost.files.trees import check_network

        check_network(self, n_columns, n_outputs, categories)
