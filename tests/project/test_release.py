"""Releases: one version, workflows that call make, and a build that needs no compiler."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import ebboost as eb

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_the_version_is_written_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/ebboost/__init__.py"
    newest = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[0]
    assert newest == eb.__version__


def test_workflows_run_targets_of_make():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    for file in WORKFLOWS:
        text = file.read_text()
        matrix = re.search(r"target: \[(.*)\]", text)
        named = matrix[1].split(", ") if matrix else []
        lines = re.findall(r"run: *(.*)", text)
        own = [line for line in lines if not line.startswith(("pip install ", "nox "))]
        named += [line.removeprefix("make ") for line in own]
        assert set(named) - {"${{ matrix.target }}"} <= targets, file.name


@pytest.mark.parametrize(
    ("target", "expected"), [("pure", "-py3-none-any.whl"), ("pdp11-unix", "Zig cannot compile")]
)
def test_wheels_are_built_for_the_target_or_not_at_all(target, expected, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"EBBOOST_TARGET": target, "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert expected in done.stdout + done.stderr
    assert len(list(tmp_path.glob("*.whl"))) == (target == "pure")
