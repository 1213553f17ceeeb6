"""Charts as text: an SVG that stretches with the page, its labels as ordinary text that never shrinks.

Lines and dots keep their thickness however the page is stretched, so that one chart serves a laptop and a phone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LONGEST_NAME = 150
DOTS_IN_A_PATH = 40  # dots of one path do not add up where they overlap, those of several do


@dataclass(frozen=True)
class Axis:
    """From where to where, what is written along it, and its name."""

    low: float
    high: float
    title: str
    ticks: tuple[float, ...] = ()
    write: Callable[[float], str] | None = None

    def place(self, values: Array | float) -> Array:
        """Values as shares of the way from low to high."""
        return (np.asarray(values, dtype=np.float64) - self.low) / ((self.high - self.low) or 1.0)

    def marks(self) -> list[tuple[float, str]]:
        """Place and text of each tick."""
        write = self.write or number
        return [
            (float(self.place(tick)), write(tick))
            for tick in self.ticks or round_ticks(self.low, self.high)
        ]


def round_ticks(low: float, high: float, wanted: int = 6) -> tuple[float, ...]:
    """A few round numbers between two ends."""
    if not high > low:
        return (low,)
    step = 10.0 ** np.floor(np.log10((high - low) / wanted))
    step *= next(factor for factor in (1, 2, 5, 10, 20) if (high - low) / (step * factor) <= wanted)
    first = np.ceil(low / step - 1e-9)
    return tuple(
        float(round(k * step, 12)) for k in np.arange(first, np.floor(high / step + 1e-9) + 1)
    )


def number(value: float) -> str:
    """A number as people write it: three or four figures, thousands apart."""
    if not np.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "–"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e9 or size < 1e-4:
        text = f"{value:.2e}"
    elif size >= 10_000:  # years stay as they are
        text = f"{value:,.0f}".replace(",", "\u202f")
    else:
        text = f"{value:.0f}" if size >= 1000 else f"{value:.4g}" if size >= 1 else f"{value:.3g}"
    return text.replace("-", "−")


def clipped(name: object) -> str:
    """A name of the user's, no longer than the page can bear."""
    text = str(name)
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…"


def figure(value: float) -> str:
    """A number to compare with others: three figures, zeros at the end too."""
    if not np.isfinite(value) or value == 0 or not 1e-4 <= abs(value) < 100:
        return number(value)
    return f"{value:#.3g}".rstrip(".").replace("-", "−")


def percent(share: float, digits: int | None = None) -> str:
    """A share in percent; small ones with a digit more."""
    if digits is None:
        digits = 0 if abs(share) >= 0.0995 or share == 0 else 1
    return f"{100 * share:.{digits}f}\u202f%".replace("-", "−")


def line(x: Axis, y: Axis, xs: Array, ys: Array, kind: str) -> str:
    """A line through points; ``kind`` is its class in the style sheet."""
    points = np.column_stack([1000 * x.place(xs), 1000 * (1 - y.place(ys))])
    points = points[np.isfinite(points).all(axis=1)]
    return (
        f'<path class="line {kind}" d="M{" L".join(f"{a:.1f} {b:.1f}" for a, b in points)}"/>'
        if len(points)
        else ""
    )


def dots(x: Axis, y: Axis, xs: Array, ys: Array, kind: str, alone: bool = False) -> str:
    """A round dot at each point."""
    points = np.column_stack([1000 * x.place(xs), 1000 * (1 - y.place(ys))]).round().astype(int)
    step = 1 if alone else DOTS_IN_A_PATH
    parts = (
        "".join(f"M{a} {b}h0" for a, b in points[start : start + step])
        for start in range(0, len(points), step)
    )
    return "".join(f'<path class="dots {kind}" d="{part}"/>' for part in parts)


def chart(body: str, x: Axis, y: Axis, label: str, square: bool = False) -> str:
    """Axes around the body of a chart; ``label`` is what a screen reader says."""
    across, up = x.marks(), y.marks()
    grid = "".join(f'<path class="grid" d="M0 {1000 - 1000 * p:.1f}H1000"/>' for p, _ in up)
    grid += "".join(f'<path class="grid" d="M{1000 * p:.1f} 0V1000"/>' for p, _ in across)
    widest = max((len(text) for _, text in up), default=1)
    left = "".join(f'<span style="bottom:{100 * p:.2f}%">{escape(text)}</span>' for p, text in up)
    below = "".join(
        f'<span style="left:{100 * p:.2f}%">{escape(text)}</span>' for p, text in across
    )
    return (
        f'<div class="plot{" square" if square else ""}" style="--ticks:{widest + 1}ch">'
        f'<p class="ytitle" aria-hidden="true">{escape(y.title)}</p>'
        f'<div class="yticks" aria-hidden="true">{left}</div>'
        f'<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" role="img" aria-label="{escape(label)}">{grid}{body}</svg>'
        f'<div class="xticks" aria-hidden="true">{below}</div>'
        f'<p class="xtitle" aria-hidden="true">{escape(x.title)}</p></div>'
    )


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    caption: str,
    *,
    kind: str = "",
    raw: int = -1,
) -> str:
    """A table with a heading for each row; column ``raw`` holds HTML of ours and is not escaped."""
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = ""
    for row in rows:
        cells = (
            f'<td class="mark">{cell}</td>' if place == raw else f"<td>{escape(cell)}</td>"
            for place, cell in enumerate(row[1:], start=1)
        )
        body += f'<tr><th scope="row">{escape(row[0])}</th>{"".join(cells)}</tr>'
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table class="{kind}">'
        f'<caption class="hidden">{escape(caption)}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def folded(content: str, title: str = "The numbers as a table") -> str:
    """Content that opens when asked for."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def bar(share: float, kind: str = "plain") -> str:
    """A bar from the left."""
    return f'<span class="bar {kind}" style="width:{100 * min(max(share, 0.0), 1.0):.1f}%"></span>'


def two_way_bar(share: float) -> str:
    """A bar to the left (better) or the right (worse) of the middle; ``share`` runs from −1 to 1."""
    share = min(max(share, -1.0), 1.0)
    start, kind = (50 + 50 * share, "good") if share < 0 else (50, "bad")
    return f'<span class="twoway"><span class="{kind}" style="left:{start:.1f}%;width:{50 * abs(share):.1f}%"></span></span>'
