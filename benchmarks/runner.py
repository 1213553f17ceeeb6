"""The runner: data set × method × split × configuration, each run in its own process.

What has ended is in the store and is not run again, so a runner that was killed goes on where it
stopped. A run that fails, runs out of time or takes its process down is written as failed, shown,
and does not stop the others.
"""

import multiprocessing
import os
import platform
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import metadata
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.display import Display
from benchmarks.methods import METHODS, Method
from benchmarks.problem import Outcome, Problem, quality
from benchmarks.store import Result, Run, Store, written

PACKAGES = (
    "ebboost",
    "numpy",
    "scipy",
    "scikit-learn",
    "lightgbm",
    "catboost",
    "xgboost",
    "xgboost-cpu",
    "gpboost",
)
PACKAGES += ("torch", "torch-geometric")
POLL = 0.5  # seconds


@dataclass(frozen=True)
class Plan:
    """What to run, and what was left out and why."""

    runs: list[Run]
    skipped: dict[str, str]


def plan(
    datasets: Sequence[str],
    methods: Sequence[str],
    splits: Sequence[int] | None = None,
    configurations: int | None = None,
) -> Plan:
    """List every run; ``configurations`` takes only so many of each grid, the default first."""
    runs, skipped = [], dict[str, str]()
    for unknown in set(methods) - set(METHODS):
        raise ValueError(f"There is no method {unknown!r}; there are: {', '.join(METHODS)}.")
    for method in (METHODS[name] for name in methods):
        if absent := method.missing():
            skipped[method.name] = f"{absent} not installed"
    for name in datasets:
        if why := data.missing(name.removesuffix("-rewired")):
            skipped[name] = why
            continue
        loaded = data.load(name)
        for method in (METHODS[name] for name in methods if name not in skipped):
            if method.needs_coordinates and (loaded.coordinates is None or loaded.classes):
                skipped[f"{method.name} on {name}"] = "needs coordinates and a number to predict"
                continue
            for split in range(len(loaded.splits)) if splits is None else splits:
                if not 0 <= split < len(loaded.splits):
                    skipped[f"split {split} of {name}"] = (
                        f"there are splits 0 to {len(loaded.splits) - 1}"
                    )
                    continue
                chosen = method.configurations(name)[:configurations]
                runs += [
                    Run(name, method.name, written(settings), split, split) for settings in chosen
                ]
    return Plan(runs, skipped)


def execute(run: Run, threads: int = 1) -> Result:
    """Do one run in this process and measure it."""
    loaded = data.load(run.dataset)
    problem = Problem.of(loaded, run.split, run.seed, threads)
    np.random.seed(run.seed)  # noqa: NPY002 -- libraries that draw from the global state
    start = time.perf_counter()
    outcome = METHODS[run.method](problem, **run.settings)
    seconds = time.perf_counter() - start
    _check(outcome, loaded)
    scores = {}
    for part in ("val", "test"):
        nodes = loaded.splits[run.split][part]
        scores[part] = quality(loaded.classes, outcome.predicted[nodes], loaded.y[nodes])
    notes = dict(outcome.notes)
    if outcome.interval is not None:
        test = loaded.splits[run.split]["test"]
        lower, upper = (end[test] for end in outcome.interval)
        notes["coverage"] = float(np.mean((lower <= loaded.y[test]) & (loaded.y[test] <= upper)))
    return Result(
        run,
        "done",
        "accuracy %" if loaded.classes else "RMSE",
        scores["val"],
        scores["test"],
        seconds,
        _memory(),
        outcome.device,
        notes,
        {part: _short(losses) for part, losses in outcome.curve.items()},
    )


def _check(outcome: Outcome, loaded: data.Data) -> None:
    shape = (len(loaded.y), int(loaded.y.max()) + 1) if loaded.classes else (len(loaded.y),)
    if outcome.predicted.shape != shape:
        raise ValueError(
            f"the method predicted an array of shape {outcome.predicted.shape} instead of {shape}"
        )
    if not np.isfinite(outcome.predicted).all():
        raise ValueError("the method predicted values that are not finite")


