"""Speed: every part runs in small, and the table says what the raw numbers say."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.speed import fits, measuring, plan, problems
from benchmarks.speed.__main__ import main
from benchmarks.speed.aims import Results, aims
from benchmarks.speed.fits import METHODS, OURS, PLAIN, RECIPE, ROUNDS, SAME
from benchmarks.speed.measuring import Case, Measured
from benchmarks.speed.problems import Problem
from benchmarks.speed.store import Store

TINY = Problem(120, 400, 3)


def invented(case, seconds):
    return Measured(case, [seconds, 2 * seconds], peak=300, inputs=100, rounds=case.rounds)


def measure_here(case, scratch):
    """Measure in this process, which has its memory already."""
    outcome = measuring.measured_here(case, problems.make(case.problem, scratch))
    return Measured(case, **outcome | {"peak": outcome["inputs"]})


def test_every_part_runs_in_small_and_is_reported(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(measuring, "FITS", 1)
    monkeypatch.setattr("benchmarks.speed.__main__.measure", measure_here)
    imports = {"sklearn": [0.5], "sklearn.ensemble": [0.7], "ebboost": [1.0]}
    monkeypatch.setattr("benchmarks.speed.__main__.import_seconds", lambda *_: imports)
    assert main(["--quick", "--out", str(tmp_path), "--methods", PLAIN, SAME]) == 0
    text = (tmp_path / "speed.md").read_text()
    for title in (
        "Nodes",
        "Edges",
        "Columns",
        "Classes",
        "Random edges",
        "As large as House",
        "Imports",
    ):
        assert f"## {title}" in text
    for name in ("nodes", "edges", "columns", "classes", "graphs", "house"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    stored = json.loads((tmp_path / "speed.json").read_text())
    assert all(min(run["seconds"]) > 0 for run in stored["runs"])
    assert "exponent" in capsys.readouterr().out

    monkeypatch.setattr("benchmarks.speed.report.write", lambda *_: [])
    before = (tmp_path / "speed.json").read_text()
    assert main(["--quick", "--out", str(tmp_path), "--methods", PLAIN, SAME, "--resume"]) == 0
    assert (tmp_path / "speed.json").read_text() == before


@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_fits(tmp_path, name, classes):
    method, problem = METHODS[name], replace(TINY, graph="nearest", classes=classes)
    if missing := method.missing():
        pytest.skip(f"{missing} not installed")
    if classes and not method.classes:
        pytest.skip("for numbers only")
    inputs = problems.load(problem, problems.make(problem, tmp_path))
    fitted = method.fit(inputs, 20, 1)
    assert fitted.rounds >= 1 and 0 < fitted.share <= 1


def test_imports_are_timed_in_new_interpreters(monkeypatch):
    assert measuring._started("pass") > 0.0
    seconds = {"pass": 1.0, "import numpy": 3.0}
    monkeypatch.setattr(measuring, "_started", seconds.__getitem__)
    assert measuring.import_seconds(("numpy",), 2) == {"numpy": [2.0, 2.0]}


def test_a_failing_fit_raises_with_its_error(tmp_path):
    with pytest.raises(RuntimeError, match="failed"):
        measuring.measure(Case(TINY, "no such method", 1, 1), tmp_path)


def test_memory_is_measured_above_the_inputs(tmp_path, monkeypatch):
    def greedy(inputs, rounds, threads):
        np.ones(4_000_000)  # 32 MB
        return fits.Fitted(rounds)

    monkeypatch.setitem(METHODS, "greedy", fits.Method(greedy))
    problem = replace(TINY, nodes=20_000, edges=60_000)
    folder = problems.make(problem, tmp_path)
    measured = measuring.measured_here(Case(problem, "greedy", 1, 1), folder)
    assert 30e6 < measured["peak"] < 40e6
    assert measured["inputs"] > 20_000 * (3 + 1) * 8


def test_targets_are_compared_with_the_minimum_times(tmp_path):
    factors = {PLAIN: 1.0, SAME: 1.5, OURS: 1.2, ROUNDS: 5.0, RECIPE: 45.0}
    store = Store(
        tmp_path / "speed.json", imports={"sklearn": [0.5, 0.6, 9.0], "ebboost": [1.0, 1.1, 9.5]}
    )
    for part in ("middle", "nodes", "growth", "house"):
        for case in plan.cases(part):
            if case.method in factors:
                store.runs[case] = invented(
                    case, factors[case.method] * (case.problem.nodes / 1e4) ** 1.05
                )
    checks = aims(Results(store))
    assert [aim.met for aim in checks] == [True, False, True, True, True, True, False, False, True]
    assert [aim.measured for aim in checks[:2]] == ["1.5 (1.2)", "5"]
    assert checks[3].measured == "30 (37.5)"
    assert checks[5].measured == "1.05 (1.05, plain 1.05)"
    assert checks[8].measured == "0.5"

    store.write()
    again = Store.at(store.path)
    assert again.runs == store.runs and again.imports == store.imports


def test_nearest_neighbour_graphs_have_about_the_requested_number_of_edges(tmp_path):
    for house in plan.HOUSE[:1]:
        inputs = problems.load(house, problems.make(house, tmp_path))
        assert abs(inputs.graph.n_edges / house.edges - 1) < 0.05


def test_unknown_parts_and_methods_raise_with_their_name(capsys):
    assert main(["nodes", "speling"]) == 2
    assert "there is no part 'speling'" in capsys.readouterr().err
    assert main(["--methods", "speling"]) == 2
    assert "there is no method 'speling'" in capsys.readouterr().err


def test_one_size_is_printed_and_not_stored(tmp_path, capsys):
    size = ["--nodes", "200", "--edges", "600", "--columns", "3", "--rounds", "10"]
    assert main([*size, "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "over plain" in shown and RECIPE in shown
    assert list(tmp_path.iterdir()) == []


def test_the_default_is_compared_with_lightgbm_on_a_data_set(home, capsys):
    assert main(["--default", "slap"]) == 0
    seconds = re.search(r"slap +\S+ +(\d+\.\d+)", capsys.readouterr().out)
    assert seconds is not None and float(seconds[1]) > 0


def test_missing_data_sets_are_named_in_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("EBBOOST_DATA", str(tmp_path))
    assert main(["--default", "house"]) == 2
    assert "house is not there" in capsys.readouterr().err
