"""Python blocks and commands of the pages run, and print the output shown below them."""

import re
import runpy
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest

import ebboost as eb

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
OUTPUTS = runpy.run_path(str(DOCS / "outputs.py"))
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def agree(expected, printed, about):
    """Whether texts are equal; of a block ``about``, up to a tenth in their numbers.

    Other processors round, stop and split slightly differently.
    """
    if not about:
        return expected == printed
    pair = [NUMBER.findall(text) for text in (expected, printed)]
    words = [sorted(NUMBER.sub("#", text).split()) for text in (expected, printed)]
    numbers = [sorted(float(one.replace(",", "")) for one in own) for own in pair]
    return words[0] == words[1] and all(
        abs(one - other) <= 0.1 * max(abs(one), abs(other)) + 0.02
        for one, other in zip(*numbers, strict=True)
    )


@pytest.mark.parametrize(
    "page", [p for p in PAGES if OUTPUTS["BLOCK"].search(p.read_text())], ids=lambda p: p.stem
)
def test_page_runs_and_prints_its_output(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, object] = {}
    for kind, about, block, text_about, below in OUTPUTS["BLOCK"].findall(page.read_text()):
        if kind == "python":
            compared = [(block, below, OUTPUTS["run_block"](block, names, str(page)))]
        else:
            steps = OUTPUTS["STEP"].findall(block)
            assert steps, block
            compared = [(*step, OUTPUTS["run_command"](step[0])) for step in steps]
        for code, expected, printed in compared:
            message = f"{page.name} shows\n{expected}\nbut\n{code}\nprints\n{printed}"
            assert agree(expected, printed, about or text_about), message


def test_a_page_is_filled_with_the_output_of_its_blocks(tmp_path, monkeypatch):
    page = "# Two\n\n```python\nx = 2\n```\n\n```python\nprint(x)\n```\n\n```text\n3\n```\n\nEnd\n"
    assert OUTPUTS["fill"](page, "page") == page.replace("\n3\n", "\n2\n")
    monkeypatch.chdir(tmp_path)
    page = "```console\n$ echo one > a; cat a\n$ ebboost --version\nold\n```\n"
    version = f"$ ebboost --version\nebboost {eb.__version__}\n"
    assert (
        OUTPUTS["fill"](page, "page") == f"```console\n$ echo one > a; cat a\none\n{version}```\n"
    )
    with pytest.raises(RuntimeError, match="nothing"):
        OUTPUTS["fill"]("```console\n$ ebboost report nothing.ebb\n```\n", "page")


def test_outputs_are_compared_exactly_or_about():
    assert agree("error 2.01\n", "error 2.01\n", "")
    assert not agree("error 2.01\n", "error 2.02\n", "")
    assert agree("error 2.01\n", "error 2.1\n", " about")
    assert not agree("error 2.01\n", "error 2.5\n", " about")
    assert not agree("error 2.01\n", "loss 2.01\n", " about")


def test_every_public_name_is_in_the_reference():
    reference = set(re.findall(r"[\w.]+", (DOCS / "api.md").read_text()))
    public = {name for name in eb.__all__ if name not in ("cluster", "datasets", "paper", "plot")}
    public |= {f"datasets.{name}" for name in eb.datasets.__all__}
    public |= {f"plot.{name}" for name in eb.plot.__all__}
    public |= {f"paper.{name}" for name in eb.paper.__all__}
    public |= {f"cluster.{name}" for name in eb.cluster.__all__}
    assert public - reference == set()


def test_every_page_is_in_the_table_of_contents():
    listed = (DOCS / "index.md").read_text().splitlines()
    missing = [page.stem for page in PAGES if page.stem not in ("index", *listed)]
    assert missing == []


def test_links_lead_to_pages_and_files():
    for page in [*PAGES, *ROOT.glob("*.md")]:
        for link in re.findall(r"\]\(([^):]+?)(?:#[\w-]+)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_picture_is_drawn_by_a_function():
    drawn = runpy.run_path(str(DOCS / "pictures.py"))["FIGURES"]
    assert {path.name for path in (DOCS / "pictures").iterdir()} == set(drawn)


def test_pages_are_few_and_short():
    lines = {page.name: len(page.read_text().splitlines()) for page in PAGES}
    assert len(lines) <= 20, lines
    assert sum(lines.values()) <= 2400, lines


def test_no_page_tells_to_install_from_a_registry():
    pages = [ROOT / "README.md", *PAGES]
    pattern = re.compile(r"pip install [^\n`]*(?<![\w./])ebboost\b")
    assert [page.name for page in pages if pattern.search(page.read_text())] == []


def test_every_equation_of_the_paper_has_a_function_that_exists():
    rows = re.findall(
        r"^\| (\(.*?) \|.*\| `([\w.]+):([\w.]+)` \|$", (DOCS / "theory.md").read_text(), re.M
    )
    numbers = set()
    for equations, module, path in rows:
        attrgetter(path)(import_module(f"ebboost.{module}"))
        for first, last in re.findall(r"\((\d+)\)(?:–\((\d+)\))?", equations):
            numbers |= set(range(int(first), int(last or first) + 1))
    assert numbers == set(range(1, 36))
