"""Scripts that are run by hand start: their imports exist."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ebboost as eb
from benchmarks.by_hand import error, neighbors_labels
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


def test_labels_of_neighbours_leave_out_the_own_one():
    graph = eb.Graph.from_edges([0, 0, 1], [1, 2, 2], n_nodes=4)
    y = np.array([1.0, 2.0, 6.0, 9.0])
    mean, weight = neighbors_labels(graph, np.array([0, 1]), y).T
    np.testing.assert_array_equal(mean, [2.0, 1.0, 1.5, np.nan])
    np.testing.assert_array_equal(weight, [1.0, 1.0, 2.0, 0.0])
    shares = neighbors_labels(graph, np.array([0, 1]), np.array([0, 1, 1, 0]))
    np.testing.assert_array_equal(shares[:3], [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.5, 0.5, 2.0]])


def test_the_error_of_classes_is_their_log_loss():
    assert error(np.array([[0.5, 0.5], [0.25, 0.75]]), np.array([0, 1])) == pytest.approx(
        -(np.log(0.5) + np.log(0.75)) / 2
    )
    assert error(np.array([1.0, 3.0]), np.array([1.0, 1.0])) == pytest.approx(np.sqrt(2.0))


def test_false_alarms_are_counted(capsys):
    alarms(n_sets=1, n_nodes=120)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" {")[0] for line in lines] == ["numbers 1", "classes 1"]
    assert all("'any': 0" in line for line in lines)
