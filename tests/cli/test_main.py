"""``python -m ebboost``, and what runs without the libraries of the command line."""

import pytest

from tests.cli.commands import python

WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
"""


@pytest.mark.parametrize("name", ["typer", "rich", "pandas"])
def test_a_missing_library_of_the_command_line_is_named(name):
    code = "from ebboost.__main__ import main\nmain()"
    result = python("-c", WITHOUT.format(names=[name]) + code)
    assert result.returncode == 1
    expected = "The command line needs typer, rich and pandas: pip install typer rich pandas\n"
    assert result.stderr == expected


def test_the_library_needs_no_dataframe_and_no_terminal_library():
    names = ["pandas", "polars", "pyarrow", "typer", "rich"]
    code = """
import ebboost as eb
graph = eb.Graph.from_edges([0, 1, 2], [1, 2, 3])
eb.EBBSRegressor(2).fit([[0.0], [1.0], [2.0], [3.0]], [0.0, None, None, 3.0], graph=graph)
print("fits")
"""
    result = python("-c", WITHOUT.format(names=names) + code)
    assert result.stdout.strip() == "fits", result.stderr
