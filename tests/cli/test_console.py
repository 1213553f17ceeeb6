"""What commands print: JSON without NaN, names without control characters, warnings as notes."""

import json
import warnings
from pathlib import Path

import numpy as np

from ebboost.cli import console


def test_json_has_null_for_nan_and_plain_numbers_for_arrays(capsys):
    value = {"a": np.float64(np.nan), "b": np.arange(2), 3: (np.inf, True), "path": Path("x")}
    console.print_json(value)
    expected = {"a": None, "b": [0, 1], "3": [None, True], "path": "x"}
    assert json.loads(capsys.readouterr().out) == expected


def test_control_characters_are_not_printed(capsys):
    console.print_facts("title", [("name", "red\x1b[31m\x07")])
    assert "red�[31m�" in capsys.readouterr().out


def test_each_warning_is_printed_once_as_a_note(capsys):
    with console.progress("working"):
        for text in ("first", "second", "first"):
            warnings.warn(text, stacklevel=1)
    printed = capsys.readouterr()
    assert printed.err == "note: first\nnote: second\n" and printed.out == ""
