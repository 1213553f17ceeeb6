"""Layers of random ReLU units with ridge regression on top: smooth functions, where trees step.

Columns are transformed to normal scores, categories to indicators. Each round draws units
max(0, a·x + b) of up to three columns, keeps those that correlate most with the gradient, and
solves a ridge regression for their weights, so that a round takes a few matrix products. The
Shapley values of a unit of three columns are exact sums of eight terms.
"""

import io
from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve

from ebboost.data.archive import parse_npy
from ebboost.data.sharded import (
    ShardedArray,
    of_first_worker,
    shard_like,
    sorted_statistics,
    sum_over_workers,
    total_rows,
)
from ebboost.data.table import Table
from ebboost.data.types import Array, BoolArray, IntArray
from ebboost.learners.base import Ensemble, Learner, TreeGrower, newton_target
from ebboost.learners.units import (
    KNOTS,
    MISSING,
    NUMBER,
    UNIT_COLUMNS,
    Float32,
    Scaling,
    Units,
    blocks,
    shapley_values,
)

# Share of the rows beyond those with labels, above which an input is constant there, as trees are.
# Units go on beyond the last label and forecast a trend: RMSE of Lucas in 1995 and 1996 from labels
# before .553, constant .341 (trees .328); of later sales of King County .162 and .158.
BEYOND = 0.05
START_ROWS = 512  # at which units may begin
# Units drawn for each that is kept, and rows at which they are compared. Inputs of kept units are
# drawn more often: by a share of the draws, and a moving average over rounds. RMSE at validation
# nodes (three seeds, two splits) with one, with four units, and four of such inputs: King County
# .1521, .1521, .1524, County 1.140, 1.141, 1.137, House .4634, .4636, .4594, twitch 1.094, 1.093,
# 1.090, elect80 .0555, .0556, .0554, Lucas .305, .282, .272, 20 000 simulated points .337, .333,
# .333, in fewer rounds.
DRAWS = 4
COMPARED_ROWS = 1_000
GUIDED_SHARE = 0.5
MEMORY = 0.9
TIE = 1e-6
IMPORTANCE_ROWS = 64  # whose contributions measure the importance of columns


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
        rows = shard_like(scaling.transform(table.values), table.values)
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


def regression_gains(
    units: Units, columns: Float32, target: Array, weight: Array, like: Array
) -> Array:
    """Decrease of the weighted squared error by a regression on each unit alone, with a bias.

    Those of all workers if ``like`` is sharded.
    """
    targets = np.ascontiguousarray((weight[:, None] * target).T)
    totals = np.array([weight.sum(), 0.0, *targets.sum(axis=1)])
    sums = np.column_stack([units.sums(columns, weight, targets), totals])
    sums = of_first_worker(sum_over_workers(sums, like), like)
    total = max(sums[0, -1], 1e-300)
    mean = sums[0, :-1] / total
    square = sums[1, :-1]
    variance = square - total * mean**2
    covariances = sums[2:, :-1] - sums[2:, -1:] * mean
    gains = (covariances**2).sum(axis=0)
    is_constant = variance <= 1e-12 * square  # beyond the precision of the sums
    return np.where(is_constant, 0.0, gains / np.where(is_constant, 1.0, variance))


def _along(rows: Array) -> Array:
    """Positions of rows along a random direction: the same whatever their order or worker."""
    return np.asarray(rows) @ np.random.default_rng(0).normal(size=rows.shape[1])


def _spread_rows(rows: Array) -> Array:
    """Rows at equal distances by rank along a random direction, whatever their order or worker."""
    local = np.asarray(rows)
    along = _along(rows)
    order = np.argsort(along, kind="stable")
    n_rows = total_rows(rows)
    ranks = np.linspace(0, n_rows - 1, min(n_rows, START_ROWS)).round().astype(np.int64)
    if not isinstance(rows, ShardedArray):
        return local[order[ranks]]
    values = sorted_statistics([along[order]], [ranks + 1], rows)[0]
    # A row of one worker in most cases; rows at the same place are equal, and so is their mean.
    position = np.searchsorted(along[order], values)
    is_present = np.append(along[order], np.nan)[position] == values
    picked = np.zeros((ranks.size, local.shape[1] + 1))
    picked[is_present] = np.column_stack([local, np.ones(len(local))])[order[position[is_present]]]
    picked = sum_over_workers(picked, rows)
    return picked[:, :-1] / picked[:, -1:]


class TrainingRows(NamedTuple):
    """Rows with curvature, their inputs, and the parts in which drawn units are compared."""

    is_used: BoolArray
    positions: IntArray  # of the rows, part by part
    columns: Float32  # of their inputs
    starts: IntArray  # of the parts

    def part(self, number: int) -> slice:
        """Return the rows of a part; after the last comes the first."""
        first = number % (self.starts.size - 1)
        return slice(*self.starts[first : first + 2].tolist())


