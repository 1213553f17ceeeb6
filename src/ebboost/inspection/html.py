"""Tables, charts and other pieces of the report; text is escaped unless it is :class:`Html`."""

import io
import re
import warnings
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING

from ebboost.inspection import plots

if TYPE_CHECKING:
    pass

Rows = Sequence[Sequence[object]]
INK = "#1d262e"
RULE = "#dcd8cf"
# Colors of the plots and the variables of the style sheet that replace them, light and dark.
VARIABLES = {plots.FIRST: "first", plots.SECOND: "second", plots.FAINT: "faint"}
VARIABLES |= {plots.GUIDE: "soft", INK: "ink", RULE: "rule"}
STYLE: dict[str, object] = {"svg.fonttype": "none", "font.size": 12, "text.parse_math": False}
STYLE |= {"axes.spines.top": False, "axes.spines.right": False, "savefig.dpi": 150}
STYLE |= {"axes.grid": True, "axes.axisbelow": True, "grid.linewidth": 0.6}
STYLE |= dict.fromkeys(["text.color", "axes.labelcolor"], INK)
STYLE |= dict.fromkeys(["xtick.labelcolor", "ytick.labelcolor"], INK)
STYLE |= dict.fromkeys(["axes.edgecolor", "grid.color", "xtick.color", "ytick.color"], RULE)


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def markup(value: object) -> Html:
    """Return the value as HTML, escaped unless it is markup."""
    return value if isinstance(value, Html) else Html(escape(str(value)))


def joined(*parts: object) -> Html:
    """Return pieces one after the other."""
    return Html("".join(map(markup, parts)))


def tag(name: str, content: object, kind: str = "") -> Html:
    """Return an element, of a class of the style sheet."""
    kind = f' class="{kind}"' if kind else ""
    return Html(f"<{name}{kind}>{markup(content)}</{name}>")


def paragraph(text: object) -> Html:
    """Return a paragraph."""
    return tag("p", text)


def missing(text: str) -> Html:
    """Return a paragraph in place of what cannot be shown."""
    return tag("p", text, "missing")


def folded(content: Html, title: object = "The numbers as a table") -> Html:
    """Return content that is shown on a click."""
    return Html(f"<details><summary>{markup(title)}</summary>{content}</details>")


def table(caption: str, head: Sequence[object], rows: Rows, kind: str = "figures") -> Html:
    """Return a table with a heading for each row; cells of markup are bars."""
    top = "".join(f'<th scope="col">{markup(cell)}</th>' for cell in head)
    body = ""
    for first, *cells in rows:
        marks = (" class=mark" * isinstance(cell, Html) for cell in cells)
        fields = (f"<td{mark}>{markup(cell)}</td>" for mark, cell in zip(marks, cells, strict=True))
        body += f'<tr><th scope="row">{markup(first)}</th>{"".join(fields)}</tr>'
    label = f'tabindex="0" role="region" aria-label="{escape(caption)}"'
    caption = f'<caption class="hidden">{markup(caption)}</caption>'
    inner = f"{caption}<thead><tr>{top}</tr></thead><tbody>{body}</tbody>"
    return Html(f'<div class="scroll" {label}><table class="{kind}">{inner}</table></div>')


def bar(share: float, kinds: tuple[str, str] = ("down", "up")) -> Html:
    """Return a bar to the left or to the right of the middle, for a share from −1 to 1."""
    share = min(max(share, -1.0), 1.0)
    style = f"left:{50 + min(50 * share, 0):.1f}%;width:{50 * abs(share):.1f}%"
    return Html(f'<span class="bar"><i class="{kinds[share > 0]}" style="{style}"></i></span>')


def plot(draw: Callable[..., object], label: str, size: tuple[float, float] = (5.2, 3.4)) -> Html:
    """Return a plot as inline SVG in the colors of the page; ``label`` is for screen readers."""
    from matplotlib import style
    from matplotlib.figure import Figure

    file = io.StringIO()
    rules = {**STYLE, "svg.hashsalt": label}  # the salt makes ids unique and reproducible
    with warnings.catch_warnings(), style.context(["default", rules]):
        warnings.filterwarnings("ignore", message="Glyph")
        figure = Figure(size, layout="constrained")
        draw(ax=figure.subplots())
        figure.savefig(file, format="svg", transparent=True)
    svg = file.getvalue()
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0]
    body = svg[svg.index("</metadata>") + len("</metadata>") :]
    body = re.sub(r"<style.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r"<[^>]*>", lambda found: _compact(found[0]), body)
    body = re.sub(r">\s+<", "><", body)
    head = f'<svg class="plot" role="img" aria-label="{escape(label)}"'
    return Html(f'{head} viewBox="0 0 {width} {height}">{body}')


def _compact(element: str) -> str:
    """A tag of an SVG in the colors of the page; text between tags stays as it is."""
    if element.startswith("<image"):
        return element.replace("\n", "").replace("xlink:href", "href")
    for color, variable in VARIABLES.items():
        element = element.replace(color, f"var(--{variable})")
    element = re.sub(r'(?<=<g) id="[^"]*"|font-family: [^;"]*;?|(?<=\d\.\d\d)\d+', "", element)
    point = r'<use (xlink:href="#\w+" x=.*) style=".*opacity.*"'
    element = re.sub(point, r'<use class="point" \1', element)
    return re.sub(r"\s+", " ", element.replace("xlink:href", "href"))
