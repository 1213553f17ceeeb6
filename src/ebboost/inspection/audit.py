"""Problems in a table, its labels and its graph, for ``check_graph`` and the report."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ebboost._common import Array, BoolArray, IntArray
from ebboost.data.distances import Separation
from ebboost.data.leakage import COPY, MIN_ROWS, explained_share, within_classes
from ebboost.data.table import Table
from ebboost.formatting import count, listed, percent, shorten
from ebboost.graph import Graph

SUSPICIOUS = 0.9  # share of the labels' variation that one column explains
MOSTLY_MISSING = 0.5  # among rows to predict
RARELY_MISSING = 0.1  # among labelled rows
OFTEN_MISSING = 0.2
IDENTIFIER = 0.5  # different categories per row
REPEATED_ROWS = 0.01
SENTINELS = (-9, -99, -999, -9999, -99999)  # that mean unknown, if all others are positive
UNRELATED = 0.1  # correlation of labels between neighbours
PERMUTATIONS = 40
#: What can be wrong with a column, the gravest first, and what to do.
COLUMN_PROBLEMS = {
    "constant": ("Constant or empty: {}.", "Remove such columns."),
    "identifier": ("Different in nearly every row, like an id: {}.", "Remove such columns."),
    "copy": ("Nearly copies the target: {}.", "Check for target leakage."),
    "suspicious": (
        "Explains most of the target alone: {}.",
        "Check that the column is known before the target is.",
    ),
    "shift": (
        "Missing in most rows to predict but rarely in labelled rows: {}.",
        "The trees learn to use values that will not be there.",
    ),
    "sentinel": ("Hold a value that may mean unknown: {}.", "Leave such cells empty."),
    "missing": ("Often missing: {}.", "Trees can use such columns; check why they have gaps."),
}


@dataclass(frozen=True)
class Finding:
    """A problem and what to do about it."""

    problem: str
    advice: str

    def __str__(self) -> str:
        return f"{self.problem} {self.advice}"


def table_findings(table: Table, rows: IntArray, labels: Array, classes: bool) -> list[Finding]:
    """Return problems of the columns and rows of a dense table.

    ``labels`` are those of ``rows``: numbers or, if ``classes``, positions of classes.
    """
    if table.is_sparse:
        return []
    values = np.asarray(table.values)
    columns: dict[str, list[str]] = {}
    for position, name in enumerate(table.names):
        is_category = position in table.categorical
        problem = _column_problem(values[:, position], is_category, rows, labels, classes)
        if problem is not None and (problem[0] != "identifier" or position not in table.dates):
            columns.setdefault(problem[0], []).append(f"{shorten(name)!r}{problem[1]}")
    findings = [
        Finding(text.format(listed(columns[kind])), advice)
        for kind, (text, advice) in COLUMN_PROBLEMS.items()
        if kind in columns
    ]
    comparable = np.nan_to_num(values, nan=np.inf) + 0.0  # + 0.0: minus zero is zero
    repeated = len(values) - len({row.tobytes() for row in comparable})
    if repeated > REPEATED_ROWS * table.n_rows:
        text = f"{count(repeated, 'row')} repeat another row in all columns."
        findings.append(Finding(text, "Check that rows were not duplicated by a join."))
    return findings


def _column_problem(
    column: Array, is_category: bool, rows: IntArray, labels: Array, classes: bool
) -> tuple[str, str] | None:
    """The gravest problem of a column and a detail to print, None if there is none."""
    missing = np.isnan(column)
    known = np.sort(column[~missing])
    n_different = np.unique(known).size
    if n_different <= 1:
        return "constant", " (empty)" if missing.all() else ""
    counts_up = n_different == column.size and bool((known % 1 == 0).all())
    counts_up = counts_up and (np.diff(known) == 1).mean() > 0.9
    is_identifier = n_different > IDENTIFIER * column.size if is_category else counts_up
    if column.size > MIN_ROWS and is_identifier:
        return "identifier", ""
    low = known[0]
    if low in SENTINELS and not is_category and known[1] == low and known[known > low][0] >= 0:
        return "sentinel", f" ({low:g} in {percent(float((known == low).mean()))})"
    explained = explained_share(column[rows], labels, is_category, classes)
    if explained >= SUSPICIOUS:
        problem = "copy" if explained >= COPY else "suspicious"
        return problem, f" ({percent(explained)} explained)"
    to_predict = np.setdiff1d(np.arange(column.size), rows)
    if to_predict.size >= MIN_ROWS:
        absent, usual = missing[to_predict].mean(), missing[rows].mean()
        if absent > MOSTLY_MISSING and usual < RARELY_MISSING:
            return "shift", f" ({percent(absent)} against {percent(usual)})"
    if missing.mean() >= OFTEN_MISSING:
        return "missing", f" ({percent(missing.mean())})"
    return None


def graph_findings(
    graph: Graph,
    nodes: IntArray,
    labels: Array,
    classes: bool,
    separation: Separation | None = None,
) -> Iterator[Finding]:
    """Yield problems of a graph and of the labels on it; ``labels`` are those of ``nodes``."""
    labelled = np.zeros(graph.n_nodes, dtype=bool)
    labelled[nodes] = True
    isolated = int((~labelled[graph.isolates]).sum())
    if graph.isolates.size:
        have = "has" if graph.isolates.size == 1 else "have"
        without = f"{graph.isolates.size:,} of {graph.n_nodes:,} nodes {have} no edge"
        advice = "They are predicted from their own columns alone."
        yield Finding(f"{without}, {isolated:,} of them to predict.", advice)
    reached = np.isin(graph.component_labels, graph.component_labels[nodes])
    if unreached := int((~reached).sum()) - isolated:
        problem = f"{count(unreached, 'node')} in components without any label."
        yield Finding(problem, "The labels of neighbours cannot help there.")
    if np.ptp(labels) == 0:
        yield Finding("All labels are equal.", "There is nothing to learn: check the target.")
        return
    share, usual = _labelled_neighbors(graph, labelled)
    if share < 0.5 * usual:
        yield Finding(
            f"Nodes to predict are neighbours of each other: {percent(share)} of their neighbours "
            f"are labelled, {percent(usual)} of those of labelled nodes.",
            "Blocks of labels were held out, as far from others as these nodes."
            if separation is not None and separation.is_matched
            else "Labels that are held out at random overstate what the graph is worth there: pass "
            "n_folds='distance'.",
        )
    if classes and within_classes(graph, nodes, labels):
        problem = "Edges connect nodes of the same class only."
        yield Finding(problem, "If they were built from the labels, this is target leakage.")
    values = np.eye(int(labels.max()) + 1)[labels.astype(int)] if classes else labels[:, None]
    correlation = neighbor_correlation(graph, nodes, values)
    if correlation is None or abs(correlation) >= UNRELATED:
        return
    random = np.random.default_rng(8191)
    draws = np.array(
        [
            neighbor_correlation(graph, nodes, random.permutation(values))
            for _ in range(PERMUTATIONS)
        ],
        dtype=float,
    )
    if draws.std() < UNRELATED:
        yield Finding(
            f"Labels are hardly correlated between neighbours: {correlation:.2f}, where "
            f"{draws.mean():.2f} ± {draws.std():.2f} is expected without any relation.",
            "Check that the edges refer to the rows you mean, in the order of the table.",
        )


def _labelled_neighbors(graph: Graph, labelled: BoolArray) -> tuple[float, float]:
    """Share of labelled nodes among the neighbours of nodes to predict, and of labelled nodes.

    The first is that of the second where there is nothing to predict.
    """
    n_neighbors = np.diff(graph.adjacency.indptr)
    share = ((graph.adjacency != 0) @ labelled.astype(float)) / np.maximum(n_neighbors, 1)
    own = labelled & (n_neighbors > 0)
    others = ~labelled & (n_neighbors > 0)
    usual = float(share[own].mean()) if own.any() else 0.0
    return float(share[others].mean()) if others.any() else usual, usual


def neighbor_correlation(graph: Graph, nodes: IntArray, values: Array) -> float | None:
    """Return the correlation of values of nodes with their means over neighbours, −1 to 1.

    None where fewer than 30 of ``nodes`` have neighbours among them. ``values`` have a column for
    each class.
    """
    links = graph.adjacency[nodes][:, nodes]
    mass = np.asarray(links.sum(axis=1)).ravel()
    linked = mass > 0
    if linked.sum() < MIN_ROWS:
        return None
    centred = values - values.mean(axis=0)
    means = (links @ centred)[linked] / mass[linked, None]
    own = centred[linked]
    size = float(np.sqrt((own**2).sum() * (means**2).sum()))
    return float((own * means).sum()) / size if size > 0 else 0.0
