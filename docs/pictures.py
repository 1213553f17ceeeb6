"""The pictures of these pages, drawn with the library itself: ``python docs/pictures.py`` writes docs/pictures."""

from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np

import ebboost as eb

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection
from matplotlib.patches import FancyBboxPatch

FOLDER = Path(__file__).parent / "pictures"
# Okabe and Ito's colours, told apart by the colour-blind.
BLACK, BLUE, ORANGE, GREEN, GREY, PINK = (
    "#000000",
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#888888",
    "#CC79A7",
)
STYLE = {
    "font.size": 11, "axes.titlesize": 12, "axes.titlelocation": "left", "axes.spines.top": False,
    "axes.spines.right": False, "lines.linewidth": 2.0, "legend.frameon": False, "svg.hashsalt": "ebboost",
}  # fmt: skip


def _edges(
    axes: plt.Axes, place: np.ndarray, graph: eb.Graph, colour: str = "#bbbbbb"
) -> None:
    adjacency = graph.adjacency.tocoo()
    ends = [(place[i], place[j]) for i, j in zip(*adjacency.coords, strict=True) if i < j]
    axes.add_collection(LineCollection(ends, colors=colour, linewidths=1.0, zorder=1))


def _bare(axes: plt.Axes) -> None:
    axes.set(xticks=[], yticks=[], aspect="equal")
    axes.spines[:].set_visible(False)
    axes.margins(0.06)


def _points(n: int = 45, seed: int = 3) -> np.ndarray:
    """Scattered, and none too close to another."""
    random, found = np.random.default_rng(seed), []
    while len(found) < n:
        point = random.random(2)
        if all(np.hypot(*(point - other)) > 0.09 for other in found):
            found.append(point)
    return np.array(found)


def sharing() -> plt.Figure:
    """f, P f and what the next tree is grown on."""
    place, random = _points(), np.random.default_rng(0)
    graph = eb.Graph.build_knn(place, k=3)
    truth = 2.0 * (place[:, 0] + 0.5 * place[:, 1] > 0.7) - 1.0
    scores = truth + random.normal(0.0, 0.9, len(place))
    smoother = eb.Laplacian(2.0, 5).operator(graph)
    smoothed = smoother.apply(scores)
    labelled = random.permutation(len(place))[:16]
    error = np.zeros(len(place))
    error[labelled] = truth[labelled] - smoothed[labelled]
    panels = (
        (scores, "1   trees score every row: f", 2.0),
        (smoothed, "2   neighbours share: P f", 2.0),
        (smoother.adjoint(error), "3   what is left, on every row: Pᵀ(y − P f)", 0.35),
    )
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.3), layout="constrained")
    for axis, (values, title, limit) in zip(axes, panels, strict=True):
        _edges(axis, place, graph)
        axis.scatter(
            *place.T,
            c=values,
            cmap="RdBu_r",
            vmin=-limit,
            vmax=limit,
            s=130,
            edgecolors="#555555",
            zorder=2,
        )
        axis.scatter(
            *place[labelled].T,
            s=270,
            facecolors="none",
            edgecolors=BLACK,
            linewidths=1.6,
            zorder=3,
        )
        axis.set_title(title)
        _bare(axis)
    axes[0].set_xlabel("ringed: the label is known")
    axes[1].set_xlabel("blue: low, red: high")
    axes[2].set_xlabel("rows without a label get a gradient too")
    return figure


def field() -> plt.Figure:
    """Errors at labelled nodes of a line, and the field that they make."""
    n, random = 160, np.random.default_rng(4)
    line = eb.Graph.from_edges(range(n - 1), range(1, n))
    nodes = np.sort(random.permutation(np.r_[3:52, 118:157])[:30])
    errors = 0.5 + 0.9 * np.sin(nodes / 9.0) + random.normal(0.0, 0.3, nodes.size)
    figure, axes = plt.subplots(figsize=(9.5, 3.6), layout="constrained")
    axes.axhline(0.0, color=GREY, linewidth=1.0)
    axes.plot(
        nodes, errors, "o", color=BLACK, label="error y − P f where the label is known"
    )
    for lam, colour, style in ((2.0, BLUE, "--"), (20.0, ORANGE, "-")):
        spread = (
            eb.LatentField(lam)
            .operator(line, nodes, np.ones(nodes.size))
            .posterior_mean(errors[:, None])[:, 0]
        )
        axes.plot(spread, style, color=colour, label=f"the field z, λ = {lam:g}")
    axes.annotate(
        "no label near: z fades to 0",
        (85, 0.02),
        (85, 1.0),
        arrowprops={"arrowstyle": "->"},
        ha="center",
    )
    axes.set(xlabel="nodes along a road", ylabel="added to the prediction")
    axes.legend(loc="lower left", ncols=3, fontsize=10, bbox_to_anchor=(0, 1.0))
    return figure


