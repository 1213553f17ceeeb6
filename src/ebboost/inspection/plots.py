"""Plots of a fitted model for notebooks, with matplotlib; each draws into ``ax``, or a new figure, and returns the Axes."""

from typing import Any

import numpy as np

from ebboost.inspection import diagnostics as diagnosis
from ebboost.inspection.layout import layout
from ebboost.model.explain import Explanation

FIRST, SECOND, FAINT = "#0b6e75", "#b4500b", "#c4c9cc"
__all__ = [
    "calibration",
    "coverage",
    "explanation",
    "importances",
    "losses",
    "predicted_vs_true",
    "residual_map",
]


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("Plots need matplotlib: pip install 'ebboost[plot]'.") from None
    return plt.subplots(layout="constrained")[1]


def losses(model: Any, ax: Any = None) -> Any:
    """Draw training and held-out loss by round, and the round that was kept.

    Examples
    --------
    >>> import ebboost as eb, numpy as np, matplotlib
    >>> matplotlib.use("agg")
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> m = eb.EBBSRegressor(20, random_state=0).fit(X, X[:, 0], graph=eb.Graph.build_knn(X, k=4))
    >>> eb.plot.losses(m).get_xlabel()
    'round'
    """
    diagnosis.held_out(model)  # refuses a model that is not fitted
    ax = _axes(ax)
    history = model.history_
    for name, label, colour in (
        ("training", "training", FIRST),
        ("validation", "held out", SECOND),
    ):
        if history.get(name):
            ax.plot(np.arange(1, len(history[name]) + 1), history[name], color=colour, label=label)
    if history.get("validation"):
        ax.axvline(model.n_iter_, color="0.5", linestyle="--", linewidth=1, label="kept")
    lowest = min(
        (min(history[name]) for name in ("training", "validation") if history.get(name)),
        default=0.0,
    )
    if lowest > 0:
        ax.set_yscale("log")
    ax.set(xlabel="round", ylabel="mean loss")
    ax.legend(frameon=False)
    return ax


def predicted_vs_true(model: Any, ax: Any = None) -> Any:
    """Draw held-out labels against their predictions; for classes, percent of each true class predicted as each."""
    held = diagnosis.needs_held_out(model)
    ax = _axes(ax)
    if held.probabilities is None:
        ax.scatter(held.prediction, held.truth, s=12, alpha=0.5, color=FIRST, linewidths=0)
        middle = float(np.median(held.truth))
        ax.axline((middle, middle), slope=1, color="0.5", linestyle="--", linewidth=1)
        ax.set(xlabel="predicted", ylabel="true")
        ax.set_title(
            f"{held.nodes.size:,} held-out nodes, R² {diagnosis.quality(held)['r2']:.3f}",
            fontsize="medium",
        )
        return ax
    names = [str(name) for name in model.classes_.tolist()]
    counts = np.zeros((len(names), len(names)))
    np.add.at(counts, (held.truth.astype(int), held.prediction.astype(int)), 1)
    share = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ax.imshow(share, cmap="GnBu", vmin=0, vmax=100)
    if len(names) <= 15:
        for (row, column), value in np.ndenumerate(share):
            if value:
                ax.text(
                    column,
                    row,
                    f"{value:.0f}",
                    ha="center",
                    va="center",
                    color="white" if value > 60 else "black",
                )
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel="predicted", ylabel="true")
    return ax


def importances(model: Any, ax: Any = None, *, most: int = 15) -> Any:
    """Draw the share of the most influential columns in the gain of the trees."""
    diagnosis.held_out(model)
    ax = _axes(ax)
    ranked = diagnosis.importances(model)[:most][::-1]
    ax.barh([_plain(name) for name, _ in ranked], [share for _, share in ranked], color=FIRST)
    ax.set(xlabel="share of the gain")
    return ax


