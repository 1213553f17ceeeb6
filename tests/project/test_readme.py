"""The Python blocks and the commands of the README work, in order."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from ebboost.cli.app import app

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()


def run(command):
    words = command.split()
    assert words[0] == "ebboost"
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, words[1:], prog_name="ebboost")
    assert result.exit_code == 0, result.output
    return result.output


def write_houses():
    random = np.random.default_rng(0)
    houses = pd.DataFrame({"lon": random.uniform(8, 9, 300), "lat": random.uniform(50, 51, 300)})
    houses["rooms"] = random.integers(1, 7, 300)
    houses.iloc[250:].to_csv("new_houses.csv", index=False)
    price = 50.0 * houses["rooms"] + 100.0 * np.sin(5.0 * houses["lon"])
    houses.assign(price=price).iloc[:250].to_csv("houses.csv", index=False)


def test_python_blocks_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run("ebboost demo --files counties")
    write_houses()
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert "without the graph" in capsys.readouterr().out
    assert names["nodes"]["prediction"].notna().all()
    assert (names["nodes"]["lower"] < names["nodes"]["upper"]).all()
    assert len(names["price"]) == 50 and (names["low"] < names["high"]).all()
    np.testing.assert_array_equal(names["same"], names["price"])


def test_commands_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("ebboost demo --files counties")
    commands = re.findall(r"^(ebboost (?:fit|predict|report) .*)$", TEXT, flags=re.MULTILINE)
    assert [command.split()[1] for command in commands] == ["fit", "predict", "report"]
    for command in commands:
        run(command.replace(" --open", ""))
    assert len(pd.read_csv("predictions.csv")) == 1243
    assert "pc_turnout" in Path("model.html").read_text()


def test_it_is_short_and_names_its_two_commands():
    text = [line for line in TEXT.splitlines() if not line.startswith("|")]  # without the table
    assert len(" ".join(text).split()) <= 650
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    named = re.findall(r"\bmake (\w+)", TEXT)
    assert {"demo", "test"} <= set(named) <= set(targets)
