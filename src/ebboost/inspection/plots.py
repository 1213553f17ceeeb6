"""Plots of a fitted model with matplotlib, for notebooks and for the report.

Each function draws into ``ax``, or into a new figure, and returns the Axes.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ebboost._common import Array, IntArray, TableLike
from ebboost.explain import Explanation
from ebboost.inspection import diagnostics
from ebboost.inspection.diagnostics import Held, fitted_model, require_held_out
from ebboost.inspection.formatting import count, shorten
from ebboost.losses import SquaredError
from ebboost.model import Model, metric_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIRST = "#0b6e75"
SECOND = "#b4500b"
FAINT = "#c4c9cc"
GUIDE = "#808080"
DASHED: dict[str, Any] = {"color": GUIDE, "linestyle": "--", "linewidth": 1}
MAX_POINTS = 1500
MAX_NAME = 32  # characters of a label on an axis
NO_MAP = (
    "There is nothing to draw on a map: the model was fitted on no coordinates, no GeoDataFrame, "
    "and no columns named like coordinates (x and y, lon and lat). Pass a GeoDataFrame as X."
)
__all__ = ["calibration", "coverage", "coverage_by_group", "explanation", "importances", "losses"]
__all__ += ["predicted_vs_true", "prediction_map", "residual_map", "uncertainty_map"]


def _axes(ax: "Axes | None") -> "Axes":
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("Plots need matplotlib: pip install matplotlib.") from None
    return plt.subplots(layout="constrained")[1]


def losses(model: Any, ax: "Axes | None" = None) -> "Axes":
    """Draw the loss of the first model by round, where it was trained and where it was not.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        Fitted.
    ax : Axes, optional
        Axes to draw into; by default those of a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import ebboost as eb, numpy as np, matplotlib
    >>> matplotlib.use("agg")
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> m = eb.EBBSRegressor(20, random_state=0).fit(X, X[:, 0], graph=eb.Graph.build_knn(X, k=4))
    >>> eb.plot.losses(m).get_xlabel()
    'round'
    """
    own = fitted_model(model)
    ax = _axes(ax)
    name, curves = loss_curves(own)
    for (label, values), color in zip(curves.items(), (FIRST, SECOND), strict=False):
        ax.plot(np.arange(1, len(values) + 1), values, color=color, label=label)
    if len(curves) > 1:
        ax.axvline(own.rounds[0], **DASHED, label="rounds used")
    every = [value for values in curves.values() for value in values]
    if every and min(every) > 0 and max(every) > 5 * min(every):
        from matplotlib.ticker import LogLocator

        ax.set_yscale("log", subs=[])
        ax.yaxis.set_major_locator(LogLocator(subs=[1, 2, 5]))
        ax.yaxis.set_major_formatter("{x:g}")
    ax.set(xlabel="round", ylabel=name)
    ax.legend(frameon=False)
    return ax


def loss_curves(model: Model) -> tuple[str, dict[str, list[float]]]:
    """Return what the losses of the first model are called, and their values by round."""
    loss = model.components[0].loss or model.output.loss
    names = {"training": "trained on", "validation": "not trained on"}
    curves = {names[key]: values for key, values in model.history.items() if values}
    if type(loss) is SquaredError:
        roots = {key: np.sqrt(2.0 * np.array(values)).tolist() for key, values in curves.items()}
        return "RMSE", roots
    return (metric_of(loss) if model.output.is_classifier else "mean loss"), curves


def predicted_vs_true(model: Any, ax: "Axes | None" = None, *, most: int = 12) -> "Axes":
    """Draw labels that were not trained on against predictions; of classes, their confusion matrix.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        Fitted, with labels that were not trained on.
    ax : Axes, optional
        Axes to draw into; by default those of a new figure.
    most : int, default=12
        Most frequent classes to draw; cells hold the percentage of each true class.

    Returns
    -------
    Axes
        With at most 1,500 rows at random.
    """
    own = fitted_model(model)
    held = require_held_out(own)
    ax = _axes(ax)
    ax.set(xlabel="predicted", ylabel="true")
    if own.output.classes is not None:
        return _confusion(ax, held, own.output.classes, most)
    shown = np.random.default_rng(0).permutation(held.rows.size)[:MAX_POINTS]
    points = (held.prediction[shown], held.truth[shown])
    ax.scatter(*points, s=14, alpha=0.4, color=FIRST, lw=0)
    ends = [max(part.min() for part in points), min(part.max() for part in points)]
    ax.plot(ends, ends, **DASHED)
    if own.output.loss.log_link:
        scale: dict[str, Any] = {"linthresh": max(float(np.median(held.prediction)), 1e-9)}
        ax.set_xscale("symlog", **scale)
        ax.set_yscale("symlog", **scale)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter("{x:g}")
    title = f"{count(held.rows.size, 'label')}, each not trained on"
    ax.set_title(title, fontsize="medium")
    return ax


def _confusion(ax: "Axes", held: Held, names: Any, most: int) -> "Axes":
    """Percentage of each true class that is predicted as each class."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgba

    classes, counts = diagnostics.confusion(held, most)
    share = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    colors = [to_rgba(FIRST, 0.03), to_rgba(FIRST, 0.7)]
    edges = np.arange(classes.size + 1) - 0.5
    scale = LinearSegmentedColormap.from_list("share", colors)
    ax.grid(False)
    ax.pcolormesh(edges, edges, share, cmap=scale, vmin=0, vmax=100)
    for (row, column), value in np.ndenumerate(share):
        if value:
            ax.text(column, row, f"{value:.0f}", ha="center", va="center")
    labels = [_axis_name(name) for name in names[classes].tolist()]
    ax.set_xticks(range(len(labels)), labels, rotation=45, ha="right", parse_math=False)
    ax.set_yticks(range(len(labels)), labels, parse_math=False)
    ax.invert_yaxis()
    ax.set_aspect("equal")
    return ax


