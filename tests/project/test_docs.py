"""Python blocks and commands of the documentation run, and print the output shown below them."""

import os
import re
import runpy
from pathlib import Path

import pytest

import ebboost as eb
from ebboost.training import defaults
from tests.conftest import ALL_FOLDS, FEW_FOLDS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
OUTPUTS = runpy.run_path(str(DOCS / "outputs.py"))
# Pages that print the number of models; the others run with fewer, in a third of the time.
SLOW = {"classification", "faq", "graphs", "index", "intervals", "labels", "lightgbm", "new_nodes"}
SLOW |= {"default", "interoperability", "own_csv", "reliability", "report", "start"}
SLOW |= {"claims", "imbalance"}
SHOW_FOLDS = {"classification", "default", "faq", "new_nodes", "own_csv", "reliability", "report"}
SHOW_FOLDS |= {"start"}
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def agree(expected, printed):
    """Whether lines are equal up to 25 % in their numbers; of long outputs, 60 % of the lines.

    Another processor may round, stop and split slightly differently, and lists then come in another
    order.
    """
    expected_lines, printed_lines = (
        [(NUMBER.sub("#", line).split(), NUMBER.findall(line)) for line in text.splitlines()]
        for text in (expected, printed)
    )

    def close(one, other):
        pairs = [(float(a), float(b)) for a, b in zip(one[1], other[1], strict=False)]
        return one[0] == other[0] and all(
            abs(a - b) <= 0.25 * max(abs(a), abs(b)) + 0.02 for a, b in pairs
        )

    n_close = sum(any(close(line, other) for other in printed_lines) for line in expected_lines)
    n_lines = len(expected_lines)
    return n_close >= (n_lines if n_lines <= 3 else 0.6 * n_lines)


@pytest.mark.parametrize(
    "page", [p for p in PAGES if OUTPUTS["BLOCK"].search(p.read_text())], ids=lambda p: p.stem
)
def test_page_runs_and_prints_its_output(page, tmp_path, monkeypatch):
    if page.stem in SLOW and "EBBOOST_SLOW_TESTS" not in os.environ:
        pytest.skip("make test-docs runs the pages with long fits")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    folds = ALL_FOLDS if page.stem in SHOW_FOLDS else FEW_FOLDS
    monkeypatch.setattr(defaults, "FOLDS", folds)
    names: dict[str, object] = {}
    for kind, block, below in OUTPUTS["BLOCK"].findall(page.read_text()):
        if kind == "python":
            compared = [(block, below, OUTPUTS["run_block"](block, names, str(page)))]
        else:
            compared = [
                (*step, OUTPUTS["run_command"](step[0])) for step in OUTPUTS["STEP"].findall(block)
            ]
            assert compared, block
        for code, expected, printed in compared:
            if printed is not None and (expected or printed):
                message = f"{page.name} shows\n{expected}\nbut\n{code}\nprints\n{printed}"
                assert agree(expected, printed), message


def test_a_page_is_filled_with_the_output_of_its_blocks():
    page = "# Two\n\n```python\nx = 2\n```\n\n```python\nprint(x)\n```\n\n```text\n3\n```\n\nEnd\n"
    assert OUTPUTS["fill"](page, "page") == page.replace("\n3\n", "\n2\n")
    assert not agree("error 3\n", "error 2\n") and agree("error 2.02\n", "error 2\n")


def test_a_command_is_filled_with_its_output_and_a_failing_command_raises(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = "```console\n$ echo one > a; cat a\n$ ebboost --version\nold\n```\n"
    version = f"$ ebboost --version\nebboost {eb.__version__}\n"
    filled = f"```console\n$ echo one > a; cat a\none\n{version}```\n"
    assert OUTPUTS["fill"](page, "page") == filled
    with pytest.raises(RuntimeError, match="ebboost inspect"):
        OUTPUTS["fill"]("```console\n$ ebboost inspect nothing.ebb\n```\n", "page")


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


def test_every_picture_has_a_function_that_draws_it():
    drawn = runpy.run_path(str(DOCS / "pictures.py"))["FIGURES"]
    assert {path.stem for path in (DOCS / "pictures").glob("*.svg")} == set(drawn)


def test_pages_use_the_vocabulary_of_the_field():
    words = (
        r"\b(race[sd]?|rooms?|entrants?|lineup|speaks?|heard|edges lie|told|winner|unlike|tied)\b"
    )
    lines = [
        f"{page.name}:{number} {line}"
        for page in [*PAGES, DOCS.parent / "README.md", DOCS.parent / "ARCHITECTURE.md"]
        for number, line in enumerate(page.read_text().splitlines(), start=1)
        if re.search(words, line)
    ]
    assert lines == []
