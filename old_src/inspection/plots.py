"""Plots of a fitted model with matplotlib, for notebooks and for the report.

Each function draws into ``ax``, or into a new figure, and returns the Axes.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebboost.data.types import Array, IntArray, TableLike
from ebboost.estimators import EBBSClassifier
from ebboost.inspection import diagnostics, label_groups
from ebboost.inspection.diagnostics import Model, Validation, fitted_state, require_validation
from ebboost.inspection.formatting import count, shorten
from ebboost.inspection.layout import layout
from ebboost.model.explain import Explanation
from ebboost.model.inputs import fitted_table
from ebboost.model.spread import variance_columns
from ebboost.model.state import FittedState

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIRST = "#0b6e75"
SECOND = "#b4500b"
FAINT = "#c4c9cc"
GUIDE = "#808080"
DASHED: dict[str, Any] = {"color": GUIDE, "linestyle": "--", "linewidth": 1}
MAX_POINTS = 1500
MAX_NAME = 32  # characters of a label on an axis
NO_SELECTION = "There was no model selection: the parts were specified, or no labels were held out."
__all__ = ["calibration", "candidates", "coverage", "coverage_by_group", "explanation"]
__all__ += ["importances", "losses", "predicted_vs_true", "residual_map", "uncertainty_map"]


def _axes(ax: "Axes | None") -> "Axes":
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("Plots need matplotlib: pip install matplotlib.") from None
    return plt.subplots(layout="constrained")[1]


def losses(model: Model, ax: "Axes | None" = None) -> "Axes":
    """Draw training and validation loss by round of the first model, and the rounds it uses.

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
    state = fitted_state(model)
    ax = _axes(ax)
    from matplotlib.ticker import LogLocator

    every: list[float] = []
    for name, color in (("training", FIRST), ("validation", SECOND)):
        if values := state.history.get(name):
            ax.plot(np.arange(1, len(values) + 1), values, color=color, label=name)
            every += values
    if state.history.get("validation"):
        ax.axvline(state.rounds[0], **DASHED, label="rounds used")
    if every and min(every) > 0 and max(every) > 5 * min(every):
        ax.set_yscale("log", subs=[])
        ax.yaxis.set_major_locator(LogLocator(subs=[1, 2, 5]))
        ax.yaxis.set_major_formatter("{x:g}")
    ax.set(xlabel="round", ylabel="mean loss")
    ax.legend(frameon=False)
    return ax


def predicted_vs_true(model: Model, ax: "Axes | None" = None, *, most: int = 12) -> "Axes":
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
        With at most 1,500 nodes at random.

    Raises
    ------
    ValueError
        If every label was trained on.
    """
    state = fitted_state(model)
    held_out = require_validation(state)
    ax = _axes(ax)
    ax.set(xlabel="predicted", ylabel="true")
    if state.classes is not None:
        return _confusion(ax, held_out, state.classes, most)
    shown = np.random.default_rng(0).permutation(held_out.nodes.size)[:MAX_POINTS]
    points = (held_out.prediction[shown], held_out.truth[shown])
    ax.scatter(*points, s=14, alpha=0.4, color=FIRST, lw=0)
    ends = [max(part.min() for part in points), min(part.max() for part in points)]
    ax.plot(ends, ends, **DASHED)
    if state.loss.log_link:
        scale: dict[str, Any] = {"linthresh": max(float(np.median(held_out.prediction)), 1e-9)}
        ax.set_xscale("symlog", **scale)
        ax.set_yscale("symlog", **scale)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter("{x:g}")
    ax.set_title(count(held_out.nodes.size, "held-out label"), fontsize="medium")
    return ax


def _confusion(ax: "Axes", held_out: Validation, names: NDArray[Any], most: int) -> "Axes":
    """Percentage of each true class that is predicted as each class."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgba

    classes, counts = diagnostics.confusion(held_out, names.size, most)
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