class NetworkGrower(TreeGrower):
    """Inputs of a table and the units drawn so far."""

    def __init__(
        self,
        learner: RandomNetwork,
        scaling: Scaling,
        rows: Array,
        sizes: tuple[int, int],
        seed: int,
        starts: Array | None = None,
    ) -> None:
        self._learner = learner
        self._scaling = scaling
        self._rows = rows
        self._sizes = sizes  # numbers of outputs and of columns
        self._shape = (len(rows), sizes[0])
        self._random = np.random.default_rng(seed)
        self._starts = _spread_rows(rows) if starts is None else starts
        self._shared = (scaling, rows, self._starts)  # with growers for other labels
        self._rounds: list[Units] = []
        self._input_shares = np.zeros(rows.shape[1])  # of the gains of units that were kept
        self._used: TrainingRows | None = None
        self._limits: Array | None = None  # least and greatest inputs, once they are known

    def on_rows(self, rows: IntArray) -> "NetworkGrower":
        """Return a grower on some rows; see :meth:`TreeGrower.on_rows`."""
        other = copy(self)
        other._rows = np.asfortranarray(self._shared[1][rows])
        other._shape = (rows.size, self._shape[1])
        other._random = deepcopy(self._random)
        other._rounds = []
        return other

    def _limit(self, limits: Array) -> None:
        """Make inputs constant beyond limits of them."""
        self._limits = limits
        if np.isfinite(limits).any():
            scaling, _, starts = self._shared
            self._scaling = scaling.limited(limits)
            self._rows = self._rows.clip(*limits)
            self._starts = starts.clip(*limits)

    def _limits_of(self, curvature: Array) -> Array:
        """The range of the rows that are trained on, infinite where few others are beyond."""
        _, rows, _ = self._shared
        used = self._rows[np.any(curvature > 0.0, axis=1)]
        least = used.min(axis=0)
        most = used.max(axis=0)
        is_number = self._scaling.level == NUMBER
        is_below = is_number & ((rows < least).mean(axis=0) > BEYOND)
        is_above = is_number & ((rows > most).mean(axis=0) > BEYOND)
        return np.array([np.where(is_below, least, -np.inf), np.where(is_above, most, np.inf)])

    def grow(self, gradient: Array, curvature: Array) -> Array | None:
        """Draw units and find their weights; see :meth:`TreeGrower.grow`."""
        if not gradient.any() or not self._rows.shape[1]:
            return None
        if self._limits is None:
            self._limit(self._limits_of(curvature))
        rows = self._training_rows(curvature)
        target = newton_target(gradient[rows.positions], curvature[rows.positions])
        units = self._choose(self._draw(), rows, *target)
        units = replace(units, outputs=self._solve(units, rows, *target))
        self._rounds.append(units)
        return shard_like(units.scores(np.asarray(self._rows)), self._rows)

    def _draw(self) -> Units:
        """Units without weights, which begin at one of the rows each."""
        n_inputs = self._rows.shape[1]
        n_units = DRAWS * self._learner.n_units
        random = self._random
        chances = np.full(n_inputs, 1.0 / n_inputs)
        if self._input_shares.any():
            shares = self._input_shares / self._input_shares.sum()
            chances = (1.0 - GUIDED_SHARE) * chances + GUIDED_SHARE * shares
        inputs = random.choice(n_inputs, size=(n_units, UNIT_COLUMNS), p=chances)
        coefficients = random.normal(size=inputs.shape).astype(np.float32)
        n_columns = random.integers(1, UNIT_COLUMNS + 1, n_units)
        coefficients[np.arange(UNIT_COLUMNS) >= n_columns[:, None]] = 0.0
        for later in range(1, UNIT_COLUMNS):  # an input that was drawn twice counts once
            is_repeated = (inputs[:, :later] == inputs[:, [later]]).any(axis=1)
            coefficients[is_repeated, later] = 0.0
        start = random.integers(len(self._starts), size=n_units)  # in an order by their content
        values = np.asarray(self._starts)[start[:, None], inputs]
        biases = -(coefficients * values).sum(axis=1).astype(np.float32)
        outputs = np.zeros((0, self._shape[1]), dtype=np.float32)
        return Units(inputs, coefficients, of_first_worker(biases, self._rows), outputs)

    def _choose(self, units: Units, rows: "TrainingRows", target: Array, weight: Array) -> Units:
        """Of every few units the one whose values correlate most with the target at some rows."""
        part = rows.part(len(self._rounds))
        own = [np.asarray(values)[part] for values in (target, weight)]
        where = (rows.columns[:, part], own[0], own[1].mean(axis=1), self._rows)
        gains = regression_gains(units, *where)
        groups = gains.reshape(-1, DRAWS)
        # The first of those that are equal but for rounding, such as units of one column.
        is_best = groups >= (1.0 - TIE) * groups.max(axis=1, keepdims=True)
        best = is_best.argmax(axis=1) + DRAWS * np.arange(len(groups))
        arrays = (units.inputs[best], units.coefficients[best], units.biases[best])
        chosen = Units(*arrays, units.outputs)
        shares = np.zeros(self._rows.shape[1])
        is_input = chosen.coefficients != 0.0
        np.add.at(shares, chosen.inputs[is_input], np.repeat(gains[best], is_input.sum(axis=1)))
        if shares.any():
            shares /= shares.sum()
            self._input_shares = MEMORY * self._input_shares + (1.0 - MEMORY) * shares
        return chosen

    def _solve(
        self, units: Units, training: "TrainingRows", target: Array, weight: Array
    ) -> Float32:
        """Weights of the units and of the bias for each output, by ridge regression."""
        n_weights = self._learner.n_units + 1
        roots = np.sqrt(np.asarray(weight)).astype(np.float32)
        target = (roots * np.asarray(target)).astype(np.float32)
        roots = np.asfortranarray(roots)
        grams = np.zeros((weight.shape[1], n_weights, n_weights))
        right = np.zeros((n_weights, self._shape[1]))
        for block in blocks(len(roots)):
            for number, gram in enumerate(grams):
                own = slice(None) if len(grams) == 1 else slice(number, number + 1)
                hidden = units.times(training.columns[:, block], roots[block, number])
                gram += hidden @ hidden.T
                right[:, own] += hidden @ target[block, own]
        sums = sum_over_workers(np.append(grams, right), self._rows)
        grams = sums[: grams.size].reshape(grams.shape)
        right = sums[grams.size :].reshape(right.shape)
        ridge = self._learner.ridge * np.trace(grams, axis1=1, axis2=2) / n_weights
        grams[:, np.arange(n_weights), np.arange(n_weights)] += ridge[:, None]
        if len(grams) == 1:
            result = solve(grams[0], right, assume_a="pos")
        else:
            pairs = zip(grams, right.T, strict=True)
            result = np.column_stack([solve(gram, one, assume_a="pos") for gram, one in pairs])
        return of_first_worker(result, self._rows).astype(np.float32)

    def _training_rows(self, curvature: Array) -> "TrainingRows":
        """The rows that the weights are fitted to, found anew when they change."""
        is_used: BoolArray = np.any(np.asarray(curvature) > 0.0, axis=1)
        if self._used is None or not np.array_equal(self._used.is_used, is_used):
            rows = self._rows[is_used]
            n_parts = -(-total_rows(rows) // COMPARED_ROWS)
            # By their content, so that neither order nor worker matters.
            parts = (np.abs(_along(rows)) * 2.0**20 % 1.0 * n_parts).astype(np.int64)
            order = np.argsort(parts, kind="stable")
            starts = np.searchsorted(parts[order], np.arange(n_parts + 1))
            columns = np.ascontiguousarray(np.asarray(rows).T[:, order], dtype=np.float32)
            self._used = TrainingRows(is_used, np.flatnonzero(is_used)[order], columns, starts)
        return self._used

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
        sample = self._starts[:: max(len(self._starts) // IMPORTANCE_ROWS, 1)]
        shares = ensemble.shares(sample)[:, :, :-1]
        importance = (shares**2).sum(axis=1).mean(axis=0)
        ensemble.importance = of_first_worker(importance, self._rows)
        return ensemble

    def clone_with_shared_bins(
        self, seed: int, changes: Mapping[str, object] = MappingProxyType({})
    ) -> "NetworkGrower":
        """Return a grower on the same inputs; see :meth:`TreeGrower.clone_with_shared_bins`."""
        scaling, rows, starts = self._shared
        return NetworkGrower(self._learner, scaling, rows, self._sizes, seed, starts)

    def state(self) -> dict[str, Any]:
        """Return the units and the state of the random generator."""
        rounds = [dict(vars(one)) for one in self._rounds]
        random = self._random.bit_generator.state
        state = {"limits": self._limits, "input_shares": self._input_shares}
        return {"rounds": rounds, "random": random, **state}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint; see :meth:`TreeGrower.restore`."""
        self._rounds = [Units(**one) for one in state["rounds"]]
        self._random.bit_generator.state = state["random"]
        self._input_shares = np.asarray(state["input_shares"])
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
        rounds = []
        for number, weight in enumerate(self.weights):
            rounds.append((weight, self.units.round(number, self.n_units)))
        parts = [np.zeros((0, n_outputs))]
        for block in table.blocks():
            for own in blocks(block.n_rows):
                rows = self.scaling.transform(block.values[own])
                scores = np.zeros((len(rows), n_outputs))
                for weight, units in rounds:
                    scores += weight * units.scores(rows)
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
            for position, values in enumerate(shapley_values(units, rows)):
                weights = np.zeros((len(units.inputs), *result.shape[1:]))
                columns = self.scaling.source[units.inputs[:, position]]
                weights[np.arange(columns.size), :, columns] = outputs[:-1]
                result += np.tensordot(values, weights, 1)
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


def join(ensembles: Sequence[NetworkEnsemble], weight: float) -> NetworkEnsemble | None:
    """Return the sum of networks times a weight; None if they do not have the same inputs."""
    first = ensembles[0]
    if not all(one.scaling.equals(first.scaling) for one in ensembles):
        return None
    units = Units.concat([one.units for one in ensembles])
    weights = np.concatenate([one.weights for one in ensembles])
    importance = np.mean([one.importance for one in ensembles], axis=0)
    return NetworkEnsemble(first.scaling, units, weight * weights, importance)
