"""speed.md, and a figure for each part, from the store."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.plots import axes_side_by_side
from benchmarks.speed.aims import Results, Row, aims, memory, over, spaced
from benchmarks.speed.fits import DEFAULT, METHODS, OURS, PLAIN, RECIPE, ROUNDS, SAME, STOPPED
from benchmarks.speed.plan import SWEEPS

ABOUT = """Time relative to plain LightGBM on the same rows, rounds, leaves and threads; after the
slash, peak memory above the inputs relative to the bytes of the inputs (table, labels, adjacency).
Every fit ran in its own process. Smoothing is `smoothing=eb.Laplacian(2.0, 5), labels="none",
early_stopping=False`; "plain's trees" adds `learner=eb.LightGBM()`, which is compared with the
targets (in brackets: the default settings of the trees). The published algorithm was run for a
tenth of its rounds, the network for a tenth or a fiftieth of its epochs, GPBoost for a fiftieth of
its rounds: their times are scaled up."""
TITLES = {
    "nodes": "Nodes: five random edges each, 20 columns",
    "growth": "Nodes, on one thread",
    "edges": "Edges: 20 000 nodes, 20 columns",
    "columns": "Columns: 20 000 nodes, 100 000 edges",
    "classes": "Classes: 20 000 nodes, 100 000 edges, 20 columns",
    "middle": "20 000 nodes, 100 000 random edges, 20 columns",
    "house": "As large as House: 20 640 nodes, 182 000 edges between nearest neighbours",
    "graphs": "Random edges and nearest neighbours, five a node",
}
COLOURS = {
    PLAIN: "#444444",
    STOPPED: "#999999",
    OURS: "#1b9e77",
    SAME: "#66c2a5",
    ROUNDS: "#d95f02",
    DEFAULT: "#fdae61",
    RECIPE: "#7570b3",
    "plain, then Correct and Smooth": "#e7298a",
    "GCN, 200 epochs": "#1f78b4",
    "GPBoost": "#a6761d",
}


SHADES = ("#1b9e77", "#d95f02", "#7570b3", "#e7298a")


def write(results: Results, folder: Path) -> list[Path]:
    """Write tables and figures to a folder; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    text, files = [markdown(results)], []
    for name, figure in figures(results).items():
        figure.savefig(folder / f"{name}.png", dpi=110)
        files.append(folder / f"{name}.png")
        text.append(f"![{TITLES[name]}]({name}.png)\n")
    (folder / "speed.md").write_text("\n".join(text), encoding="utf-8")
    return [folder / "speed.md", *files]


# ---------------------------------------------------------------------- tables


def markdown(results: Results) -> str:
    """Return the aims and a table for each part."""
    versions = ", ".join(f"{name} {version}" for name, version in results.store.made_with.items())
    lines = ["# Speed\n", f"{ABOUT} Made with {versions}.\n"]
    if checks := aims(results):
        lines += ["| what | must | measured | |", "|---|---|---|---|"]
        lines += [
            f"| {aim.what} | {aim.must} | {aim.measured} | {'✓' if aim.met else '✗'} |"
            for aim in checks
        ]
        lines.append("")
    for part, title in TITLES.items():
        if rows := results.rows(part):
            lines += [f"## {title}\n", *_table(part, rows), ""]
    if results.store.imports:
        lines += ["## Imports\n", "| module | seconds |", "|---|---|"]
        lines += [
            f"| `{name}` | {results.import_seconds(name):.2f} |" for name in results.store.imports
        ]
        lines.append("")
    return "\n".join(lines)


def _table(part: str, rows: list[Row]) -> list[str]:
    heads = [_head(part, row) for row in rows]
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "---|" * len(rows)]
    plain = " | ".join(f"{row[PLAIN].best:.2f} s / {memory(row, PLAIN):.1f}" for row in rows)
    lines.append(f"| {PLAIN} | {plain} |")
    for name in METHODS:
        if name != PLAIN and any(name in row for row in rows):
            lines.append(f"| {name} | {' | '.join(_cell(row, name) for row in rows)} |")
    return lines


