"""Plots of a fitted model with matplotlib, for notebooks and for the report.

Each function draws into ``ax``, or into a new figure, and returns the Axes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ebboost._common import Array, IntArray, TableLike
from ebboost.applicability import distances_to_labels
from ebboost.explain import Explanation
from ebboost.formatting import count, shorten
from ebboost.inspection import diagnostics
from ebboost.inspection.diagnostics import Held, fitted_model, require_held_out
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
PARAMETERS = """
    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        Fitted.
    ax : Axes, optional
        Axes to draw into; by default those of a new figure."""
OF_TABLE = """
    X : table, optional
        The table fitted on, of a model that was loaded without it. Areas of a GeoDataFrame are
        drawn as such; other rows are points, at the coordinates fitted on or at columns named like
        coordinates (x and y, lon and lat)."""
OF_VALUES = """
    values : {"prediction", "residual", "uncertainty", "distance"}"""
OF_MOST = """
    most : int
        How many to draw."""
__all__ = ["calibration", "coverage", "coverage_by_group", "explanation", "importances", "losses"]
__all__ += ["map", "predicted_vs_true"]
OF_MODELS = [name for name in __all__ if name != "explanation"]


def drawing(draw: Callable[..., None]) -> Callable[..., Axes]:
    """Return a function that draws a fitted estimator, into ``ax`` or into a new figure."""

    @wraps(draw)
    def function(model: Any, ax: Axes | None = None, **options: Any) -> Axes:
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError:
                raise ImportError("Plots need matplotlib: pip install matplotlib.") from None
            ax = plt.subplots(layout="constrained")[1]
        own = model if isinstance(model, Explanation) else fitted_model(model)
        draw(own, ax, **options)
        return ax

    names = signature(draw).parameters
    own = [one.replace(annotation=Parameter.empty) for one in names.values()]
    own[1] = own[1].replace(default=None)  # ax
    function.__signature__ = Signature(own)  # type: ignore[attr-defined]
    parts = {"values": OF_VALUES, "X": OF_TABLE, "most": OF_MOST}
    more = "".join(text for name, text in parts.items() if name in names)
    returns = "\n\n    Returns\n    -------\n    Axes\n    "
    function.__doc__ = f"{(draw.__doc__ or '').rstrip()}\n{PARAMETERS}{more}{returns}"
    return function


@drawing
def losses(model: Model, ax: Axes) -> None:
    """Draw the loss of the first model by round, at labels trained on and at others."""
    loss = model.components[0].loss or model.output.loss
    curves = {
        name: np.array(model.history.get(key, ()))
        for name, key in (("trained on", "training"), ("not trained on", "validation"))
    }
    name = metric_of(loss) if model.output.is_classifier else "mean loss"
    if type(loss) is SquaredError:
        name, curves = "RMSE", {key: np.sqrt(2.0 * own) for key, own in curves.items()}
    for (label, values), color in zip(curves.items(), (FIRST, SECOND), strict=True):
        if values.size:
            ax.plot(np.arange(1, values.size + 1), values, color=color, label=label)
    if curves["not trained on"].size:
        ax.axvline(model.rounds[0], **DASHED, label="rounds used")
    every = np.concatenate(list(curves.values()))
    if every.size and every.min() > 0 and every.max() > 5 * every.min():
        from matplotlib.ticker import LogLocator

        ax.set_yscale("log", subs=[])
        ax.yaxis.set_major_locator(LogLocator(subs=[1, 2, 5]))
        ax.yaxis.set_major_formatter("{x:g}")
    ax.set(xlabel="round", ylabel=name)
    ax.legend(frameon=False)


@drawing
def predicted_vs_true(model: Model, ax: Axes, *, most: int = 12) -> None:
    """Draw labels that were not trained on against predictions; of classes, their confusion matrix.

    At most 1,500 rows at random; or the most frequent classes, with percentages of each true class.
    """
    held = require_held_out(model)
    ax.set(xlabel="predicted", ylabel="true")
    if model.output.classes is not None:
        _confusion(ax, held, model.output.classes, most)
        return
    shown = np.random.default_rng(0).permutation(held.rows.size)[:MAX_POINTS]
    points = (held.prediction[shown], held.truth[shown])
    ax.scatter(*points, s=14, alpha=0.4, color=FIRST, lw=0)
    ends = [max(part.min() for part in points), min(part.max() for part in points)]
    ax.plot(ends, ends, **DASHED)
    if model.output.loss.log_link:
        scale: dict[str, Any] = {"linthresh": max(float(np.median(held.prediction)), 1e-9)}
        ax.set_xscale("symlog", **scale)
        ax.set_yscale("symlog", **scale)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter("{x:g}")
    ax.set_title(f"{count(held.rows.size, 'label')}, each not trained on", fontsize="medium")


def _confusion(ax: Axes, held: Held, names: Any, most: int) -> None:
    """Percentage of each true class that is predicted as each class."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgba

    classes, counts = diagnostics.confusion(held, most)
    share = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    edges = np.arange(classes.size + 1) - 0.5
    scale = LinearSegmentedColormap.from_list("share", [to_rgba(FIRST, 0.03), to_rgba(FIRST, 0.7)])
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


