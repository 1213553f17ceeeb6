"""Predictions of labels that were not trained on: the numbers behind the plots and the report."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy.stats import binom
from sklearn.metrics import median_absolute_error
from sklearn.utils.validation import check_is_fitted

from ebboost._common import Array, BoolArray, IntArray, TableLike
from ebboost.data.labels import one_hot
from ebboost.data.reader import split_geometry
from ebboost.data.table import Table
from ebboost.formatting import count, date, number, shorten
from ebboost.intervals import conformal_quantile, distribution_of
from ebboost.losses import SquaredError
from ebboost.metrics import METRICS, Scored
from ebboost.model import Model, in_metric
from ebboost.predict import Predictions, Rows, read_table

NO_LABELS = (
    "Every label was trained on: fit with at least 10 labels and early_stopping=True, or pass "
    "eval_set=(nodes, y)."
)
TITLES = {
    "rmse": "RMSE",
    "mae": "mean |error|",
    "median": "median |error|",
    "r2": "R²",
    "deviance": "deviance",
    "d2": "D²",
    "accuracy": "accuracy",
    "log_loss": "log-loss",
    "brier": "Brier score",
    "roc_auc": "AUC",
    "average_precision": "average precision",
}
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
MIN_GROUP = 20
CALIBRATION_BINS = 15
CALIBRATION_DRAWS = 200
# Names of columns that hold coordinates, east before north.
COORDINATES = [("x", "y"), ("lon", "lat"), ("lng", "lat"), ("long", "lat")]
COORDINATES += [("longitude", "latitude"), ("easting", "northing"), ("coord_x", "coord_y")]
COORDINATES += [("x_coord", "y_coord"), ("pos_x", "pos_y")]
#: Columns of members that are computed from the neighbours' columns begin so.
OF_NEIGHBORS = ("mean(", "min(", "max(", "share(", "smoothed(", "group_mean(", "degree")


def fitted_model(estimator: Any) -> Model:
    """Return what an estimator has learned."""
    if not hasattr(type(estimator), "model_"):
        kind = type(estimator).__name__
        raise TypeError(f"model must be a fitted EBBSRegressor or EBBSClassifier, got {kind}.")
    check_is_fitted(estimator)
    model: Model = estimator.model_
    return model


@dataclass(frozen=True, eq=False)
class Held:
    """Labels that models were not trained on, and what those models predict there."""

    rows: IntArray
    scored: Scored
    is_classes: bool

    @cached_property
    def truth(self) -> Array:
        """Numbers, or positions of classes."""
        if self.is_classes:
            return one_hot(self.scored.target).argmax(axis=1).astype(np.float64)
        return self.scored.target[:, 0]

    @cached_property
    def probabilities(self) -> Array | None:
        """Probabilities of the classes."""
        return self.scored.predictions if self.is_classes else None

    @cached_property
    def prediction(self) -> Array:
        """Numbers, or positions of classes."""
        predictions = self.scored.predictions
        return predictions.argmax(axis=1).astype(float) if self.is_classes else predictions[:, 0]

    @property
    def residual(self) -> Array:
        """Truth minus prediction; for classes, 1 minus the probability of the true class."""
        if self.probabilities is None:
            return self.truth - self.prediction
        return 1.0 - self.probabilities[np.arange(self.rows.size), self.truth.astype(int)]

    def error(self, chosen: BoolArray | slice = slice(None)) -> float:
        """Return RMSE, log-loss or deviance, as the gain of the graph, of all or some labels."""
        scored = self.scored
        losses = 0.5 * scored.loss.deviance(scored.scores, scored.target)
        return in_metric(scored.loss, float(losses[chosen].mean()))

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Errors of numbers, with deviance and D² of their likelihood; or metrics of classes."""
        if not self.is_classes:
            names = ["rmse", "mae", "r2"]
            names += [] if type(self.scored.loss) is SquaredError else ["deviance", "d2"]
        else:
            names = ["accuracy", "log_loss", "brier"]
            is_pair = self.scored.predictions.shape[1] == 2 and np.ptp(self.truth) > 0
            names += ["roc_auc", "average_precision"] if is_pair else []
        values = {name: METRICS[name].compute(self.scored) for name in names}
        if not self.is_classes:
            values["median"] = float(median_absolute_error(self.truth, self.prediction))
        if "r2" in values and np.ptp(self.truth) == 0.0:
            values["r2"] = np.nan
        return values


