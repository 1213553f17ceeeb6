"""Cases of each part: one size is varied at a time."""

import os
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.speed.fits import DEFAULT, METHODS, OURS, PLAIN, RECIPE, ROUNDS, SAME, STOPPED
from benchmarks.speed.measuring import Case
from benchmarks.speed.problems import Problem

MIDDLE = Problem(20_000, 100_000)
LARGEST = 1_000_000
SWEEPS: dict[str, Sequence[int]] = {
    "nodes": (10_000, 30_000, 100_000, 300_000, LARGEST),
    "edges": (20_000, 100_000, 400_000, 2_000_000),
    "columns": (5, 20, 80, 320),
    "classes": (2, 4, 8, 16),
}
HOUSE = tuple(Problem(20_640, 182_000, columns, graph="nearest") for columns in (6, 12))
LONG, SHORT, FEW = 200, 50, 30  # rounds
PARTS = ("middle", *SWEEPS, "growth", "graphs", "house", "import")
BOTH = (PLAIN, OURS, SAME)
TO_THE_END = tuple(
    name for name in METHODS if name not in (DEFAULT, STOPPED)
)  # the same rounds for all


def cases(part: str, threads: int | None = None, quick: bool = False) -> list[Case]:
    """Return the cases of a part, grouped by problem.

    Parameters
    ----------
    threads : int, optional
        Default: one for some ten thousand nodes, all cores in the sweep up to a million.
    quick : bool, default=False
        A hundredth of the nodes, a tenth of the rounds, the two ends of every sweep.
    """
    sweeps = {name: (sizes[0], sizes[-1]) if quick else sizes for name, sizes in SWEEPS.items()}
    alone, all_threads = threads or 1, threads or cores()
    if part == "middle":
        planned = _of([MIDDLE], [PLAIN, OURS, SAME, ROUNDS, STOPPED, DEFAULT, RECIPE], LONG, alone)
    elif part == "nodes":
        planned = _of(
            [Problem(nodes, 5 * nodes) for nodes in sweeps[part]], METHODS, FEW, all_threads
        )
    elif (
        part == "growth"
    ):  # on one thread: what threads cost a small fit and save a large one would flatten it
        planned = _of([Problem(nodes, 5 * nodes) for nodes in sweeps["nodes"]], BOTH, FEW, alone)
    elif part in SWEEPS:
        sizes = [replace(MIDDLE, **{part: size}) for size in sweeps[part]]
        planned = _of(sizes, TO_THE_END, FEW if part == "classes" else SHORT, alone)
    elif part == "graphs":
        near = [
            replace(problem, graph="nearest") for problem in (MIDDLE, Problem(LARGEST, 5 * LARGEST))
        ]
        planned = _of([MIDDLE, near[0]], BOTH, LONG, alone)
        planned += _of([Problem(LARGEST, 5 * LARGEST), near[1]], BOTH, FEW, all_threads)
    elif part == "house":
        planned = _of(HOUSE, TO_THE_END, LONG, alone)
    else:
        planned = []
    return list(dict.fromkeys(smaller(case) for case in planned)) if quick else planned


def cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def smaller(case: Case) -> Case:
    """Return a case at a hundredth of its nodes and a tenth of its rounds."""
    p = case.problem
    small = replace(
        p,
        nodes=max(p.nodes // 100, 100),
        edges=max(p.edges // 100, 200),
        columns=min(p.columns, 40),
    )
    return replace(case, problem=small, rounds=case.rounds // 10)


def skipped(part: str) -> dict[str, str]:
    """Return the methods that cannot be run, and why."""
    names = {case.method for case in cases(part)}
    return {
        name: f"{method.missing()} not installed"
        for name, method in METHODS.items()
        if name in names and method.missing()
    }


def _of(sizes: Sequence[Problem], methods: Sequence[str], rounds: int, threads: int) -> list[Case]:
    planned = []
    for problem in sizes:
        for name in methods:
            method = METHODS[name]
            fits = problem.nodes <= method.largest and (method.classes or not problem.classes)
            if fits and (problem.graph == "nearest" or not method.places_only):
                planned.append(Case(problem, name, rounds, threads))
    return planned
