"""Every Python block and every command of the documentation runs, from top to bottom, and prints what stands below it."""

import re
import runpy
from pathlib import Path

import pytest

import ebboost as eb

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
OUTPUTS = runpy.run_path(str(DOCS / "outputs.py"))
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def agree(said, printed):
    """The same lines, numbers within a quarter of each other; of long outputs three lines in five.

    Another processor may round, stop and split a little otherwise, and then a list comes in another order.
    """
    lines = [
        [(NUMBER.sub("#", line).split(), NUMBER.findall(line)) for line in t.splitlines()]
        for t in (said, printed)
    ]

    def alike(one, other):
        pairs = [(float(a), float(b)) for a, b in zip(one[1], other[1], strict=False)]
        return one[0] == other[0] and all(
            abs(a - b) <= 0.25 * max(abs(a), abs(b)) + 0.02 for a, b in pairs
        )

    found = sum(any(alike(line, other) for other in lines[1]) for line in lines[0])
    return found >= (len(lines[0]) if len(lines[0]) <= 3 else 0.6 * len(lines[0]))


@pytest.mark.parametrize(
    "page", [p for p in PAGES if OUTPUTS["BLOCK"].search(p.read_text())], ids=lambda p: p.stem
)
def test_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, object] = {}
    for kind, block, below in OUTPUTS["BLOCK"].findall(page.read_text()):
        if kind == "python":
            compared = [(block, below, OUTPUTS["printed"](block, names, str(page)))]
        else:
            compared = [
                (*step, OUTPUTS["answered"](step[0])) for step in OUTPUTS["STEP"].findall(block)
            ]
            assert compared, block
        for ran, said, printed in compared:
            if printed is not None and (said or printed):
                assert agree(said, printed), (
                    f"{page.name} says\n{said}\nand\n{ran}\nprints\n{printed}"
                )


def test_a_page_is_filled_with_what_its_blocks_print():
    page = "# Two\n\n```python\nx = 2\n```\n\n```python\nprint(x)\n```\n\n```text\n3\n```\n\nEnd\n"
    assert OUTPUTS["filled"](page, "page") == page.replace("\n3\n", "\n2\n")
    assert not agree("error 3\n", "error 2\n") and agree("error 2.02\n", "error 2\n")


def test_a_command_is_filled_with_what_it_prints_and_one_that_fails_is_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = "```console\n$ echo one > a; cat a\n$ ebboost --version\nold\n```\n"
    filled = f"```console\n$ echo one > a; cat a\none\n$ ebboost --version\nebboost {eb.__version__}\n```\n"
    assert OUTPUTS["filled"](page, "page") == filled
    with pytest.raises(RuntimeError, match="ebboost inspect"):
        OUTPUTS["filled"]("```console\n$ ebboost inspect nothing.ebb\n```\n", "page")


def test_every_public_name_is_in_the_reference():
    reference = (DOCS / "api.md").read_text().split()
    public = {name for name in eb.__all__ if name not in ("convergence", "datasets", "plot")}
    public |= {
        *eb.convergence.__all__,
        *eb.plot.__all__,
        *(f"datasets.{name}" for name in eb.datasets.__all__),
    }
    assert not public - set(reference)


def test_every_page_is_in_the_table_of_contents():
    listed = (DOCS / "index.md").read_text().splitlines()
    assert [page.stem for page in PAGES if page.stem != "index" and page.stem not in listed] == []


def test_every_picture_has_its_script():
    drawn = runpy.run_path(str(DOCS / "pictures.py"))["FIGURES"]
    assert {path.stem for path in (DOCS / "pictures").glob("*.svg")} == set(drawn)