def held_out(model: Model) -> Held | None:
    """Return labels that were not trained on and their predictions, None without such labels."""
    return _held(model, model.unseen.raw) if model.unseen.rows.size else None


def without_graph(model: Model) -> Held | None:
    """Return the same labels with predictions of the members that do not use the graph."""
    raw = model.unseen.without
    return None if raw is None or not model.uses_graph else _held(model, raw)


def class_codes(model: Model) -> IntArray:
    """Return the known labels of a classifier as positions of classes."""
    return np.asarray(one_hot(model.labels.target).argmax(axis=1))


def _held(model: Model, raw: Array) -> Held:
    unseen = model.unseen
    offset = None if model.offset is None else model.offset[unseen.rows]
    scored = Scored(model.output.loss, raw, unseen.target, unseen.weight, offset)
    return Held(unseen.rows, scored, model.output.is_classifier)


def require_held_out(model: Model) -> Held:
    """Return labels that were not trained on and their predictions, or raise with a remedy."""
    held = held_out(model)
    if held is None:
        raise ValueError(NO_LABELS)
    return held


class MemberRow(NamedTuple):
    """A member of the portfolio: its weight, and its error at labels not trained on."""

    name: str
    weight: float
    error: float
    rounds: float
    seconds: float


def member_rows(model: Model) -> list[MemberRow]:
    """Return the members that were trained, by their weight."""
    loss = model.output.loss
    rows = [
        MemberRow(
            row["member"],
            row["weight"],
            in_metric(loss, row["loss"]),
            row["rounds"],
            row["seconds"],
        )
        for row in model.selection
    ]
    return sorted(rows, key=lambda row: (-row.weight, row.error))


# ---------------------------------------------------------------------- intervals and probabilities


def at_rows(model: Model, rows: IntArray) -> Predictions:
    """Return the predictions of fitted rows."""
    return Predictions(model.raw[rows], Rows(), rows)


def deviations(model: Model) -> Array:
    """Return the standard deviation of the label of each row."""
    everywhere = at_rows(model, np.arange(model.n_rows))
    return np.asarray(distribution_of(model, everywhere).std())


class Coverage(NamedTuple):
    """Share of labels that intervals cover by level, and which ones those of 90 % cover."""

    levels: tuple[float, ...]
    share: Array
    covered: BoolArray


def coverage(model: Model, levels: tuple[float, ...] = LEVELS, seed: int = 0) -> Coverage:
    """Return the coverage of intervals: calibrated on one half of the labels, counted in the other.

    Counted where the ends come from, every level would hold by construction.
    """
    assert model.spread is not None
    scores = model.spread.scores
    half = np.random.default_rng(seed).permutation(scores.size) % 2
    covered = np.zeros((len(levels), scores.size), dtype=bool)
    for row, level in enumerate(levels):
        for fold in (0, 1):
            own, others = scores[half == fold], scores[half != fold]
            tail = 0.5 * (1.0 + level)
            low, high = -conformal_quantile(-others, tail), conformal_quantile(others, tail)
            covered[row, half == fold] = (low <= own) & (own <= high)
    return Coverage(levels, covered.mean(axis=1), covered[levels.index(0.9)])