@drawing
def importances(model: Model, ax: Axes, *, most: int = 15) -> None:
    """Draw the columns that matter most, by their own values and by those of neighbours."""
    ranked = diagnostics.importances(model)[:most]
    names, own = [one.name for one in ranked], [one.own for one in ranked]
    near = [one.of_neighbors for one in ranked]
    _bars(ax, names, own, [FIRST] * len(names), "share of what was learned")
    if any(near):
        ax.barh(range(len(names)), near, left=own, color=SECOND)
        ax.containers[0].set_label("of the row itself")
        ax.containers[1].set_label("of neighbours")
        ax.legend(loc="lower right", frameon=False, fontsize="small")


@drawing
def map(model: Model, ax: Axes, *, values: str = "prediction", X: TableLike = None) -> None:
    """Draw predictions, residuals, uncertainty, or distances to the nearest label on a map.

    Residuals are those of labels that were not trained on; other rows are grey. Of classes,
    predictions are probabilities of the second or else the commonest class, residuals 1 minus that
    of the true class, and the uncertainty is the probability that the predicted class is wrong.
    """
    classes, rows = model.output.classes, np.arange(model.n_rows)
    if values == "prediction" and classes is None:
        own, label, colors = model.output.decode(model.raw), "prediction", "viridis"
    elif values == "prediction":
        assert classes is not None
        commonest = int(np.bincount(diagnostics.class_codes(model)).argmax())
        shown = 1 if classes.size == 2 else commonest
        own, colors = model.output.apply_link(model.raw)[:, shown], "viridis"
        label = f"probability of {_axis_name(classes[shown])}"
    elif values == "residual":
        held = require_held_out(model)
        rows, own = held.rows, held.residual
        label, colors = "residual: label minus prediction", "coolwarm"
        if held.is_classes:
            label, colors = "1 − probability of the true class", "Oranges"
    elif values == "uncertainty" and classes is None:
        own, label = diagnostics.deviations(model), "standard deviation of the label"
        colors = "magma"
    elif values == "uncertainty":
        own = 1.0 - model.output.apply_link(model.raw).max(axis=1)
        label, colors = "probability that the predicted class is wrong", "magma"
    elif values == "distance":
        own, label, colors = distances_of(model), "distance to the nearest label", "cividis"
    else:
        expected = "'prediction', 'residual', 'uncertainty' or 'distance'"
        raise ValueError(f"values must be {expected}, got {values!r}.")
    low, high = (float(end) for end in np.quantile(own, [0.01, 0.99]))
    if values == "residual":
        high = float(np.quantile(np.abs(own), 0.95)) or 1.0
        low = 0.0 if classes is not None else -high
    _map(model, X, ax, rows, own, label, (colors, low, high))


def distances_of(model: Model) -> Array:
    """Return distances of the fitted rows to the nearest label; infinite ones as the farthest."""
    own = distances_to_labels(model, diagnostics.at_rows(model, np.arange(model.n_rows)))
    if np.isnan(own).any():
        raise ValueError("values='distance' needs a fit with coordinates or a graph.")
    return np.minimum(own, own[np.isfinite(own)].max(initial=0.0))


def _map(
    model: Model,
    X: TableLike,
    ax: Axes,
    rows: IntArray,
    values: Array,
    label: str,
    colors: tuple[str, float, float],
) -> None:
    """Values of rows on a map of all: areas, or points."""
    place = diagnostics.places(model, X)
    if place is None:
        raise ValueError(NO_MAP)
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


