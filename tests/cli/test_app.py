"""The command line as a whole: help, exit codes, one line for each error."""

import pytest
from typer.testing import CliRunner

import ebboost as eb
from ebboost.cli.app import app
from tests.cli.commands import COMMANDS, error_line, grid, python, run


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command):
    printed = run(command, "--help").stdout
    assert f"Example: ebboost {command}" in printed


@pytest.mark.parametrize("terminal", [80, 120])
def test_nothing_printed_is_wider_than_the_terminal(folder, monkeypatch, terminal):
    monkeypatch.setenv("COLUMNS", str(terminal))
    for words in (
        ("explain", folder / "price.ebb", "004"),
        ("inspect", folder / "price.ebb"),
        ("fit", "--help"),
    ):
        assert max(len(line) for line in run(*words).stdout.splitlines()) <= terminal


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
    "target is the id": (
        None,
        ["fit", "nodes.csv", "edges.csv", "-t", "id"],
        ["--target 'id' is the column of node ids"],
    ),
    "decimals as classes": (
        None,
        ["fit", "nodes.csv", "edges.csv", "-t", "price", "--task", "classification"],
        ["'price' holds decimal numbers", "--task regression"],
    ),
    "JSON": (
        lambda folder: (folder / "nodes.csv").write_text('[{"id": 1, "price": 2}]'),
        ["fit", "nodes.csv", "edges.csv", "-t", "price"],
        ["looks like JSON"],
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
        ["fit", "nodes.csv", "edges.csv", "-t", "price", "--edge-from", "form"],
        ["(--edge-from)", "'from'?"],
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
    "a number out of range": (
        lambda folder: spoil(folder / "nodes.csv", "\n001,", "\n001,inf,1,north,\n999,"),
        ["fit", "nodes.csv", "edges.csv", "-t", "price"],
        ["nodes.csv, line 3: column 'size' is inf"],
    ),
    "no header": (
        lambda folder: (folder / "nodes.csv").write_text("1,2\n3,4\n"),
        ["fit", "nodes.csv", "edges.csv", "-t", "price"],
        ["nodes.csv has no header", "['1', '2']"],
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
        ["edges.csv lists no edges: name two nodes for each", "--coordinates"],
    ),
    "only loops": (
        lambda folder: (folder / "edges.csv").write_text("from,to\n001,001\n"),
        ["fit", "nodes.csv", "edges.csv", "-t", "price"],
        ["connects no two different nodes"],
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
        lambda folder: (folder / "nodes.csv").write_bytes(b"\xd0\xcf\x11\xe0 what Excel wrote"),
        ["fit", "nodes.csv", "edges.csv", "-t", "price"],
        ["spreadsheet", "save it as .xlsx or CSV"],
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
        ["'kind' is 'north' wherever it is known", "Fill in rows of another class"],
    ),
    "no rows": (
        lambda folder: (folder / "nodes.csv").write_text("id,size,price\n"),
        ["fit", "nodes.csv", "edges.csv", "-t", "price"],
        ["nodes.csv has a header but no rows: write a line for each node"],
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
def test_an_input_error_is_one_line_and_leaves_no_file(copy, monkeypatch, name):
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
    line = error_line(*words)
    for part in expected:
        assert part in line
    assert sorted(path.name for path in copy.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fit", "nodes.csv", "edges.csv"], "Missing option '--target'"),
        (["fit"], "Missing argument"),
        (["fti"], "No such command 'fti'"),
        (["fit", "nodes.csv", "edges.csv", "-t", "price", "--task", "ranking"], "ranking"),
        (
            ["fit", "nodes.csv", "edges.csv", "-t", "price", "--loss", "mse"],
            "'--loss': 'mse' is not one of",
        ),
        (["fit", "nodes.csv", "edges.csv", "-t", "price", "--rounds", "0"], "--rounds"),
        (["fit", "nodes.csv", "edges.csv", "-t", "price", "--sed", "1"], "--seed"),
        (["predict", "m.ebb", "--interval", "90"], "--interval"),
        (["predict", "m.ebb", "--edges", "edges.csv"], "--nodes and --edges belong together"),
        (["predict", "m.ebb", "--attach"], "--attach needs --nodes"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(words, expected):
    assert expected in error_line(*words, code=2)


def test_an_internal_error_is_reported_as_such(folder, monkeypatch):
    monkeypatch.setattr(eb, "load", lambda path: {}["x"])
    assert "internal error, KeyError" in error_line("predict", folder / "price.ebb")


def test_completion_knows_the_commands():
    environment = {
        "_EBBOOST_COMPLETE": "complete_bash",
        "COMP_WORDS": "ebboost ",
        "COMP_CWORD": "1",
    }
    result = CliRunner().invoke(app, [], prog_name="ebboost", env=environment)
    assert set(COMMANDS) <= set(result.stdout.split())


def test_the_process_exits_with_a_code_and_one_line(copy):
    result = python("-m", "ebboost", "fit", "nodes.csv", "edges.csv", "-t", "prise", cwd=copy)
    assert (result.returncode, result.stdout) == (1, "")
    assert (
        result.stderr
        == "ebboost: nodes.csv has no column 'prise' (--target). Did you mean 'price'?\n"
    )


def test_version_prints_the_version():
    assert run("--version").stdout == f"ebboost {eb.__version__}\n"


def test_no_arguments_print_the_help(monkeypatch):
    assert "Usage: ebboost" in run(code=2).stdout


def test_bench_runs_the_benchmarks_of_a_checkout(tmp_path, monkeypatch):
    source = tmp_path / "src" / "ebboost" / "__init__.py"
    monkeypatch.setattr(eb, "__file__", str(source))
    assert "run this from a checkout" in error_line("bench")
    (tmp_path / "benchmarks").mkdir()
    (
        tmp_path / "benchmarks" / "__init__.py"
    ).touch()  # as ours has: some libraries install a package of that name
    (tmp_path / "benchmarks" / "__main__.py").write_text(
        "import sys; sys.exit(5 if sys.argv[1:] == ['--fast', 'x'] else 1)"
    )
    run("bench", "--fast", "x", code=5)
