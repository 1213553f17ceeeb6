"""Tables from the store: the test score of the configuration with the best validation score.

A :class:`Table` knows how to write itself as Markdown, HTML and LaTeX.
"""

import html
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from benchmarks.data import names
from benchmarks.methods import METHODS
from benchmarks.published import PUBLISHED, REMARKS
from benchmarks.store import Result

REFERENCE = "EBBS"
NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """Cells of text; a cell between ** is the best of its column."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def markdown(self) -> str:
        """Return the table with its title as a section."""
        lines = [f"| {' | '.join(self.header)} |", "|" + "---|" * len(self.header)]
        lines += [f"| {' | '.join(row)} |" for row in self.rows]
        return (
            f"## {self.title}\n\n"
            + "\n".join(lines)
            + (f"\n\n{self.note}\n" if self.note else "\n")
        )

    def html(self) -> str:
        """Return the table as HTML."""
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in self.header)
        cells = [[_bold(html.escape(cell), "<b>", "</b>") for cell in row] for row in self.rows]
        body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>\n" for row in cells)
        note = f"<p>{html.escape(self.note)}</p>" if self.note else ""
        table = f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
        return f"<h2>{html.escape(self.title)}</h2>\n{table}{note}"

    def latex(self) -> str:
        """Return the table as LaTeX (booktabs)."""
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\begin{{tabular}}{{l{'r' * (len(self.header) - 1)}}}",
            r"\toprule",
        ]
        lines += [" & ".join(map(_tex, self.header)) + r" \\", r"\midrule"]
        lines += [" & ".join(map(_tex, row)) + r" \\" for row in self.rows]
        caption = _tex(f"{self.title}. {self.note}".strip())
        lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}", r"\end{table}"]
        return "\n".join(lines) + "\n"


def _bold(cell: str, before: str, after: str) -> str:
    return f"{before}{cell[2:-2]}{after}" if cell.startswith("**") and cell.endswith("**") else cell


def _tex(cell: str) -> str:
    for plain, written in (
        ("\\", r"\textbackslash "),
        ("%", r"\%"),
        ("_", r"\_"),
        ("&", r"\&"),
        ("#", r"\#"),
    ):
        cell = cell.replace(plain, written)
    cell = _bold(cell, r"\textbf{", "}")
    for plain, written in (
        ("±", r"$\pm$"),
        ("−", "$-$"),
        ("–", "--"),
        ("×", r"$\times$"),
        ("λ", r"$\lambda$"),
    ):
        cell = cell.replace(plain, written)
    return cell


# ---------------------------------------------------------------------- what counts


@dataclass(frozen=True)
class Score:
    """A method on a data set: the chosen run of each split."""

    dataset: str
    method: str
    runs: dict[int, Result]
    tried: int  # configurations of a split
    total_seconds: float  # of all of them, per split

    @property
    def classes(self) -> bool:
        """Whether more is better."""
        return self.measure != "RMSE"

    @property
    def measure(self) -> str:
        """RMSE or accuracy."""
        return next(iter(self.runs.values())).measure

    @property
    def test(self) -> np.ndarray:
        """Test scores by split."""
        return np.array([self.runs[split].test for split in sorted(self.runs)])

    @property
    def mean(self) -> float:
        """Mean over the splits."""
        return float(self.test.mean())

    @property
    def std(self) -> float:
        """Standard deviation over the splits."""
        return float(self.test.std(ddof=1)) if len(self.runs) > 1 else float("nan")

    @property
    def standard_error(self) -> float:
        """Standard error of the mean."""
        return self.std / float(np.sqrt(len(self.runs)))


def scores(results: Iterable[Result]) -> dict[tuple[str, str], Score]:
    """Choose a configuration for each split by its validation score, for methods in tables."""
    by_split: dict[tuple[str, str], dict[int, list[Result]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for result in results:
        if (
            result.status == "done"
            and result.run.method in METHODS
            and METHODS[result.run.method].in_tables
        ):
            by_split[result.run.dataset, result.run.method][result.run.split].append(result)
    by_method = {}
    for dataset in sorted({dataset for dataset, _ in by_split}, key=_rank):
        for method in METHODS:
            if runs := by_split.get((dataset, method)):
                chosen = {split: best(tried) for split, tried in sorted(runs.items())}
                spent = sum(
                    result.seconds or 0.0 for tried in runs.values() for result in tried
                ) / len(runs)
                by_method[dataset, method] = Score(
                    dataset, method, chosen, min(map(len, runs.values())), spent
                )
    return by_method


def best(tried: Sequence[Result]) -> Result:
    """Return the run with the best validation score."""
    sign = 1.0 if tried[0].measure == "RMSE" else -1.0
    return min(tried, key=lambda result: sign * (result.validation or 0.0))


def _rank(dataset: str) -> tuple[int, str]:
    order, plain = names(), dataset.removesuffix("-rewired")
    return (order.index(plain) if plain in order else len(order), dataset)


def number(value: float | None) -> str:
    """Return a score with four digits that count; more than that is noise."""
    if value is None or not np.isfinite(value):
        return NOTHING
    return f"{value:#.4g}".rstrip(".") if abs(value) < 1000 else f"{value:.0f}"


def _signed(difference: float, score: float) -> str:
    """Return a difference with as many decimals as ``score``."""
    decimals = len(number(score).partition(".")[2])
    return f"{difference:+.{decimals}f}".replace("-", "−")


# ---------------------------------------------------------------------- the tables


def overview(scores: dict[tuple[str, str], Score]) -> Table:
    """Return one row a method, one column a data set."""
    datasets = list(dict.fromkeys(dataset for dataset, _ in scores))
    shown = [
        method for method in METHODS if any((dataset, method) in scores for dataset in datasets)
    ]
    leaders = {dataset: _leader(scores, dataset, shown) for dataset in datasets}
    most = {
        dataset: max(len(score.runs) for (d, _), score in scores.items() if d == dataset)
        for dataset in datasets
    }
    rows = []
    for method in shown:
        cells = [method]
        for dataset in datasets:
            score = scores.get((dataset, method))
            if score is None:
                cells.append(NOTHING)
                continue
            text = number(score.mean) + (f" ± {score.std:.2g}" if np.isfinite(score.std) else "")
            text += f" ({len(score.runs)} splits)" if len(score.runs) < most[dataset] else ""
            cells.append(f"**{text}**" if leaders[dataset] == method else text)
        rows.append(cells)
    header = [
        f"{dataset}, {next(s for (d, _), s in scores.items() if d == dataset).measure}"
        for dataset in datasets
    ]
    note = "Mean ± standard deviation over the splits; the best mean of each column is bold."
    return Table("All methods", ["method", *header], rows, note)


def _leader(scores: dict[tuple[str, str], Score], dataset: str, methods: Sequence[str]) -> str:
    """Return the best method among those with the most splits."""
    there = {name: scores[dataset, name] for name in methods if (dataset, name) in scores}
    most = max(len(score.runs) for score in there.values())
    full = {name: score for name, score in there.items() if len(score.runs) == most}
    return min(full, key=lambda name: -full[name].mean if full[name].classes else full[name].mean)


def by_split(scores: dict[tuple[str, str], Score], dataset: str) -> Table:
    """Return each split, our mean and the published mean."""
    here = [score for (name, _), score in scores.items() if name == dataset]
    splits = sorted({split for score in here for split in score.runs})
    rows = []
    for score in here:
        cells = [
            score.method,
            *(number(score.runs[s].test) if s in score.runs else NOTHING for s in splits),
        ]
        cells.append(number(score.mean) + (f" ± {score.std:.2g}" if np.isfinite(score.std) else ""))
        rows.append([*cells, *_beside_published(score), str(score.tried)])
    header = [
        "method",
        *(f"split {split}" for split in splits),
        "mean ± std",
        "published",
        "difference",
        "in std errors",
    ]
    note = (
        f"{here[0].measure}. With fewer than five splits, the published mean is of the same splits."
    )
    return Table(
        dataset, [*header, "configurations"], rows, f"{note} {REMARKS.get(dataset, '')}".strip()
    )


def _beside_published(score: Score) -> list[str]:
    there = PUBLISHED.get((score.dataset, score.method))
    if there is None:
        return [NOTHING] * 3
    all_splits = len(score.runs) == len(there.splits) or not there.splits
    mean = (
        there.mean if all_splits else float(np.mean([there.splits[split] for split in score.runs]))
    )
    mean_text = number(mean) + (f" ± {there.std:g}" if there.std is not None and all_splits else "")
    difference = score.mean - mean
    in_errors = (
        f"{abs(difference) / score.standard_error:.1f}" if score.standard_error > 0 else NOTHING
    )
    return [mean_text, _signed(difference, mean), in_errors]


def significance(
    scores: dict[tuple[str, str], Score], dataset: str, reference: str = REFERENCE
) -> Table | None:
    """Return paired comparisons with our default over the same splits."""
    ours = scores.get((dataset, reference))
    rows = []
    for (name, method), score in scores.items():
        if name != dataset or method == reference or ours is None:
            continue
        shared = sorted(set(score.runs) & set(ours.runs))
        if len(shared) < 2:
            continue
        theirs = np.array([score.runs[split].test for split in shared])
        own = np.array([ours.runs[split].test for split in shared])
        gain = own - theirs if ours.classes else theirs - own
        p = float(stats.ttest_rel(own, theirs).pvalue) if np.ptp(gain) > 0 else float("nan")
        wins = f"{int((gain > 0).sum())} of {len(shared)}"
        rows.append(
            [
                method,
                _signed(float(gain.mean()), ours.mean),
                wins,
                f"{p:.2g}" if np.isfinite(p) else NOTHING,
            ]
        )
    if not rows:
        return None
    note = (
        f"How much better {reference} is (positive: better), split by split; p from the paired "
        "t-test, two-sided."
    )
    return Table(
        f"{dataset}: {reference} against the others",
        ["method", "mean gain", "splits won", "p"],
        rows,
        note,
    )


def costs(scores: dict[tuple[str, str], Score]) -> Table:
    """Return seconds and memory of the chosen runs, and seconds of the full search."""
    rows = []
    for (dataset, method), score in scores.items():
        runs = list(score.runs.values())
        seconds = np.mean([result.seconds for result in runs])
        memory = [result.memory_mb for result in runs if result.memory_mb]
        devices = "/".join(sorted({result.device for result in runs}))
        peak = f"{np.mean(memory):.0f}" if memory else NOTHING
        rows.append(
            [dataset, method, f"{seconds:.2f}", f"{score.total_seconds:.2f}", peak, devices]
        )
    header = ["data", "method", "seconds", "seconds of the search", "peak MB", "device"]
    return Table(
        "Cost",
        header,
        rows,
        "Means over the splits: fit and predict of the chosen configuration, and of all.",
    )


def transfer(
    scores: dict[tuple[str, str], Score], results: Sequence[Result], source: str = "county"
) -> Table | None:
    """Return BGNN under the configuration that is best for another data set."""
    home = scores.get((source, "BGNN"))
    if home is None:
        return None
    rows = []
    for (dataset, method), own in scores.items():
        if method != "BGNN" or dataset == source:
            continue
        there = {result.run.split: result for result in transferred(results, home, dataset)}
        shared = sorted(set(there) & set(own.runs))
        if shared:
            moved, chosen = (
                np.mean([runs[split].test for split in shared]) for runs in (there, own.runs)
            )
            rows.append([dataset, number(float(chosen)), number(float(moved))])
    if not rows:
        return None
    title = f"BGNN under the hyperparameters of {source}"
    return Table(
        title, ["data", "its own", f"those of {source}"], rows, "Test scores, mean over splits."
    )


def transferred(results: Sequence[Result], home: Score, dataset: str) -> list[Result]:
    """Return BGNN's runs on a data set under the configuration chosen for each split of another."""
    wanted = {(split, run.run.configuration) for split, run in home.runs.items()}
    here = [
        r
        for r in results
        if r.status == "done" and (r.run.dataset, r.run.method) == (dataset, "BGNN")
    ]
    return [result for result in here if (result.run.split, result.run.configuration) in wanted]


def failures(results: Iterable[Result]) -> Table | None:
    """Return the runs that failed, and why."""
    rows = [[str(r.run), r.error.strip().splitlines()[-1]] for r in results if r.status == "failed"]
    return Table("Failed runs", ["run", "why"], rows) if rows else None


def made_with(results: Iterable[Result]) -> str:
    """Return a line on the versions that the runs were made with."""
    used: dict[str, set[str]] = defaultdict(set)
    for result in results:
        for package, version in result.versions.items():
            used[package].add(version)
    return ", ".join(
        f"{package} {' and '.join(sorted(numbers))}" for package, numbers in used.items()
    )
