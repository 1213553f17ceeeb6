"""Draw the pictures of the README and the pages: ``python docs/pictures.py [names]``."""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from lightgbm import LGBMRegressor

import ebboost as eb

FOLDER = Path(__file__).parent / "pictures"


def houses() -> plt.Figure:
    """Draw a map of houses sold later: their prices, and those that two models predict."""
    points = eb.datasets.load_lucas(coordinates=True)[0][["x", "y"]].to_numpy()
    X, y, graph, splits = eb.datasets.load_lucas()
    train, test = splits[0]["train"], splits[0]["test"]
    plain = LGBMRegressor(random_state=0, verbose=-1).fit(X.iloc[train], y[train])
    model = eb.EBBSRegressor(random_state=0).fit(X, y[train], nodes=train, graph=graph)
    predictions = {
        "LightGBM": plain.predict(X.iloc[test]),
        "ebboost": model.predict(nodes=test),
    }
    shown = {"sold for (mean of a cell)": y[test]}
    for name, one in predictions.items():
        error = np.sqrt(np.mean((one - y[test]) ** 2))
        shown[f"{name}: RMSE {error:.3f}"] = one
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    low, high = np.quantile(y[test], [0.03, 0.97])
    ends = np.quantile(points[test], [0.06, 0.94], axis=0)
    for axis, (title, values) in zip(axes, shown.items(), strict=True):
        inside = ((points[test] > ends[0]) & (points[test] < ends[1])).all(axis=1)
        drawn = axis.hexbin(
            *points[test][inside].T,
            C=values[inside],
            gridsize=45,
            cmap="RdYlBu_r",
            vmin=low,
            vmax=high,
        )
        axis.set(title=title, xticks=[], yticks=[])
        axis.set_aspect("equal")
        axis.spines[:].set_visible(False)
    bar = figure.colorbar(drawn, ax=axes, shrink=0.85, pad=0.01)
    ticks = np.array([20_000, 40_000, 80_000, 160_000])
    ticks = ticks[(np.log(ticks) > low) & (np.log(ticks) < high)]
    bar.set_ticks(np.log(ticks), labels=[f"${tick // 1000} 000" for tick in ticks])
    return figure


def members() -> plt.Figure:
    """Draw the members of a fit to the counties, with their errors and weights."""
    X, y, graph, splits = eb.datasets.load_elect80()
    train = splits[0]["train"]
    model = eb.EBBSRegressor(random_state=0).fit(X, y[train], nodes=train, graph=graph)
    table = model.selection_.sort_values("loss", ascending=False)
    rmse = np.sqrt(2.0 * table["loss"])
    figure, axis = plt.subplots(figsize=(8.5, 3.4), layout="constrained")
    bars = axis.barh(table["member"], rmse, color="#9ecae1")
    axis.bar_label(bars, [f"weight {weight:.2f}" for weight in table["weight"]], padding=4)
    together = model.gain_.with_graph
    axis.axvline(together, color="#08519c", linestyle="--")
    axis.text(together, len(table) - 0.4, " weighted sum", color="#08519c", va="bottom")
    axis.set(xlabel="RMSE at labels that were not trained on", xlim=(0, 1.15 * rmse.max()))
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def far() -> plt.Figure:
    """Draw a field with gaps between labels: the truth, the prediction, how wide intervals are."""
    rng = np.random.default_rng(1)
    points = rng.random((6000, 2))
    waves, phases = 7.0 * rng.normal(size=(2, 40)), rng.uniform(0, 2 * np.pi, 40)
    truth = np.sqrt(2 / 40) * np.cos(points @ waves + phases).sum(axis=1)
    y = truth + rng.normal(0, 0.3, 6000)
    centers = rng.random((14, 2))
    gap = np.linalg.norm(points[:, None] - centers, axis=2).min(axis=1)
    known = np.flatnonzero((gap < 0.08) & (rng.random(6000) < 0.5))
    model = eb.EBBSRegressor(random_state=0)
    model.fit(points, y[known], nodes=known, coordinates=[0, 1])
    prediction, lower, upper = model.predict(interval=0.9)
    unknown = np.setdiff1d(np.arange(6000), known)
    inside = np.mean(((lower <= y) & (y <= upper))[unknown])
    shown = {
        "truth, and where labels are": truth,
        "prediction": prediction,
        f"width of 90 % intervals: {100 * inside:.0f} % inside": upper - lower,
    }
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.5), layout="constrained")
    ends = np.quantile(truth, [0.01, 0.99])
    for axis, (title, values) in zip(axes, shown.items(), strict=True):
        is_width = axis is axes[2]
        scale = {} if is_width else {"vmin": ends[0], "vmax": ends[1]}
        colors = "magma" if is_width else "RdYlBu_r"
        drawn = axis.tripcolor(*points.T, values, cmap=colors, rasterized=True, **scale)
        color = "white" if is_width else "black"
        axis.scatter(*points[known].T, s=1.5, color=color, linewidths=0)
        axis.set(title=title, xticks=[], yticks=[])
        axis.set_aspect("equal")
        axis.spines[:].set_visible(False)
        figure.colorbar(drawn, ax=axis, shrink=0.85, pad=0.01)
    return figure


FIGURES = {"houses.png": houses, "members.svg": members, "far.png": far}


def main() -> None:
    """Draw the pictures that are named, or all."""
    FOLDER.mkdir(exist_ok=True)
    style = {"font.size": 11, "svg.hashsalt": "ebboost"}
    with plt.rc_context(style):
        for name in sys.argv[1:] or FIGURES:
            metadata = {"Date": None} if name.endswith("svg") else {"Software": None}
            FIGURES[name]().savefig(FOLDER / name, dpi=110, metadata=metadata)


if __name__ == "__main__":
    main()
