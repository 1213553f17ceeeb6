"""Sphinx configuration: pages in Markdown, a gallery of the scripts in examples/, no network.

Tables of benchmarks/results, ARCHITECTURE.md and CHANGELOG.md are copied into docs/_generated at
each build.
"""

import os
import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "src"))
os.environ.setdefault("MPLBACKEND", "Agg")

import ebboost  # noqa: E402

project = "ebboost"
author = "the ebboost authors"
copyright = "the ebboost authors, Apache-2.0"
version = release = ebboost.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "_generated", "**/GALLERY_HEADER.rst"]
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # types are in the docstrings
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "download_all_examples": False,
    "show_signature": False,
    "within_subsection_order": "FileNameSortKey",
    "show_memory": False,
    "abort_on_example_error": True,
    "min_reported_time": 1e9,  # do not print seconds
    "write_computation_times": False,
    "default_thumb_file": str(HERE / "pictures" / "thumbnail.png"),
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = "ebboost"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
pygments_style = "friendly"


# ---------------------------------------------------------------------- formulas as MathML


def _inline(translator: Any, node: Any) -> None:
    translator.body.append(convert(node.astext()))


def _display(translator: Any, node: Any) -> None:
    translator.body.append(
        f'<div class="formula">{convert(node.astext(), display="block")}</div>\n'
    )


def _nothing(translator: Any, node: Any) -> None:
    return


def _skip(renderer: Any) -> Any:
    """Render a node and leave out its children, which are the source of the formula."""
    from docutils.nodes import SkipNode

    def render(translator: Any, node: Any) -> None:
        renderer(translator, node)
        raise SkipNode

    return render


# ---------------------------------------------------------------------- pages from other files


def _generate(_app: Any) -> None:
    """Write docs/_generated."""
    folder = HERE / "_generated"
    folder.mkdir(exist_ok=True)
    architecture = (ROOT / "ARCHITECTURE.md").read_text().partition("\n")[2]
    (folder / "architecture.md").write_text(architecture)
    (folder / "changelog.md").write_text(
        (ROOT / "CHANGELOG.md").read_text().partition("\n")[2]
    )
    tables = {}
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.md")):
        tables[path.stem] = path.read_text().replace(
            "](figures/", "](../benchmarks/results/figures/"
        )
    every = [
        f"## {stem.replace('_', ' ').capitalize()}\n\n{_lowered(text)}"
        for stem, text in tables.items()
    ]
    (folder / "results.md").write_text("\n\n".join(every))
    # Sections that other pages include.
    side_by_side = re.search(
        r"^## All methods\n(.*?)(?=^## |\Z)",
        tables.get("results", ""),
        re.DOTALL | re.MULTILINE,
    )
    (folder / "comparison.md").write_text(side_by_side[1] if side_by_side else "")
    measured = ROOT / "benchmarks" / "results" / "speed" / "speed.md"
    speed = measured.read_text() if measured.exists() else ""
    speed = re.sub(r"\]\((\w+\.png)\)", r"](../benchmarks/results/speed/\1)", speed)
    (folder / "speed.md").write_text(_lowered(speed))
    (folder / "cluster.md").write_text(_lowered(tables.get("cluster", "")))


def _lowered(text: str) -> str:
    """Return Markdown with its title in bold and its headings one level down."""
    text = re.sub(r"\A# (.*)\n", r"**\1**\n", text)
    return re.sub(r"^(#+ )", r"#\1", text, flags=re.MULTILINE)


def _keep_bars(
    _app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]
) -> None:
    """Escape |x| in docstrings, which reStructuredText reads as a substitution."""
    for number, line in enumerate(lines):
        if "|" in line and not line.lstrip().startswith((">>>", "...")):
            parts = line.split("``")  # odd parts are code
            lines[number] = "``".join(
                part if i % 2 else part.replace("|", r"\|") for i, part in enumerate(parts)
            )


def setup(app: Any) -> None:
    """Connect the functions above to Sphinx."""
    app.connect("autodoc-process-docstring", _keep_bars, priority=100)  # before numpydoc
    app.add_html_math_renderer(
        "mathml", (_skip(_inline), _nothing), (_skip(_display), _nothing)
    )
    app.connect("builder-inited", _generate)
