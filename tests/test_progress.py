"""What a fit shows while it runs: nothing if it is short, then a line or a bar."""

import io
import itertools
import re
from types import SimpleNamespace

import numpy as np
import pytest

import ebboost as eb
from ebboost.callbacks import Watch

rng = np.random.default_rng(0)
POINTS = rng.random((200, 2))
X = rng.normal(size=(200, 2))
Y = np.sin(5 * POINTS[:, 0]) + X[:, 0]


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


def shown(monkeypatch, stream, verbose, seconds, **settings):
    """Return what a fit writes."""
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(Watch, "silent_seconds", seconds)
    monkeypatch.setattr(Watch, "_has_explained", False)
    clock = itertools.count()  # a second from look to look
    monkeypatch.setattr("ebboost.callbacks.time", SimpleNamespace(monotonic=lambda: next(clock)))
    settings = {"n_jobs": 1, "random_state": 0, "n_folds": 3} | settings
    eb.EBBSRegressor(20, verbose=verbose, **settings).fit(X, Y, graph=eb.Graph.build_knn(POINTS))
    return stream.getvalue()


@pytest.mark.parametrize(("verbose", "seconds"), [(0, 1e6), (-1, 0.0)])
def test_nothing_is_shown_of_short_fits_and_with_minus_one(monkeypatch, verbose, seconds):
    assert shown(monkeypatch, io.StringIO(), verbose, seconds) == ""
    assert shown(monkeypatch, Terminal(), verbose, seconds) == ""


def test_a_long_fit_says_so_once_and_how_long_it_will_take(monkeypatch):
    text = shown(monkeypatch, io.StringIO(), 0, 50.0)
    assert text.count("\n") == 1
    assert "of 24 models" in text
    assert "minutes left" in text
    assert "verbose=-1" in text


def test_time_left_is_at_most_that_of_the_limit(monkeypatch):
    text = shown(monkeypatch, io.StringIO(), 0, 50.0, max_seconds=140.0)
    assert re.search(r"about \d\d s left", text)


def test_one_line_for_each_member(monkeypatch):
    lines = shown(monkeypatch, io.StringIO(), 1, 0.0).splitlines()
    assert [line.split(":")[0] for line in lines] == [f"{n} of 8" for n in range(1, 9)]
    assert all("RMSE" in line for line in lines)


def test_terminals_have_a_bar_that_is_removed_at_the_end(monkeypatch):
    text = shown(monkeypatch, Terminal(), 1, 0.0)
    assert "[" in text
    assert "about" in text
    assert not any("[" in line.split("\r")[-1] for line in text.split("\n"))
    bars = [part for part in text.split("\r") if part.startswith("[")]
    assert max(part.count("#") for part in bars) <= 20