@drawing
def coverage(model: Model, ax: Axes) -> None:
    """Draw what share of labels intervals should contain against what they do contain.

    Intervals are calibrated on one half of the labels that were not trained on, and counted in the
    other.
    """
    if model.output.is_classifier:
        raise ValueError("Intervals are for regressors; draw eb.plot.calibration of a classifier.")
    require_held_out(model)
    observed = diagnostics.coverage(model)
    _diagonal(ax, observed.levels, observed.share, ("stated coverage", "coverage"))


@drawing
def coverage_by_group(model: Model, ax: Axes, *, X: TableLike = None) -> None:
    """Draw the share of labels that 90 % intervals or prediction sets cover, by group.

    Groups are by number of neighbours and of labelled ones, by prediction or class, and by the
    leading column. Bars are where 19 of 20 samples of that size are. Sets, which contain at least
    the most probable class, may cover more.
    """
    held = require_held_out(model)
    table = diagnostics.fitted_table(model, X)
    groups = diagnostics.coverage_by_group(model, table, held)
    rows = np.arange(len(groups))
    low, high = np.array([[one.low, one.high] for one in groups]).T
    ax.barh(rows, high - low, left=low, color=FAINT, label="range by chance")
    ax.plot([one.share for one in groups], rows, "o", color=FIRST, label="covered")
    ax.axvline(0.9, **DASHED)
    ax.set_yticks(rows, [_axis_name(one.name) for one in groups], parse_math=False)
    ax.invert_yaxis()
    ax.set(xlabel=f"coverage of 90 % {'sets' if held.is_classes else 'intervals'}")
    where: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}
    ax.legend(**where, ncols=2, frameon=False, fontsize="small")


@drawing
def calibration(model: Model, ax: Axes) -> None:
    """Draw the probability of the predicted class against how often it is right."""
    stated, accuracy, _ = diagnostics.calibration(require_held_out(model))
    _diagonal(ax, stated, accuracy, ("predicted probability", "accuracy"))


def explanation(explained: Explanation, ax: Axes | None = None, *, most: int = 12) -> Axes:
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

    Examples
    --------
    >>> import ebboost as eb, numpy as np, matplotlib
    >>> matplotlib.use("agg")
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> model = eb.EBBSRegressor(20, random_state=0).fit(X, X[:, 0])
    >>> eb.plot.explanation(model.explanations([3])[0]).get_title()[:5]
    'row 3'
    """
    if not isinstance(explained, Explanation):
        problem = f"explained must be one of model.explanations([row]), got {type(explained)}"
        raise TypeError(f"{problem}: pass model.explanations([row])[0].")
    return _explanation(explained, ax, most=most)


@drawing
def _explanation(explained: Explanation, ax: Axes, *, most: int) -> None:
    parts = list(explained.own.items())
    parts += [(f"columns of row {row}", value) for row, value in explained.neighbors.items()]
    parts += [(f"label of row {row}", value) for row, value in explained.labels.items()]
    parts.sort(key=lambda part: -abs(part[1]))
    if rest := parts[most:]:
        total = sum(value for _, value in rest)
        parts = [*parts[:most], (count(len(rest), "other contribution"), total)]
    names, values = [name for name, _ in parts], [value for _, value in parts]
    colors = [FIRST if value >= 0 else SECOND for value in values]
    _bars(ax, names, values, colors, f"contribution, added to {explained.base:.4g}")
    ax.axvline(0, color=GUIDE, linewidth=1)
    ax.set_title(f"row {explained.node}: score {explained.score:.4g}", fontsize="medium")


def _bars(ax: Axes, names: list[str], values: list[float], colors: list[str], xlabel: str) -> None:
    """Horizontal bars, the first on top."""
    ax.barh(range(len(names)), values, color=colors)
    ax.set_yticks(range(len(names)), [_axis_name(name) for name in names], parse_math=False)
    ax.invert_yaxis()
    ax.locator_params(axis="x", nbins=5)
    ax.set(xlabel=xlabel)


def _diagonal(ax: Axes, x: ArrayLike, y: ArrayLike, names: tuple[str, str]) -> None:
    """A line through points, which should lie on the diagonal."""
    ax.axline((1, 1), slope=1, **DASHED)
    ax.plot(x, y, "o-", color=FIRST)
    low = min(float(np.min(x)), float(np.min(y))) - 0.05
    ax.set(xlim=(low, 1.02), ylim=(low, 1.02), xlabel=names[0], ylabel=names[1])


def _axis_name(name: object) -> str:
    """A name that fits on an axis, in characters that can be encoded."""
    return shorten(name, MAX_NAME).encode("utf-8", "backslashreplace").decode()