def importances(model: Any, ax: "Axes | None" = None, *, most: int = 15) -> "Axes":
    """Draw the columns that matter most, by their own values and by those of neighbours.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        Fitted.
    ax : Axes, optional
        Axes to draw into; by default those of a new figure.
    most : int, default=15
        Number of columns to draw.

    Returns
    -------
    Axes
    """
    ranked = diagnostics.importances(fitted_model(model))[:most]
    names = [one.name for one in ranked]
    own, near = ([one[part] for one in ranked] for part in (1, 2))
    ax = _bars(_axes(ax), names, own, [FIRST] * len(names), "share of what was learned")
    if any(near):
        ax.barh(range(len(names)), near, left=own, color=SECOND)
        ax.containers[0].set_label("of the row itself")
        ax.containers[1].set_label("of neighbours")
        ax.legend(loc="lower right", frameon=False, fontsize="small")
    return ax


def prediction_map(model: Any, ax: "Axes | None" = None, *, X: TableLike = None) -> "Axes":
    """Draw the predictions on a map; of classes, the probability of the commonest one.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        Fitted.
    ax : Axes, optional
        Axes to draw into; by default those of a new figure.
    X : table, optional
        The table fitted on, of a model that was loaded from a file. Areas of a GeoDataFrame are
        drawn as such; other rows are points, at the coordinates fitted on or at columns named like
        coordinates (x and y, lon and lat).

    Returns
    -------
    Axes
    """
    own = fitted_model(model)
    every = np.arange(own.n_rows)
    if own.output.classes is None:
        values, label = own.output.decode(own.raw), "prediction"
    else:
        commonest = int(np.bincount(diagnostics.class_codes(own)).argmax())
        if own.output.classes.size == 2:
            commonest = 1
        values = own.output.apply_link(own.raw)[:, commonest]
        label = f"probability of {_axis_name(own.output.classes[commonest])}"
    low, high = (float(end) for end in np.quantile(values, [0.01, 0.99]))
    return _map(own, X, ax, every, values, label, ("viridis", low, high))


def residual_map(model: Any, ax: "Axes | None" = None, *, X: TableLike = None) -> "Axes":
    """Draw the residuals of labels that were not trained on, on a map of all rows.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        Fitted, with labels that were not trained on.
    ax : Axes, optional
        Axes to draw into; by default those of a new figure.
    X : table, optional
        As in :func:`prediction_map`.

    Returns
    -------
    Axes
    """
    own = fitted_model(model)
    held = require_held_out(own)
    limit = float(np.quantile(np.abs(held.residual), 0.95)) or 1.0
    low, label, colors = -limit, "residual: label minus prediction", "coolwarm"
    if held.is_classes:
        low, label, colors = 0.0, "1 − probability of the true class", "Oranges"
    return _map(own, X, ax, held.rows, held.residual, label, (colors, low, limit))