def leakage() -> plt.Figure:
    """Error seen at known labels, with and without each one's own label in the field, and at hidden ones."""
    random, lams = np.random.default_rng(0), np.geomspace(0.1, 50, 12)
    place = random.random((5000, 2))
    graph = eb.Graph.build_knn(place, k=6)
    errors = np.sin(9 * place[:, 0]) * np.cos(8 * place[:, 1]) + random.normal(
        0.0, 0.5, len(place)
    )
    known, hidden = np.split(random.permutation(len(place)), [2500])
    curves: dict[str, list[float]] = {"own": [], "left out": [], "hidden": []}
    for lam in lams:
        operator = eb.LatentField(lam).operator(graph, known, np.ones(known.size))
        z = operator.posterior_mean(errors[known, None])[:, 0]
        curves["own"].append(float(np.sqrt(np.mean((errors[known] - z[known]) ** 2))))
        curves["left out"].append(
            float(np.sqrt(np.mean(operator.leave_one_out(errors[known, None]) ** 2)))
        )
        curves["hidden"].append(float(np.sqrt(np.mean((errors[hidden] - z[hidden]) ** 2))))
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    axes.semilogx(
        lams,
        curves["own"],
        ":",
        color=ORANGE,
        label="known labels, their own label in the field",
    )
    axes.semilogx(
        lams,
        curves["left out"],
        "-",
        color=BLUE,
        label="known labels, each left out (closed form)",
    )
    axes.semilogx(
        lams, curves["hidden"], "o", color=BLACK, label="labels that were really hidden"
    )
    axes.set(xlabel="λ of the field", ylabel="root mean squared error", ylim=(0, None))
    axes.legend(loc="lower right")
    return figure


def graphs() -> plt.Figure:
    """The same places, tied in three ways."""
    place = np.vstack(
        [_points(30, 5) * [0.55, 1.0], _points(12, 6) * [0.9, 1.0] + [0.75, 0.0]]
    )
    tied = {
        "nearest neighbours: build_knn(k=3)": eb.Graph.build_knn(place, k=3),
        "all within a distance: build_radius(0.2)": eb.Graph.build_radius(place, 0.2),
    }
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
    for axis, (title, graph) in zip(axes, tied.items(), strict=True):
        _edges(axis, place, graph, "#777777")
        colours = [ORANGE if node in graph.isolates else BLUE for node in range(len(place))]
        axis.scatter(*place.T, color=colours, s=45, zorder=2)
        axis.set_title(title)
        axis.set_xlabel(
            f"{graph.n_edges} edges; pieces: {graph.n_components}; alone: {graph.isolates.size} (orange)"
        )
        _bare(axis)
    return figure


def frequencies() -> plt.Figure:
    """What each smoother leaves of a score that varies with frequency s."""
    s = np.linspace(0, 2, 200)
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    curves = (
        ("Laplacian, λ = 2", 1 / (1 + 2 * s), BLACK, "-"),
        ("Laplacian, λ = 20", 1 / (1 + 20 * s), GREY, "-"),
        ("diffusion, λ = 2, σ = 1.75", 3 / (1 + 2 * np.exp(1.75**2 * s / 2)), BLUE, "--"),
        (
            "random walk, λ = 32, p = 4",
            3 / (1 + 32 / np.maximum(2 - s, 1e-9) ** 4),
            ORANGE,
            "-.",
        ),
        (
            "inverse cosine, λ = 20",
            21 / (1 + 20 / np.maximum(np.cos(np.pi * s / 4), 1e-9)),
            GREEN,
            ":",
        ),
    )
    for name, curve, colour, style in curves:
        axes.plot(s, curve, style, color=colour, label=name)
    axes.set(
        xlabel="frequency s: 0 alike in all neighbours, 2 opposite in each",
        ylabel="what is left of the score",
    )
    axes.set_title("each divided by what it leaves at s = 0")
    axes.legend()
    return figure


