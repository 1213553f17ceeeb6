"""Sphinx configuration: pages in Markdown, formulas as MathML, no network.

ARCHITECTURE.md, CONTRIBUTING.md and CHANGELOG.md are copied into docs/_generated at each build.
"""

import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "src"))

import ebboost  # noqa: E402

sys.modules["ebboost.plot"] = ebboost.plot  # as users call it

project = "ebboost"
author = "the ebboost authors"
copyright = "the ebboost authors, Apache-2.0"
version = release = ebboost.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # types are in the docstrings
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

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


def _render(display: bool) -> tuple[Any, Any]:
    """Return the functions that write a formula as MathML, and leave out its source."""
    from docutils.nodes import SkipNode

    def visit(translator: Any, node: Any) -> None:
        formula = convert(node.astext(), display="block" if display else "inline")
        text = f'<div class="formula">{formula}</div>\n' if display else formula
        translator.body.append(text)
        raise SkipNode

    return visit, lambda translator, node: None


def _generate(_app: Any) -> None:
    """Write docs/_generated."""
    folder = HERE / "_generated"
    folder.mkdir(exist_ok=True)
    for name in ("ARCHITECTURE", "CONTRIBUTING", "CHANGELOG"):
        text = (ROOT / f"{name}.md").read_text()
        text = re.sub(r"\]\(docs/(\w+\.md)\)", r"](../\1)", text)
        text = re.sub(
            r"\]\(([A-Z]+)\.md\)", lambda match: f"]({match[1].lower()}.md)", text
        )
        (folder / f"{name.lower()}.md").write_text(text)


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
    app.add_html_math_renderer("mathml", _render(False), _render(True))
    app.connect("builder-inited", _generate)
