"""Reports on the runs: results.md, a self-contained results.html, results.tex, figures."""

import html
import io
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import plots, tables
from benchmarks.store import Result, Store
from benchmarks.tables import Table

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
  color: #222 }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #ddd; text-align: right;
  white-space: nowrap }
th:first-child, td:first-child { text-align: left }
figure { margin: 1.5rem 0 } svg { max-width: 100%; height: auto }
figcaption { color: #555 }
@media (prefers-color-scheme: dark) {
  body { background: #181818; color: #ddd } svg { background: #fff } }
"""


def write(store: Store, folder: Path) -> list[Path]:
    """Write tables and figures to a folder; return the files."""
    results = store.results()
    if not results:
        raise ValueError("there are no runs to report on: python -m benchmarks run")
    shown, drawn = all_tables(results), figures(results) if find_spec("matplotlib") else {}
    versions = f"Made with {tables.made_with(results)}."
    pictures = "\n".join(f"![{name}](figures/{name}.svg)" for name in drawn)
    sections = [
        "# Results\n",
        versions,
        "",
        *(table.markdown() for table in shown),
        "## Figures\n",
        pictures,
        "",
    ]
    texts = {f"figures/{name}.svg": svg for name, svg in drawn.items()}
    texts |= {"results.md": "\n".join(sections), "results.html": _page(shown, drawn, versions)}
    texts["results.tex"] = "\n".join(table.latex() for table in shown[:1])
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def all_tables(results: Sequence[Result]) -> list[Table]:
    """Return every table that the runs allow, the overview first."""
    scores = tables.scores(results)
    listed: list[Table | None] = [tables.overview(scores)] if scores else []
    for dataset in dict.fromkeys(dataset for dataset, _ in scores):
        listed += [tables.by_split(scores, dataset), tables.significance(scores, dataset)]
    if scores:
        listed += [tables.transfer(scores, results), tables.costs(scores)]
    listed.append(tables.failures(results))
    return [table for table in listed if table is not None]


def figures(results: Sequence[Result]) -> dict[str, str]:
    """Return every figure that the runs allow, as SVG."""
    scores = tables.scores(results)
    all_figures: dict[str, Any] = {}
    for dataset in dict.fromkeys(result.run.dataset for result in results):
        all_figures[f"{dataset}-splits"] = plots.rmse_by_split(scores, dataset)
        all_figures[f"{dataset}-losses"] = plots.losses(scores, dataset)
        all_figures[f"{dataset}-instability"] = plots.instability(scores, results, dataset)
        all_figures[f"{dataset}-strength"] = plots.strength(results, dataset)
        all_figures[f"{dataset}-time"] = plots.accuracy_against_time(scores, dataset)
    return {name: _svg(figure, name) for name, figure in all_figures.items() if figure is not None}


def _svg(figure: Any, name: str) -> str:
    from matplotlib import rc_context

    file = io.StringIO()
    with rc_context({"svg.hashsalt": name}):  # the same runs make the same file
        figure.savefig(file, format="svg", metadata={"Date": None})
    text = file.getvalue()
    return text[text.index("<svg") :]


def _page(shown: list[Table], drawn: dict[str, str], versions: str) -> str:
    pictures = "\n".join(
        f"<figure>{svg}<figcaption>{html.escape(name)}</figcaption></figure>"
        for name, svg in drawn.items()
    )
    body = "\n".join(table.html() for table in shown)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<title>ebboost: results</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>\n<body><h1>Results</h1>\n"
        f"<p>{html.escape(versions)}</p>\n{body}\n"
        f"<h2>Figures</h2>\n{pictures}\n</body></html>\n"
    )
