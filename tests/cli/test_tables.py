"""Tables in files: delimiters, decimals, dates; nothing is lost silently."""

import bz2
import gzip
import lzma

import pandas as pd
import pytest

from ebboost.cli import tables
from tests.cli.commands import put


def test_decimal_commas_are_numbers_in_a_table_with_semicolons(tmp_path):
    path = put(tmp_path, "t.csv", "id;price;rooms;note\na;1,5;3;x,y\nb;-2;4;z\n")
    table = tables.read_table(path, text=["id"])
    assert table["price"].tolist() == [1.5, -2.0] and table["rooms"].tolist() == [3, 4]
    assert table["note"].tolist() == ["x,y", "z"]


def test_quotes_a_byte_order_mark_and_blanks_are_read(tmp_path):
    path = put(tmp_path, "t.csv", '\ufeffid, "full name" ,x\n a ,"Smith, Jo",1\nb,"two\nlines",2\n')
    table = tables.read_table(path, text=["id"])
    assert list(table.columns) == ["id", "full name", "x"] and table["id"].tolist() == ["a", "b"]
    assert table["full name"].tolist() == ["Smith, Jo", "two\nlines"]


def test_iso_dates_are_dates_and_other_text_is_text(tmp_path):
    path = put(
        tmp_path,
        "t.csv",
        "id,day,at,note\n1,2024-02-29,2024-01-01 10:30,2024\n2,,2024-01-02T11:00:05,2024-1\n",
    )
    table = tables.read_table(path, text=["id"])
    assert [table[name].dtype.kind for name in ("day", "at")] == ["M", "M"] and table[
        "note"
    ].dtype.kind != "M"
    assert (
        table["day"].isna().tolist() == [False, True]
        and str(table["at"][1]) == "2024-01-02 11:00:05"
    )


def test_bytes_that_are_not_utf8_raise_an_error_anywhere_in_a_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"id,x\n" + b"a,1\n" * 40_000 + b"\xe4,2\n")
    with pytest.raises(ValueError, match="not UTF-8 text"):
        tables.read_table(path)


def test_suggestions_ignore_case_and_list_the_other_names():
    assert tables.suggestion("Price", ["price", "rooms"]) == "Did you mean 'price'?"
    assert tables.suggestion("zzz", ["price", "rooms"]) == "There are 'price', 'rooms'."


def test_a_failed_write_leaves_the_old_file_alone(tmp_path):
    path = put(tmp_path, "out.csv", "old")

    class Interrupted:
        def to_csv(self, path, index):
            path.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tables.write_table(Interrupted(), path)
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["out.csv"]
    tables.write_table(pd.DataFrame({"a": [1]}), path)
    assert path.read_text() == "a\n1\n" and [p.name for p in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_compressed_text_is_read(tmp_path, module):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(module.compress(b"id,x\n01,1.5\n02,\n"))
    table = tables.read_table(path, text=["id"])
    assert table["id"].tolist() == ["01", "02"] and table["x"].isna().tolist() == [False, True]