def prediction() -> plt.Figure:
    """One prediction as a sum, on the Lucas houses."""
    X, y, graph, splits = eb.datasets.load_lucas()
    train, test = splits[0]["train"], splits[0]["test"]
    model = eb.EBBSRegressor(random_state=0, n_jobs=1).fit(
        X, y[train], nodes=train, graph=graph
    )
    told = model.explain([int(test[graph.degrees[test] >= 4][40])])[0]
    own = sorted(told.own.items(), key=lambda part: -abs(part[1]))
    parts = [(f"its {name}", value, BLUE) for name, value in own[:4]]
    parts.append(("its other columns", sum(value for _, value in own[4:]), BLUE))
    parts.append(
        (
            f"columns of {len(told.neighbors)} nodes around",
            sum(told.neighbors.values()),
            GREEN,
        )
    )
    parts.append(("labels known around", sum(told.labels.values()), ORANGE))
    figure, axes = plt.subplots(figsize=(9, 3.9), layout="constrained")
    at = told.base
    for row, (_, value, colour) in enumerate(parts):
        axes.barh(row, value, left=at, color=colour, height=0.62)
        label = axes.text(
            max(at, at + value), row, f"  {value:+.3f}", va="center", fontsize=10
        )
        label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.5})
        at += value
    axes.axvline(told.base, color=GREY, linewidth=1.0, linestyle=":")
    axes.axvline(told.score, color=BLACK, linewidth=1.4)
    axes.text(
        told.base, -0.75, f"base {told.base:.2f}", ha="center", color=GREY, fontsize=10
    )
    axes.text(
        told.score,
        len(parts) - 0.35,
        f"predicted {told.score:.2f}  ",
        ha="right",
        va="top",
        fontsize=10,
    )
    axes.set_yticks(range(len(parts)), [name for name, _, _ in parts])
    axes.set(
        xlabel="log price", ylim=(len(parts) + 0.1, -1.1), xlim=(told.base - 0.1, at + 0.13)
    )
    return figure


