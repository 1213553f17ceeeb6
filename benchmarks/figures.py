"""Figures of the convergence bounds and of λ on County: ``make figures``.

``python benchmarks/figures.py training propagation lambda`` draws those named; ``EBBOOST_DATA``
says where the data are.
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from data import Data, load
from scipy.sparse.linalg import LinearOperator, eigsh

import ebboost as eb

matplotlib.use("Agg")
from matplotlib import pyplot as plt

FOLDER = Path(__file__).parent / "figures"
# The palette of Okabe and Ito; every line also has its own style or label.
BLACK, BLUE, ORANGE, GREEN, GREY = "#000000", "#0072B2", "#D55E00", "#009E73", "#888888"
STYLE = {
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "lines.linewidth": 2.0,
    "legend.frameon": False,
    "figure.dpi": 150,
    "svg.hashsalt": "ebboost",
    "svg.fonttype": "none",
}


def fitted(data: Data, split: int, n_rounds: int, **parts: Any) -> Any:
    """Train on the training nodes of a split to the end, with smoothing alone by default."""
    nodes = data.splits[split]["train"]
    fixed = {
        "smoothing": eb.Laplacian(2.0, 5),
        "labels": "none",
        "early_stopping": False,
        "learner": eb.LightGBM(),
    }
    model = eb.EBBSRegressor(n_rounds, random_state=0, n_jobs=1, **(fixed | parts))
    return model.fit(data.X, data.y[nodes], nodes=nodes, graph=data.graph)


def training(data: Data) -> plt.Figure:
    """Training loss by round with momentum, and distance from the optimum with a penalty."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.3), layout="constrained")
    rate, plain_rounds = 0.02, 2000
    runs = {
        "none": (plain_rounds, False, BLACK, "-"),
        "simple": (400, "simple", BLUE, "--"),
        "corrected, φ = 0.2": (400, "corrected", ORANGE, "-"),
        "corrected, φ = 1": (400, eb.CorrectedMomentum(1.0), GREEN, "-."),
    }
    losses = {}
    for name, (rounds, momentum, colour, style) in runs.items():
        report = eb.convergence.report(
            fitted(data, 0, rounds, learning_rate=rate, momentum=momentum)
        )
        losses[name] = report.loss
        left.loglog(report.rounds[1:], report.loss[1:], style, color=colour, label=name)
        if name != "none":
            aim = losses["none"][640]
            needed = int(np.argmax(np.minimum.accumulate(report.loss) <= aim))
            print(
                f"training: loss after 640 plain rounds reached by {name} in {needed} "
                f"({640 / needed:.1f} times fewer)"
            )
    t = np.array([50.0, 400.0])
    left.loglog(
        t,
        1.1 * losses["corrected, φ = 0.2"][50] * (50.0 / t) ** 2,
        ":",
        color=GREY,
        label="proportional to 1/t²",
    )
    left.set(xlabel="round t", ylabel="mean training loss, ½ (percentage points)²")
    left.set_title("Momentum: the same loss in fewer rounds")
    left.legend(loc="lower left", title=f"momentum (learning rate {rate})", alignment="left")

    deep = eb.LightGBM(64, min_child_samples=1, params={"min_sum_hessian_in_leaf": 1e-6})
    for penalty, colour, style in ((1.0, BLUE, "-"), (0.1, ORANGE, "--"), (0.01, GREEN, "-.")):
        report = eb.convergence.report(
            fitted(data, 0, 300, learning_rate=0.5, penalty=penalty, learner=deep)
        )
        gap, line = report.loss - report.optimum, np.arange(20, 301)
        straight = np.corrcoef(line, np.log(gap[20:]))[0, 1]
        print(
            f"training: ε = {penalty}: correlation of log gap with t {straight:.4f}, "
            f"bound {report.bound[-1]:.4g}"
        )
        right.semilogy(report.rounds, gap, style, color=colour, label=f"ε = {penalty:g}")
    right.set(xlabel="round t", ylabel="training loss − its optimum")
    right.set_title("Penalty ε > 0: linear convergence, faster for larger ε")
    right.legend(
        loc="lower left", title="without momentum, 64 leaves,\nlearning rate 0.5", alignment="left"
    )
    return figure


