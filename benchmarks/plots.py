"""Figures of the paper from the store; None where the runs for a figure are missing."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.store import Result
from benchmarks.tables import Score, transferred

SHOWN_BY_SPLIT = ("CatBoost", "CatBoost+", "BGNN", "EBBS, paper", "EBBS")
COLOURS = {
    "EBBS, paper": "#d95f02",
    "EBBS, momentum": "#e7298a",
    "BGNN": "#1f78b4",
    "EBBS": "#1b9e77",
}
COLOURS |= {"CatBoost": "#666666", "CatBoost+": "#a6761d"}


def axes_side_by_side(n: int = 1, width: float = 6.0, height: float = 3.8) -> tuple[Any, Any]:
    """Return a figure, of which nothing but this program knows, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n, height), layout="constrained")
    axes = figure.subplots(1, n, squeeze=False)[0]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25)
    return figure, axes


def rmse_by_split(scores: dict[tuple[str, str], Score], dataset: str) -> Any:
    """Figure 1: each method over the splits of a data set."""
    shown = [scores[dataset, method] for method in SHOWN_BY_SPLIT if (dataset, method) in scores]
    splits = sorted({split for score in shown for split in score.runs})
    if len(shown) < 2 or len(splits) < 2:
        return None
    figure, (ax,) = axes_side_by_side()
    for score in shown:
        ax.plot(
            sorted(score.runs),
            score.test,
            marker="o",
            label=score.method,
            color=COLOURS.get(score.method),
        )
    ax.set(xlabel="split", ylabel=f"test {shown[0].measure}", title=dataset)
    ax.set_xticks(splits)
    ax.legend(frameon=False, fontsize="small")
    return figure


def losses(scores: dict[tuple[str, str], Score], dataset: str, split: int = 0) -> Any:
    """Figure S2: training and validation loss by iteration; BGNN's inner steps are unfolded."""
    names = ("EBBS, paper", "EBBS, momentum", "BGNN")
    shown = {
        name: scores[dataset, name].runs.get(split) for name in names if (dataset, name) in scores
    }
    shown = {name: run for name, run in shown.items() if run is not None and run.curve}
    if len(shown) < 2:
        return None
    figure, axes = axes_side_by_side(2)
    for ax, part in zip(axes, ("training", "validation"), strict=True):
        for name, run in shown.items():
            every = len(run.curve["training"]) / max(len(run.curve[part]), 1)
            steps = every * np.arange(1, len(run.curve[part]) + 1)
            ax.plot(steps, run.curve[part], label=name, color=COLOURS.get(name), linewidth=1.2)
        ax.set(
            xlabel="iteration",
            ylabel=_axis_label(part, next(iter(shown.values()))),
            title=f"{dataset}, split {split}",
        )
        ax.set_xscale("log")
        lowest = min(min(run.curve[part]) for run in shown.values())
        highest = max(max(run.curve[part][len(run.curve[part]) // 10 :]) for run in shown.values())
        margin = 0.1 * (highest - lowest)
        ax.set_ylim(lowest - margin, highest + 3 * margin)
        ax.legend(frameon=False, fontsize="small")
    return figure


def instability(
    scores: dict[tuple[str, str], Score],
    results: Sequence[Result],
    dataset: str,
    source: str = "county",
    split: int = 0,
) -> Any:
    """Figure 2: BGNN under another data set's hyperparameters and under its own, beside EBBS."""
    home, own, ours = (
        (d, m) for d, m in ((source, "BGNN"), (dataset, "BGNN"), (dataset, "EBBS, paper"))
    )
    if dataset == source or home not in scores or own not in scores:
        return None
    moved = [
        result
        for result in transferred(results, scores[home], dataset)
        if result.run.split == split
    ]
    shown = {f"BGNN, settings of {source}": moved[0]} if moved else {}
    if split in scores[own].runs:
        shown[f"BGNN, settings of {dataset}"] = scores[own].runs[split]
    if ours in scores and split in scores[ours].runs:
        shown["EBBS, paper"] = scores[ours].runs[split]
    if not moved or moved[0] is scores[own].runs.get(split):
        return None
    figure, axes = axes_side_by_side(2)
    for ax, part in zip(axes, ("training", "validation"), strict=True):
        for name, result in shown.items():
            ax.plot(
                np.arange(1, len(result.curve[part]) + 1),
                result.curve[part],
                label=name,
                linewidth=1.2,
            )
        unit = "round" if part == "validation" else "step"
        ax.set(
            xlabel=unit,
            ylabel=_axis_label(part, moved[0]),
            title=f"{dataset}, split {split}",
            xscale="log",
        )
        ax.legend(frameon=False, fontsize="small")
    return figure


def _axis_label(part: str, result: Result) -> str:
    """Return the label of the axis; classes are trained on their log-likelihood."""
    return f"{part} {'loss' if part == 'training' and result.measure != 'RMSE' else result.measure}"


def strength(results: Sequence[Result], dataset: str) -> Any:
    """Figure S3: the error for different strengths of smoothing λ."""
    runs = [
        r
        for r in results
        if (r.run.dataset, r.run.method) == (dataset, "EBBS, strength") and r.status == "done"
    ]
    strengths = sorted({result.run.settings["lam"] for result in runs})
    if len(strengths) < 2:
        return None
    figure, (ax,) = axes_side_by_side()
    for part in ("validation", "test"):
        means = [
            np.mean([getattr(r, part) for r in runs if r.run.settings["lam"] == lam])
            for lam in strengths
        ]
        ax.plot(strengths, means, marker="o", label=part)
    ax.set(xlabel="λ", ylabel=runs[0].measure, title=f"{dataset}, EBBS as published", xscale="log")
    ax.legend(frameon=False, fontsize="small")
    return figure


def accuracy_against_time(scores: dict[tuple[str, str], Score], dataset: str) -> Any:
    """The test score of each method against the seconds of a fit."""
    shown = [score for (name, _), score in scores.items() if name == dataset]
    if len(shown) < 2:
        return None
    figure, (ax,) = axes_side_by_side(width=7.0)
    for score in shown:
        seconds = float(np.mean([result.seconds for result in score.runs.values()]))
        ax.plot(seconds, score.mean, marker="o", color=COLOURS.get(score.method, "#666666"))
        ax.annotate(
            score.method,
            (seconds, score.mean),
            xytext=(4, 3),
            textcoords="offset points",
            fontsize="x-small",
        )
    ax.set(
        xlabel="seconds of a fit", ylabel=f"test {shown[0].measure}", title=dataset, xscale="log"
    )
    return figure
