"""``ebboost report`` and ``ebboost inspect``."""

import errno
import json
from pathlib import Path

import pandas as pd

import ebboost as eb
import ebboost.__main__
from tests.cli.commands import SIDE, error_line, run


def test_a_failed_report_leaves_the_old_file(folder, tmp_path, monkeypatch):
    out = tmp_path / "r.html"
    assert run("report", folder / "price.ebb", "-o", out, "--title", "Mine").stdout == f"{out}\n"
    assert "<h1>Mine</h1>" in out.read_text()
    run("report", folder / "price.ebb", "-o", out)
    assert "<h1>price: what the model learned</h1>" in out.read_text()

    def fills_the_disk(model, path, *, title, nodes):
        Path(path).write_text("<html>")
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("ebboost.cli.report.write_report", fills_the_disk)
    out.write_text("old")
    assert "No space left" in error_line("report", folder / "price.ebb", "-o", out)
    assert out.read_text() == "old" and [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_a_report_opens_in_a_browser_where_there_is_one(folder, tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr("webbrowser.open", lambda address: not shown.append(address))
    out = tmp_path / "mine & yours.html"
    assert run("report", folder / "price.ebb", "-o", out, "--open").stderr == ""
    assert shown == [out.as_uri()]
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    assert "no browser was found" in run("report", folder / "price.ebb", "-o", out, "--open").stderr


def test_inspect_shows_the_contents_without_loading_the_model(folder, monkeypatch):
    monkeypatch.setattr(eb, "load", None)
    facts = json.loads(run("inspect", folder / "kind.ebb", "--json").stdout)
    assert facts["classes"] == ["north", "south"] and facts["source"] == {
        "id": "id",
        "target": "kind",
    }
    assert (facts["n_nodes"], facts["has_table"], facts["columns"]) == (
        SIDE * SIDE,
        True,
        ["size", "rooms", "price"],
    )
    printed = run("inspect", folder / "price.ebb").stdout
    assert "EBBSRegressor" in printed and "share it only" in printed


def test_inspect_shows_versions_and_no_control_characters(folder, tmp_path):
    printed = run("inspect", folder / "price.ebb").stdout
    assert f"ebboost {eb.__version__}" in " ".join(printed.split()) and "threads" in printed
    model = eb.EBBSRegressor(2).fit(pd.DataFrame({"\x1b[31mred\x07": [0.0, 1.0]}), [0.0, 1.0])
    model.save(tmp_path / "m.ebb")
    printed = run("inspect", tmp_path / "m.ebb").stdout
    assert "[31mred" in printed and "\x07" not in printed and "\x1b" not in printed