def propagation(data: Data) -> plt.Figure:
    """‖P^(k) − P*‖ against k, measured by Lanczos, and its bounds."""
    figure, axes = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
    lam, n = 20.0, data.graph.n_nodes
    exact = eb.Laplacian(lam, method="exact").operator(data.graph)

    def measured(smoother: eb.Laplacian) -> float:
        operator = smoother.operator(data.graph)
        difference = LinearOperator(
            (n, n), matvec=lambda v: operator.apply(v) - exact.apply(v), dtype=float
        )
        start = np.random.default_rng(0).standard_normal(n)
        return float(
            abs(
                eigsh(difference, k=1, which="LM", v0=start, tol=1e-3, return_eigenvectors=False)[0]
            )
        )

    steps = {"gradient": range(0, 151, 10), "chebyshev": range(0, 41, 4)}
    for method, colour, marker in (("gradient", BLUE, "o"), ("chebyshev", ORANGE, "s")):
        smoothers = [eb.Laplacian(lam, k, method=method, step="theorem") for k in steps[method]]
        errors = [measured(smoother) for smoother in smoothers]
        proved = smoothers[0].contraction(smoothers[0].system(data.graph))
        all_steps = range(steps[method][-1] + 1)
        name = "Chebyshev steps" if method == "chebyshev" else "gradient steps, α = 1/σ"
        axes.semilogy(
            steps[method], errors, marker, color=colour, markersize=5, label=f"{name}, measured"
        )
        what = name.split(",")[0] + ", bound"
        axes.semilogy(
            all_steps,
            [proved.error(k) for k in all_steps],
            "-",
            color=colour,
            linewidth=1.3,
            label=what,
        )
    constants = eb.convergence.constants(data.graph, smoothers[0])
    k = np.array(steps["gradient"])
    printed = (1.0 - 1.0 / constants.sigma) * np.exp(-constants.mu * k / (2.0 * constants.sigma))
    axes.semilogy(
        k,
        printed,
        "--",
        color=GREY,
        linewidth=1.3,
        label="gradient steps, bound of the paper's proof, $e^{-μk/2σ}$",
    )
    needed = [
        eb.convergence.steps_for(data.graph, eb.Laplacian(lam, method=m, step="theorem"), 0.01)
        for m in steps
    ]
    print(
        f"propagation: σ = {constants.sigma:.2f}, steps for 0.01: gradient {needed[0]}, "
        f"Chebyshev {needed[1]}"
    )
    axes.set(xlabel="steps k", ylabel="$\\Vert P^{(k)} - P^*\\Vert_2$", ylim=(1e-7, 2.0))
    axes.set_title(
        f"How far k steps are from the minimiser (County, λ = {lam:g}, σ = {constants.sigma:.1f})"
    )
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.0), fontsize=9)
    return figure


def ablation(data: Data) -> plt.Figure:
    """Test error against λ: smoothing alone, five splits."""
    figure, axes = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
    lams = np.logspace(-2, 2, 13)

    def errors(smoothing: Any, split: int) -> tuple[float, float]:
        part = data.splits[split]
        fixed = {
            "labels": "none",
            "learner": eb.LightGBM(15, min_child_samples=10),
            "learning_rate": 0.1,
        }
        model = eb.EBBSRegressor(
            600, smoothing=smoothing, random_state=0, n_jobs=1, n_iter_no_change=20, **fixed
        )
        held = (part["val"], data.y[part["val"]])
        model.fit(
            data.X, data.y[part["train"]], nodes=part["train"], graph=data.graph, eval_set=held
        )
        predicted = model.predict()
        val, test = (
            np.sqrt(np.mean((predicted[part[p]] - data.y[part[p]]) ** 2)) for p in ("val", "test")
        )
        return float(val), float(test)

    splits = range(len(data.splits))
    alone = np.mean([errors(None, split)[1] for split in splits])
    axes.axhline(alone, color=GREY, linestyle=":", label="no smoothing (λ = 0)")
    print(f"lambda: 0: test {alone:.3f}")
    makers = {
        "k = 5 gradient steps, as in the paper": (lambda lam: eb.Laplacian(lam, 5), BLUE, "o-"),
        "to the minimiser (Chebyshev, n_steps='auto')": (
            lambda lam: eb.Laplacian(lam, "auto", method="chebyshev"),
            ORANGE,
            "s--",
        ),
    }
    for name, (make, colour, style) in makers.items():
        rmse = np.array([[errors(make(lam), split) for split in splits] for lam in lams])
        val, test = rmse[..., 0].mean(axis=1), rmse[..., 1].mean(axis=1)
        axes.semilogx(lams, test, style, color=colour, markersize=4, label=name)
        if style == "o-":
            axes.semilogx(lams, rmse[..., 1], color=colour, linewidth=0.8, alpha=0.45, zorder=1)
        best = int(val.argmin())
        axes.plot(lams[best], test[best], "o", markersize=12, markerfacecolor="none", color=colour)
        rows = ", ".join(f"{lam:.3g}: {error:.3f}" for lam, error in zip(lams, test, strict=True))
        print(f"lambda: {name}: {rows}; validation would choose {lams[best]:.3g}", flush=True)
    axes.set(xlabel="λ", ylabel="test RMSE, percentage points")
    axes.set_title("Strength of smoothing on County: mean of five splits (thin: each split, k = 5)")
    axes.set_ylim(1.0, 1.68)
    ring = axes.plot(
        [],
        [],
        "o",
        markersize=10,
        markerfacecolor="none",
        color=BLACK,
        label="what validation would choose",
    )
    axes.legend(
        handles=[*axes.get_legend_handles_labels()[0][:-1], *ring], loc="upper left", fontsize=9
    )
    return figure


FIGURES = {"training": training, "propagation": propagation, "lambda": ablation}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"of {', '.join(FIGURES)}; default: all")
    names = parser.parse_args().names or list(FIGURES)
    FOLDER.mkdir(exist_ok=True)
    data = load("county")
    with plt.rc_context(STYLE):
        for name in names:
            figure = FIGURES[name](data)
            figure.savefig(FOLDER / f"{name}.png", metadata={"Software": None})
            figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
            plt.close(figure)


if __name__ == "__main__":
    main()