def importances(model: Model, ax: "Axes | None" = None, *, most: int = 15) -> "Axes":
    """Draw the columns with the largest share in the gain of the trees, own and of neighbours.

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
    ranked = diagnostics.importances(model)[:most]
    ax = _bars(_axes(ax), ranked, [FIRST] * len(ranked), "share of the gain")
    names = list(fitted_state(model).reader.names)
    of_neighbors = [float(model.neighbor_importances_[names.index(name)]) for name, _ in ranked]
    if any(of_neighbors):
        start = [share - part for (_, share), part in zip(ranked, of_neighbors, strict=True)]
        ax.barh(range(len(ranked)), of_neighbors, left=start, color=SECOND)
        ax.containers[0].set_label("own columns")
        ax.containers[1].set_label("of neighbours")
        ax.legend(loc="lower right", frameon=False, fontsize="small")
    return ax


def candidates(model: Model, ax: "Axes | None" = None) -> "Axes":
    """Draw the loss of each candidate of the model selection at labels that were not trained on.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        Fitted, with parts that are "auto".
    ax : Axes, optional
        Axes to draw into; by default those of a new figure.

    Returns
    -------
    Axes
        The best on top; the selected candidate has the first color. Error bars are standard errors
        of the loss, those of differences are smaller: all are predicted at the same nodes.
    """
    state = fitted_state(model)
    rows = diagnostics.selection_rows(state)
    if len(rows) < 2:
        raise ValueError(NO_SELECTION)
    colors = [FIRST if row.selected else FAINT for row in rows]
    ax = _bars(_axes(ax), [(row.name, row.loss) for row in rows], colors, "loss, held-out labels")
    errors: dict[str, Any] = {"fmt": "none", "ecolor": GUIDE, "elinewidth": 1, "capsize": 2}
    positions = range(len(rows))
    ax.errorbar([row.loss for row in rows], positions, xerr=[row.error for row in rows], **errors)
    names = [row.name.replace(" + ", "\n+ ") for row in rows]
    ax.set_yticks(positions, names, parse_math=False)
    return ax


def residual_map(model: Model, ax: "Axes | None" = None, *, X: TableLike = None) -> "Axes":
    """Draw the residuals of labels that were not trained on, on a map of all nodes.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        Fitted, with labels that were not trained on.
    ax : Axes, optional
        Axes to draw into; by default those of a new figure.
    X : table, optional
        The table fitted on, of a model that was loaded without it. Nodes are drawn at columns named
        like coordinates (x and y, lon and lat), else where a layout of the graph puts them.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If every label was trained on, or there are neither coordinates nor a graph.
    """
    state = fitted_state(model)
    held_out = require_validation(state)
    residual = held_out.residual
    limit = float(np.quantile(np.abs(residual), 0.95)) or 1.0
    low = 0.0 if state.is_classifier else -limit
    label = "1 − probability of the true class" if state.is_classifier else "residual"
    return _map(state, X, ax, held_out.nodes, residual, label, ("coolwarm", low, limit))


def uncertainty_map(model: Model, ax: "Axes | None" = None, *, X: TableLike = None) -> "Axes":
    """Draw how unsure predictions are on a map of all nodes.

    Standard deviations of labels, from ``model.uncertainty()``; for classes the probability that
    the predicted class is wrong.

    Parameters
    ----------
    model : EBBSRegressor or EBBSClassifier
        Fitted, with labels that were not trained on.
    ax : Axes, optional
        Axes to draw into; by default those of a new figure.
    X : table, optional
        As in :func:`residual_map`.

    Returns
    -------
    Axes
    """
    state = fitted_state(model)
    if isinstance(model, EBBSClassifier):
        values = 1.0 - model.predict_proba().max(axis=1)
        label = "probability of another class than the predicted one"
    else:
        values = np.sqrt(variance_columns(state, None)["variance"])
        label = "standard deviation of the label"
    low, high = (float(end) for end in np.quantile(values, [0.01, 0.99]))
    every = np.arange(state.n_nodes)
    return _map(state, X, ax, every, values, label, ("viridis", low, high))


def _map(
    state: FittedState,
    X: TableLike,
    ax: "Axes | None",
    nodes: IntArray,
    values: Array,
    label: str,
    colors: tuple[str, float, float],
) -> "Axes":
    """Values of nodes on a map of all: at their coordinates, or where a layout puts them."""
    located = diagnostics.coordinates(fitted_table(state, X), state.coordinates)
    if located is not None:
        points = located[0]
    elif state.graph is not None:
        points = layout(state.graph.adjacency)
    else:
        raise ValueError("The model has no graph, and no table with coordinates x and y: pass X=.")
    ax = _axes(ax)
    x, y = points.T
    ax.scatter(x, y, s=2, color=FAINT, linewidths=0, rasterized=True)
    cmap, low, high = colors
    scale: dict[str, Any] = {"c": values, "cmap": cmap, "vmin": low, "vmax": high}
    size = 14 if nodes.size <= MAX_POINTS else 4
    markers = ax.scatter(x[nodes], y[nodes], s=size, linewidths=0, rasterized=True, **scale)
    ax.figure.colorbar(markers, ax=ax, label=label, shrink=0.8)
    ax.set(aspect="equal", xticks=[], yticks=[])
    return ax


def coverage(model: Model, ax: "Axes | None" = None) -> "Axes":
    """Draw nominal against observed coverage of prediction intervals at held-out labels.

    Parameters
    ----------
    model : EBBSRegressor
        Fitted. Intervals are calibrated on one half of the held-out labels and counted in the
        other.
    ax : Axes, optional
        Axes to draw into; by default those of a new figure.

    Returns
    -------
    Axes
    """
    state = fitted_state(model)
    if state.is_classifier:
        raise ValueError("Intervals are for regressors; draw eb.plot.calibration of a classifier.")
    require_validation(state)
    observed = diagnostics.coverage(state)
    names = ("nominal coverage", "observed coverage")
    return _diagonal(_axes(ax), observed.levels, observed.share, names)


def coverage_by_group(model: Model, ax: "Axes | None" = None, *, X: TableLike = None) -> "Axes":
    """Draw the share of held-out labels that 90 % intervals or prediction sets cover, by group.

    Groups are by number of neighbours and of labelled ones, by distance to the nearest label, by
    prediction or class, and by the leading column. Bars are the range of 19 of 20 samples of that
    size. Sets, which contain the most probable class at least, may cover more.

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
    state = fitted_state(model)
    held_out = require_validation(state)
    is_class = state.is_classifier
    covered = (
        diagnostics.set_coverage(state)[0] if is_class else diagnostics.coverage(state).covered
    )
    groups = label_groups.coverage_by_group(model, fitted_table(state, X), held_out, covered)
    return draw_coverage(
        groups, f"90 % {'prediction sets' if is_class else 'intervals'}", _axes(ax)
    )