def set_coverage(held: Held, level: float = 0.9, seed: int = 0) -> tuple[BoolArray, Array]:
    """Return which labels are in their prediction set, and its size, as :func:`coverage`."""
    probabilities = held.scored.predictions
    half = np.random.default_rng(seed).permutation(held.rows.size) % 2
    contains = np.zeros(probabilities.shape, dtype=bool)
    for fold in (0, 1):
        threshold = conformal_quantile(held.residual[half != fold], level)
        contains[half == fold] = 1.0 - probabilities[half == fold] <= threshold
    rows = np.arange(held.rows.size)
    contains[rows, probabilities.argmax(axis=1)] = True
    return contains[rows, held.truth.astype(int)], contains.sum(axis=1).astype(np.float64)


def calibration(held: Held, n_bins: int = 10) -> tuple[Array, Array, IntArray]:
    """Return probability of the predicted class, its accuracy and the number of rows, by bins."""
    if held.probabilities is None:
        raise ValueError("Calibration is for classifiers; draw eb.plot.coverage of a regressor.")
    stated = held.probabilities.max(axis=1)
    bins = np.minimum((stated * n_bins).astype(int), n_bins - 1)
    n_rows = np.bincount(bins, minlength=n_bins)
    filled = n_rows > 0
    right = (held.truth == held.prediction).astype(float)
    sums = [np.bincount(bins, weights=own, minlength=n_bins)[filled] for own in (stated, right)]
    return sums[0] / n_rows[filled], sums[1] / n_rows[filled], n_rows[filled]


class CalibrationError(NamedTuple):
    """Mean gap between probability and accuracy, and what it is if all probabilities are right."""

    value: float
    expected: float
    deviation: float


def calibration_error(held: Held, seed: int = 0) -> CalibrationError:
    """Return the expected calibration error, and that of classes drawn from the probabilities."""
    stated = held.scored.predictions.max(axis=1)
    bins = np.minimum((stated * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)

    def gap(right: Array) -> float:
        return float(np.abs(np.bincount(bins, weights=right - stated)).sum() / stated.size)

    random = np.random.default_rng(seed)
    draws = [gap(random.random(stated.size) < stated) for _ in range(CALIBRATION_DRAWS)]
    value = gap(held.truth == held.prediction)
    return CalibrationError(value, float(np.mean(draws)), float(np.std(draws, ddof=1)))


def confusion(held: Held, most: int) -> tuple[IntArray, Array]:
    """Return the most frequent classes, and the counts of true (row) by predicted class."""
    n_classes = held.scored.predictions.shape[1]
    counts = np.zeros((n_classes, n_classes))
    np.add.at(counts, (held.truth.astype(int), held.prediction.astype(int)), 1)
    classes = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:most])
    return classes, counts[np.ix_(classes, classes)]


# ---------------------------------------------------------------------- groups of labels

Group = tuple[str, BoolArray]


def label_groups(model: Model, table: Table | None, held: Held) -> list[Group]:
    """Return labels by number of neighbours, nearest label, prediction and leading column."""
    groups: list[Group] = [("All", np.ones(held.rows.size, dtype=bool))]
    if model.places is not None:
        places = model.places.in_one_group()
        graph, node_of_row = places.graph, places.node_of_row
        nodes = node_of_row[held.rows]
        n_neighbors = np.diff(graph.adjacency.indptr)[nodes]
        groups.append(("No neighbour", n_neighbors == 0))
        if n_neighbors.any():
            ends = np.quantile(n_neighbors[n_neighbors > 0], [0, 1 / 3, 2 / 3, 1]).astype(int)
            ends = np.unique(ends)
            for low, high in pairwise([int(ends[0]) - 1, *ends[1:].tolist()]):
                several = f"{low + 1} to {high} neighbours"
                name = several if high > low + 1 else count(high, "neighbour")
                groups.append((name, (n_neighbors > low) & (n_neighbors <= high)))
        labelled = np.zeros(graph.n_nodes)
        labelled[node_of_row[model.labels.rows]] = 1.0
        edges = (graph.adjacency != 0).astype(float)
        walks = edges @ labelled
        n_labelled = walks[nodes]
        # Walks of two edges to labels, but for those that lead back.
        n_near = (edges @ walks)[nodes] - n_neighbors * labelled[nodes]
        is_far = (n_labelled == 0) & (n_neighbors > 0)
        groups.append(("Nearest label 2 edges away", is_far & (n_near > 0)))
        groups.append(("Nearest label farther away", is_far & (n_near == 0)))
        groups.append(("1 or 2 labelled neighbours", (n_labelled >= 1) & (n_labelled <= 2)))
        groups.append(("3 or more labelled neighbours", n_labelled >= 3))
    if model.output.classes is not None:
        for c in np.argsort(-np.bincount(held.truth.astype(int)), kind="stable")[:4]:
            groups.append((f"True class {shorten(model.output.classes[c])}", held.truth == c))
    else:
        rank = np.argsort(np.argsort(held.prediction, kind="stable"), kind="stable")
        for third, name in enumerate(("Lowest", "Middle", "Highest")):
            own = rank * 3 // max(rank.size, 1) == third
            groups.append((f"{name} third of predictions", own))
    groups += _column_groups(model, table, held)
    return [(name, own) for name, own in groups if own.sum() >= MIN_GROUP or own.all()]