def uncertainty_map(model: Any, ax: "Axes | None" = None, *, X: TableLike = None) -> "Axes":
    """Draw how unsure predictions are on a map of all rows.

    Standard deviations of labels; for classes the probability that the predicted one is wrong.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        Fitted, with labels that were not trained on.
    ax : Axes, optional
        Axes to draw into; by default those of a new figure.
    X : table, optional
        As in :func:`prediction_map`.

    Returns
    -------
    Axes
    """
    own = fitted_model(model)
    if own.output.is_classifier:
        values = 1.0 - own.output.apply_link(own.raw).max(axis=1)
        label = "probability that the predicted class is wrong"
    else:
        values, label = diagnostics.deviations(own), "standard deviation of the label"
    low, high = (float(end) for end in np.quantile(values, [0.01, 0.99]))
    return _map(own, X, ax, np.arange(own.n_rows), values, label, ("magma", low, high))


def _map(
    model: Model,
    X: TableLike,
    ax: "Axes | None",
    rows: IntArray,
    values: Array,
    label: str,
    colors: tuple[str, float, float],
) -> "Axes":
    """Values of rows on a map of all: areas, or points."""
    place = diagnostics.places(model, X)
    if place is None:
        raise ValueError(NO_MAP)
    ax = _axes(ax)
    cmap, low, high = colors
    scale: dict[str, Any] = {"cmap": cmap, "vmin": low, "vmax": high, "rasterized": True}
    if place.areas is not None:
        place.areas.plot(ax=ax, color=FAINT, rasterized=True)
        areas = place.areas.iloc[rows].to_frame().assign(value=values)
        areas.plot("value", ax=ax, aspect=None, **scale)
        drawn = ax.collections[-1]
    else:
        x, y = place.points.T
        ax.scatter(x, y, s=2, color=FAINT, linewidths=0, rasterized=True)
        size = 14 if rows.size <= MAX_POINTS else 4
        drawn = ax.scatter(x[rows], y[rows], s=size, c=values, linewidths=0, **scale)
    ax.figure.colorbar(drawn, ax=ax, label=label, shrink=0.8)
    ax.grid(False)
    ax.set(aspect="equal", xticks=[], yticks=[], xlabel="", ylabel="")
    return ax


def coverage(model: Any, ax: "Axes | None" = None) -> "Axes":
    """Draw what share of labels intervals should contain against what they do contain.

    Parameters
    ----------
    model : EBBSRegressor
        Fitted. Intervals are calibrated on one half of the labels that were not trained on, and
        counted in the other.
    ax : Axes, optional
        Axes to draw into; by default those of a new figure.

    Returns
    -------
    Axes
    """
    own = fitted_model(model)
    if own.output.is_classifier:
        raise ValueError("Intervals are for regressors; draw eb.plot.calibration of a classifier.")
    require_held_out(own)
    observed = diagnostics.coverage(own)
    return _diagonal(_axes(ax), observed.levels, observed.share, ("stated coverage", "coverage"))


def coverage_by_group(model: Any, ax: "Axes | None" = None, *, X: TableLike = None) -> "Axes":
    """Draw the share of labels that 90 % intervals or prediction sets cover, by group.

    Groups are by number of neighbours and of labelled ones, by prediction or class, and by the
    leading column. Bars are where 19 of 20 samples of that size are. Sets, which contain at least
    the most probable class, may cover more.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        Fitted, with labels that were not trained on.
    ax : Axes, optional
        Axes to draw into; by default those of a new figure.
    X : table, optional
        The table fitted on, of a model that was loaded without it.

    Returns
    -------
    Axes
    """
    own = fitted_model(model)
    held = require_held_out(own)
    is_class = held.is_classes
    covered = diagnostics.set_coverage(held)[0] if is_class else diagnostics.coverage(own).covered
    table = diagnostics.fitted_table(own, X)
    groups = diagnostics.coverage_by_group(own, table, held, covered)
    return draw_coverage(groups, "90 % sets" if is_class else "90 % intervals", _axes(ax))


