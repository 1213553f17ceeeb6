"""What a fit may cost, and what it was measured to cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

import numpy as np

from benchmarks.speed import plan
from benchmarks.speed.fits import OURS, PLAIN, RECIPE, ROUNDS, SAME
from benchmarks.speed.measuring import Measured
from benchmarks.speed.problems import Problem
from benchmarks.speed.store import Store

Row = dict[str, Measured]  # by method, all on one problem, of as many rounds and threads


@dataclass(frozen=True)
class Aim:
    """One row of the table; the first figure, with LightGBM's own trees, is compared."""

    what: str
    must: str
    measured: str
    met: bool


@dataclass(frozen=True)
class Results:
    """The runs of a store as the plan has them."""

    store: Store
    threads: int | None = None
    quick: bool = False

    def rows(self, part: str) -> list[Row]:
        """Return the runs of a part, problem by problem, with plain LightGBM among them."""
        known = [
            self.store.runs[case]
            for case in plan.cases(part, self.threads, self.quick)
            if case in self.store.runs
        ]
        rows = [
            {run.case.method: run for run in runs}
            for _, runs in groupby(known, lambda run: run.case.problem)
        ]
        return [row for row in rows if PLAIN in row]

    def exponent(self, method: str) -> float | None:
        """Return the slope of log time against log nodes on one thread, by least squares."""
        runs = [row[method] for row in self.rows("growth") if method in row]
        if len(runs) < 2:
            return None
        nodes, seconds = [run.case.problem.nodes for run in runs], [run.best for run in runs]
        return float(np.polyfit(np.log(nodes), np.log(seconds), 1)[0])

    def import_seconds(self, module: str) -> float | None:
        """Return the median of the times that an import took."""
        return median(self.store.imports[module]) if module in self.store.imports else None


def over(row: Row, method: str, below: str = PLAIN) -> float | None:
    """Return a method's time over another's."""
    return row[method].best / row[below].best if method in row and below in row else None


def memory(row: Row, method: str) -> float | None:
    """Return a method's peak memory over the input arrays."""
    return row[method].peak / row[method].inputs if method in row else None


def sized(problem: Problem) -> str:
    """Return a problem's size in words."""
    return (
        f"{spaced(problem.nodes)} nodes, {spaced(problem.edges)} edges, {problem.columns} columns"
    )


def spaced(count: int) -> str:
    """Return a number with its thousands apart."""
    return f"{count:,}".replace(",", "\u202f")


def aims(results: Results) -> list[Aim]:
    """Return every aim that there are runs for."""
    checks = list[Aim | None]()
    for row in results.rows("middle"):
        size = f"{sized(row[PLAIN].case.problem)}, {row[PLAIN].case.rounds} rounds"
        checks.append(
            _most(f"smoothing over plain LightGBM: {size}", 1.6, [over(row, SAME), over(row, OURS)])
        )
        checks.append(
            _most(
                "the default, choosing included, over plain LightGBM: the same",
                4.0,
                [over(row, ROUNDS)],
            )
        )
    for row in results.rows("nodes")[-1:]:
        size = f"{sized(row[PLAIN].case.problem)}, {row[PLAIN].case.rounds} rounds"
        checks.append(
            _most(f"smoothing over plain LightGBM: {size}", 2.5, [over(row, SAME), over(row, OURS)])
        )
    for row in results.rows("house"):
        size = f"nearest neighbours, {sized(row[PLAIN].case.problem)}"
        ours = [over(row, RECIPE, SAME), over(row, RECIPE, OURS)]
        checks.append(_most(f"the published recipe over smoothing: {size}", 25.0, ours, least=True))
    grown = [results.exponent(name) for name in (SAME, OURS)]
    checks.append(
        _most(
            "growth of time with nodes on one thread, exponent", 1.1, grown, results.exponent(PLAIN)
        )
    )
    for row in results.rows("nodes")[-1:]:
        size = f"{spaced(row[PLAIN].case.problem.nodes)} nodes"
        held = [memory(row, name) for name in (SAME, OURS)]
        checks.append(
            _most(
                f"peak memory of smoothing over the input arrays: {size}",
                2.5,
                held,
                memory(row, PLAIN),
            )
        )
        checks.append(
            _most(
                "peak memory of the default, choosing included: the same",
                2.5,
                [memory(row, ROUNDS)],
            )
        )
    spent = [results.import_seconds(module) for module in ("ebboost", "sklearn")]
    if None not in spent:
        checks.append(
            _most(
                "seconds that `import ebboost` takes beyond scikit-learn's",
                0.6,
                [spent[0] - spent[1]],
            )
        )
    return [aim for aim in checks if aim is not None]


def _most(
    what: str,
    limit: float,
    measured: Sequence[float | None],
    plain: float | None = None,
    least: bool = False,
) -> Aim | None:
    known = [figure for figure in measured if figure is not None]
    if not known:
        return None
    others = [f"{figure:.3g}" for figure in known[1:]] + (
        [f"plain {plain:.3g}"] if plain is not None else []
    )
    shown = f"{known[0]:.3g}" + (f" ({', '.join(others)})" if others else "")
    met = known[0] >= limit if least else known[0] <= limit
    return Aim(what, f"{'≥' if least else '≤'} {limit:g}", shown, met)