def _head(part: str, row: Row) -> str:
    case = row[PLAIN].case
    nodes, count = (
        f"{spaced(case.problem.nodes)} nodes",
        f"{case.threads} thread" + ("s" if case.threads > 1 else ""),
    )
    size = [f"{spaced(getattr(case.problem, part))} {part}"] if part in SWEEPS else []
    size += [nodes] if part == "growth" else []
    size += [f"{case.problem.columns} columns"] if part == "house" else []
    size += [nodes, f"{case.problem.graph} edges"] if part == "graphs" else []
    return ", ".join([*size, f"{case.rounds} rounds", count])


def _cell(row: Row, name: str) -> str:
    if name not in row:
        return ""
    rounds = f" ({row[name].rounds} rounds)" if name in (DEFAULT, STOPPED) else ""
    ratio = over(row, name) or 0.0
    shown = f"{ratio:.3g}" if ratio < 100 else spaced(round(ratio))
    return f"{shown} × / {memory(row, name):.1f}{rounds}"


# ---------------------------------------------------------------------- figures


def figures(results: Results) -> dict[str, Any]:
    """Return every figure that there are runs for."""
    figures = {}
    for part in (*SWEEPS, "growth"):
        if len(rows := results.rows(part)) > 1:
            figures[part] = _sweep(results, part, rows)
    for part in ("house", "graphs"):
        if rows := results.rows(part):
            figures[part] = _bars(part, rows)
    return figures


def _sweep(results: Results, part: str, rows: list[Row]) -> Any:
    """Seconds, time over plain and peak memory, against one size."""
    panels: dict[str, Callable[[Row, str], float | None]] = {
        "seconds of a fit": lambda row, name: row[name].best if name in row else None,
        "time over plain LightGBM": over,
        "peak memory over the inputs": memory,
    }
    figure, axes = axes_side_by_side(len(panels), width=4.6, height=4.8)
    size = "nodes" if part == "growth" else part
    sizes = [getattr(row[PLAIN].case.problem, size) for row in rows]
    for ax, (label, figure_of) in zip(axes, panels.items(), strict=True):
        for name, colour in COLOURS.items():
            points = [
                (size, y)
                for size, row in zip(sizes, rows, strict=True)
                if (y := figure_of(row, name)) is not None
            ]
            exponent = (
                results.exponent(name) if part == "growth" and label.startswith("seconds") else None
            )
            label = f"{name} (exponent {exponent:.2f})" if exponent is not None else name
            if points:
                ax.plot(
                    *zip(*points, strict=True), marker="o", markersize=4, color=colour, label=label
                )
        ax.set(xscale="log", yscale="log", xlabel=size, title=label)
        ax.set_xticks(sizes, [_short(size) for size in sizes], minor=False)
        ax.set_xticks([], minor=True)
        _plain_ticks(ax.yaxis)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize="small"
    )
    case = rows[0][PLAIN].case
    figure.suptitle(f"{TITLES[part]}; {case.rounds} rounds, threads: {case.threads}")
    return figure


def _bars(part: str, rows: list[Row]) -> Any:
    """Time over plain, method by method, on each problem."""
    names = [name for name in METHODS if name != PLAIN and any(name in row for row in rows)]
    figure, (ax,) = axes_side_by_side(1, width=9.0, height=0.25 * len(names) * len(rows) + 2.0)
    height = 0.8 / len(rows)
    for number, row in enumerate(rows):
        shown = {
            position + height * number: over(row, name)
            for position, name in enumerate(names)
            if name in row
        }
        bars = ax.barh(
            list(shown), list(shown.values()), height, color=SHADES[number], label=_head(part, row)
        )
        ax.bar_label(
            bars,
            fmt=lambda y: f"{y:.3g}" if y < 100 else spaced(round(y)),
            padding=3,
            fontsize="small",
        )
    ax.set_yticks(
        [position + height * (len(rows) - 1) / 2 for position in range(len(names))], names
    )
    ax.invert_yaxis()
    ax.set(xlabel="time over plain LightGBM", title=TITLES[part])
    if part == "house":  # from the same to a thousand times
        ax.set(xscale="log")
        _plain_ticks(ax.xaxis)
    ax.margins(x=0.08)
    ax.axvline(1.0, color="#444444", linewidth=0.8)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    return figure


def _plain_ticks(axis: Any) -> None:
    """Write 0.5 and 20 on a logarithmic axis, not powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axis.set_minor_formatter(NullFormatter())


def _short(size: int) -> str:
    return (
        f"{size // 10**6} M"
        if size >= 10**6
        else f"{size // 1000} k"
        if size >= 1000
        else str(size)
    )