def architecture() -> plt.Figure:
    """The rooms, and the way of the data through them."""
    figure, axes = plt.subplots(figsize=(11, 5.2), layout="constrained")
    axes.set(xlim=(0, 12), ylim=(0, 5.6))
    axes.axis("off")
    kinds = {"data": "#E8F1F8", "maths": "#FDF0E6", "loop": "#E6F4EF", "face": "#F3F3F3"}

    def room(
        x: float, y: float, w: float, h: float, title: str, text: str, kind: str
    ) -> None:
        box = FancyBboxPatch(
            (x, y),
            w,
            h,
            boxstyle="round,pad=0.02,rounding_size=0.1",
            fc=kinds[kind],
            ec="#555555",
        )
        axes.add_patch(box)
        axes.text(
            x + w / 2,
            y + h - 0.12,
            title,
            ha="center",
            va="top",
            weight="bold",
            fontsize=11,
        )
        axes.text(
            x + w / 2,
            y + h - 0.47,
            text,
            ha="center",
            va="top",
            fontsize=9.3,
            linespacing=1.35,
        )

    def arrow(
        start: tuple[float, float],
        end: tuple[float, float],
        text: str = "",
        both: bool = False,
    ) -> None:
        style = "<|-|>" if both else "-|>"
        axes.annotate(
            "", end, start, arrowprops={"arrowstyle": style, "color": BLACK, "lw": 1.4}
        )
        axes.text(
            (start[0] + end[0]) / 2,
            (start[1] + end[1]) / 2 + 0.09,
            text,
            ha="center",
            fontsize=9,
            color="#333333",
        )

    room(
        0.1,
        4.35,
        11.8,
        1.15,
        "estimators/",
        "the scikit-learn face: fit, predict, explain, save",
        "face",
    )
    axes.text(
        6.0, 4.58, "checks.py  what you hand over      choosing.py  the race      evaluation.py, tuning.py  folds, Optuna"
        "      modelfile.py, explaining.py", ha="center", fontsize=9.3,
    )  # fmt: skip
    # fmt: off
    room(0.1, 2.35, 2.1, 1.55, "graph/", "one symmetric matrix,\nfrom_* converts,\nbuild_* computes", "data")
    room(0.1, 0.35, 2.1, 1.55, "table.py", "pandas, polars, numpy,\nsparse as one Table;\npreparation.py", "data")
    room(3.1, 2.35, 2.1, 1.55, "smoothing/", "P and Pᵀ:\nLaplacian, Kernel, Robust;\ncompiled sweeps", "maths")
    room(3.1, 0.35, 2.1, 1.55, "losses.py, labels/", "what an error costs,\nwhat labels say for\ntheir neighbours", "maths")
    room(6.0, 1.35, 2.1, 1.55, "objective.py", "meta-loss (7),\ngradient (8) on all nodes,\ncurvature", "maths")
    room(9.0, 2.35, 2.9, 1.55, "boosting.py, momentum.py",
         "Algorithm 1: knows no array\nand no tree library;\ncallbacks.py watches", "loop")
    room(9.0, 0.35, 2.9, 1.55, "learners/",
         "LightGBM, XGBoost, CatBoost,\nscikit-learn: binned once,\none tree a round", "loop")
    # fmt: on
    arrow((2.25, 3.1), (3.05, 3.1))
    arrow((5.25, 3.1), (5.97, 2.45))
    arrow((5.25, 1.1), (5.97, 1.75))
    arrow((8.15, 2.4), (8.95, 3.0), "", both=True)
    arrow((10.45, 2.3), (10.45, 1.95), "", both=True)
    axes.text(10.6, 2.1, "gradient in, tree out", fontsize=9, va="center")
    axes.annotate(
        "",
        (8.97, 0.2),
        (2.2, 0.2),
        arrowprops={"arrowstyle": "-|>", "color": BLACK, "lw": 1.4},
    )
    axes.text(5.6, 0.02, "binned once", ha="center", va="center", fontsize=9)
    arrow((10.45, 3.95), (10.45, 4.3))
    axes.text(10.6, 4.13, "one ordinary booster", fontsize=9, va="center")
    return figure


def plots() -> plt.Figure:
    """What eb.plot draws of a model of the turnout in US counties."""
    X, y, graph, splits = eb.datasets.load_elect80()
    train = splits[0]["train"]
    model = eb.EBBSRegressor(random_state=0, n_jobs=1).fit(
        X, y[train], nodes=train, graph=graph
    )
    figure, axes = plt.subplots(2, 3, figsize=(13, 7.5), layout="constrained")
    eb.plot.losses(model, axes[0, 0])
    eb.plot.predicted_vs_true(model, axes[0, 1])
    eb.plot.importances(model, axes[0, 2], most=8)
    eb.plot.residual_map(model, axes[1, 0])
    eb.plot.coverage(model, axes[1, 1])
    eb.plot.explanation(model.explain([0])[0], axes[1, 2], most=8)
    return figure


FIGURES: dict[str, Callable[[], plt.Figure]] = {
    "sharing": sharing, "field": field, "leakage": leakage, "graphs": graphs, "frequencies": frequencies,
    "prediction": prediction, "architecture": architecture, "plots": plots,
}  # fmt: skip


def main() -> None:
    """Draw them all."""
    FOLDER.mkdir(exist_ok=True)
    with plt.rc_context(STYLE):
        for name, draw in FIGURES.items():
            figure = draw()
            figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
            if name == "sharing":  # for examples that draw nothing
                middle = (
                    figure.axes[1]
                    .get_tightbbox()
                    .transformed(figure.dpi_scale_trans.inverted())
                )
                figure.savefig(
                    FOLDER / "thumbnail.png",
                    bbox_inches=middle,
                    dpi=80,
                    metadata={"Software": None},
                )
            plt.close(figure)


if __name__ == "__main__":
    main()
