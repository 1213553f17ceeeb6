"""Everything that is told of the runs: results.md, one self-contained results.html, results.tex, and the figures."""

import html
import io
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import plots, tables
from benchmarks.store import Store
from benchmarks.tables import Table

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left } figure { margin: 1.5rem 0 } svg { max-width: 100%; height: auto }
figcaption { color: #555 }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd } svg { background: #fff } }
"""


def write(store: Store, folder: Path) -> list[Path]:
    """Write tables and figures to a folder; return the files."""
    results = store.results()
    if not results:
        raise ValueError("there are no runs to report on: python -m benchmarks run")
    found = tables.scores(results)
    shown, drawn = all_tables(store), figures(store) if find_spec("matplotlib") else {}
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    made = []
    for name, svg in drawn.items():
        made.append(folder / "figures" / f"{name}.svg")
        made[-1].write_text(svg, encoding="utf-8")
    versions = f"Made with {tables.made_with(results)}."
    pictures = "\n".join(f"![{name}](figures/{name}.svg)" for name in drawn)
    texts = {
        "results.md": "\n".join(
            ["# Results\n", versions, "", *(t.markdown() for t in shown), "## Figures\n", pictures, ""]
        ),
        "results.html": _page(shown, drawn, versions),
        "results.tex": "\n".join(t.latex() for t in [tables.overview(found)]) if found else "",
    }
    for name, text in texts.items():
        made.append(folder / name)
        made[-1].write_text(text, encoding="utf-8")
    return made


def all_tables(store: Store) -> list[Table]:
    """Return every table that the runs allow."""
    results = store.results()
    found = tables.scores(results)
    made: list[Table | None] = [tables.overview(found)] if found else []
    for dataset in dict.fromkeys(dataset for dataset, _ in found):
        made += [tables.by_split(found, dataset), tables.significance(found, dataset)]
    if found:
        made += [tables.transfer(found, results), tables.costs(found)]
    made.append(tables.failures(results))
    return [table for table in made if table is not None]


def figures(store: Store) -> dict[str, str]:
    """Return every figure that the runs allow, as SVG."""
    results = store.results()
    found = tables.scores(results)
    made: dict[str, Any] = {}
    for dataset in dict.fromkeys(dataset for dataset, _ in found):
        made[f"{dataset}-splits"] = plots.rmse_by_split(found, dataset)
        made[f"{dataset}-losses"] = plots.losses(found, dataset)
        made[f"{dataset}-instability"] = plots.instability(found, results, dataset)
        made[f"{dataset}-strength"] = plots.strength(results, dataset)
        made[f"{dataset}-time"] = plots.accuracy_against_time(found, dataset)
    return {name: _svg(figure, name) for name, figure in made.items() if figure is not None}


def _svg(figure: Any, name: str) -> str:
    from matplotlib import rc_context

    file = io.StringIO()
    with rc_context({"svg.hashsalt": name}):  # the same runs make the same file
        figure.savefig(file, format="svg", metadata={"Date": None})
    text = file.getvalue()
    return text[text.index("<svg") :]


def _page(shown: list[Table], drawn: dict[str, str], versions: str) -> str:
    pictures = "\n".join(
        f"<figure>{svg}<figcaption>{html.escape(name)}</figcaption></figure>" for name, svg in drawn.items()
    )
    body = "\n".join(table.html() for table in shown)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>ebbflow: results</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>\n<body><h1>Results</h1>\n<p>{html.escape(versions)}</p>\n{body}\n"
        f"<h2>Figures</h2>\n{pictures}\n</body></html>\n"
    )
