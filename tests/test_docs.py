"""Every Python block of the documentation runs, page by page from top to bottom, and prints what stands below it."""

import re
import runpy
from pathlib import Path

import pytest

import ebbflow as eb

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
OUTPUTS = runpy.run_path(str(DOCS / "outputs.py"))
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def agree(said, printed):
    """The same words, and numbers within a quarter of each other: another machine may round and stop a little otherwise."""
    words, numbers = zip(*[(NUMBER.sub("#", t).split(), NUMBER.findall(t)) for t in (said, printed)], strict=True)
    if words[0] != words[1]:
        return False
    pairs = [(float(a), float(b)) for a, b in zip(*numbers, strict=True)]
    return all(abs(a - b) <= 0.25 * max(abs(a), abs(b)) + 0.02 for a, b in pairs)


@pytest.mark.parametrize("page", [p for p in PAGES if "```python" in p.read_text()], ids=lambda page: page.stem)
def test_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block, said in OUTPUTS["BLOCK"].findall(page.read_text()):
        printed = OUTPUTS["printed"](block, names, str(page))
        if printed is not None and (said or printed):
            assert agree(said, printed), f"{page.name} says\n{said}\nand the block\n{block}\nprints\n{printed}"


def test_a_page_is_filled_with_what_its_blocks_print():
    page = "# Two\n\n```python\nx = 2\n```\n\n```python\nprint(x)\n```\n\n```text\n3\n```\n\nEnd\n"
    assert OUTPUTS["filled"](page, "page") == page.replace("\n3\n", "\n2\n")
    assert not agree("error 3\n", "error 2\n") and agree("error 2.02\n", "error 2\n")


def test_every_public_name_is_in_the_reference():
    reference = (DOCS / "api.md").read_text().split()
    public = {name for name in eb.__all__ if name not in ("convergence", "datasets", "plot")}
    public |= {*eb.convergence.__all__, *eb.plot.__all__, *(f"datasets.{name}" for name in eb.datasets.__all__)}
    assert not public - set(reference)


def test_every_page_is_in_the_table_of_contents():
    listed = (DOCS / "index.md").read_text().splitlines()
    assert [page.stem for page in PAGES if page.stem != "index" and page.stem not in listed] == []


def test_every_picture_has_its_script():
    drawn = runpy.run_path(str(DOCS / "pictures.py"))["FIGURES"]
    assert {path.stem for path in (DOCS / "pictures").glob("*.svg")} == set(drawn)