def draw_coverage(groups: list[diagnostics.GroupCoverage], name: str, ax: "Axes") -> "Axes":
    """Draw the coverage of groups, and their ranges by chance."""
    rows = np.arange(len(groups))
    low, high = np.array([[one.low, one.high] for one in groups]).T
    ax.barh(rows, high - low, left=low, color=FAINT, label="range by chance")
    ax.plot([one.share for one in groups], rows, "o", color=FIRST, label="covered")
    ax.axvline(0.9, **DASHED)
    ax.set_yticks(rows, [_axis_name(one.name) for one in groups], parse_math=False)
    ax.invert_yaxis()
    ax.set(xlabel=f"coverage of {name}")
    where: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}
    ax.legend(**where, ncols=2, frameon=False, fontsize="small")
    return ax


def calibration(model: Any, ax: "Axes | None" = None) -> "Axes":
    """Draw the probability of the predicted class against how often it is right.

    Parameters
    ----------
    model : EBBSClassifier
        Fitted, with labels that were not trained on.
    ax : Axes, optional
        Axes to draw into; by default those of a new figure.

    Returns
    -------
    Axes
    """
    stated, accuracy, _ = diagnostics.calibration(require_held_out(fitted_model(model)))
    return _diagonal(_axes(ax), stated, accuracy, ("predicted probability", "accuracy"))


def explanation(explained: Explanation, ax: "Axes | None" = None, *, most: int = 12) -> "Axes":
    """Draw the largest contributions to one prediction: of columns, neighbours and labels.

    Parameters
    ----------
    explained : Explanation
        Of one row, ``model.explanations([row])[0]``.
    ax : Axes, optional
        Axes to draw into; by default those of a new figure.
    most : int, default=12
        Contributions to draw; the sum of all others is one more bar.

    Returns
    -------
    Axes
    """
    if not isinstance(explained, Explanation):
        problem = f"explained must be one of model.explanations([row]), got {type(explained)}"
        raise TypeError(f"{problem}: pass model.explanations([row])[0].")
    parts = list(explained.own.items())
    parts += [(f"columns of row {row}", value) for row, value in explained.neighbors.items()]
    parts += [(f"label of row {row}", value) for row, value in explained.labels.items()]
    parts.sort(key=lambda part: -abs(part[1]))
    if rest := parts[most:]:
        total = sum(value for _, value in rest)
        parts = [*parts[:most], (count(len(rest), "other contribution"), total)]
    names, values = [name for name, _ in parts], [value for _, value in parts]
    colors = [FIRST if value >= 0 else SECOND for value in values]
    label = f"contribution, added to {explained.base:.4g}"
    ax = _bars(_axes(ax), names, values, colors, label)
    ax.axvline(0, color=GUIDE, linewidth=1)
    ax.set_title(f"row {explained.node}: score {explained.score:.4g}", fontsize="medium")
    return ax


def _bars(
    ax: "Axes", names: list[str], values: list[float], colors: list[str], xlabel: str
) -> "Axes":
    """Horizontal bars, the first on top."""
    ax.barh(range(len(names)), values, color=colors)
    ax.set_yticks(range(len(names)), [_axis_name(name) for name in names], parse_math=False)
    ax.invert_yaxis()
    ax.locator_params(axis="x", nbins=5)
    ax.set(xlabel=xlabel)
    return ax


def _diagonal(ax: "Axes", x: ArrayLike, y: ArrayLike, names: tuple[str, str]) -> "Axes":
    """A line through points, which should lie on the diagonal."""
    ax.axline((1, 1), slope=1, **DASHED)
    ax.plot(x, y, "o-", color=FIRST)
    low = min(float(np.min(x)), float(np.min(y))) - 0.05
    ax.set(xlim=(low, 1.02), ylim=(low, 1.02), xlabel=names[0], ylabel=names[1])
    return ax


def _axis_name(name: object) -> str:
    """A name that fits on an axis, in characters that can be encoded."""
    return shorten(name, MAX_NAME).encode("utf-8", "backslashreplace").decode()