def _column_groups(model: Model, table: Table | None, held: Held) -> list[Group]:
    """Labels by the most important column: its frequent categories, or thirds."""
    if table is None or table.is_sparse:
        return []
    leading = [one.name for one in importances(model) if one.name in table.names and one.share > 0]
    if not leading:
        return []
    column = table.names.index(leading[0])
    name = shorten(leading[0], 40)
    values = table.values[held.rows, column]
    known = values[~np.isnan(values)]
    categories = model.reader.categories.get(column)
    if categories is not None:
        frequent = np.argsort(-np.bincount(known.astype(int)), kind="stable")[:4]
        return [(f"{name} = {shorten(categories[code], 40)}", values == code) for code in frequent]
    if not known.size:
        return []
    low, high = (float(end) for end in np.quantile(known, [1 / 3, 2 / 3]))
    if not low < high:
        return []
    ends = [(date if column in table.dates else number)(end) for end in (low, high)]
    return [
        (f"{name} up to {ends[0]}", values <= low),
        (f"{name} from {ends[0]} to {ends[1]}", (values > low) & (values <= high)),
        (f"{name} above {ends[1]}", values > high),
    ]


class GroupCoverage(NamedTuple):
    """Share of the labels of a group that is covered, and where it is in 19 of 20 samples."""

    name: str
    n_labels: int
    share: float
    low: float
    high: float


def coverage_by_group(model: Model, table: Table | None, held: Held) -> list[GroupCoverage]:
    """Return the coverage of 90 % intervals or sets in groups of labels."""
    covered = set_coverage(held)[0] if held.is_classes else coverage(model).covered
    result = []
    for name, own in label_groups(model, table, held):
        size = int(own.sum())
        low, high = binom.ppf([0.025, 0.975], size, 0.9) / size
        result.append(GroupCoverage(name, size, float(covered[own].mean()), low, high))
    return result


# ---------------------------------------------------------------------- columns


class Importance(NamedTuple):
    """Share of a column in what the members have learned, by its own value and by neighbours'."""

    name: str
    own: float
    of_neighbors: float

    @property
    def share(self) -> float:
        """Both together."""
        return self.own + self.of_neighbors


def column_kind(name: str, own_names: set[str]) -> str:
    """Return whose a column of a member is: "own", "neighbours" or "place" in the graph."""
    if name in own_names:
        return "own"
    if name.startswith("spectral"):
        return "place"
    return "neighbours" if name.startswith(OF_NEIGHBORS) else "own"


_IMPORTANCES: WeakKeyDictionary[Model, list[Importance]] = WeakKeyDictionary()


