"""What the nodes held out by ``fit`` say of a fitted model: the numbers behind the plots and the report."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from ebboost.boosting.callbacks import unless_interrupted
from ebboost.data import validation as checks
from ebboost.data.labels import Labels, one_hot
from ebboost.data.table import Table
from ebboost.model.predict import with_labels
from ebboost.training.selection import label_correlation

Array = NDArray[np.float64]
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
# Names under which tables keep places, east before north.
PLACES = (
    ("x", "y"),
    ("lon", "lat"),
    ("lng", "lat"),
    ("long", "lat"),
    ("longitude", "latitude"),
    ("easting", "northing"),
    ("coord_x", "coord_y"),
    ("x_coord", "y_coord"),
    ("pos_x", "pos_y"),
)


@dataclass(frozen=True)
class HeldOut:
    """Labels that were not trained on, and what was predicted for their nodes.

    Attributes
    ----------
    nodes : ndarray of int
    truth, prediction : ndarray of shape (m,)
        Numbers, or positions in ``classes_``.
    probabilities : ndarray of shape (m, n_classes), optional
        Of a classifier.
    """

    nodes: NDArray[np.int64]
    truth: Array
    prediction: Array
    probabilities: Array | None = None

    @property
    def residual(self) -> Array:
        """Truth less prediction; for classes, the probability that the true class was not given."""
        if self.probabilities is None:
            return self.truth - self.prediction
        return 1.0 - self.probabilities[np.arange(self.nodes.size), self.truth.astype(int)]

    @property
    def cost(self) -> Array:
        """What each node's error costs: its square or, for classes, 1 where the class is wrong."""
        if self.probabilities is None:
            return self.residual**2
        return (self.truth != self.prediction).astype(np.float64)


def held_out(model: Any) -> HeldOut | None:
    """Return what ``fit`` held out, None if it held out nothing."""
    check_is_fitted(model, "ensemble_")
    if not model.validation_nodes_.size:
        return None
    target, predicted = model.validation_target_, model.validation_prediction_
    if is_classifier(model):
        truth, likeliest = (
            part.argmax(axis=1).astype(np.float64) for part in (one_hot(target), predicted)
        )
        return HeldOut(model.validation_nodes_, truth, likeliest, predicted)
    return HeldOut(model.validation_nodes_, target[:, 0], model.loss_.inverse_link(predicted)[:, 0])


def needs_held_out(model: Any) -> HeldOut:
    """Return what ``fit`` held out, or say how to have it hold out something."""
    held = held_out(model)
    if held is None:
        raise ValueError(
            "This model was fitted without held-out nodes: fit with at least 50 labels and early_stopping=True, or pass "
            "eval_set=(nodes, y)."
        )
    return held


def quality(held: HeldOut) -> dict[str, float]:
    """Return the usual measures at held-out nodes."""
    if held.probabilities is None:
        error = held.residual
        mean_square = float((error**2).mean())
        spread = float(held.truth.var())
        return {
            "rmse": mean_square**0.5,
            "mae": float(np.abs(error).mean()),
            "median": float(np.median(np.abs(error))),
            "r2": 1.0 - mean_square / spread if spread > 0 else float("nan"),
        }
    return {
        "accuracy": 1.0 - float(held.cost.mean()),
        "log_loss": float(-np.log(np.maximum(1.0 - held.residual, 1e-12)).mean()),
    }


def training_labels(model: Any) -> Labels:
    """The labels trained on: what was held out is given back to the model after the fit, for its predictions."""
    labels: Labels = model.state_.labels
    return labels.subset(~np.isin(labels.nodes, model.validation_nodes_))


def before_held_out(model: Any) -> Any:
    """Return the model as it was when it predicted the held-out nodes, their labels unseen."""
    return type(model).from_state(with_labels(model.state_, model.state_.training_labels))


def fitted_table(model: Any, X: Any = None) -> Table | None:
    """Return the table fitted on: as handed over, as the model keeps it, or None."""
    check_is_fitted(model, "ensemble_")
    if X is None:
        kept: Table | None = model.state_.table
        return kept
    table: Table = model.state_.reader.read(X)
    checks.check_n_features(table, model.n_features_in_, type(model).__name__)
    checks.check_n_rows(table, len(model.scores_))
    return table


def uses_graph(model: Any) -> bool:
    """Whether predictions depend on any edge."""
    uses: bool = model.state_.uses_graph
    return uses


