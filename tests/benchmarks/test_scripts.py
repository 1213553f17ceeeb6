"""Scripts that are run by hand start: their imports exist."""

import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "script", ["robust", "kernels", "speed", "figures", "serving", "on_disk", "inputs"]
)
def test_every_script_starts(script):
    command = ["-m", f"benchmarks.{script}"] if script != "figures" else [f"benchmarks/{script}.py"]
    shown = subprocess.run(
        [sys.executable, *command, "--help"], cwd=HOME, capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    assert script in shown.stdout
