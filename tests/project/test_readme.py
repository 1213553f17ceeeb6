"""The Python blocks of the README run in order as one program, and its `make` commands work."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ebboost as eb

README = Path(__file__).parents[2] / "README.md"


def test_python_blocks_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert "validation loss of each candidate" in capsys.readouterr().out
    assert (tmp_path / "houses.ebb").exists()
    intervals = names["intervals"]
    assert (intervals.lower < intervals.upper).all()
    assert np.array_equal(intervals.prediction, names["predictions"])


def test_commands_are_those_of_the_command_line():
    commands = re.findall(r"^ebboost (\w+) \w+\.\w+", README.read_text(), flags=re.MULTILINE)
    listed = subprocess.run(
        [sys.executable, "-m", "ebboost", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert commands and all(re.search(rf"\b{command}\b", listed) for command in commands)


def test_links_lead_to_files():
    links = re.findall(r"\]\(([^):]+)\)", README.read_text())
    assert links and [link for link in links if not (README.parent / link).exists()] == []


def test_no_page_tells_to_install_from_a_registry():
    pages = [README, README.parent / "ARCHITECTURE.md", *README.parent.glob("docs/*.md")]
    pattern = re.compile(r"pip install [^\n`]*(?<![\w./])ebboost\b")
    assert [page.name for page in pages if pattern.search(page.read_text())] == []


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_demo_and_make_report_fit_a_model_and_open_a_report_with_a_map(tmp_path):
    def make(target):
        arguments = [f"RUN_DEMO={sys.executable}", f"DEMO={tmp_path}"]
        environment = {
            **os.environ,
            "BROWSER": "echo shown %s",
            "PYTHONPATH": str(README.parent / "src"),
        }
        process = subprocess.run(
            ["make", target, *arguments, "--assume-old=.venv-demo/.ready"],
            cwd=README.parent,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout

    rows = [
        float(line.split()[-4])
        for line in make("demo").splitlines()
        if line.startswith(("LightGBM", "the same"))
    ]
    assert rows[1] >= 0.86
    assert rows[1] > rows[0] + 0.04
    assert eb.load(tmp_path / "houses.ebb").n_iter_ > 1
    page = tmp_path / "houses-map.html"
    assert f"shown {page.as_uri()}" in make("report")
    assert "Lucas" in page.read_text()
    assert {"x", "y"} <= set(eb.load(tmp_path / "houses-map.ebb").feature_names_in_)
