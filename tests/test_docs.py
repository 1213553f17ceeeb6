"""Every Python block of the documentation runs, page by page from top to bottom, and prints what stands below it."""

import contextlib
import doctest
import importlib.util
import io
import re
import warnings
from pathlib import Path

import pytest

import ebbflow as eb

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", flags=re.DOTALL | re.MULTILINE)
OPTIONAL = ("shap",)  # shown on a page, and not worth its size in every test run
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```python" in page.read_text()], ids=lambda page: page.stem
)
def test_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block, expected in BLOCK.findall(page.read_text()):
        optional = {name for name in OPTIONAL if f"import {name}\n" in block}
        if any(importlib.util.find_spec(name) is None for name in optional):
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            if optional:  # what they warn of is not ours
                warnings.simplefilter("ignore")
            exec(compile(block, str(page), "exec"), names)
        if expected or printed.getvalue():
            same = doctest.OutputChecker().check_output(expected, printed.getvalue(), FLAGS)
            assert same, f"{page.name} says\n{expected}\nand the block\n{block}\nprints\n{printed.getvalue()}"


def test_every_public_name_is_in_the_reference():
    reference = (DOCS / "api.md").read_text().split()
    public = {name for name in eb.__all__ if name not in ("convergence", "datasets")}
    assert not (public | set(eb.convergence.__all__)) - set(reference)


def test_every_page_is_in_the_table_of_contents():
    listed = (DOCS / "index.md").read_text().splitlines()
    assert [page.stem for page in PAGES if page.stem != "index" and page.stem not in listed] == []


def test_every_picture_has_its_script():
    import runpy

    drawn = runpy.run_path(str(DOCS / "pictures.py"))["FIGURES"]
    assert {path.stem for path in (DOCS / "pictures").glob("*.svg")} == set(drawn)
