"""Every Python block of the README runs, in order, as one program; and its two commands do what it says."""

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


def test_readme_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 4
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert "chosen by" in capsys.readouterr().out
    assert (tmp_path / "houses.ebb").exists()
    low, high = names["low"], names["high"]
    assert isinstance(low, np.ndarray) and isinstance(high, np.ndarray) and (low < high).all()


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_two_commands_lead_from_a_clone_to_a_model_and_an_open_report(tmp_path):
    def make(target):
        words = [
            "make",
            target,
            f"RUN={sys.executable}",
            f"DEMO={tmp_path}",
            "--assume-old=.venv/.ready",
        ]
        environment = {
            **os.environ,
            "BROWSER": "echo shown %s",
            "PYTHONPATH": str(README.parent / "src"),
        }
        done = subprocess.run(
            words, cwd=README.parent, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    printed = make("demo")
    found = [
        float(line.split()[-4])
        for line in printed.splitlines()
        if line.startswith(("LightGBM", "the same"))
    ]
    assert found[1] >= 0.86
    assert found[1] > found[0] + 0.04
    opened = make("report")
    assert "demo" not in opened.split("--title")[0].split()  # the model was there already
    assert f"shown {(tmp_path / 'houses.html').as_uri()}" in opened
    assert (
        eb.load(tmp_path / "houses.ebb").n_iter_ > 1
        and "Lucas" in (tmp_path / "houses.html").read_text()
    )