def draw_coverage(groups: list[label_groups.GroupCoverage], name: str, ax: "Axes") -> "Axes":
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


def calibration(model: Model, ax: "Axes | None" = None) -> "Axes":
    """Draw the probability of the predicted class against its accuracy at held-out labels.

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
    stated, accuracy, _ = diagnostics.calibration(require_validation(fitted_state(model)))
    return _diagonal(_axes(ax), stated, accuracy, ("predicted probability", "accuracy"))


def explanation(explained: Explanation, ax: "Axes | None" = None, *, most: int = 12) -> "Axes":
    """Draw the largest contributions to one prediction: of columns, neighbours and labels.

    Parameters
    ----------
    explained : Explanation
        Of one node, ``model.explanations([node])[0]``.
    ax : Axes, optional
        Axes to draw into; by default those of a new figure.
    most : int, default=12
        Contributions to draw; the sum of all others is one more bar.

    Returns
    -------
    Axes

    Raises
    ------
    TypeError
        If ``explained`` is not one explanation.
    """
    if not isinstance(explained, Explanation):
        raise TypeError(
            "explained must be one Explanation, model.explanations([node])[0], got "
            f"{type(explained)}."
        )
    parts = list(explained.own.items())
    parts += [(f"columns of {node}", value) for node, value in explained.neighbors.items()]
    parts += [(f"label of {node}", value) for node, value in explained.labels.items()]
    parts.sort(key=lambda part: -abs(part[1]))
    rest = parts[most:]
    if rest:
        total = sum(value for _, value in rest)
        parts = [*parts[:most], (count(len(rest), "other contribution"), total)]
    colors = [FIRST if value >= 0 else SECOND for _, value in parts]
    ax = _bars(_axes(ax), parts, colors, f"contribution, added to {explained.base:.4g}")
    ax.axvline(0, color=GUIDE, linewidth=1)
    ax.set_title(f"node {explained.node}: score {explained.score:.4g}", fontsize="medium")
    return ax


def _bars(ax: "Axes", bars: list[tuple[str, float]], colors: list[str], xlabel: str) -> "Axes":
    """Horizontal bars, the first on top."""
    ax.barh(range(len(bars)), [value for _, value in bars], color=colors)
    ax.set_yticks(range(len(bars)), [_axis_name(name) for name, _ in bars], parse_math=False)
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
