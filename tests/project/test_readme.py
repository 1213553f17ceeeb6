"""The Python blocks of the README run in order as one program, and its `make` commands work."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import ebboost as eb
from tests.cli.commands import few_houses, run

README = Path(__file__).parents[2] / "README.md"
# `make test-docs` fits all houses, the other tests some of them.
SLOW = "EBBOOST_SLOW_TESTS" in os.environ


def test_python_blocks_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if not SLOW:
        houses = few_houses()
        monkeypatch.setattr(eb.datasets, "load_lucas", lambda: houses)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert "loss at labels that were not trained on" in capsys.readouterr().out
    assert (tmp_path / "houses.ebb").exists()
    intervals = names["intervals"]
    assert (intervals.lower < intervals.upper).all()
    assert np.array_equal(intervals.prediction, names["predictions"])


def test_commands_are_those_of_the_command_line():
    commands = re.findall(r"^ebboost (\w+) \w+\.\w+", README.read_text(), flags=re.MULTILINE)
    listed = run("--help").stdout
    assert commands and all(re.search(rf"\b{command}\b", listed) for command in commands)


def test_links_lead_to_files():
    links = re.findall(r"\]\(([^):]+)\)", README.read_text())
    assert links and [link for link in links if not (README.parent / link).exists()] == []


def test_no_page_tells_to_install_from_a_registry():
    pages = [README, README.parent / "ARCHITECTURE.md", *README.parent.glob("docs/*.md")]
    pattern = re.compile(r"pip install [^\n`]*(?<![\w./])ebboost\b")
    assert [page.name for page in pages if pattern.search(page.read_text())] == []


def make(target, folder, *options):
    """What a target prints; its files are in a folder, its environment is the one of the tests."""
    installed = [f"--assume-old=.venv-demo/{file}" for file in (".ready", ".report-ready")]
    settings = [f"RUN_DEMO={sys.executable}", f"DEMO={folder}", *installed]
    process = subprocess.run(
        ["make", target, *settings, *options],
        cwd=README.parent,
        env={**os.environ, "BROWSER": "echo shown %s", "PYTHONPATH": str(README.parent / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_demo_compares_without_and_with_the_graph(tmp_path):
    if not SLOW:
        command = f"-m ebboost demo --output {tmp_path / 'houses.ebb'}"
        assert command in make("demo", tmp_path, "--dry-run")
        return
    rows = [
        float(line.split()[-4])
        for line in make("demo", tmp_path).splitlines()
        if line.startswith(("LightGBM", "the same"))
    ]
    assert rows[1] >= 0.86
    assert rows[1] > rows[0] + 0.04
    assert eb.load(tmp_path / "houses.ebb").n_iter_ > 1


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_report_opens_a_report_with_a_map(tmp_path, monkeypatch):
    path = tmp_path / "houses-map.ebb"
    cheap = partial(eb.EBBSRegressor, 20, smoothing=None, labels="none")
    monkeypatch.setattr(eb, "EBBSRegressor", cheap)
    runpy.run_path(str(README.parent / "tools" / "fit_lucas.py"))["main"](str(path))
    page = path.with_suffix(".html")
    assert f"shown {page.as_uri()}" in make("report", tmp_path)  # make does not fit it again
    assert "Lucas" in page.read_text()
    assert {"x", "y"} <= set(eb.load(path).feature_names_in_)
