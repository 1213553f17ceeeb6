"""ARCHITECTURE.md names every package and every equation of the paper, and the names exist."""

import importlib
import re
from functools import reduce
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
N_EQUATIONS = 35
ROWS = dict(re.findall(r"^\| \((\d+)\) \| .*? \| (.*) \|$", PAGE, flags=re.MULTILINE))
NAME = re.compile(r"`([a-z_0-9.]+):([A-Za-z_0-9.]+)`")


def test_every_equation_of_the_paper_has_an_implementation():
    assert [int(number) for number in ROWS] == list(range(1, N_EQUATIONS + 1))
    assert [number for number, names in ROWS.items() if not NAME.search(names)] == []


@pytest.mark.parametrize("name", sorted({":".join(pair) for pair in NAME.findall(PAGE)}))
def test_every_name_can_be_imported(name):
    module, _, path = name.partition(":")
    assert reduce(getattr, path.split("."), importlib.import_module(f"ebboost.{module}"))


def test_every_package_is_described():
    packages = {f"{path.parent.name}/" for path in ROOT.glob("src/ebboost/*/__init__.py")}
    modules = {path.name for path in ROOT.glob("src/ebboost/*.py")} - {"__init__.py", "__main__.py"}
    rows = set(re.findall(r"^\| `(\w+(?:/|\.py))` \|", PAGE, flags=re.MULTILINE))
    assert rows == packages | modules


def test_the_layers_are_those_of_the_import_contract():
    contract = re.search(
        r"^layers = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.M | re.S
    )
    layers = [set(line.split(" : ")) for line in re.findall(r'"(.*?)"', contract[1])]
    drawn = re.findall(r"^  \d   (.+)$", PAGE, flags=re.MULTILINE)
    assert [set(line.split()) for line in drawn] == [layers[0] - {"__main__"}, *layers[1:]]
