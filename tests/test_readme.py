"""Every Python block of the README runs, in order, as one program."""

import re
from pathlib import Path

import numpy as np

README = Path(__file__).parents[1] / "README.md"


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


def test_demo_prints_the_gain(capsys):
    from ebbflow.demo import main

    main()
    printed = capsys.readouterr().out
    found = [float(line.split()[-4]) for line in printed.splitlines() if line.startswith(("LightGBM", "the same"))]
    assert found[1] >= 0.86
    assert found[1] > found[0] + 0.04
