"""Templates, tables and plots of the report; text is escaped unless it is :class:`Html`."""

import io
import re
import warnings
from collections.abc import Callable, Sequence
from html import escape
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

from ebboost.inspection import plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#1d262e"
RULE = "#dcd8cf"
# Colors of the plots and the variables of the style sheet that replace them, light and dark.
VARIABLES = {plots.FIRST: "first", plots.SECOND: "second", plots.FAINT: "faint"}
VARIABLES |= {plots.GUIDE: "soft", INK: "ink", RULE: "rule"}
STYLE: dict[str, object] = {"svg.fonttype": "none", "font.size": 12, "text.parse_math": False}
STYLE |= {"axes.spines.top": False, "axes.spines.right": False}
STYLE |= {"axes.grid": True, "axes.axisbelow": True, "grid.linewidth": 0.6}
STYLE |= dict.fromkeys(["text.color", "axes.labelcolor"], INK)
STYLE |= dict.fromkeys(["xtick.labelcolor", "ytick.labelcolor"], INK)
STYLE |= dict.fromkeys(["axes.edgecolor", "grid.color", "xtick.color", "ytick.color"], RULE)


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def markup(value: object) -> Html:
    """The value as HTML, escaped unless it is markup."""
    return value if isinstance(value, Html) else Html(escape(str(value)))


def render(file: str, **values: object) -> Html:
    """Fill in a template of this package."""
    filled = {key: markup(value) for key, value in values.items()}
    return Html(Template(template(file)).substitute(filled))


def template(file: str) -> str:
    """The text of a template."""
    folder = resources.files("ebboost.inspection.report").joinpath("templates")
    return folder.joinpath(file).read_text(encoding="utf-8")


def paragraph(text: object, kind: str = "") -> Html:
    """A paragraph of a class of the style sheet."""
    return Html(f'<p class="{kind}">{markup(text)}</p>')


def missing(text: str) -> Html:
    """A paragraph in place of what cannot be shown."""
    return paragraph(text, "missing")


def table(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[object]], kind: str = "figures"
) -> Html:
    """A table with a heading for each row; cells of markup are bars."""
    top = "".join(f'<th scope="col">{markup(cell)}</th>' for cell in head)
    body = ""
    for first, *cells in rows:
        marks = (" class=mark" * isinstance(cell, Html) for cell in cells)
        fields = (f"<td{mark}>{markup(cell)}</td>" for mark, cell in zip(marks, cells, strict=True))
        body += f'<tr><th scope="row">{markup(first)}</th>{"".join(fields)}</tr>'
    return render("table.html", caption=caption, kind=kind, head=Html(top), body=Html(body))


def folded(content: Html, title: str = "The numbers as a table") -> Html:
    """Content that is shown on a click."""
    return Html(f"<details><summary>{markup(title)}</summary>{content}</details>")


def two_way_bar(change: float) -> Html:
    """A bar to the left (better) or the right (worse) of the middle, for a share from −1 to 1."""
    change = min(max(change, -1.0), 1.0)
    start = 50 + min(50 * change, 0)
    kind = "good" if change < 0 else "bad"
    style = f"left:{start:.1f}%;width:{50 * abs(change):.1f}%"
    return Html(f'<span class="twoway"><span class="{kind}" style="{style}"></span></span>')


def plot(
    draw: "Callable[[Axes], object]", label: str, size: tuple[float, float] = (5.2, 3.4)
) -> Html:
    """A plot as inline SVG in the colors of the page; ``label`` is its text for screen readers."""
    from matplotlib import style
    from matplotlib.figure import Figure

    file = io.StringIO()
    rules = {**STYLE, "svg.hashsalt": label}  # the salt makes ids unique and reproducible
    with warnings.catch_warnings(), style.context(["default", rules]):
        warnings.filterwarnings("ignore", message="Glyph")
        figure = Figure(size, layout="constrained")
        draw(figure.subplots())
        figure.savefig(file, format="svg", transparent=True)
    return _inline(file.getvalue(), label)


def _inline(svg: str, label: str) -> Html:
    """An SVG file as an element, its colors as variables and its numbers short."""
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0]
    body = svg[svg.index("</metadata>") + len("</metadata>") :]
    body = re.sub(r"<style.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r"<[^>]*>", lambda tag: _compact_tag(tag[0]), body)
    body = re.sub(r">\s+<", "><", body)
    head = f'<svg class="plot" role="img" aria-label="{escape(label)}"'
    return Html(f'{head} viewBox="0 0 {width} {height}">{body}')


def _compact_tag(tag: str) -> str:
    """A tag of an SVG; text between tags, which may come from the user, stays as it is."""
    for color, variable in VARIABLES.items():
        tag = tag.replace(color, f"var(--{variable})")
    tag = re.sub(r'(?<=<g) id="[^"]*"|font-family: [^;"]*;?|(?<=\d\.\d\d)\d+', "", tag)
    point = r'<use (xlink:href="#\w+" x=.*) style=".*opacity.*"'
    tag = re.sub(point, r'<use class="point" \1', tag)
    return re.sub(r"\s+", " ", tag.replace("xlink:href", "href"))
