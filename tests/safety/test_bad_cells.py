"""One bad cell is an error with its line; what was understood of a file is printed."""

import json

import numpy as np
import pandas as pd
import pytest

import ebboost as eb
from tests.safety.commands import edit, run, write_tables
from tests.safety.problems import POINTS

FAST = ("-t", "price", "--preset", "fast", "--rounds", 5)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with nodes.csv and edges.csv."""
    write_tables(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands(*more):
    yield ("check", "nodes.csv", "edges.csv", "-t", "price", "--no-estimate", *more)
    yield ("fit", "nodes.csv", "edges.csv", *FAST, "-o", "m.ebb", *more)


def put(row, name, value):
    """Write a value into a cell of nodes.csv."""

    def change(table):
        return table.assign(**{name: table[name].where(table.index != row, value)})

    edit("nodes.csv", change)


def as_dates(table):
    dates = pd.date_range("2019-01-01", periods=len(table)).strftime("%d/%m/%Y")
    return table.assign(sold=dates)


@pytest.mark.parametrize("value", ["oops", "n/a?", "-", "1.2.3", "12 apples"])
def test_a_word_among_numbers_is_an_error_with_its_line(value, folder):
    put(57, "a", value)
    for words in commands():
        message = run(*words, code=1).err
        assert f"nodes.csv, line 59: column 'a' holds numbers, but here '{value}'" in message
        assert "--categorical 'a'" in message and "--drop 'a'" in message
    assert not (folder / "m.ebb").exists()
    for words in commands("--drop", "a"):
        run(*words)
    put(57, "a", "")
    for words in commands():
        run(*words)


@pytest.mark.parametrize("value", ["1.000.000,5x", "€ twelve"])
def test_written_numbers_too(value, folder):
    edit("nodes.csv", lambda table: table.assign(a=[f"€{1000 + i:,}" for i in range(len(table))]))
    put(3, "a", value)
    for words in commands():
        assert "line 5: column 'a' holds numbers" in run(*words, code=1).err


def test_decimal_commas_too(folder):
    table = pd.read_csv("nodes.csv")
    table.to_csv("nodes.csv", sep=";", decimal=",", index=False)
    result = run(*next(commands()))
    assert "separated by semicolons, decimal commas" in result.out
    table[["id", "a", "price"]].to_csv("nodes.csv", sep=";", decimal=",", index=False)
    text = (folder / "nodes.csv").read_text().splitlines()
    cells = text[9].split(";")
    text[9] = ";".join([cells[0], "oops", cells[2]])
    (folder / "nodes.csv").write_text("\n".join(text))
    for words in commands():
        assert "line 10: column 'a' holds numbers, but here 'oops'" in run(*words, code=1).err


@pytest.mark.parametrize("value", ["31/31/2019", "yesterday", "2019"])
def test_a_word_among_dates_is_an_error_with_its_line(value, folder):
    edit("nodes.csv", as_dates)
    put(100, "sold", value)
    for words in commands():
        message = run(*words, code=1).err
        assert f"line 102: column 'sold' holds dates, but here '{value}'" in message


def test_a_bad_target_and_a_bad_role_are_errors_with_their_line(folder):
    put(0, "price", "oops")
    assert "line 2: the target 'price' is 'oops'" in run(*next(commands()), code=1).err
    write_tables(folder)
    put(7, "b", "oops")
    words = (*list(commands())[1], "--offset", "b")
    assert "line 9: column 'b' (--offset) must be a number" in run(*words, code=1).err


@pytest.mark.parametrize("value", ["-1", "heavy", "", "inf"])
@pytest.mark.parametrize("name", ["weight", "distance", "similarity"])
def test_weights_that_cannot_be_used_are_an_error_with_their_line(name, value, folder):
    edit("edges.csv", lambda table: table.assign(**{name: "2.5"}))
    for words in commands():
        run(*words)
    edit("edges.csv", lambda table: table.assign(**{name: ["1"] * 4 + [value] * (len(table) - 4)}))
    for words in commands():
        message = run(*words, code=1).err
        assert f"edges.csv, column '{name}': line 6 holds" in message and "--weight none" in message
    for words in commands("--weight", "none"):
        assert "all edges weigh 1" in run(*words).out


def test_a_bad_cell_of_a_new_table_is_an_error_with_its_line(folder):
    edit("nodes.csv", as_dates)
    run(*list(commands())[1])
    table = pd.read_csv("nodes.csv", dtype=str).iloc[:30]
    words = ("predict", "m.ebb", "--nodes", "new.csv", "--edges", "new_edges.csv")
    ids = table["id"].tolist()
    pd.DataFrame({"source": ids[1:], "target": ids[:-1]}).to_csv("new_edges.csv", index=False)
    for name in ("a", "sold"):
        table.assign(**{name: table[name].where(table.index != 20, "oops")}).to_csv(
            "new.csv", index=False
        )
        message = run(*words, code=1).err
        assert "line 22: column " in message and f"'{name}'" in message and "'oops'" in message


def test_a_column_that_is_left_out_is_a_warning_and_a_line_of_the_result(folder):
    edit("nodes.csv", lambda table: table.assign(name=[f"house {i}" for i in range(len(table))]))
    for words in commands():
        result = run(*words)
        assert "warning: Column 'name' is left out" in result.err and "--drop 'name'" in result.err
        assert "left out" in result.out
    for words in commands("--drop", "name"):
        assert "warning" not in run(*words).err


def test_what_was_understood_is_printed(folder):
    edit("nodes.csv", as_dates)
    edit("nodes.csv", lambda table: table.assign(kind=["red", "green", "blue"] * 100))
    edit("edges.csv", lambda table: table.assign(weight="2"))
    for words in commands("--categorical", "kind"):
        facts = json.loads(run(*words, "--json").out)["read"]
        assert facts["table"] == "nodes.csv, separated by commas: ids 'id'"
        assert "edges.csv, separated by commas: from 'source' to 'target'" in facts["edge list"]
        assert "weights 'weight'" in facts["edge list"]
        assert facts["numbers"] == "a, b, c, lon, lat" and facts["categories"] == "kind (3)"
        assert facts["dates"] == "sold ('01/01/2019' is 2019-01-01)"
        printed = run(*words).out
        assert all(text.split(" (")[0] in printed for text in facts.values())


def test_days_and_months_that_may_be_swapped_are_a_warning(folder):
    dates = [f"0{1 + i % 9}/0{1 + i % 7}/2020" for i in range(300)]
    edit("nodes.csv", lambda table: table.assign(sold=dates))
    for words in commands():
        result = run(*words)
        assert "warning: Dates in column 'sold'" in result.err and "2024-05-31" in result.err
        assert "'01/01/2020' is 2020-01-01" in result.out


def degrees(lon, lat):
    points = POINTS * [1.1, 0.7] + [144.4, -38.2]
    return lambda table: table.drop(columns=["lon", "lat"]).assign(
        **{lon: points[:, 0].astype(str), lat: points[:, 1].astype(str)}
    )


def test_degrees_and_planes_are_told_apart(folder):
    def facts(lon, lat):
        words = ("nodes.csv", "--coordinates", lon, lat)
        result = run("check", *words, "-t", "price", "--no-estimate")
        run("fit", *words, *FAST, "-o", "m.ebb")
        return result

    plane = facts("lon", "lat")  # of the unit square
    assert "degrees, great-circle distances" in plane.out and "warning" not in plane.err
    edit("nodes.csv", degrees("Longtitude", "Lattitude"))
    misspelt = facts("Longtitude", "Lattitude")
    assert "a plane, although they look like degrees" in misspelt.out
    assert "warning: The coordinates look like degrees" in misspelt.err
    assert "rename the columns 'Longtitude' and 'Lattitude'" in misspelt.err
    write_tables(folder)
    edit("nodes.csv", lambda table: table.rename(columns={"lon": "east", "lat": "north"}))
    metres = facts("east", "north")
    assert "points of a plane, distances in their units" in metres.out
    assert "warning" not in metres.err
    model = eb.load("m.ebb")
    assert np.isfinite(model.predict()).all()
