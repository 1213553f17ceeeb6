"""Releases: one version, workflows that call make only, and a build that needs no compiler."""

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
    assert f"## {eb.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_workflows_run_targets_of_make_only():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z0-9.-]+%?):", makefile, flags=re.MULTILINE))
    lines = [line for file in WORKFLOWS for line in re.findall(r"run: *(.*)", file.read_text())]
    assert len(lines) >= 8
    for line in lines:
        target = re.fullmatch(r"make (\S+|test-\$\{\{ matrix\.version \}\})( PYTHON=python)?", line)
        name = "test-3.%" if "matrix.version" in line else target and target[1]
        assert name in targets or line == "make ${{ matrix.target }}", line


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
