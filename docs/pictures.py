"""Figures of the documentation: ``python docs/pictures.py`` writes docs/pictures."""

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
# The palette of Okabe and Ito, for colour-blind readers.
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
    "axes.spines.right": False, "lines.linewidth": 2.0, "legend.frameon": False,
    "svg.hashsalt": "ebboost",
}  # fmt: skip


def _edges(
    axes: plt.Axes, points: np.ndarray, graph: eb.Graph, colour: str = "#bbbbbb"
) -> None:
    adjacency = graph.adjacency.tocoo()
    ends = [(points[i], points[j]) for i, j in zip(*adjacency.coords, strict=True) if i < j]
    axes.add_collection(LineCollection(ends, colors=colour, linewidths=1.0, zorder=1))


def _bare(axes: plt.Axes) -> None:
    axes.set(xticks=[], yticks=[], aspect="equal")
    axes.spines[:].set_visible(False)
    axes.margins(0.06)


def _points(n: int = 45, seed: int = 3) -> np.ndarray:
    """Return random points with a minimum distance."""
    random, points = np.random.default_rng(seed), []
    while len(points) < n:
        point = random.random(2)
        if all(np.hypot(*(point - other)) > 0.09 for other in points):
            points.append(point)
    return np.array(points)


def sharing() -> plt.Figure:
    """Scores f, smoothed scores P f, and the gradient that the next tree is fitted to."""
    points, random = _points(), np.random.default_rng(0)
    graph = eb.Graph.build_knn(points, k=3)
    truth = 2.0 * (points[:, 0] + 0.5 * points[:, 1] > 0.7) - 1.0
    scores = truth + random.normal(0.0, 0.9, len(points))
    operator = eb.Laplacian(2.0, 5).operator(graph)
    smoothed = operator.apply(scores)
    labelled = random.permutation(len(points))[:16]
    residuals = np.zeros(len(points))
    residuals[labelled] = truth[labelled] - smoothed[labelled]
    panels = (
        (scores, "1   scores of the trees: f", 2.0),
        (smoothed, "2   smoothed over the edges: P f", 2.0),
        (operator.adjoint(residuals), "3   negative gradient: Pᵀ(y − P f)", 0.35),
    )
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.3), layout="constrained")
    for axis, (values, title, limit) in zip(axes, panels, strict=True):
        _edges(axis, points, graph)
        axis.scatter(
            *points.T,
            c=values,
            cmap="RdBu_r",
            vmin=-limit,
            vmax=limit,
            s=130,
            edgecolors="#555555",
            zorder=2,
        )
        axis.scatter(
            *points[labelled].T,
            s=270,
            facecolors="none",
            edgecolors=BLACK,
            linewidths=1.6,
            zorder=3,
        )
        axis.set_title(title)
        _bare(axis)
    axes[0].set_xlabel("ringed: labelled nodes")
    axes[1].set_xlabel("blue: low, red: high")
    axes[2].set_xlabel("nonzero on nodes without a label too")
    return figure


def field() -> plt.Figure:
    """Residuals at labelled nodes of a path, and the posterior mean of the latent field."""
    n, random = 160, np.random.default_rng(4)
    line = eb.Graph.from_edges(range(n - 1), range(1, n))
    nodes = np.sort(random.permutation(np.r_[3:52, 118:157])[:30])
    errors = 0.5 + 0.9 * np.sin(nodes / 9.0) + random.normal(0.0, 0.3, nodes.size)
    figure, axes = plt.subplots(figsize=(9.5, 3.6), layout="constrained")
    axes.axhline(0.0, color=GREY, linewidth=1.0)
    axes.plot(nodes, errors, "o", color=BLACK, label="residual y − P f at labelled nodes")
    for lam, colour, style in ((2.0, BLUE, "--"), (20.0, ORANGE, "-")):
        field_mean = (
            eb.LatentField(lam)
            .operator(line, nodes, np.ones(nodes.size))
            .posterior_mean(errors[:, None])[:, 0]
        )
        axes.plot(field_mean, style, color=colour, label=f"latent field z, λ = {lam:g}")
    axes.annotate(
        "no label near: z is 0",
        (85, 0.02),
        (85, 1.0),
        arrowprops={"arrowstyle": "->"},
        ha="center",
    )
    axes.set(xlabel="nodes along a road", ylabel="added to the prediction")
    axes.legend(loc="lower left", ncols=3, fontsize=10, bbox_to_anchor=(0, 1.0))
    return figure