def without_graph(model: Any, table: Table) -> HeldOut:
    """Fit the same trees on the same labels without the graph, and predict the same held-out nodes."""
    held, training = needs_held_out(model), training_labels(model)
    plain = clone(model).set_params(
        smoothing=None,
        labels="none",
        neighbor_features=None,
        feature_smoothing=None,
        relations="auto",
        verbose=0,
        categorical_features=list(table.categorical) if table.categorical else "auto",
    )
    if is_classifier(model):
        plain.set_params(class_weight=None)  # already in the weights
        of_training, of_held = (
            model.classes_[one_hot(part).argmax(axis=1)]
            for part in (training.target, model.validation_target_)
        )
    else:
        of_training, of_held = training.target[:, 0], held.truth
    evaluation = (held.nodes, of_held)
    plain.fit(table.values, of_training, training.weight, nodes=training.nodes, eval_set=evaluation)
    unless_interrupted(plain)
    if is_classifier(model):
        # A class that is only among the held-out labels is unknown to both; columns are matched by class.
        probabilities = np.zeros((held.nodes.size, model.classes_.size))
        probabilities[:, np.searchsorted(model.classes_, plain.classes_)] = (
            plain.validation_prediction_
        )
        return HeldOut(
            held.nodes, held.truth, probabilities.argmax(axis=1).astype(np.float64), probabilities
        )
    return HeldOut(held.nodes, held.truth, plain.predict(nodes=held.nodes))


@dataclass(frozen=True)
class Coverage:
    """How many held-out nodes intervals of a stated level hold.

    ``share`` and ``width`` have an entry for each of ``levels``; ``inside`` says of each node whether the interval of level
    ``levels[-2]`` (0.9) held it.
    """

    levels: tuple[float, ...]
    share: Array
    width: Array
    inside: NDArray[np.bool_] = field(repr=False)


def coverage(held: HeldOut, levels: tuple[float, ...] = LEVELS, seed: int = 0) -> Coverage:
    """Check conformal intervals in halves: widths from the errors of one half, counted in the other, and back.

    Counted where the widths come from, every level would hold by construction.
    """
    error = np.abs(held.residual)
    half = np.random.default_rng(seed).permutation(error.size) % 2
    inside = np.zeros((len(levels), error.size), dtype=bool)
    widths = np.zeros((len(levels), 2))
    for side in (0, 1):
        known = np.sort(error[half != side])
        for row, level in enumerate(levels):
            rank = int(np.ceil((known.size + 1) * level))
            widths[row, side] = known[rank - 1] if rank <= known.size else np.inf
            inside[row, half == side] = error[half == side] <= widths[row, side]
    shown = levels.index(0.9) if 0.9 in levels else len(levels) - 1
    return Coverage(levels, inside.mean(axis=1), widths.mean(axis=1), inside[shown])


def calibration(held: HeldOut, n_bins: int = 10) -> tuple[Array, Array, NDArray[np.int64]]:
    """Return stated probability of the predicted class, how often it was right, and nodes, in bins of equal width."""
    if held.probabilities is None:
        raise ValueError("Calibration is for classes; intervals of numbers have coverage.")
    stated, right = held.probabilities.max(axis=1), 1.0 - held.cost
    place = np.minimum((stated * n_bins).astype(int), n_bins - 1)
    count = np.bincount(place, minlength=n_bins)
    filled = count > 0
    sums = (np.bincount(place, weights=part, minlength=n_bins)[filled] for part in (stated, right))
    said, seen = (part / count[filled] for part in sums)
    return said, seen, count[filled]


def importances(model: Any) -> list[tuple[str, float]]:
    """Return columns of the user's table and their share in the gain of the trees, the largest first."""
    pairs = zip(model.state_.reader.names, model.feature_importances_.tolist(), strict=True)
    return sorted(((name, share) for name, share in pairs), key=lambda pair: -pair[1])


def coordinates(table: Table | None) -> tuple[Array, str] | None:
    """Return places of the nodes and the columns they come from, if the table has columns named like places."""
    if table is None or table.is_sparse:
        return None
    position = {name.strip().lower(): place for place, name in enumerate(table.names)}
    for east, north in PLACES:
        columns = [position.get(east), position.get(north)]
        if None in columns or any(column in table.categorical for column in columns):
            continue
        place = np.asarray(table.values[:, columns], dtype=np.float64)
        if np.isfinite(place).all() and (np.ptp(place, axis=0) > 0).all():
            if north.startswith("lat"):  # a degree of longitude shrinks towards the poles
                place = place * [np.cos(np.radians(place[:, 1].mean())), 1.0]
            return place, " and ".join(
                table.names[int(column)] for column in columns if column is not None
            )
    return None


def errors_alike(model: Any, held: HeldOut) -> float | None:
    """Return the correlation of a held-out error with the mean of its held-out neighbours' errors, if 30 have any."""
    if model.graph_ is None:
        return None
    labels = Labels(held.nodes, held.residual[:, None], np.ones(held.nodes.size))
    chosen = model.graph_.adjacency[held.nodes][:, held.nodes]
    if int((np.diff(chosen.indptr) > 0).sum()) < 30:
        return None
    return label_correlation(model.graph_, labels)