def residual_map(model: Any, ax: Any = None, *, X: Any = None) -> Any:
    """Draw the residuals of held-out nodes where they lie: by columns named like places, or laid out by the graph."""
    held, place = (
        diagnosis.needs_held_out(model),
        diagnosis.coordinates(diagnosis.fitted_table(model, X)),
    )
    if place is None and model.graph_ is None:
        raise ValueError(
            "There is nothing to place nodes by: the model has no graph, and no table with columns named like places, such "
            "as x and y; pass X=."
        )
    ax = _axes(ax)
    where = place[0] if place is not None else layout(model.graph_.adjacency)
    ax.scatter(*where.T, s=2, color=FAINT, linewidths=0, rasterized=True)
    residual = held.residual
    reach = float(np.quantile(np.abs(residual), 0.95)) or 1.0
    low = 0.0 if held.probabilities is not None else -reach
    dots = ax.scatter(
        *where[held.nodes].T, c=residual, cmap="coolwarm", vmin=low, vmax=reach, s=14, linewidths=0
    )
    ax.figure.colorbar(
        dots,
        ax=ax,
        label="true less predicted" if low else "1 − probability of the true class",
        shrink=0.8,
    )
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    return ax


def coverage(model: Any, ax: Any = None) -> Any:
    """Draw stated against observed coverage of intervals: widths from half of the held-out errors, counted in the other."""
    held = diagnosis.needs_held_out(model)
    if held.probabilities is not None:
        raise ValueError(
            "Intervals are for numbers; of a classifier draw eb.plot.calibration(model)."
        )
    ax = _axes(ax)
    found = diagnosis.coverage(held)
    return _against_diagonal(
        ax, found.levels, found.share, ("stated coverage", "observed coverage")
    )


def calibration(model: Any, ax: Any = None) -> Any:
    """Draw the probability stated for the predicted class against how often it is right."""
    held = diagnosis.needs_held_out(model)
    said, seen, _ = diagnosis.calibration(held)
    return _against_diagonal(
        _axes(ax), said, seen, ("stated probability", "share of right predictions")
    )


def _against_diagonal(ax: Any, stated: Any, observed: Any, names: tuple[str, str]) -> Any:
    ax.axline((1, 1), slope=1, color="0.5", linestyle="--", linewidth=1)
    ax.plot(stated, observed, "o-", color=FIRST)
    low = min(float(np.min(stated)), float(np.min(observed))) - 0.05
    ax.set(xlim=(low, 1.02), ylim=(low, 1.02), xlabel=names[0], ylabel=names[1])
    return ax


def explanation(explained: Explanation, ax: Any = None, *, most: int = 12) -> Any:
    """Draw the largest parts of one prediction: what columns, neighbours and labels add to where every node starts.

    Parameters
    ----------
    explained : Explanation
        Of one node, ``model.explain([node])[0]``.
    ax : Axes, optional
    most : int, default=12
        Parts to draw; all others are one bar.
    """
    if not isinstance(explained, Explanation):
        raise TypeError(
            f"explained must be one Explanation, model.explain([node])[0], got {type(explained)}."
        )
    ax = _axes(ax)
    parts = [(name, value) for name, value in explained.own.items()]
    parts += [(f"columns of {node}", value) for node, value in explained.neighbors.items()]
    if explained.labels_in_sum:
        parts += [(f"label of {node}", value) for node, value in explained.labels.items()]
    parts.sort(key=lambda part: -abs(part[1]))
    shown, rest = parts[:most], parts[most:]
    if rest:
        shown.append((f"{len(rest):,} others", sum(value for _, value in rest)))
    shown.reverse()
    values = [value for _, value in shown]
    ax.barh(range(len(shown)), values, color=[FIRST if value >= 0 else SECOND for value in values])
    ax.set_yticks(range(len(shown)), [_plain(name) for name, _ in shown])
    ax.axvline(0, color="0.5", linewidth=1)
    ax.locator_params(axis="x", nbins=5)  # small parts have long numbers
    ax.set(xlabel=f"added to {explained.base:.4g}")
    ax.set_title(f"node {explained.node}: score {explained.score:.4g}", fontsize="medium")
    return ax


def _plain(name: str) -> str:
    """A name in which matplotlib sees no formula."""
    return name.replace("$", r"\$")
