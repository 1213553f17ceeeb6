"""No command writes over a file that it reads; what it writes is there as a whole or not at all."""

import os
import shutil
import sqlite3
from pathlib import Path

import pandas as pd
import pytest

import ebboost as eb
from tests.safety.commands import ENVIRONMENT, process, run, write_tables

FAST = ("-t", "price", "--preset", "fast", "--rounds", 5)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with two tables and a model of them."""
    folder = tmp_path_factory.mktemp("made")
    nodes, edges = write_tables(folder)
    run("fit", nodes, edges, *FAST, "-o", folder / "model.ebb")
    new = pd.read_csv(nodes).iloc[:40]
    new.assign(id=[f"new {i}" for i in range(40)], price="").to_csv(folder / "new.csv", index=False)
    ends = pd.DataFrame({"source": [f"new {i}" for i in range(39)]})
    ends.assign(target=[f"new {i}" for i in range(1, 40)]).to_csv(folder / "e.csv", index=False)
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A copy of that folder, which is the current one; links and other names of its files."""
    for path in made.iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "sub").mkdir()
    os.symlink(tmp_path / "model.ebb", tmp_path / "link.ebb")
    os.symlink(tmp_path / "nodes.csv", tmp_path / "link.csv")
    os.symlink(tmp_path, tmp_path / "here")
    os.link(tmp_path / "nodes.csv", tmp_path / "hard.csv")
    os.link(tmp_path / "model.ebb", tmp_path / "hard.ebb")
    shutil.copy(tmp_path / "model.ebb", tmp_path / "model.html")
    shutil.copy(tmp_path / "nodes.csv", tmp_path / "table.ebb")
    with sqlite3.connect(tmp_path / "all.db") as connection:
        for name in ("nodes", "edges"):
            pd.read_csv(tmp_path / f"{name}.csv").to_sql(name, connection, index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder):
    """The bytes of all files below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


FIT = ("fit", "nodes.csv", "edges.csv", *FAST)
NEW = ("predict", "model.ebb", "--nodes", "new.csv", "--edges", "e.csv")
DATABASE = ("fit", "all.db", "all.db", "--sql", "SELECT * FROM nodes")
DATABASE += ("--edges-sql", "SELECT * FROM edges", *FAST)
SAME = {
    "table": (*FIT, "-o", "nodes.csv"),
    "edges": (*FIT, "-o", "edges.csv"),
    "model of predict": ("predict", "model.ebb", "-o", "model.ebb"),
    "model through a link": ("predict", "link.ebb", "-o", "model.ebb"),
    "model of report": ("report", "model.ebb", "-o", "model.ebb"),
    "new table": (*NEW, "-o", "new.csv"),
    "new edges": (*NEW, "-o", "e.csv"),
    "model of predict with new rows": (*NEW, "-o", "model.ebb"),
    "a path with dots": (*FIT, "-o", "./sub/../nodes.csv"),
    "an absolute path": (*FIT, "-o", "{folder}/nodes.csv"),
    "read by an absolute path": (
        "fit",
        "{folder}/nodes.csv",
        "edges.csv",
        *FAST,
        "-o",
        "nodes.csv",
    ),
    "a link as output": (*FIT, "-o", "link.csv"),
    "a link as input": ("fit", "link.csv", "edges.csv", *FAST, "-o", "nodes.csv"),
    "a hard link as output": (*FIT, "-o", "hard.csv"),
    "a hard link as input": ("fit", "hard.csv", "edges.csv", *FAST, "-o", "nodes.csv"),
    "a hard link of a model": ("predict", "hard.ebb", "-o", "model.ebb"),
    "a folder that is a link": (*FIT, "-o", "here/nodes.csv"),
    "a chain of links": (*FIT, "-o", "here/here/link.csv"),
    "a slash at the end": (*FIT, "-o", "nodes.csv/"),
    "coordinates": ("fit", "nodes.csv", "--coordinates", "lon", "lat", *FAST, "-o", "nodes.csv"),
    "groups": ("fit", "nodes.csv", "--groups", "id", *FAST, "-o", "nodes.csv"),
    "a database": (*DATABASE, "-o", "all.db"),
    "the output by default": ("fit", "table.ebb", "edges.csv", *FAST, "-o", "table.ebb"),
    "the report by default": ("report", "model.html"),
    "report through a link": ("report", "link.ebb", "-o", "hard.ebb"),
    "report of a link": ("report", "model.ebb", "-o", "link.ebb"),
    "json": ("predict", "model.ebb", "-o", "model.ebb", "--json"),
    "a table written as Parquet": ("predict", "model.ebb", "-o", "here/model.ebb"),
}


@pytest.mark.parametrize("name", SAME)
def test_a_file_that_is_read_is_not_written(name, folder):
    before = contents(folder)
    result = run(*(str(word).format(folder=folder) for word in SAME[name]), code=1)
    assert "that is read: name another to write" in result.err and not result.out
    assert contents(folder) == before


def test_upper_and_lower_case_are_other_files_only_where_they_are(folder):
    before = (folder / "nodes.csv").read_bytes()
    is_same = Path("NODES.CSV").exists()
    run(*FIT, "-o", "NODES.CSV", code=1 if is_same else 0)
    assert (folder / "nodes.csv").read_bytes() == before


def test_a_table_from_standard_input_is_not_written(folder):
    before = contents(folder)
    with open("nodes.csv") as table:
        words = ("fit", "/dev/stdin", "edges.csv", *FAST, "-o", "nodes.csv")
        with process(*words, stdin=table) as running:
            _, errors = running.communicate(timeout=60)
    assert running.returncode == 1 and "that is read" in errors and contents(folder) == before


def test_parts_of_a_table_in_several_files_are_not_written(folder):
    for suffix in ("shp", "dbf", "shx"):
        (folder / f"areas.{suffix}").write_bytes(b"an area")
    before = contents(folder)
    run("fit", "areas.shp", "edges.csv", *FAST, "-o", "areas.dbf", code=1)
    assert contents(folder) == before


def test_files_of_the_package_are_not_written(tmp_path):
    package = tmp_path / "ebboost"  # a copy, so that no failure changes the package itself
    shutil.copytree(Path(eb.__file__).parent, package, ignore=shutil.ignore_patterns("*.pyc"))
    data = package / "datasets" / "lucas.npz"
    before = data.read_bytes()
    environment = {**ENVIRONMENT, "PYTHONPATH": str(tmp_path)}
    with process("demo", "-o", data, cwd=tmp_path, env=environment) as running:
        _, errors = running.communicate(timeout=120)
    assert running.returncode == 1 and "belongs to ebboost" in errors
    assert data.read_bytes() == before


@pytest.mark.parametrize("name", ["nodes.csv", "edges.csv"])
def test_the_demo_replaces_no_table(name, tmp_path):
    (tmp_path / name).write_text("mine\n")
    assert f"{name} exists" in run("demo", "--files", tmp_path, code=1).err
    assert contents(tmp_path) == {tmp_path / name: b"mine\n"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*FIT, "-o", "sub"), "is a folder"),
        ((*FIT, "-o", "none/model.ebb"), "there is no folder"),
        ((*FIT, "-o", "-"), "- is no file"),
        (("report", "model.ebb", "-o", "-"), "- is no file"),
        (("predict", "model.ebb", "-o", "here"), "is a folder"),
    ],
)
def test_what_is_no_file_is_not_written(words, message, folder):
    before = contents(folder)
    assert message in run(*words, code=1).err
    assert contents(folder) == before


def test_predictions_are_printed_where_the_output_is_a_hyphen(folder):
    printed = run("predict", "model.ebb", "-o", "-").out
    assert printed == run("predict", "model.ebb").out and printed.startswith("id,prediction")
    assert not (folder / "-").exists()


def test_other_files_are_replaced_as_a_whole(folder):
    (folder / "old.csv").write_text("an older result\n")
    os.symlink("old.csv", "newest.csv")
    for name in ("old.csv", "new2.csv", "newest.csv", "sub/p.csv", "p.parquet"):
        run("predict", "model.ebb", "-o", name)
        read = pd.read_parquet if name.endswith("parquet") else pd.read_csv
        assert len(read(name)) == 120
    run(*FIT, "-o", "table.ebb")
    run("report", "table.ebb", "-o", "report.html")
    assert eb.load("table.ebb").predict().size == 300
    assert not [path for path in folder.rglob("*") if path.name.startswith(".")]
