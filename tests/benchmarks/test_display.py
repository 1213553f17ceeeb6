"""What a runner shows."""

import io

import pytest

from benchmarks.display import Display, LiveDisplay, line
from benchmarks.store import Result, Run, written

RUN = Run("county", "CatBoost", written({"depth": 6}), 2, 2)
DONE = Result(RUN, "done", "RMSE", 1.25, 1.5, seconds=2.0, memory_mb=100.0)
FAILED = Result(RUN, "failed", error="Traceback\nValueError: no luck [at all]")


def test_a_line_shows_run_scores_and_cost():
    assert (
        line(DONE) == "county CatBoost split 2 depth=6: RMSE 1.5 (validation 1.25), 2.0 s, 100 MB"
    )
    assert line(FAILED) == "FAILED county CatBoost split 2 depth=6: ValueError: no luck [at all]"


def shown(display):
    display.start(2, 1, {"GAT": "torch not installed"})
    display.working([RUN])
    display.ended(DONE)
    display.ended(FAILED)
    display.stop()


def test_plain_lines_go_to_standard_error(capsys):
    shown(Display.fitting())  # not a terminal
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["skipped GAT: torch not installed", "2 runs to do, 1 done before"]
    assert [text.split(",")[0] for text in lines[2:]] == ["[1/2", "[2/2"] and lines[3].endswith(
        "no luck [at all]"
    )


def test_the_live_display_shows_the_bar_and_the_same_lines(monkeypatch):
    console = pytest.importorskip("rich.console")
    out, real = io.StringIO(), console.Console
    monkeypatch.setattr(
        console, "Console", lambda **_: real(file=out, force_terminal=True, width=200)
    )
    shown(LiveDisplay())
    assert (
        "2/2" in out.getvalue() and line(DONE) in out.getvalue() and line(FAILED) in out.getvalue()
    )
