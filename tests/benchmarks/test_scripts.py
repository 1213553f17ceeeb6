"""Scripts that are run by hand start: their imports exist."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.uncertainty import alarms

HOME = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "script", ["robust", "kernels", "serving", "on_disk", "inputs", "densities"]
)
def test_every_module_starts(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [script, "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module(f"benchmarks.{script}", run_name="__main__")
    assert end.value.code == 0
    assert script in capsys.readouterr().out


def test_the_script_of_the_figures_starts():
    command = [sys.executable, "benchmarks/figures.py", "--help"]
    shown = subprocess.run(command, cwd=HOME, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert "figures" in shown.stdout


def test_false_alarms_are_counted(capsys):
    alarms(n_sets=1, n_nodes=120)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" {")[0] for line in lines] == ["numbers 1", "classes 1"]
    assert all("'any': 0" in line for line in lines)
