"""Predictions of labels that were not trained on: the numbers behind the plots and the report."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn import metrics
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ebboost.boosting.callbacks import unless_interrupted
from ebboost.boosting.losses import Softmax, SquaredError
from ebboost.boosting.metrics import METRICS, Scored
from ebboost.data.coordinates import Coordinates
from ebboost.data.labels import one_hot
from ebboost.data.table import Table
from ebboost.data.types import Array, IntArray
from ebboost.estimators import EBBSClassifier, EBBSRegressor
from ebboost.model.intervals import LocalQuantile, conformal_quantile, scores_of_labels
from ebboost.model.spread import held_out_distribution
from ebboost.model.state import FittedState

Model = EBBSRegressor | EBBSClassifier
CANDIDATES = {"none": "without the graph", "as given": "as specified"}
# Metrics of likelihoods other than squared error, and of two and of more classes.
NUMBER_METRICS = ("deviance", "d2")
CLASS_METRICS = {2: ("log_loss", "brier", "roc_auc", "average_precision"), 3: ("log_loss", "brier")}
TITLES = {
    "rmse": "RMSE",
    "mae": "mean |error|",
    "median": "median |error|",
    "r2": "R²",
    "deviance": "mean deviance",
    "d2": "D²",
    "accuracy": "accuracy",
    "log_loss": "log-loss",
    "brier": "Brier score",
    "roc_auc": "AUC",
    "average_precision": "average precision",
}
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
# Names of columns that hold coordinates, east before north.
COORDINATES = [("x", "y"), ("lon", "lat"), ("lng", "lat"), ("long", "lat")]
COORDINATES += [("longitude", "latitude"), ("easting", "northing"), ("coord_x", "coord_y")]
COORDINATES += [("x_coord", "y_coord"), ("pos_x", "pos_y")]
# Parameters of a model that does not use its graph.
PLAIN: dict[str, str | int | None] = {
    "smoothing": None,
    "labels": "none",
    "neighbor_features": None,
}
PLAIN |= {"feature_smoothing": None, "spectral_features": None, "relations": "auto", "verbose": 0}


@dataclass(frozen=True)
class Validation:
    """Labels that were not trained on, and the predictions of their nodes."""

    nodes: IntArray
    truth: Array  # numbers, or positions in ``classes_``
    prediction: Array
    probabilities: Array | None = None  # of a classifier
    scored: Scored | None = None  # of a likelihood other than squared error

    def subset(self, selected: NDArray[np.bool_]) -> "Validation":
        """Return some of the labels."""
        probabilities = None if self.probabilities is None else self.probabilities[selected]
        parts = (self.nodes[selected], self.truth[selected], self.prediction[selected])
        scored = None if self.scored is None else self.scored.subset(selected)
        return Validation(*parts, probabilities, scored)

    @property
    def residual(self) -> Array:
        """Truth minus prediction; for classes, 1 minus the probability of the true class."""
        if self.probabilities is None:
            return self.truth - self.prediction
        return 1.0 - self.probabilities[np.arange(self.nodes.size), self.truth.astype(int)]

    @property
    def loss(self) -> Array:
        """Squared residual or deviance of each node; for classes, 1 where the class is wrong."""
        if self.scored is not None:
            return self.scored.loss.deviance(self.scored.scores, self.scored.target)
        if self.probabilities is None:
            return self.residual**2
        return (self.truth != self.prediction).astype(np.float64)

    @property
    def loss_name(self) -> str:
        """What the mean of ``loss`` is called."""
        if self.probabilities is not None:
            return "share of wrong classes"
        return "mean squared error" if self.scored is None else "mean deviance"

    @property
    def metrics(self) -> dict[str, float]:
        """Errors of numbers, deviance and D² of their likelihood, or metrics of classes."""
        if self.probabilities is None:
            pair = (self.truth, self.prediction)
            values = {
                "rmse": metrics.root_mean_squared_error(*pair),
                "mae": metrics.mean_absolute_error(*pair),
                "median": metrics.median_absolute_error(*pair),
                # Not that of scikit-learn where all labels are equal.
                "r2": metrics.r2_score(*pair) if np.ptp(self.truth) > 0.0 else np.nan,
            }
            names: tuple[str, ...] = () if self.scored is None else NUMBER_METRICS
            scored = self.scored
        else:
            n_classes = self.probabilities.shape[1]
            values = {"accuracy": metrics.accuracy_score(self.truth, self.prediction)}
            names = CLASS_METRICS[min(n_classes, 3)]
            scores = np.log(np.maximum(self.probabilities, np.finfo(float).tiny))
            target = np.eye(n_classes)[self.truth.astype(int)]
            scored = Scored(Softmax(), scores, target, np.ones(self.nodes.size))
        return values | {name: METRICS[name].compute(scored) for name in names if scored}


def fitted_state(model: Model) -> FittedState:
    """Return the state of a fitted model."""
    check_is_fitted(model)
    return model.state_


def validation(state: FittedState) -> Validation | None:
    """Return labels that were not trained on and their predictions, None without such labels."""
    return _validation(state, state.validation.prediction) if state.validation.nodes.size else None


def _validation(state: FittedState, raw: Array) -> Validation:
    """The labels that were not trained on, with these raw predictions."""
    record = state.validation
    if state.is_classifier:
        truth = one_hot(record.target).argmax(axis=1).astype(np.float64)
        probabilities = state.output.apply_link(raw)
        prediction = probabilities.argmax(axis=1).astype(np.float64)
        return Validation(record.nodes, truth, prediction, probabilities)
    offset = None if state.offset is None else state.offset[record.nodes]
    calibrated = state.output.calibration.apply(raw)
    scored = Scored(state.loss, calibrated, record.target, np.ones(record.nodes.size), offset)
    parts = (record.nodes, record.target[:, 0], state.output.decode(raw))
    return Validation(*parts, scored=None if type(state.loss) is SquaredError else scored)


def require_validation(state: FittedState) -> Validation:
    """Return labels that were not trained on and their predictions, or raise with a remedy."""
    result = validation(state)
    if result is None:
        raise ValueError(
            "Every label was trained on: fit with at least 10 labels and early_stopping=True, or "
            "pass eval_set=(nodes, y)."
        )
    return result


def without_graph(model: Model, table: Table) -> Validation:
    """Return predictions of plain boosting by models that were not trained on the labels.

    Those of model selection, at the labels where it was compared; without any, the same trees are
    fitted on the same labels and folds.
    """
    state = fitted_state(model)
    held_out = require_validation(state)
    compared = np.isfinite(state.validation.without_graph[:, 0])
    if compared.any():
        return _validation(state, state.validation.without_graph).subset(compared)
    training = state.training_labels
    categorical = list(table.categorical) if table.categorical else "auto"
    plain = clone(model).set_params(**PLAIN, categorical_features=categorical)
    plain.set_params(n_folds=state.n_folds)
    y = training.target[:, 0]
    y_held_out = held_out.truth
    if state.classes is not None:
        plain.set_params(class_weight=None)  # already in the weights
        y = state.classes[one_hot(training.target).argmax(axis=1)]
        y_held_out = state.classes[held_out.truth.astype(int)]
    extra = ~np.isin(held_out.nodes, training.nodes)
    eval_set = (held_out.nodes[extra], y_held_out[extra]) if extra.any() else None
    offset = None if state.offset is None else state.offset[:, 0]
    labelled = {"nodes": training.nodes, "eval_set": eval_set, "offset": offset}
    plain.fit(table.values, y, training.weight, **labelled)
    record = fitted_state(unless_interrupted(plain)).validation
    order = np.argsort(record.nodes)
    prediction = record.prediction[order[np.searchsorted(record.nodes[order], held_out.nodes)]]
    if state.classes is None:
        return _validation(state, prediction)
    # Columns are matched by class: a class may be among the held-out labels only.
    probabilities = np.zeros((held_out.nodes.size, state.classes.size))
    columns = np.searchsorted(state.classes, plain.classes_)
    probabilities[:, columns] = plain.state_.output.apply_link(prediction)
    classes = probabilities.argmax(axis=1).astype(np.float64)
    return Validation(held_out.nodes, held_out.truth, classes, probabilities)


class SelectionRow(NamedTuple):
    """A candidate in words, and its loss at held-out labels."""

    name: str
    loss: float
    error: float
    folds: str
    rounds: float
    selected: bool


def selection_rows(state: FittedState) -> list[SelectionRow]:
    """Return the candidates of the model selection, best first."""
    names = ("candidate", "loss", "standard_error", "folds", "rounds")
    columns = [state.selection.get(name, []) for name in names]
    return [
        SelectionRow(
            str(CANDIDATES.get(str(name), name)),
            float(loss),
            float(error),
            f"{folds} of {state.n_compared_folds}",
            float(rounds),
            name in state.candidate_names,
        )
        for name, loss, error, folds, rounds in zip(*columns, strict=True)
    ]


class Coverage(NamedTuple):
    """Share of labels covered and median half-width by level; labels that 90% intervals cover."""

    levels: tuple[float, ...]
    share: Array
    width: Array
    covered: NDArray[np.bool_]


def coverage(state: FittedState, levels: tuple[float, ...] = LEVELS, seed: int = 0) -> Coverage:
    """Coverage of conformal intervals by two folds: calibrated on one half, counted in the other.

    Counted where the ends come from, every level would hold by construction.
    """
    scores = scores_of_labels(state)
    distribution = held_out_distribution(state)
    raw = state.validation.prediction[:, 0]
    half = np.random.default_rng(seed).permutation(scores.size) % 2
    covered = np.zeros((len(levels), scores.size), dtype=bool)
    widths = np.zeros((len(levels), 2))
    for fold in (0, 1):
        part = distribution.subset(half == fold)
        for row, level in enumerate(levels):
            others = (raw[half != fold], scores[half != fold], level)
            end = LocalQuantile.fit(*others).at(raw[half == fold])
            end += conformal_quantile(LocalQuantile.differences(*others), level)
            end = np.maximum(end, 0.0)
            width = part.quantile_of_score(end) - part.quantile_of_score(-end)
            widths[row, fold] = np.median(width) / 2.0
            covered[row, half == fold] = scores[half == fold] <= end
    row = levels.index(0.9) if 0.9 in levels else len(levels) - 1
    return Coverage(levels, covered.mean(axis=1), widths.mean(axis=1), covered[row])


def set_coverage(
    state: FittedState, level: float = 0.9, seed: int = 0
) -> tuple[NDArray[np.bool_], Array]:
    """Which held-out labels are in their prediction set, and its size, as in :func:`coverage`."""
    record = state.validation
    probabilities = state.output.apply_link(record.prediction)
    rows = np.arange(record.nodes.size)
    truth = one_hot(record.target).argmax(axis=1)
    miss = 1.0 - probabilities[rows, truth]
    half = np.random.default_rng(seed).permutation(rows.size) % 2
    contains = np.zeros(probabilities.shape, dtype=bool)
    for fold in (0, 1):
        threshold = conformal_quantile(miss[half != fold], level)
        contains[half == fold] = 1.0 - probabilities[half == fold] <= threshold
    contains[rows, probabilities.argmax(axis=1)] = True
    return contains[rows, truth], contains.sum(axis=1).astype(np.float64)


def share_range(level: float, n_labels: int) -> tuple[float, float]:
    """Shares of labels that 19 of 20 samples of this size have, where the level holds."""
    low, high = binom.ppf([0.025, 0.975], n_labels, level) / n_labels
    return float(low), float(high)


def calibration(held_out: Validation, n_bins: int = 10) -> tuple[Array, Array, IntArray]:
    """Mean probability of the predicted class, its accuracy and the number of nodes, by bins."""
    if held_out.probabilities is None:
        raise ValueError("Calibration is for classifiers; draw eb.plot.coverage of a regressor.")
    probability = held_out.probabilities.max(axis=1)
    bins = np.minimum((probability * n_bins).astype(int), n_bins - 1)
    n_nodes = np.bincount(bins, minlength=n_bins)
    filled = n_nodes > 0
    stated = np.bincount(bins, weights=probability, minlength=n_bins)[filled] / n_nodes[filled]
    correct = np.bincount(bins, weights=1.0 - held_out.loss, minlength=n_bins)[filled]
    return stated, correct / n_nodes[filled], n_nodes[filled]


def confusion(held_out: Validation, n_classes: int, most: int) -> tuple[IntArray, Array]:
    """Positions of the most frequent classes, and the counts of true (row) by predicted class."""
    counts = np.zeros((n_classes, n_classes))
    np.add.at(counts, (held_out.truth.astype(int), held_out.prediction.astype(int)), 1)
    classes = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:most])
    return classes, counts[np.ix_(classes, classes)]


def importances(model: Model) -> list[tuple[str, float]]:
    """Columns of X and their share in the gain of the trees, the largest first."""
    names = fitted_state(model).reader.names
    pairs = zip(names, model.feature_importances_.tolist(), strict=True)
    return sorted(pairs, key=lambda pair: -pair[1])


def coordinates(table: Table | None, fitted: Coordinates | None = None) -> tuple[Array, str] | None:
    """Coordinates of the nodes, fitted on or in columns named so, and what they are called."""
    if fitted is not None:
        return fitted.map, "the coordinates fitted on"
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
            return points, " and ".join(table.names[column] for column in columns)
    return None
