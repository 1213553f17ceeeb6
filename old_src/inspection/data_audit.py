"""Problems in a table, its labels and its graph, for ``check_graph`` and the report."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebboost.data.leakage import COPY, MIN_ROWS, explained_share, within_classes
from ebboost.data.neighbor_correlation import neighbor_correlation
from ebboost.data.table import Table
from ebboost.data.types import Array
from ebboost.graph import Graph
from ebboost.graph.ids import is_missing
from ebboost.inspection.formatting import count, percent, shorten

Nodes = NDArray[np.int64]
SUSPICIOUS = 0.9
MOSTLY_MISSING = 0.5  # among rows to predict
RARELY_MISSING = 0.1  # among labelled rows
OFTEN_MISSING = 0.2
IDENTIFIER = 0.5  # different categories per row
REPEATED_ROWS = 0.01
UNRELATED = 0.1  # correlation of labels between neighbours
PERMUTATIONS = 40
MOST_NAMES = 5
COLUMN_PROBLEMS = {
    "constant": ("Constant or empty: {}.", "Remove such columns."),
    "identifier": (
        "Different in nearly every row, like an identifier: {}.",
        "Remove such columns.",
    ),
    "copy": ("Nearly copies the target: {}.", "Check for target leakage."),
    "suspicious": (
        "Explains most of the target alone: {}.",
        "Check that the column is known before the target is.",
    ),
    "shift": (
        "Missing in most rows to predict but rarely in labelled rows: {}.",
        "The trees learn to use values that will not be there.",
    ),
    "missing": (
        "Often missing: {}.",
        "Trees take missing values as they are; check why they are missing.",
    ),
}


@dataclass(frozen=True)
class Finding:
    """A problem and what to do about it."""

    problem: str
    advice: str

    def __str__(self) -> str:
        return f"{self.problem} {self.advice}"


def audit_table(table: Table, nodes: Nodes, labels: Array, classes: bool) -> list[Finding]:
    """Problems of the columns and rows of a dense table.

    ``labels`` are those of the rows ``nodes``: numbers or, if ``classes``, positions of classes.
    """
    if table.is_sparse:
        return []
    values = np.asarray(table.values)
    columns: dict[str, list[str]] = {}
    for position, name in enumerate(table.names):
        categorical = position in table.categorical
        problem = _column_problem(values[:, position], categorical, nodes, labels, classes)
        if problem is not None and (problem[0] != "identifier" or position not in table.dates):
            columns.setdefault(problem[0], []).append(f"{shorten(name)!r}{problem[1]}")
    findings = [
        Finding(text.format(listed(columns[problem])), advice)
        for problem, (text, advice) in COLUMN_PROBLEMS.items()
        if problem in columns
    ]
    repeated = repeated_rows(values)
    if repeated > REPEATED_ROWS * table.n_rows:
        rows = f"{count(repeated, 'row')} repeat another row in all columns."
        findings.append(Finding(rows, "Check that rows were not duplicated by a join."))
    return findings


def leaks(table: Table, graph: Graph | None, labels: NDArray[Any], classes: bool) -> list[Finding]:
    """Signs that columns or edges were made from the labels, which have gaps where unknown."""
    nodes = np.flatnonzero([not is_missing(value) for value in labels.tolist()])
    known = labels[nodes]
    values = np.unique(known.astype(str), return_inverse=True)[1] if classes else known
    findings = audit_table(table, nodes, values.astype(np.float64), classes)
    if graph is not None and graph.n_nodes == table.n_rows:
        findings += audit_graph(graph, nodes, values.astype(np.float64), classes)
    return [one for one in findings if "target leakage" in one.advice]


def _column_problem(
    column: Array, categorical: bool, nodes: Nodes, labels: Array, classes: bool
) -> tuple[str, str] | None:
    """The gravest problem of one column and a detail to print, None if there is no problem."""
    missing = np.isnan(column)
    n_different = np.unique(column[~missing]).size
    if n_different <= 1:
        return "constant", " (empty)" if missing.all() else ""
    numbered = n_different == column.size and _counts_up(column)
    identifies = n_different > IDENTIFIER * column.size if categorical else numbered
    if column.size > MIN_ROWS and identifies:
        return "identifier", ""
    explained = explained_share(column[nodes], labels, categorical, classes)
    if explained >= SUSPICIOUS:
        problem = "copy" if explained >= COPY else "suspicious"
        return problem, f" ({percent(explained)} explained)"
    to_predict = np.setdiff1d(np.arange(column.size), nodes)
    if to_predict.size >= MIN_ROWS:
        absent = missing[to_predict].mean()
        usual = missing[nodes].mean()
        if absent > MOSTLY_MISSING and usual < RARELY_MISSING:
            return "shift", f" ({percent(absent)} against {percent(usual)})"
    if missing.mean() >= OFTEN_MISSING:
        return "missing", f" ({percent(missing.mean())})"
    return None


def repeated_rows(values: Array) -> int:
    """Number of rows that repeat an earlier row."""
    comparable = np.nan_to_num(values, nan=np.inf) + 0.0  # + 0.0: minus zero is zero
    return len(values) - len({row.tobytes() for row in comparable})


def _counts_up(column: Array) -> bool:
    """Whether values are mostly consecutive integers."""
    ordered = np.sort(column)
    return bool((ordered % 1 == 0).all() and (np.diff(ordered) == 1).mean() > 0.9)


def listed(names: list[str]) -> str:
    """The first names of a list, and how many more there are."""
    rest = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {rest:,} more" if rest > 0 else "")


def audit_graph(graph: Graph, nodes: Nodes, labels: Array, classes: bool) -> Iterator[Finding]:
    """Problems of a graph and of the labels on it; arguments as in :func:`audit_table`."""
    labelled = np.zeros(graph.n_nodes, dtype=bool)
    labelled[nodes] = True
    isolated = int((~labelled[graph.isolates]).sum())
    reached = np.isin(graph.component_labels, graph.component_labels[nodes])
    unreached = int((~reached).sum()) - isolated
    is_constant = bool(np.ptp(labels) == 0)
    correlation = label_correlation(graph, nodes, labels, classes)
    if graph.isolates.size:
        have = "has" if graph.isolates.size == 1 else "have"
        nodes_without = f"{graph.isolates.size:,} of {graph.n_nodes:,} nodes {have} no edge"
        advice = "They are predicted from their own columns alone."
        yield Finding(f"{nodes_without}, {isolated:,} of them to predict.", advice)
    if unreached:
        problem = f"{count(unreached, 'node')} in components without any label."
        yield Finding(problem, "The labels of neighbours cannot help there.")
    if is_constant:
        yield Finding("All labels are equal.", "There is nothing to learn: check the target.")
        return
    if classes and within_classes(graph, nodes, labels):
        problem = "Edges connect nodes of the same class only."
        yield Finding(problem, "If they were built from the labels, this is target leakage.")
    if correlation is None or abs(correlation) >= UNRELATED:
        return
    mean, deviation = _correlation_by_chance(graph, nodes, labels, classes)
    if deviation < UNRELATED:
        problem = f"Labels are hardly correlated between neighbours: {correlation:.2f}, where "
        problem += f"{mean:.2f} ± {deviation:.2f} is expected without any relation."
        advice = "Check that the edges refer to the rows you mean, in the order of the table."
        yield Finding(problem, advice)


def label_correlation(graph: Graph, nodes: Nodes, labels: Array, classes: bool) -> float | None:
    """Correlation of labels between neighbours, None if fewer than 30 nodes have neighbours."""
    values = np.eye(int(labels.max()) + 1)[labels.astype(int)] if classes else labels
    return correlation_if_enough(graph, nodes, values)


def _correlation_by_chance(
    graph: Graph, nodes: Nodes, labels: Array, classes: bool
) -> tuple[float, float]:
    """Mean and standard deviation of the correlation of labels that are permuted at random."""
    random = np.random.default_rng(8191)
    permuted = (random.permutation(labels) for _ in range(PERMUTATIONS))
    draws = [label_correlation(graph, nodes, values, classes) or 0.0 for values in permuted]
    return float(np.mean(draws)), float(np.std(draws))


def correlation_if_enough(graph: Graph, nodes: Nodes, values: Array) -> float | None:
    """:func:`neighbor_correlation`, None if fewer than 30 nodes have a neighbour among them."""
    links = graph.adjacency[nodes][:, nodes]
    if int((np.diff(links.indptr) > 0).sum()) < MIN_ROWS:
        return None
    return neighbor_correlation(graph, nodes, values)