def importances(model: Model) -> list[Importance]:
    """Return the columns of X by their share, and what comes from the graph alone as one."""
    if model in _IMPORTANCES:
        return _IMPORTANCES[model]
    names = set(model.reader.names)
    parts = np.zeros((2, model.n_features))
    graph = 0.0
    for one in model.components:
        gains = one.ensemble.importances()
        total = max(float(gains.sum()), 1e-300)
        kinds = np.array([column_kind(name, names) for name in one.columns], dtype=object)
        for row, kind in enumerate(("own", "neighbours")):
            chosen = np.where(kinds == kind, gains, 0.0)
            own = one.features.input_importances(chosen, one.origin, model.n_features)
            parts[row] += one.weight / total * own
        has_origin = np.array(one.origin) >= 0
        if one.features.directions is None:
            graph += one.weight / total * float(gains[~has_origin].sum())
    every = max(float(parts.sum()) + graph, 1e-300)
    pairs = zip(model.reader.names, *(parts / every).tolist(), strict=True)
    rows = [Importance(*pair) for pair in pairs]
    rows += [Importance("place in the graph", 0.0, graph / every)] if graph else []
    _IMPORTANCES[model] = sorted(rows, key=lambda row: -row.share)
    return _IMPORTANCES[model]


# ---------------------------------------------------------------------- maps


class Place(NamedTuple):
    """Where rows are: points of a plane, areas if a GeoDataFrame is known, and what they are."""

    points: Array
    areas: Any
    source: str


def fitted_table(model: Model, X: TableLike) -> Table | None:
    """Return the table fitted on, from the model or as it was passed."""
    if X is None:
        return model.table
    X, _ = split_geometry(X)
    n_extra = len(model.reader.names) - np.shape(X)[1]
    if n_extra == 2 and model.table is not None:  # without the coordinates that fit appended
        return model.table
    table = read_table(model, X)
    if table.n_rows != model.n_rows:
        problem = f"X has {table.n_rows} rows, the model was fitted on {model.n_rows}"
        raise ValueError(f"{problem}: pass the table fitted on.")
    return table


def places(model: Model, X: TableLike = None) -> Place | None:
    """Return where the rows are: geometry, coordinates fitted on, or columns named so."""
    areas = split_geometry(X)[1] if X is not None else None
    areas = model.geometry if areas is None else areas
    if areas is not None:
        centers = areas.representative_point()
        points = np.column_stack([centers.x, centers.y])
        is_area = areas.geom_type.str.contains("Polygon").any()
        return Place(points, areas if is_area else None, "the geometry")
    if model.coordinates is not None:
        return Place(model.coordinates.map, None, "the coordinates fitted on")
    table = fitted_table(model, X)
    if table is None or table.is_sparse:
        return None
    position = {name.strip().lower(): column for column, name in enumerate(table.names)}
    for east, north in COORDINATES:
        if east not in position or north not in position:
            continue
        columns = [position[east], position[north]]
        points = np.asarray(table.values[:, columns], dtype=np.float64)
        if set(columns) & set(table.categorical) or not np.isfinite(points).all():
            continue
        if (np.ptp(points, axis=0) > 0).all():
            if north.startswith("lat"):  # a degree of longitude shrinks towards the poles
                points = points * [np.cos(np.radians(points[:, 1].mean())), 1.0]
            return Place(points, None, " and ".join(table.names[column] for column in columns))
    return None


@dataclass(frozen=True)
class Context:
    """What the report is made from: a fitted model, its table, and labels not trained on.

    ``held`` has the predictions of the model, ``plain`` those of its members without the graph.
    """

    estimator: Any
    model: Model
    X: TableLike
    table: Table | None
    held: Held | None
    plain: Held | None

    @classmethod
    def of(cls, estimator: Any, X: TableLike) -> "Context":
        """Return the context of a fitted estimator; ``X`` is its table, if it does not hold it."""
        model = fitted_model(estimator)
        table = fitted_table(model, X)
        return cls(estimator, model, X, table, held_out(model), without_graph(model))

    def name(self, row: int) -> str:
        """Return the id of a row, or its number."""
        graph = self.model.graph
        is_node = self.model.places is not None and self.model.places.are_rows
        if graph is not None and is_node and graph.has_ids:
            return shorten(graph.node_ids[row])
        return f"row {row}"
