"""Seconds of a fit in its own process, and its peak memory above the inputs."""

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.speed import problems
from benchmarks.speed.problems import Problem

# All methods are timed as often on a problem, three times on a small one, but those that take ten
# times as long as ours.
FITS, SMALL, ENOUGH = 3, 100_000, 10.0
HOME = Path(__file__).parents[2]


@dataclass(frozen=True)
class Case:
    """What is measured."""

    problem: Problem
    method: str
    rounds: int
    threads: int

    @classmethod
    def of(cls, fields: dict[str, Any]) -> "Case":
        """Read what :func:`dataclasses.asdict` wrote."""
        return cls(**fields | {"problem": Problem(**fields["problem"])})

    def __str__(self) -> str:
        p = self.problem
        kind = f", {p.classes} classes" if p.classes else ""
        size = f"{p.nodes:,} nodes, {p.edges:,} {p.graph} edges, {p.columns} columns{kind}"
        return f"{size}, {self.rounds} rounds, {self.threads} threads: {self.method}"


@dataclass(frozen=True)
class Measured:
    """Measurements of one case.

    Attributes
    ----------
    seconds : list of float
        Of every fit; for a fit of a share of the rounds, scaled up.
    peak, inputs : int
        Bytes that memory rose by during the first fit, and bytes of the input arrays.
    rounds : int
        Rounds, or epochs, that were run.
    """

    case: Case
    seconds: list[float]
    peak: int
    inputs: int
    rounds: int

    @property
    def best(self) -> float:
        """The least disturbed fit."""
        return min(self.seconds)

    def with_more(self, other: "Measured") -> "Measured":
        """Return both measurements of a case as one."""
        return Measured(
            self.case,
            self.seconds + other.seconds,
            max(self.peak, other.peak),
            self.inputs,
            self.rounds,
        )


def measure(case: Case, scratch: Path) -> Measured:
    """Run a case in a process of its own."""
    folder = problems.make(case.problem, scratch)
    ours, theirs = _context().Pipe(duplex=False)
    process = _context().Process(target=_child, args=(case, folder, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        outcome = ours.recv()
    except EOFError:  # it was taken down, for want of memory perhaps
        process.join()
        outcome = f"ended with status {process.exitcode}"
    process.join()
    if isinstance(outcome, str):
        raise RuntimeError(f"{case} failed: {outcome}")
    return Measured(case, **outcome)


@cache
def _context() -> Any:
    """Return the context of new processes: in forked ones ebboost would use one thread."""
    # Threads that wait by spinning slow each other down on a busy machine.
    os.environ.update(OMP_WAIT_POLICY="PASSIVE", OPENBLAS_NUM_THREADS="1")
    return multiprocessing.get_context("spawn")


def import_seconds(modules: Sequence[str], repeats: int) -> dict[str, list[float]]:
    """Seconds to import a module in a new interpreter, less those of an empty one."""
    for module in modules:
        _started(f"import {module}")  # fills the caches of files
    durations: dict[str, list[float]] = {module: [] for module in modules}
    for _ in range(repeats):
        nothing = _started("pass")
        for module, seconds in durations.items():
            seconds.append(_started(f"import {module}") - nothing)
    return durations


def _started(program: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, cwd=HOME)
    return time.perf_counter() - start


# ---------------------------------------------------------------------- in the process of its own


def _child(case: Case, folder: Path, answer: Connection) -> None:
    try:
        answer.send(measured_here(case, folder))
    except Exception as error:
        answer.send(f"{type(error).__name__}: {error}")


def measured_here(case: Case, folder: Path) -> dict[str, Any]:
    """Fit, and fit again if that was quick."""
    from benchmarks.speed.fits import METHODS

    method, inputs = METHODS[case.method], problems.load(case.problem, folder)
    for module in (
        "lightgbm",
        *method.needs,
    ):  # libraries are neither the fit's time nor its memory
        import_module(module)
    before = _reset_peak()
    peak, fits = 0, list[tuple[float, int]]()
    for _ in _while_quick(FITS if case.problem.nodes <= SMALL else 1):
        start = time.perf_counter()
        fitted = method.fit(inputs, case.rounds, case.threads)
        fits.append(((time.perf_counter() - start) / fitted.share, fitted.rounds))
        peak = peak or _peak() - before
    return {
        "seconds": [seconds for seconds, _ in fits],
        "peak": peak,
        "inputs": inputs.size,
        "rounds": fits[0][1],
    }


def _while_quick(most: int) -> Iterator[None]:
    start = time.perf_counter()
    for _ in range(most):
        yield
        if time.perf_counter() - start > ENOUGH:
            return


def _reset_peak() -> int:
    """Reset the peak memory to the current one, if possible; return it in bytes."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    """Return the peak memory of this process in bytes; ru_maxrss may be the parent's."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        import resource  # not to be had on Windows

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
