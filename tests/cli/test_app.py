"""The command line: what it writes and prints, and that every mistake is one line and an exit code."""

import errno
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ebboost as eb
import ebboost.__main__
from ebboost.cli.app import app

SIDE = 14
COMMANDS = ("demo", "check", "fit", "predict", "explain", "report", "bench", "inspect")
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(Path(eb.__file__).parents[1]),
    "OMP_NUM_THREADS": "1",
}


def grid(side=SIDE):
    """Nodes of a square grid with ids like "007", a price that follows the place, and a kind of place."""
    rng = np.random.default_rng(0)
    n = side * side
    row, column = np.divmod(np.arange(n), side)
    price = 100 + 10 * np.sin(row / 3.0) + 5 * np.cos(column / 3.0) + rng.normal(size=n)
    nodes = pd.DataFrame(
        {
            "id": [f"{i:03d}" for i in range(n)],
            "size": rng.normal(size=n),
            "rooms": rng.integers(1, 6, n),
        }
    )
    nodes["kind"] = np.where(row < side // 2, "north", "south")
    nodes["price"] = np.where(np.arange(n) % 3 == 0, np.nan, price)
    pairs = [(i, i + 1) for i in range(n) if column[i] < side - 1] + [
        (i, i + side) for i in range(n - side)
    ]
    edges = pd.DataFrame([(f"{a:03d}", f"{b:03d}") for a, b in pairs], columns=["from", "to"])
    return nodes, edges


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A folder with tables and two fitted models."""
    folder = tmp_path_factory.mktemp("cli")
    nodes, edges = grid()
    nodes.to_csv(folder / "nodes.csv", index=False)
    edges.to_csv(folder / "edges.csv", index=False)
    nodes.assign(kind=nodes["kind"].where(np.arange(len(nodes)) % 4 > 0)).to_csv(
        folder / "kinds.csv", index=False
    )
    for table, target, name in (
        ("nodes.csv", "price", "price.ebb"),
        ("kinds.csv", "kind", "kind.ebb"),
    ):
        run(
            "fit",
            folder / table,
            folder / "edges.csv",
            "-t",
            target,
            "-o",
            folder / name,
            "--rounds",
            30,
        )
    return folder


def run(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words], prog_name="ebboost")
    assert result.exit_code == code, (
        result.exit_code,
        result.stdout,
        result.stderr,
        result.exception,
    )
    return result


def complaint(*words, code=1):
    """The one line on standard error that a wrong call prints; nothing on standard output."""
    result = run(*words, code=code)
    lines = [
        line
        for line in result.stderr.splitlines()
        if not line.startswith("note: ") and line.startswith("ebboost: ")
    ]
    assert len(lines) == 1 and "Traceback" not in result.stderr
    assert result.stdout == ""
    return lines[0]


@pytest.fixture
def copy(place, tmp_path):
    """The tables in a folder of their own, to be spoilt."""
    for name in ("nodes.csv", "edges.csv", "kinds.csv"):
        shutil.copy(place / name, tmp_path)
    return tmp_path


# ---------------------------------------------------------------------- what works


def test_fit_goes_on_from_a_checkpoint_to_the_same_model(place, tmp_path):
    words = [
        "fit",
        place / "nodes.csv",
        place / "edges.csv",
        "-t",
        "price",
        "--rounds",
        30,
        "-o",
        tmp_path / "m.ebb",
    ]
    words += ["--checkpoint", tmp_path / "kept"]
    run(*words)
    assert "--resume" not in complaint(*words[:-2], "--checkpoint", place / "nodes.csv")  # a file
    assert "holds checkpoints of an earlier fit already" in complaint(*words)
    run(*words, "--resume")
    again, ours = eb.load(tmp_path / "m.ebb"), eb.load(place / "price.ebb")
    assert (again.predict() == ours.predict()).all()
    assert "--resume needs --checkpoint" in complaint(*words[:-2], "--resume", code=2)


def test_fit_predicts_exactly_what_the_library_predicts(place):
    nodes, edges = grid()
    graph = eb.Graph.from_dataframe(edges, nodes=nodes["id"])
    ours = eb.EBBSRegressor(30, random_state=0).fit(
        nodes[["size", "rooms", "kind"]], nodes["price"], graph=graph
    )
    written = pd.read_csv(
        pd.io.common.StringIO(run("predict", place / "price.ebb", "--interval", 0.8).stdout),
        dtype={"id": str},
    )
    gaps = np.flatnonzero(nodes["price"].isna())
    assert written["id"].tolist() == nodes["id"][gaps].tolist()
    for name, values in zip(
        ("prediction", "lower", "upper"), ours.predict(nodes=gaps, interval=0.8), strict=True
    ):
        np.testing.assert_allclose(written[name], values)


def test_fit_says_what_was_held_out_and_how_good_it_was(place, tmp_path):
    out = tmp_path / "m.ebb"
    told = json.loads(
        run(
            "fit",
            place / "nodes.csv",
            place / "edges.csv",
            "-t",
            "price",
            "-o",
            out,
            "--rounds",
            30,
            "--json",
        ).stdout
    )
    model = eb.load(out)
    errors = model.validation_target_[:, 0] - model.validation_prediction_[:, 0]
    assert (
        told["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)))
        and told["rmse"] < told["rmse_of_mean"]
    )
    assert told["held_out"] == model.validation_nodes_.size and told["task"] == "regression"
    assert model.names_ == {"id": "id", "target": "price"}
    assert model.graph_.node_ids[7] == "007"
    printed = run(
        "fit", place / "nodes.csv", place / "edges.csv", "-t", "price", "-o", out, "--rounds", 30
    ).stdout
    assert (
        "held-out RMSE" in printed
        and "optimistic" in printed
        and "Next: ebboost predict" in printed
    )


def test_classes_come_with_a_probability_each(place):
    told = json.loads(run("predict", place / "kind.ebb", "--json").stdout)
    assert len(told) == SIDE * SIDE // 4 and set(told[0]) == {
        "id",
        "prediction",
        "probability_north",
        "probability_south",
    }
    for row in told:
        assert row["probability_north"] + row["probability_south"] == pytest.approx(1.0)
        assert row[f"probability_{row['prediction']}"] >= 0.5
    stated = eb.load(place / "kind.ebb").predict_proba()[::4]
    np.testing.assert_allclose(
        [[row["probability_north"], row["probability_south"]] for row in told], stated
    )


def test_predict_writes_csv_and_parquet_alike(place, tmp_path):
    for name in ("p.csv", "p.parquet"):
        assert f"{name}: 66 predictions" in run(
            "predict", place / "price.ebb", "-o", tmp_path / name
        ).stdout.replace("\n", "")
    text, binary = (
        pd.read_csv(tmp_path / "p.csv", dtype={"id": str}),
        pd.read_parquet(tmp_path / "p.parquet"),
    )
    assert text["id"].tolist() == binary["id"].tolist()
    np.testing.assert_allclose(text["prediction"], binary["prediction"])
    assert (
        len(json.loads(run("predict", place / "price.ebb", "--all", "--json").stdout))
        == SIDE * SIDE
    )


def test_a_new_table_and_its_edges_are_predicted(place):
    nodes, edges = grid()
    told = json.loads(
        run(
            "predict",
            place / "price.ebb",
            "--nodes",
            place / "nodes.csv",
            "--edges",
            place / "edges.csv",
            "--json",
        ).stdout
    )
    model = eb.load(place / "price.ebb")
    graph = eb.Graph.from_dataframe(edges, nodes=nodes["id"])
    known = np.flatnonzero(nodes["price"].notna())
    wanted = model.predict(
        nodes[["size", "rooms", "kind"]], graph=graph, new_labels=(known, nodes["price"][known])
    )
    assert [row["prediction"] for row in told] == pytest.approx(
        wanted[nodes["price"].isna()].tolist()
    )


def test_weights_categories_and_dropped_columns_reach_the_model(place, tmp_path):
    nodes, edges = grid()
    rooms = (
        nodes["rooms"].astype(float).where(nodes.index % 7 > 0)
    )  # a gap makes floats of whole numbers
    nodes.assign(rooms=rooms).to_csv(tmp_path / "gaps.csv", index=False)
    edges.assign(km=2.0).to_csv(tmp_path / "edges.csv", index=False)
    with (tmp_path / "edges.csv").open("a") as file:
        file.write("000,elsewhere,1.0\n")
    words = (
        "-t",
        "price",
        "--weight",
        "km",
        "--skip-unknown",
        "--categorical",
        "rooms",
        "--drop",
        "size",
        "--rounds",
        5,
    )
    run(
        "fit",
        place / "nodes.csv",
        tmp_path / "edges.csv",
        *words,
        "-o",
        tmp_path / "m.ebb",
        "--source",
        "from",
    )
    model = eb.load(tmp_path / "m.ebb")
    assert set(model.graph_.adjacency.data) == {2.0} and model._reader.names == ("rooms", "kind")
    assert model._reader.categories == {0: ["1", "2", "3", "4", "5"], 1: ["north", "south"]}
    words = (
        "predict",
        tmp_path / "m.ebb",
        "--nodes",
        tmp_path / "gaps.csv",
        "--edges",
        place / "edges.csv",
        "--all",
        "--json",
    )
    assert len(json.loads(run(*words).stdout)) == len(nodes)


def test_new_nodes_join_the_graph_of_the_fit(place, tmp_path):
    nodes, _ = grid()
    pd.DataFrame(
        {"id": ["new", "far"], "size": [0.0, 0.0], "rooms": [3, 3], "kind": ["north", "south"]}
    ).to_csv(tmp_path / "new.csv", index=False)
    pd.DataFrame({"from": ["new", "new", "far", "far"], "to": ["004", "005", "190", "191"]}).to_csv(
        tmp_path / "ties.csv", index=False
    )
    words = (
        "predict",
        place / "price.ebb",
        "--nodes",
        tmp_path / "new.csv",
        "--edges",
        tmp_path / "ties.csv",
    )
    assert "'004' is not in column 'id'" in complaint(*words)
    told = json.loads(run(*words, "--attach", "--json").stdout)
    assert [row["id"] for row in told] == ["new", "far"]
    near = nodes.set_index("id")["price"]
    for row, neighbours in zip(told, (["004", "005"], ["190", "191"]), strict=True):
        assert (
            abs(row["prediction"] - near[neighbours].mean()) < 6.0
        )  # of prices that range over 30
    run(*words, "--attach", "--interval", 0.9)
    assert "name the column of ids" in complaint(*words, "--attach", "--id", "rows")
    pd.DataFrame({"id": ["004"], "size": [0.0], "rooms": [3], "kind": ["north"]}).to_csv(
        tmp_path / "new.csv", index=False
    )
    assert "node '004' is one of the nodes the model was fitted on" in complaint(
        *words, "--attach", "--skip-unknown"
    )


def test_models_made_in_python_are_taken_as_they_are(place, tmp_path):
    nodes, _ = grid()
    plain = eb.EBBSRegressor(3, random_state=0).fit(nodes[["size", "rooms"]], nodes["price"])
    plain.save(tmp_path / "m.ebb")
    told = json.loads(run("predict", tmp_path / "m.ebb", "--json").stdout)
    assert told[0]["id"] == "0" and len(told) == nodes["price"].isna().sum()
    assert "without its table" in complaint("explain", tmp_path / "m.ebb", "3")
    words = (
        "predict",
        tmp_path / "m.ebb",
        "--nodes",
        place / "nodes.csv",
        "--edges",
        place / "edges.csv",
    )
    assert "fitted without one" in complaint(*words)
    assert "fitted on a graph" in complaint(*words, "--attach")


def test_an_explanation_adds_up_and_names_nodes_by_their_ids(place):
    told = json.loads(run("explain", place / "price.ebb", "004", "101", "--json").stdout)
    assert [one["node"] for one in told] == ["004", "101"]
    for one in told:
        parts = [
            *one["own_columns"].values(),
            *one["neighbour_columns"].values(),
            *one["labels"].values(),
        ]
        assert one["base"] + sum(parts) == pytest.approx(one["score"]) == one["prediction"]
        assert all(
            re.fullmatch(r"\d{3}", node) for node in [*one["neighbour_columns"], *one["labels"]]
        )
    printed = run("explain", place / "price.ebb", "004").stdout
    assert "node 004" in printed and "sum" in printed
    assert "score of" in run("explain", place / "kind.ebb", "004").stdout


def test_labels_that_move_a_probability_stand_below_the_sum(place, tmp_path):
    run(
        "fit",
        place / "kinds.csv",
        place / "edges.csv",
        "-t",
        "kind",
        "-o",
        tmp_path / "m.ebb",
        "--drop",
        "price",
    )
    told = json.loads(run("explain", tmp_path / "m.ebb", "004", "--json").stdout)[0]
    above, below = run("explain", tmp_path / "m.ebb", "004").stdout.split("sum ")
    assert told["labels"] and not told["labels_in_sum"]
    assert (
        "label of node" not in above
        and "move the probability" in below
        and "label of node" in below
    )


def test_check_warns_of_a_column_that_copies_the_target_and_estimates_the_gain(place, tmp_path):
    nodes, _ = grid()
    nodes["asked"] = np.exp(nodes["price"] / 50)
    nodes["country"] = "DE"
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    words = ("check", tmp_path / "nodes.csv", place / "edges.csv", "-t", "price", "--json")
    warnings = "\n".join(json.loads(run(*words, "--no-estimate").stdout)["warnings"])
    assert "copies the target: 'asked'" in warnings and "or empty: 'country'" in warnings
    found = json.loads(run(*words, "--drop", "asked", "--folds", 2).stdout)
    assert (
        found["estimate"]["with_graph"] < found["estimate"]["without"]
        and found["estimate"]["standard_error"] > 0
    )
    assert found["autocorrelation"]["value"] > 0.5 and found["n_nodes"] == SIDE * SIDE
    printed = run(
        "check",
        tmp_path / "nodes.csv",
        place / "edges.csv",
        "-t",
        "price",
        "--drop",
        "asked",
        "--folds",
        2,
    ).stdout
    assert "Moran's I" in printed and "The graph helps" in printed and "±" in printed


def test_inspect_tells_what_is_inside_without_loading_the_model(place, monkeypatch):
    monkeypatch.setattr(eb, "load", None)
    told = json.loads(run("inspect", place / "kind.ebb", "--json").stdout)
    assert told["classes"] == ["north", "south"] and told["names"] == {"id": "id", "target": "kind"}
    assert (told["n_nodes"], told["has_table"], told["columns"]) == (
        SIDE * SIDE,
        True,
        ["size", "rooms", "price"],
    )
    printed = run("inspect", place / "price.ebb").stdout
    assert "EBBSRegressor" in printed and "share the file only" in printed


def test_inspect_tells_where_a_model_was_fitted_and_shows_no_control_characters(place, tmp_path):
    printed = run("inspect", place / "price.ebb").stdout
    assert f"ebboost {eb.__version__}" in printed.replace("\n", " ") and "threads" in printed
    model = eb.EBBSRegressor(2).fit(pd.DataFrame({"\x1b[31mred\x07": [0.0, 1.0]}), [0.0, 1.0])
    model.save(tmp_path / "m.ebb")
    printed = run("inspect", tmp_path / "m.ebb").stdout
    assert "[31mred" in printed and "\x07" not in printed and "\x1b" not in printed


def test_demo_writes_files_that_the_other_commands_take(tmp_path):
    folder = tmp_path / "counties"
    assert "Next: ebboost check" in run("demo", "--files", folder).stdout
    assert "--output keeps a model" in complaint(
        "demo", "--files", folder, "-o", tmp_path / "m.ebb", code=2
    )
    nodes = pd.read_csv(folder / "nodes.csv", dtype={"fips": str})
    assert len(nodes) == 3107 and nodes["pc_turnout"].isna().sum() == 1243
    told = json.loads(
        run(
            "check",
            folder / "nodes.csv",
            folder / "edges.csv",
            "-t",
            "pc_turnout",
            "--no-estimate",
            "--json",
        ).stdout
    )
    assert (told["n_nodes"], told["n_edges"], told["n_isolates"]) == (3107, 9063, 4)


def test_a_report_is_written_whole_or_not_at_all(place, tmp_path, monkeypatch):
    out = tmp_path / "r.html"
    assert run("report", place / "price.ebb", "-o", out, "--title", "Mine").stdout == f"{out}\n"
    assert "<h1>Mine</h1>" in out.read_text()
    run("report", place / "price.ebb", "-o", out)
    assert "<h1>price: what the model learned</h1>" in out.read_text()

    def fills_the_disk(model, path, *, title):
        Path(path).write_text("<html>")
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("ebboost.cli.app.write_report", fills_the_disk)
    out.write_text("old")
    assert "No space left" in complaint("report", place / "price.ebb", "-o", out)
    assert out.read_text() == "old" and [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_a_report_opens_in_a_browser_where_there_is_one(place, tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr("webbrowser.open", lambda address: not shown.append(address))
    out = tmp_path / "mine & yours.html"
    assert run("report", place / "price.ebb", "-o", out, "--open").stderr == ""
    assert shown == [out.as_uri()]
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    assert "no browser was found" in run("report", place / "price.ebb", "-o", out, "--open").stderr


def test_fit_names_the_next_commands_and_they_run(place, copy, monkeypatch):
    monkeypatch.chdir(copy)
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    nodes, _ = grid()
    nodes.assign(id="no. " + nodes["id"], price=nodes["price"].fillna(100.0)).to_csv(
        "all.csv", index=False
    )
    pd.read_csv("edges.csv", dtype=str).map(lambda end: "no. " + end).to_csv(
        "ends.csv", index=False
    )
    for table, edges in (("nodes.csv", "edges.csv"), ("all.csv", "ends.csv")):
        printed = run(
            "fit", table, edges, "-t", "price", "--rounds", 5, "-o", "my model.ebb"
        ).stdout
        commands = [shlex.split(line)[1:] for line in printed.partition("Next: ")[2].splitlines()]
        assert [command[0] for command in commands] == [
            "predict" if table == "nodes.csv" else "explain",
            "report",
        ]
        for command in commands:
            run(*command)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command):
    printed = run(command, "--help").stdout
    assert f"Example: ebboost {command}" in printed


def test_bench_runs_the_benchmarks_of_a_checkout_or_says_that_there_are_none(tmp_path, monkeypatch):
    source = tmp_path / "src" / "ebboost" / "__init__.py"
    monkeypatch.setattr(eb, "__file__", str(source))
    assert "run this from a checkout" in complaint("bench")
    (tmp_path / "benchmarks").mkdir()
    (
        tmp_path / "benchmarks" / "__init__.py"
    ).touch()  # as ours has: some libraries install a package of that name
    (tmp_path / "benchmarks" / "__main__.py").write_text(
        "import sys; sys.exit(5 if sys.argv[1:] == ['--fast', 'x'] else 1)"
    )
    run("bench", "--fast", "x", code=5)


@pytest.mark.parametrize("terminal", [80, 120])
def test_nothing_printed_is_wider_than_the_terminal(place, monkeypatch, terminal):
    monkeypatch.setenv("COLUMNS", str(terminal))
    for words in (
        ("explain", place / "price.ebb", "004"),
        ("inspect", place / "price.ebb"),
        ("fit", "--help"),
    ):
        assert max(len(line) for line in run(*words).stdout.splitlines()) <= terminal


# ---------------------------------------------------------------------- what is refused, in one line


def spoil(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


WRONG = {
    "missing file": (
        None,
        ["fit", "node.csv", "edges.csv", "-t", "price"],
        ["no file node.csv", "nodes.csv?"],
    ),
    "missing edges": (
        None,
        ["check", "nodes.csv", "edge.csv", "-t", "price"],
        ["no file edge.csv", "edges.csv?"],
    ),
    "target absent": (
        None,
        ["fit", "nodes.csv", "edges.csv", "-t", "prise"],
        ["no column 'prise'", "'price'?"],
    ),
    "wrong id": (
        None,
        ["fit", "nodes.csv", "edges.csv", "-t", "price", "--id", "idd"],
        ["'idd'", "(--id)", "'id'?"],
    ),
    "another column as id": (
        None,
        ["fit", "nodes.csv", "edges.csv", "-t", "price", "--id", "size"],
        ["edges.csv, line 2", "'000' is not in column 'size'", "--skip-unknown"],
    ),
    "wrong source": (
        None,
        ["fit", "nodes.csv", "edges.csv", "-t", "price", "--source", "form"],
        ["(--source)", "'from'?"],
    ),
    "wrong weight": (
        None,
        ["fit", "nodes.csv", "edges.csv", "-t", "price", "--weight", "w"],
        ["'w'", "(--weight)"],
    ),
    "wrong drop": (
        None,
        ["fit", "nodes.csv", "edges.csv", "-t", "price", "--drop", "room"],
        ["'room'", "'rooms'?"],
    ),
    "folder for nodes": (None, ["fit", ".", "edges.csv", "-t", "price"], ["is a folder"]),
    "folder to write": (
        None,
        ["fit", "nodes.csv", "edges.csv", "-t", "price", "-o", "."],
        ["is a folder"],
    ),
    "no such folder to write": (
        None,
        ["fit", "nodes.csv", "edges.csv", "-t", "price", "-o", "out/m.ebb"],
        ["out/m.ebb cannot be written", "no folder"],
    ),
    "device for a model": (
        None,
        ["fit", "nodes.csv", "edges.csv", "-t", "price", "-o", "/dev/full"],
        ["/dev/full", "not a file"],
    ),
    "text as numbers": (
        None,
        ["fit", "nodes.csv", "edges.csv", "-t", "kind", "--task", "regression"],
        ["nodes.csv, line 2", "'north', not a number", "--task classification"],
    ),
    "one entry that is no number": (
        None,
        ["fit", "stray.csv", "edges.csv", "-t", "price"],
        ["stray.csv, line 3", "'on request', not a number"],
    ),
    "no header": (
        lambda folder: spoil(folder / "edges.csv", "from,to\n", ""),
        ["fit", "nodes.csv", "edges.csv", "-t", "price"],
        ["edges.csv has no header", "000,001"],
    ),
    "wrong delimiter": (
        lambda folder: spoil(
            folder / "edges.csv", (folder / "edges.csv").read_text(), "from:to\n000:001\n"
        ),
        ["fit", "nodes.csv", "edges.csv", "-t", "price"],
        ["edges.csv has a single column, 'from:to'", "comma, semicolon, tab"],
    ),
    "ragged table": (
        lambda folder: spoil(folder / "nodes.csv", "\n001,", "\n001,1,1,1,1,1,"),
        ["fit", "nodes.csv", "edges.csv", "-t", "price"],
        ["nodes.csv"],
    ),
    "empty file": (
        lambda folder: (folder / "nodes.csv").write_text(""),
        ["fit", "nodes.csv", "edges.csv", "-t", "price"],
        ["empty"],
    ),
    "no edges": (
        lambda folder: (folder / "edges.csv").write_text("from,to\n"),
        ["fit", "nodes.csv", "edges.csv", "-t", "price"],
        ["edges.csv lists no edges"],
    ),
    "only loops": (
        lambda folder: (folder / "edges.csv").write_text("from,to\n001,001\n"),
        ["fit", "nodes.csv", "edges.csv", "-t", "price"],
        ["ties no two different nodes"],
    ),
    "duplicate ids": (
        lambda folder: spoil(folder / "nodes.csv", "\n005,", "\n004,"),
        ["fit", "nodes.csv", "edges.csv", "-t", "price"],
        ["'004'", "lines 6 and 7", "must differ"],
    ),
    "a row without id": (
        lambda folder: [
            spoil(folder / "nodes.csv", "\n005,", "\n,"),
            (folder / "edges.csv").write_text("from,to\n000,001\n"),
        ],
        ["fit", "nodes.csv", "edges.csv", "-t", "price"],
        ["line 7", "'id' is empty"],
    ),
    "unknown node in an edge": (
        lambda folder: spoil(folder / "edges.csv", "\n000,001", "\n000,Bonn"),
        ["fit", "nodes.csv", "edges.csv", "-t", "price"],
        ["edges.csv, line 2", "'Bonn'", "1 of 364 edges"],
    ),
    "half an edge": (
        lambda folder: spoil(folder / "edges.csv", "\n000,001", "\n000,"),
        ["fit", "nodes.csv", "edges.csv", "-t", "price"],
        ["edges.csv, line 2", "no node in column 'to'"],
    ),
    "not UTF-8": (
        lambda folder: (folder / "nodes.csv").write_bytes(
            "id,größe,price\n000,1,2\n".encode("latin-1")
        ),
        ["fit", "nodes.csv", "edges.csv", "-t", "price"],
        ["nodes.csv is not UTF-8", "0xf6", "iconv"],
    ),
    "a spreadsheet": (
        lambda folder: (folder / "nodes.csv").write_bytes(b"PK\x03\x04 what Excel writes"),
        ["fit", "nodes.csv", "edges.csv", "-t", "price"],
        ["spreadsheet", "save it as CSV"],
    ),
    "an empty target": (
        lambda folder: (folder / "nodes.csv").write_text(
            "id,size,price\n" + "".join(f"{i:03d},1,\n" for i in range(196))
        ),
        ["fit", "nodes.csv", "edges.csv", "-t", "price"],
        ["'price' is empty in every row"],
    ),
    "one class": (
        None,
        ["fit", "one.csv", "edges.csv", "-t", "kind"],
        ["'kind' is 'north' wherever it is known"],
    ),
    "not a model": (None, ["predict", "nodes.csv"], ["nodes.csv is not an ebboost model"]),
    "inspect what is no model": (
        None,
        ["inspect", "edges.csv"],
        ["edges.csv is not an ebboost model"],
    ),
    "no model": (None, ["explain", "m.ebb", "004"], ["no file m.ebb"]),
    "broken GraphML": (
        lambda folder: (folder / "edges.graphml").write_text("<graphml><graph>"),
        ["fit", "nodes.csv", "edges.graphml", "-t", "price"],
        ["edges.graphml", "line 1"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_one_clear_line_and_leaves_no_file(copy, monkeypatch, name):
    damage, words, expected = WRONG[name]
    monkeypatch.chdir(copy)
    nodes, _ = grid()
    nodes.assign(price=nodes["price"].astype(object).where(nodes.index != 1, "on request")).to_csv(
        "stray.csv", index=False
    )
    nodes.assign(kind="north").to_csv("one.csv", index=False)
    if damage is not None:
        damage(copy)
    before = sorted(path.name for path in copy.iterdir())
    line = complaint(*words)
    for part in expected:
        assert part in line
    assert sorted(path.name for path in copy.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fit", "nodes.csv", "edges.csv"], "Missing option '--target'"),
        (["fit", "nodes.csv"], "Missing argument"),
        (["fti"], "No such command 'fti'"),
        (["fit", "nodes.csv", "edges.csv", "-t", "price", "--task", "ranking"], "ranking"),
        (["fit", "nodes.csv", "edges.csv", "-t", "price", "--rounds", "0"], "--rounds"),
        (["fit", "nodes.csv", "edges.csv", "-t", "price", "--sed", "1"], "--seed"),
        (["predict", "m.ebb", "--interval", "90"], "--interval"),
        (["predict", "m.ebb", "--nodes", "nodes.csv"], "--nodes and --edges belong together"),
        (["predict", "m.ebb", "--attach"], "--attach needs --nodes"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(words, expected):
    assert expected in complaint(*words, code=2)


def test_an_unknown_node_is_answered_with_the_nearest(place):
    assert "no node '0441'. Did you mean '044'?" in complaint(
        "explain", place / "price.ebb", "0441"
    )


def test_intervals_of_classes_are_refused(place):
    assert "--interval is for numbers" in complaint(
        "predict", place / "kind.ebb", "--interval", 0.9
    )


def test_a_model_fitted_where_every_label_is_known_has_nothing_to_predict(place, tmp_path):
    run(
        "fit",
        place / "nodes.csv",
        place / "edges.csv",
        "-t",
        "kind",
        "-o",
        tmp_path / "m.ebb",
        "--rounds",
        5,
    )
    assert "--all writes them all" in complaint("predict", tmp_path / "m.ebb")


def test_a_new_table_that_lacks_a_column_is_refused(place, tmp_path):
    pd.DataFrame({"id": ["a", "b"], "sise": [1, 2], "rooms": [1, 2]}).to_csv(
        tmp_path / "new.csv", index=False
    )
    (tmp_path / "ties.csv").write_text("from,to\na,b\n")
    line = complaint(
        "predict",
        place / "price.ebb",
        "--nodes",
        tmp_path / "new.csv",
        "--edges",
        tmp_path / "ties.csv",
    )
    assert "no column 'size' (the model needs it). Did you mean 'sise'?" in line


def test_a_damaged_model_is_refused(place, tmp_path):
    content = (place / "price.ebb").read_bytes()
    (tmp_path / "cut.ebb").write_bytes(content[: len(content) // 2])
    assert "not an ebboost model, or it is damaged" in complaint("predict", tmp_path / "cut.ebb")


def test_a_full_disk_is_said_and_leaves_the_old_file(place, tmp_path, monkeypatch):
    out = tmp_path / "p.csv"
    out.write_text("old")

    def full(self, path, **_):
        Path(path).write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device", str(out))

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    assert "p.csv: No space left on device." in complaint("predict", place / "price.ebb", "-o", out)
    assert out.read_text() == "old" and [path.name for path in tmp_path.iterdir()] == ["p.csv"]


def test_a_disk_that_fills_up_leaves_the_old_model(place, copy, monkeypatch):
    out = copy / "m.ebb"
    out.write_text("old")

    def full(self, name, *_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    before = sorted(path.name for path in copy.iterdir())
    words = ("fit", copy / "nodes.csv", copy / "edges.csv", "-t", "price", "-o", out, "--rounds", 3)
    assert complaint(*words) == "ebboost: No space left on device."
    assert out.read_text() == "old" and sorted(path.name for path in copy.iterdir()) == before


def test_no_permission_is_said_before_the_work_is_done(place, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    monkeypatch.setattr(eb, "load", None)
    assert "no permission" in complaint("predict", place / "price.ebb", "-o", tmp_path / "p.csv")


def test_a_mistake_of_ours_is_called_one(place, monkeypatch):
    monkeypatch.setattr(eb, "load", lambda path: {}["x"])
    assert "internal error, KeyError" in complaint("predict", place / "price.ebb")


def test_warnings_of_the_library_become_notes(place, copy):
    with (copy / "edges.csv").open("a") as file:
        file.write("001,000\n")  # one pair both ways: the list is a directed one
    result = run("check", copy / "nodes.csv", copy / "edges.csv", "-t", "price", "--no-estimate")
    assert "note: The input is directed" in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_writing_to_a_full_device_fails_in_one_line_and_leaves_the_device(place):
    assert "No space left on device" in complaint("predict", place / "price.ebb", "-o", "/dev/full")
    assert not Path("/dev/full").is_file()


def test_without_its_extra_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "ebboost.cli.app")
    with pytest.raises(SystemExit) as left:
        ebboost.__main__.main()
    assert left.value.code == 'The command line needs typer and rich: pip install "ebboost[cli]"'


def test_completion_knows_the_commands():
    environment = {
        "_EBBOOST_COMPLETE": "complete_bash",
        "COMP_WORDS": "ebboost ",
        "COMP_CWORD": "1",
    }
    result = CliRunner().invoke(app, [], prog_name="ebboost", env=environment)
    assert set(COMMANDS) <= set(result.stdout.split())


# ---------------------------------------------------------------------- as real processes


def process(*words, **options):
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=120,
        **options,
    )


def test_the_process_leaves_with_the_code_and_one_line(copy):
    found = process("-m", "ebboost", "fit", "nodes.csv", "edges.csv", "-t", "prise", cwd=copy)
    assert (found.returncode, found.stdout) == (1, "")
    assert (
        found.stderr
        == "ebboost: nodes.csv has no column 'prise' (--target). Did you mean 'price'?\n"
    )


@pytest.mark.skipif(os.name == "nt", reason="signals differ")
def test_ctrl_c_stops_at_once_and_leaves_nothing_behind(tmp_path):
    for name, frame in zip(("nodes.csv", "edges.csv"), grid(), strict=True):
        frame.to_csv(tmp_path / name, index=False)
    slowly = "import sys, time, ebboost.cli.app as cli\n"
    slowly += "def slow(self, progress): print('round', flush=True); time.sleep(0.2)\n"
    slowly += "cli._RoundsBar.after_round = slow; cli.app(sys.argv[1:], prog_name='ebboost')"
    words = ["fit", "nodes.csv", "edges.csv", "-t", "price", "-o", "m.ebb"]
    with subprocess.Popen(
        [sys.executable, "-c", slowly, *words],
        cwd=tmp_path,
        env=ENVIRONMENT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdout.readline() == "round\n"
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert errors.splitlines() == ["ebboost: stopped; no file was changed."]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "nodes.csv"]


def test_the_library_needs_no_dataframe_and_no_terminal_library():
    code = (
        "import sys\nfrom importlib.abc import MetaPathFinder\n\nclass Missing(MetaPathFinder):\n"
    )
    code += "    def find_spec(self, name, path=None, target=None):\n"
    code += "        if name.split('.')[0] in ('pandas', 'polars', 'pyarrow', 'typer', 'rich'):\n"
    code += "            raise ModuleNotFoundError(name, name=name)\n\nsys.meta_path.insert(0, Missing())\n"
    code += "import ebboost as eb\ng = eb.Graph.from_edges([0, 1, 2], [1, 2, 3])\n"
    code += "eb.EBBSRegressor(2).fit([[0.0], [1.0], [2.0], [3.0]], [0.0, None, None, 3.0], graph=g)\nprint('fits')"
    found = process("-c", code)
    assert found.stdout.strip() == "fits", found.stderr
