"""Signs of target leakage: columns that explain the labels, edges within classes."""

from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.stats import spearmanr

from ebboost._common import Array, IntArray, warn_caller
from ebboost.data.labels import Labels, one_hot
from ebboost.data.neighbors import Places
from ebboost.data.table import Table
from ebboost.graph import Graph

MIN_ROWS = 30  # fewest labels, rows to predict or nodes with neighbours for a statistic
COPY = 0.99  # share of the variation of the labels that one column explains alone
SAME_CLASS = 0.995  # share of edges within a class, of MIN_EDGES or more
MIN_EDGES = 50
# Fewest labels for a warning, labels that are looked at, and columns: those that trees use most.
MIN_LABELS = 300
MAX_LABELS = 2_000
MAX_COLUMNS = 100


def explained_share(column: Array, labels: Array, categorical: bool, classes: bool) -> float:
    """Share of the variation of the labels that one column explains out of sample, 0 to 1.

    Labels are predicted by their mean (or most frequent class) among the rows of the other half
    whose value falls into the same of √n bins; numbers also by rank correlation, so that a monotone
    copy of the target counts in full.
    """
    known = ~np.isnan(column)
    column = column[known]
    labels = labels[known]
    if column.size < MIN_ROWS or np.ptp(labels) == 0:
        return 0.0
    bins = column.astype(np.int64)
    if not categorical:
        levels = np.linspace(0, 1, int(np.sqrt(column.size)) + 1)[1:-1]
        bins = np.searchsorted(np.unique(np.quantile(column, levels)), column, side="right")
    codes = labels.astype(np.int64)
    targets = np.eye(codes.max() + 1)[codes] if classes else labels[:, None]
    half = np.random.default_rng(0).permutation(column.size) % 2
    means = np.empty(targets.shape)
    for fold in (0, 1):
        train = np.flatnonzero(half != fold)
        entries = (np.ones(train.size), (bins[train], np.arange(train.size)))
        members = sparse.csr_array(entries, shape=(bins.max() + 1, train.size))
        prior = 1e-3 * targets[train].mean(axis=0)
        by_bin = (members @ targets[train] + prior) / (members.sum(axis=1)[:, None] + 1e-3)
        means[half == fold] = by_bin[bins[half == fold]]
    if classes:
        most_frequent = np.bincount(codes).max() / codes.size
        accuracy = float((means.argmax(axis=1) == codes).mean())
        return max((accuracy - most_frequent) / (1.0 - most_frequent), 0.0)
    share = 1.0 - float(((labels - means[:, 0]) ** 2).mean() / labels.var())
    if not categorical and np.ptp(column) > 0:
        share = max(share, float(spearmanr(column, labels).statistic) ** 2)
    return max(share, 0.0)


def within_classes(graph: Graph, nodes: IntArray, classes: Array) -> bool:
    """Whether edges connect labelled nodes of the same class only."""
    source, target = sparse.triu(graph.adjacency[nodes][:, nodes], format="coo").coords
    if source.size < MIN_EDGES or np.ptp(classes) == 0:
        return False
    return bool((classes[source] == classes[target]).mean() > SAME_CLASS)


def warn_of_leakage(
    labels: Labels,
    table: Table | None,
    places: Places | None,
    classes: bool,
    importances: Callable[[], Array],
) -> None:
    """Warn if columns, or the edges, nearly copy y, whatever the model made of them."""
    if table is None or labels.size < MIN_LABELS:
        return
    rows, target = labels.rows[:MAX_LABELS], labels.target[:MAX_LABELS]
    y = one_hot(target).argmax(axis=1).astype(float) if classes else target[:, 0]
    are_nodes = places is not None and places.are_rows
    if classes and places is not None and are_nodes and within_classes(places.graph, rows, y):
        warn_caller(
            "Edges connect rows of the same class only: if they were built from y, this is target "
            "leakage."
        )
    if table.is_sparse:
        return
    columns = np.arange(len(table.names))
    if columns.size > MAX_COLUMNS:
        columns = np.argsort(-importances(), kind="stable")[:MAX_COLUMNS]
    values = table.values[rows]
    copies = []
    for column in sorted(columns.tolist()):
        is_category = column in table.categorical
        if explained_share(values[:, column], y, is_category, classes) >= COPY:
            copies.append(repr(table.names[column]))
    if copies:
        others = f", and so do {', '.join(copies[1:5])}" if copies[1:] else ""
        warn_caller(f"Column {copies[0]} of X nearly copies y{others}: check for target leakage.")