def _short(losses: Iterable[float]) -> list[float]:
    return [float(f"{loss:.5g}") for loss in losses]


def _memory() -> float | None:
    """Peak memory of this process in megabytes."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def versions() -> dict[str, str]:
    """Versions of everything that can change a result."""
    installed = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            installed[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return installed


# ---------------------------------------------------------------------- processes


@dataclass
class _Work:
    run: Run
    process: Any
    answer: Connection
    since: float = field(default_factory=time.monotonic)


def _child(run: Run, threads: int, answer: Connection) -> None:
    """Body of a process: do the run, send the result; die with the runner."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()
    try:
        result = execute(run, threads)
    except Exception:
        result = Result(run, "failed", error=traceback.format_exc(limit=-6))
    answer.send(result)
    answer.close()


def work(
    planned: Plan,
    store: Store,
    jobs: int = 1,
    threads: int = 1,
    limit: float | None = None,
    retry: bool = False,
    display: Display | None = None,
) -> int:
    """Do every run of a plan that the store lacks; return how many failed.

    Parameters
    ----------
    jobs : int
        Processes at once.
    threads : int
        Threads that a process may use.
    limit : float, optional
        Seconds after which a run is stopped.
    retry : bool
        Do runs again that failed before.
    """
    ended = store.ended(failed_too=not retry)
    waiting = [run for run in dict.fromkeys(planned.runs) if run not in ended]
    shown, installed = display or Display.fitting(), versions()
    context = _processes([METHODS[name] for name in {run.method for run in waiting}], threads)
    working: list[_Work] = []
    failures = 0
    shown.start(len(waiting), len(set(planned.runs)) - len(waiting), planned.skipped)
    try:
        while waiting or working:
            while waiting and len(working) < jobs:
                working.append(_started(context, waiting.pop(0), threads))
            shown.working([item.run for item in working])
            wait(
                [item.answer for item in working] + [item.process.sentinel for item in working],
                timeout=POLL,
            )
            for item in list(working):
                result = _answer(item, limit)
                if result is None:
                    continue
                working.remove(item)
                store.add(
                    replace(
                        result,
                        versions=installed,
                        finished=datetime.now(UTC).isoformat(timespec="seconds"),
                    )
                )
                failures += result.status == "failed"
                shown.ended(result)
    finally:
        for item in working:
            item.process.kill()
        shown.stop()
    return failures


def _processes(methods: Sequence[Method], threads: int) -> Any:
    """Return the context of processes: a fork server with all imports, if available."""
    os.environ.update(OMP_NUM_THREADS=str(threads), OMP_WAIT_POLICY="PASSIVE")
    on_gpu = os.path.exists("/dev/nvidia0") and any("torch" in method.needs for method in methods)
    if (
        on_gpu or "forkserver" not in multiprocessing.get_all_start_methods()
    ):  # CUDA cannot be used after a fork
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    modules = {f"benchmarks.methods.{method.fit.split(':')[0]}" for method in methods}
    context.set_forkserver_preload(
        ["benchmarks.runner", *modules, *{need for m in methods for need in m.needs}]
    )
    return context


def _started(context: Any, run: Run, threads: int) -> _Work:
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(run, threads, theirs), daemon=True)
    process.start()
    theirs.close()
    return _Work(run, process, ours)


def _answer(item: _Work, limit: float | None) -> Result | None:
    """Return the result of a process, a failure if it died or ran too long, None if it runs."""
    if item.answer.poll():
        try:
            result: Result = item.answer.recv()
        except EOFError:
            item.process.join()
            return Result(
                item.run,
                "failed",
                error=f"the process ended with exit code {item.process.exitcode}",
            )
        item.process.join()
        return result
    if limit is not None and time.monotonic() - item.since > limit:
        item.process.kill()
        item.process.join()
        return Result(item.run, "failed", error=f"the run was stopped after {limit:g} s")
    return None
