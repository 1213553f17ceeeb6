"""Progress of the runner: a live bar in a terminal with rich, otherwise a line for each run."""

import sys
import time
from collections.abc import Mapping, Sequence

from benchmarks.store import Result, Run


class Display:
    """Plain lines, one for each run that ended."""

    @classmethod
    def fitting(cls) -> "Display":
        """Return the best display that this terminal can show."""
        if sys.stderr.isatty():
            try:
                return LiveDisplay()
            except ImportError:
                pass
        return cls()

    def start(self, n_runs: int, n_ended: int, skipped: Mapping[str, str]) -> None:
        """Say what is to be done."""
        self._n_runs, self._done, self._since = n_runs, 0, time.monotonic()
        for name, why in skipped.items():
            self.say(f"skipped {name}: {why}")
        self.say(f"{n_runs} runs to do, {n_ended} done before")

    def working(self, runs: Sequence[Run]) -> None:
        """Show what is being run."""

    def ended(self, result: Result) -> None:
        """Show a run that ended."""
        self._done += 1
        left = (time.monotonic() - self._since) / self._done * (self._n_runs - self._done)
        self.say(f"[{self._done}/{self._n_runs}, {left:.0f} s left] {line(result)}")

    def stop(self) -> None:
        """Take the display down."""

    def say(self, text: str) -> None:
        """Write a line."""
        print(text, file=sys.stderr, flush=True)


class LiveDisplay(Display):
    """A bar with the time left and the runs at work, failures above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )
        from rich.progress import TimeRemainingColumn as Remaining

        columns = (
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            Remaining(),
            TextColumn("{task.description}"),
        )
        self._bar = Progress(*columns, console=Console(stderr=True))

    def start(self, n_runs: int, n_ended: int, skipped: Mapping[str, str]) -> None:
        """Raise the bar."""
        self._bar.start()
        self._task = self._bar.add_task("", total=n_runs)
        super().start(n_runs, n_ended, skipped)

    def working(self, runs: Sequence[Run]) -> None:
        """Name the runs at work beside the bar."""
        self._bar.update(self._task, description=" | ".join(map(str, runs)))

    def ended(self, result: Result) -> None:
        """Move the bar."""
        self._bar.advance(self._task)
        self.say(line(result))

    def stop(self) -> None:
        """Take the bar down."""
        self._bar.stop()

    def say(self, text: str) -> None:
        """Write a line above the bar."""
        self._bar.console.print(text, markup=False, highlight=False)


def line(result: Result) -> str:
    """Return one line on a run."""
    if result.status == "failed":
        return f"FAILED {result.run}: {result.error.strip().splitlines()[-1]}"
    cost = f"{result.seconds:.1f} s" + (f", {result.memory_mb:.0f} MB" if result.memory_mb else "")
    scores = f"{result.test:.5g} (validation {result.validation:.5g})"
    return f"{result.run}: {result.measure} {scores}, {cost}"