def leakage() -> plt.Figure:
    """Error at labelled nodes with and without their own label, and at hidden labels."""
    random, lams = np.random.default_rng(0), np.geomspace(0.1, 50, 12)
    points = random.random((5000, 2))
    graph = eb.Graph.build_knn(points, k=6)
    errors = np.sin(9 * points[:, 0]) * np.cos(8 * points[:, 1]) + random.normal(
        0.0, 0.5, len(points)
    )
    known, hidden = np.split(random.permutation(len(points)), [2500])
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
        label="labelled nodes, own label in the field",
    )
    axes.semilogx(
        lams,
        curves["left out"],
        "-",
        color=BLUE,
        label="labelled nodes, leave-one-out (closed form)",
    )
    axes.semilogx(lams, curves["hidden"], "o", color=BLACK, label="hidden labels")
    axes.set(
        xlabel="λ of the latent field", ylabel="root mean squared error", ylim=(0, None)
    )
    axes.legend(loc="lower right")
    return figure


def graphs() -> plt.Figure:
    """The same points as a nearest-neighbour and as a radius graph."""
    points = np.vstack(
        [_points(30, 5) * [0.55, 1.0], _points(12, 6) * [0.9, 1.0] + [0.75, 0.0]]
    )
    built = {
        "nearest neighbours: build_knn(k=3)": eb.Graph.build_knn(points, k=3),
        "all within a distance: build_radius(0.2)": eb.Graph.build_radius(points, 0.2),
    }
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
    for axis, (title, graph) in zip(axes, built.items(), strict=True):
        _edges(axis, points, graph, "#777777")
        colours = [
            ORANGE if node in graph.isolates else BLUE for node in range(len(points))
        ]
        axis.scatter(*points.T, color=colours, s=45, zorder=2)
        axis.set_title(title)
        axis.set_xlabel(
            f"{graph.n_edges} edges; components: {graph.n_components}; "
            f"isolated: {graph.isolates.size} (orange)"
        )
        _bare(axis)
    return figure


def frequencies() -> plt.Figure:
    """Response of each smoother to a component of the scores with graph frequency s."""
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
        xlabel="graph frequency s: 0 constant, 2 alternating between neighbours",
        ylabel="response",
    )
    axes.set_title("relative to the response at s = 0")
    axes.legend()
    return figure


def prediction() -> plt.Figure:
    """One prediction of the Lucas houses as a sum."""
    X, y, graph, splits = eb.datasets.load_lucas()
    train, test = splits[0]["train"], splits[0]["test"]
    model = eb.EBBSRegressor(random_state=0, n_jobs=1).fit(
        X, y[train], nodes=train, graph=graph
    )
    explanation = model.explanations([int(test[graph.degrees[test] >= 4][40])])[0]
    own = sorted(explanation.own.items(), key=lambda part: -abs(part[1]))
    parts = [(f"its {name}", value, BLUE) for name, value in own[:4]]
    parts.append(("its other columns", sum(value for _, value in own[4:]), BLUE))
    parts.append(
        (
            f"columns of {len(explanation.neighbors)} other nodes",
            sum(explanation.neighbors.values()),
            GREEN,
        )
    )
    parts.append(("labels of other nodes", sum(explanation.labels.values()), ORANGE))
    figure, axes = plt.subplots(figsize=(9, 3.9), layout="constrained")
    left = explanation.base
    for row, (_, value, colour) in enumerate(parts):
        axes.barh(row, value, left=left, color=colour, height=0.62)
        label = axes.text(
            max(left, left + value), row, f"  {value:+.3f}", va="center", fontsize=10
        )
        label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.5})
        left += value
    axes.axvline(explanation.base, color=GREY, linewidth=1.0, linestyle=":")
    axes.axvline(explanation.score, color=BLACK, linewidth=1.4)
    axes.text(
        explanation.base,
        -0.75,
        f"base {explanation.base:.2f}",
        ha="center",
        color=GREY,
        fontsize=10,
    )
    axes.text(
        explanation.score,
        len(parts) - 0.35,
        f"predicted {explanation.score:.2f}  ",
        ha="right",
        va="top",
        fontsize=10,
    )
    axes.set_yticks(range(len(parts)), [name for name, _, _ in parts])
    axes.set(
        xlabel="log price",
        ylim=(len(parts) + 0.1, -1.1),
        xlim=(explanation.base - 0.1, left + 0.13),
    )
    return figure


def architecture() -> plt.Figure:
    """The six layers of packages; imports go down only."""
    layers = {
        "6": {"cli": "command ebboost", "testing": "hypothesis strategies"},
        "5": {
            "inspection": "check, plots, report",
            "model_selection": "cross-validation, tuning",
            "theory": "bounds of the paper",
        },
        "4": {"estimators": "EBBSRegressor, EBBSClassifier: parameters, meaning of y"},
        "3": {
            "training": "model selection, checkpoints",
            "model": "fitted model: predict, explain, serve, save",
        },
        "2": {
            "boosting": "meta-loss (7), gradient (8),\nAlgorithm 1, latent field (15)",
            "learners": "tree on all rows (11): LightGBM,\nXGBoost, CatBoost, scikit-learn",
            "backends": "threads, CUDA, Dask",
        },
        "1": {
            "graph": "adjacency",
            "propagation": "P and Pᵀ: (2)–(6),\n(13), (14)",
            "data": "tables, features,\nlabels",
            "datasets": "loaders",
            "_native": "C kernels",
        },
    }
    colours = ("#F3F3F3", "#F3F3F3", "#E6F4EF", "#E6F4EF", "#FDF0E6", "#E8F1F8")
    figure, axes = plt.subplots(figsize=(11, 6.2), layout="constrained")
    axes.set(xlim=(-0.4, 12), ylim=(0, 6.1))
    axes.axis("off")
    for row, (number, packages) in enumerate(layers.items()):
        bottom = 5.15 - row
        width = 12 / len(packages)
        axes.text(-0.3, bottom + 0.42, number, ha="center", va="center", color=GREY)
        for column, (name, text) in enumerate(packages.items()):
            corner = (column * width + 0.08, bottom)
            style = "round,pad=0.02,rounding_size=0.1"
            box = FancyBboxPatch(
                corner, width - 0.16, 0.82, boxstyle=style, fc=colours[row], ec=GREY
            )
            axes.add_patch(box)
            middle = (column + 0.5) * width
            axes.text(middle, bottom + 0.74, name, ha="center", va="top", weight="bold")
            axes.text(middle, bottom + 0.46, text, ha="center", va="top", fontsize=9)
    axes.set_title("a package imports from its own layer or a lower one", fontsize=10)
    return figure


def plots() -> plt.Figure:
    """The functions of eb.plot on a model of the turnout in US counties."""
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
    eb.plot.explanation(model.explanations([0])[0], axes[1, 2], most=8)
    return figure


def selection() -> plt.Figure:
    """The candidates of the default on the Lucas houses."""
    X, y, graph, splits = eb.datasets.load_lucas()
    train = splits[0]["train"]
    model = eb.EBBSRegressor(random_state=0, n_jobs=1)
    model.fit(X, y[train], nodes=train, graph=graph)
    n_lines = sum(1 + str(name).count(" + ") for name in model.selection_["candidate"])
    figure, axes = plt.subplots(figsize=(9, 0.9 + 0.26 * n_lines), layout="constrained")
    eb.plot.candidates(model, axes)
    return figure


FIGURES: dict[str, Callable[[], plt.Figure]] = {
    "sharing": sharing, "field": field, "leakage": leakage, "graphs": graphs,
    "frequencies": frequencies,
    "prediction": prediction, "architecture": architecture, "plots": plots,
    "selection": selection,
}  # fmt: skip


def main() -> None:
    """Draw all figures."""
    FOLDER.mkdir(exist_ok=True)
    with plt.rc_context(STYLE):
        for name, draw in FIGURES.items():
            figure = draw()
            figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
            if name == "sharing":  # for examples without a figure
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
